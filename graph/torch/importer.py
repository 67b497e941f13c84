"""From an exported program of torch to a graph: each call by the row of its operator, what is written in place made functional,
what is not supported listed whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...errors import FAULTS, GraphError, TilewrightError, user_source
from ..conversion import Refused, Scope, product, unsupported
from ..errors import BadExternalData, NotAModel
from ..node import Parts
from ..rewrite import without_dead
from ..types import TensorType
from . import arithmetic, gradients, layers, lookups, losses, makers, movement, parts, recurrent, reductions, vision
from .aliases import Alias, Step, Storage
from .archive import Archive
from .call import ROWS, SYNONYMS, VIEWS, Call
from .numbers import number
from .schema import Exported, Frame, Node, Symbol, TensorMeta, TensorName, Values, exported

__all__ = ["FAMILIES", "imported"]

FAMILIES = (arithmetic, gradients, layers, lookups, losses, makers, movement, parts, recurrent, reductions, vision)
"""Importing them fills the table of rows."""

_ATEN = "torch.ops.aten."
_ASSERTIONS = ("aten._assert", "aten.sym_constrain_range", "aten._assert_tensor_metadata", "aten._assert_scalar")
_INLINED = ("torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast")


def imported(archive: Archive, name: str, state: Mapping[str, str]) -> Parts:
    """The graph of an archive's program, with this state. Raises NotAModel (TW0911), UnsupportedModel (TW0912), BadExternalData
    (TW0913), BadGraph (TW0901)."""
    return _Reading(archive, exported(archive.program), name, state).graph()


class _Reading:
    def __init__(self, archive: Archive, program: Exported, name: str, state: Mapping[str, str]) -> None:
        self.archive, self.program, self.state = archive, program, state
        self.scope = Scope(name)
        self.refused: dict[str, list[str]] = {}
        self.names: Counter[str] = Counter()

    def graph(self) -> Parts:
        frame = _Frame(self, self.program.frame)
        for at, entry in enumerate(self.program.inputs):
            if entry.kind == "user_input" and isinstance(entry.argument, TensorName):
                self.user_input(frame, entry.argument, at)
        read = {str(name) for node in self.program.frame.nodes for name in _tensors_of(node.arguments)}
        read |= {str(entry.argument) for entry in self.program.results}
        for entry in self.program.inputs:
            if entry.kind != "user_input" and str(entry.argument) in read:
                self.held(frame, entry)
        inputs = {name: alias.storage for name, alias in frame.tensors.items()}
        frame.run()
        if self.refused:
            raise unsupported(self.refused)
        self.results(frame, inputs)
        for past, present in self.state.items():
            self.scope.graph.state(past, present)
        return without_dead(self.scope.graph.parts())

    def user_input(self, frame: _Frame, name: TensorName, at: int) -> None:
        meta = self.program.frame.tensors.get(name)
        if meta is None or meta.dtype is None:
            raise NotAModel(f"the program's input {at} is of no type that values here can have", called=user_source(),
                            fix="inputs that are tensors of numbers")
        frame.tensors[name] = Alias.fresh(self.scope.graph.input(str(name), meta.shape, meta.dtype))

    def held(self, frame: _Frame, entry: Values) -> None:
        """A parameter, a buffer, or a constant tensor."""
        if entry.kind not in ("parameter", "buffer", "tensor_constant"):
            raise NotAModel(f"the program has an input that is a {entry.kind[:50]}", called=user_source(), reason="it is no tensor",
                            fix="a module whose state is tensors")
        meta = self.program.frame.tensors.get(entry.argument)
        if entry.path in self.state and meta is not None and meta.dtype is not None:
            frame.tensors[entry.argument] = Alias.fresh(self.scope.graph.input(entry.path, meta.shape, meta.dtype))
            return
        param = self.archive.param(entry.path)
        if meta is None or (meta.shape, meta.dtype) != (param.type.shape, param.type.dtype):
            raise BadExternalData(f"the values of {entry.path!r} are not those that the program means"[:200], called=user_source(),
                                  reason=f"they are {param.type}", fix="write the archive again by torch.export.save")
        name = entry.path if entry.path and entry.path not in self.scope.graph.types else str(entry.argument)
        frame.tensors[entry.argument] = Alias.fresh(self.scope.graph.param(name, param))
        if entry.kind == "parameter":
            self.scope.weights.add(name)

    def results(self, frame: _Frame, inputs: Mapping[str, Storage]) -> None:
        """The user's outputs first, then what was written of buffers and inputs."""
        paths = {entry.argument: entry.path or str(entry.argument) for entry in self.program.inputs if entry.argument is not None}
        for entry in self.program.results:
            if entry.kind == "user_output" and entry.argument is not None:
                name = str(entry.argument) if isinstance(entry.argument, TensorName) else "number"
                self.output(name, frame.value(entry.argument))
        for name, path in paths.items():
            if name in inputs and inputs[name].version:
                self.output(path, inputs[name].value)
        for entry in self.program.results:
            if entry.kind in ("buffer_mutation", "user_input_mutation", "parameter_mutation"):
                self.output(entry.path, frame.value(entry.argument))
            elif entry.kind != "user_output":
                raise NotAModel(f"the program has an output that is a {entry.kind[:50]}", called=user_source(),
                                fix="a program for inference")

    def output(self, name: str, value: str) -> None:
        """An output; of several that are one value, each has a name of its own."""
        count = self.names[name]
        self.names[name] += 1
        self.scope.graph.output(f"{name}_{count}" if count else name, value)

    def refuse(self, node: Node, reason: str) -> None:
        self.refused.setdefault(f"{node.target[:100]}: {reason}", []).append(node.source or node.name)


