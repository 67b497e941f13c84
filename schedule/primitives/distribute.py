"""distribute: a sum of several terms as one sum for each term, what does not depend on its axes outside of it.

    for i, j:  for k:                                      for i, j:  for k:            # distribute(C)
      C[i, j] += A[i, k] * B[j, k] + B[i, k] * A[j, k]  →      C.product0[i, j] += A[i, k] * B[j, k]
                                                           for i, j:  C[i, j] = C.product0[i, j] + C.product0[j, i]

Each sum is then one of products, which may be a product of matrices. Terms that are alike but for the order of two axes of the
result have one sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from ...base import dataclass, replace
from ...ir import Add, Div, Expr, IterVar, Mul, Reduce, Sub, Var, free_vars, substitute
from ...te.factors import product_factors
from ...te.operation import ComputeOp
from ...te.tensor import Tensor
from ..errors import BadTerms
from ..model.checks import refusal
from ..model.foreign import TENSORS
from ..model.layout import check_outputs, refuse_dangling_predicate, retire
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .factor import SumTree, plain_sum
from .mirror import extents_agree, have_same_bits

__all__ = ["Term", "distribute", "terms_of_sum"]

MOST = 8
"""Terms of one sum."""


@dataclass(frozen=True)
class Term:
    """One term of a sum: a product of `inside`, which depend on what is summed over, and of `outside`, which do not, divided by
    `divisors`, which do not either. negative: whether it is subtracted."""

    inside: tuple[Expr, ...]
    outside: tuple[Expr, ...]
    divisors: tuple[Expr, ...]
    negative: bool


# The terms


def terms_of_sum(stage: Stage) -> list[Term] | None:
    """The terms that a sum is made of, in their order; None where it is no plain sum, or is best left whole: it has one term from which
    nothing leaves the sum, or too many."""
    reduction = plain_sum(stage)
    if reduction is None:
        return None
    summed = {*reduction.axes}
    terms = [_term(value, negative, summed) for value, negative in _addends(reduction.sources[0])]
    whole = len(terms) == 1 and not (terms[0].outside or terms[0].divisors)
    return None if whole or len(terms) > MOST else terms


def _addends(value: Expr) -> Iterator[tuple[Expr, bool]]:
    """The addends of a value, from left to right, each with whether it is subtracted instead."""
    stack = [(value, False)]
    while stack:
        node, negative = stack.pop()
        if isinstance(node, Add):
            stack += [(node.b, negative), (node.a, negative)]
        elif isinstance(node, Sub):
            stack += [(node.b, not negative), (node.a, negative)]
        else:
            yield node, negative


def _term(value: Expr, negative: bool, summed: set[IterVar]) -> Term:
    """A term by what of it depends on the axes that are summed over."""
    inside, outside, divisors = list[Expr](), list[Expr](), list[Expr]()
    stack = [value]
    while stack:
        factor = stack.pop()
        if isinstance(factor, Div) and factor.dtype.is_float and summed.isdisjoint(free_vars(factor.b)):
            divisors.append(factor.b)
            stack += reversed(product_factors(factor.a))
        elif isinstance(factor, Mul):
            stack += reversed(product_factors(factor))
        else:
            (outside if summed.isdisjoint(free_vars(factor)) else inside).append(factor)
    if not inside:  # added as often as there are terms
        inside, outside = outside, []
    return Term(tuple(inside), tuple(outside), tuple(divisors), negative)


# The primitive


def _tries(stage: Stage) -> Iterator[Try]:
    if terms_of_sum(stage) and not stage.is_scheduled():
        yield "", lambda one: one.schedule.distribute(one.op.output(0))


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.is_untouched() and bool(terms_of_sum(stage)))
    return None if stage is None else (f"distribute({stage.name})", lambda: drawer.s.distribute(stage.op.output(0)))


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=2,
    rare=True,
    foreign={"tensor": TENSORS},
)
def distribute(schedule: Schedule, tensor: Tensor) -> list[Tensor]:
    """Compute a sum of several terms by one sum for each of them.

        for i, j:  for k:                                      for i, j:  for k:            # distribute(C)
          C[i, j] += A[i, k] * B[j, k] + B[i, k] * A[j, k]  →      C.product0[i, j] += A[i, k] * B[j, k]
                                                               for i, j:  C[i, j] = C.product0[i, j] + C.product0[j, i]

    tensor: a te.sum of terms that are added or subtracted, or of one of which factors or divisors do not depend on what is summed
    over, of constant extents, without where= and init=, of loops that are not scheduled yet; of floats, float32 or float64.
    Factors and divisors that do not depend on it leave the sum. Terms that are the same once two axes of the tensor are exchanged
    have one sum between them. Sums of whole numbers have the same bits; those of floats are added in another order.

    Returns the tensors that are new, in the order in which they are computed.

    Raises BadTerms (TW0266), UnknownStage (TW0201), WrongArgument (TW0222).
    """
    stage, _ = check_outputs(schedule, tensor, BadTerms, "cannot distribute")
    terms, reduction = _check(stage)
    with schedule.compound("distribute", tensor=tensor):
        op = stage.op.as_compute
        assert op is not None
        tree = SumTree(op, reduction)
        value = _combine(terms, _sum_terms(tree, reduction, terms))
        whole = replace(op, tag="", algorithm="", attrs=dict[str, Any](), body=(value,))
        retire(
            schedule,
            op.reduce_axis,
            f"was an axis of {stage.name} until distribute gave its sums to other stages{{at}}",
        )
        for each in tree.made:
            schedule.insert_stage(schedule.find_place(stage), each, stage)
        schedule.rewrite({}, anew={stage: whole})
        if op.values[0].dtype.is_float:
            schedule.losses.append(f"the terms of {stage.name} are added up each by itself")
    return [each.output(0) for each in tree.made]


def _check(stage: Stage) -> tuple[list[Term], Reduce]:
    terms, reduction = terms_of_sum(stage), plain_sum(stage)
    reason = None
    if terms is None or reduction is None:
        reason = f"{stage.name} is not a te.sum of 2 to {MOST} terms, of constant extents, without where= and init="
    elif not stage.is_untouched() or stage.attach_type in ("inline", "inlined"):
        reason = "its loops are scheduled already, and each sum has loops of its own"
    if reason is not None or terms is None or reduction is None:
        fix = "te.sum(A[i, k] * B[j, k] + D[i, k] * E[j, k], axis=k), before its loops are scheduled"
        raise refusal(
            BadTerms, stage, f"cannot distribute {stage.name}", stage.leaf_iter_vars, reason or "it is not a sum", fix
        )
    refuse_dangling_predicate(stage, stage.op.axis, BadTerms, "cannot distribute")
    return terms, reduction


def _sum_terms(tree: SumTree, reduction: Reduce, terms: Sequence[Term]) -> list[Expr]:
    """The element of each term's sum."""
    known, elements = list[tuple[Expr, Expr]](), list[Expr]()
    for term in terms:
        product = reduce(Mul, term.inside)
        ways = (_find_exchanged(tree.op, product, *pair) for pair in known)
        element = next((way for way in ways if way is not None), None)
        if element is None:
            used = free_vars(product)
            axes = (*(axis for axis in tree.op.axis if axis in used), *reduction.axes)
            element = tree.store(product, axes, ()).value
            known.append((product, element))
        elements.append(element)
    return elements


def _find_exchanged(op: ComputeOp, product: Expr, known: Expr, element: Expr) -> Expr | None:
    """The element of a known sum that is a term's, two axes being exchanged if need be; None where it is another sum."""
    if have_same_bits(product, known):
        return element
    for i, j in combinations(op.axis, 2):
        exchange: dict[Var, Expr] = {i: j, j: i}
        if extents_agree(i, j) and have_same_bits(substitute(product, exchange), known):
            return substitute(element, exchange)
    return None


def _combine(terms: Sequence[Term], elements: Sequence[Expr]) -> Expr:
    """The value of an element of the tensor from those of the sums."""
    first, *others = (
        reduce(Div, term.divisors, reduce(Mul, term.outside, element))
        for term, element in zip(terms, elements, strict=True)
    )  # the first is added: what is subtracted stands behind what it is subtracted from
    for term, other in zip(terms[1:], others, strict=True):
        first = Sub(first, other) if term.negative else Add(first, other)
    return first
