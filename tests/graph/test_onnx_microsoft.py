"""Operators of com.microsoft, which onnxruntime's optimiser writes, against onnxruntime itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw

pytest.importorskip("onnx.helper", reason="the package onnx, which reads the models, is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime, which says what is right, is not installed")
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ort: Any = onnxruntime
random = np.random.default_rng(5)


def f(*shape: int) -> Any:
    return random.standard_normal(shape).astype("float32")


def q(dtype: str, *shape: int) -> Any:
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def weights(*shape: int) -> Any:
    """int8 of 7 bits: without VNNI onnxruntime adds pairs of products with bytes in int16, which saturate (vpmaddubsw)."""
    return random.integers(-64, 64, shape).astype("int8")


def bits(*shape: int) -> Any:
    return (random.random(shape) < 0.7).astype("int32")


SCALE, FINE, ZERO, LOW = np.float32(0.03), np.float32(1 / 256), np.asarray(120, "uint8"), np.asarray(0, "uint8")
SCALES = np.float32([0.02, 0.03, 0.05])


def model(
    operator: str, inputs: list[Any], outputs: int, attributes: dict[str, Any], known: tuple[int, ...], domain: str
) -> Any:
    """A model of one node, and its inputs by name. known: which inputs are weights."""
    names = ["" if value is None else f"i{at}" for at, value in enumerate(inputs)]
    given = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    held = {f"i{at}" for at in known} & given.keys()
    node = helper.make_node(operator, names, [f"o{at}" for at in range(outputs)], domain=domain, **attributes)
    entries = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
        if name not in held
    ]
    graph = helper.make_graph(
        [node],
        "net",
        entries,
        [onnx.ValueInfoProto(name=f"o{at}") for at in range(outputs)],
        [numpy_helper.from_array(given[name], name) for name in sorted(held)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {
        name: value for name, value in given.items() if name not in held
    }


def agrees(
    operator: str,
    inputs: list[Any],
    outputs: int = 1,
    known: tuple[int, ...] = (),
    build: bool = False,
    domain: str = "com.microsoft",
    near: float = 1e-4,
    **attributes: Any,
) -> None:
    """near: how far floats may be, more where they are rounded to bytes on the way."""
    made, feed = model(operator, inputs, outputs, attributes, known, domain)
    expected = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    g = tw.graph.from_onnx(made)
    taken = {name: value for name, value in feed.items() if name in g.inputs}
    results = tw.build(g)(**taken) if build else g.run(**taken)
    for ours, theirs in zip(results if isinstance(results, list) else [results], expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        whole = ours.dtype.kind in "iu"
        np.testing.assert_allclose(
            ours.astype("f8"), theirs.astype("f8"), rtol=0 if whole else 1e-3, atol=1.01 if whole else near
        )


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        (
            "FusedConv",
            [f(2, 3, 9, 9), f(4, 3, 3, 3), f(4), f(2, 4, 5, 5)],
            {
                "activation": "LeakyRelu",
                "activation_params": [0.1],
                "kernel_shape": [3, 3],
                "pads": [1] * 4,
                "strides": [2, 2],
            },
        ),
        ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 1, 1)], {"activation": "Clip", "activation_params": [-0.5, 0.7]}),
        (
            "FusedGemm",
            [f(5, 3), f(4, 5), f(3, 1)],
            {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, "activation": "Tanh"},
        ),
        ("FusedMatMul", [f(4, 2, 5), f(5, 2, 3)], {"transBatchA": 1, "transBatchB": 1, "alpha": 0.25}),
        ("FusedMatMul", [f(2, 5, 4), f(2, 3, 5)], {"transA": 1, "transB": 1}),
        ("Gelu", [f(3, 7)], {}),
        ("BiasGelu", [f(2, 3, 7), f(7)], {}),
        ("FastGelu", [f(3, 7), f(7)], {}),
        ("QuickGelu", [f(3, 7)], {}),
        ("RotaryEmbedding", [f(2, 3, 16), np.asarray([[0, 4, 2], [1, 1, 5]]), f(9, 4), f(9, 4)], {"interleaved": 1}),
        (
            "RotaryEmbedding",
            [f(2, 2, 3, 16), np.asarray([3]), f(9, 4), f(9, 4)],
            {"num_heads": 2, "rotary_embedding_dim": 8},
        ),
        ("QuantizeLinear", [f(3, 4), SCALE, ZERO], {}),
        ("DequantizeLinear", [q("uint8", 3, 4), SCALE, ZERO], {}),
    ],
)
def test_layers_with_what_follows_them(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    agrees(operator, inputs, **attributes)


def test_normalisations_of_sums() -> None:
    agrees("SkipLayerNormalization", [f(2, 3, 8), f(3, 8), f(8), f(8), f(8)], epsilon=1e-5)
    agrees("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], epsilon=1e-5)
    agrees("SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], domain="", epsilon=1e-5, axis=-1)
    words = [random.integers(0, 9, (2, 4)).astype("int32"), random.integers(0, 2, (2, 4)).astype("int32")]
    agrees(
        "EmbedLayerNormalization", [*words, f(9, 8), f(7, 8), f(2, 8), f(8), f(8), bits(2, 4)], outputs=3, epsilon=1e-5
    )


@pytest.mark.parametrize(
    ("mask", "more"),
    [
        (None, {}),
        (bits(2, 5), {"mask_filter_value": -100.0}),
        (bits(2, 5, 5), {"unidirectional": 1, "scale": 0.3}),
        (np.asarray([3, 5], "int32"), {"qkv_hidden_sizes": [8, 8, 12]}),
    ],
)
def test_attention_of_columns(mask: Any, more: dict[str, Any]) -> None:
    width = sum(more.get("qkv_hidden_sizes", [24]))
    agrees("Attention", [f(2, 5, 6), f(6, width), f(width), mask], num_heads=2, **more)
    if mask is None:
        agrees(
            "Attention",
            [f(2, 2, 6), f(6, 24), f(24), bits(2, 5), f(2, 2, 2, 3, 4)],
            outputs=2,
            num_heads=2,
            unidirectional=1,
        )
        agrees(
            "QAttention",
            [q("uint8", 2, 5, 8), weights(8, 24), f(24), SCALE, SCALE, bits(2, 5), ZERO, np.asarray(3, "int8")],
            num_heads=2,
        )


def test_attention_of_queries_keys_and_values() -> None:
    agrees("MultiHeadAttention", [f(2, 4, 8), f(2, 6, 8), f(2, 6, 8), f(24), bits(2, 6), f(1, 2, 4, 6)], num_heads=2)
    agrees("MultiHeadAttention", [f(2, 4, 8), f(2, 2, 6, 4), f(2, 2, 6, 4)], num_heads=2, scale=0.2)
    agrees(
        "MultiHeadAttention",
        [f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), None, None, None, f(2, 2, 3, 4), f(2, 2, 3, 4)],
        outputs=3,
        num_heads=2,
        unidirectional=1,
    )
    made, _ = model("MultiHeadAttention", [f(2, 4, 8)] * 3, 4, {"num_heads": 2}, (), "com.microsoft")
    with pytest.raises(tw.GraphError, match=r"(?s)TW0912: .*scores are an output"):
        tw.graph.from_onnx(made)


@pytest.mark.parametrize(
    ("more", "build"),
    [
        ({}, True),
        ({"do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 3}, False),
        ({"softcap": 5.0}, False),
        ({"smooth_softmax": 1, "scale": 0.4}, False),
    ],
)
def test_attention_whose_heads_share_keys_with_a_cache(more: dict[str, Any], build: bool) -> None:
    angles = [f(16, 8), f(16, 8)] if "do_rotary" in more else [None, None]
    last, total = np.asarray([6], "int32"), np.asarray(7, "int32")
    agrees(
        "GroupQueryAttention",
        [f(1, 2, 64), f(1, 2, 32), f(1, 2, 32), f(1, 2, 5, 16), f(1, 2, 5, 16), last, total, *angles],
        outputs=3,
        num_heads=4,
        kv_num_heads=2,
        build=build,
        **more,
    )
    agrees(
        "GroupQueryAttention",
        [f(2, 7, 128), None, None, None, None, np.asarray([6, 6], "int32"), total, *angles],
        outputs=3,
        num_heads=4,
        kv_num_heads=2,
        **more,
    )


def test_sequences_with_pasts_of_lengths_of_their_own_write_where_these_end() -> None:
    last, total = np.asarray([5, 3], "int32"), np.asarray(6, "int32")
    given = [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 5, 16), f(2, 2, 5, 16), last, total]
    made, feed = model("GroupQueryAttention", given, 3, {"num_heads": 4, "kv_num_heads": 2}, (), "com.microsoft")
    expected = ort.InferenceSession(made.SerializeToString()).run(None, feed)
    g = tw.graph.from_onnx(made)
    results = tw.build(g)(**{name: value for name, value in feed.items() if name in g.inputs})
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(results[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1, :, :4], theirs[1, :, :4])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("QLinearAdd", [q("uint8", 2, 3), SCALE, ZERO, q("uint8", 3), SCALE, ZERO, SCALE, ZERO], {}),
        ("QLinearMul", [q("uint8", 2, 3), SCALE, ZERO, q("uint8", 3), SCALE, ZERO, SCALE, ZERO], {}),
        ("QLinearSigmoid", [q("uint8", 2, 5), SCALE, ZERO, FINE, LOW], {}),
        ("QLinearLeakyRelu", [q("uint8", 2, 5), SCALE, ZERO, SCALE, ZERO], {"alpha": 0.1}),
        ("QLinearSoftmax", [q("uint8", 2, 5), SCALE, ZERO, FINE, LOW], {"axis": -1, "opset": 13}),
        (
            "QLinearWhere",
            [bits(3, 4) > 0, q("uint8", 3, 4), SCALE, ZERO, q("uint8", 3, 4), FINE, ZERO, SCALE, ZERO],
            {},
        ),
        ("QLinearConcat", [SCALE, ZERO, q("uint8", 2, 3), FINE, LOW, q("uint8", 2, 4), SCALE, ZERO], {"axis": 1}),
        ("QLinearGlobalAveragePool", [q("uint8", 2, 4, 4, 3), SCALE, ZERO, SCALE, ZERO], {"channels_last": 1}),
        (
            "QLinearAveragePool",
            [q("uint8", 2, 3, 6, 6), SCALE, ZERO, SCALE, ZERO],
            {"kernel_shape": [3, 3], "pads": [1] * 4},
        ),
        (
            "QGemm",
            [
                q("uint8", 2, 5),
                SCALE,
                ZERO,
                weights(3, 5),
                SCALE,
                np.asarray(3, "int8"),
                q("int16", 3).astype("int32"),
            ],
            {"transB": 1},
        ),
        (
            "QGemm",
            [q("uint8", 2, 5), SCALE, ZERO, weights(5, 3), SCALE, np.asarray(3, "int8"), None, np.float32(0.5), ZERO],
            {},
        ),
        ("MatMulIntegerToFloat", [q("uint8", 2, 4, 5), weights(5, 3), SCALE, SCALES, ZERO, q("int8", 3), f(3)], {}),
        ("DynamicQuantizeMatMul", [f(2, 4, 5), weights(5, 3), SCALES, q("int8", 3), f(3)], {}),
        (
            "MatMulNBits",
            [f(2, 3, 40), q("uint8", 9, 3, 8), np.abs(f(9, 3)), q("uint8", 9, 2)],
            {"N": 9, "K": 40, "block_size": 16},
        ),
        (
            "MatMulNBits",
            [f(3, 32), q("uint8", 9, 1, 32), np.abs(f(9, 1)), None, None, f(9)],
            {"N": 9, "K": 32, "block_size": 32, "bits": 8},
        ),
        (
            "GatherBlockQuantized",
            [q("uint8", 7, 16), np.asarray([[0, 6], [3, 3]]), np.abs(f(7, 2)), q("uint8", 7, 1)],
            {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
        ),
    ],
)
def test_products_and_functions_of_bytes(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    known = {"QLinearWhere": (), "GatherBlockQuantized": (0, 2, 3)}.get(operator, tuple(range(1, len(inputs))))
    agrees(operator, inputs, known=known, **attributes)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("each", [False, True], ids=["a scale", "scales"])
def test_lstm_whose_weights_are_bytes(direction: str, each: bool) -> None:
    """Peepholes, first states and one step alone take turns with the kinds of scales."""
    ways, hidden, width, steps = 1 + (direction == "bidirectional"), 4, 3, 1 if each and direction == "reverse" else 5
    scales = np.abs(f(ways, 4 * hidden) if each else f(ways)) / 64
    zero = np.zeros((ways, 4 * hidden) if each else (ways,), "int8")
    first = [f(ways, 2, hidden), f(ways, 2, hidden), f(ways, 3 * hidden)] if each else [None] * 3
    agrees(
        "DynamicQuantizeLSTM",
        [
            f(steps, 2, width),
            weights(ways, width, 4 * hidden),
            weights(ways, hidden, 4 * hidden),
            f(ways, 8 * hidden),
            None,
            *first,
            *[scales, zero] * 2,
        ],
        outputs=3,
        known=(1, 2, 3, 7, 8, 9, 10, 11),
        build=direction == "forward",
        near=1e-2,
        hidden_size=hidden,
        direction=direction,
    )


def test_lengths_of_an_lstm_whose_weights_are_bytes_are_refused() -> None:
    inputs = [f(5, 2, 3), weights(1, 3, 16), weights(1, 4, 16), None, np.asarray([5, 3], "int32"), *[None] * 3]
    made, _ = model(
        "DynamicQuantizeLSTM", [*inputs, *[np.float32([0.1]), None] * 2], 1, {"hidden_size": 4}, (), "com.microsoft"
    )
    with pytest.raises(tw.GraphError, match="its sequences have lengths"):
        tw.graph.from_onnx(made)
