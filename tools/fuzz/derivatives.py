"""Gradients, of programs whose derivatives are sums of products: numpy says them exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from .choices import Choices
from .program import Draw, Program, small
from .terms import FLOATS, Size, Source, numpy_type

__all__ = ["draw_gradient"]


def draw_gradient(choices: Choices) -> Program:
    """Draw a te.gradient of one operation or two, by some of their inputs, with a head of the output's shape or of one
    dimension more; in some the output is a result as well."""
    draw = Draw(choices, "gradient")
    dtype = draw.pick(FLOATS)
    form = draw.pick(_FORMS)
    y, result, inputs, backward = form(draw, dtype)
    more = (Size(several, several),) if (several := draw.pick([0, 0, 1, 2, 3])) else ()
    shape = (*more, *(Size(extent, size) for extent, size in zip(y.shape, result.shape, strict=True)))
    head = draw.source(shape, dtype, _few(draw, tuple(size.value for size in shape), dtype))
    wanted = [at for at in range(len(inputs)) if draw.chance(0.6)] or [0]
    gradients = te.gradient(y, [inputs[at].tensor for at in wanted], head.tensor)
    count = more[0].value if more else 1
    heads = head.array.astype("float64").reshape(count, *result.shape)
    of_heads = [backward(each) for each in heads]
    if draw.chance(0.2):
        draw.program.result(y, result.astype(numpy_type(dtype)))
    for at, tensor in zip(wanted, gradients, strict=True):
        values = np.array([each[at] for each in of_heads])
        values = values.reshape(*(size.value for size in more), *inputs[at].array.shape)
        draw.program.result(tensor, values.astype(numpy_type(dtype)))
    return draw.finish()


Form = tuple[Any, np.ndarray, list[Source], Callable[[np.ndarray], list[np.ndarray]]]
"""The output, its values, the inputs, and from a head's values the derivatives by each input; in float64."""


def _few(draw: Draw, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers from -1 to 1, with whose products' sums bfloat16 keeps up."""
    return np.sign(small(draw, shape, dtype).astype("float64")).astype(numpy_type(dtype))


def _input(draw: Draw, dtype: str, *sizes: Size) -> Source:
    return draw.source(sizes, dtype, _few(draw, tuple(size.value for size in sizes), dtype))


def _product(draw: Draw, dtype: str) -> Form:
    """y[i] = sum over k of w[i, k] * x[k]."""
    m, n = draw.size(9, 0.2), draw.size(17, 0.2)
    w, x = _input(draw, dtype, m, n), _input(draw, dtype, n)
    k = te.reduce_axis((0, n.te), "k")
    y = te.compute((m.te,), lambda i: te.sum(w.tensor[i, k] * x.tensor[k], axis=k), "Y")
    a, b = w.array.astype("float64"), x.array.astype("float64")
    return y, a @ b, [w, x], lambda h: [np.outer(h, b), h @ a]


def _convolution(draw: Draw, dtype: str) -> Form:
    """y[i] = sum over k of w[k] * x[i * stride + k]."""
    stride, taps, m = draw.number(1, 3), draw.number(1, 4), draw.number(1, 17)
    n = (m - 1) * stride + taps + draw.number(0, 2)
    w, x = _input(draw, dtype, Size(taps, taps)), _input(draw, dtype, Size(n, n))
    k = te.reduce_axis((0, taps), "k")
    y = te.compute((m,), lambda i: te.sum(w.tensor[k] * x.tensor[i * stride + k], axis=k), "Y")
    a, b = w.array.astype("float64"), x.array.astype("float64")
    read = np.add.outer(np.arange(m) * stride, np.arange(taps))

    def backward(h: np.ndarray) -> list[np.ndarray]:
        data = np.zeros(n)
        np.add.at(data, read, np.outer(h, a))
        return [h @ b[read], data]

    return y, b[read] @ a, [w, x], backward


def _square(draw: Draw, dtype: str) -> Form:
    """y[i, j] = t[i, j] * t[i, j] with t[i, j] = x[i, j] + x[i, n - 1 - j], by a stage of its own."""
    m, n = draw.size(9, 0.2), draw.size(17, 0.2)
    x = _input(draw, dtype, m, n)
    t = te.compute((m.te, n.te), lambda i, j: x.tensor[i, j] + x.tensor[i, n.te - 1 - j], "T")
    y = te.compute((m.te, n.te), lambda i, j: t[i, j] * t[i, j], "Y")
    a = x.array.astype("float64")
    both = a + a[:, ::-1]

    def backward(h: np.ndarray) -> list[np.ndarray]:
        inner = 2 * h * both
        return [inner + inner[:, ::-1]]

    return y, both * both, [x], backward


def _greatest(draw: Draw, dtype: str) -> Form:
    """y[i] = the greatest of x[i, :], whose first place takes the derivative."""
    m, count = draw.size(9, 0.2), draw.number(1, 9)
    x = _input(draw, dtype, m, Size(count, count))
    k = te.reduce_axis((0, count), "k")
    y = te.compute((m.te,), lambda i: te.max(x.tensor[i, k], axis=k), "Y")
    a = x.array.astype("float64")
    first = a.argmax(1) if m.value else np.zeros(0, int)

    def backward(h: np.ndarray) -> list[np.ndarray]:
        data = np.zeros_like(a)
        data[np.arange(len(first)), first] = h
        return [data]

    return y, a.max(1), [x], backward


def _draw_gather(draw: Draw, dtype: str) -> Form:
    """y[i] = x[at[i]] * w[i]: the derivative by x is scattered."""
    m, n = draw.number(1, 9), draw.pick([5, 17, 24])
    w, x = _input(draw, dtype, Size(m, m)), _input(draw, dtype, Size(n, n))
    at = draw.choices.contents().integers(0, n, m).astype("int32")
    indices = draw.source((Size(m, m),), "int32", at).tensor
    y = te.compute((m,), lambda i: x.tensor[indices[i]] * w.tensor[i], "Y")
    a, b = w.array.astype("float64"), x.array.astype("float64")

    def backward(h: np.ndarray) -> list[np.ndarray]:
        data = np.zeros(n)
        np.add.at(data, at, h * a)
        return [h * b[at], data]

    return y, b[at] * a, [w, x], backward


_FORMS: tuple[Callable[[Draw, str], Form], ...] = (_product, _convolution, _square, _greatest, _draw_gather)
