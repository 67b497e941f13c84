"""Operators of neural networks."""

from __future__ import annotations

from ..lazily import lazily

_HOMES: dict[str, str] = {
    "depthwise_conv2d": "depthwise",
    "depthwise_conv2d_nchw": "depthwise",
    "depthwise_conv2d_nhwc": "depthwise",
    "dense": "dense",
    "packed_dense": "dense",
    "prepack_dense": "dense",
    "conv2d": "conv2d",
    "conv2d_NCHWc": "conv2d",
    "conv2d_nchw": "conv2d",
    "conv2d_nhwc": "conv2d",
    "conv2d_prepack": "conv2d",
    "conv2d_prepacked": "conv2d",
    "group_conv2d_nchw": "conv2d",
}
"""Where each name lives: the module below this package."""

__getattr__, __dir__ = lazily(__name__, _HOMES)
