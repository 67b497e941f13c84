"""Operations on fewer elements, for checks that must be quick: a corner of the outputs, of the reductions, and of what
these read.

Only axes become shorter, the bodies stay. Every element that is computed was computed before, from the same elements, save
that reductions end early; so whatever is read is within the shapes as long as it was before. What schedules and lowering
have to get right (tiles that do not divide, regions, guards, order) is all there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..ir.arith.analyzer import Analyzer
from ..ir.expr import Expr, IntImm, IterVar, ProducerLoad, Range, Reduce, Var
from ..ir.ops import const
from ..ir.visit import substitute
from ..te.hybrid.op import HybridOp
from ..te.operation import ComputeOp, Operation, PlaceholderOp
from ..te.rewrite import collect_loads, redirect
from ..te.tensor import Tensor
from .regions import Span, SpanEvaluator
from .schedule import producers_first

__all__ = ["iterations", "shrunk"]


def shrunk(outputs: Sequence[Operation], length: Callable[[int, int], int]) -> list[Operation] | None:
    """The operations `outputs`, and what they read, on fewer elements; None where one of them cannot be cut down.

    length: of the axis number n (output axes and reduce axes are counted) that has so many elements.
    """
    order = producers_first(outputs)
    if not all(isinstance(op, (PlaceholderOp, ComputeOp)) for op in order):
        return None
    return _Shrinking(order, set(outputs), length).run(outputs)


def iterations(outputs: Sequence[Operation], values: Mapping[Var, int]) -> int:
    """About how often bodies are evaluated, unscheduled. values: of the symbols. Extents that change with other axes count
    with the greatest value that they are known to take, those that are data as 8."""
    symbols: dict[Var, Expr] = {var: const(value, var.dtype) for var, value in values.items()}
    total = 0
    computed = [op for op in producers_first(outputs) if not op.is_given]
    for axes in [axes for op in computed for axes in _nests(op)]:
        count, analyzer = 1, Analyzer()
        for axis in axes:
            extent = const(8) if axis.dom is None else substitute(axis.dom.extent, symbols)
            greatest = analyzer.interval(extent).hi
            analyzer.bind(axis, (0, None if greatest is None else greatest - 1))
            count *= 8 if greatest is None else max(greatest, 0)
        total += count
    return total


def _nests(op: Operation) -> list[tuple[IterVar, ...]]:
    """The axes of every nest of loops that the operation has."""
    if isinstance(op, HybridOp):
        return [(*op.around(nest), *nest) for nest in op.nests]
    return [(*op.axis, *op.reduce_axis)]


class _Shrinking:
    def __init__(self, order: Sequence[Operation], outputs: set[Operation], length: Callable[[int, int], int]) -> None:
        self.order, self.outputs, self.length = order, outputs, length
        self.analyzer = Analyzer()
        self.count = 0
        self.needed: dict[Operation, list[int | None]] = {}
        """The greatest extent that readers need of each dimension; None for all of it."""
        self.extents: dict[IterVar, Expr] = {}

    def run(self, outputs: Sequence[Operation]) -> list[Operation]:
        for op in reversed(self.order):
            if isinstance(op, ComputeOp):
                self._cut(op)
        made: dict[Operation, Operation] = {}
        tensors: dict[Tensor, Tensor] = {}
        for op in self.order:
            new = self._computed(op, tensors) if isinstance(op, ComputeOp) else self._placeholder(op)
            made[op] = new
            tensors.update(zip(op.outputs, new.outputs, strict=True))
        return [made[op] for op in outputs]

    def _cut(self, op: ComputeOp) -> None:
        """Choose the extents of an operation's axes, and note what it then reads."""
        wanted = self.needed.get(op, [0] * len(op.axis))
        for axis, need in zip(op.axis, wanted, strict=True):
            self.extents[axis] = self._extent(axis, need, op in self.outputs)
        for axis in op.reduce_axis:
            self.extents[axis] = self._extent(axis, 0, True)
        evaluate = SpanEvaluator({axis: self._span(axis) for axis in (*op.axis, *op.reduce_axis)}, self.analyzer)
        for load in collect_loads(op):
            self._note(load, evaluate)

    def _extent(self, axis: IterVar, need: int | None, is_free: bool) -> Expr:
        assert axis.dom is not None, "axes of operations have a domain"
        extent = axis.dom.extent
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

    def _note(self, load: ProducerLoad, evaluate: SpanEvaluator) -> None:
        tensor = load.producer
        assert isinstance(tensor, Tensor)
        needed = self.needed.setdefault(tensor.op, [0] * tensor.ndim)
        for at, index in enumerate(load.indices):
            span = evaluate(index)
            greatest = None if span is None else self.analyzer.interval(span.high).hi
            so_far = needed[at]
            needed[at] = None if greatest is None or so_far is None else max(so_far, greatest + 1)

    def _placeholder(self, op: Operation) -> Operation:
        assert isinstance(op, PlaceholderOp)
        wanted = self.needed.get(op, [None] * len(op.shape))
        shape = tuple(const(min(extent.value, max(need, 0)), extent.dtype) if isinstance(extent, IntImm) and need is not None
                      else extent for extent, need in zip(op.shape, wanted, strict=True))
        return replace(op, shape=shape)

    def _computed(self, op: ComputeOp, tensors: dict[Tensor, Tensor]) -> Operation:
        axes: dict[Var, Expr] = {}

        def renewed(axis: IterVar) -> IterVar:
            assert axis.dom is not None
            begin, extent = (substitute(redirect(end, tensors), axes) for end in (axis.dom.begin, self.extents[axis]))
            made = replace(axis, dom=Range(begin, extent))
            axes[axis] = made
            return made

        data = tuple(map(renewed, op.axis))
        reduce = tuple(map(renewed, op.reduce_axis))
        first = substitute(redirect(op.body[0], tensors), axes)
        if isinstance(first, Reduce):
            body = tuple(replace(first, axes=reduce, value_index=at) for at in range(len(op.body)))
        else:
            body = (first, *(substitute(redirect(value, tensors), axes) for value in op.body[1:]))
        return replace(op, axis=data, body=body)
