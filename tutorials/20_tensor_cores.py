"""20. Tensor cores, without a GPU.

A tensor core multiplies tiles of matrices in one instruction of a whole warp. Programs whose dtypes allow that get it by rule:
float16 and bfloat16 added up in float32, int8 added up in int32. This shows what the rule chose, and the same by hand.
"""

import numpy as np
import tilewright as tw
from tilewright import te


def product(m, n, k):
    """float16 times float16, added up in float32: the dtypes of the declaration are what asks for a tensor core."""
    A, B = te.placeholder((m, k), "float16", name="A"), te.placeholder((k, n), "float16", name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r].astype("float32") * B[r, j].astype("float32"), axis=r), name="C")
    return A, B, C


# By rule. The plan tells the tile of a block, its warps, and how far ahead of its use memory is asked for.
A, B, C = product(4096, 4096, 4096)
s = tw.autoschedule.schedule([C], target="cuda -arch=sm_80")
print(s.plan)
print(s.is_exact)  # a tensor core adds 16 products in an order of its own; with exact=True the rule does not take it

# Any size will do: what reaches beyond the matrices is filled with zeros on its way to shared memory. On the emulator, the very
# text that a GPU's compiler gets.
A, B, C = product(67, 45, 100)
kernel = tw.build([A, B, C], target="cuda -emulate")
rng = np.random.default_rng(0)
a, b = rng.standard_normal((67, 100)).astype("float16"), rng.standard_normal((100, 45)).astype("float16")
c = np.empty((67, 45), "float32")
kernel(a, b, c)
np.testing.assert_allclose(c, a.astype("float64") @ b.astype("float64"), rtol=1e-3, atol=1e-4)

# By hand. `matricize` makes whole tiles of the matrices; stages in the scopes mma_a, mma_b and mma_c lie in the registers of a
# warp, and `tensorize` puts the instructions in place of the loops over one tile of them.
A, B, C = product(61, 37, 50)
s = te.create_schedule(C.op)
i, j = C.op.axis
a_tiles, b_tiles, c_tiles = s.matricize(C, [i], [j], padding=(16, 8, 16))
sums = s.cache_write(c_tiles, "mma_c")
fragments = s.cache_read(a_tiles, "mma_a", [sums]), s.cache_read(b_tiles, "mma_b", [sums])
for tensor in (a_tiles, b_tiles, c_tiles):
    s[tensor].set_scope("shared")

rows, columns, y, x = s[C].tile(i, j, 16, 8)  # a block, of one warp, for each tile of the result
s[C].bind(rows, te.thread_axis("blockIdx.y"))
s[C].bind(columns, te.thread_axis("blockIdx.x"))
_, lane = s[C].split(s[C].fuse(y, x), factor=32)
s[C].bind(lane, te.thread_axis((0, 32), "threadIdx.x"))
s[c_tiles].compute_at(s[C], columns)
s[c_tiles].tensorize(s[c_tiles].op.axis[0], te.intrinsics.get("cuda.mma_store"))

s[sums].compute_at(s[C], columns)
si, sj = s[sums].op.axis
outer, inner = s[sums].split(s[sums].op.reduce_axis[0], factor=16)
s[sums].reorder(outer, si, sj, inner)
s[sums].tensorize(si, te.intrinsics.get("cuda.mma_m16n8k16"))
for tensor, fragment, load in zip((a_tiles, b_tiles), fragments, ("cuda.mma_load_a", "cuda.mma_load_b"), strict=True):
    s[fragment].compute_at(s[sums], outer)
    s[fragment].tensorize(s[fragment].op.axis[0], te.intrinsics.get(load))
    s[tensor].compute_at(s[sums], outer)
    _, lane = s[tensor].split(s[tensor].fuse(*s[tensor].op.axis), factor=32)
    s[tensor].bind(lane, te.thread_axis((0, 32), "threadIdx.x"))
print(tw.lower(s, [A, B, C]))

kernel = tw.build(s, [A, B, C], target="cuda -emulate")
a, b = rng.integers(-9, 9, (61, 50)).astype("float16"), rng.integers(-9, 9, (50, 37)).astype("float16")
c = np.empty((61, 37), "float32")
kernel(a, b, c)
np.testing.assert_array_equal(c, a.astype("float64") @ b.astype("float64"))  # of whole numbers every sum is exact
