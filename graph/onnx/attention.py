"""ONNX's attention, with masks, caches and groups of heads, as products and a softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..conversion import Refused
from ..types import Extent, TensorType
from .context import Context, converts
from .package import dtype_named
from .reading import Reading, controls

__all__: list[str] = []


def _heads(c: Context, at: int, count: int) -> str:
    """An input as (batch, heads, length, depth)."""
    if c.rank(at) == 4:
        return c[at]
    batch, length, width = c.type(at).shape
    if not isinstance(width, int) or count < 1 or width % count:
        raise Refused(f"{width} columns are not {count} heads")
    return c.emit("transpose", c.reshape(c[at], (batch, length, count, width // count)), axes=(0, 2, 1, 3))


@converts("Attention")
def _convert_attention(c: Context) -> Sequence[str]:
    heads = int(c.attribute("q_num_heads", 0)), int(c.attribute("kv_num_heads", 0))
    q, k, v = _heads(c, 0, heads[0]), _heads(c, 1, heads[1]), _heads(c, 2, heads[1])
    past: Extent = 0
    if c.has(4):
        past = c.type(4).shape[2]
        k, v = c.emit("concat", c[4], k, axis=2), c.emit("concat", c[5], v, axis=2)
    dtype, whole = c.type(0).dtype, c.type(0)
    wide = dtype if dtype in ("float32", "float64") else "float32"
    depth, causal = c.type(q).shape[3], bool(c.attribute("is_causal", 0))
    if not isinstance(depth, int):
        raise Refused("the length of its vectors is not known")
    scale = float(c.attribute("scale", 0.0)) or 1 / np.sqrt(max(depth, 1))
    cap, mode = float(c.attribute("softcap", 0.0)), int(c.attribute("qk_matmul_output_mode", 0))
    windows = int(c.attribute("left_window_size", -1)), int(c.attribute("right_window_size", -1))
    if mode not in range(4):
        raise Refused(f"there are no scores of the mode {mode}")
    if not (cap or c.outputs > 3):
        c.attribute("softmax_precision")
        by_mask = max(windows) >= 0 or c.has(6)  # else what is causal is known by the operator, and skipped
        mask = _mask(c, (c.type(q), c.type(k)), dtype, past, (causal and by_mask, windows))
        y = c.emit(
            "attention", q, k, v, *([mask] if mask else []), scale=scale, causal=causal and not by_mask, offset=(past,)
        )
        return _results(c, y, k, v, "", len(whole.shape) == 3)
    scores = c.emit("multiply", _times(c, c.cast(q, wide), c.cast(k, wide), True), c.constant(np.asarray(scale, wide)))
    stages = [scores]
    if cap:
        capped = c.emit("tanh", c.emit("divide", scores, c.constant(np.asarray(cap, wide))))
        scores = c.emit("multiply", capped, c.constant(np.asarray(cap, wide)))
    stages.append(scores)
    mask = _mask(c, (c.type(q), c.type(k)), wide, past, (causal, windows))
    if mask:
        is_bool = c.type(mask).dtype == "bool"
        scores = c.emit("where", mask, scores, c.constant(-np.inf, scores)) if is_bool else c.emit("add", scores, mask)
    stages.append(scores)
    precision = c.attribute("softmax_precision")
    kind = wide if precision is None else dtype_named(int(precision))
    chances = c.cast(_softmax(c, c.cast(scores, kind), bool(mask)), wide)
    stages.append(chances)
    y = c.cast(_times(c, chances, c.cast(v, wide), False), dtype)
    return _results(c, y, k, v, c.cast(stages[mode], dtype) if c.outputs > 3 else "", len(whole.shape) == 3)


@controls("ai.onnx.preview.FlexAttention")
def _convert_flex_attention(r: Reading, node: Any) -> None:
    """Attention whose scores, and what the softmax makes of them, graphs inside of the node change."""
    c = r.context(node)
    graphs = {one.name: one.g for one in node.attribute if one.name in ("score_mod", "prob_mod")}
    depth, dtype = c.extent(0, 3), c.type(0).dtype
    scale, precision = c.attribute("scale"), c.attribute("softmax_precision")
    wide = dtype_named(int(precision)) if precision is not None else dtype if dtype == "float64" else "float32"
    factor = c.constant(np.sqrt(np.float32(1 / np.sqrt(max(depth, 1)) if scale is None else scale)), 0)
    q, k = (c.emit("multiply", c[at], factor) for at in (0, 1))
    value = c.cast(_times(c, q, k, True), wide)
    for name in ("score_mod", "prob_mod"):
        if name in graphs:
            inside = r.beside(graphs[name], [value])
            result = graphs[name].output[0].name
            changed = inside.value(result)
            if changed is None or inside.unsupported or inside.is_unknown(result):
                r.waiting.update(node.output)
                return
            value = changed
        if name == "score_mod":
            value = c.emit("softmax", value, axis=-1)
    r.define(node.output[0], c.cast(_times(c, value, c.cast(c[2], wide), False), dtype))


def _results(c: Context, y: str, k: str, v: str, scores: str, flat: bool) -> Sequence[str]:
    if flat:
        batch, heads, length, width = c.type(y).shape
        y = c.reshape(c.emit("transpose", y, axes=(0, 2, 1, 3)), (batch, length, int(heads) * int(width)))
    return [y, k, v, scores][: c.outputs]


def _times(c: Context, a: str, b: str, transposed: bool) -> str:
    """The product of each head of a with the head of b that its group shares."""
    batch, heads, length, width = c.type(a).shape
    shared = c.type(b).shape[1]
    if heads == shared:
        return c.emit("matmul", a, b, transpose_b=transposed)
    groups = int(heads) // int(shared)
    rows: Extent = groups * length if isinstance(length, int) else f"({length}) * {groups}"
    product = c.emit("matmul", c.reshape(a, (batch, shared, rows, width)), b, transpose_b=transposed)
    return c.reshape(product, (batch, heads, length, c.type(product).shape[3]))


def _extend_mask(c: Context, keys: Extent, dtype: str) -> str:
    """The mask over all keys, of bools or of this dtype; keys that it does not reach are not seen."""
    mask = c[3]
    covered = c.type(mask).shape[-1]
    missing = keys - covered if isinstance(keys, int) and isinstance(covered, int) else 0
    is_bool = c.type(mask).dtype == "bool"
    if not is_bool:
        mask = c.cast(mask, dtype)
    if missing:
        rank = c.rank(mask)
        mask = c.emit(
            "pad", mask, before=(0,) * rank, after=(0,) * (rank - 1) + (missing,), value=0 if is_bool else -np.inf
        )
    return mask


def _mask(
    c: Context, of: tuple[TensorType, TensorType], dtype: str, past: Extent, seen: tuple[bool, tuple[int, int]]
) -> str:
    """All that says which of the keys a query sees as one mask, of bools or of this dtype; "" where it sees all. of: queries and
    keys. seen: whether it is causal, and the windows."""
    queries, keys = (kind.shape[2] for kind in of)
    mask = _extend_mask(c, keys, dtype) if c.has(3) else ""
    causal, windows = seen
    if not (causal or max(windows) >= 0 or c.has(6)):
        return mask
    query = c.reshape(c.emit("arange", shape=(queries,)), (queries, 1))
    key = c.reshape(c.emit("arange", shape=(keys,)), (1, keys))
    position = c.emit("add", query, c.size_value(past))
    conditions: list[str] = []
    if c.has(6):
        valid = c.reshape(c.cast(c[6], "int64"), (of[0].shape[0], 1, 1, 1))
        conditions.append(c.emit("less", key, valid))
        position = c.emit("add", query, c.emit("subtract", valid, c.size_value(queries)))
    left, right = windows[0], 0 if causal else windows[1]
    if right >= 0:
        conditions.append(c.emit("less_equal", key, c.emit("add", position, c.constant(np.asarray(right)))))
    if left >= 0:
        conditions.append(c.emit("greater_equal", key, c.emit("subtract", position, c.constant(np.asarray(left)))))
    whole, *others = conditions
    for condition in others:
        whole = c.emit("logical_and", whole, condition)
    if not mask:
        return whole
    return (
        c.emit("logical_and", mask, whole)
        if c.type(mask).dtype == "bool"
        else c.emit("where", whole, mask, c.constant(np.asarray(-np.inf, dtype)))
    )


def _softmax(c: Context, scores: str, masked: bool) -> str:
    """The softmax over keys; 0 for a query that sees none."""
    if not masked:
        return c.emit("softmax", scores, axis=-1)
    top = c.emit("max", scores, axes=(3,), keepdims=True)
    none = c.emit("equal", top, c.constant(-np.inf, top))
    safe = c.emit("where", none, c.constant(0, scores), scores)
    return c.emit("where", none, c.constant(0, scores), c.emit("softmax", safe, axis=-1))
