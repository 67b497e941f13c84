"""Kernels for other processors, linked by a cross compiler into static programs and run by qemu-user."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

__all__ = ["ARM", "MACHINES", "EmulatorFault", "RISCV", "needs", "run", "run_sources"]

ARM, RISCV = "llvm -mtriple=aarch64-unknown-linux-gnu", "llvm -mtriple=riscv64-unknown-linux-gnu"
MACHINES = {
    "v8.0": (f"{ARM} -mcpu=cortex-a53", "cortex-a53"),
    "dotprod": (f"{ARM} -mcpu=cortex-a76", "max,sve=off"),
    "i8mm": (f"{ARM} -mattr=+dotprod,+i8mm,+bf16,+fullfp16,+fp16fml", "max,sve=off"),
    "sve128": (f"{ARM} -mcpu=neoverse-n2", "max,sve-default-vector-length=16"),
    "sve256": (f"{ARM} -mcpu=neoverse-v1 -msve-vector-bits=256", "max,sve-default-vector-length=32"),
    "sve512": (f"{ARM} -mcpu=a64fx", "max,sve-default-vector-length=64"),
    "rv64gc": (RISCV, "rv64"),
    "rvv128": (f"{RISCV} -mattr=+v", "rv64,v=true,vlen=128"),
    "rvv256": (f"{RISCV} -mattr=+v,+zvl256b", "rv64,v=true,vlen=256"),
    "rvv512": (f"{RISCV} -mattr=+v,+zvl512b", "rv64,v=true,vlen=512"),
    "rvv128 on 512": (f"{RISCV} -mattr=+v", "rv64,v=true,vlen=512"),
}
"""The target, and the processor that qemu is told to be."""
_MINUTE = 60


class EmulatorFault(Exception):
    """An assertion of qemu itself, which version 7.2 has of some loads of vectors on RISC-V."""


def _tools(machine: str) -> tuple[str | None, str | None]:
    architecture = "riscv64" if machine.startswith("rv") else "aarch64"
    return shutil.which(f"qemu-{architecture}"), shutil.which(f"{architecture}-linux-gnu-gcc")


def needs(*machines: str) -> pytest.MarkDecorator:
    """Skip where one of the machines cannot be linked for, or run."""
    lacking = {f"for {machine} qemu-user or a cross gcc" for machine in machines if None in _tools(machine)}
    return pytest.mark.skipif(bool(lacking), reason=f"not installed: {', '.join(sorted(lacking))}")


_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int32_t {name}({types});
static const size_t sizes[] = {{ {sizes} }};
static void *buffers[{count}];
int main(void) {{
  for (int at = 0; at < {count}; at++) {{
    buffers[at] = aligned_alloc(64, (sizes[at] + 64) / 64 * 64);
    if (fread(buffers[at], 1, sizes[at], stdin) != sizes[at]) return 2;
  }}
  int32_t status = {name}({arguments});
  if (status) {{ fprintf(stderr, "status %d", (int)status); return 1; }}
  for (int at = 0; at < {count}; at++) fwrite(buffers[at], 1, sizes[at], stdout);
  return 0;
}}
"""


def run(kernel: Any, arrays: Sequence[np.ndarray], machine: str, folder: Path, cpu: str = "") -> list[np.ndarray]:
    """Return the arrays after the kernel, which is named "kernel", or that of a library, was called with them there. cpu: another
    processor than the machine's.

    Raises AssertionError for a status, with what the program said."""
    library, *_ = kernel.export(folder / "kernel.o", threads="none")
    source = folder / "program.c"
    source.write_text(
        _PROGRAM.format(
            name="kernel",
            types=", ".join(["void *"] * len(arrays)),
            sizes=", ".join(str(array.nbytes) for array in arrays),
            count=len(arrays),
            arguments=", ".join(f"buffers[{at}]" for at in range(len(arrays))),
        )
    )
    content = b"".join(array.tobytes() for array in arrays)
    received = run_sources([source.name, library.name], content, machine, folder, cpu)
    results, at = list[np.ndarray](), 0
    for array in arrays:
        results.append(np.frombuffer(received, array.dtype, array.size, at).reshape(array.shape))
        at += array.nbytes
    return results


def run_sources(names: Sequence[str], content: bytes, machine: str, folder: Path, cpu: str = "") -> bytes:
    """Link sources and objects of a folder, run the program there with this input, and return its output. cpu: another processor than
    the machine's.

    Raises AssertionError for a status, with what the program said, and EmulatorFault."""
    qemu, compiler = _tools(machine)
    assert qemu is not None and compiler is not None
    command = [compiler, "-O1", "-static", "-o", "program", *names, "-lm"]
    subprocess.run(command, cwd=folder, check=True, timeout=_MINUTE)
    done = subprocess.run(
        [qemu, "-cpu", cpu or MACHINES[machine][1], folder / "program"],
        input=content,
        capture_output=True,
        timeout=_MINUTE,
        check=False,
    )
    if b"target/riscv/translate.c" in done.stderr:
        raise EmulatorFault(done.stderr.decode(errors="replace"))
    assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout
