"""Static indices: proved, tried out at build or at the call, or refused; on every target, under any schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.errors import KernelAssertion
from tilewright.te.errors import IndexOutOfRange

TARGETS = ["llvm", "c", "interpret"]

OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "i * i": lambda i: i * i,
    "max(i, 9)": lambda i: te.max(i, 9),
    "i | 8": lambda i: i | 8,
    "i << 1": lambda i: i << 1,
    "i ^ 9": lambda i: i ^ 9,
    "i * 5 % 11": lambda i: i * 5 % 11,
    "truncmod": lambda i: te.truncmod(i * 5, 11),
    "truncdiv": lambda i: te.truncdiv(i * 3, 2),
    "int8": lambda i: (i * 40).astype("int8").astype("int32"),
    "abs": lambda i: te.abs(i - 9),
    "i + 1": lambda i: i + 1,
    "i - 1": lambda i: i - 1,
    "select": lambda i: te.select(i > 6, 8, i),
    "3 - i": lambda i: 3 - i,
}
INSIDE: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "i * i": (3, lambda i: i * i),
    "min(i, 9)": (8, lambda i: te.min(i, 9)),
    "i | 4": (8, lambda i: i | 4),
    "i << 1": (4, lambda i: i << 1),
    "i >> 1": (13, lambda i: i >> 1),
    "i ^ 5": (8, lambda i: i ^ 5),
    "i & 7": (31, lambda i: i & 7),
    "i * 5 % 8": (8, lambda i: i * 5 % 8),
    "i * i % 11": (3, lambda i: i * i % 11),
    "truncmod": (17, lambda i: te.truncmod(i * 5, 8)),
    "truncdiv": (17, lambda i: te.truncdiv(i, 3)),
    "int8": (4, lambda i: (i * 64).astype("int8").astype("int32") & 7),
    "abs": (8, lambda i: te.abs(i - 7)),
    "7 - i": (8, lambda i: 7 - i),
    "select": (9, lambda i: te.select(i > 7, 0, i)),
    "a difference": (8, lambda i: (i * 3) % 5 - (i * 3) % 5 + (i ^ 3)),
}


@pytest.mark.parametrize("form", OUTSIDE)
def test_an_index_that_leaves_its_tensor_is_refused(form: str) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[OUTSIDE[form](i)], name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 3)
    for schedule in (te.create_schedule(B.op), s):
        with pytest.raises(
            IndexOutOfRange, match=r"(?s)TW0114: B reads outside A.*dimension 0 of A: float32\[8\] has the indices"
        ):
            tw.lower(schedule, [A, B])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", drawn.part(INSIDE, 6))
def test_an_index_that_stays_inside_is_taken(form: str, target: str) -> None:
    """Whatever the analyzer thinks of it, and without anything to do at the call."""
    n, index = INSIDE[form]
    A = te.placeholder((8,), name="A")
    B = te.compute((n,), lambda i: A[index(i)], name="B")
    f = tw.build(te.create_schedule(B.op), [A, B], target=target)
    assert "assert" not in f.source("ir")
    a, b = np.arange(8, dtype="float32") + 1, np.zeros(n, "float32")
    f(a, b)
    places = te.compute((n,), lambda i: te.const(0, "int32") + index(i), name="places")
    p = np.zeros(n, "int32")
    tw.build(te.create_schedule(places.op), [places], target="interpret")(p)
    np.testing.assert_array_equal(b, a[p])


def test_a_clamped_float_is_proved_inside() -> None:
    """A warp of an image: nothing is tried out, however large it is; NaN is index 0."""
    n = 1 << 20
    A, X = te.placeholder((8, 8), name="A"), te.placeholder((n,), name="X")

    def at(i: Any) -> Any:
        y, x = te.max(te.min(i.astype("float32") * 0.9 - 3.0, 6.5), 0.0), te.max(te.min(X[i] * 2.0, 6.999), 0.0)
        return A[y.astype("int32"), x.astype("int32") + 1]

    B = te.compute((n,), at, name="B")
    f = tw.build([A, X, B], bounds_check=True)
    assert "assert" not in f.source("ir")
    a, x, b = (
        np.arange(64, dtype="float32").reshape(8, 8),
        np.tile(np.float32([np.nan, -1, 2.6, np.inf]), n // 4),
        np.zeros(n, "float32"),
    )
    f(a, x, b)
    rows = np.clip(np.arange(n, dtype="float32") * np.float32(0.9) - 3, 0, 6.5).astype(int)
    np.testing.assert_array_equal(b, a[rows, np.tile([1, 1, 6, 7], n // 4)])


@pytest.mark.parametrize("target", TARGETS)
def test_a_float_that_is_clamped_by_a_symbol_is_not_tried_out(target: str) -> None:
    """But where the last index is no float any more: the symbols are compared first, and what they do not show is tried."""
    n, m = te.var("n"), te.var("m")
    D = te.placeholder((m,), name="D")
    last = (m - 1).astype("float32")
    B = te.compute(
        (n,), lambda i: D[te.max(te.min(i.astype("float32") * 0.5 - 1.0, last - 0.5), 0.0).astype("int32")], name="B"
    )
    f = tw.build([D, B], target=target)
    for size, extent in ((1, 3), (2, 9), (7, 20), (7, 0)):
        d, b = np.arange(size, dtype="float32"), np.zeros(extent, "float32")
        f(d, b)
        np.testing.assert_array_equal(b, d[np.clip(np.arange(extent) * 0.5 - 1, 0, max(size - 1.5, 0)).astype(int)])
    with pytest.raises(tw.TilewrightError, match="B reads outside D: index 0"):
        f(np.zeros(0, "float32"), np.zeros(3, "float32"))
    assert "16777216" in f.source("ir")  # up to which floats have every whole number


def symbolic(index: Callable[[Any, Any], Any]) -> tuple[Any, list[te.Tensor]]:
    n, m = te.var("n"), te.var("m")
    D, E = te.placeholder((n,), name="D"), te.placeholder((m,), name="E")
    B = te.compute((n,), lambda i: D[i] + E[index(i, m)], name="B")
    return te.create_schedule(B.op), [D, E, B]


@pytest.mark.parametrize("target", [*TARGETS, "cuda -emulate"])
@pytest.mark.parametrize(
    ("index", "inside", "outside"),
    [
        (lambda i, m: i + 1, (5, 6), (5, 5)),
        (lambda i, m: i * i, (3, 5), (4, 9)),
        (lambda i, m: i * 5 % m, (5, 3), (5, 0)),
        (lambda i, m: i * i % 11, (4, 10), (5, 9)),
        (lambda i, m: te.max(te.min(i - 1, m - 1), 0), (7, 3), (1, 0)),
        (lambda i, m: m - 1 - i, (7, 7), (8, 7)),
    ],
)
def test_symbols_are_tried_at_the_call(
    target: str, index: Any, inside: tuple[int, int], outside: tuple[int, int]
) -> None:
    s, args = symbolic(index)
    if target.startswith("cuda"):
        outer, inner = s[args[-1]].split(args[-1].op.axis[0], 32)
        s[args[-1]].bind(outer, te.thread_axis("blockIdx.x"))
        s[args[-1]].bind(inner, te.thread_axis("threadIdx.x"))
    f = tw.build(s, args, target=target)
    for n, m in (inside, (0, 0)):
        d, e, b = np.arange(n, dtype="float32"), np.arange(m, dtype="float32"), np.zeros(n, "float32")
        f(d, e, b)
        np.testing.assert_array_equal(b, [d[i] + e[int(tw_value(index, i, m))] for i in range(n)])
    n, m = outside
    with pytest.raises(tw.TilewrightError, match="B reads outside E: index 0"):
        f(np.zeros(n, "float32"), np.zeros(m, "float32"), np.zeros(n, "float32"))


def tw_value(index: Any, i: int, m: int) -> int:
    """The index at i, by constants that fold."""
    return te.const(0, "int32").value + index(te.const(i, "int32"), te.const(m, "int32")).value


def test_what_certainly_leaves_whatever_the_symbol_is_refused() -> None:
    n = te.var("n")
    D = te.placeholder((n,), name="D")
    B = te.compute((n,), lambda i: D[i + 1], name="B")
    with pytest.raises(IndexOutOfRange, match="index 0, `i \\+ 1`, runs from 1 to n; dimension 0 of D"):
        tw.lower(te.create_schedule(B.op), [D, B])


def test_an_exported_entry_tries_too(tmp_path: Any) -> None:
    s, args = symbolic(lambda i, m: i + 1)
    tw.build(s, args).export(str(tmp_path / "libshift.so"))
    f = tw.load(str(tmp_path / "libshift.so"))
    b = np.zeros(4, "float32")
    f(np.ones(4, "float32"), np.arange(5, dtype="float32"), b)
    assert b.tolist() == [2, 3, 4, 5]
    with pytest.raises(KernelAssertion, match="B reads outside E"):
        f(np.ones(4, "float32"), np.arange(4, dtype="float32"), b)


# What is needed


def shifted() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((8,), name="A")
    B = te.compute((10,), lambda i: A[i - 1] * 2, name="B")
    return A, B, te.compute((8,), lambda i: B[i + 1] + 1, name="C")


SCHEDULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "root": lambda s, B, C: None,
    "inline": lambda s, B, C: s[B].compute_inline(),
    "at": lambda s, B, C: s[B].compute_at(s[C], C.op.axis[0]),
    "a tile that does not divide": lambda s, B, C: s[B].compute_at(s[C], s[C].split(C.op.axis[0], 3)[0]),
    "a tile of B itself": lambda s, B, C: s[B].vectorize(s[B].split(B.op.axis[0], 4)[1]),
    "a vector": lambda s, B, C: s[B].vectorize(B.op.axis[0]),
    "cached": lambda s, B, C: s.cache_write(B, "local"),
    "cached in tiles": lambda s, B, C: s[s.cache_write(B, "local")].compute_at(s[B], s[B].split(B.op.axis[0], 3)[0]),
    "a layout": lambda s, B, C: s[B].transform_layout(lambda i: (i // 4, i % 4)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", drawn.part(SCHEDULES, 4))
def test_what_nobody_needs_need_not_be_readable(schedule: str, target: str) -> None:
    """B[0] and B[9] would read A[-1] and A[8]; C needs neither. The interpreter refuses every read outside."""
    A, B, C = shifted()
    s = te.create_schedule(C.op)
    SCHEDULES[schedule](s, B, C)
    a, c = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    tw.build(s, [A, C], target=target)(a, c)
    np.testing.assert_array_equal(c, a * 2 + 1)


def test_what_the_caller_wants_is_needed() -> None:
    A, B, C = shifted()
    with pytest.raises(IndexOutOfRange, match="B reads outside A"):
        tw.lower(te.create_schedule(C.op), [A, B, C])


@pytest.mark.parametrize("target", TARGETS)
def test_a_condition_tells_what_is_needed(target: str) -> None:
    A = te.placeholder((5,), name="A")
    B = te.compute((10,), lambda i: A[i] + 1, name="B")
    k = te.reduce_axis((0, 10), "k")
    a = np.arange(5, dtype="float32")
    for C, wanted in [
        (te.compute((10,), lambda i: te.if_then_else(i < 5, B[i], 0.0), name="C"), [1, 2, 3, 4, 5, 0, 0, 0, 0, 0]),
        (te.compute((10,), lambda i: te.select(i >= 5, 0.0, B[i]), name="C"), [1, 2, 3, 4, 5, 0, 0, 0, 0, 0]),
        (
            te.compute((10,), lambda i: te.select(te.all(i < 5, B[i] > 2), 1.0, 0.0), name="C"),
            [0, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        ),
        (
            te.compute((10,), lambda i: te.select(te.any(i > 4, B[i] > 2), 1.0, 0.0), name="C"),
            [0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        ),
        (te.compute((1,), lambda _: te.sum(B[k], axis=k, where=k < 5), name="C"), [15]),
    ]:
        c = np.zeros(len(wanted), "float32")
        tw.build(te.create_schedule(C.op), [A, C], target=target)(a, c)
        assert c.tolist() == wanted


def test_a_condition_on_data_may_hold() -> None:
    X, A = te.placeholder((8,), "int32", "X"), te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: te.if_then_else(X[i] > 0, A[i + 1], 0.0), name="B")
    with pytest.raises(IndexOutOfRange, match="leaves it at i = 7"):
        tw.lower(te.create_schedule(B.op), [X, A, B])
    guarded = te.compute((8,), lambda i: te.if_then_else(te.all(X[i] > 0, i < 7), A[i + 1], 0.0), name="B")
    assert "assert" not in str(tw.lower(te.create_schedule(guarded.op), [X, A, guarded]))


@pytest.mark.parametrize("target", TARGETS)
def test_earlier_steps_of_an_input_in_a_scan(target: str) -> None:
    X, state = te.placeholder((6, 3), name="X"), te.placeholder((6, 3), name="state")
    first = te.compute((1, 3), lambda _, i: X[0, i], name="first")
    step = te.compute((6, 3), lambda t, i: state[t - 1, i] + X[t - 1, i], name="step")
    S = te.scan(first, step, state, inputs=[X], name="S")
    x, found = np.random.default_rng(1).random((6, 3), "float32"), np.zeros((6, 3), "float32")
    tw.build(te.create_schedule(S.op), [X, S], target=target)(x, found)
    wanted = x.copy()
    for t in range(1, 6):
        wanted[t] = wanted[t - 1] + x[t - 1]
    np.testing.assert_array_equal(found, wanted)


# Hybrid scripts


@te.hybrid.script
def squares(a):
    o = output_tensor((8,), "float32")  # noqa: F821
    for i in range(a.shape[0]):
        o[i * i] = a[i]
    return o


@te.hybrid.script
def following(a):
    o = output_tensor((a.shape[0],), "float32")  # noqa: F821
    for i in range(a.shape[0]):
        o[i] = a[i + 1]
    return o


@te.hybrid.script
def previous(a):
    o = output_tensor((a.shape[0],), "float32")  # noqa: F821
    for i in range(a.shape[0]):
        if i > 0 and a[i - 1] > 0:
            o[i] = a[i - 1]
    return o


def test_scripts_neither_read_nor_write_outside() -> None:
    A, short = te.placeholder((8,), name="A"), te.placeholder((3,), name="short")
    for script, what in ((squares, "squares writes outside o"), (following, "following reads outside A")):
        B = script(A)
        with pytest.raises(IndexOutOfRange, match=f"TW0114: {what}"):
            tw.lower(te.create_schedule(B.op), [A, B])
    for tensor, B in ((short, squares(short)), (A, previous(A))):
        assert "assert" not in str(tw.lower(te.create_schedule(B.op), [tensor, B]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_script_of_any_size_is_tried_at_the_call(target: str) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = squares(A)
    f = tw.build(te.create_schedule(B.op), [A, B], target=target)
    o = np.ones(8, "float32")
    f(np.array([5, 6, 7], "float32"), o)
    assert o.tolist() == [5, 6, 0, 0, 7, 0, 0, 0]
    with pytest.raises(tw.TilewrightError, match="squares writes outside o"):
        f(np.zeros(4, "float32"), o)
