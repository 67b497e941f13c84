"""topi.utils: what programs on topi use to write operators and schedules of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.expr import IntImm
from ....schedule import Schedule
from ....te.operation import Operation
from . import tag

__all__ = ["equal_const_int", "get_const_int", "get_const_tuple", "traverse_inline"]


def get_const_int(expr: Any) -> int:
    """A constant extent as an integer. Raises ValueError for a symbol."""
    if isinstance(expr, IntImm):
        return expr.value
    if not isinstance(expr, int):
        raise ValueError("Expect value to be constant int")
    return expr


def get_const_tuple(in_tuple: Any) -> tuple[Any, ...]:
    """Extents as integers; symbols stay what they are."""
    return tuple(one.value if isinstance(one, IntImm) else one for one in in_tuple)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an extent is this number."""
    return (expr.value if isinstance(expr, IntImm) else expr) == value if isinstance(expr, (int, IntImm)) else False


def traverse_inline(s: Schedule, final_op: Operation, callback: Callable[[Operation], None]) -> None:
    """Inlines what is tagged injective, from `final_op` to its inputs, and calls `callback` on every operation."""
    seen: set[Operation] = set()
    stack = [final_op]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            stack.extend(tensor.op for tensor in op.input_tensors if tensor.op.input_tensors)
        callback(op)
