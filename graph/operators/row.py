"""The table of operators: the rows that functions of topi have (topi/row.py), and those of what graphs alone have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from ... import te
from ...base.errors import TilewrightError, is_interruption, user_source
from ...importing import PACKAGE
from ...ir.visit import deep_recursion
from ...topi.alternatives import Algorithm
from ...topi.row import MANY, REQUIRED, Fusion, Operator, Sample, load_rows, make_row
from ..errors import BadNode, UnknownOperator
from ..types import Extent, TensorType, convert_extent, extents, tensor_type

__all__ = [
    "OPERATORS",
    "REQUIRED",
    "Attribute",
    "Operator",
    "is_ours",
    "operator",
    "result_types",
    "row_of",
    "updater",
]

Attribute = int | float | bool | str | None | tuple["Attribute", ...]
"""What says how an operator works. Extents are numbers or texts, as in types."""

OPERATORS: dict[str, Operator] = {**load_rows()}
"""Every operator by its name; those of graphs alone come as the modules of this package are loaded."""

_OWN: set[str] = set()
"""Those whose attributes keep extents over symbols as texts."""


def operator(
    name: str,
    reference: Callable[..., Any],
    fusion: Fusion = "heavy",
    samples: Sequence[Sample] = (),
    derivative: Sequence[str | None] | None = None,
    alternatives: Mapping[str, Algorithm] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a row of a function that graphs alone have: positional parameters are inputs, keywords attributes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS[name] = make_row(
            name, function, reference, fusion, derivative=derivative, alternatives=alternatives, samples=samples
        )
        _OWN.add(name)  # theirs take extents as texts, topi's as expressions
        return function

    return register


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


def is_ours(row: Operator) -> bool:
    """Return whether a row declares by a function of this package, whose sources tell what it does."""
    # the name of another package tells that a user has added it
    return str(getattr(row.declare, "__module__", "")).startswith(f"{PACKAGE}.")


def updater(name: str) -> Callable[..., te.Tensor] | None:
    """The tensor of which only the elements that change are stored, where an operator has one."""
    row = OPERATORS.get(name)
    return None if row is None else row.in_place


class Attributed(Protocol):
    """Base of what has attributes: an operator, and operators with graphs inside."""

    @property
    def name(self) -> str:
        """Name by which nodes call it."""
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
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # numpy's scalars have item(), arrays have a shape
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


@lru_cache(8192)  # declaring is the costly part, and types repeat from node to node
def _declared_types(
    row: Operator,
    attributes: tuple[tuple[str, Attribute], ...],
    inputs: tuple[TensorType | None, ...],
) -> tuple[TensorType, ...]:
    least, most = row.inputs
    shown = f"{row.name}({', '.join(map(str, inputs))})"
    # an optional input may be None, the first `least` may not
    if not least <= len(inputs) <= most or None in inputs[:least]:
        raise BadNode(
            f"{shown[:300]} has too many inputs, or too few",
            called=user_source(),
            allowed=f"{least}" if least == most else f"{least} or more" if most == MANY else f"{least} to {most}",
            fix="give the inputs that it takes",
        )
    given = [
        None if one is None else te.placeholder(extents(one.shape), one.dtype, name=f"x{at}")
        for at, one in enumerate(inputs)
    ]
    try:
        with deep_recursion():  # some declarations nest expressions deeply
            return tuple(
                tensor_type([convert_extent(extent) for extent in tensor.shape], tensor.dtype)
                for tensor in declared(row, given, dict(attributes))
            )
    except TilewrightError as problem:
        raise BadNode(
            f"{shown[:300]} is not a program",
            reason=f"{problem.code}: {problem.headline}. {problem.reason}".strip(),
            called=user_source(),
            allowed=problem.allowed,
            fix=problem.fix or "inputs and attributes that fit",
        ) from problem
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError) as problem:
        if is_interruption(problem):  # an interrupt may come as one of these errors
            raise
        raise BadNode(
            f"{shown[:300]} is not a program",
            reason=f"its attributes are {dict(attributes)}: {problem}"[:500],
            called=user_source(),
            fix="inputs and attributes that fit",
        ) from problem


def declared(row: Operator, tensors: Sequence[Any], attributes: Mapping[str, Attribute]) -> list[te.Tensor]:
    """Declare the result of a row for these tensors."""
    if row.name not in _OWN:
        attributes = {name: _express_extents(value) for name, value in attributes.items()}
    results = row.declare(*tensors, **attributes)
    return list(cast("Sequence[te.Tensor]", results)) if isinstance(results, (list, tuple)) else [results]


def _express_extents(value: Attribute) -> Any:
    """An attribute as topi takes it: extents over symbols as expressions."""
    if not isinstance(value, tuple) or not any(isinstance(part, str) for part in value):
        return value
    return extents(cast("tuple[Extent, ...]", value))
