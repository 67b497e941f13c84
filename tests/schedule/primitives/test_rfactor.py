"""rfactor with the new dimension anywhere, reductions over tuples, `where` and `init` under every primitive that takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
from every_backend import EMULATED, as_declared, holds, replays
from schedule_state import exact
from tilewright import te
from tilewright.schedule.errors import BadRfactor, BadThreadBinding


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def best() -> Any:
    """(index, value) of the greatest value; the first of equals."""

    def combine(x: Any, y: Any) -> Any:
        left = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.select(left, x[0], y[0]), te.select(left, x[1], y[1])

    return te.comm_reducer(combine, lambda t0, t1: (te.const(1 << 30, t0), te.min_value(t1)), "best")


def argmax(m: int, n: int, **options: Any) -> tuple[te.Tensor, te.Tensor, te.Tensor, Any]:
    A, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    given = {name: (value(k) if callable(value) else value) for name, value in options.items()}
    first, second = te.compute((m,), lambda i: best()((k, A[i, k]), axis=k, **given), name="T")
    return A, first, second, k


@pytest.mark.parametrize("factor_axis", drawn.part([0, 1, -1, -2], 2))
@pytest.mark.parametrize("factor", [4, 20])
def test_both_outputs_get_the_dimension_where_it_is_asked_for(factor_axis: int, factor: int) -> None:
    A, first, second, k = argmax(7, 13)
    s = te.create_schedule(first.op)
    _, inner = s[first].split(k, factor)
    partial = s.rfactor([first, second], inner, factor_axis=factor_axis)
    place = factor_axis % 2
    assert [int(extent) for extent in partial[1].shape] == (
        [min(factor, 13), 7] if place == 0 else [7, min(factor, 13)]
    )
    a = floats(7, 13)
    holds(s, [A, first, second], [a], [a.argmax(1).astype("int32"), a.max(1)])
    replays(s, [first.op])


def test_places_that_do_not_exist_are_refused() -> None:
    A, k = te.placeholder((7, 3, 13), name="A"), te.reduce_axis((0, 13), "k")
    B = te.compute((7, 3), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    for wrong in (3, -4, 1.0, True, None):
        before = exact(s)
        with pytest.raises(
            BadRfactor, match=r"(?s)factor_axis is .*give a place from 0 to 2, or from -1 \(last\) to -3"
        ):
            s.rfactor(B, k, wrong)  # type: ignore[arg-type]
        assert exact(s) == before
    C = s.rfactor(B, k, -2)
    assert [int(extent) for extent in C.shape] == [7, 13, 3]


WAYS: dict[str, Callable[[te.Schedule, te.Tensor, Any], Any]] = {
    "as declared": lambda s, T, k: None,
    "split": lambda s, T, k: s[T].split(k, 4),
    "inner factored": lambda s, T, k: s.rfactor(T, s[T].split(k, 4)[1], -1),
    "outer factored": lambda s, T, k: s.rfactor(T, s[T].split(k, 4)[0]),
    "factored twice": lambda s, T, k: _twice(s, T, k),
    "cached": lambda s, T, k: s[_first(s.cache_write(list(T.op.outputs), "local"))].compute_at(s[T], s[T].op.axis[0]),
    "cache factored": lambda s, T, k: _cache_factored(s, T),
    "vector lanes": lambda s, T, k: (s[T].reorder(k, T.op.axis[0]), s[T].vectorize(T.op.axis[0])),
    "parallel": lambda s, T, k: s[T].parallel(T.op.axis[0]),
    "fused": lambda s, T, k: s[T].fuse(T.op.axis[0], k),
    "unrolled": lambda s, T, k: s[T].unroll(s[T].split(k, nparts=3)[1]),
}


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, list) else made


def _twice(s: te.Schedule, T: te.Tensor, k: Any) -> None:
    once = _first(s.rfactor(T, s[T].split(k, 5)[1]))
    s.rfactor(once, s[once].split(s[once].op.reduce_axis[0], 2)[1], -1)


def _cache_factored(s: te.Schedule, T: te.Tensor) -> None:
    cache = _first(s.cache_write(list(T.op.outputs), "local"))
    s.rfactor(cache, s[cache].split(s[cache].op.reduce_axis[0], 4)[1], -1)


REDUCERS: dict[str, tuple[Any, Callable[[list[float]], float]]] = {
    "sum": (te.sum, sum),
    "min": (te.min, min),
    "max": (te.max, max),
    "prod": (te.prod, lambda values: float(np.prod(values))),
}


@pytest.mark.parametrize("way", drawn.part(WAYS, 5))
def test_where_and_init_read_tensors_under_every_primitive(way: str) -> None:
    name = list(REDUCERS)[list(WAYS).index(way) % 4]
    reducer, reference = REDUCERS[name]
    A, B, k = te.placeholder((5, 13), name="A"), te.placeholder((5,), name="B"), te.reduce_axis((0, 13), "k")
    C = te.compute(
        (5,), lambda i: reducer(A[i, k], axis=k, where=te.all(k % 3 > 0, A[i, k] > -0.5), init=B[i]), name="C"
    )
    s = te.create_schedule(C.op)
    WAYS[way](s, C, k)
    a, b = floats(5, 13), floats(5, seed=1)
    kept = [[float(a[i, q]) for q in range(13) if q % 3 > 0 and a[i, q] > -0.5] for i in range(5)]
    expected = np.array([reference([float(b[i]), *kept[i]]) for i in range(5)], "float32")
    np.testing.assert_allclose(as_declared([A, B, C], [a, b], [((5,), "float32")])[0], expected, rtol=1e-5)
    holds(s, [A, B, C], [a, b], [expected])
    replays(s, [C.op])


@pytest.mark.parametrize("way", drawn.part(WAYS, 5))
def test_tuples_of_three_of_several_types(way: str) -> None:
    one, other = [("int32", "float32"), ("float64", "int8"), ("uint8", "int64")][list(WAYS).index(way) % 3]
    A, B, k = (
        te.placeholder((11, 3), one, name="A"),
        te.placeholder((11, 3), other, name="B"),
        te.reduce_axis((0, 11), "k"),
    )
    mix = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1]), x[2] * y[2]),
        lambda t, u, v: (te.const(0, t), te.min_value(u), te.const(1, v)),
        "mix",
    )
    first = (te.const(5, one), te.const(-3, other), te.const(2, other))
    T = te.compute((3,), lambda i: mix((A[k, i], B[k, i], B[k, i]), axis=k, where=k > 1, init=first), name="T")
    s = te.create_schedule(T[0].op)
    WAYS[way](s, T[0], k)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (11, 3)).astype(one), rng.integers(1, 3, (11, 3)).astype(other)
    expected = [
        (a[2:].sum(0) + 5).astype(one),
        np.maximum(b[2:].max(0), -3).astype(other),
        (b[2:].prod(0) * 2).astype(other),
    ]
    holds(s, [A, B, *T], [a, b], expected)
    replays(s, [T[0].op])


@pytest.mark.parametrize("n", [0, 1, 13])
def test_nothing_to_reduce_leaves_init_or_the_identity(n: int) -> None:
    A, first, second, k = argmax(3, n, where=lambda k: k % 2 > 0, init=(te.const(100), te.const(-9.0)))
    s = te.create_schedule(first.op)
    s.rfactor(first, s[first].split(k, 4)[0], -1)
    a = floats(3, n)
    odd = a[:, 1::2]
    where = [int(row.argmax()) * 2 + 1 if row.size and row.max() > -9 else 100 for row in odd]
    values = [max([*map(float, row), -9.0]) for row in odd]
    holds(s, [A, first, second], [a], [np.array(where, "int32"), np.array(values, "float32")])


def test_a_scalar_is_factored() -> None:
    for factor_axis in (0, -1):
        A, k = te.placeholder((17,), name="A"), te.reduce_axis((0, 17), "k")
        C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
        s = te.create_schedule(C.op)
        F = s.rfactor(C, s[C].split(k, 4)[1], factor_axis)
        s[F].compute_at(s[C], s[C].op.reduce_axis[0])
        a = floats(17)
        holds(s, [A, C], [a], [a.sum().reshape(())])


@pytest.mark.parametrize("n", [5, 32, 37])
def test_threads_reduce_tuples_under_a_condition(n: int) -> None:
    A, first, second, k = argmax(6, n, where=lambda k: k % 5 > 0)
    s = te.create_schedule(first.op)
    _, inner = s[first].split(k, 8)
    partial = s.rfactor([first, second], inner)
    thread = te.thread_axis((0, min(n, 8)), "threadIdx.x")
    s[first].bind(first.op.axis[0], te.thread_axis("blockIdx.x"))
    s[first].bind(s[first].op.reduce_axis[0], thread)
    s[partial[0]].compute_at(s[first], s[first].op.reduce_axis[0])
    s[first].set_store_predicate(thread.equal(0))
    a = floats(6, n)
    masked = np.where(np.arange(n) % 5 > 0, a, -np.inf)
    holds(s, [A, first, second], [a], [masked.argmax(1).astype("int32"), masked.max(1).astype("float32")], EMULATED)
    replays(s, [first.op])


def test_threads_cannot_begin_with_init() -> None:
    _, first, _, k = argmax(6, 8, init=(te.const(0), te.const(0.5)))
    s = te.create_schedule(first.op)
    before = exact(s)
    with pytest.raises(BadThreadBinding, match="T reduces with init="):
        s[first].bind(k, te.thread_axis("threadIdx.x"))
    assert exact(s) == before


@pytest.mark.parametrize("case", range(drawn.count(10, 500)))
def test_drawn_factorings_hold(case: int) -> None:
    rng = drawn.rng("rfactor", case)
    rank, reduced = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    shape = tuple(int(extent) for extent in rng.integers(1, 6, rank))
    sizes = tuple(int(extent) for extent in rng.integers(1, 9, reduced))
    A = te.placeholder((*shape, *sizes), name="A")
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(sizes)]
    odd = bool(rng.integers(0, 2))
    where = (sum(axes[1:], axes[0]) % 3 > 0) if odd else None
    C = te.compute(shape, lambda *i: te.sum(A[(*i, *axes)], axis=axes, where=where), name="C")
    s = te.create_schedule(C.op)
    target, depth = C, int(rng.integers(1, 4))
    for _ in range(depth):
        loops = [axis for axis in s[target].leaf_iter_vars if axis.kind == "reduce"]
        axis = loops[int(rng.integers(0, len(loops)))]
        if rng.integers(0, 2):
            axis = s[target].split(axis, int(rng.integers(1, 5)))[int(rng.integers(0, 2))]
        places = len(target.shape)
        target = s.rfactor(target, axis, int(rng.integers(-places - 1, places + 1)))
        if not s[target].op.reduce_axis:
            break
    a = rng.integers(-8, 9, (*shape, *sizes)).astype("float32")
    kept = a * (np.indices(sizes).sum(0) % 3 > 0) if odd else a
    expected = kept.sum(axis=tuple(range(rank, rank + reduced))).astype("float32").reshape(shape)
    holds(s, [A, C], [a], [expected], ("interpret",) if case % 3 else ("interpret", "llvm"))
    replays(s, [C.op])
