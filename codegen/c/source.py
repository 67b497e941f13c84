"""C source beside kernels: to LLVM IR where clang is found, else to a library that is loaded for them to call. The pragma import_c
brings the user's own."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from ...base.errors import user_source
from ...runtime.critical_section import shielded_call
from ...runtime.folders import temporary_folder
from ...runtime.hosts import host
from ..errors import NoCompiler, RejectedSource
from ..tools import chosen_tool, run_tool, tool_failed, tool_result, working_folder

__all__ = [
    "assembly_of_c",
    "built_c",
    "imported_addresses",
    "imported_c",
    "library_of_c",
    "link_objects",
    "llvm_of_c",
    "load_c",
    "load_imported",
    "loaded_addresses",
    "system_compiler",
]

_LOADED: list[ctypes.CDLL] = []
"""Libraries stay loaded: kernels hold addresses in them."""
_OWN_NAMES_FIRST = () if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)
"""A library calls what it defines, whoever else has loaded a function of that name."""
_LIBRARY = b"" if sys.platform == "darwin" else b"\x7fELF"
"""How a shared library begins."""


@shielded_call
def llvm_of_c(source: str) -> str:
    """LLVM IR for the pragma import_llvm that defines the functions of C++ source (`extern "C"` for those to be called).

    By clang. Where there is none, the source is compiled by the system's compiler and loaded into this process, whence the
    kernels get it, and the IR says no more than that. Raises NoCompiler and RejectedSource.
    """
    clang = shutil.which("clang++") or shutil.which("clang")
    if clang is None:
        library = load_c(source, cplusplus=True)  # load_c has made its functions visible to the JIT
        return f"; defined by {library._name}, which is loaded\n"
    with working_folder() as folder:
        place, text = Path(folder, "source.cc"), Path(folder, "source.ll")
        place.write_text(source)
        # C++ takes what C sources are mostly written as, and extern "C" besides
        _run([clang, "-x", "c++", "-O3", "-S", "-emit-llvm", "-o", text.name, place.name], folder)
        return tool_result(text, clang).decode()


@shielded_call
def load_c(source: str, cplusplus: bool = False) -> ctypes.CDLL:
    """The functions of C (or C++) source, compiled by $CC ($CXX), cc or gcc (c++ or g++) and loaded so that kernels built
    from now on find them. Raises NoCompiler and RejectedSource."""
    compiler = _compiler(cplusplus)
    with working_folder() as folder:
        place, library = Path(folder, "source.cc" if cplusplus else "source.c"), Path(folder, "libsource.so")
        place.write_text(source)
        _run([*compiler, "-O3", "-shared", "-fPIC", *_OWN_NAMES_FIRST, "-o", library.name, place.name], folder)
        try:
            _LOADED.append(host().load_for_all(str(library)))  # RTLD_GLOBAL: kernels find them by name
        except OSError as error:
            raise tool_failed(compiler[0], f"its library cannot be loaded: {error}") from error
    return _LOADED[-1]


@shielded_call
def library_of_c(source: str, options: Sequence[str], beside: Sequence[str] = ()) -> ctypes.CDLL:
    """The functions of C source, loaded for those alone who ask the library for them; it finds what the sources `beside` it define,
    and else what is loaded for all. Raises NoCompiler and RejectedSource, and OSError where it calls what nobody has."""
    made = built_c(source, options, beside)
    with temporary_folder() as folder:
        library = Path(folder, "libkernels.so")
        library.write_bytes(made)
        return ctypes.CDLL(str(library))  # loaded before the folder goes; the mapping outlives the file


@shielded_call
def built_c(source: str, options: Sequence[str], beside: Sequence[str] = ()) -> bytes:
    """A shared library of C sources. Raises NoCompiler and RejectedSource."""
    # -lm behind the sources, since linkers look leftwards for what is lacking
    return _run_compiler(source, ["-shared", "-fPIC", *_OWN_NAMES_FIRST, *options], ["-lm"], beside, _LIBRARY)


@shielded_call
def assembly_of_c(source: str, options: Sequence[str]) -> str:
    """Compile C source to assembly text. Raises NoCompiler and RejectedSource."""
    return _run_compiler(source, ["-S", "-fPIC", *options], []).decode()


def _run_compiler(
    source: str, options: Sequence[str], libraries: Sequence[str], beside: Sequence[str] = (), begins: bytes = b""
) -> bytes:
    compiler = _compiler(cplusplus=False)
    with working_folder() as folder:
        place, result = Path(folder, "kernels.c"), Path(folder, "made")
        place.write_text(source)
        others = [Path(folder, f"beside_{number}.c") for number in range(len(beside))]
        for other, text in zip(others, beside, strict=True):
            other.write_text(text)
        _run(
            [*compiler, *options, "-o", result.name, place.name, *(other.name for other in others), *libraries], folder
        )  # with the folder as working directory, messages name source.c without its path
        return tool_result(result, compiler[0], begins)


def link_objects(output: str, objects: list[str], options: list[str], compiler: str | None = None) -> None:
    """A shared library of objects and sources, by `compiler` or the system's. Raises NoCompiler, RejectedSource."""
    _run(
        [
            *([compiler] if compiler else _compiler(cplusplus=True)),
            "-shared",
            "-fPIC",
            "-o",
            output,
            *objects,
            *options,
        ],
        os.getcwd(),
    )


