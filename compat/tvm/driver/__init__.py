"""tvm.driver."""

from __future__ import annotations

from . import build_module
from .build_module import IRModule, Module, build, load_module, lower

__all__ = ["IRModule", "Module", "build", "build_module", "load_module", "lower"]
