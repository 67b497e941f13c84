"""Exporters of kernels, which every kernel of a processor has; how they write is loaded when one does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...base import dataclass, field
from .companion import ALONE, Companion
from .final_kernel import FinalKernel, KernelExporter

if TYPE_CHECKING:
    from ..target import Target
    from .gpu import GpuFunction

__all__ = ["Exporter"]


@dataclass(frozen=True)
class Exporter(KernelExporter):
    """Exporter of the library of some kernels. target: what their code is for, where they have no variants. inner: functions that
    these call. optimised: others that they call, as LLVM IR after its optimiser. gpu: functions for GPUs beside them."""

    target: Target
    inner: tuple[FinalKernel, ...] = field(default=(), kw_only=True)
    optimised: tuple[str, ...] = field(default=(), kw_only=True)
    gpu: tuple[GpuFunction, ...] = field(default=(), kw_only=True)

    def __call__(
        self, path: str | os.PathLike[str], threads: str, loadable: bool = False, companion: Companion = ALONE
    ) -> tuple[Path, Path, Path]:
        """Write the library, and beside it NAME.h, NAME.json, NAME.pc and CMake files; returns where the first three are.
        companion: what else is in it. Raises ExportError."""
        from .library import write_library  # imported here: most kernels are never exported

        return write_library(self, path, threads, loadable, companion)

    def python_package(self, folder: Path, name: str, version: str, companion: Companion) -> Path:
        """Write a Python package of the kernels into a folder; returns it. Its parallel loops run on its own threads. Raises
        ExportError."""
        from .library import write_package

        return write_package(self, folder, name, version, companion)
