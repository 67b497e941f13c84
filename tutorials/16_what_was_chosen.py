"""16. What tilewright chose, and why: read a plan, overrule one decision, tune from there.

Programs that nobody scheduled are scheduled by rules, which look at what is read and estimate what each way would take. This
walks through one decision: what there was to choose from, what the estimate says, and how to decide otherwise.
"""

import numpy as np
import tilewright as tw
from tilewright import autotune, te

# The best path of two steps between any two places: a product of matrices over (max, +). No operator has a name for it.
M, N, K = 384, 160, 131
A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
k = te.reduce_axis((0, K), "k")
C = te.compute((M, N), lambda i, j: te.max(A[i, k] + B[k, j], axis=k), name="C")

# 1. The plan. One row: the rule "sums" took a tile of results that stays in registers, out of so many, and says what its time
# goes to. -mcpu asks for a row of published facts, so that this prints the same everywhere.
s = tw.autoschedule.schedule(C, "llvm -mcpu=haswell")
print(s.plan)
(row,) = s.plan

# 2. The others, by their estimates. What binds each says why it is where it is: the best ones do nothing but compare and choose
# ("select throughput"), and tiles of more sums than there are registers wait until some were stored and loaded ("latency of the
# sum").
ordered = sorted(
    (estimate.seconds, description, estimate.binds) for description, estimate in row.candidates if estimate
)
for seconds, description, binds in ordered[:4] + ordered[-2:]:
    print(f"{seconds * 1e6:8.1f} us  {description:36} {binds}")
assert row.seconds is not None and row.seconds <= 1.02 * ordered[0][0], "the least is taken; 2 % are a tie"

# The parts of an estimate, in seconds by what they are spent on. docs/autoschedule.md has the formulas.
assert row.estimate is not None
print({name: f"{seconds * 1e6:.1f} us" for name, seconds in row.estimate.parts})

# 3. Another machine, another choice: twice as many registers, which are twice as wide.
print(tw.autoschedule.schedule(C, "llvm -mcpu=icelake-server").plan[0].description)
# On this machine, `tilewright doctor --calibrate` measures what a row only supposes; calibration=None leaves that out.
print(tw.autoschedule.schedule(C, calibration=None).plan[0].description)


# 4. Overrule one decision. A rule of your own is asked before all others. This one knows a single group, by its anchor, and
# schedules it by hand: a tile of 2 by 16, in registers. Everything else is left to the rules.
class SmallTile(tw.autoschedule.Rule):
    name, what, does = "small tile", "the product called C", "a tile of 2 x 16 results in registers"

    def matches(self, group):
        return group.anchor.name == "C" and group.output is group.anchor

    def apply(self, group):
        s, result = group.s, group.anchor.output(0)
        sums = s.cache_write(result, "local")
        i, j = s[result].op.axis
        (i, rows), (j, lanes) = s[result].split(i, factor=2), s[result].split(j, factor=16)
        s[result].reorder(i, j, rows, lanes)
        s[result].unroll(rows)
        s[result].vectorize(lanes)
        s[result].parallel(i)
        s[sums].compute_at(s[result], j)
        s[sums].reorder(*s[sums].op.reduce_axis, *s[sums].op.axis)
        s[sums].unroll(s[sums].op.axis[0])
        s[sums].vectorize(s[sums].op.axis[1])


with tw.autoschedule.register(SmallTile()):
    mine = tw.autoschedule.schedule(C)
print(mine.plan)
assert mine.plan[0].rule == "small tile"

# Both compute the same; which is faster here is measured, not argued.
rng = np.random.default_rng(0)
a, b = rng.standard_normal((M, K), "float32"), rng.standard_normal((K, N), "float32")
expected = (a[:, :, None] + b[None]).max(axis=1)
for what, schedule in ("rules", tw.autoschedule.schedule(C)), ("by hand", mine):
    f, c = tw.build(schedule, [A, B, C]), np.empty((M, N), "float32")
    f(a, b, c)
    np.testing.assert_array_equal(c, expected)
    print(f"{what}: {f.time(a, b, c, repeat=3, min_repeat_ms=2).min * 1e6:.0f} us")

# 5. Tune from there. The tuner measures what rules can only estimate; its results are kept in a database, and taken from it by
# name. More trials find more: these are for the tutorial.
result = autotune.tune([A, B, C], trials=6, database="chosen.sqlite", progress=False)
print(f"{len(result.history)} trials, the best {result.best.seconds * 1e6:.0f} us")
f, c = tw.build([A, B, C], tuned="chosen.sqlite"), np.empty((M, N), "float32")
f(a, b, c)
np.testing.assert_array_equal(c, expected)
