"""Whether what was built has the bits of the program without a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ..ir import Function
from ..runtime.module import Module
from ..schedule import Schedule
from ..schedule.model.exactness import Exactness
from .compile import BuildItem, Request
from .lower import scheduled

__all__ = ["tell_exactness"]


def tell_exactness(module: Module, request: Request) -> None:
    """Lets each kernel of a module answer `is_exact`; what is asked for now is remembered, and looked at when somebody asks."""
    for name, program in zip(module, request.programs, strict=True):
        module[name].exactness = _answer(program, request)


def _answer(program: BuildItem, request: Request) -> Callable[[], Exactness]:
    if request.options.contracts:
        word = "fast_math" if request.options.fast_math else "fp_contract"
        known = Exactness(
            f"{word} allows the compiler other roundings than are written", code=f"tw.build(..., {word}=True)"
        )
        return lambda: known
    what = program.what
    if isinstance(what, Function):
        return lambda: Exactness("nothing tells how a function that was lowered before was scheduled")
    parts: Sequence[Any] = [what] if isinstance(what, Schedule) else list(cast("Sequence[Any]", what))
    given = parts[0]
    if isinstance(given, Schedule):
        records, outputs = list(given.records), list(given.outputs)
        return lambda: Schedule.replay(records, outputs).is_exact
    target, exact = request.target, request.exact
    return lambda: scheduled(parts, target, exact).is_exact
