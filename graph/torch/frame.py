"""A graph of an exported program on its way to a graph of ours: each call by the row of its operator, graphs inside of calls in
their place, or as those of `if` and `loop`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import FAULTS, GraphError, TilewrightError, is_interruption, user_source
from ..conversion import Conversion, NeedsValue, Refused, Scope, product, unsupported_model
from ..errors import NotAModel
from ..shape_unification import complexity
from ..subgraphs import InnerScope, emit_if, emit_loop
from ..types import TensorType, find_symbols
from .aliases import Alias, Step
from .call import ROWS, SYNONYMS, VIEWS, Call, Row
from .extents import UNREAD
from .numbers import extent, number
from .pairs import PAIRS, row_of_pairs
from .schema import Frame, Node, Symbol, TensorMeta, TensorName

__all__ = ["FrameReading", "is_known", "find_tensors"]

_ATEN, _PRIMS = "torch.ops.aten.", "torch.ops.prims."
_ITEM = (_ATEN + "item.", _ATEN + "_local_scalar_dense.")
_ASSERTIONS = ("aten._assert", "aten.sym_constrain_range", "aten._assert_tensor_metadata", "aten._assert_scalar")
_INLINED = ("torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast")
_ITERATION = "iteration"
"""The input of a loop's graph that counts."""


