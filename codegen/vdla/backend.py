"""The target "vdla": kernels for a simulated accelerator, called with arrays like any others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import user_source
from ...ir.stmt import Function
from ...runtime.kernel import Kernel
from ...runtime.module import Module
from ..abi.callback import callback_kernel
from ..abi.signature import make_signature, shape_symbols
from ..result import BuildOptions, BuildResult
from ..sources import Sources
from ..target import Backend, Target
from .errors import NotOnAccelerator
from .intrinsics import FEATURE
from .program import build_program

__all__ = ["BACKEND"]


def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    del target, options  # integers only: nothing is rounded, and every check is on
    return BuildResult(Module({function.name: _kernel(function) for function in functions}))


def _kernel(function: Function) -> Kernel:
    """A kernel that simulates the program of `function`. A call raises what Program.run raises."""
    symbols = (*shape_symbols(function), *function.scalars)
    if symbols:
        raise NotOnAccelerator(
            f"the accelerator cannot run {function.name}",
            called=user_source(),
            reason=f"{symbols[0].name} is known in a call only, and the stream of instructions is made here",
            fix="give shapes as numbers, and build a kernel for each",
        )
    signature, program = make_signature(function, ()), build_program(function)
    sources = Sources(
        "an accelerator's kernel",
        {"ir": lambda: str(function), "asm": lambda: program.listing},
        'f.source("asm") lists its instructions',
    )

    def run(arguments: list[Any], _: dict[str, int]) -> None:
        program.run({param.name: argument for param, argument in zip(signature.params, arguments, strict=True)})

    kernel = callback_kernel(signature, run, sources)
    kernel.kernels = (program,)
    return kernel


BACKEND = Backend(
    "vdla",
    "a simulated accelerator with scratchpads and three queues, for int8",
    _compile,
    has=lambda _, feature: feature == FEATURE,
    rules="",
)
