"""OpenCV's wheel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Arrays, Builder, Runner, threads

__all__ = ["call"]


def call(function: Callable[..., Any]) -> Builder:
    """`function(cv2, inputs, outputs)`, which does the work once, into `outputs` by dst= where OpenCV takes it."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import cv2

        cv2.setNumThreads(threads())
        return lambda: function(cv2, inputs, outputs)

    return builder
