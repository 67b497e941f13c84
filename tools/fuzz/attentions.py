"""Attention as models and users declare it: causal, masked, with shared heads, by topi or by hand; of any lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te, topi
from .choices import Choices
from .program import Draw, Program
from .terms import numpy_type

__all__ = ["draw_attention", "draw_weighted_rows"]

LENGTHS = (1, 2, 5, 16, 17, 31, 33, 64, 65, 70, 100, 129)
WIDTHS = (1, 3, 4, 7, 8, 12, 16, 20, 32)
TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 8e-2}


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax of rows; 0 where nothing is seen."""
    most = scores.max(-1, keepdims=True)
    powers: np.ndarray = np.where(scores == -np.inf, 0, np.exp(scores - np.where(most == -np.inf, 0, most)))
    total = powers.sum(-1, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


def _draw_normal(draw: Draw, shape: tuple[int, ...], dtype: str, name: str) -> tuple[Any, np.ndarray]:
    """A tensor of standard normal values; and these, as float64."""
    values = draw.choices.contents().standard_normal(shape).astype(numpy_type(dtype))
    return draw.program.add_argument(te.placeholder(shape, dtype, name), values), values.astype("float64")


def draw_attention(choices: Choices) -> Program:
    """topi's, over heads and perhaps a batch."""
    draw = Draw(choices, "attention")
    queries, keys, depth, width = draw.pick(LENGTHS), draw.pick(LENGTHS), draw.pick(WIDTHS), draw.pick(WIDTHS)
    shared = draw.pick([1, 1, 2, 4])
    heads = draw.number(1, 2) * shared
    batch = (draw.number(1, 2),) if draw.chance(0.3) else ()
    dtype = draw.pick(["float32", "float32", "float16", "bfloat16"])
    q, a = _draw_normal(draw, (*batch, heads, queries, depth), dtype, "Q")
    k, b = _draw_normal(draw, (*batch, heads // shared, keys, depth), dtype, "K")
    v, c = _draw_normal(draw, (*batch, heads // shared, keys, width), dtype, "V")
    b, c = (np.repeat(each, shared, axis=-3) for each in (b, c))
    scores = a @ b.swapaxes(-1, -2) / np.sqrt(depth)
    causal, offset = draw.chance(0.4), draw.pick([0, 0, 3])
    options: dict[str, Any] = {"causal": causal, "offset": offset if causal else 0}
    if causal:
        scores = np.where(np.tri(queries, keys, offset, bool), scores, -np.inf)
    if draw.chance(0.35):
        shape = (queries, keys) if draw.chance(0.6) else (*batch, heads, queries, keys)
        if draw.chance(0.5):
            seen = draw.choices.contents().integers(0, 3, shape) > 0
            options["mask"] = draw.program.add_argument(te.placeholder(shape, "bool", "mask"), seen)
            scores = np.where(seen, scores, -np.inf)
        else:
            options["mask"], added = _draw_normal(draw, shape, dtype, "mask")
            scores = scores + added
    draw.program.result(topi.nn.attention(q, k, v, **options), (_softmax(scores) @ c).astype(numpy_type(dtype)))
    return draw.finish(TOLERANCE[dtype])


def draw_weighted_rows(choices: Choices) -> Program:
    """Draw attention as users write it: scores, a softmax of topi's or of their own, a product with what it weighs; divided before or
    behind."""
    draw = Draw(choices, "weighted rows")
    rows, terms, depth, width = draw.pick(LENGTHS), draw.pick(LENGTHS), draw.pick(WIDTHS), draw.pick(WIDTHS)
    a, x = _draw_normal(draw, (rows, depth), "float32", "A")
    b, y = _draw_normal(draw, (terms, depth), "float32", "B")
    c, z = _draw_normal(draw, (terms, width), "float32", "C")
    d, j, k, m = (
        te.reduce_axis((0, extent), name) for extent, name in ((depth, "d"), (terms, "j"), (terms, "k"), (terms, "m"))
    )
    causal, divided, narrow = draw.chance(0.4), draw.chance(0.5), draw.chance(0.2)
    products = te.compute((rows, terms), lambda i, n: te.sum(a[i, d] * b[n, d], axis=d), name="S")
    none = te.const(-np.inf, "float32")
    scores = te.compute(
        products.shape,
        lambda i, n: te.select(n <= i, products[i, n] * 0.5, none) if causal else products[i, n] * 0.5,
        name="X",
    )
    known = x @ y.T * 0.5
    known = np.where(np.tri(rows, terms, dtype=bool), known, -np.inf) if causal else known
    expected = _softmax(known) @ z
    if divided:
        weights = topi.nn.softmax(scores)
        weights = topi.cast(weights, "float16") if narrow else weights
        result = te.compute(
            (rows, width), lambda i, e: te.sum(weights[i, j].astype("float32") * c[j, e], axis=j), name="Y"
        )
    else:
        peak = te.compute((rows,), lambda i: te.max(scores[i, k], axis=k), name="peak")
        power = te.compute(scores.shape, lambda i, n: te.exp(scores[i, n] - peak[i]), name="power")
        total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
        sums = te.compute((rows, width), lambda i, e: te.sum(power[i, j] * c[j, e], axis=j), name="Y")
        result = te.compute((rows, width), lambda i, e: sums[i, e] / total[i] + 1.0, name="Z")
        expected = expected + 1
    draw.program.result(result, expected.astype("float32"))
    return draw.finish(5e-3 if divided and narrow else TOLERANCE["float32"])
