"""The loops of a hybrid script under a schedule: which stand directly inside each other, and which may be changed how.

A script is taken to mean what it does when it runs line by line, so a primitive that could change that raises. Splits and
fusions keep the order of iterations. `reorder`, `parallel`, `vectorize` and `bind` do not: they need loops whose
iterations write elements of their own, as `i` in `c[i, j] += ...` does and `j` does not (`ir.analysis.dependence` proves it).
What cannot be proved because places are read from memory stays serial; where a script adds, atomic_add in a loop that it writes
as `parallel(n)` lets iterations meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING

from ...base import PerformanceWarning, dataclass, user_source, warn_user
from ...ir import Allocate, Buffer, BufferLoad, For, IterVar, LoopKind, ProducerLoad, Range, Var, walk
from ...ir.analysis.dependence import Indices, Iterations, accesses_of
from ...ir.arith.analyzer import Analyzer, simplify
from ...ir.ops import is_const
from ...te.declared_loops import DeclaredLoops
from ...te.operation import Operation
from .checks import declared_ranges, derived_roots, find_place, outline, sort_by_program
from .distance_vectors import NestDistances, Reversal, dependent_pairs
from .hybrid_errors import HybridLoopCarries, HybridLoopsApart, NotOfHybridStages
from .relations import Relation

if TYPE_CHECKING:
    from .stage import Stage

__all__ = [
    "check_derived",
    "check_fused",
    "check_independent",
    "check_reordered",
    "compared_iterations",
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
    """Return whether one of two loops of a stage stands within the other: those of a script may stand after each other."""
    declared = stage.op.declared_loops
    first, second = _root(stage, a), _root(stage, b)
    if not declared.axis_chain(first) or not declared.axis_chain(second):
        return True  # a loop around all of them, or one whose place a schedule chooses
    around_first, around_second = (
        {*declared.axis_chain(root), *_enclosing_axes(declared, root)} for root in (first, second)
    )
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
    nest = declared.axis_chain(_root(stage, moved[0]))
    meets = [root for root in nest if _meets(op, root, _enclosing_axes(declared, root))]
    carrying = [
        leaf
        for leaf in stage.leaf_iter_vars
        if any(find_place(meets, root) >= 0 for root in derived_roots(stage, leaf))
    ]
    after = [leaf for leaf in leaves if find_place(carrying, leaf) >= 0]
    keeps_order = not nest or not _is_tied(stage) and all(map(is_, carrying, after))
    moving = nest if _is_tied(stage) or not nest else nest[_count_standing(stage, nest, leaves) :]
    reversal = None if keeps_order else _distances(stage, moving).reversal(leaves)
    if reversal is not None:
        raise HybridLoopCarries(
            f"cannot reorder {' and '.join(axis.name for axis in moved)} of stage {stage.name}",
            reason=_reversal_text(reversal),
            declared=op.source,
            called=user_source(),
            loops=outline(stage, moved),
            fix=_order_advice(reversal),
        )
    for leaf in leaves:
        attr = stage.attr(leaf)
        if attr.kind in ("vectorized", "thread") or attr.kind == "parallel" and not attr.vouched:
            check_independent(stage, leaf, "cannot reorder the loops around", leaves)


def _count_standing(stage: Stage, nest: Sequence[IterVar], leaves: Sequence[IterVar]) -> int:
    """The number of outermost loops of a nest that stay outermost, whole: what meets in different iterations of these keeps its order."""
    mine = [leaf for leaf in leaves if any(find_place(nest, root) >= 0 for root in derived_roots(stage, leaf))]
    moved = (at for at, (axis, leaf) in enumerate(zip(nest, mine, strict=False)) if axis is not leaf)
    return min(next(moved, len(nest)), len(nest) - 1)


def check_derived(stage: Stage, relation: Relation, axes: Sequence[IterVar], doing: str) -> None:
    """Raise where the loops of a script, with `relation` in force, would compute something else.

    axes: the loop that it replaces by its only child, and another one that it uses."""
    nest = stage.op.declared_loops.axis_chain(_root(stage, axes[0]))
    if not nest:
        return
    _one_nest(stage, axes, doing)
    leaves = [relation.children[0] if leaf is axes[0] else leaf for leaf in stage.leaf_iter_vars]
    distances = _distances(stage, nest, [*stage.relations, relation])
    reversal = distances.reversal(leaves)
    if reversal is not None:
        raise HybridLoopCarries(
            f"{doing} '{axes[0].name}' of stage {stage.name}",
            reason=_reversal_text(reversal),
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, axes),
            fix=f"skew the loop that stands within the other one: s[{stage.name}].skew(inner, outer)",
        )


def _reversal_text(reversal: Reversal) -> str:
    return (
        f"{_text(reversal.buffer, reversal.first, reversal.second)} may be one element in iterations that go on in "
        f"{reversal.ahead.name} and would go back in {reversal.back.name}: the later one would come first"
    )


def _order_advice(reversal: Reversal) -> str:
    ahead, back = reversal.ahead.name, reversal.back.name
    return (
        f"keep the loops over {ahead} outside {back}" if ahead != back else f"keep {ahead} as it is"
    ) + "; or skew the inner loop by the outer one first, s[...].skew(inner, outer), so that no distance goes back"


def _root(stage: Stage, leaf: IterVar) -> IterVar:
    roots = derived_roots(stage, leaf)
    return roots[0] if roots else leaf


def _one_nest(stage: Stage, axes: Sequence[IterVar], doing: str) -> None:
    chains = [stage.op.declared_loops.axis_chain(_root(stage, axis)) for axis in axes]
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
        return _text(self.buffer, self.first, self.second)


def _text(buffer: Buffer, first: Indices, second: Indices) -> str:
    a, b = (
        f"{buffer.name}[{', '.join(str(simplify(index)) for index in indices)}]" if indices else buffer.name
        for indices in (first, second)
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
        for _, leaf in sort_by_program(stage)
        if leaf is not axis and not _conflict(stage, leaf, stage.leaf_iter_vars)
    )
    data = any(
        isinstance(node, (BufferLoad, ProducerLoad))
        for index in (*meeting.first, *meeting.second)
        for node in walk(index)
    )
    advice = (
        f"; where the script adds, `for {root.name} in parallel(...)` and atomic_add let iterations meet; where you know that "
        f"they never do, as places of a permutation, s[{stage.name}].parallel({axis.name}, independent=True), which s.verify() "
        "checks"
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
        if not declared.axis_chain(root):
            continue
        flags = [
            node
            for node in walk(declared.loop(root).body)
            if isinstance(node, Allocate) and node.buffer.name.startswith("left.")
        ]
        left = next((loop for flag in flags for loop in walk(flag.body) if isinstance(loop, For)), None)
        source = user_source(_LINES_OF_PRIMITIVES) if left is not None else None
        if left is not None and source is not None:
            warn_user(
                source,
                f"lanes of {axis.name} that leave the loop over {left.var.name} early wait for the last of them: where they leave "
                f"far apart, {axis.name} is faster as a serial or parallel loop",
                PerformanceWarning,
            )


_LINES_OF_PRIMITIVES = ("schedule.model.hybrid_loops", "schedule.primitives.vectorize", "schedule.model.primitive")
"""What lies between a user's line and the warning: rules choose by an estimate, and are not told."""


