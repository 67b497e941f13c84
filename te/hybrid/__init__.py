"""Hybrid script: Python functions of loops, ifs and assignments as operations."""

from __future__ import annotations

from .op import HybridOp
from .script import HybridScript, script

__all__ = ["HybridOp", "HybridScript", "script"]
