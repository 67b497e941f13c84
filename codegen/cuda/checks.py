"""What the host tries out before it launches kernels: that their static indices stay inside, where only a call tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import user_source
from ...ir.buffer import Buffer
from ...ir.cached import cached_property
from ...ir.errors import AssertionFailed
from ...ir.expr import Var
from ...ir.interpret.interpreter import Interpreter
from ...ir.stmt import Function
from ...ir.visit import free_vars, seq
from ...runtime.errors import KernelAssertion
from .split import SplitFunction

__all__ = ["Trial", "trial_of"]


@dataclass(frozen=True)
class Trial:
    """function: of scalars and shape symbols, whose names in the signature are in `names`."""

    function: Function
    names: Mapping[Buffer | Var, str]

    @cached_property
    def _interpreter(self) -> Interpreter:
        return Interpreter(self.function, False)

    def raise_for(self, values: Mapping[str, int]) -> None:
        """Raises KernelAssertion (TW0518) where it fails on values, given by name."""
        try:
            self._interpreter(*(values[self.names[param]] for param in self.function.params))
        except AssertionFailed as failure:
            raise KernelAssertion(
                failure.headline,
                reason=failure.reason,
                called=user_source(),
                fix="pass arguments whose shapes keep every index inside",
            ) from None


def trial_of(program: SplitFunction, names: Mapping[Buffer | Var, str]) -> Trial | None:
    """None where there is nothing to try. names: of the function's parameters and symbols."""
    if not program.checks:
        return None
    body = seq(*program.checks)
    return Trial(Function("checks", tuple(free_vars(body)), body, (), {"stage": "loops"}), names)
