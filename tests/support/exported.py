"""Exported libraries, and C and C++ programs that call them."""

from __future__ import annotations

import ctypes
import functools
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.abi import DLPACK_TYPES, DLTensor

STRICT = {
    "cc": ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"],
    "c++": ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"],
}

needs_compiler = pytest.mark.skipif(not shutil.which("cc") or not shutil.which("c++"), reason="no cc and c++ here")
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="asks for instruction sets of x86-64")


def compile_program(folder: Path, source: str, libraries: Sequence[str], language: str = "cc") -> Path:
    """Compile and link a program beside its libraries. libraries: files of the folder, and linker options."""
    path = folder / ("program.c" if language == "cc" else "program.cpp")
    path.write_text(source)
    program = folder / f"program_{language.replace('+', 'p')}"
    command = [
        language,
        *STRICT[language],
        "-g",
        "-I",
        folder,
        "-o",
        program,
        path,
        *libraries,
        "-Wl,-rpath,$ORIGIN",
        "-lm",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def run(command: Sequence[object], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)  # pyright: ignore


@functools.cache
def scale_add(target: str = "llvm", name: str = "scale_add") -> tw.Kernel:
    """C[i, j] = A[i, j] * factor + B[j] over float32, with a symbolic number of rows and 6 columns, parallel over rows."""
    n, factor = te.var("n"), te.var("factor", "float32")
    A, B = te.placeholder((n, 6), name="A"), te.placeholder((6,), name="B")
    C = te.compute((n, 6), lambda i, j: A[i, j] * factor + B[j], name="C")
    s = te.create_schedule(C)
    s[C].parallel(C.op.axis[0])
    s[C].vectorize(C.op.axis[1])
    return tw.build(s, [A, factor, B, C], target=target, name=name)


def as_dlpack(x: np.ndarray) -> DLTensor:
    """A DLTensor on an array's memory; the array must outlive it."""
    shape = (ctypes.c_int64 * x.ndim)(*x.shape)
    strides = (ctypes.c_int64 * x.ndim)(*(step // x.itemsize for step in x.strides))
    return DLTensor(x.ctypes.data, 1, 0, x.ndim, DLPACK_TYPES[x.dtype.name], shape, strides, 0)
