"""Several operators as one node: what one kernel computes.

    y: float32[1, 8, 5, 5] = fused(x, w, z, body="relu(add(conv(x0, x1, padding=(1, 1, 1, 1)), x2))")
    y: float32[n, 15] = fused(x, body="reshape(exp(x0), shape=(size0, 15))", sizes=("n",))

The body is an expression over the inputs x0, x1 and so on, its operators those of the table with their attributes as Python writes
them; extents over symbols stand beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...topi.row import floating, sample
from ..types import array_dtype, type_of_array
from .row import Attribute, Operator, declared, operator, result_types, row_of, whole_attributes

__all__ = ["body_text", "declare_body"]

_MOST_CHARACTERS = 20_000
_INPUT = re.compile(r"x(0|[1-9][0-9]{0,3})")
_SIZE = re.compile(r"size(0|[1-9][0-9]{0,3})")
_MOST_DEPTH = 64


@lru_cache(1024)
def _parse_body(body: str) -> ast.expr:
    """The expression. Raises ValueError for what is none over operators and inputs."""
    if len(body) > _MOST_CHARACTERS:  # bodies come from files, which are not trusted
        raise ValueError(f"a body of more than {_MOST_CHARACTERS} characters")
    try:
        expression = ast.parse(body, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as problem:
        # Python's message says where; its own traceback adds nothing
        raise ValueError(f"the body is not an expression: {problem}") from None
    level = [expression]
    for _ in range(_MOST_DEPTH):  # level by level, so that a deep tree cannot exhaust the stack
        level = [child for one in level for child in ast.iter_child_nodes(one)]
    if level or not isinstance(expression, ast.Call):
        raise ValueError("the body is not an operator on others, or too deep")
    return expression


def _evaluate_body(
    body: str,
    inputs: Sequence[Any],
    sizes: Sequence[Any],
    apply: Callable[[str, Sequence[Any], Mapping[str, Any]], Any],
) -> Any:
    """The value of a body, of which equal parts are computed once. sizes: what `size0` and so on are in its attributes."""
    made: dict[str, Any] = {}

    def value(one: ast.expr) -> Any:
        if isinstance(one, ast.Constant) and one.value is None:
            return None
        if isinstance(one, ast.Name) and (match := _INPUT.fullmatch(one.id)) is not None:
            return inputs[int(match[1])]
        if not isinstance(one, ast.Call) or not isinstance(one.func, ast.Name):
            raise ValueError(f"{ast.unparse(one)[:100]} is neither an operator nor an input")
        key = ast.unparse(one)  # equal text is an equal value, and made once
        if key not in made:
            attributes = {str(keyword.arg): _literal(keyword.value, sizes) for keyword in one.keywords}
            made[key] = apply(one.func.id, [value(operand) for operand in one.args], attributes)
        return made[key]

    return value(_parse_body(body))


def _literal(one: ast.expr, sizes: Sequence[Any]) -> Any:
    """An attribute: plain values, nan and inf by their names, and sizes in tuples. Raises ValueError for other extents over
    symbols."""
    if isinstance(one, ast.Name) and one.id in ("nan", "inf"):  # names, since literals have neither
        return float(one.id)
    if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub):
        return -_literal(one.operand, sizes)  # a negative number is an operator on a positive one to Python
    if isinstance(one, ast.Tuple):
        if any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in one.elts):
            raise ValueError("a body has no symbols")  # extents over symbols come beside the body, not as texts in it
        return tuple(_size(part, sizes) for part in one.elts)
    return ast.literal_eval(one)  # plain values alone: nothing is executed


def _size(one: ast.expr, sizes: Sequence[Any]) -> Any:
    """A part of an attribute that is a tuple."""
    match = _SIZE.fullmatch(one.id) if isinstance(one, ast.Name) else None
    return _literal(one, sizes) if match is None else sizes[int(match[1])]


def body_text(
    name: str,
    operands: Sequence[str],
    attributes: Mapping[str, Attribute],
    sizes: Mapping[str, int] | None = None,
) -> str:
    """A body of one operator on what is written already, its attributes those that have not their defaults. sizes: the places of
    extents over symbols among those that stand beside the body."""
    defaults = row_of(name).attributes
    given = [
        f"{key}={_attribute_text(value, sizes or {})}"
        for key, value in attributes.items()
        if repr(defaults[key]) != repr(value)  # repr tells 1 from 1.0 and True, which compare equal
    ]
    return f"{name}({', '.join([*operands, *given])})"


def _attribute_text(value: Attribute, sizes: Mapping[str, int]) -> str:
    if not isinstance(value, tuple):
        return repr(value)
    parts = [
        f"size{sizes[part]}" if isinstance(part, str) and part in sizes else _attribute_text(part, sizes)
        for part in value
    ]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"  # a tuple of one needs its comma


def _row(name: str, operands: Sequence[Any]) -> Operator:
    """The row of an operator within a body. Raises ValueError where it does not take so many operands, UnknownOperator (TW0902)."""
    row = row_of(name)
    least, most = row.inputs
    # a fused node within a fused node could be endless
    if name == "fused" or not least <= len(operands) <= most or any(operand is None for operand in operands[:least]):
        raise ValueError(f"{name} cannot stand in a body, on {len(operands)} operands")
    return row


def _numpy_fused(*xs: Any, body: str, sizes: Sequence[Any] = ()) -> Any:
    def apply(name: str, operands: Sequence[Any], given: Mapping[str, Any]) -> Any:
        row = _row(name, operands)
        attributes = whole_attributes(row, given)
        kinds = [None if operand is None else type_of_array(operand) for operand in operands]
        (kind,) = result_types(row, attributes, kinds)
        # rounded after each operator, as the graph would
        return np.asarray(row.reference(*operands, **attributes)).astype(array_dtype(kind.dtype), copy=False)

    return _evaluate_body(body, xs, sizes, apply)


def declare_body(body: str, xs: Sequence[Any], sizes: Sequence[Any] = (), value: int | None = None) -> Any:
    """Declare a body for tensors. value: the place of the one that is meant of those that its operator gives, None where it gives one.
    Raises ValueError for one that is none, UnknownOperator (TW0902)."""

    def apply(name: str, operands: Sequence[Any], given: Mapping[str, Any]) -> Any:
        row = _row(name, operands)
        results = declared(row, operands, whole_attributes(row, given))
        if value is not None:
            return results[value]
        (result,) = results
        return result

    return _evaluate_body(body, xs, sizes, apply)


@operator(
    "fused",
    _numpy_fused,
    samples=[sample(floating(2, 3), floating(3, 5), floating(5), body="relu(add(matmul(x0, x1), x2))")],
)
def _declare_fused(*xs: Any, body: str, sizes: tuple[Any, ...] = ()) -> Any:
    return declare_body(body, xs, sizes)
