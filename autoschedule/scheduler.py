"""Schedules by rules, for any composition of operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import cast

from ..base.errors import user_source
from ..codegen.machine import Machine, find_machine
from ..codegen.target import Target
from ..ir.analysis.combiners import Law
from ..ir.expr import Reduce
from ..schedule import Schedule, create_schedule
from ..schedule.errors import UnsplitReduction
from ..schedule.model.exactness import stays_exact
from ..schedule.model.term_order import laws_of_reduction, may_split
from ..te import Tensor
from ..te.operation import Operation
from .alternatives import take_alternatives
from .cost.estimate import Estimate
from .errors import BadRule
from .group_partition import cut
from .groups import Group
from .partition import APART, Piece
from .phases import split_phases
from .plan import Candidate, Chooser, Decision, cheapest
from .registry import Rule, registered_rules

__all__ = ["schedule", "schedule_groups"]


def schedule(
    outputs: Operation | Tensor | Sequence[Operation | Tensor],
    target: str | Target = "llvm",
    *,
    exact: bool = False,
    chooser: Chooser = cheapest,
    known: dict[Hashable, Sequence[Estimate]] | None = None,
) -> Schedule:
    """The schedule that the rules choose for `outputs` and what they are computed from (see driver.schedule). exact: sums keep
    their declared order, so that every bit is that of the program without a schedule. chooser: takes one of the candidates
    wherever a rule has several. known: who asks for several schedules for one target hands in one dictionary, so that what they
    have in common is estimated once.

    Raises NothingToSchedule (TW02), BadRule (TW0228), and a CodegenError (TW04) for an unknown target.
    """
    chosen = Target.parse(target)
    s = create_schedule(outputs)
    return schedule_groups(s, chosen, exact, chooser, {} if known is None else known) if chosen.backend.rules else s


def schedule_groups(
    s: Schedule,
    target: Target,
    exact: bool,
    chooser: Chooser,
    known: dict[Hashable, Sequence[Estimate]],
    whole: bool = False,
) -> Schedule:
    """Cuts a schedule that nobody has touched, and applies to each piece its rule; where sums are to keep their order and the rule
    does not, another that does. whole: no alternatives are asked for."""
    machine, taken = find_machine(target), list[Decision]()
    if not whole:
        alone = partial(schedule_groups, target=target, exact=exact, chooser=cheapest, known=known, whole=True)
        taken = take_alternatives(s, target, machine, chooser, exact, alone)
    split_phases(s, exact)
    fusion = APART
    decisions: list[Decision] = []
    if target.backend.rules == "gpu":
        from .gpu.rules import BEFORE, RULES, find_rule, rule_in_order, share_scan

        _share_scans(s, share_scan)
    else:
        from .cpu.rules import BEFORE, RULES, find_rule, fusion_rules, rule_in_order

        fusion = fusion_rules(machine)
    for chosen_before in BEFORE[exact:]:
        decisions += chosen_before(s, lambda op: Group(s, op, op, (), target, machine, chooser=chooser, known=known))
    tags: Collection[str] = RULES
    for piece in cut(s, tags, fusion):
        reductions = _reductions(s, piece)
        in_order = exact or not all(map(may_split, reductions))
        with s.attempt() if in_order or any(map(_is_delicate, reductions)) else nullcontext() as attempt:
            group = replace(_begin(s, piece, target, machine, chooser), known=known)
            try:
                _apply(group, find_rule(piece.tag, piece.anchor))
                holds = attempt is None or not in_order or stays_exact(attempt)
            except UnsplitReduction:
                if attempt is None:
                    raise
                holds = False
            if attempt is not None and not holds:
                s.undo(attempt)
                group = _begin(s, piece, target, machine, chooser)
                _one_by_one(group, rule_in_order)
        decisions += group.decisions
        for head in piece.heads:
            if s[head].attach_type == "root" and not s[head].is_scheduled() and head.values:
                alone = Group(s, head, head, (), target, machine, chooser=chooser, known=known, begun=len(s.records))
                _apply(alone, find_rule("", head))
                decisions += alone.decisions
    if target.backend.rules != "gpu":
        from .cpu.siblings import share_loops

        decisions += share_loops(s, machine, chooser)
    s.decisions = (*decisions, *taken)
    return s


def _share_scans(s: Schedule, share_scan: Callable[[Schedule, Operation, Collection[Operation]], object]) -> None:
    """Share scans that no step of another contains."""
    order = [stage.op for stage in s.stages]
    inner = {op for each in order for op in each.steps(order)}
    for op in order:
        if op.is_stepwise and op in inner:  # the others are pieces
            share_scan(s, op, op.steps(order))


def _reductions(s: Schedule, piece: Piece) -> list[Reduce]:
    """The reductions that a piece computes, those of a scan's steps among them."""
    order = [stage.op for stage in s.stages]
    ops = [each for op in (piece.anchor, *piece.parts, *piece.between, piece.output) for each in (op, *op.steps(order))]
    return [op.reduction for op in ops if op.reduction is not None]


def _is_delicate(reduction: Reduce) -> bool:
    """Return whether primitives may refuse to split it for the guards around its terms."""
    return laws_of_reduction(reduction).idle == Law.REFUTED


def _apply(group: Group, usual: Callable[[Group], None]) -> None:
    """Schedules a group: by a rule of the user's that matches it, or by the usual one. A rule that says nothing of what it chose
    had one way."""
    own = next((rule for rule in registered_rules() if rule.matches(group)), None)
    if own is not None:
        replace(group, begun=-1).choose(own.name, _ways(own, group))
        return
    usual(group)
    if not group.decisions:
        replace(group, chooser=cheapest).choose(usual.__name__, [Candidate("its one way", lambda: None)])


def _ways(rule: Rule, group: Group) -> Sequence[Candidate]:
    """The candidates of a rule of the user's."""
    ways = list(rule.candidates(group))
    if not ways or not all(isinstance(way, Candidate) for way in cast("Sequence[object]", ways)):
        raise BadRule(
            f"rule {rule.name!r} cannot schedule {group.anchor.name}",
            declared=group.anchor.source,
            called=user_source(),
            reason="its candidates are not a list of tw.autoschedule.Candidate" if ways else "it has no candidates",
            fix="candidates(self, group) returns at least one Candidate(description, apply), or matches says no",
        )
    return ways


def _one_by_one(group: Group, rule_in_order: Callable[[Operation], Callable[[Group], None]]) -> None:
    """Schedules the operations of a group each for itself, so that every sum takes up its terms as they were declared."""
    for op in (*group.parts, group.anchor):
        last = op is group.anchor
        own = replace(
            group,
            anchor=op,
            output=group.output if last else op,
            heads=group.heads if last else (),
            parts=(),
            between=group.between if last else (),
        )
        rule = rule_in_order(op)
        begun = replace(own, begun=len(group.s.records))
        replace(own, begun=-1).choose(rule.__name__, [Candidate("sums in their order", partial(rule, begun))])


def _begin(s: Schedule, piece: Piece, target: Target, machine: Machine, chooser: Chooser) -> Group:
    """The group of a piece: what lies within its tail is inlined."""
    for op in (*piece.inlined, *piece.between):
        s[op].compute_inline()
    inlined = (*piece.inlined, *piece.between)
    return Group(
        s,
        piece.anchor,
        piece.output,
        piece.heads,
        target,
        machine,
        piece.parts,
        inlined,
        chooser,
        tiles=piece.tiles,
        begun=len(s.records),
    )
