"""6. Let the tuner find a schedule.

The space is what the rules choose from, and the search begins at their choice: the result is that or something faster. Each
candidate is built and run in another process, compared with the unscheduled program, and recorded; run this file again and it
goes on where it stopped.
"""

import numpy as np
import tilewright as tw
from tilewright import autotune, te

SIZE, TRIALS = 192, 12  # small enough to be quick; give it 128 trials for a kernel that you will keep


def product(size):
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    return [a, b, te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


result = autotune.tune(product(SIZE), trials=TRIALS, database="matmul.sqlite")
print(result)
print(result.schedule.as_python())

# The results are used by name of the database, also in another process, another day:
f = tw.build(product(SIZE), tuned="matmul.sqlite")
rng = np.random.default_rng(0)
x, y = rng.random((SIZE, SIZE), dtype=np.float32), rng.random((SIZE, SIZE), dtype=np.float32)
z = np.empty_like(x)
f(x, y, z)
np.testing.assert_allclose(z, x @ y, rtol=1e-4)


# A space of your own is a template: it defines what is open, and applies the choice.
@autotune.template("rows in vectors")
def rows(cfg, size):
    a, b, c = product(size)
    s = te.create_schedule(c)
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    cfg.define_split("tile", j, policy="power2", num_outputs=2, filter=lambda split: split.size[-1] >= 16)
    outer, inner = cfg["tile"].apply(s, c, j)
    cfg.define_reorder("order", [i, outer, k], policy="candidate", candidate=[(0, 1, 2), (1, 0, 2)])
    cfg["order"].apply(s, c, [i, outer, k])
    s[c].vectorize(inner)
    return s, [a, b, c]


print(autotune.tune(rows.task(SIZE), trials=6, database="matmul.sqlite"))
# On the command line: tilewright tune FILE.py:function, tilewright db ls, tilewright report -o page.html
