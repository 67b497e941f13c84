"""Arguments to the interpreter's memory and back: shapes are matched, symbols are read, arrays become lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.arguments import is_array
from ...base.errors import user_source
from ..buffer import Buffer
from ..errors import ArgumentsDoNotFit
from ..expr import Add, BinaryOp, Cast, Expr, IntImm, Mul, Sub, Var
from ..ops import cast, fold_binary, integer_value
from ..stmt import Function
from ..text.printer import to_text
from ..visit import rewrite
from .scalars import FLOAT_TYPES, numpy_dtype
from .sparse import LONGEST_LIST, Sparse

__all__ = ["constant_value", "find_symbols", "scalar_value", "list_elements", "write_back"]


def constant_value(value: Expr, symbols: Mapping[Var, int]) -> int | None:
    """The value of an integer expression over symbols; None where it depends on more."""
    if isinstance(value, IntImm):
        return value.value

    def rule(node: Any) -> Expr | None:
        if isinstance(node, Var):
            return IntImm(symbols[node], node.dtype) if node in symbols else None
        if isinstance(node, Cast):
            return cast(node.value, node.dtype)
        return fold_binary(type(node), node.a, node.b) if isinstance(node, BinaryOp) else None

    return integer_value(rewrite(value, rule))


def find_symbols(
    function: Function,
    declared: Sequence[Buffer | Var],
    args: Sequence[Any],
) -> tuple[dict[Var, int], dict[Buffer, tuple[int, ...]]]:
    """The values of the shape symbols, from the shapes of the arrays, after checking types and shapes; and the strides
    of each parameter of `function` in its memory."""
    if len(args) != len(function.params):
        given, wanted = len(args) - len(function.constants), function.arguments
        raise ArgumentsDoNotFit(
            f"{function.name} takes {len(wanted)} arguments, not {given}",
            called=user_source(),
            fix=f"pass one for each of {', '.join(param.name for param in wanted) or 'none'}",
        )
    symbols: dict[Var, int] = {}
    pairs = [(d, a) for d, a in zip(declared, args, strict=True) if isinstance(d, Buffer)]
    for parameter, argument in zip(declared, args, strict=True):
        if isinstance(parameter, Var) and parameter.dtype.is_integer:
            symbols[parameter] = scalar_value(parameter, argument)
    for buffer, array in pairs:
        _check_type(function, buffer, array)
        for extent, actual in zip((*buffer.shape, *buffer.strides), (*array.shape, *_steps(array)), strict=False):
            if isinstance(extent, Var):
                symbols.setdefault(extent, actual)
    for buffer, array in pairs:
        for extent, actual in zip(buffer.shape, array.shape, strict=False):
            _solve(extent, actual, symbols)
    for buffer, array in pairs:
        _check_shape(function, buffer, array, symbols)
    strides = {
        parameter: _strides_in_memory(parameter, array, symbols)
        for parameter, spoken, array in zip(function.params, declared, args, strict=True)
        if isinstance(parameter, Buffer) and isinstance(spoken, Buffer)
    }
    return symbols, strides


def _solve(extent: Expr, actual: int, symbols: dict[Var, int]) -> None:
    """Note the symbol that an extent was made of by adding, taking away and multiplying by constants, as the check of a
    call does; unless another extent has told its value."""
    while isinstance(extent, (Add, Sub, Mul, Cast)):
        if isinstance(extent, Cast):
            extent = extent.value
            continue
        turned = isinstance(extent.a, IntImm) and not isinstance(extent, Sub)
        inner, by = (extent.b, extent.a) if turned else (extent.a, extent.b)
        if not isinstance(by, IntImm) or (isinstance(extent, Mul) and by.value < 1):
            return
        if isinstance(extent, Mul):
            actual //= by.value
        else:
            actual += by.value if isinstance(extent, Sub) else -by.value
        extent = inner
    if isinstance(extent, Var):
        symbols.setdefault(extent, actual)


def _steps(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


def _check_type(function: Function, buffer: Buffer, array: object) -> None:
    if not is_array(array):
        raise ArgumentsDoNotFit(
            f"argument '{buffer.name}' of {function.name} must be an array",
            reason=f"got {type(array).__name__}",
            called=user_source(),
            fix="np.array(...) with that dtype",
        )
    if array.dtype != numpy_dtype(buffer.dtype):
        raise ArgumentsDoNotFit(
            f"argument '{buffer.name}' of {function.name} must be {buffer.dtype}",
            reason=f"got {array.dtype}",
            called=user_source(),
            fix=f'x.astype("{buffer.dtype}")',
        )


def _check_shape(function: Function, buffer: Buffer, array: np.ndarray[Any, Any], symbols: Mapping[Var, int]) -> None:
    if buffer.ndim == 1 and array.ndim != 1:
        wanted = constant_value(buffer.shape[0], symbols)  # flattened: the elements must be there, in any shape
        fits = wanted is None or wanted == array.size or bool(buffer.strides)
    else:
        fits = buffer.ndim == array.ndim and all(
            constant_value(extent, symbols) in (None, actual)
            for extent, actual in zip(buffer.shape, array.shape, strict=True)
        )
    if not fits:
        raise ArgumentsDoNotFit(
            f"argument '{buffer.name}' of {function.name} has the wrong shape",
            reason=f"it is declared `{to_text(buffer)}`, and got {list(array.shape)}",
            called=user_source(),
            fix="pass an array of the declared shape",
        )


def _strides_in_memory(
    parameter: Buffer,
    array: np.ndarray[Any, Any],
    symbols: Mapping[Var, int],
) -> tuple[int, ...]:
    """Return the strides in elements: the declared ones, else those of compact row-major order."""
    if parameter.strides:
        strides = tuple(constant_value(stride, symbols) for stride in parameter.strides)
        return tuple(step or 0 for step in strides)
    if parameter.ndim == 1:
        return (1,)
    steps: list[int] = []
    step = 1
    for extent in reversed(array.shape):
        steps.insert(0, step)
        step *= extent
    return tuple(steps)


def _elements(declared: Buffer, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory of an array in the order in which the program counts it, as a view where strides are declared."""
    if not declared.strides or array.size == 0:
        return array.reshape(-1)
    span = 1 + sum((extent - 1) * step for extent, step in zip(array.shape, _steps(array), strict=True))
    return np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))


