"""Compiler from LLVM text to machine code in this process, through ORC's LLJIT."""

from __future__ import annotations

import ctypes
import itertools
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from types import TracebackType

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager
from llvmlite.binding.value import Linkage

from ...base import InternalError, dataclass, field, user_source
from ...runtime.critical_section import run_in_turn, run_on_thread
from ..abi.stub import kernel_symbol
from ..errors import ForeignTarget, RejectedByCompiler, UnresolvedSymbol
from ..instructions import add_attributes, attributes
from ..target import Target
from .features import target_has
from .workarounds.byte_masks import has_short_masks, may_get_short_masks
from .workarounds.doubled_bytes import split_wide_adds
from .workarounds.joined_stores import ATTEMPTS
from .workarounds.masked_stores import spell_out_lone_lanes
from .workarounds.scalar_choices import split_loads
from .workarounds.sign_masks import spell_out_sign_tests

__all__ = [
    "CompiledModule",
    "assembly_text",
    "compile_optimised",
    "compile_text",
    "declared",
    "foreign_target",
    "load_together",
    "object_code",
    "optimised_text",
    "process_symbols",
]

_library_numbers = itertools.count()  # each library has a name of its own


@dataclass
class CompiledModule:
    """Machine code, and every text on the way to it. The code lives as long as this object.

    ir_text: LLVM IR as it was made. messages: for each function, what its positive statuses stand for (status - 1). quick: made
    with little effort.
    """

    target: Target
    ir_text: str
    object_bytes: bytes = field(repr=False)
    messages: dict[str, tuple[str, ...]]
    exports: tuple[str, ...]
    """The functions that `address` finds."""
    _parts: tuple[str, ...] = field(repr=False)
    _symbols: Mapping[str, int] = field(repr=False)
    quick: bool = False
    _loaded: _Loaded | None = field(repr=False, default=None)

    def address(self, name: str) -> int:
        """The address of a function in this process.

        Raises ForeignTarget where this machine cannot run the code, UnresolvedSymbol where it calls what nobody has.
        """
        if self._loaded is None:
            self._loaded = _link(self)  # linked when first called: many kernels are only exported or read
        return self._loaded.addresses[name]

    def undefined_functions(self) -> tuple[str, ...]:
        """The functions that the code calls and does not define."""
        return declared("\n".join(self._parts))

    def asm(self) -> str:
        """The machine code as assembly text."""
        return assembly_text(self._parts, self.target, self.quick)

    def llvm_text_optimized(self) -> str:
        """The LLVM IR that the machine code was made from."""
        return optimised_text(self._parts, self.target, self.quick)


def compile_text(
    parts: Sequence[str],
    target: Target,
    exports: Sequence[str],
    messages: dict[str, tuple[str, ...]],
    symbols: Mapping[str, int],
    quick: bool = False,
) -> CompiledModule:
    """Optimised machine code of LLVM IR texts, linked into one module.

    exports: the functions whose addresses will be asked for. symbols: addresses of outside functions, by name; others
    are looked for in the process and in the C and mathematics libraries. quick: with little effort.
    """
    code = _object(parts, target, quick)
    return CompiledModule(target, parts[0], code, messages, tuple(exports), tuple(parts), symbols, quick)


@run_in_turn
def _object(parts: Sequence[str], target: Target, quick: bool) -> bytes:
    with _Modules() as modules:
        return _machine(target, quick).emit_object(_optimise_parts(modules, parts, target, quick))


@run_in_turn
def assembly_text(parts: Sequence[str], target: Target, quick: bool = False) -> str:
    """The machine code of LLVM IR texts as assembly text, nothing else made of them."""
    with _Modules() as modules:
        return _machine(target, quick).emit_assembly(_optimise_parts(modules, parts, target, quick))


@run_in_turn
def optimised_text(parts: Sequence[str], target: Target, quick: bool = False) -> str:
    """LLVM IR texts, linked, as the machine code is made of them."""
    with _Modules() as modules:
        return str(_optimise_parts(modules, parts, target, quick))


