"""Drawn expressions, written once and meant twice: as tensor expressions, and as numpy arrays over the grid of all indices.

A Term is an operator with its operands; TENSORS and ARRAYS say what each operator is on either side. Floats are kept to
small multiples of powers of two (`bound`, `steps`), on which every drawn operator is exact, so that results compare
exactly whatever order a schedule gives to additions; `smooth` terms trade that for exp, division and the like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tilewright import te

__all__ = [
    "EPSILON", "EXACT", "FLOATS", "INTEGERS", "Context", "Size", "Source", "Term", "as_arrays", "as_tensors", "cast", "const",
    "draw_data", "draw_read", "draw_term", "numpy_type",
]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EXACT = {"float16": 2.0**11, "bfloat16": 2.0**8, "float32": 2.0**24, "float64": 2.0**53}
"""Up to here every whole number is a value of the type."""
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def numpy_type(dtype: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@dataclass(frozen=True, eq=False)
class Size:
    """An extent: as te takes it, and what it is in this case."""

    te: Any
    value: int

    @property
    def known(self) -> bool:
        return isinstance(self.te, int)


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor that terms may read, and what it holds."""

    tensor: Any
    array: np.ndarray
    shape: tuple[Size, ...]
    dtype: str
    bound: float = 0.0
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Term:
    """One operator. Floats are multiples of 2**-steps of magnitude at most `bound`."""

    op: str
    dtype: str
    args: tuple[Term, ...] = ()
    data: Any = None
    bound: float = 0.0
    steps: int = 0

    @property
    def of_indices(self) -> bool:
        """Whether it is made of axes, sizes and constants alone; in int32 and int64 that must not overflow."""
        return self.op != "read" and all(arg.of_indices for arg in self.args)


def unsigned(a: np.ndarray) -> np.ndarray:
    return a.view(f"uint{a.dtype.itemsize * 8}") if a.dtype.kind == "i" else a


