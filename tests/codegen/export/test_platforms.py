"""Objects for macOS, Windows and Android: their format, and that they call nothing which those systems have not; the pools of threads."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from llvmlite import binding
from tilewright import te, topi
from tilewright.codegen.abi.parallel import parallel_text
from tilewright.codegen.abi.pool import pool_text
from tilewright.codegen.names import machine_and_system
from tilewright.codegen.target import Target

READER = next(filter(None, map(shutil.which, ("llvm-readobj", "llvm-readobj-16", "llvm-readobj-14"))), None)
ARCHIVER = next(filter(None, map(shutil.which, ("llvm-ar", "llvm-ar-16", "llvm-ar-14"))), None)
SYSTEMS = {
    "arm64-apple-macosx14.0.0 -mcpu=apple-m1": ("Mach-O arm64", {"_aligned_alloc", "_free", "_sysctlbyname"}),
    "x86_64-apple-macosx14.0.0 -mcpu=haswell": ("Mach-O 64-bit x86-64", {"_aligned_alloc", "_free"}),
    "x86_64-pc-windows-msvc -mcpu=x86-64-v3": ("COFF-x86-64", {"_aligned_malloc", "_aligned_free", "_fltused"}),
    "aarch64-pc-windows-msvc -mcpu=cortex-a76": (
        "COFF-ARM64",
        {"_aligned_malloc", "_aligned_free", "IsProcessorFeaturePresent"},
    ),
    "aarch64-linux-android -mcpu=cortex-a55": ("elf64-littleaarch64", {"aligned_alloc", "free", "getauxval"}),
    "riscv64-unknown-linux-gnu -mcpu=spacemit-x60": (
        "elf64-littleriscv",
        {"aligned_alloc", "free", "getauxval", "syscall"},
    ),
}
"""The format of an object, and all that it may call."""


def _kernel(triple: str) -> tw.Kernel:
    """A product and a softmax, with memory of its own."""
    a, b = te.placeholder((64, 96), name="A"), te.placeholder((96, 80), name="B")
    return tw.build([a, b, topi.nn.softmax(topi.matmul(a, b))], target=f"llvm -mtriple={triple}", name="kernel")


@pytest.mark.skipif(READER is None, reason="llvm-readobj is not installed")
@pytest.mark.parametrize("triple", SYSTEMS)
def test_objects_have_the_format_and_the_functions_of_the_system(triple: str, tmp_path: Path) -> None:
    assert READER is not None
    library, *_ = _kernel(triple).export(tmp_path / "kernel.o", threads="none")
    command = [READER, "--file-headers", "--symbols", library]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    symbols = [block.partition("\n  }")[0] for block in text.split("Symbol {")[1:]]
    names = {block.split("Name: ", 1)[1].split()[0] for block in symbols if _is_undefined(block)}
    form, allowed = SYSTEMS[triple]
    assert f"Format: {form}" in text and names - {"(0)", "@feat.00"} <= allowed
    assert any("kernel" in block and not _is_undefined(block) for block in symbols)


def _is_undefined(block: str) -> bool:
    return "Section: Undefined" in block or "IMAGE_SYM_UNDEFINED" in block or "    Type: Undef" in block


@pytest.mark.parametrize(
    ("triple", "file", "threads", "what"),
    [
        ("arm64-apple-macosx14.0.0", "libx.so", "none", ".so"),
        ("x86_64-pc-windows-msvc", "x.o", "openmp", "threads='openmp'"),
    ],
)
def test_what_a_system_has_not_is_refused(triple: str, file: str, threads: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(
        tw.ExportError, match=rf"(?s)TW0712: cannot export {what} for {triple}.*fix: f.export\(\"name.o\""
    ):
        _kernel(triple).export(tmp_path / file, threads=threads)
    assert not list(tmp_path.iterdir())


def test_a_python_package_is_for_linux(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    library = tw.Library("x")
    library.add("f", [A, te.compute((4,), lambda i: A[i], name="B")], target="llvm -mtriple=x86_64-pc-windows-msvc")
    with pytest.raises(tw.ExportError, match=r"TW0712: cannot export \.so for x86_64-pc-windows-msvc"):
        library.export_python(tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_an_archive_for_windows_is_written(tmp_path: Path) -> None:
    library, *_ = _kernel("x86_64-pc-windows-msvc").export(tmp_path / "kernel.a", threads="hook")
    assert library.read_bytes().startswith(b"!<arch>\n/")


@pytest.mark.skipif(ARCHIVER is None, reason="llvm-ar is not installed")
def test_an_archive_for_macos_is_as_llvm_writes_it(tmp_path: Path) -> None:
    assert ARCHIVER is not None
    library, *_ = _kernel("arm64-apple-macosx14.0.0 -mcpu=apple-m1").export(tmp_path / "kernel.a", threads="none")
    for command in (["x", library.name], ["--format=darwin", "rcsD", "expected.a", "kernels.o"]):
        subprocess.run([ARCHIVER, *command], cwd=tmp_path, check=True)
    assert library.read_bytes() == (tmp_path / "expected.a").read_bytes()


PROGRAM = """
#include "kernel.h"
static float a[64 * 96], b[96 * 80], y[64 * 80];
int main(void) { return kernel(a, b, y); }
"""


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the ziglang package is not installed")
@pytest.mark.parametrize(
    ("triple", "zig", "start"),
    [
        ("arm64-apple-macosx14.0.0 -mcpu=apple-m1", "aarch64-macos", b"\xcf\xfa\xed\xfe"),
        ("x86_64-pc-windows-gnu -mcpu=x86-64-v3", "x86_64-windows-gnu", b"MZ"),
        ("aarch64-pc-windows-gnu -mcpu=cortex-a76", "aarch64-windows-gnu", b"MZ"),
    ],
)
def test_a_program_for_the_system_links(triple: str, zig: str, start: bytes, tmp_path: Path) -> None:
    library, header, *_ = _kernel(triple).export(tmp_path / "kernel.a", threads="none")
    assert header.name == "kernel.h"
    (tmp_path / "main.c").write_text(PROGRAM)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "main.c", library.name, "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "program").read_bytes().startswith(start)


POOL_OF_MACOS = "int tw_parallel_for(void *, void *, int); int main(void) { return tw_parallel_for(0, 0, 0); }"
POOL_OF_WINDOWS = """
#include <stdint.h>
#include <stdio.h>
#include <windows.h>
enum { TASKS = 16 };
int32_t tw_parallel_for(int32_t (*)(int32_t, int32_t, void *), void *, int32_t);
extern struct { void *state, *run, *number; } tw_threads;
static struct { int32_t count, unplaced; void *run, *number; } state = {4, 0, 0, 0};
static volatile LONG sum, begun;
static DWORD threads[TASKS];
static int32_t body(int32_t task, int32_t tasks, void *context) {
  (void)context;
  InterlockedAdd(&sum, task + 1);
  threads[InterlockedIncrement(&begun) % TASKS] = GetCurrentThreadId();
  if (begun < 3) Sleep(1);  /* others come meanwhile */
  return tasks == TASKS ? 0 : 5;
}
int main(void) {
  int others = 0;
  state.run = tw_threads.run, state.number = tw_threads.number, tw_threads.state = &state;
  for (int round = 0; round < 100; round++) {
    sum = begun = 0;
    if (tw_parallel_for(body, 0, TASKS) || sum != TASKS * (TASKS + 1) / 2) return 3;
    for (int i = 1; i < TASKS; i++) others += threads[i] != threads[0];
    if (round % 10 == 9) Sleep(2);  /* they fall asleep */
  }
  puts(others ? "side by side" : "alone");
  return 0;
}
"""
WINE = next(filter(None, map(shutil.which, ("wine64", "wine", "/usr/lib/wine/wine64"))), None)


def link_pool(triple: str, program: str, folder: Path, *libraries: str) -> Path:
    """A program of the pool of threads, by that system's list of what its C library has: no system call of Linux is left."""
    machine, system = machine_and_system(triple)
    text = parallel_text(pool=pool_text(machine, system))
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(f'target triple = "{triple}"\n{text}')
    code = binding.Target.from_triple(triple).create_target_machine(reloc="pic").emit_object(module)
    (folder / "pool.o").write_bytes(code)
    (folder / "main.c").write_text(program)
    zig = f"{machine}-macos" if system.startswith("macos") else f"{machine}-windows-gnu"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "main.c", "pool.o", *libraries, "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the ziglang package is not installed")
@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_the_pool_of_threads_links_for_macos(architecture: str, tmp_path: Path) -> None:
    link_pool(f"{architecture}-apple-macosx14.0.0", POOL_OF_MACOS, tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the ziglang package is not installed")
@pytest.mark.parametrize("architecture", ["aarch64", "x86_64"])
def test_the_pool_of_threads_links_for_windows_and_runs(architecture: str, tmp_path: Path) -> None:
    """Where there is Wine, every task runs once, on several threads, also after these have fallen asleep."""
    program = link_pool(f"{architecture}-pc-windows-gnu", POOL_OF_WINDOWS, tmp_path, "-lapi-ms-win-core-synch-l1-2-0")
    assert program.read_bytes().startswith(b"MZ")
    if architecture != Target().architecture:
        return
    if WINE is None:
        pytest.skip("linked, and not run: Wine is not installed")
    quiet = {"WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    told = subprocess.run([WINE, program], env=os.environ | quiet, check=True, capture_output=True, text=True).stdout
    assert told.split("\n")[0].strip() == "side by side"
