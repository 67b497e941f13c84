"""Signature of a function as plain data, that its call stub and its error messages are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...base import INT32_EXTENT_LIMIT, user_source
from ...ir.analysis.work import executions, measure_work
from ...ir.buffer import Buffer
from ...ir.expr import (
    Add,
    BinaryOp,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.stmt import Function, LoopKind
from ...ir.visit import free_vars, walk
from ...runtime.signature import BufferParam, Extent, ScalarParam, Signature, Symbol
from ..errors import ExtentNotCheckable

__all__ = ["is_checkable", "shape_symbols", "make_signature", "unique_names", "add_buffers"]

_EXTENT_OPERATORS: dict[type[BinaryOp], str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    Min: "min",
    Max: "max",
    TruncDiv: "//",
    TruncMod: "%",  # the same where nothing is negative, as extents are
}
_LONG_RUN = 200_000
"""Iterations of the innermost statements from which a kernel counts as long-running, whatever its arguments' size."""


def make_signature(function: Function, symbols: Sequence[Var]) -> Signature:
    """The signature of a lowered function (before its buffers are flattened); `symbols`: its free shape symbols, in the
    order in which the kernel takes them. Raises ExtentNotCheckable for an extent that is not integer arithmetic."""
    names = unique_names(function, symbols)  # two parameters may have one name in the program
    in_shapes = {
        var for buffer in function.buffers for extent in buffer.shape for var in walk(extent) if isinstance(var, Var)
    }
    params: list[BufferParam | ScalarParam] = []
    for param in function.arguments:
        if isinstance(param, Buffer):
            shape = tuple(_extent(extent, names, param) for extent in param.shape)
            # the alignment of an element is checked anyway
            alignment = param.alignment if param.alignment > param.dtype.bytes else 0
            params.append(BufferParam(names[param], str(param.dtype), shape, param in function.outputs, alignment))
        elif param in in_shapes or isinstance(param, SizeVar):  # code relies on extents and sizes not being negative
            # indices of 32 bits: the largest extent has to fit them
            limit = INT32_EXTENT_LIMIT - 1 if param.dtype == "int32" else None
            params.append(ScalarParam(names[param], str(param.dtype), 0, limit))
        else:
            params.append(ScalarParam(names[param], str(param.dtype)))
    return Signature(
        function.name, tuple(params), tuple(Symbol(names[var], str(var.dtype)) for var in symbols), _runs_long(function)
    )


def add_buffers(signature: Signature, buffers: Sequence[Buffer | Var]) -> Signature:
    """A signature with further parameters: buffers that the function writes, whose sizes are known or told by its scalars."""
    names: dict[Buffer | Var, str] = {
        var: var.name
        for buffer in buffers
        if isinstance(buffer, Buffer)
        for extent in buffer.shape  # only symbols that a scalar tells can stand in a workspace's extent
        for var in free_vars(extent)
    }
    more = (
        BufferParam(
            # True: a workspace is written
            f"workspace_{at}",
            str(buffer.dtype),
            tuple(_extent(extent, names, buffer) for extent in buffer.shape),
            True,
        )
        for at, buffer in enumerate(buffers)
        if isinstance(buffer, Buffer)
    )
    return replace(signature, params=(*signature.params, *more))


def shape_symbols(function: Function) -> tuple[Var, ...]:
    """The variables in the shapes of a function's parameters that are no parameters themselves, by first appearance."""
    # a dict for its order, which is the order of the call
    symbols: dict[Var, None] = {}
    for buffer in function.buffers:
        for extent in buffer.shape:
            symbols.update((node, None) for node in walk(extent) if isinstance(node, Var))
    # a scalar parameter that is an extent has its value passed
    return tuple(var for var in symbols if var not in function.scalars)


def is_checkable(extent: Expr) -> bool:
    """Return whether an extent is integer arithmetic, which callers can do."""
    return (
        isinstance(extent, (IntImm, Var))
        or isinstance(extent, Cast)
        and is_checkable(extent.value)
        or (
            isinstance(extent, BinaryOp)
            and type(extent) in _EXTENT_OPERATORS
            and is_checkable(extent.a)
            and is_checkable(extent.b)
        )
    )


def unique_names(function: Function, symbols: Sequence[Var]) -> dict[Buffer | Var, str]:
    """The name by which a signature knows each parameter and shape symbol."""
    names: dict[Buffer | Var, str] = {}
    taken: set[str] = set()
    for item in (*function.arguments, *symbols):
        name, number = item.name, 0
        while name in taken:  # the first keeps its name, which callers may pass by keyword
            number += 1
            name = f"{item.name}_{number}"
        taken.add(name)
        names[item] = name
    return names


def _extent(extent: Expr, names: Mapping[Buffer | Var, str], buffer: Buffer) -> Extent:
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        return names[extent]
    if isinstance(extent, Cast):  # to 64 bits, in which extents are checked
        return _extent(extent.value, names, buffer)
    if not isinstance(extent, BinaryOp) or type(extent) not in _EXTENT_OPERATORS:
        raise ExtentNotCheckable(
            f"the extent `{extent}` of {buffer.name} cannot be checked when the kernel is called",
            called=user_source(),
            reason="only + - * // % min and max of symbols and integers can",
            fix="pass the extent as a symbol of its own",
        )
    return (_EXTENT_OPERATORS[type(extent)], _extent(extent.a, names, buffer), _extent(extent.b, names, buffer))


def _runs_long(function: Function) -> bool:
    """Return whether the loops whose extents are known take so many turns that other Python threads should run meanwhile."""
    return any(  # a shared loop counts as long whatever its turns
        work.loop is not None and (work.loop.kind is LoopKind.PARALLEL or turns >= _LONG_RUN)
        # unknown extents count as 1: the arguments' bytes decide then (GIL_THRESHOLD)
        for work, turns in executions(measure_work(function, bounds=False), unknown=1)
    )