def _conflict(stage: Stage, axis: IterVar, order: Sequence[IterVar]) -> tuple[IterVar, _Meeting] | None:
    """The root of a loop over which iterations may meet while the loops around, in this order, stand still; and where."""
    declared, roots = stage.op.declared_loops, derived_roots(stage, axis)
    nest = declared.axis_chain(roots[0]) if roots else ()
    if not nest or all(declared.loop(root).kind in _DECLARED for root in roots):
        return None
    tied = _is_tied(stage)
    conflict = None if tied else _root_conflict(stage, axis, order)
    if conflict is None and not tied:
        return None
    carried = _distances(stage, nest).carried_pair(axis, order)
    if carried is None:
        return None
    return conflict or (roots[0], _Meeting(carried.buffer, carried.first, carried.second))


def _is_tied(stage: Stage) -> bool:
    """Return whether some loop moves by others, as a skewed one does, so that it may move though its roots stand."""
    return any(relation.uses for relation in stage.relations)


_DECLARED = (LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.THREAD)
"""Loops that the script itself declares free of order."""


def _root_conflict(stage: Stage, axis: IterVar, order: Sequence[IterVar]) -> tuple[IterVar, _Meeting] | None:
    """Return what the roots of a loop say by themselves, without the distances of loops that derive from several."""
    own = declared_ranges(stage).get(axis)
    if own is not None and is_const(own.extent, 1):
        return None
    declared = stage.op.declared_loops
    before = order[: find_place(order, axis)]
    for root in derived_roots(stage, axis):
        if not declared.axis_chain(root) or declared.loop(root).kind in _DECLARED:
            continue
        fixed = set(_enclosing_axes(declared, root))
        for other in declared.axis_chain(root):
            derived = [leaf for leaf in order if find_place(derived_roots(stage, leaf), other) >= 0]
            if other is not root and all(find_place(before, leaf) >= 0 for leaf in derived):
                fixed.add(other)
        meeting = _meets(stage.op, root, fixed)
        if meeting is not None:
            return root, meeting
    return None


