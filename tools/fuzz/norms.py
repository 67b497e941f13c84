"""Normalisations and running reductions along any axes of a tensor, in any of its dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...te import polymorphic as te
from .chains import UFUNC
from .choices import Choices
from .program import Draw, Program, exact_sum, small
from .terms import EPSILON, NUMBERS, Size, numpy_type

__all__ = ["draw_norm", "draw_running"]


def _draw_axes(draw: Draw, rank: int, most: int) -> tuple[list[int], list[int]]:
    """A shape, and one or two of its axes."""
    shape = [draw.length(17) or 1 for _ in range(rank)]
    axes = sorted(draw.choices.some(range(rank), most))
    for axis in axes:
        shape[axis] = draw.length(65) or 1
    for at in range(rank):
        while np.prod(shape) > 4000 and shape[at] > 3:
            shape[at] //= 2
    return shape, axes


class _Axes:
    """The axes that a normalisation is over. x: the tensor; y: what it holds, as float64."""

    def __init__(self, draw: Draw, x: Any, y: np.ndarray, over: Sequence[int]) -> None:
        self.draw, self.x, self.y, self.over = draw, x, y, tuple(over)
        self.rest = [at for at in range(y.ndim) if at not in over]
        self.count = int(np.prod([y.shape[axis] for axis in over]))

    def one(self, value: float) -> Any:
        return te.const(value, self.x.dtype)

    def without(self, at: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(at[place] for place in self.rest)

    def reduce(self, how: Callable[..., Any], element: Callable[..., Any]) -> Any:
        inner = [te.reduce_axis((0, self.y.shape[axis]), self.draw.name("k")) for axis in self.over]

        def value(*outer: Any) -> Any:
            at = dict(zip(self.rest, outer, strict=True)) | dict(zip(self.over, inner, strict=True))
            return how(element(*(at[place] for place in range(self.y.ndim))), axis=inner)

        return te.compute([self.y.shape[place] for place in self.rest], value, self.draw.name("R"))


def _softmax(of: _Axes) -> tuple[Any, np.ndarray]:
    """Softmax, or the logarithm of what it divides by."""
    x, y = of.x, of.y
    most = of.reduce(te.max, lambda *at: x[at])
    raised = te.compute(y.shape, lambda *at: te.exp(x[at] - most[of.without(at)]), "E")
    total = of.reduce(te.sum, lambda *at: raised[at])
    powers = np.exp(y - y.max(of.over, keepdims=True))
    if of.draw.chance(0.7):
        result = te.compute(y.shape, lambda *at: raised[at] / total[of.without(at)], "O")
        return result, powers / powers.sum(of.over, keepdims=True)
    return te.compute(total.shape, lambda *at: te.log(total[at]) + most[at], "O"), np.log(powers.sum(of.over)) + y.max(
        of.over
    )


def _unit(of: _Axes) -> tuple[Any, np.ndarray]:
    """Vectors divided by their lengths."""
    x, y = of.x, of.y
    total = of.reduce(te.sum, lambda *at: x[at] * x[at])
    result = te.compute(y.shape, lambda *at: x[at] * te.rsqrt(total[of.without(at)] + of.one(1.0)), "O")
    return result, y / np.sqrt((y * y).sum(of.over, keepdims=True) + 1)


def _standard(of: _Axes) -> tuple[Any, np.ndarray]:
    """Layer norm, or the variance that it divides by."""
    x, y, share = of.x, of.y, of.one(1 / of.count)
    total = of.reduce(te.sum, lambda *at: x[at])
    mean = te.compute(total.shape, lambda *at: total[at] * share, "M")
    squares = of.reduce(te.sum, lambda *at: (x[at] - mean[of.without(at)]) * (x[at] - mean[of.without(at)]))
    apart = y - y.mean(of.over, keepdims=True)
    if of.draw.chance(0.4):
        return te.compute(squares.shape, lambda *at: squares[at] * share, "V"), (apart * apart).mean(of.over)
    result = te.compute(
        y.shape,
        lambda *at: (x[at] - mean[of.without(at)]) * te.rsqrt(squares[of.without(at)] * share + of.one(1.0)),
        "O",
    )
    return result, apart / np.sqrt((apart * apart).mean(of.over, keepdims=True) + 1)


def draw_norm(choices: Choices) -> Program:
    """Softmax, log of a sum of exponentials, variance, layer norm, vectors of length 1: of what another stage computes, now and
    then, and with a stage behind."""
    draw = Draw(choices, "norm")
    rank = draw.number(1, 4)
    shape, axes = _draw_axes(draw, rank, 1 if rank == 1 or draw.chance(0.7) else 2)
    dtype = draw.pick(["float32", "float32", "float32", "float64", "float16", "bfloat16"])
    array = choices.contents().standard_normal(shape).astype(numpy_type(dtype))
    sizes = tuple(Size(extent, extent) for extent in shape)
    x, y = draw.source(sizes, dtype, array).tensor, array.astype("float64")
    half, quarter, none = (te.const(value, dtype) for value in (0.5, 0.25, 0.0))
    if draw.chance(0.3):  # what another stage computes
        before, other = x, draw.source(sizes, dtype, array[..., ::-1].copy()).tensor
        x = te.compute(shape, lambda *at: before[at] * half + other[at] * quarter, "P")
        y = y * 0.5 + y[..., ::-1] * 0.25
    over = _Axes(draw, x, y, axes)
    result, expected = draw.pick([_softmax, _standard, _unit])(over)
    if draw.chance(0.3):
        behind = result
        result, expected = (
            te.compute(behind.shape, lambda *at: te.max(behind[at] * half, none), "Z"),
            np.maximum(expected * 0.5, 0),
        )
    draw.program.result(result, np.asarray(expected).astype(numpy_type(dtype)))
    return draw.finish(EPSILON[dtype] * 16 * (over.count + 8))


def draw_running(choices: Choices) -> Program:
    """Sums, products, greatest and least elements so far, along any axis from either end, and with a factor for what was before."""
    draw = Draw(choices, "running")
    rank = draw.number(1, 3)
    shape, (axis,) = _draw_axes(draw, rank, 1)
    dtype = draw.pick([*NUMBERS, "float32", "int32"])
    kind = draw.pick(["sum", "sum", "max", "min", "prod", "decayed"])
    if kind in ("sum", "decayed") and dtype in ("bfloat16", "float16"):
        kind = "max"
    array = small(draw, tuple(shape), dtype)
    if kind == "prod" and dtype in EPSILON:
        array = np.sign(array.astype("float64")).astype(array.dtype)
    x = draw.source(tuple(Size(extent, extent) for extent in shape), dtype, array).tensor
    count, others = shape[axis], shape[:axis] + shape[axis + 1 :]
    backwards = draw.chance(0.3)
    state = te.placeholder((count, *others), dtype, "state")

    def element(t: Any, *rest: Any) -> Any:
        return x[(*rest[:axis], count - 1 - t if backwards else t, *rest[axis:])]

    joined: dict[str, Callable[[Any, Any], Any]] = {
        "sum": lambda a, b: a + b,
        "prod": lambda a, b: a * b,
        "max": te.max,
        "min": te.min,
        "decayed": lambda a, b: b - a,
    }

    def following(t: Any, *rest: Any) -> Any:
        return joined[kind](state[(t - 1, *rest)], element(t, *rest))

    first = te.compute((1, *others), lambda *at: element(0, *at[1:]), "first")
    step = te.compute((count, *others), following, "step")
    found: Any = te.scan(first, step, state, [x], name="S")
    values = np.moveaxis(exact_sum(array, dtype), axis, 0)
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
        found = te.compute(shape, lambda *at: scanned[(at[axis], *at[:axis], *at[axis + 1 :])], "T")
        expected = np.moveaxis(expected, 0, axis)
    elif how == 1:  # the last state alone
        scanned = found
        found, expected = te.compute(others, lambda *at: scanned[(count - 1, *at)], "L"), expected[-1]
    draw.program.result(found, expected.astype(numpy_type(dtype)))
    return draw.finish()