def truncated(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C's quotient and remainder, of Python's integers."""
    def one(x: Any, y: Any) -> tuple[int, int]:
        x, y = int(x), int(y)
        if not y:
            return 0, 0
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return quotient, x - quotient * y
    a, b = np.broadcast_arrays(a, b)
    pairs = [one(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    bits = a.dtype.itemsize * 8
    found = []
    for at in (0, 1):
        words = np.array([pair[at] & ((1 << bits) - 1) for pair in pairs], dtype=f"uint{bits}")
        found.append(words.view(a.dtype).reshape(a.shape))
    return found[0], found[1]


def leading_zeros(a: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    flat = [bits - int(value).bit_length() for value in unsigned(np.array(a)).ravel()]
    return np.array(flat, dtype="int32").reshape(a.shape)


def cast_array(a: np.ndarray, dtype: str) -> np.ndarray:
    """A conversion as tilewright has it: floats to integers truncate and saturate, NaN gives 0."""
    kind = numpy_type(dtype)
    floating = a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16
    if dtype == "bool":
        return a != np.zeros((), a.dtype)
    if not floating or dtype in FLOATS:
        return a.astype(kind)
    info = np.iinfo(kind)
    value = np.trunc(a.astype("float64"))
    value = np.where(np.isnan(value), 0.0, value)
    low, high = value <= float(info.min), value >= float(info.max)
    found = np.where(low | high, 0.0, value).astype(kind)
    return np.where(low, kind.type(info.min), np.where(high, kind.type(info.max), found)).astype(kind)


def array_read(source: Source, indices: Sequence[np.ndarray]) -> np.ndarray:
    """Elements of a source; what a guard keeps away may be anything."""
    shape = np.broadcast_shapes(*(index.shape for index in indices)) if indices else ()
    if source.array.size == 0:
        return np.zeros(shape, source.array.dtype)
    clipped = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(indices, source.array.shape, strict=True))
    return source.array[clipped]


def _extremum(kind: Any, a: Any, b: Any) -> Any:
    """te.min(a, k) of a reduce axis k would be the reduction over k."""
    if not isinstance(b, te.IterVar):
        return kind(a, b)
    return kind(b, a) if not isinstance(a, te.IterVar) else kind(b, te.select(a >= 0, a, a))


TENSORS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b, "truncdiv": te.truncdiv, "truncmod": te.truncmod,
    "min": lambda a, b: _extremum(te.min, a, b), "max": lambda a, b: _extremum(te.max, a, b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a, "neg": lambda a: -a, "abs": te.abs, "popcount": te.popcount, "clz": te.clz,
    "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "square": lambda a: a**2,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "all": te.all, "any": te.any, "select": te.select, "ite": te.if_then_else,
    "floor": te.floor, "ceil": te.ceil, "trunc": te.trunc, "rint": te.nearbyint, "isnan": te.isnan,
    "div": lambda a, b: a / b, "exp": te.exp, "tanh": te.tanh, "sigmoid": te.sigmoid, "sin": te.sin, "sqrt": te.sqrt,
    "log1p": te.log1p, "erf": te.erf, "atan": te.atan,
}


def _erf(a: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(value)) for value in a.ravel()]).reshape(a.shape).astype(a.dtype)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-a.astype("float64")))).astype(a.dtype)


ARRAYS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "floormod": np.mod,
    "truncdiv": lambda a, b: truncated(a, b)[0], "truncmod": lambda a, b: truncated(a, b)[1],
    "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "neg": np.negative, "abs": np.abs,
    "popcount": lambda a: np.bitwise_count(unsigned(np.array(a))).astype(a.dtype), "clz": leading_zeros,
    "shl": np.left_shift, "shr": np.right_shift, "square": lambda a: a * a,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "all": np.logical_and, "any": np.logical_or, "select": np.where, "ite": np.where,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "isnan": np.isnan,
    "div": np.divide, "exp": np.exp, "tanh": np.tanh, "sigmoid": _sigmoid,
    "sin": np.sin, "sqrt": np.sqrt, "log1p": np.log1p, "erf": _erf, "atan": np.arctan,
}


def as_tensors(term: Term, axes: Sequence[Any]) -> Any:
    """The term as a tensor expression at these indices."""
    if term.op == "axis":
        return axes[term.data]
    if term.op == "size":
        return te.const(term.data.te) if term.data.known else term.data.te
    if term.op == "const":
        return te.const(term.data, term.dtype)
    args = [as_tensors(arg, axes) for arg in term.args]
    if term.op == "read":
        return term.data.tensor[tuple(args)]
    if term.op == "cast":
        return args[0].astype(term.dtype)
    return TENSORS[term.op](*args)


def as_arrays(term: Term, grids: Sequence[np.ndarray]) -> np.ndarray:
    """The term's values over grids of indices."""
    if term.op == "axis":
        return grids[term.data]
    if term.op == "size":
        return np.array(term.data.value, "int32")
    if term.op == "const":
        return np.array(term.data, "float64" if isinstance(term.data, float) else None).astype(numpy_type(term.dtype))
    args = [np.asarray(as_arrays(arg, grids)) for arg in term.args]
    if term.op in MIXED and args[0].dtype != args[1].dtype:
        args = [cast_array(arg, common(*(one.dtype for one in term.args))) for arg in args]
    if term.op == "read":
        return array_read(term.data, args)
    if term.op == "cast":
        return cast_array(args[0], term.dtype)
    return np.asarray(ARRAYS[term.op](*args))


MIXED = ("add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne")
"""Operators that are also drawn on operands of two types."""


def common(a: str, b: str) -> str:
    """The type in which two meet: of floats the wider (of two halves float32), of an integer and a float the float, of
    integers the wider, signed where signs differ."""
    x, y = numpy_type(a).itemsize, numpy_type(b).itemsize
    if a in FLOATS or b in FLOATS:
        if not (a in FLOATS and b in FLOATS):
            return a if a in FLOATS else b
        return (a if a == b else "float32") if x == y else (a if x > y else b)
    signed = a.startswith("int") or b.startswith("int")
    return f"{'int' if signed else 'uint'}{8 * max(x, y)}"


def const(value: Any, dtype: str) -> Term:
    return Term("const", dtype, data=value, bound=abs(value), steps=0 if value == int(value) else 1)


def cast(term: Term, dtype: str) -> Term:
    """A conversion; integers that a float type cannot hold exactly are masked first."""
    if term.dtype == dtype:
        return term
    if dtype in FLOATS and term.dtype in INTEGERS:
        term = Term("and", term.dtype, (term, const(7, term.dtype)))
        return Term("cast", dtype, (term,), bound=7)
    if dtype in FLOATS and term.dtype in FLOATS and term.bound * 2**term.steps > EXACT[dtype]:
        whole = Term("floor", term.dtype, (term,))
        below = Term("min", term.dtype, (whole, const(4.0, term.dtype)))
        return Term("cast", dtype, (Term("max", term.dtype, (below, const(-4.0, term.dtype))),), bound=4)
    return Term("cast", dtype, (term,), bound=max(term.bound, 1), steps=term.steps)


def draw_data(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: float = 0.0) -> tuple[np.ndarray, float, int]:
    """Contents for a tensor, with the bound and steps of its values. special: the share of NaN and infinities."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool), 1, 0
    if dtype in FLOATS:
        plain = rng.integers(-4, 5, shape).astype("float64")
        odd = rng.choice([np.nan, np.inf, -np.inf], shape)
        return np.where(rng.random(shape) < special, odd, plain).astype(numpy_type(dtype)), 4, 0
    info = np.iinfo(dtype)
    wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    small = rng.integers(-4 if info.min else 0, 5, shape).astype(dtype)
    edge = np.where(rng.integers(0, 2, shape) == 0, np.dtype(dtype).type(info.min), np.dtype(dtype).type(info.max))
    chosen = rng.integers(0, 8, shape)
    return np.where(chosen < 3, wide, np.where(chosen < 7, small, edge)).astype(dtype), float(info.max), 0


@dataclass
class Context:
    """What terms are drawn from: the axes in scope and the tensors that may be read."""

    rng: np.random.Generator
    axes: list[Size]
    sources: list[Source]
    smooth: bool = False
    depth: int = 0

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]


def number(value: int) -> Term:
    return const(value, "int32")


def draw_index(context: Context, extent: Size) -> tuple[Term, Term | None]:
    """An index into a dimension, and the condition under which it lies inside (None: always)."""
    same = [at for at, size in enumerate(context.axes)
            if size is extent or (size.known and extent.known and size.te == extent.te)]
    axes = range(len(context.axes))
    how = context.rng.random()
    if same and how < 0.6:
        return Term("axis", "int32", data=context.pick(same)), None
    if same and how < 0.7:
        axis = Term("axis", "int32", data=context.pick(same))
        last = Term("sub", "int32", (Term("size", "int32", data=extent), number(1)))
        return Term("sub", "int32", (last, axis)), None
    if not len(axes):
        index = number(int(context.rng.integers(3)))
        if extent.known and extent.value:
            return _within(context, index, extent.value), None
        return index, Term("lt", "bool", (index, Term("size", "int32", data=extent)))
    axis = Term("axis", "int32", data=context.pick(axes))
    scale, shift = context.pick([1, 1, 1, 2, 3, -1]), int(context.rng.integers(-2, 3))
    index = axis if scale == 1 else Term("mul", "int32", (axis, number(scale)))
    index = Term("add", "int32", (index, number(shift))) if shift else index
    if context.chance(0.15) and len(axes) > 1:
        index = Term("add", "int32", (index, Term("axis", "int32", data=context.pick(axes))))
    if extent.known and extent.value and how < 0.95:
        return _within(context, index, extent.value), None
    inside = Term("all", "bool", (Term("ge", "bool", (index, number(0))),
                                  Term("lt", "bool", (index, Term("size", "int32", data=extent)))))
    return index, inside


def _within(context: Context, index: Term, extent: int) -> Term:
    """An index made to lie in [0, extent)."""
    last = number(extent - 1)
    how = context.rng.random()
    integers = [one for one in context.sources if one.dtype in INTEGERS]
    if integers and how < 0.15 and context.depth < 2:
        context.depth += 1
        found = draw_read(context, context.pick(integers))
        context.depth -= 1
        index = cast(found, "int32")
    elif how < 0.3:
        return number(int(context.rng.integers(extent)))
    if how < 0.5:
        return Term("floormod", "int32", (index, number(extent)))
    if how < 0.6:
        index = Term("floordiv", "int32", (index, number(context.pick([2, 3, 4]))))
    return Term("max", "int32", (Term("min", "int32", (index, last)), number(0)))


def read(source: Source, indices: Sequence[Term]) -> Term:
    return Term("read", source.dtype, tuple(indices), source, source.bound, source.steps)


def draw_read(context: Context, source: Source) -> Term:
    """An element of a source, padded where the index may lie outside."""
    found = [draw_index(context, extent) for extent in source.shape]
    value = read(source, [index for index, _ in found])
    inside: Term | None = None
    for _, condition in found:
        if condition is not None:
            inside = condition if inside is None else Term("all", "bool", (inside, condition))
    if inside is None:
        return value
    other = const(context.pick([0, 1]) if source.dtype != "bool" else False, source.dtype)
    return Term(context.pick(["ite", "select"]), source.dtype, (inside, value, other), bound=max(source.bound, 1),
                steps=source.steps)


def draw_leaf(context: Context, dtype: str) -> Term:
    how = context.rng.random()
    if how < 0.75 and context.sources:
        fitting = [one for one in context.sources if one.dtype == dtype]
        source = context.pick(fitting if fitting and context.chance(0.8) else context.sources)
        return cast(draw_read(context, source), dtype)
    if how < 0.87 and context.axes:
        axis = Term("axis", "int32", data=int(context.rng.integers(len(context.axes))))
        return cast(Term("cast", "int32", (axis,)), dtype)  # an axis of a 64-bit extent is int64
    if dtype == "bool":
        return const(bool(context.rng.integers(2)), "bool")
    if dtype in FLOATS:
        return const(float(context.pick([-2, -1, 0, 1, 2, 3, 0.5])), dtype)
    info = np.iinfo(dtype)
    return const(int(context.pick([0, 1, 2, 3, 5, 7, 16, 100, -1, -3, info.max, info.min])) if info.min else
                 int(context.pick([0, 1, 2, 3, 5, 7, 16, 100, info.max])), dtype)


def draw_term(context: Context, dtype: str, depth: int) -> Term:
    """An expression of `dtype`, at most `depth` operators deep."""
    if depth <= 0:
        return draw_leaf(context, dtype)
    if context.chance(0.12):
        condition = draw_term(context, "bool", depth - 1)
        a, b = draw_term(context, dtype, depth - 1), draw_term(context, dtype, depth - 1)
        return Term(context.pick(["ite", "select"]), dtype, (condition, a, b), bound=max(a.bound, b.bound),
                    steps=max(a.steps, b.steps))
    if dtype == "bool":
        return _draw_bool(context, depth)
    if dtype in INTEGERS:
        return _draw_integer(context, dtype, depth)
    return _draw_smooth(context, dtype, depth) if context.smooth else _draw_float(context, dtype, depth)


def _draw_bool(context: Context, depth: int) -> Term:
    how = context.rng.random()
    if how < 0.15:
        a, b = _draw_pair(context, depth)
        return Term(context.pick(["lt", "le", "gt", "ge", "eq", "ne"]), "bool", (a, b))
    if how < 0.6:
        read = [one.dtype for one in context.sources if one.dtype != "bool"]
        dtype = context.pick([*INTEGERS, "float32", "float64", *read])
        args = (draw_term(context, dtype, depth - 1), draw_term(context, dtype, depth - 1))
        return Term(context.pick(["lt", "le", "gt", "ge", "eq", "ne"]), "bool", args)
    if how < 0.75:
        return Term("not", "bool", (draw_term(context, "bool", depth - 1),))
    args = (draw_term(context, "bool", depth - 1), draw_term(context, "bool", depth - 1))
    return Term(context.pick(["all", "any", "and", "or", "min", "max"]), "bool", args)


def _draw_pair(context: Context, depth: int) -> tuple[Term, Term]:
    """Two operands of different types whose meeting is exact."""
    if context.chance(0.5):
        a, b = context.pick(["int8", "uint8"]), context.pick(["float16", "bfloat16", "float32", "float64"])
    else:
        group = context.pick([INTEGERS, FLOATS])
        a, b = context.pick(group), context.pick(group)
    a, b = (b, a) if context.chance(0.5) else (a, b)
    return draw_term(context, a, depth - 1), draw_term(context, b, depth - 1)


def _draw_integer(context: Context, dtype: str, depth: int) -> Term:
    how = context.rng.random()
    a = draw_term(context, dtype, depth - 1)
    if a.of_indices and dtype in ("int32", "int64"):
        return a
    if how < 0.12:
        return Term(context.pick(["neg", "abs", "popcount", "square", "not"]), dtype, (a,))
    if how < 0.2:
        by = const(int(context.rng.integers(np.iinfo(dtype).bits)), dtype)
        return Term(context.pick(["shl", "shr"]), dtype, (a, by))
    if how < 0.24:
        return cast(Term("clz", "int32", (a,)), dtype)
    if how < 0.28:
        x, y = _draw_pair(context, min(depth, 1))
        meet = common(x.dtype, y.dtype)
        if meet in INTEGERS and not (meet in ("int32", "int64") and (x.of_indices or y.of_indices)):
            return cast(Term(context.pick(["add", "sub", "mul", "min", "max"]), meet, (x, y)), dtype)
    if how < 0.34:
        return cast(draw_term(context, context.pick([*INTEGERS, *FLOATS, "bool"]), depth - 1), dtype)
    op = context.pick(["add", "sub", "mul", "add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv",
                       "truncmod", "and", "or", "xor"])
    return Term(op, dtype, (a, draw_term(context, dtype, depth - 1)))


def _draw_float(context: Context, dtype: str, depth: int) -> Term:
    how = context.rng.random()
    a = draw_term(context, dtype, depth - 1)
    if how < 0.15:
        return Term(context.pick(["neg", "abs"]), dtype, (a,), bound=a.bound, steps=a.steps)
    if how < 0.25:
        return Term(context.pick(["floor", "ceil", "trunc", "rint"]), dtype, (a,), bound=a.bound + 1)
    if how < 0.35:
        return cast(draw_term(context, context.pick([*INTEGERS, *FLOATS, "bool"]), depth - 1), dtype)
    b = draw_term(context, dtype, depth - 1)
    op = context.pick(["add", "sub", "mul", "min", "max"])
    bound = {"add": a.bound + b.bound, "sub": a.bound + b.bound, "mul": a.bound * b.bound}.get(op, max(a.bound, b.bound))
    steps = a.steps + b.steps if op == "mul" else max(a.steps, b.steps)
    return Term(op, dtype, (a, b), bound=bound, steps=steps) if bound * 2**steps <= EXACT[dtype] else a


def _draw_smooth(context: Context, dtype: str, depth: int) -> Term:
    """Functions without steps or poles, whose values stay small."""
    how = context.rng.random()
    a = draw_term(context, dtype, depth - 1)
    if how < 0.25:
        return Term(context.pick(["tanh", "sigmoid", "sin", "erf", "atan"]), dtype, (a,), bound=2)
    if how < 0.35 and a.bound <= 4:
        return Term("exp", dtype, (Term("neg", dtype, (Term("abs", dtype, (a,)),)),), bound=1)
    if how < 0.5:
        positive = Term("add", dtype, (Term("abs", dtype, (a,)), const(1.0, dtype)))
        return Term(context.pick(["sqrt", "log1p"]), dtype, (positive,), bound=a.bound + 1)
    b = draw_term(context, dtype, depth - 1)
    if how < 0.65:
        positive = Term("add", dtype, (Term("abs", dtype, (b,)), const(1.0, dtype)))
        return Term("div", dtype, (a, positive), bound=a.bound)
    op = context.pick(["add", "sub", "mul", "min", "max"])
    bound = a.bound * b.bound if op == "mul" else a.bound + b.bound
    return Term(op, dtype, (a, b), bound=bound) if bound <= 64 else a
