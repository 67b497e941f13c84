"""The row of an operator: all that is known of it, on the function that declares it.

    @operator("gelu", reference=floats(_numpy_gelu), fusion="elementwise", samples=[sample(floating(3, 5))])
    def gelu(x: Tensor, approximate: str = "none") -> Tensor: ...

Graphs take operators from here, and their gradients; so do the fuzzer and the tests. A node of a graph is a call: its inputs are the
tensors among the parameters, its attributes are the others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass
from ..te.tensor import Tensor
from .alternatives import Algorithm, offer
from .channel_blocks import POINTWISE, Layout
from .homes import HOMES, ROWS
from .signatures import checked

Fusion = Literal["elementwise", "injective", "heavy"]
"""elementwise: an element is made of the elements at its place, broadcasting apart; injective: it is one element from elsewhere;
heavy: anything else. What is one kernel the scheduler's rules say, by what operations read."""

REQUIRED = inspect.Parameter.empty
"""The default of an attribute that has none."""
MANY = 1 << 16
"""So many inputs has an operator of any number of them, at most."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Drawn:
    """An array to be drawn. below: integers lie below it, and not below its negative."""

    kind: Literal["floats", "positive", "integers", "bools"]
    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int = 0

    def array(self, random: np.random.Generator) -> NDArray[Any]:
        """One such array."""
        if self.kind == "floats":
            return random.standard_normal(self.shape).astype(self.dtype)
        if self.kind == "positive":
            return random.uniform(0.1, 0.9, self.shape).astype(self.dtype)
        if self.kind == "bools":
            return random.random(self.shape) < 0.5
        low = 0 if self.dtype.startswith("u") else -self.below
        return random.integers(low, self.below, self.shape).astype(self.dtype)


def floating(*shape: int) -> Drawn:
    """Normal numbers of float32 in a shape."""
    return Drawn("floats", shape)


def positive(*shape: int) -> Drawn:
    """Numbers of float32 from 0.1 to 0.9 in a shape."""
    return Drawn("positive", shape)


def integers(*shape: int, below: int = 3, dtype: str = "int64") -> Drawn:
    """Integers below a number, and not below its negative, in a shape."""
    return Drawn("integers", shape, dtype, below)


def bools(*shape: int) -> Drawn:
    """Bools in a shape."""
    return Drawn("bools", shape, "bool")


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A call that shows what an operator takes: arrays, Drawn, or None for an input that is absent, and attributes."""

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any]

    def arrays(self, random: np.random.Generator) -> list[Any]:
        """The inputs, those that are to be drawn drawn."""
        return [one.array(random) if isinstance(one, Drawn) else one for one in self.inputs]


def sample(*inputs: Any, **attributes: Any) -> Sample:
    """A sample of these inputs and attributes."""
    return Sample(inputs, attributes)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """All that is known of an operator.

    face: as which function it is handed on, "topi.nn.gelu"; "" for one that graphs alone call. tensors: the parameters that are its
    inputs; names: by an attribute's name the parameter. declare: it on te's tensors (None for an optional input that is absent), its
    attributes keywords; a tensor or a list of them.
    reference: the same on numpy's arrays, the oracle. attributes: their defaults by name, REQUIRED where there is none. inputs: how
    many it takes, at least and at most. derivative: a formula for each input (graph/gradient/formulas.py says of what), None where it
    is zero; None where there are none, and te.gradient takes it. error: by how many units in the last place an element may miss the
    reference, 0 where it is the same. growth: by how much an error of its input grows at most, None where nothing says. in_place: the
    tensor, of the first input's shape and dtype, of which only the elements that change are stored: from that shape and dtype, the
    other inputs, and the attributes. alternatives: by name, other layouts in which it can be computed, among which models choose by the
    estimates of all kernels that change (what is elementwise has those of its inputs), and other algorithms, among which schedules
    choose by the estimates of the operator. samples: calls that show what it takes, at small and
    odd sizes.
    """

    name: str
    face: str
    tensors: tuple[str, ...]
    names: Mapping[str, str]
    declare: Callable[..., Any]
    reference: Callable[..., Any]
    fusion: Fusion
    attributes: Mapping[str, Any]
    inputs: tuple[int, int]
    derivative: tuple[str | None, ...] | None
    error: float
    growth: float | None
    in_place: Callable[..., Any] | None
    alternatives: Mapping[str, Layout | Algorithm]
    samples: tuple[Sample, ...]


_OPERATORS: dict[str, Operator] = {}


@functools.cache
def load_rows() -> Mapping[str, Operator]:
    """Every operator of topi by its name; loads all of topi."""
    for module in ROWS:
        import_module(f".{module}", __package__)
    return dict(sorted(_OPERATORS.items()))


def find_reference(name: str) -> Callable[..., Any]:
    """Return the reference of an operator, whose attributes are at their defaults where a call does not give them."""
    row = load_rows()[name]
    return lambda *arrays, **attributes: np.asarray(row.reference(*arrays, **{**row.attributes, **attributes}))


