"""Records as JSON and back. Expressions go as their structure, node by node. A text that comes from somewhere may say less than
one of ours: see foreign."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

from ...base.errors import InternalError, user_source
from ...base.untrusted_input import plain_json, printable
from ...ir import expr as nodes
from ...ir.dtype import DType
from ...ir.expr import Expr, Var
from ...ir.visit import deep_recursion
from ..errors import BadRecords
from .foreign import LARGEST
from .primitive import find_owner, find_primitive
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

__all__ = ["from_json", "to_json", "why_not_foreign"]

_NODES: dict[str, type[Any]] = {
    name: getattr(nodes, name)
    for name in (
        "Add",
        "And",
        "Call",
        "Cast",
        "Div",
        "EQ",
        "FloatImm",
        "FloorDiv",
        "FloorMod",
        "GE",
        "GT",
        "IfThenElse",
        "IntImm",
        "LE",
        "LT",
        "Max",
        "Min",
        "Mul",
        "NE",
        "Not",
        "Or",
        "Select",
        "Sub",
        "TruncDiv",
        "TruncMod",
    )
}
"""What an expression in a record may consist of, besides variables."""
_PARTS: dict[type[Any], tuple[type[Any], ...]] = {
    nodes.IntImm: (int, DType),
    nodes.FloatImm: (float, DType),
    nodes.Cast: (Expr, DType),
    nodes.Call: (str, tuple, DType),
    nodes.Not: (Expr,),
    nodes.Select: (Expr, Expr, Expr),
    nodes.IfThenElse: (Expr, Expr, Expr),
}
"""What these are made of; the others are made of two expressions."""
_MOST_BYTES = 1 << 20
_MOST_DEPTH, _FOREIGN_DEPTH = 4096, 64
_REFERENCES: dict[str, type[Any]] = {
    "stage": StageRef,
    "axis": AxisRef,
    "tensor": TensorRef,
    "symbol": SymbolRef,
    "thread": ThreadRef,
    "group": GroupRef,
    "parameter": ParameterRef,
}
_REFERENCE_NAMES = {cls: name for name, cls in _REFERENCES.items()}


def to_json(records: Iterable[Record]) -> str:
    """The records as a JSON list of [primitive, place of the stage or null, arguments]."""
    with deep_recursion():
        plain = [
            [record.primitive, record.stage, {name: _plain(value) for name, value in record.arguments.items()}]
            for record in records
        ]
    return json.dumps(plain)


_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


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
    return _plain_number(value)


def _plain_number(value: Any) -> Any:
    """JSON has no infinity, which pads windows whose greatest element is looked for."""
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


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
    return _plain_number(value)


def from_json(text: str, foreign: bool = False) -> tuple[Record, ...]:
    """The records that `to_json` wrote.

    foreign: the text comes from somewhere, a database or a log: only primitives that cannot change what is computed are taken,
    with arguments in bounds (see the `foreign` of their rows). Raises BadRecords (TW0223) for other text, and for any that is
    longer or nested deeper than records are.
    """
    try:
        plain = plain_json(text, _MOST_BYTES, _FOREIGN_DEPTH if foreign else _MOST_DEPTH)
        if not isinstance(plain, list):
            raise ValueError("it is not a list")
        with deep_recursion():
            records = tuple(_record(item) for item in cast("list[Any]", plain))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InternalError) as fault:
        raise _bad(f"{type(fault).__name__}: {fault}") from None
    if foreign:
        for at, record in enumerate(records, 1):
            reason = why_not_foreign(record)
            if reason:
                raise _bad(f"record {at}, of {len(records)}: {reason}")
    return records


def _bad(reason: str) -> BadRecords:
    return BadRecords(
        "the text holds no records",
        reason=printable(reason[:300]),
        called=user_source(),
        fix="pass what to_json(s.trace) gave",
    )


def why_not_foreign(record: Record) -> str:
    """Return the reason for which a record is not taken from a text from elsewhere; "" where it is."""
    row = find_primitive(find_owner(record), record.primitive)
    if row is None:
        return f"there is no primitive {record.primitive[:40]!r}"
    if row.foreign is None:
        return f"{row.name} is not taken from a text: it could change what is computed"
    for name, value in record.arguments.items():
        kind = row.foreign.get(name)
        if kind is None:
            return f"{row.name} has no argument {name[:40]!r}"
        if not kind.test(value):
            return f"{name} of {row.name} is {repr(value)[:80]}, and a text may give {kind.says}"
    return ""


def _record(plain: Any) -> Record:
    primitive, stage, arguments = plain
    if not isinstance(primitive, str) or not isinstance(arguments, dict):
        raise TypeError("a record is [primitive, place of the stage or null, arguments]")
    named = {name: _value(value) for name, value in cast("dict[str, Any]", arguments).items()}
    if primitive == "skew" and "factor" in named:  # what rotate was named up to 0.4; skew has a slope
        primitive = "rotate"
    return Record(primitive, None if stage is None else _number(stage), named)


def _number(plain: Any) -> int:
    """A place, or an extent."""
    if type(plain) is not int or not 0 <= plain <= LARGEST:
        raise ValueError(f"{repr(plain)[:40]} is not a place")
    return plain


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(item) for item in cast("list[Any]", plain))
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = cast("dict[str, Any]", plain).items()
    if kind == "float":
        return _NOT_FINITE[content]
    if kind == "expr":
        return _expression(content)
    if kind == "layout":
        names, dtypes, indices = content
        return IndexMapRef(
            tuple(map(_text, names)), tuple(map(_text, dtypes)), tuple(_expression(index["expr"]) for index in indices)
        )
    if kind == "intrinsic":
        name, arguments = content
        return IntrinsicRef(_text(name), None if arguments is None else tuple(arguments))
    if kind == "thread":
        place, tag, extent = content
        return ThreadRef(_number(place), _text(tag), None if extent is None else _number(extent))
    places = list(map(_number, content))
    return _REFERENCES[kind](*places)


def _text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"{repr(plain)[:40]} is not a text")
    return plain


def _expression(plain: Any) -> ExprRef:
    variables: dict[VarRef, Var] = {}
    expr = _expr(plain, variables)
    if not isinstance(expr, Expr):
        raise TypeError(f"{repr(plain)[:40]} is not an expression")
    return ExprRef(expr, tuple((var, ref) for ref, var in variables.items()))


def _expr(plain: Any, variables: dict[VarRef, Var]) -> Any:
    """An expression over new variables, one for each reference, noted in `variables`; or a part of one that is none."""
    if isinstance(plain, list):
        return tuple(_expr(item, variables) for item in cast("list[Any]", plain))
    if not isinstance(plain, dict):
        return plain
    fields = cast("dict[str, Any]", plain)
    if "node" in fields:
        cls = _NODES[fields["node"]]
        parts = [_expr(part, variables) for part in fields["of"]]
        expected = _PARTS.get(cls, (Expr, Expr))
        if len(parts) != len(expected) or not all(map(isinstance, parts, expected)):
            raise TypeError(f"{cls.__name__} is not made of {repr(parts)[:80]}")
        return cls(*parts)
    if "dtype" in fields:
        return DType(_text(fields["dtype"]))
    ref = _value(fields)
    if isinstance(ref, float):
        return ref
    if not isinstance(ref, (AxisRef, SymbolRef, ThreadRef, ParameterRef)):
        raise TypeError(f"{repr(ref)[:40]} stands for no variable")
    return variables.setdefault(ref, Var(f"v{len(variables)}", DType("int32")))
