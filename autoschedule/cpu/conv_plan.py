"""Loop nests of convolutions: the tile in registers, the rows of a task, and whether weights or image stay in the cache.

A tile is some vectors of output channels for some places of the result (`rows` by `columns`). A step of the sum loads a
vector of weights for each vector of channels, and broadcasts an element of the image for each place: places * vectors
multiply-adds for places + vectors loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import product
from math import prod

from ...base import dataclass, replace
from ...codegen.machine import Machine
from ..cost.cpu import copy_cycles, fetch_cycles, tile_cycles
from .threads import TASKS

__all__ = [
    "USUAL",
    "Layer",
    "Plan",
    "Tile",
    "prefers_channels",
    "channel_tile",
    "column_tile",
    "split_extent",
    "plans",
]

MOST_VECTORS = 4
MOST_CHANNELS = 8
"""In a tile whose lanes are places: more would leave no registers for several vectors."""
MOST_TILES = 8
"""To choose from."""
MOST_ROWS = 32
ROW_BYTES = 14 * 1024
"""What the sums of a band take at most: they live in the first cache until they are stored."""
USUAL = 64
"""For a size that is not known until the call."""


@dataclass(frozen=True)
class Layer:
    """The sizes of a convolution; 0 for what the call decides. outputs, inputs: channels of a group. height, width: of the
    result. lanes: values in a vector. block: channels that lie side by side in memory, where the layout says so, else 0.
    padded: whether the image is copied with zeros around it, or otherwise computed before it is read. flat: whether the image
    is taken as one row."""

    batch: int
    groups: int
    outputs: int
    inputs: int
    height: int
    width: int
    taps: tuple[int, int]
    stride: tuple[int, int]
    lanes: int
    bits: int
    block: int = 0
    padded: bool = False
    flat: bool = False

    @property
    def as_row(self) -> Layer:
        """The layer with its image as one row, where no tap reads beside its place, rows are short, and the sums of the image stay
        in the first cache; else itself."""
        places = self.height * self.width
        if (
            self.taps != (1, 1)
            or tuple(self.stride) != (1, 1)
            or self.padded
            or self.block
            or self.groups > 1
            or not 1 < self.width < 2 * self.lanes
            or self.height < 2
            or places * self.lanes * self.bits // 8 > ROW_BYTES // 2
        ):
            return self
        return replace(self, height=1, width=places, flat=True)

    @property
    def weights(self) -> int:
        """Bytes of a group's weights."""
        return self.outputs * self.inputs * prod(self.taps) * self.bits // 8

    def image(self, rows: int) -> int:
        """Bytes of the image that `rows` rows of the result of a group read."""
        wide = (self.width or USUAL) * self.stride[1] + self.taps[1]
        return self.inputs * self.band(rows) * wide * self.bits // 8

    def band(self, rows: int) -> int:
        """Rows of the image that `rows` rows of the result read."""
        return (rows - 1) * self.stride[0] + self.taps[0]


@dataclass(frozen=True)
class Tile:
    """Vectors of channels, and rows and columns of the result."""

    vectors: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Plan:
    """Plan of a convolution on a CPU.

    tile: in registers. band: rows of the result that a task computes, a multiple of the tile's. strip: columns at a time,
    0 for all. banded: bands are the outer loop, with their part of the image in the cache, and channels the inner one; else
    the other way round, with the weights in the cache. parts: tasks that share a band's channels.
    """

    tile: Tile
    band: int
    strip: int
    banded: bool
    parts: int

    def has_full_tiles(self, layer: Layer) -> bool:
        """Return whether all tiles of a layer are whole, its sizes being known."""
        pieces = (
            (layer.outputs, self.tile.vectors * layer.lanes),
            (layer.height, self.band),
            (layer.width, self.tile.columns),
        )
        return not layer.flat and all(extent and extent % size == 0 for extent, size in pieces)

    def __str__(self) -> str:
        tile = f"channels, tile {self.tile.vectors} x {self.tile.rows} x {self.tile.columns}"
        band = f"{self.band} rows{f' of {self.strip}' if self.strip else ''}"
        return f"{tile}, {band} {f'outside, {self.parts} parts' if self.banded else 'inside'}"


