"""The parts of a graph: typed nodes in single assignment form over the table of operators, and values that are known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir.lazy_values import cached_property
from .errors import BadGraph, UnboundParam
from .mapped_arrays import paged_copy
from .operators.row import Attribute
from .types import TensorType, array_dtype, find_symbols, type_of_array

__all__ = ["Node", "Param", "Parts", "inner_name"]


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
class Param:
    """A value that is known. digest: of its type and bytes, by which two are the same; data: None where only a text was parsed.
    fixed: it is no weight, so that a training leaves it as it is unless it is named."""

    type: TensorType
    digest: str
    data: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    fixed: bool = False

    @staticmethod
    def of(array: NDArray[Any], fixed: bool = False) -> Param:
        """The parameter that holds a copy of an array, aligned as kernels like it."""
        kind = type_of_array(array)
        compact = np.asarray(array, array_dtype(kind.dtype), order="C")
        digest = hashlib.sha256(str(kind).encode())
        digest.update(compact.reshape(-1).view(np.uint8).data if compact.size else b"")
        return Param(kind, digest.hexdigest()[:32], paged_copy(compact), fixed)


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
    def params(self) -> dict[str, NDArray[Any]]:
        """The values of `held`, by their names. Raises UnboundParam (TW0907)."""
        held = self.held
        missing = [name for name, param in held.items() if param.data is None]
        if missing:
            raise UnboundParam(
                f"graph {self.name} has no value for {', '.join(missing[:10])}{' ...' if missing[10:] else ''}",
                reason="it was parsed from a text, which has large parameters by their digest only",
                called=user_source(),
                fix="tw.graph.parse(text, params=g.params), or g.save and tw.graph.load",
            )
        return {name: param.data for name, param in held.items() if param.data is not None}

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
