"""A model that a wheel ships, from its file of ONNX to a C program: the demo's sixth part.

The wheel is `magika`, a small network that tells the kind of a file from its first and its last bytes. It is not imported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["model_folder", "class_names", "run_from_c", "taken"]

ENDS = 1024
"""So many bytes of either end of a file are looked at; spaces around the whole are none of them."""
NOTHING = 256
"""Where a file is shorter."""

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "filetype.h"

enum { ENDS = %d, NOTHING = %d, BLOCK = 4096 };
static const char *names[] = {%s};
enum { NAMES = sizeof names / sizeof *names };

static int is_space(int byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

int main(int count, char **paths) {
    static int32_t bytes[2 * ENDS];
    static float score[NAMES];
    static unsigned char block[BLOCK];
    void *arena = aligned_alloc(64, filetype_arena_bytes() + 64 - filetype_arena_bytes() %% 64);
    for (int at = 1; at < count; ++at) {
        FILE *file = fopen(paths[at], "rb");
        if (!file) return 1;
        for (int i = 0; i < 2 * ENDS; ++i) bytes[i] = NOTHING;
        int size = fread(block, 1, BLOCK, file), first = 0;
        while (first < size && is_space(block[first])) ++first;
        for (int i = 0; i < ENDS && first + i < size; ++i) bytes[i] = block[first + i];
        fseek(file, 0, SEEK_END);
        long length = ftell(file);
        fseek(file, length > BLOCK ? length - BLOCK : 0, SEEK_SET);
        size = fread(block, 1, BLOCK, file);
        while (size && is_space(block[size - 1])) --size;
        for (int i = 0; i < ENDS && i < size; ++i) bytes[2 * ENDS - 1 - i] = block[size - 1 - i];
        fclose(file);
        int32_t status = filetype(bytes, score, arena);
        if (status) { fprintf(stderr, "%%s\n", filetype_error(status)); return 1; }
        int best = 0;
        for (int i = 1; i < NAMES; ++i) if (score[i] > score[best]) best = i;
        puts(names[best]);
    }
    return 0;
}
"""


def model_folder() -> Path | None:
    """Return where the wheel has its model and what it says of it; None where it is not installed."""
    spec = find_spec("magika")
    for place in spec.submodule_search_locations or () if spec else ():
        for model in sorted(Path(place).glob("models/standard_*/model.onnx"))[-1:]:
            return model.parent
    return None


def class_names(folder: Path) -> list[str]:
    """The kinds of files that the model knows, in the order of its scores."""
    return json.loads((folder / "config.min.json").read_text())["target_labels_space"]


def taken(content: bytes) -> NDArray[Any]:
    """Return what the model reads of a file: int32 (1, 2048)."""
    block = 4 * ENDS
    first, last = content[:block].lstrip()[:ENDS], content[-block:].rstrip()[-ENDS:]
    row = np.full((1, 2 * ENDS), NOTHING, np.int32)
    row[0, : len(first)] = np.frombuffer(first, np.uint8)
    row[0, 2 * ENDS - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def run_from_c(folder: Path, names: Sequence[str], paths: Sequence[Path]) -> list[str] | None:
    """The kinds of files that a C program tells with the library in `folder`; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (folder / "program.c").write_text(PROGRAM % (ENDS, NOTHING, ", ".join(json.dumps(name) for name in names)))
    command = [compiler, "-O2", "program.c", "-o", "program", "-L.", "-lfiletype", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./program", *map(str, paths)], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.split()
