"""10. Training a network: te.gradient.

Reverse mode turns an expression into the expression of its derivative. The results are tensors like any other: the
convolution's gradient is a sum over the kernel again, it is scheduled by the same primitives, and it ends up in the same
kernel. Here LeNet-5 (LeCun et al., 1998) learns scikit-learn's handwritten digits (`pip install scikit-learn`); numpy makes the
steps (AdamW: Loshchilov and Hutter, 2019).
"""

import time

import numpy as np
import tilewright as tw
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tilewright import te

# A small one first: y = sum_k A[i, 2 i + k] w[k], and what of w's derivative is left after the equations are solved.
A, w = te.placeholder((6, 16), name="A"), te.placeholder((3,), name="w")
k = te.reduce_axis((0, 3), "k")
y = te.compute((6,), lambda i: te.sum(A[i, 2 * i + k] * w[k], axis=k), "y")
head = te.placeholder((6,), name="head")  # the derivative of something by y; without it the Jacobian comes out
by_A, by_w = te.gradient(y, [A, w], head)
print(tw.lower(te.create_schedule([by_A.op, by_w.op]), [A, w, head, by_A, by_w]))


# The layers.
def conv(x, weights, bias, pad, name):
    n, channels, height, width = x.shape
    out, _, size, _ = weights.shape
    if pad:
        x = te.compute(
            (n, channels, height + 2 * pad, width + 2 * pad),
            lambda b, c, y, z: te.if_then_else(
                te.all(y >= pad, y < height + pad, z >= pad, z < width + pad), x[b, c, y - pad, z - pad], 0.0
            ),
            f"{name}_padded",
        )
    c, p, q = (te.reduce_axis((0, extent), axis) for extent, axis in ((channels, "c"), (size, "p"), (size, "q")))
    shape = (n, out, height + 2 * pad - size + 1, width + 2 * pad - size + 1)
    sums = te.compute(
        shape, lambda b, f, y, z: te.sum(x[b, c, y + p, z + q] * weights[f, c, p, q], axis=[c, p, q]), name
    )
    return te.compute(shape, lambda b, f, y, z: te.max(sums[b, f, y, z] + bias[f], 0.0), f"{name}_relu")


