"""The parts of a graph: typed nodes in single assignment form over the table of operators, and values that are known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import dataclass, field, user_source
from ..ir.lazy_values import cached_property
from .errors import BadGraph, UnboundParam
from .mapped_arrays import paged_copy, release
from .operators.row import Attribute
from .types import TensorType, array_dtype, find_symbols, type_of_array

__all__ = ["Computed", "Node", "Param", "Parts", "computed_param", "inner_name"]


@dataclass(frozen=True, repr=False)
class Node:
    """outputs = operator(inputs, attributes), the values by their names.

    inputs: "" where an optional one is absent. types: of the outputs. source: what the user knows it by: the name of a node of the
    model, or a line. bodies: the graphs inside an `if` and a `loop`, which read nothing but what they are given (see control.py).
    """

    operator: str
    inputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]
    source: str = ""
    bodies: tuple[Parts, ...] = ()

    def __repr__(self) -> str:
        given = [*self.inputs, *(f"{name}={value!r}" for name, value in self.attributes.items())]
        kinds = ", ".join(f"{name}: {kind}" for name, kind in zip(self.outputs, self.types, strict=False))
        return f"Node({kinds} = {self.operator}({', '.join(given)}){f', from {self.source}' if self.source else ''})"


@dataclass(frozen=True)
class Computed:
    """Numbers that are made of parameters when they are first read: weights that a pass has laid out or scaled, of which a build
    that finds its kernels reads nothing but the packed form. function: of the parameters' arrays and `more`, and of nothing else."""

    function: Callable[..., NDArray[Any]]
    params: tuple[Param, ...]
    more: tuple[Any, ...]

    def compute(self) -> NDArray[Any]:
        """Return the numbers, which nobody keeps unless `array` was read."""
        if "array" in vars(self):
            return self.array
        sources = (each.numbers for each in self.params)
        arrays = (each.compute() if isinstance(each, Computed) else each for each in sources)
        return self.function(*arrays, *self.more)

    @cached_property
    def array(self) -> NDArray[Any]:
        """The numbers, kept as those of parameters are."""
        kept = paged_copy(np.ascontiguousarray(self.compute()))
        for each in self.params:
            each.release()
        return kept


@dataclass(frozen=True, eq=False)
class Param:
    """A value that is known. digest: of its type and bytes, or of what it is computed from, equal only where these are; numbers: None
    where only a text was parsed. fixed: it is no weight, so that a training leaves it as it is unless it is named."""

    type: TensorType
    digest: str
    numbers: NDArray[Any] | Computed | None = field(default=None, repr=False)
    fixed: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Param) or (self.type, self.fixed) != (other.type, other.fixed):
            return False
        return self.digest == other.digest or self.content_digest == other.content_digest

    def __hash__(self) -> int:  # contents may be equal where digests differ
        return hash((self.type, self.fixed))

    @staticmethod
    def of(array: NDArray[Any], fixed: bool = False) -> Param:
        """The parameter that holds a copy of an array, aligned as kernels like it."""
        kind = type_of_array(array)
        compact = np.asarray(array, array_dtype(kind.dtype), order="C")
        return Param(kind, _digest(kind, compact), paged_copy(compact), fixed)

    @property
    def data(self) -> NDArray[Any] | None:
        """The numbers; None where only a text was parsed."""
        return self.numbers.array if isinstance(self.numbers, Computed) else self.numbers

    def release(self) -> None:
        """Give back the memory of its numbers, or of those from which they are computed."""
        if not isinstance(self.numbers, Computed) or "array" in vars(self.numbers):
            if self.data is not None:
                release(self.data)
            return
        for each in self.numbers.params:
            each.release()

    @property
    def content_digest(self) -> str:
        """The digest of its type and bytes, which a text shows."""
        return _digest(self.type, self.numbers.array) if isinstance(self.numbers, Computed) else self.digest


def computed_param(
    kind: TensorType,
    function: Callable[..., NDArray[Any]],
    *params: Param,
    more: Sequence[NDArray[np.float64] | int] = (),
) -> Param:
    """The parameter of this type that a function makes of others, whose numbers are there, and of `more`."""
    text = hashlib.sha256(f"{kind} {function.__module__}.{function.__qualname__}".encode())
    for each in (*(param.digest for param in params), *more):
        about = (each.shape, each.tobytes()) if isinstance(each, np.ndarray) else each
        text.update(f" {about!r}".encode())
    return Param(kind, text.hexdigest()[:32], Computed(function, params, tuple(more)))


def _digest(kind: TensorType, compact: NDArray[Any]) -> str:
    digest = hashlib.sha256(str(kind).encode())
    digest.update(compact.reshape(-1).view(np.uint8).data if compact.size else b"")
    return digest.hexdigest()[:32]


def inner_name(value: str, at: int, name: str) -> str:
    """Return the name, outside, of a parameter of the graph `at` of the node that gives a value."""
    return f"{value}/{at}/{name}"


@dataclass(frozen=True, repr=False)
class Parts:
    """Components of a graph. Nodes stand after those whose values they use."""

    name: str
    inputs: dict[str, TensorType]
    constants: dict[str, Param]
    nodes: tuple[Node, ...]
    results: dict[str, str]
    """The value that each output is, by the output's name."""
    state: dict[str, str] = field(default_factory=dict[str, str])
    """Of inputs that are updated in place: the output that is in their memory after a call, by the input's name."""

    @cached_property
    def types(self) -> dict[str, TensorType]:
        """The type of every value by its name."""
        return {
            **self.inputs,
            **{name: param.type for name, param in self.constants.items()},
            **{name: kind for node in self.nodes for name, kind in zip(node.outputs, node.types, strict=True)},
        }

    @property
    def outputs(self) -> dict[str, TensorType]:
        """The shape and the dtype of each output by its name."""
        types = self.types
        return {name: types[value] for name, value in self.results.items()}

    @property
    def held(self) -> dict[str, Param]:
        """The parameters, and those of the graphs inside nodes: these by the node's first value, the number of the graph and their
        name there, "y/0/w". Raises BadGraph (TW0901) where two have one name."""
        held = dict(self.constants)
        for node in self.nodes:
            for at, body in enumerate(node.bodies):
                inner = {inner_name(node.outputs[0], at, name): param for name, param in body.held.items()}
                if both := inner.keys() & held.keys():
                    raise BadGraph(
                        f"two parameters are called {min(both)!r}"[:300],
                        called=user_source(),
                        reason="one of them is inside of a node",
                        fix="another name for the one outside",
                    )
                held |= inner
        return held

    @property
    def bound(self) -> dict[str, Param]:
        """The parameters in `held`, all of which have numbers. Raises UnboundParam (TW0907)."""
        held = self.held
        missing = [name for name, param in held.items() if param.numbers is None]
        if missing:
            raise UnboundParam(
                f"graph {self.name} has no value for {', '.join(missing[:10])}{' ...' if missing[10:] else ''}",
                reason="it was parsed from a text, which has large parameters by their digest only",
                called=user_source(),
                fix="tw.graph.parse(text, params=g.params), or g.save and tw.graph.load",
            )
        return held

    @property
    def params(self) -> dict[str, NDArray[Any]]:
        """The values of `held`, by their names. Raises UnboundParam (TW0907)."""
        return {name: param.data for name, param in self.bound.items() if param.data is not None}

    @property
    def symbols(self) -> list[str]:
        """The symbols of the inputs' shapes, in order."""
        return list(
            dict.fromkeys(
                name
                for kind in self.inputs.values()
                for extent in kind.shape
                for name in sorted(find_symbols([extent]))
            )
        )
