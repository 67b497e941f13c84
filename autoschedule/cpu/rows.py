"""Softmax, norms, variances and whatever else looks at each row several times: rows in parallel, each while it is in the cache.

    rows that lie side by side                       rows across (softmax over the channels of an image)

    for row in parallel (the other axes, fused):     for i, columns in parallel:            # as many as the L2 cache holds
        largest, across lanes                            for k in 8:  for j in lanes:  largest[j] = max(...)
        for k in vectors:  e[k] = exp(x - largest)       for k:       for j in lanes:  e[k, j] = ...
        sum, across lanes                                for k in 8:  for j in lanes:  sum[j] += ...
        for k in vectors:  y = e[k] / sum                for k:       for j in lanes:  y[k, j] = ...

What is computed for each element of a row is stored where it takes a function of mathematics and is read several times, and
computed again where it costs little. Where not even some columns of the rows fit into the cache, or threads have too few rows to
share, each reduction runs by itself over all of them, and elements are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...ir import Call, IterVar, post_order
from ...schedule import Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import op_loads
from ..forms.rows import RowChain, match_rows
from ..loops import MOST_BODIES, fuse_axes, share_loops, split_longer, unroll_short_loops
from ..operations import TRIVIAL, elements, find_inlined, fixed_extent, is_expensive, weight
from .declaration import calls_functions
from .injective import sweep
from .lanes import VECTORS, length, move_lane_last, reduce_lanes
from .reduce import add_rows, choose_layout, reduce, too_few_rows
from .streams import BLOCK, LINES, stream, streams
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["blocks", "rows"]


@dataclass(frozen=True)
class _Rows:
    """A group that is a chain. stored: the elements of rows that are kept; bits: of the widest; extent: elements of a row, None
    where that is not known."""

    group: Group
    chain: RowChain
    stored: tuple[Operation, ...]
    bits: int
    extent: int | None

    @property
    def parts(self) -> list[Operation]:
        """The parts that are stages: numbers for each row, and what is stored."""
        return [part for part in self.chain.parts if part in self.stored or part not in self.chain.inside]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, with what is stored of it and what it becomes."""
        arrays = 1 + len(self.stored) + (self.group.anchor in self.chain.inside)
        return (self.extent or self.group.machine.l2) * arrays * self.bits // 8

    def row_axes(self, op: Operation) -> list[IterVar]:
        """The axes within a row of an operation as its stage has them now; what it reduces over, of numbers."""
        now = self.group.s[op].op
        anchor = self.group.anchor if op is self.group.output else op
        places = [at for at, axis in enumerate(anchor.axis) if axis in self.chain.inside.get(anchor, ())]
        return [now.axis[at] for at in places] if places else list(now.reduce_axis)

    def outer_axes(self, op: Operation) -> list[IterVar]:
        """The axes of an operation as declared that tell rows apart."""
        return [axis for axis in op.axis if axis not in self.chain.inside.get(op, ())]


def rows(group: Group) -> None:
    """The rule of chains (row_chain)."""
    group.inline_cheap_heads()
    anchor = group.anchor
    place = {op: at for at, op in enumerate((*group.parts, anchor))}
    chain, _ = match_rows(anchor, place, group.parts.__contains__)
    assert chain is not None, "the group was cut as a chain"
    every = [axis for op in (*group.parts, anchor) for axis in (*op.axis, *op.reduce_axis)]
    if any(constant_extent(axis) == 0 for axis in every):
        return
    if group.output is not anchor and anchor.reduction is None:
        group.s[anchor].compute_inline()
    reduction = next(op for op in (anchor, *reversed(group.parts)) if op.reduction is not None)
    bits = max(op.output(0).dtype.bits for op in (*group.parts, group.output))
    whole = _Rows(group, chain, _find_stored(chain, anchor), bits, length(reduction.reduce_axis))
    ways = [(text, partial(_schedule, whole=whole, apply=apply)) for text, apply in _ways(whole, reduction)]
    group.choose("rows", group.draft_candidates(ways, ordered=True))


def _schedule(group: Group, whole: _Rows, apply: Callable[[_Rows], None]) -> None:
    apply(replace(whole, group=group))


def _ways(whole: _Rows, reduction: Operation) -> list[tuple[str, Callable[[_Rows], None]]]:
    """The ways to compute a chain, the usual one first."""
    apart = "each reduction by itself", _one_by_one
    if _is_short(whole, reduction):
        return [("rows written out", _schedule_full_rows), ("a row at a time", _side_by_side), apart]
    if not reduction.axis:  # one number: there are neither rows nor columns to take side by side
        return [apart]
    if whole.chain.along:
        together = [("a row at a time", _side_by_side)]
        return (
            [apart, *together] if too_few_rows(whole.group, reduction, length(reduction.axis)) else [*together, apart]
        )
    if not all(whole.outer_axes(op) for op in (*whole.group.parts, whole.group.anchor)):  # a number of the only column
        return [apart]
    usual, least = _columns(whole, reduction), LINES * whole.group.machine.line * 8 // whole.bits
    extent = constant_extent(move_lane_last(reduction.axis)[-1])
    widths = dict.fromkeys([usual, *(width for width in (least, 4 * least) if extent is None or width < extent), None])
    together = [
        ("all columns" if width is None else f"{width} columns", partial(_schedule_row_lanes, width=width))
        for width in widths
        if width != 0
    ]
    return [apart, *together] if usual == 0 else [*together, apart]


