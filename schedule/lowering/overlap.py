"""Storage that outlives an iteration of a loop: the lowering that double buffers and rolling buffers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...base.errors import user_source
from ...ir import Buffer, BufferLoad, BufferStore, Expr, Node, Stmt, rewrite
from ...ir.arith.analyzer import Analyzer
from .computation import Computation
from .errors import StorageNotShared

__all__ = ["moved_accesses", "check_shared"]


def check_shared(computation: Computation) -> None:
    """Refuse (StorageNotShared, TW0350) a stage whose storage no iterations share."""
    stage, is_argument = computation.stage, computation.is_output
    # the stage lies in a loop whose iterations follow each other, and nobody else sees it
    if computation.parent is not None and not computation.in_step and not is_argument:
        return
    raise StorageNotShared(
        f"cannot lower: stage {stage.name} is to have a {stage.overlap} buffer",
        declared=stage.op.source,
        called=user_source(),
        reason="it is among the arguments, so all of it is kept"
        if is_argument
        else "it is computed at root, once, so there are no iterations to share its storage",
        fix="do not pass it" if is_argument else f"s[{stage.name}].compute_at(s[consumer], a serial loop)",
    )


def moved_accesses(
    body: Stmt,
    places: Mapping[Buffer, tuple[Buffer, Callable[[tuple[Expr, ...]], tuple[Expr, ...]]]],
    analyzer: Analyzer,
) -> Stmt:
    """`body` with accesses of buffers moved to others, at the indices that are said there. Expressions that contain one
    are simplified."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in places:
            buffer, at = places[node.buffer]
            return replace(node, buffer=buffer, indices=tuple(analyzer.simplify(index) for index in at(node.indices)))
        return None

    return rewrite(body, rule)
