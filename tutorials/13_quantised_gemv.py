"""13. A matrix times a vector in 4 bits: what a language model does for each word.

To write a word, a model multiplies one vector by every matrix that it has. Each weight is used once, so the time is that of
reading the weights, and fewer bits are faster. We store weights as 4-bit numbers with a scale for each 32 of them, and look
at what the result loses and at what the processor does.
"""

import numpy as np
import tilewright as tw
from tilewright import te, topi

n, k = 1024, 1024
rng = np.random.default_rng(0)
weights = rng.standard_normal((n, k)).astype("float32") / np.float32(k) ** 0.5
x = rng.standard_normal((1, k)).astype("float32")

# Once, when a model is loaded: 4 bits a weight and a float16 for each group of 32.
packed, scales = topi.nn.quantize_groups(weights, bits=4)
stored_bytes = packed.nbytes + scales.nbytes
print(
    f"float32: {weights.nbytes} bytes; 4 bits: {stored_bytes}, which is {8 * stored_bytes / weights.size} bits a weight"
)
assert stored_bytes < weights.nbytes / 7

# In a kernel weights are arguments like any other. A bias, an activation or a residual that follows would be part of it.
X, P, S = (
    te.placeholder((1, k), name="X"),
    te.placeholder(packed.shape, "uint8", "P"),
    te.placeholder(scales.shape, "float16", "S"),
)
Y = topi.nn.weight_only_dense(X, P, S, n)
f = tw.build(topi.schedule(Y), [X, P, S, Y])
y = np.empty((1, n), "float32")
f(x, packed, scales, y)

# Two roundings: that of the weights, which everybody who uses these weights has, and that of x to 8 bits for each group of
# 32, which makes the products whole numbers. The second is the smaller by far.
stored = topi.nn.dequantize_groups(packed, scales, n, k).astype("f8")
exact, with_stored = x @ weights.astype("f8").T, x @ stored.T
size = np.sqrt(np.mean(exact**2))
lost = [np.sqrt(np.mean(difference**2)) / size for difference in (with_stored - exact, y - with_stored)]
print(f"of a typical result, 4-bit weights lose {lost[0]:.1%}, and 8-bit x {lost[1]:.1%} more")
assert lost[0] < 0.15
assert lost[1] < 0.02

# Each bound is stated by the operator, and holds for every element.
peaks = np.abs(x.reshape(1, -1, 32)).max(-1) / 253
bound = np.einsum("bg,ng->bn", peaks, np.abs(stored).reshape(n, -1, 32).sum(-1)) + 1e-5
assert (np.abs(y - with_stored) <= bound).all()

# The schedule is made of ordinary primitives: weights are unpacked in registers, and multiplied by an instruction that takes
# 64 pairs of bytes.
print(topi.schedule(Y).as_python())
used = "vpdpbusd" in f.source("asm")
print("vpdpbusd does it" if used else "this processor has no such instruction, and the portable body runs")

# Against float32, which reads eight times as much.
W = te.placeholder((n, k), name="W")
D = topi.nn.dense(X, W)
g = tw.build(topi.schedule(D), [X, W, D])
d = np.empty((1, n), "float32")
small, full = f.time(x, packed, scales, y).min, g.time(x, weights, d).min
print(f"4 bits {small * 1e6:.0f} µs, float32 {full * 1e6:.0f} µs")
np.testing.assert_allclose(d, exact, rtol=1e-3, atol=1e-4)
