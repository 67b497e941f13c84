"""Operators of neural networks."""

from __future__ import annotations

from ..homes import HOMES
from ..lazy import check_on_use, lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, HOMES["topi.nn"], decorate=check_on_use("topi.nn"))
