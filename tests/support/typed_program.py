"""A stranger's program: every part of the public interface that a first week meets, with the types that it gives."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from tilewright import autotune, te, topi
from tilewright.te.hybrid import output_tensor, parallel, script


def blur(rows: int, columns: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    image = te.placeholder((rows, columns), name="image")
    assert_type(image, te.Tensor)
    pixel: te.Expr = image[0, 1]
    assert_type(pixel + 1 > 2, te.Expr)
    padded = te.clamped(image)
    across = te.compute(
        (rows, columns), lambda y, x: (padded[y, x - 1] + image[y, x] + padded[y, x + 1]) / 3, name="across"
    )
    again = te.clamped(across)
    down = te.compute((rows, columns), lambda y, x: (again[y - 1, x] + across[y, x] + again[y + 1, x]) / 3, name="down")
    assert_type(down, te.Tensor)
    return image, across, down


def scheduled_blur() -> tw.Kernel:
    image, across, down = blur(64, 48)
    s = te.create_schedule(down.op)
    assert_type(s, te.Schedule)
    y, x = down.op.axis
    outer, inner = s[down].split(y, factor=8)
    s[across].compute_at(s[down], outer)
    assert_type(s.cache_write(across, "local"), te.Tensor)
    s[down].parallel(outer)
    s[down].vectorize(s[down].split(x, 8)[1])
    s[down].unroll(inner)
    print(tw.lower(s, [image, down]))
    f = tw.build(s, [image, down])
    assert_type(f, tw.Kernel)
    return f


def elements(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    assert_type(te.exp(x[0, 0]), te.Expr)
    assert_type(te.exp(2.0), te.Expr)
    assert_type(te.exp(x), te.Tensor)
    assert_type(te.max(x[0, 0], 1, y[0, 0]), te.Expr)
    assert_type(te.max(0.0, x), te.Tensor)
    assert_type(te.if_then_else(x[0, 0] > 0, x[0, 0], 0.0), te.Expr)
    assert_type(te.select(x > 0, x, 0.0), te.Tensor)
    assert_type(te.all(x[0, 0] > 0, te.isnan(y[0, 0])), te.Expr)
    assert_type(te.reinterpret("int32", x), te.Tensor)
    assert_type(topi.exp(x), te.Tensor)
    assert_type(topi.where(x > 0, x, y), te.Tensor)
    assert_type(topi.cast(te.const(1), "float32"), te.Expr)
    assert_type(te.extern((4,), [x], lambda ins, outs: te.call_packed("f", ins[0], outs[0])), te.Tensor)
    return topi.add(te.sqrt(te.abs(x)), topi.maximum(y, 0.5))


def reductions(x: te.Tensor) -> te.Schedule:
    k = te.reduce_axis((0, 8), "k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k, where=x[i, k] > 0), "total")
    assert_type(te.min(x[0, k], axis=[k]), te.Expr)
    lse = te.comm_reducer(lambda a, b: te.max(a, b) + te.log1p(te.exp(-te.abs(a - b))), lambda t: te.min_value(t))
    assert_type(lse(x[0, k], k), te.Expr)
    argmax = te.comm_reducer(
        lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.max(a[1], b[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    assert_type(argmax((k, x[0, k]), axis=k), tuple[te.Expr, ...])
    s = tw.autoschedule.schedule([total])
    assert_type(s, te.Schedule)
    plain = te.create_schedule(total)
    assert_type(plain.rfactor(total, plain[total].op.reduce_axis[0]), te.Tensor)
    assert_type(plain.cache_write([total], "local"), list[te.Tensor])
    return s


def product(n: te.Var) -> dict[str, list[te.Tensor]]:
    a, b = te.placeholder((n, 16), name="a"), te.placeholder((16, n), name="b")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    largest = te.compute((n,), lambda i: te.max(c[i, 0], te.const(0.0)), name="largest")
    return {"product": [a, b, c], "largest": [a, b, largest]}


@script
def running(a: te.Tensor) -> te.Tensor:
    out = output_tensor((8,), "float32")
    for i in parallel(a.shape[0]):
        if a[i] > 0.5:
            out[i] = a[i] * 2.0
        else:
            out[i] = 0.0
    return out


@tw.jit
def normalise(x: te.Tensor, axis: int = -1) -> te.Tensor:
    return topi.nn.softmax(x, axis=axis)


@tw.jit
def both(x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    return topi.exp(x), topi.negative(x)


@tw.jit(dynamic={"x": (0,)})
def doubled(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda i: te.if_then_else(x[i] > 0, te.sqrt(x[i]), 0.0) * 2)


def sums() -> te.Tensor:
    x, state = te.placeholder((9, 4), name="x"), te.placeholder((9, 4), name="state")
    first = te.compute((1, 4), lambda _, i: x[0, i])
    following = te.compute((9, 4), lambda t, i: state[t - 1, i] + x[t, i])
    total = te.scan(first, following, state, inputs=[x])
    assert_type(total, te.Tensor)
    return total


def network() -> tw.Model:
    b = tw.graph.Builder()
    x = b.input("x", (1, 8), "float32")
    w = b.param("w", np.ones((8, 4), np.float32))
    b.output("y", b.node("relu", b.node("matmul", x, w)))
    g = b.graph()
    assert_type(g, tw.graph.Graph)
    model = tw.build(g)
    assert_type(model, tw.Model)
    return model


def main() -> None:
    image: NDArray[np.float32] = np.random.default_rng(0).random((64, 48), dtype=np.float32)
    result = tw.empty((64, 48), "float32")
    assert_type(result, tw.Array)
    assert_type(tw.array([1.0]), tw.Array)
    f = scheduled_blur()
    f(image, result)
    timing = f.time(image, result, number=3, repeat=3)
    assert_type(timing.median, float)
    assert_type(f.source("asm"), str)
    module = tw.build(product(te.var("n")))
    assert_type(module, tw.Module)
    assert_type(module["product"], tw.Kernel)
    x, w = te.placeholder((4, 16), name="x"), te.placeholder((8, 16), name="w")
    y = topi.nn.relu(topi.nn.dense(x, w))
    assert_type(y, te.Tensor)
    layer = tw.build([x, w, y])
    assert_type(layer, tw.Kernel)
    loaded = tw.load(layer.export("liblayer.so")[0])
    loaded(np.ones((4, 16), np.float32), np.ones((8, 16), np.float32), tw.empty((4, 8), "float32"))
    assert_type(tw.load(module.export("libproducts.so")[0])["product"], tw.Kernel)
    assert_type(elements(te.placeholder((4, 4)), te.placeholder((4, 4))), te.Tensor)
    print(reductions(te.placeholder((4, 8), name="x")))
    plan = topi.schedule([y], "llvm")
    assert_type(plan, te.Schedule)
    tuned = autotune.tune([x, w, y], target="llvm", trials=1)
    assert_type(tuned.best.seconds, float)
    a = te.placeholder((8,), name="a")
    assert_type(running(a), te.Tensor)
    assert_type(normalise(a), te.Tensor)
    assert_type(normalise(image), NDArray[Any])
    assert_type(both(image), tuple[NDArray[Any], ...])
    row: NDArray[np.float32] = image[0]
    assert_type(doubled(row, out=tw.empty((48,), "float32")), tw.Array)
    dx = te.gradient(y, [x])
    assert_type(dx, list[te.Tensor])
    print(timing, normalise(image), doubled(row), sums(), network()(np.ones((1, 8), np.float32)))


if __name__ == "__main__":
    main()
