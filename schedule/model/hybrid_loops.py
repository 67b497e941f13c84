"""The loops of a hybrid script under a schedule: which stand directly inside each other, and which may be changed how.

A script is taken to mean what it does when it runs line by line, so a primitive that could change that raises. Splits and
fusions keep the order of iterations. `reorder`, `parallel`, `vectorize` and `bind` do not: they need loops whose
iterations write elements of their own, as `i` in `c[i, j] += ...` does and `j` does not (`ir.analysis.dependence` proves it).
What cannot be proved because places are read from memory stays serial; where a script adds, atomic_add in a loop that it writes
as `parallel(n)` lets iterations meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import PerformanceWarning, user_source, warn_at
from ...ir.analysis.dependence import Indices, Iterations, accesses_of
from ...ir.arith.analyzer import Analyzer, simplify
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, IterVar, ProducerLoad, Range, Var
from ...ir.ops import is_const
from ...ir.stmt import Allocate, For, LoopKind
from ...ir.visit import walk
from ...te.declared_loops import DeclaredLoops
from ...te.operation import Operation
from .axes import declared_ranges, derived_roots, in_program_order, outline, place_of
from .hybrid_errors import HybridLoopCarries, HybridLoopsApart, NotOfHybridStages

if TYPE_CHECKING:
    from .stage import Stage

__all__ = [
    "check_fused",
    "check_independent",
    "check_reordered",
    "refuse_hybrid",
    "share_nest",
    "warn_of_waiting_lanes",
]


def refuse_hybrid(stage: Stage, doing: str, why: str, fix: str) -> None:
    """Raise NotOfHybridStages where the stage runs statements in their order."""
    if stage.written_op.runs_in_order:
        raise NotOfHybridStages(
            f"{doing} stage {stage.name}",
            reason=f"{stage.name} is {stage.op.noun}: {why}",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage),
            fix=fix,
        )


def share_nest(stage: Stage, a: IterVar, b: IterVar) -> bool:
    """Whether one of two loops of a stage stands within the other: those of a script may stand after each other."""
    declared = stage.op.declared_loops
    first, second = _root(stage, a), _root(stage, b)
    if not declared.chain_of(first) or not declared.chain_of(second):
        return True  # a loop around all of them, or one whose place a schedule chooses
    around_first, around_second = ({*declared.chain_of(root), *_around(declared, root)} for root in (first, second))
    return first in around_second or second in around_first


# Order


def check_fused(stage: Stage, axes: Sequence[IterVar]) -> None:
    """Raise HybridLoopsApart where the loops are not all of one nest without anything between."""
    if len(axes) > 1:
        _one_nest(stage, axes, "cannot fuse")


def check_reordered(stage: Stage, leaves: Sequence[IterVar], moved: Sequence[IterVar]) -> None:
    """Raise where the loops in the order `leaves`, of which `moved` were listed, would compute something else."""
    if len(moved) < 2:
        return
    op, declared = stage.op, stage.op.declared_loops
    _one_nest(stage, moved, "cannot reorder")
    nest = declared.chain_of(_root(stage, moved[0]))
    meets = [root for root in nest if _meets(op, root, _around(declared, root))]
    carrying = [
        leaf for leaf in stage.leaf_iter_vars if any(place_of(meets, root) >= 0 for root in derived_roots(stage, leaf))
    ]
    after = [leaf for leaf in leaves if place_of(carrying, leaf) >= 0]
    swapped = next((at for at, leaf in enumerate(carrying) if after[at] is not leaf), None)
    if swapped is not None:
        first, second = carrying[swapped], after[swapped]
        meeting = next(
            meeting for root in derived_roots(stage, second) if (meeting := _meets(op, root, _around(declared, root)))
        )
        raise HybridLoopCarries(
            f"cannot reorder {first.name} and {second.name} of stage {stage.name}",
            reason=f"iterations of both may meet in elements of {meeting.text}, and would meet in another order",
            declared=op.source,
            called=user_source(),
            loops=outline(stage, [first, second]),
            fix=f"keep {first.name} outside {second.name}; loops whose iterations write elements of their own move freely",
        )
    for leaf in leaves:
        if stage.attr(leaf).kind in ("parallel", "vectorized", "thread"):
            check_independent(stage, leaf, "cannot reorder the loops around", leaves)


def _root(stage: Stage, leaf: IterVar) -> IterVar:
    roots = derived_roots(stage, leaf)
    return roots[0] if roots else leaf


def _one_nest(stage: Stage, axes: Sequence[IterVar], doing: str) -> None:
    chains = [stage.op.declared_loops.chain_of(_root(stage, axis)) for axis in axes]
    apart = next((at for at, chain in enumerate(chains) if chain is not chains[0]), None)
    if apart is not None:
        nest = next((chain for chain in chains if len(chain) > 1), ())
        raise HybridLoopsApart(
            f"{doing} {axes[0].name} and {axes[apart].name} of stage {stage.name}",
            reason="something stands between them in the script: only loops directly inside each other trade places",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axes[0], axes[apart]]),
            fix=f"list loops of one nest: {', '.join(axis.name for axis in nest)}"
            if nest
            else "write the loops of the script directly inside each other",
        )


# Iterations that meet


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Two accesses of one buffer, the first one a store, by iterations that may meet."""

    buffer: Buffer
    first: Indices
    second: Indices

    @property
    def text(self) -> str:
        """The accesses, for messages."""
        name = self.buffer.name
        a, b = (
            f"{name}[{', '.join(str(simplify(index)) for index in indices)}]" if indices else name
            for indices in (self.first, self.second)
        )
        return a if a == b else f"{a} and {b}"


