"""23. Why is this node slow? Profile a model, read its plan, overrule a choice, tune.

A model is one native call, but not a closed box: its kernels are known by the nodes that they are made of, each has a schedule
that was chosen by an estimate, and both can be asked, and changed.
"""

import numpy as np
import tilewright as tw
from tilewright import autotune

random = np.random.default_rng(0)


def weights(*shape):
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32")


# A small network on an image: two convolutions, a pooling, a product. `source` is what the profile will call them.
b = tw.graph.Builder("small")
x = b.input("image", (1, 3, 33, 33))
x = b.node("relu", b.node("conv", x, b.param("stem", weights(16, 3, 3, 3)), padding=(1, 1, 1, 1), source="stem"))
for at in range(3):  # three equal layers: one kernel, which runs three times
    x = b.node(
        "relu", b.node("conv", x, b.param(f"w{at}", weights(16, 16, 3, 3)), padding=(1, 1, 1, 1), source=f"block {at}")
    )
x = b.node("mean", x, axes=(2, 3), keepdims=False, source="pool")
b.output("score", b.node("softmax", b.node("matmul", x, b.param("head", weights(16, 10)), source="head")))
g = b.graph()
m = tw.build(g)
image = random.standard_normal((1, 3, 33, 33)).astype("float32")

# 1. Where does the time go? A row for each kernel, in the order of a call, with what it computes and moves in a second.
profile = m.profile(image)
print(profile)
slowest = max(profile.rows, key=lambda row: row.seconds)
print(f"the slowest is {slowest.operators} ({', '.join(slowest.nodes)}): {slowest.seconds / profile.seconds:.0%}\n")

# 2. Why? The plan says for each kernel which rule took what, out of how many, and what the estimate says its time goes to. A kernel
# whose time is far above its estimate is worth a look; one that is bound by the machine is not slow, but large.
print(m.plan, "\n")
task = next(task for task in m.plan if task.name == slowest.kernel)
decision = task.schedule().plan[-1]
print(f"{task.name} runs {task.count} times. Chosen: {decision.description}, among others such as")
print("\n".join(f"    {description}" for description, _ in decision.candidates[1:4]))
assert decision.estimate is not None and task.count == 3
print({part: f"{seconds * 1e6:.1f} us" for part, seconds in decision.estimate.parts if seconds > 1e-6})


# 3. Overrule it. A rule that is registered is asked before all others; here, to see what happens, it takes plain loops for
# convolutions. It holds for whatever is scheduled while it is registered, so the model is built within.
class Plain(tw.autoschedule.Rule):
    name, what, does = "plain", "convolutions", "the loops as they are declared"

    def matches(self, group):
        return "conv" in str(group.anchor.tag)

    def apply(self, group):
        s, result = group.s, group.output.output(0)
        if group.anchor is not group.output:
            s[group.anchor.output(0)].compute_at(s[result], s[result].op.axis[1])
        s[result].parallel(s[result].op.axis[1])


with tw.autoschedule.register(Plain()):
    mine = tw.build(g)
    print("\noverruled:", sorted({row.rule for one in mine.plan for row in one.schedule().plan}))
np.testing.assert_allclose(mine(image), m(image), rtol=1e-3, atol=1e-5)
times = [one.time(image, repeat=3, min_repeat_ms=2).min * 1e6 for one in (m, mine)]
print(f"by the rules {times[0]:.0f} us, overruled {times[1]:.0f} us")

# 4. Tune. The trials are shared among the kernels by their part of the time; the results are kept in a database, from which any
# later build of this model, or of another one with the same layers, takes it. These are few, for the tutorial.
result = autotune.tune(g.tasks()[:2], trials=4, database="slow.sqlite", progress=False)
for name, one in result.results.items():
    print(f"{name}: {one.best.seconds * 1e6:.1f} us after {len(one.history)} trials, {result.counts[name]} in a call")
tuned = tw.build(g, tuned="slow.sqlite")
np.testing.assert_allclose(tuned(image), m(image), rtol=1e-3, atol=1e-5)
print(tuned.verify(image))
