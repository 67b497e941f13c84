"""Attention: softmax(q k^T * scale) v, the scores of a block of queries at a time.

    y = topi.nn.attention(q, k, v)                      # (heads, queries, depth), (heads, keys, depth), (heads, keys, width)
    y = topi.nn.attention(q, k, v, causal=True)         # query i sees the keys 0 to i
    y = topi.nn.attention(q, k, v, mask=seen)           # (heads, queries, keys) or what broadcasts to it: bools, or what is added

Queries are declared in blocks with the query innermost, which is what makes the operator fast (autoschedule/cpu/attention.py):

    query[b, d, i]  = q[b * BLOCK + i, d] * scale * log2(e)
    scores[b, j, i] = sum over d of k[j, d] * query[b, d, i]
    peak[b, i]      = max over j of scores[b, j, i];  weight[b, j, i] = 2 ** (scores[b, j, i] - peak[b, i])
    y[i, e]         = sum over j of weight[b, j, i] * v[j, e] / sum over j of weight[b, j, i]

Beyond LONG keys these are computed for chunks of CHUNK keys, and the chunks merged as an online softmax merges them
(Milakov and Gimelshein 2018, Online normalizer calculation for softmax; Dao et al. 2022, FlashAttention, section 3.1), so
that what is stored of the scores stays as small as a cache however many keys there are.

float16 and bfloat16 are multiplied as they are and added up in float32, as matrix units do; weights are rounded to q's type before
values are multiplied with them, and added up as they were (Dao 2023, FlashAttention-2; torch's scaled_dot_product_attention):

    scores[b, j, i] = (sum over d of k[j, d] * q[b * BLOCK + i, d]) * scale * log2(e)
    y[i, e]         = sum over j of rounded(weight[b, j, i]) * v[j, e] / sum over j of weight[b, j, i]

Several heads of queries may share a head of keys and values (Ainslie et al. 2023, GQA). Where they have few queries each, as when a
model writes word by word, the queries of all of them are one block, and keys and values are read once for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...base import dataclass, user_source
from ...ir import DType, Expr, IntImm
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import index_ceildiv, is_const
from ...te import polymorphic as te
from ...te.shape import same_extent
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor, tensor_text
from ..checks import divides
from .window import BadAttention

if TYPE_CHECKING:
    from ...te.compute import OfAll

__all__ = ["attention"]

BLOCK = 64
"""Queries whose scores are computed together."""
CHUNK = 1024
"""Keys of a chunk: a multiple of BLOCK, so that each query of a block sees the first key of every chunk that is not skipped."""
LONG = 2048
"""Keys up to which the scores of a block of queries are computed in one piece."""
_USAGE = (
    "topi.nn.attention(q, k, v): (heads, queries, depth), (heads, keys, depth) and (heads, keys, width), "
    "each with a batch before the heads or without"
)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | Expr | None = None,
    causal: bool = False,
    *,
    mask: Tensor | None = None,
    offset: Expr | int = 0,
    fill: float = -math.inf,
    unseen: str = "zero",
) -> Tensor:
    """softmax(q k^T * scale + mask) v for each head.

    Keys and values may have fewer heads than queries: each of them serves as many heads of queries, one after the
    other. Of float16 and bfloat16 queries, keys and values are multiplied as they are, and weights rounded to that
    type; sums, scores and exponentials are float32 (of float64, float64). What no query of a block sees is not
    computed. Without any key the result is 0.

    Error, float32: with d the greatest error of a score, at most (depth + 4) u scale sum |q||k|, u = 2**-24, and u
    |score| more where a mask is added, each element is within (2 d + (keys + 12) u) max |v| of the exact value. float16
    and bfloat16 round weights and the result once more, u being their unit: by u max |v|, and, of float16, 2**-25 keys
    max |v| where weights are small. On tensor cores weights below 2**-126 may count as 0, and a score and the greatest one
    are not rounded before their difference is, which is within these; and values that a query does not see, but others of
    its block do, or up to 127 further ones, are multiplied by 0, which gives NaN
    where they are not finite.

    Parameters
    ----------
    q : Tensor
        Floats, (heads, queries, depth) or (batch, heads, queries, depth).
    k : Tensor
        (heads, keys, depth), with a batch where q has one.
    v : Tensor
        (heads, keys, width), with a batch where q has one.
    scale : float or expression or None, default None
        The factor of the scores; 1 / sqrt(depth) where it is None.
    causal : bool, default False
        Whether query i sees the keys 0 to i + offset only, counted from the first key whatever the lengths, as in
        torch.
    mask : Tensor or None, default None
        What broadcasts to (batch, heads, queries, keys): bools, true where a query sees a key, whose score is `fill`
        elsewhere, or floats of q's dtype that are added to the scores.
    offset : expression or int, default 0
        Of the keys that a query sees with `causal`.
    fill : float, default -math.inf
        The score of a key that a mask of bools hides.
    unseen : str, default "zero"
        What a query gives that sees no key, all its scores being -inf: "zero", or "nan" as a softmax gives.

    Returns
    -------
    Tensor
        (heads, queries, width), with a batch where q has one, in the dtype of q.

    Raises
    ------
    BadAttention (TW0197)
        Queries, keys, values or masks that do not fit.
    """
    _check(q, k, v)
    if mask is not None:
        _check_mask(q, k, v, mask)
    if unseen not in ("zero", "nan"):
        raise _bad(
            q, k, v, f"unseen, the value for a query that sees no key, is {unseen!r}"[:100], 'unseen="zero" or "nan"'
        )
    kind = DType("float64") if q.dtype == "float64" else DType("float32")
    if is_const(q.shape[-2], 0) or is_const(k.shape[-2], 0):
        nothing: Tensor = te.compute((*q.shape[:-1], v.shape[-1]), lambda *_: te.const(0, q.dtype), name="attention")
        return nothing
    keys = k.shape[-2]
    chunked = not (isinstance(keys, IntImm) and keys.value <= LONG)
    shared = _constant(q.shape[-3]) // _constant(k.shape[-3]) if not same_extent(q.shape[-3], k.shape[-3]) else 1
    queries = q.shape[-2].value * shared if isinstance(q.shape[-2], IntImm) else BLOCK + 1
    seen = _Seen(mask, causal, te.const(offset) if isinstance(offset, int) else offset, fill, unseen)
    declared = _Attention(q, k, v, kind, seen, shared, shared > 1 and queries <= BLOCK, _block(queries), chunked)
    return declared.declare(_usual_scale(q.shape[-1], kind) if scale is None else scale)


def _constant(extent: Expr) -> int:
    assert isinstance(extent, IntImm), "only numbers of heads that are known differ"
    return max(extent.value, 1)


def _usual_scale(depth: Expr, kind: DType) -> float | Expr:
    if isinstance(depth, IntImm):
        return 1 / math.sqrt(max(depth.value, 1))
    return te.const(1, kind) / te.sqrt(depth.astype(kind))


OverKeys: TypeAlias = "Callable[[Sequence[Any], Expr, Expr], Expr] | Callable[[Sequence[Any], Expr, Expr, Expr], Expr]"
"""Of where the batch, head and block are, of a key, a query and, where there is one, a column."""


class _Seen(NamedTuple):
    """Keys that a query sees, as the arguments say it."""

    mask: Tensor | None
    causal: bool
    offset: Expr
    fill: float
    unseen: str

    @property
    def all(self) -> bool:
        """Return whether every query sees all keys."""
        return self.mask is None and not self.causal

    @property
    def may_be_none(self) -> bool:
        """Return whether a query may see no key, of all or of a chunk."""
        return self.mask is not None or self.causal and not is_const(self.offset, 0)

    @property
    def is_absolute(self) -> bool:
        """Return whether scores meet numbers of the user's: their unit is 1, and ln(2) elsewhere, of which powers of 2 are taken as
        they are. The lowest floats, which masks have for -inf, would overflow."""
        return self.mask is not None and (self.mask.dtype != "bool" or math.isfinite(self.fill))


@dataclass(frozen=True)
class _Attention:
    """The declaration. kind: what is computed in; shared: heads of queries for each of keys, and whether their queries are folded
    into one block; block: queries of a block; chunked: whether keys come in chunks."""

    q: Tensor
    k: Tensor
    v: Tensor
    kind: DType
    seen: _Seen
    shared: int
    folded: bool
    block: int
    chunked: bool

    @property
    def is_narrow(self) -> bool:
        """Return whether what is multiplied is rounded to 16 bits, as matrix units take it."""
        return self.q.dtype.bits == 16

    @property
    def lead(self) -> tuple[Expr, ...]:
        """Batch and heads, or heads."""
        return (self.k if self.folded else self.q).shape[:-2]

    @property
    def rows(self) -> Expr:
        """The queries of a head, or of all the heads whose queries are folded."""
        return self.q.shape[-2] * self.shared if self.folded else self.q.shape[-2]

    def declare(self, scale: float | Expr) -> Tensor:
        block, keys, width = self.block, self.k.shape[-2], self.v.shape[-1]
        outer = (*self.lead, index_ceildiv(self.rows, block), *((index_ceildiv(keys, CHUNK),) if self.chunked else ()))
        length = te.const(CHUNK) if self.chunked else keys
        factor = scale if self.seen.is_absolute else scale * math.log2(math.e)
        scores = self._scores(self._query(factor), (*outer, length, block), factor)
        lowest = te.min_value(self.kind) if self.seen.may_be_none else None

        def score(at: Sequence[Any], j: Expr, i: Expr) -> Expr:
            return scores[(*at, j, i)] if lowest is None else te.max(scores[(*at, j, i)], lowest)

        peak = self._reduce_keys(te.max, (*outer, block), score, "max")
        weight = self._part(
            (*outer, length, block), lambda *at: self._power(scores[at] - peak[(*at[:-2], at[-1])]), "exp"
        )
        total = self._reduce_keys(te.sum, (*outer, block), lambda at, j, i: weight[(*at, j, i)], "sum")
        multiplied = weight
        if self.is_narrow:
            multiplied = self._part(
                weight.shape, lambda *at: weight[at].astype(self.q.dtype).astype(self.kind), "rounded"
            )
        value = self._reduce_keys(
            te.sum,
            (*outer, block, width),
            lambda at, j, i, e: multiplied[(*at, j, i)] * self._read(self.v, at, self._key(at, j), e),
            "value",
        )
        if self.chunked:
            total, value = self._merge_chunks(peak, total, value)
        shared = 0 if self.chunked else 1  # whether the numbers of a query share one sum

        def weighted(*at: Expr) -> Expr:
            place = self._block_indices(at)
            whole = total[place[: len(place) - shared]]
            share = value[place] / whole
            if self.seen.may_be_none and self.seen.unseen == "zero":
                share = te.select(
                    whole > 0, share, te.select(whole == 0, te.const(0, self.kind), whole)
                )  # the last is NaN
            return share.astype(self.q.dtype)

        return te.compute((*self.q.shape[:-1], width), weighted, name="attention", tag=AlgorithmTag("attention"))

    def _query(self, factor: float | Expr) -> Tensor:
        """q[.., d, i] of each block, times a factor where that may round it; 0 where a block goes on behind the last query."""

        def element(*at: Any) -> Expr:
            *lead, b, d, i = at
            row = b * self.block + i
            head, query = self._head_and_query(lead, row)
            value = self.q[(*lead[:-1], head, query, d)]
            if self.is_narrow:
                return self._guard_row(row, value, te.const(0, value.dtype)).astype(self.kind)
            return self._guard_row(row, value.astype(self.kind) * factor, te.const(0, self.kind))

        return self._part(
            (*self.lead, index_ceildiv(self.rows, self.block), self.q.shape[-1], self.block), element, "query"
        )

    def _scores(self, query: Tensor, shape: Sequence[Any], factor: float | Expr) -> Tensor:
        """The products, in their unit, -inf where a key is not seen. factor: what brings them to it where queries are multiplied as
        they are."""
        r = te.reduce_axis((0, self.q.shape[-1]), name="d")

        def element(*at: Any) -> Expr:
            *outer, j, i = at
            rows = (*self._block_index(outer), r, i)
            return te.sum(self._read(self.k, outer, self._known_key(outer, j), r) * query[rows], axis=r)

        scores = self._part(shape, element, "scores")
        if self.seen.all and not self.is_narrow:
            return scores

        def masked(*at: Any) -> Expr:
            *outer, j, i = at
            *lead, b = self._block_index(outer)
            row = b * self.block + i
            head, query = self._head_and_query(lead, row)
            score = scores[at] * factor if self.is_narrow else scores[at]
            score = self._mask_score(score, (*lead[:-1], head, query, self._known_key(outer, j)), row)
            seen = self._key(outer, j) <= query + self.seen.offset
            return te.select(seen, score, te.const(-math.inf, self.kind)) if self.seen.causal else score

        return self._part(shape, masked, "masked")

    def _mask_score(self, score: Expr, place: Sequence[Any], row: Expr) -> Expr:
        """A score with what the mask says at this place, of batch, head, query and key."""
        mask = self.seen.mask
        if mask is None:
            return score
        own = zip(mask.shape, place[len(place) - mask.ndim :], strict=True)
        at = mask[tuple(0 if is_const(extent, 1) else index for extent, index in own)]
        if mask.dtype == "bool":
            return te.select(
                self._guard_row(row, at, te.const(True, "bool")), score, te.const(self.seen.fill, self.kind)
            )
        return score + self._guard_row(row, at.astype(self.kind), te.const(0, self.kind))

    def _guard_row(self, row: Expr, value: Expr, otherwise: Expr) -> Expr:
        """A value of a row; behind the last row, where a block may go on, another one."""
        return value if divides(self.rows, self.block) else te.if_then_else(row < self.rows, value, otherwise)

    def _power(self, score: Expr) -> Expr:
        return te.exp2(score * math.log2(math.e) if self.seen.is_absolute else score)

    def _merge_chunks(self, peak: Tensor, total: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Sums and values over all chunks: of two chunks, the one of the lower peak counts for less."""
        *outer, _, block, width = value.shape

        def merge(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
            both = te.max(a[0], b[0])
            left, right = (
                te.select(chunk[0] >= both, te.const(1, self.kind), self._power(chunk[0] - both)) for chunk in (a, b)
            )
            return both, a[1] * left + b[1] * right, a[2] * left + b[2] * right

        def nothing(*kinds: DType) -> tuple[Expr, ...]:
            return tuple(te.const(value, kind) for value, kind in zip((-math.inf, 0, 0), kinds, strict=True))

        merged = te.comm_reducer(merge, nothing, name="merge")

        def element(*at: Any) -> Any:
            *lead, b, i, e = at
            c = te.reduce_axis((0, index_ceildiv(self._visible_keys(b), CHUNK)), name="c")
            row = (*lead, b, c, i)
            return merged((peak[row], total[row], value[(*row, e)]), axis=c)

        _, sums, values = te.compute(
            (*outer, block, width), element, name="attention.merged", tag=AlgorithmTag("attention.merged")
        )
        return sums, values

    # Indices: `outer` is batch and heads, the block of queries, and the chunk of keys where there are chunks

    def _block_index(self, outer: Sequence[Any]) -> Sequence[Any]:
        return outer[:-1] if self.chunked else outer

    def _key(self, outer: Sequence[Any], j: Expr) -> Expr:
        return outer[-1] * CHUNK + j if self.chunked else j

    def _known_key(self, outer: Sequence[Any], j: Expr) -> Expr:
        """The key; none is computed behind the last one, which only regions know."""
        key = self._key(outer, j)
        return te.min(key, self.k.shape[-2] - 1) if self.chunked and not divides(self.k.shape[-2], CHUNK) else key

    def _head_and_query(self, lead: Sequence[Any], row: Expr) -> tuple[Any, Any]:
        """Return the head and the query of q for a row of a block."""
        if not self.folded:
            return lead[-1], row
        queries = self.q.shape[-2]
        return lead[-1] * self.shared + row // queries, row % queries

    def _visible_keys(self, b: Expr) -> Expr:
        """The number of keys that a block of queries sees."""
        keys, offset = self.k.shape[-2], self.seen.offset
        if not self.seen.causal:
            return keys
        last = self.q.shape[-2] if self.folded else b * self.block + self.block
        return (
            te.min(last, keys) if is_const(offset, 0) else te.max(te.min(last + offset, keys), te.const(0, keys.dtype))
        )

    def _reduce_keys(self, reduce: Any, shape: Sequence[Any], element: OverKeys, name: str) -> Tensor:
        """A reduction over the keys that a block sees, of its chunk where there are chunks."""
        place = len(self.lead) + (2 if self.chunked else 1)

        def reduced(*at: Any) -> Expr:
            outer, rest = at[:place], at[place:]
            seen = self._visible_keys(self._block_index(outer)[-1])
            if self.chunked:
                seen = te.min(te.const(CHUNK), seen - outer[-1] * CHUNK)
            j = te.reduce_axis((0, seen), name="j")
            return reduce(element(outer, j, *rest), axis=j)

        return self._part(shape, reduced, name)

    def _read(self, source: Tensor, outer: Sequence[Any], row: Expr, column: Expr) -> Expr:
        *batch, head = outer[: len(self.lead)]
        return source[(*batch, head if self.folded or self.shared == 1 else head // self.shared, row, column)].astype(
            self.kind
        )

    def _block_indices(self, at: Sequence[Any]) -> tuple[Any, ...]:
        *lead, i, e = at
        if self.folded:
            return *lead[:-1], lead[-1] // self.shared, te.const(0), lead[-1] % self.shared * self.q.shape[-2] + i, e
        return *lead, i // self.block, i % self.block, e

    def _part(self, shape: Sequence[Any], element: OfAll, name: str) -> Tensor:
        return te.compute(tuple(shape), element, name=f"attention.{name}", tag=AlgorithmTag(f"attention.{name}"))


def _block(queries: int) -> int:
    """Return as many queries as there are, where they are few: lanes that no query needs cost as much as others."""
    return 1 << max(queries - 1, 0).bit_length() if queries < BLOCK else BLOCK


def _check(q: object, k: object, v: object) -> None:
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        wrong = next(operand for operand in (q, k, v) if not isinstance(operand, Tensor))
        raise BadAttention(
            "topi.nn.attention takes tensors", reason=f"got {wrong!r}"[:200], called=user_source(), fix=_USAGE
        )
    if q.ndim not in (3, 4) or not q.ndim == k.ndim == v.ndim:
        raise _bad(q, k, v, f"they have {q.ndim}, {k.ndim} and {v.ndim} dimensions")
    if not (q.dtype.is_float and q.dtype == k.dtype == v.dtype):
        raise _bad(q, k, v, "they are not floats of one type")
    pairs = [("heads" if at == q.ndim - 3 else "batch", x.shape[at]) for at in range(q.ndim - 2) for x in (q,)]
    for at, (name, extent) in enumerate(pairs):
        if name == "batch" or not _are_shared(extent, k.shape[at]):
            _agree(q, k, v, name, extent, k.shape[at])
        _agree(q, k, v, name, k.shape[at], v.shape[at])
    _agree(q, k, v, "depth of queries and keys", q.shape[-1], k.shape[-1])
    _agree(q, k, v, "number of keys and values", k.shape[-2], v.shape[-2])


def _are_shared(heads: Expr, fewer: Expr) -> bool:
    return (
        isinstance(heads, IntImm) and isinstance(fewer, IntImm) and fewer.value > 0 and heads.value % fewer.value == 0
    )


def _check_mask(q: Tensor, k: Tensor, v: Tensor, mask: object) -> None:
    fix = "a mask of bools, or of floats of q's type, that broadcasts to (batch, heads, queries, keys)"
    if not isinstance(mask, Tensor):
        raise _bad(q, k, v, f"the mask is not a tensor: {mask!r}"[:200], fix)
    whole = (*q.shape[:-1], k.shape[-2])
    shape = whole[len(whole) - mask.ndim :]
    if (
        mask.ndim > len(whole)
        or mask.dtype not in ("bool", q.dtype)
        or not all(
            is_const(own, 1) or same_extent(own, extent) or Analyzer().can_prove_equal(own, extent)
            for own, extent in zip(mask.shape, shape, strict=True)
        )
    ):
        raise _bad(q, k, v, f"the mask is {tensor_text(mask)}", fix)


def _agree(q: Tensor, k: Tensor, v: Tensor, what: str, a: Expr, b: Expr) -> None:
    if not (same_extent(a, b) or Analyzer().can_prove_equal(a, b)):
        raise _bad(q, k, v, f"the {what} is {a} here and {b} there")


def _bad(q: Tensor, k: Tensor, v: Tensor, reason: str, fix: str = _USAGE) -> BadAttention:
    return BadAttention(
        f"topi.nn.attention cannot take {tensor_text(q)}, {tensor_text(k)} and {tensor_text(v)}",
        reason=reason,
        declared=q.source,
        called=user_source(),
        fix=fix,
    )
