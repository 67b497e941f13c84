"""Derivatives of operators that work element by element, as formulas. Where one would use a value several times that has to be
computed for it (silu, gelu, mish), te.gradient makes a single kernel of it.

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

from .rule import RULES, Pullback, Rule

__all__ = ["evaluated"]

_FORMULAS: dict[str, tuple[str | None, ...]] = {
    "identity": ("g",),
    "negative": ("-g",),
    "abs": ("g * sign(a)",),
    "square": ("g * a * 2.0",),
    "cast": ("g",),
    "exp": ("g * y",),
    "expm1": ("g * exp(a)",),
    "log": ("g / a",),
    "log1p": ("g / (a + 1.0)",),
    "sqrt": ("g * 0.5 / y",),
    "rsqrt": ("g * -0.5 * (y * y * y)",),
    "erf": (f"g * exp(-(a * a)) * {2 / 3.141592653589793**0.5}",),
    "sin": ("g * cos(a)",),
    "cos": ("-(g * sin(a))",),
    "tan": ("g * (y * y + 1.0)",),
    "asin": ("g * rsqrt(1.0 - a * a)",),
    "acos": ("-(g * rsqrt(1.0 - a * a))",),
    "atan": ("g / (a * a + 1.0)",),
    "sinh": ("g * cosh(a)",),
    "cosh": ("g * sinh(a)",),
    "tanh": ("g * (1.0 - y * y)",),
    "asinh": ("g * rsqrt(a * a + 1.0)",),
    "acosh": ("g * rsqrt(a * a - 1.0)",),
    "atanh": ("g / (1.0 - a * a)",),
    "add": ("g", "g"),
    "subtract": ("g", "-g"),
    "multiply": ("g * b", "g * a"),
    "divide": ("g / b", "-(g * y / b)"),
    "floor_mod": ("g", "-(g * floor_divide(a, b))"),
    "trunc_mod": ("g", "-(g * trunc(a / b))"),
    "maximum": ("where(a >= b, g, 0.0)", "where(a >= b, 0.0, g)"),
    "minimum": ("where(a <= b, g, 0.0)", "where(a <= b, 0.0, g)"),
    "power": (
        "where(b == 0.0, 0.0, g * b * power(a, b - 1.0))",
        "where(logical_or(a != 0.0, b < 0.0), g * y * log(a), 0.0)",
    ),
    "atan2": (
        "where(a * a + b * b == 0.0, 0.0, g * b / (a * a + b * b))",
        "where(a * a + b * b == 0.0, 0.0, -(g * a / (a * a + b * b)))",
    ),
    "log_add_exp": ("g * sigmoid(a - b)", "g * sigmoid(b - a)"),
    "where": (None, "where(a, g, 0.0)", "where(a, 0.0, g)"),
    "clip": ("where(logical_and(a >= low, a <= high), g, 0.0)",),
    "relu": ("where(a > 0.0, g, 0.0)",),
    "sigmoid": ("g * (y * (1.0 - y))",),
    "softplus": ("g * sigmoid(a)",),
    "softsign": ("g * square(1.0 - abs(y))",),
    "prelu": ("where(a > 0.0, g, g * b)", "where(a > 0.0, 0.0, g * a)"),
    "leaky_relu": ("where(a > 0.0, g, g * alpha)",),
    "elu": ("where(a > 0.0, g, g * (alpha * exp(a)))",),
    "selu": ("where(a > 0.0, g, g * (exp(a) * alpha)) * gamma",),
    "celu": ("where(a > 0.0, g, g * exp(a / alpha))",),
    "hard_swish": ("where(a <= -3.0, 0.0, where(a < 3.0, g * (a / 3.0 + 0.5), g))",),
    "thresholded_relu": ("where(a > alpha, g, 0.0)",),
    "shrink": ("where(abs(a) > lambd, g, 0.0)",),
    **dict.fromkeys(("sign", "floor", "ceil", "trunc", "nearbyint", "stop_gradient"), (None,)),
    **dict.fromkeys(("floor_divide", "trunc_divide"), (None, None)),
}
"""For each operator a formula for each input; None where the derivative is zero."""

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
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _number(one: ast.expr, values: Mapping[str, str], numbers: Mapping[str, Any]) -> float | None:
    """What a part of a formula is where it is made of numbers alone."""
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


def evaluated(p: Pullback, formula: str, values: Mapping[str, str], numbers: Mapping[str, Any], like: str) -> str:
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

    return value(_parsed(formula))


def _of(formulas: Sequence[str | None]) -> Rule:
    def pulled_back(p: Pullback) -> list[str | None]:
        values = {**dict(zip("abc", p.inputs, strict=False)), "y": p.result, "g": p.head}
        return [
            None if formula is None else evaluated(p, formula, values, p.node.attributes, p.head)
            for formula in formulas
        ]

    return pulled_back


for _name, _formulas in _FORMULAS.items():
    RULES[_name] = _of(_formulas)
