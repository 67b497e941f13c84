"""Extents as an exported program writes them: texts of sympy's, of which sums, products and quotients of symbols are read."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

from ...base.errors import GraphError
from ..conversion import Refused
from ..types import Extent
from .numbers import Ratio, combine, round_ratio

__all__ = ["UNREAD", "read_extent", "read_expression"]

UNREAD = "?"
"""An extent that cannot be told: no shape that a value has."""
_MOST_CHARACTERS = 2000
_MOST_DEPTH = 40
_POWERS = range(1, 5)


@lru_cache(4096)
def read_extent(text: str) -> Extent:
    """The extent that a text describes; UNREAD where it is none that can be read."""
    if len(text) > _MOST_CHARACTERS:
        return UNREAD
    try:
        value = read_expression(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError, TypeError, GraphError, Refused):
        return UNREAD
    return UNREAD if isinstance(value, (float, Ratio)) else value


def read_expression(node: ast.expr, depth: int = 0) -> Any:
    """Read an expression as sympy writes it: Symbol('s0', ...), Integer(2), Add(...), Mul(...), and plain names and
    operators. A whole number or a text over symbols, or a float or a Ratio. Raises ValueError, Refused."""
    if depth < _MOST_DEPTH:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _combine("sub", [0, read_expression(node.operand, depth + 1)])
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _combine(
                _OPERATORS[type(node.op)],
                [read_expression(node.left, depth + 1), read_expression(node.right, depth + 1)],
            )
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):  # ceil, or math.ceil
            return _evaluate_call(
                node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node.args, depth + 1
            )
    raise ValueError("it is not a sum or product of symbols")


_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Div: "truediv",
}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_FUNCTIONS = {
    "Add": "add",
    "CleanDiv": "floordiv",
    "FloatTrueDiv": "truediv",
    "FloorDiv": "floordiv",
    "IntTrueDiv": "truediv",
    "Mod": "mod",
    "Mul": "mul",
    "PythonMod": "mod",
}
_WHOLE = {
    "CeilToInt": "ceil",
    "FloorToInt": "floor",
    "TruncToInt": "trunc",
    "ceil": "ceil",
    "ceiling": "ceil",
    "floor": "floor",
    "sym_int": "trunc",
    "trunc": "trunc",
}


def _combine(name: str, values: Sequence[Any]) -> Any:
    """Combine two or more numbers by a function, from the first on."""
    if name in _SIGNS and all(isinstance(one, int) for one in values):
        return reduce(getattr(operator, name), values)
    if name in _SIGNS and all(isinstance(one, (int, str)) for one in values):
        return f" {_SIGNS[name]} ".join(f"({one})" for one in values)
    result, *rest = values
    for one in rest:
        result = combine(name, [result, one])
    return result


def _evaluate_call(name: str, given: Sequence[ast.expr], depth: int) -> Any:
    if name == "Symbol":
        first = given[0] if given else None
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.isidentifier()):
            raise ValueError("a symbol has no name")
        return first.value
    if name == "Float":
        text = given[0] if given else None
        return float(str(text.value)) if isinstance(text, ast.Constant) else read_expression(given[0], depth)
    values = [read_expression(one, depth) for one in given]
    if name in ("Integer", "Identity", "ToFloat", "sym_float") and len(values) == 1:
        return combine("sym_float", values) if name in ("ToFloat", "sym_float") else values[0]
    if name in _FUNCTIONS and values:
        return _combine(_FUNCTIONS[name], values)
    if name in _WHOLE and len(values) == 1:
        return round_ratio(_WHOLE[name], combine("sym_float", values))
    if name in _OTHERS:
        return _OTHERS[name](*values)
    raise ValueError(f"it calls {name}")


def _power(base: Any, power: Any) -> Any:
    if power not in _POWERS:
        raise ValueError(f"it is to the power {power}")
    return _combine("mul", [base] * power) if power > 1 else base


def _extreme(name: str) -> Callable[..., str]:
    def extreme(*values: Any) -> str:
        result = str(values[0])
        for one in values[1:]:
            result = f"{name}({result}, {one})"
        return result

    return extreme


def _ceiling(a: Any, b: Any) -> Extent:
    return round_ratio("ceil", combine("truediv", [a, b]))


def _digit(a: Any, b: Any, c: Any) -> Any:
    return _combine("mod", [_combine("floordiv", [a, b]), c])


_OTHERS: Mapping[str, Callable[..., Any]] = {
    "CeilDiv": _ceiling,
    "Max": _extreme("max"),
    "Min": _extreme("min"),
    "ModularIndexing": _digit,
    "Pow": _power,
    "PowByNatural": _power,
}
