"""A row of the table of operators: all that a graph knows of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, cast

from ... import te
from ...errors import TilewrightError, is_interruption, user_source
from ...ir.visit import deep_recursion
from ..errors import BadNode, UnknownOperator
from ..types import TensorType, extent_of, extents, tensor_type

__all__ = ["OPERATORS", "REQUIRED", "Attribute", "Fusion", "Operator", "operator", "result_types", "row_of"]

Attribute = int | float | bool | str | None | tuple["Attribute", ...]
"""What says how an operator works. Extents are numbers or texts, as in types."""

Fusion = Literal["elementwise", "injective", "heavy"]
"""elementwise: an element is made of the elements at its place, broadcasting apart; injective: it is one element from elsewhere;
heavy: anything else, which takes elementwise operators behind it into its own kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """declare: the operator on te's tensors (None for an optional input that is absent), its attributes keywords; a tensor or a
    list of them. reference: the same on numpy's arrays, the oracle. attributes: their defaults by name, REQUIRED where there is
    none. inputs: how many it takes, at least and at most.
    """

    name: str
    declare: Callable[..., Any]
    reference: Callable[..., Any]
    fusion: Fusion
    attributes: Mapping[str, Any]
    inputs: tuple[int, int]


OPERATORS: dict[str, Operator] = {}
"""Every operator by its name, filled as the families are loaded."""

REQUIRED = inspect.Parameter.empty
_MANY = 1 << 16


def operator(
    name: str,
    reference: Callable[..., Any],
    fusion: Fusion = "heavy",
    declare: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a row of the function that it decorates: positional parameters are inputs, keywords attributes. declare: the
    function, where it decorates none."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters.values()
        given = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        least = sum(one.default is one.empty for one in given)
        most = _MANY if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(given)
        attributes = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
        OPERATORS[name] = Operator(name, function, reference, fusion, attributes, (least, most))
        return function

    return register(declare) if declare is not None else register


def row_of(name: str) -> Operator:
    """The row of this name. Raises UnknownOperator (TW0902)."""
    row = OPERATORS.get(name)
    if row is None:
        raise UnknownOperator(
            f"there is no operator {name!r}"[:200],
            called=user_source(),
            allowed=", ".join(sorted(OPERATORS)),
            fix="compose it of those that there are",
        )
    return row


class Attributed(Protocol):
    """What has attributes: an operator, and what has graphs inside."""

    @property
    def name(self) -> str:
        """How nodes call it."""
        ...

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Their defaults by name, REQUIRED where there is none."""
        ...


def whole_attributes(row: Attributed, given: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attributes of a node, those that were not given at their defaults. Raises UnknownOperator (TW0902)."""
    attributes = {**row.attributes, **{name: _plain(row, name, value) for name, value in given.items()}}
    wrong = [name for name, value in attributes.items() if name not in row.attributes or value is REQUIRED]
    if wrong:
        raise UnknownOperator(
            f"{row.name} {'needs' if wrong[0] in row.attributes else 'has no'} attribute {wrong[0]!r}"[:200],
            called=user_source(),
            allowed=", ".join(row.attributes) or "none",
            fix="give the attributes that it takes",
        )
    return attributes


def _plain(row: Attributed, name: str, value: Any) -> Attribute:
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, (tuple, list)):
        return tuple(_plain(row, name, part) for part in cast("Sequence[Any]", value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise BadNode(
        f"{row.name} cannot take {value!r} as {name}"[:200],
        called=user_source(),
        reason="attributes are plain values",
        allowed="numbers, texts, None, and tuples of them",
        fix="pass tensors as inputs",
    )


def result_types(
    row: Operator, attributes: Mapping[str, Attribute], inputs: Sequence[TensorType | None]
) -> tuple[TensorType, ...]:
    """The types of what a row gives, found by declaring it. Raises BadNode (TW0903)."""
    return _declared_types(row, tuple(attributes.items()), tuple(inputs))


@lru_cache(8192)
def _declared_types(
    row: Operator,
    attributes: tuple[tuple[str, Attribute], ...],
    inputs: tuple[TensorType | None, ...],
) -> tuple[TensorType, ...]:
    least, most = row.inputs
    shown = f"{row.name}({', '.join(map(str, inputs))})"
    if not least <= len(inputs) <= most or None in inputs[:least]:
        raise BadNode(
            f"{shown[:300]} has too many inputs, or too few",
            called=user_source(),
            allowed=f"{least}" if least == most else f"{least} or more" if most == _MANY else f"{least} to {most}",
            fix="give the inputs that it takes",
        )
    given = [
        None if one is None else te.placeholder(extents(one.shape), one.dtype, name=f"x{at}")
        for at, one in enumerate(inputs)
    ]
    try:
        with deep_recursion():
            return tuple(
                tensor_type([extent_of(extent) for extent in tensor.shape], tensor.dtype)
                for tensor in declared(row, given, dict(attributes))
            )
    except TilewrightError as problem:
        raise BadNode(
            f"{shown[:300]} is no program",
            reason=f"{problem.code}: {problem.headline}. {problem.reason}".strip(),
            called=user_source(),
            allowed=problem.allowed,
            fix=problem.fix or "inputs and attributes that fit",
        ) from problem
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError) as problem:
        if is_interruption(problem):
            raise
        raise BadNode(
            f"{shown[:300]} is no program",
            reason=f"its attributes are {dict(attributes)}: {problem}"[:500],
            called=user_source(),
            fix="inputs and attributes that fit",
        ) from problem


def declared(row: Operator, tensors: Sequence[Any], attributes: Mapping[str, Attribute]) -> list[te.Tensor]:
    """What a row gives for these tensors."""
    results = row.declare(*tensors, **attributes)
    return list(cast("Sequence[te.Tensor]", results)) if isinstance(results, (list, tuple)) else [results]
