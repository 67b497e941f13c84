"""mirror: what is stored beyond the diagonal has the bits that are declared, and what lies there whole is not computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule import schedule
from tilewright.schedule.errors import BadMirror
from tilewright.schedule.model.serialise import from_json, to_json

Pair = Callable[[Any, Any, Any, Any], Any]
TERMS: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda x, y: x * y,
    "products the other way": lambda x, y: y * x,
    "sums of products": lambda x, y: x * (y * 2.0) + y * (x * 2.0),
    "distances": lambda x, y: te.abs(x - y),
    "squares": lambda x, y: (x - y) * (x - y),
}


def summed(term: str) -> Pair:
    def element(A: Any, i: Any, j: Any, k: Any) -> Any:
        return te.sum(TERMS[term](A[k, i], A[k, j]), axis=k)

    return element


def greatest(A: Any, i: Any, j: Any, k: Any) -> Any:
    return te.max(A[k, i] + A[k, j], axis=k)


def declared(size: int, depth: int, term: Pair, batch: int = 0) -> tuple[Any, Any]:
    A = te.placeholder((depth, size), name="A")
    k = te.reduce_axis((0, depth), "k")
    if batch:
        return A, te.compute((size, batch, size), lambda i, b, j: term(A, i, j, k), name="C")
    return A, te.compute((size, size), lambda i, j: term(A, i, j, k), name="C")


def tiled(C: Any, rows: int, columns: int, parallel: bool) -> Any:
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis[0], C.op.axis[-1]
    s[C].mirror(i, j)
    io, ii = s[C].split(i, factor=rows)
    jo, ji = s[C].split(j, factor=columns)
    s[C].reorder(io, jo, *C.op.axis[1:-1], ii, ji)
    s[C].vectorize(ji)
    s[C].unroll(ii)
    s[sums].compute_at(s[C], s[C].leaf_iter_vars[-3])
    if parallel:
        s[C].parallel(io)
    return s


def same_bits(s: Any, C: Any, args: list[Any], target: str = "interpret") -> None:
    """The schedule's results are those of the unscheduled program, among them NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(1)
    given = [rng.standard_normal([int(extent) for extent in arg.shape]).astype("float32") for arg in args]
    for array in given:
        array.flat[: array.size // 8] = rng.choice(
            np.array([0.0, -0.0, np.nan, np.inf, -np.inf], "float32"), array.size // 8
        )
    results: list[Any] = []
    for each in (te.create_schedule(s.outputs), s):
        results.append(np.full([int(extent) for extent in C.shape], 7, "float32"))
        tw.build(each, [*args, C], target=target)(*given, results[-1])
    plain, mirrored = (np.where(np.isnan(result), 1, result).view("uint32") for result in results)
    np.testing.assert_array_equal(plain, mirrored)


def test_the_loops_after_it() -> None:
    A = te.placeholder((64,), name="A")
    C = te.compute((64, 64), lambda i, j: te.exp(A[i] * A[j]), name="C")
    s = te.create_schedule(C.op)
    s[C].mirror(*C.op.axis)
    assert str(s) == (
        "def C(A: float32[64], C: out float32[64, 64]):\n"
        "    for i in 64:\n"
        "        for j in 64:\n"
        "            if int64(j) <= int64(i):\n"
        "                C[i, j] = exp(A[i] * A[j])\n"
        "                if int64(j) < int64(i):\n"
        "                    C[j, i] = exp(A[i] * A[j])"
    )
    again = te.Schedule.replay(from_json(to_json(s.records)), [C.op])
    assert str(again) == str(s) and "s[C].mirror(i, j)" in s.as_python() and s.is_exact


@pytest.mark.parametrize("term", [*map(summed, TERMS), greatest], ids=[*TERMS, "max-plus"])
def test_whatever_is_the_same_after_the_exchange(term: Pair) -> None:
    A, C = declared(13, 3, term)
    same_bits(tiled(C, 4, 8, True), C, [A])


@pytest.mark.parametrize(
    ("size", "depth", "rows", "columns", "batch"),
    [
        (0, 3, 2, 4, 0),
        (1, 0, 2, 4, 0),
        (1, 1, 1, 1, 0),
        (2, 3, 4, 16, 0),
        (31, 2, 6, 16, 0),
        (15, 3, 7, 3, 2),
        (17, 3, 1, 8, 3),
    ],
)
def test_whatever_the_tiles_are(size: int, depth: int, rows: int, columns: int, batch: int) -> None:
    A, C = declared(size, depth, summed("products"), batch)
    same_bits(tiled(C, rows, columns, size % 2 == 1), C, [A])


