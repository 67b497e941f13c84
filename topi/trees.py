"""Ensembles of decision trees, walked from node to node: (rows, trees) at a time."""

from __future__ import annotations

import operator as operators
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import user_source
from ..ir import Expr, ops
from ..te import polymorphic as te
from ..te.tag import AlgorithmTag
from ..te.tensor import Tensor
from .checks import BadParameter
from .row import floating, integers, operator, sample

__all__: list[str] = []

COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
"""The comparisons of an element with a node's split, by the numbers of their kinds."""
_DECLARED: tuple[Any, ...] = (operators.le, operators.lt, operators.ge, operators.gt, operators.eq, operators.ne)


def _numpy_walk(
    x: Any,
    place: Any,
    feature: Any,
    split: Any,
    after: Any,
    mode: Any = None,
    missing: Any = None,
    *,
    steps: int,
    comparisons: Sequence[int] = (0,),
) -> Any:
    for _ in range(steps):
        here = np.clip(place, 0, len(feature) - 1)
        value = np.take_along_axis(x, np.clip(feature[here], 0, x.shape[1] - 1).astype(np.int64), 1)
        answer = COMPARISONS[comparisons[0]](value, split[here])
        for at, number in enumerate(comparisons[1:], 1):
            answer = np.where(mode[here] == at, COMPARISONS[number](value, split[here]), answer)
        if missing is not None:
            answer |= missing[here] & np.isnan(value)
        place = after[here, answer.astype(np.int64)]
    return place


@operator(
    "walk_trees",
    reference=_numpy_walk,
    samples=[
        sample(
            floating(5, 3),
            integers(5, 7, below=9, dtype="int32"),
            integers(9, below=3, dtype="int32"),
            floating(9),
            integers(9, 2, below=9, dtype="int32"),
            steps=3,
            comparisons=(1,),
        ),
        sample(
            floating(1, 3),
            integers(1, 70, below=9, dtype="int32"),
            integers(9, below=3, dtype="int32"),
            floating(9),
            integers(9, 2, below=9, dtype="int32"),
            integers(9, below=3, dtype="int32"),
            np.arange(9) % 2 == 0,
            steps=2,
            comparisons=(0, 2, 4),
        ),
    ],
)
def _walk_trees(
    x: Tensor,
    place: Tensor,
    feature: Tensor,
    split: Tensor,
    after: Tensor,
    mode: Tensor | None = None,
    missing: Tensor | None = None,
    *,
    steps: int,
    comparisons: Sequence[int] = (0,),
) -> Tensor:
    """The nodes (rows, trees) that so many steps from those of `place` lead to, for rows x (rows, features). A step from node i
    compares x[feature[i]] with split[i], and goes to after[i, 1] where that is true, otherwise to after[i, 0]; places and features
    outside are the nearest. A leaf follows itself.

    comparisons: by numbers in COMPARISONS. mode: which of them a node asks for, the first where it is none of the others. missing:
    the nodes that take NaN for true."""

    numbers = range(len(_DECLARED))
    if steps < 1 or not {*comparisons} <= {*numbers} or not comparisons or (len(comparisons) > 1 and mode is None):
        raise BadParameter(
            f"walk_trees cannot take {steps} steps by the comparisons {comparisons}",
            called=user_source(),
            reason="there is a step at least, and a mode for each node where there are several comparisons",
            fix=f"comparisons from {numbers[0]} to {numbers[-1]}, and a mode where there are several",
        )

    def answer(r: Expr, node: Expr) -> Expr:
        value = x[r, _nearest(feature[node], x.shape[1])]
        result: Expr = _DECLARED[comparisons[0]](value, split[node])
        if mode is not None:
            for at, number in enumerate(comparisons[1:], 1):
                result = ops.select(ops.equal(mode[node], at), _DECLARED[number](value, split[node]), result)
        return result if missing is None else te.any(result, te.all(missing[node], te.isnan(value)))

    for step in range(steps):
        tag = AlgorithmTag("walk_trees" if step == steps - 1 else "walk_trees.step")

        def following(r: Expr, t: Expr, place: Tensor = place) -> Expr:
            node = _nearest(place[r, t], feature.shape[0])
            return after[node, answer(r, node).astype("int32")]

        place = te.compute(place.shape, following, name=f"step{step + 1}", tag=tag)
    return place


def _nearest(index: Expr, extent: Any) -> Expr:
    """The index inside that is nearest, in as many bits: wider ones gather half as many lanes."""
    return te.max(te.min(index, ops.convert(extent) - 1), 0)
