# ruff: noqa: F821
"""9. Loops and ifs as one operation: hybrid script.

te.compute says what one element is. Some programs are not like that: which boxes of a detector stay, how values are
sorted, how often each value occurs. They are written as a Python function of loops, ifs and assignments, which is one
operation among others, and whose loops are scheduled.
"""

import numpy as np
import tilewright as tw
from tilewright import te


@te.hybrid.script
def histogram(values, bins, parts):
    """How often each of 0 ... bins - 1 occurs: every part counts its own, then the counts are added up."""
    n = values.shape[0]
    counts = output_tensor((bins,), "int32")
    own = allocate((parts, bins), "int32")  # begins as zeros, as counts does
    each = ceil_div(n, parts)
    for p in range(parts):
        for i in range(each):
            if p * each + i < n:
                own[p, values[p * each + i]] += 1
    for b in range(bins):
        total = 0
        for q in range(parts):
            total += own[q, b]
        counts[b] = total
    return counts


# On arrays it runs as the Python that it is: print in it, step through it.
data = np.random.default_rng(0).integers(0, 16, 1001).astype("int32")
expected = np.bincount(data, minlength=16)
np.testing.assert_array_equal(histogram(data, 16, 4), expected)

# On tensors it gives a tensor, whose loops are the axes of its operation. Sizes may be symbols.
n = te.size_var("n")
V = te.placeholder((n,), "int32", name="V")
C = histogram(V, 16, 4)
D = te.compute((16,), lambda b: C[b].astype("float32") / n.astype("float32"), name="D")  # read like any other
s = te.create_schedule(D.op)
loops = {axis.name: axis for axis in s[C].op.axis}

# Parts write elements of their own, and so do bins; both are proved, so both may run in parallel.
s[C].parallel(loops["p"])
s[C].vectorize(loops["b"])
print(s)

shares = np.empty(16, "float32")
tw.build(s, [V, D])(data, shares)
np.testing.assert_allclose(shares, expected / len(data), rtol=1e-6)

# Two values may be alike, so counting within a part stays in order. Without parts there would be no parallel loop at all.
try:
    s[C].vectorize(loops["i"])
except tw.ScheduleError as error:
    print(error)


# Where places are read from memory nobody can know that no two are alike, and a parallel loop over them is refused; unless each
# iteration adds in one step.
@te.hybrid.script
def occurrences(values, bins):
    counts = output_tensor((bins,), "int32")
    for i in parallel(values.shape[0]):
        atomic_add(counts, values[i], 1)
    return counts


N = occurrences(V, 16)
counts = np.empty(16, "int32")
tw.build(te.create_schedule(N.op), [V, N])(data, counts)
np.testing.assert_array_equal(counts, expected)


# Mistakes are shown at your line.
P = te.placeholder((9,), name="P")


@te.hybrid.script
def all_doubled(values):
    results = output_tensor(values.shape, values.dtype)
    doubled = [values[i] * 2.0 for i in range(9)]
    for i in range(9):
        results[i] = doubled[i]
    return results


try:
    all_doubled(P)
except tw.TensorExpressionError as error:
    print(error)


# Loops may be left before their end: by break, continue and return, which skip what they skip in Python. A `while` runs as long as
# its condition holds. No schedule changes the order of such a loop; loops within and around it are scheduled as ever.
@te.hybrid.script
def first_below(values, limit):
    at = output_tensor((1,), "int32")
    for i in range(values.shape[0]):
        if values[i] < limit:
            break
        at[0] += 1
    return at


R = first_below(P, 0.5)
place = np.empty(1, "int32")
tw.build(te.create_schedule(R.op), [P, R])(np.array([3, 1, 0.25, 7, 0, 1, 1, 1, 1], "float32"), place)
assert place[0] == 2
