"""Siblings: stages at root that read the same tensor and not each other, in the same loops, so that what is large is read once.

    for i in parallel:                       for i in parallel:
        total[i] = sum over k of A[i, k]         for k.outer:
    for i in parallel:                 →             partial sums of A[i, k]
        most[i] = max over k of A[i, k]              partial maxima of A[i, k]
                                                 total[i] = ...
                                                 most[i] = ...

Each has its schedule already, by the rule of its group. Where the outermost loops of two run equally often and in the same way, the
second is computed with the first: in those that threads share, in all of them that are alike, or in these and those of what both
compute there. No instruction changes, so that the nests of both, as they are lowered, tell what is gained: what an iteration of a
shared loop has read once is still in a cache, and threads are woken once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, prod

from ...base import LoweringError, dataclass, field, replace
from ...codegen.machine import Machine
from ...ir import IntImm, IterVar, Var, substitute
from ...ir.analysis.footprint import Access
from ...ir.analysis.work import measure_work
from ...ir.ops import integer_value
from ...schedule import Schedule, Stage
from ...schedule.lowering.computation import Bounds, Computation, Loop
from ...schedule.lowering.lower import lower_parts
from ...schedule.lowering.text import all_arguments
from ...schedule.model.checks import declared_ranges
from ...te.tensor import Tensor
from ..accesses import ASSUMED, tensor_bytes
from ..cost.bodies import SCRATCH
from ..cost.cpu import Lines, estimate
from ..cost.doubts import UNFORESEEN
from ..cost.estimate import pad_estimate
from ..loop_nest import Body, Nest
from ..lowered_nests import build_nest
from ..plan import Candidate, Chooser, Decision, decide

__all__ = ["share_loops"]

SHARED = ("serial", "parallel")
"""Kinds of loops that are shared: lanes, and what is written out, are a step of their own of each stage."""


def share_loops(s: Schedule, machine: Machine, chooser: Chooser) -> list[Decision]:
    """Let siblings share loops where that costs less, and tell what was decided."""
    pairs = list(_pairs(s, machine))
    if not pairs:
        return []
    try:
        lowered = lower_parts(s, all_arguments(s))
    except LoweringError:
        return []
    found = _find_roots(lowered.bounds, build_nest(measure_work(lowered.function), machine))
    decisions: list[Decision] = []
    for first, second in pairs:
        leader, other = found.get(first), found.get(second)
        if (
            leader is None
            or other is None
            or first.attach_type == "with"
            or other.followers
            or second.attach_type == "with"
        ):
            continue
        ways = _ways(leader, other, lowered.bounds, machine) if _is_independent(leader, other, found) else []
        if not ways:
            continue
        candidates = [candidate for candidate, _ in ways]
        title = f"siblings of {first.name}, {second.name}"
        decision = decide("siblings", second.op, candidates, chooser, machine, title=title, fused=(first.name,))
        candidates[decision.chosen].apply()
        decisions.append(decision)
        together = ways[decision.chosen][1]
        if together is not None:
            leader.nest = together
            leader.followers.append(other)
    return decisions


@dataclass(eq=False)
class _Root:
    """A stage at root. nest: of what is computed in its loops, followers too."""

    computation: Computation
    nest: Nest
    followers: list[_Root] = field(default_factory=list["_Root"])

    @property
    def stages(self) -> list[Stage]:
        """The root, what is computed at its loops, and those of its followers."""
        stages = [self.computation.stage]
        for stage in stages:
            stages += [each for each in stage.schedule.find_computed(stage) if each.attach_type == "at"]
        return stages + [stage for follower in self.followers for stage in follower.stages]


# Which stages


def _pairs(s: Schedule, machine: Machine) -> Iterator[tuple[Stage, Stage]]:
    """Stages at root that read the same large tensor and not each other, and whose outermost loops are alike."""
    readers: dict[Tensor, list[Stage]] = {}
    for stage in s.stages:
        if stage.attach_type == "root" and stage.op.values and not stage.op.calls_intrinsic and stage.leaf_iter_vars:
            for tensor in _external_reads(stage):
                if _bytes(tensor) >= machine.l2:
                    readers.setdefault(tensor, []).append(stage)
    met: set[tuple[Stage, Stage]] = set()
    for stages in readers.values():
        pairs = [(one, other) for at, other in enumerate(stages) for one in stages[:at]]
        for one, other in pairs:
            if (one, other) not in met and _begin_alike(one, other) and not one.reads(other) and not other.reads(one):
                met.add((one, other))
                yield one, other


def _external_reads(root: Stage) -> set[Tensor]:
    """The tensors that a stage reads, itself, through what is inlined, or through what is computed at its loops."""
    s = root.schedule
    inside, found = {root: None}, set[Tensor]()
    waiting = [root]
    while waiting:
        stage = waiting.pop()
        for tensor in stage.written_op.input_tensors:
            producer = s[tensor]
            if producer in inside:
                continue
            if producer.attach_type in ("inline", "at"):
                inside[producer] = None
                waiting.append(producer)
            else:
                found.add(producer.written_op.output(tensor.value_index))
    return found


def _bytes(tensor: Tensor) -> int:
    return tensor_bytes(tensor, ASSUMED)


def _begin_alike(one: Stage, other: Stage) -> bool:
    """Return whether the outermost loops of two stages at root run equally often and in the same way."""
    extents = [_extent(stage, axis) for stage in (one, other) for axis in stage.leaf_iter_vars[:1]]
    return (
        extents[0] is not None
        and extents[0] == extents[1]
        and one.attr(one.leaf_iter_vars[0]).has_kind(other.attr(other.leaf_iter_vars[0]))
    )


def _extent(stage: Stage, axis: IterVar) -> int | None:
    within = declared_ranges(stage).get(axis)
    return None if within is None else integer_value(within.extent)


def _find_roots(bounds: Bounds, work: Nest) -> dict[Stage, _Root]:
    """The stages at root by themselves, each with its nest."""
    nests = {part.axis: part for part in work.body if isinstance(part, Nest) and _runs(part)}
    roots: dict[Stage, _Root] = {}
    for computation, own in bounds.of.items():
        first = next((loop.var for loop in own.loops if loop.var is not None), None)
        if computation.parent is None and first is not None and first in nests:
            roots[computation.stage] = _Root(computation, nests[first])
    return roots


def _is_independent(one: _Root, other: _Root, roots: Mapping[Stage, _Root]) -> bool:
    """Return whether nothing of either is computed from the other, all followers considered: whoever shares loops is computed at once."""
    unit_of = {
        stage: leader
        for leader in roots.values()
        for stage in leader.stages
        if leader.followers or leader in (one, other)
    }
    for begin, end in ((one, other), (other, one)):
        ends, waiting = set(end.stages), begin.stages
        seen = set(waiting)
        while waiting:
            for producer in waiting.pop().producers:
                if producer in ends:
                    return False
                more = [producer] if producer not in unit_of else unit_of[producer].stages
                waiting += [stage for stage in more if stage not in seen]
                seen.update(more)
    return True


def _runs(nest: Nest) -> bool:
    """Return whether no loop of a nest is empty."""
    return nest.trips > 0 and all(_runs(part) for part in nest.body if isinstance(part, Nest))


# In which ways


@dataclass(frozen=True)
class _Match:
    """Stages of two nests whose outermost loops are alike. alike: these; shared: how many of them may be shared."""

    one: Computation
    other: Computation
    alike: tuple[tuple[Loop, Loop], ...]
    shared: int


def _match(one: Computation, other: Computation, bounds: Bounds) -> _Match:
    alike: list[tuple[Loop, Loop]] = []
    shared, may = 0, True
    for own, theirs in zip(bounds.of[one].loops, bounds.of[other].loops, strict=False):
        same = (
            isinstance(own.extent, IntImm)
            and isinstance(theirs.extent, IntImm)
            and own.extent.value == theirs.extent.value
        )
        if not same or (own.var is None) != (theirs.var is None) or not own.attr.has_kind(theirs.attr):
            break
        alike.append((own, theirs))
        may = may and own.attr.kind in SHARED
        shared += may
    return _Match(one, other, tuple(alike), shared)


def _match_attached(match: _Match, bounds: Bounds) -> list[_Match]:
    """Return whether the stages computed at the loops that both share are at the same ones, and read the same."""
    ones, others = (
        [each for each in bounds.of if each.parent is whole and each.leader is None and each.place < match.shared]
        for whole in (match.one, match.other)
    )
    found: list[_Match] = []
    for one, other in zip(ones, others, strict=False):
        inside = _match(one, other, bounds)
        if (
            one.place == other.place
            and inside.shared
            and not one.reads.keys().isdisjoint(other.reads)
            and not any(each.parent is match.other and each.op.outputs[0] in other.reads for each in others)
        ):
            found += [inside, *_match_attached(inside, bounds)]
    return found


def _ways(leader: _Root, other: _Root, bounds: Bounds, machine: Machine) -> list[tuple[Candidate, Nest | None]]:
    """Together in so many loops, most first, with the nest that this makes, or apart; nothing where no loop is alike."""
    match = _match(leader.computation, other.computation, bounds)
    if not match.shared:
        return []
    inside = _match_attached(match, bounds)
    names: dict[Var, Var] = {
        theirs.var: own.var
        for each in (match, *inside)
        for own, theirs in each.alike
        if own.var is not None and theirs.var is not None
    }
    renamed, lines = _Renamer(names).nest(other.nest), Lines()
    threads = sum(own.attr.kind == "parallel" for own, _ in match.alike[: match.shared])
    more = UNFORESEEN * (1 - _common_part(leader.nest, renamed))
    ways: list[tuple[Candidate, Nest | None]] = []
    for matches in dict.fromkeys([(match, *inside), (match,), (replace(match, shared=max(threads, 1)),)]):
        variables = [own.var for each in matches for own, _ in each.alike[: each.shared] if own.var is not None]
        merged = _merge_nests(leader.nest, renamed, variables)
        expected = _add_spills(merged, machine)
        if expected is None:
            continue
        time = estimate(Nest(None, 1, (expected,)), machine, lines)
        text = f"in the loops of {leader.computation.name} down to {match.alike[matches[0].shared - 1][0].axis.name}"
        text += "".join(f", and of {each.one.name}" for each in matches[1:])
        ways.append((Candidate(text, partial(_apply, matches), pad_estimate(time, more)), merged))
    apart = estimate(Nest(None, 1, (leader.nest, renamed)), machine, lines)
    return [*ways, (Candidate("apart", lambda: None, apart), None)] if ways else []


def _common_part(one: Nest, other: Nest) -> float:
    """Return the share of the memory of two nests that both access."""
    ones, others = (
        {
            access.array: prod(extent if isinstance(extent, int) else ASSUMED for extent in access.shape) * access.bytes
            for body in _bodies(nest)
            for access in body.accesses
        }
        for nest in (one, other)
    )
    return sum(size for array, size in ones.items() if array in others) / max(sum({**ones, **others}.values()), 1)


def _bodies(nest: Nest) -> Iterator[Body]:
    for part in nest.body:
        yield from _bodies(part) if isinstance(part, Nest) else [part]


def _apply(matches: Sequence[_Match]) -> None:
    for match in matches:
        stage = match.one.stage
        match.other.stage.compute_with(stage, stage.leaf_iter_vars[match.shared - 1])


def _merge_nests(one: Nest, other: Nest, shared: Sequence[Var]) -> Nest:
    """Two nests over one loop as one; loops over `shared` within both are one too."""
    body = list(one.body)
    for part in other.body:
        at = next(
            (
                at
                for at, each in enumerate(body)
                if isinstance(each, Nest) and isinstance(part, Nest) and part.axis in shared and each.axis is part.axis
            ),
            None,
        )
        into = body[at] if at is not None else None
        if at is not None and isinstance(into, Nest) and isinstance(part, Nest):
            body[at] = _merge_nests(into, part, shared)
        else:
            body.append(part)
    return replace(one, body=tuple(body))


def _add_spills(nest: Nest, machine: Machine) -> Nest | None:
    """A nest with stores and loads of the sums that have no register while an iteration of an innermost loop runs, in which several
    bodies have some; None where not even the sums alone have."""
    body: list[Nest | Body] = []
    for part in nest.body:
        inside = _add_spills(part, machine) if isinstance(part, Nest) else part
        if inside is None:
            return None
        body.append(inside)
    sums = [part for part in body if isinstance(part, Body) and part.chain is not None]
    beyond = sum(_registers(part, machine) for part in sums) - machine.registers
    if len(sums) > 1 and not any(isinstance(part, Nest) for part in body):
        if beyond > 0:
            return None
        last = sums[-1].instructions
        more = {name: last.get(name, 0.0) + max(beyond + SCRATCH, 0) for name in ("load", "store")}
        body[body.index(sums[-1])] = replace(sums[-1], instructions={**last, **more})
    return replace(nest, body=tuple(body))


def _registers(body: Body, machine: Machine) -> int:
    """The vectors of sums that a body adds to."""
    stored = next(access for access in body.accesses if access.stored)
    return ceil(
        prod(values for axis, values in body.inner if stored.step(axis)) / machine.lanes(stored.array.dtype.bits)
    )


class _Renamer:
    """A nest with other variables."""

    def __init__(self, names: Mapping[Var, Var]) -> None:
        self.names = dict(names)

    def nest(self, nest: Nest) -> Nest:
        """The nest over its loops' namesakes."""
        body = tuple(self.nest(part) if isinstance(part, Nest) else self.body(part) for part in nest.body)
        return replace(nest, axis=None if nest.axis is None else self.names.get(nest.axis, nest.axis), body=body)

    def body(self, body: Body) -> Body:
        """The same of a body."""
        return replace(
            body,
            accesses=tuple(map(self.access, body.accesses)),
            inner=tuple((self.names.get(axis, axis), values) for axis, values in body.inner),
        )

    def access(self, access: Access) -> Access:
        """The same of an access."""
        if access.indices is None:
            return access
        return replace(access, indices=tuple(substitute(index, self.names) for index in access.indices))
