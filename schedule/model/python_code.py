"""A schedule as the Python code that makes it again from `ops`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from ...ir.expr import (
    EQ,
    And,
    BinaryOp,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    IterVar,
    Max,
    Min,
    Node,
    Not,
    Or,
    Select,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.visit import children, post_order
from ...te.operation import Operation
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from .checks import find_place
from .group import Group
from .index_map import IndexMap
from .records import Record
from .replay import Replay
from .schedule import Schedule, create_schedule
from .stage import Stage

__all__ = ["as_python", "python_steps"]

_FUNCTIONS: dict[type[Expr], str] = {
    And: "te.all",
    Or: "te.any",
    Min: "te.min",
    Max: "te.max",
    TruncDiv: "te.truncdiv",
    TruncMod: "te.truncmod",
    Select: "te.select",
    IfThenElse: "te.if_then_else",
}
_OPERATORS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


def as_python(schedule: Schedule) -> str:
    """See Schedule.as_python. The code is tried out on a new schedule of the same operations."""
    return _Writer(create_schedule(schedule.outputs)).write(schedule.records)


def python_steps(records: Sequence[Record], fresh: Schedule) -> Iterator[list[str]]:
    """Apply the records to `fresh`, a new schedule of the same operations; after each, the lines of code that it is."""
    writer = _Writer(fresh)
    writer.begin()
    for record in records:
        before = len(writer.lines)
        writer.call(record)
        yield writer.lines[before:]


class _Writer:
    """Replays records one by one and writes each call down, with a name for everything that it makes or speaks of."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.replay = schedule, Replay(schedule)
        self.lines: list[str] = []
        self.taken: set[str] = {"s", "te", "ops", "intrinsics"}
        self.operations: dict[Stage, str] = {}
        self.groups: dict[Group, str] = {}
        self.variables: dict[Var, str] = {}

    def begin(self) -> None:
        """The lines before the first record: the schedule, and names of its operations."""
        for stage in self.schedule.stages:
            self.operations[stage] = self.fresh_name(stage.name)
        self.lines.append("s = te.create_schedule(ops)")
        self.lines.append(f"{_unpack(list(self.operations.values()))} = [stage.op for stage in s.stages]")

    def write(self, records: Sequence[Record]) -> str:
        self.begin()
        for record in records:
            self.call(record)
        return "\n".join(self.lines) + "\n"

    def fresh_name(self, wanted: str) -> str:
        """A Python name like `wanted` that is not taken."""
        base = re.sub(r"\W", "_", wanted) or "x"
        base = f"_{base}" if base[0].isdigit() or keyword.iskeyword(base) else base
        name, at = base, 1
        while name in self.taken:
            name, at = f"{base}_{at}", at + 1
        self.taken.add(name)
        return name

    def call(self, record: Record) -> None:
        call = self.replay.call(record)
        owner, parameters = call.owner, {parameter.name: parameter for parameter in call.row.parameters}
        shown = [self.value(item) for item in call.listed]
        for name, value in call.named.items():
            if value is not None and value is not False or value is not parameters[name].default:
                shown.append(f"{name}={self.value(value)}" if name in call.row.shown_by_name else self.value(value))
        on = (
            f"s[{self.operations[owner]}]"
            if isinstance(owner, Stage)
            else self.groups[owner]
            if isinstance(owner, Group)
            else "s"
        )
        before = list(self.schedule.stages)
        result = call()
        text = f"{on}.{record.primitive}({', '.join(shown)})"
        new = [stage for stage in self.schedule.stages if stage not in before]
        self.operations.update((stage, self.fresh_name(stage.name)) for stage in new)
        if len(new) > 1:  # a list of as many
            text = f"{_unpack([self.operations[stage] for stage in new])} = [each.op for each in {text}]"
        elif new:
            text = f"{self.operations[new[0]]} = {text}{'[0]' if isinstance(result, list) else ''}.op"
        elif isinstance(result, Group):
            self.groups[result] = self.fresh_name(result.name)
            text = f"{self.groups[result]} = {text}"
        elif isinstance(result, IterVar):
            text = f"{self.bind_names([result])} = {text}"
        elif result:  # and not a list of no stages
            self.bind_names(result)
            text = f"{_unpack([self.variables[axis] for axis in result])} = {text}"
        self.lines.append(text)

    def bind_names(self, axes: Sequence[IterVar]) -> str:
        """New names for axes that a call returns, as the left side of its assignment."""
        for axis in axes:
            if axis not in self.variables:
                self.variables[axis] = self.fresh_name(axis.name)
        return ", ".join(self.variables[axis] for axis in axes)

    def value(self, value: Any) -> str:
        """An argument as code."""
        if isinstance(value, list):
            return f"[{', '.join(self.value(item) for item in cast('list[Any]', value))}]"
        if isinstance(value, IndexMap):
            names = [self.fresh_name(parameter.name) for parameter in value.parameters]
            self.variables.update(zip(value.parameters, names, strict=True))
            return f"lambda {', '.join(names)}: [{', '.join(self.expression(index) for index in value.indices)}]"
        if isinstance(value, Tensor):
            return f"{self.operations[self.schedule[value]]}.output({value.value_index})"
        if isinstance(value, Operation):
            return self.operations[self.schedule[value]]
        if isinstance(value, Expr):
            return self.expression(value)
        if isinstance(value, TensorIntrin):
            if value.shipped is None:
                return f"intrinsics[{value.name!r}]"
            name, arguments = value.shipped
            return f"te.intrinsics.get({', '.join(map(repr, (name, *arguments)))})"
        stage = next((stage for stage in self.schedule.stages if stage is value), None)
        return repr(value) if stage is None else f"s[{self.operations[stage]}]"

    def expression(self, expr: Expr) -> str:
        """An expression as code that builds it."""
        texts: dict[int, str] = {}
        for node in post_order(expr):
            texts[id(node)] = self.node(node, [texts[id(child)] for child in children(node)])
        return texts[id(expr)]

    def node(self, node: Node, parts: list[str]) -> str:
        if isinstance(node, Var):
            return self.variable(node)
        if isinstance(node, (IntImm, FloatImm)):
            return f'te.const({node.value!r}, "{node.dtype}")'
        if isinstance(node, Cast):
            return f'{parts[0]}.astype("{node.dtype}")'
        if isinstance(node, Not):
            return f"~{parts[0]}"
        if isinstance(node, EQ):
            return f"{parts[0]}.equal({parts[1]})"
        if type(node) in _FUNCTIONS:
            return f"{_FUNCTIONS[type(node)]}({', '.join(parts)})"  # pyright: ignore[reportArgumentType]
        if isinstance(node, Call) and node.name in _OPERATORS:
            return f"({parts[0]} {_OPERATORS[node.name]} {parts[1]})"
        if isinstance(node, Call):
            return f"te.{node.name}({', '.join(parts)})"
        assert isinstance(node, (BinaryOp, CompareOp))
        return f"({parts[0]} {node.symbol} {parts[1]})"

    def variable(self, var: Var) -> str:
        """The name of an axis, a thread axis or a symbol; what introduces it is written where it is first used."""
        if var in self.variables:
            return self.variables[var]
        owner = next((stage for stage in self.schedule.stages if find_place(stage.all_iter_vars, var) >= 0), None)
        if owner is not None:
            return self.axis(owner, cast(IterVar, var))
        name = self.variables[var] = self.fresh_name(var.name)
        if isinstance(var, IterVar) and var.kind == "thread":
            shown = f'"{var.thread_tag}"' if var.dom is None else f'(0, {var.dom.extent}), "{var.thread_tag}"'
            self.lines.append(f"{name} = te.thread_axis({shown})")
        else:
            self.lines.append(f"{name} = s.symbols[{self.schedule.symbol_place(var)}]")
        return name

    def axis(self, stage: Stage, axis: IterVar) -> str:
        """A root axis, introduced with its fellows; a derived one that nothing returned, by its place."""
        for kind, roots in (("axis", stage.op.axis), ("reduce_axis", stage.op.reduce_axis)):
            if find_place(roots, axis) >= 0:
                self.bind_names(roots)
                names = [self.variables[root] for root in roots]
                self.lines.append(f"{_unpack(names)} = s[{self.operations[stage]}].op.{kind}")
                return self.variables[axis]
        return f"s[{self.operations[stage]}].all_iter_vars[{find_place(stage.all_iter_vars, axis)}]"


def _unpack(names: list[str]) -> str:
    return f"{', '.join(names)}{',' if len(names) == 1 else ''}"
