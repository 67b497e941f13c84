"""Functions of the loop IR, at stage "final", to machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import llvmlite.binding as llvm

from ...base import dataclass, field, user_source
from ...base.environment import dump_folder
from ...ir import Function, Var
from ...ir.constant import Constant
from ...ir.text.numbering import lines_file
from ...runtime.critical_section import run_in_turn
from ..abi.signature import shape_symbols
from ..abi.stub import kernel_symbol
from ..c.source import imported_addresses, imported_c
from ..constants import declaration, name_symbols
from ..errors import RejectedImport
from ..sve import length_attribute
from ..target import Target
from .debug import DebugLines
from .emit_stmt import emit_kernel
from .features import conversions, maths_options
from .jit import CompiledModule, compile_text, declared
from .text import ModuleText
from .tiles import tile_functions

__all__ = ["CodegenOptions", "Unit", "compile_function", "kernel_symbol", "module_text", "build_unit"]


_STORE_FENCE = "call void @llvm.x86.sse.sfence()"


@dataclass(frozen=True)
class CodegenOptions:
    """Options of LLVM code generation.

    fast_math: floats may be reassociated, divided by reciprocals, and lose the sign of zero; NaN and infinities keep
    their meaning; functions err by up to 16 units in the last place instead of 2; subnormal bfloat16s may be 0.
    fp_contract: products may be contracted into sums, which fast_math implies.
    parts: LLVM IR texts to link in (call stubs), with the functions of theirs that are exported.
    symbols: addresses of outside functions by name; `tw_parallel_for` must be among them where a loop is parallel.
    shape_symbols: by function's name, the free shape symbols in the order in which callers pass them (where a pass has
    changed the shapes since; otherwise by first appearance). debug_lines: note the line that each statement came from, as
    TILEWRIGHT_DUMP asks for.
    quick: LLVM does little for the code's speed.
    constants: the symbols of those that functions read, where other texts speak of them too.
    """

    fast_math: bool = False
    fp_contract: bool = False
    parts: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict[str, int])
    shape_symbols: Mapping[str, tuple[Var, ...]] = field(default_factory=dict[str, tuple[Var, ...]])
    debug_lines: bool = field(default_factory=lambda: dump_folder() is not None)
    quick: bool = False
    constants: Mapping[Constant, str] | None = None


def module_text(
    functions: Sequence[Function],
    target: Target,
    options: CodegenOptions,
) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The LLVM IR of `functions`, and for each the messages of its assertions."""
    module = ModuleText(conversions(target, fast=options.fast_math))
    debug = DebugLines(module, lambda name: lines_file(name, str(target))) if options.debug_lines else None
    attributes = f'nounwind "prefer-vector-width"="{target.vector_bits}"{length_attribute(target.sve_bits)}'
    messages: dict[str, tuple[str, ...]] = {}
    constants = name_symbols(functions) if options.constants is None else options.constants
    for function in functions:
        if debug is not None:
            debug.open(function.name)
        symbols = options.shape_symbols.get(function.name)
        messages[function.name] = emit_kernel(
            module,
            function,
            kernel_symbol(function.name),
            shape_symbols(function) if symbols is None else symbols,
            attributes=attributes,
            vector_bits=target.vector_bits,
            fast_math=options.fast_math,
            fp_contract=options.fp_contract,
            # x86 orders stores past the caches with nothing but a fence
            store_fence=_STORE_FENCE if target.llvm_triple.startswith("x86_64") else "",
            maths=maths_options(target, fast=options.fast_math),
            debug=debug,
            constants=constants,
        )
    for held in name_symbols(functions):  # declared only where used: constants may be many
        module.add(declaration(held, constants[held]))
    imported = dict.fromkeys(text for function in functions for text in function.attrs.get("import_llvm", ()))
    from_c = dict.fromkeys(text for function in functions for text in function.attrs.get("import_c", ()))
    imported.update(dict.fromkeys(filter(None, map(imported_c, from_c))))  # C that clang has turned into LLVM IR
    header = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.llvm_triple}"'
    return link_imports(module.text(header), (*imported, *tile_functions(module.declared, target))), messages


@dataclass(frozen=True)
class Unit:
    """LLVM IR texts that become one module, and what is known of them: all that LLVM needs, which no longer needs Python. Fields as
    CompiledModule has them."""

    target: Target
    parts: tuple[str, ...]
    exports: tuple[str, ...]
    messages: dict[str, tuple[str, ...]]
    symbols: Mapping[str, int]
    quick: bool = False

    def compiled(self) -> CompiledModule:
        """The machine code."""
        return compile_text(self.parts, self.target, self.exports, self.messages, self.symbols, self.quick)


def compile_function(
    functions: Sequence[Function],
    target: Target,
    options: CodegenOptions | None = None,
) -> CompiledModule:
    """Machine code of functions of stage "final", by the kernel ABI: `i32 tw_kernel_NAME(arguments, i64 symbols)`,
    buffers as pointers, scalars by value; 0 is success, k > 0 that assertion k - 1 failed, -1 that memory ran out."""
    return build_unit(functions, target, options or CodegenOptions()).compiled()


def build_unit(functions: Sequence[Function], target: Target, options: CodegenOptions) -> Unit:
    """Return the unit that compile_function compiles."""
    text, messages = module_text(functions, target, options)
    from_c = dict.fromkeys(source for function in functions for source in function.attrs.get("import_c", ()))
    # addresses of what the system's compiler made
    symbols = {**imported_addresses(from_c, declared(text)), **options.symbols} if from_c else options.symbols
    exports = [*(kernel_symbol(function.name) for function in functions), *options.exports]
    return Unit(target, (text, *options.parts), tuple(exports), messages, symbols, options.quick)


# LLVM IR of the user's (the pragma import_llvm), linked into the module of the kernels that call it.

_TARGET = re.compile(r"^target (?:datalayout|triple) = .*$", re.MULTILINE)


@run_in_turn
def link_imports(text: str, imported: Sequence[str]) -> str:
    """The module `text` with what the imported texts define. They are compiled for the kernel's target, whatever theirs.

    Raises RejectedImport."""
    if not imported:
        return text
    with llvm.create_context() as context:
        modules = [llvm.parse_assembly(text, context)]
        try:
            for number, theirs in enumerate(imported):
                try:
                    # our target takes the place of theirs
                    modules.append(llvm.parse_assembly(_TARGET.sub("", theirs), context))
                    modules[0].link_in(modules[-1])  # link_in destroys the second module
                except RuntimeError as fault:
                    raise RejectedImport(
                        f"LLVM refuses the text number {number} of those imported",
                        reason=str(fault).strip(),
                        called=user_source(),
                        fix="give LLVM IR as text, as `clang -S -emit-llvm -o -` writes it, in which no name is defined twice",
                    ) from None  # LLVM's message has been said
            return str(modules[0])
        finally:
            for module in modules:  # before their context, whoever still refers to them
                module.close()
