"""Computations of a schedule: facts about each computed stage, and the dataflow between them.

Found by dataflow.analyse, anew each time that a schedule is lowered; bounds, nests and storage are built from it.
"""

from __future__ import annotations

from dataclasses import field, replace

from ...base.dataclass import dataclass
from ...ir.expr import Expr, IterVar, Range, Reduce
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..model.attributes import IterAttr
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["Computation", "Dataflow"]


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
