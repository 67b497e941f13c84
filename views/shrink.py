"""Operations on fewer elements, for checks that must be quick: a corner of the outputs, of the reductions, and of what
these read.

Only axes become shorter, the bodies stay. Every element that is computed was computed before, from the same elements, save
that reductions end early; so whatever is read is within the shapes as long as it was before. What schedules and lowering
have to get right (tiles that do not divide, regions, guards, order) is all there.

Of a script the loops of constant length become shorter, and its tensors as large as what these reach: what is not written
is zero as before. A scan takes fewer steps, and its states have the elements that its readers and its steps ask for. An
extern stays as it is, and so does what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..ir.analysis.regions import Span, SpanEvaluator
from ..ir.analysis.work import innermost, work_of
from ..ir.arith.analyzer import Analyzer
from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Expr, IntImm, IterVar, Node, ProducerLoad, Range, Reduce, Var
from ..ir.ops import const
from ..ir.stmt import BufferStore, For
from ..ir.visit import post_order, rewrite, substitute
from ..te.extern import ExternOp
from ..te.hybrid.op import HybridOp
from ..te.operation import ComputeOp, Operation, PlaceholderOp, producers_first
from ..te.rewrite import redirect
from ..te.scan import ScanOp
from ..te.shape import zero_based
from ..te.tensor import Tensor

__all__ = ["iterations", "shrunk"]


_ROUNDS = 8
"""How often the elements of a scan's states are looked for that its steps ask for, before all of them are taken."""


def shrunk(outputs: Sequence[Operation], length: Callable[[int, int], int]) -> list[Operation] | None:
    """The operations `outputs`, and what they read, on fewer elements; None where there are kinds of operations among them
    of which nobody knows how.

    length: of the axis number n (output axes, reduce axes and loops of scripts are counted) that has so many elements.
    """
    order = producers_first(outputs)
    if not all(op.is_given or isinstance(op, (ComputeOp, ScanOp, HybridOp, ExternOp)) for op in order):
        return None
    return _Shrinking(order, set(outputs), length).run(outputs)


def iterations(outputs: Sequence[Operation], values: Mapping[Var, int]) -> int:
    """About how often innermost bodies are evaluated, unscheduled. values: of the symbols. Extents that change with other axes
    count with the greatest value that they are known to take, those that are data as 8."""
    return sum(innermost(work_of(op.statement(), values), unknown=8) for op in producers_first(outputs) if not op.is_given)


_Need = int | None
"""The greatest extent that readers need of a dimension; None for all of it."""


def _most(needs: Iterable[_Need]) -> _Need:
    listed = list(needs)
    return None if None in listed else max((need for need in listed if need is not None), default=0)


