"""Assembly of graphs: inputs, parameters and nodes, each of which uses what is there already, and whose types are found by
declaring it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from .control import CONTROL, control_types, plain_parts
from .errors import BadGraph, BadNode
from .node import Node, Param, Parts
from .operators import result_types, row_of, whole_attributes
from .types import TensorType, array_dtype, find_symbols, tensor_type

__all__ = ["Assembly"]

_MOST_BYTES = 1 << 32
"""Of a value that depends on no input: more than that is made of a few bytes of a text or a model by mistake, or to do harm."""


class Assembly:
    """The parts of a graph to be, in an order in which each uses what is there already."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.types: dict[str, TensorType] = {}
        self.symbols: set[str] = set()
        """Those of the inputs' shapes."""
        self._inputs: dict[str, TensorType] = {}
        self._constants: dict[str, Param] = {}
        self._nodes: list[Node] = []
        self._fixed: set[str] = set()
        """Values that depend on no input."""
        self._results: dict[str, str] = {}
        self._state: dict[str, str] = {}

    def input(self, name: str, shape: Sequence[Any], dtype: object = "float32") -> str:
        """Add an input. Returns the value's name.

        Parameters
        ----------
        name : str
            Of the input.
        shape : sequence of int or str
            Its extents: numbers, or the names of symbols.
        dtype : str, default "float32"
            Of its elements.

        Raises
        ------
        BadGraph (TW0901)
            The name is taken, or an extent is none.
        """
        kind = self._inputs[name] = self._define(name, tensor_type(shape, dtype))
        self.symbols |= find_symbols(kind.shape)
        return name

    def param(self, name: str, value: Any, fixed: bool = False) -> str:
        """Add a value that is known. Returns its name.

        Parameters
        ----------
        name : str
            Of the parameter.
        value : array
            Its elements.
        fixed : bool, default False
            Whether it is no weight: a training leaves it as it is unless it is named.

        Raises
        ------
        BadGraph (TW0901)
            The name is taken.
        """
        held = value if isinstance(value, Param) else Param.of(np.asarray(value), fixed)
        self._define(name, held.type)
        self._constants[name] = held
        self._fixed.add(name)
        return name

    def node(
        self,
        operator: str,
        *inputs: str,
        outputs: Sequence[str] = (),
        source: str = "",
        bodies: Sequence[Parts] = (),
        **attributes: Any,
    ) -> str:
        """Add a node of one output. Returns the value's name. Raises as nodes does.

        Parameters
        ----------
        operator : str
            A row of the graph's table of operators.
        *inputs : str
            The values that it reads, by name.
        outputs : sequence of str
            The name of its value; a new one without it.
        source : str
            Where it comes from, for messages.
        bodies : sequence of Graph
            The graphs inside an `if` and a `loop`.
        **attributes
            The operator's own.
        """
        return self.nodes(operator, *inputs, outputs=outputs, source=source, bodies=bodies, **attributes)[0]

    def nodes(
        self,
        operator: str,
        *inputs: str,
        outputs: Sequence[str] = (),
        source: str = "",
        bodies: Sequence[Parts] = (),
        **attributes: Any,
    ) -> tuple[str, ...]:
        """Add a node. Returns the names of its values.

        Parameters
        ----------
        operator : str
            A row of the graph's table of operators.
        *inputs : str
            The values that it reads, by name.
        outputs : sequence of str
            The names of its values; new ones without it.
        source : str
            Where it comes from, for messages.
        bodies : sequence of Graph
            The graphs inside an `if` and a `loop`.
        **attributes
            The operator's own.

        Raises
        ------
        UnknownOperator (TW0902)
            There is no such row.
        BadNode (TW0903)
            The operator does not take these inputs or attributes.
        BadGraph (TW0901)
            A value is not there, or a name is taken.
        """
        row = None if operator in CONTROL else row_of(operator)
        whole = whole_attributes(row or CONTROL[operator], attributes)
        given = list(inputs)
        while row is not None and given and not given[-1]:
            given.pop()
        for name in given:
            if name:
                self._check_value(name)
        kinds = [self.types[name] if name else None for name in given]
        inside = tuple(plain_parts(body) for body in bodies)
        types = control_types(operator, whole, kinds, inside) if row is None else result_types(row, whole, kinds)
        names = list(outputs) or self.fresh(len(types))
        if len(names) != len(types):
            raise BadGraph(
                f"{operator} gives {len(types)} values, not {len(names)}", called=user_source(), fix="name each of them"
            )
        if row is not None and all(not name or name in self._fixed for name in given):
            _check_size(operator, types)
            self._fixed.update(names)
        for name, kind in zip(names, types, strict=True):
            self._define(name, kind)
        self._nodes.append(Node(operator, tuple(given), whole, tuple(names), types, source, inside))
        return tuple(names)

    def output(self, name: str, value: str) -> None:
        """Make a value an output of this name. Raises BadGraph (TW0901)."""
        self._check_value(value)
        if name in self._results:
            raise BadGraph(
                f"graph {self.name} has two outputs {name!r}"[:300], called=user_source(), fix="another name"
            )
        self._results[name] = value

    def state(self, past: str, present: str) -> None:
        """Make an input and an output one buffer, which a call updates in place: both are of one type, and neither is part of
        another such pair. Raises BadGraph (TW0901)."""
        wrong = (
            f"there is no input {past!r}"
            if past not in self._inputs
            else f"there is no output {present!r}"
            if present not in self._results
            else f"{past!r} is {self._inputs[past]}, and {present!r} {self.types[self._results[present]]}"
            if self._inputs[past] != self.types[self._results[present]]
            else "one of them is state already"
            if past in self._state or present in self._state.values()
            else ""
        )
        if wrong:
            raise BadGraph(
                f"graph {self.name} cannot keep {past!r} and {present!r} in one buffer"[:300],
                reason=wrong[:300],
                called=user_source(),
                allowed=f"inputs {', '.join(self._inputs)}; outputs {', '.join(self._results)}",
                fix='state={"past": "present"}: an input, and the output of its shape and dtype that follows it',
            )
        self._state[past] = present

    def parts(self) -> Parts:
        """Return the nodes and parameters that were added so far."""
        return Parts(
            self.name,
            dict(self._inputs),
            dict(self._constants),
            tuple(self._nodes),
            dict(self._results),
            dict(self._state),
        )

    def fresh(self, count: int) -> list[str]:
        """Source of names that no value has."""
        numbers = (f"v{number}" for number in range(len(self.types), 2 * len(self.types) + count + 1))
        return list(islice((name for name in numbers if name not in self.types), count))

    def find_param(self, name: str) -> Param | None:
        """The parameter of this name."""
        return self._constants.get(name)

    def data(self, name: str) -> NDArray[Any] | None:
        """Return the known data of a value before anything runs."""
        return self._constants[name].data if name in self._constants else None

    def _define(self, name: str, kind: TensorType) -> TensorType:
        if not name or name in self.types:
            raise BadGraph(
                f"graph {self.name} defines {name!r} twice"[:300] if name else "a value without a name",
                called=user_source(),
                fix="a name for each value",
            )
        self.types[name] = kind
        return kind

    def _check_value(self, name: str) -> None:
        if name not in self.types:
            raise BadGraph(
                f"graph {self.name} has no value {name!r}"[:300],
                called=user_source(),
                reason="nodes use inputs, parameters and values of nodes before them",
                fix="define it first: inputs, then nodes in the order in which they depend on each other",
            )


def _check_size(operator: str, types: Sequence[TensorType]) -> None:
    """Refuse a node whose inputs are all known and whose results take more memory than anything that is known should. Raises BadNode
    (TW0903)."""
    for kind in types:
        size = (
            math.prod(int(extent) for extent in kind.shape if isinstance(extent, int))
            * array_dtype(kind.dtype).itemsize
        )
        if kind.is_static and size > _MOST_BYTES:
            raise BadNode(
                f"{operator} makes {kind} of what is known",
                reason=f"that is {size} bytes",
                called=user_source(),
                allowed=f"{_MOST_BYTES} bytes of what depends on no input",
                fix="smaller extents, or a value that is an input",
            )
