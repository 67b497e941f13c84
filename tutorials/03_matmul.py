"""3. A matrix product, from the declaration alone to what hand-tuned libraries do.

The steps are those of `tilewright run --demo`; they are in demo/matmul.py, a function each.
"""

import numpy as np
import tilewright as tw
from tilewright.demo import matmul

SIZE = 256  # small enough to be quick; the demo runs 1024

rng = np.random.default_rng(0)
a, b = rng.random((SIZE, SIZE), dtype=np.float32), rng.random((SIZE, SIZE), dtype=np.float32)
c = np.empty_like(a)

for name, step in matmul.STEPS.items():
    program = step(SIZE)
    f = tw.build(program.schedule, program.args, name=name)
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    speed = 2 * SIZE**3 / f.time(a, b, c).median / 1e9
    print(f"\n{name}: {speed:.1f} GFLOP/s. {step.__doc__}")
    print(program.schedule)

# What makes the last steps fast:
#  - packed: a tile reads B without gaps, so that every cache line that is fetched is used whole;
#  - cached: the tile's sums fill half of the vector registers and live through the whole loop over k; on AVX2 that is 4 x 16 of
#    them, and each turn of the loop does 8 fused multiply-adds for 2 loads and 4 broadcasts. Look for vfmadd in the loop:
fma = [line.strip() for line in f.source("asm").splitlines() if "vfmadd" in line]
print(f"\n{len(fma)} fused multiply-adds, such as\n  " + "\n  ".join(fma[:4]))
