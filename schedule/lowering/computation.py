"""Computations of a schedule: facts about each computed stage, the dataflow between them, and their bounds.

Found by dataflow.analyse, anew each time that a schedule is lowered; bounds, nests and storage are built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...base import dataclass, field, replace
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, IterVar, Range, Reduce, Var
from ...ir.ops import cast, conjunction, const, floormod, if_then_else
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..model.attributes import IterAttr
from ..model.relations import add_offset
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = [
    "Bounds",
    "Computation",
    "Dataflow",
    "Loop",
    "StageBounds",
    "default_scope",
    "thread_rank",
]


@dataclass(slots=True, eq=False)
class Computation:
    """A stage that has loops of its own.

    values: of each output at op.axis, or the one reduction (none where the operation is no expression element by
    element); domains: of the reduce axes; inlined definitions are substituted in both. parent, place: the computation at
    whose loop it is computed, and the index of that loop among the parent's leaves; None and -1 at root.
    """

    stage: Stage
    op: Operation
    values: tuple[Expr, ...]
    domains: dict[IterVar, Range]
    is_output: bool
    whole: bool
    """Whether all of it is computed, whatever is read of it."""
    parent: Computation | None = None
    place: int = -1
    leader: Computation | None = None
    """The computation in whose loops it is computed, where it was told to be computed with another."""
    shared: int = 0
    """How many of its loops, the outermost, are the leader's too; of a leader how many are those of any other."""
    followers: list[Computation] = field(default_factory=list["Computation"])
    """Those that it is the leader of, in the order in which they stand in its loops."""
    reads: dict[Tensor, list[tuple[Expr, ...]]] = field(default_factory=dict[Tensor, list[tuple[Expr, ...]]])
    """The indices at which it reads each tensor."""
    early_reads: dict[Tensor, None] = field(default_factory=dict[Tensor, None])
    """The tensors read before its reduction begins: by `init=` and by the domains of reduce axes."""
    linked: tuple[tuple[IterVar, ...], ...] = ()
    """Of a scan: the dimensions of which less than all may be computed, those that go together."""
    held: dict[IterVar, Computation] = field(default_factory=dict[IterVar, "Computation"])
    """Of what is computed in a step of a scan: the dimensions that are its time, and the scan."""
    parts: dict[IterVar, tuple[Computation, IterVar]] = field(
        default_factory=dict[IterVar, tuple["Computation", IterVar]]
    )
    """Of what is computed in a step of a scan: the dimensions of which no more is needed than of one of the scan's, and which."""
    home: Computation | None = None
    """The scan in whose memory its results lie."""
    free: dict[IterVar, Range] = field(default_factory=dict[IterVar, Range])
    """Dimensions of outputs, and axes in `reads`, of which there is no loop: they always take all of their values."""

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def reduction(self) -> Reduce | None:
        """The reduction that the body is, if it is one."""
        first = self.values[0] if self.values else None
        return first if isinstance(first, Reduce) else None

    @property
    def in_step(self) -> bool:
        """Return whether it stands in a step of a scan, or before the first, without being computed at a loop of it."""
        return self.parent is not None and not 0 <= self.place < len(self.parent.stage.leaf_iter_vars)

    def attr(self, place: int) -> IterAttr:
        """Return the annotation of the loop at a place among the leaves. A shared one runs as the leader's; what the follower itself
        asks for in its iterations, such as prefetching, stays."""
        own = self.stage.attr(self.stage.leaf_iter_vars[place])
        if self.leader is None or place >= self.shared:
            return own
        # shared loops are built once, by the leader
        return replace(self.leader.stage.attr(self.leader.stage.leaf_iter_vars[place]), notes=own.notes)

    def path(self) -> list[Computation]:
        """The computations that it lies in, itself first, outwards."""
        path: list[Computation] = []
        current: Computation | None = self
        while current is not None:
            path.append(current)
            current = current.parent
        return path


@dataclass(slots=True, eq=False)
class Dataflow:
    """Computations of a schedule with their producers and consumers.

    computations: producers first. consumers: what reads the outputs of an operation. placeholders: the tensors that
    come from outside, in the order of first use.
    """

    schedule: Schedule
    computations: list[Computation]
    by_op: dict[Operation, Computation]
    consumers: dict[Operation, list[Computation]]
    placeholders: dict[Tensor, None]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """One leaf axis as a loop from 0. value: of the axis, which is `var`, or 0 where the loop has vanished (var None)."""

    axis: IterVar
    stage: Stage
    extent: Expr
    attr: IterAttr
    var: Var | None
    value: Expr

    @property
    def thread(self) -> str:
        """The tag of the thread axis that it is bound to; empty for none."""
        return self.attr.bind_thread.thread_tag if self.attr.bind_thread is not None else ""


