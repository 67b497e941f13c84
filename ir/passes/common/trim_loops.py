"""Loops without the iterations in which a guard around all that they do fails for every iteration of the loops inside.

    for k in 384:                                      for k in min(384, i * 16 + 16):
        for j in 16:                                       for j in 16:
            if k <= i * 16 + j: S(i, j, k)      →              if k <= i * 16 + j: S(i, j, k)

So a sum over a triangle takes the time of a triangle. The guards stay: they tell what is done in the iterations that are left.
Those of splits, which are likely, leave no iteration out.

It stands before loop_partition, which finds where guards hold throughout.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...accesses import reads_memory
from ...contents import require_any
from ...expr import Add, Expr, Sub
from ...ops import TRUE, const, maximum, minimum
from ...stmt import Allocate, Attr, For, Function, If, LoopKind, Stmt
from ...visit import Rewriter, free_vars, rebuild, rewrite
from .fresh_copy import fold
from .guard_bounds import guard_bound, split_comparisons

__all__ = ["trim_loops"]


@require_any(If)
def trim_loops(function: Function) -> Function:
    """`function` with serial loops over the iterations in which something may be done."""
    return function.with_body(_Trimmer().visit(function.body))


class _Trimmer(Rewriter):
    def For(self, node: For) -> Stmt:
        return self.generic(_trim(node))  # loops outside first: within them a guard may go


def _trim(loop: For) -> For:
    if loop.kind is not LoopKind.SERIAL:  # threads and lanes have fixed extents
        return loop
    begin, end, body = loop.begin, fold(Add, loop.begin, loop.extent), loop.body
    low, high = begin, end
    for condition, inner in _guards_around_all(body):
        bound = guard_bound(condition, loop.var, inner, every=False)
        # a bound that reads memory might be read where the guard kept it from being read
        if bound is None or reads_memory(bound.expr(loop.var)):
            continue
        if bound.upper:
            high = minimum(high, bound.expr(loop.var))
        else:
            low = maximum(low, bound.expr(loop.var))
        if {each.var for each in inner}.isdisjoint(free_vars(condition)):  # it holds in every iteration that is left
            body = rewrite(body, lambda node, held=condition: TRUE if node is held else None)
    if low is begin and high is end:
        return loop
    # low may exceed high: then no iteration is left
    return rebuild(loop, [low, maximum(fold(Sub, high, low), const(0, loop.var.dtype)), body])


def _guards_around_all(body: Stmt) -> Iterator[tuple[Expr, tuple[For, ...]]]:
    """The conditions without which a loop's body does nothing, each with the loops that stand around it there."""
    inner: tuple[For, ...] = ()
    while True:
        if isinstance(body, If) and body.else_body is None:
            # a likely guard is loop_partition's, which cuts instead of trimming
            yield from ((part, inner) for part, likely in split_comparisons(body.condition) if not likely)
            body = body.then_body
        elif isinstance(body, For):
            inner, body = (*inner, body), body.body
        elif isinstance(body, Attr | Allocate):
            body = body.body
        else:
            return