def test_in_machine_code() -> None:
    A, C = declared(45, 5, summed("distances"))
    s = tiled(C, 6, 16, True)
    same_bits(s, C, [A], "llvm")
    assert s.verify()


def test_loops_in_any_order_and_fused() -> None:
    A, C = declared(11, 2, summed("products"))
    i, j = C.op.axis
    changes: list[Callable[[Any], object]] = [
        lambda s: s.reorder(j, i),
        lambda s: s.fuse(i, j),
        lambda s: s.parallel(s.fuse(i, j)),
        lambda s: s.vectorize(s.split(i, 4)[1]),
    ]
    for change in changes:
        s = te.create_schedule(C.op)
        s.cache_write(C, "local")
        s[C].mirror(*C.op.axis)
        change(s[C])
        same_bits(s, C, [A])


def test_tiles_beyond_the_diagonal_are_left_out() -> None:
    _, C = declared(64, 8, summed("products"))
    s = tiled(C, 8, 8, False)
    before = te.create_schedule(C.op)
    assert "if int64(j.outer) <= int64(i.outer):" in str(s) and " if " not in str(before)


def rounded_in_another_order(A: Any, i: Any, j: Any, k: Any) -> Any:
    return te.sum(A[k, i] * (A[k, j] * 2.0), axis=k)


def of_another_sign(A: Any, i: Any, j: Any, k: Any) -> Any:
    return te.sum(A[k, i] - A[k, j], axis=k)


def zeros_of_another_sign(A: Any, i: Any, j: Any, k: Any) -> Any:
    return te.sum((A[k, i] - A[k, j]) * (A[k, 0] - A[k, 1]), axis=k)


def another_by_its_place(A: Any, i: Any, j: Any, k: Any) -> Any:
    return te.sum(A[k, i] * A[k, j] + te.if_then_else(i > j, 1.0, 0.0), axis=k)


@pytest.mark.parametrize(
    "term", [rounded_in_another_order, of_another_sign, zeros_of_another_sign, another_by_its_place]
)
def test_what_may_differ_is_refused(term: Pair) -> None:
    _, C = declared(8, 4, term)
    s = te.create_schedule(C.op)
    s.cache_write(C, "local")
    with pytest.raises(BadMirror, match="does not show in its expression"):
        s[C].mirror(*C.op.axis)
    assert len(s.records) == 1


def test_what_only_the_whole_schedule_decides() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8, 8), lambda i, j: A[i] + A[j], name="C")
    D = te.compute((3, 8), lambda i, j: C[i, j] * 2, name="D")
    s = te.create_schedule(D.op)
    s[C].mirror(*C.op.axis)
    with pytest.raises(tw.LoweringError, match=r"TW0343(?s:.*)is 3 x 8"):
        tw.lower(s, [A, D])
    s = te.create_schedule(C.op)
    s[C].mirror(*C.op.axis)
    s[C].set_store_predicate(C.op.axis[0] < 5)
    with pytest.raises(tw.LoweringError, match=r"TW0343(?s:.*)stored under a condition"):
        tw.lower(s, [A, C])


@pytest.mark.parametrize(("size", "depth", "turned"), [(45, 67, False), (61, 50, True)])
def test_rules_take_it_for_a_matrix_times_itself(size: int, depth: int, turned: bool) -> None:
    A = te.placeholder((size, depth) if turned else (depth, size), name="A")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute(
        (size, size), lambda i, j: te.sum(A[i, k] * A[j, k] if turned else A[k, i] * A[k, j], axis=k), name="C"
    )
    D = te.compute((size, size), lambda i, j: te.max(C[i, j], 0.0), name="D")
    for output in (C, D):
        s = schedule(output, "llvm -mcpu=haswell", exact=True)
        assert "mirrored" in s.plan[0].description and s.is_exact
    same_bits(s, D, [A], "interpret" if turned else "llvm")
    bias = te.placeholder((size,), name="bias")
    E = te.compute((size, size), lambda i, j: C[i, j] + bias[j], name="E")
    assert not any("mirrored" in description for description, _ in schedule(E, "llvm -mcpu=haswell").plan[0].candidates)
