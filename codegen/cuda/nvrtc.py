"""NVIDIA's run-time compiler, NVRTC, by ctypes: CUDA C text to cubin and PTX. It needs no GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from ...base import InternalError, dataclass, user_source
from ...ir.lazy_values import cached_property
from ..errors import UnresolvedSymbol
from .errors import CompilerMissing, DisassemblerMissing

__all__ = ["Compiled", "DeviceCode", "compile_cuda", "disassemble", "find_nvrtc", "refusal_error"]

_INSTALL = "pip install 'tilewright[nvrtc]'"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Result of NVRTC.

    cubin: the machine code of one architecture. ptx: the portable assembly that it was made from. log: what the compiler reports
    of each kernel's registers and memory.
    """

    cubin: bytes
    ptx: str
    log: str


_WHEEL_FOLDERS = ("cu13", "cuda_nvrtc")
"""Where pip puts NVIDIA's packages of CUDA 13, and of CUDA 12 that with NVRTC."""


def _wheel_folders() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    places = tuple(spec.submodule_search_locations or ()) if spec is not None else ()
    return (Path(place) / folder for folder in _WHEEL_FOLDERS for place in places)


def _folders() -> Iterator[Path]:
    yield from _wheel_folders()
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield Path("/usr/local/cuda")


def find_toolkit() -> Path | None:
    """The folder of CUDA's libraries and headers: the wheels', else that of a toolkit; None where there is none."""
    return next((folder for folder in _folders() if folder.is_dir()), None)


@cache
def find_nvrtc() -> Path | None:
    """NVRTC's library: the wheel's, else that of a CUDA toolkit; None where there is none."""
    for folder in _folders():
        for library in ("lib", "lib64"):
            libraries = sorted((folder / library).glob("libnvrtc.so.*"))
            if libraries:
                return libraries[0]
    return None


@cache
def _library() -> ctypes.CDLL:
    path = find_nvrtc()
    if path is None:
        raise CompilerMissing(
            "cannot compile CUDA code: NVRTC is not installed",
            called=user_source(),
            reason="neither the package nvidia-cuda-nvrtc nor a CUDA toolkit was found",
            fix=_INSTALL,
        )
    for part in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(part))  # NVRTC opens it by name, which finds it once it is in the process
        break
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


@lru_cache(maxsize=256)
def compile_cuda(text: str, arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Machine code of CUDA C text for `arch` (sm_80 ...). Results are kept in the process.

    Raises CompilerMissing without NVRTC, or where it is older than the architecture; UnresolvedSymbol where the program calls what
    nobody defines.
    """
    library = _library()
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
    try:
        flags = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", *options]
        array = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        if library.nvrtcCompileProgram(program, len(flags), array):
            log = _text(library, program, "ProgramLog")
            raise _too_old(library, arch) if "gpu-architecture" in log else refusal_error("NVRTC", log)
        return Compiled(
            _bytes(library, program, "CUBIN"), _text(library, program, "PTX"), _text(library, program, "ProgramLog")
        )
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _too_old(library: ctypes.CDLL, arch: str) -> CompilerMissing:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return CompilerMissing(
        f"cannot compile CUDA code for {arch}: NVRTC {major.value}.{minor.value} is older than that architecture",
        called=user_source(),
        reason=f"it was found at {find_nvrtc()}",
        fix=f"{_INSTALL}, or -arch= of an architecture that it knows",
    )


def refusal_error(compiler: str, log: str) -> UnresolvedSymbol | InternalError:
    """Return the error for a compiler's refusal of our text: a function of the user's that nobody defines, or a fault of ours."""
    unknown = re.search(r"identifier \"(\w+)\" is undefined|‘(\w+)’ was not declared", log)
    name = next(filter(None, unknown.groups()), "") if unknown else ""
    if not name or name.startswith("tw_"):
        return InternalError(f"{compiler} rejects the code that was made:\n{log[:4000]}")
    return UnresolvedSymbol(
        f"the program calls {name!r}, which is not defined",
        called=user_source(),
        reason="it is not a function of CUDA C",
        fix="call a function that CUDA C has",
    )


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        raise InternalError(f"NVRTC: {library.nvrtcGetErrorString(status).decode()}")


def _bytes(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _bytes(library, program, what).rstrip(b"\0").decode(errors="replace")


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """The SASS of a cubin, by nvdisasm; with lines, and the lines of the text that it came from. Raises DisassemblerMissing."""
    tool = _disassembler()
    if tool is None:
        raise DisassemblerMissing(
            "cannot show SASS: nvdisasm is not installed",
            called=user_source(),
            reason="neither the package nvidia-cuda-nvdisasm nor a CUDA toolkit was found",
            fix=_INSTALL,
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--print-code", *(["--print-line-info-inline"] if lines else []), file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@cache
def _disassembler() -> Path | None:
    for folder in _folders():
        if (folder / "bin" / "nvdisasm").exists():
            return folder / "bin" / "nvdisasm"
    path = shutil.which("nvdisasm")
    return Path(path) if path else None


@dataclass
class DeviceCode:
    """The text of one function's kernels, compiled when it is asked for."""

    text: str
    arch: str
    options: tuple[str, ...]

    @cached_property
    def compiled(self) -> Compiled:
        """The code for arguments that are aligned as arrays of this package are."""
        return compile_cuda(self.text, self.arch, self.options)

    @cached_property
    def sass(self) -> str:
        """The assembly of it. Raises DisassemblerMissing."""
        return disassemble(self.compiled.cubin)

    def binary(self, unaligned: bool) -> Compiled:
        """The code. unaligned: for arguments that are aligned to their elements alone."""
        more = ("-DTW_UNALIGNED",) if unaligned else ()
        return compile_cuda(self.text, self.arch, (*self.options, *more))
