"""Requests to backends beside the functions themselves, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..base import dataclass, user_source
from ..ir.constant import Constant
from ..ir.passes.common.options import AS_USUAL, PassOptions
from ..ir.passes.common.runner import Watcher
from ..runtime.module import Module
from ..runtime.signature import Signature
from .errors import ArgumentNotBuildable
from .evaluate import Evaluation, MachineCode

__all__ = ["BuildOptions", "BuildResult", "NativeCode", "Opening", "require_switch"]


def require_switch(name: str, value: object) -> None:
    """Raise ArgumentNotBuildable (TW0420) for a switch that is neither on nor off, such as "no", which Python takes for true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentNotBuildable(
            f"{name} is {value!r}"[:200],
            reason="it is a switch",
            called=user_source(),
            allowed="True, False",
            fix=f"{name}=True, or leave it out",
        )


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options of a build.

    bounds_check: data-dependent indices are checked while a kernel runs. fast_math: floats may be reassociated and divided
    by reciprocals. fp_contract: products may be contracted into sums. passes: what passes leave out, or do more of. watchers: see
    the function after each pass. quick: LLVM takes a tenth of its time for code that does the same, with the same bits, slowly.
    """

    bounds_check: bool = False
    fast_math: bool = False
    fp_contract: bool = False
    passes: PassOptions = AS_USUAL
    watchers: tuple[Watcher, ...] = ()
    quick: bool = False

    def __post_init__(self) -> None:
        for name in ("bounds_check", "fast_math", "fp_contract"):
            require_switch(name, getattr(self, name))

    @property
    def contracts(self) -> bool:
        """Return whether products may be contracted into sums: fast_math implies it."""
        return self.fast_math or self.fp_contract


@dataclass(frozen=True, slots=True)
class Opening:
    """Arguments of a function for open constants, after those that were declared, and how some of it is made.

    reads: in this order, a constant by its name, or a result by its number. results: the dtype and the shape of what a function of
    its own computes of the constants `sources`, once: `i32 packing(results, sources)`. digest: of that function's program.
    """

    reads: tuple[str | int, ...] = ()
    results: tuple[tuple[str, tuple[int, ...]], ...] = ()
    sources: tuple[str, ...] = ()
    digest: str = ""

    @property
    def is_packed(self) -> bool:
        """Return whether there is such a function."""
        return bool(self.results)


@dataclass(frozen=True, slots=True)
class NativeCode:
    """Machine code that runs in this process, with what a later process has to know to link it again.

    parallel: it shares loops among threads. calls_python: it holds the addresses of Python functions. imports_c: it calls what
    came from C. constants: what it reads, by symbol. evaluation: how those of them were computed that the program does not have.
    opening: of a function that takes open constants; what packs these is the second one of the code.
    """

    module: MachineCode
    signatures: Sequence[Signature]
    parallel: bool
    calls_python: bool
    imports_c: bool
    constants: Mapping[Constant, str]
    evaluation: Evaluation | None
    opening: Opening = Opening()


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Result of a build.

    module: the kernels. native: their machine code, where it runs in this process; None for other backends, and for another
    machine's.
    """

    module: Module
    native: NativeCode | None = None
