"""Operators that tools/fuzz/operators.py composes: a function each, from drawing and a value to the next value. Those of networks
and images have modules of their own (operator_network_rows.py, operator_quantised_rows.py, operator_image_rows.py).

A row returns None where the value is not of a rank or dtype that it takes. What it returns holds, beside the tensor, what
numpy says in float64 (integers and bools: exactly), and how far each element may be off:

    def softmax(draw, x):
        if not x.is_float or not x.array.ndim:
            return None
        e = np.exp(x.array - x.array.max(-1, keepdims=True))
        return draw.rounded(topi.nn.softmax(x.tensor), e / e.sum(-1, keepdims=True), x.dtype, 2 * x.error, x.array.shape[-1] + 8)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ... import te, topi
from ...topi.row import load_rows
from .program import Draw
from .terms import EPSILON, FLOATS, INTEGERS, Size, numpy_type, where

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ROWS", "WIDE", "Operands", "Rows", "Value", "known", "product_error"]

SUBNORMAL = {"float16": 2.0**-24, "bfloat16": 2.0**-130, "float32": 2.0**-140, "float64": 2.0**-1000}


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor, what it should hold, and how far off each element may be."""

    tensor: Any
    array: Any
    dtype: str
    error: float = 0.0

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_exact(self) -> bool:
        return self.error == 0

    @property
    def scale(self) -> float:
        return float(np.abs(self.array).max()) if self.array.size else 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


def known(x: Value) -> bool:
    """Return whether its shape is known before the call."""
    return all(str(extent).isdigit() for extent in x.tensor.shape)


class Operands(Draw):
    """Draws values: contents are multiples of 1/8 between -2 and 2, or small integers."""

    def first(self) -> Value:
        """Return the begin of a composition."""
        if self.chance(0.3):  # what heavy operators take
            rank = self.pick([2, 4, 3])
            sizes = (
                [self.length(65), self.length(65)]
                if rank == 2
                else [self.length(4) for _ in range(rank - 3)] + [self.length(17), self.length(17), self.length(33)]
            )
            return self.fresh(sizes, self.pick(["float32", "float32", "float64"]))
        dtype = self.pick(["float32", "float32", "float32", *FLOATS, *INTEGERS, "bool"])
        symbolic = 0.4 if self.chance(0.1) else 0.0
        if self.chance(0.1):
            sizes = (Size(n := self.pick([300, 257, 512]), n), Size(m := self.pick([701, 640, 128]), m))
        else:
            sizes = self.shape(self.pick([2, 2, 3, 4, 1, 0]), self.pick([200, 3000, 9000]), symbolic)
        return self.fresh([size.te for size in sizes], dtype, [size.value for size in sizes])

    def fresh(self, shape: Sequence[Any], dtype: str, sizes: Sequence[int] | None = None) -> Value:
        """A new argument. sizes: what the extents are, where they are symbols."""
        known = tuple(int(extent) for extent in (shape if sizes is None else sizes))
        rng = self.choices.contents()
        if dtype in FLOATS:
            array = rng.integers(-16, 17, known) / 8
        elif dtype == "bool":
            array = rng.integers(0, 2, known).astype(bool)
        else:
            array = rng.integers(0 if dtype.startswith("u") else -9, 10, known).astype(dtype)
        tensor = te.placeholder(tuple(shape), dtype, self.name("A"))
        self.program.add_argument(tensor, np.asarray(array).astype(numpy_type(dtype)))
        return Value(tensor, np.asarray(array), dtype)

    def holding(self, array: Any, dtype: str | None = None) -> Value:
        """A new argument with these contents."""
        kind = dtype or str(array.dtype)
        tensor = te.placeholder(array.shape, kind, self.name("A"))
        self.program.add_argument(tensor, array.astype(numpy_type(kind)))
        return Value(tensor, array, kind)

    def axis(self, x: Value) -> int:
        """One of its dimensions, sometimes counted from the end."""
        return self.number(0, x.array.ndim - 1) - (x.array.ndim if self.chance(0.3) else 0)

    def rounded(self, tensor: Any, array: Any, dtype: str, error: float = 0.0, roundings: float = 1.0) -> Value:
        """A result that was rounded so many times at its own size, beside the error that its inputs bring."""
        array = np.asarray(array)
        if dtype not in FLOATS:
            return Value(tensor, array.astype(dtype), dtype)
        size = float(np.abs(array).max()) if array.size else 0.0
        return Value(
            tensor, array.astype("float64"), dtype, error + 2 * roundings * (EPSILON[dtype] * size + SUBNORMAL[dtype])
        )

    def exact(self, tensor: Any, array: Any, like: Value) -> Value:
        """A result whose elements are those of `like`."""
        return Value(tensor, np.asarray(array), like.dtype, like.error)


