"""Exactness of a schedule: the first primitive that reorders additions, if any does.

The terms of an element of a reduction are taken up one after the other. They are so in the declared order, that of the reduce
axes as te.compute lists them, as long as no primitive changes the order of the loops over reduce axes among each other; loops
over data may stand anywhere among them. Where the combiner is proved to be free of order (ir/analysis/combiners), nothing needs to
be kept: sums of integers wrap, which is associative, and minimum and maximum are the same in any order, since -0 is less than +0
to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base import SourceLine, dataclass
from ...ir import BufferStore, IterVar, Stmt, post_order
from ...ir.atomics import is_atomic
from ...ir.ops import is_const
from .checks import declared_ranges
from .records import Record
from .replay import Replay
from .schedule import create_schedule
from .stage import Stage
from .term_order import laws_of_reduction

if TYPE_CHECKING:
    from .schedule import Compound, Schedule

__all__ = ["Exactness", "exactness", "stays_exact"]


@dataclass(frozen=True, slots=True)
class Exactness:
    """True where a schedule changes no bit of any result, else false, with the reason and the record since which.

    Any NaN equals any NaN; the sign of a zero counts.
    """

    reason: str = ""
    record: Record | None = None
    code: str = ""
    """The record as a line of Python."""

    def __bool__(self) -> bool:
        return not self.reason

    @property
    def source(self) -> SourceLine | None:
        """The user's line that made the record; None where that is not known, or the schedule is exact."""
        return None if self.record is None else self.record.source

    def __str__(self) -> str:
        if self:
            return "exact: the results have the bits of the program without a schedule"
        return f"not exact{' since ' if self.code else ''}{self.code}: {self.reason}"

    __repr__ = __str__


def exactness(schedule: Schedule) -> Exactness:
    """See Schedule.is_exact."""
    # atomic additions come in whatever order threads run
    shared = next((stage.name for stage in schedule.stages if _adds_in_any_order(stage)), "")
    if shared:
        return Exactness(f"the threads of {shared} add to the same floats in the order in which they come")
    if not schedule.losses and not any(map(_disorder, schedule.stages)):  # the usual case, without replaying anything
        return Exactness()
    # replayed from the start, to find the primitive since which it is so
    replay = Replay(create_schedule(list(schedule.outputs)))
    since: Exactness | None = None
    for record in schedule.records:
        replay.apply(record)
        lost = "".join(replay.schedule.losses[:1])
        disorders = (_disorder(stage) for stage in replay.schedule.stages)
        reason = lost or next((each for each in disorders if each), "")
        if not reason:  # a later primitive may have put the order right again
            since = None
        elif since is None:
            since = Exactness(reason, record, replay.schedule.as_python().splitlines()[-1])
        if lost:  # whatever follows, no loop brings this order back
            break
    return Exactness() if since is None else since


def _adds_in_any_order(stage: Stage) -> bool:
    """Return whether a hybrid script adds to floats that several threads may share."""
    body = getattr(stage.op, "body", None)
    return isinstance(body, Stmt) and any(
        isinstance(node, BufferStore) and is_atomic(node) and node.buffer.dtype.is_float for node in post_order(body)
    )


def stays_exact(compound: Compound) -> bool:
    """Return whether what was done to a schedule since then, which was exact, keeps it so: a look at that alone."""
    schedule = compound.schedule
    # only what the compound touched
    stages = {*compound.new_stages, *(member for member in compound.kept if isinstance(member, Stage))}
    return len(schedule.losses) == compound.known_losses and not any(map(_disorder, stages))


def _disorder(stage: Stage) -> str:
    """Return what is wrong with the order in which a stage takes up its terms, in words; empty for nothing."""
    reduction = stage.written_op.reduction
    laws = None if reduction is None else laws_of_reduction(reduction)
    # such a combiner takes terms in any grouping
    if reduction is None or laws is None or laws.splits_exactly(bool(reduction.init)):
        return ""
    loops = _loops_in_order(stage)
    if loops is None and not laws.is_free:
        return f"loops over the reduce axes of {stage.name} run through each other"
    ranges = declared_ranges(stage)
    reduced = [axis for axis in stage.leaf_iter_vars if axis.kind == "reduce"] if loops is None else loops
    # a loop of one iteration is in any order
    several = [axis for axis in reduced if not is_const(ranges[axis].extent, 1)]
    across = next((axis for axis in several if stage.attr(axis).bind_thread is not None), None)
    if across is not None:
        return f"the threads of '{across.name}' add up parts of {stage.name}"
    if laws.is_free:
        return ""
    now = [axis for axis in stage.leaf_iter_vars if any(axis is each for each in several)]
    if all(a is b for a, b in zip(several, now, strict=True)):  # by identity, place for place
        return ""
    return (
        f"the loops over the reduce axes of {stage.name} run as {_names(now)}, and the terms were declared in the order of "
        f"{_names(several)}"
    )


def _loops_in_order(stage: Stage) -> list[IterVar] | None:
    """The loops that the reduce axes became, in an order that takes up terms as declared; None where there is none."""
    order: list[IterVar] = list(stage.written_op.reduce_axis)
    for relation in stage.relations:
        if relation.uses and any(axis in order for axis in (*relation.uses, *relation.parents)):
            return None  # where one loop begins, or which element it is at, depends on another
        places = [order.index(axis) for axis in relation.parents if axis in order]
        if not places:
            continue  # not a relation of reduce axes
        # parents that do not stand side by side are mixed with others
        if places != list(range(places[0], places[0] + len(places))):
            return None
        order[places[0] : places[-1] + 1] = relation.children
    return order


def _names(axes: Sequence[IterVar]) -> str:
    return ", ".join(axis.name for axis in axes)
