"""Explanation of one stage: the parts computed, their loops, counts and memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..autoschedule.plan import time_text
from ..base import dataclass, field
from ..ir import BufferStore, Expr, IterVar, ProducerLoad, Range, Var, free_vars
from ..ir.analysis.count import ONE, ZERO, Count
from ..ir.analysis.lane_strides import find_scattered_lanes
from ..ir.analysis.work import Work, elementary, measure_work
from ..schedule import Schedule, Stage
from ..schedule.lowering.computation import Loop, StageBounds, thread_rank
from ..schedule.lowering.lower import Lowered, lower_parts
from ..schedule.lowering.text import all_arguments
from ..te import Operation, Tensor

__all__ = ["Explanation", "Level", "Region", "explain"]

BLOW_UP = 1.5
"""How often each element may be computed on average before it is worth a warning."""
_RANKS = {"global": 0, "shared": 1}


@dataclass(frozen=True, slots=True)
class Region:
    """Region of one dimension: `extent` elements from `begin` on, of `whole`. begin and extent are in terms of the loops around."""

    axis: IterVar
    begin: Expr
    extent: Expr
    whole: Expr

    def __str__(self) -> str:
        if self.extent is self.whole or str(self.extent) == str(self.whole):
            return f"{self.axis.name}: all {self.whole}"
        return f"{self.axis.name}: {self.extent} of {self.whole}, from {self.begin}"


@dataclass(frozen=True, slots=True)
class Level:
    """A loop around or of the stage, and the distinct bytes that one run of it touches: in all, and of the stage's result."""

    loop: str
    stage: str
    trips: Count
    touched: Count
    own: Count


@dataclass(slots=True)
class Explanation:
    """Explanation of a stage.

    place: where the stage is computed, in words. regions: what is computed each time. runs: how many times. elements:
    that are computed in the whole program; domain: that its tensor has. loads, stores, operations: of elements, in the whole program,
    as the loops are written: registers save some. storage: bytes of one allocation (None where it
    has none: inlined, or the caller's). scope: of the storage. levels: outermost first. time: of a stage at root, as the plan
    estimates it, and what binds it.
    """

    name: str
    place: str
    regions: list[Region] = field(default_factory=list[Region])
    runs: Count = ONE
    elements: Count = ZERO
    domain: Count = ZERO
    loads: Count = ZERO
    stores: Count = ZERO
    operations: Count = ZERO
    storage: Count | None = None
    scope: str = ""
    levels: list[Level] = field(default_factory=list[Level])
    warnings: list[str] = field(default_factory=list[str])
    time: str = ""

    @property
    def recompute(self) -> float | None:
        """The number of times each element is computed on average; None where that depends on symbols."""
        elements, domain = self.elements.value, self.domain.value
        if elements is not None and domain is not None:
            return elements / domain if domain else 1.0
        return 1.0 if self.elements.cap() == self.domain.cap() else None

    def __str__(self) -> str:
        lines = [f"stage {self.name}: {self.place}"]
        if self.regions:
            times = "once" if self.runs == ONE else f"each of {self.runs} times"
            lines.append(f"  region, computed {times}:")
            lines += [f"    {region}" for region in self.regions]
        factor = f"{self.recompute:.3g}" if self.recompute is not None else f"({self.elements}) / ({self.domain})"
        if self.domain.value != 0:
            lines.append(
                f"  recompute factor: {factor} ({self.elements} elements computed, {self.domain} in {self.name})"
            )
        if self.stores != ZERO:
            lines.append(f"  work: {self.operations} operations, {self.loads} loads, {self.stores} stores")
        if self.time:
            lines.append(f"  time, as estimated: {self.time}")
        if self.storage is not None:
            lines.append(f"  storage: {self.storage} bytes, {self.scope}")
        if self.levels:
            lines.append(f"  bytes touched by one run of each loop (of which {self.name}):")
            width = max(len(level.loop) for level in self.levels)
            lines += [f"    {level.loop:<{width}}  {level.touched} ({level.own})" for level in self.levels]
        return "\n".join(lines + [f"  warning: {warning}" for warning in self.warnings])

    __repr__ = __str__


