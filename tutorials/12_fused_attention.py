"""12. Attention in one kernel: scores that are never stored whole.

Attention is two products with a softmax between: softmax(Q K^T) V. Computed one after another, the scores of all queries and
keys go to memory and come back three times. Scheduled together, a block of queries takes its scores, its softmax and its
values while the scores lie in a cache. Here that is done by hand, on the six stages that attention consists of; topi.nn.attention
is the same with more cases.
"""

import math

import numpy as np
import tilewright as tw
from tilewright import te, topi

heads, n, depth, BLOCK = 4, 192, 64, 32

# The declaration. Queries come in blocks, and within a block the query is the last index: so it is what vectors run along,
# the maximum and the sum of a row need no adding up across a vector, and keys are read just as they lie.
Q, K, V = (te.placeholder((heads, n, depth), name=name) for name in "QKV")
blocks = n // BLOCK
to_bits = math.log2(math.e) / math.sqrt(depth)  # 2 ** (x log2(e)) is e ** x, and exp2 is the cheaper one
query = te.compute((heads, blocks, depth, BLOCK), lambda h, b, d, i: Q[h, b * BLOCK + i, d] * to_bits, name="query")
d = te.reduce_axis((0, depth), "d")
scores = te.compute(
    (heads, blocks, n, BLOCK), lambda h, b, j, i: te.sum(K[h, j, d] * query[h, b, d, i], axis=d), name="scores"
)


# Causal: query i sees keys up to i. The sum over keys ends where the block does; within the block a mask does the rest.
def up_to(b, name):
    return te.reduce_axis((0, b * BLOCK + BLOCK), name)


masked = te.compute(
    scores.shape,
    lambda h, b, j, i: te.select(j <= b * BLOCK + i, scores[h, b, j, i], te.const(-math.inf, "float32")),
    name="masked",
)
peak = te.compute(
    (heads, blocks, BLOCK), lambda h, b, i: te.max(masked[h, b, (j := up_to(b, "j")), i], axis=j), name="peak"
)
weight = te.compute(scores.shape, lambda h, b, j, i: te.exp2(masked[h, b, j, i] - peak[h, b, i]), name="weight")
total = te.compute(
    (heads, blocks, BLOCK), lambda h, b, i: te.sum(weight[h, b, (j := up_to(b, "j")), i], axis=j), name="total"
)
value = te.compute(
    (heads, blocks, BLOCK, depth),
    lambda h, b, i, e: te.sum(weight[h, b, (j := up_to(b, "j")), i] * V[h, j, e], axis=j),
    name="value",
)
Y = te.compute(
    (heads, n, depth), lambda h, i, e: value[h, i // BLOCK, i % BLOCK, e] / total[h, i // BLOCK, i % BLOCK], name="Y"
)

# The schedule. A task is a block of queries of a head: everything is computed at it.
s = te.create_schedule(Y.op)
h, i, e = Y.op.axis
block, i = s[Y].split(i, BLOCK)
task = s[Y].fuse(h, block)
s[Y].parallel(task)
s[Y].vectorize(e)
for stage in (query, masked, peak, weight, total, value):
    s[stage].compute_at(s[Y], task)
for stage in (query, weight, peak, total):
    s[stage].vectorize(s[stage].op.axis[-1])

# Scores in tiles of 8 keys by 32 queries, whose sums stay in registers: a key is broadcast, the queries are a vector.
keys, j = s[masked].split(masked.op.axis[2], 8)
s[masked].unroll(j)
s[masked].vectorize(masked.op.axis[3])
s[scores].set_scope("local")
s[scores].compute_at(s[masked], keys)
s[scores].reorder(d, *scores.op.axis[2:])
s[scores].unroll(scores.op.axis[2])
s[scores].vectorize(scores.op.axis[3])

# Values in tiles of 4 queries by all of depth: a weight is broadcast, the columns of V are vectors.
sums = s.cache_write(value, "local")
queries, i = s[value].split(s[value].op.axis[2], 4)
s[value].unroll(i)
s[value].vectorize(s[value].op.axis[3])
s[sums].compute_at(s[value], queries)
*_, i, e = s[sums].op.axis
s[sums].reorder(s[sums].op.reduce_axis[0], i, e)
s[sums].unroll(i)
s[sums].vectorize(e)

# The loops say what was won: no loop over keys goes past the block, and the scores that there are at once are a block's.
print(s)
f = tw.build(s, [Q, K, V, Y])
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((heads, n, depth)).astype("float32") for _ in range(3))
y = np.empty_like(q)
f(q, k, v, y)
exact = np.where(np.tri(n, dtype=bool), q.astype("f8") @ k.astype("f8").transpose(0, 2, 1) / math.sqrt(depth), -np.inf)
exact = np.exp(exact - exact.max(-1, keepdims=True))
exact = exact / exact.sum(-1, keepdims=True) @ v
np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-5)

# The operator does this for any lengths, masks or not, with chunks of keys and an online softmax where there are many. Its
# schedule is ordinary code too, and goes on with what follows: here a residual in the same kernel.
R = te.placeholder((heads, n, depth), name="R")
A = topi.nn.attention(Q, K, V, causal=True)
Z = te.compute(A.shape, lambda *at: A[at] + R[at], name="Z", tag="elementwise")
g = tw.build(topi.schedule(Z), [Q, K, V, R, Z])
z = np.empty_like(q)
g(q, k, v, q, z)
np.testing.assert_allclose(z, exact + q, rtol=1e-4, atol=1e-5)
flops = 4 * heads * n * n * depth / 2
for name, kernel, arrays in (("by hand", f, (q, k, v, y)), ("topi", g, (q, k, v, q, z))):
    print(f"{name}: {flops / kernel.time(*arrays).min / 1e9:.0f} GFLOP/s of what is seen")
