"""22. A torch model to a C library: read what torch exports, look at it, ship it.

`shapes.pt2` beside this file is what torch.export saved of a small network that tells stripes, checkers and discs apart:

    program = torch.export.export(net.eval(), (images,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, "shapes.pt2")

It is read without torch, and becomes a library with one function, for any number of images, which needs nothing to run.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import tilewright as tw


def shown(graph):
    print("\n".join(line[:130] for line in str(graph).splitlines() if "param " not in line))


# 1. Read. A graph is nodes over a table of operators, each of which knows the module and the line that it comes from.
g = tw.graph.from_torch(Path(__file__).with_name("shapes.pt2"))
shown(g)

# 2. What a build makes of it first: the norm is folded into the convolution, and each kernel takes what is around its heavy node.
shown(g.transform())

# 3. Build and call. `buckets` names a size that is common: code of its own for one image, chosen natively, beside that for any.
NAMES = ["rows", "columns", "checkers", "disc"]
random = np.random.default_rng(1)


def drawn(kind):
    i, j = np.mgrid[:16, :16]
    image = [i // 2 % 2, j // 2 % 2, (i // 4 + j // 4) % 2, (i - 8) ** 2 + (j - 7) ** 2 < 16][kind]
    return (image + 0.3 * random.standard_normal((16, 16))).astype("float32")[None]


images = np.stack([drawn(kind) for kind in range(4)])
(symbol,) = g.symbols  # as torch calls the dimension
m = tw.build(g, buckets=[{symbol: 1}])
print([NAMES[at] for at in m(images).argmax(1)], m.profile(images[:1]).bucket, "|", m.profile(images).bucket)
assert [NAMES[at] for at in m(images).argmax(1)] == NAMES and m.verify(images)

# 4. Ship it: one library, one header, in which every input and output is described. weights="file" would put the parameters into a
# file of their own, which is mapped.
m.export("libshapes.so", threads="none")
header = Path("shapes.h").read_text()
print(header[header.index("/* Sizes") : header.index("#ifdef __cplusplus\n}")])

# 5. Call it from C. Nothing is allocated in a call; the memory that it works in is the caller's.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "shapes.h"
int main(void) {
    static const char *names[] = {"rows", "columns", "checkers", "disc"};
    static float image[16 * 16], score[4];
    void *arena = aligned_alloc(64, shapes_arena_bytes(1));
    while (fread(image, sizeof image, 1, stdin) == 1) {
        int32_t status = shapes(1, image, score, arena);
        if (status) { puts(shapes_error(status)); return 1; }
        int best = 0;
        for (int k = 1; k < 4; k++) if (score[k] > score[best]) best = k;
        printf("%s %.2f\n", names[best], score[best]);
    }
    free(arena);
    return 0;
}
"""
compiler = shutil.which("cc")
if compiler is None:
    print("there is no C compiler here; any would do")
else:
    Path("program.c").write_text(PROGRAM)
    subprocess.run([compiler, "-O1", "program.c", "-o", "program", "-L.", "-lshapes", "-Wl,-rpath,."], check=True)
    said = subprocess.run(["./program"], input=images.tobytes(), capture_output=True, check=True).stdout.decode()
    print(said)
    assert [line.split()[0] for line in said.splitlines()] == NAMES