def system_compiler(cplusplus: bool) -> str | None:
    """The path of $CC ($CXX), cc or gcc (c++ or g++); None where there is none."""
    command = chosen_tool(*_NAMES[cplusplus])
    return None if command is None else shutil.which(command[0])


def _compiler(cplusplus: bool) -> list[str]:
    compiler = chosen_tool(*_NAMES[cplusplus])
    if compiler is None:
        raise NoCompiler(
            f"no {'C++' if cplusplus else 'C'} compiler was found",
            called=user_source(),
            reason=f"none of {', '.join(_NAMES[cplusplus][1])} is on the path",
            fix="install gcc or clang, or set CC to yours",
        )
    return compiler


_NAMES = {False: ("CC", ("cc", "gcc", "clang")), True: ("CXX", ("c++", "g++", "clang++"))}


def _run(command: Sequence[str], folder: str) -> None:
    done = run_tool(command, folder)
    if done.returncode:
        raise RejectedSource(
            f"{Path(command[0]).name} refuses the source",  # a compiler's complaints may fill pages
            reason=done.stderr.strip()[:1500] or f"it ends with status {done.returncode} and says nothing",
            called=user_source(),
            fix="compile it by itself first: the lines are counted in the text that was passed",
        )


@lru_cache(maxsize=256)
@shielded_call
def imported_c(source: str) -> str:
    """LLVM IR of C source, by clang; where there is none, the system's compiler makes a library, which is loaded into this
    process, and there is no IR. Raises NoCompiler and RejectedSource."""
    clang = shutil.which("clang")
    if clang is None:
        load_imported(source)
        return ""
    with working_folder() as folder:
        place, text = Path(folder, "source.c"), Path(folder, "source.ll")
        place.write_text(source)
        command = [clang, "-x", "c", "-O3", "-S", "-emit-llvm", "-o", str(text), str(place)]
        done = run_tool(command, folder)
        if done.returncode:
            raise RejectedSource(
                "clang refuses the C that was imported",
                reason=done.stderr.strip()[:1500],  # a compiler's complaints may fill pages
                called=user_source(),
                fix="compile it by itself first: the lines are counted in the text that was passed",
            )
        return tool_result(text, clang).decode()


@lru_cache(maxsize=256)
def load_imported(source: str) -> ctypes.CDLL:
    """The functions of C source, loaded into this process once. Raises NoCompiler and RejectedSource."""
    return load_c(source)


def imported_addresses(sources: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of the functions of C sources that LLVM IR calls; empty where clang makes LLVM IR of the sources too."""
    # with clang they are in the module itself
    return loaded_addresses(sources, names) if shutil.which("clang") is None else {}


def loaded_addresses(sources: Iterable[str], names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of those functions of `names` that the sources define: their own, whatever else is loaded by that name. Raises
    NoCompiler and RejectedSource."""
    names = list(names)
    found: dict[str, int] = {}
    for library in map(load_imported, sources):
        for name in names:
            if name not in found and hasattr(library, name):  # the first source that defines it counts
                found[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return found
