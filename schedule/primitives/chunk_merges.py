"""Merged chunks of chunks as one reduction, over all chunks: of a combiner that may be applied in any order, both give the same.

for c in ceil(n / 1024):                                          for c in ceil(n / 64):
  for d in ceil(min(1024, n - c * 1024) / 64):            →         result = merged(result, part[c % 16, c // 16])
    inner[c] = merged(inner[c], part[d, c])
  result = merged(result, inner[c])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Add, Call, Expr, IntImm, IterVar, Max, Min, Node, ProducerLoad, Range, Reduce, Sub, Var
from ...ir.ops import TRUE, const, floordiv, floormod, index_ceildiv
from ...ir.structural import structural_key
from ...ir.visit import rewrite, substitute
from ...te.operation import ComputeOp, Operation
from ...te.rewrite import inline
from ..model.layout import add_root_axis

__all__ = ["count_chunks", "flatten_merge"]


def count_chunks(terms: Expr, factor: int) -> Expr:
    """Return the number of chunks of so many terms: of the lesser of two numbers the lesser of theirs, which may be the same for several
    rows."""
    if isinstance(terms, (Min, Max)):
        return type(terms)(count_chunks(terms.a, factor), count_chunks(terms.b, factor))
    return index_ceildiv(terms, factor)


def flatten_merge(outer: Operation, inner: ComputeOp, value: ComputeOp, extent: Expr, factor: int) -> ComputeOp | None:
    """`outer`, which merges what `inner` has merged, over the parts of `inner` itself; None where it is no such reduction.

    value: the operation through which it reads the last output of `inner`. extent: the terms of a chunk, `factor` at a time, by the
    axes of `inner`. A chunk is as long as any but the last, which a minimum in `extent` tells.
    """
    compute, first = outer.as_compute, outer.reduction
    parts = inner.reduction
    if compute is None or first is None or parts is None or len(first.axes) != 1 or compute.num_outputs < 2:
        return None
    at = _place(first, inner, value)
    if at is None or not _combine_alike(first, parts):
        return None
    (chunk,), (part,) = first.axes, parts.axes
    within: dict[Var, Expr] = dict(zip(inner.axis, at, strict=True))
    total = _terms(chunk, substitute(extent, within), factor)
    if total is None:
        return None
    terms, length = total
    each = add_root_axis(chunk, Range(const(0, chunk.dtype), count_chunks(terms, factor)), chunk.name, "reduce")
    several = const(length // factor, chunk.dtype)
    moved: dict[Var, Expr] = {chunk: floordiv(each, several), part: floormod(each, several)}
    sources = tuple(substitute(substitute(source, within), moved) for source in parts.sources)
    whole = Reduce(parts.combiner, sources, (each,), TRUE)
    return replace(compute, body=tuple(replace(whole, value_index=place) for place in range(len(sources))))


def _place(outer: Reduce, inner: ComputeOp, value: ComputeOp) -> Sequence[Expr] | None:
    """The one place of `inner` that `outer` reads in each step, its outputs in their order; None where it reads anything else."""
    sources = [inline(source, value.output(0), value.axis, value.values[0]) for source in outer.sources]
    loads = [source.a if isinstance(source, Add) else source for source in sources]
    first = loads[0]
    if not isinstance(first, ProducerLoad) or len(sources) != inner.num_outputs or outer.init:
        return None
    keys = [structural_key(ProducerLoad(inner.output(each), first.indices)) for each in range(len(sources))]
    largest = ProducerLoad(inner.output(0), first.indices)
    nothing = structural_key(
        Sub(largest, largest)
    )  # not a number where no term counts, which the merged total tells as well
    fits = structural_key(outer.condition) == structural_key(TRUE) and all(
        structural_key(load) == key
        and (load is source or isinstance(source, Add) and structural_key(source.b) == nothing)
        for source, load, key in zip(sources, loads, keys, strict=True)
    )
    return first.indices if fits else None


def _combine_alike(a: Reduce, b: Reduce) -> bool:
    """Return whether two reductions have one combiner, up to the rounding of a product that is added to."""
    names: dict[Var, Expr] = dict(
        zip((*b.combiner.lhs, *b.combiner.rhs), (*a.combiner.lhs, *a.combiner.rhs), strict=True)
    )
    return len(a.sources) == len(b.sources) and all(
        structural_key(rewrite(mine, _split_fma)) == structural_key(rewrite(substitute(other, names), _split_fma))
        for mine, other in zip(
            (*a.combiner.result, *a.combiner.identity), (*b.combiner.result, *b.combiner.identity), strict=True
        )
    )


def _split_fma(node: Node) -> Expr | None:
    return node.args[0] * node.args[1] + node.args[2] if isinstance(node, Call) and node.name == "fma" else None


def _terms(chunk: IterVar, extent: Expr, factor: int) -> tuple[Expr, int] | None:
    """The terms of all chunks and of each but the last, from those of one: min(length, terms - chunk * length)."""
    if (
        not isinstance(extent, Min)
        or not isinstance(extent.a, IntImm)
        or not isinstance(extent.b, Sub)
        or chunk.dom is None
    ):
        return None
    length, terms = extent.a.value, extent.b.a
    analyzer = Analyzer()
    fits = (
        length % factor == 0
        and analyzer.can_prove_equal(extent.b.b, chunk * length)
        and analyzer.can_prove_equal(chunk.dom.extent, index_ceildiv(terms, length))
    )
    return (terms, length) if fits else None
