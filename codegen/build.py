"""Lowered functions to kernels that Python calls, by the backend of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.passes.common.options import apply_options
from ..ir.passes.common.runner import environment_watchers
from ..ir.stmt import Function
from .result import BuildOptions, BuildResult
from .target import Target

__all__ = ["build_kernels"]


def build_kernels(functions: Sequence[Function], target: Target, options: BuildOptions | None = None) -> BuildResult:
    """A kernel for each function (of stage "loops"), by name, all in one module that lives as long as any of them.

    Raises a CodegenError, or a CudaError, where the target cannot do what a function asks for.
    """
    options = options or BuildOptions()
    prepared = [apply_options(function, options.passes) for function in functions]
    return target.backend.compile(
        prepared, target, replace(options, watchers=(*options.watchers, *environment_watchers()))
    )
