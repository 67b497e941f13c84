"""Results that are put over what they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.target import Target
from tilewright.driver.compile import reuse_input_memory
from tilewright.driver.lower import lower_program
from tilewright.graph import Builder
from tilewright.graph.plan import Plan
from tilewright.ir.stmt import Allocate
from tilewright.ir.visit import walk

RANDOM = np.random.default_rng(3)


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def residual(channels: int, size: int, blocks: int = 2) -> tw.graph.Graph:
    """Blocks of convolutions, what goes in added to what comes out; what goes into the first of them is read once more."""
    b = Builder("residual")
    given = x = b.node("relu", b.input("x", (1, channels, size, size)))
    for at in range(blocks):
        y = b.node("relu", b.node("conv", x, b.param(f"u{at}", values(channels, channels, 3, 3)), padding=(1, 1, 1, 1)))
        y = b.node("conv", y, b.param(f"w{at}", values(channels, channels, 1, 1)))
        x = b.node("relu", b.node("add", x, y))
    b.output("y", b.node("mean", b.node("add", x, given), axes=(2, 3), keepdims=False))
    return b.graph()


def overlaid(g: tw.graph.Graph) -> dict[str, str]:
    return {step.outputs[0]: step.over for step in Plan.of(g).steps if step.over}


@pytest.mark.parametrize(("channels", "size"), [(5, 7), (16, 1), (33, 17)])
def test_a_sum_is_put_over_the_term_that_nobody_needs_any_more(channels: int, size: int) -> None:
    g = residual(channels, size)
    x = values(1, channels, size, size)
    m = tw.build(g)
    np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-4)
    assert m.verify(x), m.verify(x)
    over = overlaid(g)
    first = next(step for step in Plan.of(g).steps if "relu" in step.operators).outputs[0]
    assert over and first not in over.values(), f"what is read at the end stays: {over}"
    assert len(m.profile(x).rows) == sum(m.kernels.values())


def test_what_is_read_elsewhere_or_has_another_shape_is_nothing_to_put_a_result_over() -> None:
    def over(make: Any) -> dict[str, str]:
        b = Builder()
        x, w = b.node("exp", b.input("x", (6, 6))), b.param("w", values(6, 6))
        b.output("y", b.node("matmul", make(b, x, w), w))
        return overlaid(b.graph())

    assert over(lambda b, x, w: b.node("add", b.node("matmul", b.node("matmul", w, w), w), b.node("softmax", x))) != {}
    assert over(lambda b, x, w: b.node("add", b.node("matmul", x, w), x)) == {}, (
        "all of x makes an element of the product"
    )
    assert over(lambda b, x, w: b.node("add", b.node("matmul", w, w), b.node("transpose", x, axes=(1, 0)))) == {}


def test_inputs_and_outputs_stay_what_they_are() -> None:
    b = Builder()
    x, w = b.input("x", (4, 9)), b.param("w", values(9, 9))
    h = b.node("softmax", x)
    b.output("h", h)
    y = b.node("add", b.node("matmul", x, w), h)
    b.output("y", b.node("softmax", b.node("add", b.node("matmul", y, w), x)))
    g = b.graph()
    x = values(4, 9)
    kept = x.copy()
    for ours, theirs in zip(tw.build(g)(x), g.run(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(x, kept)


def test_a_function_that_reads_elsewhere_what_its_result_is_put_over_makes_a_copy_first() -> None:
    x = te.placeholder((5, 7), name="x")
    for shift, copies in ((0, 0), (1, 1)):
        y = te.compute((5, 7), lambda i, j, shift=shift: x[i, (j + shift) % 7] * 2.0 + x[i, j], name="y")
        function = reuse_input_memory(lower_program([x, y], None, "f", Target(), False))
        assert sum(isinstance(node, Allocate) for node in walk(function.body)) == copies
        a = values(5, 7)
        wanted = np.roll(a, -shift, 1) * np.float32(2) + a
        tw.build(function)(a)
        np.testing.assert_allclose(a, wanted, rtol=1e-6)
