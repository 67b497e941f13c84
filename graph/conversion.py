"""State that importers of models share: the graph to be, in which what is known is computed at once, the node that is converted, and
the list of what is not supported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import te
from ..base import dataclass, field, user_source
from ..ir import IntImm, Var, ops
from ..ir.arith.analyzer import simplify
from .assembly import Assembly
from .errors import BadNode, UnsupportedModel
from .node import Node
from .operators import Operator, result_types, row_of, whole_attributes
from .reference import run_node
from .shape_unification import agreeing
from .types import (
    Extent,
    TensorType,
    array_dtype,
    cancel,
    convert_extent,
    extents,
    factors,
    is_open,
    symbolic_factors,
    tensor_type,
)

__all__ = [
    "Conversion",
    "Items",
    "NeedsValue",
    "Refused",
    "Scope",
    "broadcast",
    "few",
    "open_extent",
    "product",
    "scaled_extent",
    "unsupported_model",
]

_MOST_FOLDED = 1 << 16
"""Elements up to which a value that is known is computed at once; what has no more than what it is made of is in any case."""

_MOST_MADE = 1 << 24
"""Numbers that a conversion may make itself, such as places, windows and filters."""

_WITH_EXTENTS = (
    "take",
    "slice",
    "concat",
    "reshape",
    "cast",
    "add",
    "subtract",
    "multiply",
    "floor_divide",
    "trunc_divide",
    "gather",
    "stack",
    "identity",
    "maximum",
    "minimum",
    "broadcast_to",
    "transpose",
    "prod",
    "equal",
    "where",
    "negative",
)
"""Operators that are computed on extents over symbols too: shapes are made of them."""


_MOST_PARTS = 1 << 10
"""A scale of extents over symbols is a number of parts of 1, at most so many."""


class Refused(Exception):
    """A use of an operator that is not supported; its text says why."""


class NeedsValue(Exception):
    """A conversion that cannot go on before the value of this name is known. value: what it is of ours, where it is none of the
    model's."""

    def __init__(self, name: str, value: str = "") -> None:
        super().__init__(name)
        self.value = value


@dataclass(frozen=True)
class Items:
    """A list of values, which is none of the graph's: of a loop that appends to it, the list that it `grows`, by its name; then
    what stands one below the other in `rows`, a value; then these values. dtype: of what is put into an empty one."""

    values: tuple[str, ...] = ()
    rows: str = ""
    grows: str = ""
    dtype: str = field(default="", compare=False)


