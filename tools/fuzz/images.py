"""Stencils, layouts and gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...te import polymorphic as te
from .chains import fold
from .choices import Choices
from .program import Draw, Program, exact_sum, product_types
from .terms import DTYPES, INTEGERS, Size, numpy_type

__all__ = ["draw_blur", "draw_gather", "draw_layout"]


def draw_blur(choices: Choices) -> Program:
    """A separable stencil over a border that is clamped or padded; bytes in 16-bit fixed point, or floats."""
    draw = Draw(choices, "blur")
    symbolic = 0.5 if draw.chance(0.25) else 0.0
    h, w, radius = draw.size(17, symbolic), draw.size(33, symbolic), draw.number(1, 2)
    if not h.value or not w.value:
        h, w = Size(3, 3), Size(5, 5)
    dtype, wide = ("uint8", "uint16") if draw.chance(0.2) else product_types(draw)
    radius = 1 if "bfloat16" in (dtype, wide) else radius
    a = draw.source((h, w), dtype)
    x = exact_sum(a.array, wide)
    clamped, choose = draw.chance(0.5), te.select if draw.chance(0.5) else te.if_then_else
    weights = [1 if wide == "bfloat16" else draw.number(1, 3) for _ in range(2 * radius + 1)]

    def pixel(i: Any, j: Any) -> Any:
        y, z = i - radius, j - radius
        if clamped:
            return a.tensor[te.max(te.min(y, h.te - 1), 0), te.max(te.min(z, w.te - 1), 0)].astype(wide)
        return choose(te.all(y >= 0, y < h.te, z >= 0, z < w.te), a.tensor[y, z].astype(wide), te.const(0, wide))

    p = te.compute((h.te + 2 * radius, w.te + 2 * radius), pixel, "P")
    padded = np.pad(x, radius, mode="edge") if clamped else np.pad(x, radius)
    if draw.chance(0.5):
        across = te.compute(
            (h.te + 2 * radius, w.te),
            lambda i, j: sum(
                (p[i, j + t] * te.const(weights[t], wide) for t in range(1, len(weights))),
                p[i, j] * te.const(weights[0], wide),
            ),
            "X",
        )
        down = te.compute(
            (h.te, w.te),
            lambda i, j: sum(
                (across[i + t, j] * te.const(weights[t], wide) for t in range(1, len(weights))),
                across[i, j] * te.const(weights[0], wide),
            ),
            "Y",
        )
    else:
        table = draw.source(
            (Size(len(weights), len(weights)),), wide, np.array(weights).astype(numpy_type(wide))
        ).tensor
        r, t = te.reduce_axis((0, len(weights)), "r"), te.reduce_axis((0, len(weights)), "t")
        across = te.compute((h.te + 2 * radius, w.te), lambda i, j: te.sum(p[i, j + r] * table[r], axis=r), "X")
        down = te.compute((h.te, w.te), lambda i, j: te.sum(across[i + t, j] * table[t], axis=t), "Y")
    row: Any = sum(padded[:, t : t + w.value] * np.asarray(weights[t]).astype(x.dtype) for t in range(len(weights)))
    expected = sum(row[t : t + h.value] * np.asarray(weights[t]).astype(x.dtype) for t in range(len(weights)))
    expected = np.asarray(expected).astype(numpy_type(wide))
    if wide in INTEGERS and draw.chance(0.7):
        down_wide, shift = down, draw.number(1, 4)
        down = te.compute((h.te, w.te), lambda i, j: (down_wide[i, j] >> shift).astype(dtype), "Z")
        expected = (expected >> np.asarray(shift).astype(wide)).astype(dtype)
    draw.program.result(down, expected)
    return draw.finish()


def draw_layout(choices: Choices) -> Program:
    """Reshapes, transposes, blocked layouts, concatenation and slices."""
    draw = Draw(choices, "layout")
    m, n, block = draw.number(1, 9), draw.pick([1, 2, 3, 4, 7, 8, 16]), draw.pick([1, 2, 4, 8])
    a = draw.source((Size(m * block, m * block), Size(n, n)), draw.pick(DTYPES))
    x, t = a.array, a.tensor

    def changed(value: Any) -> Any:
        return ~value if a.dtype == "bool" else value + te.const(1, a.dtype)

    flat = te.compute((m * block * n,), lambda i: changed(t[i // n, i % n]), "F")
    f = ~x.reshape(-1) if a.dtype == "bool" else x.reshape(-1) + np.asarray(1).astype(x.dtype)
    how = draw.number(0, 3)
    how = 0 if how == 2 and a.dtype == "bool" else how
    if how == 0:
        o = te.compute((m, n, block), lambda i, j, b: flat[(i * block + b) * n + j], "O")
        expected = f.reshape(m, block, n).transpose(0, 2, 1)
    elif how == 1:
        total = m * block * n
        o = te.compute(
            (2 * total,), lambda i: te.if_then_else(i < total, flat[i % total], flat[2 * total - 1 - i]), "O"
        )
        expected = np.concatenate([f, f[::-1]])
    elif how == 2:
        step = draw.number(1, 3)
        length = -(-m * block * n // step)
        o = te.compute((length,), lambda i: flat[i * step] - flat[m * block * n - 1 - i * step], "O")
        expected = f[::step] - f[::-1][::step]
    else:
        g = te.compute((n, m * block), lambda i, j: flat[j * n + i], "G")
        o = te.compute((m * block, n), lambda i, j: g[j, m * block - 1 - i], "O")
        expected = f.reshape(m * block, n)[::-1]
    draw.program.result(o, np.ascontiguousarray(expected))
    return draw.finish()


def draw_gather(choices: Choices) -> Program:
    """Rows taken by an index tensor, then used by a reduction or an elementwise stage."""
    draw = Draw(choices, "gather")
    rows, n, m = draw.number(1, 17), draw.size(17, 0.2), draw.size(17, 0.2)
    dtype = draw.pick(DTYPES)
    table = draw.source((Size(rows, rows), n), dtype)
    kind = draw.pick(["int32", "int64", "uint8", "int8"])
    at = draw.source((m,), kind, choices.contents().integers(0, rows, m.value).astype(kind))
    double = te.compute(
        (rows, n.te),
        lambda i, j: ~table.tensor[i, j] if dtype == "bool" else table.tensor[i, j] * te.const(2, dtype),
        "D",
    )
    taken = te.compute((m.te, n.te), lambda i, j: double[at.tensor[i], j], "G")
    doubled = ~table.array if dtype == "bool" else table.array * np.asarray(2).astype(table.array.dtype)
    expected = doubled[at.array.astype("int64")]
    if draw.chance(0.5) and dtype != "bool":
        k = te.reduce_axis((0, m.te), "k")
        o = te.compute((n.te,), lambda j: te.sum(taken[k, j], axis=k), "O")
        taken, expected = o, fold("sum", np.moveaxis(expected, 0, -1), 1, 0)
    draw.program.result(taken, expected)
    return draw.finish()
