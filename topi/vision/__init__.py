"""Operators on boxes: regions of images, and detections."""

from __future__ import annotations

from ..lazy import check_on_use, lazily

_HOMES: dict[str, str] = {
    "get_valid_counts": "boxes",
    "multibox_detection": "anchors",
    "multibox_prior": "anchors",
    "multibox_transform_loc": "anchors",
    "non_max_suppression": "boxes",
    "proposal": "anchors",
    "roi_align": "regions",
    "roi_pool": "regions",
}
"""Where each name lives: the module below this package."""

__getattr__, __dir__ = lazily(__name__, _HOMES, decorate=check_on_use("topi.vision"))
