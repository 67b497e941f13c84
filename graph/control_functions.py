"""Nodes with graphs inside as machine code: a function for each, which calls the kernels of those graphs, and which main calls as
it calls a kernel.

What a loop carries lies in two places: an iteration reads one and writes the other, so that nothing is copied between two. The
loop IR has no loop without an end, so that a loop with a condition is rounds of 1, 2, 4, ... iterations, each of which asks
whether to go on: at most as many find that it is over as have run. Where sizes are symbols, functions are told, as kernels are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from ..base.dataclass import dataclass
from ..driver.linking import Inner, Part
from ..ir import Buffer, BufferLoad, BufferStore, Expr, For, Function, If, LetStmt, LoopKind, Seq, Stmt, Var, ops
from ..ir.dtype import HANDLE, DType
from ..te.shape import convert_shape
from .arena import ALIGNMENT, Size
from .control import Loop
from .kernels import Step
from .node import Node
from .plan import Layout, Place, Plan
from .types import Extent, TensorType, factors, symbol

__all__ = ["build_functions"]

_ROUNDS = 62
_INT64 = "int64"


def build_functions(plan: Plan) -> dict[str, Inner]:
    """The functions of the nodes with graphs inside, by the names of their steps, each behind those that it calls."""
    found: dict[str, Inner] = {}
    for step, name in zip(plan.steps, plan.names, strict=True):
        if step.nodes[-1].bodies and name not in found:
            for inner in plan.inside[name]:
                found.update(build_functions(inner))
            found[name] = Inner(
                partial(_function, name, step, plan.graph.types, plan.inside[name]),
                len(step.inputs) + len(step.outputs) + len(step.symbols),
            )
    return found


@dataclass(frozen=True)
class _Memory:
    """Memory of a function: of its values, the buffers by name; the arena of the graphs inside, and where in it their values
    lie."""

    values: Mapping[str, Buffer]
    arena: Buffer
    layouts: Sequence[Layout]


def _function(
    name: str,
    step: Step,
    types: Mapping[str, TensorType],
    inside: Sequence[Plan],
    parts: Mapping[str, Part],
) -> Function:
    """The function of a step: takes its inputs, its outputs, its symbols, and memory to work in."""
    node = step.nodes[-1]
    inputs = {
        value: _buffer(f"x{at}", _elements(types[value].shape), types[value].dtype)
        for at, value in enumerate(step.inputs)
    }
    outputs = {
        value: _buffer(f"y{at}", _elements(types[value].shape), types[value].dtype)
        for at, value in enumerate(step.outputs)
    }
    layouts = [plan.layout(parts) for plan in inside]
    arena = _buffer("arena", reduce(_greater, (layout.size for layout in layouts)), "uint8", ALIGNMENT)
    memory = _Memory({**inputs, **outputs}, arena, layouts)
    if node.operator == "if":
        body, more = _branches(node, inside, memory), []
    else:
        body, more = _Looping(node, inside[0], memory).statement()
    written = (*outputs.values(), arena, *more)
    return Function(
        name, (*inputs.values(), *outputs.values(), *map(symbol, step.symbols), arena, *more), body, written
    )


def _branches(node: Node, inside: Sequence[Plan], memory: _Memory) -> Stmt:
    def branch(at: int) -> Stmt:
        g = inside[at].graph
        outer = {inner: Place(memory.values[value]) for inner, value in zip(g.inputs, node.inputs[1:], strict=True)}
        outer |= {
            inner: Place(memory.values[value]) for inner, value in zip(g.results.values(), node.outputs, strict=True)
        }
        return inside[at].calls(outer, memory.layouts[at], memory.arena)

    return If(_first(memory.values[node.inputs[0]]), branch(0), branch(1))


class _Looping:
    """A loop on its way to statements."""

    def __init__(self, node: Node, plan: Plan, memory: _Memory) -> None:
        self.node, self.plan, self.memory = node, plan, memory
        self.loop = Loop.of(node)
        carried = len(self.loop.first)
        self.last, self.rows = node.outputs[:carried], node.outputs[carried:]
        self.sizes = [_elements(kind.shape) for kind in node.types[:carried]]
        self.row_sizes = [_elements(kind.shape[1:]) for kind in node.types[carried:]]
        self.counter = _buffer("counter", 1, _INT64, ALIGNMENT)
        self.going = _buffer("going", 1, "bool", ALIGNMENT)
        self.ahead = _buffer("ahead", 1, "bool", ALIGNMENT)
        self.slots = [
            _buffer(f"slots{at}", 2 * size, kind.dtype, ALIGNMENT)
            for at, (size, kind) in enumerate(zip(self.sizes, node.types, strict=False))
        ]

    def statement(self) -> tuple[Stmt, list[Buffer]]:
        """The whole loop, and the memory that it works in beside the arena."""
        values = self.memory.values
        begin = [
            _copy_elements(slot, 0, values[name], 0, size)
            for slot, name, size in zip(self.slots, self.loop.first, self.sizes, strict=True)
        ]
        run, ran = self._run_until_false() if self.loop.condition else self._run_all()
        end = [
            _copy_elements(values[name], 0, slot, (ran % 2) * size, size)
            for slot, name, size in zip(self.slots, self.last, self.sizes, strict=True)
        ]
        if self.loop.condition or self.loop.trips:
            end += [
                self._fill_zeros(values[name], ran * size, self._rows_left(ran) * size)
                for name, size in zip(self.rows, self.row_sizes, strict=True)
            ]
        return Seq((*begin, *run, *end)), [self.counter, self.going, self.ahead, *self.slots]

    def _rows_left(self, ran: Expr) -> Expr:
        return _number(0 if self.loop.count is None else self.loop.count) - ran

    def _most(self) -> Expr | None:
        """Return the number of iterations that run at most; None where nothing is said."""
        limits: list[Expr] = [] if self.loop.count is None else [_number(self.loop.count)]
        if self.loop.trips:
            limits.append(ops.maximum(_first(self.memory.values[self.loop.trips]), _number(0)))
        return None if not limits else limits[0] if len(limits) == 1 else ops.minimum(*limits)

    def _run_iteration(self, i: Expr) -> Stmt:
        """The kernels of one iteration."""
        values, g = self.memory.values, self.plan.graph
        now = [Place(slot).advance(i % 2, size) for slot, size in zip(self.slots, self.sizes, strict=True)]
        after = [Place(slot).advance(1 - i % 2, size) for slot, size in zip(self.slots, self.sizes, strict=True)]
        rows = [Place(values[name]).advance(i, size) for name, size in zip(self.rows, self.row_sizes, strict=True)]
        given = [Place(self.counter), *now, *(Place(values[name]) for name in self.loop.values)]
        results = [*([Place(self.ahead)] if self.loop.condition else []), *after, *rows]
        outer = {**dict(zip(g.inputs, given, strict=True)), **dict(zip(g.results.values(), results, strict=True))}
        return self.plan.calls(outer, self.memory.layouts[0], self.memory.arena)

    def _run_all(self) -> tuple[list[Stmt], Expr]:
        """Every iteration, and how many they are."""
        i, most = Var("i", DType(_INT64)), self._most()
        assert most is not None, "a loop without a condition says how often it runs"
        body = Seq((_store_scalar(self.counter, i), self._run_iteration(i)))
        return [For(i, _number(0), most, LoopKind.SERIAL, body)], most

    def _run_until_false(self) -> tuple[list[Stmt], Expr]:
        """Iterations until the condition is false, and how many have run."""
        i, turn, level = (Var(name, DType(_INT64)) for name in ("i", "turn", "level"))
        most, going = self._most(), _first(self.going)
        first, ahead = _first(self.memory.values[self.loop.condition]), _first(self.ahead)
        if most is not None:
            first, ahead = ops.logical_and(first, _number(0) < most), ops.logical_and(ahead, i + 1 < most)
        one = LetStmt(
            i,
            _first(self.counter),
            Seq((self._run_iteration(i), _store_scalar(self.counter, i + 1), _store_scalar(self.going, ahead))),
        )
        turns = ops.select(going, _number(1) << level, _number(0))
        levels = For(
            level,
            _number(0),
            _number(_ROUNDS),
            LoopKind.SERIAL,
            For(turn, _number(0), turns, LoopKind.SERIAL, If(going, one)),
        )
        return [_store_scalar(self.counter, _number(0)), _store_scalar(self.going, first), levels], _first(self.counter)

    @staticmethod
    def _fill_zeros(buffer: Buffer, begin: Expr, extent: Expr) -> Stmt:
        e = Var("e", DType(_INT64))
        return For(
            e, _number(0), extent, LoopKind.SERIAL, BufferStore(buffer, ops.const(0, str(buffer.dtype)), (begin + e,))
        )


def _copy_elements(target: Buffer, to: Expr | int, source: Buffer, begin: Expr | int, size: Size) -> Stmt:
    e = Var("e", DType(_INT64))
    return For(
        e, _number(0), _number(size), LoopKind.SERIAL, BufferStore(target, BufferLoad(source, (begin + e,)), (to + e,))
    )


def _store_scalar(buffer: Buffer, value: Expr) -> Stmt:
    return BufferStore(buffer, value, (_number(0),))


def _first(buffer: Buffer) -> Expr:
    return BufferLoad(buffer, (_number(0),))


def _number(value: Size) -> Expr:
    return ops.const(value, _INT64) if isinstance(value, int) else ops.cast(value, _INT64)


def _elements(shape: Sequence[Extent]) -> Size:
    """Return the number of elements of a value."""
    number, of = factors(shape)
    return number if of is None else of * number


def _greater(a: Size, b: Size) -> Size:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else ops.maximum(a, b)


def _buffer(name: str, elements: Size, dtype: str, alignment: int = 0) -> Buffer:
    """A buffer of so many elements in a row."""
    return Buffer(name, convert_shape((elements,), name), DType(dtype), data=Var(name, HANDLE), alignment=alignment)
