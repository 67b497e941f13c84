"""The signature of a function: the plain data that its call stub and its error messages are made from."""

from __future__ import annotations

from ..ir.buffer import Buffer
from ..ir.expr import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, SizeVar, Sub, TruncDiv, TruncMod, Var
from ..ir.stmt import For, Function, LoopKind, Stmt
from ..ir.visit import children, walk
from ..runtime.signature import INT32_SYMBOL_LIMIT, BufferParam, Extent, ScalarParam, Signature, Symbol
from ..runtime.errors import UnknownExtent

__all__ = ["signature_of", "symbols_of"]

_OPERATORS: dict[type[Expr], str] = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", TruncDiv: "//", TruncMod: "%", Min: "min", Max: "max",
}
"""Truncating division of extents is floor division: a shape's symbols are not negative."""

_LONG_RUN = 1 << 16
"""Iterations from which a kernel is taken to run long whatever its arguments' size."""


def symbols_of(function: Function) -> tuple[Var, ...]:
    """The variables in the shapes of a function's parameters that are no parameters, by first appearance: the order in
    which the kernel takes them."""
    found: dict[Var, None] = {}
    for buffer in function.buffers:
        for extent in buffer.shape:
            found.update((node, None) for node in walk(extent) if isinstance(node, Var))
    return tuple(var for var in found if var not in function.scalars)


def signature_of(function: Function) -> Signature:
    """What calls of `function` must pass. The function's buffers must still have their n-d shapes.

    Names that several parameters share get a number, so that each can be named in a call and in an error. Raises
    UnknownExtent for a shape that is no integer arithmetic, SymbolNotBound for a symbol that no shape determines.
    """
    names = _unique_names((*function.params, *symbols_of(function)))
    in_shapes = {node for b in function.buffers for extent in b.shape for node in walk(extent) if isinstance(node, Var)}
    params = tuple(
        BufferParam(names[p], str(p.dtype), tuple(_extent(e, names, p) for e in p.shape), p in function.outputs)
        if isinstance(p, Buffer) else _scalar(p, names[p], p in in_shapes)
        for p in function.params
    )
    symbols = tuple(Symbol(names[var], str(var.dtype)) for var in symbols_of(function))
    return Signature(function.name, params, symbols, _runs_long(function.body))


def _unique_names(params: tuple[Buffer | Var, ...]) -> dict[Buffer | Var, str]:
    names: dict[Buffer | Var, str] = {}
    taken: set[str] = set()
    for param in params:
        name, number = param.name, 0
        while name in taken:
            number += 1
            name = f"{param.name}_{number}"
        taken.add(name)
        names[param] = name
    return names


def _scalar(var: Var, name: str, in_shapes: bool) -> ScalarParam:
    """A scalar parameter. As an extent, or a SizeVar, it is not negative, and in int32 it is limited like any symbol."""
    if not (in_shapes or isinstance(var, SizeVar)):
        return ScalarParam(name, str(var.dtype))
    return ScalarParam(name, str(var.dtype), 0, INT32_SYMBOL_LIMIT - 1 if var.dtype == "int32" else None)


def _extent(expr: Expr, names: dict[Buffer | Var, str], buffer: Buffer) -> Extent:
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return names[expr]
    if isinstance(expr, Cast):
        return _extent(expr.value, names, buffer)
    operator = _OPERATORS.get(type(expr))
    if operator is None:
        raise UnknownExtent(f"the extent {expr} of argument '{buffer.name}' cannot be checked at a call",
                            reason="shapes are made of integers, symbols and + - * // % min max",
                            fix="pass the extent as a scalar argument, and use that in the shape")
    left, right = (_extent(child, names, buffer) for child in children(expr))  # pyright: ignore[reportArgumentType]
    return operator, left, right


def _runs_long(body: Stmt) -> bool:
    """Whether some statement runs in parallel, or very often by the constant loops around it."""
    pending: list[tuple[Stmt, int]] = [(body, 1)]
    while pending:
        stmt, trips = pending.pop()
        if isinstance(stmt, For):
            if stmt.kind is LoopKind.PARALLEL:
                return True
            trips *= stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        if trips >= _LONG_RUN:
            return True
        pending += [(child, trips) for child in children(stmt) if isinstance(child, Stmt)]
    return False