def _inline_the_rest(whole: _Rows) -> None:
    """Has elements of rows that are not stored computed where they are read."""
    for part in reversed(whole.chain.parts):
        if part in whole.chain.inside and part not in whole.stored:
            whole.group.s[part].compute_inline()


def _find_stored(chain: RowChain, anchor: Operation) -> tuple[Operation, ...]:
    """The elements of rows that are computed once: those that cost something, and that several read."""
    read = [{load.producer for load in op_loads(op)} for op in (*chain.parts, anchor)]
    return tuple(
        part
        for part in chain.parts
        if part in chain.inside
        and sum(part.output(0) in tensors for tensors in read) > 1
        and (is_expensive(part) or weight(part) > TRIVIAL)
    )


def _one_by_one(whole: _Rows) -> None:
    """Each reduction for itself, over all rows; elements of rows are computed where they are read."""
    group = whole.group
    _inline_the_rest(replace(whole, stored=()))
    for part in whole.chain.parts:
        if part.reduction is not None:
            reduce(replace(group, anchor=part, output=part, heads=(), parts=()))
        elif part not in whole.chain.inside:
            sweep(group, part)
    if group.anchor.reduction is not None:
        reduce(replace(group, heads=(), parts=()))
    else:
        sweep(group, group.output)


# Rows side by side


def _is_short(whole: _Rows, reduction: Operation) -> bool:
    """Return whether a row is shorter than a vector and takes no functions: of such rows LLVM puts several into vectors."""
    ops = (*whole.group.parts, whole.group.anchor)
    return (
        bool(whole.chain.along and reduction.axis)
        and (whole.extent or MOST_BODIES) < whole.group.machine.lanes(whole.bits)
        and not any(calls_functions(value) for op in ops for value in op.values)
    )


def _schedule_full_rows(whole: _Rows) -> None:
    _inline_the_rest(whole)
    group, s = whole.group, whole.group.s
    stage, own = s[group.output], group.anchor
    inside = whole.row_axes(group.output) if own in whole.chain.inside else []
    kept = [axis for axis in stage.op.axis if axis not in inside]
    stage.reorder(*kept, *inside)
    row = (
        share_loops(stage, kept, _worth(whole)) if kept else None
    )  # numbers of an axis of their own, (1,), may be of one row
    parts = [*whole.parts, *([own] if own is not group.output and own.reduction is not None else [])]
    for part in parts:
        if row is not None:
            s[part].compute_at(stage, row)
        unroll_short_loops(s[part], [*(whole.row_axes(part) if part in whole.stored else ()), *s[part].op.reduce_axis])
    unroll_short_loops(stage, [*inside, *stage.op.reduce_axis])


def _side_by_side(whole: _Rows) -> None:
    _inline_the_rest(whole)
    group, stage = whole.group, whole.group.s[whole.group.output]
    threads, own = _worth(whole), group.anchor
    before = _reduce_row_lanes(group, own) if own.reduction is not None else []
    stage = group.s[group.output]
    inside = whole.row_axes(group.output) if own in whole.chain.inside else []
    kept = [axis for axis in stage.op.axis if axis not in inside]
    stage.reorder(*kept, *inside)
    row = share_loops(stage, kept, threads) if kept else None
    for part in whole.parts:
        stages = _reduce_row_lanes(group, part) if part.reduction is not None else [group.s[part]]
        if part in whole.stored:
            _vectors(whole, stages[0], whole.row_axes(part))
        if row is not None:
            for each in stages:
                each.compute_at(stage, row)
            _prefetch_next_row(group, part, stages[0])
    for each in before:
        if row is not None and each is not stage:
            each.compute_at(stage, row)
    if not inside:
        return
    if streams(group.output):
        last = fuse_axes(stage, _trailing(stage, inside))
        stage.vectorize(last)
        stream(stage, last)
    else:
        _vectors(whole, stage, inside)


def _reduce_row_lanes(group: Group, op: Operation) -> list[Stage]:
    """The stages of a reduction in lanes over the axes that lie side by side."""
    axes = choose_layout(group, op).reduced or op.reduce_axis[-1:]
    return reduce_lanes(group.s, op, axes, group.machine)


def _prefetch_next_row(group: Group, part: Operation, stage: Stage) -> None:
    """Prefetch the same part of the next row in each step of a part that is slow to compute: memory would be idle meanwhile."""
    size = elements(group.output)
    if size is None or size * group.output.output(0).dtype.bytes <= group.machine.l2 or not _is_slow(part):
        return
    step = next(
        (axis for axis in stage.leaf_iter_vars if axis not in stage.op.axis and stage.attr(axis).kind == "serial"), None
    )
    for tensor in stage.op.input_tensors:
        if step is not None and tensor.op.is_given and len(tensor.shape) == len(group.output.axis):
            stage.prefetch(tensor, step, 1, around=True)


