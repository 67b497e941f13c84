"""target="interpret": a kernel that is called, and checks its arguments, as any other, and then runs the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import Var
from ..ir.interpret.interpreter import Interpreter
from ..ir.stmt import Function
from ..runtime.errors import NoSuchSource
from ..runtime.kernel import Kernel
from .abi.callback import called_back_kernel
from .abi.signature import signature_of
from .c.imported import load_imported

__all__ = ["interpreted_kernel"]


def interpreted_kernel(function: Function, symbols: Sequence[Var]) -> Kernel:
    """A kernel that interprets `function` with every check on. A call raises what the interpreter raises: OutOfBounds,
    UninitializedRead, ParallelRace, AssertionFailed."""
    for source in function.attrs.get("import_c", ()):
        load_imported(source)
    interpreter = Interpreter(function)
    return called_back_kernel(signature_of(function, symbols), lambda arguments, _: interpreter(*arguments), _Sources(function))


class _Sources:
    """The loops that are interpreted are the one text."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, kind: str) -> str:
        if kind != "ir":
            raise NoSuchSource(f"an interpreted kernel has no source {kind!r}", allowed="ir",
                               fix='build with target="llvm" to see machine code')
        return str(self._function)
