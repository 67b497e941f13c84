"""The loop nest of one stage: its loops, where its reduction is initialised, its guards and its stores.

    for i.outer in 4:              # loops outside the first reduce loop: shared by both nests
        for i.inner in 8:
            if likely(...): C[...] = 0          # init: the remaining data loops, with guards of its own
        for k in 128:
            for i.inner in 8:
                if likely(...): C[...] = C[...] + ...

Stages that are computed at a loop come first in its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from ...base.errors import user_source
from ...ir.accesses import reads_memory
from ...ir.arith.analyzer import Analyzer
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IntImm, IterVar, Node, ProducerLoad, Range, Var
from ...ir.ops import cast, const, floormod, is_const, likely
from ...ir.passes.common.lazy_select import lazy_select
from ...ir.stmt import BufferStore, For, If, LoopKind, Stmt
from ...ir.visit import free_vars, rewrite, seq, substitute
from ...te.tensor import Tensor, find_tensor
from ..model.attributes import loop_pragmas, skips
from ..model.checks import outline
from ..model.relations import add_offset, pass_up_value
from ..model.stage import Stage
from .computation import Bounds, Loop, StageBounds
from .errors import UnboundThread
from .predicates import guards, side_guards

__all__ = ["Nest", "Storage"]

_KINDS = {
    "serial": LoopKind.SERIAL,
    "parallel": LoopKind.PARALLEL,
    "vectorized": LoopKind.VECTORIZED,
    "unrolled": LoopKind.UNROLLED,
    "thread": LoopKind.THREAD,
}


class Storage:
    """Storage of tensors: a buffer, and which element of the tensor its first one is (absent: the first one)."""

    def __init__(self) -> None:
        self.buffers: dict[Tensor, Buffer] = {}
        self.origins: dict[Tensor, tuple[Expr, ...]] = {}
        self.given: set[Buffer] = set()
        """The arguments, whose memory is the caller's."""
        self.alignments: dict[Buffer, int] = {}
        """What the addresses of arguments must be multiples of, in bytes, beside their elements' size."""
        self.loops: dict[Var, Loop] = {}
        """What each loop variable of the nests runs over."""
        self.strides: Callable[[Stage, Sequence[IterVar], Sequence[Expr]], tuple[Expr, ...]] = (
            lambda stage, axes, shape: ()
        )
        """Those of storage of a shape for outputs of a stage with these dimensions; () for compact storage."""

    def place(self, tensor: Tensor, buffer: Buffer, origin: tuple[Expr, ...] = ()) -> None:
        """Place `tensor` in `buffer`, element `origin` first."""
        self.buffers[tensor] = buffer
        # most storage begins at the first element, and needs no subtraction
        if not all(is_const(begin, 0) for begin in origin):
            self.origins[tensor] = origin


