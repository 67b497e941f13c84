"""Transposed accesses: neighbouring elements of what is stored lie apart in what is read, and those that are read side by side
are stored apart.

    for i.outer, j.outer:                                     # bands of 4 t rows, whose cache lines are stored whole
        for i.middle in 4:
            tile[t][t] = A[j.., i..]                          # t vectors
            for i in t (unrolled):  for j in t lanes:  B[i, j] = f(tile[j][i])

With the loops over the tile written out it stays in registers and is turned by shuffles. t is what a vector holds, 8 at most, since
shuffles of half as many bits cost half as much and a tile of 8 takes fewer; 16 of what is narrow, and where results do not fit the
last cache, so that lines stored whole matter more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir.expr import IterVar, ProducerLoad
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import find_axes
from ..loops import unroll_loops
from ..operations import find_inlined
from .streams import streams

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["Crossing", "find_crossing", "find_strided_reads", "transpose_tiles", "transpose_rows"]

MAX_TILE, QUICK_TILE = 16, 8
WORD = 32
"""Bits of an element from which on it is not narrow."""
BAND = 4
"""Tiles that follow each other down the rows: lines that were read are used for all of them before they leave the cache."""


@dataclass(frozen=True)
class Crossing:
    """Read of a tensor across its memory order.

    source: what is read across; across: the place of the data axis that runs along its memory; size: of a tile.
    """

    source: Tensor
    across: int
    size: int


def find_crossing(group: Group, op: Operation, loads: list[ProducerLoad]) -> Crossing | None:
    """Return whether `op`, whose reads (those of what is inlined included) are `loads`, is to be computed in such tiles."""
    if len(op.axis) < 2 or op.num_outputs > 1:
        return None
    last = op.axis[-1]
    for load in loads:
        if not isinstance(load.producer, Tensor) or not load.indices or not isinstance(load.indices[-1], IterVar):
            continue
        along = load.indices[-1]
        bits = max(load.producer.dtype.bits, op.output(0).dtype.bits)
        size = min(group.machine.lanes(bits), QUICK_TILE if bits >= WORD and not streams(op) else MAX_TILE)
        others = [index for index in load.indices[:-1] if last in find_axes(index)]
        alone = all(other is load or other.producer is not load.producer for other in loads)
        if (
            along is not last
            and along in op.axis
            and alone
            and len(others) == 1
            and others[0] is last
            and not any(along in find_axes(index) for index in load.indices[:-1])
            and all((constant_extent(axis) or 0) >= size for axis in (along, last))
            and find_readers(group.s, load.producer, [op])
        ):
            return Crossing(load.producer, op.axis.index(along), size)
    return None


def transpose_tiles(group: Group, op: Operation, crossing: Crossing, threads: bool) -> None:
    """Schedules a stage at root in tiles."""
    s, size = group.s, crossing.size
    tile = s.cache_read(crossing.source, "local", find_readers(s, crossing.source, [op])[:1])
    stage = s[op]
    axes = list(stage.op.axis)
    along, last = axes[crossing.across], axes[-1]
    others = [axis for axis in axes if axis is not along and axis is not last]
    outer, rows = stage.split(along, factor=BAND * size)
    middle, rows = stage.split(rows, factor=size)
    columns, lanes = stage.split(last, factor=size)
    stage.reorder(*others, outer, columns, middle, rows, lanes)
    band = stage.fuse(*others, outer, columns)
    if threads:
        stage.parallel(band)
    stage.unroll(rows)
    stage.vectorize(lanes)
    copy = s[tile]
    copy.compute_at(stage, middle)
    *before, contiguous = copy.op.axis
    unroll_loops(copy, before)
    copy.vectorize(contiguous)


def find_strided_reads(
    s: Schedule,
    ops: Sequence[Operation],
    rows: Mapping[Operation, IterVar],
    along: Mapping[Operation, IterVar],
) -> dict[Tensor, int]:
    """The tensors of which operations, with what is inlined into them, read neighbouring elements for neighbouring values of one
    axis, `along`, and other rows for those of another; with the place of the index that is the row."""
    found: dict[Tensor, int] = {}
    for op in ops:
        now = s[op].op
        for load in collect_loads(expand_inlined(s[now])):
            place = _place_of_row(load, rows[op], along[op])
            if isinstance(load.producer, Tensor) and place is not None:
                found[load.producer] = place
    return {tensor: place for tensor, place in found.items() if find_readers(s, tensor, ops)}


def find_readers(s: Schedule, source: Tensor, ops: Sequence[Operation]) -> list[Tensor]:
    """Return the readers of a tensor among operations and those inlined into them; nothing where some of it is inlined elsewhere too, where
    a copy that is computed at a loop of theirs would not be there."""
    whole = {s[op] for op in ops}
    readers = [
        s[op].op
        for each in ops
        for op in (s[each].op, *find_inlined(s, s[each].op))
        if source in s[op].op.input_tensors
    ]
    waiting = [s[op] for op in readers]
    for stage in waiting:
        if stage.attach_type == "inline":
            waiting += [reader for reader in stage.readers if reader not in waiting]
        elif stage not in whole:
            return []
    return [op.output(0) for op in dict.fromkeys(readers)]


def _place_of_row(load: ProducerLoad, row: IterVar, along: IterVar) -> int | None:
    if not load.indices or along not in find_axes(load.indices[-1]) or row in find_axes(load.indices[-1]):
        return None
    places = [at for at, index in enumerate(load.indices) if row in find_axes(index)]
    return places[0] if len(places) == 1 and load.indices[places[0]] is row else None


def transpose_rows(s: Schedule, source: Tensor, place: int, readers: Sequence[Operation], size: int) -> Stage:
    """The stage of a copy of a tensor for these readers in which rows, the index at `place`, lie side by side: loaded along the
    rows, `size` vectors at a time, and turned in registers. It is not placed yet."""
    copy = s.cache_read(source, "global", find_readers(s, source, readers))
    stage = s[copy]
    moved = stage.transform_layout(lambda *at: [*at[:place], *at[place + 1 :], at[place]], 0)
    assert moved is not None
    *outer, along, row = moved
    steps, step = stage.split(along, factor=size)
    vectors, lane = stage.split(row, factor=size)
    stage.reorder(*outer, vectors, steps, step, lane)  # a line of a row whole, before others drive it out
    stage.unroll(step)
    stage.vectorize(lane)
    return stage