@run_in_turn
def object_code(
    kernels: Sequence[tuple[Target, Sequence[str]]],
    others: Sequence[str],
    target: Target,
    visible: Sequence[str],
    optimised: Sequence[str] = (),
) -> bytes:
    """An object file of LLVM IR texts, in which nobody sees any other function or variable than those in `visible`, and of
    which only what those need is left.

    kernels: texts that are optimised as `compile_text` does for their target, each group by itself, so that they round as they do
    when they are called here: what LLVM knows of their callers changes which products and sums it fuses. others: what is linked to
    them, for `target`, the least of the targets. optimised: texts for `target` that are optimised already.
    """
    machine = _machine(target)
    with _Modules() as modules:
        module = _optimise_parts(modules, others, target)
        for own, texts in kernels:
            group = _optimise_parts(modules, texts, own)
            # a group for another processor carries its attributes in the text
            module.link_in(group if own == target else _select_processor(group, modules, own))
        for text in optimised:
            module.link_in(modules.parse(text))
        return _emit_visible(module, machine, visible)


def _emit_visible(module: llvm.ModuleRef, machine: llvm.TargetMachine, visible: Sequence[str]) -> bytes:
    """An object file of what these functions reach."""
    _hide_all_but(module, visible)
    with llvm.create_pipeline_tuning_options(3) as options, llvm.create_pass_builder(machine, options) as builder:
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        _run(passes, module, builder)
    return machine.emit_object(module)


def compile_optimised(
    texts: Sequence[str], target: Target, exports: Sequence[str], symbols: Mapping[str, int]
) -> CompiledModule:
    """Machine code of these functions of LLVM IR texts that are optimised. symbols: as compile_text takes them."""
    code = _visible_object(texts, target, exports)
    return CompiledModule(target, "", code, {}, tuple(exports), (), symbols)


@run_in_turn
def _visible_object(texts: Sequence[str], target: Target, visible: Sequence[str]) -> bytes:
    with _Modules() as modules:
        return _emit_visible(_link_parts(texts, modules), _machine(target), visible)


def _select_processor(module: llvm.ModuleRef, modules: _Modules, target: Target) -> llvm.ModuleRef:
    """The module, whose functions say that they are for the target, and of which others see kernels alone."""
    _hide_all_but(
        # kernels are called across groups
        module,
        [function.name for function in module.functions if function.name.startswith(kernel_symbol(""))],
    )
    text = add_attributes(str(module), attributes(target.llvm_cpu, target.llvm_features))
    module.close()  # the text is parsed anew with attributes: llvmlite cannot set them
    return modules.parse(text)


class _Modules:
    """LLVM modules in a context of their own. A module that outlives its context crashes when it goes, and the traceback of an
    error may hold it for long: so all of them go first, whoever still refers to them."""

    def __init__(self) -> None:
        self._context = llvm.create_context()
        self._all: list[llvm.ModuleRef] = []

    def parse(self, text: str) -> llvm.ModuleRef:
        """The module of a text."""
        try:
            self._all.append(llvm.parse_assembly(text, self._context))
        except RuntimeError as error:
            raise _rejection_error(text, str(error)) from None  # None: LLVM's error has no more to say
        return self._all[-1]

    def __enter__(self) -> _Modules:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for module in self._all:  # modules before the context whose memory they use
            module.close()
        self._context.close()


def _optimise_parts(modules: _Modules, parts: Sequence[str], target: Target, quick: bool = False) -> llvm.ModuleRef:
    """The parts as one LLVM module after O3, or, quick, after O0."""
    narrow = may_get_short_masks(parts)  # some code generators mistake masks of few lanes
    parts = [split_loads(part) for part in parts] if quick else parts
    for options in ATTEMPTS[-1:] if quick else ATTEMPTS:  # each attempt leaves out what made the one before invalid
        module = _link_parts(parts, modules)
        _optimise(module, _machine(target, quick), *options)
        if _is_valid(module):  # LLVM's verifier, since O3 has made invalid code of valid code
            text = str(module)
            if not (narrow and options[1] and has_short_masks(text)):
                return _mend(module, text, modules, target)  # right as IR, but the code generator would go wrong
        module.close()
    raise InternalError("LLVM made invalid code of valid code, at every level of it")


def _mend(module: llvm.ModuleRef, text: str, modules: _Modules, target: Target) -> llvm.ModuleRef:
    """The module, whose text is `text`, in other words where LLVM's code generator would make wrong code of these, or none."""
    changed = spell_out_lone_lanes(text)
    if target.architecture == "x86_64" and target_has(target, "avx512f"):
        changed = spell_out_sign_tests(changed)
    if target.architecture == "x86_64" and target_has(target, "avx512bw"):
        changed = split_wide_adds(changed)
    if changed == text:
        return module
    module.close()
    return modules.parse(changed)


