"""Recurrences, hybrid scripts, and products that tensor intrinsics compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.arguments import to_list
from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, exact_sum, small
from .scripts import SCRIPTS, row_sums
from .terms import DTYPES, NUMBERS, Size, Source, numpy_type, where

__all__ = ["draw_hybrid", "draw_product", "draw_scan"]


def draw_scan(choices: Choices) -> Program:
    """A recurrence over time, of one state or two, some with a stage on the way or a reduction over the state, some read by a
    stage behind."""
    draw = Draw(choices, "scan")
    time, width = Size((n := draw.number(1, 7)), n), draw.size(17, 0.2)
    dtype = draw.pick(DTYPES)
    x = draw.source((time, width), dtype, small(draw, (time.value, width.value), dtype))
    states = [te.placeholder((time.te, width.te), dtype, f"state{at}") for at in range(draw.number(1, 2))]
    backwards, on_the_way, reducing = draw.chance(0.3), draw.chance(0.4), draw.chance(0.3)
    last: Any = width.te - 1

    def joined(a: Any, b: Any) -> Any:
        return te.any(a, b) if dtype == "bool" else te.max(a, b)

    def previous(t: Any, i: Any) -> Any:
        return states[0][t - 1, last - i if backwards else i]

    seen = None
    if on_the_way and not reducing:
        seen = te.compute((time.te, width.te), lambda t, i: joined(previous(t, i), x.tensor[t, i]), "W")

    def step(t: Any, i: Any) -> Any:
        if reducing:  # of all elements of the last step
            k = te.reduce_axis((0, width.te), "k")
            return te.max(te.if_then_else((k + i) % 2 == 0, states[0][t - 1, k], x.tensor[t, i]), axis=k)
        return seen[t, i] if seen is not None else joined(previous(t, i), x.tensor[t, i])

    first = [te.compute((1, width.te), lambda _, i: x.tensor[0, i], f"I{at}") for at in range(len(states))]
    following = [te.compute((time.te, width.te), step, "U0")]
    if len(states) > 1:
        following.append(
            te.compute((time.te, width.te), lambda t, i: joined(states[1][t - 1, i], states[0][t - 1, i]), "U1")
        )
    states_after = te.scan(first, following, states, inputs=[x.tensor], name="S")
    expected = [np.array(x.array) for _ in states]
    join = np.logical_or if dtype == "bool" else np.maximum
    for t in range(1, time.value):
        before = expected[0][t - 1]
        if reducing and width.value:
            even = np.add.outer(np.arange(width.value), np.arange(width.value)) % 2 == 0
            expected[0][t] = where(even, before, x.array[t][:, None]).max(axis=1)
        else:
            expected[0][t] = join(before[::-1] if backwards else before, x.array[t])
        if len(states) > 1:
            expected[1][t] = join(expected[1][t - 1], before)
    results = to_list(states_after)
    if draw.chance(0.4):
        whole = results[-1]
        results[-1] = te.compute((time.te, width.te), lambda t, i: joined(whole[t, i], x.tensor[t, i]), "R")
        expected[-1] = join(expected[-1], x.array)
        results, expected = results[-1:], expected[-1:]
    for tensor, values in zip(results, expected, strict=True):
        draw.program.result(tensor, values)
    return draw.finish()


def draw_hybrid(choices: Choices) -> Program:
    """A script of loops, ifs and assignments, some between stages of expressions."""
    draw = Draw(choices, "hybrid")
    n, m = draw.size(13), draw.size(9)
    script = draw.pick(SCRIPTS)
    dtype = draw.pick(NUMBERS)
    sums = script is row_sums  # lanes may add them in any order
    a, b = (draw.source((size,), dtype, small(draw, (size.value,), dtype) if sums else None) for size in (n, m))
    left: Any = a.tensor
    if draw.chance(0.3):
        left = te.compute((n.te,), lambda i: te.max(a.tensor[i], te.const(0, dtype)), "D")
    x = np.maximum(a.array, np.zeros((), a.array.dtype)) if left is not a.tensor else a.array
    result = script(left, b.tensor)
    expected = np.asarray(script(x, b.array)).astype(numpy_type(dtype))
    if draw.chance(0.3):
        inner = result
        result = te.compute((n.te, m.te), lambda i, j: te.min(inner[i, j], b.tensor[j]), "E")
        expected = np.minimum(expected, b.array)
    draw.program.result(result, expected)
    return draw.finish()


def draw_product(choices: Choices) -> Program:
    """A product of packed matrices, in tiles that a microkernel computes where tensorize asks for it."""
    draw = Draw(choices, "product")
    rows, columns, depth = draw.number(1, 3), draw.number(1, 3), draw.pick([1, 2, 3, 4, 8])
    dtype = draw.pick(NUMBERS)

    def packed(count: int) -> Source:
        shape = (count, depth, 4)
        return draw.source(tuple(Size(size, size) for size in shape), dtype, small(draw, shape, dtype))

    p, q = packed(rows), packed(columns)
    r = te.reduce_axis((0, depth), "r")
    result = te.compute(
        (rows, columns, 4, 4), lambda io, jo, ii, ji: te.sum(p.tensor[io, r, ii] * q.tensor[jo, r, ji], axis=r), "T"
    )
    expected = np.einsum("irx,jry->ijxy", exact_sum(p.array, dtype), exact_sum(q.array, dtype)).astype(
        numpy_type(dtype)
    )
    if draw.chance(0.5):
        tile = result
        result = te.compute((rows * 4, columns * 4), lambda i, j: tile[i // 4, j // 4, i % 4, j % 4], "C")
        expected = expected.transpose(0, 2, 1, 3).reshape(rows * 4, columns * 4)
    draw.program.result(result, expected)
    return draw.finish()
