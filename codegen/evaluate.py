"""Running what computes constants from constants, once, on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..errors import InternalError
from ..ir.constant import Constant

__all__ = ["Evaluation", "MachineCode", "run"]


class MachineCode(Protocol):
    """Functions in machine code. object_bytes: an object file. messages: for each function, what its positive statuses stand for
    (status - 1). exports: the functions that `address` finds."""

    object_bytes: bytes
    messages: dict[str, tuple[str, ...]]
    exports: tuple[str, ...]

    def address(self, name: str) -> int:
        """Where a function is in this process."""
        ...

    def outside(self) -> tuple[str, ...]:
        """The functions that the code calls and does not define."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Machine code that computes constants. constants: what it reads, by symbol. calls: its functions, in an order in which
    they can run, each with what it writes. parallel: whether it shares loops among threads."""

    module: MachineCode
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