def explain(
    schedule: Schedule,
    given: Stage | Tensor | Operation,
    lowered: Lowered | None = None,
    work: Work | None = None,
) -> Explanation:
    """Explain a stage. lowered, work: of the schedule with all that it reads and computes as arguments, where
    that is known already. Raises LoweringError where the schedule does not hold together, UnknownStage (TW0201)."""
    stage = given if isinstance(given, Stage) else schedule[given]
    if stage.op.is_given:
        passed = stage.op.is_passed
        return Explanation(stage.name, "passed by the caller" if passed else "known when the kernel is built")
    time = "" if lowered is not None else _estimated_time(schedule, stage)
    lowered = lowered or lower_parts(schedule, all_arguments(schedule))
    fixed = set(schedule.symbols)
    if stage.attach_type in ("inline", "inlined"):
        return _explain_inlined(schedule, stage, lowered, fixed)
    own = next((bounds for computation, bounds in lowered.bounds.of.items() if computation.stage is stage), None)
    if own is None:
        return Explanation(stage.name, "not computed: no output needs it")
    explanation = _explain_computed(stage, own, lowered, work or measure_work(lowered.function), fixed)
    explanation.time = time
    return explanation


def _estimated_time(schedule: Schedule, stage: Stage) -> str:
    """The time that the plan tells of a stage, with what is computed in its loops; empty where it tells none."""
    row = next((row for row in schedule.plan if row.output is stage.op and row.seconds is not None), None)
    return "" if row is None else f"{time_text(row.seconds)}, bound by {row.binds}"


def _explain_computed(stage: Stage, bounds: StageBounds, lowered: Lowered, work: Work, fixed: set[Var]) -> Explanation:
    analyzer = lowered.bounds.analyzer
    tensor = stage.op.outputs[0]
    buffer = next((candidate for candidate, held in lowered.tensors.items() if held is tensor), None)
    is_argument = buffer is not None and any(parameter is buffer for parameter in lowered.function.buffers)
    explanation = Explanation(stage.name, _place(stage))
    explanation.regions = [
        Region(axis, bounds.ranges[axis].begin, bounds.ranges[axis].extent, _domain(axis).extent)
        for axis in stage.op.dimensions[0]
    ]
    around = [loop for loop in bounds.enclosing if loop.var is not None and not _is_shared(loop, bounds.scope)]
    for loop in around:
        explanation.runs = explanation.runs * Count.extent(loop.extent, analyzer, fixed)
    explanation.elements, explanation.domain = explanation.runs, ONE
    for region in explanation.regions:
        explanation.elements = explanation.elements * Count.extent(region.extent, analyzer, fixed)
        explanation.domain = explanation.domain * Count.extent(region.whole, analyzer, fixed)
    if buffer is not None and not is_argument:
        explanation.storage, explanation.scope = Count.of(max(1, buffer.dtype.bytes)), buffer.scope
        for extent in buffer.shape:
            explanation.storage = explanation.storage * Count.extent(extent, analyzer, fixed)
    loops = {loop.var: loop for loop in (*bounds.enclosing, *bounds.loops) if loop.var is not None}
    for level in work.all_loops():
        loop = None if level.loop is None else loops.get(level.loop.var)
        if loop is not None:
            own = level.touched.get(buffer, ZERO) if buffer is not None else ZERO
            assert level.loop is not None
            text = f"{'  ' * list(loops).index(level.loop.var)}for {loop.axis.name} in {loop.extent}"
            explanation.levels.append(Level(text, loop.stage.name, level.trips, level.bytes, own))
    for statement in work.all_statements():
        if isinstance(statement.node, BufferStore) and statement.node.buffer is buffer and statement.around:
            times = statement.around[-1].iterations
            explanation.stores = explanation.stores + times
            explanation.loads = explanation.loads + times.times(sum(not each.stored for each in statement.accesses))
            explanation.operations = explanation.operations + times.times(elementary(statement.operations))
    scattered = [each for each in find_scattered_lanes(lowered.function.body) if each.buffer is buffer]
    explanation.warnings = [*_warnings(explanation, stage, around), *(f"{each}, one by one" for each in scattered)]
    return explanation


