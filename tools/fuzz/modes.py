"""Modes of the fuzzer: schedules of programs ("llvm", "cuda", "all"), compositions of operators ("operators:llvm" ...), or
what autoschedule may choose for programs ("selections:llvm" ...), or kernels for GPUs ("kernels:cuda")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["explain_death", "runner"]

_OPERATORS, _SELECTIONS, _KERNELS = "operators:", "selections:", "kernels:"


def runner(target: str) -> Callable[..., dict[str, Any]]:
    """Return the function that runs a case: (seed, case, target without its mode) -> report."""
    if target.startswith(_OPERATORS):
        from .operators import run_operators

        return run_operators
    if target.startswith(_SELECTIONS):
        from .selections import run_selections

        return run_selections
    if target.startswith(_KERNELS):
        from .kernels import run_kernels

        return run_kernels
    from .case import run_case

    return run_case


def explain_death(seed: int, case: int, target: str) -> str:
    """The program of a case that ends the process that runs it."""
    if target.startswith(_OPERATORS):
        from .operators import explain_operators_death

        return explain_operators_death(seed, case, target.removeprefix(_OPERATORS))
    if target.startswith(_SELECTIONS):
        from .selections import explain_selections_death

        return explain_selections_death(seed, case, target.removeprefix(_SELECTIONS))
    if target.startswith(_KERNELS):
        from .kernels import explain_kernels_death

        return explain_kernels_death(seed, case)
    from .case import draw_case
    from .reproduction import explain_death as explain

    return explain(*draw_case(seed, case, target), f"case {case} of seed {seed} ends the process", seconds=20.0)