def _is_slow(part: Operation) -> bool:
    """Return whether an element of it takes a function of mathematics, under a reduction too."""
    nodes = (node for value in part.values for node in post_order(value))
    return any(
        isinstance(node, Call) and node.name in ("exp", "tanh", "erf", "sigmoid", "log", "pow") for node in nodes
    )


def _trailing(stage: Stage, axes: Sequence[IterVar]) -> list[IterVar]:
    """Return those of the axes that are the last of the stage's: their elements lie side by side."""
    trailing: list[IterVar] = []
    for axis in reversed(stage.op.axis):
        if axis in axes:
            trailing.insert(0, axis)
        elif trailing or constant_extent(axis) != 1:
            break
    return trailing


def _vectors(whole: _Rows, stage: Stage, axes: Sequence[IterVar]) -> None:
    """Vectorize those of these axes whose elements lie side by side, several vectors at a time."""
    together = _trailing(stage, axes)
    _lanes(whole, stage, fuse_axes(stage, together), length(together))


# Rows across


def _columns(whole: _Rows, reduction: Operation) -> int | None:
    """Return the number of columns of the rows that are computed together: as many as fit into the cache, and are
    shared evenly; 0 where even a few do not fit, None for all."""
    machine = whole.group.machine
    *outer, lane = move_lane_last(reduction.axis)
    last, line = constant_extent(lane), machine.line * 8 // whole.bits
    if whole.extent is None:
        return VECTORS * machine.lanes(whole.bits)
    most = machine.l2 * 3 // 4 // max(whole.row_bytes, 1)
    if most < LINES * line and (last is None or last > most):
        return 0
    if last is None:
        return most // line * line
    parts = -(-last // most) if last > most else 1
    if worth_threads((*reduction.axis, *reduction.reduce_axis), len(whole.parts)):
        parts = max(parts, min(-(-machine.cores // (length(outer) or machine.cores)), last // (LINES * line)))
    return None if parts == 1 else -(-last // (parts * line)) * line


def _schedule_row_lanes(whole: _Rows, width: int | None) -> None:
    """Lanes over the last axis, which is none of the row's. width: of a block of it, None for all."""
    _inline_the_rest(whole)
    group, s, own = whole.group, whole.group.s, whole.group.anchor
    stage = s[group.output]
    sums = None
    if own.reduction is not None:
        sums = s[s.cache_write(list(s[own].op.outputs), "local")[0]] if group.output is own else s[own]
    inside = whole.row_axes(group.output) if own in whole.chain.inside else []
    *outer, last = move_lane_last([axis for axis in stage.op.axis if axis not in inside])
    if width is not None:
        wide, last = stage.split(last, factor=width)
        outer.append(wide)
    stage.reorder(*outer, *inside, last)
    row = share_loops(stage, outer, _worth(whole)) if outer else None
    extent = width or constant_extent(last)
    _lanes(whole, stage, last, extent)
    for part in whole.parts:
        own = s[part]
        if row is not None:
            own.compute_at(stage, row)
        if part.reduction is not None:
            add_rows(own, group.machine, extent)
            continue
        within = whole.row_axes(part) if part in whole.stored else []
        *which, lane = move_lane_last([axis for axis in part.axis if axis not in within])
        own.reorder(*which, *within, lane)
        _lanes(whole, own, lane, extent)
    if sums is not None:
        if row is not None:
            sums.compute_at(stage, row)
        add_rows(sums, group.machine, extent)


def _lanes(whole: _Rows, stage: Stage, axis: IterVar, extent: int | None) -> None:
    """An axis in vectors, several at a time."""
    stage.vectorize(split_longer(stage, axis, extent, VECTORS * whole.group.machine.lanes(whole.bits))[1])


# Rows in blocks


def blocks(group: Group) -> None:
    """The rule of rows that are declared in blocks: the blocks of all rows are shared by threads, then the elements of the result.
    The attribute block is that of the part that is known of each."""
    s, stage = group.s, group.s[group.output]
    group.inline_cheap_heads()
    group.inline_anchor()
    if any(constant_extent(axis) == 0 for axis in stage.op.axis):
        return
    home = s[next(part for part in group.parts if "block" in part.attrs)]
    loop = share_loops(home, home.op.axis)
    for part in group.parts:
        if not part.reduce_axis:
            continue
        stages = reduce_lanes(s, part, part.reduce_axis, group.machine)
        if home.reads(s[part]):
            for each in stages:
                each.compute_at(home, loop)
    outer, inner = stage.split(stage.op.axis[-1], factor=BLOCK)
    share_loops(stage, [*stage.op.axis[:-1], outer])
    stage.vectorize(inner)
    stream(stage, inner)


def _worth(whole: _Rows) -> bool:
    group = whole.group
    kept = [fixed_extent(axis) for axis in group.output.axis]
    operators = 1 + len(group.parts) + len(find_inlined(group.s, group.output))
    if group.anchor in whole.chain.inside:
        return worth_threads(group.output.axis, operators)
    return (
        whole.extent is None
        or 0 in kept
        or worth_threads(group.output.axis, operators * whole.extent)
        and prod(kept) > 1
    )
