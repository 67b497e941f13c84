"""The region of a stage that is read at indices which are clamped, mirrored or wrapped around is the window that is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te

CLAMPS: dict[str, Callable[[Any, Any], Any]] = {
    "max of min": lambda i, n: te.max(te.min(i, n - 1), 0),
    "min of max": lambda i, n: te.min(te.max(i, 0), n - 1),
    "select, low end first": lambda i, n: te.select(i < 0, 0, te.select(i > n - 1, n - 1, i)),
    "select, high end first": lambda i, n: te.select(i >= n, n - 1, te.select(i < 0, 0, i)),
    "if_then_else": lambda i, n: te.if_then_else(i < n, te.if_then_else(i >= 0, i, 0), n - 1),
    "max of select": lambda i, n: te.max(te.select(i < n, i, n - 1), 0),
    "select of min": lambda i, n: te.select(i > 0, te.min(i, n - 1), 0),
}


def chain(n: Any, m: Any, at: Callable[[te.Tensor], Callable[[Any, Any], Any]], stages: int = 3) -> list[te.Tensor]:
    """Stencils of the element itself and its four neighbours, each over the one before."""
    tensors = [te.placeholder((n, m), "int32", name="A")]
    for number in range(stages):
        T, read = tensors[-1], at(tensors[-1])
        tensors.append(
            te.compute(
                (n, m),
                lambda i, j, T=T, read=read: (
                    T[i, j] + read(i - 1, j) + read(i + 1, j) * 2 + read(i, j - 1) * 3 + read(i, j + 1) * 5
                ),
                name=f"S{number}",
            )
        )
    return tensors


def tiled(tensors: list[te.Tensor]) -> te.Schedule:
    """Tiles of 8 by 16 of the last stage, the others computed for each."""
    last = tensors[-1]
    s = te.create_schedule(last.op)
    _, column, _, _ = s[last].tile(*last.op.axis, 8, 16)
    for tensor in tensors[1:-1]:
        s[tensor].compute_at(s[last], column)
    return s


def storage(s: te.Schedule, tensors: list[te.Tensor]) -> list[str]:
    return re.findall(r"S\d: int32\[(.*)\]\n", str(tw.lower(s, [tensors[0], tensors[-1]])))


def stencil(a: np.ndarray, mode: str) -> np.ndarray:
    p = np.pad(a, 1, mode=mode)  # type: ignore[call-overload]
    return a + p[:-2, 1:-1] + p[2:, 1:-1] * 2 + p[1:-1, :-2] * 3 + p[1:-1, 2:] * 5


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("form", drawn.part(CLAMPS, 3))
def test_chains_of_clamped_stencils_keep_windows(form: str, symbolic: bool) -> None:
    clamp = CLAMPS[form]
    n, m = (te.size_var("n"), te.size_var("m")) if symbolic else (37, 65)
    tensors = chain(n, m, lambda T: lambda i, j: T[clamp(i, n), clamp(j, m)])
    s = tiled(tensors)
    assert storage(s, tensors) == ["12, 20", "10, 18"]
    if form not in ("max of min", "select, low end first"):
        return
    f = tw.build(s, [tensors[0], tensors[-1]], bounds_check=True)
    for shape in ((37, 65), (1, 1), (9, 2)) if symbolic else ((37, 65),):
        a = np.arange(shape[0] * shape[1], dtype="int32").reshape(shape) % 101
        out = np.empty_like(a)
        f(a, out)
        np.testing.assert_array_equal(out, stencil(stencil(stencil(a, "edge"), "edge"), "edge"))


@pytest.mark.parametrize("name", ["clamped", "mirrored", "wrapped"])
def test_continued_tensors_of_unknown_extents(name: str) -> None:
    tensors = chain(te.size_var("n"), te.size_var("m"), getattr(te, name))
    s = tiled(tensors)
    assert storage(s, tensors) == ["12, 20", "10, 18"]
    assert "assert" not in str(tw.lower(s, [tensors[0], tensors[-1]])), (
        "that indices stay inside is proved, not tried out"
    )


WRAPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "%": lambda i, k, n: (i + k) % n,
    "indexmod": lambda i, k, n: te.indexmod(i + k, n),
    "plus the extent": lambda i, k, n: te.indexmod(i + n + k, n),
    "twice": lambda i, k, n: ((i + k) % n + n) % n,
    "select": lambda i, k, n: te.select(te.all(i + k >= 0, i + k < n), i + k, (i + k) % n),
}


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("form", drawn.part(WRAPS, 3))
def test_windows_that_go_around_stay_windows(form: str, symbolic: bool) -> None:
    """Of dimensions that are shorter than the window, too, and of stages and copies of what is given."""
    n = te.size_var("n") if symbolic else 37
    at = WRAPS[form]
    A = te.placeholder((n,), "int32", name="A")
    S0 = te.compute((n,), lambda i: A[i] * 3, name="S0")
    S1 = te.compute((n,), lambda i: S0[at(i, -1, n)] + S0[i] + S0[at(i, 2, n)], name="S1")
    S2 = te.compute((n,), lambda i: S1[at(i, -3, n)] - S1[at(i, 1, n)], name="S2")
    s = te.create_schedule(S2.op)
    outer, inner = s[S2].split(S2.op.axis[0], 8)
    copy = s.cache_read(A, "local", [S0])
    for stage in (S1, S0, copy):
        s[stage].compute_at(s[S2], outer)
    s[S1].vectorize(S1.op.axis[0])
    s[S2].vectorize(inner)
    s[S2].parallel(outer)
    text = str(tw.lower(s, [A, S2]))
    assert re.findall(r"(?:S\d|A.local): (?:local )?int32\[(.*)\]\n", text) == ["15", "15", "12"]
    assert "assert" not in text
    f = tw.build(s, [A, S2], bounds_check=True)
    for length in (37, 1, 2, 8, 9) if symbolic else (37,):
        a = np.arange(length, dtype="int32") % 29
        b = 3 * a
        b = np.roll(b, 1) + b + np.roll(b, -2)
        out = np.empty_like(a)
        f(a, out)
        np.testing.assert_array_equal(out, np.roll(b, 3) - np.roll(b, -1))


def test_a_wrapped_window_of_an_unknown_offset() -> None:
    n, k = te.size_var("n"), te.var("k")
    A = te.placeholder((n,), "int32", name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="S1")
    C = te.compute((n,), lambda i: B[(i + k) % n], name="S2")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 4)[0])
    assert re.findall(r"S1: int32\[(.*)\]\n", str(tw.lower(s, [A, k, C]))) == ["4"]
    f = tw.build(s, [A, k, C])
    a, out = np.arange(11, dtype="int32"), np.empty(11, "int32")
    for by in (0, 3, -1, 11, 1000, -1000):
        f(a, by, out)
        np.testing.assert_array_equal(out, np.roll(a, -by) + 1)


def test_what_an_empty_dimension_wraps_is_not_read() -> None:
    """Its window has elements, but the dimension has none: where nothing reads it, nothing is computed of it."""
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((9,), lambda i: te.if_then_else(i < n, B[(i + 1) % n], 7.0), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 4)[0])
    f = tw.build(s, [A, C], bounds_check=True)
    out = np.zeros(9, "float32")
    f(np.empty(0, "float32"), out)
    assert (out == 7).all()
    f(np.arange(3, dtype="float32"), out)
    assert out.tolist() == [2, 3, 1, 7, 7, 7, 7, 7, 7]


def test_a_dimension_that_may_be_empty_is_looked_at_once() -> None:
    """Another extent than that of the dimension: a call is refused at once, not after trying out its indices."""
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n,), name="A")
    for continued in (te.wrapped, te.mirrored, te.clamped):
        E = continued(A)
        B = te.compute((m,), lambda i, E=E: E[i - 1] + E[i + 2], name="B")
        text = str(tw.lower(te.create_schedule(B.op), [A, B]))
        assert re.search(r"if (.*):\n +(?:if .*:\n +)?for i: int64", text), text
        f = tw.build(te.create_schedule(B.op), [A, B])
        f(np.empty(0, "float32"), np.empty(0, "float32"))
        with pytest.raises(tw.CallError, match="B reads outside A"):
            f(np.empty(0, "float32"), np.empty(3, "float32"))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "name, mode",
    drawn.part(
        [
            ("clamped", "edge"),
            ("mirrored", "symmetric"),
            ("padded", "constant"),
            ("wrapped", "wrap"),
        ],
        2,
    ),
)
def test_windows_of_rows_roll(name: str, mode: str, symbolic: bool) -> None:
    """The window stops at the ends of the dimension: what it did not move by is computed again, into the same place."""
    n, m = (te.size_var("n"), te.size_var("m")) if symbolic else (33, 7)
    continued = (lambda T: te.padded(T, 0)) if name == "padded" else getattr(te, name)
    A, B, C = chain(n, m, continued, 2)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    assert storage(s, [A, B, C])[0].startswith("3, ")
    f = tw.build(s, [A, C])
    for shape in ((33, 7), (1, 1), (2, 3)) if symbolic else ((33, 7),):
        a = np.arange(shape[0] * shape[1], dtype="int32").reshape(shape) % 29
        out = np.empty_like(a)
        f(a, out)
        np.testing.assert_array_equal(out, stencil(stencil(a, mode), mode))
