"""Rules of products that are summed: matrices, einsum, attention."""

from __future__ import annotations

import math
from itertools import chain

from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


@rule("matmul")
def _differentiate_matmul(p: Pullback) -> list[str | None]:
    """Vectors are matrices of one row, or of one column."""
    a, b = p.inputs
    left, right, head = p.shape(a), p.shape(b), p.head
    if len(left) > 1 and len(right) > 1:
        return list(_differentiate_matrices(p, a, b, head))
    if len(left) == 1:
        a = p.reshape(a, (1, *left))
        head = p.reshape(head, (*p.shape(head)[:-1], 1, *p.shape(head)[-1:]) if len(right) > 1 else (1,))
    if len(right) == 1:
        b, head = p.reshape(b, (*right, 1)), p.reshape(head, (*p.shape(head), 1))
    by_a, by_b = _differentiate_matrices(p, a, b, head)
    return [p.reshape(p.reduce_like(by_a, p.type(a)), left), p.reshape(p.reduce_like(by_b, p.type(b)), right)]


def _differentiate_matrices(p: Pullback, a: str, b: str, head: str) -> tuple[str, str]:
    """Derivative of y = a b: g b^T and a^T g, in whatever batches they have."""
    ta, tb = bool(p["transpose_a"]), bool(p["transpose_b"])
    by_a = (
        p.emit("matmul", b, head, transpose_a=tb, transpose_b=True)
        if ta
        else p.emit("matmul", head, b, transpose_b=not tb)
    )
    if not ta and len(p.shape(b)) == 2 < len(p.shape(a)):  # one product of all rows, not one for each batch and a sum
        rows, columns = (p.reshape(value, (_count(p, value), p.shape(value)[-1])) for value in (a, head))
        return by_a, p.emit("matmul", *((columns, rows) if tb else (rows, columns)), transpose_a=True)
    by_b = (
        p.emit("matmul", head, a, transpose_a=True, transpose_b=ta)
        if tb
        else p.emit("matmul", a, head, transpose_a=not ta)
    )
    return by_a, by_b


def _count(p: Pullback, value: str) -> int | str:
    """Return the number of rows of a value."""
    extents = p.shape(value)[:-1]
    return (
        math.prod(extents)
        if all(isinstance(extent, int) for extent in extents)
        else " * ".join(f"({e})" for e in extents)
    )


@rule("einsum")
def _differentiate_einsum(p: Pullback) -> list[str | None]:
    """The same sum with the gradient in an operand's place, where no letter stands in one operand alone."""
    terms, arrow, result = str(p["equation"]).replace(" ", "").partition("->")
    parts = terms.split(",")
    repeated = any(len(set(part)) < len(part) for part in (*parts, result))
    if not arrow or repeated or "." in terms:
        return differentiate_declaration(p)
    gradients: list[str | None] = []
    for at, part in enumerate(parts):
        others = [other for place, other in enumerate(parts) if place != at]
        if not set(part) <= set(chain(result, *others)):
            return differentiate_declaration(p)
        operands = [name for place, name in enumerate(p.inputs) if place != at]
        gradients.append(p.emit("einsum", p.head, *operands, equation=f"{','.join([result, *others])}->{part}"))
    return gradients


@rule("attention")
def _differentiate_attention(p: Pullback) -> list[str | None]:
    """Derivative of y = softmax(q k^T scale + mask) v: the probabilities are computed again."""
    q, k, v = p.inputs[:3]
    if p["scale"] is None and not isinstance(p.shape(q)[-1], int) or p.shape(q)[:-2] != p.shape(k)[:-2]:
        return differentiate_declaration(p)
    scale = 1 / math.sqrt(max(int(p.shape(q)[-1]), 1)) if p["scale"] is None else float(p["scale"])
    mask = "".join(p.inputs[3:])
    is_bool = mask != "" and p.type(mask).dtype == "bool"
    share = _probabilities(p, p.scale(p.emit("matmul", q, k, transpose_b=True), scale), mask)
    by_share = p.emit("matmul", p.head, v, transpose_b=True)
    total = p.sum(p.times(by_share, share), [len(p.shape(share)) - 1])
    by_sum = p.times(share, p.emit("subtract", by_share, total))
    by_product = (
        p.emit("where", mask, by_sum, p.number(0, by_sum)) if is_bool and math.isfinite(float(p["fill"])) else by_sum
    )
    by_scores = p.scale(by_product, scale)
    return [
        p.emit("matmul", by_scores, k),
        p.emit("matmul", by_scores, q, transpose_a=True),
        p.emit("matmul", share, p.head, transpose_a=True),
        *(None if is_bool else by_sum for _ in p.inputs[3:]),
    ]


def _probabilities(p: Pullback, scores: str, mask: str) -> str:
    """The softmax of scores with a mask, if there is one."""
    if mask and p.type(mask).dtype == "bool":
        scores = p.emit("where", mask, scores, p.number(float(p["fill"]), scores))
    elif mask:
        scores = p.emit("add", scores, mask)
    if p["causal"]:
        rows, columns = p.shape(scores)[-2:]
        column, row = (
            p.emit("arange", shape=(columns,)),
            p.reshape(p.emit("arange", shape=(rows,), start=p["offset"]), (rows, 1)),
        )
        scores = p.emit("where", p.emit("less_equal", column, row), scores, p.number(-math.inf, scores))
    share = p.emit("softmax", scores, axis=-1)
    if p["unseen"] == "nan" or not (mask or p["causal"] and p["offset"] != (0,)):
        return share
    top = p.emit("max", scores, axes=(len(p.shape(scores)) - 1,), keepdims=True)
    return p.emit("where", p.emit("greater", top, p.number(-math.inf, scores)), share, p.number(0, share))
