"""The target "c": kernels by way of C11 text, the machine's compiler, and a call stub in front."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...base.dataclass import dataclass
from ...base.errors import user_source
from ...ir.lazy_values import cached_property
from ...ir.passes.common.runner import run_pipeline
from ...ir.stmt import Function
from ...runtime.diagnose import kernel_failure
from ...runtime.kernel import Kernel, make_kernel
from ...runtime.module import Module
from ...runtime.signature import Signature
from ...runtime.threads import ThreadState, state_address
from ..abi.callback import kernel_text
from ..abi.packed_calls import PackedCalls
from ..abi.signature import make_signature, shape_symbols
from ..abi.stub import stub_symbols, stub_text
from ..errors import UnresolvedSymbol
from ..export.errors import NotACName
from ..export.final_kernel import FinalKernel
from ..export.names import check_names
from ..folding import OF_ANOTHER_TARGET
from ..llvm.evaluation import split_constant_parts
from ..llvm.jit import CompiledModule, compile_text
from ..result import BuildOptions, BuildResult
from ..sources import Sources
from ..target import ROUNDING, Backend, Target, check_rounding, rounds_fused
from ..tools import tool_failed
from .export import CExporter
from .import_c import load_imported
from .module import CText, c_text, entry_symbol, entry_text
from .options import compiler_options
from .pipeline import c_pipeline
from .source import assembly_of_c, library_of_c

__all__ = ["BACKEND"]

_IN_PROCESS = """\
#include <stdint.h>
const int32_t *tw_thread_count;
#define TW_THREADS (*tw_thread_count > 1 ? *tw_thread_count : 1)
"""


def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    """Raise UnsupportedIntrinsic for what C cannot say; NoCompiler, RejectedSource and UnresolvedSymbol where no code can be made."""
    # where the compiler may contract, passes do not choose which sums fuse
    fuses = target.fuses and not options.contracts
    # before the passes, which may rewrite shapes
    symbols = {function.name: shape_symbols(function) for function in functions}
    functions, _ = split_constant_parts(functions, Target(), OF_ANOTHER_TARGET, options, fuses=fuses)
    signatures = [make_signature(function, symbols[function.name]) for function in functions]
    pipeline = c_pipeline(options.bounds_check, options.passes, fuses)
    final = [run_pipeline(function, pipeline, options.watchers) for function in functions]
    # a dict keeps their order and drops repeated ones
    imported = tuple(dict.fromkeys(text for function in final for text in function.attrs.get("import_c", ())))
    for source in imported:  # each by itself, for a message about it alone
        load_imported(source)
    packed = PackedCalls()
    programs = tuple(FinalKernel(f, s, symbols[f.name]) for f, s in zip(final, signatures, strict=True))
    # the C text of an exported kernel keeps its calls by name, so that only what runs here is bound
    bound = tuple(_rename_reserved(replace(program, function=packed.bound(program.function))) for program in programs)
    text = c_text(bound, options.fast_math, options.fp_contract)
    unit = _Unit(bound, text, options.fast_math, options.fp_contract, packed, imported)
    stubs = _stubs(signatures, bound, unit)
    exporter = CExporter(programs, options.fast_math, options.fp_contract)
    kernels: dict[str, Kernel] = {}
    for function, signature, program in zip(final, signatures, bound, strict=True):
        addresses = {role: stubs.address(symbol) for role, symbol in stub_symbols(signature.name).items()}
        # a status counts from 1 in the list of the kernel's assertions
        messages = unit.text.messages[program.signature.name]
        failure = partial(packed.failure, partial(kernel_failure, signature, messages=messages))
        kernels[signature.name] = make_kernel(
            signature,
            addresses,
            code=(stubs, unit),
            sources=_sources(function, unit),
            exporting=exporter.only(signature.name),
            failure=failure,
        )
    return BuildResult(Module(kernels, exporter))


def _rename_reserved(program: FinalKernel) -> FinalKernel:
    """Itself, under another name where C has a meaning for its own."""
    name = program.signature.name
    try:
        check_names([name], (), ())
    except NotACName:
        name = f"{name}_kernel".lstrip("_")
    return replace(program, signature=replace(program.signature, name=name))


def _stubs(signatures: Sequence[Signature], bound: Sequence[FinalKernel], unit: _Unit) -> CompiledModule:
    """The checks of arguments, as machine code, each before the call of its C function."""
    parts: list[str] = []
    exports: list[str] = []
    for signature, program in zip(signatures, bound, strict=True):
        # the stub calls the C function by its address, over the slots of callback.py
        parts += [kernel_text(signature, unit.address(program.signature.name)), stub_text(signature)]
        exports += stub_symbols(signature.name).values()
    return compile_text(parts, Target(), tuple(exports), {}, {})


@dataclass
class _Unit:
    """A translation unit, compiled and loaded. It keeps alive what the code refers to."""

    programs: tuple[FinalKernel, ...]
    text: CText
    fast_math: bool
    fp_contract: bool
    packed: PackedCalls
    imported: tuple[str, ...]

    @property
    def _compiled(self) -> str:
        entries = "".join(entry_text(program.signature) for program in self.programs)
        # compilers count the lines of the text that the user sees
        return f'{_IN_PROCESS}#line 1 "kernels.c"\n{self.text.text}{entries}'

    @property
    def options(self) -> list[str]:
        return compiler_options(
            # native: it runs on this very machine
            fast_math=self.fast_math,
            fp_contract=self.fp_contract,
            parallel=self.text.parallel,
            native=True,
        )

    @cached_property
    def _library(self) -> ctypes.CDLL:
        try:
            library = library_of_c(self._compiled, self.options, self.imported)
        except OSError as error:
            # dlopen has no other way to tell which symbol is missing
            _, undefined, name = str(error).rpartition("undefined symbol: ")
            if not undefined:
                raise tool_failed("the C compiler", f"its library cannot be loaded: {error}") from error
            raise UnresolvedSymbol(
                f"the program calls {name!r}, which is not defined",
                called=user_source(),
                fix="load the library that has it first: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)",
            ) from error
        # so that tw.set_threads reaches code that is loaded already
        ctypes.c_void_p.in_dll(library, "tw_thread_count").value = state_address() + ThreadState.count.offset
        for name, address in self.packed.symbols.items():
            # a Python function is called through a pointer that the library holds
            ctypes.c_void_p.in_dll(library, name).value = address
        return library

    def address(self, name: str) -> int:
        function: Any = getattr(self._library, entry_symbol(name))
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def asm(self) -> str:
        return assembly_of_c(self._compiled, self.options)


def _sources(function: Function, unit: _Unit) -> Sources:
    return Sources(
        "a C kernel",
        {"ir": lambda: str(function), "c": lambda: unit.text.text, "asm": unit.asm},
        'f.source("c") shows the C text',
    )


BACKEND = Backend(
    "c",
    "portable C11 text, compiled by the system's C compiler",
    _compile,
    options=ROUNDING,
    check=check_rounding,
    fuses=rounds_fused,
)
