"""Writing libraries: kernels to machine code with a C face, as a shared library, a static one or an object."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import user_source
from ...ir.constant import Constant
from ...runtime.metadata import NoMetadata, seal_file
from ..abi.parallel import PARALLEL_FOR
from ..abi.stub import stub_text
from ..constants import definitions, fill_marks, name_symbols
from ..errors import NoCompiler
from ..llvm.build import CodegenOptions, module_text
from ..llvm.jit import object_code
from ..names import machine_and_system
from ..result import require_switch
from ..target import Target
from ..tools import tool_failed
from .cases import case_declarations, case_text
from .companion import Companion, find_handles
from .cpu import baseline, cpu_text, needed_features
from .entries import entries_text
from .errors import DoesNotFit, UnknownLibraryKind
from .files import check_place, make_folders, write_together
from .final_kernel import refuse_callback
from .gpu import GpuFunction, GpuVariant, gpu_statuses, gpu_text
from .gpu_driver import driver_text
from .header import declarations, header_text
from .link import shared_library
from .manifest import describe, manifest_text, own_version
from .metadata import metadata_text
from .names import check_names, check_parameters, entry_names, library_identifier
from .packages import package_files
from .platforms import LINUX, MACOS, check_platform, find_platform
from .python_package import check_package, package_sources
from .statuses import status_texts
from .threads import check_threads, hook_name, threads_text
from .variants import Variant, choice_text, feature_mask, find_messages

if TYPE_CHECKING:
    from .exporter import Exporter

__all__ = ["apple_archive", "archive_bytes", "write_library", "write_package"]

_KINDS = {".so": "a shared library", ".a": "a static library", ".o": "an object file"}
# names of functions in LLVM IR, declared and defined
_FUNCTION = re.compile(r"^(?:declare|define) [^@\n]*@([\w$]+)\(", re.MULTILINE)


def write_library(
    exporter: Exporter, path: str | os.PathLike[str], threads: str, loadable: bool, companion: Companion
) -> tuple[Path, Path, Path]:
    """Write a library and what lies beside it. Arguments as an Exporter takes them. Raises ExportError."""
    place = check_place(path)
    if place.suffix not in _KINDS or not place.stem:
        raise UnknownLibraryKind(
            f"cannot export to {str(path)!r}",
            reason="its suffix names no kind of library",
            called=user_source(),
            allowed=", ".join(f"{suffix} ({kind})" for suffix, kind in _KINDS.items()),
            fix=f'f.export("{place.stem or "libname"}.so")',
        )
    check_threads(threads)
    require_switch("loadable", loadable)  # before any compilation, which may take minutes
    platform = check_platform(exporter.target, place.suffix, threads)
    if exporter.gpu and platform is not LINUX:
        raise DoesNotFit(
            f"a library for {platform.name} cannot have {exporter.gpu[0].signature.name}",
            called=user_source(),
            reason="it runs on a GPU, whose driver is found as on Linux",
            fix=f'lib.export("{place.name}") for Linux',
        )
    for function in exporter.gpu:
        check_parameters(function.signature)
    for program in exporter.programs:
        check_parameters(program.signature)
        refuse_callback(program.signature.name, program.function)  # a callback's address is of this process
        # LLVM IR of it is wanted, and the fallback only loads it here
        if program.function.attrs.get("import_c") and shutil.which("clang") is None:
            raise NoCompiler(
                f"cannot export {program.signature.name}",
                called=user_source(),
                reason="C was imported into it, and only clang makes of that what a library can hold: none is on the path",
                fix="install clang, or compile the C by itself, drop import_c, and link both",
            )
    stem = place.stem.removeprefix("lib") or place.stem
    named = replace(
        exporter,
        programs=tuple(program.take_name(stem) for program in exporter.programs),
        gpu=tuple(function.take_name(stem) for function in exporter.gpu),
    )
    # a shared library always has what Python asks for
    return _Library(named, stem, threads, loadable or place.suffix == ".so", companion).write(place)


def write_package(exporter: Exporter, folder: Path, name: str, version: str, companion: Companion) -> Path:
    """Write a Python package. Arguments as Exporter.python_package takes them. Raises ExportError."""
    check_package(name, version)
    if exporter.gpu:
        raise DoesNotFit(
            f"a Python package cannot have {exporter.gpu[0].signature.name}",
            called=user_source(),
            reason="it runs on a GPU, and packages hold code of CPUs",
            fix=f'lib.export("lib{name}.so")',
        )
    check_platform(exporter.target, ".so")
    folder = check_place(folder)
    # by name and on its own threads, as a package has no application to ask
    library = _Library(exporter, name, "hook", True, companion)
    file = Path(f"lib{name}.so")
    texts = package_sources(
        name, version, own_version(), exporter.target.architecture, library.signatures, library.companion.cases
    )
    make_folders({folder / Path(text).parent for text in texts})
    write_together(
        {
            **{folder / text: (content, 0o666) for text, content in texts.items()},
            folder / name / file: (library.content(file), 0o777),
        }
    )
    return folder


class _Library:  # built step by step: each field of it needs those before
    """One library on its way to the disk."""

    def __init__(self, exporter: Exporter, stem: str, threads: str, loadable: bool, companion: Companion) -> None:
        self.exporter, self.stem, self.threads = exporter, stem, threads
        self.loadable = loadable
        self.target = exporter.target
        self.signatures = [program.signature for program in exporter.programs]
        self.every = [*self.signatures, *(function.signature for function in exporter.gpu)]
        self.variants = {program.signature.name: program.variants for program in exporter.programs}
        # the features of all targets, each once, have a bit each
        self.features = tuple(dict.fromkeys(chain.from_iterable(map(needed_features, self._targets()))))
        names = [signature.name for signature in self.every]
        variants = [each.function.name for each in chain.from_iterable(self.variants.values())]
        check_names(names, variants, ())  # texts, messages and addresses are found by these names
        self.kernels, self.kernel_parts, self.constants = self._kernels()
        texts = [*chain.from_iterable(group for _, group in self.kernel_parts), *exporter.optimised]
        # asked of the code, since passes may have made all loops serial
        self.parallel = any(f"@{PARALLEL_FOR}(" in text for text in texts)
        self.companion = self._add_cases(companion)
        companion = self.companion
        self.setters = (hook_name(library_identifier(stem)),) if threads == "hook" else ()
        # the code's own functions may not be named as an entry
        check_names(names, (*self.setters, *companion.functions), _FUNCTION.findall("\n".join(self.kernels)))
        self.api = (*(entry for name in names for entry in entry_names(name)), *self.setters, *companion.functions)

    def _add_cases(self, companion: Companion) -> Companion:
        """The companion with the functions of several shapes."""
        functions, code = dict(companion.functions), [companion.code]
        signatures = {signature.name: signature for signature in self.signatures}
        for name, cases in companion.cases.items():
            chosen = [signatures[case] for case in cases]
            functions |= case_declarations(name, chosen)
            code.append(case_text(name, chosen, self.messages, self.features, baseline(self.target)))
        return replace(companion, functions=functions, code="\n".join(filter(None, code)))

    def _targets(self) -> list[Target]:
        """Targets of all code."""
        return list(
            # one text for each target, whatever the number of kernels
            dict.fromkeys([self.target, *(each.target for each in chain.from_iterable(self.variants.values()))])
        )

    def masks(self, name: str) -> list[int]:
        """The features that each variant of a kernel needs."""
        # without variants, the library's target is what runs
        targets = [each.target for each in self.variants[name]] or [self.target]
        return [feature_mask(target, self.features) for target in targets]

    def _kernels(self) -> tuple[list[str], list[tuple[Target, list[str]]], dict[Constant, str]]:
        """LLVM IR of the kernels themselves; all groups of it, each with its target; the constants. Sets `messages`."""
        exporter = self.exporter
        # kernels with variants have their code in these alone
        own = [Variant(self.target, p.function, p.symbols) for p in exporter.programs if not p.variants]
        every = [*own, *chain.from_iterable(self.variants.values())]
        called = [*exporter.inner, *(each.checks for each in self._gpu_variants() if each.checks is not None)]
        inner = [Variant(self.target, p.function, p.symbols) for p in called]
        constants = name_symbols(each.function for each in (*every, *inner))
        for held in (
            *chain.from_iterable(each.constants for each in self._gpu_variants()),
            *(image.content for function in exporter.gpu for _, image in function.images),
        ):
            # constants of GPU kernels stand in the same memory
            constants.setdefault(held, f"tw_constant_{len(constants)}")
        messages: dict[str, tuple[str, ...]] = {}

        def text(target: Target, group: Sequence[Variant]) -> str:
            options = CodegenOptions(
                fast_math=exporter.fast_math,
                fp_contract=exporter.fp_contract,
                constants=constants,
                shape_symbols={each.function.name: each.symbols for each in group},
            )
            made, said = module_text([each.function for each in group], target, options)
            messages.update(said)  # messages are found while emitting
            return made

        kernels = {
            target: text(target, [each for each in every if each.target == target]) for target in self._targets()
        }
        choices: list[str] = []
        for signature in self.signatures:
            variants = self.variants[signature.name]
            if variants:
                messages[signature.name], begins = find_messages(variants, messages)
                choices.append(
                    choice_text(signature, variants, self.masks(signature.name), begins, baseline(self.target))
                )
        self.messages = messages
        parts = [(target, [made]) for target, made in kernels.items()]
        # the library's own target is the first
        parts[0][1].extend([*choices, *map(stub_text, self.signatures)])
        return (
            list(kernels.values()),
            # each inner function is a module of its own, as their names may repeat
            [*parts, *((self.target, [text(self.target, [each])]) for each in inner)],
            constants,
        )

    def _gpu_variants(self) -> list[GpuVariant]:
        return [variant for function in self.exporter.gpu for variant in function.variants]

    def _description(self) -> dict[str, Any]:
        return describe(
            self.stem,
            self.exporter.programs,
            self.messages,
            self.target,
            features=self.features,
            threads=self.threads,
            is_parallel=self.parallel,
            is_module=self.exporter.is_module,
            companion=self.companion,
        )

    def write(self, place: Path) -> tuple[Path, Path, Path]:
        """Write it, and what is beside it."""
        library = self.content(place)
        # the library's own target is not named where variants replace it
        targets = ", ".join(repr(str(target)) for target in self._targets()[bool(any(self.variants.values())) :])
        gpus = ", ".join(
            dict.fromkeys(image.architecture for function in self.exporter.gpu for _, image in function.images)
        )
        made_for = f"{targets} ({self.target.llvm_triple}{f'; on GPUs {gpus}' if gpus else ''})"
        header = header_text(
            self.stem,
            self.every,
            target=made_for,
            threads=self.threads,
            version=own_version(),
            companion=self.companion,
        ).encode()
        header_place, manifest_place = place.with_name(self.stem + ".h"), place.with_name(self.stem + ".json")
        described = [
            # a manifest lists declarations, the library's own description does without
            {**one, "declarations": list(declarations(function.signature)), **function.description()}
            for one, function in zip(self._gpu_functions(), self.exporter.gpu, strict=True)
        ]
        description = {**self._description(), **({"gpu_functions": described} if described else {})}
        manifest = manifest_text(description, {place.name: library, header_place.name: header}).encode()
        openmp = self.parallel and self.threads == "openmp"
        version, opens = self.companion.version or own_version(), bool(self.exporter.gpu)
        packages = package_files(self.stem, place.name, openmp=openmp, opens=opens, version=version)
        write_together(  # the library last: whoever sees it finds header and manifest
            {
                header_place: (header, 0o666),
                manifest_place: (manifest, 0o666),
                **{place.with_name(name): (content, 0o666) for name, content in packages.items()},
                place: (library, 0o777 if place.suffix == ".so" else 0o666),
            }
        )
        return place, header_place, manifest_place

    def content(self, place: Path) -> bytes:  # suffix decides what is linked
        """The bytes of the library that will be called so."""
        others = self._others(for_python=self.loadable)
        if self.loadable:
            # processors as well, since the same IR becomes other code
            processors = [text for target in self._targets() for text in (target.llvm_cpu, target.llvm_features)]
            groups = chain.from_iterable(group for _, group in self.kernel_parts)
            texts = (*groups, *self.exporter.optimised, *others, *processors)
            # what tw.load compares a library with, to know whether it is the same code
            identity = hashlib.sha256("\0".join(texts).encode()).hexdigest()
            described = {**self._description(), "gpu_functions": self._gpu_functions(), "identity": identity}
            others.append(
                metadata_text(
                    described,
                    [each.name for each in self.signatures],
                    [function.signature.name for function in self.exporter.gpu],
                )
            )
        if place.suffix != ".so":  # archives and objects take no linker
            code = self._code(others)
            if place.suffix == ".o":
                return code
            archive = apple_archive if find_platform(self.target) is MACOS else archive_bytes
            return archive("kernels.o", code, self.api)
        library = shared_library(
            self._code(others),
            place.name,
            self.target,
            openmp=self.parallel and self.threads == "openmp",
            opens=bool(self.exporter.gpu),
        )
        try:
            return seal_file(library) if self.loadable else library  # the metadata's place is known only after linking
        except NoMetadata as error:
            raise tool_failed("the linker", f"its output is not a library: {error}") from error

    def _code(self, others: list[str]) -> bytes:
        platform = find_platform(self.target) or LINUX
        parts = [(target, [*map(platform.adapt, group)]) for target, group in self.kernel_parts]
        others = [*map(platform.adapt, others)]
        code = object_code(parts, others, self.target, self.api, self.exporter.optimised)
        return fill_marks(code, self.constants)

    def _others(self, for_python: bool) -> list[str]:
        """Return what there is beside the kernels and their stubs, as LLVM IR: the C functions and what they stand on."""
        attributes = baseline(self.target)
        entries = [
            entries_text(
                s,
                # statuses of a model's companion are the same for all functions
                {**status_texts(s, self.messages[s.name], self.features), **self.companion.statuses},
                attributes,
                self.masks(s.name),
                find_handles(self.companion.types),
            )
            for s in self.signatures
        ]
        threads = threads_text(
            self.threads,
            library_identifier(self.stem),
            machine_and_system(self.target.llvm_triple),
            for_python=for_python,
        )
        constants = [definitions(self.constants)] if self.constants else []
        return [
            threads,
            cpu_text(self.target, self.features),
            *entries,
            *constants,
            *self._gpu_texts(attributes),
            *filter(None, [self.companion.code]),
        ]

    def _gpu_texts(self, attributes: str) -> list[str]:
        """The functions for GPUs, as LLVM IR."""
        texts = [driver_text(attributes)] if self.exporter.gpu else []
        for function in self.exporter.gpu:
            said = {
                **status_texts(function.signature, self._gpu_messages(function), ()),
                **gpu_statuses(function.signature),
            }
            texts += [
                gpu_text(function, self.constants, attributes),
                stub_text(function.signature),
                # 0: no feature is needed, the code is the driver's
                entries_text(function.signature, said, attributes, [0]),
            ]
        return texts

    def _gpu_messages(self, function: GpuFunction) -> tuple[str, ...]:
        """Return what the positive statuses of a function mean: the checks of one variant are those of all."""
        # any one has them
        return next(
            (self.messages[each.checks.function.name] for each in function.variants if each.checks is not None), ()
        )

    def _gpu_functions(self) -> list[dict[str, Any]]:
        """Return what is said of functions for GPUs, in the library and beside it."""
        return [
            {
                "name": function.signature.name,
                "key": function.key or function.signature.name,
                "signature": function.signature.plain_json(),
                "messages": list(self._gpu_messages(function)),
                "variants": [[]],
            }
            for function in self.exporter.gpu
        ]


# Static libraries: the `ar` format with the symbol table that linkers read, as GNU and LLVM write it.
#
# The same object gives the same bytes: no time, no owner.

_MAGIC = b"!<arch>\n"
_HEADER = "{name:<16}{time:<12}{owner:<6}{group:<6}{mode:<8}{size:<10}`\n"


def archive_bytes(member: str, content: bytes, symbols: Sequence[str]) -> bytes:
    """An archive of one object file. member: its file name, at most 15 characters of ASCII. symbols: what it defines for
    others."""
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    table_size = 4 + 4 * len(symbols) + len(names)  # a count, an offset of 32 bits for each name, and the names
    offset = len(_MAGIC) + 60 + table_size + table_size % 2  # members begin at even bytes
    # big-endian, whatever the machine (the format is older)
    table = struct.pack(f">{1 + len(symbols)}I", len(symbols), *[offset] * len(symbols)) + names
    return _MAGIC + _member("/", table, "0") + _member(f"{member}/", content, "644")


def _member(name: str, content: bytes, mode: str) -> bytes:
    # a name beyond stands in a table of long names
    assert len(name) <= 16, "longer names would need a table of their own"
    header = _HEADER.format(name=name, time=0, owner=0, group=0, mode=mode, size=len(content)).encode()
    return header + content + b"\n" * (len(content) % 2)  # padded to an even length


def apple_archive(member: str, content: bytes, symbols: Sequence[str]) -> bytes:
    """An archive of one object file as macOS has it, the bytes that llvm-ar writes: of BSD, where a member's name stands before its
    content, which begins and ends at a multiple of 8 bytes (ar(5), ranlib.h). symbols: what the object defines for others, as C
    calls it."""
    names = [b"_" + symbol.encode() + b"\0" for symbol in symbols]  # in C names have an underscore in front on macOS
    texts = b"".join(names)
    padding = -len(texts) % 8
    # behind the table's own header, name and two lengths
    offset = len(_MAGIC) + 60 + len(_INDEX) + 8 + 8 * len(names) + len(texts) + padding
    # a place in the names, and the member's offset, little-endian
    entries = b"".join(struct.pack("<2I", start, offset) for start in list(accumulate(map(len, names), initial=0))[:-1])
    table = struct.pack("<I", len(entries)) + entries + struct.pack("<I", len(texts)) + texts + b"\0" * padding
    name = member.encode()
    name += b"\0" * (-(offset + 60 + len(name)) % 8)  # so that the content begins at a multiple of 8
    content += b"\n" * (-len(content) % 8)
    members = ((_INDEX, table, "0"), (name, content, "644"))
    # #1/ says that the name's bytes stand before the content
    return _MAGIC + b"".join(_member(f"#1/{len(title)}", title + data, mode) for title, data, mode in members)


_INDEX = b"__.SYMDEF\0\0\0"
"""The name of the table of symbols, which keeps what follows at a multiple of 8 bytes."""
