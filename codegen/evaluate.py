"""Running what computes constants from constants, once, on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..base import InternalError, dataclass
from ..ir.constant import Constant

__all__ = ["Evaluation", "MachineCode", "run", "run_compiled"]


class MachineCode(Protocol):
    """Functions in machine code. object_bytes: an object file. messages: for each function, what its positive statuses stand for
    (status - 1). exports: the functions that `address` finds."""

    object_bytes: bytes
    messages: dict[str, tuple[str, ...]]
    exports: tuple[str, ...]

    def address(self, name: str) -> int:
        """Return the address of a function in this process."""
        ...

    def undefined_functions(self) -> tuple[str, ...]:
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
        run_compiled(
            evaluation.module.address(symbol),
            [held.address for held in results],
            ", ".join(held.name for held in results),
        )
        for held in results:
            held.data.flags.writeable = False


def run_compiled(address: int, pointers: Sequence[int], what: str) -> None:
    """Call `i32 f(pointers)`, which computes what is so called. Raises MemoryError where there is too little for it."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p for _ in pointers))
    function: Callable[..., int] = kind(address)
    status = function(*pointers)
    if status == -1:
        raise MemoryError(f"too little memory to compute {what} while building")
    if status:
        raise InternalError(f"computing {what} while building ended with {status}")
