"""The target "llvm": kernels for CPUs, by passes, LLVM, and a call stub in front."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...base.dataclass import dataclass
from ...ir.constant import Constant
from ...ir.passes.common.runner import run_pipeline
from ...ir.stmt import Function
from ...ir.text.numbering import dump_lines
from ...runtime.diagnose import kernel_failure
from ...runtime.kernel import Kernel, foreign_kernel, make_kernel
from ...runtime.module import Module
from ..abi.packed_calls import PackedCalls
from ..abi.signature import add_buffers, make_signature, shape_symbols
from ..abi.stub import stub_symbols, stub_text
from ..constants import addresses, name_symbols
from ..evaluate import Evaluation
from ..export.exporter import Exporter
from ..export.final_kernel import FinalKernel
from ..folding import OF_ANOTHER_TARGET, open_constants
from ..result import BuildOptions, BuildResult, NativeCode, Opening
from ..sources import Sources
from ..sve import ANY_LENGTH, LENGTHS
from ..target import Backend, Target, check_processor
from .assembly import assembly_lines
from .build import CodegenOptions, Unit, build_unit
from .evaluation import has_parallel_loops, split_constant_parts, thread_symbols
from .features import fuses, target_has
from .jit import CompiledModule, foreign_target
from .pipeline import build_pipeline
from .workspaces import provide_workspaces

__all__ = ["BACKEND", "Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """Functions through all passes, and as text: what is left to do is LLVM's. packing: what computes the results of `opening`, as
    it was before the passes."""

    programs: tuple[FinalKernel, ...]
    unit: Unit
    packed: PackedCalls
    constants: dict[Constant, str]
    evaluation: Evaluation | None
    opening: Opening
    packing: Function | None

    def native(self, compiled: CompiledModule) -> NativeCode:
        """Return the facts about their machine code, `unit.compiled()`."""
        functions = [program.function for program in self.programs]
        return NativeCode(
            compiled,
            [program.signature for program in self.programs],
            has_parallel_loops(functions),
            bool(self.packed.symbols),
            any(function.attrs.get("import_c") for function in functions),
            self.constants,
            self.evaluation,
            self.opening,
        )


def prepare(functions: Sequence[Function], target: Target, options: BuildOptions, stubs: bool = True) -> Prepared:
    """Functions of stage "loops" as far as LLVM. stubs: with what Python calls them by; a function without takes constants that are
    open and the memory that it works in as further arguments, after those that were declared, and what packs the former comes
    with it."""
    native, fused = (
        target.runs_here,
        target.fuses and not options.contracts,
    )  # where LLVM may contract, passes do not choose which sums fuse
    symbols = {function.name: shape_symbols(function) for function in functions}
    evaluation, opening, packing = None, Opening(), None
    refused = () if native else OF_ANOTHER_TARGET
    if stubs:
        functions, evaluation = split_constant_parts(
            # packing runs here, whatever the target is
            functions,
            target if native else Target(),
            refused,
            options,
            fuses=fused,
        )
    else:
        (function,) = functions
        function, packing, opening = open_constants(function, refused)
        # packing has to run at the first call, which is on this machine
        functions = [function] if packing is None or not native else [function, packing]
        symbols |= {each.name: () for each in functions[1:]}
    signatures = [make_signature(function, symbols[function.name]) for function in functions]
    pipeline = build_pipeline(target, options.bounds_check, options.passes, fuses=fused)
    final = [run_pipeline(dump_lines(function, str(target)), pipeline, options.watchers) for function in functions]
    if not stubs:  # memory is given by the caller, who may run several at once
        final[0] = provide_workspaces(final[0])
        signatures[0] = add_buffers(signatures[0], final[0].arguments[len(signatures[0].params) :])
    packed = PackedCalls()
    here = [packed.bound(function) for function in final] if native else final  # elsewhere there is no Python to call
    constants = name_symbols(final)
    unit = build_unit(
        here,
        target,
        CodegenOptions(
            fast_math=options.fast_math,
            fp_contract=options.fp_contract,
            # a function without stubs is called by address alone
            parts=tuple(map(stub_text, signatures)) if stubs else (),
            exports=tuple(symbol for s in signatures for symbol in stub_symbols(s.name).values()) if stubs else (),
            symbols=packed.symbols | addresses(constants) | (thread_symbols(final) if native else {}),
            shape_symbols=symbols,
            quick=options.quick,
        ),
    )
    programs = tuple(FinalKernel(f, s, symbols[f.name]) for f, s in zip(final, signatures, strict=True))
    return Prepared(programs, unit, packed, constants, evaluation, opening, packing)


def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    prepared = prepare(functions, target, options)
    compiled = prepared.unit.compiled()
    exporter = Exporter(prepared.programs, options.fast_math, options.fp_contract, target)
    kernels = {
        p.signature.name: _kernel(p, compiled, exporter, prepared.packed, prepared.constants) for p in prepared.programs
    }
    # code for elsewhere has no addresses
    return BuildResult(Module(kernels, exporter), prepared.native(compiled) if target.runs_here else None)


def _kernel(
    program: FinalKernel, compiled: CompiledModule, exporter: Exporter, packed: PackedCalls, constants: object
) -> Kernel:
    """Make the Python callable of one of the functions of a module. constants: what its code reads where it lies."""
    signature, name = program.signature, program.signature.name
    sources = Sources(
        "a CPU kernel",
        {
            "ir": lambda: str(program.function),
            "llvm": lambda: compiled.ir_text,
            "asm": compiled.asm,
        },
        'f.source("asm") shows the machine code',
    )
    exporting = exporter.only(name)
    if not compiled.target.runs_here:
        # its call raises, its texts can be read
        return foreign_kernel(signature, partial(foreign_target, compiled.target), sources, exporting)
    addresses = {role: compiled.address(symbol) for role, symbol in stub_symbols(name).items()}
    failure = partial(packed.failure, partial(kernel_failure, signature, messages=compiled.messages[name]))
    return make_kernel(
        signature, addresses, code=(compiled, packed, constants), sources=sources, exporting=exporting, failure=failure
    )


BACKEND = Backend(
    "llvm",
    "native code for CPUs, through LLVM",
    _compile,
    options={
        "mcpu": "processor, as LLVM names it",
        "mattr": "features to add and remove, +avx2,-avx512f",
        "mtriple": "machine, arch-vendor-system",
        "msve-vector-bits": f"length of SVE's vectors, {', '.join(LENGTHS)} or {ANY_LENGTH}",
        "cores": "how many cores schedules are for, where it is another machine",
        "l1": "bytes of the first data cache of a core, 32K",
        "l2": "bytes of its second cache, 1M",
        "l3": "bytes of the cache that cores share, 16M; 0 for none",
        "uncalibrated": "schedules are what any such processor would get, whatever was measured of this one",
    },
    flags=("uncalibrated",),
    check=check_processor,
    has=target_has,
    fuses=fuses,
    for_processors=True,
    assembly=assembly_lines,
)
