"""Operators on boxes: regions of images, and detections."""

from __future__ import annotations

from ..homes import HOMES
from ..lazy import check_on_use, lazily

__getattr__, __dir__ = lazily(__name__, HOMES["topi.vision"], decorate=check_on_use("topi.vision"))
