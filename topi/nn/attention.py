"""Attention: softmax(q k^T * scale) v, the scores of a block of queries at a time.

    y = topi.nn.attention(q, k, v)                      # (heads, queries, depth), (heads, keys, depth), (heads, keys, width)
    y = topi.nn.attention(q, k, v, causal=True)         # query i sees the keys 0 to i

Queries are declared in blocks with the query innermost, which is what makes the operator fast (autoschedule/cpu/attention.py):

    query[b, d, i]  = q[b * BLOCK + i, d] * scale * log2(e)
    scores[b, j, i] = sum over d of k[j, d] * query[b, d, i]
    peak[b, i]      = max over j of scores[b, j, i];  weight[b, j, i] = 2 ** (scores[b, j, i] - peak[b, i])
    y[i, e]         = sum over j of weight[b, j, i] * v[j, e] / sum over j of weight[b, j, i]

Beyond LONG keys these are computed for chunks of CHUNK keys, and the chunks merged as an online softmax merges them
(Milakov and Gimelshein 2018, Online normalizer calculation for softmax; Dao et al. 2022, FlashAttention, section 3.1), so
that what is stored of the scores stays as small as a cache however many keys there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ... import te
from ...errors import user_source
from ...ir.arith.analyzer import Analyzer
from ...ir.dtype import DType
from ...ir.expr import Expr, IntImm
from ...ir.ops import ceildiv
from ...te.shape import same_extent
from ...te.tensor import Tensor, tensor_text
from ..checks import divides
from .errors import BadAttention

if TYPE_CHECKING:
    from ...te.compute import OfAll

__all__ = ["BLOCK", "CHUNK", "attention"]

BLOCK = 64
"""Queries whose scores are computed together."""
CHUNK = 1024
"""Keys of a chunk: a multiple of BLOCK, so that each query of a block sees the first key of every chunk that is not skipped."""
LONG = 2048
"""Keys up to which the scores of a block of queries are computed in one piece."""
_USAGE = ("topi.nn.attention(q, k, v): (heads, queries, depth), (heads, keys, depth) and (heads, keys, width), "
          "each with a batch before the heads or without")


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | Expr | None = None, causal: bool = False) -> Tensor:
    """softmax(q k^T * scale) v for each head, of q's type: (heads, queries, width) or (batch, heads, queries, width).

    q: (heads, queries, depth); k: (heads, keys, depth); v: (heads, keys, width), all with a batch before the heads or all
    without; floats, which are computed with in float32 (float64 in float64). scale: 1 / sqrt(depth) where it is not given.
    causal: query i sees the keys 0 to i only, counted from the first key whatever the lengths, as in torch; what no query
    of a block sees is not computed. Without any key the result is 0.

    Error, float32: with d the greatest error of a score, at most (depth + 4) u scale sum |q||k|, u = 2**-24, each element
    is within (2 d + (keys + 12) u) max |v| of the exact value. float16 and bfloat16 round the result once more.
    Raises BadAttention (TW0197).
    """
    _check(q, k, v)
    kind = DType("float64") if q.dtype == "float64" else DType("float32")
    if isinstance(k.shape[-2], IntImm) and k.shape[-2].value == 0:
        nothing: Tensor = te.compute((*q.shape[:-1], v.shape[-1]), lambda *_: te.const(0, q.dtype), name="attention")
        return nothing
    keys = k.shape[-2]
    chunked = not (isinstance(keys, IntImm) and keys.value <= LONG)
    declared = _Attention(q, k, v, kind, causal, _block(q.shape[-2]), chunked)
    return declared.declare(_usual_scale(q.shape[-1], kind) if scale is None else scale)


def _usual_scale(depth: Expr, kind: DType) -> float | Expr:
    if isinstance(depth, IntImm):
        return 1 / math.sqrt(max(depth.value, 1))
    return te.const(1, kind) / te.sqrt(depth.astype(kind))


OverKeys: TypeAlias = "Callable[[Sequence[Any], Expr, Expr], Expr] | Callable[[Sequence[Any], Expr, Expr, Expr], Expr]"
"""Of where the batch, head and block are, of a key, a query and, where there is one, a column."""


@dataclass(frozen=True)
class _Attention:
    """The declaration. kind: what is computed in; block: queries of a block; chunked: whether keys come in chunks."""

    q: Tensor
    k: Tensor
    v: Tensor
    kind: DType
    causal: bool
    block: int
    chunked: bool

    @property
    def lead(self) -> tuple[Expr, ...]:
        """Batch and heads, or heads."""
        return self.q.shape[:-2]

    def declare(self, scale: float | Expr) -> Tensor:
        block, keys, width = self.block, self.k.shape[-2], self.v.shape[-1]
        outer = (*self.lead, ceildiv(self.q.shape[-2], block), *((ceildiv(keys, CHUNK),) if self.chunked else ()))
        length = te.const(CHUNK) if self.chunked else keys
        scores = self._scores(self._query(scale), (*outer, length, block))
        peak = self._over_keys(te.max, (*outer, block), lambda at, j, i: scores[(*at, j, i)], "max")
        weight = self._part((*outer, length, block), lambda *at: te.exp2(scores[at] - peak[(*at[:-2], at[-1])]), "exp")
        total = self._over_keys(te.sum, (*outer, block), lambda at, j, i: weight[(*at, j, i)], "sum")
        value = self._over_keys(
            te.sum, (*outer, block, width),
            lambda at, j, i, e: weight[(*at, j, i)] * self._read(self.v, at, self._key(at, j), e), "value")
        if self.chunked:
            total, value = self._merged(peak, total, value)
        shared = 0 if self.chunked else 1  # whether the numbers of a query share one sum

        def weighted(*at: Expr) -> Expr:
            place = self._blocked(at)
            return (value[place] / total[place[: len(place) - shared]]).astype(self.q.dtype)

        return te.compute((*self.q.shape[:-1], width), weighted, name="attention", tag="attention")

    def _query(self, scale: float | Expr) -> Tensor:
        """q[.., d, i] of each block, its scores in units of ln(2); 0 where a block goes on behind the last query."""
        q, queries = self.q, self.q.shape[-2]
        factor = scale * math.log2(math.e)

        def element(*at: Any) -> Expr:
            *lead, b, d, i = at
            i = b * self.block + i
            inside: Expr = q[(*lead, i, d)].astype(self.kind) * factor
            return inside if divides(queries, self.block) else te.if_then_else(i < queries, inside, te.const(0, self.kind))

        return self._part((*self.lead, ceildiv(queries, self.block), q.shape[-1], self.block), element, "query")

    def _scores(self, query: Tensor, shape: Sequence[Any]) -> Tensor:
        """The products, -inf where a key is not seen."""
        r = te.reduce_axis((0, self.q.shape[-1]), name="d")

        def element(*at: Any) -> Expr:
            *outer, j, i = at
            rows = (*self._block_of(outer), r, i)
            key = self._key(outer, j)
            if self.chunked and not divides(self.k.shape[-2], CHUNK):
                key = te.min(key, self.k.shape[-2] - 1)  # none is computed behind the last key, which only regions know
            return te.sum(self._read(self.k, outer, key, r) * query[rows], axis=r)

        scores = self._part(shape, element, "scores")
        if not self.causal:
            return scores

        def masked(*at: Any) -> Expr:
            *outer, j, i = at
            seen = self._key(outer, j) <= self._block_of(outer)[-1] * self.block + i
            return te.select(seen, scores[at], te.const(-math.inf, self.kind))

        return self._part(shape, masked, "masked")

    def _merged(self, peak: Tensor, total: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Sums and values over all chunks: of two chunks, the one of the lower peak counts for less."""
        *outer, _, block, width = value.shape

        def merge(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
            both = te.max(a[0], b[0])
            left, right = (te.select(chunk[0] >= both, te.const(1, self.kind), te.exp2(chunk[0] - both)) for chunk in (a, b))
            return both, a[1] * left + b[1] * right, a[2] * left + b[2] * right

        def nothing(*kinds: DType) -> tuple[Expr, ...]:
            return tuple(te.const(value, kind) for value, kind in zip((-math.inf, 0, 0), kinds, strict=True))

        merged = te.comm_reducer(merge, nothing, name="merge")

        def element(*at: Any) -> Any:
            *lead, b, i, e = at
            c = te.reduce_axis((0, ceildiv(self._seen(b), CHUNK)), name="c")
            row = (*lead, b, c, i)
            return merged((peak[row], total[row], value[(*row, e)]), axis=c)

        _, sums, values = te.compute((*outer, block, width), element, name="attention.merged", tag="attention.merged")
        return sums, values

    # Indices: `outer` is batch and heads, the block of queries, and the chunk of keys where there are chunks

    def _block_of(self, outer: Sequence[Any]) -> Sequence[Any]:
        return outer[:-1] if self.chunked else outer

    def _key(self, outer: Sequence[Any], j: Expr) -> Expr:
        return outer[-1] * CHUNK + j if self.chunked else j

    def _seen(self, b: Expr) -> Expr:
        """The number of keys that a block of queries sees."""
        keys = self.k.shape[-2]
        return te.min(b * self.block + self.block, keys) if self.causal else keys

    def _over_keys(self, reduce: Any, shape: Sequence[Any], element: OverKeys, name: str) -> Tensor:
        """A reduction over the keys that a block sees, of its chunk where there are chunks."""
        place = len(self.lead) + (2 if self.chunked else 1)

        def reduced(*at: Any) -> Expr:
            outer, rest = at[:place], at[place:]
            seen = self._seen(self._block_of(outer)[-1])
            if self.chunked:
                seen = te.min(te.const(CHUNK), seen - outer[-1] * CHUNK)
            j = te.reduce_axis((0, seen), name="j")
            return reduce(element(outer, j, *rest), axis=j)

        return self._part(shape, reduced, name)

    def _read(self, source: Tensor, outer: Sequence[Any], row: Expr, column: Expr) -> Expr:
        return source[(*outer[: len(self.lead)], row, column)].astype(self.kind)

    def _blocked(self, at: Sequence[Any]) -> tuple[Any, ...]:
        *lead, i, e = at
        return *lead, i // self.block, i % self.block, e

    def _part(self, shape: Sequence[Any], element: OfAll, name: str) -> Tensor:
        return te.compute(tuple(shape), element, name=f"attention.{name}", tag=f"attention.{name}")


def _block(queries: Expr) -> int:
    """As many queries as there are, where they are few: lanes that no query needs cost as much as others."""
    if isinstance(queries, IntImm) and queries.value < BLOCK:
        return 1 << max(queries.value - 1, 0).bit_length()
    return BLOCK


def _check(q: object, k: object, v: object) -> None:
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        wrong = next(operand for operand in (q, k, v) if not isinstance(operand, Tensor))
        raise BadAttention("topi.nn.attention takes tensors", reason=f"got {wrong!r}"[:200], called=user_source(), fix=_USAGE)
    if q.ndim not in (3, 4) or not q.ndim == k.ndim == v.ndim:
        raise _bad(q, k, v, f"they have {q.ndim}, {k.ndim} and {v.ndim} dimensions")
    if not (q.dtype.is_float and q.dtype == k.dtype == v.dtype):
        raise _bad(q, k, v, "they are not floats of one type")
    pairs = [("heads" if at == q.ndim - 3 else "batch", x.shape[at]) for at in range(q.ndim - 2) for x in (q,)]
    for at, (name, extent) in enumerate(pairs):
        for other in (k, v):
            _agree(q, k, v, name, extent, other.shape[at])
    _agree(q, k, v, "depth of queries and keys", q.shape[-1], k.shape[-1])
    _agree(q, k, v, "number of keys and values", k.shape[-2], v.shape[-2])


def _agree(q: Tensor, k: Tensor, v: Tensor, what: str, a: Expr, b: Expr) -> None:
    if not (same_extent(a, b) or Analyzer().can_prove_equal(a, b)):
        raise _bad(q, k, v, f"the {what} is {a} here and {b} there")


def _bad(q: Tensor, k: Tensor, v: Tensor, reason: str) -> BadAttention:
    return BadAttention(f"topi.nn.attention cannot take {tensor_text(q)}, {tensor_text(k)} and {tensor_text(v)}", reason=reason,
                        declared=q.source, called=user_source(), fix=_USAGE)
