"""A program of tensor expressions as the Python code that declares it again."""

from __future__ import annotations

import base64
import keyword
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...base.arguments import is_array
from ...ir import expr as E
from ...ir.visit import post_order
from ...te import ComputeOp
from ...views.sparse import SparseArray
from .program import Program

__all__ = ["Unwritable", "program_source", "values_source"]


class Unwritable(Exception):
    """The program has an operation that no code is known for."""


def program_source(program: Program) -> str:
    """Code that declares the program's tensors, makes `ops`, the operations to schedule, and `args`, in call order.

    Raises Unwritable.
    """
    writer = _Writer()
    for argument in program.args:
        writer.argument(argument)
    outputs = ", ".join(f"{writer.names[op.output(0)]}.op" for op in program.outputs)
    lines = [*writer.lines, f"ops = [{outputs}]", f"args = [{', '.join(writer.names[arg] for arg in program.args)}]"]
    return "\n".join(lines)


def values_source(values: Sequence[Any]) -> str:
    """Code that makes `values`."""
    return "values = [\n" + "".join(f"    {_value(value)},\n" for value in values) + "]"


def _value(value: Any) -> str:
    if not is_array(value):
        return repr(value)
    dtype = "ml_dtypes.bfloat16" if str(value.dtype) == "bfloat16" else f'"{value.dtype}"'
    if isinstance(value, SparseArray):
        return f"fuzz.sparse({value.shape}, {dtype}, { ({place: float(held) for place, held in value.held.items()}) })"
    plain = value.astype("float64") if value.dtype.kind not in "biu" else value
    if value.size > 300:
        text = base64.b64encode(value.tobytes()).decode()
        return f'np.frombuffer(base64.b64decode("{text}"), {dtype}).reshape({value.shape})'
    listed = repr(plain.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    shape = f".reshape({value.shape})" if not value.size else ""
    return f"np.array({listed}, {dtype}){shape}"


_BINARY: dict[type[E.Expr], str] = {
    E.Add: "+",
    E.Sub: "-",
    E.Mul: "*",
    E.Div: "/",
    E.FloorDiv: "//",
    E.FloorMod: "%",
    E.LT: "<",
    E.LE: "<=",
    E.GT: ">",
    E.GE: ">=",
    E.EQ: "==",
    E.NE: "!=",
}
_FUNCTIONS: dict[type[E.Expr], str] = {
    E.Min: "te.min",
    E.Max: "te.max",
    E.And: "te.all",
    E.Or: "te.any",
    E.TruncDiv: "te.truncdiv",
    E.TruncMod: "te.truncmod",
    E.Select: "te.select",
    E.IfThenElse: "te.if_then_else",
}
_INFIX_CALLS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right": ">>"}
_NOT_FUNCTIONS = ("access_ptr", "target_has", "call_llvm_intrinsic")


class _Writer:
    """Write operations down in the order in which they need each other, under names of their own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.taken = {"te", "np", "tw", "s", "ops", "args", "values", "base64", "ml_dtypes", "intrinsics"}

    def name(self, thing: Any, wanted: str) -> str:
        word = "".join(c if c.isalnum() else "_" for c in wanted) or "x"
        word = f"_{word}" if word[0].isdigit() or keyword.iskeyword(word) else word
        free = next(
            name for name in (word, *(f"{word}_{at}" for at in range(len(self.taken) + 1))) if name not in self.taken
        )
        self.taken.add(free)
        self.names[thing] = free
        return free

    def argument(self, argument: Any) -> None:
        if isinstance(argument, E.Var):
            self.symbol(argument)
            return
        waiting = [(argument.op, False)]
        while waiting:
            op, inputs_done = waiting.pop()
            if op.output(0) in self.names:
                continue
            if inputs_done:
                self.operation(op)
                continue
            waiting.append((op, True))
            waiting.extend((tensor.op, False) for tensor in reversed(op.input_tensors))

    def symbol(self, var: E.Var) -> None:
        if var not in self.names and not isinstance(var, E.IterVar):
            kind = "te.size_var" if isinstance(var, E.SizeVar) else "te.var"
            text = f'{kind}("{var.name}", "{var.dtype}")'
            self.lines.append(f"{self.name(var, var.name)} = {text}")

    def operation(self, op: Any) -> None:
        for extent in op.output_shape:
            self.symbols(extent)
        shape = _tuple(map(self.index, op.output_shape))
        if op.is_passed:
            text = f'te.placeholder({shape}, "{op.dtype}", "{op.name}")'
        elif op.constant is not None:
            text = f'te.constant({_value(op.constant.data)}, "{op.name}")'
        elif op.values:
            text = f'te.compute({shape}, {self.function(op)}, "{op.name}")'
        else:
            raise Unwritable(type(op).__name__)
        names = [self.name(tensor, tensor.name) for tensor in op.outputs]
        self.lines.append(f"{', '.join(names)} = {text}")

    def symbols(self, value: E.Expr) -> None:
        for node in post_order(value):
            if isinstance(node, E.Var) and not isinstance(node, E.IterVar):
                self.symbol(node)

    def function(self, op: ComputeOp) -> str:
        """The function of the elements: a lambda, or the name of one that is written before."""
        first = op.body[0]
        before = set(self.taken)
        roots = [*first.sources, first.condition, *first.init] if isinstance(first, E.Reduce) else op.body
        for root in roots:
            self.symbols(root)
        axes = ", ".join([self.name(axis, axis.name) for axis in op.axis])
        if not isinstance(first, E.Reduce):
            values = ", ".join(map(self.text, op.body))
            body = f"lambda {axes}: {values if len(op.body) == 1 else f'({values})'}".replace("lambda :", "lambda:")
        else:
            body = self.reduction(op, axes, first)
        self.taken = before | {name for name in self.taken if name.startswith("def_")}
        return body

    def reduction(self, op: ComputeOp, axes: str, first: E.Reduce) -> str:
        lines: list[str] = []
        for axis in first.axes:
            assert axis.dom is not None
            self.symbols(axis.dom.extent)
            begin, end = self.index(axis.dom.begin), self.index(axis.dom.begin + axis.dom.extent)
            lines.append(f'{self.name(axis, axis.name)} = te.reduce_axis(({begin}, {end}), "{axis.name}")')
        several = len(first.sources) > 1

        def joined(values: Sequence[E.Expr]) -> str:
            return _tuple(map(self.text, values)) if several else self.text(values[0])

        for at, (x, y) in enumerate(zip(first.combiner.lhs, first.combiner.rhs, strict=True)):
            self.names[x], self.names[y] = (f"x[{at}]", f"y[{at}]") if several else ("x", "y")
        reducer = f"te.{first.combiner.name}"
        if several or reducer not in ("te.sum", "te.prod", "te.min", "te.max"):
            identity, combined = joined(first.combiner.identity), joined(first.combiner.result)
            lines.append(
                f'reducer = te.comm_reducer(lambda x, y: {combined}, lambda *dtypes: {identity}, "{first.combiner.name}")'
            )
            reducer = "reducer"
        arguments = [f"axis=[{', '.join(self.names[axis] for axis in first.axes)}]"]
        if not (isinstance(first.condition, E.IntImm) and first.condition.value):
            arguments.append(f"where={self.text(first.condition)}")
        if first.init:
            arguments.append(f"init={joined(first.init)}")
        lines.append(f"return {reducer}({joined(first.sources)}, {', '.join(arguments)})")
        name = self.name((op, "def"), f"def_{op.name}")
        self.lines += [f"def {name}({axes}):", *(f"    {line}" for line in lines)]
        return name

    def index(self, value: E.Expr) -> str:
        """An extent or an index, of which a number's type is known."""
        return str(value.value) if isinstance(value, E.IntImm) else self.text(value)

    def text(self, value: E.Expr) -> str:
        texts: dict[E.Node, str] = {}
        for node in post_order(value):
            if isinstance(node, E.Expr):
                texts[node] = self.node(node, texts.__getitem__)
        return texts[value]

    def node(self, node: E.Expr, text: Callable[[Any], str]) -> str:
        if isinstance(node, (E.IntImm, E.FloatImm)):
            return _constant(node)
        if isinstance(node, E.StringImm):
            return repr(node.value)
        if isinstance(node, E.Var):
            return self.names[node]
        if type(node) in _BINARY and isinstance(node, E.BinaryOp):
            a, b = _literal(node.a, node.b, text), _literal(node.b, node.a, text)
            return f"({a} {_BINARY[type(node)]} {b})"
        if type(node) in _FUNCTIONS:
            return f"{_FUNCTIONS[type(node)]}({', '.join(text(part) for part in _parts(node))})"
        if isinstance(node, E.Not):
            return f"(~{text(node.value)})"
        if isinstance(node, E.Cast):
            return f'{text(node.value)}.astype("{node.dtype}")'
        if isinstance(node, E.ProducerLoad):
            indices = [str(index.value) if isinstance(index, E.IntImm) else text(index) for index in node.indices]
            return f"{self.names[node.producer]}[{', '.join(indices) or '()'}]"
        if isinstance(node, E.Call) and node.name not in _NOT_FUNCTIONS:
            return _call(node, [text(argument) for argument in node.args])
        raise Unwritable(type(node).__name__)


def _tuple(texts: Iterable[str]) -> str:
    listed = list(texts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def _parts(node: E.Expr) -> list[E.Expr]:
    if isinstance(node, (E.Select, E.IfThenElse)):
        return [node.condition, node.true_value, node.false_value]
    assert isinstance(node, E.BinaryOp)
    return [node.a, node.b]


def _call(node: E.Call, arguments: list[str]) -> str:
    if node.name in _INFIX_CALLS:
        return f"({arguments[0]} {_INFIX_CALLS[node.name]} {arguments[1]})"
    if node.name == "bitwise_not":
        return f"(~{arguments[0]})"
    if node.name in ("reinterpret", "call_extern", "call_pure_extern"):
        return f'te.{node.name}("{node.dtype}", {", ".join(arguments)})'
    return f"te.{node.name}({', '.join(arguments)})"


def _literal(value: E.Expr, other: E.Expr, text: Callable[[Any], str]) -> str:
    """An operand: a number stands for itself, because it takes the dtype of what is beside it."""
    if isinstance(value, E.IntImm) and not isinstance(other, (E.IntImm, E.FloatImm)) and value.dtype.is_integer:
        return str(value.value) if value.value >= 0 else f"({value.value})"
    return text(value)


def _constant(node: E.IntImm | E.FloatImm) -> str:
    if isinstance(node, E.IntImm):
        if node.dtype == "int32":
            return f"te.const({node.value})"
        return f'te.const({bool(node.value) if node.dtype.is_bool else node.value}, "{node.dtype}")'
    value = repr(node.value) if math.isfinite(node.value) else f'float("{node.value}")'
    return f'te.const({value}, "{node.dtype}")'
