"""Operators on images."""

from __future__ import annotations

from ..lazy import check_on_use, lazily

_HOMES: dict[str, str] = {
    "affine_grid": "sampling",
    "bilateral_slice": "bilateral",
    "box_blur": "blur",
    "crop_and_resize": "volumes",
    "dilation2d_nchw": "morphology",
    "dilation2d_nhwc": "morphology",
    "gaussian_blur": "blur",
    "grid_sample": "sampling",
    "resize": "resize",
    "resize1d": "volumes",
    "resize2d": "resize",
    "resize3d": "volumes",
    "unsharp_mask": "unsharp",
}
"""Where each name lives: the module below this package."""

__getattr__, __dir__ = lazily(__name__, _HOMES, decorate=check_on_use("topi.image"))
