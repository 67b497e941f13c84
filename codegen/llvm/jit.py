"""From LLVM text to machine code in this process, through ORC's LLJIT."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import llvmlite.binding as llvm

from ...errors import InternalError
from ..errors import ForeignTarget, RejectedByCompiler, UnresolvedSymbol
from ..target import Target

__all__ = ["CompiledModule", "compile_text"]

_numbers = itertools.count()
_link_lock = threading.Lock()


@dataclass
class CompiledModule:
    """Machine code, and every text on the way to it. The code lives as long as this object.

    ir_text: LLVM IR as it was made. messages: for each kernel, what its positive statuses stand for (status - 1).
    """

    target: Target
    ir_text: str
    object_bytes: bytes = field(repr=False)
    messages: dict[str, tuple[str, ...]]
    _parts: tuple[str, ...] = field(repr=False, default=())
    _code: _LinkedCode | None = field(repr=False, default=None)

    def address(self, name: str) -> int:
        """The address of a function in this process. Raises ForeignTarget where the code is for another machine."""
        if self._code is None:
            raise _foreign(self.target)
        return self._code.address(name)

    def asm(self) -> str:
        """The machine code as assembly text."""
        with _optimised(self._parts, self.target) as (machine, module):
            return machine.emit_assembly(module)

    def llvm_text_optimized(self) -> str:
        """The LLVM IR that machine code was made from."""
        with _optimised(self._parts, self.target) as (_, module):
            return str(module)