class _Frame:
    """A graph of the program, as it is read. tensors, numbers: what its names stand for; what is not there comes from a node that
    was refused, or waits for one."""

    def __init__(self, reading: _Reading, frame: Frame) -> None:
        self.reading, self.frame = reading, frame
        self.tensors: dict[str, Alias] = {}
        self.numbers: dict[str, Any] = {}
        self.waiting: set[str] = set()

    def run(self) -> None:
        for node in self.frame.nodes:
            names = {str(name) for name in _names_of(node.arguments)}
            if names & self.waiting or not self.is_known(node):
                if not self.is_known(node):
                    self.reading.refuse(node, "the operator is not supported")
                self.waiting.update(name for name in node.outputs if name)
                continue
            unknown = [name for name in sorted(names) if name not in self.tensors and name not in self.numbers]
            if unknown:
                raise NotAModel(f"the node {node.name[:100]!r} reads {unknown[0][:100]!r}, which nothing before it gives",
                                called=user_source(), fix="write the program again by torch.export.save")
            self.node(node)

    def is_known(self, node: Node) -> bool:
        target = node.target
        return not target.startswith("torch.ops.") or target in _INLINED or _row_name(target)[0] in ROWS or _is_number(target) \
            or _is_assertion(target)

    def node(self, node: Node) -> None:
        if _is_assertion(node.target):
            return
        try:
            if node.target in _INLINED:
                self.inlined(node)
            elif _is_number(node.target):
                self.number(node)
            else:
                self.call(node)
            return
        except Refused as reason:
            self.reading.refuse(node, str(reason))
        except TilewrightError as problem:
            if not isinstance(problem, GraphError) or problem.code in ("TW0911", "TW0912", "TW0913"):
                raise
            self.reading.refuse(node, f"{problem.headline}. {problem.reason}")
        except (*FAULTS, MemoryError) as problem:
            self.reading.refuse(node, f"it is not as its operator says: {type(problem).__name__} {problem}"[:300])
        self.waiting.update(name for name in node.outputs if name)

    def number(self, node: Node) -> None:
        if node.target.startswith((_ATEN + "sym_size", _ATEN + "sym_numel")):
            shape = self.reading.scope.graph.types[self.tensor(node.arguments["self"])].shape
            value: Any = shape[int(node.arguments["dim"])] if "sym_size" in node.target else product(shape)
        else:
            operands = [self.symbol(each) if isinstance(each, Symbol) else each for each in node.arguments.values()]
            value = number(node.target, operands)
        self.numbers.update(dict.fromkeys(node.outputs, value))

    def inlined(self, node: Node) -> None:
        """A graph that a node calls, in the place of the node."""
        arguments: list[Any] = list(node.arguments.values())
        at = next(at for at, each in enumerate(arguments) if isinstance(each, Frame))
        graph: Frame = arguments[at]
        inner = _Frame(self.reading, graph)
        for name, given in zip(graph.inputs, arguments[at + 1:], strict=True):
            if isinstance(name, TensorName):
                inner.tensors[name] = self.tensors[given]
            elif isinstance(name, Symbol):
                inner.numbers[name] = self.symbol(given) if isinstance(given, Symbol) else given
        before = sum(map(len, self.reading.refused.values()))
        inner.run()
        if sum(map(len, self.reading.refused.values())) > before:
            self.waiting.update(name for name in node.outputs if name)
            return
        results: list[Any] = []
        for each in graph.outputs:
            results += cast("list[Any]", each) if isinstance(each, list) else [each]
        for name, each in zip(node.outputs, results, strict=True):
            if isinstance(each, TensorName):
                self.tensors[name] = inner.tensors[each]
            elif isinstance(each, Symbol):
                self.numbers[name] = inner.numbers[each]

    def call(self, node: Node) -> None:
        name, in_place = _row_name(node.target)
        meta = next((self.frame.tensors[each] for each in node.outputs if each in self.frame.tensors), None)
        c = Call(self.reading.scope, name, node.arguments, meta, node.source, self.tensor, self.symbol)
        row = ROWS[name]
        given = row(c)
        c.refuse_unread_arguments()
        values = [given] if isinstance(given, str) else list(given)
        first, source = next(((key, each) for key, each in node.arguments.items() if isinstance(each, TensorName)), ("", None))
        if in_place:
            assert source is not None, "an operator in place has a tensor to write to"
            kind = c.type(self.tensor(source))
            whole = c.cast(values[0], kind.dtype)
            whole = whole if c.type(whole).shape == kind.shape else c.emit("broadcast_to", whole, shape=kind.shape)
            self.tensors[source].write(whole)
            self.tensors.update({name: self.tensors[source] for name in node.outputs[:1] if name})
            return
        shared = source is not None and name in VIEWS and _shares(meta, self.frame.tensors.get(source), name)
        for at, (result, value) in enumerate(zip(node.outputs, values, strict=False)):
            if not result:
                continue
            if not value:  # which the row does not compute: what reads it waits
                self.waiting.add(result)
                continue
            self.check(result, c.type(value))
            if shared and source is not None:
                self.tensors[result] = self.tensors[source].part(_step(row, c, first, name, at), value)
            else:
                self.tensors[result] = Alias.fresh(value)

    def check(self, name: str, kind: TensorType) -> None:
        """What torch says of a tensor holds of ours."""
        meta = self.frame.tensors.get(name)
        if meta is None:
            raise Refused("nothing is said of its result")
        agree = len(meta.shape) == len(kind.shape) and all(
            each == other or not isinstance(each, int) or not isinstance(other, int)
            for each, other in zip(meta.shape, kind.shape, strict=True))
        if meta.dtype != kind.dtype or not agree:
            raise Refused(f"its result would be {kind}, where torch says {meta.dtype}[{', '.join(map(str, meta.shape))}]")

    def tensor(self, name: str) -> str:
        return self.tensors[name].current()

    def symbol(self, name: str) -> Any:
        return self.numbers[name]

    def value(self, argument: Any) -> str:
        """Our value of an output."""
        if isinstance(argument, TensorName):
            if argument not in self.tensors:
                raise NotAModel(f"the program's output {argument[:100]!r} is no tensor of it", called=user_source(),
                                fix="write the program again by torch.export.save")
            return self.tensor(argument)
        if isinstance(argument, Symbol):
            argument = self.numbers.get(argument)
        if isinstance(argument, str):
            counted = self.reading.scope.emit("arange", (), {"shape": (1,), "start": (argument,)}, "output")[0]
            return self.reading.scope.emit("reshape", (counted,), {"shape": ()}, "output")[0]
        if isinstance(argument, (bool, int, float)):
            return self.reading.scope.constant(np.asarray(argument, np.float32 if isinstance(argument, float) else None))
        raise NotAModel("the program has an output that is no tensor and no number", called=user_source(),
                        fix="return tensors alone")


