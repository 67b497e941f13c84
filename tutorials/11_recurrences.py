"""11. Recurrences, and code that is not ours: scan, extern, packed functions, traces.

A recurrence computes each step from earlier ones. te.scan says how it begins and how it goes on; the steps are stages like
any other. Where a library or a Python function does better, te.extern calls it on whole tensors.
"""

import numpy as np
import tilewright as tw
from tilewright import te

# A recurrent network: h[t] = tanh(W h[t - 1] + x[t]). The placeholder `state` stands for h in what a step computes.
time, width = te.size_var("time"), 64
X = te.placeholder((time, width), name="X")
W = te.placeholder((width, width), name="W")
state = te.placeholder((time, width), name="state")
k = te.reduce_axis((0, width), "k")
begin = te.compute((1, width), lambda _, i: te.tanh(X[0, i]), name="begin")
product = te.compute((time, width), lambda t, i: te.sum(W[i, k] * state[t - 1, k], axis=k), name="product")
step = te.compute((time, width), lambda t, i: te.tanh(product[t, i] + X[t, i]), name="step")
H = te.scan(begin, step, state, inputs=[X], name="H")

# The stages of a step stand within the loop over time, and schedule like any other. A step follows those that it reads.
s = te.create_schedule(H.op)
outer, inner = s[product].split(product.op.axis[1], 16)
s[product].reorder(outer, k, inner)
s[product].vectorize(inner)
s[step].vectorize(step.op.axis[1])
print(s)
try:
    s[H].parallel(H.op.scan_axis)
except tw.ScheduleError as error:
    print(error)

rng = np.random.default_rng(0)
x, w = rng.standard_normal((10, width)).astype("float32"), rng.standard_normal((width, width)).astype("float32") / 8
h = np.empty_like(x)
tw.build(s, [X, W, H])(x, w, h)
expected = [np.tanh(x[0])]
for row in x[1:]:
    expected.append(np.tanh(w @ expected[-1] + row))
np.testing.assert_allclose(h, expected, rtol=1e-4, atol=1e-5)

# Time may be split into tiles of steps. What reads no state is computed for a tile of them at once, here the products of the
# inputs; so is what reads only states of earlier tiles. Loops over time change places where each step still follows those that it
# reads.
V, n = te.placeholder((width, width), name="V"), te.reduce_axis((0, width), "n")
given = te.compute((time, width), lambda t, i: te.sum(V[i, n] * X[t, n], axis=n), name="given")
step = te.compute((time, width), lambda t, i: te.tanh(state[t - 1, i] + given[t, i]), name="step")
H2 = te.scan(begin, step, state, inputs=[X], name="H2")
s = te.create_schedule(H2.op)
tile, _ = s[H2].split(H2.op.scan_axis, 8)
s[given].compute_at(s[H2], tile)
print(s)
h2 = np.empty_like(x)
tw.build(s, [X, V, H2])(x, w, h2)
expected = [np.tanh(x[0])]
for row in x[1:]:
    expected.append(np.tanh(expected[-1] + w @ row))
np.testing.assert_allclose(h2, expected, rtol=1e-4, atol=1e-5)


# An extern computes whole tensors from whole tensors. Its body is written with tw.ir_builder, or is a call: here of a
# Python function by the name under which it is registered, which gets numpy views of the memory.
@tw.register_func("tutorial.sort_rows")
def sort_rows(rows, result):
    result[...] = np.sort(rows, axis=1)


S = te.extern(H.shape, [H], lambda ins, outs: te.call_packed("tutorial.sort_rows", ins[0], outs[0]), name="S")
M = te.compute((time,), lambda t: S[t, width // 2], name="M")  # the upper median of each row
s = te.create_schedule(M.op)
medians = np.empty(10, "float32")
tw.build(s, [X, W, M])(x, w, medians)
np.testing.assert_allclose(medians, np.sort(h, axis=1)[:, width // 2], rtol=1e-4, atol=1e-5)


# Its exceptions come back to whoever called the kernel.
@tw.register_func("tutorial.refuse")
def refuse(*arrays):
    raise ValueError(f"not these: {', '.join(str(array.shape) for array in arrays)}")


E = te.extern(X.shape, [X], lambda ins, outs: te.call_packed("tutorial.refuse", ins[0], outs[0]), name="E")
try:
    tw.build([X, E])(x, np.empty_like(x))
except tw.CallError as error:
    print(error, "\ncaused by", repr(error.__cause__))

# C functions need no Python, so such kernels can be exported. The library that has them is loaded before the build:
# ctypes.CDLL("libmine.so", ctypes.RTLD_GLOBAL). Those of the C library are there already.
bytes_of = te.const(4 * width, "int64")
C = te.extern(
    (width,),
    [W],
    lambda ins, outs: te.call_extern("handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), bytes_of),
    name="C",
)
row = np.empty(width, "float32")
tw.build([W, C])(w, row)
np.testing.assert_array_equal(row, w[0])

# te.trace prints a value each time that it is computed.
T = te.compute((3,), lambda i: te.trace([i, X[i, 0]], "row"), name="T")
tw.build([X, T])(x, np.empty(3, "float32"))