class FrameReading:
    """A graph of the program, as it is read into a scope. refused: what is not supported, by a reason the nodes. tensors, numbers:
    what its names stand for; what is not there comes from a node that was refused, or waits for one."""

    def __init__(self, scope: Scope, frame: Frame, refused: dict[str, list[str]]) -> None:
        self.scope, self.frame, self.refused = scope, frame, refused
        self.tensors: dict[str, Alias] = {}
        self.numbers: dict[str, Any] = {}
        self.waiting: set[str] = set()
        self.known: Mapping[str, NDArray[Any]] = {}
        self.measured: dict[str, str] = {}
        """What has to be known before the rest can be read: our values, by the names under which they will be known."""

    def run(self) -> None:
        for node in _live_nodes(self.frame):
            names = {str(name) for name in _find_names(node.arguments)}
            if names & self.waiting or not self.is_known(node):
                if not self.is_known(node):
                    self.refuse(node, "the operator is not supported")
                self.waiting.update(name for name in node.outputs if name)
                continue
            unknown = [name for name in sorted(names) if name not in self.tensors and name not in self.numbers]
            if unknown:
                raise NotAModel(
                    f"the node {node.name[:100]!r} reads {unknown[0][:100]!r}, which nothing before it gives",
                    called=user_source(),
                    fix="write the program again by torch.export.save",
                )
            self.node(node)

    def is_known(self, node: Node) -> bool:
        target = node.target
        return (
            not target.startswith("torch.ops.")
            or target in _INLINED
            or target in _CONTROL
            or _is_number(target)
            or self.row(node) is not None
        )

    def row(self, node: Node) -> Row | None:
        """The row of a node's operator: that of pairs, where it takes or gives complex numbers."""
        name, _ = _row_name(node.target)
        complexes = {
            each
            for each in (*find_tensors(dict(node.arguments)), *node.outputs)
            if (meta := self.frame.tensors.get(each)) is not None and meta.parts
        }
        return row_of_pairs(name, complexes) if complexes else ROWS.get(name)

    def node(self, node: Node) -> None:
        try:
            if node.target in _INLINED:
                self.inline_call(node)
            elif node.target in _CONTROL:
                self.convert_control(node)
            elif _is_number(node.target):
                self.number(node)
            else:
                self.call(node)
            return
        except NeedsValue as need:
            if isinstance(self.scope, InnerScope):
                self.refuse(node, "in a branch or a loop it depends on values how large its result is")
            self.measured[str(need)] = need.value
        except Refused as reason:
            self.refuse(node, str(reason))
        except TilewrightError as problem:
            if not isinstance(problem, GraphError) or problem.code in ("TW0911", "TW0912", "TW0913"):
                raise
            self.refuse(node, f"{problem.headline}. {problem.reason}")
        except (*FAULTS, MemoryError) as problem:
            if is_interruption(problem):
                raise
            self.refuse(node, f"it is not as its operator says: {type(problem).__name__} {problem}"[:300])
        self.waiting.update(name for name in node.outputs if name)

    def number(self, node: Node) -> None:
        if node.target.startswith((_ATEN + "sym_size", _ATEN + "sym_numel")):
            shape = self.scope.graph.types[self.tensor(node.arguments["self"])].shape
            value: Any = shape[int(node.arguments["dim"])] if "sym_size" in node.target else product(shape)
        elif node.target.startswith(_ITEM):
            value = self.item(node)
        else:
            operands = [self.symbol(each) if isinstance(each, Symbol) else each for each in node.arguments.values()]
            value = number(node.target, operands)
        self.numbers.update(dict.fromkeys(node.outputs, value))

    def item(self, node: Node) -> Any:
        """The number that a tensor holds, which where it is no constant closes the graph when it is called. Raises NeedsValue."""
        c = Call(self.scope, node.target, node.arguments, None, node.source, self.tensor, self.symbol)
        c.measures, c.key = self.known, next(filter(None, node.outputs), node.name)
        value = c.tensor()
        known = self.scope.graph.data(value)
        if known is not None:
            return known.reshape(-1)[0].item()
        if "float" in c.type(value).dtype:
            raise Refused("it is a float that is not known")
        return c.measured("item", lambda: c.cast(value, "int64"))

    def refuse(self, node: Node, reason: str) -> None:
        self.refused.setdefault(f"{node.target[:100]}: {reason}", []).append(node.source or node.name)

    def inline_call(self, node: Node) -> None:
        """A graph that a node calls, in the place of the node."""
        arguments: list[Any] = list(node.arguments.values())
        at = next(at for at, each in enumerate(arguments) if isinstance(each, Frame))
        inner = self.enter_graph(self.scope, arguments[at], [self.argument(each) for each in arguments[at + 1 :]])
        if inner is None:
            self.waiting.update(name for name in node.outputs if name)
            return
        results: list[Any] = []
        for each in arguments[at].outputs:
            results += cast("list[Any]", each) if isinstance(each, list) else [each]
        for name, each in zip(node.outputs, results, strict=True):
            if str(each) in inner.waiting:
                self.waiting.add(name)
            elif isinstance(each, TensorName):
                self.tensors[name] = inner.tensors[each]
            elif isinstance(each, Symbol):
                self.numbers[name] = inner.numbers[each]

    def argument(self, value: Any) -> Any:
        """Return the argument for a call: the memory of a tensor, or a number."""
        return (
            self.tensors[value]
            if isinstance(value, TensorName)
            else self.numbers[value]
            if isinstance(value, Symbol)
            else value
        )

    def enter_graph(self, scope: Scope, graph: Frame, given: Sequence[Any]) -> FrameReading | None:
        """A graph of the program after it was read, its inputs being these; None where something of it is refused."""
        inner = FrameReading(scope, graph, self.refused)
        inner.known, inner.measured = self.known, self.measured
        for name, each in zip(graph.inputs, given, strict=True):
            (inner.tensors if isinstance(name, TensorName) else inner.numbers)[str(name)] = each
        before = sum(map(len, self.refused.values()))
        inner.run()
        return inner if sum(map(len, self.refused.values())) == before else None

    def convert_graph(self, scope: InnerScope, graph: Frame, given: Sequence[Any]) -> list[str] | None:
        """The results of a graph inside of a node. given: its inputs, values of the scope or of ours, and numbers."""
        inner = self.enter_graph(
            scope,
            graph,
            [
                Alias.fresh(scope.taken(each.current()))
                if isinstance(each, Alias)
                else Alias.fresh(each)
                if isinstance(each, TensorName)
                else each
                for each in given
            ],
        )
        if inner is None:
            return None
        results: list[Any] = []
        for each in graph.outputs:
            results += cast("list[Any]", each) if isinstance(each, list) else [each]
        return [inner.value(each) for each in results]

    def convert_control(self, node: Node) -> None:
        """A node with graphs inside."""
        values = _CONTROL[node.target](self, node, list(node.arguments.values()))
        if values is None:
            self.waiting.update(name for name in node.outputs if name)
            return
        for name, value in zip(node.outputs, values, strict=True):
            if name:
                self.check(name, self.scope.graph.types[value])
                self.tensors[name] = Alias.fresh(value)

    def branch(self, node: Node, arguments: list[Any]) -> Sequence[str] | None:
        """torch.cond(condition, then, otherwise, operands)."""
        condition, *graphs, operands = arguments
        if not isinstance(condition, TensorName):
            raise Refused("its condition is not a tensor")
        scopes = [InnerScope(self.scope, name) for name in ("then", "else")]
        given = [self.argument(each) for each in operands]
        results = [self.convert_graph(scope, graph, given) for scope, graph in zip(scopes, graphs, strict=True)]
        if any(each is None for each in results):
            return None
        flag = Conversion(self.scope, [], node.source).reshape(self.tensor(condition), ())
        return emit_if(self.scope, flag, scopes, [each for each in results if each is not None], node.source)

    def convert_while_loop(self, node: Node, arguments: list[Any]) -> Sequence[str] | None:
        """torch's while_loop(condition, body, carried, values)."""
        condition, body, carried, values = arguments
        first, rest = [self.argument(each) for each in carried], [self.argument(each) for each in values]
        begins = self.enter_graph(self.scope, condition, [*first, *rest])
        scope, names = self.loop_body(first)
        results = self.convert_graph(scope, body, [*names, *rest])
        if begins is None or results is None:
            return None
        goes_on = self.convert_graph(scope, condition, [*map(TensorName, results), *rest]) or []
        flags = [
            Conversion(each, [], node.source).reshape(value, ())
            for each, value in ((self.scope, begins.value(condition.outputs[0])), (scope, goes_on[0]))
        ]
        began = [each.current() for each in first]
        return emit_loop(self.scope, scope, "", flags[0], began, [flags[1], *results], None, node.source)

    def convert_scan(self, node: Node, arguments: list[Any]) -> Sequence[str] | None:
        """torch's scan(body, carried, slices, values), and map_impl(body, slices, values)."""
        body, *carried, slices, values = arguments
        first, rest = (
            [self.argument(each) for each in carried[0]] if carried else [],
            [self.argument(each) for each in values],
        )
        scope, names = self.loop_body(first)
        along = [self.tensor(each) for each in slices]
        parts = [scope.emit("take", (scope.taken(each), _ITERATION), {"axis": 0}, node.source)[0] for each in along]
        results = self.convert_graph(scope, body, [*names, *map(TensorName, parts), *rest])
        if results is None:
            return None
        count = self.scope.graph.types[along[0]].shape[0]
        return emit_loop(self.scope, scope, "", "", [each.current() for each in first], results, count, node.source)

    def loop_body(self, first: Sequence[Any]) -> tuple[InnerScope, list[TensorName]]:
        """The graph of a loop to be, and what it carries."""
        if not all(isinstance(each, Alias) for each in first):
            raise Refused("it carries a number that is not a tensor")
        scope = InnerScope(self.scope, "body")
        scope.graph.input(_ITERATION, (), "int64")
        kinds = [self.scope.graph.types[each.current()] for each in first]
        return scope, [
            TensorName(scope.graph.input(f"carried{at}", kind.shape, kind.dtype)) for at, kind in enumerate(kinds)
        ]

    def call(self, node: Node) -> None:
        name, in_place = _row_name(node.target)
        meta = next((self.frame.tensors[each] for each in node.outputs if each in self.frame.tensors), None)
        of_scalar = name not in VIEWS and self.asks_for_axis_of_scalar(node)

        def tensor(each: str) -> str:
            return self.row_of_one(c, each) if of_scalar else self.tensor(each)

        c = Call(self.scope, name, node.arguments, meta, node.source, tensor, self.symbol)
        c.measures, c.key = self.known, next(filter(None, node.outputs), node.name)
        row = self.row(node)
        assert row is not None, "what is not known was refused"
        given = row(c)
        c.refuse_unread_arguments()
        values = [given] if isinstance(given, str) else list(given)
        if of_scalar:
            values = [
                c.reshape(value, self.frame.tensors[name].value_type[0])
                if value and name in self.frame.tensors
                else value
                for name, value in zip(node.outputs, values, strict=False)
            ]
        first, source = next(
            ((key, each) for key, each in node.arguments.items() if isinstance(each, TensorName)), ("", None)
        )
        if (
            in_place and name in VIEWS
        ):  # which writes nothing: the tensor looks at its memory in another way from here on
            assert source is not None, "a view has a tensor that it is of"
            turned = self.tensors[source].part(_step(row, c, first, name, 0), values[0])
            self.tensors.update({each: turned for each in (source, *node.outputs[:1]) if each})
            return
        if in_place:
            assert source is not None, "an operator in place has a tensor to write to"
            kind = c.type(self.tensor(source))
            whole = c.cast(values[0], kind.dtype)
            self.tensors[source].write(c.broadcast(whole, kind.shape))
            self.tensors.update({name: self.tensors[source] for name in node.outputs[:1] if name})
            return
        shared = source is not None and name in VIEWS and _shares(meta, self.frame.tensors.get(source), name)
        for at, (result, value) in enumerate(zip(node.outputs, values, strict=False)):
            if not result:
                continue
            if not value:  # which the row does not compute: what reads it waits
                self.waiting.add(result)
                continue
            value = self.checked(c, result, value)
            if shared and source is not None:
                self.tensors[result] = self.tensors[source].part(_step(row, c, first, name, at), value)
            else:
                self.tensors[result] = Alias.fresh(value)

    def asks_for_axis_of_scalar(self, node: Node) -> bool:
        """Return whether a call names an axis of a scalar, which torch takes for a row of one there."""
        first = next((each for each in node.arguments.values() if isinstance(each, TensorName)), None)
        return (
            first is not None
            and not {"dim", "dims"}.isdisjoint(node.arguments)
            and not self.scope.graph.types[self.tensor(first)].shape
        )

    def row_of_one(self, c: Call, name: str) -> str:
        """Our value of a tensor, a scalar as a row of one."""
        value = self.tensor(name)
        return value if c.type(value).shape else c.reshape(value, (1,))

    def check(self, name: str, kind: TensorType) -> None:
        """Check that a tensor of ours has the properties that torch says of it."""
        meta = self.frame.tensors.get(name)
        if meta is None:
            raise Refused("its result has no recorded type")
        shape, dtype = meta.value_type
        agree = len(shape) == len(kind.shape) and all(
            each == other or not isinstance(each, int) or not isinstance(other, int)
            for each, other in zip(shape, kind.shape, strict=True)
        )
        if dtype != kind.dtype or not agree:
            raise Refused(f"its result would be {kind}, where torch says {dtype}[{', '.join(map(str, shape))}]")

    def checked(self, c: Call, name: str, value: str) -> str:
        """A value of which what torch says of a tensor holds: where torch knows an extent for all sizes that it takes, and rows
        cannot tell it, it is taken for that, which is asked when sizes are there."""
        kind = c.type(value)
        self.check(name, kind)
        said = [
            own if one == UNREAD else extent(one)
            for one, own in zip(self.frame.tensors[name].value_type[0], kind.shape, strict=True)
        ]
        return c.reshape(
            value,
            [
                one if complexity(one) < complexity(own) and find_symbols([one]) <= self.scope.graph.symbols else own
                for one, own in zip(said, kind.shape, strict=True)
            ],
        )

    def tensor(self, name: str) -> str:
        return self.tensors[name].current()

    def symbol(self, name: str) -> Any:
        return self.numbers[name]

    def value(self, argument: Any) -> str:
        """Our value of an output."""
        if isinstance(argument, TensorName):
            if argument in self.waiting:
                raise unsupported_model({"it is not computed": [argument]})
            if argument not in self.tensors:
                raise NotAModel(
                    f"the program's output {argument[:100]!r} is not a tensor of it",
                    called=user_source(),
                    fix="write the program again by torch.export.save",
                )
            return self.tensor(argument)
        if isinstance(argument, Symbol):
            argument = self.numbers.get(argument)
        if isinstance(argument, str):
            counted = self.scope.emit("arange", (), {"shape": (1,), "start": (argument,)}, "output")[0]
            return self.scope.emit("reshape", (counted,), {"shape": ()}, "output")[0]
        if isinstance(argument, (bool, int, float)):
            return self.scope.constant(np.asarray(argument, np.float32 if isinstance(argument, float) else None))
        raise NotAModel(
            "the program has an output that is not a tensor and no number",
            called=user_source(),
            fix="return tensors alone",
        )


