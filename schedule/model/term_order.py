"""Laws of the reduction of a stage: may its terms be taken up in another order, or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...base.errors import ScheduleError, user_source
from ...ir.analysis.combiners import Laws, laws_of
from ...ir.expr import CommReducer, Expr, FloatImm, IfThenElse, IntImm, IterVar, ProducerLoad, Reduce
from ...ir.ops import is_const
from ...te.tensor import Tensor
from ..errors import UnsplitReduction
from .checks import declared_ranges, derived_roots, outline
from .layout import range_conditions
from .stage import Stage

__all__ = ["is_ordered", "laws_of_reduction", "may_split", "race_error", "refuse_split", "split_refusal"]


def laws_of_reduction(reduction: Reduce) -> Laws:
    """The laws of its combiner, for the terms that it takes up."""
    return _laws(reduction.combiner, tuple(_constant(reduction, at) for at in range(len(reduction.sources))))


def is_ordered(reduction: Reduce) -> bool:
    """Return whether the bits of a reduction depend on the order in which it takes up its terms."""
    return not laws_of_reduction(reduction).is_free


def may_split(reduction: Reduce) -> bool:
    """Return whether partial results, in any order, are known to make the same result but for rounding."""
    return laws_of_reduction(reduction).may_split(bool(reduction.init))


def split_refusal(stage: Stage, reduction: Reduce) -> str:
    """The reason why partial results are known to make another result; empty where they are not."""
    return laws_of_reduction(reduction).split_refusal(bool(reduction.init), _may_leave_parts_empty(stage, reduction))


def refuse_split(stage: Stage, axis: IterVar, reduction: Reduce, doing: str) -> None:
    """Raise UnsplitReduction (TW0234) where partial results over `axis` are known to make another result."""
    reason = split_refusal(stage, reduction)
    if not reason:
        return
    combiner = reduction.combiner
    gives = ", ".join(map(str, combiner.result))
    raise UnsplitReduction(
        f"{doing} '{axis.name}' of stage {stage.name}: its combiner {combiner.name} must not be split",
        reason=f"{combiner.name}({', '.join(v.name for v in (*combiner.lhs, *combiner.rhs))}) = {gives}; {reason}",
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix="leave the loops over reduce axes serial, and make loops over data axes parallel or vectorize them"
        if "not associative" in reason
        else "give te.comm_reducer the identity that changes no element that it is combined with",
    )


def race_error(
    error: type[ScheduleError],
    stage: Stage,
    axis: IterVar,
    doing: str,
    after: str,
    who: str,
    instead: str,
) -> ScheduleError:
    """The error for lanes or threads over a reduce axis. who: what would race. instead: the fix, up to the axes that it names."""
    element = f"{stage.name}[{', '.join(axis.name for axis in stage.op.axis)}]"
    data = ", ".join(leaf.name for leaf in stage.leaf_iter_vars if leaf.kind == "data")
    alone = all(root.kind == "reduce" for root in derived_roots(stage, axis))
    what = axis.name if alone else f"{axis.name}, which holds a reduce axis"
    reduction = getattr(stage.op, "reduction", None)
    tensor = f"s.rfactor({stage.name}, {axis.name}) first" if alone else "fuse data axes alone"
    if alone and reduction is not None and split_refusal(stage, reduction):
        tensor = f"leave {axis.name} serial: the combiner {reduction.combiner.name} must not be split"
    return error(
        f"{doing} '{axis.name}' of stage {stage.name}{after}",
        reason=f"{stage.name} is a reduction over {what}: {who} would race on {element}",
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=f"{instead} ({data}), or {tensor}" if data else tensor,
    )


def _may_leave_parts_empty(stage: Stage, reduction: Reduce) -> bool:
    """Return whether sizes, guards or conditions may leave a partial result without terms."""
    ranges = declared_ranges(stage)
    itself: dict[IterVar, Expr] = {axis: axis for axis in ranges}
    return (
        not is_const(reduction.condition, 1)
        or not all(isinstance(ranges[axis].extent, IntImm) for axis in stage.op.reduce_axis)
        or bool(range_conditions(stage.relations, ranges, itself))
    )


@lru_cache(1024)
def _laws(combiner: CommReducer, constants: tuple[Expr | None, ...]) -> Laws:
    return laws_of(combiner, constants)


def _constant(reduction: Reduce, at: int) -> Expr | None:
    """The constant that each term has for an element; None for none. Of partial results it is that of their terms."""
    value: Expr | None = reduction.sources[at]
    while isinstance(value, ProducerLoad) and isinstance(value.producer, Tensor):
        values: Sequence[Expr] = value.producer.op.values
        value = values[value.producer.value_index] if values else None
        if isinstance(value, Reduce):
            value = value.sources[value.value_index] if value.combiner is reduction.combiner else None
        elif isinstance(value, IfThenElse):
            value = value.true_value
    return value if isinstance(value, (IntImm, FloatImm)) else None
