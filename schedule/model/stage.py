"""A stage: one operation of a schedule, its loops, and where it is computed.

This is TVM's model. The root axes are the operation's; relations derive further axes; the leaf axes, in order, are the
loops. What a primitive checks and does stands in the file of its family; the methods here are their face.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from ...ir.expr import Expr, IterVar
from ...te.operation import Operation
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ..primitives.annotate import parallel, unroll, vectorize
from ..primitives.bind import bind
from ..primitives.compute_at import compute_at, compute_root
from ..primitives.double_buffer import double_buffer
from ..primitives.env_threads import env_threads
from ..primitives.fuse import fuse
from ..primitives.inline import compute_inline
from ..primitives.pragma import pragma
from ..primitives.prefetch import prefetch
from ..primitives.reorder import reorder
from ..primitives.rolling_buffer import rolling_buffer
from ..primitives.split import split, tile
from ..primitives.storage import set_scope, set_store_predicate, storage_align
from ..primitives.tensorize import begin_tensorized, tensorize
from ..primitives.transform_layout import transform_layout
from .attachment import ATTACHED_AT_ROOT, Attachment
from .attributes import AttachType, AxisKind, IterAttr, Overlap
from .hybrid_loops import begin_declared
from .relations import Relation

if TYPE_CHECKING:
    from ..primitives.group import Group
    from .schedule import Schedule

__all__ = ["AttachType", "AxisKind", "IterAttr", "Stage"]


class Stage:
    """One operation of a schedule.

    op: what it computes now (cache_read, cache_write and rfactor rewrite it); origin_op: what it was declared as.
    all_iter_vars: root axes (op.axis, then op.reduce_axis), then derived ones in the order they were made.
    leaf_iter_vars: the loops, outermost first. relations: how axes derive, in the order they were made.
    iter_attrs: what is noted about an axis (absent: nothing). attach_type: "root", "at", "inline" or "inlined".
    scope: "" is the default for its place. store_predicate: a condition under which results are stored. group: of
    s.create_group, the innermost that it belongs to. overlap: how its storage outlives an iteration of the loop that it is
    computed at: "double" (double_buffer), "rolling" (rolling_buffer), or "".
    """

    __slots__ = ("_attachment", "all_iter_vars", "group", "is_output", "iter_attrs", "leaf_iter_vars", "op",
                 "origin_op", "overlap", "relations", "schedule", "scope", "store_predicate")

    def __init__(self, op: Operation, schedule: Schedule, is_output: bool = False) -> None:
        self.op = self.origin_op = op
        self.schedule = schedule
        self.is_output = is_output
        self.all_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.leaf_iter_vars: list[IterVar] = list(self.all_iter_vars)
        self.relations: list[Relation] = []
        self.iter_attrs: dict[IterVar, IterAttr] = {}
        self._attachment = ATTACHED_AT_ROOT
        self.group: Group | None = None
        self.overlap: Overlap = ""
        self.scope = ""
        self.store_predicate: Expr | None = None
        begin_tensorized(self)
        begin_declared(self)

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.op.name

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes of its operation: data, then reduce."""
        return (*self.op.axis, *self.op.reduce_axis)

    @property
    def placement(self) -> Attachment:
        """Where it is computed: what it was told itself or, where that is the root of its group, what the group was."""
        return self._attachment if self._attachment.type != "root" or self.group is None else self.group.placement

    @property
    def own_placement(self) -> Attachment:
        """Where it was told to be computed, whatever its group was."""
        return self._attachment

    @property
    def attach_type(self) -> AttachType:
        """"root", "at", "inline" or "inlined"."""
        return self.placement.type

    @property
    def attach_stage(self) -> Stage | None:
        """The stage at whose loop it is computed."""
        return self.placement.stage

    @property
    def attach_axis(self) -> IterVar | None:
        """The loop of attach_stage that it is computed at. Where the axis that was given has been split since, that is
        the inner one; where it was fused, the fused one."""
        return self.placement.loop

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
        self._attachment = Attachment(kind, stage, axis)

    def copied(self, schedule: Schedule) -> Stage:
        """The same stage for a copy of its schedule; attach_stage still is the original's."""
        made = Stage.__new__(Stage)
        made.restore(self.saved())
        made.schedule = schedule
        return made

    def saved(self) -> tuple[Any, ...]:
        """Its state, for `restore`: lists and dicts are copied."""
        return tuple(copy(value) if isinstance(value, (list, dict)) else value
                     for value in (getattr(self, name) for name in self.__slots__))

    def restore(self, state: tuple[Any, ...]) -> None:
        """Back to the state that `saved` gave."""
        for name, value in zip(self.__slots__, state, strict=True):
            setattr(self, name, value)

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

        A loop whose extents are constants and whose work takes less time than waking a thread runs serially all the same.

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
        defines functions which the program calls, whatever the loop), import_c (the same in C), debug_skip_region (the loop
        is left out, with all that it holds), parallel_stride_pattern (of a parallel loop: neighbouring iterations go to
        different tasks), parallel_launch_point (of a loop around a parallel one: the threads are launched here, once, where
        iterations are shown not to depend on each other), parallel_barrier_when_finish (of a parallel loop: they are not, all
        threads finish it before anything goes on), nontemporal_store (vectorized loops from here down store past the caches,
        where CPUs can: for large results that are not read soon; a hint, for loops whose lanes store side by side to one
        tensor). A key that was set before takes the new value.

        Raises UnknownPragma, AxisIsNoLoop, NotAnAxisOfStage.
        """
        pragma(self, axis, pragma_type, pragma_value)

    # Hardware

    def env_threads(self, threads: Sequence[IterVar] | IterVar) -> None:
        """Of a scan: put thread axes, whose extents are declared, around the loop over time, so that all steps run in one
        kernel. Loops of its updates that are bound to the same tags share the work among these threads.

        Raises BadEnvThreads.
        """
        env_threads(self, threads)

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

    def prefetch(self, tensor: Tensor, axis: IterVar, offset: Any, around: bool = False, level: int = 1) -> None:
        """At each iteration of the loop `axis`, ask the cache for what the iteration `offset` further on reads of `tensor`:
        a hint, which means nothing to what is computed, and which targets other than CPUs leave out. around: what this
        iteration reads when the loop that the stage is computed at is `offset` iterations further on. level: 1 asks the
        first cache; 2 the second one, for streams from memory: where a row ends, for the one that follows it.

        Raises BadPrefetch, AxisIsNoLoop, NotAnAxisOfStage, UnknownStage.
        """
        prefetch(self, tensor, axis, offset, around, level)

    def double_buffer(self) -> None:
        """Compute what an iteration of the loop that it is computed at needs one iteration ahead, into one of two halves of
        its storage that take turns.

        Whether the loop allows that (a serial one, in which what is read does not change) is decided when the schedule is
        lowered. Raises BadOverlap.
        """
        double_buffer(self)

    def rolling_buffer(self) -> None:
        """Use again what the last iteration of the loop that it is computed at computed, and compute the rest: what is read
        must move by constant steps that are smaller than its extent, which is decided when the schedule is lowered.

        Raises BadOverlap.
        """
        rolling_buffer(self)

    def transform_layout(self, mapping_function: Callable[..., Any], pad_value: Any = None) -> list[IterVar] | None:
        """Lay the elements out as mapping_function says, which takes the indices of an element and returns those of its
        place: `lambda n, c, h, w: [n, c // 4, h, w, c % 4]`. The tensor then has the shape that these span; where it is
        an argument, callers pass and get arrays of that shape.

        A stage that computes gets one loop for each new dimension, which are returned; a placeholder has none (None). Where
        no element lies (a C of 6 in fours) stands pad_value, or 0 where none is given: computed tensors are filled with it.
        Raises BadLayout where elements would share a place, or where the loops are scheduled already.
        """
        return transform_layout(self, mapping_function, pad_value)

    def set_store_predicate(self, predicate: Any) -> None:
        """Store results only where the condition, over its axes and thread axes, holds. Raises BadStorePredicate."""
        set_store_predicate(self, predicate)


_PLAIN = IterAttr()
