"""Kernels run by nothing but what CUDA C means and what `f.kernels` says of each launch: their texts, compiled as C++ with a header
of some threads and barriers (plain_cuda.h)."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Compiled", "compiled"]

HEADER = Path(__file__).with_name("plain_cuda.h")


@dataclass(frozen=True)
class Compiled:
    """Kernels in one library, each by a number."""

    library: Any
    kernels: Sequence[Any]

    def run(self, number: int, arrays: Sequence[np.ndarray]) -> None:
        """Calls the function of a number with arrays for its arguments; workspaces are filled with rubbish."""
        kernel = self.kernels[number]
        places = [*arrays, *(np.full(each.bytes({}), 0xA5, np.uint8) for each in kernel.workspaces), *kernel.constants]
        for at, launch in enumerate(kernel.kernels):
            pointers = (ctypes.c_void_p * len(launch.args))(*(places[arg].ctypes.data for arg in launch.args))
            extents = (ctypes.c_uint32 * 6)(*launch.grid, *launch.block)
            assert not self.library[f"run_{number}_{at}"](pointers, extents), f"{launch.name} does not come to its end"


def compiled(kernels: Sequence[Any], folder: Path) -> Compiled:
    """One library of the texts of several functions, each in a namespace of its own."""
    parts = [f'#include "{HEADER}"']
    for number, kernel in enumerate(kernels):
        text = kernel.source("cuda")
        parts += [f"namespace text_{number} {{", text.replace('extern "C" ', "")]
        for at, launch in enumerate(kernel.kernels):
            given = ", ".join(f"({kind})arguments[{place}]" for place, kind in enumerate(_types(text, launch.name)))
            parts.append(
                f'extern "C" int run_{number}_{at}(void **arguments, const unsigned int *e) {{ return plain::launch('
                f"{{e[0], e[1], e[2]}}, {{e[3], e[4], e[5]}}, [=] {{ {launch.name}({given}); }}); }}"
            )
        parts.append("}")
    source = folder / "texts.cpp"
    source.write_text("\n".join(parts) + "\n")
    library = folder / "texts.so"
    command = ["g++", "-std=c++17", "-O2", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
    done = subprocess.run([*command, str(source), "-o", str(library)], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:3000]
    return Compiled(ctypes.CDLL(str(library)), kernels)


def _types(text: str, name: str) -> list[str]:
    """The types of a kernel's parameters, which are pointers."""
    found = re.search(rf"\b{name}\((.*?)\) {{", text)
    assert found, name
    return [part.replace("__restrict__", "").strip().rpartition("*")[0] + "*" for part in found[1].split(", ")]
