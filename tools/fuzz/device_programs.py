"""Programs for which GPUs have rules of their own: products on tensor cores, sums that many blocks share, chains of
windows, sorts, rows that are longer than a block, layers of networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import topi
from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, exact_sum, small
from .terms import numpy_type

__all__ = ["draw_device_product", "draw_layer", "draw_long_rows", "draw_ordered", "draw_stencils", "draw_rearranged"]

SUMS = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "uint8": "int32", "float32": "float32"}
WHOLE = (8, 16, 64, 72, 128, 136)
ODD = (1, 3, 7, 17, 31, 33, 65, 100, 129)


def _few(draw: Draw, shape: tuple[int, ...], dtype: str, name: str) -> tuple[Any, np.ndarray]:
    """A tensor of small whole numbers, whose sums are exact in any order."""
    values = small(draw, shape, dtype)
    return draw.program.add_argument(te.placeholder(shape, dtype, name), values), exact_sum(
        values, "int64" if "int" in dtype else dtype
    )


def draw_device_product(choices: Choices) -> Program:
    """Matrices, perhaps a batch, of the types that tensor cores take and of float32: stored by rows or by columns, of extents that
    boxes are made of or of any; long sums of few results; with a bias, and what follows."""
    draw = Draw(choices, "product")
    dtype = draw.pick([*SUMS, "float16", "bfloat16"])
    sizes = WHOLE if draw.chance(0.5) else ODD
    rows, columns, terms = draw.pick(sizes), draw.pick(sizes), draw.pick(sizes)
    if draw.chance(0.2):
        rows, columns, terms = draw.pick([1, 4, 16, 33]), draw.pick([1, 8, 17, 32]), draw.pick([512, 777, 1024, 2051])
    batch = (draw.number(1, 3),) if draw.chance(0.25) else ()
    turned = draw.chance(0.3), draw.chance(0.5)
    wide = SUMS[dtype]
    a, x = _few(draw, (*batch, *((terms, rows) if turned[0] else (rows, terms))), dtype, "A")
    b, y = _few(draw, (*batch, *((columns, terms) if turned[1] else (terms, columns))), dtype, "B")
    k = te.reduce_axis((0, terms), "k")

    def element(*at: Any) -> Any:
        *outer, i, j = at
        left = a[(*outer, k, i)] if turned[0] else a[(*outer, i, k)]
        right = b[(*outer, j, k)] if turned[1] else b[(*outer, k, j)]
        return te.sum(left.astype(wide) * right.astype(wide), k)

    c = te.compute((*batch, rows, columns), element, "C")
    expected = (x.swapaxes(-1, -2) if turned[0] else x) @ (y.swapaxes(-1, -2) if turned[1] else y)
    expected = expected.astype(numpy_type(wide))
    if draw.chance(0.4):
        bias = _few(draw, (columns,), wide, "bias")[0]
        sums, none = c, te.const(0, wide)
        c = te.compute(c.shape, lambda *at: te.max(sums[at] + bias[at[-1]], none), "D")
        expected = np.maximum(expected + draw.program.values[-1], 0)  # integers wrap
    draw.program.result(c, expected)
    return draw.finish()


def draw_stencils(choices: Choices) -> Program:
    """One to four stages over a plane, each of which reads a window of the one before: clamped at the edges, or 0 beyond them."""
    draw = Draw(choices, "stencils")
    shape = draw.pick([1, 7, 16, 33, 50]), draw.pick([1, 8, 31, 40, 67])
    last, known = _few(draw, shape, "float32", "A")
    for stage in range(draw.number(1, 4)):
        places = [(draw.number(-2, 2), draw.number(-2, 2)) for _ in range(draw.number(2, 5))]
        padded = draw.chance(0.4)
        view = te.padded(last, 0.0) if padded else te.clamped(last)
        last = te.compute(
            shape,
            lambda i, j, view=view, places=places: sum(
                (view[i + y, j + x] for y, x in places[1:]), view[i + places[0][0], j + places[0][1]]
            ),
            name=f"S{stage}",
        )
        around = np.pad(known, 2, mode="constant" if padded else "edge")
        known = np.sum([around[2 + y : 2 + y + shape[0], 2 + x : 2 + x + shape[1]] for y, x in places], axis=0)
    draw.program.result(last, known.astype("float32"))
    return draw.finish()


def draw_ordered(choices: Choices) -> Program:
    """Sorts, places of sorts, the greatest few, sums so far."""
    draw = Draw(choices, "ordered")
    rows, count = draw.pick([1, 2, 5, 19]), draw.pick([1, 2, 7, 16, 33, 100, 257])
    values = draw.choices.contents().permutation(rows * count).reshape(rows, count).astype("float32")
    a = draw.program.add_argument(te.placeholder((rows, count), "float32", "A"), values)
    axis = draw.pick([1, 1, 0])
    kind = draw.pick(["sort", "argsort", "topk", "cumsum", "cumsum"])
    if kind == "sort":
        rising = draw.chance(0.5)
        ordered = np.sort(values, axis)
        draw.program.result(topi.sort(a, axis, rising), ordered if rising else np.flip(ordered, axis))
    elif kind == "argsort":
        draw.program.result(topi.argsort(a, axis=axis, dtype="int32"), np.argsort(values, axis).astype("int32"))
    elif kind == "topk":
        some = min(draw.number(1, 8), rows if axis == 0 else count)
        falling = np.flip(np.sort(values, axis), axis)
        draw.program.result(topi.topk(a, some, axis, "values"), falling[:some] if axis == 0 else falling[:, :some])
    else:
        whole = values.astype("int32")
        draw.program.args[0], draw.program.values[0] = te.placeholder((rows, count), "int32", "A"), whole
        draw.program.result(topi.cumsum(draw.program.args[0], axis), whole.cumsum(axis, dtype="int32"))
    return draw.finish()


def draw_long_rows(choices: Choices) -> Program:
    """Softmax, norms, sums and greatest elements of rows of up to some thousand elements, and of columns."""
    draw = Draw(choices, "long rows")
    shape = draw.pick([1, 2, 7, 40]), draw.pick([1, 33, 128, 257, 1000, 3001])
    dtype = draw.pick(["float32", "float32", "float16", "bfloat16"])
    values = draw.choices.contents().standard_normal(shape).astype(numpy_type(dtype))
    a: te.Tensor = draw.program.add_argument(te.placeholder(shape, dtype, "A"), values)
    x, axis = values.astype("float64"), draw.pick([1, 1, 0])
    powers = np.exp(x - x.max(axis, keepdims=True))
    apart = x - x.mean(axis, keepdims=True)
    kinds: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
        "softmax": (lambda: topi.nn.softmax(a, axis), powers / powers.sum(axis, keepdims=True)),
        "log_softmax": (lambda: topi.nn.log_softmax(a, axis), np.log(powers / powers.sum(axis, keepdims=True))),
        "layer_norm": (
            lambda: topi.nn.layer_norm(a, axis=axis),
            apart / np.sqrt((apart * apart).mean(axis, keepdims=True) + 1e-5),
        ),
        "rms_norm": (lambda: topi.nn.rms_norm(a, axis=axis), x / np.sqrt((x * x).mean(axis, keepdims=True) + 1e-5)),
        "max": (lambda: topi.max(a, axis), x.max(axis)),
        "argmax": (lambda: topi.argmax(a, axis), values.astype("float64").argmax(axis).astype("int32")),
        "sum": (lambda: topi.sum(topi.cast(a, "float32"), axis), x.sum(axis).astype("float32")),
    }
    made, expected = kinds[draw.pick(list(kinds))]
    tensor = made()
    draw.program.result(tensor, expected.astype(numpy_type(str(tensor.dtype))))
    return draw.finish({"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}[dtype])


def draw_rearranged(choices: Choices) -> Program:
    """Axes in another order, parts put one after the other, elements taken by index; and arithmetic on the way."""
    draw = Draw(choices, "turned")
    shape = tuple(draw.pick([1, 3, 8, 17, 33, 64]) for _ in range(draw.number(2, 3)))
    dtype = draw.pick(["float32", "float16", "int8", "int32"])
    a, x = _few(draw, shape, dtype, "A")
    kind, order = draw.pick(["transpose", "concatenate", "take"]), draw.choices.permutation(len(shape))
    if kind == "transpose":
        b, y = topi.transpose(a, order), x.transpose(order)
    elif kind == "concatenate":
        other, z = _few(draw, shape, dtype, "B")
        b, y = topi.concatenate([a, other], order[0]), np.concatenate([x, z], order[0])
    else:
        count: int = draw.pick([1, 5, 40])
        places = draw.choices.contents().integers(0, shape[0], count, "int32")
        b = topi.take(a, draw.program.add_argument(te.placeholder(places.shape, "int32", "I"), places), 0)
        y = x[places]
    if draw.chance(0.4):
        b, y = topi.add(b, topi.cast(b, dtype)), y + y
    draw.program.result(b, y.astype(numpy_type(dtype)))
    return draw.finish()


def draw_layer(choices: Choices) -> Program:
    """A convolution of any kind, or a pool, of small whole numbers."""
    draw = Draw(choices, "layer")
    dtype = draw.pick(["float32", "float32", "float16", "int8"])
    wide = SUMS[dtype]
    batch, channels, filters = draw.number(1, 2), draw.pick([1, 3, 8, 16, 33]), draw.pick([1, 5, 16, 24])
    height, width = draw.pick([3, 5, 8, 13, 17]), draw.pick([3, 7, 9, 16])
    window, stride, padding = draw.pick([1, 2, 3]), draw.pick([1, 1, 2]), draw.pick([0, 1])
    kind = draw.pick(["dense", "dense", "depthwise", "max", "rows"])
    by_rows = kind == "rows"  # channels last
    a, x = _few(draw, (batch, height, width, channels) if by_rows else (batch, channels, height, width), dtype, "A")
    x = x.transpose(0, 3, 1, 2) if by_rows else x
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    if kind == "max":
        result = topi.nn.max_pool2d(a, window, stride, padding if window > 1 else 0)
        sides = sides if window > 1 else ((0, 0),) * 4
        least = np.iinfo("int8").min if dtype == "int8" else -np.inf
        view = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, sides, constant_values=least), (window, window), (2, 3)
        )
        draw.program.result(result, view[:, :, ::stride, ::stride].max((4, 5)).astype(numpy_type(dtype)))
        return draw.finish()
    view = np.lib.stride_tricks.sliding_window_view(np.pad(x, sides), (window, window), (2, 3))[
        :, :, ::stride, ::stride
    ]
    if kind == "depthwise":
        w, z = _few(draw, (channels, 1, window, window), dtype, "W")
        result, expected = (
            topi.nn.depthwise_conv2d(a, w, stride, padding, out_dtype=wide),
            np.einsum("ncyxuv,couv->ncyx", view, z),
        )
    elif by_rows:
        w, z = _few(draw, (window, window, channels, filters), dtype, "W")
        result = topi.nn.conv2d(a, w, stride, padding, layout="NHWC", out_dtype=wide)
        expected = np.einsum("ncyxuv,uvcf->nyxf", view, z)
    else:
        w, z = _few(draw, (filters, channels, window, window), dtype, "W")
        result = topi.nn.conv2d(a, w, stride, padding, out_dtype=wide)
        expected = np.einsum("ncyxuv,fcuv->nfyx", view, z)
    if draw.chance(0.4):
        result, expected = topi.nn.relu(result), np.maximum(expected, 0)
    draw.program.result(result, expected.astype(numpy_type(wide)))
    return draw.finish()
