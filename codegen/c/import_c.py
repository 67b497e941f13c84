"""C of the user's (the pragma import_c), for the kernels that call its functions."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ...base.errors import user_source
from ...runtime.critical_section import shielded_call
from ..errors import RejectedSource
from ..tools import run_tool, tool_result, working_folder
from .source import load_c

__all__ = ["imported_addresses", "imported_c", "load_imported", "loaded_addresses"]


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
