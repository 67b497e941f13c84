"""Laws of the reduction of a stage: may its terms be taken up in another order, or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...errors import user_source
from ...ir.analysis.combiners import Laws, laws_of
from ...ir.expr import CommReducer, Expr, FloatImm, IfThenElse, IntImm, IterVar, ProducerLoad, Reduce
from ...ir.ops import is_const
from ...te.tensor import Tensor
from ..errors import UnsplitReduction
from .axes import declared_ranges, outline
from .layout import inexact_splits
from .stage import Stage

__all__ = ["is_ordered", "laws_of_reduction", "may_split", "refuse_split"]


def laws_of_reduction(reduction: Reduce) -> Laws:
    """The laws of its combiner, for the terms that it takes up."""
    return _laws(reduction.combiner, tuple(_constant(reduction, at) for at in range(len(reduction.sources))))


def is_ordered(reduction: Reduce) -> bool:
    """Whether the bits of a reduction depend on the order in which it takes up its terms."""
    return not laws_of_reduction(reduction).is_free


def may_split(reduction: Reduce) -> bool:
    """Whether partial results, in any order, are known to make the same result but for rounding."""
    return laws_of_reduction(reduction).may_split(bool(reduction.init))


def refuse_split(stage: Stage, axis: IterVar, reduction: Reduce, doing: str) -> None:
    """Raise UnsplitReduction (TW0234) where partial results over `axis` are known to make another result."""
    reason = laws_of_reduction(reduction).split_refusal(bool(reduction.init), _may_leave_parts_empty(stage, reduction))
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


def _may_leave_parts_empty(stage: Stage, reduction: Reduce) -> bool:
    """Whether sizes, guards or conditions may leave a partial result without terms."""
    ranges = declared_ranges(stage)
    itself: dict[IterVar, Expr] = {axis: axis for axis in ranges}
    return (
        not is_const(reduction.condition, 1)
        or not all(isinstance(ranges[axis].extent, IntImm) for axis in stage.op.reduce_axis)
        or bool(inexact_splits(stage.relations, ranges, itself))
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