def _enclosing_axes(declared: DeclaredLoops, root: IterVar) -> list[IterVar]:
    """The axes of the loops around the nest that `root` is in: they stay outside it."""
    return list(declared.around(declared.axis_chain(root)))


def _meets(op: Operation, root: IterVar, fixed: Iterable[IterVar]) -> _Meeting | None:
    """Two accesses in which different iterations of the loop over `root` may meet, `fixed` being the same for both."""
    key = (root, frozenset(fixed))
    remembered = op.declared_loops.remembered
    if key not in remembered:
        remembered[key] = _find_meeting(op, root, set(fixed))
    return remembered[key]


def _distances(stage: Stage, nest: tuple[IterVar, ...], relations: Sequence[Relation] | None = None) -> NestDistances:
    """The distance vectors of a nest, under the stage's relations or others; its accesses are compared once for an operation."""
    op = stage.op
    remembered = op.declared_loops.remembered
    if nest not in remembered:
        remembered[nest] = dependent_pairs(
            op.declared_loops.loop(nest[0]).body,
            _iterations(op, None, _standing_axes(op.declared_loops, nest[0])),
        )
    return NestDistances(stage, nest, remembered[nest], relations)


def compared_iterations(stage: Stage, axis: IterVar) -> Iterations:
    """Two iterations of a declared loop, those around standing still."""
    return _iterations(stage.op, axis, _standing_axes(stage.op.declared_loops, axis))


def _standing_axes(declared: DeclaredLoops, axis: IterVar) -> set[IterVar]:
    """The axes of the loops around that of `axis`, of its own nest among them."""
    chain = declared.axis_chain(axis)
    return {*_enclosing_axes(declared, axis), *chain[: find_place(chain, axis)]}


def _find_meeting(op: Operation, root: IterVar, fixed: set[IterVar]) -> _Meeting | None:
    meeting = accesses_of(op.declared_loops.loop(root).body).meeting(_iterations(op, root, fixed))
    return None if meeting is None else _Meeting(*meeting)


def _iterations(op: Operation, root: IterVar | None, fixed: set[IterVar]) -> Iterations:
    """Two iterations of the loop over `root`, or of a nest, `fixed` being the same for both."""
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
    return Iterations(root, own, analyzer=analyzer)
