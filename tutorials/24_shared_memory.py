"""24. Shared memory, and how to fetch it together.

Three schedules of a matrix product for a GPU, each with what it moves. A call on the emulator counts from its addresses how many
sectors of 32 bytes each line reads of global memory, and how often a warp goes through the banks of shared memory: no GPU is needed
to see why a kernel is slow.
"""

import numpy as np
import tilewright as tw
from tilewright import te

N, TILE = 64, 32
A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
k = te.reduce_axis((0, N), "k")
C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")  # rows of A with rows of B


def threads(s):
    """A block for each tile of C, a thread for each element; returns the loop of threads and the two of k."""
    i, j, ii, jj = s[C].tile(*C.op.axis, TILE, TILE)
    s[C].bind(i, te.thread_axis("blockIdx.y"))
    s[C].bind(j, te.thread_axis("blockIdx.x"))
    s[C].bind(ii, te.thread_axis("threadIdx.y"))
    s[C].bind(jj, te.thread_axis("threadIdx.x"))
    outer, inner = s[C].split(C.op.reduce_axis[0], TILE)
    return jj, outer, inner


def fetch(s, tensor, at, apart=TILE):
    """A tile of `tensor` in shared memory, which all threads of the block bring together: neighbours bring neighbours.
    apart: the distance of its rows."""
    tile = s.cache_read(tensor, "shared", [C])
    s[tile].compute_at(s[C], at)
    s[tile].storage_align(tile.op.axis[0], 32, apart % 32)
    row, column = tile.op.axis
    s[tile].bind(row, te.thread_axis((0, TILE), "threadIdx.y"))
    s[tile].bind(column, te.thread_axis((0, TILE), "threadIdx.x"))


def measured(name, s):
    """Runs it on the emulator, which also checks for races, and prints what it moved."""
    f = tw.build(s, [A, B, C], target="cuda -emulate")
    rng = np.random.default_rng(0)
    a, b, c = *(rng.integers(0, 9, (N, N)).astype("float32") for _ in "ab"), np.zeros((N, N), "float32")
    f(a, b, c)
    assert (c == a @ b.T).all()
    (kernel,) = f.kernels
    sectors = sum(row.transactions for row in kernel.traffic if row.memory == "global" and not row.stores)
    passes = sum(row.transactions for row in kernel.traffic if row.memory == "shared")
    print(
        f"{name:28} {sectors:7} sectors read, {passes:6} passes through shared memory, {kernel.bank_conflicts:6} too many"
    )
    return f


# Without shared memory each thread reads a row of A and one of B. Neighbours read other rows of B: a sector for each number.
plain = te.create_schedule(C.op)
threads(plain)
measured("every thread for itself", plain)

# Through shared memory, each number is fetched once a block, a row of 32 neighbours at a time. But now the lanes of a warp read
# down a column of B's tile: numbers that are 32 apart, which all lie in one of the 32 banks, so that they come one after the other.
together = te.create_schedule(C.op)
jj, outer, inner = threads(together)
together[C].reorder(outer, inner)
for tensor in (A, B):
    fetch(together, tensor, outer)
measured("fetched together", together)

# Rows that are 33 apart instead of 32 lie in other banks.
padded = te.create_schedule(C.op)
jj, outer, inner = threads(padded)
padded[C].reorder(outer, inner)
fetch(padded, A, outer)
fetch(padded, B, outer, apart=33)
f = measured("with rows 33 apart", padded)
assert f.kernels[0].bank_conflicts == 0

# What the rules choose without a schedule: registers on top of that, and 16 bytes an access. Its threads take four rows of B each,
# 16 bytes of a row at once, which no distance of rows keeps apart: some passes are still too many.
f = measured("chosen by rule", tw.autoschedule.schedule([C], target="cuda -emulate"))
print(f"\n{f.kernels[0].block} threads a block; the accesses, line by line of f.source('cuda'):")
for row in f.kernels[0].traffic:
    print(
        f"  line {row.line:3}  {'store' if row.stores else 'load':5} {row.bytes:2} bytes of {row.memory:6} memory, "
        f"{row.instructions:5} warps, {row.transactions:6} transactions"
    )
