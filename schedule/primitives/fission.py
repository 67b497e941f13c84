"""fission: a loop of a script around several statements as several loops after each other.

    for j in n:                              for j in n:                       # fission(j)
        c[j] = 0                                 c[j] = 0
        for k in m:                   →      for j.1 in n:
            c[j] += A[k] * B[k, j]               for k in m:
                                                     c[j.1] += A[k] * B[k, j.1]

Loops that stood around others with something between them stand directly around them then, and may change places.

Scalar expansion: what an iteration has to itself, and several of the parts touch, has an element for each iteration (R. Allen,
K. Kennedy, "Optimizing Compilers for Modern Architectures", section 5.3).

    for j in n:                              t: float32[n]
        t: float32                           for j in n:
        t = 0                         →          t[j] = 0
        for k in m: t += A[k] * B[k, j]      for j.1 in n:
        c[j] = t                                 for k in m: t[j.1] += A[k] * B[k, j.1]
                                             for j.2 in n:
                                                 c[j.2] = t[j.2]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...base import dataclass, replace, user_source
from ...ir.analysis.dependence import Iterations, Meets, accesses_of
from ...ir.analysis.linear import is_index
from ...ir.buffer import Buffer
from ...ir.expr import Add, BufferLoad, Expr, IterVar, Node, Range, Var
from ...ir.ops import const
from ...ir.passes.common.fresh_copy import fold
from ...ir.stmt import Allocate, BufferStore, For, LetStmt, LoopKind, Seq, Stmt
from ...ir.visit import Rewriter, rewrite, seq, substitute, walk
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS
from ..model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from ..model.hybrid_loops import compared_iterations
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import each_loop

__all__ = ["RenamedLoops", "ReplacedLoop", "can_part", "fission", "split_iteration"]


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
    if loop.kind is not LoopKind.SERIAL or len(split_iteration(loop)[1]) < 2:
        return "it stands around one statement"
    return ""


def split_iteration(loop: For) -> tuple[list[Buffer], list[Stmt]]:
    """The memory that an iteration of a loop has to itself, numbers with names among it, and the statements of one."""
    memory, statements, stack = list[Buffer](), list[Stmt](), [loop.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            stack += reversed(stmt.body)
        elif isinstance(stmt, Allocate):
            memory.append(stmt.buffer)
            stack.append(stmt.body)
        elif isinstance(stmt, LetStmt) and is_index(stmt.value):
            stack.append(substitute(stmt.body, {stmt.var: stmt.value}))
        elif isinstance(stmt, LetStmt) and stmt.var.dtype.is_float:
            memory.append(Buffer(stmt.var.name, (), stmt.var.dtype, scope="local"))
            stack.append(substitute(stmt.body, {stmt.var: BufferLoad(memory[-1], ())}))
            statements.append(BufferStore(memory[-1], stmt.value, ()))
        else:
            statements.append(stmt)
    return memory, statements


def _partition_points(stage: Stage, axis: IterVar) -> list[int]:
    """The places between the statements of a loop at which it may be cut: nothing behind touches in an iteration what stands before
    touches in a later one."""
    op = stage.op
    memory, statements = split_iteration(op.declared_loops.loop(axis))
    iterations = compared_iterations(stage, axis)
    accesses = [accesses_of(each) for each in statements]
    if any(each.opaque for each in accesses):
        return []

    def reaches_back(later: int, earlier: int) -> bool:
        for buffer in {*accesses[later].stored, *accesses[later].loaded}.difference(memory):
            stored, loaded = (accesses[later].stored.get(buffer, []), accesses[later].loaded.get(buffer, []))
            before = accesses[earlier]
            pairs = [
                *((a, b) for a in stored for b in (*before.stored.get(buffer, ()), *before.loaded.get(buffer, ()))),
                *((a, b) for a in loaded for b in before.stored.get(buffer, ())),
            ]
            if any(_meets_later(iterations, a, b) for a, b in pairs):
                return True
        return False

    count = len(statements)
    back = [(earlier, later) for later in range(1, count) for earlier in range(later) if reaches_back(later, earlier)]
    return [at for at in range(1, count) if not any(earlier < at <= later for earlier, later in back)]


def _meets_later(iterations: Iterations, later: Sequence[Expr], earlier: Sequence[Expr]) -> bool:
    """Return whether the statement before may touch in an iteration to come what the one behind touches now."""
    found = iterations.between(tuple(later), tuple(earlier))
    return found.meets is not Meets.NEVER and (found.distance is None or found.distance > 0)


class RenamedLoops(Rewriter):
    """A statement with axes of its own for the loops in it, and values for those around."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self.new = dict(values)

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
class ReplacedLoop:
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
    Memory of an iteration that several parts touch becomes memory of all iterations.
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
    stage.schedule.record("fission", stage, axis=axis)
    loop = stage.op.declared_loops.loop(axis)
    memory, statements = split_iteration(loop)
    parts = [seq(*statements[a:b]) for a, b in zip((0, *cuts), (*cuts, len(statements)), strict=True)]
    own, expanded = _share_memory(stage, axis, memory, parts)
    axes, loops = [axis], list[Stmt]()
    for part, private in zip(parts, own, strict=True):
        inner = rewrite(part, partial(_expand, expanded, axis))
        for buffer in private:
            inner = Allocate(buffer, inner)
        if not loops:
            loops.append(replace(loop, body=inner))
            continue
        twin = _twin(axis, loop.begin, loop.extent)
        assert isinstance(twin, IterVar)
        axes.append(twin)
        loops.append(replace(loop, var=twin, body=RenamedLoops({axis: twin}).visit(inner)))
    whole = seq(*loops)
    for buffer in expanded.values():
        whole = Allocate(buffer, whole)
    parted = stage.op.rewritten(lambda body: rewrite(body, ReplacedLoop(loop, whole)))
    stage.schedule.rewrite({}, anew={stage: parted})
    return tuple(axes)


def _share_memory(
    stage: Stage, axis: IterVar, memory: Sequence[Buffer], parts: Sequence[Stmt]
) -> tuple[list[list[Buffer]], dict[Buffer, Buffer]]:
    """The memory of each part alone, and for that of several parts memory of all iterations."""
    touched = [{node.buffer for node in walk(part) if isinstance(node, BufferLoad | BufferStore)} for part in parts]
    shared = [buffer for buffer in memory if sum(buffer in each for each in touched) > 1]
    loop = stage.op.declared_loops.loop(axis)
    count = fold(Add, loop.begin, loop.extent)
    if any(isinstance(node, Var) and node in stage.op.declared_loops.loops for node in walk(count)):
        most = compared_iterations(stage, axis).analyzer.interval(count).hi
        count = (
            count if most is None else const(most, count.dtype)
        )  # of one size for all iterations of the loops around
    own = [[buffer for buffer in memory if buffer in each and buffer not in shared] for each in touched]
    return own, {buffer: replace(buffer, shape=(*buffer.shape, count), scope="global") for buffer in shared}


def _expand(expanded: Mapping[Buffer, Buffer], axis: IterVar, node: Node) -> Node | None:
    """An access of memory of one iteration as one of that of all."""
    if isinstance(node, BufferLoad | BufferStore) and node.buffer in expanded:
        return replace(node, buffer=expanded[node.buffer], indices=(*node.indices, axis))
    return None
