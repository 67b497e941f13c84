"""Derivatives of operators that work element by element, as formulas. Where one would use a value several times that has to be
computed for it (silu, gelu, mish), te.gradient makes a single kernel of it.

The inputs are a, b and c, the result is y, the gradient by it is g; other names are attributes. A function is an operator of the
table. At kinks one side is taken: of equal operands maximum and minimum follow the first.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache

from .rule import RULES, Pullback, Rule

__all__: list[str] = []

_FORMULAS: dict[str, tuple[str | None, ...]] = {
    "identity": ("g",), "negative": ("-g",), "abs": ("g * sign(a)",), "square": ("g * a * 2.0",), "cast": ("g",),
    "exp": ("g * y",), "expm1": ("g * exp(a)",), "log": ("g / a",), "log1p": ("g / (a + 1.0)",),
    "sqrt": ("g * 0.5 / y",), "rsqrt": ("g * -0.5 * (y * y * y)",),
    "erf": (f"g * exp(-(a * a)) * {2 / 3.141592653589793 ** 0.5}",),
    "sin": ("g * cos(a)",), "cos": ("-(g * sin(a))",), "tan": ("g * (y * y + 1.0)",),
    "asin": ("g * rsqrt(1.0 - a * a)",), "acos": ("-(g * rsqrt(1.0 - a * a))",), "atan": ("g / (a * a + 1.0)",),
    "sinh": ("g * cosh(a)",), "cosh": ("g * sinh(a)",), "tanh": ("g * (1.0 - y * y)",),
    "asinh": ("g * rsqrt(a * a + 1.0)",), "acosh": ("g * rsqrt(a * a - 1.0)",), "atanh": ("g / (1.0 - a * a)",),
    "add": ("g", "g"), "subtract": ("g", "-g"), "multiply": ("g * b", "g * a"), "divide": ("g / b", "-(g * y / b)"),
    "floor_mod": ("g", "-(g * floor(a / b))"), "trunc_mod": ("g", "-(g * trunc(a / b))"),
    "maximum": ("where(a >= b, g, 0.0)", "where(a >= b, 0.0, g)"),
    "minimum": ("where(a <= b, g, 0.0)", "where(a <= b, 0.0, g)"),
    "power": ("where(b == 0.0, 0.0, g * b * power(a, b - 1.0))",
              "where(logical_or(a != 0.0, b < 0.0), g * y * log(a), 0.0)"),
    "atan2": ("g * b / (a * a + b * b)", "-(g * a / (a * a + b * b))"),
    "where": (None, "where(a, g, 0.0)", "where(a, 0.0, g)"),
    "clip": ("where(logical_and(a >= low, a <= high), g, 0.0)",),
    "relu": ("where(a > 0.0, g, 0.0)",), "sigmoid": ("g * (y * (1.0 - y))",),
    "softplus": ("g * sigmoid(a)",), "softsign": ("g * square(1.0 - abs(y))",),
    "prelu": ("where(a < 0.0, g * b, g)", "where(a < 0.0, g * a, 0.0)"),
    "leaky_relu": ("where(a < 0.0, g * alpha, g)",), "elu": ("where(a < 0.0, g * (alpha * exp(a)), g)",),
    "selu": ("where(a < 0.0, g * (exp(a) * alpha), g) * gamma",), "celu": ("where(a < 0.0, g * exp(a / alpha), g)",),
    "hard_swish": ("where(a <= -3.0, 0.0, where(a < 3.0, g * (a / 3.0 + 0.5), g))",),
    "thresholded_relu": ("where(a > alpha, g, 0.0)",), "shrink": ("where(abs(a) > lambd, g, 0.0)",),
    **dict.fromkeys(("sign", "floor", "ceil", "trunc", "nearbyint"), (None,)),
    **dict.fromkeys(("floor_divide", "trunc_divide"), (None, None)),
}
"""For each operator a formula for each input; None where the derivative is zero."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
}


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _value(p: Pullback, one: ast.expr) -> str:
    """The value that a part of a formula stands for."""
    if isinstance(one, ast.Name) and one.id in "abc":
        return p.inputs["abc".index(one.id)]
    if isinstance(one, ast.Name) and one.id in "gy":
        return p.head if one.id == "g" else p.result
    if isinstance(one, ast.UnaryOp) and not isinstance(one.operand, ast.Constant):
        return p.emit("negative", _value(p, one.operand))
    if isinstance(one, ast.BinOp):
        return p.emit(_OPERATORS[type(one.op)], _value(p, one.left), _value(p, one.right))
    if isinstance(one, ast.Compare):
        return p.emit(_OPERATORS[type(one.ops[0])], _value(p, one.left), _value(p, one.comparators[0]))
    if isinstance(one, ast.Call):
        assert isinstance(one.func, ast.Name), "operators are names"
        return p.emit(one.func.id, *(_value(p, operand) for operand in one.args))
    return p.number(p[one.id] if isinstance(one, ast.Name) else ast.literal_eval(one), p.head)


def _of(formulas: Sequence[str | None]) -> Rule:
    def pulled_back(p: Pullback) -> list[str | None]:
        return [None if formula is None else _value(p, _parsed(formula)) for formula in formulas]

    return pulled_back


for _name, _formulas in _FORMULAS.items():
    RULES[_name] = _of(_formulas)