def _step(row: Any, c: Call, first: str, name: str, at: int) -> Step:
    def forward(value: str) -> str:
        results = row(c.over(first, value))
        return results if isinstance(results, str) else results[at]

    back = VIEWS[name]
    if back is None:
        return Step(name, forward, None)
    return Step(name, forward, lambda whole, part: back(_numbered(c, first, whole, at), whole, part))


def _numbered(c: Call, first: str, whole: str, at: int) -> Call:
    """The call over another whole; "at" tells which of its results it is about."""
    call = c.over(first, whole)
    call.arguments["at"] = at
    return call


_PERHAPS = ("reshape.default", "flatten.using_ints", "contiguous.default")
_CONVERTED = ("to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default", "expand_as.default")


def _shares(result: TensorMeta | None, source: TensorMeta | None, name: str) -> bool:
    """Whether a result is memory of its argument. A reshape copies where what was not in order is in order afterwards."""
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


def _is_assertion(target: str) -> bool:
    return target.startswith(tuple(f"torch.ops.{name}" for name in _ASSERTIONS))


def _is_number(target: str) -> bool:
    return target.startswith((_ATEN + "sym_size", _ATEN + "sym_numel", "_operator.", "torch.sym_", "math."))


def _names_of(value: Any) -> list[str]:
    """The tensors and symbols that arguments speak of."""
    if isinstance(value, (TensorName, Symbol)):
        return [value]
    if isinstance(value, (list, dict)):
        parts = cast("Sequence[Any]", value.values() if isinstance(value, dict) else value)  # type: ignore[reportUnknownMemberType]
        return [name for each in parts for name in _names_of(each)]
    return []


def _tensors_of(value: Any) -> list[str]:
    return [name for name in _names_of(value) if isinstance(name, TensorName)]
