"""Sums of products of several factors become trees of sums of two where the estimate says so, and have the declared values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.forms.products import Product, best_factoring
from tilewright.autoschedule.plan import Candidate
from tilewright.autoschedule.scheduler import schedule

TARGET = "llvm -mcpu=haswell"
TUCKER = "abc,ia,jb,kc->ijk", (12, 13, 14), (21, 12), (20, 13), (23, 14)


def declared(
    subscripts: str, *shapes: tuple[int, ...], dtype: str = "float32"
) -> tuple[list[te.Tensor], te.Tensor, list[np.ndarray]]:
    rng = drawn.rng(subscripts)
    tensors = [te.placeholder(shape, dtype, f"A{at}") for at, shape in enumerate(shapes)]
    return tensors, topi.einsum(subscripts, *tensors), [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]


def run(s: Any, args: list[te.Tensor], arrays: list[np.ndarray]) -> np.ndarray:
    out = np.empty([int(str(extent)) for extent in args[-1].shape], str(args[-1].dtype))
    tw.build(s, args)(*arrays, out)
    return out


def factorings(s: Any) -> list[Any]:
    return [row for row in s.plan if row.rule == "factors"]


def test_a_tucker_product_sums_one_axis_at_a_time() -> None:
    tensors, out, arrays = declared(*TUCKER)
    s = tw.autoschedule.schedule(out, TARGET)
    (row,) = factorings(s)
    times = [estimate.seconds for _, estimate in row.candidates]
    assert row.candidates[0][0] == "as declared" and row.chosen == 1 and times[1] < times[0] / 1.5
    assert len(s.stages) >= 7 and not s.is_exact and "products of sums" in str(s.is_exact)
    assert np.array_equal(run(s, [*tensors, out], arrays), np.einsum(TUCKER[0], *arrays))
    s.verify()


def test_a_sum_of_three_matrices_is_a_product_first() -> None:
    spec = "ab,bc,ca->"
    tensors, out, arrays = declared(spec, (100, 110), (110, 120), (120, 100))
    s = tw.autoschedule.schedule(out, TARGET)
    (row,) = factorings(s)
    assert row.chosen == 1 and "contraction" in [each.rule for each in s.plan]
    assert np.array_equal(run(s, [*tensors, out], arrays), np.einsum(spec, *arrays, optimize=True))


def test_sums_of_floats_keep_their_order_where_they_are_to_and_whole_numbers_need_not() -> None:
    assert not factorings(tw.autoschedule.schedule(declared(*TUCKER)[1], TARGET, exact=True))
    tensors, out, arrays = declared(*TUCKER, dtype="int32")
    s = tw.autoschedule.schedule(out, TARGET, exact=True)
    assert factorings(s)[0].chosen == 1 and s.is_exact
    assert np.array_equal(run(s, [*tensors, out], arrays), np.einsum(TUCKER[0], *arrays))


@pytest.mark.parametrize("shape", [(40, 50, 60), (1, 90, 400)])
def test_products_of_two_matrices_are_left_alone(shape: tuple[int, int, int]) -> None:
    i, j, k = shape
    s = tw.autoschedule.schedule(declared("ik,kj->ij", (i, k), (k, j))[1], TARGET)
    assert not factorings(s) and len(s.outputs) == 1


def test_a_product_that_is_declared_apart_is_part_of_the_factors() -> None:
    a, b, c = (te.placeholder(shape, name=name) for name, shape in (("a", (20, 30)), ("b", (30, 40)), ("c", (40, 25))))
    k, m = te.reduce_axis((0, 30), "k"), te.reduce_axis((0, 40), "m")
    both = te.compute((20, 30, 40), lambda i, x, y: a[i, x] * b[x, y], name="both")
    out = te.compute((20, 25), lambda i, j: te.sum(both[i, k, m] * c[m, j], [k, m]), name="out")
    s = tw.autoschedule.schedule(out, TARGET)
    assert factorings(s)[0].chosen == 1
    arrays = [drawn.rng("apart").integers(-3, 4, shape).astype("float32") for shape in ((20, 30), (30, 40), (40, 25))]
    assert np.array_equal(run(s, [a, b, c, out], arrays), arrays[0] @ arrays[1] @ arrays[2])


def test_who_searches_finds_both_ways() -> None:
    tensors, out, arrays = declared(*TUCKER)

    def as_declared(name: str, candidates: Sequence[Candidate]) -> int:
        return 0

    s = schedule(out, TARGET, chooser=as_declared)
    assert factorings(s)[0].chosen == 0 and not any(record.primitive == "factor" for record in s.records)
    assert np.array_equal(run(s, [*tensors, out], arrays), np.einsum(TUCKER[0], *arrays))


def test_gpus_factor_where_that_is_worth_more_launches() -> None:
    small = declared("abc,ia,jb,kc->ijk", (4, 5, 6), (9, 4), (11, 5), (13, 6))
    tensors, out, arrays = small
    assert factorings(schedule(out, "cuda -emulate"))[0].chosen == 0
    wide = declared("abc,ia,jb,kc->ijk", (16, 16, 16), (64, 16), (64, 16), (64, 16))[1]
    assert factorings(schedule(wide, "cuda -emulate"))[0].chosen == 1

    def last(name: str, candidates: Sequence[Candidate]) -> int:
        return len(candidates) - 1 if name.startswith("factors") else 0

    s, result = schedule(out, "cuda -emulate", chooser=last), np.empty((9, 11, 13), "float32")
    tw.build(s, [*tensors, out], target="cuda -emulate")(*arrays, result)
    assert np.array_equal(result, np.einsum(TUCKER[0], *arrays))


def brute_force(product: Product) -> float:
    """The least cost of all paths."""

    def least(operands: list[frozenset[int]]) -> float:
        costs: list[float] = []
        for first, second in itertools.combinations(range(len(operands)), 2):
            others = [each for at, each in enumerate(operands) if at not in (first, second)]
            needed = product.results.union(*others)
            cost, parts = 0.0, []
            for at, other in ((first, second), (second, first)):
                kept = operands[at] & (needed | operands[other])
                cost += 0 if kept == operands[at] else product.size(operands[at]) + 4 * product.size(kept)
                parts.append(kept)
            whole = parts[0] | parts[1]
            cost += product.size(whole)
            if others:
                cost += 4 * product.size(whole & needed) + least([*others, whole & needed])
            costs.append(cost)
        return min(costs)

    return least(list(product.factors))


def test_the_tree_is_the_best_of_all() -> None:
    rng = drawn.rng("trees")
    for _ in range(drawn.count(20, 400)):
        extents = tuple(int(n) for n in rng.integers(1, 9, 5))
        factors = tuple(
            frozenset(int(n) for n in rng.choice(5, rng.integers(0, 4), replace=False))
            for _ in range(rng.integers(2, 5))
        )
        product = Product(factors, frozenset(int(n) for n in rng.choice(5, 2, replace=False)), extents)
        best = best_factoring(product, "ABCD")
        assert best is not None and best.cost == brute_force(product)
    many = Product(tuple(frozenset((at, at + 1)) for at in range(11)), frozenset((0, 11)), (5,) * 12)
    chain = best_factoring(many, "ABCDEFGHIJK")
    assert chain is not None and chain.cost == 10 * 125 + 9 * 4 * 25 and len(chain.path) == 10
