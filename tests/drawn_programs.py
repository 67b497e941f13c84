"""Drawn programs: tensors in call order, what to call them with, and what numpy says they hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from drawn_expressions import (
    EPSILON, EXACT, FLOATS, INTEGERS, Context, Size, Source, as_arrays, as_tensors, const, draw_data, draw_read, draw_term,
    numpy_type, Term,
)
from tilewright import te

__all__ = ["PROGRAMS", "Program", "draw_program"]

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65)


@dataclass
class Program:
    """args: tensors and scalars in call order. values: what to pass; for an output, what numpy expects there.

    outputs: the operations to schedule. exact: whether results must be equal; otherwise `tolerance` is absolute, and
    relative to values above 1.
    """

    name: str
    args: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    results: list[bool] = field(default_factory=list)
    tolerance: float = 0.0

    def given(self, argument: Any, value: Any) -> Any:
        self.args.append(argument)
        self.values.append(value)
        self.results.append(False)
        return argument

    def result(self, tensor: Any, expected: np.ndarray) -> None:
        self.args.append(tensor)
        self.values.append(np.asarray(expected))
        self.results.append(True)

    @property
    def outputs(self) -> list[Any]:
        found: dict[Any, None] = {}
        for argument, is_result in zip(self.args, self.results, strict=True):
            if is_result:
                found.setdefault(argument.op)
        return list(found)


class Draw:
    """A program in the making."""

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        self.rng, self.program = rng, Program(name)
        self.symbols: list[tuple[Any, int]] = []
        self.count = 0
        self.special, self.wide = 0.0, bool(rng.random() < 0.15)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def length(self, limit: int) -> int:
        """An extent: mostly small, at the edges of powers of two, sometimes 0."""
        if self.chance(0.02):
            return 0
        fitting = [n for n in LENGTHS if n <= max(limit, 1)]
        return self.pick(fitting if self.chance(0.6) else [n for n in fitting if n <= 9])

    def symbol(self, value: int) -> Any:
        made = (te.size_var if self.chance(0.5) else te.var)(self.name("n"), "int64" if self.wide else "int32")
        self.symbols.append((made, value))
        return made

    def size(self, limit: int, symbolic: float = 0.0) -> Size:
        value = self.length(limit)
        if not self.chance(symbolic):
            return Size(value, value)
        if self.symbols and self.chance(0.5):
            symbol, value = self.pick(self.symbols)
            more = self.number(0, 2)
            if value + more <= limit:
                return Size(symbol + more, value + more)
            if value * 2 <= limit and self.chance(0.5):
                return Size(symbol * 2, value * 2)
            if self.chance(0.5):
                return Size((symbol + 3) // 4, (value + 3) // 4)
        return Size(self.symbol(value), value)

    def shape(self, rank: int, limit: int, symbolic: float = 0.0) -> tuple[Size, ...]:
        sizes: list[Size] = []
        for at in range(rank):
            found = self.size(max(1, int(limit ** (1 / (rank - at)))) if self.chance(0.5) else limit, symbolic)
            sizes.append(found)
            limit //= max(found.value, 1)
        return tuple(self.rng.permutation(np.array(sizes, dtype=object))) if sizes else ()

    def source(self, shape: tuple[Size, ...], dtype: str, data: np.ndarray | None = None) -> Source:
        """A placeholder with contents."""
        array, bound, steps = draw_data(self.rng, tuple(size.value for size in shape), dtype, self.special)
        if data is not None:
            array = data
        tensor = te.placeholder(tuple(size.te for size in shape), dtype, self.name("A"))
        self.program.given(tensor, array)
        return Source(tensor, array, shape, dtype, bound, steps)

    def pass_symbols(self) -> None:
        """Make every symbol known: by the shape of a tensor, or as a scalar argument."""
        for symbol, value in self.symbols:
            told = any(extent is symbol for argument in self.program.args if hasattr(argument, "shape")
                       for extent in argument.shape)
            if not told and self.chance(0.5):
                self.program.given(symbol, value)
            elif not told:
                self.source((Size(symbol, value),), "int8")

    def finish(self, tolerance: float = 0.0) -> Program:
        self.pass_symbols()
        program = self.program
        program.tolerance = tolerance
        if self.chance(0.2):
            order = self.rng.permutation(len(program.args))
            for name in ("args", "values", "results"):
                setattr(program, name, [getattr(program, name)[at] for at in order])
        return program


def grids(*extents: int) -> list[np.ndarray]:
    return list(np.indices(extents, dtype="int32")) if extents else []


def spread(array: np.ndarray, extents: Sequence[int]) -> np.ndarray:
    return np.broadcast_to(array, tuple(extents)).copy()


def values(*sizes: Size) -> tuple[int, ...]:
    return tuple(size.value for size in sizes)


def terms(*sizes: Size) -> tuple[Any, ...]:
    return tuple(size.te for size in sizes)


# Elementwise stages and reductions of drawn expressions


def elementwise_stage(draw: Draw, sources: list[Source], shape: tuple[Size, ...], dtype: str, smooth: bool) -> Source:
    context = Context(draw.rng, list(shape), sources, smooth)
    term = draw_term(context, dtype, draw.number(1, 3))
    if draw.chance(0.8):  # read what came last
        latest = draw_read(context, sources[-1])
        if latest.dtype == dtype == "bool":
            term = Term("any", "bool", (term, latest))
        elif latest.dtype == dtype:
            term = Term("max", dtype, (term, latest), bound=max(term.bound, latest.bound), steps=max(term.steps, latest.steps))
    tensor = te.compute(terms(*shape), lambda *axes: as_tensors(term, axes), draw.name("T"))
    extents = values(*shape)
    array = spread(as_arrays(term, grids(*extents)), extents)
    return Source(tensor, array, shape, dtype, term.bound, term.steps)


IDENTITY: dict[str, Callable[[str], Any]] = {
    "sum": lambda dtype: 0, "prod": lambda dtype: 1,
    "min": lambda dtype: np.inf if dtype in FLOATS else (True if dtype == "bool" else np.iinfo(dtype).max),
    "max": lambda dtype: -np.inf if dtype in FLOATS else (False if dtype == "bool" else np.iinfo(dtype).min),
}
UFUNC: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
REDUCERS: dict[str, Any] = {"sum": te.sum, "prod": te.prod, "min": te.min, "max": te.max}


def fold(kind: str, array: np.ndarray, count: int, first: Any) -> np.ndarray:
    """Reduce the last `count` axes one element at a time, starting from `first`."""
    lead = array.shape[: array.ndim - count]
    flat = array.reshape(*lead, int(np.prod(array.shape[array.ndim - count:], dtype=int)))
    result = np.broadcast_to(np.asarray(first).astype(array.dtype), lead).copy()
    for at in range(flat.shape[-1]):
        result = np.asarray(UFUNC[kind](result, flat[..., at]))
    return result


def reduction_stage(draw: Draw, sources: list[Source], shape: tuple[Size, ...], reduced: tuple[Size, ...], dtype: str,
                    smooth: bool) -> Source:
    context = Context(draw.rng, [*shape, *reduced], sources, smooth)
    kind = draw.pick(["min", "max"] if dtype == "bool" else ["sum", "sum", "prod", "min", "max"])
    length = int(np.prod(values(*reduced), dtype=int))
    term = draw_term(context, dtype, draw.number(0, 2))
    if kind == "prod" and dtype in FLOATS:
        positive = Term("gt", "bool", (term, const(0.0, dtype)))
        term = Term("select", dtype, (positive, const(2.0 if length <= 6 else 1.0, dtype), const(-1.0, dtype)), bound=2)
    if kind == "sum" and term.bound * 2**term.steps * max(length, 1) > EXACT.get(dtype, np.inf):
        kind = "max"
    where = draw_term(context, "bool", 1) if draw.chance(0.25) else None
    first = const(draw.pick([0, 1, 3]) if dtype != "bool" else True, dtype) if draw.chance(0.2) else None
    if first is not None and draw.chance(0.3) and dtype in INTEGERS:
        first = draw_term(Context(draw.rng, list(shape), sources), dtype, 1)
    names = [draw.name("k") for _ in reduced]
    begins = [draw.pick([0, 0, 0, 1, 3]) for _ in reduced]
    axes = [te.reduce_axis((begin, size.te + begin), name) for size, name, begin in zip(reduced, names, begins, strict=True)]

    def compute(*data: Any) -> Any:
        at = [*data, *(axis - begin if begin else axis for axis, begin in zip(axes, begins, strict=True))]
        condition = None if where is None else as_tensors(where, at)
        init = None if first is None else as_tensors(first, data)
        return REDUCERS[kind](as_tensors(term, at), axis=axes[0] if len(axes) == 1 else axes, where=condition, init=init)

    tensor = te.compute(terms(*shape), compute, draw.name("R"))
    extents, whole = values(*shape), values(*shape, *reduced)
    grid = grids(*whole)
    array = spread(as_arrays(term, grid), whole)
    identity = np.asarray(IDENTITY[kind](dtype)).astype(array.dtype)
    if where is not None:
        array = np.where(as_arrays(where, grid), array, identity)
    start = identity if first is None else spread(as_arrays(first, grids(*extents)), extents)
    bound = {"sum": term.bound * max(length, 1) + 3, "prod": 64.0}.get(kind, term.bound + 3)
    return Source(tensor, fold(kind, array, len(reduced), start), shape, dtype, bound, term.steps)


def draw_chain(rng: np.random.Generator) -> Program:
    """Inputs of related shapes, then one to four stages, each elementwise or a reduction, over what came before."""
    draw = Draw(rng, "chain")
    symbolic = 0.6 if draw.chance(0.2) else 0.0
    smooth = draw.chance(0.15)
    dtypes = [draw.pick([*INTEGERS, *FLOATS, "bool", "float32", "int32"]) for _ in range(3)]
    if smooth:
        dtypes = [draw.pick(["float32", "float64", "float32", "float16"])] * 3
    if not smooth and draw.chance(0.2):
        draw.special = 0.1
    base = draw.shape(draw.number(0, 4), 512, symbolic)
    sources = []
    for _ in range(draw.number(1, 3)):
        shape = base
        if draw.chance(0.3) and base:  # broadcast: without some dimensions, or with 1 there
            shape = tuple(Size(1, 1) if draw.chance(0.3) else size for size in base if draw.chance(0.7))
        if draw.chance(0.2) and shape:
            shape = tuple(shape[at] for at in rng.permutation(len(shape)))
        sources.append(draw.source(shape, draw.pick(dtypes)))
    stages, worst = [], 1.0
    for _ in range(draw.number(1, 4)):
        shape, dtype = base, draw.pick(dtypes)
        if draw.chance(0.2):
            shape = tuple(base[at] for at in rng.permutation(len(base)))
        if draw.chance(0.3) and not smooth:
            split = draw.number(0, len(shape)) if draw.chance(0.5) else len(shape)
            kept, reduced = shape[:split], shape[split:]
            if not reduced or draw.chance(0.3):
                reduced = (*reduced, draw.size(5))
            source = reduction_stage(draw, sources, kept, reduced, dtype, smooth)
            base = kept if kept and draw.chance(0.4) else base
        else:
            source = elementwise_stage(draw, sources, shape, dtype, smooth)
        worst = max(worst, source.bound)
        sources.append(source)
        stages.append(source)
    if len(stages) > 1 and draw.chance(0.2):
        chosen = draw.pick(stages[:-1])
        draw.program.result(chosen.tensor, chosen.array)
    draw.program.result(stages[-1].tensor, stages[-1].array)
    tolerance = 256 * worst * max(EPSILON[dtype] for dtype in dtypes) if smooth else 0.0
    return draw.finish(tolerance)


# Linear algebra and networks


def small(draw: Draw, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype in INTEGERS:
        return draw_data(draw.rng, shape, dtype)[0]
    return draw.rng.integers(-3, 4, shape).astype("float64").astype(numpy_type(dtype))


def draw_matmul(rng: np.random.Generator) -> Program:
    """C = op(A) @ op(B), both transposable, sometimes batched, symbolic, accumulated wider, with a tail."""
    draw = Draw(rng, "matmul")
    symbolic = 0.5 if draw.chance(0.2) else 0.0
    m, n, k = draw.size(33, symbolic), draw.size(33, symbolic), draw.size(33, symbolic)
    if m.value * n.value * k.value > 8000:
        k = Size(3, 3)
    batch = (draw.size(3),) if draw.chance(0.2) else ()
    dtype, wide = draw.pick([
        ("float32", "float32"), ("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("bfloat16", "float32"),
        ("int8", "int32"), ("uint8", "int32"), ("int16", "int16"), ("int64", "int64"),
    ])
    ta, tb = draw.chance(0.4), draw.chance(0.4)
    left, right = (*batch, *((k, m) if ta else (m, k))), (*batch, *((n, k) if tb else (k, n)))
    a = draw.source(left, dtype, small(draw, values(*left), dtype))
    b = draw.source(right, dtype, small(draw, values(*right), dtype))
    r = te.reduce_axis((0, k.te), "r")

    def product(*axes: Any) -> Any:
        *at, i, j = axes
        left = a.tensor[(*at, r, i)] if ta else a.tensor[(*at, i, r)]
        right = b.tensor[(*at, j, r)] if tb else b.tensor[(*at, r, j)]
        return te.sum(left.astype(wide) * right.astype(wide), axis=r)

    c = te.compute(terms(*batch, m, n), product, "C")
    x = np.swapaxes(a.array, -1, -2) if ta else a.array
    y = np.swapaxes(b.array, -1, -2) if tb else b.array
    expected = np.matmul(x.astype(wide), y.astype(wide))
    if draw.chance(0.5):
        bias = draw.source((n,), wide, small(draw, (n.value,), wide))
        d = te.compute(terms(*batch, m, n), lambda *axes: te.max(c[axes] + bias.tensor[axes[-1]], te.const(0, wide)), "D")
        if draw.chance(0.2):
            draw.program.result(c, expected)
        c, expected = d, np.maximum(expected + bias.array, np.zeros((), expected.dtype))
    draw.program.result(c, expected)
    return draw.finish()


def draw_conv2d(rng: np.random.Generator) -> Program:
    """conv2d NCHW with stride, dilation, groups and padding; the padding a stage of its own or inside the sum."""
    draw = Draw(rng, "conv2d")
    groups, per_in, per_out = draw.pick([1, 1, 1, 2, 3]), draw.number(1, 3), draw.number(1, 3)
    batch, height, width = draw.number(1, 2), draw.pick([1, 3, 4, 7, 8, 9]), draw.pick([1, 3, 4, 7, 8, 9, 16, 17])
    kh, kw, stride = draw.number(1, 3), draw.number(1, 3), draw.number(1, 3)
    dilation, pad = draw.number(1, 2), draw.number(0, 2)
    reach_h, reach_w = (kh - 1) * dilation + 1, (kw - 1) * dilation + 1
    height, width = max(height, reach_h - 2 * pad), max(width, reach_w - 2 * pad)
    oh, ow = (height + 2 * pad - reach_h) // stride + 1, (width + 2 * pad - reach_w) // stride + 1
    dtype, wide = draw.pick([("float32", "float32"), ("float32", "float32"), ("float64", "float64"), ("int8", "int32"),
                             ("uint8", "uint8")])
    data = te.placeholder((batch, groups * per_in, height, width), dtype, "data")
    kernel = te.placeholder((groups * per_out, per_in, kh, kw), dtype, "kernel")
    x = small(draw, (batch, groups * per_in, height, width), dtype)
    w = small(draw, (groups * per_out, per_in, kh, kw), dtype)
    draw.program.given(data, x)
    draw.program.given(kernel, w)
    choose = te.select if draw.chance(0.4) else te.if_then_else

    def padded(n: Any, c: Any, y: Any, z: Any) -> Any:
        if not pad:
            return data[n, c, y, z]
        inside = te.all(y >= pad, y < height + pad, z >= pad, z < width + pad)
        return choose(inside, data[n, c, y - pad, z - pad], te.const(0, dtype))

    source: Callable[..., Any] = padded
    if draw.chance(0.6):
        p = te.compute((batch, groups * per_in, height + 2 * pad, width + 2 * pad), padded, "P")
        source = lambda *at: p[at]
    rc, ry, rx = te.reduce_axis((0, per_in), "rc"), te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    out = te.compute((batch, groups * per_out, oh, ow), lambda n, f, y, z: te.sum(
        source(n, f // per_out * per_in + rc, y * stride + ry * dilation, z * stride + rx * dilation).astype(wide)
        * kernel[f, rc, ry, rx].astype(wide), axis=[rc, ry, rx]), "O")
    xp = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))).astype(wide)
    expected = np.zeros((batch, groups * per_out, oh, ow), wide)
    for f in range(groups * per_out):
        for c in range(per_in):
            for u in range(kh):
                for v in range(kw):
                    rows, columns = u * dilation, v * dilation
                    part = xp[:, f // per_out * per_in + c, rows:rows + (oh - 1) * stride + 1:stride,
                              columns:columns + (ow - 1) * stride + 1:stride]
                    expected[:, f] += part * w[f, c, u, v].astype(wide)
    if draw.chance(0.4):
        relu = te.compute((batch, groups * per_out, oh, ow), lambda *at: te.max(out[at], te.const(0, wide)), "relu")
        out, expected = relu, np.maximum(expected, np.zeros((), wide))
    draw.program.result(out, expected)
    return draw.finish()


def draw_pool(rng: np.random.Generator) -> Program:
    """Maximum or sum over windows, padded with the identity."""
    draw = Draw(rng, "pool")
    h, w, k = draw.number(3, 9), draw.pick([3, 8, 9, 16, 17]), draw.number(1, 3)
    stride, pad = draw.number(1, 2), draw.number(0, 1)
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    kind = draw.pick(["max", "sum", "min"])
    dtype = draw.pick(["float32", "int8", "float64", "uint16"])
    a = draw.source((Size(h, h), Size(w, w)), dtype)
    neutral = IDENTITY[kind](dtype)
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    p = te.compute((h + 2 * pad, w + 2 * pad), lambda i, j: te.if_then_else(
        te.all(i >= pad, i < h + pad, j >= pad, j < w + pad), a.tensor[i - pad, j - pad], te.const(neutral, dtype)), "P")
    o = te.compute((oh, ow), lambda i, j: REDUCERS[kind](p[i * stride + ry, j * stride + rx], axis=[ry, rx]), "O")
    ap = np.pad(a.array, pad, constant_values=np.asarray(neutral).astype(a.array.dtype))
    windows = np.lib.stride_tricks.sliding_window_view(ap, (k, k))[::stride, ::stride]
    draw.program.result(o, fold(kind, windows, 2, np.asarray(neutral)))
    return draw.finish()


def draw_softmax(rng: np.random.Generator) -> Program:
    """Softmax or normalisation over rows: several stages that all reduce the same axis."""
    draw = Draw(rng, "softmax")
    symbolic = 0.5 if draw.chance(0.3) else 0.0
    m, n = draw.size(17, symbolic), draw.size(33, symbolic)
    dtype = draw.pick(["float32", "float32", "float64", "float16"])
    x = rng.standard_normal((m.value, n.value)).astype(dtype)
    a = draw.source((m, n), dtype, x).tensor
    k1, k2 = te.reduce_axis((0, n.te), "k1"), te.reduce_axis((0, n.te), "k2")
    y = x.astype("float64")
    if draw.chance(0.6):
        largest = te.compute((m.te,), lambda i: te.max(a[i, k1], axis=k1), "M")
        e = te.compute((m.te, n.te), lambda i, j: te.exp(a[i, j] - largest[i]), "E")
        total = te.compute((m.te,), lambda i: te.sum(e[i, k2], axis=k2), "S")
        o = te.compute((m.te, n.te), lambda i, j: e[i, j] / total[i], "O")
        e64 = np.exp(y - (y.max(1, keepdims=True) if n.value else 0))
        expected = e64 / e64.sum(1, keepdims=True)
    else:
        mean = te.compute((m.te,), lambda i: te.sum(a[i, k1], axis=k1), "M")
        scale = 1.0 / max(n.value, 1) if n.known else 0.125
        d = te.compute((m.te, n.te), lambda i, j: a[i, j] - mean[i] * te.const(scale, dtype), "D")
        v = te.compute((m.te,), lambda i: te.sum(d[i, k2] * d[i, k2], axis=k2), "V")
        o = te.compute((m.te, n.te), lambda i, j: d[i, j] / te.sqrt(v[i] + te.const(1.0, dtype)), "O")
        d64 = y - y.sum(1, keepdims=True) * float(np.asarray(scale).astype(dtype))
        expected = d64 / np.sqrt((d64 * d64).sum(1, keepdims=True) + 1)
    draw.program.result(o, expected.astype(dtype))
    return draw.finish(EPSILON[dtype] * 16 * (n.value + 8))


def draw_argmax(rng: np.random.Generator) -> Program:
    """Index and value of the greatest or least element, by a reducer over tuples."""
    draw = Draw(rng, "argmax")
    m, n = draw.size(17, 0.15), draw.size(33, 0.15)
    if n.known and n.value == 0:
        n = Size(1, 1)
    dtype, index = draw.pick(["float32", "int32", "int8", "float64", "uint16"]), draw.pick(["int32", "int64", "int32"])
    sign = draw.chance(0.5)
    x = np.asarray(small(draw, (m.value, n.value), dtype))
    a = draw.source((m, n), dtype, x).tensor
    worst = IDENTITY["max" if sign else "min"](dtype)
    no_index = np.iinfo(index).max

    def combine(x: Any, y: Any) -> Any:
        better = x[1] > y[1] if sign else x[1] < y[1]
        first = te.any(better, te.all(x[1].equal(y[1]), x[0] < y[0]))
        choose = te.select
        return choose(first, x[0], y[0]), choose(first, x[1], y[1])

    reducer = te.comm_reducer(combine, lambda t0, t1: (te.const(no_index, t0), te.const(worst, t1)), "best")
    k = te.reduce_axis((0, n.te), "k")
    at, value = te.compute((m.te,), lambda i: reducer((k.astype(index), a[i, k]), axis=k), "best")
    if n.value:
        found = (x.argmax(1) if sign else x.argmin(1)).astype(index)
        best = x.max(1) if sign else x.min(1)
    else:
        found, best = np.full(m.value, no_index, index), np.full(m.value, worst).astype(numpy_type(dtype))
    if draw.chance(0.4):
        o = te.compute((m.te,), lambda i: at[i] * te.const(2, index), "O")
        draw.program.result(o, (found * 2).astype(index))
    else:
        draw.program.result(at, found)
        draw.program.result(value, best)
    return draw.finish()


# Images, layouts and the rest


def draw_blur(rng: np.random.Generator) -> Program:
    """A separable stencil over a border that is clamped or padded; bytes in 16-bit fixed point, or floats."""
    draw = Draw(rng, "blur")
    symbolic = 0.5 if draw.chance(0.25) else 0.0
    h, w, radius = draw.size(17, symbolic), draw.size(33, symbolic), draw.number(1, 2)
    if not h.value or not w.value:
        h, w = Size(3, 3), Size(5, 5)
    dtype, wide = draw.pick([("uint8", "uint16"), ("float32", "float32"), ("int16", "int32")])
    a = draw.source((h, w), dtype)
    x = a.array.astype(wide)
    clamped, choose = draw.chance(0.5), te.select if draw.chance(0.5) else te.if_then_else
    weights = [draw.number(1, 3) for _ in range(2 * radius + 1)]

    def pixel(i: Any, j: Any) -> Any:
        y, z = i - radius, j - radius
        if clamped:
            return a.tensor[te.max(te.min(y, h.te - 1), 0), te.max(te.min(z, w.te - 1), 0)].astype(wide)
        return choose(te.all(y >= 0, y < h.te, z >= 0, z < w.te), a.tensor[y, z].astype(wide), te.const(0, wide))

    p = te.compute((h.te + 2 * radius, w.te + 2 * radius), pixel, "P")
    padded = np.pad(x, radius, mode="edge") if clamped else np.pad(x, radius)
    if draw.chance(0.5):
        across = te.compute((h.te + 2 * radius, w.te), lambda i, j: sum((p[i, j + t] * te.const(weights[t], wide)
                            for t in range(1, len(weights))), p[i, j] * te.const(weights[0], wide)), "X")
        down = te.compute((h.te, w.te), lambda i, j: sum((across[i + t, j] * te.const(weights[t], wide)
                          for t in range(1, len(weights))), across[i, j] * te.const(weights[0], wide)), "Y")
    else:
        table = draw.source((Size(len(weights), len(weights)),), wide,
                            np.array(weights).astype(wide)).tensor
        r, t = te.reduce_axis((0, len(weights)), "r"), te.reduce_axis((0, len(weights)), "t")
        across = te.compute((h.te + 2 * radius, w.te), lambda i, j: te.sum(p[i, j + r] * table[r], axis=r), "X")
        down = te.compute((h.te, w.te), lambda i, j: te.sum(across[i + t, j] * table[t], axis=t), "Y")
    row = sum(padded[:, t:t + w.value] * np.asarray(weights[t]).astype(wide) for t in range(len(weights)))
    expected = sum(row[t:t + h.value] * np.asarray(weights[t]).astype(wide) for t in range(len(weights)))
    if wide != "float32" and draw.chance(0.7):
        down_wide, shift = down, draw.number(1, 4)
        down = te.compute((h.te, w.te), lambda i, j: (down_wide[i, j] >> shift).astype(dtype), "Z")
        expected = (expected >> np.asarray(shift).astype(wide)).astype(dtype)
    draw.program.result(down, expected)
    return draw.finish()


def draw_layout(rng: np.random.Generator) -> Program:
    """Reshapes, transposes, blocked layouts, concatenation and slices."""
    draw = Draw(rng, "layout")
    m, n, block = draw.number(1, 9), draw.pick([1, 2, 3, 4, 7, 8, 16]), draw.pick([1, 2, 4, 8])
    a = draw.source((Size(m * block, m * block), Size(n, n)), draw.pick(["float32", "int8", "int64"]))
    x, t = a.array, a.tensor
    flat = te.compute((m * block * n,), lambda i: t[i // n, i % n] + te.const(1, a.dtype), "F")
    f = x.reshape(-1) + np.asarray(1).astype(x.dtype)
    how = draw.number(0, 3)
    if how == 0:
        o = te.compute((m, n, block), lambda i, j, b: flat[(i * block + b) * n + j], "O")
        expected = f.reshape(m, block, n).transpose(0, 2, 1)
    elif how == 1:
        total = m * block * n
        o = te.compute((2 * total,), lambda i: te.if_then_else(i < total, flat[i % total], flat[2 * total - 1 - i]), "O")
        expected = np.concatenate([f, f[::-1]])
    elif how == 2:
        step = draw.number(1, 3)
        length = -(-m * block * n // step)
        o = te.compute((length,), lambda i: flat[i * step] - flat[m * block * n - 1 - i * step], "O")
        expected = f[::step] - f[::-1][::step]
    else:
        g = te.compute((n, m * block), lambda i, j: flat[j * n + i], "G")
        o = te.compute((m * block, n), lambda i, j: g[j, m * block - 1 - i], "O")
        expected = f.reshape(m * block, n)[::-1]
    draw.program.result(o, np.ascontiguousarray(expected))
    return draw.finish()


def draw_gather(rng: np.random.Generator) -> Program:
    """Rows taken by an index tensor, then used by a reduction or an elementwise stage."""
    draw = Draw(rng, "gather")
    rows, n, m = draw.number(1, 17), draw.size(17, 0.2), draw.size(17, 0.2)
    dtype = draw.pick(["float32", "int16", "float64", "bool"])
    table = draw.source((Size(rows, rows), n), dtype)
    kind = draw.pick(["int32", "int64", "uint8", "int8"])
    at = draw.source((m,), kind, rng.integers(0, rows, m.value).astype(kind))
    double = te.compute((rows, n.te), lambda i, j: ~table.tensor[i, j] if dtype == "bool" else
                        table.tensor[i, j] * te.const(2, dtype), "D")
    taken = te.compute((m.te, n.te), lambda i, j: double[at.tensor[i], j], "G")
    doubled = ~table.array if dtype == "bool" else table.array * np.asarray(2).astype(table.array.dtype)
    expected = doubled[at.array.astype("int64")]
    if draw.chance(0.5) and dtype != "bool":
        k = te.reduce_axis((0, m.te), "k")
        o = te.compute((n.te,), lambda j: te.sum(taken[k, j], axis=k), "O")
        taken, expected = o, fold("sum", np.moveaxis(expected, 0, -1), 1, 0)
    draw.program.result(taken, expected)
    return draw.finish()


def draw_triangle(rng: np.random.Generator) -> Program:
    """Reductions whose extent depends on a data axis: prefix sums, triangular products."""
    draw = Draw(rng, "triangle")
    n, m = draw.size(17, 0.2), draw.number(1, 5)
    a = draw.source((n, Size(m, m)), draw.pick(["int32", "float32", "uint8"]))
    i_axis = {}

    def body(i: Any, j: Any) -> Any:
        i_axis["k"] = te.reduce_axis((0, i + 1), "k")
        return te.sum(a.tensor[i_axis["k"], j], axis=i_axis["k"])

    p = te.compute((n.te, m), body, "P")
    expected = np.cumsum(a.array, 0, dtype=a.array.dtype)
    if draw.chance(0.5):
        o = te.compute((n.te, m), lambda i, j: p[i, j] * te.const(2, a.dtype) + a.tensor[i, j], "O")
        p, expected = o, expected * np.asarray(2).astype(a.array.dtype) + a.array
    draw.program.result(p, expected)
    return draw.finish()


def draw_tuples(rng: np.random.Generator) -> Program:
    """Several outputs of one operation, elementwise or reduced, and a scalar argument."""
    draw = Draw(rng, "tuples")
    m, n = draw.size(17, 0.2), draw.size(17, 0.2)
    dtype = draw.pick(["int32", "float32", "int8"])
    a = draw.source((m, n), dtype)
    scale = te.var("scale", dtype)
    factor = draw.number(-3, 3)
    draw.program.given(scale, factor if dtype != "float32" else float(factor))
    x = a.array
    with np.errstate(all="ignore"):
        scaled = x * np.asarray(factor).astype(x.dtype)
    t0, t1 = te.compute((m.te, n.te), lambda i, j: (a.tensor[i, j] * scale, a.tensor[i, j] > te.const(1, dtype)), "T")
    if draw.chance(0.4):
        draw.program.result(t0, scaled)
        draw.program.result(t1, x > 1)
        return draw.finish()
    k = te.reduce_axis((0, n.te), "k")
    least, total = te.compute((m.te,), lambda i: (te.min(t0[i, k], axis=k), te.sum(te.if_then_else(
        t1[i, k], te.const(1, "int32"), te.const(0, "int32")), axis=k)), "R")
    lowest = fold("min", scaled, 1, np.asarray(IDENTITY["min"](dtype)).astype(x.dtype))
    if draw.chance(0.5):
        draw.program.result(least, lowest)
        draw.program.result(total, (x > 1).sum(1).astype("int32"))
    else:
        o = te.compute((m.te,), lambda i: least[i].astype("float64") + total[i].astype("float64"), "O")
        draw.program.result(o, lowest.astype("float64") + (x > 1).sum(1))
    return draw.finish()


PROGRAMS: tuple[tuple[float, Callable[[np.random.Generator], Program]], ...] = (
    (8, draw_chain), (3, draw_matmul), (2, draw_conv2d), (1, draw_pool), (2, draw_softmax), (1.5, draw_argmax),
    (2, draw_blur), (1.5, draw_layout), (1, draw_gather), (0.7, draw_triangle), (1.3, draw_tuples),
)


def draw_program(rng: np.random.Generator) -> Program:
    weights = np.array([weight for weight, _ in PROGRAMS])
    at = int(rng.choice(len(PROGRAMS), p=weights / weights.sum()))
    with np.errstate(all="ignore"):
        return PROGRAMS[at][1](rng)
