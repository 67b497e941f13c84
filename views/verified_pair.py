"""A program with and without its schedule, cut down to some size, and arguments drawn for both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import dataclass, field, user_source
from ..base.arguments import is_array
from ..ir import Buffer, Expr, Function, IntImm, ProducerLoad, Var, post_order, substitute
from ..ir.arith.analyzer import simplify
from ..ir.dtype import INT64
from ..ir.ops import cast, const
from ..ir.widen import widen
from ..runtime.array import numpy_dtype
from ..te.operation import Operation, producers_first
from ..te.tensor import Tensor
from .errors import CannotVerify
from .large import LONGEST_DENSE, noting, scatter

__all__ = [
    "Pair",
    "copied",
    "data_indexed",
    "declared",
    "draw_inputs",
    "element_count",
    "evaluate_extent",
    "mostly_numbers",
    "symbol_texts",
    "tensor_bytes",
]


@dataclass(frozen=True, slots=True)
class Pair:
    """One program, scheduled and plain, and what its symbols are taken to be."""

    scheduled: Function
    plain: Function
    values: dict[Var, int]
    outputs: tuple[Operation, ...]
    touched: dict[Buffer, list[int]] = field(default_factory=dict[Buffer, list[int]])
    """Of arguments that are too long to be drawn whole, the places that the plain program reads."""
    vouched: bool = False
    """True where the user vouches for parallel loops, in a script or in the schedule."""


def symbol_texts(pair: Pair) -> list[str]:
    """The values of the symbols, as text."""
    return [f"{var.name} = {value}" for var, value in pair.values.items()]


def declared(param: Buffer | Var) -> str:
    if isinstance(param, Buffer):
        return f"{param.name}: {param.dtype}[{', '.join(map(str, param.shape))}]"
    return f"{param.name}: {param.dtype}"


def draw_inputs(
    pair: Pair,
    seed: int,
    positive: bool,
    zero: bool,
    exact: bool,
    noted: dict[Buffer, set[int]] | None = None,
) -> list[Any]:
    """An argument for each parameter; with `noted`, long ones that tell there at which places they are read.

    Floats are between -2 and 2: eighths, whose sums are exact, or, where bits are compared, any, whose sums are not; outputs hold
    what no program computes by chance. Where a program vouches for loops that are parallel, integers are permutations.
    """
    rng = np.random.default_rng(seed)
    symbols: dict[Var, Expr] = {var: const(value, var.dtype) for var, value in pair.values.items()}
    limits = [evaluate_extent(extent, symbols) for extent in data_indexed(pair.outputs)]
    drawn: list[Any] = []
    for param in pair.plain.arguments:
        shape = tuple(evaluate_extent(extent, symbols) for extent in param.shape) if isinstance(param, Buffer) else ()
        dtype = numpy_dtype(param.dtype)
        if isinstance(param, Buffer) and param in pair.plain.outputs:
            drawn.append(
                np.full(shape, np.nan if param.dtype.is_float else 0x5A if not param.dtype.is_bool else 0).astype(dtype)
            )
            continue
        whole = shape
        if noted is not None and isinstance(param, Buffer) and math.prod(shape) > LONGEST_DENSE:
            array, noted[param] = noting(shape, dtype)
            drawn.append(array)
            continue
        if isinstance(param, Buffer) and param in pair.touched:
            shape = (len(pair.touched[param]),)
        if param.dtype.is_bool:
            value: Any = rng.integers(0, 2, shape)
        elif param.dtype.is_float:
            value = rng.integers(1 if positive else -16, 17, shape) / 8
            value = value + rng.uniform(-1 / 16, 1 / 16, shape) if exact else value
        elif limits and pair.vouched and not zero:
            most = max(min(limits), 1)  # every place once, as far as there are enough of them
            value = np.resize(rng.permutation(most), shape)
        elif limits:
            value = rng.integers(0, 1 if zero else max(min(limits), 1), shape)
        else:
            value = rng.integers(0 if positive or param.dtype.kind == "uint" else -8, 9, shape)
        if isinstance(param, Var) and param in pair.values:
            value = pair.values[param]
        value = np.asarray(value).astype(dtype)
        if isinstance(param, Buffer):
            drawn.append(scatter(whole, dtype, pair.touched[param], value) if param in pair.touched else value)
        else:
            drawn.append(value[()])
    return drawn


def evaluate_extent(extent: Expr, symbols: Mapping[Var, Expr]) -> int:
    wide = {var: Var(var.name, INT64) for var in symbols}
    value = simplify(substitute(widen(extent, wide), {wide[var]: cast(known, INT64) for var, known in symbols.items()}))
    if not isinstance(value, IntImm):
        raise CannotVerify(
            f"the extent {extent} of an argument is not known",
            reason="it changes with more than symbols",
            called=user_source(),
        )
    return max(value.value, 0)


def data_indexed(outputs: Sequence[Operation]) -> list[Expr]:
    """The extents of the dimensions that data are indices of."""
    extents: list[Expr] = []
    for op in producers_first(outputs):
        extents += op.data_indexed
        for load in op.loads:
            extents += [
                load.producer.shape[at]
                for at, index in enumerate(load.indices)
                if any(isinstance(node, ProducerLoad) for node in post_order(index))
            ]
    return extents


def mostly_numbers(function: Function, values: Sequence[Any]) -> bool:
    floats = [
        np.asarray(value, np.float64)
        for param, value in zip(function.arguments, values, strict=True)
        if isinstance(param, Buffer) and param in function.outputs and param.dtype.is_float
    ]
    return all(array.size == 0 or np.isfinite(array).mean() > 0.5 for array in floats)


def tensor_bytes(tensor: Tensor, values: Mapping[Var, int]) -> int:
    """The bytes of a tensor."""
    symbols: dict[Var, Expr] = {var: const(value, var.dtype) for var, value in values.items()}
    return math.prod(evaluate_extent(extent, symbols) for extent in tensor.shape) * tensor.dtype.bytes


def element_count(op: Operation, values: Mapping[Var, int]) -> int:
    symbols: dict[Var, Expr] = {var: const(value, var.dtype) for var, value in values.items()}
    count = 1
    for axis in op.axis:
        count *= evaluate_extent(axis.dom.extent, symbols) if axis.dom is not None else 1
    return count


def copied(arguments: Sequence[Any]) -> list[Any]:
    """Arrays of their own for another run."""
    return [value.copy() if is_array(value) else value for value in arguments]
