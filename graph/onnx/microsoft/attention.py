"""Attention as onnxruntime has it: with the products before it, with masks that add a number, with caches of keys and values, and
with heads that share keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...conversion import Refused
from ...types import Extent
from ..context import Context, converts
from .fused_layers import add_bias, rotate_pairs
from .quantization import integer_product

__all__: list[str] = []


def _split_heads(c: Context, value: str, heads: int) -> str:
    """(batch, length, heads * depth) as (batch, heads, length, depth)."""
    batch, length, width = c.type(value).shape
    if not isinstance(width, int) or heads < 1 or width % heads:
        raise Refused(f"{width} columns are not {heads} heads")
    return c.emit("transpose", c.reshape(value, (batch, length, heads, width // heads)), axes=(0, 2, 1, 3))


def _merge_heads(c: Context, value: str) -> str:
    """(batch, heads, length, depth) as (batch, length, heads * depth)."""
    batch, heads, length, depth = c.type(value).shape
    return c.reshape(c.emit("transpose", value, axes=(0, 2, 1, 3)), (batch, length, int(heads) * int(depth)))


def _cut(c: Context, value: str, axis: int, begin: int, end: int) -> str:
    return c.emit("slice", value, begin=(begin,), end=(end,), step=(1,), axes=(axis,))


def _mask_summand(c: Context, at: int, q: str, k: str) -> str:
    """Return the summand of a mask for scores, (batch, 1, queries or 1, keys): 0, or the node's number where keys are
    not seen; "" without one. The mask has 1 for what is seen: for each key, or for each query and key; or it says how
    many keys of a sequence there are."""
    if not c.has(at):
        return ""
    mask, shape = c[at], c.type(at).shape
    batch, keys = c.type(q).shape[0], c.type(k).shape[2]
    if len(shape) == 1:
        if shape != (batch,):
            raise Refused(f"its mask {c.type(at)} is none of {batch} lengths")
        places = c.reshape(c.emit("arange", shape=(keys,)), (1, keys))
        seen = c.emit("less", places, c.reshape(c.cast(mask, "int64"), (batch, 1)))
        shape = (batch, keys)
    else:
        seen = c.emit("not_equal", mask, c.constant(0, mask))
    if len(shape) not in (2, 3):
        raise Refused(f"its mask is {c.type(at)}")
    seen = c.reshape(seen, (shape[0], 1, *((1,) if len(shape) == 2 else ()), *shape[1:]))
    filling = float(c.attribute("mask_filter_value", -10000.0))
    return c.emit("where", seen, c.constant(0, q), c.constant(filling, q))


def _emit_attention(c: Context, q: str, k: str, v: str, masks: Sequence[str], past: Extent) -> str:
    """(batch, heads, queries, depth): what queries see of values. masks: what is added to scores, one after the other."""
    mask = ""
    for one in masks:
        mask = one if not mask else c.emit("add", mask, one) if one else mask
    scale = c.attribute("scale", 0.0)
    return c.emit(
        "attention",
        q,
        k,
        v,
        *([mask] if mask else []),
        scale=float(scale) if scale else None,
        causal=bool(c.attribute("unidirectional", 0)),
        offset=(past,),
    )


def _append_to_cache(c: Context, past: str, present: str) -> str:
    """A cache and what follows it."""
    return c.emit("concat", past, present, axis=2) if past else present


def _attend_columns(c: Context, columns: str, at: tuple[int, int, int]) -> Sequence[str]:
    """Attention of columns of queries, keys and values. at: which inputs are the mask, the past, and what is added to scores."""
    if c.attribute("do_rotary", 0) or c.attribute("past_present_share_buffer", 0) or c.has(6) and at[2] == 5:
        raise Refused("it turns its vectors, or its past and its present are one buffer")
    heads, width = int(c.attribute("num_heads")), c.extent(columns, 2)
    sizes = [int(size) for size in c.attribute("qkv_hidden_sizes") or (width // 3,) * 3]
    if sum(sizes) != width:
        raise Refused(f"{width} columns are not those of {sizes}")
    q, k, v = (_split_heads(c, part, heads) for part in c.emit_all("split", columns, sizes=tuple(sizes), axis=2))
    past: Extent = 0
    if c.has(at[1]):
        past = c.type(at[1]).shape[3]
        before = [c.reshape(_cut(c, c[at[1]], 0, one, one + 1), c.type(at[1]).shape[1:]) for one in range(2)]
        k, v = _append_to_cache(c, before[0], k), _append_to_cache(c, before[1], v)
    added = [_mask_summand(c, at[0], q, k), c[at[2]] if at[2] and c.has(at[2]) else ""]
    result = _merge_heads(c, _emit_attention(c, q, k, v, added, past))
    return [result, c.emit("stack", k, v, axis=0)] if c.outputs > 1 else [result]


@converts("com.microsoft.Attention")
def _convert_attention(c: Context) -> Sequence[str]:
    return _attend_columns(c, add_bias(c, c.emit("matmul", c[0], c[1]), 2), (3, 4, 5))


@converts("com.microsoft.QAttention")
def _convert_attention_of_bytes(c: Context) -> Sequence[str]:
    zeros = [c[at] if c.has(at) else "" for at in (6, 7)]
    columns = add_bias(c, integer_product(c, (c[0], c[3], zeros[0]), (c[1], c[4], zeros[1])), 2)
    return _attend_columns(c, columns, (5, 8, 0))


def _unpack_heads(c: Context, value: str, count: int) -> list[str]:
    """(batch, length, heads, count, depth) as so many of (batch, heads, length, depth)."""
    shape = c.type(value).shape
    parts = [c.reshape(_cut(c, value, 3, at, at + 1), (*shape[:3], shape[4])) for at in range(count)]
    return [c.emit("transpose", part, axes=(0, 2, 1, 3)) for part in parts]


@converts("com.microsoft.MultiHeadAttention")
def _convert_multi_head(c: Context) -> Sequence[str]:
    if c.has(8) or c.has(9) or c.outputs > 3:
        raise Refused("its past and its present are one buffer, or its scores are an output")
    heads = int(c.attribute("num_heads"))
    biases = _biases(c)

    def side(at: int) -> str:
        if c.rank(at) == 4:
            return c[at]
        return _split_heads(c, c.emit("add", c[at], biases[at]) if biases else c[at], heads)

    if not c.has(1):
        q, k, v = _unpack_heads(c, c[0], 3)
    elif not c.has(2):
        q, (k, v) = side(0), _unpack_heads(c, c[1], 2)
    else:
        q, k, v = side(0), side(1), side(2)
    past: Extent = 0
    if c.has(6):
        past = c.type(6).shape[2]
        k, v = _append_to_cache(c, c[6], k), _append_to_cache(c, c[7], v)
    result = _emit_attention(c, q, k, v, [_mask_summand(c, 4, q, k), c[5] if c.has(5) else ""], past)
    return [_merge_heads(c, result), k, v][: c.outputs]


def _biases(c: Context) -> list[str]:
    """Return the biases of queries, keys and values; empty where there are none."""
    if not c.has(3):
        return []
    if c.rank(0) != 3 or not c.has(2):
        raise Refused("it adds a bias to heads that are separate")
    own = c.extent(0, 2)
    return list(c.emit_all("split", c[3], sizes=(own, own, c.extent(3, 0) - 2 * own), axis=0))


_OWN_CACHE = ("k_quant_type", "v_quant_type")


@converts("com.microsoft.GroupQueryAttention")
def _convert_grouped_attention(c: Context) -> Sequence[str]:
    heads, shared = (int(c.attribute(name)) for name in ("num_heads", "kv_num_heads"))
    if (
        any(c.attribute(name, "NONE") != "NONE" for name in _OWN_CACHE)
        or any(map(c.has, range(12, 17)))
        or c.outputs > 3
        or not c.attribute("causal", 1)
        or c.attribute("sliding_window_cache", 0)
        or c.attribute("qk_output", 0)
    ):
        raise Refused("its cache is quantised or a window, its queries are normalised, or its scores are an output")
    q, k, v = _sides(c, heads, shared)
    batch, _, length, _ = c.type(q).shape
    past: Extent = c.type(3).shape[2] if c.has(3) else 0
    apart = past != 0 and batch != 1  # sequences may have pasts of lengths of their own
    first = c.constant(np.zeros((1, 1), np.int64))
    if past != 0:
        last = c.reshape(c.cast(c[5], "int64"), (batch, 1))
        first = c.emit("subtract", last, c.emit("subtract", c.size_value(length), c.constant(np.int64(1))))
    places = c.emit("add", c.reshape(c.emit("arange", shape=(length,)), (1, length)), first)
    if c.attribute("do_rotary", 0):
        turns = c[9] if c.has(9) else places
        interleaved = bool(c.attribute("rotary_interleaved", 0))
        q, k = (rotate_pairs(c, one, (c[7], c[8]), turns, interleaved) for one in (q, k))
    keys, values = (
        _write_cache(c, c[at], one, places) if apart else _append_to_cache(c, c[at] if c.has(at) else "", one)
        for at, one in ((3, k), (4, v))
    )
    own = places if apart else c.reshape(c.emit("arange", shape=(length,), start=(past,)), (1, length))
    far = c.emit(
        "subtract",
        c.reshape(own, (c.type(own).shape[0], 1, length, 1)),
        c.emit("arange", shape=(c.type(keys).shape[2],)),
    )
    return [_merge_heads(c, _grouped_scores(c, (q, keys, values), far, None if apart else past)), keys, values][
        : c.outputs
    ]


def _write_cache(c: Context, past: str, present: str, places: str) -> str:
    """A cache, longer by as much as is written to it at these places of each sequence."""
    length = c.type(present).shape[2]
    zeros = c.emit("broadcast_to", c.constant(0, present), shape=c.type(present).shape)
    at = c.emit("broadcast_to", c.reshape(places, (c.type(places).shape[0], 1, length, 1)), shape=c.type(present).shape)
    return c.emit("scatter_elements", c.emit("concat", past, zeros, axis=2), at, present, axis=2, reduction="update")


def _sides(c: Context, heads: int, shared: int) -> tuple[str, str, str]:
    """Queries, keys and values, each (batch, heads, length, depth)."""
    if c.has(1):
        return _split_heads(c, c[0], heads), _split_heads(c, c[1], shared), _split_heads(c, c[2], shared)
    width = c.extent(0, 2)
    depth = width // (heads + 2 * shared)
    q, k, v = c.emit_all("split", c[0], sizes=(heads * depth, shared * depth, shared * depth), axis=2)
    return _split_heads(c, q, heads), _split_heads(c, k, shared), _split_heads(c, v, shared)


def _grouped_scores(c: Context, of: tuple[str, str, str], far: str, past: Extent | None) -> str:
    """Return the scores of grouped queries: of keys up to their own, and not of those too far behind. of: queries, keys
    and values. far: how far each key is behind a query. past: how many keys there are before all queries, where that is
    one number."""
    window, cap = int(c.attribute("local_window_size", -1)), float(c.attribute("softcap", 0.0))
    plain = not (cap or c.attribute("smooth_softmax", 0) or c.has(11))
    added = c[10] if c.has(10) else ""
    conditions: list[str] = []
    if past is None or not plain:
        conditions.append(c.emit("greater_equal", far, c.constant(np.int64(0))))
    if window > 0:
        conditions.append(c.emit("less", far, c.constant(np.int64(window))))
    for seen in conditions:
        near = c.emit("where", seen, c.constant(0, of[0]), c.constant(-np.inf, of[0]))
        added = c.emit("add", added, near) if added else near
    scale = float(c.attribute("scale", 0.0)) or None
    if not plain:
        return _emit_capped_attention(c, of, added, scale, cap)
    causal: dict[str, Any] = {} if past is None else {"causal": True, "offset": (past,)}
    return c.emit("attention", *of, *([added] if added else []), scale=scale, **causal)


def _emit_capped_attention(c: Context, of: tuple[str, str, str], added: str, scale: float | None, cap: float) -> str:
    """Attention whose scores are bent, or whose softmax has one term more, which a head says or which is 0. cap: of scores."""
    q, k, v = of
    heads, _, depth = c.type(q).shape[1:]
    shared, keys = c.type(k).shape[1:3]
    if heads != shared:
        k, v = (_repeat_heads(c, one, int(heads) // int(shared)) for one in (k, v))
    scores = c.emit("matmul", q, k, transpose_b=True)
    scores = c.emit("multiply", scores, c.constant(1 / np.sqrt(int(depth)) if scale is None else scale, scores))
    if cap:
        scores = c.emit(
            "multiply", c.emit("tanh", c.emit("divide", scores, c.constant(cap, scores))), c.constant(cap, scores)
        )
    scores = c.emit("add", scores, added)
    if not (c.has(11) or c.attribute("smooth_softmax", 0)):
        return c.emit("matmul", c.emit("softmax", scores, axis=3), v)
    term = c.reshape(c[11] if c.has(11) else c.constant(0, scores), (1, heads if c.has(11) else 1, 1, 1))
    whole = c.emit("concat", scores, c.emit("broadcast_to", term, shape=(*c.type(scores).shape[:3], 1)), axis=3)
    chances = c.emit("slice", c.emit("softmax", whole, axis=3), begin=(0,), end=(keys,), step=(1,), axes=(3,))
    return c.emit("matmul", chances, v)


def _repeat_heads(c: Context, value: str, times: int) -> str:
    """Each head so many times."""
    batch, heads, length, depth = c.type(value).shape
    apart = c.reshape(value, (batch, heads, 1, length, depth))
    whole = c.emit("broadcast_to", apart, shape=(batch, heads, times, length, depth))
    return c.reshape(whole, (batch, int(heads) * times, length, depth))
