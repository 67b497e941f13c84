"""Pass options for those who study the effect of a pass. Nothing here changes what a
program means."""

from __future__ import annotations

from ....base import dataclass, replace
from ...expr import Expr
from ...ops import const
from ...stmt import For, Function, LoopKind, Stmt
from ...visit import children, rebuild, rewrite

__all__ = ["AS_USUAL", "PassOptions", "apply_options"]


@dataclass(frozen=True, slots=True)
class PassOptions:
    """Options of passes.

    vectorize: off, vectorized loops are serial. unrolled: off, unrolled loops are serial. unroll_steps,
    unroll_explicit: as the pragmas auto_unroll_max_step and unroll_explicit on the outermost loops, which the loops' own
    override. without: CPU passes to leave out, of "cse", "loop_partition" and "hoist". share_memory: off, every
    allocation has memory of its own.
    """

    vectorize: bool = True
    unrolled: bool = True
    unroll_steps: int = 0
    unroll_explicit: bool = True
    without: frozenset[str] = frozenset()
    share_memory: bool = True


AS_USUAL = PassOptions()


def apply_options(function: Function, options: PassOptions) -> Function:
    """`function` with its loops as the options want them."""
    if options == AS_USUAL:
        return function
    serial = {
        kind
        for kind, kept in ((LoopKind.VECTORIZED, options.vectorize), (LoopKind.UNROLLED, options.unrolled))
        if not kept
    }
    body: Stmt = rewrite(
        function.body, lambda node: _serial(node) if isinstance(node, For) and node.kind in serial else None
    )
    if options.unroll_steps:
        pragmas = (
            ("auto_unroll_max_step", const(options.unroll_steps)),
            ("unroll_explicit", const(int(options.unroll_explicit))),
        )
        body = _outermost(body, pragmas)
    return function.with_body(body)


def _serial(loop: For) -> For:
    return replace(loop, kind=LoopKind.SERIAL)


def _outermost(stmt: Stmt, pragmas: tuple[tuple[str, Expr], ...]) -> Stmt:
    """`stmt` with the pragmas first on the loops that no other loop surrounds."""
    if isinstance(stmt, For):
        return replace(stmt, pragmas=(*pragmas, *stmt.pragmas))
    return rebuild(stmt, [_outermost(child, pragmas) if isinstance(child, Stmt) else child for child in children(stmt)])
