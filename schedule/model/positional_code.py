"""Records as Python code without the operations that they were made for: stages, axes and tensors by their places.

The code runs on any schedule of such operations. as_python, which has the operations, gives everything its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ...ir import Expr, Var, substitute
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

__all__ = ["write_positional_code"]


def write_positional_code(records: Iterable[Record]) -> str:
    """The code, a line for each record; `ops` are the operations."""
    lines = ["s = te.create_schedule(ops)"]
    threads: dict[ThreadRef, str] = {}
    for record in records:
        row = find_primitive(find_owner(record), record.primitive)
        arguments = dict(record.arguments)
        owner = (
            _value(arguments.pop("group"))
            if record.stage is None and "group" in arguments
            else "s"
            if record.stage is None
            else f"s.stages[{record.stage}]"
        )
        listed = (
            cast("tuple[Any, ...]", arguments.pop(row.listed, ())) if row is not None and row.listed is not None else ()
        )
        shown = [_value(value) for value in listed]
        for name, value in arguments.items():
            for thread in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,):
                if isinstance(thread, ThreadRef) and thread not in threads:
                    threads[thread] = _value(thread)
                    extent = "" if thread.extent is None else f"(0, {thread.extent}), "
                    lines.append(f"{threads[thread]} = te.thread_axis({extent}{thread.tag!r})")
            shown.append(f"{name}={_value(value)}")
        lines.append(f"{owner}.{record.primitive}({', '.join(shown)})")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, cast('tuple[Any, ...]', value)))}]"
    if isinstance(value, StageRef):
        return f"s.stages[{value.stage}]"
    if isinstance(value, TensorRef):
        return f"s.stages[{value.stage}].op.output({value.output})"
    if isinstance(value, GroupRef):
        return f"s.groups[{value.place}]"
    if isinstance(value, IntrinsicRef):
        known = ", ".join(map(repr, (value.name, *(value.arguments or ()))))
        return f"intrinsics[{value.name!r}]" if value.arguments is None else f"te.intrinsics.get({known})"
    if isinstance(value, IndexMapRef):
        indices = ", ".join(_expression(index) for index in value.indices)
        return f"lambda {', '.join(map(_parameter, range(len(value.parameters))))}: [{indices}]"
    if isinstance(value, ExprRef):
        return _expression(value)
    return _variable(value) if isinstance(value, (AxisRef, SymbolRef, ThreadRef, ParameterRef)) else repr(value)


def _variable(ref: VarRef) -> str:
    if isinstance(ref, AxisRef):
        return f"s.stages[{ref.stage}].all_iter_vars[{ref.place}]"
    if isinstance(ref, SymbolRef):
        return f"s.symbols[{ref.place}]"
    return f"thread_{ref.place}" if isinstance(ref, ThreadRef) else _parameter(ref.place)


def _parameter(place: int) -> str:
    return f"i{place}"


def _expression(ref: ExprRef) -> str:
    named: dict[Var, Expr] = {var: Var(_variable(stands), var.dtype) for var, stands in ref.variables}
    return str(substitute(ref.expr, named))
