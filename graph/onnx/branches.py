"""ONNX's operators with graphs inside: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir import DType, Var
from ..conversion import Conversion, Items, NeedsValue, Refused
from ..errors import BadNode
from ..subgraphs import InnerScope, emit_if, emit_loop
from ..types import Extent, convert_extent
from .context import Context
from .reader import read_attributes
from .reading import Reading, controls
from .shapes import backward

__all__: list[str] = []

_MOST_ROWS = 1 << 24
_ENDLESS = 1 << 40


def _graph(node: Any, name: str) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return attribute.g
    raise Refused(f"it has no {name}")


def _scalar(c: Conversion, value: str, dtype: str) -> str:
    """A value of one element as that element."""
    return c.reshape(c.cast(value, dtype), ())


@controls("If")
def _convert_if(r: Reading, node: Any) -> None:
    c = r.context(node)
    known = r.scope.graph.data(c[0])
    if known is not None:
        r.inline_graph(node, _graph(node, "then_branch" if known.reshape(-1)[0] else "else_branch"))
        return
    readings, scopes, results = list[Reading](), list[InnerScope](), list[list[str]]()
    waits = False
    for name in ("then_branch", "else_branch"):
        graph = _graph(node, name)
        reading, scope = r.enter_graph(name.removesuffix("_branch"))
        reading.read(graph)
        readings.append(reading)
        scopes.append(scope)
        waits = waits or any(reading.is_unknown(entry.name) for entry in graph.output)
        results.append([reading.value(entry.name) or "" for entry in graph.output])
    problems = any(reading.unsupported for reading in readings)
    if problems and r.may_wait(node.input[0]):  # the branch that is taken may be without
        raise NeedsValue(node.input[0])
    for reading in readings:
        r.merge(reading)
    if waits or problems:
        r.waiting.update(node.output)
        return
    if not all(map(all, results)):
        raise Refused("a branch gives a value that it does not have")
    try:
        values = emit_if(r.scope, _scalar(c, c[0], "bool"), scopes, results, c.source)
    except BadNode:  # the branches give other types: the one that is taken tells them
        raise NeedsValue(node.input[0]) from None
    for name, value in zip(node.output, values, strict=True):
        if name:
            r.define(name, value)


class _Body:
    """The graph inside of a loop, on its way to one of ours. first: what it carries, before the first iteration, but for lists."""

    def __init__(self, r: Reading, node: Any, graph: Any, first: Sequence[str]) -> None:
        first = [value for value in first if value not in r.scope.lists]
        self.r, self.graph, self.first = r, graph, list(first)
        self.reading, self.scope = r.enter_graph(graph.name or "body")
        self.c = Conversion(self.scope, [], node.name or node.op_type)
        self.i = self.scope.graph.input("iteration", (), "int64")
        self.carried = [
            self.scope.graph.input(f"carried{at}", kind.shape, kind.dtype)
            for at, kind in enumerate(r.scope.graph.types[value] for value in first)
        ]

    def bind(self, entry: Any, value: str, changes: bool = True) -> None:
        """Make a value an input of the model's graph."""
        self.scope.values[entry.name] = value
        if changes:
            self.reading.changes(entry.name)

    def read(self) -> list[str] | None:
        """The graph's results; None where it waits, or is refused, for reasons that are the reading's."""
        self.reading.read(self.graph)
        if self.reading.unsupported or any(self.reading.is_unknown(entry.name) for entry in self.graph.output):
            return None
        results = [self.reading.value(entry.name) for entry in self.graph.output]
        missing = [entry.name for entry, value in zip(self.graph.output, results, strict=True) if value is None]
        if missing:
            raise Refused(f"the graph inside does not give {missing[0]!r}")
        return [value for value in results if value is not None]


