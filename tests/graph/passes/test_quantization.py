"""Models of dequantised bytes, in whole numbers: bytes of the integer operators, one step at most from the floats as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.codegen.target import Target
from tilewright.graph import Builder
from tilewright.graph.passes.byte_zeros import target_byte_zeros

RNG = np.random.default_rng(5)


class Model(Builder):
    """A graph of which values are quantised and dequantised again."""

    def known(self, value: Any, dtype: str) -> str:
        return self.param(f"p{len(self.types)}", np.asarray(value, dtype))

    def bytes_of(self, x: str, scale: float, zero: int) -> str:
        how = self.known(scale, "float32"), self.known(zero, "uint8")
        return self.node("dequantize", self.node("quantize", x, *how, dtype="uint8"), *how)

    def weights(self, *shape: int, axis: int = 0) -> tuple[str, np.ndarray]:
        """int8 weights with a scale for each channel, and the scales."""
        scales = RNG.uniform(0.01, 0.02, shape[axis]).astype("float32")
        spread = self.known(scales.reshape([-1 if at == axis else 1 for at in range(len(shape))]), "float32")
        return self.node("dequantize", self.known(RNG.integers(-127, 128, shape), "int8"), spread), scales

    def bias(self, step: np.ndarray) -> str:
        return self.node(
            "dequantize", self.known(RNG.integers(-900, 900, step.shape), "int32"), self.known(step, "float32")
        )


def network() -> tw.graph.Graph:
    """A convolution, a pool, a convolution beside which its input is added, and a product: as converters to ONNX write them."""
    b = Model("network")
    x = b.bytes_of(b.input("x", (1, 3, 9, 8)), 0.02, 113)
    w, scales = b.weights(17, 3, 3, 3)
    first = b.node("conv", x, w, b.bias(scales * np.float32(0.02)), stride=(2, 1), padding=(1, 1, 1, 1))
    x = b.bytes_of(b.node("relu", first), 0.03, 0)
    x = b.bytes_of(b.node("max_pool", x, kernel=(2, 2)), 0.03, 0)
    w, _ = b.weights(17, 17, 1, 1)
    second = b.bytes_of(b.node("conv", x, w), 0.05, 120)
    x = b.bytes_of(b.node("add", second, x), 0.06, 100)
    w, scales = b.weights(5, 17 * 28, axis=0)
    product = b.node("matmul", b.node("reshape", x, shape=(1, 17 * 28)), w, transpose_b=True)
    b.output("y", b.bytes_of(b.node("add", product, b.bias(scales * np.float32(0.06))), 0.2, 128))
    return b.graph()


def test_what_multiplies_bytes_does_so_in_whole_numbers() -> None:
    g = network()
    after = g.transform("quantized", "dead", "moves", "sinks", "common", "folded")
    operators = [node.operator for node in after.nodes]
    assert [name for name in operators if name in ("conv", "matmul", "integer_conv", "integer_matmul")] == [
        "integer_conv",
        "integer_conv",
        "integer_matmul",
    ]
    assert after.outputs == g.outputs and all(
        array.dtype != "float32" or array.size <= 17 for array in after.params.values()
    )
    pool = next(node for node in after.nodes if node.operator == "max_pool")
    assert pool.types[0].dtype == "uint8" and pool.types[0].shape[-1] == 17, (
        "channels last, so that nothing is turned between"
    )


def test_bytes_are_those_of_the_operators_or_one_step_off_the_floats() -> None:
    g = network()
    x = RNG.standard_normal((1, 3, 9, 8)).astype("float32")
    built, (floats,), (whole,) = tw.build(g)(x), g.run(x), g.transform("quantized").run(x)
    assert np.array_equal(built, whole)
    assert np.abs(whole - floats).max() / np.float32(0.2) < 1.001


def test_zeros_of_bytes_are_taken_off_sums_where_bytes_are_multiplied_at_once() -> None:
    b = Model("zeros")
    x = b.input("x", (1, 6, 5, 3), "uint8")
    for zero, other, more in ((0, 0, {}), (113, 0, {"stride": (2, 1), "padding": (1, 0, 2, 1)}), (7, 1, {})):
        w, zeros = b.known(RNG.integers(-128, 128, (9, 3, 3, 2)), "int8"), b.known([other] * 9, "int8")
        b.output(f"y{zero}", b.node("integer_conv", x, w, b.known(zero, "uint8"), zeros, **more))
    g, value = b.graph(), RNG.integers(0, 256, (1, 6, 5, 3)).astype("uint8")
    assert target_byte_zeros(Target.parse("llvm -mcpu=haswell")).apply(g) is g
    after = target_byte_zeros(Target.parse("llvm -mcpu=cascadelake")).apply(g)
    assert [node.operator for node in after.nodes] == ["integer_conv", "pad", "integer_conv", "add", "integer_conv"]
    assert [node.attributes["quads"] for node in after.nodes if node.operator == "integer_conv"] == [True, True, False]
    for ours, theirs in zip(tw.graph.Graph.of(after).run(value), g.run(value), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("operator", "how"),
    [
        ("avg_pool", {"kernel": (3, 2), "stride": (2, 1)}),
        ("avg_pool", {"kernel": (2, 2), "padding": (1, 0, 0, 1), "count_padding": True}),
        ("mean", {"axes": (2, 3), "keepdims": True}),
        ("mean", {"axes": (1,)}),
    ],
)
def test_means_of_bytes_are_sums_of_them(operator: str, how: dict[str, Any]) -> None:
    b = Model()
    x = b.bytes_of(b.input("x", (2, 3, 7, 5)), 0.02, 113)
    b.output("y", b.bytes_of(b.node("relu", b.node(operator, x, **how)), 0.011, 7))
    g = b.graph()
    operators = [node.operator for node in g.transform("quantized", "dead").nodes]
    assert operator not in operators and "requantize" in operators
    x = RNG.standard_normal((2, 3, 7, 5)).astype("float32")
    (floats,), (whole,) = g.run(x), g.transform("quantized").run(x)
    assert np.array_equal(tw.build(g)(x), whole)
    assert np.abs(whole - floats).max() / np.float32(0.011) < 1.001


def test_windows_of_several_sizes_stay_floats() -> None:
    b = Model()
    b.output(
        "y", b.node("avg_pool", b.bytes_of(b.input("x", (1, 2, 5, 5)), 0.1, 3), kernel=(2, 2), padding=(1, 1, 1, 1))
    )
    assert "avg_pool" in str(b.graph().transform("quantized"))


def test_products_of_attention_are_done_in_whole_numbers() -> None:
    b = Model()
    q, k, v = (b.bytes_of(b.input(name, (2, 3, 5, 7)), 0.02, 120) for name in "qkv")
    scores = b.bytes_of(b.node("matmul", q, k, transpose_b=True), 0.1, 128)
    weights = b.bytes_of(b.node("softmax", b.node("multiply", scores, b.known(0.4, "float32")), axis=-1), 1 / 255, 0)
    b.output("y", b.bytes_of(b.node("matmul", weights, v), 0.02, 131))
    g = b.graph()
    operators = [node.operator for node in g.transform().nodes]
    assert "matmul" not in operators and "attention" not in operators
    arrays = [RNG.standard_normal((2, 3, 5, 7)).astype("float32") for _ in range(3)]
    (floats,), (whole,) = g.run(*arrays), g.transform("quantized").run(*arrays)
    assert np.abs(tw.build(g)(*arrays) - whole).max() / np.float32(0.02) < 1.001
    assert np.abs(whole - floats).max() / np.float32(0.02) < 1.001


@pytest.mark.parametrize(
    "spoiled", ["a scale that comes as an input", "weights of floats", "another scale at each row"]
)
def test_what_is_no_product_of_bytes_by_known_scales_stays(spoiled: str) -> None:
    b = Model()
    by_row = b.known(np.full((3, 1), 0.5) if "row" in spoiled else 0.5, "float32")
    scale = b.input("s", ()) if spoiled.startswith("a scale") else by_row
    x = b.node("dequantize", b.input("x", (3, 4), "int8"), scale)
    w = b.known(RNG.standard_normal((4, 2)), "float32") if "weights" in spoiled else b.weights(4, 2, axis=1)[0]
    b.output("y", b.node("matmul", x, w))
    assert "integer_matmul" not in str(b.graph().transform("quantized"))


def test_quantising_what_was_just_dequantised_is_left_out() -> None:
    b = Model()
    b.output("y", b.node("quantize", b.bytes_of(b.input("x", (5,)), 0.1, 3), "p1", "p2", dtype="uint8"))
    assert [node.operator for node in b.graph().transform("quantized").nodes] == ["quantize"]
    b = Model()
    b.output("y", b.node("quantize", b.bytes_of(b.input("x", (5,)), 0.1, 3), "p1", b.known(4, "uint8"), dtype="uint8"))
    assert len(b.graph().transform("quantized").nodes) == 3