def _link_parts(parts: Sequence[str], modules: _Modules) -> llvm.ModuleRef:  # linking consumes the second module
    module = modules.parse(parts[0])
    for part in parts[1:]:
        module.link_in(modules.parse(part))
    return module


def _is_valid(module: llvm.ModuleRef) -> bool:
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


_SHARED = (
    Linkage.external,
    Linkage.linkonce_any,
    Linkage.linkonce_odr,
    Linkage.weak_any,
    Linkage.weak_odr,
    Linkage.common,
)
"""Linkages by which other modules see a definition."""


def _hide_all_but(module: llvm.ModuleRef, visible: Sequence[str]) -> None:
    for value in (*module.functions, *module.global_variables):
        if value.linkage in _SHARED and not value.is_declaration and value.name not in visible:
            value.linkage = "internal"


def _optimise(
    module: llvm.ModuleRef,
    machine: llvm.TargetMachine,
    loops: bool = True,
    lines: bool = True,
    unrolls: bool = True,
    level: int = 3,
) -> None:
    """O3, or another level; loops, lines: whether LLVM vectorizes loops and straight lines that the schedule left scalar. unrolls:
    whether it takes small loops apart."""
    with llvm.create_pipeline_tuning_options(level) as options:
        options.loop_vectorization, options.slp_vectorization = loops, lines
        # interleaving and unrolling at O2 and above
        options.loop_interleaving, options.loop_unrolling = level > 1, unrolls
        with llvm.create_pass_builder(machine, options) as builder:
            passes = builder.getModulePassManager()
            if level == 0:  # masks of constants are constants, as _mended looks for them
                passes.add_instruction_combine_pass()
            _run(passes, module, builder)


