"""21. A pipeline and its waits, under the emulator.

Memory answers hundreds of cycles after it was asked. A pipeline asks for what later iterations need while this one computes:
`pipeline(3)` keeps three places for a tile, two of them on their way. On a GPU the copies are asynchronous, so that somebody must
wait for them, and for the other threads' copies, at the right place. The emulator does each copy at its wait, no earlier.
"""

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.scheduler import schedule
from tilewright.codegen.cuda.emulate.compiler import KernelEntry, compile_for_emulation
from tilewright.codegen.cuda.emulate.run import Launch, Memory, emulate

N = 64

A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
k = te.reduce_axis((0, N), "k")
C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def in_tiles(by_threads, **how):
    """The product with tiles of both sides in shared memory. by_threads: whether all threads copy them, 16 bytes each. how: what
    `pipeline` takes beside the number of places."""
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    tiles = [s.cache_read(tensor, "shared", [sums]) for tensor in (A, B)]
    rows, columns, y, x = s[C].tile(*C.op.axis, 16, 16)
    for axis, name in ((rows, "blockIdx.y"), (columns, "blockIdx.x"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        s[C].bind(axis, te.thread_axis(name))
    s[sums].compute_at(s[C], x)
    outer, _ = s[sums].split(s[sums].op.reduce_axis[0], factor=16)
    for tile in tiles:
        s[tile].compute_at(s[sums], outer)
        if by_threads:
            rest, lanes = s[tile].split(s[tile].fuse(*s[tile].op.axis), factor=4)
            s[tile].vectorize(lanes)
            for name in ("threadIdx.x", "threadIdx.y"):
                rest, thread = s[tile].split(rest, factor=16)
                s[tile].bind(thread, te.thread_axis((0, 16), name))
        s[tile].pipeline(3, **how)
    return s


s = in_tiles(by_threads=True)
print(tw.lower(s, [A, B, C]))

kernel = tw.build(s, [A, B, C], target="cuda -emulate")
text = kernel.source("cuda")
print(text[text.index('extern "C"') :])  # one wait and one barrier for each iteration
a, b, c = np.random.rand(N, N).astype("float32"), np.random.rand(N, N).astype("float32"), np.empty((N, N), "float32")
kernel(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-5)


# What if the compiler had it wrong? We do what a wrong one would, and run the texts.
def run(changed, kernel, a, b, c, kind):
    entry = KernelEntry(kernel.kernels[0].name, (f"const {kind} *", f"const {kind} *", "float *"))
    memories = [
        Memory(name, values.reshape(-1).view(np.uint8).copy(), values.itemsize)
        for name, values in (("A", a), ("B", b), ("C", c))
    ]
    launch = Launch(entry.name, kernel.kernels[0].grid, kernel.kernels[0].block, (0, 1, 2), a.itemsize)
    emulate(compile_for_emulation(changed, (entry,), False), [launch], memories, (), seed=0, check=True)


wait = "tw_copies_wait<1>();"
for what, changed in (
    ("a wait that lets one group too many be on its way", text.replace(wait, "tw_copies_wait<2>();")),
    (
        "a barrier before the wait instead of behind it",
        text.replace(f"{wait}\n    __syncthreads();", f"__syncthreads();\n    {wait}"),
    ),
    ("no wait at all", text.replace(wait, "")),
):
    assert changed != text
    try:
        run(changed, kernel, a, b, c, "float")
    except tw.CudaError as error:
        print(f"{what}:\n{error}\n")
    else:
        raise AssertionError(f"{what} was not found")

# An H100 has an engine that copies whole boxes of a tensor (TMA): `pipeline(3, by="tma")` has one thread ask for a tile, whose
# loops stay as they are declared. It says how many bytes will come; all wait at a barrier in shared memory, of which each place of
# the pipeline has one, until they are there. Outside of the tensor lie zeros.
s = in_tiles(by_threads=False, by="tma")
kernel = tw.build(s, [A, B, C], target="cuda -emulate -arch=sm_90a")
text = kernel.source("cuda")
print(text[text.index("for (int k_outer") :])
print(kernel.kernels[0].args)  # how boxes of A and B lie, and where C is
kernel(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-5)
tw.build(s, [A, B, C], target="llvm")(a, b, c)  # without such an engine the same schedule runs as loops
np.testing.assert_allclose(c, a @ b, rtol=1e-5)

# Warps may have roles: with `warp_specialize=True` four more warps ask for the tiles, as far ahead as there are places, and wait at
# a second barrier of each place until those that compute have no more need of it. No barrier of all threads is left in the loop.
s = in_tiles(by_threads=False, by="tma", warp_specialize=True)
kernel = tw.build(s, [A, B, C], target="cuda -emulate -arch=sm_90a")
text = kernel.source("cuda")
print(text[text.index("if (tw_computes") :])
kernel(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-5)

# An H100's tensor cores are asynchronous too: four warps begin products of what lies in shared memory, in an order of theirs
# ("swizzled"), go on to the copies of later iterations, and wait. The rule for sm_90a schedules all of this, where a product is
# large enough; for this small one we ask for its first way of that kind.
A, B = te.placeholder((N, N), "float16", name="A"), te.placeholder((N, N), "float16", name="B")
k = te.reduce_axis((0, N), "k")
C = te.compute((N, N), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="C")
s = schedule(
    [C],
    "cuda -emulate -arch=sm_90a",
    chooser=lambda _, ways: next(at for at, way in enumerate(ways) if way.description.startswith("warpgroups")),
)
print(s.plan)
kernel = tw.build(s, [A, B, C], target="cuda -emulate -arch=sm_90a")
text = kernel.source("cuda")
a, b, c = np.random.rand(N, N).astype("float16"), np.random.rand(N, N).astype("float16"), np.empty((N, N), "float32")
kernel(a, b, c)
np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=1e-4)
try:
    run(text.replace("tw_wgmma_wait<0>();", ""), kernel, a, b, c, "tw_half")
except tw.CudaError as error:
    print(f"sums that are read before their products are waited for:\n{error}")
else:
    raise AssertionError("a missing wait was not found")
