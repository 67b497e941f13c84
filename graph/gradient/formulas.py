"""Derivatives of operators that work element by element, as formulas, which their rows have. Where one would use a value several
times that has to be computed for it (silu, gelu, mish), te.gradient makes a single kernel of it.

The inputs are a, b and c, the result is y, the gradient by it is g; other names are attributes. A function is an operator of the
table. At kinks one side is taken: of equal operands maximum and minimum follow the first, what is made of two parts has the
derivative of the part below at 0, and atan2 is flat at the origin.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from ..operators import OPERATORS
from .rule import RULES, Pullback, Rule

__all__ = ["emit_formula"]

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_FUNCTIONS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
}


@cache
def _parse_formula(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _number(one: ast.expr, values: Mapping[str, str], numbers: Mapping[str, Any]) -> float | None:
    """Return the number that a part of a formula is where it is made of numbers alone."""
    if isinstance(one, ast.Constant):
        return float(cast("float", one.value))
    if isinstance(one, ast.Name):
        return None if one.id in values else float(numbers[one.id])
    if isinstance(one, ast.UnaryOp):
        number = _number(one.operand, values, numbers)
        return None if number is None else -number
    if isinstance(one, ast.BinOp):
        a, b = (_number(part, values, numbers) for part in (one.left, one.right))
        return None if a is None or b is None else _FUNCTIONS[type(one.op)](a, b)
    return None


def emit_formula(p: Pullback, formula: str, values: Mapping[str, str], numbers: Mapping[str, Any], like: str) -> str:
    """The value of a formula, whose names are values and numbers, these of the dtype of `like`. What is made of numbers alone is
    computed here, in float64."""

    def value(one: ast.expr) -> str:
        number = _number(one, values, numbers)
        if number is not None:
            return p.number(number, like)
        if isinstance(one, ast.Name) and one.id in values:
            return values[one.id]
        if isinstance(one, ast.UnaryOp):
            return p.emit("negative", value(one.operand))
        if isinstance(one, ast.BinOp):
            return p.emit(_OPERATORS[type(one.op)], value(one.left), value(one.right))
        if isinstance(one, ast.Compare):
            return p.emit(_OPERATORS[type(one.ops[0])], value(one.left), value(one.comparators[0]))
        assert isinstance(one, ast.Call) and isinstance(one.func, ast.Name), "operators are names"
        return p.emit(one.func.id, *map(value, one.args))

    return value(_parse_formula(formula))


def _formula_rule(formulas: Sequence[str | None]) -> Rule:
    def pulled_back(p: Pullback) -> list[str | None]:
        values = {**dict(zip("abc", p.inputs, strict=False)), "y": p.result, "g": p.head}
        return [
            None if formula is None else emit_formula(p, formula, values, p.node.attributes, p.head)
            for formula in formulas
        ]

    return pulled_back


for _row in OPERATORS.values():
    if _row.derivative is not None:
        RULES[_row.name] = _formula_rule(_row.derivative)
