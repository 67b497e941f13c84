"""Arguments of operators against the kinds that their parameters are annotated with: one check in the face of every operator.

The words of an annotation between bars are looked up in KINDS; a parameter with a word that is not there takes anything, which
its operator judges itself: axes, dtypes, shapes, elements of an expression.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ..base import dataclass, user_source
from ..base.arguments import is_a, is_array, is_number, is_sequence
from ..ir import DType, Expr, FloatImm, IntImm
from ..te.tensor import Tensor
from .checks import BadOperand, BadParameter

Positive = int
"""An annotation: an integer from 1 on."""

Number = float | np.integer[Any] | np.floating[Any]
"""An annotation: a number that is known when the program is written, and is one (no NaN)."""

ElementType = str | DType | np.dtype[Any] | type[Any]
"""An annotation: a dtype, by its name or as an object."""

Axis = int | Sequence[int] | None
"""An annotation: one dimension or several, None for all."""

Scalar = float | Expr | np.generic
"""An annotation: a number, or an expression."""

P = ParamSpec("P")
R = TypeVar("R")
_LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of argument: in words, and as a predicate. several: the words for a list of such."""

    text: str
    accepts: Callable[[Any], bool]
    several: str = ""


def _is_integer(value: Any) -> bool:
    if isinstance(value, IntImm):
        return True
    try:
        return -_LARGEST <= operator.index(value) < 2 * _LARGEST
    except TypeError:
        return False


def _is_real(value: Any) -> bool:
    if isinstance(value, (int, float, IntImm, FloatImm)):
        return not isinstance(value, int) or abs(value) < 2 * _LARGEST
    return (
        (is_number(value) or is_array(value) and value.ndim == 0)
        and not np.iscomplexobj(value)
        and value.dtype.kind not in "USOmM"
    )


def _value(number: Any) -> Any:
    return number.value if isinstance(number, (IntImm, FloatImm)) else number


def _is_truth(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or _is_integer(value)


def _elements(value: Any) -> list[Any] | None:
    """The elements of a list, a tuple, a range or an array of one dimension; None where it is none of these."""
    if is_array(value):
        return list(value) if value.ndim == 1 else None
    return list(cast("Any", value)) if is_sequence(value) or is_a(value, range) else None


KINDS: Mapping[str, Kind] = {
    "None": Kind("None", lambda value: value is None),
    "bool": Kind("True or False", _is_truth),
    "int": Kind("an integer", _is_integer, "integers"),
    "float": Kind("a number", _is_real, "numbers"),
    "str": Kind("a name", lambda value: is_a(value, str), "names"),
    "Expr": Kind("an expression", lambda value: isinstance(value, Expr), "expressions"),
    "Tensor": Kind("a tensor", lambda value: isinstance(value, Tensor), "tensors"),
    "NDArray[Any]": Kind("an array of numpy", is_array),
    "Callable[[Any], Any]": Kind("a function", callable),
    "Any": Kind("anything", lambda value: True, "anything"),
    "Extent": Kind("an extent", lambda value: True, "anything"),  # convert_shape names the one that is none
    "Positive": Kind(
        "an integer from 1 on", lambda value: _is_integer(value) and not is_a(value, bool) and _value(value) >= 1
    ),
    "Number": Kind("a number", lambda value: _is_real(value) and not math.isnan(_value(value))),
    "ElementType": Kind("a dtype", lambda value: is_a(value, (str, DType, np.dtype, type))),
    "Scale": Kind("a number or a tensor", lambda value: _is_real(value) or isinstance(value, (Expr, Tensor))),
    "ZeroPoint": Kind("an integer or a tensor", lambda value: _is_integer(value) or isinstance(value, (Expr, Tensor))),
}
"""By what stands in annotations."""


def _kinds(annotation: str) -> list[Kind] | None:
    """The kinds that an annotation names; None where one of them is not known here."""
    kinds: list[Kind] = []
    for word in annotation.split(" | ") if annotation != "Any" else ():
        inner = word.removeprefix("Sequence[").removesuffix("]")
        kind = KINDS.get(word) or (_several(KINDS[inner]) if inner in KINDS and inner != word else None)
        if kind is None:
            return None
        kinds.append(kind)
    return kinds or None


def _several(one: Kind) -> Kind:
    def accepts(value: Any) -> bool:
        parts = _elements(value)
        return parts is not None and all(map(one.accepts, parts))

    return Kind("a list" if one.several == "anything" else f"a list of {one.several}", accepts)


@functools.cache
def rows(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, list[Kind]]]:
    """The signature of an operator, and the kinds of those of its parameters that are checked."""
    signature = inspect.signature(function)
    every = {name: _kinds(str(parameter.annotation)) for name, parameter in signature.parameters.items()}
    several = {name for name, each in signature.parameters.items() if each.kind is each.VAR_POSITIONAL}
    return signature, {name: kinds for name, kinds in every.items() if kinds is not None and name not in several}


def checked(face: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of the operators of the package `face`. Raises BadOperand (TW0181) for what is no tensor, BadParameter (TW0182)."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def operator_of_kinds(*args: P.args, **named: P.kwargs) -> R:
            signature, kinds_of = rows(function)
            try:
                given = signature.bind(*args, **named).arguments
            except TypeError:
                return function(*args, **named)  # whose own message names it
            for name, value in given.items():
                kinds = kinds_of.get(name)
                if kinds is not None and not any(kind.accepts(value) for kind in kinds):
                    raise _kind_error(f"{face}.{function.__name__}", name, value, kinds)
            return function(*args, **named)

        return operator_of_kinds

    return decorate


def _kind_error(subject: str, name: str, value: Any, kinds: list[Kind]) -> BadOperand | BadParameter:
    error = BadOperand if any("tensor" in kind.text for kind in kinds) else BadParameter
    takes = " or ".join(kind.text for kind in kinds)
    return error(
        f"{subject} takes {takes} as {name}",
        reason=f"got {value!r}"[:200],
        called=user_source(),
        fix="pass what te.placeholder, te.compute or an operator returned"
        if takes == "a tensor"
        else f"write {subject}(..., {name}=...) with {takes}",
    )