def _no_conditions(_: dict[IterVar, Expr]) -> list[Expr]:
    return []


@dataclass(slots=True, eq=False)
class StageBounds:
    """Bounds of one computation.

    ranges: of every axis, in terms of loop variables around and of its own. offsets: every axis counted from the begin of
    its range, in terms of the own loop variables. loops: the leaves in order; enclosing: the loops around, outermost
    first. scope: of the storage. storage: its extent in each dimension, which bounds that of the region for the life of it.
    marks: 1 on what derives from data axes, 2 on what derives from reduce axes, 3 on both.
    """

    computation: Computation
    ranges: dict[IterVar, Range]
    offsets: dict[IterVar, Expr]
    loops: tuple[Loop, ...]
    enclosing: tuple[Loop, ...]
    scope: str
    storage: dict[IterVar, Expr]
    marks: dict[IterVar, int]
    domains: dict[IterVar, Range] = field(default_factory=dict[IterVar, Range])
    """The declared domain of each root axis, in terms of loop variables."""
    parts: dict[IterVar, Range] = field(default_factory=dict[IterVar, Range])
    """What is needed of a dimension at most, where that may be less than what its loops run over: the states of a recurrence hold
    no more."""
    circular: dict[IterVar, IterVar] = field(default_factory=dict[IterVar, IterVar])
    """The dimensions whose region goes around: what their loops run over are positions on a line, whose remainders by the extent
    are the axis; and what stands for the position."""
    positions: dict[tuple[IterVar, Expr], Expr] = field(default_factory=dict[tuple[IterVar, Expr], Expr])
    """Where it reads a circular dimension of another one at an index: the position that this is of."""
    fresh: Callable[[dict[IterVar, Expr]], list[Expr]] = _no_conditions
    """The conditions, given offsets, that hold of the elements that no iteration before has computed."""

    def storage_shape(self, tensor: Tensor) -> tuple[Expr, ...]:
        """The shape of the storage of one of the outputs."""
        return tuple(self.storage[axis] for axis in self.computation.op.dimensions[tensor.value_index])

    @property
    def values(self) -> dict[IterVar, Expr]:
        """The value of every axis, in terms of loop variables."""
        return {axis: self.value(axis, offset) for axis, offset in self.offsets.items()}

    def value(self, axis: IterVar, offset: Expr) -> Expr:
        """The value of an axis that is so far from the begin of its range."""
        position = add_offset(offset, self.ranges[axis], axis)
        if axis not in self.circular:
            return position
        extent = cast(self.domains[axis].extent, axis.dtype)
        # inside of the dimension no division is needed
        return if_then_else(conjunction(position >= 0, position < extent), position, floormod(position, extent))

    @property
    def from_zero(self) -> dict[IterVar, Range]:
        """The ranges of all axes, moved to begin at 0."""
        return {axis: Range(const(0, within.begin.dtype), within.extent) for axis, within in self.ranges.items()}

    @property
    def first_reduce_loop(self) -> int:
        """The index of the first loop related to a reduce axis; the number of loops where there is none."""
        return next((at for at, loop in enumerate(self.loops) if self.marks.get(loop.axis, 0) & 2), len(self.loops))


@dataclass(slots=True, eq=False)
class Bounds:
    """The bounds of every computation. analyzer: knows the range of every loop variable."""

    dataflow: Dataflow
    analyzer: Analyzer
    of: dict[Computation, StageBounds]


def thread_rank(tag: str) -> int:
    """Return the width of a thread axis: 0 for blocks, 1 for threads within a block (and virtual ones)."""
    return 0 if tag.startswith("blockIdx") else 1


def default_scope(enclosing: Iterable[Loop]) -> str:
    """Return the scope by the threads around: without them global, under blocks shared, under threads local."""
    rank = max((thread_rank(loop.thread) for loop in enclosing if loop.thread), default=-1)
    return ("global", "shared", "local")[rank + 1]