Rows = tuple[tuple[float, Callable[[Operands, Value], Value | None]], ...]

# Element by element


TABLE = load_rows()
_UNARY = [row for row in TABLE.values() if row.fusion == "elementwise" and row.inputs == (1, 1)]
SMOOTH = [row for row in _UNARY if row.growth is not None]
"""Those of which is known by how much an error grows."""
STEPS = [
    row for row in _UNARY if row.derivative == (None,) and not row.error and row.name not in ("round", "ceil_log2")
]
"""Those that jump, and stay exact; halves and powers of two are no matter of what is drawn here."""
BOUNDED: tuple[tuple[Callable[[te.Tensor], Any], Callable[[Any], Any], float], ...] = (
    (lambda x: topi.exp(topi.minimum(x, 1.0)), lambda x: np.exp(np.minimum(x, 1.0)), 2.8),
    (lambda x: topi.log1p(topi.abs(x)), lambda x: np.log1p(np.abs(x)), 1),
    (lambda x: topi.sqrt(topi.add(topi.abs(x), 1.0)), lambda x: np.sqrt(np.abs(x) + 1), 0.5),
    (lambda x: topi.multiply(x, 0.5), lambda x: x * 0.5, 0.5),
)
"""Of those whose errors grow without bounds, what is kept within them: the operators, numpy's, and by how much an error grows."""


def smooth(draw: Operands, x: Value) -> Value | None:
    """Mathematics and activations of floats, with errors that grow little."""
    if not x.is_float:
        return None
    roundings = 8 * max(1.0, 1 / max(x.scale, 1e-3))
    if draw.chance(0.2):
        operator, reference, growth = draw.pick(BOUNDED)
        return draw.rounded(operator(x.tensor), reference(x.array), x.dtype, growth * x.error, roundings)
    row = draw.pick(SMOOTH)
    assert row.growth is not None
    attributes = row.samples[0].attributes
    result, expected = row.declare(x.tensor, **attributes), row.reference(x.array, **attributes)
    return draw.rounded(result, expected, x.dtype, row.growth * x.error, roundings)


def steps(draw: Operands, x: Value) -> Value | None:
    """Functions that jump, of floats that are exact; sign and magnitude of integers."""
    if x.is_float and x.is_exact:
        row = draw.pick(STEPS)
    elif x.dtype in INTEGERS:
        row = TABLE[draw.pick(["sign", "bitwise_not"])]
    else:
        return None
    return draw.exact(row.declare(x.tensor), row.reference(x.array), x)


BINARY = [row for row in TABLE.values() if row.inputs == (2, 2) and row.growth is not None] + [TABLE["multiply"]]
COMPARISONS = [TABLE[name] for name in ("less", "greater_equal", "equal", "not_equal")]


def _partner(draw: Operands, x: Value) -> Value:
    """Something that broadcasts to x: itself, or a new argument that lacks dimensions or has them with extent 1."""
    if draw.chance(0.2):
        return x
    skipped = draw.number(0, x.array.ndim) if draw.chance(0.4) else 0
    single = [draw.chance(0.25) for _ in range(x.array.ndim)]
    shape = [1 if broadcast else extent for broadcast, extent in zip(single, x.tensor.shape, strict=True)][skipped:]
    sizes = [1 if broadcast else extent for broadcast, extent in zip(single, x.shape, strict=True)][skipped:]
    return draw.fresh(shape, x.dtype, sizes)


def binary(draw: Operands, x: Value) -> Value | None:
    """Arithmetic with what broadcasts."""
    if x.dtype == "bool":
        y = _partner(draw, x)
        return Value(topi.logical_xor(x.tensor, y.tensor), x.array ^ y.array, "bool")
    y = _partner(draw, x)
    row = draw.pick(BINARY)
    a, b = (x, y) if draw.chance(0.5) else (y, x)
    error = x.scale * y.error + y.scale * x.error + x.error * y.error if row.name == "multiply" else x.error + y.error
    return draw.rounded(row.declare(a.tensor, b.tensor), row.reference(a.array, b.array), x.dtype, error)


