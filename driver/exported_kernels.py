"""Kernels of a model on their way into a library: LLVM IR after its optimiser, which another process may have made.

LLVM optimises one kernel while Python prepares the next, and the library is the optimised kernels, linked. What packs constants
stands beside a kernel in its text, is compiled for this process, and left out of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ..base import asdict, dataclass
from ..codegen.abi.parallel import PARALLEL_FOR
from ..codegen.errors import UnresolvedSymbol
from ..codegen.evaluate import MachineCode
from ..codegen.export.final_kernel import FinalKernel
from ..codegen.export.platforms import LINUX, find_platform
from ..codegen.llvm.backend import Prepared
from ..codegen.llvm.jit import compile_optimised, declared, optimised_text
from ..codegen.result import Opening
from ..codegen.target import Target
from ..ir.stmt import Function
from ..runtime.signature import Signature
from .cache.constants import resolve_symbols
from .cache.kernels import read_opening
from .cache.store import Entry

__all__ = ["ExportedKernel", "export_kernel", "load_packing", "read_exported", "write_exported"]


@dataclass(frozen=True)
class ExportedKernel:
    """A kernel that a library's functions call. code: after the optimiser, or as it comes before LLVM, where that needs to know what
    else is in the library. packs: the symbol of what packs its constants, where `code` has that; else packing computes it."""

    signature: Signature
    opening: Opening
    code: FinalKernel | str
    packs: str = ""
    packing: Function | None = None


def export_kernel(prepared: Prepared, target: Target) -> ExportedKernel:
    """Do LLVM's part, where that can be done for the kernel alone: constants have one name each in a library, and some systems other
    names for functions."""
    program, packing = prepared.programs[0], prepared.packing
    if prepared.constants or prepared.packed.symbols or find_platform(target) is not LINUX:
        return ExportedKernel(program.signature, prepared.opening, program, packing=packing)
    text = optimised_text(prepared.unit.parts, target)
    if packing is None or len(prepared.programs) == 1:  # code for elsewhere does not pack here
        return ExportedKernel(program.signature, prepared.opening, text, packing=packing)
    return ExportedKernel(program.signature, prepared.opening, text, prepared.unit.exports[1])


def write_exported(kernel: ExportedKernel) -> Entry | None:
    """A kernel for another process; None of one that is not text."""
    if isinstance(kernel.code, FinalKernel) or kernel.packing is not None:
        return None
    about = {
        "signature": kernel.signature.plain_json(),
        "opening": asdict(kernel.opening),
        "packs": kernel.packs,
    }
    return Entry(about, kernel.code.encode())


def read_exported(entry: Entry) -> ExportedKernel | None:
    """The kernel that write_exported wrote; None of anything else."""
    try:
        signature, packs = Signature.from_json(entry.about["signature"]), str(entry.about["packs"])
        return ExportedKernel(signature, read_opening(entry), entry.code.decode(), packs)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def load_packing(kernels: Sequence[ExportedKernel], target: Target) -> MachineCode | None:
    """The code of all that packs constants beside kernels, in this process; None where none does."""
    packing = {kernel.packs: kernel.code for kernel in kernels if kernel.packs and isinstance(kernel.code, str)}
    if not packing:
        return None
    symbols: dict[str, int] = {}
    for name in declared("\n".join(packing.values())):
        # what kernels alone call may be nowhere in this process
        with suppress(UnresolvedSymbol):
            symbols |= resolve_symbols([name], name == PARALLEL_FOR)
    return compile_optimised(list(packing.values()), target, list(packing), symbols)