Control = Callable[[FrameReading, Node, list[Any]], "Sequence[str] | None"]
_HIGHER = "torch.ops.higher_order."
_CONTROL: dict[str, Control] = {
    _HIGHER + "cond": FrameReading.branch,
    _HIGHER + "while_loop": FrameReading.convert_while_loop,
    _HIGHER + "scan": FrameReading.convert_scan,
    _HIGHER + "map_impl": FrameReading.convert_scan,
}
"""Nodes with graphs inside, as they become nodes of ours: their values, None where what is inside is refused."""


def _step(row: Any, c: Call, first: str, name: str, at: int) -> Step:
    def forward(value: str) -> str:
        results = row(c.over(first, value))
        return results if isinstance(results, str) else results[at]

    back = VIEWS[name]
    if back is None or row is not ROWS.get(name):
        return Step(name, forward, None)
    return Step(name, forward, lambda whole, part: back(_restrict_call(c, first, whole, at), whole, part))


def _restrict_call(c: Call, first: str, whole: str, at: int) -> Call:
    """The call over another whole; "at" tells which of its results it is about."""
    call = c.over(first, whole)
    call.arguments["at"] = at
    return call


_PERHAPS = ("reshape.default", "flatten.using_ints", "contiguous.default")
_CONVERTED = ("to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default", "expand_as.default")