class Scope:
    """The graph to be, and what is known of its values."""

    def __init__(self, name: str, opset: int = 0) -> None:
        self.graph = Assembly(name)
        self.opset = opset
        """The version of the model's operators, where they have one."""
        self.values: dict[str, str] = {}
        """Our value by the name that it has in the model."""
        self.lists: dict[str, Items] = {}
        """Of names that are lists of values, what is in them."""
        self.weights: set[str] = set()
        """Parameters that a training changes: what is made of them is computed when the graph runs, or by passes."""
        self.shapes: dict[str, NDArray[Any]] = {}
        """Of our values that are shapes with symbols: their elements, as expressions."""
        self.steps: dict[str, NDArray[Any]] = {}
        """Of our values that count iterations, in graphs inside of loops: their elements, as expressions over the number of an
        iteration, and symbols."""
        self.trips: dict[Var, Extent] = {}
        """How many iterations there are, by their number."""

    def beside(self) -> Scope:
        """The same graph to be, where values have other names in the model."""
        one = Scope(self.graph.name, self.opset)
        one.graph, one.shapes, one.steps, one.trips, one.lists = (
            self.graph,
            self.shapes,
            self.steps,
            self.trips,
            self.lists,
        )
        return one

    def name_list(self, items: Items) -> str:
        """The name of a list of values."""
        name = f"list {len(self.lists)}"  # no value's: these have no spaces
        self.lists[name] = items
        return name

    def constant(self, array: Any) -> str:
        """A value that is known."""
        return self.graph.param(self.graph.fresh(1)[0], np.asarray(array), fixed=True)

    def emit(self, operator: str, inputs: Sequence[str], attributes: dict[str, Any], source: str) -> tuple[str, ...]:
        """A node; or, where everything is known, its values."""
        row = row_of(operator)
        whole: dict[str, Any] = whole_attributes(row, attributes)
        try:
            types = result_types(row, whole, [self.graph.types[name] if name else None for name in inputs])
        except BadNode:
            alike = self._alike(row, whole, inputs, source)
            if alike is None:
                raise
            return self.emit(operator, alike, attributes, source)
        known = [self.graph.data(name) if name else None for name in inputs]
        all_known = (
            self.weights.isdisjoint(inputs)
            and operator not in _KEPT
            and all(array is not None or not name for array, name in zip(known, inputs, strict=True))
        )
        if all_known and all(one.is_static for one in types) and not any(map(is_open, whole.values())):
            most = max(_MOST_FOLDED, sum(array.size for array in known if array is not None))
            if sum(math.prod(map(int, one.shape)) for one in types) <= most:
                node = Node(operator, tuple(inputs), whole, ("",) * len(types), types)
                return tuple(map(self.constant, run_node(node, known, {})))
        values = self.graph.nodes(operator, *inputs, source=source, **whole)
        counts = any(name in self.steps for name in inputs)
        if operator in _WITH_EXTENTS and (counts or any(name in self.shapes for name in inputs)):
            noted = self._evaluate_extents(operator, inputs, whole)
            if noted is not None and all(
                isinstance(each, (bool, int, np.integer, np.bool)) for each in noted.reshape(-1)
            ):
                return (self.constant(noted.astype(array_dtype(types[0].dtype))),)
            if noted is not None:
                (self.steps if counts else self.shapes)[values[0]] = noted
        return values

    def _alike(
        self, row: Operator, attributes: Mapping[str, Any], inputs: Sequence[str], source: str
    ) -> list[str] | None:
        """The inputs in shapes that agree: where extents over symbols that have to be one are written otherwise, all are taken for
        the simplest of them, by a reshape, of which it is asked whether it holds when sizes are there. None where nothing helps."""
        shapes = [self.graph.types[name].shape if name else None for name in inputs]
        wanted = agreeing(row.name, row.fusion, attributes, shapes)
        if wanted is None:
            return None
        return [
            name if chosen is None or shape is None else self._respell_shape(name, shape, chosen, source)
            for name, shape, chosen in zip(inputs, shapes, wanted, strict=True)
        ]

    def _respell_shape(self, name: str, shape: Sequence[Extent], chosen: Sequence[Extent], source: str) -> str:
        """A value in a shape of the same extents, written otherwise: one by one, so that each is asked for."""
        whole = list(shape)
        for axis, extent in enumerate(chosen):
            if whole[axis] != extent:
                whole[axis] = extent
                name = self.emit("reshape", (name,), {"shape": tuple(whole)}, source)[0]
        return name

    def _evaluate_extents(
        self, operator: str, inputs: Sequence[str], attributes: dict[str, Any]
    ) -> NDArray[Any] | None:
        """Return the value of a node whose inputs are extents: numbers, and expressions; None where it cannot be told."""
        known = {**self.shapes, **self.steps}
        given: list[Any] = [known[name] if name in known else self.graph.data(name) for name in inputs]
        if any(array is None for array in given) or operator == "cast" and "int" not in str(attributes["dtype"]):
            return None
        if operator == "cast":
            return given[0]
        objects: list[Any] = [
            array if at and operator in ("take", "gather") else array.astype(object) for at, array in enumerate(given)
        ]
        try:
            if operator in _OF_EXTENTS:
                return np.asarray(np.frompyfunc(_OF_EXTENTS[operator], 2, 1)(*objects), object)
            return np.asarray(row_of(operator).reference(*objects, **attributes), object)
        except (TypeError, ValueError):
            return None


def _same_extent(a: Any, b: Any) -> bool:
    """Return whether two extents are one for all sizes. Raises ValueError where that depends on them."""
    answer = simplify(ops.equal(ops.convert(a), ops.convert(b)))
    if not isinstance(answer, IntImm):
        raise ValueError(f"{a} may be {b}")
    return bool(answer.value)


_OF_EXTENTS: dict[str, Callable[[Any, Any], Any]] = {
    "floor_divide": ops.floordiv,
    "trunc_divide": ops.floordiv,
    "equal": _same_extent,
    "maximum": lambda a, b: simplify(te.max(ops.convert(a), ops.convert(b))),
    "minimum": lambda a, b: simplify(te.min(ops.convert(a), ops.convert(b))),
}
"""What extents over symbols give where numpy's function of them is another."""

_KEPT = ("dequantize",)
"""Stays a node where all is known: what multiplies bytes looks for it."""


