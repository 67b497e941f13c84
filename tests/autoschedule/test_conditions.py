"""Conditions that leave terms out of a sum, and terms that are summed apart: what is chosen, and that it computes what was declared."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.conditions import share_left

TARGET = "llvm -mcpu=haswell"


def triangle(n: int, m: int, dtype: str = "float32") -> tuple[list[te.Tensor], te.Tensor]:
    """A triangular matrix by another one."""
    a, b = te.placeholder((n, n), dtype, "a"), te.placeholder((n, m), dtype, "b")
    k = te.reduce_axis((0, n), "k")
    zero = te.const(0, dtype)
    return [a, b], te.compute((n, m), lambda i, j: te.sum(te.if_then_else(k > i, a[k, i] * b[k, j], zero), k), "C")


def two_products(n: int, m: int, dtype: str = "float32") -> tuple[list[te.Tensor], te.Tensor]:
    """A matrix by the transposed of another one, and the transposed of that."""
    a, b = te.placeholder((n, m), dtype, "a"), te.placeholder((n, m), dtype, "b")
    k = te.reduce_axis((0, m), "k")
    return [a, b], te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[j, k] + b[i, k] * a[j, k], k), "C")


PROGRAMS = {
    "triangle": (triangle, lambda a, b: np.tril(a, -1).T @ b),
    "two products": (two_products, lambda a, b: a @ b.T + b @ a.T),
}


def run(s: Any, args: list[te.Tensor], arrays: list[np.ndarray], target: str = "llvm") -> np.ndarray:
    out = np.empty([int(str(extent)) for extent in args[-1].shape], str(args[-1].dtype))
    tw.build(s, args, target=target)(*arrays, out)
    return out


def rows(s: Any, rule: str) -> list[Any]:
    return [row for row in s.plan if row.rule == rule]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int16"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("exact", [False, True])
def test_drawn_sizes_have_the_declared_values(name: str, dtype: str, exact: bool) -> None:
    declare, reference = PROGRAMS[name]
    for case in range(drawn.count(2, 60)):
        rng = drawn.rng(f"{name} {dtype} {exact}", case)
        n, m = (int(rng.choice((1, 2, 3, 5, 16, 17, 31, 33, 64, 67))) for _ in range(2))
        args, out = declare(n, m, dtype)
        arrays = [rng.integers(-3, 4, tuple(int(str(e)) for e in arg.shape)).astype(dtype) for arg in args]
        s = tw.autoschedule.schedule(out, exact=exact)
        assert not exact or s.is_exact
        assert np.array_equal(run(s, [*args, out], arrays), reference(*arrays)), (n, m)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_of_floats_keep_their_bits_where_they_are_to(name: str) -> None:
    rng = drawn.rng(f"bits of {name}")
    args, out = PROGRAMS[name][0](67, 41)
    arrays = [rng.standard_normal(tuple(int(str(e)) for e in arg.shape)).astype("float32") for arg in args]
    plain, s = te.create_schedule(out.op), tw.autoschedule.schedule(out, exact=True)
    assert run(plain, [*args, out], arrays).tobytes() == run(s, [*args, out], arrays).tobytes()


def test_a_triangle_is_half_of_a_square_and_takes_no_terms_beyond_it() -> None:
    args, out = triangle(250, 260)
    s = tw.autoschedule.schedule(out, TARGET)
    (row,) = rows(s, "condition")
    assert row.description.endswith("of the terms") and 45 <= int(row.description.split()[1].rstrip("%")) <= 55
    a, b = (np.full([int(str(e)) for e in arg.shape], np.nan, "float32") for arg in args)
    a[np.tril_indices(250, -1)], b[1:] = 1, 1  # what no term reads is not a number
    want = np.arange(249, -1, -1, dtype="float32")[:, None].repeat(260, 1)
    assert np.array_equal(run(s, [*args, out], [a, b]), want)


def test_alike_terms_of_a_sum_are_one_product_of_matrices() -> None:
    args, out = two_products(250, 260)
    s = tw.autoschedule.schedule(out, TARGET)
    (row,) = rows(s, "terms")
    assert row.chosen == 1 and not s.is_exact
    assert sorted(r.anchor for r in s.plan if r.rule in ("gemm", "contraction")) == ["C.product0"]
    assert not rows(tw.autoschedule.schedule(out, TARGET, exact=True), "terms")


def test_a_border_leaves_out_too_little() -> None:
    a = te.placeholder((64,), name="a")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute((64,), lambda i: te.sum(te.if_then_else(te.all(i + k > 0, i + k < 65), a[i + k - 1], 0.0), k))
    assert not rows(tw.autoschedule.schedule(out, TARGET), "condition")


def test_the_share_of_terms_is_that_of_the_points() -> None:
    for case in range(drawn.count(20, 300)):
        rng = drawn.rng("share", case)
        n, m = (int(rng.integers(8, 90)) for _ in range(2))
        out = te.placeholder((n,), name="a")
        k = te.reduce_axis((0, m), "k")
        by, off = int(rng.integers(-2, 3)), int(rng.integers(-9, 10))
        summed = te.compute((n,), lambda i: te.sum(out[i], k, where=te.all(k > i * by + off, k < i + m // 2)), "C")
        points = np.add.outer(np.zeros(n), np.arange(m))
        i = np.arange(n)[:, None]
        share = ((points > i * by + off) & (points < i + m // 2)).mean()
        reduction = summed.op.reduction
        assert reduction is not None
        assert abs(share_left(reduction.condition, (*summed.op.axis, *reduction.axes)) - share) < 0.08
