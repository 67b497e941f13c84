"""Programs over the rows of a matrix: normalisation, the greatest element, prefixes, several results at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...te import polymorphic as te
from .chains import IDENTITY, fold
from .choices import Choices
from .program import Draw, Program, exact_sum, small
from .terms import EPSILON, FLOATS, NUMBERS, Size, numpy_type

__all__ = ["draw_argmax", "draw_softmax", "draw_triangle", "draw_tuples"]


def draw_softmax(choices: Choices) -> Program:
    """Softmax or normalisation over rows: several stages that all reduce the same axis."""
    draw = Draw(choices, "softmax")
    symbolic = 0.5 if draw.chance(0.3) else 0.0
    m, n = draw.size(17, symbolic), draw.size(33, symbolic)
    dtype = draw.pick(["float32", "float32", "float64", "float16", "bfloat16"])
    x = choices.contents().standard_normal((m.value, n.value)).astype(numpy_type(dtype))
    a = draw.source((m, n), dtype, x).tensor
    k1, k2 = te.reduce_axis((0, n.te), "k1"), te.reduce_axis((0, n.te), "k2")
    y = x.astype("float64")
    if draw.chance(0.6):
        largest = te.compute((m.te,), lambda i: te.max(a[i, k1], axis=k1), "M")
        e = te.compute((m.te, n.te), lambda i, j: te.exp(a[i, j] - largest[i]), "E")
        total = te.compute((m.te,), lambda i: te.sum(e[i, k2], axis=k2), "S")
        o = te.compute((m.te, n.te), lambda i, j: e[i, j] / total[i], "O")
        e64 = np.exp(y - (y.max(1, keepdims=True) if n.value else 0))
        expected = e64 / e64.sum(1, keepdims=True)
    else:
        mean = te.compute((m.te,), lambda i: te.sum(a[i, k1], axis=k1), "M")
        scale = 1.0 / max(n.value, 1) if n.known else 0.125
        d = te.compute((m.te, n.te), lambda i, j: a[i, j] - mean[i] * te.const(scale, dtype), "D")
        v = te.compute((m.te,), lambda i: te.sum(d[i, k2] * d[i, k2], axis=k2), "V")
        o = te.compute((m.te, n.te), lambda i, j: d[i, j] / te.sqrt(v[i] + te.const(1.0, dtype)), "O")
        d64 = y - y.sum(1, keepdims=True) * float(np.asarray(scale).astype(numpy_type(dtype)))
        expected = d64 / np.sqrt((d64 * d64).sum(1, keepdims=True) + 1)
    draw.program.result(o, expected.astype(numpy_type(dtype)))
    return draw.finish(EPSILON[dtype] * 16 * (n.value + 8))


def draw_argmax(choices: Choices) -> Program:
    """Index and value of the greatest or least element, by a reducer over tuples."""
    draw = Draw(choices, "argmax")
    m, n = draw.size(17, 0.15), draw.size(33, 0.15)
    if n.known and n.value == 0:
        n = Size(1, 1)
    dtype, index = draw.pick(NUMBERS), draw.pick(["int32", "int64", "int32"])
    sign = draw.chance(0.5)
    x = np.asarray(small(draw, (m.value, n.value), dtype))
    a = draw.source((m, n), dtype, x).tensor
    worst = IDENTITY["max" if sign else "min"](dtype)
    no_index = np.iinfo(index).max

    def combine(x: Any, y: Any) -> Any:
        better = x[1] > y[1] if sign else x[1] < y[1]
        first = te.any(better, te.all(x[1].equal(y[1]), x[0] < y[0]))
        choose = te.select
        return choose(first, x[0], y[0]), choose(first, x[1], y[1])

    reducer = te.comm_reducer(combine, lambda t0, t1: (te.const(no_index, t0), te.const(worst, t1)), "best")
    k = te.reduce_axis((0, n.te), "k")
    at, value = te.compute((m.te,), lambda i: reducer((k.astype(index), a[i, k]), axis=k), "best")
    if n.value:
        places = (x.argmax(1) if sign else x.argmin(1)).astype(index)
        best = x.max(1) if sign else x.min(1)
    else:
        places, best = np.full(m.value, no_index, index), np.full(m.value, worst).astype(numpy_type(dtype))
    if draw.chance(0.4):
        o = te.compute((m.te,), lambda i: at[i] * te.const(2, index), "O")
        draw.program.result(o, (places * 2).astype(index))
    else:
        draw.program.result(at, places)
        draw.program.result(value, best)
    return draw.finish()


def draw_triangle(choices: Choices) -> Program:
    """Reductions whose extent depends on a data axis: prefix sums, triangular products."""
    draw = Draw(choices, "triangle")
    n, m = draw.size(17, 0.2), draw.number(1, 5)
    a = draw.source((n, Size(m, m)), draw.pick(NUMBERS))
    i_axis = {}

    def body(i: Any, j: Any) -> Any:
        i_axis["k"] = te.reduce_axis((0, i + 1), "k")
        return te.sum(a.tensor[i_axis["k"], j], axis=i_axis["k"])

    p = te.compute((n.te, m), body, "P")
    expected = np.cumsum(exact_sum(a.array, a.dtype), 0, dtype=None if a.dtype in FLOATS else a.dtype).astype(
        a.array.dtype
    )
    if draw.chance(0.5):
        o = te.compute((n.te, m), lambda i, j: p[i, j] * te.const(2, a.dtype) + a.tensor[i, j], "O")
        p, expected = o, expected * np.asarray(2).astype(a.array.dtype) + a.array
    draw.program.result(p, expected)
    return draw.finish()


def draw_tuples(choices: Choices) -> Program:
    """Several outputs of one operation, elementwise or reduced, and a scalar argument."""
    draw = Draw(choices, "tuples")
    m, n = draw.size(17, 0.2), draw.size(17, 0.2)
    dtype = draw.pick(NUMBERS)
    a = draw.source((m, n), dtype)
    factor = draw.pick([1, 0, 2, 3] if dtype.startswith("uint") else [1, 0, 2, 3, -1, -2, -3])
    scale: Any = te.const(factor, dtype)
    if dtype not in ("float16", "bfloat16"):  # no C type
        scale = te.var("scale", dtype)
        draw.program.add_argument(scale, float(factor) if dtype in FLOATS else factor)
    x = a.array
    with np.errstate(all="ignore"):
        scaled = x * np.asarray(factor).astype(x.dtype)
    t0, t1 = te.compute((m.te, n.te), lambda i, j: (a.tensor[i, j] * scale, a.tensor[i, j] > te.const(1, dtype)), "T")
    if draw.chance(0.4):
        draw.program.result(t0, scaled)
        draw.program.result(t1, x > 1)
        return draw.finish()
    k = te.reduce_axis((0, n.te), "k")
    least, total = te.compute(
        (m.te,),
        lambda i: (
            te.min(t0[i, k], axis=k),
            te.sum(te.if_then_else(t1[i, k], te.const(1, "int32"), te.const(0, "int32")), axis=k),
        ),
        "R",
    )
    lowest = fold("min", scaled, 1, np.asarray(IDENTITY["min"](dtype)).astype(x.dtype))
    if draw.chance(0.5):
        draw.program.result(least, lowest)
        draw.program.result(total, (x > 1).sum(1).astype("int32"))
    else:
        o = te.compute((m.te,), lambda i: least[i].astype("float64") + total[i].astype("float64"), "O")
        draw.program.result(o, lowest.astype("float64") + (x > 1).sum(1))
    return draw.finish()