def _run(passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Run the passes, once, and free them."""
    try:
        passes.run(module, builder)
    finally:
        # Its own close() frees nothing: ObjectRef's empty _dispose comes first in the class's bases.
        NewPassManager._dispose(passes)  # pyright: ignore[reportPrivateUsage]
        passes.detach()


@lru_cache(maxsize=16)
def _machine(target: Target, quick: bool = False) -> llvm.TargetMachine:
    return target.machine(0 if quick else 3)


def _rejection_error(text: str, reason: str) -> RejectedByCompiler | InternalError:
    """LLVM did not take the text. Our own text is well-formed, but for what users name themselves: intrinsics and the
    types of outside functions."""
    line = _reported_line(text, reason)
    # only names that users chose reach these
    if "llvm." in line or "declare" in line or ("@" in line and "call" in line):
        return RejectedByCompiler(
            "LLVM does not know a function as it is called",
            reason=f"{reason}\nin: {line.strip()}",
            called=user_source(),
            fix="compare the name and the types of the arguments with LLVM's language reference",
        )
    return InternalError(f"LLVM rejects the code that was made: {reason}", {"module.ll": text})


def _reported_line(text: str, reason: str) -> str:
    match = re.search(r":(\d+):\d+: error", reason)
    lines = text.splitlines()
    return lines[int(match[1]) - 1] if match and int(match[1]) <= len(lines) else ""  # LLVM counts lines from 1


# Linking

_IMPLIED = (
    "memset",
    "memcpy",
    "memmove",
    "fmodf",
    "fmod",
    "fmaf",
    "fma",
    "__truncsfhf2",
    "__extendhfsf2",
    "roundf",
    "round",
    "rintf",
    "rint",
    "floorf",
    "floor",
    "ceilf",
    "ceil",
    "truncf",
    "trunc",
)
"""What LLVM itself may call for an operation that the machine lacks."""
_DECLARATION = re.compile(r"^declare [^@\n]*@([\w.$]+)\(", re.MULTILINE)
_DEFINITION = re.compile(r"^define [^@\n]*@([\w.$]+)\(", re.MULTILINE)


class _Loaded:
    """Code in this process, until this object goes."""

    def __init__(self, addresses: dict[str, int]) -> None:
        self.addresses = addresses


def declared(text: str) -> tuple[str, ...]:
    """The functions that LLVM IR calls and does not define."""
    wanted = set(_DECLARATION.findall(text)) - set(_DEFINITION.findall(text))
    return tuple(sorted(name for name in wanted if not name.startswith("llvm.")))  # llvm.* are operations, not symbols


def _link(compiled: CompiledModule) -> _Loaded:
    """The code, loaded into this process."""
    if not compiled.target.runs_here:
        raise foreign_target(compiled.target)
    return _load([compiled.object_bytes], _find_outside_symbols(compiled), compiled.exports, compiled.target)


def load_together(
    modules: Sequence[CompiledModule],
) -> None:  # an LLJIT costs half a millisecond, which several modules share here
    """Load modules for one target, of which no two export the same name, as one library, which stays until the last of them goes.
    Raises as CompiledModule.address does."""
    symbols: dict[str, int] = {}
    for module in modules:
        own = _find_outside_symbols(module) if module is modules[0] else module._symbols  # pyright: ignore[reportPrivateUsage]
        if any(symbols.setdefault(name, address) != address for name, address in own.items()):
            raise InternalError("two modules call different functions by one name")
    exports = [name for module in modules for name in module.exports]
    loaded = _load([module.object_bytes for module in modules], symbols, exports, modules[0].target)
    for module in modules:
        module._loaded = loaded  # pyright: ignore[reportPrivateUsage]


@run_in_turn
def _load(codes: Sequence[bytes], symbols: Mapping[str, int], exports: Sequence[str], target: Target) -> _Loaded:
    """Each library has an LLJIT of its own (half a millisecond): the libraries of a shared one are never quite freed."""
    library = llvm.JITLibraryBuilder().add_current_process()
    for code in codes:
        library.add_object_img(code)
    for name, address in symbols.items():  # our own addresses come before what the process has by the same name
        library.import_symbol(name, address)
    for name in exports:
        library.export_symbol(name)
    jit = llvm.create_lljit_compiler(_machine(target), use_jit_link=True)
    try:
        tracker = library.link(jit, f"tilewright_{next(_library_numbers)}")
    except RuntimeError as error:
        jit.close()
        raise InternalError(f"machine code does not link: {error}") from None
    loaded = _Loaded({name: tracker[name] for name in exports})
    weakref.finalize(
        loaded, run_on_thread, partial(_unload, tracker, jit)
    ).atexit = False  # at exit somebody may still be calling it
    return loaded


def foreign_target(target: Target) -> ForeignTarget:
    """The error for running code that this machine cannot run."""
    return ForeignTarget(
        f"code for {str(target)!r} does not run on this machine",
        reason=f"this machine is {Target().llvm_cpu}, {Target().llvm_triple}",
        called=user_source(),
        allowed='f.source("asm"), f.source("llvm") and f.export(...)',
        fix='target="llvm"',
    )


@run_in_turn
def _unload(tracker: llvm.ResourceTracker, jit: llvm.LLJIT) -> None:
    tracker.close()
    jit.close()


def _find_outside_symbols(compiled: CompiledModule) -> dict[str, int]:
    """The address of each function that the code calls and does not define."""
    symbols = dict(compiled._symbols)  # pyright: ignore[reportPrivateUsage]
    symbols.update(process_symbols(name for name in compiled.undefined_functions() if name not in symbols))
    for name in _IMPLIED:  # calls that appear only in machine code are in no text
        address = _process_symbol(name)
        if address is not None:
            symbols.setdefault(name, address)  # what the program defines stays
    return symbols


def process_symbols(names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions of this process and of the C libraries, by name. Raises UnresolvedSymbol."""
    symbols: dict[str, int] = {}
    for name in names:
        address = _process_symbol(name)
        if address is None:
            raise UnresolvedSymbol(
                f"the program calls {name!r}, which is not defined",
                reason="it is neither in this process nor in the C and mathematics libraries",
                called=user_source(),
                fix='load its library before building: ctypes.CDLL("libname.so", ctypes.RTLD_GLOBAL)',
            )
        symbols[name] = address
    return symbols


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    opened = [ctypes.CDLL(None)]  # None: the process itself, with all that is loaded for all
    for name in ("libm.so.6", "libgcc_s.so.1"):
        with suppress(OSError):  # elsewhere the C library holds them
            opened.append(ctypes.CDLL(name))
    return tuple(opened)


def _process_symbol(name: str) -> int | None:
    """Return the address of a function or variable of the process or the C libraries; None where they have none."""
    for library in _libraries():
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(library, name))  # in_dll finds variables as well as functions
        except ValueError:
            continue
    return None
