"""Normalisations and running reductions along any axes of a tensor, in any of its dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from .chains import UFUNC
from .choices import Choices
from .program import Draw, Program, exactly, small
from .terms import EPSILON, NUMBERS, Size, numpy_type

__all__ = ["draw_norm", "draw_running"]


def _along(draw: Draw, rank: int, most: int) -> tuple[list[int], list[int]]:
    """A shape, and one or two of its axes."""
    shape = [draw.length(17) or 1 for _ in range(rank)]
    axes = sorted(draw.choices.some(range(rank), most))
    for axis in axes:
        shape[axis] = draw.length(65) or 1
    for at in range(rank):
        while np.prod(shape) > 4000 and shape[at] > 3:
            shape[at] //= 2
    return shape, axes


def draw_norm(choices: Choices) -> Program:
    """Softmax, log of a sum of exponentials, variance, layer norm with what it is scaled by, norms of vectors: of what another stage
    computes, now and then, and with a stage behind."""
    draw = Draw(choices, "norm")
    rank = draw.number(1, 4)
    shape, axes = _along(draw, rank, 1 if rank == 1 or draw.chance(0.7) else 2)
    dtype = draw.pick(["float32", "float32", "float32", "float64", "float16", "bfloat16"])
    array = choices.contents().standard_normal(shape).astype(numpy_type(dtype))
    x = draw.source(tuple(Size(extent, extent) for extent in shape), dtype, array).tensor
    y = array.astype("float64")
    rest = [at for at in range(rank) if at not in axes]
    count = int(np.prod([shape[axis] for axis in axes]))

    def without(at: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(at[place] for place in rest)

    def reduced(how: Callable[..., Any], element: Callable[..., Any]) -> Any:
        inner = [te.reduce_axis((0, shape[axis]), draw.name("k")) for axis in axes]

        def value(*outer: Any) -> Any:
            at = dict(zip(rest, outer, strict=True)) | dict(zip(axes, inner, strict=True))
            return how(element(*(at[place] for place in range(rank))), axis=inner)

        return te.compute([shape[place] for place in rest], value, draw.name("R"))

    def one(value: float) -> Any:
        return te.const(value, dtype)

    if draw.chance(0.3):  # what another stage computes
        before, other = x, draw.source(tuple(Size(extent, extent) for extent in shape), dtype, array[..., ::-1].copy()).tensor
        x = te.compute(shape, lambda *at: before[at] * one(0.5) + other[at] * one(0.25), "P")
        y = y * 0.5 + y[..., ::-1] * 0.25
    over = tuple(axes)
    kind = draw.pick(["softmax", "layer norm", "variance", "log-sum-exp", "l2"])
    if kind in ("softmax", "log-sum-exp"):
        most = reduced(te.max, lambda *at: x[at])
        raised = te.compute(shape, lambda *at: te.exp(x[at] - most[without(at)]), "E")
        total = reduced(te.sum, lambda *at: raised[at])
        powers = np.exp(y - y.max(over, keepdims=True))
        if kind == "softmax":
            result, expected = te.compute(shape, lambda *at: raised[at] / total[without(at)], "O"), powers / powers.sum(
                over, keepdims=True)
        else:
            result = te.compute(total.shape, lambda *at: te.log(total[at]) + most[at], "O")
            expected = np.log(powers.sum(over)) + y.max(over)
    elif kind == "l2":
        total = reduced(te.sum, lambda *at: x[at] * x[at])
        result = te.compute(shape, lambda *at: x[at] * te.rsqrt(total[without(at)] + one(1.0)), "O")
        expected = y / np.sqrt((y * y).sum(over, keepdims=True) + 1)
    else:
        mean = te.compute([shape[at] for at in rest], lambda *at, total=reduced(te.sum, lambda *at: x[at]):
                          total[at] * one(1 / count), "M")
        squares = reduced(te.sum, lambda *at: (x[at] - mean[without(at)]) * (x[at] - mean[without(at)]))
        apart = y - y.mean(over, keepdims=True)
        spread = (apart * apart).mean(over, keepdims=True)
        if kind == "variance":
            result, expected = te.compute(squares.shape, lambda *at: squares[at] * one(1 / count), "V"), spread.reshape(
                [shape[at] for at in rest])
        else:
            result = te.compute(shape, lambda *at: (x[at] - mean[without(at)])
                                * te.rsqrt(squares[without(at)] * one(1 / count) + one(1.0)), "O")
            expected = apart / np.sqrt(spread + 1)
    if draw.chance(0.3):
        behind = result
        result = te.compute(behind.shape, lambda *at: te.max(behind[at] * one(0.5), one(0.0)), "Z")
        expected = np.maximum(expected * 0.5, 0)
    draw.program.result(result, np.asarray(expected).astype(numpy_type(dtype)))
    return draw.finish(EPSILON[dtype] * 16 * (count + 8))


def draw_running(choices: Choices) -> Program:
    """Sums, products, greatest and least elements so far, along any axis from either end, and with a factor for what was before."""
    draw = Draw(choices, "running")
    rank = draw.number(1, 3)
    shape, (axis,) = _along(draw, rank, 1)
    dtype = draw.pick([*NUMBERS, "float32", "int32"])
    kind = draw.pick(["sum", "sum", "max", "min", "prod", "decayed"])
    if kind in ("sum", "decayed") and dtype in ("bfloat16", "float16"):
        kind = "max"
    array = small(draw, tuple(shape), dtype)
    if kind == "prod" and dtype in EPSILON:
        array = np.sign(array.astype("float64")).astype(array.dtype)
    x = draw.source(tuple(Size(extent, extent) for extent in shape), dtype, array).tensor
    count, others = shape[axis], shape[:axis] + shape[axis + 1:]
    backwards = draw.chance(0.3)
    state = te.placeholder((count, *others), dtype, "state")

    def element(t: Any, *rest: Any) -> Any:
        return x[(*rest[:axis], count - 1 - t if backwards else t, *rest[axis:])]

    joined: dict[str, Callable[[Any, Any], Any]] = {
        "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": te.max, "min": te.min,
        "decayed": lambda a, b: b - a}
    first = te.compute((1, *others), lambda _, *rest: element(0, *rest), "first")
    step = te.compute((count, *others), lambda t, *rest: joined[kind](state[(t - 1, *rest)], element(t, *rest)), "step")
    found: Any = te.scan(first, step, state, [x], name="S")
    values = np.moveaxis(exactly(array, dtype), axis, 0)
    values = values[::-1] if backwards else values
    if kind == "decayed":
        expected = np.array(values)
        for t in range(1, count):
            expected[t] = values[t] - expected[t - 1]
    else:
        expected = UFUNC[kind].accumulate(values, 0, dtype=values.dtype)
    how = draw.number(0, 2)
    if how == 0:  # back in the order of axes that it came in
        scanned = found
        found = te.compute(shape, lambda *at: scanned[(at[axis], *at[:axis], *at[axis + 1:])], "T")
        expected = np.moveaxis(expected, 0, axis)
    elif how == 1:  # the last state alone
        scanned = found
        found, expected = te.compute(others, lambda *at: scanned[(count - 1, *at)], "L"), expected[-1]
    draw.program.result(found, expected.astype(numpy_type(dtype)))
    return draw.finish()
