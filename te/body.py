"""Bodies of computes: checks, and several reductions over the same axes joined into one."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.errors import user_source
from ..ir import CommReducer, Expr, IterVar, Mul, Reduce, Var, children, post_order
from ..ir.analysis.combiners import Law, laws_of
from ..ir.combine import is_fused, is_sum
from ..ir.dtype import BOOL
from ..ir.ops import TRUE, const, disjunction, if_then_else, select
from .errors import BadReducer, ForeignAxis, MixedReductions, NestedReduction, UnreducedAxis

__all__ = ["check_body", "join_reductions"]


def check_body(name: str, axis: tuple[IterVar, ...], values: tuple[Expr, ...]) -> None:
    """Refuse a value that is not what the element at `axis` of the compute `name` may be: NestedReduction (TW0116),
    UnreducedAxis (TW0119), ForeignAxis (TW0120), BadReducer (TW0122)."""
    for value in values:
        if not isinstance(value, Reduce):
            _check_values(name, axis, (), (value,))
            continue
        _check_values(name, axis, value.axes, (*value.sources, value.condition))
        _check_init(name, value)
        _check_values(name, axis, (), value.init)  # init is taken before the loop, so that it knows no reduce axis
        for at, reduced in enumerate(value.axes):
            if reduced.dom is not None:
                # a bound may depend on the axes before it alone
                _check_values(name, axis, value.axes[:at], (reduced.dom.begin, reduced.dom.extent))


def _check_values(name: str, axis: tuple[IterVar, ...], reduced: tuple[IterVar, ...], values: Iterable[Expr]) -> None:
    known = {*axis, *reduced}
    for value in values:
        nodes = list(post_order(value))  # listed once, as both checks walk it
        for node in nodes:
            if isinstance(node, Reduce):
                raise _nested_error(name, node)
        for node in nodes:
            # thread axes are bound outside
            if isinstance(node, IterVar) and node not in known and node.kind != "thread":
                raise _unreduced_error(name, node) if node.kind == "reduce" else _foreign(name, node, axis)


def _check_init(name: str, value: Reduce) -> None:
    for init in value.init:
        for node in post_order(init):
            if isinstance(node, IterVar) and node in value.axes:
                raise BadReducer(
                    f"the init of {name} depends on the reduce axis '{node.name}'",
                    called=user_source(),
                    reason=f"it is taken once, before the loop over '{node.name}': init={init}",
                    fix=f"use the axes of {name} alone in init=, and put what changes with '{node.name}' into the "
                    "reduced value",
                )


def _nested_error(name: str, node: Reduce) -> NestedReduction:
    axes = ", ".join(axis.name for axis in node.axes)
    return NestedReduction(
        f"the body of {name} has a {node.combiner.name} over {axes} inside a larger expression",
        reason="a reduction is a loop that updates its element, so it must be the whole body of a compute",
        called=user_source(),
        fix="reduce in a stage of its own, then use its elements:\n"
        f"  S = te.compute(shape, lambda i: te.{node.combiner.name}(..., axis={axes}))\n"
        f"  {name} = te.compute(shape, lambda i: ... S[i] ...)",
    )


def _unreduced_error(name: str, axis: IterVar) -> UnreducedAxis:
    return UnreducedAxis(
        f"the body of {name} uses the reduce axis '{axis.name}' outside a reduction over it",
        reason=f"'{axis.name}' takes many values for one element of {name}",
        called=user_source(),
        fix=f"reduce over it: te.sum(..., axis={axis.name}), or axis=[..., {axis.name}] beside others",
    )


def _foreign(name: str, axis: IterVar, own: tuple[IterVar, ...]) -> ForeignAxis:
    return ForeignAxis(
        f"the body of {name} uses the axis '{axis.name}', which is not one of its own",
        reason=f"'{axis.name}' belongs to another compute and has no value here",
        called=user_source(),
        allowed=", ".join(a.name for a in own) or f"none: {name} is a scalar",
        fix="use the parameters of this compute's function as indices",
    )


def join_reductions(name: str, values: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """The body of the operation, and which of its outputs the values are.

    Elements of one tuple reduction (argmax) bring the whole tuple along; several reductions over the same axes become
    one over the concatenated tuple. Raises MixedReductions (TW0117).
    """
    groups: list[Reduce] = []
    chosen: list[int] = []
    first = values[0]
    if not any(isinstance(value, Reduce) for value in values):
        return values, tuple(range(len(values)))
    offsets: list[int] = []
    for value in values:
        if not isinstance(value, Reduce) or not isinstance(first, Reduce):
            raise MixedReductions(
                f"{name} returns a reduction beside a plain value",
                called=user_source(),
                reason="one loop nest computes all outputs of a compute",
                fix="make two computes: one that reduces and one that does not",
            )
        if not _same_axes(value, first):
            raise MixedReductions(
                f"{name} returns reductions over different axes",
                reason=f"one runs over ({_names(first)}), another over ({_names(value)}); one loop nest computes both",
                called=user_source(),
                fix="reduce over the same axis objects in the same order, or make two computes",
            )
        # the same reduction may stand in several values
        at = next((n for n, group in enumerate(groups) if _one_reduction(group, value)), len(groups))
        if at == len(groups):
            offsets.append(sum(len(group.sources) for group in groups))
            groups.append(value)
        chosen.append(offsets[at] + value.value_index)  # its place in the joined tuple
    joined = groups[0] if len(groups) == 1 else _join(groups)
    body = tuple(
        Reduce(joined.combiner, joined.sources, joined.axes, joined.condition, joined.init, at, joined.fused)
        for at in range(len(joined.sources))
    )
    return body, tuple(chosen)


def _same_axes(a: Reduce, b: Reduce) -> bool:
    return len(a.axes) == len(b.axes) and all(x is y for x, y in zip(a.axes, b.axes, strict=True))


def _names(value: Reduce) -> str:
    return ", ".join(axis.name for axis in value.axes)


def _one_reduction(a: Reduce, b: Reduce) -> bool:
    """Return whether these are elements of one tuple reduction."""
    parts = zip(children(a), children(b), strict=False)
    return (
        a.combiner is b.combiner
        and a.fused == b.fused
        and len(children(a)) == len(children(b))  # by identity of parts: equal reductions written twice are two
        and all(x is y for x, y in parts)
    )


def _taken_up_where(condition: Expr, source: Expr, neutral: Expr, fused: bool) -> Expr:
    """The source where the condition holds, else what changes nothing. A product that is fused stays one: of the neutral value and 1."""
    if fused and isinstance(source, Mul):  # x * y with x neutral and y 1 keeps one rounding
        one = const(1, source.dtype)
        return Mul(if_then_else(condition, source.a, neutral), if_then_else(condition, source.b, one))
    return if_then_else(condition, source, neutral)


def _neutral_values(group: Reduce) -> tuple[Expr, ...] | None:
    """Values that change no bit of what the elements are when they are combined with them; None where the identity is none."""
    if is_sum(group) and group.dtype.is_float and group.init:
        return (const(-0.0, group.dtype),)  # adding 0 to -0 gives 0
    laws = laws_of(group.combiner, group.sources)
    return group.combiner.identity if (laws.neutral if group.init else laws.idle) == Law.PROVED else None


def _join(groups: list[Reduce]) -> Reduce:
    """Independent reductions over the same axes as one over the concatenated tuple.

    Where each has its condition, its terms are neutral elsewhere. One whose identity is not neutral has a flag as one more element,
    at the end of the tuple: there is something to combine with.
    """
    condition = groups[0].condition
    one_condition = all(group.condition is condition for group in groups)
    sources: list[Expr] = []
    init: list[Expr] = []
    fused: list[bool] = []
    results: list[Expr] = []
    flags: list[tuple[Var, Var, Expr]] = []
    for group in groups:
        combiner = group.combiner
        init += group.init or combiner.identity
        fused += group.fused or [False] * len(group.sources)
        # with one condition for all, no neutral value is needed
        neutral = combiner.identity if one_condition else _neutral_values(group)
        result = combiner.result
        if neutral is None:
            before, now = Var("taken_before", BOOL), Var("taken", BOOL)
            flags.append((before, now, group.condition))
            # before the first term that is taken there is nothing to combine with
            result = tuple(select(now, value, lhs) for value, lhs in zip(result, combiner.lhs, strict=True))
        results += result
        sources += (
            group.sources
            if one_condition
            else (
                _taken_up_where(group.condition, source, value, is_fused(group, at))
                for at, (source, value) in enumerate(zip(group.sources, neutral or combiner.identity, strict=True))
            )
        )
    combiners = [group.combiner for group in groups]
    combiner = CommReducer(
        (*(v for c in combiners for v in c.lhs), *(before for before, _, _ in flags)),
        (*(v for c in combiners for v in c.rhs), *(now for _, now, _ in flags)),
        (*results, *(disjunction(before, now) for before, now, _ in flags)),
        (*(v for c in combiners for v in c.identity), *(const(False, BOOL) for _ in flags)),
        "_".join(c.name for c in combiners),
    )
    given = (*init, *(const(False, BOOL) for _ in flags)) if any(group.init for group in groups) else ()
    return Reduce(
        combiner,
        (*sources, *(taken for _, _, taken in flags)),
        groups[0].axes,
        condition if one_condition else TRUE,
        given,
        fused=(*fused, *(False for _ in flags)) if any(fused) else (),
    )
