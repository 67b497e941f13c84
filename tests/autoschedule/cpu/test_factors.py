"""Sums of products whose factors are more than elements: scheduled as products of matrices, with the program's rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.autoschedule import schedule, scheduler
from tilewright.autoschedule.cpu.factors import find_sides
from tilewright.runtime.array import numpy_dtype

Case = tuple[Sequence[tuple[int, ...]], Callable[..., te.Tensor], bool]


def weighted(a: te.Tensor, d: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, int(str(d.shape[0]))), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * d[k] * b[k, j], k), name="C")


def exponentials(a: te.Tensor, m: te.Tensor, b: te.Tensor) -> te.Tensor:
    """Of a batch, rows turned, columns first in the product, and what follows the sum."""
    k = te.reduce_axis((0, int(str(a.shape[1]))), "k")
    c = te.compute(
        (a.shape[0], a.shape[2], b.shape[1]),
        lambda n, i, j: te.sum((b[k, j] - 1.0) * te.exp(a[n, k, i] - m[n, i]), k),
        name="C",
    )
    return te.compute(c.shape, lambda n, i, j: te.max(c[n, i, j], 0.0), name="relu")


def dequantised(x: te.Tensor, w: te.Tensor, scale: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, int(str(x.shape[1]))), "k")
    return te.compute(
        (x.shape[0], w.shape[0]), lambda i, o: te.sum(x[i, k] * ((w[o, k] - 3.0) * scale[o]), k), name="C"
    )


def of_all_axes(x: te.Tensor, w: te.Tensor, z: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, int(str(x.shape[1]))), "k")
    return te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j] * z[k, j], k), name="C")


CASES: dict[str, Case] = {
    "weighted": ([(131, 257), (257,), (257, 143)], weighted, True),
    "one row": ([(1, 33), (33,), (33, 17)], weighted, False),
    "exponentials": ([(3, 65, 67), (3, 67), (65, 129)], exponentials, True),
    "dequantised": ([(127, 129), (131, 129), (131,)], dequantised, True),
    "of all axes": ([(31, 33), (33, 65), (33, 65)], of_all_axes, True),
}


def run(name: str, target: str, by_rule: bool, exact: bool = False) -> np.ndarray:
    shapes, declare, _ = CASES[name]
    rng = np.random.default_rng(7)
    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    c = declare(*inputs)
    s = schedule([c], target, exact=exact) if by_rule else te.create_schedule(c.op)
    out = np.full(tuple(int(str(extent)) for extent in c.shape), np.nan, "float32")
    tw.build(s, [*inputs, c], target=target)(*(rng.standard_normal(shape).astype("float32") for shape in shapes), out)
    return out


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
@pytest.mark.parametrize("name", drawn.part(CASES, 3))
def test_every_bit_is_that_of_the_program(name: str, target: str) -> None:
    expected = run(name, target, False)
    if name not in (
        "one row",
        "of all axes",
    ):  # whose lanes may lie along the sum, whose other factors may be multiplied first
        np.testing.assert_array_equal(run(name, target, True), expected, err_msg="rounded and added up as declared")
    np.testing.assert_array_equal(run(name, target, True, exact=True), expected)


@pytest.mark.parametrize("name", CASES)
def test_factors_are_computed_once_where_results_use_them_again(name: str) -> None:
    shapes, declare, is_product = CASES[name]
    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    c = declare(*inputs)
    plan = scheduler.schedule([c], "llvm -mcpu=haswell").plan
    assert any(row.rule == "contraction" for row in plan) == is_product, str(plan)


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
@pytest.mark.parametrize(
    "dtypes", drawn.part([("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float16")], 2)
)
def test_narrow_floats_are_converted_once_and_every_bit_is_that_of_the_program(
    dtypes: tuple[str, str], target: str
) -> None:
    """Of a batch, the second factor turned, and a bias after the sum."""
    batch, m, n, depth = 2, 33, 65, 131
    A, W, bias = (
        te.placeholder((batch, m, depth), dtypes[0], "A"),
        te.placeholder((n, depth), dtypes[1], "W"),
        te.placeholder((n,)),
    )
    k = te.reduce_axis((0, depth), "k")
    C = te.compute(
        (batch, m, n), lambda b, i, j: te.sum(A[b, i, k].astype("float32") * W[j, k].astype("float32"), k), name="C"
    )
    D = te.compute((batch, m, n), lambda b, i, j: C[b, i, j] + bias[j], name="D")
    rng = np.random.default_rng(3)
    values = [
        rng.standard_normal(tuple(map(int, tensor.shape))).astype(numpy_dtype(tensor.dtype)) for tensor in (A, W, bias)
    ]
    chosen, plain = schedule([D], target), te.create_schedule(D.op)
    assert "matrix" in str(chosen.plan), str(chosen.plan)
    results = []
    for s in (chosen, plain):
        out = np.full((batch, m, n), np.nan, "float32")
        tw.build(s, [A, W, bias, D], target=target)(*values, out)
        results.append(out)
    np.testing.assert_array_equal(*results)
    few = te.compute(
        (batch, 3, n), lambda b, i, j: te.sum(A[b, i, k].astype("float32") * W[j, k].astype("float32"), k), name="few"
    )
    assert "matrix" not in str(schedule([few], target).plan), "three rows convert less where they multiply"


def test_what_a_product_of_elements_is_has_rules_of_its_own() -> None:
    a, b = te.placeholder((5, 7), name="a"), te.placeholder((7, 9), name="b")
    k = te.reduce_axis((0, 7), "k")
    assert find_sides(te.compute((5, 9), lambda i, j: te.sum(a[i, k] * b[k, j], k)).op) is None, (
        "both factors are elements"
    )
    assert find_sides(te.compute((5, 9), lambda i, j: te.sum(a[i, k] * 2.0 * b[k, j], k)).op) is not None
    assert find_sides(te.compute((5, 9), lambda i, j: te.sum(te.exp(a[i, k] * b[k, j]), k)).op) is None, "no product"
    assert find_sides(te.compute((5, 9), lambda i, j: te.max(a[i, k] * 2.0 * b[k, j], k)).op) is None, "no sum"
