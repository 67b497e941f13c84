"""8. A first GPU kernel, without a GPU.

On a GPU, blocks of threads each compute a part of the result. Which loop runs over blocks and which over threads is part of
the schedule, as is what the threads of a block fetch together into shared memory. `target="cuda -emulate"` runs the very text
that the GPU's compiler gets on this machine's CPU, and checks each access of each thread.
"""

import numpy as np
import tilewright as tw
from tilewright import te

N = 1000

A, B = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
C = te.compute((N,), lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
blocks, threads = s[C].split(C.op.axis[0], factor=128)
s[C].bind(blocks, te.thread_axis("blockIdx.x"))
s[C].bind(threads, te.thread_axis("threadIdx.x"))

add = tw.build(s, [A, B, C], target="cuda -emulate", name="add")
print(add.source("cuda"))  # the last block has threads without an element: they are guarded

a, b, c = np.random.rand(N).astype("float32"), np.random.rand(N).astype("float32"), np.empty(N, "float32")
add(a, b, c)
np.testing.assert_array_equal(c, a + b)
print("blocks, threads:", add.kernels[0].grid, add.kernels[0].block)

# Shared memory. A transpose reads rows and writes columns: one of the two would touch memory far apart. Each block fetches a
# tile along rows, all its threads together, and writes it along rows too. The barrier between the two is put in for us.
A = te.placeholder((100, 70), name="A")
T = te.compute((70, 100), lambda i, j: A[j, i], name="T")
s = te.create_schedule(T.op)
tile = s.cache_read(A, "shared", [T])
by, bx, y, x = s[T].tile(*T.op.axis, 16, 16)
s[T].bind(by, te.thread_axis("blockIdx.y"))
s[T].bind(bx, te.thread_axis("blockIdx.x"))
s[tile].compute_at(s[T], bx)
for stage, rows, columns in ((T, y, x), (tile, *s[tile].op.axis)):
    s[stage].bind(rows, te.thread_axis((0, 16), "threadIdx.y"))
    s[stage].bind(columns, te.thread_axis((0, 16), "threadIdx.x"))

transpose = tw.build(s, [A, T], target="cuda -emulate", name="transpose")
print(transpose.source("cuda"))
a, t = np.random.rand(100, 70).astype("float32"), np.empty((70, 100), "float32")
transpose(a, t)
np.testing.assert_array_equal(t, a.T)

# What would be wrong on a GPU, now and then, is always found here: memory that one thread fills and all others read must not
# belong to one thread. (Races between threads, accesses out of bounds and barriers that some threads miss are found likewise.)
s[tile].set_scope("local")
try:
    tw.build(s, [A, T], target="cuda -emulate")
except tw.CudaError as error:
    print(error)
s[tile].set_scope("shared")

# For a real GPU only the target changes. Arguments are then tensors of torch, cupy or tw.array(x, tw.cuda(0)).
real = tw.build(s, [A, T], target="cuda -arch=sm_80", name="transpose")
try:
    device = tw.array(a, tw.cuda(0)), tw.array(t, tw.cuda(0))
    real(*device)
    np.testing.assert_array_equal(device[1].numpy(), a.T)
    print(real.time(*device))
except (
    tw.CudaError
) as error:  # no GPU here: the code can be built, looked at (source("ptx"), source("sass")) and exported
    print(error)
