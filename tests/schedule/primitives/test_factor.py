"""factor: a sum of products of several factors as a tree of sums of products of two."""

from __future__ import annotations

import random
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def declared(subscripts: str, extents: dict[str, int], dtype: str) -> tuple[list[te.Tensor], te.Tensor]:
    left = subscripts.split("->")[0]
    tensors = [
        te.placeholder([extents[letter] for letter in term], dtype, f"A{at}") for at, term in enumerate(left.split(","))
    ]
    return tensors, topi.einsum(subscripts, *tensors)


def any_path(draw: random.Random, count: int) -> list[tuple[int, int]]:
    pairs = [draw.sample(range(left), 2) for left in range(count, 1, -1)]
    return [(first, second) for first, second in pairs]


def computed(s: Any, tensors: list[te.Tensor], out: te.Tensor, arrays: list[np.ndarray]) -> np.ndarray:
    result = np.empty([int(str(extent)) for extent in out.shape], str(out.dtype))
    tw.build(s, [*tensors, out], target="interpret")(*arrays, result)
    return result


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_any_path_of_a_drawn_sum_has_the_declared_values(dtype: str) -> None:
    draw = random.Random(int(drawn.rng("factor").integers(1 << 30)))
    for _ in range(drawn.count(5, 100)):
        extents = {letter: draw.choice((1, 2, 3, 4, 5)) for letter in "abcdef"}
        terms = ["".join(draw.sample("abcdef", draw.randint(0, 3))) for _ in range(draw.randint(2, 5))]
        met = sorted({letter for term in terms for letter in term})
        if not met:
            continue
        subscripts = f"{','.join(terms)}->{''.join(draw.sample(met, draw.randint(0, min(3, len(met) - 1))))}"
        tensors, out = declared(subscripts, extents, dtype)
        arrays = [
            np.array(np.random.default_rng(7).integers(-3, 4, [extents[letter] for letter in term]), dtype)
            for term in terms
        ]
        s = te.create_schedule(out.op)
        s.factor(out, any_path(draw, len(terms)))
        assert bool(s.is_exact) == (dtype == "int32")
        assert np.array_equal(computed(s, tensors, out, arrays), np.einsum(subscripts, *arrays)), subscripts
        assert str(te.Schedule.replay(s.trace, [out])) == str(s)


def test_the_path_is_the_one_that_numpy_gives() -> None:
    tensors, out = declared("ia,ab,bj->ij", {"i": 9, "a": 4, "b": 20, "j": 5}, "float32")
    shapes = [np.empty([int(str(extent)) for extent in each.shape]) for each in tensors]
    path = np.einsum_path("ia,ab,bj->ij", *shapes)[0][1:]
    s = te.create_schedule(out.op)
    (new,) = s.factor(out, path)
    assert path == [(1, 2), (0, 1)] and [int(str(extent)) for extent in new.shape] == [4, 5]
    assert "products of sums, which are rounded" in str(s.is_exact) and s.verify()


def test_what_does_not_depend_on_an_axis_leaves_the_sum() -> None:
    a, b = te.placeholder((6,), name="a"), te.placeholder((30, 7), name="b")
    k = te.reduce_axis((2, 30), "k")
    C = te.compute((6, 7), lambda i, j: te.sum(a[i] * b[k, j], k), name="C")
    s = te.create_schedule(C.op)
    (total,) = s.factor(C, [(0, 1)])
    assert s[C].op.reduction is None and [int(str(e)) for e in s[total].op.output(0).shape] == [7]
    x, y = np.arange(6, dtype="float32"), np.arange(210, dtype="float32").reshape(30, 7)
    assert np.array_equal(computed(s, [a, b], C, [x, y]), np.outer(x, y[2:].sum(0)))


def test_two_factors_over_the_same_axes_are_no_new_stage() -> None:
    tensors, out = declared("ij,jk->ik", {"i": 3, "j": 4, "k": 5}, "int32")
    s = te.create_schedule(out.op)
    assert s.factor(out, [(0, 1)]) == []
    scope = {"s": te.create_schedule(out.op), "te": te, "ops": [out.op]}
    exec(s.as_python(), scope)
    assert str(scope["s"]) == str(s) and "\ns.factor(T_einsum" in s.as_python()


def test_what_is_inlined_is_part_of_the_factors() -> None:
    a, b = te.placeholder((5, 6), "int8", "a"), te.placeholder((6,), "int8", "b")
    c = te.placeholder((6, 4), "int32", "c")
    scaled = te.compute((5, 6), lambda i, k: (a[i, k] * b[k]).astype("int32") * 3, name="scaled")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((5, 4), lambda i, j: te.sum(scaled[i, k] * c[k, j], k), name="C")
    s = te.create_schedule(C.op)
    s[scaled].compute_inline()
    assert len(s.factor(C, [(1, 2), (0, 1)])) == 1  # the product of bytes wraps before it is converted: one factor
    assert s.is_exact and s.verify()