class Conversion:
    """A node of a model, on its way to nodes of ours. inputs: our values, "" where one is absent. source: what the user knows it
    by."""

    def __init__(self, scope: Scope, inputs: Sequence[str], source: str) -> None:
        self.scope, self.inputs, self.source = scope, list(inputs), source
        self.read: set[str] = set()
        """Names of what a conversion asked for, beside its inputs."""
        self.measures: Mapping[str, NDArray[Any]] = {}
        """What was measured, by name."""
        self.key = ""
        """What tells the node from others of the model."""

    def refuse_unread(self, given: Iterable[str], meaningless: Set[str], kind: str) -> None:
        """Refuse arguments that were given and that a conversion never asked for, save these. kind: what they are. Raises Refused."""
        unread = set(given) - self.read - meaningless
        if unread:
            raise Refused(f"its {kind} {min(unread)!r} is not known")

    def has(self, at: int) -> bool:
        """Return whether input `at` is there."""
        return at < len(self.inputs) and bool(self.inputs[at])

    def __getitem__(self, at: int) -> str:
        if not self.has(at):
            raise Refused(f"it has no input {at}")
        return self.inputs[at]

    def type(self, value: str | int) -> TensorType:
        """The type of an input, or of a value."""
        return self.scope.graph.types[self[value] if isinstance(value, int) else value]

    def rank(self, value: str | int) -> int:
        """Return the number of dimensions of an input, or of a value."""
        return len(self.type(value).shape)

    def static(self, value: str | int, part: slice = slice(None)) -> tuple[int, ...]:
        """The shape of an input, or a value, or this part of it, which has to be known."""
        shape = self.type(value).shape[part]
        if not all(isinstance(extent, int) for extent in shape):
            raise Refused(f"its shape {self.type(value)} has to be known, and has symbols")
        return tuple(map(int, shape))

    def extent(self, value: str | int, axis: int) -> int:
        """An extent of an input, or a value, which has to be known."""
        return self.static(value, slice(axis, axis + 1 or None))[0]

    def within(self, axis: int, rank: int) -> int:
        """An axis, counted from the beginning."""
        if not -rank <= axis < rank:
            raise Refused(f"axis {axis} is none of {rank}")
        return axis % rank

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output."""
        return self.emit_all(operator, *inputs, **attributes)[0]

    def emit_all(self, operator: str, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """A node."""
        return self.scope.emit(operator, inputs, attributes, self.source)

    def measured(self, what: str, value: Callable[[], str]) -> int:
        """A number that is computed when the model runs: on which, such as the extent of a result, the rest of it depends. what: of
        those that this node asks for. value: makes it. Raises NeedsValue."""
        name = f"{self.key}#{what}"
        if name not in self.measures:
            raise NeedsValue(name, value())
        return int(self.measures[name].reshape(-1)[0])

    def constant(self, value: Any, like: str | int | None = None) -> str:
        """A value that is known, in the dtype of another."""
        return self.scope.constant(
            value if like is None else np.asarray(value).astype(array_dtype(self.type(like).dtype))
        )

    def cast(self, value: str, dtype: str) -> str:
        """A value as another dtype."""
        return value if self.type(value).dtype == dtype else self.emit("cast", value, dtype=dtype)

    def reshape(self, value: str, shape: Sequence[Extent]) -> str:
        """A value in another shape."""
        return value if self.type(value).shape == tuple(shape) else self.emit("reshape", value, shape=tuple(shape))

    def broadcast(self, value: str, shape: Sequence[Extent]) -> str:
        """A value in the shape that it has with others; an extent that is written otherwise over symbols is taken for that of the
        shape, which is asked at the call."""
        own, target = self.type(value).shape, tuple(shape)
        pairs = zip(own, target[len(target) - len(own) :], strict=True)
        is_open = [one != 1 and (isinstance(one, str) or isinstance(other, str)) for one, other in pairs]
        spelled = [target[at - len(own)] if is_open[at] else extent for at, extent in enumerate(own)]
        value = self.reshape(value, spelled)
        return value if tuple(spelled) == target else self.emit("broadcast_to", value, shape=target)

    def root(self, value: str, order: float = 2) -> str:
        """The root of what is at least 0, flat at 0: what a norm's derivative is there, where that of the root alone has no end."""
        at_zero = self.emit("equal", value, self.constant(0, value))
        inner = self.emit("where", at_zero, self.constant(1, value), value)
        root = self.emit("sqrt", inner) if order == 2 else self.emit("power", inner, self.constant(1 / order, value))
        return self.emit("where", at_zero, self.constant(0, value), root)

    def norm(self, value: str, order: float, axes: Sequence[int], keepdims: bool) -> str:
        """The norm of an order, over dimensions; its derivative is 0 at 0."""
        along: dict[str, Any] = {"axes": tuple(axes), "keepdims": keepdims}
        if order == 2:
            return self.root(self.emit("sum", self.emit("square", value), **along))
        size, zero = self.emit("abs", value), self.constant(0, value)
        if order == 0:
            return self.emit("sum", self.cast(self.emit("not_equal", value, zero), self.type(value).dtype), **along)
        if order == 1:
            return self.emit("sum", size, **along)
        if abs(order) == np.inf:
            return self.emit("max" if order > 0 else "min", size, **along)
        exponent = self.constant(order, value)
        if 0 < order < 1:  # a power of 0 has a derivative without end
            at_zero = self.emit("equal", size, zero)
            power = self.emit("power", self.emit("where", at_zero, self.constant(1, value), size), exponent)
            powers = self.emit("where", at_zero, zero, power)
        else:
            powers = self.emit("power", size, exponent)
        total = self.emit("sum", powers, **along)
        return self.root(total, order) if order > 0 else self.emit("power", total, self.constant(1 / order, value))

    def fix_extent(self, value: str, axis: int, extent: int) -> str:
        """A value whose extent along an axis, where it is open, is taken for a number; that it is, is asked at the call."""
        shape = self.type(value).shape
        return (
            self.reshape(value, (*shape[:axis], extent, *shape[axis + 1 :])) if isinstance(shape[axis], str) else value
        )

    def not_one(self, value: str, axes: Iterable[int]) -> str:
        """A value of whose open extents along these axes it is asked at the call that they are not 1: where they were, it would
        lose them."""
        shape = self.type(value).shape
        sizes = extents([shape[at] for at in axes if isinstance(shape[at], str)])
        return self.asked(value, [convert_extent(ops.maximum(size - 1, 1 - size) - 1) for size in sizes])

    def open_pool(self, kind: str, value: str, how: Mapping[str, Any]) -> str:
        """A pool whose last windows may end beyond the padding, of extents that are not known: with as much padding behind as any
        needs, and without the windows that begin there. how: its attributes, ceil_mode left out."""
        kernel, count_padding = how["kernel"], how.get("count_padding", False)
        rank = len(kernel)
        stride, dilation = (tuple(how.get(name) or ()) or (1,) * rank for name in ("stride", "dilation"))
        pads = tuple(how.get("padding") or ()) or (0,) * 2 * rank
        lead = self.rank(value) - rank
        sizes = self.type(value).shape[lead:]
        if count_padding:  # it counts as zeros, what lies beyond it not at all
            zeros = (0,) * lead
            value = self.emit("pad", value, before=(*zeros, *pads[:rank]), after=(*zeros, *pads[rank:]), value=0)
        more = tuple(step - 1 for step in stride)
        whole = (*(0,) * rank, *more) if count_padding else (*pads[:rank], *map(add, pads[rank:], more))
        rest = {name: given for name, given in how.items() if name not in ("padding", "count_padding")}
        value = self.emit(kind, value, **rest, padding=whole)
        ends: list[Extent] = []
        for at, size in enumerate(sizes):
            reach, step, begin = (kernel[at] - 1) * dilation[at] + 1, stride[at], pads[at]
            far = begin + pads[rank + at] - reach + step - 1
            if isinstance(size, int):  # one that is known beside others that are not
                ends.append(min((size + far) // step + 1, (size + begin + step - 1) // step))
                continue
            text = f"min((({size}) + {far}) // {step} + 1, (({size}) + {begin + step - 1}) // {step})"
            ends.append(tensor_type([text], "bool").shape[0])
        axes = tuple(range(lead, lead + rank))
        return self.emit("slice", value, begin=(0,) * rank, end=tuple(ends), step=(1,) * rank, axes=axes)

    def asked(self, value: str, sizes: Sequence[Extent]) -> str:
        """A value, for which it is asked at the call that none of these extents is below 0."""
        if not sizes:
            return value
        nothing = self.constant(np.zeros((*[1] * len(sizes), 0), bool))
        return self.emit("after", value, self.emit("broadcast_to", nothing, shape=(*sizes, 0)))

    def size_value(self, extent: Extent) -> str:
        """An extent as a value of int64 without dimensions."""
        if isinstance(extent, int):
            return self.constant(np.int64(extent))
        return self.reshape(self.emit("arange", shape=(1,), start=(extent,)), ())

    def steps_value(self, begin: Extent, step: int | float, count: Extent, dtype: str) -> str:
        """So many numbers from an extent on, each greater by a step than the one before it."""
        if step == 1:
            return self.cast(self.emit("arange", shape=(count,), start=(begin,)), dtype)
        kind = "int64" if isinstance(step, int) else dtype if dtype == "float64" else "float32"
        places = self.emit(
            "multiply",
            self.cast(self.emit("arange", shape=(count,)), kind),
            self.constant(np.asarray(step).astype(kind)),
        )
        return self.cast(self.emit("add", places, self.cast(self.size_value(begin), kind)), dtype)

    def tiled(self, value: str, repeats: Sequence[Extent]) -> str:
        """A value so many times along each dimension."""
        if all(isinstance(each, int) for each in repeats):
            return value if all(each == 1 for each in repeats) else self.emit("tile", value, repeats=tuple(repeats))
        shape = self.type(value).shape
        apart = self.reshape(value, [part for extent in shape for part in (1, extent)])
        whole = self.emit(
            "broadcast_to", apart, shape=tuple(part for pair in zip(repeats, shape, strict=True) for part in pair)
        )
        return self.reshape(whole, [product(pair) for pair in zip(repeats, shape, strict=True)])

    def shape_value(self, source: str, part: slice = slice(None)) -> str:
        """The extents of a value, or a part of them, as a vector of int64."""
        whole = self.type(source).shape
        shape = whole[part]
        if all(isinstance(extent, int) for extent in shape):
            return self.constant(np.asarray(shape, np.int64))
        value = self.emit("shape", source)
        if shape != whole:
            begin, end, _ = part.indices(len(whole))
            value = self.emit("slice", value, begin=(begin,), end=(end,), step=(1,), axes=(0,))
        self.scope.shapes[value] = np.asarray([*extents(shape), None], object)[:-1]
        return value


def broadcast(first: Sequence[Extent], second: Sequence[Extent]) -> tuple[Extent, ...]:
    """The shape in which two meet."""
    rank = max(len(first), len(second))
    pairs = zip([1] * (rank - len(first)) + list(first), [1] * (rank - len(second)) + list(second), strict=True)
    return tuple(b if a == 1 else a for a, b in pairs)


def few(*counts: int) -> int:
    """Return the product of these, the count of numbers that an importer makes itself. Raises Refused where a few bytes of a model
    would become more than a machine should hold before anything runs."""
    count = math.prod(counts)
    if count > _MOST_MADE:
        raise Refused(f"it makes {count} numbers while the model is read, and at most {_MOST_MADE} are made")
    return count


def product(shape: Sequence[Extent]) -> Extent:
    """Return the number of elements of a shape."""
    number, rest = factors(shape)
    return number if rest is None or not number else convert_extent(rest * number)


def scaled_extent(extent: Extent, scale: float) -> Extent:
    """floor(extent * scale), where this is what whole numbers give. Raises Refused."""
    if isinstance(extent, int):
        return math.floor(extent * scale)
    above, below = scale.as_integer_ratio()
    if above <= 0 or below > _MOST_PARTS:
        raise Refused(f"{extent} is scaled by {scale}, which is not a small fraction of a power of 2")
    return convert_extent(ops.floordiv(*extents((product((extent, above)), below))))


def open_extent(source: Sequence[Extent], rest: Sequence[Extent]) -> Extent:
    """Return the extent that makes the number of elements as it was, beside the others. Where symbols do not tell that
    there is such an extent, it is the quotient; that it leaves nothing over is asked when sizes are there."""
    (number, above), (under, below) = symbolic_factors(source), symbolic_factors(rest)
    cancel(above, below)
    if under < 1 or not above and not below and number % under:
        if not number and not above:
            return 0
        raise Refused(f"elements of the shape {tuple(source)} may differ in number from {tuple(rest)}")
    shared = math.gcd(number, under)
    whole, divisor = (
        math.prod(factors, start=ops.const(one // shared, "int64"))
        for factors, one in ((above, number), (below, under))
    )
    return convert_extent(ops.floordiv(whole, divisor))


def unsupported_model(reasons: Mapping[str, list[str]]) -> UnsupportedModel:
    """The error that lists everything that is not supported: by a reason, the nodes that it concerns."""
    lines = [
        f"{len(nodes)} × {what[:300]} ({', '.join(nodes[:3])}{', ...' if nodes[3:] else ''})"
        for what, nodes in reasons.items()
    ]
    return UnsupportedModel(
        f"the model has {sum(map(len, reasons.values()))} nodes that are not supported",
        called=user_source(),
        reason="\n".join(lines[:200]),
        fix="replace these nodes, ask for the operators, or fix dimensions that the model leaves open",
    )