class Nest:
    """Builder of the nest of one stage (see OperationKind.nest); `wrap` puts around the body of a loop (or of the loop
    at a place: -1 stands for none, their number for what the innermost one guards) what is computed there, `around` what
    outlives its iterations around the loop.

    renamed: the variables that stand for loops while a second nest over the same loops is built. borrowed: while a store predicate
    is made, the loops over threads that it asks for (see `predicate`).
    """

    def __init__(
        self,
        bounds: Bounds,
        stage_bounds: StageBounds,
        storage: Storage,
        wrap: Callable[[Loop | int, Stmt], Stmt],
        around: Callable[[Loop, Stmt], Stmt],
    ) -> None:
        self.bounds = bounds
        self.analyzer: Analyzer = bounds.analyzer
        self.dataflow = bounds.dataflow
        self.stage_bounds, self.storage, self.wrap, self.around = stage_bounds, storage, wrap, around
        self.computation = stage_bounds.computation
        self.buffers = [storage.buffers[tensor] for tensor in stage_bounds.computation.op.outputs]
        self.renamed: dict[Loop, Var] = {}
        self.borrowed: dict[str, tuple[Var, Expr]] | None = None

    def rename(self, loops: Sequence[Loop]) -> dict[IterVar, Expr]:
        """Give `loops` new variables, for another nest over them, and return the offsets of the axes that `loops` and
        the loops before the first reduce loop determine."""
        bounds = self.stage_bounds
        self.renamed = {loop: Var(loop.var.name, loop.var.dtype) for loop in loops if loop.var is not None}
        for loop, var in self.renamed.items():
            # proofs about the second nest need the ranges of its variables
            self.analyzer.bind(var, Range(const(0, var.dtype), cast(loop.extent, var.dtype)))
        common = bounds.loops[: bounds.first_reduce_loop]
        leaves = {loop.axis: self.renamed.get(loop, loop.value) for loop in (*common, *loops)}
        return pass_up_value(self.computation.stage.relations, bounds.from_zero, leaves)

    # Loops

    def loops(self, loops: Sequence[Loop], body: Stmt, attach: bool) -> Stmt:
        """`loops` around `body`; with `attach` also what is computed at them."""
        for at, loop in reversed(list(enumerate(loops))):
            if attach:
                body = self.wrap(loop, body)
            var = self.renamed.get(loop, loop.var)
            if var is not None:
                self.storage.loops[var] = loop
                if skips(loop.attr.pragmas):  # the pragma skip leaves the loop without a body
                    body = seq()
                extent = loop.extent
                if not isinstance(extent, IntImm):
                    renamed: dict[Var, Expr] = {
                        old.var: new for old, new in self.renamed.items() if old.var is not None
                    }
                    extent = self.value(substitute(extent, renamed), {})
                body = For(
                    var,
                    const(0, var.dtype),
                    extent,
                    _KINDS[loop.attr.kind],
                    body,
                    loop.thread,
                    loop_pragmas(loop.attr.pragmas),
                )
                if attach and not skips(loop.attr.pragmas):
                    body = self.around(loop, body)
            if reads_memory(loop.extent):  # the extent may be read only where the iteration is computed
                body = self.guarded_extent(body, loops[at:])
        return body

    def guard(self, body: Stmt, offsets: dict[IterVar, Expr], skipped: frozenset[IterVar] = frozenset()) -> Stmt:
        """`body` under the guards of an iteration, the outermost condition first."""
        # reversed: each condition is put around those inside
        for condition in reversed(guards(self.stage_bounds, offsets, self.analyzer, skipped)):
            body = If(likely(self.value(condition, {})), body)
        for condition in reversed(side_guards(self.stage_bounds, offsets, self.analyzer, skipped)):
            body = If(self.value(condition, {}), body)
        for condition in self.stage_bounds.fresh(offsets):
            body = If(self.value(condition, {}), body)
        return body

    def guarded_extent(self, body: Stmt, inside: Sequence[Loop]) -> Stmt:
        """A loop whose extent is read from memory, under all guards that do not speak of it or of loops `inside` it: an
        iteration that is not to be computed must not read its extent either."""
        hidden = {loop.var for loop in inside}
        for condition in reversed(guards(self.stage_bounds, self.stage_bounds.offsets, self.analyzer)):
            if hidden.isdisjoint(free_vars(condition)):  # a condition about an inner loop is not known outside of it
                body = If(likely(self.value(condition, {})), body)
        return body

    # Values

    def value(self, value: Expr, axes: Mapping[IterVar, Expr]) -> Expr:
        """`value` with axes replaced by what they are in terms of loops, and tensors read from where they live."""

        def at_loops(node: Node) -> Node | None:
            if isinstance(node, IterVar):
                inner = axes.get(node)
                return inner if inner is not None else self.thread(node)
            return None

        if isinstance(value, IntImm):  # constants are the commonest values
            return value
        value = lazy_select(rewrite(self.read_by_positions(value), at_loops), self.analyzer)
        return self.analyzer.simplify(
            rewrite(value, lambda node: self.load(node) if isinstance(node, ProducerLoad) else None)
        )

    def read_by_positions(self, value: Expr) -> Expr:
        """`value` with what is read of circular dimensions read by positions, of which the storage holds a range."""
        # only circular dimensions are read by positions
        if not any(stage_bounds.circular for stage_bounds in self.bounds.of.values()):
            return value

        def rule(node: Node) -> Node | None:
            if not isinstance(node, ProducerLoad):
                return None
            tensor = find_tensor(node)
            producer = self.dataflow.by_op.get(tensor.op)
            if producer is None or not self.bounds.of[producer].circular:
                return None
            dimensions = producer.op.dimensions[tensor.value_index]
            return replace(
                node, indices=tuple(map(self.position, repeat(self.bounds.of[producer]), dimensions, node.indices))
            )

        return rewrite(value, rule)

    def position(self, of: StageBounds, axis: IterVar, index: Expr) -> Expr:
        """Return the position of an index in the range of another's dimension."""
        if axis not in of.circular:
            return index
        known = self.stage_bounds.positions.get((axis, index))
        begin = of.ranges[axis].begin
        return (
            known if known is not None else begin + floormod(index - begin, cast(of.domains[axis].extent, index.dtype))
        )

    def load(self, node: ProducerLoad) -> BufferLoad:
        tensor = node.producer
        assert isinstance(tensor, Tensor)
        buffer, origin = self.storage.buffers[tensor], self.storage.origins.get(tensor)
        if origin is None:  # the storage begins where the tensor does
            return BufferLoad(buffer, node.indices)
        return BufferLoad(buffer, tuple(index - begin for index, begin in zip(node.indices, origin, strict=True)))

    def thread(self, axis: IterVar) -> Expr | None:
        """The loop that is bound to a thread axis: to this very one, else to one of its tag, own loops first."""
        if axis.kind != "thread":
            return None
        own, around = self.stage_bounds.loops, self.stage_bounds.enclosing
        loops = [loop for loop in (*own, *reversed(around)) if loop.thread == axis.thread_tag]
        # the very axis before another one of its tag
        for loop in sorted(loops, key=lambda loop: loop.attr.bind_thread is not axis):
            return self.renamed.get(loop, loop.value)
        if self.borrowed is not None and self._borrows(axis.thread_tag, self.borrowed):
            return self.borrowed[axis.thread_tag][0]
        name = self.computation.name
        raise UnboundThread(
            f"cannot lower {name}: it reads the thread axis {axis.name}",
            called=user_source(),
            reason=f"no loop of {name}, or around it, is bound to {axis.thread_tag}",
            declared=self.computation.op.source,
            loops=outline(self.computation.stage),
            fix=f"s[{name}].bind(a loop, the thread axis {axis.name})",
        )

    # Elements

    def indices(self, offsets: Mapping[IterVar, Expr], tensor: Tensor) -> tuple[Expr, ...]:
        """Return the indices at which an iteration stores its element."""
        dimensions = self.computation.op.dimensions[tensor.value_index]
        origin = self.storage.origins.get(tensor)
        result: list[Expr] = []
        for at, axis in enumerate(dimensions):
            place, within = offsets[axis], self.stage_bounds.ranges[axis]
            # an index from the storage's own begin needs no subtraction
            if origin is None or within.begin is not origin[at]:
                place = (
                    add_offset(place, within, axis) if origin is None else add_offset(place, within, axis) - origin[at]
                )
            result.append(self.analyzer.simplify(place))
        return tuple(result)

    def axis_values(self, offsets: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
        """The value of each root axis that `offsets` determines."""
        values: dict[IterVar, Expr] = {}
        for axis in self.stage_bounds.domains:
            if axis in offsets:
                within = self.stage_bounds.ranges[axis]
                value = self.stage_bounds.value(axis, offsets[axis])
                # a begin that is read from memory has to be in terms of buffers too
                values[axis] = self.value(value, {}) if reads_memory(within.begin) else value
                if axis in self.stage_bounds.circular:
                    values[self.stage_bounds.circular[axis]] = add_offset(offsets[axis], within, axis)
        return values

    def stores(self, values: Sequence[Expr], offsets: Mapping[IterVar, Expr]) -> Stmt:
        """The outputs' elements set to `values`, which are already in terms of loops."""
        outputs = zip(self.computation.op.outputs, self.buffers, values, strict=True)
        return seq(*(BufferStore(buffer, value, self.indices(offsets, tensor)) for tensor, buffer, value in outputs))

    def predicate(self, body: Stmt, offsets: Mapping[IterVar, Expr]) -> Stmt:
        """`body` where the store predicate holds: within a loop over the threads that it speaks of, where a stage that is computed
        within this one has such a loop, and neither this one nor what is around it does."""
        predicate = self.computation.stage.store_predicate
        if predicate is None:
            return body
        self.borrowed = borrowed = dict[str, tuple[Var, Expr]]()
        # threads that only the predicate speaks of are collected meanwhile
        condition = self.value(predicate, self.axis_values(offsets))
        self.borrowed = None
        body = body if is_const(condition, 1) else If(condition, body)
        for tag, (var, extent) in borrowed.items():
            body = For(var, const(0, var.dtype), extent, LoopKind.THREAD, body, tag)
        return body

    def _borrows(self, tag: str, borrowed: dict[str, tuple[Var, Expr]]) -> bool:
        """Return whether a stage that is computed within this one has a loop over the threads of a tag; the store is then in a loop over
        them of its own, which is put into `borrowed`."""
        own = set(self.stage_bounds.loops)
        if tag in borrowed:
            return True
        for other in self.bounds.of.values():
            if own.isdisjoint(other.enclosing):  # only a stage within this one's loops runs for each of its iterations
                continue
            for loop in other.loops:
                if loop.thread == tag and loop.var is not None and isinstance(loop.extent, IntImm):
                    var = Var(tag.replace(".", "_"), loop.var.dtype)
                    self.analyzer.bind(var, Range(const(0, var.dtype), loop.extent))
                    borrowed[tag] = (var, loop.extent)
                    return True
        return False
