"""Indices of every integer dtype, against extents that the dtype does not hold, symbols among them, beside pages that nobody may
touch: what an operator wraps, clips or leaves out never leaves its tensor, and a valid index finds its element."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.graph.operators.row import row_of
from tilewright.tools.fuzz.guard import Guarded

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SIZES = (1, 5, 200, 70_000)
KINDS = ("constant", "int32", "int64")


def edges(dtype: str, size: int, low: int, high: int) -> list[int]:
    """Indices of a dtype from low to high: its own ends, and those of the extent."""
    info = np.iinfo(dtype)
    near = {0, 1, -1, size - 1, size, -size, -size - 1, size // 2, 127, 128, -128, 255, 256, 2**31, 2**63, 2**64 - 1}
    chosen = near | {info.min, info.max, info.min + 1, info.max - 1, 2**32 + 1, -(2**31), size + 2**32}
    return sorted(at for at in chosen if info.min <= at <= info.max and low <= at <= high)


ANY = -(2**64), 2**64


def clip(at: int, n: int) -> int:
    return min(max(at, 0), n - 1)


def from_end(at: int, n: int) -> int:
    return at + n if at < 0 else at


def clip_from_end(at: int, n: int) -> int:
    return clip(from_end(at, n), n)


def looked_up(place: Callable[[int, int], int]) -> Callable[..., Any]:
    return lambda a, indices, n: [a[place(at, n)] for at in indices]


def put(combine: Callable[[int, int], int]) -> Callable[..., Any]:
    def expected(a: Any, indices: list[int], n: int) -> Any:
        result = a.copy()
        for number, at in enumerate(indices):
            there = from_end(at, n)
            if 0 <= there < n:
                result[there] = combine(int(result[there]), number)
        return result

    return expected


def numbered(index: Any) -> Any:
    return topi.arange(0, index.shape[0], dtype="int32")


def graph(name: str, **attributes: Any) -> Callable[..., Any]:
    def declared(*tensors: Any) -> Any:
        return row_of(name).declare(*tensors, **attributes)

    return declared


def wide(index: Any) -> Any:
    return topi.expand_dims(index, 1)


# The operator of a vector of n elements and of indices, which elements it gives, and which indices it takes.
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[int], tuple[int, int]]]] = {
    "take clip": (lambda a, i: topi.take(a, i, 0), looked_up(clip), lambda n: ANY),
    "take flat": (lambda a, i: topi.take(a, i), looked_up(clip), lambda n: ANY),
    "take wrap": (lambda a, i: topi.take(a, i, 0, mode="wrap"), looked_up(lambda at, n: at % n), lambda n: ANY),
    "take fast": (lambda a, i: topi.take(a, i, 0, mode="fast"), looked_up(clip), lambda n: (0, n - 1)),
    "gather": (lambda a, i: topi.gather(a, 0, i), looked_up(clip), lambda n: (0, n - 1)),
    "gather_nd": (lambda a, i: topi.gather_nd(a, topi.expand_dims(i, 0)), looked_up(clip), lambda n: (0, n - 1)),
    "adv_index": (lambda a, i: topi.adv_index(a, [i]), looked_up(from_end), lambda n: (-n, n - 1)),
    "clamped": (lambda a, i: te.compute(i.shape, lambda k: te.clamped(a)[i[k]]), looked_up(clip), lambda n: ANY),
    "wrapped": (
        lambda a, i: te.compute(i.shape, lambda k: te.wrapped(a)[i[k]]),
        looked_up(lambda at, n: at % n),
        lambda n: ANY,
    ),
    "mirrored": (
        lambda a, i: te.compute(i.shape, lambda k: te.mirrored(a)[i[k]]),
        looked_up(lambda at, n: min(at % (2 * n), 2 * n - 1 - at % (2 * n))),
        lambda n: ANY,
    ),
    "padded": (
        lambda a, i: te.compute(i.shape, lambda k: te.padded(a, 7)[i[k]]),
        lambda a, indices, n: [a[at] if 0 <= at < n else 7 for at in indices],
        lambda n: ANY,
    ),
    "scatter_elements": (
        lambda a, i: topi.scatter_elements(a, i, numbered(i)),
        put(lambda old, new: new),
        lambda n: ANY,
    ),
    "scatter_elements max": (
        lambda a, i: topi.scatter_elements(a, i, numbered(i), reduction="max"),
        put(max),
        lambda n: ANY,
    ),
    "scatter_nd": (
        lambda a, i: topi.scatter_nd(a, topi.expand_dims(i, 0), numbered(i), "add"),
        lambda a, indices, n: put(lambda old, new: old + new)(a, [at if at >= 0 else n for at in indices], n),
        lambda n: ANY,
    ),
    "graph take": (graph("take", axis=0), looked_up(clip_from_end), lambda n: ANY),
    "graph gather": (graph("gather", axis=0), looked_up(clip_from_end), lambda n: ANY),
    "graph gather_nd": (
        lambda a, i: graph("gather_nd", batch_dims=0)(a, wide(i)),
        looked_up(clip_from_end),
        lambda n: ANY,
    ),
    "graph put": (
        lambda a, i: graph("put", axis=0)(a, i, numbered(i)),
        put(lambda old, new: new),
        lambda n: ANY,
    ),
    "graph scatter_elements": (
        lambda a, i: graph("scatter_elements", axis=0, reduction="add")(a, i, numbered(i)),
        put(lambda old, new: old + new),
        lambda n: ANY,
    ),
    "graph scatter_nd": (
        lambda a, i: graph("scatter_nd", reduction="max")(a, wide(i), numbered(i)),
        put(max),
        lambda n: ANY,
    ),
    "lengths": (
        lambda a, i: topi.sequence_mask(topi.broadcast_to(topi.expand_dims(a, 1), (a.shape[0], i.shape[0])), i, 5),
        lambda a, indices, n: np.where(np.arange(n)[:, None] >= np.asarray(indices, object), 5, a[:, None]),
        lambda n: ANY,
    ),
    "reversed": (
        lambda a, i: topi.reverse_sequence(topi.broadcast_to(a, (i.shape[0], a.shape[0])), i),
        lambda a, indices, n: [[*a[: max(at, 0)][::-1], *a[max(at, 0) :]] for at in indices],
        lambda n: ANY,
    ),
}
CASES = list(itertools.product(ROWS, DTYPES, SIZES, KINDS))


@pytest.mark.parametrize(("name", "dtype", "size", "kind"), drawn.part(CASES, 60))
def test_an_index_of_any_dtype_meets_any_extent(name: str, dtype: str, size: int, kind: str) -> None:
    operator, expected, taken = ROWS[name]
    indices = edges(dtype, size, *taken(size))
    a = (np.arange(size) * 3 % 101).astype("int32")
    length = size if kind == "constant" else te.var("n", kind)
    A, I = te.placeholder((length,), "int32", "A"), te.placeholder((len(indices),), dtype, "I")
    B = operator(A, I)
    want = np.asarray(expected(a, indices, size), "int32")
    rng = drawn.rng(f"{name} {dtype} {size} {kind}")
    target = "c" if rng.random() < 0.05 else "llvm"
    given, result = Guarded(a, bool(rng.random() < 0.7), False), Guarded(want, True, True)
    tw.build([A, I, B], target=target)(given.view, np.asarray(indices, dtype), result.view)
    assert not given.complaint() and not result.complaint()
    np.testing.assert_array_equal(result.view, want, err_msg=f"{indices}")
