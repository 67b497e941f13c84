"""Attention that was written out as products, masks and a softmax, found again; and heads of keys that are repeated, shared.

    input q: float32[2, 5, 4]
    input k: float32[2, 7, 4]
    input v: float32[2, 7, 3]
    input m: float32[5, 7]
    param c: float32[] = (0.5)
    a: float32[2, 5, 7] = matmul(q, k, transpose_a=false, transpose_b=true)
    b: float32[2, 5, 7] = multiply(a, c)
    d: float32[2, 5, 7] = add(b, m)
    e: float32[2, 5, 7] = softmax(d, axis=-1)
    y: float32[2, 5, 3] = matmul(e, v, transpose_a=false, transpose_b=false)
    output y

becomes

    input q: float32[2, 5, 4]
    input k: float32[2, 7, 4]
    input v: float32[2, 7, 3]
    input m: float32[5, 7]
    y: float32[2, 5, 3] = attention(q, k, v, m, scale=0.5, causal=false, offset=(0,), fill=-inf, unseen="nan")
    output y

What lies between is read by nobody else. Masks are what is added to the scores, or takes their place where a bool says so; factors
stand before masks, of the scores or of either operand. A mask that is known and lets each query see the keys before it is `causal`,
so that what no query sees is not computed; one that hides nothing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from ..node import Node, Parts
from .rewriter import GraphPass, Rewriter, rewrite

__all__ = ["ATTENTION"]


class _Scores(NamedTuple):
    """The product of queries and keys, and what happens to it before the softmax."""

    q: str
    k: str
    scale: float = 1.0
    mask: str = ""
    fill: float = -math.inf


def _visit(r: Rewriter, node: Node) -> str | None:
    if node.operator == "attention":
        return _share_heads(r, node) or _recognize_causal(r, node)
    if node.operator != "matmul" or any(node.attributes.values()):
        return None
    mark = r.mark()
    value = _recognize_attention(r, node)
    if value is None:
        r.undo(mark)  # a mask that was made of two
    return value


def _recognize_attention(r: Rewriter, node: Node) -> str | None:
    """The product of a softmax of scores with values, as attention."""
    weights, v = node.inputs
    softmax, unseen = _softmax(r, weights)
    if softmax is None:
        return None
    kinds = r.type(v), r.type(softmax.outputs[0])
    rank = len(kinds[0].shape)
    if rank not in (3, 4) or cast("int", softmax.attributes["axis"]) % len(kinds[1].shape) != rank - 1:
        return None
    scores = _scores(r, softmax.inputs[0])
    if scores is None:
        return None
    q, k = r.type(scores.q), r.type(scores.k)
    if (
        not q.dtype == k.dtype == kinds[0].dtype == kinds[1].dtype
        or not q.shape[:-2] == k.shape[:-2] == kinds[0].shape[:-2]
    ):
        return None
    masks = [scores.mask] if scores.mask else []
    return r.node(
        "attention",
        scores.q,
        scores.k,
        v,
        *masks,
        scale=scores.scale,
        fill=scores.fill,
        unseen=unseen if masks else "zero",
        outputs=node.outputs,
    )


def _softmax(r: Rewriter, weights: str) -> tuple[Node | None, str]:
    """The softmax that weights are, and what a query gets that sees no key: NaN unless its weights are 0 where they would be."""
    guard = r.sole(weights, "where")
    if guard is None:
        return r.sole(weights, "softmax"), "nan"
    condition, zero, value = guard.inputs
    test, softmax = r.sole(condition, "isnan"), r.maker(value, "softmax")
    if test is None or softmax is None or test.inputs[0] != value or r.users[value] > 2 or _number(r, zero) != 0:
        return None, ""
    return softmax, "zero"


def _scores(r: Rewriter, value: str) -> _Scores | None:
    node = r.sole(value, "matmul", "multiply", "divide", "add", "where")
    return next(_readings(r, node), None) if node is not None else None


def _readings(r: Rewriter, node: Node) -> Iterator[_Scores]:
    """Return the readings of a node as scores."""
    kind = node.types[0]
    if node.operator == "matmul":
        if node.attributes["transpose_b"] and not node.attributes["transpose_a"]:
            (q, by_q), (k, by_k) = (_split_scale(r, name) for name in node.inputs)
            yield _Scores(q, k, by_q * by_k)
        return
    *condition, one, other = node.inputs
    pairs = [(one, other), (other, one)]
    for inner, outer in pairs[:1] if node.operator == "divide" else pairs:
        found = _scores(r, inner) if r.type(inner) == kind else None
        number = _number(r, outer)
        if found is None:
            continue
        if node.operator == "add" and r.type(outer).dtype == kind.dtype and found.fill == -math.inf:
            mask = (
                outer
                if not found.mask
                else r.node("add", found.mask, outer)
                if r.type(found.mask).dtype != "bool"
                else ""
            )
            if mask:
                yield found._replace(mask=mask)
        elif found.mask or number is None:
            continue
        elif node.operator == "where":
            yield found._replace(
                mask=condition[0] if inner == one else r.node("logical_not", condition[0]), fill=number
            )
        elif node.operator == "multiply" or node.operator == "divide" and number:
            yield found._replace(scale=found.scale * number if node.operator == "multiply" else found.scale / number)


def _split_scale(r: Rewriter, value: str) -> tuple[str, float]:
    """A value without the number that it is multiplied by, and the number."""
    node = r.sole(value, "multiply", "divide")
    if node is not None:
        for inner, other in (node.inputs, node.inputs[::-1])[: 1 if node.operator == "divide" else 2]:
            number = _number(r, other)
            if number and r.type(inner) == node.types[0]:
                return inner, number if node.operator == "multiply" else 1 / number
    return value, 1.0


def _number(r: Rewriter, value: str) -> float | None:
    """The one number that a parameter is."""
    if not value or not r.is_known(value) or r.known(value).size != 1:
        return None
    return float(r.known(value).astype(np.float64).reshape(-1)[0])


def _share_heads(r: Rewriter, node: Node) -> str | None:
    """Attention over keys and values of which each head is several times there, over each of them once."""
    (k, several), (v, as_many) = (_unrepeat_heads(r, name) for name in node.inputs[1:3])
    if several == 1 or several != as_many:
        return None
    return r.like(node, node.inputs[0], k, v, *node.inputs[3:], outputs=node.outputs)


def _unrepeat_heads(r: Rewriter, value: str) -> tuple[str, int]:
    """Keys or values of which each head is there once, and how often it was."""
    merged = r.maker(value, "reshape")
    repeated = r.maker(merged.inputs[0], "broadcast_to") if merged is not None else None
    if merged is None or repeated is None:
        return value, 1
    whole, apart, source = merged.types[0].shape, repeated.types[0].shape, r.type(repeated.inputs[0]).shape
    heads, count = whole[-3], apart[-3] if len(apart) > 3 else 1
    if (
        not isinstance(heads, int)
        or not isinstance(count, int)
        or not count
        or heads % count
        or source != (*apart[:-3], 1, *apart[-2:])
        or apart[-2:] != whole[-2:]
    ):
        return value, 1
    return r.node("reshape", repeated.inputs[0], shape=(*whole[:-3], heads // count, *whole[-2:])), count


def _recognize_causal(r: Rewriter, node: Node) -> str | None:
    """Attention whose mask is known to hide nothing, or what comes after a query, without the mask."""
    if len(node.inputs) < 4 or node.attributes["causal"] or not r.is_known(node.inputs[3]):
        return None
    mask, extents = r.known(node.inputs[3]), (r.type(node.inputs[0]).shape[-2], r.type(node.inputs[1]).shape[-2])
    seen = mask if mask.dtype == np.bool_ else mask == 0
    lowest = np.finfo(np.float32).min  # which no score outweighs, being finite
    hidden = (
        node.attributes["fill"]
        if mask.dtype == np.bool_
        else np.max(mask.astype(np.float64), where=~seen, initial=-np.inf)
    )
    if (
        not seen.size
        or not seen.ndim
        or not seen.any(-1).all()
        or float(cast("float", hidden)) > lowest
        or not all(isinstance(extent, int) for extent in extents)
    ):
        return None
    queries, keys = cast("tuple[int, int]", extents)
    seen = np.broadcast_to(seen, (*seen.shape[:-2], queries, keys))
    first = int(seen.reshape(-1, queries, keys)[0, 0].sum()) - 1
    if seen.all():
        return r.like(node, *node.inputs[:3], outputs=node.outputs, fill=-math.inf, unseen="zero")
    if not (seen == np.tril(np.ones((queries, keys), np.bool_), first)).all():
        return None
    return r.like(
        node, *node.inputs[:3], outputs=node.outputs, causal=True, offset=(first,), fill=-math.inf, unseen="zero"
    )


def _raise_attention(g: Parts) -> Parts:
    return rewrite(g, _visit)


ATTENTION = GraphPass(
    "attention",
    "products, masks and a softmax are attention, and heads that are repeated are shared",
    "rounds",
    _raise_attention,
    __doc__,
)
