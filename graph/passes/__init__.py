"""Passes over graphs, a file each, in a pipeline that can be printed: `for name, one in tw.graph.PASSES.items(): print(name,
one)`."""

from __future__ import annotations

from .pipeline import PASSES, default_passes, difference_text, grouped, passes_named, transformed

__all__ = ["PASSES", "default_passes", "difference_text", "grouped", "passes_named", "transformed"]
