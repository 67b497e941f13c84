"""A library sharpens a photograph for a C program and a C++ program as it does in Python, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import tilewright as tw
from exported import compile_program, needs_compiler, needs_x86, run
from tilewright.demo import unsharp

pytestmark = needs_compiler

PROGRAM = r"""
#include "sharpen.h"
#include <stdio.h>
#include <stdlib.h>

enum { HEIGHT = %d, WIDTH = %d, CHANNELS = %d, BYTES = HEIGHT * WIDTH * CHANNELS };

%s

static int same(const uint8_t *a, const uint8_t *b) {
    for (int i = 0; i < BYTES; i++) if (a[i] != b[i]) return 0;
    return 1;
}

int main(int argc, char **argv) {
    uint8_t *image = (uint8_t *)malloc(BYTES), *sharp = (uint8_t *)calloc(BYTES, 1), *again = (uint8_t *)calloc(BYTES, 1);
    int64_t shape[3] = { HEIGHT, WIDTH, CHANNELS };
    DLTensor from, to;
    int32_t status;
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : 0;
    if (!image || !sharp || !again || !file || fread(image, 1, BYTES, file) != BYTES) return 10;
    fclose(file);
    %s
    status = sharpen(image, sharp);
    if (status) { fprintf(stderr, "%%s\n", sharpen_error(status)); return 11; }

    from.data = image; from.device.device_type = kDLCPU; from.device.device_id = 0; from.ndim = 3;
    from.dtype.code = kDLUInt; from.dtype.bits = 8; from.dtype.lanes = 1;
    from.shape = shape; from.strides = 0; from.byte_offset = 0;
    to = from;
    to.data = again;
    status = sharpen_checked(&from, &to);
    if (status || !same(sharp, again)) { fprintf(stderr, "checked: %%s\n", sharpen_error(status)); return 12; }
    status = sharpen_checked(&from, &from);
    if (!status) return 13;
    printf("%%s\n", sharpen_error(status));

    file = fopen(argv[2], "wb");
    if (!file || fwrite(sharp, 1, BYTES, file) != BYTES || fclose(file)) return 14;
    free(image); free(sharp); free(again);
    return 0;
}
"""

HOOK = r"""
static int tasks_run = 0;
static int32_t two_halves(sharpen_task body, void *context, int32_t limit) {
    int32_t tasks = limit < 2 ? limit : 2, first = 0;
    for (int32_t task = tasks - 1; task >= 0; task--) {
        int32_t status = body(task, tasks, context);
        if (status) first = status;
        tasks_run++;
    }
    return first;
}
static void report(void) { if (tasks_run != 4) { fprintf(stderr, "%d tasks\n", tasks_run); exit(15); } }
"""
"""Two calls run, each with one parallel loop: the plain one and the checked one. The refused one runs nothing."""


@pytest.fixture(scope="module")
def photograph() -> np.ndarray:
    return np.ascontiguousarray(skimage.data.astronaut()[:251, :333])


@pytest.fixture(scope="module")
def kernels(photograph: np.ndarray) -> dict[str, tw.Kernel]:
    s, args = unsharp.scheduled(*photograph.shape)
    return {target: tw.build(s, args, target=target, name="sharpen") for target in ("llvm", "llvm -mcpu=x86-64-v3")}


def program_text(photograph: np.ndarray, threads: str) -> str:
    setup = "sharpen_set_parallel_for(two_halves); atexit(report);" if threads == "hook" else ""
    return PROGRAM % (*photograph.shape, HOOK if threads == "hook" else "", setup)


@pytest.mark.parametrize("language", ["cc", "c++"])
@pytest.mark.parametrize(
    ("file", "threads"), [("libsharpen.so", "openmp"), ("libsharpen.a", "hook"), ("sharpen.o", "none")]
)
def test_a_program_sharpens_a_photograph_as_python_does(
    kernels: dict[str, tw.Kernel],
    photograph: np.ndarray,
    tmp_path: Path,
    language: str,
    file: str,
    threads: str,
) -> None:
    kernels["llvm"].export(tmp_path / file, threads=threads)
    program = compile_program(tmp_path, program_text(photograph, threads), [file], language)
    (tmp_path / "image.raw").write_bytes(photograph.tobytes())
    done = run([program, tmp_path / "image.raw", tmp_path / "sharp.raw"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("TW0511: 'sharp' (argument 2 of sharpen) is written to and shares memory")
    sharp = np.frombuffer((tmp_path / "sharp.raw").read_bytes(), np.uint8).reshape(photograph.shape)
    here = np.empty_like(photograph)
    kernels["llvm"](photograph, here)
    assert np.array_equal(sharp, here)
    assert np.array_equal(sharp, unsharp.reference(photograph))


@needs_x86
@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind here")
@pytest.mark.parametrize("threads", ["none", "hook", "openmp"])
def test_valgrind_finds_nothing(
    kernels: dict[str, tw.Kernel], photograph: np.ndarray, tmp_path: Path, threads: str
) -> None:
    kernels["llvm -mcpu=x86-64-v3"].export(tmp_path / "libsharpen.so", threads=threads)
    program = compile_program(tmp_path, program_text(photograph, threads), ["libsharpen.so"])
    (tmp_path / "image.raw").write_bytes(photograph.tobytes())
    # OpenMP's threads are never joined: valgrind calls their stacks possibly lost
    leaks = "definite" if threads == "openmp" else "all"
    done = run(
        [
            "valgrind",
            "--error-exitcode=99",
            "--leak-check=full",
            f"--errors-for-leak-kinds={leaks}",
            program,
            tmp_path / "image.raw",
            tmp_path / "sharp.raw",
        ]
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR SUMMARY: 0 errors" in done.stderr
    sharp = np.frombuffer((tmp_path / "sharp.raw").read_bytes(), np.uint8).reshape(photograph.shape)
    assert np.array_equal(sharp, unsharp.reference(photograph))


@needs_x86
@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind here")
def test_a_processor_without_the_instructions_gets_a_status_and_no_signal(
    photograph: np.ndarray, tmp_path: Path
) -> None:
    """valgrind's processor has AVX2 and no AVX-512."""
    s, args = unsharp.scheduled(*photograph.shape)
    tw.build(s, args, target="llvm -mcpu=x86-64-v4", name="sharpen").export(tmp_path / "libsharpen.so", threads="none")
    program = compile_program(tmp_path, program_text(photograph, "none"), ["libsharpen.so"])
    (tmp_path / "image.raw").write_bytes(photograph.tobytes())
    done = run(["valgrind", "--quiet", program, tmp_path / "image.raw", tmp_path / "sharp.raw"])
    assert done.returncode == 11, done.stderr
    assert "TW0742: this processor lacks an instruction set that sharpen needs: one of" in done.stderr
    assert "avx512f" in done.stderr
