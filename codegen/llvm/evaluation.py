"""Evaluation of functions of constants alone while a kernel is built: on this machine, with the bits of a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...base.dataclass import dataclass
from ...ir.constant import Constant
from ...ir.passes.common.runner import run_pipeline
from ...ir.stmt import For, Function, LoopKind
from ...ir.visit import statements
from ..abi.parallel import PARALLEL_FOR, parallel_for_address
from ..constants import addresses, name_symbols
from ..evaluate import Evaluation, run
from ..folding import fold
from ..result import BuildOptions
from ..target import Target
from .build import CodegenOptions, compile_function, kernel_symbol
from .jit import CompiledModule
from .pipeline import build_pipeline

__all__ = ["compile_here", "has_parallel_loops", "thread_symbols", "split_constant_parts"]


def split_constant_parts(
    functions: Sequence[Function],
    target: Target,
    refused: Collection[str],
    options: BuildOptions,
    *,
    fuses: bool,
) -> tuple[list[Function], Evaluation | None]:
    """Split a function into the part that remains to be done in each call, and the evaluation of the rest, if there is
    any. target: of this machine, for what is computed now. refused: calls that are left to the kernel. fuses: whether
    sums take up products with one rounding, as in the kernel."""
    folded = [fold(function, refused) for function in functions]
    parts = [(each.made, each.results) for each in folded if each.made is not None]
    remaining = [each.function for each in folded]
    if not parts:
        return remaining, None
    # one module for all, which shares the cost of LLVM
    code = compile_here([function for function, _ in parts], target, options, fuses=fuses)
    calls = tuple((symbol, results) for symbol, (_, results) in zip(code.symbols, parts, strict=True))
    evaluation = Evaluation(code.module, code.constants, calls, code.parallel)
    run(evaluation)  # at once: the results are constants of the kernel that is built next
    return remaining, evaluation


@dataclass(frozen=True)
class _Here:
    """Machine code of this machine. constants: what it reads, by symbol. symbols: of the functions. parallel: whether they share
    loops among threads."""

    module: CompiledModule
    constants: dict[Constant, str]
    symbols: tuple[str, ...]
    parallel: bool


def compile_here(functions: Sequence[Function], target: Target, options: BuildOptions, *, fuses: bool) -> _Here:
    """Functions of stage "loops" as code that can run at once. Arguments as above."""
    # no bounds checks: what is evaluated is the compiler's own
    pipeline = build_pipeline(target, False, options.passes, fuses=fuses)
    final = [run_pipeline(function, pipeline, options.watchers) for function in functions]
    constants = name_symbols(final)
    module = compile_function(
        final,
        target,
        CodegenOptions(
            fast_math=options.fast_math,
            fp_contract=options.fp_contract,
            symbols=addresses(constants) | thread_symbols(final),
        ),
    )
    return _Here(module, constants, tuple(kernel_symbol(f.name) for f in final), has_parallel_loops(final))


def has_parallel_loops(functions: Sequence[Function]) -> bool:
    """Return whether some loop is shared among threads."""
    return any(
        isinstance(n, For) and n.kind is LoopKind.PARALLEL for function in functions for n in statements(function.body)
    )


def thread_symbols(functions: Sequence[Function]) -> dict[str, int]:
    """The addresses of what loops call that are shared among threads."""
    # most kernels need no pool: it is made for those that do
    return {PARALLEL_FOR: parallel_for_address()} if has_parallel_loops(functions) else {}
