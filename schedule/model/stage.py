"""A stage: one operation of a schedule, its loops, and where it is computed.

This is TVM's model. The root axes are the operation's; relations derive further axes; the leaf axes, in order, are the
loops. What a primitive checks and does stands in its row (see primitive.py), which also makes it a method of the stage.

Operations never change, so that a stage which gets another one leaves all that read it, directly or through others, with
operations that read what is no longer computed. These stages are only marked, and an operation is written anew when somebody
asks for it: what a primitive costs is up to the stages that it speaks of, not to those that follow them.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

from ...base import dataclass, field, replace
from ...ir import Expr, For, IterVar, LoopKind, Var, substitute
from ...ir.dtype import INT32
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.tensor_compute import TensorComputeOp, intrinsic_call
from .attachment import ATTACHED_AT_ROOT, Attachment
from .attributes import AttachType, AxisKind, IterAttr
from .methods import StagePrimitives
from .overlap import Overlap
from .relations import Relation, Singleton

if TYPE_CHECKING:
    from .group import Group
    from .schedule import Schedule

__all__ = ["AttachType", "AxisKind", "IterAttr", "Stage"]


class Stage(StagePrimitives):
    """One operation of a schedule.

    origin_op: what it was declared as.
    all_iter_vars: root axes (op.axis, then op.reduce_axis), then derived ones in the order they were made.
    leaf_iter_vars: the loops, outermost first. relations: how axes derive, in the order they were made.
    iter_var_attrs: what is noted about an axis (absent: nothing). attach_type: "root", "at", "with", "inline" or
    "inlined". scope: "" is the default for its place. store_predicate: a condition under which results are stored. mirrored: the
    two axes that are exchanged in the element that is stored with each, one side of whose diagonal is computed. group: of
    s.create_group, the innermost that it belongs to. overlap: how its storage outlives an iteration of the loop that it is
    computed at; None where it does not. is_gone: whether a primitive took it out of the schedule.
    readers: the stages that read a result of it. placed: the stages and groups that were told to be computed at a loop of it.
    """

    _STATE = (
        "_attachment",
        "all_iter_vars",
        "group",
        "is_gone",
        "is_output",
        "iter_var_attrs",
        "leaf_iter_vars",
        "mirrored",
        "_op",
        "_is_stale",
        "origin_op",
        "overlap",
        "relations",
        "scope",
        "store_predicate",
    )
    __slots__ = (*_STATE, "placed", "readers", "schedule")

    def __init__(self, op: Operation, schedule: Schedule, is_output: bool = False) -> None:
        self._op = self.origin_op = op
        self._is_stale = False
        self.schedule = schedule
        self.is_output = is_output
        self.is_gone = False
        loops = first_loops(op)
        self.all_iter_vars: list[IterVar] = loops.axes
        self.leaf_iter_vars: list[IterVar] = list(loops.axes)
        self.relations: list[Relation] = loops.relations
        self.iter_var_attrs: dict[IterVar, IterAttr] = loops.attrs
        self._attachment = ATTACHED_AT_ROOT
        self.group: Group | None = None
        self.overlap: Overlap | None = None
        self.scope = ""
        self.store_predicate: Expr | None = None
        self.mirrored: tuple[IterVar, IterVar] | None = None
        self.readers: dict[Stage, None] = {}
        self.placed: dict[Stage | Group, None] = {}

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self._op.name

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes of its operation: data, then reduce."""
        return (*self._op.axis, *self._op.reduce_axis)  # of which none waits to be made anew

    @property
    def placement(self) -> Attachment:
        """Return where it is computed: what it was told itself or, where that is the root of its group, what the group was."""
        return self._attachment if self._attachment.type != "root" or self.group is None else self.group.placement

    @property
    def own_placement(self) -> Attachment:
        """Return where it was told to be computed, whatever its group was."""
        return self._attachment

    @property
    def attach_type(self) -> AttachType:
        """ "root", "at", "with" (in loops that are another stage's too), "inline" or "inlined"."""
        return self.placement.type

    @property
    def attach_stage(self) -> Stage | None:
        """The stage at whose loop it is computed, or in whose loops."""
        return self.placement.stage

    @property
    def attach_axis(self) -> IterVar | None:
        """The loop of attach_stage that it is computed at, or the innermost that it shares. Where the axis that was given has
        been split since, that is the inner one; where it was fused, the fused one."""
        return self.placement.loop

    # Its operation

    @property
    def op(self) -> Operation:
        """Return what it computes now (cache_read, cache_write and rfactor rewrite it), reading what others compute now."""
        if self._is_stale:
            self._read_anew()
        return self._op

    @property
    def written_op(self) -> Operation:
        """Its operation as it was last written: in place of what others compute now it may read what they did before. For
        what does not depend on that, it is cheaper to ask."""
        return self._op

    @property
    def producers(self) -> list[Stage]:
        """The stages that it reads, one for each tensor."""
        return [self.schedule.stage_map[tensor.op] for tensor in self._op.input_tensors]

    def reads(self, other: Stage) -> bool:
        """Return whether it reads a result of `other`, directly or through other stages."""
        place_of = self.schedule.find_place
        first = place_of(other)
        seen: set[Stage] = set()
        stack: list[Stage] = [self]
        while stack:
            for producer in stack.pop().producers:
                if producer is other:
                    return True
                if producer not in seen and place_of(producer) > first:
                    seen.add(producer)
                    stack.append(producer)
        return False

    def change(self, op: Operation) -> None:
        """Give it another operation, whose axes take the places of the old one's. For Schedule.rewrite alone."""
        before = self.op
        self._take(op)
        pairs = zip((*before.axis, *before.reduce_axis), (*op.axis, *op.reduce_axis), strict=True)
        self.rename_axes({old: new for old, new in pairs if old is not new})

    def begin_anew(self, op: Operation) -> None:
        """Give it an operation of other axes: its loops start anew; what is noted about axes that stay is kept. For
        Schedule.rewrite alone."""
        self._take(op)
        self.all_iter_vars = [*op.axis, *op.reduce_axis]
        self.leaf_iter_vars = list(self.all_iter_vars)
        self.relations = []
        kept = {*op.axis}
        self.iter_var_attrs = {axis: attr for axis, attr in self.iter_var_attrs.items() if axis in kept}

    def _take(self, op: Operation) -> None:
        self.schedule.keep(self)
        self.schedule.stage_map[op] = self
        self.unlink()
        self._op, self._is_stale = op, False
        self.link()

    def mark_readers(self) -> None:
        """Note that it has another operation: all that read its results, directly or through others, read what is no longer
        computed. Those whose axes depend on what they read are written at once, since users hold axes."""
        remade: list[Stage] = []
        waiting = list(self.readers)
        while waiting:
            reader = waiting.pop()
            if reader._is_stale:  # and so are its own readers
                continue
            self.schedule.keep(reader)
            reader._is_stale = True
            waiting.extend(reader.readers)
            domains = [axis.dom for axis in reader._op.reduce_axis if axis.dom is not None]
            if any(collect_loads(dom.begin, dom.extent) for dom in domains):
                remade.append(reader)
        for reader in remade:
            if reader._is_stale:
                reader._read_anew()

    def _read_anew(self) -> None:
        """Write its operation, and those that it depends on, so that they read what is computed now."""
        waiting: list[Stage] = [self]
        while waiting:
            stage = waiting[-1]
            stale = [producer for producer in stage.producers if producer._is_stale]
            waiting.extend(stale)
            if stale:
                continue
            waiting.pop()
            if stage._is_stale:
                self.schedule.keep(stage)
                stage._is_stale = False
                reads = zip(stage._op.input_tensors, stage.producers, strict=True)
                now = {tensor: producer._op.outputs[tensor.value_index] for tensor, producer in reads}
                replaced = {old: new for old, new in now.items() if old is not new}
                if replaced:
                    stage.change(stage._op.replace_inputs(replaced))

    def link(self) -> None:
        """Be known to the stages that it reads, and to the one that it is placed at."""
        for producer in self.producers:
            producer.readers[self] = None
        if self._attachment.stage is not None:
            self._attachment.stage.placed[self] = None

    def unlink(self) -> None:
        """Be known to these no longer."""
        for producer in self.producers:
            producer.readers.pop(self, None)
        if self._attachment.stage is not None:
            self._attachment.stage.placed.pop(self, None)

    # Its axes and its place

    def rename_axes(self, renamed: dict[IterVar, IterVar]) -> None:
        """Root axes made anew, since their domain reads something that was replaced, take the old ones' places."""
        if not renamed:
            return
        self.schedule.keep(self)
        self.all_iter_vars = [renamed.get(axis, axis) for axis in self.all_iter_vars]
        self.leaf_iter_vars = [renamed.get(axis, axis) for axis in self.leaf_iter_vars]
        self.relations = [relation.rename(renamed) for relation in self.relations]
        self.iter_var_attrs = {renamed.get(axis, axis): attr for axis, attr in self.iter_var_attrs.items()}
        if self.store_predicate is not None:
            values: dict[Var, Expr] = {**renamed}
            self.store_predicate = substitute(self.store_predicate, values)
        if self.mirrored is not None:
            i, j = self.mirrored
            self.mirrored = renamed.get(i, i), renamed.get(j, j)
        for other in list(self.placed):
            placed = other.own_placement
            if placed.axis is not None and placed.axis in renamed:
                other.attach(placed.type, self, renamed[placed.axis])
        for old in renamed:
            self.schedule.retired.append(
                (
                    old,
                    f"{old.name} was made anew when what its extent depends on was replaced: s[{self.name}].op has the new one",
                )
            )

    def attr(self, axis: IterVar) -> IterAttr:
        """Return what is noted about `axis`; a plain serial loop where nothing is."""
        return self.iter_var_attrs.get(axis, _PLAIN)

    def derive(self, relation: Relation, place: int, count: int, axes: tuple[IterVar, ...]) -> None:
        """Put the axes that `relation` makes where `count` loops stood from `place` on. For the primitives alone."""
        self.schedule.keep(self)
        self.relations.append(relation)
        self.all_iter_vars.extend(axes)
        self.leaf_iter_vars[place : place + count] = axes

    def annotate(self, axis: IterVar, **changes: Any) -> None:
        """Note something about `axis`: changes of its IterAttr. For the primitives alone."""
        self.schedule.keep(self)
        self.iter_var_attrs[axis] = replace(self.attr(axis), **changes)

    def attach(self, kind: AttachType, stage: Stage | None = None, axis: IterVar | None = None) -> None:
        """Attach it to a loop. For the primitives alone."""
        self.schedule.keep(self)
        if self._attachment.stage is not None:
            self._attachment.stage.placed.pop(self, None)
        self._attachment = Attachment(kind, stage, axis)
        if stage is not None:
            stage.placed[self] = None

    # Its state

    def copied(self, schedule: Schedule) -> Stage:
        """The same stage for a copy of its schedule, without its links; attach_stage still is the original's."""
        twin = type(self).__new__(type(self))
        twin.restore(self.save_state())
        twin.schedule, twin.readers, twin.placed = schedule, {}, {}
        return twin

    def save_state(self) -> tuple[Any, ...]:
        """Its state, for `restore`: lists and dicts are copied."""
        values: list[Any] = [getattr(self, name) for name in self._STATE]
        return tuple(copy(cast(Any, value)) if isinstance(value, (list, dict)) else value for value in values)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Back to the state that `save_state` gave; links are made by `link`."""
        for name, value in zip(self._STATE, state, strict=True):
            setattr(self, name, value)

    @property
    def is_tensorized(self) -> bool:
        """Return whether an intrinsic computes the stage, or a loop of it."""
        return any(attr.kind == "tensorized" for attr in self.iter_var_attrs.values())

    def is_scheduled(self) -> bool:
        """Return whether any loop was changed or the stage was placed."""
        return (
            bool(self.relations)
            or self.attach_type != "root"
            or not all(a is b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars, strict=True))
        )

    def is_untouched(self) -> bool:
        """Return whether no primitive has scheduled it, and nothing is computed at its loops."""
        return not self.is_scheduled() and not self.schedule.find_placed(self)

    def __repr__(self) -> str:
        return f"stage({self.op.name}, {self.op})"


_PLAIN = IterAttr()


# The loops that a stage begins with, before any primitive: what its operation declares.


@dataclass(slots=True, eq=False)
class FirstLoops:
    """Loops that a stage begins with.

    axes: the loops, outermost first. relations: of those that are no axes of the operation. attrs: what is noted about them.
    """

    axes: list[IterVar]
    relations: list[Relation] = field(default_factory=list[Relation])
    attrs: dict[IterVar, IterAttr] = field(default_factory=dict[IterVar, IterAttr])


def first_loops(op: Operation) -> FirstLoops:
    """A serial loop for each data axis, then for each reduce axis; of a call of a tensor intrinsic and of a script what they
    say."""
    call = intrinsic_call(op)
    if call is not None:
        return _split_at_intrinsic(call)
    declared = (
        (axis, _read_declared(loop)) for axis, loop in op.declared_loops.loops.items() if isinstance(axis, IterVar)
    )
    return FirstLoops([*op.axis, *op.reduce_axis], attrs={axis: attr for axis, attr in declared if attr is not None})


def _split_at_intrinsic(op: TensorComputeOp) -> FirstLoops:
    """The axes around the intrinsic, outermost, then those that it takes in, under a tensorized loop."""
    inner = (*op.tensor_axis, *op.inner_reduce)
    loops = FirstLoops([*(axis for axis in (*op.axis, *op.reduce_axis) if axis not in inner), *inner])
    if not inner:  # one element a call
        call = Singleton(IterVar("call", INT32, kind="opaque"))
        loops.relations.append(call)
        loops.axes.append(call.iter)
    loops.attrs[inner[0] if inner else loops.axes[-1]] = IterAttr(kind="tensorized", intrinsic=op.intrinsic)
    return loops


def _read_declared(loop: For) -> IterAttr | None:
    """A loop of a script as it is written: parallel, vectorized, unrolled, on a thread; None for a serial one."""
    if loop.kind is LoopKind.THREAD:
        return IterAttr(kind="thread", bind_thread=thread_axis(loop.thread))
    kinds: dict[LoopKind, AxisKind] = {
        LoopKind.PARALLEL: "parallel",
        LoopKind.VECTORIZED: "vectorized",
        LoopKind.UNROLLED: "unrolled",
    }
    return IterAttr(kind=kinds[loop.kind]) if loop.kind in kinds else None
