"""Records as JSON and back. Expressions go as their structure, node by node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

from ...errors import user_source
from ...ir import expr as nodes
from ...ir.dtype import DType
from ...ir.expr import Expr, Var
from ...ir.visit import deep_recursion
from ..errors import BadRecords
from .records import (
    AxisRef,
    ExprRef,
    GroupRef,
    IndexMapRef,
    IntrinsicRef,
    ParameterRef,
    Record,
    StageRef,
    SymbolRef,
    TensorRef,
    ThreadRef,
    VarRef,
)

__all__ = ["from_json", "to_json"]

_NODES: dict[str, type[Any]] = {
    name: getattr(nodes, name)
    for name in (
        "Add", "And", "Call", "Cast", "Div", "EQ", "FloatImm", "FloorDiv", "FloorMod", "GE", "GT", "IfThenElse",
        "IntImm", "LE", "LT", "Max", "Min", "Mul", "NE", "Not", "Or", "Select", "Sub", "TruncDiv", "TruncMod",
    )
}
"""What an expression in a record may consist of, besides variables."""
_REFERENCES: dict[str, type[Any]] = {
    "stage": StageRef, "axis": AxisRef, "tensor": TensorRef, "symbol": SymbolRef, "thread": ThreadRef,
    "group": GroupRef, "parameter": ParameterRef}
_REFERENCE_NAMES = {cls: name for name, cls in _REFERENCES.items()}


def to_json(records: Iterable[Record]) -> str:
    """The records as a JSON list of [primitive, place of the stage or null, arguments]."""
    with deep_recursion():
        plain = [
            [record.primitive, record.stage, {name: _plain(value) for name, value in record.arguments.items()}]
            for record in records
        ]
    return json.dumps(plain)


def _plain(value: Any) -> Any:
    if type(value) in _REFERENCE_NAMES:
        return {_REFERENCE_NAMES[type(value)]: [getattr(value, item.name) for item in fields(value)]}
    if isinstance(value, ExprRef):
        return {"expr": _plain_expr(value.expr, dict(value.variables))}
    if isinstance(value, IndexMapRef):
        return {"layout": [list(value.parameters), list(value.dtypes), [_plain(index) for index in value.indices]]}
    if isinstance(value, IntrinsicRef):
        return {"intrinsic": [value.name, None if value.arguments is None else list(value.arguments)]}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[Any, ...]", value)]
    return value


def _plain_expr(value: Any, variables: Mapping[Var, VarRef]) -> Any:
    if isinstance(value, Var):
        return _plain(variables[value])
    if isinstance(value, Expr):
        parts = [getattr(value, item.name) for item in fields(cast(Any, value)) if item.init]
        return {"node": type(value).__name__, "of": [_plain_expr(part, variables) for part in parts]}
    if isinstance(value, DType):
        return {"dtype": str.__str__(value)}
    if isinstance(value, tuple):
        return [_plain_expr(item, variables) for item in cast("tuple[Any, ...]", value)]
    return value


def from_json(text: str) -> tuple[Record, ...]:
    """The records that `to_json` wrote. Raises BadRecords (TW0223) for other text."""
    try:
        with deep_recursion():
            return tuple(
                Record(
                    str(primitive),
                    None if stage is None else int(stage),
                    {str(k): _value(v) for k, v in arguments.items()},
                )
                for primitive, stage, arguments in json.loads(text)
            )
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise BadRecords(
            "the text holds no records",
            reason=f"{type(fault).__name__}: {fault}"[:200],
            called=user_source(),
            fix="pass what to_json(s.trace) gave",
        ) from None


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(item) for item in cast("list[Any]", plain))
    if not isinstance(plain, dict):
        return plain
    (kind, content), = cast("dict[str, Any]", plain).items()
    if kind == "expr":
        variables: dict[VarRef, Var] = {}
        expr = _expr(content, variables)
        return ExprRef(expr, tuple((var, ref) for ref, var in variables.items()))
    if kind == "layout":
        names, dtypes, indices = content
        return IndexMapRef(tuple(map(str, names)), tuple(map(str, dtypes)), tuple(_value(index) for index in indices))
    if kind == "intrinsic":
        name, arguments = content
        return IntrinsicRef(str(name), None if arguments is None else tuple(arguments))
    return _REFERENCES[kind](*content)


def _expr(plain: Any, variables: dict[VarRef, Var]) -> Any:
    """An expression over new variables, one for each reference, noted in `variables`."""
    if isinstance(plain, list):
        return tuple(_expr(item, variables) for item in cast("list[Any]", plain))
    if not isinstance(plain, dict):
        return plain
    fields = cast("dict[str, Any]", plain)
    if "node" in fields:
        return _NODES[fields["node"]](*(_expr(part, variables) for part in fields["of"]))
    if "dtype" in fields:
        return DType(fields["dtype"])
    ref = _value(fields)
    return variables.setdefault(ref, Var(f"v{len(variables)}", DType("int32")))
