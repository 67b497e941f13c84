"""2. Schedule primitives, each with the loops that it makes."""

import numpy as np
import tilewright as tw
from tilewright import te

M, N, K = 60, 50, 40


def declare():
    """C = A B, and D = C clipped at zero."""
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((M, N), lambda i, j: te.max(C[i, j], 0), name="D")
    return A, B, C, D


def show(title, s, args):
    """Prints the loops, then runs them: whatever the schedule, the result is the same."""
    print(f"\n--- {title}\n{s}")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((M, K)).astype("float32"), rng.standard_normal((K, N)).astype("float32")
    d = np.empty((M, N), "float32")
    tw.build(s, args)(a, b, d)
    np.testing.assert_allclose(d, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


# split: one loop becomes two. Where the factor does not divide the extent, a guard keeps the last turn inside.
A, B, C, D = declare()
s = te.create_schedule(D)
s[D].split(D.op.axis[0], factor=16)
show("split by 16: 60 = 4 * 16 - 4", s, [A, B, D])

# reorder and tile: which loop runs inside which. tile is two splits and a reorder.
A, B, C, D = declare()
s = te.create_schedule(D)
i, j = C.op.axis
(k,) = C.op.reduce_axis
io, jo, ii, ji = s[C].tile(i, j, 10, 10)
s[C].reorder(io, jo, k, ii, ji)
show("tile, the reduction between the tiles and what is in them", s, [A, B, D])

# fuse: two loops become one.
A, B, C, D = declare()
s = te.create_schedule(D)
s[D].fuse(*D.op.axis)
show("fuse", s, [A, B, D])

# vectorize, unroll, parallel: how a loop runs.
A, B, C, D = declare()
s = te.create_schedule(D)
s[D].parallel(D.op.axis[0])
s[D].vectorize(D.op.axis[1])
s[C].unroll(s[C].split(C.op.reduce_axis[0], factor=4)[1])
show("parallel rows, vectors along them, the reduction unrolled by four", s, [A, B, D])

# compute_at: a producer moves into its consumer's loops, and computes what one turn of them needs.
A, B, C, D = declare()
s = te.create_schedule(D)
s[C].compute_at(s[D], D.op.axis[0])
show("C computed at each row of D", s, [A, B, D])

# compute_inline: a producer disappears into its consumers.
X = te.placeholder((N,), name="X")
Y = te.compute((N,), lambda i: X[i] + 1, name="Y")
Z = te.compute((N,), lambda i: Y[i] * 2, name="Z")
s = te.create_schedule(Z)
s[Y].compute_inline()
print(f"\n--- Y inlined\n{s}")

# cache_write: the result is gathered in a buffer of its own and copied out once.
A, B, C, D = declare()
s = te.create_schedule(D)
tile = s.cache_write(C, "local")
s[tile].compute_at(s[C], C.op.axis[0])
show("C through a cache", s, [A, B, D])

# cache_read: an input is copied to where it is used.
A, B, C, D = declare()
s = te.create_schedule(D)
row = s.cache_read(A, "local", [C])
s[row].compute_at(s[C], C.op.axis[0])
show("A's row through a cache", s, [A, B, D])

# rfactor: a reduction in parts, which may then run side by side.
A, B, C, D = declare()
s = te.create_schedule(D)
outer, inner = s[C].split(C.op.reduce_axis[0], factor=8)
part = s.rfactor(C, inner)
s[part].compute_at(s[C], C.op.axis[1])
s[part].vectorize(part.op.axis[0])
show("the sum over k in eight parts", s, [A, B, D])

# A schedule remembers what was done to it, and writes it down as code.
print(s.as_python())

# What becomes of a stage: here each element of the partial sums is computed once, in eight elements of storage. Where
# compute_at computes the same again and again, explain says so, and where to compute it instead.
print(s.explain(part))
s[part].compute_at(s[C], C.op.axis[0])
print(f"recomputed {s.explain(part).recompute:g} times a row further out, with {s.explain(part).storage} bytes")

# What a stage can take now, on which axes, and why not the rest: every primitive is tried on a copy.
print(s.options(D))

# The schedule against the program without it, by the checking interpreter and by native code, on drawn inputs.
print(s.verify())

# A page to open in a browser: records, loops with their costs, and assembly, linked.
print(s.show("schedule.html"))

# A change that cannot be right is refused at once, with the reason.
try:
    s[D].vectorize(C.op.reduce_axis[0])
except tw.ScheduleError as error:
    print(error)
