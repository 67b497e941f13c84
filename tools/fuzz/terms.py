"""Expressions written once and meant twice: as tensor expressions, and as numpy arrays over the grid of all indices.

A Term is an operator with its operands; TENSORS and ARRAYS say what each operator is on either side. Floats are kept to
small multiples of powers of two (`bound`, `steps`), on which every drawn operator is exact, so that results compare
exactly whatever order a schedule gives to additions; `smooth` terms trade that for exp, division and the like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from ... import te

__all__ = [
    "DTYPES",
    "EPSILON",
    "EXACT",
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "Size",
    "Source",
    "Term",
    "evaluate_arrays",
    "express_tensors",
    "cast_array",
    "common",
    "numpy_type",
]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("float32", *[name for name in FLOATS if name != "float32"], *INTEGERS, "bool")
NUMBERS = DTYPES[:-1]
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
        """Return whether it is made of axes, sizes and constants alone; in int32 and int64 that must not overflow."""
        return self.op != "read" and all(arg.of_indices for arg in self.args)


def view_unsigned(a: np.ndarray) -> np.ndarray:
    return a.view(f"uint{a.dtype.itemsize * 8}") if a.dtype.kind == "i" else a


def truncate_divide(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    parts: list[np.ndarray] = []
    for at in (0, 1):
        words = np.array([pair[at] & ((1 << bits) - 1) for pair in pairs], dtype=f"uint{bits}")
        parts.append(words.view(a.dtype).reshape(a.shape))
    return parts[0], parts[1]


def leading_zeros(a: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    flat = [bits - int(value).bit_length() for value in view_unsigned(np.array(a)).ravel()]
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
    cast = np.where(low | high, 0.0, value).astype(kind)
    return np.where(low, kind.type(info.min), np.where(high, kind.type(info.max), cast)).astype(kind)


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


Function: TypeAlias = "Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]"

where: Callable[..., Any] = np.where
"""Without its overloads, of which the type checker chooses none where something may be anything."""

TENSORS: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": te.truncdiv,
    "truncmod": te.truncmod,
    "min": lambda a, b: _extremum(te.min, a, b),
    "max": lambda a, b: _extremum(te.max, a, b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": te.abs,
    "popcount": te.popcount,
    "clz": te.clz,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "square": lambda a: a**2,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "all": te.all,
    "any": te.any,
    "select": te.select,
    "ite": te.if_then_else,
    "floor": te.floor,
    "ceil": te.ceil,
    "trunc": te.trunc,
    "rint": te.nearbyint,
    "isnan": te.isnan,
    "div": lambda a, b: a / b,
    "exp": te.exp,
    "tanh": te.tanh,
    "sigmoid": te.sigmoid,
    "sin": te.sin,
    "sqrt": te.sqrt,
    "log1p": te.log1p,
    "erf": te.erf,
    "atan": te.atan,
}


def _erf(a: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(value)) for value in a.ravel()]).reshape(a.shape).astype(a.dtype)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-a.astype("float64")))).astype(a.dtype)


ARRAYS: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": lambda a, b: truncate_divide(a, b)[0],
    "truncmod": lambda a, b: truncate_divide(a, b)[1],
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
    "popcount": lambda a: np.bitwise_count(view_unsigned(np.array(a))).astype(a.dtype),
    "clz": leading_zeros,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "square": lambda a: a * a,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "all": np.logical_and,
    "any": np.logical_or,
    "select": np.where,
    "ite": np.where,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "isnan": np.isnan,
    "div": np.divide,
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "log1p": np.log1p,
    "erf": _erf,
    "atan": np.arctan,
}


def express_tensors(term: Term, axes: Sequence[Any]) -> Any:
    """The term as a tensor expression at these indices."""
    if term.op == "axis":
        return axes[term.data]
    if term.op == "size":
        return te.const(term.data.te) if term.data.known else term.data.te
    if term.op == "const":
        return te.const(term.data, term.dtype)
    args = [express_tensors(arg, axes) for arg in term.args]
    if term.op == "read":
        return term.data.tensor[tuple(args)]
    if term.op == "cast":
        return args[0].astype(term.dtype)
    return TENSORS[term.op](*args)


def evaluate_arrays(term: Term, grids: Sequence[np.ndarray]) -> np.ndarray:
    """The term's values over grids of indices."""
    if term.op == "axis":
        return grids[int(term.data)]
    if term.op == "size":
        return np.array(term.data.value, "int32")
    if term.op == "const":
        return np.array(term.data, "float64" if isinstance(term.data, float) else None).astype(numpy_type(term.dtype))
    args = [np.asarray(evaluate_arrays(arg, grids)) for arg in term.args]
    if term.op in MIXED and args[0].dtype != args[1].dtype:
        args = [cast_array(arg, common(*(operand.dtype for operand in term.args))) for arg in args]
    if term.op == "read":
        return array_read(term.data, args)
    if term.op == "cast":
        return cast_array(args[0], term.dtype)
    return np.asarray(ARRAYS[term.op](*args))


MIXED = ("add", "sub", "mul", "min", "max", "lt", "le", "gt", "ge", "eq", "ne")
"""Operators that are also drawn on operands of two types."""


def common(a: str, b: str) -> str:
    """The type in which two meet: of floats the wider (of two halves float32), of an integer and a float the float, of
    integers the wider, of one width the unsigned one."""
    x, y = numpy_type(a).itemsize, numpy_type(b).itemsize
    if a in FLOATS or b in FLOATS:
        if not (a in FLOATS and b in FLOATS):
            return a if a in FLOATS else b
        return (a if a == b else "float32") if x == y else (a if x > y else b)
    return a if x > y or x == y and a.startswith("uint") else b
