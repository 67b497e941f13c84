"""The target "c": kernels by way of C11 text, the machine's compiler, and a call stub in front; and the text for others."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...base import dataclass, replace, user_source
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
from ..errors import UnresolvedSymbol, UnsupportedIntrinsic
from ..export.errors import NotACName, UnknownLibraryKind, UnknownThreads
from ..export.files import check_place, write_together
from ..export.final_kernel import FinalKernel, KernelExporter, refuse_callback
from ..export.header import header_text
from ..export.manifest import describe, manifest_text, own_version
from ..export.names import check_names, check_parameters
from ..export.packages import package_files
from ..folding import OF_ANOTHER_TARGET
from ..llvm.evaluation import split_constant_parts
from ..llvm.jit import CompiledModule, compile_text
from ..result import BuildOptions, BuildResult
from ..sources import Sources
from ..target import ROUNDING, Backend, Target, check_rounding, rounds_fused
from ..tools import tool_failed
from .module import CText, c_text, entry_symbol, entry_text
from .options import compiler_options
from .pipeline import c_pipeline
from .source import assembly_of_c, built_c, library_of_c, load_imported

__all__ = ["BACKEND", "CExporter"]

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


_KINDS = {".c": "C11 text", ".so": "a shared library, with its text beside it"}
_THREADS = {"openmp": "OpenMP's threads", "none": "one thread"}


@dataclass(frozen=True)
class CExporter(KernelExporter):
    """Write kernels as C."""

    def __call__(self, path: str | os.PathLike[str], threads: str, loadable: bool = False) -> tuple[Path, Path, Path]:
        """Write NAME.c or libNAME.so (and NAME.c), NAME.h and NAME.json beside it; returns what was asked for, the header and
        the manifest. Raises ExportError; NoCompiler and RejectedSource for a library."""
        place = check_place(path)
        self._check(place, threads, loadable)
        stem = place.stem.removeprefix("lib") or place.stem  # libX.so and X.c have the same stem
        programs = tuple(program.take_name(stem) for program in self.programs)
        names = [program.signature.name for program in programs]
        text = c_text(programs, self.fast_math, self.fp_contract)
        check_names(names, (), ())
        parallel = text.parallel and threads == "openmp"
        # serial text keeps the lines in place, as comments
        source = text.text if parallel else text.text.replace("#pragma omp ", "/* serial */ //")
        description = describe(
            stem,
            programs,
            text.messages,
            Target("c"),
            features=(),
            threads=threads,
            is_parallel=parallel,
            is_module=self.is_module,
        )
        for function in description["functions"]:
            del function["declarations"][1]  # there are no _checked functions
        header = header_text(
            # the header names them only where they exist
            stem,
            [p.signature for p in programs],
            target="'c'",
            threads=threads,
            version=own_version(),
            checked=False,
        )
        files = {f"{stem}.c" if place.suffix == ".so" else place.name: source.encode(), f"{stem}.h": header.encode()}
        if place.suffix == ".so":
            options = compiler_options(
                # others may load it on another machine
                fast_math=self.fast_math,
                fp_contract=self.fp_contract,
                parallel=parallel,
                native=False,
            )
            files[place.name] = built_c(
                # a soname without the folder, which may be moved
                source,
                [*options, "-Xlinker", "-soname", "-Xlinker", place.name, "-Wl,--as-needed"],
            )
        files[f"{stem}.json"] = manifest_text(description, files).encode()
        if place.suffix == ".so":
            # a Python package beside it finds the library
            files |= package_files(stem, place.name, openmp=parallel, version=own_version())
        write_together(
            {
                # executable as far as the umask has it
                place.with_name(name): (content, 0o777 if name.endswith(".so") else 0o666)
                for name, content in files.items()
            }
        )
        return place, place.with_name(stem + ".h"), place.with_name(stem + ".json")

    def _check(self, place: Path, threads: str, loadable: bool) -> None:
        if place.suffix not in _KINDS or not place.stem or loadable:
            raise UnknownLibraryKind(
                f"cannot export to {str(place)!r}" + (" for tw.load" if loadable else ""),
                called=user_source(),
                reason='a library exported with target="c" has no Python interface'
                if loadable
                else "its suffix names no kind of file",
                allowed=", ".join(f"{suffix} ({kind})" for suffix, kind in _KINDS.items()),
                fix=f'f.export("{place.stem or "name"}.c"), or build with target="llvm"',
            )
        if threads not in list(_THREADS):
            raise UnknownThreads(
                f"cannot export with threads={threads!r}",
                called=user_source(),
                allowed="; ".join(f"{name!r} ({meaning})" for name, meaning in _THREADS.items()),
                fix='threads="openmp"',
            )
        for program in self.programs:
            check_parameters(program.signature)
            refuse_callback(program.signature.name, program.function)
            if program.function.attrs.get("import_c"):
                raise UnsupportedIntrinsic(  # the text would call what it does not contain
                    f"cannot export {program.signature.name}",
                    called=user_source(),
                    reason="C was imported into it, which is a file of its own",
                    fix="drop import_c, and compile both files",
                )