def max_pool(x, name):
    n, channels, height, width = x.shape
    p, q = te.reduce_axis((0, 2), "p"), te.reduce_axis((0, 2), "q")
    return te.compute(
        (n, channels, height // 2, width // 2),
        lambda b, c, y, z: te.max(x[b, c, 2 * y + p, 2 * z + q], axis=[p, q]),
        name,
    )


def dense(x, weights, bias, name):
    k = te.reduce_axis((0, x.shape[1]), "k")
    sums = te.compute((x.shape[0], weights.shape[1]), lambda i, j: te.sum(x[i, k] * weights[k, j], axis=k), name)
    return te.compute(sums.shape, lambda i, j: sums[i, j] + bias[j], f"{name}_biased")


def cross_entropy(z, labels):
    n, classes = z.shape
    j, k, i = te.reduce_axis((0, classes), "j"), te.reduce_axis((0, classes), "k"), te.reduce_axis((0, n), "i")
    top = te.compute((n,), lambda i: te.max(z[i, j], axis=j), "top")
    total = te.compute((n,), lambda i: te.sum(te.exp(z[i, k] - top[i]), axis=k), "total")
    each = te.compute((n,), lambda i: te.log(total[i]) + top[i] - z[i, labels[i]], "each")
    return te.compute((), lambda: te.sum(each[i] / float(n), axis=i), "loss")


# The network, over images of 16 by 16.
def network(batch):
    images, labels = te.placeholder((batch, 1, 16, 16), name="images"), te.placeholder((batch,), "int32", name="labels")
    shapes = {
        "w1": (6, 1, 5, 5),
        "b1": (6,),
        "w2": (16, 6, 5, 5),
        "b2": (16,),
        "w3": (64, 120),
        "b3": (120,),
        "w4": (120, 84),
        "b4": (84,),
        "w5": (84, 10),
        "b5": (10,),
    }
    w = {name: te.placeholder(shape, name=name) for name, shape in shapes.items()}
    x = max_pool(conv(images, w["w1"], w["b1"], 2, "conv1"), "pool1")
    x = max_pool(conv(x, w["w2"], w["b2"], 0, "conv2"), "pool2")
    x = te.compute((batch, 64), lambda i, j: x[i, j // 4, j // 2 % 2, j % 2], "flat")
    for at in "34":
        x = dense(x, w[f"w{at}"], w[f"b{at}"], f"dense{at}")
        x = te.compute(x.shape, lambda i, j, x=x: te.max(x[i, j], 0.0), f"relu{at}")
    scores = dense(x, w["w5"], w["b5"], "dense5")
    return images, labels, list(w.values()), scores, cross_entropy(scores, labels)


# One schedule for every stage, forward and backward: the reduce axes of a stage go outside its last axis, which becomes
# vectors where it is long; short ones, whose guards differ from lane to lane, are left to LLVM.
def scheduled(outputs):
    s = te.create_schedule([tensor.op for tensor in outputs])
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp) and stage.op.axis:
            last = stage.op.axis[-1]
            s[stage.op].reorder(*stage.op.reduce_axis, last)
            if int(last.dom.extent) >= 16:
                s[stage.op].vectorize(last)
    return s


batch = 32
images, labels, weights, scores, loss = network(batch)
gradients = te.gradient(loss, weights)  # of a scalar: no head, and each gradient has its weight's shape
began = time.perf_counter()
step = tw.build(scheduled([loss, *gradients]), [images, labels, *weights, loss, *gradients])
classify = tw.build(scheduled([scores]), [images, *weights, scores])
print(f"compiled in {time.perf_counter() - began:.1f} s")

digits = load_digits()
pictures = (digits.images / 16).repeat(2, axis=1).repeat(2, axis=2)[:, None].astype("float32")
train_x, test_x, train_y, test_y = train_test_split(
    pictures, digits.target.astype("int32"), test_size=360, random_state=0, stratify=digits.target
)

rng = np.random.default_rng(0)
shapes = [[int(extent) for extent in w.shape] for w in weights]
reach = [np.prod(shape[1:]) if len(shape) == 4 else shape[0] for shape in shapes]  # how much each output sums over
values = [
    (rng.standard_normal(shape) * np.sqrt(2 / n) * (len(shape) > 1)).astype("float32")
    for shape, n in zip(shapes, reach, strict=True)
]
slopes = [np.empty_like(value) for value in values]
means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
error = np.empty((), "float32")


def accuracy(x, y):
    right, z = 0, np.empty((batch, 10), "float32")
    for first in range(0, len(x), batch):
        part = np.zeros((batch, 1, 16, 16), "float32")
        taken = x[first : first + batch]
        part[: len(taken)] = taken
        classify(part, *values, z)
        right += (z.argmax(1)[: len(taken)] == y[first : first + batch]).sum()
    return right / len(x)


epochs, count = 20, 0
began = time.perf_counter()
for epoch in range(epochs):
    order, losses = rng.permutation(len(train_x)), []
    for first in range(0, len(order) - batch + 1, batch):
        chosen = order[first : first + batch]
        moved = np.stack([np.roll(image, rng.integers(-1, 2, 2), (1, 2)) for image in train_x[chosen]])
        step(moved, train_y[chosen], *values, error, *slopes)
        count += 1
        rate = 0.003 * (1 + np.cos(np.pi * count / (epochs * (len(order) // batch))))
        for value, slope, mean, square in zip(
            values, slopes, means, squares, strict=True
        ):  # Adam, with weights that decay
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            value -= rate * (mean / (1 - 0.9**count) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8) + 0.3 * value)
        losses.append(float(error))
    print(f"epoch {epoch + 1:2}: loss {np.mean(losses):.4f}, test accuracy {accuracy(test_x, test_y):.1%}")
print(f"trained in {time.perf_counter() - began:.1f} s")
assert accuracy(test_x, test_y) >= 0.97
