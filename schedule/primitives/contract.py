"""contract: memory that a loop of a script fills row by row, as large as the rows that are needed at once.

    b: float32[n, m]                         b: float32[2, m]                               # contract(i)
    for i in n:                              for i in n:
        for k in m: b[i, k] = f(a[i, k])         for k in m: b[i % 2, k] = f(a[i, k])
        if i >= 1:                       →       if i >= 1:
            for k in m:                              for k in m:
                c[i, k] = b[i, k] - b[i - 1, k]          c[i, k] = b[i % 2, k] - b[(i - 1) % 2, k]

So it stays in a near cache (array contraction: V. Sarkar, G. Gao, "Optimization of Array Accesses by Collective Loop Transformations",
ICS 1991).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from ...base import dataclass, replace, user_source
from ...ir import Allocate, Buffer, BufferLoad, BufferStore, Expr, IntImm, IterVar, Node, rewrite, walk
from ...ir.analysis.linear import is_index, linear
from ...ir.ops import const
from ...te.hybrid.op import HybridOp
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS
from ..model.hybrid_errors import HybridLoopsApart
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .fission import ReplacedLoop
from .merge import written_memory
from .trials import each_loop

__all__ = ["can_contract", "contract"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: any(can_contract(stage, axis) for axis in stage.leaf_iter_vars))
    if stage is None:
        return None
    axis = drawer.pick([axis for axis in stage.leaf_iter_vars if can_contract(stage, axis)])
    return f"contract({stage.name}, {axis.name})", lambda: stage.contract(axis)


def can_contract(stage: Stage, axis: IterVar) -> bool:
    """Return whether memory of the script may become smaller so."""
    return bool(_find_rows(stage, axis))


@dataclass(frozen=True)
class _Rows:
    """Rows of a buffer, along a dimension, of which so many are needed at once, in memory of that size."""

    dimension: int
    count: int
    memory: Buffer

    def place(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The place of an element in the smaller memory."""
        before, row, behind = indices[: self.dimension], indices[self.dimension], indices[self.dimension + 1 :]
        return (*before, *([] if self.count == 1 else [row % const(self.count, row.dtype)]), *behind)


def _find_rows(stage: Stage, axis: IterVar) -> dict[Buffer, _Rows]:
    """The memory that a loop fills row by row, and nothing else touches."""
    loop, op = stage.op.declared_loops.loops.get(axis), cast("HybridOp", stage.op)  # nothing else declares loops
    if loop is None or not stage.is_untouched() or stage.attr(axis).kind != "serial":
        return {}
    within = [node for node in walk(loop.body) if isinstance(node, BufferLoad | BufferStore)]
    inside = {node.buffer for node in walk(loop.body) if isinstance(node, Allocate)}
    allocated = dict.fromkeys(node.buffer for node in walk(op.body) if isinstance(node, Allocate))
    everywhere = Counter(node.buffer for node in walk(op.body) if isinstance(node, BufferLoad | BufferStore))
    counts = Counter(node.buffer for node in within)
    private = [
        each
        for each in allocated
        if each not in inside
        and each.shape
        and each.scope in ("global", "local")
        and 0 < counts[each] == everywhere[each]
    ]
    written = written_memory(op) if private else frozenset[Buffer]()
    found = {
        buffer: _rows(buffer, [node for node in within if node.buffer is buffer], axis)
        for buffer in private
        if buffer in written
    }
    return {buffer: rows for buffer, rows in found.items() if rows is not None}


def _rows(buffer: Buffer, accesses: list[BufferLoad | BufferStore], axis: IterVar) -> _Rows | None:
    """The rows that are needed at once along the first dimension that goes on with the loop."""
    for dimension, extent in enumerate(buffer.shape):
        indices = [node.indices[dimension] for node in accesses]
        forms = [linear(index) for index in indices]
        if not all(map(is_index, indices)) or any(form.coeffs != {axis: 1} for form in forms):
            continue
        # a row lives from where it is stored to first until where it is touched last
        stored = [form.const for form, node in zip(forms, accesses, strict=True) if isinstance(node, BufferStore)]
        first, last = max(stored, default=None), min(form.const for form in forms)
        if first is None or any(form.const > first for form in forms):
            continue
        count = first - last + 1
        if isinstance(extent, IntImm) and extent.value <= count:
            continue
        shape = (
            *buffer.shape[:dimension],
            *([] if count == 1 else [const(count, extent.dtype)]),
            *buffer.shape[dimension + 1 :],
        )
        return _Rows(dimension, count, replace(buffer, shape=shape))
    return None


@primitive(
    StagePrimitives,
    "loops",
    tries=each_loop(lambda stage, axis: stage.contract(axis)),
    draw=_draw,
    weight=2,
    foreign={"axis": AXIS},
)
def contract(stage: Stage, axis: IterVar) -> None:
    """Keep of memory that a script's loop fills row by row the rows that are needed at once.

        b: float32[n, m]                         b: float32[2, m]                               # contract(i)
        for i in n:                              for i in n:
            for k in m: b[i, k] = f(a[i, k])         for k in m: b[i % 2, k] = f(a[i, k])
            if i >= 1:                       →       if i >= 1:
                for k in m:                              for k in m:
                    c[i, k] = b[i, k] - b[i - 1, k]          c[i, k] = b[i % 2, k] - b[(i - 1) % 2, k]

    axis: a serial loop that a hybrid script declares, before loops of it are scheduled, around all that touches some memory of
    the script. One dimension of that is indexed by the loop's variable but for numbers, and no element is read before it is stored
    to. A row that one iteration alone touches becomes memory of the iteration. No bit changes.

    Raises HybridLoopsApart (TW0281), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
    """
    find_leaf(stage, axis, "cannot contract what is filled by")
    rows = _find_rows(stage, axis)
    if not rows:
        raise HybridLoopsApart(
            f"cannot contract what is filled by '{axis.name}' of stage {stage.name}",
            reason="no memory of the script is touched in it alone, a few rows at once",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix="merge the loop that fills the memory with the one that reads it first, s[...].merge(axis), before loops are scheduled",
        )
    stage.schedule.record("contract", stage, axis=axis)
    loop, op = stage.op.declared_loops.loop(axis), cast("HybridOp", stage.op)
    body = rewrite(loop.body, _Contracted(rows))
    for each in rows.values():
        body = Allocate(each.memory, body) if each.count == 1 else body
    whole = replace(loop, body=body)
    written = (written_memory(op) - rows.keys()) | {each.memory for each in rows.values()}
    smaller = op.rewritten(lambda within: rewrite(rewrite(within, ReplacedLoop(loop, whole)), _Allocated(rows)))
    stage.schedule.rewrite({}, anew={stage: replace(smaller, written=written)})


@dataclass(frozen=True)
class _Contracted:
    """A rule that puts accesses in the smaller memory."""

    rows: Mapping[Buffer, _Rows]

    def __call__(self, node: Node) -> Node | None:
        if isinstance(node, BufferLoad | BufferStore) and node.buffer in self.rows:
            rows = self.rows[node.buffer]
            return replace(node, buffer=rows.memory, indices=rows.place(node.indices))
        return None


@dataclass(frozen=True)
class _Allocated:
    """A rule that allocates the smaller memory; that of an iteration is allocated there."""

    rows: Mapping[Buffer, _Rows]

    def __call__(self, node: Node) -> Node | None:
        rows = self.rows.get(node.buffer) if isinstance(node, Allocate) else None
        if rows is None or not isinstance(node, Allocate):
            return None
        return node.body if rows.count == 1 else replace(node, buffer=rows.memory)
