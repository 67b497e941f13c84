"""Index arithmetic in 64 bits, whose products of symbols do not overflow.

n * n, int32      →      int64(n) * int64(n)
"""

from __future__ import annotations

from collections.abc import Mapping

from .dtype import INT32, INT64
from .expr import BinaryOp, Call, Cast, Expr, IfThenElse, Not, Select, Var
from .ops import binary, call, cast, if_then_else, logical_not
from .visit import children, post_order, rebuild

__all__ = ["widen"]

_KEEP_WIDE = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "abs", "likely")


def widen(value: Expr, names: Mapping[Var, Var] | None = None) -> Expr:
    """An expression with its int32 arithmetic in 64 bits. names: variables in place of others."""
    known: dict[int, Expr] = {}
    for node in post_order(value):
        if isinstance(node, Expr):
            known[id(node)] = _widen_node(node, names or {}, known)
    return known[id(value)]


def _widen_node(node: Expr, names: Mapping[Var, Var], known: Mapping[int, Expr]) -> Expr:
    """A node, given what its children have become."""
    result: Expr
    if isinstance(node, Var):
        result = names.get(node, node)
        if result is not node and node.dtype not in (INT32, INT64):
            result = cast(result, node.dtype)
    elif isinstance(node, BinaryOp):
        result = binary(type(node), known[id(node.a)], known[id(node.b)])
    elif isinstance(node, Not):
        result = logical_not(known[id(node.value)])
    elif isinstance(node, Cast):
        result = cast(
            cast(known[id(node.value)], node.value.dtype)
            if node.value.dtype == INT32 and node.dtype != INT64
            else known[id(node.value)],
            node.dtype,
        )
    elif isinstance(node, (Select, IfThenElse)):
        result = if_then_else(known[id(node.condition)], known[id(node.true_value)], known[id(node.false_value)])
    elif isinstance(node, Call) and node.name in _KEEP_WIDE:
        result = call(node.name, *(known[id(argument)] for argument in node.args))
    elif isinstance(node, Call):
        arguments = [cast(known[id(argument)], argument.dtype) for argument in node.args]
        result = Call(node.name, tuple(arguments), node.dtype)
    else:
        result = rebuild(node, [known[id(child)] for child in children(node)])
    return cast(result, INT64) if result.dtype == INT32 else result