def check_independent(stage: Stage, axis: IterVar, doing: str, leaves: Sequence[IterVar] | None = None) -> None:
    """Raise HybridLoopCarries where iterations of the loop may meet in an element while the loops around stand still.

    leaves: the loops in order, where they are about to change. A loop that the script itself declares so is taken at its
    word."""
    op = stage.op
    conflict = _conflict(stage, axis, list(stage.leaf_iter_vars if leaves is None else leaves))
    if conflict is None:
        return
    root, meeting = conflict
    free = ", ".join(
        leaf.name
        for _, leaf in in_program_order(stage)
        if leaf is not axis and not _conflict(stage, leaf, stage.leaf_iter_vars)
    )
    data = any(
        isinstance(node, (BufferLoad, ProducerLoad))
        for index in (*meeting.first, *meeting.second)
        for node in walk(index)
    )
    advice = (
        f"; where the script adds, `for {root.name} in parallel(...)` and atomic_add let iterations meet"
        if data
        else ""
    )
    raise HybridLoopCarries(
        f"{doing} '{axis.name}' of stage {stage.name}",
        reason=f"its iterations may meet in an element: {meeting.text}",
        declared=op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=f"choose a loop whose iterations write elements of their own{f' ({free})' if free else ''}, or leave {axis.name} serial"
        f"{advice}",
    )


def warn_of_waiting_lanes(stage: Stage, axis: IterVar) -> None:
    """Warn, at a user's line, where lanes would leave a loop within this one early: a vector is in it as long as the lane that
    stays longest."""
    declared = stage.op.declared_loops
    for root in derived_roots(stage, axis):
        if not declared.chain_of(root):
            continue
        flags = [
            node
            for node in walk(declared.loop(root).body)
            if isinstance(node, Allocate) and node.buffer.name.startswith("left.")
        ]
        left = next((loop for flag in flags for loop in walk(flag.body) if isinstance(loop, For)), None)
        source = user_source(_LINES_OF_PRIMITIVES) if left is not None else None
        if left is not None and source is not None:
            warn_at(
                source,
                f"lanes of {axis.name} that leave the loop over {left.var.name} early wait for the last of them: where they leave "
                f"far apart, {axis.name} is faster as a serial or parallel loop",
                PerformanceWarning,
            )


_LINES_OF_PRIMITIVES = ("schedule.model.hybrid_loops", "schedule.primitives.vectorize", "schedule.model.primitive")
"""What lies between a user's line and the warning: rules choose by an estimate, and are not told."""


def _conflict(stage: Stage, axis: IterVar, order: Sequence[IterVar]) -> tuple[IterVar, _Meeting] | None:
    """The root of a loop over which iterations may meet while the loops around, in this order, stand still; and where."""
    own = declared_ranges(stage).get(axis)
    if own is not None and is_const(own.extent, 1):
        return None
    declared = stage.op.declared_loops
    before = order[: place_of(order, axis)]
    for root in derived_roots(stage, axis):
        if not declared.chain_of(root) or declared.loop(root).kind in (
            LoopKind.PARALLEL,
            LoopKind.VECTORIZED,
            LoopKind.THREAD,
        ):
            continue
        fixed = set(_around(declared, root))
        for other in declared.chain_of(root):
            derived = [leaf for leaf in order if place_of(derived_roots(stage, leaf), other) >= 0]
            if other is not root and all(place_of(before, leaf) >= 0 for leaf in derived):
                fixed.add(other)
        meeting = _meets(stage.op, root, fixed)
        if meeting is not None:
            return root, meeting
    return None


def _around(declared: DeclaredLoops, root: IterVar) -> list[IterVar]:
    """The axes of the loops around the nest that `root` is in: they stay outside it."""
    return list(declared.around(declared.chain_of(root)))


def _meets(op: Operation, root: IterVar, fixed: Iterable[IterVar]) -> _Meeting | None:
    """Two accesses in which different iterations of the loop over `root` may meet, `fixed` being the same for both."""
    key = (root, frozenset(fixed))
    remembered = op.declared_loops.remembered
    if key not in remembered:
        remembered[key] = _find_meeting(op, root, set(fixed))
    return remembered[key]


def _find_meeting(op: Operation, root: IterVar, fixed: set[IterVar]) -> _Meeting | None:
    analyzer = Analyzer()
    for tensor in op.input_tensors:
        for extent in tensor.shape:
            if isinstance(extent, Var):
                analyzer.bind(extent, (0, None))
    own: dict[Var, Range | None] = dict.fromkeys(op.declared_loops.bound_variables)
    for axis in op.axis:
        own[axis] = axis.dom
        if axis.dom is not None:
            analyzer.bind(axis, axis.dom)
    own = {var: within for var, within in own.items() if var not in fixed}
    meeting = accesses_of(op.declared_loops.loop(root).body).meeting(Iterations(root, own, analyzer=analyzer))
    return None if meeting is None else _Meeting(*meeting)
