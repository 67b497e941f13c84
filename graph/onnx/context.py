"""What a row of ONNX's operators sees: one node, what is known of its inputs, and the graph to which it adds its own nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.expr import Expr
from ..assembly import Assembly
from ..node import Node
from ..operators import result_types, row_of, whole_attributes
from ..reference import run_node
from ..types import Extent, TensorType, array_dtype, extent_of, extents

__all__ = ["ROWS", "Context", "NeedsValue", "Refused", "Scope", "converts"]

_MOST_FOLDED = 1 << 16
"""Elements up to which a value that is known is computed at once; what has no more than what it is made of is in any case."""

_WITH_EXTENTS = ("take", "slice", "concat", "reshape", "cast", "add", "subtract", "multiply", "floor_divide", "trunc_divide",
                 "gather", "stack", "identity", "maximum", "minimum", "broadcast_to", "transpose")
"""Operators that are computed on extents over symbols too: shapes are made of them."""


_WITHOUT_MEANING = {"block_size", "consumed_inputs", "keep_aspect_ratio_policy", "momentum", "nearest_mode", "precision", "ratio",
                    "round_mode", "saturate", "seed", "spatial", "stash_type", "storage_order", "kernel_shape", "pads", "axis"}
"""Attributes that change nothing where a conversion does not ask for them."""


class Refused(Exception):
    """A use of an operator that is not supported; its text says why."""


class NeedsValue(Exception):
    """A conversion that cannot go on before the value of this name is known."""


class Scope:
    """The graph to be, and what is known of its values."""

    def __init__(self, name: str, opset: int) -> None:
        self.graph, self.opset = Assembly(name), opset
        self.values: dict[str, str] = {}
        """Our value by ONNX's name."""
        self.shapes: dict[str, NDArray[Any]] = {}
        """Of our values that are shapes with symbols: their elements, as expressions."""

    def constant(self, array: Any) -> str:
        """A value that is known."""
        return self.graph.param(self.graph.fresh(1)[0], np.asarray(array))

    def emit(self, operator: str, inputs: Sequence[str], attributes: dict[str, Any], source: str) -> tuple[str, ...]:
        """A node; or, where everything is known, its values."""
        row = row_of(operator)
        whole: dict[str, Any] = whole_attributes(row, attributes)
        types = result_types(row, whole, [self.graph.types[name] if name else None for name in inputs])
        known = [self.graph.data(name) if name else None for name in inputs]
        all_known = all(array is not None or not name for array, name in zip(known, inputs, strict=True))
        if all_known and all(one.is_static for one in types):
            most = max(_MOST_FOLDED, sum(array.size for array in known if array is not None))
            if sum(math.prod(map(int, one.shape)) for one in types) <= most:
                node = Node(operator, tuple(inputs), whole, ("",) * len(types), types)
                return tuple(map(self.constant, run_node(node, known, {})))
        values = self.graph.nodes(operator, *inputs, source=source, **whole)
        if operator in _WITH_EXTENTS and any(name in self.shapes for name in inputs):
            self._of_extents(operator, inputs, whole, values[0])
        return values

    def _of_extents(self, operator: str, inputs: Sequence[str], attributes: dict[str, Any], value: str) -> None:
        """Notes what a value is whose inputs are extents."""
        given: list[Any] = [self.shapes[name] if name in self.shapes else self.graph.data(name) for name in inputs]
        if any(array is None for array in given) or operator == "cast" and "float" in str(attributes["dtype"]):
            return
        if operator == "cast":
            self.shapes[value] = given[0]
            return
        objects: list[Any] = [array if array is None or (at and operator in ("take", "gather")) else array.astype(object)
                              for at, array in enumerate(given)]
        try:
            if operator in ("floor_divide", "trunc_divide"):
                result = np.asarray(objects[0] // objects[1], object)
            elif operator in ("maximum", "minimum"):
                return
            else:
                result = np.asarray(row_of(operator).reference(*objects, **attributes), object)
        except (TypeError, ValueError):
            return
        self.shapes[value] = result


class Context:
    """A node of ONNX. inputs: our values, "" where one is absent."""

    def __init__(self, scope: Scope, proto: Any, inputs: Sequence[str], attributes: dict[str, Any], source: str) -> None:
        self.scope, self.proto, self.inputs, self.attributes, self.source = scope, proto, list(inputs), attributes, source
        self.opset = scope.opset
        self.outputs = len(proto.output)
        self._asked: set[str] = set()

    def has(self, at: int) -> bool:
        """Whether input `at` is there."""
        return at < len(self.inputs) and bool(self.inputs[at])

    def __getitem__(self, at: int) -> str:
        if not self.has(at):
            raise Refused(f"it has no input {at}")
        return self.inputs[at]

    def type(self, value: str | int) -> TensorType:
        """The type of an input, or of a value."""
        return self.scope.graph.types[self[value] if isinstance(value, int) else value]

    def rank(self, value: str | int) -> int:
        """How many dimensions an input, or a value, has."""
        return len(self.type(value).shape)

    def static(self, value: str | int) -> tuple[int, ...]:
        """The shape of an input, or a value, which has to be known."""
        shape = self.type(value).shape
        if not self.type(value).is_static:
            raise Refused(f"its shape {self.type(value)} has to be known: fix the symbols by shapes=")
        return tuple(map(int, shape))

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute: numbers, texts, lists of them, arrays."""
        self._asked.add(name)
        return self.attributes.get(name, default)

    def refuse_unread(self) -> None:
        """Attributes that a conversion never asked for may mean something. Raises Refused."""
        unread = set(self.attributes) - self._asked - _WITHOUT_MEANING
        if unread:
            raise Refused(f"its attribute {min(unread)!r} is not known")

    def array(self, at: int) -> NDArray[Any]:
        """The value of an input, which has to be known. Raises NeedsValue."""
        data = self.scope.graph.data(self[at])
        if data is None:
            raise NeedsValue(self.proto.input[at])
        return data

    def numbers(self, at: int) -> list[int]:
        """The integers that an input holds. Raises NeedsValue."""
        return [int(number) for number in self.array(at).reshape(-1)]

    def extents(self, at: int) -> list[Extent]:
        """The extents that an input holds. Raises NeedsValue."""
        expressions = self.scope.shapes.get(self[at])
        if expressions is None:
            return [*self.numbers(at)]
        return [extent_of(part) if isinstance(part, Expr) else int(part) for part in expressions.reshape(-1)]

    def axis(self, default: int = 0, rank: int | None = None) -> int:
        """The attribute axis, counted from the beginning."""
        return self.within(int(self.attribute("axis", default)), self.rank(0) if rank is None else rank)

    def within(self, axis: int, rank: int) -> int:
        """An axis, counted from the beginning."""
        if not -rank <= axis < rank:
            raise Refused(f"axis {axis} is none of {rank}")
        return axis % rank

    def axes(self, at: int, name: str = "axes") -> list[int] | None:
        """The axes that come as an input, or as an attribute in older versions; None where there are none."""
        if self.has(at):
            return self.numbers(at)
        given = self.attribute(name)
        return None if given is None else list(given)

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output."""
        return self.emit_all(operator, *inputs, **attributes)[0]

    def emit_all(self, operator: str, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """A node."""
        return self.scope.emit(operator, inputs, attributes, self.source)

    def constant(self, value: Any, like: str | int | None = None) -> str:
        """A value that is known, in the dtype of another."""
        return self.scope.constant(value if like is None else np.asarray(value).astype(array_dtype(self.type(like).dtype)))

    def cast(self, value: str, dtype: str) -> str:
        """A value as another dtype."""
        return value if self.type(value).dtype == dtype else self.emit("cast", value, dtype=dtype)

    def reshape(self, value: str, shape: Sequence[Extent]) -> str:
        """A value in another shape."""
        return value if self.type(value).shape == tuple(shape) else self.emit("reshape", value, shape=tuple(shape))

    def shape_value(self, shape: Sequence[Extent], source: str) -> str:
        """The extents of a value as a vector of int64."""
        if all(isinstance(extent, int) for extent in shape):
            return self.constant(np.asarray(shape, np.int64))
        value = self.emit("shape", source)
        self.scope.shapes[value] = np.asarray([*extents(shape), None], object)[:-1]
        return value


Row = Callable[[Context], "str | Sequence[str]"]
ROWS: dict[str, Row] = {}
"""How a node of each operator becomes nodes of ours: its values, in order."""


def converts(*names: str) -> Callable[[Row], Row]:
    """Makes a row for these operators."""
    def register(row: Row) -> Row:
        ROWS.update(dict.fromkeys(names, row))
        return row

    return register
