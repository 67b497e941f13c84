"""Detectors' anchors: boxes around each place of a plane, and what a network's numbers make of them (SSD, Faster R-CNN)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import user_source
from ...ir.expr import IntImm
from ...te import hybrid
from ...te import polymorphic as te
from ...te.hybrid.runtime import allocate, output_tensor
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, BadParameter, check_count, tensor
from ..order import argsort
from ..transform import injective
from .boxes import non_max_suppression

__all__ = ["multibox_detection", "multibox_prior", "multibox_transform_loc", "proposal"]


def multibox_prior(
    data: Tensor,
    sizes: Sequence[float] = (1,),
    ratios: Sequence[float] = (1,),
    steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Tensor:
    """Anchors at every place of a plane: one for each size at the first ratio, then one for each further ratio at the
    first size.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    sizes : sequence of float, default (1,)
        Of anchors, in fractions of the image.
    ratios : sequence of float, default (1,)
        Of width to height.
    steps : sequence of float, default (-1, -1)
        From place to place, down and across; -1 for 1 / H and 1 / W.
    offsets : sequence of float, default (0.5, 0.5)
        Of the centre within a place, down and across.
    clip : bool, default False
        Whether anchors are cut off to [0, 1].

    Returns
    -------
    Tensor
        float32, (1, H W (S + R - 1), 4): x0, y0, x1, y1 in fractions of the image.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "multibox_prior", 4)
    height, width = _known_extent(source, 2, "multibox_prior"), _known_extent(source, 3, "multibox_prior")
    _check_positive(sizes, "sizes of multibox_prior")
    _check_positive(ratios, "ratios of multibox_prior")
    steps, offsets = (
        check_count(steps, "steps of multibox_prior", 2),
        check_count(offsets, "offsets of multibox_prior", 2),
    )
    # S + R - 1 and not S * R, as MXNet's SSD has them: further ratios go with the first size alone
    shapes = [(size, 1.0) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    # MXNet's prior boxes are fractions of both sides, so a square one needs the ratio of the sides
    aspect = height / max(width, 1)  # of no places, where there are none
    halves = np.asarray(
        [(size * aspect * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2) for size, ratio in shapes], "float32"
    )
    half = te.constant(halves, "halves")
    down, across = (
        step if step > 0 else 1.0 / max(extent, 1) for step, extent in zip(steps, (height, width), strict=True)
    )
    count = len(shapes)

    def corner(_: Any, box: Any, at: Any) -> Any:
        place = box // count
        x = ((place % width).astype("float32") + float(offsets[1])) * float(across)
        y = ((place // width).astype("float32") + float(offsets[0])) * float(down)
        centre, reach = te.select(at % 2 == 0, x, y), half[box % count, at % 2]
        value = te.select(at < 2, centre - reach, centre + reach)
        return te.max(te.min(value, 1.0), 0.0) if clip else value

    return injective((1, height * width * count, 4), corner, "multibox_prior")


def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
) -> list[Tensor]:
    """Boxes of anchors, moved by what was predicted. Those whose best class scores threshold or more come first.

    Parameters
    ----------
    cls_prob : Tensor
        Scores of the classes, of which 0 is the background, (N, K, A).
    loc_pred : Tensor
        Offsets, (N, 4 A).
    anchor : Tensor
        (1, A, 4).
    clip : bool, default True
        Whether boxes are cut off to [0, 1].
    threshold : float, default 0.01
        The least score.
    variances : sequence of float, default (0.1, 0.1, 0.2, 0.2)
        The factors of the offsets.

    Returns
    -------
    list of Tensor
        (class - 1, score, x0, y0, x1, y1), (N, A, 6), -1 behind the boxes that count; and how many they are, int32
        (N,).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    scores = tensor(cls_prob, "the scores of multibox_transform_loc", 3)
    offsets, boxes = tensor(loc_pred, "its offsets", 2), tensor(anchor, "its anchors", 3)

    check_count(variances, "variances of multibox_transform_loc", 4)

    def moved(b: Any, j: Any, at: Any) -> Any:
        low, high = boxes[0, j, at % 2], boxes[0, j, at % 2 + 2]
        near, far = (
            te.select(at % 2 == 0, float(variances[k]), float(variances[k + 1])).astype(offsets.dtype) for k in (0, 2)
        )
        centre = offsets[b, j * 4 + at % 2] * near * (high - low) + (low + high) / 2
        # networks learn logarithms of extents, which are positive for every output
        reach = te.exp(offsets[b, j * 4 + at % 2 + 2] * far) * (high - low) / 2
        value = te.select(at < 2, centre - reach, centre + reach)
        return te.max(te.min(value, 1.0), 0.0) if clip else value

    corners = injective((scores.shape[0], scores.shape[2], 4), moved, "corners")
    best, counts = _best(scores, corners, te.const(float(threshold), scores.dtype))
    return [best, counts]


def _check_positive(numbers: Sequence[float], subject: str) -> None:
    if not len(numbers) or not all(0 < number < math.inf for number in numbers):
        raise BadParameter(
            f"{subject} are numbers above 0",
            reason=f"got {numbers!r}"[:200],
            called=user_source(),
            fix="write one or more",
        )


@hybrid.script
def _best(scores: Any, corners: Any, threshold: Any) -> Any:
    boxes = output_tensor((corners.shape[0], corners.shape[1], 6), corners.dtype)
    counts = output_tensor((scores.shape[0],), "int32")
    for b in range(scores.shape[0]):
        found = 0
        for j in range(scores.shape[2]):
            kind = 0
            best = scores[b, 0, j]
            for k in range(1, scores.shape[1]):
                # strictly, so that of equal classes the first stays; 0 is the background
                if kind == 0 or scores[b, k, j] > best:
                    kind = k
                    best = scores[b, k, j]
            if kind > 0 and best >= threshold:
                boxes[b, found, 0] = kind - 1
                boxes[b, found, 1] = best
                for k in range(4):
                    boxes[b, found, k + 2] = corners[b, j, k]
                found = found + 1
        for j in range(found, scores.shape[2]):
            for k in range(6):
                boxes[b, j, k] = -1
        counts[b] = found
    return boxes, counts


def multibox_detection(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> Tensor:
    """multibox_transform_loc, then non_max_suppression of what it gives.

    Parameters
    ----------
    cls_prob : Tensor
        As of multibox_transform_loc.
    loc_pred : Tensor
        As of multibox_transform_loc.
    anchor : Tensor
        As of multibox_transform_loc.
    clip : bool, default True
        As of multibox_transform_loc.
    threshold : float, default 0.01
        As of multibox_transform_loc.
    nms_threshold : float, default 0.5
        The overlap from which on a box goes.
    force_suppress : bool, default False
        Whether boxes of other classes count too.
    variances : sequence of float, default (0.1, 0.1, 0.2, 0.2)
        As of multibox_transform_loc.
    nms_topk : int, default -1
        How many boxes are looked at; -1 for all.

    Returns
    -------
    Tensor
        (N, A, 6), -1 in the place of boxes that go.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    moved, counts = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances)

    def place(_: Any, j: Any) -> Any:
        return j.astype("int32")

    places = injective(moved.shape[:2], place, "places")
    kept = non_max_suppression(moved, counts, places, -1, nms_threshold, force_suppress, nms_topk, return_indices=False)
    assert isinstance(kept, Tensor)
    return kept


def proposal(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int = 16,
    threshold: float = 0.7,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    rpn_min_size: float = 16,
    iou_loss: bool = False,
) -> Tensor:
    """The regions of Faster R-CNN's first stage.

    Of the rpn_pre_nms_top_n best boxes those stay which overlap none before by more than the threshold; where fewer
    than rpn_post_nms_top_n stay, they are repeated. K is len(scales) len(ratios).

    Parameters
    ----------
    cls_prob : Tensor
        The scores of the objects behind those of the background, (N, 2 K, H, W).
    bbox_pred : Tensor
        (N, 4 K, H, W).
    im_info : Tensor
        Height, width and scale of each image, (N, 3).
    scales : sequence of float
        Of anchors.
    ratios : sequence of float
        Of anchors.
    feature_stride : int, default 16
        Pixels of the image from place to place.
    threshold : float, default 0.7
        The overlap from which on a box goes.
    rpn_pre_nms_top_n : int, default 6000
        How many boxes are looked at.
    rpn_post_nms_top_n : int, default 300
        How many come out, for each image.
    rpn_min_size : float, default 16
        Boxes of less than this times the scale count for nothing.
    iou_loss : bool, default False
        Whether bbox_pred moves corners.

    Returns
    -------
    Tensor
        float32, (N rpn_post_nms_top_n, 5): the image, then x0, y0, x1, y1 in its pixels.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    scores, deltas = tensor(cls_prob, "the scores of proposal", 4), tensor(bbox_pred, "its offsets", 4)
    about = tensor(im_info, "its images", 2)
    height, width = _known_extent(scores, 2, "proposal"), _known_extent(scores, 3, "proposal")
    corners = te.constant(_anchors(scales, ratios, feature_stride), "anchors")
    count = len(scales) * len(ratios)
    shape = (scores.shape[0], height * width * count)

    def moved(b: Any, box: Any, at: Any) -> Any:
        k, place = box % count, box // count
        start = (place % width * feature_stride, place // width * feature_stride)
        low, high = (
            (corners[k, at % 2 + shift] + te.select(at % 2 == 0, *start).astype("float32")) for shift in (0, 2)
        )
        delta = [deltas[b, k * 4 + at % 2 + shift, place // width, place % width] for shift in (0, 2)]
        if iou_loss:
            value = te.select(at < 2, low + delta[0], high + delta[1])
        else:
            # corners of this operator are pixels that belong to the box, as in Caffe's Faster R-CNN
            extent = high - low + 1
            centre = delta[0] * extent + low + 0.5 * (extent - 1)
            reach = 0.5 * (te.exp(delta[1]) * extent - 1)
            value = te.select(at < 2, centre - reach, centre + reach)
        return te.max(te.min(value, about[b, 1 - at % 2] - 1), 0.0)

    plain = injective((*shape, 4), moved, "moved")
    least = float(rpn_min_size)

    def is_small(b: Any, box: Any) -> Any:
        return te.any(*(plain[b, box, at + 2] - plain[b, box, at] + 1 < about[b, 2] * least for at in (0, 1)))

    def score(b: Any, box: Any) -> Any:
        place = box // count
        outside = te.any(
            (place % width).astype("float32") >= about[b, 1] / feature_stride,
            (place // width).astype("float32") >= about[b, 0] / feature_stride,
            is_small(b, box),
        )
        # ranked last and not left out, since the number of results is fixed
        return te.select(outside, -1.0, scores[b, box % count + count, place // width, place % width])

    def corner(b: Any, box: Any, at: Any) -> Any:
        # MXNet grows boxes that are too small, and gives them a score of -1
        grown = about[b, 2] * least / 2
        return plain[b, box, at] + te.select(is_small(b, box), te.select(at < 2, -grown, grown), 0.0)

    ranked = argsort(injective(shape, score, "scores"), None, 1, False, "int32")
    first = min(rpn_pre_nms_top_n, height * width * count) if rpn_pre_nms_top_n > 0 else height * width * count
    boxes = injective((*shape, 4), corner, "boxes")
    return _select_proposals(boxes, ranked, te.const(float(threshold), "float32"), first, rpn_post_nms_top_n)


def _anchors(scales: Sequence[float], ratios: Sequence[float], stride: int) -> Any:
    """(K, 4): around a cell of stride pixels, a row for each scale of each ratio, with whole sides before they are scaled."""
    _check_positive(scales, "scales of proposal")
    _check_positive(ratios, "ratios of proposal")
    centre, rows = 0.5 * (stride - 1.0), list[tuple[float, ...]]()
    for ratio in ratios:
        wide = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
        high = math.floor(wide * ratio + 0.5)
        for scale in scales:
            reach = (0.5 * (wide * scale - 1), 0.5 * (high * scale - 1))
            rows.append((centre - reach[0], centre - reach[1], centre + reach[0], centre + reach[1]))
    return np.asarray(rows, "float32")


@hybrid.script
def _select_proposals(boxes: Any, order: Any, threshold: Any, first: int, most: int) -> Any:
    out = output_tensor((boxes.shape[0] * most, 5), "float32")
    for b in range(boxes.shape[0]):
        gone = allocate((first,), "int32")
        kept = 0
        for i in range(first):
            gone[i] = 0
        for i in range(first):
            if gone[i] == 0:
                kept = kept + 1
                one = order[b, i]
                area = (boxes[b, one, 2] - boxes[b, one, 0] + 1) * (boxes[b, one, 3] - boxes[b, one, 1] + 1)
                for j in range(i + 1, first):
                    other = order[b, j]
                    wide = min(boxes[b, one, 2], boxes[b, other, 2]) - max(boxes[b, one, 0], boxes[b, other, 0]) + 1
                    high = min(boxes[b, one, 3], boxes[b, other, 3]) - max(boxes[b, one, 1], boxes[b, other, 1]) + 1
                    if wide > 0 and high > 0:
                        own = (boxes[b, other, 2] - boxes[b, other, 0] + 1) * (
                            boxes[b, other, 3] - boxes[b, other, 1] + 1
                        )
                        if wide * high > threshold * (area + own - wide * high):
                            gone[j] = 1
        at = 0
        # too few boxes are repeated in their order until all places are full
        for _ in range((most + kept - 1) // max(kept, 1)):
            for i in range(first):
                if gone[i] == 0 and at < most:
                    out[b * most + at, 0] = b
                    for k in range(4):
                        out[b * most + at, k + 1] = boxes[b, order[b, i], k]
                    at = at + 1
    return out


def _known_extent(source: Tensor, at: int, subject: str) -> int:
    extent = source.shape[at]
    if not isinstance(extent, IntImm):
        raise BadOperand(
            f"{subject}: the plane of {tensor_text(source)} is not known",
            declared=source.source,
            called=user_source(),
            fix="constant heights and widths",
        )
    return extent.value
