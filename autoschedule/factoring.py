"""Sums of products as others that cost less: of several factors as trees of sums of two, of several terms as a sum for each.

    C[i, j, k] = sum over a, b, c of G[a, b, c] * A[i, a] * B[j, b] * D[k, c]        (((G A) B) D), one axis summed at a time
    C[i, j] = sum over k of A[i, k] * B[j, k] + B[i, k] * A[j, k]                    P[i, j] + P[j, i], P = A B'

It is done before the graph is cut into groups, for every target: each of the sums is then scheduled like any other. Both ways
are scheduled by themselves, their inputs being placeholders, and the sums of what their plans say are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from ..base import dataclass, replace
from ..codegen.gpus import target_gpu
from ..codegen.machine import Machine
from ..codegen.target import Target
from ..ir.expr import Expr, ProducerLoad, Reduce
from ..schedule import Schedule, Stage, create_schedule
from ..schedule.model.inlining import expand_inlined
from ..schedule.primitives.distribute import terms_of_sum
from ..schedule.primitives.factor import factors_of_sum
from ..te.compute import placeholder
from ..te.factors import strip_casts
from ..te.operation import ComputeOp, Operation
from ..te.rewrite import collect_loads, redirect
from ..te.tensor import Tensor, find_tensor
from .accesses import find_axes, max_reads
from .cost.doubts import FACTORED, FACTORED_IN_TILES
from .cost.estimate import Estimate, add_estimates
from .forms.products import Factoring, Product, best_factoring
from .operations import TRIVIAL, fixed_extent, is_expensive, is_known, is_plain, weight
from .plan import Candidate, Chooser, Decision, decide

__all__ = ["SMALL", "Scheduler", "estimate_alone", "factor_sums", "make_standalone"]

SMALL = 4096
"""Multiply-adds of a sum that takes no time worth choosing about."""

Change = Callable[[Schedule, Tensor], None]
"""Applies a primitive to a sum."""
Scheduler = Callable[[Schedule], Schedule]
"""Applies rules to a schedule that nobody has touched, without factoring."""


@dataclass(frozen=True)
class _Ask:
    """Inputs of every choice. scheduled: applies the rules to a schedule of a part of the program."""

    s: Schedule
    target: Target
    machine: Machine
    chooser: Chooser
    scheduled: Scheduler


def factor_sums(
    s: Schedule, target: Target, machine: Machine, chooser: Chooser, exact: bool, scheduled: Scheduler
) -> list[Decision]:
    """Factor the sums of a schedule that nobody has touched where that costs less, and tell what was decided. exact: none of which
    that is another order."""
    ask = _Ask(s, target, machine, chooser, scheduled)
    decisions = [] if exact else _distribute_sums(ask)
    for op in [stage.op for stage in s.stages if stage.op.reduction is not None]:
        if op.algorithm or exact and op.values[0].dtype.is_float:
            continue
        with s.attempt() as attempt:
            _inline_products(s[op])
            factoring = _find_factoring(s[op])
            decided = _decide(ask, s[op], factoring) if factoring is not None else None
            if decided is not None:
                decisions.append(decided)
        if decided is None or not decided.chosen:
            s.undo(attempt)
    return decisions


def _inline_products(stage: Stage) -> None:
    """Inline what a sum alone reads, at one place, and what costs little."""
    if stage.op.calls_intrinsic:  # reads memory
        return
    for producer in stage.producers:
        op = producer.op
        if (
            is_plain(op)
            and not producer.is_output
            and len(producer.readers) == 1
            and weight(op) <= TRIVIAL
            and not is_expensive(op)
            and max_reads(op, [stage.op]) == 1
        ):
            _inline_products(producer)
            producer.compute_inline()


def _find_factoring(stage: Stage) -> Factoring | None:
    """The tree that is worth looking at; None where the sum is best as declared."""
    factors = factors_of_sum(stage)
    if factors is None or len(factors) < 2:
        return None
    reduction = expand_inlined(stage)
    assert isinstance(reduction, Reduce)
    axes = [*stage.op.axis, *reduction.axes]
    place = {axis: at for at, axis in enumerate(axes)}
    product = Product(
        tuple(frozenset(place[axis] for axis in find_axes(each)) for each in factors),
        frozenset(range(len(stage.op.axis))),
        tuple(map(fixed_extent, axes)),
    )
    if product.declared < SMALL:
        return None
    best = best_factoring(product, [_name(each) for each in factors])
    tiled = len(factors) > 2 and all(isinstance(strip_casts(each), ProducerLoad) for each in factors)
    worthwhile = FACTORED_IN_TILES if tiled else FACTORED
    return best if best is not None and best.cost * worthwhile <= product.declared else None


def _name(factor: Expr) -> str:
    """The tensor that a factor reads."""
    names = dict.fromkeys(load.producer.name for load in collect_loads(factor))
    return "*".join(names) or "a constant"


def _decide(ask: _Ask, stage: Stage, factoring: Factoring) -> Decision:
    """Take the cheaper way."""
    return _choose(ask, stage, "factors", factoring.text, partial(_factor, factoring=factoring))


def _distribute_sums(ask: _Ask) -> list[Decision]:
    """Give each term of a sum a sum of its own where that costs less: terms that are products, which are rounded as they are."""
    decisions: list[Decision] = []
    for op in [stage.op for stage in ask.s.stages if stage.op.reduction is not None]:
        if op.algorithm:
            continue
        with ask.s.attempt() as attempt:
            _inline_products(ask.s[op])
            decided = _distribute(ask, ask.s[op])
        if decided is None or not decided.chosen:
            ask.s.undo(attempt)
        decisions += [decided] if decided is not None else []
    return decisions


def _distribute(ask: _Ask, stage: Stage) -> Decision | None:
    """Decide about one sum; None where it has nothing to be told apart."""
    terms = terms_of_sum(stage)
    if terms is None or not all(len(term.inside) > 1 for term in terms):
        return None
    if len(terms) == 1 and (not terms[0].divisors or any(is_expensive(each.op) for each in stage.producers)):
        return None  # factors leave a sum by being factored; of a softmax's weights another rule knows more
    extents = map(fixed_extent, (*stage.op.axis, *stage.op.reduce_axis))
    if prod(extents) < SMALL:
        return None
    return _choose(ask, stage, "terms", f"{len(terms)} sums", _distribute_terms)


def _factor(s: Schedule, tensor: Tensor, factoring: Factoring) -> None:
    s.factor(tensor, factoring.path)


def _distribute_terms(s: Schedule, tensor: Tensor) -> None:
    s.distribute(tensor)


def _choose(ask: _Ask, stage: Stage, rule: str, description: str, change: Change) -> Decision:
    """Leave a sum as it is declared, or change it, as estimates say."""
    op = stage.op
    alone, tensor = make_standalone(stage), op.output(0)
    candidates = [
        Candidate("as declared", lambda: None, estimate_alone(ask.scheduled, alone)),
        Candidate(description, partial(change, ask.s, tensor), estimate_alone(ask.scheduled, alone, change)),
    ]
    gpu = target_gpu(ask.target) if ask.target.backend.rules == "gpu" else None
    decision = decide(rule, op, candidates, ask.chooser, ask.machine, gpu=gpu)
    candidates[decision.chosen].apply()
    return decision


def make_standalone(stage: Stage) -> ComputeOp:
    """The sum by itself: what it reads are placeholders."""
    op = stage.op.as_compute
    assert op is not None
    value = expand_inlined(stage)
    inputs = dict.fromkeys(find_tensor(load) for load in collect_loads(value))
    given = {tensor: placeholder(tensor.shape, tensor.dtype, tensor.name) for tensor in inputs}
    return replace(op, body=(redirect(value, given),))


def estimate_alone(scheduled: Scheduler, op: Operation, change: Change | None = None) -> Estimate:
    """The time of an operation by itself, changed first or not, as its plan says. scheduled: applies the rules."""
    s = create_schedule(op)
    if change is not None:
        change(s, op.output(0))
    # what is computed of constants takes time while building
    rows = [row for row in scheduled(s).plan if row.rule != "siblings" and not is_known(row.output.output(0))]
    return add_estimates(row.estimate for row in rows if row.estimate is not None)
