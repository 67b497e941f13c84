"""Arguments of operators, checked and brought into one form, and the errors of those that cannot be."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ..base.arguments import is_a, is_array, is_sequence, to_list
from ..base.errors import TensorExpressionError, user_source
from ..ir.expr import Expr, IntImm
from ..te.shape import Shape, convert_shape
from ..te.tensor import Tensor, tensor_text


class BadAxis(TensorExpressionError):
    """An axis that a tensor does not have, or one that is listed twice."""

    code = "TW0180"


class BadOperand(TensorExpressionError):
    """A tensor of a rank, shape or dtype that the operator does not take."""

    code = "TW0181"


class BadParameter(TensorExpressionError):
    """A number, a mode or a list that says how the operator works, and cannot be."""

    code = "TW0182"


T = TypeVar("T")


def tensor(value: Any, subject: str, rank: int | None = None) -> Tensor:
    """`value`, which has to be a tensor, of `rank` dimensions where that is given. Raises BadOperand (TW0181)."""
    if not isinstance(value, Tensor):
        raise BadOperand(
            f"{subject} takes a tensor",
            reason=f"got {value!r}"[:200],
            called=user_source(),
            fix="pass what te.placeholder, te.compute or an operator returned",
        )
    if rank is not None and value.ndim != rank:  # symbolic extents have a rank too
        raise BadOperand(
            f"{subject} takes a tensor of {rank} dimension{'' if rank == 1 else 's'}",
            reason=f"got {tensor_text(value)}",
            declared=value.source,
            called=user_source(),
            fix="topi.reshape brings it into that form",
        )
    return value


def tensors(values: Any, subject: str) -> list[Tensor]:
    """A list of tensors, or a tuple. Raises BadOperand (TW0181)."""
    if not is_sequence(values):
        raise BadOperand(
            f"{subject} takes a list of tensors",
            reason=f"got {values!r}"[:200],
            called=user_source(),
            fix="pass a list, [A, B]",
        )
    return [tensor(value, subject) for value in values]


def weights(value: Any, subject: str, rank: int) -> Any:
    """`value`, which has to be a tensor or a numpy array, of `rank` dimensions. Raises BadOperand (TW0181)."""
    if not is_array(value):  # arrays are weights that are prepared when the program is declared
        return tensor(value, subject, rank)
    if value.ndim != rank:
        raise BadOperand(
            f"{subject} takes {rank} dimensions",
            reason=f"got an array of {value.ndim}",
            called=user_source(),
            fix="array.reshape brings it into that form",
        )
    return value


def normalize_axis(data: Tensor, axis: Any, subject: str, more: int = 0) -> int:
    """The dimension that `axis` names, counted from 0; negative ones count from the end. more: how many dimensions the
    result has in addition, which it may name as well. Raises BadAxis (TW0180)."""
    rank = data.ndim + more
    at = _integer(axis)
    if at is None or not -rank <= at < rank:  # bool(axis) would be 0 or 1, which nobody means
        raise BadAxis(
            f"{subject}: {tensor_text(data)} has no axis {axis!r}",
            declared=data.source,
            called=user_source(),
            allowed=f"integers from {-rank} to {rank - 1}" if rank else "none: it has no dimensions",
            fix=f"name one of its {rank} dimensions" if rank else "topi.expand_dims(x, 0) gives it one",
        )
    return at % rank  # negative ones by Python's modulo


def normalize_axes(data: Tensor, axis: Any, subject: str) -> tuple[int, ...]:
    """The dimensions that `axis` names (one, several, or None for all), in ascending order. Raises BadAxis (TW0180)."""
    if axis is None:
        return tuple(range(data.ndim))
    dimensions = [normalize_axis(data, dimension, subject) for dimension in to_list(axis)]
    if len(set(dimensions)) < len(dimensions):
        raise BadAxis(
            f"{subject} is given an axis twice",
            reason=f"got {axis!r} for {tensor_text(data)}",
            declared=data.source,
            called=user_source(),
            fix="name each dimension once; negative ones count from the end",
        )
    return tuple(sorted(dimensions))


def integers(values: Any, subject: str, count: int | None = None) -> list[int]:
    """A Python integer or several, as a list, of `count` where that is given. Raises BadParameter (TW0182)."""
    # a string is iterable too, and an Expr has no length
    several = is_a(values, Iterable) and not is_a(values, (str, Expr))
    given: list[Any] = list(values) if several else [values]
    numbers = [_integer(value) for value in given]
    if None in numbers:
        raise BadParameter(
            f"{subject} takes integers",
            reason=f"got {values!r}"[:200],
            called=user_source(),
            fix="pass Python's integers: they shape the program, and are known when it is written",
        )
    whole = [number for number in numbers if number is not None]
    return whole if count is None else check_count(whole, subject, count)


def check_count(values: Sequence[T], subject: str, count: int, least: int | None = None) -> list[T]:
    """The elements of a list of `count`, or of `least` up to `count`. Raises BadParameter (TW0182)."""
    if not (count if least is None else least) <= len(values) <= count:
        raise BadParameter(
            f"{subject} takes {count} numbers" if least is None else f"{subject} takes {least} to {count} numbers",
            reason=f"got {len(values)}: {values!r}"[:200],
            called=user_source(),
            fix="write one for each dimension",
        )
    return list(values)


def _integer(value: Any) -> int | None:
    if isinstance(value, IntImm):
        return value.value
    try:
        # numpy's integers have __index__, floats have not
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def check_shape(shape: Shape, subject: str) -> tuple[Expr, ...]:
    """A shape as users write it, as extents. Raises BadExtent (TW0110)."""
    return convert_shape(shape, subject)


def known(extents: Sequence[Expr]) -> list[int] | None:
    """Extents as numbers; None where one is not known before the kernel runs."""
    numbers = [extent.value for extent in extents if isinstance(extent, IntImm)]
    return numbers if len(numbers) == len(extents) else None


def divides(extent: Expr, by: int) -> bool:
    """Return whether an extent is a constant multiple of `by`."""
    return isinstance(extent, IntImm) and extent.value % by == 0