def _shares(result: TensorMeta | None, source: TensorMeta | None, name: str) -> bool:
    """Return whether a result is memory of its argument. A reshape copies where what was not in order is in order afterwards."""
    if result is None or source is None:
        return False
    if name in _CONVERTED and result.dtype != source.dtype:
        return False
    return not (name in _PERHAPS and result.is_contiguous and not source.is_contiguous)


def _row_name(target: str) -> tuple[str, bool]:
    """The name of the row of an operator, and whether it writes to its first argument."""
    name = target.removeprefix(_ATEN)
    operator, _, overload = name.partition(".")
    in_place = operator.endswith("_") and not operator.endswith("__")
    plain = operator[:-1] if in_place else operator
    return (f"{SYNONYMS.get(plain, plain)}.{overload}", in_place) if target.startswith(_ATEN) else (target, False)


def is_known(target: str) -> bool:
    """Return whether an operator is read, of real numbers or of complex ones."""
    name, _ = _row_name(target)
    if _is_assertion(target) or _is_number(target) or not target.startswith((_ATEN, _PRIMS)):
        return True
    return name in ROWS or name.partition(".")[0] in PAIRS


def _is_assertion(target: str) -> bool:
    return target.startswith(tuple(f"torch.ops.{name}" for name in _ASSERTIONS))


def _is_number(target: str) -> bool:
    return target.startswith(
        (*_ITEM, _ATEN + "sym_size", _ATEN + "sym_numel", "_operator.", "torch.sym_", "torch._sym_", "math.")
    )


def _find_names(value: Any) -> list[str]:
    """The tensors and symbols that arguments speak of."""
    if isinstance(value, (TensorName, Symbol)):
        return [value]
    if isinstance(value, (list, dict)):
        parts = cast("Sequence[Any]", value.values() if isinstance(value, dict) else value)  # type: ignore[reportUnknownMemberType]
        return [name for each in parts for name in _find_names(each)]
    return []


def _live_nodes(frame: Frame) -> list[Node]:
    """The nodes that give what others read, or write; what is only asserted of values is not computed."""
    read = set(_find_names(list(frame.outputs)))
    kept: list[Node] = []
    for node in reversed(frame.nodes):
        if not _is_assertion(node.target) and (
            not node.outputs or _row_name(node.target)[1] or not read.isdisjoint(node.outputs)
        ):
            read |= set(_find_names(dict(node.arguments)))
            kept.append(node)
    return kept[::-1]


def find_tensors(value: Any) -> list[str]:
    return [name for name in _find_names(value) if isinstance(name, TensorName)]
