"""15. Convolution: padding, a tile of channels by pixels in registers, packed weights, what follows in its store, Winograd.

The layer is one of a network for photographs: 3 by 3, with zeros around the image, a bias and relu behind it.
"""

import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target

inputs, outputs, size = 32, 64, 28
rng = np.random.default_rng(0)
image = rng.standard_normal((1, inputs, size, size)).astype("float32")
weights = (rng.standard_normal((outputs, inputs, 3, 3)) / (9 * inputs) ** 0.5).astype("float32")
biases = rng.standard_normal(outputs).astype("float32")

# What is right, by numpy in float64, and the sum of magnitudes, which bounds of error are relative to.
around = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1))).astype("f8")
windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))
exact = np.einsum("ncijpq,ocpq->noij", windows, weights.astype("f8"))
magnitude = np.einsum("ncijpq,ocpq->noij", np.abs(windows), np.abs(weights).astype("f8")).max()
wanted = np.maximum(exact + biases[:, None, None], 0)
result = np.empty(exact.shape, "float32")
speeds = {}


def run(name, f, *arrays, want=wanted):
    f(*arrays, result)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
    speeds[name] = 2 * exact.size * 9 * inputs / f.time(*arrays, result, repeat=3, min_repeat_ms=3).min / 1e9


# The declaration. An element beyond the image's edge is zero.
X, W = te.placeholder(image.shape, name="X"), te.placeholder(weights.shape, name="W")
padded = te.compute(
    (1, inputs, size + 2, size + 2),
    lambda n, c, i, j: te.if_then_else(te.all(i >= 1, i <= size, j >= 1, j <= size), X[n, c, i - 1, j - 1], 0.0),
    name="padded",
)
c, p, q = te.reduce_axis((0, inputs), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
Y = te.compute(
    exact.shape, lambda n, o, i, j: te.sum(padded[n, c, i + p, j + q] * W[o, c, p, q], axis=[c, p, q]), name="Y"
)
run("unscheduled", tw.build(te.create_schedule(Y), [X, W, Y]), image, weights, want=exact)

# Padding is a stage like any other. Inlined, nothing is copied, and the test is made for each product, or, where loops can be
# cut at the edge, outside of them. Computed at a band of rows, it is made once for each element that the band reads; the copy
# is in the cache, and what reads it has no test at all.
for name in ("padding inlined", "padding in a band"):
    s = te.create_schedule(Y)
    n, o, i, j = Y.op.axis
    band, i = s[Y].split(i, 7)
    s[Y].reorder(n, band, o, i, *Y.op.reduce_axis, j)
    s[Y].vectorize(j)
    if name == "padding inlined":
        s[padded].compute_inline()
    else:
        s[padded].compute_at(s[Y], band)
        s[padded].vectorize(padded.op.axis[3])
    print(f"\n{name}\n{s}")
    run(name, tw.build(s, [X, W, Y]), image, weights, want=exact)

# Direct convolution as libraries do it: lanes are output channels, so that no size of image leaves lanes empty. A tile of two
# vectors of channels by as many pixels as there are registers for is summed over channels and taps: each step loads two
# vectors of weights, which all pixels use, and broadcasts an element of the image, which all channels use.
#
# Two vectors of channels have to lie side by side then. Weights do not change from call to call, so that is done once.
machine = find_machine(Target.parse("llvm"))
lanes = machine.lanes(32)
channels, pixels = 2 * lanes, (machine.registers - 3) // 2
laid_out = topi.nn.conv2d_prepack(weights, block=channels)
print(
    f"\nweights {weights.shape} as {laid_out.shape}; {channels} channels by {pixels} pixels in {machine.registers} registers"
)
P = te.placeholder(laid_out.shape, name="P")
bias = te.placeholder((outputs,), name="bias")
sums = te.compute(
    exact.shape,
    lambda n, o, i, j: te.sum(padded[n, c, i + p, j + q] * P[o // channels, c, p, q, o % channels], axis=[c, p, q]),
    name="sums",
)
# What follows is declared as it is thought of. Here it is the stage that stores: sums never go to memory without it.
Z = te.compute(exact.shape, lambda n, o, i, j: te.max(sums[n, o, i, j] + bias[o], 0.0), name="Z")

s = te.create_schedule(Z)
n, o, i, j = Z.op.axis
chunk, o = s[Z].split(o, channels)
band, i = s[Z].split(i, 7)
tile, j = s[Z].split(j, pixels)
s[Z].reorder(n, band, chunk, i, tile, o, j)
s[Z].parallel(s[Z].fuse(n, band))
s[padded].compute_at(s[Z], s[Z].leaf_iter_vars[0])
s[padded].vectorize(padded.op.axis[3])
# A vector's lanes have to be neighbours in sums too: the channel becomes its last index.
s[sums].set_scope("local")
n, i, j, o = s[sums].transform_layout(lambda n, o, i, j: [n, i, j, o])
s[sums].compute_at(s[Z], tile)
s[sums].reorder(n, i, *sums.op.reduce_axis, j, o)
s[sums].unroll(j)
s[sums].vectorize(o)
# Sums lie channel by channel, the result pixel by pixel: squares of lanes are turned in registers on their way.
o, j = s[Z].leaf_iter_vars[-2:]
vector, o = s[Z].split(o, lanes)
part, j = s[Z].split(j, lanes)
s[Z].reorder(vector, part, o, j)
s[Z].unroll(o)
s[Z].vectorize(j)
print(f"\n{s}")
run("tile in registers", tw.build(s, [X, P, bias, Z]), image, laid_out, biases)


# topi declares the same, and its schedules choose tile, bands and tasks for the layer: 1 by 1, 7 by 7, strides, groups and
# images of few pixels want others.
def follow(y, bias):
    return topi.nn.relu(te.compute(y.shape, lambda n, o, i, j: y[n, o, i, j] + bias[o], name="biased", tag="broadcast"))


P = te.placeholder(topi.nn.conv2d_prepack(weights).shape, name="P")
T = follow(topi.nn.conv2d_prepacked(X, P, outputs, stride=1, padding=1), bias)
s = topi.schedule(T)
print(f"\n{s.as_python()}")
run("topi", tw.build(s, [X, P, bias, T]), image, topi.nn.conv2d_prepack(weights), biases)

# Weights that are known need no arguments: tw.build itself does the work on constants alone, here the packing.
T = follow(topi.nn.conv2d(X, te.constant(weights, "weights"), stride=1, padding=1), te.constant(biases, "biases"))
run("topi, known weights", tw.build([X, T]), image)

# Winograd's algorithm multiplies 2.25 times (tile=2) or 4 times (tile=4) less: squares of the image are transformed, multiplied,
# and transformed back. It costs accuracy, since it subtracts numbers that are larger than the result; the
# bounds are those that topi.nn.winograd states. The speed counts the operations of the definition, so that it compares.
print("\nlargest errors, in units of 2^-24 of the largest sum of magnitudes:")
print(f"  direct {np.abs(result - wanted).max() / magnitude * 2**24:.2f}")
for tile, most in ((2, 16), (4, 128)):
    laid_out = topi.nn.conv2d_winograd_prepack(weights, tile)
    P = te.placeholder(laid_out.shape, name="P")
    T = follow(topi.nn.conv2d_winograd_prepacked(X, P, outputs), bias)
    run(f"Winograd, tile={tile}", tw.build(topi.schedule(T), [X, P, bias, T]), image, laid_out, biases)
    error = np.abs(result - wanted).max() / magnitude * 2**24
    print(f"  Winograd, tile={tile}: {error:.2f}, with a bound of {most}")
    assert error < most


# In a program that calls layers on arrays, tw.jit declares, schedules, builds and keeps: a kernel for each size of image.
@tw.jit
def layer(x, w, bias, stride=1):
    return follow(topi.nn.conv2d(x, w, stride, padding=1), bias)


np.testing.assert_allclose(layer(image, weights, biases), wanted, rtol=1e-4, atol=1e-4)
np.testing.assert_allclose(layer(image, weights, biases, stride=2), wanted[:, :, ::2, ::2], rtol=1e-4, atol=1e-4)
top = np.ascontiguousarray(image[:, :, :9])
np.testing.assert_allclose(layer(top, weights, biases)[:, :, :8], wanted[:, :, :8], rtol=1e-4, atol=1e-4)
layer(image, weights, biases, out=result)
print(layer.cache_info())

print(f"\n{'':18} GFLOP/s")
for name, speed in speeds.items():
    print(f"{name:18} {speed:7.1f}")
