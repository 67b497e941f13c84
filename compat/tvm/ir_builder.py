"""tvm.tir.ir_builder."""

from __future__ import annotations

from ...ir.builder import BufferHandle as BufferVar
from ...ir.builder import ProgramBuilder as IRBuilder
from ...ir.builder import ir_builder as create

__all__ = ["BufferVar", "IRBuilder", "create"]
