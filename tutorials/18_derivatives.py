"""18. Derivatives: of a program with a loop, and of a model that is trained.

te.gradient takes the derivative of tensors by tensors, and gives tensors: scheduled and built like any others. A model
has g.gradient, and g.training_step, which is a whole step of training as one native call.
"""

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.te.hybrid import output_tensor


# x ** n, by a loop that ends when no factor is left. Each element has a count of its own.
@te.hybrid.script
def power(x, n):
    y = output_tensor(x.shape, "float64")
    for i in range(x.shape[0]):
        y[i] = 1.0
        left = n[i]
        for _ in range(8):
            if left > 0:
                y[i] = y[i] * x[i]
                left = left - 1
    return y


x, n = te.placeholder((4,), "float64", "x"), te.placeholder((4,), "int32", "n")
y = power(x, n)
head = te.placeholder(y.shape, "float64", "head")
(by_x,) = te.gradient(y, [x], head)

# The gradient is a program as well. It runs forward once more, and keeps what the way back will read: y before each product, and
# which branch was taken. Then it runs backwards. What nobody reads back is not kept: a sum of products keeps nothing.
print(by_x.op.statement())

values, counts = np.array([2.0, 3.0, 0.5, -1.5]), np.array([0, 1, 5, 3], "int32")
found = np.empty(4)
tw.build([x, n, head, by_x])(values, counts, np.ones(4), found)
np.testing.assert_allclose(found, counts * values ** np.maximum(counts - 1, 0))

# A model: two layers that tell on which side of a circle a point lies. The loss is an output as any other.
rng = np.random.default_rng(0)
b = tw.graph.Builder("circle")
points, sides = b.input("points", (64, 2)), b.input("sides", (64, 1), "int64")
hidden = b.node(
    "tanh",
    b.node(
        "add",
        b.node("matmul", points, b.param("w1", rng.standard_normal((2, 16)).astype("float32"))),
        b.param("b1", np.zeros(16, "float32")),
    ),
)
scores = b.node(
    "add",
    b.node("matmul", hidden, b.param("w2", rng.standard_normal((16, 2)).astype("float32") / 4)),
    b.param("b2", np.zeros(2, "float32")),
)
b.output("scores", scores)
picked = b.node("gather", b.node("log_softmax", scores), sides, axis=1)
b.output("loss", b.node("negative", b.node("mean", picked, axes=(0, 1))))
g = b.graph()

# Its gradients are nodes behind its own, made by a rule for each operator; what both ways use is computed once.
print(g.gradient("loss", ["w1", "b1"]))

# A step of training takes the weights, and what the optimizer keeps beside them, as state: a call updates them where they lie.
step = g.training_step("loss", optimizer="adam", lr=0.02)
state = {name: np.array(g.params[name]) if name in g.params else np.zeros(*step.inputs[name]) for name in step.state}
m = tw.build(step)
for number in range(300):
    at = rng.uniform(-1, 1, (64, 2)).astype("float32")
    inside = (np.square(at).sum(1, keepdims=True) < 0.5).astype("int64")
    scores, loss = m(at, inside, **state)
    if number % 100 == 0:
        print(f"step {number}: loss {loss:.3f}")
right = (scores.argmax(1) == inside[:, 0]).mean()
print(f"right: {right:.0%} after {int(state['step'])} steps")
assert right > 0.85
