"""Tensors that a statement computes whole, as outside code does, among stages of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.builder import ir_builder
from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, small
from .terms import DTYPES, Size

__all__ = ["draw_extern"]


def draw_extern(choices: Choices) -> Program:
    """An extern of one output or two, some between stages that are computed elsewhere or read in parts."""
    draw = Draw(choices, "extern")
    symbolic = 0.4 if draw.chance(0.2) else 0.0
    n, m = draw.size(13, symbolic), draw.size(17, symbolic)
    dtype = draw.pick(DTYPES)
    a = draw.source((n, m), dtype, small(draw, (n.value, m.value), dtype))
    read, x = a.tensor, a.array
    if draw.chance(0.5):
        read, x = te.compute((n.te, m.te), lambda i, j: a.tensor[n.te - 1 - i, j], "B"), x[::-1]
    body, meant = draw.pick(_BODIES)
    several = draw.chance(0.3)
    shapes = [(n.te, m.te), (m.te,)][: 1 + several]
    strided = [_strided_buffer(read)] if draw.chance(0.4) else None
    result = te.extern(
        shapes if several else shapes[0], [read], lambda ins, outs: body(ins[0], outs, n, m), "E", dtype, strided
    )
    results: list[Any] = list(result) if several else [result]
    expected: list[Any] = [meant(x), x[0] if n.value else None][: 1 + several]
    if several and not n.value:  # then there is no first row
        expected[1] = np.zeros(m.value, x.dtype)
    if draw.chance(0.5):
        whole = results[0]
        results[0] = te.compute((m.te, n.te), lambda j, i: _combine_elements(whole[i, j], read[i, j], dtype), "R")
        expected[0] = _join(expected[0], x).T
        if several and draw.chance(0.5):
            row = results.pop()
            inner, held = results[0], expected.pop()
            results[0] = te.compute((m.te, n.te), lambda j, i: _combine_elements(inner[j, i], row[j], dtype), "Q")
            expected[0] = _join(expected[0], held[:, None])
    for tensor, values in zip(results, expected, strict=True):
        draw.program.result(tensor, np.ascontiguousarray(values))
    return draw.finish()


def _strided_buffer(tensor: Any) -> Any:
    """A buffer whose rows lie as far apart as whoever computes them says."""
    return te.decl_buffer(tensor.shape, tensor.dtype, "in", strides=[te.var("row"), 1])


def _combine_elements(a: Any, b: Any, dtype: str) -> Any:
    return te.any(a, b) if dtype == "bool" else te.max(a, b)


def _join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.logical_or(a, b) if a.dtype == bool else np.maximum(a, b)


def _accumulate(x: np.ndarray) -> np.ndarray:
    return (np.logical_or if x.dtype == bool else np.maximum).accumulate(x, 1)


def _first_row(ib: Any, given: Any, outs: Any, n: Size, m: Size) -> None:
    """The second output, where there is one: the first row, or zeros where there is none."""
    if len(outs) < 2:
        return
    with ib.for_range(0, m.te, "c") as c:
        ib.emit(outs[1].vstore([c], te.const(0, given.dtype)))
        with ib.if_scope(te.all(n.te > 0)):
            ib.emit(outs[1].vstore([c], given.vload([0, c])))


def _running(given: Any, outs: Any, n: Size, m: Size) -> Any:
    """Each row's greatest element so far."""
    ib = ir_builder()
    with ib.for_range(0, n.te, "r") as r, ib.for_range(0, m.te, "c") as c:
        with ib.if_scope(c.equal(0)):
            ib.emit(outs[0].vstore([r, c], given.vload([r, c])))
        with ib.else_scope():
            ib.emit(
                outs[0].vstore(
                    [r, c], _combine_elements(outs[0].vload([r, c - 1]), given.vload([r, c]), str(given.dtype))
                )
            )
    _first_row(ib, given, outs, n, m)
    return ib.get()


def _reverse_rows(given: Any, outs: Any, n: Size, m: Size) -> Any:
    """Each row backwards, on threads where it is worth that."""
    ib = ir_builder()
    with ib.for_range(0, n.te, "r", kind="parallel") as r, ib.for_range(0, m.te, "c") as c:
        ib.emit(outs[0].vstore([r, m.te - 1 - c], given.vload([r, c])))
    _first_row(ib, given, outs, n, m)
    return ib.get()


_BODIES: tuple[tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]], ...] = (
    (_running, _accumulate),
    (_reverse_rows, lambda x: x[:, ::-1]),
)
