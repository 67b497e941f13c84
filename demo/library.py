"""A kernel leaves as a library, and a C program uses it: the demo's fourth part."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "unsharp.h"

enum { HEIGHT = %d, WIDTH = %d, CHANNELS = %d, BYTES = HEIGHT * WIDTH * CHANNELS, ROUNDS = 20 };

int main(void) {
    uint8_t *image = malloc(BYTES), *sharp = malloc(BYTES);
    FILE *file = fopen("image.raw", "rb");
    if (!image || !sharp || !file || fread(image, 1, BYTES, file) != BYTES) return 1;
    struct timespec from, to;
    for (int round = 0; round <= ROUNDS; ++round) {
        if (round == 1) clock_gettime(CLOCK_MONOTONIC, &from);
        int32_t status = unsharp(image, sharp);
        if (status) { fprintf(stderr, "%%s\n", unsharp_error(status)); return 1; }
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%%.9f\n", (double)(to.tv_sec - from.tv_sec) / ROUNDS + (double)(to.tv_nsec - from.tv_nsec) * 1e-9 / ROUNDS);
    file = fopen("sharp.raw", "wb");
    return !file || fwrite(sharp, 1, BYTES, file) != BYTES || fclose(file);
}
"""


def write_library(kernel: Kernel, folder: Path) -> list[Path]:
    """libunsharp.so, its C header and its manifest, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return list(kernel.export(folder / "libunsharp.so", threads="openmp"))


def run_from_c(image: NDArray[Any], folder: Path) -> tuple[NDArray[Any], float] | None:
    """The picture that a C program made with the library in `folder`, and its seconds a call; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (folder / "image.raw").write_bytes(image.tobytes())
    (folder / "program.c").write_text(PROGRAM % image.shape)
    command = [compiler, "-O2", "program.c", "-o", "program", "-L.", "-lunsharp", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./program"], cwd=folder, check=True, capture_output=True, text=True)
    return np.frombuffer((folder / "sharp.raw").read_bytes(), np.uint8).reshape(image.shape), float(done.stdout)