@controls("Loop")
def _loop(r: Reading, node: Any) -> None:
    c = r.context(node)
    graph, first = _graph(node, "body"), list(c.inputs[2:])
    if len(graph.input) != 2 + len(first) or len(graph.output) < 1 + len(first):
        raise Refused("the graph inside does not take what the loop carries")
    trips, most = _trips(c)
    body = _loop_body(r, node, first, most)
    results = body.read()
    if results is None:
        if most is None and c.has(0) and r.may_wait(node.input[0]) and body.reading.unsupported:
            raise NeedsValue(
                node.input[0]
            )  # where it is known how far they go, slices may be known to lie in what they cut
        r.merge(body.reading)
        r.waiting.update(node.output)
        return
    goes_on, results = results[0], results[1:]
    results, appended = _declare_appended(body, results, first, r.scope.lists)
    carried = [value for value in first if value not in r.scope.lists]
    condition = _scalar(c, c[1], "bool") if c.has(1) else c.constant(np.asarray(True))
    always = _is_true(body.scope, goes_on) and _is_true(r.scope, condition)
    if always and not trips:
        raise Refused("it never ends")
    rows = results[len(carried) :]
    if rows and not (always and most is not None):
        if always:
            raise NeedsValue(node.input[0])
        most = int(c.measured("trips", lambda: _trips_run(r, node, first, trips, condition, most)))
        trips, always = c.constant(np.asarray(most, np.int64)), True
    given = results if always else [_scalar(body.c, goes_on, "bool"), *results]
    values = emit_loop(
        r.scope, body.scope, trips, "" if always else condition, carried, given, most if rows else None, c.source
    )
    for name, value in zip(node.output, _insert_lists(r, first, appended, values), strict=False):
        if name:
            r.define(name, value)


def _trips_run(
    r: Reading,
    node: Any,
    first: Sequence[str],
    trips: str,
    condition: str,
    most: Extent | None,
) -> str:
    """Return the number of iterations that run before the condition is false, as a value."""
    body = _loop_body(r, node, [*first, r.scope.constant(np.asarray(0, np.int64))], most)
    results = body.read() or []
    goes_on = _scalar(body.c, results[0], "bool")
    ran = body.c.emit("add", body.i, body.c.constant(np.asarray(1, np.int64)))
    kept = [value for value, before in zip(results[1:], first, strict=False) if before not in r.scope.lists]
    return emit_loop(r.scope, body.scope, trips, condition, body.first, [goes_on, *kept, ran], None, body.c.source)[
        len(kept)
    ]


def _loop_body(r: Reading, node: Any, first: Sequence[str], most: Extent | None) -> _Body:
    """The graph inside of a Loop. most: how many iterations there are at most."""
    graph = _graph(node, "body")
    body = _Body(r, node, graph, first)
    if most is not None:
        number = Var("iteration", DType("int64"))
        body.scope.trips[number] = most
        body.scope.steps[body.i] = np.asarray(number, object)
    rank = len(graph.input[0].type.tensor_type.shape.dim)
    body.bind(graph.input[0], body.c.reshape(body.i, (1,) * rank))
    body.bind(graph.input[1], body.scope.constant(np.asarray(True)), False)
    carried = iter(body.carried)
    for entry, value in zip(graph.input[2:], first, strict=False):
        if value in r.scope.lists:
            name = body.scope.values[entry.name] = body.scope.name_list(Items())
            body.scope.lists[name] = Items(grows=name)
        else:
            body.bind(entry, next(carried))
    return body


def _declare_appended(
    body: _Body,
    results: Sequence[str],
    first: Sequence[str],
    lists: Mapping[str, Items],
) -> tuple[list[str], list[int]]:
    """Return the result of the graph inside of a loop where lists are not carried, but what it appends to them are rows, before the others;
    and the places among what is carried of those lists. Raises Refused."""
    kept, appended, places = list[str](), list[str](), list[int]()
    for at, (value, before) in enumerate(zip(results, first, strict=False)):
        if before not in lists:
            kept.append(value)
            continue
        items, taken = body.scope.lists.get(value, Items()), body.scope.values[body.graph.input[2 + at].name]
        if lists[before] != Items() or items.grows != taken or len(items.values) != 1:
            raise Refused(
                "it carries a sequence that is not empty at first, or to which an iteration does not append one value"
            )
        appended.append(items.values[0])
        places.append(at)
    return [*kept, *appended, *results[len(first) :]], places


def _insert_lists(r: Reading, first: Sequence[str], appended: Sequence[int], values: Sequence[str]) -> list[str]:
    """Return the results of a loop, where what it appended to lists comes as lists, in their places among what is carried."""
    begin = len(first) - len(appended)
    rows = iter(values[begin:])
    kept = iter(values[:begin])
    carried = [r.scope.name_list(Items(rows=next(rows))) if at in appended else next(kept) for at in range(len(first))]
    return [*carried, *rows]


