"""Passes: from functions to functions that mean the same. One file a pass; a target's pipeline puts them in order."""

from .common.runner import Pass, run_pipeline

__all__ = ["Pass", "run_pipeline"]
