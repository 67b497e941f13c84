"""Linking: from an object to a shared library, by whatever linker there is."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...base.errors import user_source
from ...runtime.folders import temporary_folder
from ...runtime.hosts import host
from ..target import Target
from ..tools import chosen_tool, run_tool, tool_result
from .errors import LinkFailed, NoLinker

__all__ = ["program", "shared_library"]

_DRIVERS = ("cc", "clang", "gcc")  # cc is the system's own choice
_LINKERS = ("ld.lld", "ld")


def shared_library(code: bytes, file_name: str, target: Target, *, openmp: bool, opens: bool = False) -> bytes:
    """A shared library of one object: it needs the C and mathematics libraries and, with `openmp`, libgomp, as far as it
    calls them; with `opens`, dlopen, which glibc before 2.34 has in a library of its own. The environment's CC comes first, then
    the system's compilers and linkers, then the ziglang package.

    Raises NoLinker, LinkFailed.
    """
    with _folder(file_name) as folder:
        source, result = folder / "kernels.o", folder / file_name
        source.write_bytes(code)
        # soname and options say the rest
        return _run_command(folder, _command(source, result, target, openmp, opens), result)


def program(text: str, file_name: str, target: Target) -> bytes:
    """An executable of one C file, which may use dlopen, threads and mathematics, by the same compilers.

    Raises NoLinker, LinkFailed.
    """
    with _folder(file_name) as folder:
        source, result = folder / "program.c", folder / file_name
        source.write_text(text, encoding="utf-8")
        driver = _driver(target) or _zig(target)
        if driver is None:
            raise _nothing(file_name, target, "no compiler")
        return _run_command(
            folder, [*driver, "-O2", "-o", str(result), str(source), "-ldl", "-lm", "-lpthread"], result
        )


@contextmanager
def _folder(file_name: str) -> Generator[Path]:
    try:
        with temporary_folder("link") as folder:
            yield Path(folder)
    except OSError as error:
        raise LinkFailed(
            f"cannot link {file_name!r}",
            reason=f"{error.filename or 'the linker'}: {error.strerror or error}",
            called=user_source(),
            fix="check that the folder for temporary files ($TMPDIR) has room and programs may run",
        ) from error


def _run_command(folder: Path, command: Sequence[str], result: Path) -> bytes:
    """Return what a command writes to a file."""
    done = run_tool(command, folder)
    if done.returncode:
        raise LinkFailed(
            f"cannot link {result.name!r}",
            reason=f"{Path(command[0]).name} says: {_gist(done.stderr or done.stdout)}",
            called=user_source(),
            fix='export ".a" or ".o", and link it together with the libraries that define what is missing',
        )
    return tool_result(result, command[0], b"\x7fELF")  # the linker may end with 0 and write nothing


def _command(source: Path, result: Path, target: Target, openmp: bool, opens: bool) -> list[str]:
    options = ["-shared", "-o", str(result), str(source)]
    # defs: whatever is missing shall be said here, not at the first call
    passed = ["-soname", result.name, "-z", "defs", "-z", "noexecstack", "--as-needed"]
    through = [word for option in passed for word in ("-Xlinker", option)]  # -Wl, would part names at their commas
    driver, dlopen = _driver(target), ["-ldl"] if opens else []
    if driver is not None:
        # the version's own name, as compilers' libgomp.so may not be installed
        return [*driver, *options, *through, "-lm", *dlopen, *(["-l:libgomp.so.1"] if openmp else [])]
    # a foreign linker would need the foreign system's libraries
    linker = None if target.is_foreign else next(filter(None, map(shutil.which, _LINKERS)), None)
    if linker is not None:
        return [linker, *options, *passed, *_system_libraries(openmp)]
    zig = _zig(target)
    if zig is not None:
        # zig brings libc and libm, but not OpenMP
        return [*zig, *options, *through, "-lm", *dlopen, *_system_libraries(openmp, "libgomp")]
    raise _nothing(result.name, target, f"none of {', '.join((*_DRIVERS, *_LINKERS))}")


def _nothing(name: str, target: Target, lacking: str) -> NoLinker:
    lacking = lacking if not target.is_foreign else f"no compiler for {target.llvm_triple}"
    return NoLinker(
        f"this machine has no linker for {name!r}",
        called=user_source(),
        reason=f"{lacking} is on the PATH",
        allowed='".o" and ".a" need no linker',
        fix='pip install "tilewright[export]", which brings one (ziglang)',
    )


def _zig(target: Target) -> list[str] | None:
    """The compiler that the ziglang package brings, for any machine."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", "cc", "-target", _zig_target(target)]  # zig is a cross compiler by itself


def _driver(target: Target) -> list[str] | None:
    """A compiler that links for the target."""
    if target.is_foreign:
        parts = target.llvm_triple.split("-")  # Debian's names leave the vendor out
        names = (f"{target.llvm_triple}-gcc", f"{parts[0]}-{'-'.join(parts[2:])}-gcc")
        driver = next(filter(None, map(shutil.which, names)), None)
        return [driver] if driver else None
    return chosen_tool("CC", _DRIVERS)


def _system_libraries(openmp: bool, *only: str) -> list[str]:
    """The files of the libraries themselves, as this process has them loaded or the loader finds them: a linker alone does
    not know where they are."""
    import ctypes

    wanted = only or ("libc", "libm", "libgomp")
    names = [name for name in wanted if name != "libgomp" or openmp]
    numbers = {"libc": 6, "libm": 6, "libgomp": 1}  # the soversions of glibc and GCC
    for name in names:
        ctypes.CDLL(f"{name}.so.{numbers[name]}")  # loaded, so that the process's map has its path
    # /proc's map of this process
    matches = ((rf"/{name}[.-][^/\s]*so[^/\s]*$", host().loaded_files(name)) for name in names)
    return [path for pattern, paths in matches for path in paths if re.search(pattern, path)]


def _zig_target(target: Target) -> str:
    system = "linux-musl" if "musl" in target.llvm_triple else "linux-gnu"
    return f"{target.architecture}-{system}"


def _gist(output: str) -> str:
    """The lines that say what is wrong; a linker says much else."""
    # an unknown form: all lines
    lines: Sequence[str] = [line for line in output.splitlines() if re.search(r"undefined|cannot find|error", line)]
    return "\n".join((lines or output.splitlines())[:8])