def compared(draw: Operands, x: Value) -> Value | None:
    """A comparison of exact values, or the choice that it makes."""
    if not x.is_exact or x.dtype == "bool":
        return None
    y = _partner(draw, x)
    if not y.is_exact:
        return None
    row = draw.pick(COMPARISONS)
    condition, holds = row.declare(x.tensor, y.tensor), row.reference(x.array, y.array)
    if draw.chance(0.4):
        return Value(condition, holds, "bool")
    return draw.exact(topi.where(condition, x.tensor, y.tensor), np.where(holds, x.array, y.array), x)


def draw_cast(draw: Operands, x: Value) -> Value | None:
    """A cast that no rounding makes uncertain."""
    if x.is_float:
        to = draw.pick(FLOATS)
        return draw.rounded(topi.cast(x.tensor, to), x.array, to, x.error)
    to = draw.pick([*FLOATS, *INTEGERS])
    if to in INTEGERS:
        return Value(topi.cast(x.tensor, to), x.array.astype(to), to)
    if x.array.size and float(np.abs(x.array.astype("float64")).max()) > 200:
        return None
    return Value(topi.cast(x.tensor, to), x.array.astype("float64"), to)


# Moving elements


def draw_reshape(draw: Operands, x: Value) -> Value | None:
    """Another shape, another order of dimensions, dimensions of extent 1."""
    kind = draw.number(0, 3)
    if kind == 0:
        order = draw.choices.permutation(x.array.ndim)
        return draw.exact(topi.transpose(x.tensor, order), x.array.transpose(order), x)
    if kind == 1:
        at = draw.number(0, x.array.ndim)
        return draw.exact(topi.expand_dims(x.tensor, at), np.expand_dims(x.array, at), x) if x.array.ndim < 5 else None
    if kind == 2:
        single = tuple(at for at, n in enumerate(x.tensor.shape) if str(n) == "1")
        return draw.exact(topi.squeeze(x.tensor), x.array.squeeze(single), x)
    shape = _factors(draw, x.array.size)
    return draw.exact(topi.reshape(x.tensor, shape), x.array.reshape(shape), x)