def list_elements(
    declared: Buffer,
    array: np.ndarray[Any, Any],
    empty: bool,
    symbols: Mapping[Var, int],
) -> list[Any] | Sparse:
    """Its elements as the interpreter holds them; `empty`: as many None."""
    flat = _elements(declared, array)
    first = 0 if declared.elem_offset is None else constant_value(declared.elem_offset, symbols) or 0
    if flat.size > LONGEST_LIST:
        return Sparse(first + flat.size, None, None if empty else flat, first)
    if empty:
        return [None] * (first + flat.size)
    return [None] * first + (list(flat) if declared.dtype.is_float else flat.tolist())


def write_back(
    declared: Buffer, array: np.ndarray[Any, Any], data: list[Any] | Sparse, symbols: Mapping[Var, int]
) -> None:
    """The elements that were written, into the array."""
    first = 0 if declared.elem_offset is None else constant_value(declared.elem_offset, symbols) or 0
    if isinstance(data, Sparse):
        flat = _elements(declared, array)
        for place, value in data.stored.items():
            flat[place - first] = value
        return
    if declared.strides and array.size:
        flat = _elements(declared, array)
        for place, value in enumerate(data[first:]):
            if value is not None:
                flat[place] = value
        return
    if all(value is not None for value in data[first:]):
        array[...] = np.array(data[first:], array.dtype).reshape(array.shape)
        return
    places = [place for place, value in enumerate(data[first:]) if value is not None]
    array.flat[places] = [data[first + place] for place in places]


def scalar_value(parameter: Var, argument: Any) -> Any:
    """A scalar argument as the interpreter holds it."""
    dtype = parameter.dtype
    if dtype.is_float:
        return FLOAT_TYPES[dtype](argument)
    value = int(argument)
    if dtype.is_bool:
        return bool(value)
    if dtype.is_integer and not dtype.least <= value <= dtype.greatest:
        raise ArgumentsDoNotFit(
            f"argument '{parameter.name}' does not fit {dtype}",
            reason=f"got {value}",
            called=user_source(),
            fix=f"pass a number from {dtype.least} to {dtype.greatest}",
        )
    return value
