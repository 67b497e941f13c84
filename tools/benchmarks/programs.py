"""Twelve scheduled kernels, from a vector addition to fused attention: what compiling is timed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tilewright import te
from tilewright.demo import matmul, unsharp

__all__ = ["PROGRAMS", "ScheduledProgram"]


class ScheduledProgram(NamedTuple):
    """A schedule and the tensors of its function, inputs first."""

    schedule: te.Schedule
    args: list[te.Tensor]


def vector_add(n: int = 1 << 20) -> ScheduledProgram:
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c)
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[c].vectorize(inner)
    s[c].parallel(outer)
    return ScheduledProgram(s, [a, b, c])


def transpose(rows: int = 1000, columns: int = 777) -> ScheduledProgram:
    a = te.placeholder((rows, columns), name="A")
    b = te.compute((columns, rows), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b)
    *_, row, column = s[b].tile(*b.op.axis, 16, 16)
    s[b].vectorize(column)
    s[b].unroll(row)
    return ScheduledProgram(s, [a, b])


def gemv(rows: int = 4096, columns: int = 4096) -> ScheduledProgram:
    a, x = te.placeholder((rows, columns), name="A"), te.placeholder((columns,), name="x")
    k = te.reduce_axis((0, columns), name="k")
    y = te.compute((rows,), lambda i: te.sum(a[i, k] * x[k], axis=k), name="y")
    s = te.create_schedule(y)
    _, lanes = s[y].split(s[y].op.reduce_axis[0], 16)
    partial = s.rfactor(y, lanes, factor_axis=1)
    s[partial].vectorize(s[partial].op.axis[1])
    s[partial].compute_at(s[y], s[y].op.axis[0])
    s[y].parallel(s[y].op.axis[0])
    return ScheduledProgram(s, [a, x, y])


def packed_matmul(size: int = 1024) -> ScheduledProgram:
    return ScheduledProgram(*_step(matmul.parallel(size, matmul.Tile(8, 32))))


def blocked_matmul(m: int = 37, n: int = 1000, depth: int = 513) -> ScheduledProgram:
    """Nothing divides: every loop has a tail."""
    a, b = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local")
    row, column, _, column_in = s[c].tile(*c.op.axis, 8, 32)
    s[c].vectorize(column_in)
    s[tile].compute_at(s[c], column)
    s[tile].reorder(tile.op.reduce_axis[0], *tile.op.axis)
    s[tile].unroll(tile.op.axis[0])
    s[tile].vectorize(tile.op.axis[1])
    s[c].parallel(row)
    return ScheduledProgram(s, [a, b, c])


def conv2d(
    channels: int = 64, size: int = 56, filters: int = 64, window: int = 3, padding: int = 1
) -> ScheduledProgram:
    """Declare a convolution with its padding: a stage of its own, computed where it is read."""
    data = te.placeholder((channels, size, size), name="data")
    weights = te.placeholder((filters, channels, window, window), name="weights")

    def inside(c: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        within = te.all(y >= padding, y < size + padding, x >= padding, x < size + padding)
        return te.if_then_else(within, data[c, y - padding, x - padding], 0.0)

    padded = te.compute((channels, size + 2 * padding, size + 2 * padding), inside, name="padded")
    c, dy, dx = (
        te.reduce_axis((0, extent), name=name) for extent, name in ((channels, "c"), (window, "dy"), (window, "dx"))
    )
    out = size + 2 * padding - window + 1
    conv = te.compute(
        (filters, out, out),
        lambda f, y, x: te.sum(padded[c, y + dy, x + dx] * weights[f, c, dy, dx], axis=[c, dy, dx]),
        name="conv",
    )
    s = te.create_schedule(conv)
    tile = s.cache_write(conv, "local")
    f, y, x = s[conv].op.axis
    f_out, f_in = s[conv].split(f, 8)
    x_out, x_in = s[conv].split(x, 28)
    s[conv].reorder(f_out, y, x_out, f_in, x_in)
    s[conv].vectorize(x_in)
    s[tile].compute_at(s[conv], x_out)
    s[tile].reorder(*tile.op.reduce_axis, *tile.op.axis)
    s[tile].unroll(tile.op.axis[0])
    s[tile].vectorize(tile.op.axis[2])
    s[padded].compute_at(s[conv], y)
    s[padded].vectorize(padded.op.axis[2])
    s[conv].parallel(f_out)
    return ScheduledProgram(s, [data, weights, conv])


def depthwise(channels: int = 144, size: int = 56) -> ScheduledProgram:
    data, weights = (
        te.placeholder((channels, size + 2, size + 2), name="data"),
        te.placeholder((channels, 3, 3), name="weights"),
    )
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    out = te.compute(
        (channels, size, size),
        lambda c, y, x: te.sum(data[c, y + dy, x + dx] * weights[c, dy, dx], axis=[dy, dx]),
        name="out",
    )
    relu = te.compute(out.shape, lambda *at: te.max(out(*at), 0.0), name="relu")
    s = te.create_schedule(relu)
    c, _, x = relu.op.axis
    x_out, x_in = s[relu].split(x, 16)
    s[relu].vectorize(x_in)
    s[out].compute_at(s[relu], x_out)
    s[out].unroll(dy)
    s[out].unroll(dx)
    s[out].vectorize(out.op.axis[2])
    s[relu].parallel(c)
    return ScheduledProgram(s, [data, weights, relu])


def max_pool(channels: int = 64, size: int = 112) -> ScheduledProgram:
    data = te.placeholder((channels, size, size), name="data")
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    half = size // 2

    def padded(c: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        within = te.all(y >= 1, y < size + 1, x >= 1, x < size + 1)
        return te.if_then_else(within, data[c, y - 1, x - 1], te.min_value("float32"))

    pool = te.compute(
        (channels, half, half), lambda c, y, x: te.max(padded(c, 2 * y + dy, 2 * x + dx), axis=[dy, dx]), name="pool"
    )
    s = te.create_schedule(pool)
    s[pool].parallel(pool.op.axis[0])
    s[pool].unroll(dx)
    return ScheduledProgram(s, [data, pool])


def softmax(rows: int = 1024, columns: int = 4096) -> ScheduledProgram:
    data = te.placeholder((rows, columns), name="data")
    k, m = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="m")
    top = te.compute((rows,), lambda i: te.max(data[i, k], axis=k), name="top")
    power = te.compute((rows, columns), lambda i, j: te.exp(data[i, j] - top[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
    out = te.compute((rows, columns), lambda i, j: power[i, j] / total[i], name="out")
    s = te.create_schedule(out)
    row, column = out.op.axis
    _, lanes = s[out].split(column, 16)
    s[out].vectorize(lanes)
    for stage in (top, power, total):
        s[stage].compute_at(s[out], row)
    s[power].vectorize(s[power].split(power.op.axis[1], 16)[1])
    s[out].parallel(row)
    return ScheduledProgram(s, [data, out])


def layer_norm(rows: int = 1024, columns: int = 1024) -> ScheduledProgram:
    data = te.placeholder((rows, columns), name="data")
    gain, shift = te.placeholder((columns,), name="gain"), te.placeholder((columns,), name="shift")
    k, m = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="m")
    mean = te.compute((rows,), lambda i: te.sum(data[i, k], axis=k), name="mean")
    centred = te.compute((rows, columns), lambda i, j: data[i, j] - mean[i] / columns, name="centred")
    square = te.compute((rows,), lambda i: te.sum(centred[i, m] * centred[i, m], axis=m), name="square")
    out = te.compute(
        (rows, columns),
        lambda i, j: centred[i, j] * te.rsqrt(square[i] / columns + 1e-5) * gain[j] + shift[j],
        name="out",
    )
    s = te.create_schedule(out)
    row, column = out.op.axis
    s[out].vectorize(s[out].split(column, 16)[1])
    for stage in (mean, square):
        s[stage].compute_at(s[out], row)
    s[centred].compute_inline()
    s[out].parallel(row)
    return ScheduledProgram(s, [data, gain, shift, out])


def unsharp_mask(height: int = 1411, width: int = 1411) -> ScheduledProgram:
    return ScheduledProgram(*unsharp.scheduled(height, width, 3))


def attention(heads: int = 12, length: int = 512, width: int = 64) -> ScheduledProgram:
    """softmax(Q Kᵀ / sqrt(width)) V, a block of 16 queries at a time: all scores of a block lie in cache."""
    q, key, value = (te.placeholder((heads, length, width), name=name) for name in "QKV")
    d, m, n, k = (
        te.reduce_axis((0, extent), name=name)
        for extent, name in ((width, "d"), (length, "m"), (length, "n"), (length, "k"))
    )
    score = te.compute((heads, length, length), lambda h, i, j: te.sum(q[h, i, d] * key[h, j, d], axis=d), name="score")
    top = te.compute((heads, length), lambda h, i: te.max(score[h, i, m], axis=m), name="top")
    power = te.compute(
        (heads, length, length), lambda h, i, j: te.exp((score[h, i, j] - top[h, i]) / math.sqrt(width)), name="power"
    )
    total = te.compute((heads, length), lambda h, i: te.sum(power[h, i, n], axis=n), name="total")
    mixed = te.compute(
        (heads, length, width), lambda h, i, j: te.sum(power[h, i, k] * value[h, k, j], axis=k), name="mixed"
    )
    out = te.compute((heads, length, width), lambda h, i, j: mixed[h, i, j] / total[h, i], name="out")
    s = te.create_schedule(out)
    h, i, j = out.op.axis
    block, _ = s[out].split(i, 16)
    s[out].vectorize(j)
    for stage in (score, top, power, total, mixed):
        s[stage].compute_at(s[out], block)
    s[score].vectorize(s[score].split(score.op.axis[2], 16)[1])
    s[power].vectorize(s[power].split(power.op.axis[2], 16)[1])
    s[mixed].reorder(k, mixed.op.axis[2])
    s[mixed].vectorize(mixed.op.axis[2])
    s[out].parallel(s[out].fuse(h, block))
    return ScheduledProgram(s, [q, key, value, out])


def _step(made: matmul.Step) -> tuple[te.Schedule, list[te.Tensor]]:
    return made.schedule, made.args


PROGRAMS: dict[str, Callable[[], ScheduledProgram]] = {
    program.__name__: program
    for program in (
        vector_add,
        transpose,
        gemv,
        packed_matmul,
        blocked_matmul,
        conv2d,
        depthwise,
        max_pool,
        softmax,
        layer_norm,
        unsharp_mask,
        attention,
    )
}
"""By name, the smallest first."""
