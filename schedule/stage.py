"""A stage: one operation of a schedule, its loops, and where it is computed.

This is TVM's model. The root axes are the operation's; relations derive further axes; the leaf axes, in order, are the
loops. What a primitive checks and does stands in the file of its family; the methods here are their face.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.expr import Expr, IterVar
from ..te.operation import Operation
from ..te.tensor_intrin import TensorIntrin
from .annotate import parallel, pragma, unroll, vectorize
from .attributes import AttachType, AxisKind, IterAttr
from .bind import bind
from .compute_at import compute_at, compute_root
from .fuse import fuse
from .inline import compute_inline
from .relations import Fuse, Rebase, Relation, Split
from .reorder import reorder
from .split import split, tile
from .storage import set_scope, set_store_predicate, storage_align
from .tensorize import tensorize

if TYPE_CHECKING:
    from .schedule import Schedule

__all__ = ["AttachType", "AxisKind", "IterAttr", "Stage"]


class Stage:
    """One operation of a schedule.

    op: what it computes now (cache_read, cache_write and rfactor rewrite it); origin_op: what it was declared as.
    all_iter_vars: root axes (op.axis, then op.reduce_axis), then derived ones in the order they were made.
    leaf_iter_vars: the loops, outermost first. relations: how axes derive, in the order they were made.
    iter_attrs: what is noted about an axis (absent: nothing). attach_type: "root", "at", "inline" or "inlined".
    scope: "" is the default for its place. store_predicate: a condition under which results are stored.
    """

    __slots__ = ("_attach_axis", "all_iter_vars", "attach_stage", "attach_type", "is_output", "iter_attrs",
                 "leaf_iter_vars", "op", "origin_op", "relations", "schedule", "scope", "store_predicate")

    def __init__(self, op: Operation, schedule: Schedule, is_output: bool = False) -> None:
        self.op = self.origin_op = op
        self.schedule = schedule
        self.is_output = is_output
        self.all_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.leaf_iter_vars: list[IterVar] = list(self.all_iter_vars)
        self.relations: list[Relation] = []
        self.iter_attrs: dict[IterVar, IterAttr] = {}
        self.attach_type: AttachType = "root"
        self.attach_stage: Stage | None = None
        self._attach_axis: IterVar | None = None
        self.scope = ""
        self.store_predicate: Expr | None = None

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.op.name

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes of its operation: data, then reduce."""
        return (*self.op.axis, *self.op.reduce_axis)

    @property
    def attach_axis(self) -> IterVar | None:
        """The loop of attach_stage that it is computed at. Where the axis that was given has been split since, that is
        the inner one; where it was fused, the fused one."""
        axis = self._attach_axis
        if axis is None or self.attach_stage is None:
            return None
        for relation in self.attach_stage.relations:
            if isinstance(relation, Split) and relation.parent is axis:
                axis = relation.inner
            elif isinstance(relation, Fuse) and (relation.outer is axis or relation.inner is axis):
                axis = relation.fused
            elif isinstance(relation, Rebase) and relation.parent is axis:
                axis = relation.rebased
        return axis

    @property
    def given_attach_axis(self) -> IterVar | None:
        """The axis that compute_at was given, whatever became of it."""
        return self._attach_axis

    def reads(self, other: Stage) -> bool:
        """Whether it reads a result of `other`, directly or through other stages."""
        seen: set[Operation] = set()
        stack = [self.op]
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            stack.extend(tensor.op for tensor in op.input_tensors)
        return self is not other and other.op in seen

    def attr(self, axis: IterVar) -> IterAttr:
        """What is noted about `axis`; a plain serial loop where nothing is."""
        return self.iter_attrs.get(axis, _PLAIN)

    def derive(self, relation: Relation, place: int, count: int, made: tuple[IterVar, ...]) -> None:
        """Put the axes `made` by `relation` where `count` loops stood from `place` on. For the primitives alone."""
        self.relations.append(relation)
        self.all_iter_vars.extend(made)
        self.leaf_iter_vars[place : place + count] = made

    def attach(self, kind: AttachType, stage: Stage | None = None, axis: IterVar | None = None) -> None:
        """Say where it is computed. For the primitives alone."""
        self.attach_type, self.attach_stage, self._attach_axis = kind, stage, axis

    def copied(self, schedule: Schedule) -> Stage:
        """The same stage for a copy of its schedule; attach_stage still is the original's."""
        made = Stage.__new__(Stage)
        made.restore(self.saved())
        made.schedule = schedule
        return made

    def saved(self) -> tuple[Any, ...]:
        """Its state, for `restore`."""
        return (self.op, self.origin_op, self.schedule, self.is_output, list(self.all_iter_vars),
                list(self.leaf_iter_vars), list(self.relations), dict(self.iter_attrs), self.attach_type,
                self.attach_stage, self._attach_axis, self.scope, self.store_predicate)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Back to the state that `saved` gave."""
        (
            self.op,
            self.origin_op,
            self.schedule,
            self.is_output,
            self.all_iter_vars,
            self.leaf_iter_vars,
            self.relations,
            self.iter_attrs,
            self.attach_type,
            self.attach_stage,
            self._attach_axis,
            self.scope,
            self.store_predicate,
        ) = state

    def is_scheduled(self) -> bool:
        """Whether any loop was changed or the stage was placed."""
        return bool(self.relations) or self.attach_type != "root" or not all(
            a is b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars, strict=True))

    def __repr__(self) -> str:
        return f"stage({self.op.name}, {self.op})"

    # Loops

    def split(
        self, parent: IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """Make two loops of one: (outer, inner), inner of `factor` iterations or outer of `nparts`.

        An extent that does not divide leaves a guarded tail, unless disable_predication vouches that there is none to
        guard. A loop that is annotated is not split, since the annotation would be lost: split first.

        Raises BadSplit, AxisIsNoLoop, NotAnAxisOfStage, AnnotationWouldBeLost.
        """
        return split(self, parent, factor, nparts, disable_predication)

    def fuse(self, *axes: IterVar) -> IterVar:
        """Make one loop of loops directly inside each other, in their order; of none, a new outermost loop that runs
        once. As in TVM the first two may be given in either order.

        Raises FuseApart, AxisIsNoLoop, NotAnAxisOfStage, AnnotationWouldBeLost.
        """
        return fuse(self, axes)

    def reorder(self, *axes: IterVar) -> None:
        """Permute the listed loops among the places that they hold; the others stay where they are.

        Raises BadReorder, AxisIsNoLoop, NotAnAxisOfStage.
        """
        reorder(self, axes)

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any,
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both loops and order them (x_outer, y_outer, x_inner, y_inner), which it returns.

        Raises what split and reorder raise.
        """
        return tile(self, x_parent, y_parent, x_factor, y_factor)

    # Kinds

    def parallel(self, axis: IterVar) -> None:
        """Share the iterations among threads. Like vectorize, unroll and bind it replaces the kind given before.

        Raises ParallelReduction, NestedParallel, AxisIsNoLoop, NotAnAxisOfStage.
        """
        parallel(self, axis)

    def vectorize(self, axis: IterVar) -> None:
        """Run the iterations, of any constant extent, in vector lanes.

        Raises VectorizeReduction, AxisIsNoLoop, NotAnAxisOfStage.
        """
        vectorize(self, axis)

    def unroll(self, axis: IterVar) -> None:
        """Write the iterations out. Raises AxisIsNoLoop, NotAnAxisOfStage."""
        unroll(self, axis)

    def bind(self, axis: IterVar, thread_axis: IterVar) -> None:
        """Run the iterations on a thread axis (te.thread_axis): blockIdx, threadIdx or a virtual thread.

        Raises BadThreadBinding, ThreadBoundTwice, AxisIsNoLoop, NotAnAxisOfStage.
        """
        bind(self, axis, thread_axis)

    def pragma(self, axis: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Say something to the passes about a loop: auto_unroll_max_step (the number of statements up to which loops
        below are unrolled), unroll_explicit (unroll here rather than leave it to LLVM), import_llvm (LLVM IR as text that
        defines functions which the program calls, whatever the loop); parallel_* is accepted and has no
        effect. A key that was set before takes the new value.

        Raises UnknownPragma, AxisIsNoLoop, NotAnAxisOfStage.
        """
        pragma(self, axis, pragma_type, pragma_value)

    # Hardware

    def tensorize(self, axis: IterVar, intrinsic: TensorIntrin) -> None:
        """Let a tensor intrinsic (te.decl_tensor_intrin, te.intrinsics.get) do the work of this loop and of all inside it.

        Whether it computes what they do is decided when the schedule is lowered, once their ranges are known.
        Raises BadTensorize, AxisIsNoLoop, NotAnAxisOfStage.
        """
        tensorize(self, axis, intrinsic)

    # Placement

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of the loop `scope` of `parent` needs, within that iteration.

        Raises CannotAttach, NestedParallel, AxisIsNoLoop, NotAnAxisOfStage.
        """
        compute_at(self, parent, scope)

    def compute_inline(self) -> None:
        """Put its expression wherever it is read. Raises CannotInline."""
        compute_inline(self)

    def compute_root(self) -> None:
        """Compute all of it before the stages that read it: where every stage is to begin with."""
        compute_root(self)

    # Storage

    def set_scope(self, scope: str) -> None:
        """Keep its results in global, shared, local or warp memory. Raises UnknownScope."""
        set_scope(self, scope)

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Pad so that the stride of the dimension `axis` is `offset` modulo `factor`, in elements.

        Raises BadStorageAlign, NotAnAxisOfStage.
        """
        storage_align(self, axis, factor, offset)

    def set_store_predicate(self, predicate: Any) -> None:
        """Store results only where the condition, over its axes and thread axes, holds. Raises BadStorePredicate."""
        set_store_predicate(self, predicate)


_PLAIN = IterAttr()
