"""The region of a stage that is read at indices which are clamped, mirrored or wrapped around is the window that is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir import expr as E
from tilewright.ir.arith.analyzer import simplify
from tilewright.ir.ops import const
from tilewright.ir.stmt import For
from tilewright.ir.visit import substitute, walk

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
        tensors.append(te.compute((n, m), lambda i, j, T=T, read=read: (
            T[i, j] + read(i - 1, j) + read(i + 1, j) * 2 + read(i, j - 1) * 3 + read(i, j + 1) * 5), name=f"S{number}"))
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
@pytest.mark.parametrize("form", CLAMPS)
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


@pytest.mark.parametrize("name, expected", [
    ("clamped", ["12, 20", "10, 18"]), ("mirrored", ["12, 20", "10, 18"]), ("wrapped", ["n, m", "n, m"]),
])
def test_continued_tensors_of_unknown_extents(name: str, expected: list[str]) -> None:
    """A dimension that is wrapped around is stored whole, since a tile at an edge reads both ends of it."""
    tensors = chain(te.size_var("n"), te.size_var("m"), getattr(te, name))
    assert storage(tiled(tensors), tensors) == expected


def test_a_wrapped_window_is_computed_alone_where_it_does_not_go_around() -> None:
    A, B, C = chain(37, 65, te.wrapped, 2)
    s = te.create_schedule(C.op)
    rows, _ = s[C].split(C.op.axis[0], 8)
    s[B].compute_at(s[C], rows)
    function = tw.lower(s, [A, C])
    outer = function.body
    assert isinstance(outer, For)
    inner = next(node for node in walk(outer.body) if isinstance(node, For))
    extents = [simplify(substitute(inner.extent, {outer.var: const(tile)})) for tile in range(5)]
    assert [extent.value for extent in extents if isinstance(extent, E.IntImm)] == [37, 10, 10, 10, 37]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name, mode", [("clamped", "edge"), ("mirrored", "symmetric"), ("padded", "constant")])
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


def test_a_window_that_goes_around_does_not_roll() -> None:
    A, B, C = chain(33, 7, te.wrapped, 2)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    with pytest.raises(tw.LoweringError, match="does not move by a constant step"):
        tw.lower(s, [A, C])
