"""Groups: operations that are scheduled together (group_partition.py), with what a rule needs to choose among their candidates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from math import inf, prod
from typing import Any, cast

from ..base import dataclass, field, replace
from ..codegen.gpus import Gpu, target_gpu
from ..codegen.machine import Machine
from ..codegen.target import Target
from ..ir.expr import IterVar
from ..schedule import Schedule, Stage
from ..te.operation import Operation
from ..te.shape import constant_extent
from .cost.cpu import Lines, estimate, least_of_loops
from .cost.estimate import Estimate, soonest
from .cost.gpu import estimate_kernels
from .drafts.draft import Draft, Drafts, Undrafted, extent_in_numbers
from .drafts.kernels import kernels_of_draft
from .drafts.nests import nest_of_draft
from .loop_nest import scale_bodies
from .loops import unroll_short_loops
from .operations import is_expensive
from .partition import Tile
from .plan import Candidate, Chooser, Decision, cheapest, decide
from .structure import structure_key

__all__ = ["Group"]


@dataclass(frozen=True, repr=False)
class Group:
    """Operations that a rule schedules together: `rule(group)` applies primitives to group.s.

    anchor: the heavy operation, whose algorithm chose the rule; output: the last of its elementwise tail, or the anchor; what
    lies between is inlined already. Axes: s[group.output].op.axis, and s[group.anchor].op.reduce_axis. heads: producers
    without reductions that this group alone reads, not placed yet (pad, cast, dequantise, transpose), producers first: the
    rule inlines or packs them; those that it leaves at root are scheduled as groups of their own. parts: the operations that
    belong to the anchor's operator, producers first, not placed either. Operations are those that were declared, and stay
    keys of the schedule whatever primitives make of them. between: what is inlined from the anchor to the output.
    chooser: who takes one of several candidates; decisions: what was taken, for `s.plan`.
    tiles: how a chain of stencils, whose parts are stored for each tile, may be cut, the cheapest first. known: what was found out
    about groups of the same schedule, by what they are about, so that equal ones are looked at once. held: axes of the anchor of
    which there is one value at a time where it is computed: the steps of a scan.
    """

    s: Schedule
    anchor: Operation
    output: Operation
    heads: tuple[Operation, ...]
    target: Target
    machine: Machine
    parts: tuple[Operation, ...] = ()
    between: tuple[Operation, ...] = ()
    chooser: Chooser = cheapest
    decisions: list[Decision] = field(default_factory=list[Decision])
    tiles: tuple[Tile, ...] = ()
    known: dict[Hashable, Sequence[Estimate]] = field(default_factory=dict[Hashable, "Sequence[Estimate]"])
    held: frozenset[IterVar] = frozenset()
    begun: int = -1

    def __repr__(self) -> str:
        names = [op.name for op in (*self.heads, *self.parts, self.anchor, *self.between)]
        return f"Group({', '.join(names)} -> {self.output.name})"

    @property
    def is_searched(self) -> bool:
        """Return whether somebody else than the rules chooses."""
        return self.chooser is not cheapest

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that the schedule is for; None for a processor."""
        return target_gpu(self.target) if self.target.backend.rules == "gpu" else None

    def times(self, key: Hashable, found: Callable[[], Sequence[Estimate]]) -> Sequence[Estimate]:
        """Estimates, made once for all that is as `key` says."""
        times = self.known.get(key)
        if times is None:
            times = self.known[key] = found()
        return times

    def draft(
        self,
        apply: Callable[[Group], None],
        drafts: Drafts,
        lines: Lines | None = None,
        outputs: Sequence[Operation] | None = None,
        by_llvm: float = 1.0,
    ) -> Estimate:
        """The time of a candidate, which `apply` schedules, from its loop nest. drafts, lines: what the candidates of a choice
        share. outputs: the operations that it stores, if not the group's. by_llvm: the part of its instructions that LLVM
        leaves. Of a candidate that has no draft, forever: any other is taken."""
        draft = Draft(self.s, drafts)
        try:
            apply(replace(self, s=cast(Schedule, draft), decisions=[], begun=-1))
            for op in (self.output,) if outputs is None else outputs:
                draft[op].touched = True
            if self.gpu is not None:
                return estimate_kernels(kernels_of_draft(draft, self.machine), self.gpu)
            nest = nest_of_draft(draft, self.machine)
            return estimate(nest if by_llvm == 1.0 else scale_bodies(nest, by_llvm), self.machine, lines)
        except Undrafted:
            return Estimate((("not estimated", inf),))

    def draft_candidates(
        self, ways: Iterable[tuple[str, Callable[[Group], None]]], reason: str = "", ordered: bool = False
    ) -> list[Candidate]:
        """Candidates for ways to schedule the group, each with what it is, estimated from drafts. ordered: the rule knows which one
        comes first; the others are for who searches, and have no estimate."""
        ways, drafts, lines, candidates = list(ways), Drafts(), Lines(), list[Candidate]()
        is_alone = len(ways) == 1 and self.gpu is not None  # there it is not chosen beside the loops as declared
        for text, apply in ways:
            further = ordered and bool(candidates)
            time = None if further or is_alone else self._draft_once(text, apply, drafts, lines)
            known = time if time is not None and (not ordered or time.seconds < inf) else None
            candidates.append(Candidate(text, partial(apply, self), known, reason, further))
        return candidates

    def _draft_once(self, text: str, apply: Callable[[Group], None], drafts: Drafts, lines: Lines) -> Estimate:
        """The time of a candidate, made once for all schedules of the same operations: a tuner asks in each of its trials. A draft
        begins with the operations of the stages and their places, and sees nothing else of a schedule."""
        function: Any = getattr(apply, "func", apply)  # of a partial, whose arguments the text tells
        stages = tuple((stage.op, stage.attach_type) for stage in self.s.stages)
        own = (self.anchor, self.output, self.heads, self.parts, self.between, self.tiles, self.held)
        key = ("draft", text, function.__code__, own, stages, tuple(self.s.outputs))
        return self.times(key, lambda: [self.draft(apply, drafts, lines)])[0]

    def choose(self, rule: str, candidates: Sequence[Candidate]) -> None:
        """Apply one of the ways in which a rule can schedule the group (or an operation of it), the cheapest unless somebody
        searches, and notes it. rule: names the decision."""
        candidates = self._add_declared(candidates)
        after = (self.output,) if self.output is not self.anchor else ()
        fused = tuple(op.name for op in (*self.heads, *self.parts, *self.between, *after) if op.values)
        gpu = target_gpu(self.target) if self.target.backend.rules == "gpu" else None
        decision = decide(
            rule, self.anchor, candidates, self.chooser, self.machine, fused=fused, output=self.output, gpu=gpu
        )
        self.decisions.append(decision)
        candidates[decision.chosen].apply()

    def _add_declared(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Add the loops as declared, on one thread, to a rule's first candidates, if they are not among them."""
        if self.begun < 0 or self.gpu is not None:
            return candidates
        # what is inlined by now is so in those loops too
        if any(record.primitive != "compute_inline" for record in self.s.records[self.begun :]):
            return candidates
        if any(candidate.description.startswith("as declared") for candidate in candidates):
            return candidates
        times = [time for candidate in candidates if not candidate.further and (time := candidate.estimate) is not None]
        stored = [op for op in (*self.heads, *self.parts, self.anchor, self.output) if op.values]
        roots = [op for op in dict.fromkeys(stored) if self.s[op].attach_type == "root"]
        axes = [axis for op in roots for axis in (*op.axis, *op.reduce_axis)]
        if None in map(constant_extent, axes) or not all(each.estimate or each.further for each in candidates):
            return [*candidates, Candidate("as declared", lambda: None, further=True)]
        time = self._time_declared(roots, times[soonest(times)].seconds)
        return [*candidates, Candidate("as declared", lambda: None, time)]

    def _time_declared(self, roots: Sequence[Operation], most: float) -> Estimate:
        """The time of the loops of stages as they are declared, of which LLVM writes short ones out: where that is more than `most` in any
        case, no more is asked."""
        iterations = sum(prod(map(extent_in_numbers, (*op.axis, *op.reduce_axis))) for op in roots)
        least = least_of_loops(iterations, self.machine)
        if least.seconds > most:
            return least
        form = tuple(structure_key(value, op.axis) for op in (*self.between, *roots) for value in op.values)

        def write_out(own: Group) -> None:
            for stage in map(own.s.__getitem__, roots):
                unroll_short_loops(stage, stage.leaf_iter_vars[1:])

        draft = partial(self.draft, write_out, Drafts(), Lines(), roots)
        return self.times(("as declared", form), lambda: [draft()])[0]

    def cache_sums(self) -> Stage:
        """Return the stage of the anchor's sums: a copy in registers of what the group stores itself, or else the anchor's."""
        s, anchor = self.s, self.anchor
        return s[anchor] if anchor is not self.output else s[s.cache_write(list(anchor.outputs), "local")[0]]

    def inline_anchor(self) -> None:
        """Have the anchor computed where it is read, if others follow it."""
        if self.anchor is not self.output:
            self.s[self.anchor].compute_inline()

    def inline_heads(self) -> None:
        """Inline all heads."""
        for head in self.heads:
            self.s[head].compute_inline()

    def inline_cheap_heads(self) -> None:
        """Inline the heads whose values cost little; the others stay stages of their own."""
        for head in self.heads:
            if head.values and not is_expensive(head) and self.s[head].attach_type != "inline":
                self.s[head].compute_inline()
