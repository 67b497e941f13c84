"""What the host tries out before it launches kernels: that their static indices stay inside, where only a call tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import user_source
from ...ir.buffer import Buffer
from ...ir.errors import AssertionFailed
from ...ir.expr import Var
from ...ir.interpret.interpreter import Interpreter
from ...ir.stmt import Function
from ...ir.visit import free_vars, seq
from ...runtime.errors import KernelAssertion
from .split import SplitFunction

__all__ = ["call_checks"]


def call_checks(program: SplitFunction, names: Mapping[Buffer | Var, str]) -> Callable[[Mapping[str, int]], None] | None:
    """What raises KernelAssertion (TW0518), given the values of scalars and symbols by their names in the signature; None where
    there is nothing to try."""
    if not program.checks:
        return None
    body = seq(*program.checks)
    params = tuple(free_vars(body))
    trial = Interpreter(Function("checks", params, body, (), {"stage": "loops"}), False)

    def check(values: Mapping[str, int]) -> None:
        try:
            trial(*(values[names[param]] for param in params))
        except AssertionFailed as failure:
            raise KernelAssertion(failure.headline, reason=failure.reason, called=user_source(),
                                  fix="pass arguments whose shapes keep every index inside") from None

    return check
