"""Lowered functions to kernels that Python calls: passes, LLVM, call stubs, and the texts on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..errors import user_source
from ..ir.constant import Constant
from ..ir.passes.common.options import AS_USUAL, PassOptions, with_options
from ..ir.passes.common.runner import Watcher, environment_watchers, run_pipeline
from ..ir.stmt import For, Function, LoopKind
from ..ir.visit import post_order
from ..runtime.diagnose import kernel_failure
from ..runtime.errors import NoSuchSource
from ..runtime.kernel import Kernel, foreign_kernel, make_kernel
from ..runtime.module import Module
from ..runtime.signature import Signature
from .abi.packed import PackedCalls
from .abi.parallel import PARALLEL_FOR, parallel_for_address
from .abi.signature import signature_of
from .abi.stub import stub_symbols, stub_text
from .c.build import c_kernels
from .constants import addresses, symbols_of
from .cuda.build import cuda_kernel
from .evaluate import Evaluation, run
from .export.library import Exporter
from .export.program import Program
from .folding import OF_THE_MACHINE, Folded, fold
from .interpret import interpreted_kernel
from .llvm.build import CodegenOptions, compile_function, kernel_symbol
from .llvm.emit_stmt import shape_symbols
from .llvm.features import target_has
from .llvm.jit import CompiledModule, foreign_target
from .llvm.pipeline import cpu_pipeline
from .target import Target

__all__ = ["Compiled", "build_kernels"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code for this machine as it came to be. parallel: it shares loops among threads. calls_python: it holds the
    addresses of Python functions. imports_c: it calls what came from C. constants: what it reads, by symbol, and evaluation: how
    those of them were computed that the program does not have."""

    module: CompiledModule
    signatures: Sequence[Signature]
    parallel: bool
    calls_python: bool
    imports_c: bool
    constants: Mapping[Constant, str]
    evaluation: Evaluation | None


def build_kernels(
    functions: Sequence[Function], target: Target, *, bounds_check: bool, fast_math: bool, options: PassOptions = AS_USUAL,
    made: Callable[[Compiled], None] | None = None,
) -> Module:
    """A kernel for each function by name, all in one module of machine code that lives as long as any of them. made: is told
    of machine code that this machine can run."""
    functions = [with_options(function, options) for function in functions]
    watchers: list[Watcher] = environment_watchers()
    symbols = {function.name: tuple(shape_symbols(function)) for function in functions}
    if target.kind == "interpret":
        return Module({function.name: interpreted_kernel(function, symbols[function.name]) for function in functions})
    if target.kind == "cuda":
        return Module({f.name: cuda_kernel(f, symbols[f.name], target, watchers, bounds_check=bounds_check, fast_math=fast_math)
                       for f in functions})
    native = target.kind == "llvm" and target.runs_here
    folded = [fold(function, () if native else OF_THE_MACHINE) for function in functions]
    own = target if native else Target()
    evaluation = _evaluated(folded, own, CodegenOptions(fast_math=fast_math), options, watchers)
    functions = [one.function for one in folded]
    if target.kind == "c":
        return c_kernels(functions, symbols, watchers, bounds_check=bounds_check, fast_math=fast_math, options=options)
    signatures = [signature_of(function, symbols[function.name]) for function in functions]
    pipeline = cpu_pipeline(target.vector_bits, bounds_check, partial(target_has, target), options, masks=target.masks_vectors)
    final = [run_pipeline(function, pipeline, watchers) for function in functions]
    packed = PackedCalls()
    parallel = _is_parallel(final)
    here = [packed.bound(function) for function in final] if target.runs_here else final
    constants = symbols_of(final)
    compiled = compile_function(here, target, CodegenOptions(
        fast_math=fast_math,
        parts=tuple(map(stub_text, signatures)),
        exports=tuple(symbol for s in signatures for symbol in stub_symbols(s.name).values()),
        symbols=packed.symbols | addresses(constants) | (_threads(parallel) if target.runs_here else {}),
        shape_symbols=symbols,
    ))
    exporter = Exporter(tuple(Program(f, s, symbols[f.name]) for f, s in zip(final, signatures, strict=True)), target, fast_math)
    kernels = {p.signature.name: _kernel(p, compiled, exporter, packed, constants) for p in exporter.programs}
    if made is not None and target.runs_here:
        made(Compiled(compiled, signatures, parallel, bool(packed.symbols), any(f.attrs.get("import_c") for f in final),
                      constants, evaluation))
    return Module(kernels, exporter)


def _evaluated(
    folded: Sequence[Folded], target: Target, choices: CodegenOptions, options: PassOptions, watchers: list[Watcher],
) -> Evaluation | None:
    """Computes what the functions have of constants alone, on this machine, as they would."""
    made = [(one.made, one.results) for one in folded if one.made is not None]
    if not made:
        return None
    pipeline = cpu_pipeline(target.vector_bits, False, partial(target_has, target), options, masks=target.masks_vectors)
    final = [run_pipeline(function, pipeline, watchers) for function, _ in made]
    constants, parallel = symbols_of(final), _is_parallel(final)
    module = compile_function(final, target, replace(choices, symbols=addresses(constants) | _threads(parallel)))
    calls = tuple((kernel_symbol(f.name), results) for f, (_, results) in zip(final, made, strict=True))
    found = Evaluation(module, constants, calls, parallel)
    run(found)
    return found


def _is_parallel(functions: Sequence[Function]) -> bool:
    return any(isinstance(n, For) and n.kind is LoopKind.PARALLEL for function in functions for n in post_order(function.body))


def _threads(parallel: bool) -> dict[str, int]:
    """What loops call that are shared among threads."""
    return {PARALLEL_FOR: parallel_for_address()} if parallel else {}


def _kernel(program: Program, compiled: CompiledModule, exporter: Exporter, packed: PackedCalls, constants: object) -> Kernel:
    """What Python calls, one of the functions of a module. constants: what its code reads where it lies."""
    signature, name = program.signature, program.signature.name
    sources, exporting = _Sources(program.function, compiled), exporter.only(name)
    if not compiled.target.runs_here:
        return foreign_kernel(signature, partial(foreign_target, compiled.target), sources, exporting)
    addresses = {role: compiled.address(symbol) for role, symbol in stub_symbols(name).items()}
    failure = partial(packed.failure, partial(kernel_failure, signature, messages=compiled.messages[name]))
    return make_kernel(signature, addresses, code=(compiled, packed, constants), sources=sources, exporting=exporting,
                       failure=failure)


class _Sources:
    """The texts of one kernel, by kind."""

    def __init__(self, function: Function, compiled: CompiledModule) -> None:
        self._texts = {
            "ir": lambda: str(function), "llvm": lambda: compiled.ir_text, "asm": compiled.asm,
        }

    def __call__(self, kind: str) -> str:
        if kind not in self._texts:
            raise NoSuchSource(f"a CPU kernel has no source {kind!r}", called=user_source(), allowed=", ".join(self._texts),
                               fix='f.source("asm") shows the machine code')
        return self._texts[kind]()