def prefers_channels(layer: Layer) -> bool:
    """Return whether lanes are better filled with channels than with the places of a row."""
    if layer.block:
        return True
    channels = -(-layer.outputs // layer.lanes) * layer.lanes / max(layer.outputs, 1)
    width = layer.width or USUAL
    places = -(-width // layer.lanes) * layer.lanes / max(width, 1) * (1.0 if layer.stride[1] == 1 else 1.5)
    return channels <= places * 1.1 and (layer.groups == 1 or layer.outputs % layer.lanes == 0)


def channel_tile(layer: Layer, machine: Machine) -> Tile:
    """The tile with which the steps of one term of the sum take the fewest cycles, edges included."""
    return _channel_tiles(layer, machine)[0]


def _channel_tiles(layer: Layer, machine: Machine) -> list[Tile]:
    """All of them, that one first."""
    height = layer.height or USUAL
    tiles, cycles = list(_tiles(layer, machine)), _tile_cycles(machine)
    return sorted(tiles, key=lambda tile: (_step_cycles(layer, tile, height, cycles), tile.rows))


def _tile_cycles(machine: Machine) -> Callable[[int, int], float]:
    """The cycles of a tile of so many places and vectors: asked for hundreds of times, and a machine takes long to hash."""
    return cache(partial(tile_cycles, machine=machine))


def _step_cycles(layer: Layer, tile: Tile, height: int, cycles: Callable[[int, int], float]) -> float:
    """Cycles of a term of the sums of so many rows of the result, edges included."""
    places = product(split_extent(height, tile.rows), split_extent(layer.width or USUAL, tile.columns))
    each = sum(many * across * cycles(rows * columns, tile.vectors) for (rows, many), (columns, across) in places)
    return each * -(-layer.outputs // (tile.vectors * layer.lanes))


def _tiles(layer: Layer, machine: Machine) -> Iterator[Tile]:
    """Return the tiles that fit the registers, with the weights of a step and an element of the image."""
    per_block = -(-layer.block // layer.lanes) if layer.block else 1
    most = max(min(MOST_VECTORS, -(-layer.outputs // layer.lanes)), per_block)
    for vectors in range(per_block, most + 1, per_block):
        room = max((machine.registers - vectors - 2) // vectors, 1)
        for rows in range(1, min(room, layer.height or 1) + 1):
            yield from (
                Tile(vectors, rows, columns) for columns in range(1, min(room // rows, layer.width or room) + 1)
            )


def split_extent(extent: int, size: int) -> list[tuple[int, int]]:
    """Whole pieces and the rest, as (size, count)."""
    return [(each, many) for each, many in ((size, extent // size), (extent % size, 1)) if each and many]


def column_tile(layer: Layer, machine: Machine) -> Tile:
    """The tile of lanes along rows: as many channels as there are, and vectors up to what the registers hold beside a vector of
    the image for each. Its `columns` are lanes."""
    channels = max(min(layer.outputs, MOST_CHANNELS), 1)
    across = -(-(layer.width or USUAL) // layer.lanes)
    vectors = max(min((machine.registers - 2) // (channels + 1), MOST_VECTORS, across), 1)
    return Tile(channels, 1, vectors * layer.lanes)


@lru_cache(maxsize=256)  # a network has many layers of one size
def plans(layer: Layer, machine: Machine) -> tuple[Plan, ...]:
    """The ways there are, the usual one first: other tiles, and bands of the image instead of weights in the cache, or the other
    way round."""
    tiles = _channel_tiles(layer, machine)[:MOST_TILES]
    ways = [_plan_outer_loops(layer, tile, machine) for tile in tiles]
    return tuple(dict.fromkeys((*ways, *(_plan_outer_loops(layer, way.tile, machine, not way.banded) for way in ways))))


def _plan_outer_loops(layer: Layer, tile: Tile, machine: Machine, banded: bool | None = None) -> Plan:
    """The loops around a tile. banded: None for whichever moves less."""
    chunk = tile.vectors * layer.lanes
    strip = 0 if layer.flat else _strip(layer, tile, chunk)
    chunks = -(-layer.outputs // chunk) * layer.groups
    height = layer.height or USUAL
    if not (_prefers_bands(layer, machine, -(-height // max(tile.rows, 4)), chunks) if banded is None else banded):
        return Plan(tile, _first_band(layer, tile), strip, False, chunks)
    best = max(_bands(layer, tile, machine, chunks), key=lambda band: band[0])
    return Plan(tile, best[1], strip, True, best[2])


def _strip(layer: Layer, tile: Tile, chunk: int) -> int:
    """Columns at a time, a multiple of the tile's and of a vector where there are enough."""
    most = ROW_BYTES // (tile.rows * chunk * max(layer.bits, 8) // 8)
    if layer.width and layer.width <= max(most, tile.columns):
        return 0
    step = tile.columns * layer.lanes if tile.columns * layer.lanes <= most else tile.columns
    return max(most // step, 1) * step


def _prefers_bands(layer: Layer, machine: Machine, bands: int, chunks: int) -> bool:
    """Return whether the image is better kept than the weights: what is larger than half of the second cache is read again from
    beyond it in each turn of the outer loop."""
    room = machine.l2 // 2
    image, weights = layer.image(layer.height or USUAL) * layer.groups, layer.weights * layer.groups
    bands_outside = weights * (bands if weights > room else 1) + image
    chunks_outside = image * (chunks if image > room else 1) + weights + (image if layer.padded else 0)
    return bands_outside < chunks_outside


def _first_band(layer: Layer, tile: Tile) -> int:
    """The fewest rows of a band: a tile's, unless the last tile is cut, which only a loop of its own can see beforehand."""
    whole = -(-layer.height // tile.rows) * tile.rows
    return whole if layer.height % tile.rows else tile.rows


def _bands(layer: Layer, tile: Tile, machine: Machine, chunks: int) -> Iterator[tuple[float, int, int]]:
    """(how well threads are used, rows of a band, parts of the channels)."""
    height = layer.height or USUAL
    teams = {machine.cores, TASKS * machine.cores, *(1 << power for power in range(machine.cores.bit_length()))}
    terms = layer.inputs * prod(layer.taps)
    first, cycles = _first_band(layer, tile), _tile_cycles(machine)
    for rows in range(first, max(min(height, MOST_ROWS), first) + 1, tile.rows):
        if rows > first and layer.image(rows) > machine.l2 // 2:
            return
        copied = layer.image(rows) * 8 // layer.bits / layer.lanes * copy_cycles(machine) if layer.padded else 0.0
        fetched = layer.weights * fetch_cycles(layer.weights * layer.groups, machine)
        sums = _step_cycles(layer, tile, rows, cycles) * terms
        for parts in range(1, min(chunks, 2 * machine.cores) + 1):
            if chunks % parts:
                continue
            whole, cut = divmod(height, rows)
            tasks = (layer.batch or 1) * (whole + bool(cut)) * parts
            busy = sum(
                (tasks * height) / (-(-tasks // team) * team * (whole + bool(cut)) * rows) for team in teams
            ) / len(teams)
            yield busy / (1 + (copied * parts + fetched) / max(sums, 1)), rows, parts
