"""Eager choices to lazy ones, where evaluating the side that is not chosen might load from outside a buffer.

    select(i >= 1, A[i - 1], 0.0)      →      if_then_else(i >= 1, A[i - 1], 0.0)

`te.select` may evaluate both sides, but what it pads must not be read out of range. Lowering does this while tensors
are still read by their own indices (what lies outside a tensor may lie inside its storage, never written), and before
it simplifies, so that a Select in the loop IR is always safe to evaluate whole. unsafe_select is the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arith.analyzer import Analyzer
from ...expr import BufferLoad, Expr, IfThenElse, Node, ProducerLoad, Select
from ...visit import children, post_order, rewrite
from .numbering import Numbering

__all__ = ["lazy_select"]


def lazy_select(value: Expr, analyzer: Analyzer) -> Expr:
    """`value` with IfThenElse for each Select that might load out of range; `analyzer` knows the loops around."""
    if not any(isinstance(node, Select) for node in post_order(value)):
        return value
    numbering = Numbering()
    done = {
        numbering.number(node)  # loads that happen whatever is chosen are no new risk
        for node in post_order(value, below=_sure)
        if isinstance(node, (BufferLoad, ProducerLoad))
    }
    known: dict[int, bool] = {}
    alive: list[Select] = []

    def safe(side: Expr) -> bool:
        """Return whether all that a side reads may be read. A guard by a choice inside counts too: where its condition was not to be
        evaluated, it may say anything."""
        for node in post_order(side, done=known):
            loaded = isinstance(node, (BufferLoad, ProducerLoad)) and not (
                numbering.number(node) in done or _is_in_range(analyzer, node)
            )
            known[id(node)] = not loaded and all(known[id(child)] for child in children(node))
        return known[id(side)]

    def rule(node: Node) -> Expr | None:
        if not isinstance(node, Select):
            return None
        alive.append(node)  # ids are reused once a node dies: the table below is by id
        return (
            None
            if safe(node.true_value) and safe(node.false_value)
            else IfThenElse(node.condition, node.true_value, node.false_value)
        )

    return rewrite(value, rule)


def _is_in_range(analyzer: Analyzer, load: BufferLoad | ProducerLoad) -> bool:
    shape = load.buffer.shape if isinstance(load, BufferLoad) else load.producer.shape
    return all(
        analyzer.can_prove(index >= 0) and analyzer.can_prove(index < extent)
        for index, extent in zip(load.indices, shape, strict=True)
    )


def _sure(node: Node) -> Sequence[Node]:
    """The children that are evaluated whatever is chosen."""
    return [node.condition] if isinstance(node, (IfThenElse, Select)) else children(node)