class _Shrinking:
    def __init__(self, order: Sequence[Operation], outputs: set[Operation], length: Callable[[int, int], int]) -> None:
        self.order, self.outputs, self.length = order, outputs, length
        self.analyzer = Analyzer()
        self.count = 0
        self.needed: dict[Tensor, list[_Need]] = {}
        self.extents: dict[Var, Expr] = {}
        """Of the axes of operations."""
        self.shapes: dict[Tensor | Buffer, tuple[Expr, ...]] = {}
        """Of the states of scans, and of the buffers of scripts."""
        self.asked: dict[Tensor, list[_Need]] = {}
        """What steps were found to ask of each state."""

    def run(self, outputs: Sequence[Operation]) -> list[Operation]:
        for at in range(_ROUNDS + 1):
            self.count = 0
            self.needed.clear()
            for op in reversed(self.order):
                self._cut(op)
            if not self._asks_for_more(whole=at == _ROUNDS - 1):
                break
        twins: dict[Operation, Operation] = {}
        tensors: dict[Tensor, Tensor] = {}
        for op in self.order:
            new = self._remade(op, tensors)
            twins[op] = new
            tensors.update(zip(op.outputs, new.outputs, strict=True))
        return [twins[op] for op in outputs]

    # What is needed

    def _cut(self, op: Operation) -> None:
        """Choose the extents of an operation's axes, and note what it then reads."""
        if isinstance(op, ComputeOp):
            self._cut_compute(op)
        elif isinstance(op, ScanOp):
            self._cut_scan(op)
        elif isinstance(op, HybridOp):
            self._cut_script(op)
        elif isinstance(op, ExternOp):
            for tensor in op.input_tensors:
                self._need(tensor, [None] * tensor.ndim)

    def _cut_compute(self, op: ComputeOp) -> None:
        wanted = [_most(needs) for needs in zip(*map(self._wanted, op.outputs), strict=True)]
        for axis, need in zip(op.axis, wanted, strict=True):
            self.extents[axis] = self._extent(_whole(axis), need, op in self.outputs)
        for axis in op.reduce_axis:
            self.extents[axis] = self._extent(_whole(axis), 0, True)
        evaluate = SpanEvaluator({axis: self._span(axis) for axis in (*op.axis, *op.reduce_axis)}, self.analyzer)
        for load in op.loads:
            assert isinstance(load.producer, Tensor)
            self._need(load.producer, self._reach(load.indices, evaluate))

    def _cut_scan(self, op: ScanOp) -> None:
        """States, updates and the scan have one shape, and all states one time, of one step that is computed at least."""
        free = op in self.outputs
        shapes: list[list[Expr]] = []
        for state, output in zip(op.states, op.outputs, strict=True):
            needs = zip(state.shape, self._wanted(output), self.asked.get(state, [0] * state.ndim), strict=True)
            shapes.append([self._extent(extent, _most(both), free) for extent, *both in needs])
        steps, time = op.init[0].shape[0], op.states[0].shape[0]
        if isinstance(time, IntImm) and isinstance(steps, IntImm):
            chosen = max(steps.value + 1, *(shape[0].value for shape in shapes if isinstance(shape[0], IntImm)))
            time = const(min(chosen, time.value), time.dtype)
        for shape, state, init, update in zip(shapes, op.states, op.init, op.update, strict=True):
            self.shapes[state] = (time, *shape[1:])
            needs = [extent.value if isinstance(extent, IntImm) else None for extent in self.shapes[state]]
            self._need(update, needs)
            self._need(init, [None, *needs[1:]])

    def _asks_for_more(self, whole: bool) -> bool:
        """Whether some state has fewer elements than its steps read, or compute of it. whole: then all are taken."""
        asked = False
        for op in self.order:
            for state, init, update in zip(op.states, op.init, op.update, strict=True) if isinstance(op, ScanOp) else ():
                needs = [_most(both) for both in zip(self._wanted(state), self._wanted(update), strict=True)]
                needs = [needs[0], *(_most(both) for both in zip(needs[1:], self._wanted(init)[1:], strict=True))]
                for at, (shape, need) in enumerate(zip(self.shapes[state], needs, strict=True)):
                    extent = state.shape[at]
                    if isinstance(shape, IntImm) and isinstance(extent, IntImm) and shape.value < extent.value and (
                            need is None or need > shape.value):
                        self.asked.setdefault(state, [0] * state.ndim)[at] = None if whole else need
                        asked = True
        return asked

    def _cut_script(self, op: HybridOp) -> None:
        for axis in op.axis:
            self.extents[axis] = self._extent(_whole(axis), 0, True)
        evaluate = SpanEvaluator({axis: self._span(axis) for axis in op.axis}, self.analyzer)
        others = op.bound_variables.difference(op.axis)

        def reach(indices: Sequence[Expr]) -> list[_Need]:
            known = [not any(node in others for node in post_order(index)) for index in indices]
            return [need if sure else None for need, sure in zip(self._reach(indices, evaluate), known, strict=True)]

        needs = {buffer: self._wanted(output) for buffer, output in zip(op.buffers, op.outputs, strict=True)}
        for node in post_order(op.body):
            if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor):
                self._need(node.producer, reach(node.indices))
            elif isinstance(node, (BufferLoad, BufferStore)) and node.buffer in needs:
                needs[node.buffer] = [_most(both) for both in zip(needs[node.buffer], reach(node.indices), strict=True)]
        for buffer, wanted in needs.items():
            self.shapes[buffer] = tuple(
                self._extent(extent, need, False) for extent, need in zip(buffer.shape, wanted, strict=True))

    def _extent(self, extent: Expr, need: _Need, is_free: bool) -> Expr:
        if not isinstance(extent, IntImm) or need is None:
            return extent
        chosen = need
        if is_free:
            chosen = max(need, self.length(self.count, extent.value))
            self.count += 1
        return const(min(extent.value, chosen), extent.dtype)

    def _span(self, axis: IterVar) -> Span:
        assert axis.dom is not None
        return Span.of(axis.dom.begin, self.extents[axis])

    def _reach(self, indices: Sequence[Expr], evaluate: SpanEvaluator) -> list[_Need]:
        """The extents within which a read or a store lies."""
        needs: list[_Need] = []
        for index in indices:
            span = evaluate(index)
            greatest = None if span is None else self.analyzer.interval(span.high).hi
            needs.append(None if greatest is None else greatest + 1)
        return needs

    def _wanted(self, tensor: Tensor) -> list[_Need]:
        return self.needed.get(tensor, [0] * tensor.ndim)

    def _need(self, tensor: Tensor, needs: Sequence[_Need]) -> None:
        self.needed[tensor] = [_most(both) for both in zip(self._wanted(tensor), needs, strict=True)]

    # Operations of these sizes

    def _remade(self, op: Operation, tensors: dict[Tensor, Tensor]) -> Operation:
        if isinstance(op, PlaceholderOp):
            return self._placeholder(op)
        if isinstance(op, ComputeOp):
            return self._computed(op, tensors)
        if isinstance(op, ScanOp):
            return self._scan(op, tensors)
        if isinstance(op, HybridOp):
            return self._script(op, tensors)
        return op.replace_inputs(tensors)

    def _placeholder(self, op: PlaceholderOp) -> Operation:
        tensor = op.output(0)
        if tensor in self.shapes:
            return replace(op, shape=self.shapes[tensor])
        wanted = self.needed.get(tensor, [None] * tensor.ndim)
        return replace(op, shape=tuple(
            self._extent(extent, need if need is None else max(need, 0), False)
            for extent, need in zip(op.shape, wanted, strict=True)))

    def _renewed(self, axis: IterVar, axes: dict[Var, Expr], tensors: dict[Tensor, Tensor]) -> IterVar:
        """An axis of the chosen extent. axes: those that were renewed before, and this one."""
        assert axis.dom is not None
        begin, extent = (substitute(redirect(end, tensors), axes) for end in (axis.dom.begin, self.extents[axis]))
        shorter = replace(axis, dom=Range(begin, extent))
        axes[axis] = shorter
        return shorter

    def _computed(self, op: ComputeOp, tensors: dict[Tensor, Tensor]) -> Operation:
        axes: dict[Var, Expr] = {}
        data = tuple(self._renewed(axis, axes, tensors) for axis in op.axis)
        reduce = tuple(self._renewed(axis, axes, tensors) for axis in op.reduce_axis)
        first = substitute(redirect(op.body[0], tensors), axes)
        if isinstance(first, Reduce):
            body = tuple(replace(first, axes=reduce, value_index=at) for at in range(len(op.body)))
        else:
            body = (first, *(substitute(redirect(value, tensors), axes) for value in op.body[1:]))
        return replace(op, axis=data, body=body)

    def _scan(self, op: ScanOp, tensors: dict[Tensor, Tensor]) -> Operation:
        (time,) = op.axis
        assert time.dom is not None
        end = self.shapes[op.states[0]][0]
        dims = tuple(tuple(replace(axis, dom=zero_based(extent)) for axis, extent in zip(axes, self.shapes[state], strict=True))
                     for axes, state in zip(op.dims, op.states, strict=True))
        steps = replace(time, dom=Range(time.dom.begin, end - time.dom.begin)) if isinstance(end, IntImm) else time
        states = [tensors.get(state) or replace(state.op, shape=self.shapes[state]).output(0) for state in op.states]
        inputs = (tuple(tensors.get(tensor, tensor) for tensor in some) for some in (op.init, op.update, op.inputs))
        init, update, read = inputs
        return replace(op, axis=(steps,), dims=dims, states=tuple(states), init=init, update=update, inputs=read)

    def _script(self, op: HybridOp, tensors: dict[Tensor, Tensor]) -> Operation:
        axes: dict[Var, Expr] = {}
        loops: dict[Var, IterVar] = {axis: self._renewed(axis, axes, tensors) for axis in op.axis}
        buffers = {buffer: replace(buffer, shape=self.shapes[buffer]) for buffer in op.buffers}

        def rule(node: Node) -> Node | None:
            if isinstance(node, For) and node.var in loops:
                loop = loops[node.var]
                assert loop.dom is not None
                return replace(node, var=loop, begin=loop.dom.begin, extent=loop.dom.extent)
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in buffers:
                return replace(node, buffer=buffers[node.buffer])
            return axes.get(node) if isinstance(node, Var) else None

        body = rewrite(op.replace_inputs(tensors).body, rule)
        return replace(op, body=body, buffers=tuple(buffers[buffer] for buffer in op.buffers))


def _whole(axis: IterVar) -> Expr:
    """The extent that an axis was declared with."""
    assert axis.dom is not None, "axes of operations have a domain"
    return axis.dom.extent
