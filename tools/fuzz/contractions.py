"""Sums of products of two tensors of any order: batches, several rows and columns, windows and strides, in any order of axes; of a
matrix with itself; and of several tensors, whose sums may be factored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, exact_sum, product_types, small
from .terms import FLOATS, INTEGERS, numpy_type

__all__ = ["draw_contraction", "draw_factors", "draw_itself"]

EXTENTS = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17)
MOST = 40_000
"""Multiplications of one program."""


def draw_contraction(choices: Choices) -> Program:
    """C[..] = sum of A[..] * B[..], with what follows element by element, and B behind a stage of its own, now and then."""
    draw = Draw(choices, "contraction")
    rows, columns, summed, shared = (
        list(letters[:count])
        for letters, count in zip(
            ("ab", "cde", "fg", "h"),
            (draw.number(1, 2), draw.number(1, 3), draw.number(1, 2), draw.number(0, 1)),
            strict=True,
        )
    )
    extents = {axis: draw.pick(EXTENTS) for axis in (*rows, *columns, *summed, *shared)}
    extents[columns[-1]], extents[rows[0]] = draw.pick((1, 5, 8, 13, 31, 33)), draw.pick((1, 6, 11, 40, 130))
    for axis in reversed(extents):
        while np.prod(list(extents.values())) > MOST and extents[axis] > 2:
            extents[axis] //= 2
    steps = {axis: draw.pick((1, 1, 2)) for axis in columns}
    windows = dict(zip(columns, summed, strict=False)) if draw.chance(0.3) else {}
    order = choices.permutation
    left = [[*rows, *summed, *shared][at] for at in order(len(rows) + len(summed) + len(shared))]
    inside = [axis for axis in (*columns, *summed, *shared) if axis not in windows.values()]
    right = [inside[at] for at in order(len(inside))]
    before = [*rows, *columns[:-1], *shared]
    result = [*(before[at] for at in order(len(before))), columns[-1]]
    dtype, wide = product_types(draw)
    a = draw.program.add_argument(
        te.placeholder([extents[axis] for axis in left], dtype, "A"),
        small(draw, tuple(extents[axis] for axis in left), dtype),
    )
    shape = tuple(
        (extents[axis] - 1) * steps[axis] + extents[windows[axis]] if axis in windows else extents[axis]
        for axis in right
    )
    b = source = draw.program.add_argument(te.placeholder(shape, dtype, "B"), small(draw, shape, dtype))
    x, y = (exact_sum(value, wide) for value in draw.program.values)
    if draw.chance(0.3):
        b = te.compute(shape, lambda *at: te.if_then_else(at[0] > 0, source[at], te.const(1, dtype)), "P")
        y[0] = 1
    reduced = {axis: te.reduce_axis((0, extents[axis]), axis) for axis in summed}

    def element(*at: Any) -> Any:
        index = dict(zip(result, at, strict=True)) | reduced
        places = [
            index[axis] * steps[axis] + index[windows[axis]] if axis in windows else index[axis] for axis in right
        ]
        return te.sum(
            a[tuple(index[axis] for axis in left)].astype(wide) * b[tuple(places)].astype(wide), list(reduced.values())
        )

    c = te.compute(tuple(extents[axis] for axis in result), element, "C")
    for place, axis in enumerate(right):  # windows as dimensions of their own, behind the others
        if axis in windows:
            y = np.lib.stride_tricks.sliding_window_view(y, extents[windows[axis]], place)
            y = y[(*[slice(None)] * place, slice(None, None, steps[axis]))]
    behind = [windows[axis] for axis in right if axis in windows]
    expected = np.einsum(f"{''.join(left)},{''.join([*right, *behind])}->{''.join(result)}", x, y).astype(
        numpy_type(wide)
    )
    if draw.chance(0.4):
        double = te.const(2, wide)
        c = te.compute(c.shape, lambda *at, sums=c: sums[at] * double, "D")
        expected = expected * np.asarray(2).astype(expected.dtype)
    draw.program.result(c, expected)
    return draw.finish()


def draw_itself(choices: Choices) -> Program:
    """C[i, j] = sum of A[i, k] * A[j, k], or of distances: the same on both sides of its diagonal, unless what follows is not."""
    draw = Draw(choices, "matmul")
    size, depth = draw.pick((1, 2, 5, 8, 13, 31, 33, 67)), draw.pick(EXTENTS)
    dtype, wide = product_types(draw)
    turned, distance = draw.chance(0.5), draw.chance(0.4) and wide in FLOATS
    shape = (depth, size) if turned else (size, depth)
    a = draw.program.add_argument(te.placeholder(shape, dtype, "A"), small(draw, shape, dtype))
    x = exact_sum(draw.program.values[0], wide)
    x = x.T if turned else x
    k = te.reduce_axis((0, depth), "k")

    def element(i: Any, j: Any) -> Any:
        one, other = (a[k, i], a[k, j]) if turned else (a[i, k], a[j, k])
        one, other = one.astype(wide), other.astype(wide)
        return te.sum(te.abs(one - other) if distance else one * other, k)

    c = te.compute((size, size), element, "C")
    expected = np.abs(x[:, None] - x[None]).sum(-1) if distance else np.einsum("ik,jk->ij", x, x)
    expected = expected.astype(numpy_type(wide))
    if draw.chance(0.4):
        ahead = draw.chance(0.5)  # then what follows differs on both sides
        c = te.compute(
            c.shape, lambda i, j, sums=c: sums[i, j] * (i > j if ahead else te.const(1, "bool")).astype(wide), "D"
        )
        expected = expected * np.asarray(np.tri(size, k=-1) if ahead else np.ones((size, size))).astype(expected.dtype)
    draw.program.result(c, expected)
    return draw.finish()


def draw_factors(choices: Choices) -> Program:
    """C[..] = sum of A[..] * B[..] * D[..] and so on, each factor over a few of the axes, some of them declared apart."""
    draw = Draw(choices, "matmul")
    letters = "abcdef"[: draw.number(3, 6)]
    extents = {axis: draw.pick(EXTENTS) for axis in letters}
    for axis in reversed(letters):
        while np.prod(list(extents.values())) > MOST and extents[axis] > 2:
            extents[axis] //= 2
    dtype = draw.pick([*INTEGERS, "float32", "float32", "float64"])
    factors: list[tuple[str, Any]] = []
    for at in range(draw.number(2, 4)):
        own = "".join(letters[place] for place in choices.permutation(len(letters))[: draw.number(0, 3)])
        shape = tuple(extents[axis] for axis in own)
        tensor = draw.program.add_argument(te.placeholder(shape, dtype, f"A{at}"), small(draw, shape, dtype))
        factors.append((own, tensor))
    met = sorted({axis for own, _ in factors for axis in own}) or [letters[0]]
    result = "".join(met[place] for place in choices.permutation(len(met))[: draw.number(0, min(3, len(met)))])
    reduced = {axis: te.reduce_axis((0, extents[axis]), axis) for axis in letters if axis not in result}
    arrays = [exact_sum(value, dtype) for value in draw.program.values]
    scaled = draw.chance(0.3)
    if scaled:  # a product of its own, read once
        own, first = factors[0]
        three = te.const(3, dtype)
        factors[0] = own, te.compute(first.shape, lambda *at: first[at] * three, "P")
        arrays[0] = arrays[0] * np.asarray(3).astype(arrays[0].dtype)

    def element(*at: Any) -> Any:
        index = dict(zip(result, at, strict=True)) | reduced
        values = [tensor[tuple(index[axis] for axis in own)] for own, tensor in factors]
        order = choices.permutation(len(values))
        value = values[order[0]]
        for place in order[1:]:
            value = value * values[place] if draw.chance(0.7) else values[place] * value
        return te.sum(value, list(reduced.values())) if reduced else value

    c = te.compute(tuple(extents[axis] for axis in result), element, "C")
    everywhere = [np.ones([extents[axis] for axis in letters], arrays[0].dtype)]
    terms = ",".join([*(own for own, _ in factors), letters])
    expected = np.einsum(f"{terms}->{result}", *arrays, *everywhere)
    draw.program.result(c, expected.astype(numpy_type(dtype)))
    return draw.finish()
