"""CUDA C text to a shared library of the emulated machine, by the system's C++ compiler.

The kernels' unit is instrumented as for ThreadSanitizer, whose entry points the machine defines itself: every access of
memory comes by there. The machine's own unit is not, and is compiled once in a process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from ....base import dataclass, user_source
from ....runtime.critical_section import shielded_call
from ....runtime.folders import new_folder, sweep
from ...tools import reported_room, run_tool, tool_result
from ..errors import EmulatorUnavailable
from ..nvrtc import refusal_error
from ..warpgroup import EMULATED_KINDS

__all__ = ["EmulatedLibrary", "KernelEntry", "compile_for_emulation"]

_HERE = Path(__file__).parent
_COMMON = (
    "-std=c++17",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
)
_KERNEL = (
    "-Og",
    "-march=native",
    "-g1",
    "-w",
    "-fsanitize=thread",
    "-fsanitize=bounds",
    "-fno-omit-frame-pointer",
    "-fno-math-errno",
    "-fno-tree-loop-im",
    "-fno-move-loop-invariants",
    "-fno-ssa-phiopt",
    "-fno-if-conversion",
    "-fno-if-conversion2",
    "-fno-tree-sink",
    "-fno-ipa-icf",
)
"""Accesses are instrumented after optimisation, which must not let a thread read what the text has only another one read."""
_UNCHECKED = ("-O3", "-fno-tree-loop-vectorize", "-march=native", "-g1", "-w", "-fno-math-errno")
"""Without instruments: what a thread reads that no access of the text does is harmless where nobody looks. The loop vectorizer of gcc 12
makes wrong sums of signed integers that are converted to unsigned and back (codegen/c/prelude.py)."""


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel to call: its name, and the C type of each parameter."""

    name: str
    parameters: tuple[str, ...]


class EmulatedLibrary:
    """A loaded library: the machine, and an entry for each kernel."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.library = ctypes.CDLL(str(path))
        self.launch = self.library.tw_launch
        self.launch.restype = ctypes.c_int

    def entry(self, name: str) -> ctypes.c_void_p:
        """The address of a kernel's entry, which takes an array of pointers to its arguments."""
        return ctypes.cast(getattr(self.library, f"tw_entry_{name}"), ctypes.c_void_p)

    def line(self, place: int) -> int | None:
        """The line of the CUDA text that an offset into the library was made from; None where nobody can tell."""
        return self.lines([place])[0]

    def lines(self, places: Sequence[int]) -> list[int | None]:
        """The lines of several offsets."""
        tool = shutil.which("addr2line")
        asked = [hex(place - 1) for place in places if place]
        if tool is None or not asked:
            return [None] * len(places)
        shown = subprocess.run(
            [tool, "-a", "-i", "-e", str(self.path), *asked], capture_output=True, text=True, check=False
        )
        parts = iter(re.split(r"^0x[0-9a-f]+$", shown.stdout, flags=re.MULTILINE)[1:])
        return [_outermost(next(parts, "")) if place else None for place in places]


def _outermost(shown: str) -> int | None:
    """The line of the kernel itself, of what addr2line says was inlined there."""
    lines = [word for word in shown.split() if "kernel.cu:" in word]
    number = lines[-1].rpartition(":")[2] if lines else ""
    return int(number) if number.isdigit() else None


@cache
def _folder() -> Path:
    """Temporary folder of this process; a child that is forked goes on to use it, but leaves its removal to the one that made it."""
    sweep("emulator")
    folder, process = new_folder("emulator"), os.getpid()
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(folder, ignore_errors=True))
    return folder


@cache
def _compiler() -> str:
    for name in ("g++", "c++", "clang++"):
        path = shutil.which(name)
        if path:
            return path
    raise EmulatorUnavailable(
        "cannot emulate: there is no C++ compiler",
        called=user_source(),
        reason="the emulator compiles the CUDA text as C++",
        allowed="g++, c++ or clang++ on PATH",
        fix="install g++",
    )


def _run(command: Sequence[str]) -> None:
    done = run_tool(command, _folder(), {**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise refusal_error("the C++ compiler", done.stderr)


@cache
def _machine() -> Path:
    machine = _folder() / "machine.o"
    kinds = [f"-D{name}={number}" for number, name in enumerate(EMULATED_KINDS.values())]
    _run([_compiler(), *_COMMON, *kinds, "-O3", "-march=native", "-c", str(_HERE / "machine.cpp"), "-o", str(machine)])
    return machine


@lru_cache(maxsize=256)
@shielded_call
def compile_for_emulation(
    text: str, kernels: tuple[KernelEntry, ...], unaligned: bool, checked: bool = True
) -> EmulatedLibrary:
    """The library of CUDA C text. unaligned: for arguments that are aligned to their elements alone. checked: with instruments
    at every access. Kept in the process.

    Raises EmulatorUnavailable without a C++ compiler, UnresolvedSymbol where the program calls what nobody defines.
    """
    with reported_room():
        machine, folder = _machine(), Path(tempfile.mkdtemp(dir=_folder()))
        source, object_file = folder / "kernel.cu", folder / "kernel.o"
        source.write_text(text + "\n".join(map(_entry, kernels)) + "\n")  # first: its lines are those of errors
    command = [_compiler(), *_COMMON, *(_KERNEL if checked else _UNCHECKED), *(["-DTW_UNALIGNED"] if unaligned else [])]
    _run([*command, "-include", str(_HERE / "emulation.h"), "-x", "c++", "-c", str(source), "-o", str(object_file)])
    library = folder / "kernel.so"
    _run([_compiler(), "-shared", str(object_file), str(machine), "-lm", "-o", str(library)])
    tool_result(library, _compiler())
    with reported_room():
        return EmulatedLibrary(library, text)


def _entry(kernel: KernelEntry) -> str:
    arguments = ", ".join(f"*({kind} *)arguments[{i}]" for i, kind in enumerate(kernel.parameters))
    return f'extern "C" TW_UNCHECKED void tw_entry_{kernel.name}(void **arguments) {{ {kernel.name}({arguments}); }}'