def make_row(
    name: str,
    function: Callable[..., Any],
    reference: Callable[..., Any],
    fusion: Fusion,
    attributes: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    derivative: Sequence[str | None] | None = None,
    error: float = 0,
    growth: float | None = None,
    in_place: Callable[..., Any] | None = None,
    alternatives: Mapping[str, Layout | Algorithm] | None = None,
    samples: Sequence[Sample] = (),
) -> Operator:
    """The row of a function; the parameters are those of operator()."""
    parameters = list(inspect.signature(function).parameters.values())
    given = [one for one in parameters if _is_input(one, parameters)]
    several = any(one.annotation == _SEVERAL for one in given)
    most = MANY if several or any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(given)
    rest = {one.name: one.default for one in parameters if one not in given and one.kind is not one.VAR_POSITIONAL}
    names = dict(zip(rest, rest, strict=True)) if attributes is None else attributes
    tensors = tuple(one.name for one in given)
    face = _face_name(function)
    algorithms = {name: one for name, one in (alternatives or {}).items() if isinstance(one, Algorithm)}
    declare = _declaring(function, face, tensors, several, parameters[: len(given)] == given, names)
    return Operator(
        name,
        face,
        tensors,
        names,
        _offering(declare, algorithms) if algorithms else declare,
        reference,
        fusion,
        {ours: rest[its] for ours, its in names.items()} | dict(defaults or {}),
        (sum(one.default is one.empty for one in given), most),
        None if derivative is None else tuple(derivative),
        error,
        growth,
        in_place,
        alternatives or ({"blocks": POINTWISE} if fusion == "elementwise" else {}),
        tuple(samples),
    )


_SEVERAL = "Sequence[Tensor]"
_TENSORS = ("Tensor", "Tensor | None", "Operand", _SEVERAL)


def _is_input(one: inspect.Parameter, parameters: Sequence[inspect.Parameter]) -> bool:
    """Tell a tensor among the parameters: as its annotation says, or where none says so, each but those that are keywords alone."""
    if any(each.annotation in _TENSORS and each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters):
        return one.annotation in _TENSORS
    return one.kind is one.POSITIONAL_OR_KEYWORD


def _face_name(function: Callable[..., Any]) -> str:
    """Name under which topi hands a function on; "" where it does not."""
    face = function.__module__.rpartition(".")[0].partition(".")[2]
    return f"{face}.{function.__name__}" if function.__name__ in HOMES.get(face, {}) else ""


def _declaring(
    function: Callable[..., Any],
    face: str,
    inputs: Sequence[str],
    several: bool,
    first: bool,
    names: Mapping[str, str],
) -> Callable[..., Any]:
    """The function, its arguments checked where it is handed on, of tensors by position and attributes by their names in nodes.
    inputs: the parameters that are tensors; several: there is one, a list of them; first: they come before the others."""
    if face:
        function = checked(face.rpartition(".")[0])(function)
    if first and not several and all(ours == its for ours, its in names.items()):
        return function

    @functools.wraps(function)
    def declare(*tensors: Any, **given: Any) -> Any:
        attributes = {names[name]: value for name, value in given.items()}
        if several:
            return function(tensors, **attributes)
        if first:
            return function(*tensors, **attributes)
        return function(**dict(zip(inputs, tensors, strict=False)), **attributes)

    return declare


def _offering(declare: Callable[..., Tensor], algorithms: Mapping[str, Algorithm]) -> Callable[..., Tensor]:
    """The declaration, which offers the algorithms that compute the same."""

    @functools.wraps(declare)
    def offering(*tensors: Any, **given: Any) -> Tensor:
        return offer(
            declare(*tensors, **given), {name: one.declare(*tensors, **given) for name, one in algorithms.items()}
        )

    return offering


def operator(
    name: str,
    *,
    reference: Callable[..., Any],
    fusion: Fusion = "heavy",
    attributes: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    derivative: Sequence[str | None] | None = None,
    error: float = 0,
    growth: float | None = None,
    in_place: Callable[..., Any] | None = None,
    alternatives: Mapping[str, Layout | Algorithm] | None = None,
    samples: Sequence[Sample] = (),
) -> Callable[[F], F]:
    """Make a row of the function that it decorates. Its tensors are the parameters annotated so, or those before keywords.

    attributes: by their names in nodes the parameters that are attributes, where not all are, or have other names there. defaults: those
    that nodes have where the parameters have others, REQUIRED for none. The others: as Operator has them.
    """

    def register(function: F) -> F:
        _OPERATORS[name] = make_row(
            name,
            function,
            reference,
            fusion,
            attributes,
            defaults,
            derivative,
            error,
            growth,
            in_place,
            alternatives,
            samples,
        )
        return function

    return register
