"""7. Ship a library: a kernel for C, C++ and other Pythons, with no Python and no runtime of ours behind it.

The unsharp mask of the image pipeline sharpens a picture from a C program.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright.demo import unsharp
from tilewright.demo.picture import read_picture

picture, _ = read_picture()  # a photograph where scikit-image is installed, else rings
image = np.ascontiguousarray(picture[:400, :600])
s, args = unsharp.scheduled(*image.shape)

# A library runs on every processor that has what its target has: x86-64-v3 is any with AVX2, of the last ten years.
# Without -mcpu it is for processors like this one.
portable = "llvm -mcpu=x86-64-v3" if platform.machine() == "x86_64" else "llvm"
sharpen = tw.build(s, args, target=portable, name="sharpen")

# One call writes the library, its C header, and a manifest in JSON: functions, shapes, target, versions, hashes.
# threads: "openmp" shares parallel loops among OpenMP's threads, "none" runs them on the caller's, "hook" lets the
# application say how. The suffix says what is written: .so, .a or .o.
folder = Path("shipped")
folder.mkdir(exist_ok=True)
for path in sharpen.export(folder / "libsharpen.so", threads="openmp"):
    print(f"{path}: {path.stat().st_size} bytes")
print((folder / "sharpen.h").read_text().partition('extern "C"')[2])

# Python loads it without llvmlite, and calls are checked as before: the shape here, for one.
loaded = tw.load(folder / "libsharpen.so")
out = np.empty_like(image)
loaded(image, out)
assert (out == unsharp.reference(image)).all()
try:
    loaded(image[1:], out)
except tw.CallError as error:
    print(error)

# C includes the header and links the library. `sharpen` trusts its caller; `sharpen_checked` takes DLPack's tensors and
# checks them as Python's calls do. Either returns a status, 0 for success, that `sharpen_error` puts into words.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "sharpen.h"

int main(void) {
    enum { BYTES = %d * %d * %d };
    uint8_t *image = malloc(BYTES), *sharp = malloc(BYTES);
    FILE *file = fopen("image.raw", "rb");
    if (!file || fread(image, 1, BYTES, file) != BYTES) return 1;
    int32_t status = sharpen(image, sharp);
    if (status) { fprintf(stderr, "%%s\n", sharpen_error(status)); return 1; }
    file = fopen("sharp.raw", "wb");
    return !file || fwrite(sharp, 1, BYTES, file) != BYTES || fclose(file);
}
"""
(folder / "image.raw").write_bytes(image.tobytes())
(folder / "program.c").write_text(PROGRAM % image.shape)
if shutil.which("cc"):
    command = "cc -O2 program.c -o program -L. -lsharpen -Wl,-rpath,$ORIGIN"
    subprocess.run(command.split(), cwd=folder, check=True)
    subprocess.run(["./program"], cwd=folder, check=True)
    sharp = np.frombuffer((folder / "sharp.raw").read_bytes(), np.uint8).reshape(image.shape)
    assert (sharp == out).all()
    print(f"{command}\n./program sharpened the picture to the bit as Python does")
else:
    print("no C compiler here: the library is in", folder)
