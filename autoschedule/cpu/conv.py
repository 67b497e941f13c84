"""Convolutions: a tile of the result in registers, while the sum over input channels and taps runs.

    for task (image, band of rows, part of the channels; in parallel):     # or (image, chunk of channels, tile of rows)
        panel = data[channels, rows that the band reads]                   # with its padding
        for chunk of output channels:
            for tile of rows:
                for tile of columns:
                    sums = 0                                               # in registers
                    for c, p, q:
                        for place (unrolled):  for channel in lanes:  sums += panel[c, ...] * weights[chunk, c, p, q]
                y[channel, row] = sums ...                                 # turned, with what follows element by element

Lanes are output channels, so that no size of image leaves lanes empty: an element of the image is broadcast, and weights are
read in blocks of channels (Georganas et al. 2018, Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures, with the image left as it is). Where no tap reads beside its place and rows are short, the image is one row,
which is copied in tiles: no tile ends with a row, and its elements lie side by side for each channel. Where channels are too
few for that, lanes are places of a row, and weights are broadcast. The sizes are conv_plan's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...codegen.machine import Machine
from ...ir.expr import IterVar
from ...schedule import Schedule, Stage
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..cost.doubts import COPIED, WITHIN
from ..cost.estimate import pad_estimate
from ..forms.convolution import Convolution, Layout, match_convolution
from ..operations import is_known
from ..plan import Candidate
from .contraction import least_time
from .conv_plan import USUAL, Layer, Plan, Tile, column_tile, plans, prefers_channels
from .streams import PASSES
from .threads import TASKS, worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["convolution"]

WHOLE_ROW = 16
"""Vectors up to which a row is copied by one statement for each."""


def convolution(group: Group, otherwise: Callable[[], None]) -> bool:
    """Schedules a group whose anchor is a convolution, in whatever layout, or else `otherwise`; does nothing and returns False
    where it is none."""
    anchor = group.anchor
    found = match_convolution(anchor) if not group.parts else None
    if found is None or any(constant_extent(axis) == 0 for axis in (*anchor.axis, *anchor.reduce_axis)):
        return False
    layer = _layer(group, found)
    if found.groups > 1 and layer.outputs % layer.lanes > 0 and layer.outputs > layer.lanes:
        return False  # lanes end within a group
    whole = layer.as_row if found.layout.channels == 1 and found.weights is not found.image else layer
    ways: list[tuple[str, Callable[[Group], None]]] = []
    if found.layout.channels != 1 or found.groups == 1 or layer.outputs % layer.lanes == 0:
        ways += [
            (str(way), partial(_schedule_channels, found=found, layer=whole, chosen=way))
            for way in plans(whole, group.machine)
        ]
    if found.layout.channels == 1:
        along = "lanes along rows", partial(_schedule_columns, found=found, layer=layer)
        ways = [*ways, along] if prefers_channels(layer) else [along, *ways]
    ragged = not layer.block and layer.groups == 1 and layer.outputs > layer.lanes and layer.outputs % layer.lanes > 0
    time = least_time(group) if ragged else None
    candidates = group.draft_candidates(ways, ordered=time is None)
    if time is not None:  # each step of their sums is masked, and others may be better
        time = pad_estimate(time, COPIED)
        candidates = [
            replace(each, estimate=pad_estimate(each.estimate, WITHIN))
            for each in candidates
            if each.estimate is not None
        ]
    group.choose(found.layout.rule, [*candidates, Candidate("as any reduction", otherwise, time, further=time is None)])
    return True


def _inline_heads(group: Group, found: Convolution) -> None:
    """The heads that data and weights are computed from are inlined into them."""
    for head in group.heads:
        if head is not found.image.op and head is not found.weights.op:
            group.s[head].compute_inline()


def _layer(group: Group, found: Convolution) -> Layer:
    anchor, layout = group.anchor, found.layout
    extents = [constant_extent(axis) or 0 for axis in anchor.axis]
    block = extents[layout.lane] if layout.lane is not None else 0
    bits = max(anchor.output(0).dtype.bits, 8)
    return Layer(
        batch=extents[0],
        groups=found.groups,
        outputs=extents[layout.channels] // found.groups * max(block, 1),
        inputs=found.inputs,
        height=extents[layout.rows],
        width=extents[layout.columns],
        taps=found.taps,
        stride=found.stride,
        lanes=group.machine.lanes(bits),
        bits=bits,
        block=block,
        padded=found.image.op in group.heads,
    )


# Lanes along channels


def _schedule_channels(group: Group, found: Convolution, layer: Layer, chosen: Plan) -> None:
    s, anchor, output, layout = group.s, group.anchor, group.output, found.layout
    image, weights = found.image, found.weights
    _inline_heads(group, found)
    lanes = layer.block or layer.lanes
    in_group, chunk, vectors, lane = _cut_channels(s[anchor], layout, layer, chosen.tile.vectors)
    axes = s[anchor].op.axis
    places = _position_loops(s[anchor], layout, layer)
    s[anchor].reorder(axes[0], *in_group, chunk, *places, vectors, lane)
    sums = s.cache_write(anchor.output(0), "local")
    assert isinstance(sums, Tensor)
    if output is not anchor:
        s[anchor].compute_inline()
    stage = s[output]
    plain = found.plain
    known = is_known(weights)  # and packed while building
    by_chunk = plain and not chosen.banded and layer.batch == 1 and not known
    whole = (
        by_chunk
        or known
        and _shares_chunks(layer, chosen, group.machine)
        or _is_chunk_cut(layer, chosen, group.machine)
    )
    task, at, per_chunk = _store(stage, layout, layer, chosen, whole, worth_threads((*axes, *s[sums].op.reduce_axis)))
    s[sums].compute_at(stage, at)
    *outer, vectors, lane = s[sums].op.axis
    outer, places = outer[: len(outer) - len(places)], outer[len(outer) - len(places) :]
    _tile(s[sums], outer, places, chosen.tile)
    if not (layer.flat or layer.padded) and layer.image(layer.height or USUAL) * layer.groups > group.machine.l2 // 2:
        s[sums].prefetch(
            image, s[sums].op.reduce_axis[0], 1, around=True
        )  # rows of many channels are more streams than are seen
    s[sums].unroll(vectors)
    s[sums].vectorize(lane)
    if layer.padded:
        _place_image(s, image, layer.lanes, (stage, task) if chosen.banded else None)
    if layer.flat:
        _tile_image(s, image, sums, layout, chosen.tile.columns)
    read = _pack(group, weights, sums, layer, lanes, (stage, task) if by_chunk else None) if plain else weights
    ahead = chosen.banded or whole or chosen.band >= (layer.height or USUAL)  # else the next task reads the same
    if known and (plain or layer.block) and ahead and _passes(layer, chosen) >= PASSES:
        loops = stage.leaf_iter_vars
        step = s[sums].op.reduce_axis[0 if plain else -2]  # that with the block's terms inside
        s[sums].prefetch(read, step, 1, level=2, share=loops.index(at) - loops.index(per_chunk) + 1)


def _shares_chunks(layer: Layer, chosen: Plan, machine: Machine) -> bool:
    """Return whether chunks of channels are tasks enough, so that each has all of the image."""
    chunks = -(-layer.outputs // (chosen.tile.vectors * layer.lanes)) * layer.groups * (layer.batch or 1)
    return not chosen.banded and chunks >= TASKS * machine.cores


def _is_chunk_cut(layer: Layer, chosen: Plan, machine: Machine) -> bool:
    """Return whether the last chunk of channels is cut, which only a loop over chunks can see beforehand, and there are tasks enough with
    such a loop."""
    chunk = chosen.tile.vectors * layer.lanes
    chunks = -(-layer.outputs // chunk) * layer.groups * (layer.batch or 1)
    return not chosen.banded and layer.outputs % chunk > 0 and chunks >= machine.cores


def _position_loops(stage: Stage, layout: Layout, layer: Layer) -> list[IterVar]:
    """The loops over rows and columns, which are one where the layer takes a row to be the whole image."""
    rows, columns = stage.op.axis[layout.rows], stage.op.axis[layout.columns]
    return [stage.fuse(rows, columns)] if layer.flat else [rows, columns]


def _cut_channels(
    stage: Stage, layout: Layout, layer: Layer, vectors: int
) -> tuple[list[IterVar], IterVar, IterVar, IterVar]:
    """The loops over channels: the group's (or none), chunks, vectors of a chunk, lanes."""
    channels = stage.op.axis[layout.channels]
    in_group: list[IterVar] = []
    if layout.lane is not None:
        each = layer.outputs // layer.block
        if layer.groups > 1:
            outer, channels = stage.split(channels, factor=each)
            in_group = [outer]
        chunk, vector = stage.split(channels, factor=max(vectors * layer.lanes // layer.block, 1))
        return in_group, chunk, vector, stage.op.axis[layout.lane]
    if layer.groups > 1:
        outer, channels = stage.split(channels, factor=layer.outputs)
        in_group = [outer]
    chunk, lane = stage.split(channels, factor=layer.lanes)
    chunk, vector = stage.split(chunk, factor=vectors)
    return in_group, chunk, vector, lane


def _tile(stage: Stage, outer: list[IterVar], places: list[IterVar], tile: Tile) -> None:
    """The sum's loops around its unrolled tile."""
    op = stage.op
    reduced = op.reduce_axis
    sizes = (tile.rows, tile.columns)[-len(places) :]
    tiles, inner = zip(*(stage.split(axis, factor=size) for axis, size in zip(places, sizes, strict=True)), strict=True)
    rest = [axis for axis in stage.leaf_iter_vars if axis not in (*outer, *tiles, *reduced, *inner)]
    stage.reorder(*outer, *tiles, *reduced, *inner, *rest)
    for axis in inner:
        stage.unroll(axis)
    if (
        reduced and constant_extent(reduced[-1]) == 2
    ):  # LLVM keeps a loop of two steps, and a good part of the sums in memory
        stage.unroll(reduced[-1])


def _store(
    stage: Stage,
    layout: Layout,
    layer: Layer,
    chosen: Plan,
    by_chunk: bool,
    threads: bool,
) -> tuple[IterVar, IterVar, IterVar]:
    """The loops of what is stored; returns those of tasks, of the tiles that are summed before they are stored, and of the
    chunks of channels. by_chunk: a task is a whole chunk of channels, with all bands."""
    in_group, chunk, vector, lane = _cut_channels(stage, layout, layer, chosen.tile.vectors)
    batch, rows, columns = (stage.op.axis[at] for at in (0, layout.rows, layout.columns))
    bands, tiles = list[IterVar](), list[IterVar]()
    if not layer.flat:
        band, rows = stage.split(rows, factor=chosen.band)
        tile, rows = stage.split(rows, factor=chosen.tile.rows)
        bands, tiles = [band], [tile]
    strips: list[IterVar] = []
    turned = layout.lane is None and layout.channels == 1
    at_once = not turned and chosen.has_full_tiles(
        layer
    )  # then tiles are stored from the registers that they are summed in
    if chosen.strip or at_once:
        strip, columns = stage.split(columns, factor=chosen.tile.columns if at_once else chosen.strip)
        strips = [strip]
    if turned:
        inner = _transpose_squares(stage, layer, chosen, vector, (rows, columns), lane)
    else:
        inner = [rows, columns, vector, lane] if layout.lane is None else [vector, rows, columns, lane]
        stage.vectorize(lane)
    for axis in (vector, rows, columns) if at_once else ():
        stage.unroll(axis)
    if chosen.banded:
        part, chunk = stage.split(chunk, nparts=-(-chosen.parts // layer.groups))
        stage.reorder(batch, *bands, *in_group, part, chunk, *tiles, *strips, *inner)
        task = stage.fuse(batch, *bands, *in_group, part)
    else:
        stage.reorder(batch, *in_group, chunk, *bands, *tiles, *strips, *inner)
        task = stage.fuse(batch, *in_group, chunk, *([] if by_chunk else bands))
    if threads:
        stage.parallel(task)
    per_chunk = (
        chunk if chosen.banded and chosen.parts < -(-layer.outputs // (chosen.tile.vectors * layer.lanes)) else task
    )
    return task, (strips or tiles or [chunk if chosen.banded else task])[-1], per_chunk


def _transpose_squares(
    stage: Stage,
    layer: Layer,
    chosen: Plan,
    vector: IterVar,
    places: tuple[IterVar, IterVar],
    lane: IterVar,
) -> list[IterVar]:
    """The inner loops of a store along rows, of sums that lie along channels: a square of both at a time, which is turned in
    registers. Short rows are stored together, being neighbours."""
    rows, columns = places
    whole = not chosen.strip and chosen.tile.rows > 1 and 0 < layer.width < layer.lanes
    outer = [vector] if whole else [vector, rows]
    if whole:
        stage.reorder(lane, rows, columns)
        columns = stage.fuse(rows, columns)
    piece, columns = stage.split(columns, factor=layer.lanes)
    stage.unroll(lane)
    stage.vectorize(columns)
    return [*outer, piece, lane, columns]


def _place_image(s: Schedule, image: Tensor, lanes: int, at: tuple[Stage, IterVar] | None) -> None:
    """Place the stage that the sum reads, computed for each task, or for all before."""
    stage = s[image]
    *outer, last = stage.op.axis
    if constant_extent(last) == 1:  # blocks of one channel
        last = stage.fuse(outer.pop(), last)
    extent = constant_extent(last)
    if extent is None or extent > WHOLE_ROW * lanes:
        piece, last = stage.split(last, factor=4 * lanes)
        outer.append(piece)
    stage.vectorize(last)
    if at is not None:
        stage.compute_at(*at)
    else:
        task = stage.fuse(*stage.op.axis[:2])
        if worth_threads(stage.op.axis):
            stage.parallel(task)


def _tile_image(s: Schedule, image: Tensor, sums: Tensor, layout: Layout, size: int) -> None:
    """The image in tiles of as many places as are summed together, for each term side by side: they lie as far apart as channels
    do else, each in a line of its own."""

    def in_tiles(*at: Any) -> list[Any]:
        place = at[layout.rows] * image.shape[layout.columns] + at[layout.columns]
        return [at[0], place // size, at[layout.channels], place % size]

    stage = s[s.cache_read(image, "global", [sums])]
    axes = stage.transform_layout(in_tiles, 0)
    assert axes is not None
    stage.vectorize(axes[-1])
    if worth_threads(axes):
        stage.parallel(stage.fuse(*axes[:2]))


def _passes(layer: Layer, chosen: Plan) -> int:
    """Return the number of times the weights of a chunk are read, where the next chunk follows."""
    rows = chosen.band if chosen.banded and not layer.flat else layer.height
    return -(-rows // chosen.tile.rows) * -(-layer.width // chosen.tile.columns)


def _pack(
    group: Group, weights: Tensor, sums: Tensor, layer: Layer, lanes: int, at: tuple[Stage, IterVar] | None
) -> Tensor:
    """Weights (O, C, KH, KW) in blocks of as many channels as a vector has lanes, for the call: turned a square at a time, for
    each chunk of channels, or for all before. Returns them."""
    s, inlined = group.s, weights.op in group.heads
    each, blocks = layer.outputs, -(-layer.outputs // lanes)
    packed = s.cache_read(weights, "global", [sums])
    if inlined:
        s[weights].compute_inline()

    def in_blocks(o: Any, c: Any, p: Any, q: Any) -> list[Any]:
        block = (
            o // lanes if layer.groups == 1 else o // each * blocks + o % each // lanes
        )  # whole vectors in each group
        return [block, c, p, q, o % lanes]

    axes = s[packed].transform_layout(in_blocks, 0)
    assert axes is not None
    block, *terms, lane = axes
    stage = s[packed]
    outer, inner = stage.split(stage.fuse(*terms), factor=lanes)
    stage.reorder(block, outer, inner, lane)
    stage.unroll(inner)
    stage.vectorize(lane)
    if at is not None:
        stage.compute_at(*at)
    elif worth_threads(axes):
        stage.parallel(block)
    return packed


# Lanes along rows


def _schedule_columns(group: Group, found: Convolution, layer: Layer) -> None:
    """Few channels: a tile of all of them and vectors of places, the weights broadcast."""
    s, anchor, output = group.s, group.anchor, group.output
    _inline_heads(group, found)
    tile = column_tile(layer, group.machine)
    sums = s[anchor]
    if output is anchor:
        cache = s.cache_write(anchor.output(0), "local")
        assert isinstance(cache, Tensor)
        sums = s[cache]
    else:
        sums.set_scope("local")
    stage = s[output]
    batch, channels, rows, columns = stage.op.axis
    if layer.groups > 1:
        in_group, channels = stage.split(channels, factor=layer.outputs)
        batch = stage.fuse(batch, in_group)
    chunk, channels = stage.split(channels, factor=tile.vectors)
    piece, lane = stage.split(columns, factor=tile.columns)
    stage.reorder(batch, chunk, rows, piece, channels, lane)
    task = stage.fuse(batch, chunk, rows)
    stage.unroll(channels)
    stage.vectorize(lane)
    sums.compute_at(stage, piece)
    op = sums.op
    batch, channels, rows, columns = op.axis
    sums.reorder(batch, rows, *op.reduce_axis, channels, columns)
    sums.unroll(channels)
    sums.vectorize(columns)
    if worth_threads((*anchor.axis, *op.reduce_axis)):
        stage.parallel(task)
    if layer.padded:
        _place_image(s, found.image, layer.lanes, None)
