"""Detections: those whose score counts, and of those that overlap the best one."""

from __future__ import annotations

from typing import Any

from ... import te
from ...base.errors import user_source
from ...ir.expr import IntImm
from ...te.hybrid.runtime import allocate, output_tensor
from ...te.indices import clipped_index
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, tensor
from ..order import argsort
from ..signatures import Number
from ..transform import injective

__all__ = ["get_valid_counts", "non_max_suppression"]


def get_valid_counts(
    data: Tensor, score_threshold: Number = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """The boxes whose score is above score_threshold, and whose class is not a negative number.

    Parameters
    ----------
    data : Tensor
        (batch, boxes, numbers).
    score_threshold : number, default 0
        The score that boxes have to exceed.
    id_index : int, default 0
        Where the class stands; -1 for none.
    score_index : int, default 1
        Where the score stands.

    Returns
    -------
    list of Tensor
        How many they are, int32 (batch,); these first, in the shape and dtype of data, -1 behind them; and where they
        stood, int32 (batch, boxes), -1 behind them.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = _boxes(data, "get_valid_counts")
    counts, boxes, places = _valid(source, te.const(float(score_threshold), source.dtype), id_index, score_index)
    return [counts, boxes, places]


@te.hybrid.script
def _valid(data: Any, threshold: Any, id_index: int, score_index: int) -> Any:
    counts = output_tensor((data.shape[0],), "int32")
    boxes = output_tensor(data.shape, data.dtype)
    places = output_tensor((data.shape[0], data.shape[1]), "int32")
    for b in range(data.shape[0]):
        found = 0
        for j in range(data.shape[1]):
            counted = data[b, j, score_index] > threshold
            if id_index >= 0:
                counted = counted and data[b, j, max(id_index, 0)] >= 0
            if counted:
                for k in range(data.shape[2]):
                    boxes[b, found, k] = data[b, j, k]
                places[b, found] = j
                found = found + 1
        for j in range(found, data.shape[1]):
            for k in range(data.shape[2]):
                boxes[b, j, k] = -1
            places[b, j] = -1
        counts[b] = found
    return counts, boxes, places


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Tensor | list[Tensor]:
    """The boxes, by falling score, that overlap none which stays before by iou_threshold or more.

    Parameters
    ----------
    data : Tensor
        (batch, boxes, numbers), as get_valid_counts gives them.
    valid_count : Tensor
        As get_valid_counts gives it, (batch,).
    indices : Tensor
        Where boxes stood, as get_valid_counts gives it, (batch, boxes).
    max_output_size : int, default -1
        How many stay at most; -1 for all.
    iou_threshold : float, default 0.5
        The overlap (intersection over union) from which on a box goes.
    force_suppress : bool, default False
        Whether boxes of other classes count too.
    top_k : int, default -1
        How many are looked at; -1 for all.
    coord_start : int, default 2
        Where x0, y0, x1, y1 begin.
    score_index : int, default 1
        Where the score stands.
    id_index : int, default 0
        Where the class stands; -1 for none.
    return_indices : bool, default True
        Whether places are returned, or boxes.
    invalid_to_bottom : bool, default False
        Whether boxes that go stand behind those that stay, or leave -1 in their places.

    Returns
    -------
    Tensor or list of Tensor
        With return_indices where they stood, int32 (batch, boxes), -1 behind them, and how many, int32 (batch, 1); else
        the boxes.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = _boxes(data, "non_max_suppression")
    given, places = tensor(valid_count, "the counts of non_max_suppression", 1), tensor(indices, "its indices", 2)

    def count(b: Any) -> Any:
        # counts are data: more than there are boxes would read outside
        return clipped_index(given[b], source.shape[1] + 1).astype("int32")

    def score(b: Any, j: Any) -> Any:
        return source[b, j, score_index]

    counts = injective(given.shape, count, "counts")
    scores = injective(source.shape[:2], score, "scores")
    order = argsort(scores, counts, 1, False, "int32")
    boxes, found, number = _suppress_boxes(
        source,
        order,
        counts,
        places,
        te.const(iou_threshold, source.dtype),
        max_output_size,
        top_k,
        coord_start,
        score_index,
        id_index,
        1 if force_suppress or id_index < 0 else 0,
        1 if invalid_to_bottom else 0,
    )
    return [found, number] if return_indices else boxes


@te.hybrid.script
def _suppress_boxes(  # noqa: C901 (a script cannot be cut into functions)
    data: Any,
    order: Any,
    counts: Any,
    places: Any,
    threshold: Any,
    most: int,
    first: int,
    at: int,
    score: int,
    kind: int,
    every: int,
    packed: int,
) -> Any:
    boxes = output_tensor(data.shape, data.dtype)
    found = output_tensor(order.shape, "int32")
    number = output_tensor((data.shape[0], 1), "int32")
    for b in range(data.shape[0]):
        kept = allocate((data.shape[1],), "int32")
        count = counts[b]
        if first > 0:
            count = min(count, first)
        for j in range(data.shape[1]):
            found[b, j] = -1
            for k in range(data.shape[2]):
                boxes[b, j, k] = -1
            if j < count:
                kept[j] = 1
        stay = 0
        for j in range(count):
            # boxes without a positive score never stay, nor do they remove others
            if kept[j] == 1 and (most < 0 or stay < most) and data[b, order[b, j], score] > 0:
                place = order[b, j]
                target = j
                # else results have gaps, the -1 of boxes that went
                if packed == 1:
                    target = stay
                for k in range(data.shape[2]):
                    boxes[b, target, k] = data[b, place, k]
                found[b, stay] = places[b, place]
                stay = stay + 1
                area = (data[b, place, at + 2] - data[b, place, at]) * (data[b, place, at + 3] - data[b, place, at + 1])
                for i in range(j + 1, count):
                    other = order[b, i]
                    same = True
                    if every == 0:
                        same = data[b, other, max(kind, 0)] == data[b, place, max(kind, 0)]
                    # a threshold of 0 keeps all, where every touching box would go
                    if same and threshold > 0:
                        wide = min(data[b, place, at + 2], data[b, other, at + 2]) - max(
                            data[b, place, at], data[b, other, at]
                        )
                        high = min(data[b, place, at + 3], data[b, other, at + 3]) - max(
                            data[b, place, at + 1], data[b, other, at + 1]
                        )
                        if wide > 0 and high > 0:
                            own = (data[b, other, at + 2] - data[b, other, at]) * (
                                data[b, other, at + 3] - data[b, other, at + 1]
                            )
                            # multiplied out: a division could be by the area 0
                            if wide * high >= threshold * (area + own - wide * high):
                                kept[i] = 0
        number[b, 0] = stay
    return boxes, found, number


def _boxes(data: Any, subject: str) -> Tensor:
    source = tensor(data, subject, 3)
    if not source.dtype.is_float or not isinstance(source.shape[2], IntImm):
        raise BadOperand(
            f"{subject}: {tensor_text(source)} are not boxes",
            declared=source.source,
            called=user_source(),
            fix="floats (batch, boxes, numbers), as many numbers for each box as is known",
        )
    return source
