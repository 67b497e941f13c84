"""Operators on boxes: regions of images, and detections."""

from __future__ import annotations

from ..homes import HOMES
from ..lazy import check_on_use, lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, HOMES["topi.vision"], decorate=check_on_use("topi.vision"))
