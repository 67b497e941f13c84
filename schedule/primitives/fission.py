"""fission: a loop of a script around several statements as several loops after each other.

    for j in n:                              for j in n:                       # fission(j)
        c[j] = 0                                 c[j] = 0
        for k in m:                   →      for j.1 in n:
            c[j] += A[k] * B[k, j]               for k in m:
                                                     c[j.1] += A[k] * B[k, j.1]

Loops that stood around others with something between them stand directly around them then, and may change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.errors import user_source
from ...ir.analysis.dependence import Iterations, Meets, accesses_of
from ...ir.expr import Expr, IterVar, Node, Range, Var
from ...ir.stmt import For, LoopKind, Seq, Stmt
from ...ir.visit import Rewriter, rewrite, seq
from ..model.axes import find_leaf, outline
from ..model.foreign import AXIS
from ..model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from ..model.hybrid_loops import compared_iterations
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import each_loop

__all__ = ["can_part", "fission"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: next(_parting(stage), None) is not None)
    if stage is None:
        return None
    axis = drawer.pick(list(_parting(stage)))
    return f"fission({stage.name}, {axis.name})", lambda: stage.fission(axis)


def _parting(stage: Stage) -> Iterator[IterVar]:
    """The loops that it may be called with."""
    return (axis for axis in stage.leaf_iter_vars if can_part(stage, axis))


def can_part(stage: Stage, axis: IterVar) -> bool:
    """Return whether a loop may become several."""
    return not _obstacle(stage, axis) and bool(_partition_points(stage, axis))


def _obstacle(stage: Stage, axis: IterVar) -> str:
    """The reason for which a loop stays as it is, whatever its iterations touch; empty where there is none."""
    op = stage.op
    if axis not in op.declared_loops.loops:
        return f"{axis.name} is not a loop that a script declares"
    loop = op.declared_loops.loop(axis)
    if not stage.is_untouched():
        return "its loops are scheduled already"
    if loop.kind is not LoopKind.SERIAL or not isinstance(loop.body, Seq):
        return "it stands around one statement, or memory of its own"
    return ""


def _partition_points(stage: Stage, axis: IterVar) -> list[int]:
    """The places between the statements of a loop at which it may be cut: nothing behind touches in an iteration what stands before
    touches in a later one."""
    op = stage.op
    body = op.declared_loops.loop(axis).body
    assert isinstance(body, Seq)
    iterations = compared_iterations(stage, axis)
    accesses = [accesses_of(each) for each in body.body]
    if any(each.opaque for each in accesses):
        return []

    def reaches_back(later: int, earlier: int) -> bool:
        for buffer in {*accesses[later].stored, *accesses[later].loaded}:
            stored, loaded = (accesses[later].stored.get(buffer, []), accesses[later].loaded.get(buffer, []))
            before = accesses[earlier]
            pairs = [
                *((a, b) for a in stored for b in (*before.stored.get(buffer, ()), *before.loaded.get(buffer, ()))),
                *((a, b) for a in loaded for b in before.stored.get(buffer, ())),
            ]
            if any(_meets_later(iterations, a, b) for a, b in pairs):
                return True
        return False

    count = len(body.body)
    back = [(earlier, later) for later in range(1, count) for earlier in range(later) if reaches_back(later, earlier)]
    return [at for at in range(1, count) if not any(earlier < at <= later for earlier, later in back)]


def _meets_later(iterations: Iterations, later: Sequence[Expr], earlier: Sequence[Expr]) -> bool:
    """Return whether the statement before may touch in an iteration to come what the one behind touches now."""
    found = iterations.between(tuple(later), tuple(earlier))
    return found.meets is not Meets.NEVER and (found.distance is None or found.distance > 0)


class _Renamed(Rewriter):
    """A statement with axes of its own for the loops in it, and another one for a loop around."""

    def __init__(self, axis: IterVar, new: IterVar) -> None:
        self.new: dict[Var, Expr] = {axis: new}

    def For(self, node: For) -> Stmt:
        begin, extent = self.visit(node.begin), self.visit(node.extent)
        var = _twin(node.var, begin, extent)
        self.new[node.var] = var
        return replace(node, var=var, begin=begin, extent=extent, body=self.visit(node.body))

    def IterVar(self, node: IterVar) -> Any:
        return self.new.get(node, node)

    def Var(self, node: Var) -> Any:
        return self.new.get(node, node)


@dataclass(frozen=True)
class _Replaced:
    """A rule that puts a statement in the place of a loop."""

    loop: For
    whole: Stmt

    def __call__(self, node: Node) -> Node | None:
        if node is self.loop:
            return self.whole
        if isinstance(node, Seq) and any(isinstance(each, Seq) for each in node.body):
            return seq(*node.body)
        return None


def _twin(var: Var, begin: Expr, extent: Expr) -> Var:
    """A variable like that of a loop."""
    if not isinstance(var, IterVar):
        return Var(var.name, var.dtype)
    return IterVar(var.name, var.dtype, Range(begin, extent), var.kind)


@primitive(
    StagePrimitives,
    "loops",
    tries=each_loop(lambda stage, axis: stage.fission(axis)),
    draw=_draw,
    weight=3,
    foreign={"axis": AXIS},
)
def fission(stage: Stage, axis: IterVar) -> tuple[IterVar, ...]:
    """Make of a script's loop around several statements several loops after each other.

        for j in n:                              for j in n:                       # fission(j)
            c[j] = 0                                 c[j] = 0
            for k in m:                   →      for j.1 in n:
                c[j] += A[k] * B[k, j]               for k in m:
                                                         c[j.1] += A[k] * B[k, j.1]

    axis: a serial loop that a hybrid script declares around statements after each other, before loops of it are scheduled. It is
    cut wherever no statement behind touches in an iteration what one before touches in a later one, one of them storing to it.
    Returns the loops' axes, in their order. No bit changes.

    Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
    """
    find_leaf(stage, axis, "cannot part")
    headline = f"cannot part '{axis.name}' of stage {stage.name}"
    reason = _obstacle(stage, axis)
    if reason:
        raise HybridLoopsApart(
            headline,
            reason=reason,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix="part a loop with several statements in it, before its loops are split or reordered",
        )
    cuts = _partition_points(stage, axis)
    if not cuts:
        raise HybridLoopCarries(
            headline,
            reason="wherever it is cut, a statement behind touches what one before does in a later iteration",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix="choose a loop whose statements take from each other within an iteration alone",
        )
    op = stage.op
    loop = op.declared_loops.loop(axis)
    assert isinstance(loop.body, Seq)
    stage.schedule.record("fission", stage, axis=axis)
    parts = [seq(*loop.body.body[a:b]) for a, b in zip((0, *cuts), (*cuts, len(loop.body.body)), strict=True)]
    axes, loops = [axis], [replace(loop, body=parts[0])]
    for part in parts[1:]:
        twin = _twin(axis, loop.begin, loop.extent)
        assert isinstance(twin, IterVar)
        axes.append(twin)
        loops.append(replace(loop, var=twin, body=_Renamed(axis, twin).visit(part)))
    parted = op.rewritten(lambda body: rewrite(body, _Replaced(loop, seq(*loops))))
    stage.schedule.rewrite({}, anew={stage: parted})
    return tuple(axes)