def _place(stage: Stage) -> str:
    parent, axis = stage.attach_stage, stage.attach_axis
    if parent is not None and axis is not None:
        return f"computed {stage.attach_type} '{axis.name}' of {parent.name}"
    return "computed at root" + (", an output" if stage.is_output else "")


def _domain(axis: IterVar) -> Range:
    assert axis.dom is not None, "a data axis has a domain"
    return axis.dom


def _is_shared(loop: Loop, scope: str) -> bool:
    """Return whether the threads of a loop around work on one region together."""
    return bool(loop.thread) and _RANKS.get(scope, 3) <= thread_rank(loop.thread)


def _warnings(explanation: Explanation, stage: Stage, around: Sequence[Loop]) -> list[str]:
    # a halo of a few elements around a tile is what people ask for by compute_at
    if not around or explanation.recompute is None or explanation.recompute < BLOW_UP:
        return []
    used = {var for region in explanation.regions for end in (region.begin, region.extent) for var in free_vars(end)}
    repeated = [loop for loop in around if loop.var not in used]
    text = f"every element of {stage.name} is computed {explanation.recompute:.3g} times"
    if not repeated:
        return [
            f"{text}: the regions of different iterations overlap; compute it at a loop further out, or make the tiles larger"
        ]
    names = " and ".join(f"'{loop.axis.name}'" for loop in repeated)
    verb = "does" if len(repeated) == 1 else "do"
    return [
        f"{text}: {names} {verb} not change its region, so each iteration computes it anew; {_fix(stage, around, repeated)}"
    ]


def _fix(stage: Stage, around: Sequence[Loop], repeated: Sequence[Loop]) -> str:
    """Outwards past the repeated loops, where these are the innermost."""
    rest = list(around)
    while rest and rest[-1] in repeated:
        rest.pop()
    if len(rest) == len(around):
        names = ", ".join(loop.axis.name for loop in repeated)
        return f"move {names} inside the loop that {stage.name} is computed at (reorder)"
    if not rest:
        return f"s[{stage.name}].compute_root() computes it once"
    return f"s[{stage.name}].compute_at(s[{rest[-1].stage.name}], {rest[-1].axis.name}) would not"


# Inlined stages


def _explain_inlined(schedule: Schedule, stage: Stage, lowered: Lowered, fixed: set[Var]) -> Explanation:
    """Evaluated wherever it is read."""
    explanation = Explanation(stage.name, "inlined into what reads it")
    evaluations: dict[Operation, Count] = {}
    # a stage is inlined where its readers are evaluated, whose numbers are needed first
    for current in reversed(schedule.stages):  # consumers first
        if current.op.is_given:
            continue
        if current.attach_type not in ("inline", "inlined"):
            evaluations[current.op] = _size(current.op.axis + current.op.reduce_axis, lowered, fixed)
            continue
        total = ZERO
        for reader in schedule.stages:
            reads = sum(load.producer in current.op.outputs for load in _loads(reader.op))
            total = total + evaluations.get(reader.op, ZERO).times(reads)
        evaluations[current.op] = total
    explanation.elements, explanation.domain = evaluations[stage.op], _size(stage.op.axis, lowered, fixed)
    if explanation.recompute is not None and explanation.recompute >= 2 * BLOW_UP:
        explanation.warnings = [
            f"every element of {stage.name} is computed {explanation.recompute:.3g} times, once for each read; "
            f"where that is much work, s[{stage.name}].compute_at(...) or compute_root() stores it instead"
        ]
    return explanation


def _size(axes: Sequence[IterVar], lowered: Lowered, fixed: set[Var]) -> Count:
    size = ONE
    for axis in axes:
        size = size * Count.extent(_domain(axis).extent, lowered.bounds.analyzer, fixed)
    return size


def _loads(op: Operation) -> list[ProducerLoad]:
    return list(op.loads)
