"""A case, or more, for every row of the table of operators: what it takes, at small and odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilewright import topi
from tilewright.graph import OPERATORS

__all__ = ["CASES", "drawn_array"]


def floats(*shape: int) -> tuple[Any, ...]:
    return "floats", shape


def positive(*shape: int) -> tuple[Any, ...]:
    return "positive", shape


def integers(*shape: int, below: int = 3, dtype: str = "int64") -> tuple[Any, ...]:
    return "integers", shape, below, dtype


def bools(*shape: int) -> tuple[Any, ...]:
    return "bools", shape


def drawn_array(random: np.random.Generator, how: Any) -> Any:
    if how is None or isinstance(how, np.ndarray):
        return how
    if hasattr(how, "array"):
        return how.array(random)
    kind, shape, *rest = how
    if kind == "floats":
        return random.standard_normal(shape).astype("float32")
    if kind == "positive":
        return random.uniform(0.1, 0.9, shape).astype("float32")
    if kind == "bools":
        return random.random(shape) < 0.5
    return random.integers(0 if rest[1].startswith("u") else -rest[0], rest[0], shape).astype(rest[1])


REGIONS = np.asarray([[1, 2, 9, 12], [-3, 4.5, 2, 30], [5, 5, 4, 4]], "float32")

CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, list(one.inputs), dict(one.attributes)) for name, row in OPERATORS.items() for one in row.samples),
    ("reshape", [floats(2, 3, 5)], {"shape": (5, 6)}),
    ("reshape", [floats(1)], {"shape": ()}),
    ("transpose", [floats(2, 3, 5)], {"axes": (2, 0, 1)}),
    ("broadcast_to", [floats(3, 1)], {"shape": (2, 3, 5)}),
    ("tile", [floats(2, 3)], {"repeats": (2, 1)}),
    ("concat", [floats(2, 3), floats(2, 1), floats(2, 4)], {"axis": 1}),
    ("stack", [floats(2, 3), floats(2, 3)], {"axis": -1}),
    ("flip", [floats(3, 1, 5)], {"axis": -1}),
    ("split", [floats(2, 7)], {"sizes": (3, 4), "axis": 1}),
    ("split", [floats(2, 7)], {"sizes": (7, 0), "axis": 1}),
    ("slice", [floats(9, 7)], {"begin": (1, -1), "end": (8, -100), "step": (3, -2), "axes": (0, 1)}),
    ("pad", [floats(3, 5)], {"before": (1, 0), "after": (0, 2), "value": 1.5}),
    *(
        ("pad_with", [floats(4, 5)], {"before": (3, 2), "after": (0, 4), "mode": mode})
        for mode in ("edge", "reflect", "wrap")
    ),
    ("pad_with", [floats()], {"before": (), "after": (), "mode": "edge"}),
    ("reverse_sequence", [floats(4, 3, 2), np.asarray([1, 4, 3])], {"time_axis": 0, "batch_axis": 1}),
    ("trilu", [floats(2, 5, 7)], {"k": 1, "upper": True}),
    ("trilu", [floats(5, 3)], {"k": -1, "upper": False}),
    ("eye_like", [floats(3, 5)], {"k": 1, "dtype": "float32"}),
    ("depth_to_space", [floats(1, 8, 2, 3)], {"block": 2, "mode": "DCR"}),
    ("depth_to_space", [floats(1, 8, 2, 3)], {"block": 2, "mode": "CRD"}),
    ("space_to_depth", [floats(1, 2, 4, 6)], {"block": 2}),
    ("matmul", [floats(3, 5), floats(5, 7)], {}),
    ("grouped_matmul", [floats(5, 3), floats(2, 3, 7), np.asarray([1, 0, 0, 1, 1])], {}),
    ("matmul", [floats(5), floats(2, 5, 7)], {}),
    ("matmul", [floats(2, 3, 5), floats(5)], {}),
    ("matmul", [floats(5), floats(5, 5)], {"transpose_b": True}),
    ("matmul", [floats(2, 5, 5), floats(5)], {"transpose_a": True}),
    ("matmul", [floats(5), floats(5)], {}),
    ("matmul", [floats(2, 3, 5), floats(5, 7)], {}),
    ("matmul", [floats(2, 1, 3, 5), floats(4, 5, 7)], {}),
    ("matmul", [floats(2, 4, 3, 5), floats(2, 4, 7, 5)], {"transpose_b": True}),
    ("matmul", [floats(5, 3), floats(5, 7)], {"transpose_a": True}),
    ("attention", [floats(2, 5, 4), floats(2, 7, 4), floats(2, 7, 3)], {"scale": 0.25}),
    ("attention", [floats(1, 2, 7, 4), floats(1, 2, 7, 4), floats(1, 2, 7, 4)], {"causal": True}),
    (
        "attention",
        [floats(2, 6, 3, 4), floats(2, 2, 7, 4), floats(2, 2, 7, 3), floats(6, 1, 7)],
        {"causal": True, "offset": (4,)},
    ),
    ("attention", [floats(4, 5, 4), floats(4, 7, 4), floats(4, 7, 3), bools(5, 7)], {"unseen": "nan", "fill": -4.0}),
    ("fused", [floats(2, 3), floats(3, 5), floats(5)], {"body": "relu(add(matmul(x0, x1), x2))"}),
    ("einsum", [floats(2, 3, 5), floats(5, 7)], {"equation": "bij,jk->bki"}),
    ("batch_norm", [floats(2, 3, 4, 5), floats(3), floats(3), floats(3), positive(3)], {"epsilon": 1e-3}),
    ("instance_norm", [floats(2, 3, 4, 5), floats(3), floats(3)], {}),
    ("layer_norm", [floats(2, 3, 5), floats(5), floats(5)], {"axis": -1}),
    ("layer_norm", [floats(2, 3, 5), floats(3, 5)], {"axis": 1}),
    ("layer_norm", [floats(2, 3, 5), floats(1), floats(1)], {"axis": 1}),
    ("rms_norm", [floats(2, 3, 5), floats(5)], {"axis": -1}),
    ("group_norm", [floats(2, 6, 3, 5), floats(6), floats(6)], {"groups": 3}),
    ("lrn", [floats(2, 7, 3, 3)], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.5}),
    ("softmax", [floats(3, 7)], {"axis": -1}),
    ("log_softmax", [floats(3, 7, 2)], {"axis": 1}),
    ("conv_in_blocks", [floats(1, 2, 5, 7, 4), floats(3, 2, 3, 1, 4, 8)], {"stride": (2, 1), "padding": (1, 0, 0, 2)}),
    ("conv_in_blocks", [floats(2, 3, 6, 5, 1), floats(2, 3, 2, 3, 1, 16)], {"dilation": (1, 2)}),
    ("conv_in_blocks", [floats(1, 2, 6, 5, 16), floats(2, 3, 3, 2, 8, 16)], {"padding": (1, 0, 1, 1)}),
    ("depthwise_in_blocks", [floats(2, 2, 9, 7, 16), floats(2, 3, 5, 16)], {"stride": (2, 1), "padding": (1, 2, 0, 2)}),
    ("depthwise_in_blocks", [floats(1, 3, 7, 6, 4), floats(3, 2, 2, 4)], {"dilation": (2, 1)}),
    ("winograd", [floats(2, 3, 7, 5), floats(4, 4, 2, 3, 16)], {"channels": 21, "padding": (1, 0, 1, 2)}),
    ("winograd", [floats(1, 4, 6, 6), floats(6, 6, 1, 4, 16)], {"channels": 16}),
    ("winograd_in_blocks", [floats(2, 2, 7, 5, 4), floats(4, 4, 3, 8, 16)], {"padding": (1, 0, 1, 2)}),
    ("max_pool", [floats(2, 3, 6, 5, 4)], {"kernel": (3, 2, 1), "stride": (2, 1, 1), "padding": (1, 0, 0, 0, 1, 0)}),
    ("conv", [floats(1, 2, 9), floats(3, 2, 3), floats(3)], {"stride": (2,), "padding": (1, 0), "dilation": (2,)}),
    ("conv", [floats(2, 3, 7, 9), floats(5, 3, 3, 3), floats(5)], {"padding": (1, 0, 1, 2)}),
    ("conv", [floats(1, 4, 7, 7), floats(6, 2, 3, 1)], {"groups": 2, "stride": (2, 1)}),
    ("conv", [floats(1, 4, 7, 7), floats(8, 1, 3, 3), floats(8)], {"groups": 4, "padding": (1, 1, 1, 1)}),
    ("conv", [floats(1, 2, 4, 5, 6), floats(3, 2, 2, 3, 1), floats(3)], {}),
    (
        "conv_transpose",
        [floats(1, 2, 5), floats(2, 3, 3), floats(3)],
        {"stride": (2,), "padding": (1, 0), "output_padding": (1,)},
    ),
    ("conv_transpose", [floats(1, 4, 3, 4), floats(4, 2, 3, 2)], {"groups": 2, "dilation": (2, 1), "stride": (1, 3)}),
    ("conv_transpose", [floats(1, 2, 2, 3, 2), floats(2, 1, 2, 2, 2)], {"stride": (2, 1, 2)}),
    *(
        (name, [floats(2, 3, 8)], {"kernel": (3,), "stride": (2,), "padding": (1, 1), "ceil_mode": True})
        for name in ("max_pool", "avg_pool", "lp_pool")
    ),
    *(
        (name, [floats(1, 2, 7, 8)], {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0, 1, 1)})
        for name in ("max_pool", "avg_pool", "lp_pool")
    ),
    (
        "avg_pool",
        [floats(1, 2, 7, 8)],
        {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1), "count_padding": True, "ceil_mode": True},
    ),
    ("max_pool", [floats(1, 2, 5, 6, 7)], {"kernel": (2, 3, 2), "dilation": (2, 1, 3)}),
    ("take", [floats(5, 3), integers(2, 4)], {"axis": 0}),
    ("take", [floats(5, 3), np.asarray(-1)], {"axis": 1}),
    ("gather", [floats(4, 3), integers(2, 3)], {"axis": 0}),
    ("gather_nd", [floats(4, 3, 5), integers(7, 2)], {}),
    ("gather_nd", [floats(2, 3, 4), integers(2, 5, 1)], {"batch_dims": 1}),
    ("scatter_elements", [floats(4, 3), integers(2, 3), floats(2, 3)], {"axis": 0}),
    ("scatter_elements", [floats(4, 3), integers(4, 2), floats(4, 2)], {"axis": 1, "reduction": "add"}),
    ("put", [floats(2, 5, 3), integers(4), floats(2, 4, 3)], {"axis": 1}),
    ("put", [floats(5), integers(0), floats(0)], {"axis": 0}),
    ("scatter_nd", [floats(4, 3), integers(5, 1), floats(5, 3)], {"reduction": "max"}),
    ("scatter_nd", [floats(4, 3), integers(5, 2), floats(5)], {"reduction": "add"}),
    ("one_hot", [integers(2, 3), np.asarray([0.5, 2], "float32")], {"depth": 3, "axis": 1}),
    ("topk", [floats(3, 7)], {"k": 3, "axis": 1}),
    ("shape", [floats(3, 0, 2)], {}),
    ("arange", [], {"shape": (7,), "start": (-3,)}),
    ("arange", [], {"shape": (1,)}),
    ("attention", [floats(2, 3, 5, 8), floats(2, 3, 7, 8), floats(2, 3, 7, 4)], {}),
    ("attention", [floats(3, 7, 8), floats(3, 7, 8), floats(3, 7, 8)], {"causal": True, "scale": 0.25}),
    *(
        (
            "resize",
            [floats(1, 2, 5, 6)],
            {
                "sizes": (1, 2, 9, 4),
                "scales": (1.0, 1.0, 1.8, 4 / 6),
                "mode": mode,
                "coordinates": where,
                "antialias": mode == "linear",
            },
        )
        for mode in ("nearest", "linear", "cubic")
        for where in ("half_pixel", "align_corners", "asymmetric")
    ),
    ("resize", [integers(4, 5, below=99, dtype="uint8")], {"sizes": (3, 5), "scales": (0.75, 1.0), "mode": "linear"}),
    (
        "resize",
        [floats(4, 5)],
        {
            "sizes": (3, 5),
            "scales": (0.75, 1.0),
            "mode": "linear",
            "coordinates": "tf_crop_and_resize",
            "region": (0.25, 0.5, 1.5, 1.0),
            "outside": 7.0,
        },
    ),
    ("topk", [floats(5, 3)], {"k": 2, "axis": 0, "largest": False}),
    ("quantize", [floats(3, 5), np.asarray(0.02, "float32"), np.asarray(7, "uint8")], {"dtype": "uint8"}),
    ("quantize", [floats(3, 5), positive(3, 1)], {"dtype": "int8"}),
    (
        "requantize",
        [integers(3, 5, below=9999, dtype="int32"), positive(5), np.asarray(7, "uint8")],
        {"dtype": "uint8"},
    ),
    ("dequantize", [integers(3, 5, below=127, dtype="int8"), positive(5), integers(5, below=9, dtype="int8")], {}),
    (
        "integer_matmul",
        [
            integers(2, 3, 7, below=255, dtype="uint8"),
            integers(7, 17, below=128, dtype="int8"),
            np.asarray(100, "uint8"),
        ],
        {},
    ),
    (
        "integer_matmul",
        [
            integers(5, 8, below=127, dtype="int8"),
            integers(8, 3, below=255, dtype="uint8"),
            np.asarray(0, "int8"),
            np.asarray([3, 128, 255], "uint8"),
        ],
        {},
    ),
    (
        "integer_matmul",
        [
            integers(2, 3, 5, 7, below=255, dtype="uint8"),
            integers(2, 3, 7, 17, below=255, dtype="uint8"),
            np.asarray(9, "uint8"),
            np.asarray(200, "uint8"),
        ],
        {},
    ),
    (
        "integer_conv",
        [
            integers(1, 6, 7, 3, below=255, dtype="uint8"),
            integers(17, 3, 3, 2, below=128, dtype="int8"),
            np.asarray(100, "uint8"),
        ],
        {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
    ),
    (
        "integer_conv",
        [integers(2, 9, 4, below=127, dtype="int8"), integers(6, 2, 3, below=128, dtype="int8")],
        {"padding": (1, 1), "groups": 2},
    ),
    (
        "integer_conv",
        [
            integers(1, 5, 6, 4, below=255, dtype="uint8"),
            integers(4, 1, 3, 3, below=255, dtype="uint8"),
            np.asarray(100, "uint8"),
            np.asarray([1, 2, 128, 255], "uint8"),
        ],
        {"padding": (1, 1, 1, 1), "groups": 4},
    ),
    (
        "integer_conv",
        [
            integers(1, 4, 5, 6, 2, below=255, dtype="uint8"),
            integers(3, 2, 2, 2, 2, below=128, dtype="int8"),
            np.asarray(3, "uint8"),
        ],
        {},
    ),
    *(
        (
            "weight_only_matmul",
            [floats(2, 3, 37), *topi.nn.quantize_groups(np.linspace(-1, 1, 19 * 37).reshape(19, 37), bits)],
            {"outs": 19, "bits": bits},
        )
        for bits in (4, 8)
    ),
    *(
        (
            "grid_sample",
            [floats(2, 3, 5, 7), floats(2, 4, 3, 2)],
            {"mode": mode, "padding": padding, "align_corners": mode != "linear"},
        )
        for mode, padding in (("nearest", "zeros"), ("linear", "reflection"), ("cubic", "border"))
    ),
    ("grid_sample", [floats(1, 2, 3, 1, 5), floats(1, 2, 3, 1, 3)], {"align_corners": False}),
    *(
        (
            "roi_align",
            [floats(2, 3, 9, 7), REGIONS, np.asarray([0, 1, 1])],
            {"size": (3, 2), "scale": 0.6, "mode": mode, "samples": samples, "aligned": aligned},
        )
        for mode, samples, aligned in (("avg", 0, False), ("max", 2, True), ("max_terms", 0, True))
    ),
    (
        "roi_pool",
        [floats(2, 3, 9, 7), np.concatenate([[[0], [1], [1]], REGIONS], 1).astype("float32")],
        {"size": (3, 2), "scale": 0.6},
    ),
    (
        "deform_conv",
        [floats(1, 4, 5, 7), floats(1, 24, 3, 5), floats(6, 2, 3, 2), positive(1, 12, 3, 5)],
        {"groups": 2, "offset_groups": 2, "stride": (2, 1), "padding": (1, 0, 1, 1), "dilation": (1, 3)},
    ),
    ("im2col", [floats(2, 3, 7, 9)], {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0, 0, 2), "dilation": (1, 2)}),
    (
        "col2im",
        [floats(2, 18, 27)],
        {"image": (7, 9), "kernel": (3, 2), "stride": (2, 1), "padding": (1, 0, 0, 2), "dilation": (1, 2)},
    ),
    ("im2col", [floats(1, 2, 9)], {"kernel": (3,)}),
    ("col2im", [floats(1, 8, 6)], {"image": (3, 4), "kernel": (2, 2)}),
    ("max_pool_with_places", [floats(1, 2, 7, 8)], {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0, 1, 1)}),
    ("max_pool_with_places", [integers(1, 2, 5, 3, 4)], {"kernel": (2, 1, 3), "dilation": (1, 1, 1)}),
    ("dft", [floats(3, 15, 2)], {"axis": 1}),
    ("dft", [floats(9, 2, 1)], {"axis": 0, "length": 12, "onesided": True}),
    ("dft", [floats(1, 72, 2)], {"inverse": True}),
    ("dft", [floats(2, 5, 2)], {"inverse": True, "onesided": True}),
    ("dft", [floats(2, 5, 1)], {"inverse": True, "onesided": True, "length": 7}),
    ("det", [floats(3, 5, 5)], {}),
    ("det", [floats(1, 1)], {}),
    ("unique", [integers(17)], {}),
    ("unique", [integers(17, dtype="uint8")], {"ordered": False}),
    ("unique", [floats(1)], {}),
    ("searchsorted", [np.arange(0, 9, 2, dtype="float32"), integers(3, 5, below=10, dtype="float32")], {}),
    ("searchsorted", [np.sort(np.arange(14) % 5).reshape(2, 7), integers(2, 4, below=5)], {"right": True}),
    ("vjp", [floats(2, 5), floats(2, 5)], {"body": "gelu(x0)", "wrt": 0}),
    ("vjp", [floats(1, 4, 3, 3), floats(1, 4, 3, 3)], {"body": "lrn(x0, size=3)", "wrt": 0}),
]
