"""Copies that begin while products of warpgroups are under way: neither waits for the other's threads to begin it.

    copies of later iterations; commit               products begin; commit
    products begin; commit                    →      copies of later iterations; commit
    wait for the products                            wait for the products

It stands behind the barriers: where none was needed between copies and products, they touch nothing in common.
"""

from __future__ import annotations

from ...copies import ASYNCHRONOUS, BULK_BOX, BULK_EXPECT, called, is_commit
from ...fragments import PRODUCTS_WAIT, WARPGROUP_CALLS
from ...stmt import Attr, Evaluate, Function, Seq, Stmt
from ...visit import rewrite, statements

__all__ = ["begin_products_first"]


def begin_products_first(function: Function) -> Function:
    """`function`, the body of a kernel, with copies between the beginning of products and the wait for them."""

    def rule(node: Stmt) -> Stmt | None:
        return _reorder(node) if isinstance(node, Seq) else None

    return function.with_body(rewrite(function.body, rule))


def _reorder(sequence: Seq) -> Seq | None:
    parts = list(sequence.body)
    ends = [at for at, part in enumerate(parts) if called(part) == PRODUCTS_WAIT]
    if len(ends) != 1:  # several waits in one sequence: which products are meant is not told
        return None
    end = begin = ends[0]
    while begin and called(parts[begin - 1]).startswith(WARPGROUP_CALLS):
        begin -= 1
    first = begin
    while first and (is_commit(parts[first - 1]) or _is_copy(parts[first - 1])):
        first -= 1
    if first == begin:  # no copy stands before the products
        return None
    return Seq((*parts[:first], *parts[begin:end], *parts[first:begin], *parts[end:]))


def _is_copy(part: Stmt) -> bool:
    """Return whether a statement begins asynchronous copies, under conditions or not, and does nothing else that others see."""
    calls = [called(node) for node in statements(part) if isinstance(node, Evaluate)]
    if calls:
        # a copy by the engine is an expectation and its boxes, nothing else
        return all(name == BULK_EXPECT or name.startswith(BULK_BOX) for name in calls)
    return any(isinstance(node, Attr) and node.key == ASYNCHRONOUS for node in statements(part))
