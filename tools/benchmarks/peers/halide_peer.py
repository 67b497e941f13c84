"""Halide's Python wheel, with the best schedules that we can write by hand for a product, softmax and a box blur, and with its
autoscheduler of 2019 for whatever else is given to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cases import Arrays, Builder, Runner, Unsupported, threads

__all__ = ["auto", "box_blur", "call", "gradients", "matmul", "softmax"]

Define = Callable[[Any, list[Any]], Any]
"""(halide, the inputs as Buffers) to the Func of the output, scheduled. Axes are Halide's: the last of numpy's comes first."""


def call(define: Define) -> Builder:
    """A pipeline with its schedule, for one output."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import halide as hl

        funcs = define(hl, [hl.Buffer(array) for array in inputs])
        funcs.compile_jit(hl.get_host_target())
        into = hl.Buffer(outputs[0])
        return lambda: funcs.realize(into)

    return builder


def auto(define: Define) -> Builder:
    """A pipeline without schedule, scheduled by the autoscheduler of Adams et al. 2019."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import halide as hl

        hl.load_plugin(str(next(Path(hl.__file__).parent.glob("lib*/libautoschedule_adams2019.so"))))
        funcs = define(hl, [hl.Buffer(array) for array in inputs])
        funcs.set_estimates([(0, extent) for extent in reversed(outputs[0].shape)])
        pipeline, target = hl.Pipeline(funcs), hl.get_host_target()
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Adams2019", {"parallelism": str(threads())}))
        pipeline.compile_jit(target)
        into = hl.Buffer(outputs[0])
        return lambda: pipeline.realize(into)

    return builder


def gradients(define: Callable[[Any, list[Any]], list[Any]]) -> Builder:
    """A pipeline of several outputs, scheduled by the autoscheduler of Li et al. 2018, which was made for derivatives."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import halide as hl

        hl.load_plugin(str(next(Path(hl.__file__).parent.glob("lib*/libautoschedule_li2018.so"))))
        funcs = define(hl, [hl.Buffer(array) for array in inputs])
        for func, array in zip(funcs, outputs, strict=True):
            func.set_estimates([(0, extent) for extent in reversed(array.shape)])
        pipeline, target = hl.Pipeline(funcs), hl.get_host_target()
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Li2018", {"parallelism": str(threads())}))
        pipeline.compile_jit(target)
        into = [hl.Buffer(array) for array in outputs]
        return lambda: pipeline.realize(into)

    return builder


def matmul(inputs: Arrays, outputs: Arrays) -> Runner:
    """C = A @ B: register tiles of 6x64, B packed into panels as wide as a tile."""
    (m, depth), n = inputs[0].shape, inputs[1].shape[1]
    if n < 16:
        raise Unsupported("no schedule for so few columns")
    columns = max(width for width in (16, 32, 48, 64) if width <= n)
    rows = min(6 if columns == 64 else 12, m)

    def define(hl: Any, given: list[Any]) -> Any:
        a, b = given
        x, y = hl.Var("x"), hl.Var("y")
        xo, yo, xi, yi, yy = (hl.Var(name) for name in ("xo", "yo", "xi", "yi", "yy"))
        panel, product, out = hl.Func("panel"), hl.Func("product"), hl.Func("out")
        k = hl.RDom([(0, depth)], "k")
        panel[x, y] = b[x, y]
        product[x, y] = 0.0
        product[x, y] += a[k, y] * panel[x, k]
        out[x, y] = product[x, y]
        out.tile(x, y, xo, yo, xi, yi, columns, rows).vectorize(xi, 16).unroll(xi).unroll(yi)
        if n >= 2 * columns * threads():
            out.reorder(xi, yi, yo, xo).parallel(xo)
            panel.compute_at(out, xo)
        else:
            out.split(yo, yo, yy, -(-m // (rows * 2 * threads()))).reorder(xi, yi, yy, xo, yo).parallel(yo)
            panel.compute_root()
        panel.vectorize(x, 16)
        product.compute_at(out, yo if n >= 2 * columns * threads() else yy).vectorize(x, 16).unroll(x).unroll(y)
        product.update().reorder(x, y, k).vectorize(x, 16).unroll(x).unroll(y)
        out.bound(x, 0, n).bound(y, 0, m)
        return out

    return call(define)(inputs, outputs)


def softmax(inputs: Arrays, outputs: Arrays) -> Runner:
    """Compute softmax over the last axis of two: each row while it is in the cache, sums and maxima over 64 lanes, no division inside."""
    rows, columns = inputs[0].shape
    lanes = 64
    if columns % lanes or rows < 8:
        raise Unsupported("a schedule for multiples of 64 columns, and eight rows or more")

    def define(hl: Any, given: list[Any]) -> Any:
        x, y, u, yo = (hl.Var(name) for name in ("x", "y", "u", "yo"))
        greatest, power, total, inverse, out = (
            hl.Func(name) for name in ("greatest", "power", "total", "inverse", "out")
        )
        k, j = hl.RDom([(0, columns)], "k"), hl.RDom([(0, columns)], "j")
        ko, ki, jo, ji = (hl.RVar(name) for name in ("ko", "ki", "jo", "ji"))
        greatest[y] = hl.f32(-3.4e38)
        greatest[y] = hl.max(greatest[y], given[0][k, y])
        power[x, y] = hl.fast_exp(given[0][x, y] - greatest[y])
        total[y] = 0.0
        total[y] += power[j, y]
        inverse[y] = 1.0 / total[y]
        out[x, y] = power[x, y] * inverse[y]
        out.split(y, yo, y, 8).parallel(yo).vectorize(x, 16)
        power.compute_at(out, y).vectorize(x, 16).unroll(x, 4)
        for reduction, whole, outer, inner in ((greatest, k, ko, ki), (total, j, jo, ji)):
            reduction.compute_at(out, y)
            partial = reduction.update().split(whole, outer, inner, lanes).rfactor(inner, u)
            partial.compute_at(out, y).vectorize(u, 16).unroll(u)
            partial.update().reorder(u, outer).vectorize(u, 16).unroll(u)
        inverse.compute_at(out, y)
        out.bound(x, 0, columns).bound(y, 0, rows)
        return out

    return call(define)(inputs, outputs)


def box_blur(inputs: Arrays, outputs: Arrays) -> Runner:
    """3x3 means of uint16, of those pixels that have all neighbours: the input is larger by two each way."""

    def define(hl: Any, given: list[Any]) -> Any:
        x, y, yo, yi = (hl.Var(name) for name in ("x", "y", "yo", "yi"))
        across, out = hl.Func("across"), hl.Func("out")
        across[x, y] = (given[0][x, y] + given[0][x + 1, y] + given[0][x + 2, y]) / hl.u16(3)
        out[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) / hl.u16(3)
        out.split(y, yo, yi, 32).parallel(yo).vectorize(x, 32)
        across.store_at(out, yo).compute_at(out, yi).vectorize(x, 32)
        return out

    return call(define)(inputs, outputs)