def _factors(draw: Operands, size: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    if size == 0:
        return (draw.number(0, 3), 0)
    factors: list[int] = []
    for _ in range(draw.number(0, 2)):
        divisors = [n for n in range(1, min(size, 65) + 1) if size % n == 0]
        factors.append(draw.pick(divisors))
        size //= factors[-1]
    return (*factors, size)


def parts(draw: Operands, x: Value) -> Value | None:
    """Slices, reversals, one of several parts."""
    if not x.array.ndim:
        return None
    at = draw.number(0, x.array.ndim - 1)
    extent = x.shape[at]
    kind = draw.number(0, 2)
    if kind == 0:
        return draw.exact(topi.flip(x.tensor, at), np.flip(x.array, at), x)
    if kind == 1:
        cut = draw.number(0, extent)
        place = draw.number(0, 1)
        return draw.exact(topi.split(x.tensor, [cut], at)[place], np.split(x.array, [cut], at)[place], x)
    begin, end, by = (
        draw.number(-extent - 1, extent + 1),
        draw.number(-extent, extent + 1),
        draw.pick([1, 2, 3, -1, -2]),
    )
    taken = np.moveaxis(np.moveaxis(x.array, at, 0)[begin:end:by], 0, at)
    return draw.exact(topi.strided_slice(x.tensor, [begin], [end], [by], axes=[at]), taken, x)


def draw_concatenation(draw: Operands, x: Value) -> Value | None:
    """Several along one dimension, old or new, repetitions, borders."""
    kind = draw.number(0, 4)
    if kind == 0 and x.array.ndim < 5:
        at = draw.number(0, x.array.ndim)
        other = draw.fresh(x.tensor.shape, x.dtype, x.shape)
        return draw.exact(topi.stack([x.tensor, other.tensor], at), np.stack([x.array, other.array], at), x)
    if not x.array.ndim:
        return None
    at = draw.number(0, x.array.ndim - 1)
    if kind == 1:
        length = draw.length(20)
        shape, sizes = list(x.tensor.shape), list(x.shape)
        shape[at] = sizes[at] = length
        other = draw.fresh(shape, x.dtype, sizes)
        a, b = (x, other) if draw.chance(0.5) else (other, x)
        return draw.exact(topi.concatenate([a.tensor, b.tensor], at), np.concatenate([a.array, b.array], at), x)
    if kind == 2:
        count = draw.number(1, 3)
        return draw.exact(topi.repeat(x.tensor, count, at), np.repeat(x.array, count, at), x)
    if kind == 3:
        counts = [draw.pick([1, 1, 2, 3]) for _ in range(draw.number(1, x.array.ndim))]
        return draw.exact(topi.tile(x.tensor, counts), np.tile(x.array, counts), x)
    before, after = ([draw.pick([0, 1, 0, 3]) for _ in x.shape] for _ in range(2))
    filling = draw.pick([0, 1])
    wanted = np.pad(
        x.array, list(zip(before, after, strict=True)), constant_values=bool(filling) if x.dtype == "bool" else filling
    )
    return draw.exact(topi.pad(x.tensor, before, after, filling), wanted, x)


def looked_up(draw: Operands, x: Value) -> Value | None:
    """Elements at indices that are data."""
    if not x.array.ndim:
        return None
    at = draw.number(0, x.array.ndim - 1)
    if not x.shape[at]:
        return None
    index = draw.fresh([draw.length(9)] * draw.number(0, 2), draw.pick(["int32", "int64", "int8", "uint8"]))
    return draw.exact(
        topi.take(x.tensor, index.tensor, at), np.take(x.array, index.array.astype("int64"), at, mode="clip"), x
    )


def draw_gather(draw: Operands, x: Value) -> Value | None:
    """Elements at indices, or coordinates, that are data and inside."""
    if not x.array.ndim or 0 in x.shape or not known(x):
        return None
    rng, kind = draw.choices.contents(), draw.pick(["int32", "int64"])
    if draw.chance(0.5):
        at = draw.axis(x)
        sizes = [draw.number(1, extent) for extent in x.shape]
        sizes[at] = draw.length(9)
        index = rng.integers(0, x.shape[at], sizes)
        expected = np.take_along_axis(
            x.array[tuple(slice(None if dim == at % x.array.ndim else n) for dim, n in enumerate(sizes))], index, at
        )
        return draw.exact(topi.gather(x.tensor, at, draw.holding(index, kind).tensor), expected, x)
    count = draw.number(1, x.array.ndim)
    shape = [draw.length(7) for _ in range(draw.number(0, 2))]
    index = np.stack([rng.integers(0, extent, shape) for extent in x.shape[:count]])
    return draw.exact(topi.gather_nd(x.tensor, draw.holding(index, kind).tensor), x.array[tuple(index)], x)


def one_hot(draw: Operands, x: Value) -> Value | None:
    """Return the one-hot form along a new dimension."""
    if x.dtype not in INTEGERS or x.array.ndim > 3 or x.array.size > 5000:
        return None
    depth, at = draw.length(17), draw.number(-1, x.array.ndim)
    on, off = draw.pick([(1, 0), (3, 2), (0, 1)])
    dtype = draw.pick(["float32", "int8", "int64", "float16"])
    place = at % (x.array.ndim + 1)
    holds = np.expand_dims(x.array.astype("int64"), place) == np.arange(depth).reshape(
        [-1 if dim == place else 1 for dim in range(x.array.ndim + 1)]
    )
    expected = where(holds, on, off)
    return Value(
        topi.one_hot(x.tensor, on, off, depth, at, dtype),
        expected.astype("float64" if dtype in FLOATS else dtype),
        dtype,
    )


def layouts(draw: Operands, x: Value) -> Value | None:
    """Dimensions in another order, one of them cut into blocks, or put together from blocks."""
    rank = x.array.ndim
    if not 1 <= rank <= 4:
        return None
    letters = "NCHW"[-rank:]
    order = draw.choices.permutation(rank)
    if draw.chance(0.3):
        return draw.exact(
            topi.layout_transform(x.tensor, letters, "".join(letters[at] for at in order)), x.array.transpose(order), x
        )
    at, block = draw.number(0, rank - 1), draw.pick([2, 4, 3, 16])
    blocked = "".join(letters[axis] for axis in order) + f"{block}{letters[at].lower()}"
    more = [(0, -n % block if axis == at else 0) for axis, n in enumerate(x.shape)]
    split = np.moveaxis(np.pad(x.array, more), at, -1)
    split = np.moveaxis(split.reshape(*split.shape[:-1], -(-x.shape[at] // block), block), -2, at)
    result = topi.layout_transform(x.tensor, letters, blocked)
    expected = split.transpose(*order, rank)
    if draw.chance(0.4) and known(x):  # and back again: as long as the blocks are
        back = np.moveaxis(split, -1, at + 1)
        back = back.reshape(*back.shape[:at], back.shape[at] * block, *back.shape[at + 2 :])
        return draw.exact(topi.layout_transform(result, blocked, letters), back, x)
    return draw.exact(result, expected, x)


# Reductions


def draw_argmax(draw: Operands, x: Value) -> Value | None:
    """argmax and argmin over any axes, the first or the last of equal ones."""
    if not x.is_exact or x.dtype == "bool" or 0 in x.shape:
        return None
    rank = x.array.ndim
    axes = (
        draw.choices.some(list(range(rank)), draw.number(1, rank)) if rank and draw.chance(0.8) else list(range(rank))
    )
    keepdims, last = draw.chance(0.4), draw.chance(0.3)
    kind = draw.pick(["argmax", "argmin"])
    given = None if len(axes) == rank and draw.chance(0.5) else axes[0] if len(axes) == 1 and draw.chance(0.5) else axes
    kept = [at for at in range(rank) if at not in axes]
    flat = x.array.transpose(*kept, *axes).reshape(*(x.shape[at] for at in kept), -1)
    expected = flat.shape[-1] - 1 - getattr(np, kind)(flat[..., ::-1], -1) if last else getattr(np, kind)(flat, -1)
    if keepdims:
        expected = np.reshape(expected, [1 if at in axes else n for at, n in enumerate(x.shape)])
    result = getattr(topi, kind)(x.tensor, given, keepdims, last)
    return Value(result, np.asarray(expected, str(result.dtype)), str(result.dtype))


def draw_reduction(draw: Operands, x: Value) -> Value | None:
    """Reduce over some axes or all."""
    axes = tuple(draw.choices.some(list(range(x.array.ndim)), draw.number(1, x.array.ndim))) if x.array.ndim else None
    keepdims = draw.chance(0.4)
    count = x.array.size // max(math.prod(n for at, n in enumerate(x.shape) if axes is not None and at not in axes), 1)
    kind = draw.pick(["sum", "mean", "max", "min", "any", "all"])
    if kind in ("any", "all"):
        if not x.is_exact:
            return None
        holds = getattr(np, kind)(x.array, axis=axes, keepdims=keepdims)
        return Value(getattr(topi, kind)(x.tensor, axes, keepdims), holds, "bool")
    if kind in ("max", "min", "mean") and not count:
        return None
    return _reduction_result(draw, x, kind, axes, keepdims, count)


def _reduction_result(
    draw: Operands, x: Value, kind: str, axes: tuple[int, ...] | None, keepdims: bool, count: int
) -> Value:
    tensor = getattr(topi, kind)(x.tensor, axes, keepdims)
    if kind in ("max", "min"):
        return draw.exact(tensor, getattr(np, kind)(x.array, axis=axes, keepdims=keepdims), x)
    if not x.is_float:
        if kind == "mean":
            wide = x.array.astype("float64")
            return draw.rounded(
                tensor,
                wide.mean(axes, keepdims=keepdims),
                "float32",
                2 * (count + 2) * EPSILON["float32"] * np.abs(wide).max(initial=1.0),
            )
        dtype = "int32" if x.dtype == "bool" else x.dtype
        return Value(tensor, np.asarray(x.array.sum(axes, keepdims=keepdims, dtype=dtype)), dtype)
    inner = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    most = float(np.abs(x.array).sum(axes).max(initial=0.0))
    error = count * x.error + count * EPSILON[inner] * most
    if kind == "mean":
        error /= max(count, 1)
    return draw.rounded(tensor, getattr(x.array, kind)(axes, keepdims=keepdims), x.dtype, error, 2)


def running(draw: Operands, x: Value) -> Value | None:
    """Sums up to each element along an axis."""
    if not x.array.ndim or x.dtype in ("float16", "bfloat16") or x.array.size > 3000:
        return None
    at = draw.number(0, x.array.ndim - 1)
    dtype = "int32" if x.dtype == "bool" else x.dtype
    wide = "float64" if x.is_float else dtype
    most = float(np.abs(x.array.astype("float64")).sum(at).max(initial=0.0))
    error = x.shape[at] * (x.error + EPSILON.get(dtype, 0.0) * most)
    return draw.rounded(topi.cumsum(x.tensor, at), np.cumsum(x.array, at, dtype=wide), dtype, error)


# Heavy operators: errors are those of sums of products


def product_error(x: Value, w: Value, depth: int, dtype: str) -> float:
    """Return the error of a sum of `depth` products of theirs."""
    inner = "float32" if dtype in ("float16", "bfloat16") else dtype
    return depth * (x.error * w.scale + (depth + 2) * EPSILON[inner] * x.scale * w.scale)


def _products(draw: Operands, tensor: Any, array: Any, x: Value, w: Value, depth: int) -> Value:
    return draw.rounded(tensor, array, x.dtype, product_error(x, w, depth, x.dtype))


WIDE = ("float32", "float64")


def matmul(draw: Operands, x: Value) -> Value | None:
    """Products with a matrix of weights, transposed or not, packed before or not, or with many."""
    if x.dtype not in WIDE or x.array.ndim not in (2, 3):
        return None
    turned = draw.chance(0.3)
    depth = x.shape[-2 if turned else -1]
    inner, out = x.tensor.shape[-2 if turned else -1], draw.pick([1, 5, 16, 33, 7, 64])
    left = np.swapaxes(x.array, -1, -2) if turned else x.array
    straight = draw.chance(0.4)
    if x.array.ndim == 3:
        batch, many = (1, 1) if draw.chance(0.2) else (x.tensor.shape[0], x.shape[0])
        shape = [(batch, out, inner), (batch, inner, out)][straight]
        w = draw.fresh(shape, x.dtype, [(many, out, depth), (many, depth, out)][straight])
        result = topi.batch_matmul(x.tensor, w.tensor, transpose_a=turned, transpose_b=not straight)
        return _products(draw, result, left @ (w.array if straight else w.array.transpose(0, 2, 1)), x, w, depth)
    if straight:
        w = draw.fresh([inner, out], x.dtype, [depth, out])
        return _products(draw, topi.matmul(x.tensor, w.tensor, turned), left @ w.array, x, w, depth)
    if turned or draw.chance(0.4):
        w = draw.fresh([out, inner], x.dtype, [out, depth])
        return _products(draw, topi.matmul(x.tensor, w.tensor, turned, True), left @ w.array.T, x, w, depth)
    return _dense(draw, x, out, depth)


def _dense(draw: Operands, x: Value, out: int, depth: int) -> Value:
    bias = draw.fresh([out], x.dtype) if draw.chance(0.5) else None
    added = bias.tensor if bias is not None else None
    kind = draw.number(0, 2) if known(x) else 0
    if kind == 2:
        w = draw.holding(draw.choices.contents().integers(-16, 17, (out, depth)) / 8, x.dtype)
        packed = draw.holding(topi.nn.prepack_dense(cast("NDArray[Any]", w.array)), x.dtype)
        result = topi.nn.packed_dense(x.tensor, packed.tensor, out, added)
    else:
        w = draw.fresh([out, x.tensor.shape[-1]], x.dtype, [out, depth])
        result = (
            topi.nn.packed_dense(x.tensor, topi.nn.prepack_dense(cast("te.Tensor", w.tensor)), out, added)
            if kind
            else topi.nn.dense(x.tensor, w.tensor, added)
        )
    expected = x.array @ w.array.T + (bias.array if bias is not None else 0)
    return _products(draw, result, expected, x, w, depth)


ROWS: Rows = (
    (4, binary),
    (4, smooth),
    (1, steps),
    (1, compared),
    (1, draw_cast),
    (3, draw_reshape),
    (2, parts),
    (2, draw_concatenation),
    (1, looked_up),
    (0.6, draw_gather),
    (0.4, one_hot),
    (0.8, layouts),
    (3, draw_reduction),
    (0.8, draw_argmax),
    (0.7, running),
    (2.5, matmul),
)
"""By weight. A row's name is what a case is counted as."""
