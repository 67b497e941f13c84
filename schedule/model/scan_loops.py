"""The loops over the steps of a scan: the orders in which each step still follows those that it is computed from.

Where a step is computed from the one four steps before, and time is split by four, the loops may change places: four chains of
steps, each by itself.

    for t.outer in 5:                for t.inner in 4:
        for t.inner in 4:     →          for t.outer in 5:
            ...                              ...

A distance between steps is a sum of distances in the loops, in one way or, where a step crosses the end of a tile, in several. An
order is right where in each of them the outermost loop that moves at all moves on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ...base.errors import user_source
from ...ir.analysis.linear import linear
from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import integer_value
from ...te.operation import Operation
from ...te.scan import ScanOp
from ...te.tensor import find_tensor
from ..errors import ScanLoopsStay
from .checks import declared_ranges, find_place, outline
from .relations import Fuse, Split

if TYPE_CHECKING:
    from .stage import Stage

__all__ = ["check_steps_reordered", "time_loops_in_order"]


def check_steps_reordered(stage: Stage, leaves: Sequence[IterVar]) -> None:
    """Raise ScanLoopsStay (TW0261) where the loops of a scan, in the order `leaves`, would compute a step before what it reads."""
    times = [leaf for leaf in leaves if leaf.kind == "ordered"]
    before = [leaf for leaf in stage.leaf_iter_vars if leaf.kind == "ordered"]
    if times == before:
        return
    scan = cast(ScanOp, stage.op)  # nothing else has loops over time
    # the first loop at which both orders differ
    moved = next(after for after, was in zip(times, before, strict=True) if after is not was)
    for distance, reader, read in _distances(scan):
        if distance is None:
            raise _stays(stage, moved, f"{reader.name} reads {read}, which is not so many steps before in each step")
        ways = _enumerate_moves(stage, {scan.scan_axis: distance})
        if ways is None:
            raise _stays(stage, moved, "the number of steps that an iteration of its loops advances is not a constant")
        for moves in ways:
            if next(moves[leaf] for leaf in times if moves[leaf]) < 0:  # the outermost loop that moves has to go on
                steps = "1 step" if distance == 1 else f"{distance} steps"
                raise _stays(
                    stage, moved, f"{reader.name} reads {read}, {steps} before its own, which would come later"
                )


def time_loops_in_order(stage: Stage, axis: IterVar) -> bool:
    """Return whether the loops that `axis`, a scan's time, became run through it from its begin to its end."""
    order = [axis]
    for relation in stage.relations:
        at = find_place(order, relation.parents[0]) if relation.parents else -1
        if at >= 0:
            if [*relation.parents] != order[at : at + len(relation.parents)]:  # in place of its parents, in their order
                return False
            order[at : at + len(relation.parents)] = relation.children
    return order == [leaf for leaf in stage.leaf_iter_vars if leaf.kind == "ordered"]


def _stays(stage: Stage, axis: IterVar, why: str) -> ScanLoopsStay:
    return ScanLoopsStay(
        f"cannot reorder '{axis.name}' of stage {stage.name}",
        reason=why,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=f"leave the loops over time as they are; s[...].compute_at(s[{stage.name}], {axis.name}) computes there, for a tile of "
        "steps, what reads no state",
    )


def _distances(scan: ScanOp) -> Iterator[tuple[int | None, Operation, Expr]]:
    """Return how many steps before its own each read of a state in a step is, None where that is not one number, and who reads it. Reads
    of steps that are given do not count."""
    given = scan.init[0].shape[0]
    times: dict[Operation, Expr | None] = {tensor.op: tensor.op.axis[0] for tensor in scan.update}
    stack = list(times)
    while stack:
        op = stack.pop()
        time = times[op]
        for load in op.loads:
            tensor = find_tensor(load)
            if tensor in scan.states:
                step = load.indices[0]
                # a step that is given was not computed by this scan
                if not (isinstance(step, IntImm) and isinstance(given, IntImm) and step.value < given.value):
                    yield (None if time is None else _difference(time, step)), op, load
            elif not tensor.op.is_given:
                # by identity: the read is at this very step
                places = [at for at, index in enumerate(load.indices) if index is time]
                axis = tensor.op.dimensions[tensor.value_index][places[0]] if places else None
                if tensor.op not in times or times[tensor.op] not in (axis, None):
                    times[tensor.op] = axis if tensor.op not in times else None
                    stack.append(tensor.op)
        if not op.values and not op.is_given and any(state in op.input_tensors for state in scan.states):
            yield None, op, scan.states[0][scan.scan_axis]


def _difference(time: Expr, step: Expr) -> int | None:
    form = linear(time - step)  # a constant difference alone orders the steps
    return None if form.coeffs else form.const


def _enumerate_moves(stage: Stage, moves: dict[IterVar, int]) -> list[dict[IterVar, int]] | None:
    """The ways in which the loops may go on where time goes on so far, `moves`; None where that is not known."""
    ranges = declared_ranges(stage)

    def extent(axis: IterVar) -> int | None:
        return integer_value(ranges[axis].extent) if axis in ranges else None

    ways = [moves]
    for relation in stage.relations:
        if isinstance(relation, Split):
            size, most = extent(relation.inner), extent(relation.outer)
            if size is None:  # a symbolic size has symbolic carries
                return None
            ways = [
                way | split for way in ways for split in _separate_moves(relation, way[relation.parent], size, most)
            ]
        elif isinstance(relation, Fuse):
            size = extent(relation.inner)
            if size is None:
                return None
            ways = [way | {relation.fused: way[relation.outer] * size + way[relation.inner]} for way in ways]
    return ways


def _separate_moves(split: Split, move: int, size: int, most: int | None) -> list[dict[IterVar, int]]:
    """Return what the two loops may have moved where what they were split from has moved so far."""
    inner = move % max(size, 1)  # the remainder, or that less one tile: where the step crosses a tile's end
    ways = {(move - part) // max(size, 1): part for part in (inner, inner - size) if abs(part) < size}
    return [
        # farther than the loop is long is impossible
        {split.outer: outer, split.inner: part}
        for outer, part in ways.items()
        if most is None or abs(outer) < most
    ]
