"""The target "interpret": a kernel that is called, and checks its arguments, as any other, and then runs the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import user_source
from ..ir import Call, Function, StringImm, post_order
from ..ir.interpret.interpreter import Interpreter
from ..ir.passes.common.fused_sums import round_sums
from ..runtime.errors import KernelOutOfMemory
from ..runtime.kernel import Kernel
from ..runtime.module import Module
from .abi.callback import callback_kernel
from .abi.signature import make_signature, shape_symbols
from .c.source import loaded_addresses
from .result import BuildOptions, BuildResult
from .sources import Sources
from .target import ROUNDING, Backend, Target, check_rounding, rounds_fused

__all__ = ["BACKEND"]


def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    """Every check is on, whatever the options."""
    del options
    rounded = [function if target.fuses else round_sums(function, fuses=False) for function in functions]
    return BuildResult(Module({function.name: _kernel(function) for function in rounded}))


def _kernel(function: Function) -> Kernel:
    """A kernel that interprets `function` with every check on. A call raises what the interpreter raises: OutOfBounds,
    UninitializedRead, ParallelRace, AssertionFailed."""
    called = {
        node.args[0].value
        for node in post_order(function.body)
        if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm)
    }
    interpreter = Interpreter(function, addresses=loaded_addresses(function.attrs.get("import_c", ()), called))
    sources = Sources(
        "an interpreted kernel", {"ir": lambda: str(function)}, 'build with target="llvm" to see machine code'
    )
    signature = make_signature(function, shape_symbols(function))

    def run(arguments: list[Any], _: dict[str, int]) -> None:
        try:
            interpreter(*arguments)
        except MemoryError as error:
            raise KernelOutOfMemory(
                f"{function.name} could not get memory for its intermediates",
                reason=str(error),
                called=user_source(),
                fix="schedule with smaller tiles (compute_at)",
            ) from None

    return callback_kernel(signature, run, sources)


BACKEND = Backend(
    "interpret",
    "no code: the loop IR run slowly and exactly",
    _compile,
    options=ROUNDING,
    check=check_rounding,
    fuses=rounds_fused,
    rules="",
)
