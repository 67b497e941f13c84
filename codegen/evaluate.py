"""Running what computes constants from constants, once, on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import InternalError
from ..ir.constant import Constant
from .llvm.jit import CompiledModule

__all__ = ["Evaluation", "run"]


@dataclass(frozen=True)
class Evaluation:
    """Machine code that computes constants. constants: what it reads, by symbol. calls: its functions, in an order in which
    they can run, each with what it writes. parallel: whether it shares loops among threads."""

    module: CompiledModule
    constants: Mapping[Constant, str]
    calls: tuple[tuple[str, tuple[Constant, ...]], ...]
    parallel: bool


def run(evaluation: Evaluation) -> None:
    """Fills the constants, which nobody changes from then on. Raises MemoryError where there is too little for it."""
    for symbol, results in evaluation.calls:
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p for _ in results))
        function: Callable[..., int] = kind(evaluation.module.address(symbol))
        status = function(*(held.address for held in results))
        if status == -1:
            raise MemoryError(f"too little memory to compute {', '.join(held.name for held in results)} while building")
        if status:
            raise InternalError(f"computing {', '.join(held.name for held in results)} while building ended with {status}")
        for held in results:
            held.data.flags.writeable = False