def _trips(c: Context) -> tuple[str, Extent | None]:
    """Return the number of trips that a loop makes at most, "" where nothing is said, and as an extent where that is known."""
    if not c.has(0):
        return "", None
    known, expression = c.scope.graph.data(c[0]), c.scope.shapes.get(c[0])
    if known is not None:
        number = int(known.reshape(-1)[0])
        return (
            ("", None)
            if number >= _ENDLESS
            else (_scalar(c, c[0], "int64"), max(number, 0) if number <= _MOST_ROWS else None)
        )
    return _scalar(c, c[0], "int64"), None if expression is None else convert_extent(expression.reshape(-1)[0])


def _is_true(scope: Any, value: str) -> bool:
    data = scope.graph.data(value)
    return data is not None and bool(data.reshape(-1)[0])


@controls("Scan")
def _scan(r: Reading, node: Any) -> None:
    c = r.context(node)
    graph, count = _graph(node, "body"), int(c.attribute("num_scan_inputs"))
    given = list(c.inputs)[c.opset < 9 :]
    if len(graph.input) != len(given) or len(graph.output) < len(given) - count or not 0 < count <= len(given):
        raise Refused("the graph inside does not take what it is given")
    made = _convert_batched_scan(r, c, node, given, count) if c.opset < 9 else _slices(r, c, node, given, count)
    if made is None:
        r.waiting.update(node.output)
        return
    for name, value in zip(node.output, made, strict=False):
        if name:
            r.define(name, value)


def _convert_batched_scan(r: Reading, c: Context, node: Any, given: Sequence[str], count: int) -> list[str] | None:
    """The form of version 8: everything has a batch, its first dimension, each row of which is gone over by itself, as far as the
    first input says."""
    outer, scope = r.enter_graph("batch")
    b = Conversion(scope, [], c.source)
    row = scope.graph.input("row", (), "int64")
    rows = [b.emit("take", scope.taken(value), row, axis=0) for value in given]
    trips = b.emit("take", scope.taken(c[0]), row, axis=0) if c.has(0) else ""
    made = _slices(outer, b, node, rows, count, trips)
    r.merge(outer)
    return (
        None if made is None else list(emit_loop(r.scope, scope, "", "", [], made, c.type(given[0]).shape[0], c.source))
    )


def _slices(
    r: Reading, c: Conversion, node: Any, given: Sequence[str], count: int, trips: str = ""
) -> list[str] | None:
    """Return the results of going over slices: states, then rows. given: states, then `count` values whose slices are
    taken. trips: how many of them, "" for all."""
    graph, said = _graph(node, "body"), read_attributes(node, None)
    states, scanned = list(given[:-count]), list(given[-count:])
    body = _Body(r, node, graph, states)
    for entry, value in zip(graph.input, body.carried, strict=False):
        body.bind(entry, value)
    along = said.get("scan_input_axes") or [0] * count
    axes = [c.within(axis, c.rank(value)) for axis, value in zip(along, scanned, strict=True)]
    turned = said.get("scan_input_directions") or said.get("directions") or [0] * count
    extent = c.type(scanned[0]).shape[axes[0]]
    for entry, value, axis, back in zip(graph.input[len(states) :], scanned, axes, turned, strict=True):
        if c.type(value).shape[axis] != extent:
            raise Refused(f"it goes over {extent} slices, and over {c.type(value).shape[axis]}")
        whole = backward(c, value, axis) if back else value
        body.bind(entry, body.c.emit("take", body.scope.taken(whole), body.i, axis=axis))
    results = body.read()
    r.merge(body.reading)
    if results is None:
        return None
    made = list(emit_loop(r.scope, body.scope, trips, "", states, results, extent, c.source))
    rows = len(made) - len(states)
    out_axes = said.get("scan_output_axes") or [0] * rows
    out_turned = said.get("scan_output_directions") or [0] * rows
    for at, (axis, back) in enumerate(zip(out_axes, out_turned, strict=True), len(states)):
        value = backward(c, made[at], 0) if back else made[at]
        rank = c.rank(value)
        order = list(range(1, rank))
        order.insert(c.within(axis, rank), 0)
        made[at] = value if order == list(range(rank)) else c.emit("transpose", value, axes=tuple(order))
    return made
