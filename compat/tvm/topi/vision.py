"""topi.vision: boxes and regions with TVM's arguments; topi.vision.rcnn, .nms and .ssd are this module too."""

from __future__ import annotations

import sys
from typing import Any

from ....te import Tensor
from ....topi import nn, transform
from ....topi import vision as _ours

__all__ = ["non_max_suppression", "reorg", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw"]


for _part in ("rcnn", "nms", "ssd"):
    sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    return sys.modules[__name__] if name in ("rcnn", "nms", "ssd") else getattr(_ours, name)


def roi_align_nchw(
    data: Tensor,
    rois: Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: Any = "avg",
    sample_ratio: int = -1,
) -> Tensor:
    """Regions of (N, C, H, W) as bins. mode: "avg", "max", their bytes, 0 or 1."""
    kind: Any = {0: "avg", 1: "max", b"avg": "avg", b"max": "max"}.get(mode, mode)
    return _ours.roi_align(data, rois, pooled_size, spatial_scale, kind, sample_ratio)


def roi_align_nhwc(
    data: Tensor,
    rois: Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: Any = "avg",
    sample_ratio: int = -1,
) -> Tensor:
    """Regions of (N, H, W, C) as bins."""
    image = transform.transpose(data, (0, 3, 1, 2))
    return transform.transpose(
        roi_align_nchw(image, rois, pooled_size, spatial_scale, mode, sample_ratio), (0, 2, 3, 1)
    )


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float) -> Tensor:
    """The greatest of bins of regions of (N, C, H, W)."""
    return _ours.roi_pool(data, rois, pooled_size, spatial_scale)


def reorg(data: Tensor, stride: int) -> Tensor:
    """Darknet's reorganisation: (N, C, H, W) as (N, C * stride^2, H / stride, W / stride).

    It reads the elements as an image of (C / stride^2, H * stride, W * stride), moves that one's blocks to its channels, and reads
    what comes out in the new shape. Raises BadOperand (TW0181) where stride^2 does not divide C, or stride H and W.
    """
    n, c, h, w = data.shape
    area = stride * stride
    image = transform.reshape(data, (n, c // area, h * stride, w * stride))
    return transform.reshape(nn.space_to_depth(image, stride), (n, c * area, h // stride, w // stride))


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Any = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Tensor | list[Tensor]:
    """The boxes that stay."""
    return _ours.non_max_suppression(
        data,
        valid_count,
        indices,
        int(max_output_size),
        float(iou_threshold),
        force_suppress,
        top_k,
        coord_start,
        score_index,
        id_index,
        return_indices,
        invalid_to_bottom,
    )
