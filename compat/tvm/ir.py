"""tvm.ir."""

from __future__ import annotations

from typing import Any

from ...ir import expr as _expr
from ...ir import ops as _ops
from ...ir import structural
from ...ir.expr import Expr as PrimExpr
from . import transform
from .container import Array, Attrs, Map
from .intrinsic_rules import register_intrin_lowering, register_op_attr
from .ir_module import GlobalVar, IRModule
from .nodes import ours
from .serialization import load_json, save_json
from .tir import FloatImm, IntImm

__all__ = [
    "Array",
    "Attrs",
    "FloatImm",
    "GlobalVar",
    "IRModule",
    "IntImm",
    "Map",
    "PrimExpr",
    "Range",
    "assert_structural_equal",
    "load_json",
    "register_intrin_lowering",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
    "transform",
]


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Return whether two functions or expressions differ by no more than the names of their variables."""
    return structural.equal(ours(lhs), ours(rhs), map_free_vars)


def structural_hash(node: Any) -> int:
    """A number that structurally equal functions and expressions share."""
    return structural.structural_hash(ours(node))


class _RangeConstructor(type):
    def __call__(cls, begin: Any, end: Any = None) -> Any:
        if end is None:
            begin, end = 0, begin
        begin, end = _ops.match_types(_ops.convert(begin), end)
        return _expr.Range(begin, _ops.subtract(end, begin))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _expr.Range)


class Range(metaclass=_RangeConstructor):
    """tvm.ir.Range(begin, end), or Range(end) from 0: one of our ranges, which hold begin and extent."""

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> _expr.Range:
        """The range of `extent` integers from `min_value` on."""
        return _expr.Range(*_ops.match_types(_ops.convert(min_value), extent))


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError where two functions or expressions differ by more than the names of their variables."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"structurally different:\n{lhs}\nand\n{rhs}")
