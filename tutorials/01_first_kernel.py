"""1. A first kernel.

Declare what to compute; build; call it on numpy arrays.
"""

import numpy as np
import tilewright as tw
from tilewright import te

# What to compute: B is A doubled plus one, element by element. Nothing is computed yet, and nothing is said about how.
n = te.var("n")  # an extent that is known when the kernel is called
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2 + 1, name="B")

# How: a schedule begins with the plainest loops there are. Print it to see them.
s = te.create_schedule(B)
print(s)

# Primitives change the loops, never the result. Print again after each to see what it did.
outer, inner = s[B].split(B.op.axis[0], factor=16)
s[B].vectorize(inner)
print(s)

# A kernel takes its arguments in the order given here, writes its outputs in place, and checks everything it is given.
f = tw.build(s, [A, B], name="double_plus_one")
a = np.arange(20, dtype="float32")
b = np.empty_like(a)
f(a, b)
np.testing.assert_array_equal(b, a * 2 + 1)

# A call that cannot be right says what is wrong, and of which argument.
try:
    f(a.astype("float64"), b)
except tw.CallError as error:
    print(error)

# The same code answers what it cost and what became of it.
print(f.time(a, b))
print(f.source("asm")[:200], "...")
