"""The loops of a convolution by channels or along rows, as a nest to estimate before anything is scheduled."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.expr import Var
from ...te.operation import Operation
from ..accesses import ASSUMED, load_access, op_loads, store_access
from ..forms.convolution import Convolution
from ..loop_nest import Body, Nest, nest_loops
from ..matrices import flat
from ..operations import fixed_extent
from .conv_plan import Layer, Plan, Tile, pieces

__all__ = ["ConvNests"]


class ConvNests:
    """The nests of one convolution. layer: its sizes. packed: whether weights are put into blocks by each call; parallel: whether
    threads share tasks."""

    def __init__(
        self, op: Operation, found: Convolution, layer: Layer, machine: Machine, packed: bool, parallel: bool
    ) -> None:
        self.op, self.found, self.layer, self.machine = op, found, layer, machine
        self.packed, self.parallel = packed, parallel
        layout = found.layout
        self.batch, self.channels = op.axis[0], op.axis[layout.channels]
        self.y, self.x = op.axis[layout.rows], op.axis[layout.columns]
        self.height, self.width = layer.height or ASSUMED, layer.width or ASSUMED
        self.summed = [(axis, fixed_extent(axis)) for axis in op.reduce_axis]
        reads = {load.producer: load for load in op_loads(op)}
        self.image = load_access(reads[found.image])
        own = [(axis, fixed_extent(axis)) for axis in op.axis[layout.channels : layout.channels + 1]]
        own += [(op.axis[layout.lane], layer.block)] if layout.lane is not None else []
        channels = prod(extent for _, extent in own)
        self.weights = Access(
            found.weights, (flat(self.summed), flat(own)), (prod(size for _, size in self.summed), channels)
        )
        self.result = store_access(op.output(0), op.axis)

    def by_channels(self, plan: Plan) -> Nest:
        """Lanes along channels, under a plan."""
        layer, tile = self.layer, plan.tile
        chunks = ceil(layer.outputs / (tile.vectors * layer.lanes)) * layer.groups
        bands = ceil(self.height / plan.band)
        inside = self._rows(tile, min(plan.band, self.height), self._channels(tile.vectors * layer.lanes))
        first: list[Nest] = []
        if plan.banded:
            copy = [self._copied(layer.band(plan.band))] if layer.padded else []
            part = Nest(None, 1, (*copy, Nest(self.channels, ceil(chunks / plan.parts), inside)))
            nest = Nest(self.y, bands, (Nest(self.channels, plan.parts, (part,), self.parallel),), self.parallel)
        else:
            first += [self._copied(layer.band(self.height))] if layer.padded else []
            nest = Nest(self.channels, chunks, (Nest(self.y, bands, inside, self.parallel),), self.parallel)
        if layer.flat:
            first.append(self._copied(self.height))
        if self.packed:
            first.append(self._packing())
        return Nest(None, 1, (*first, Nest(self.batch, layer.batch or 1, (nest,), self.parallel)))

    def by_columns(self, tile: Tile) -> Nest:
        """Lanes along rows of the result; columns of a tile are lanes."""
        layer = self.layer
        inside = tuple(
            Nest(self.x, trips, self._piece(tile.vectors, size)) for size, trips in pieces(self.width, tile.columns)
        )
        chunks = ceil(layer.outputs / tile.vectors) * layer.groups
        nest = Nest(self.channels, chunks, (Nest(self.y, self.height, inside, self.parallel),), self.parallel)
        first = [self._copied(layer.band(self.height))] if layer.padded else []
        return Nest(None, 1, (*first, Nest(self.batch, layer.batch or 1, (nest,), self.parallel)))

    def _piece(self, channels: int, columns: int) -> tuple[Nest | Body, ...]:
        """Some channels of a piece of a row: its sums, and what stores them."""
        vectors, stride = ceil(columns / self.layer.lanes), self.layer.stride[1]
        inner: tuple[tuple[Var, int], ...] = ((self.channels, channels), (self.x, columns))
        across = self.machine.vector_bytes / self.machine.line
        count = {
            "fma": float(channels * vectors),
            "load": vectors * (stride + across) + channels,
            "shuffle": float(vectors * (stride - 1)),
        }
        body = Body(count, (self.image, self.weights), inner, ("fma", 1))
        return nest_loops((body,), self.summed), Body({"store": channels * vectors}, (self.result,), inner)

    def _channels(self, many: int) -> tuple[tuple[Var, int], ...]:
        lane = self.found.layout.lane
        if lane is None:
            return ((self.channels, many),)
        return (self.channels, ceil(many / self.layer.block)), (self.op.axis[lane], self.layer.block)

    def _rows(self, tile: Tile, band: int, channels: tuple[tuple[Var, int], ...]) -> tuple[Nest, ...]:
        """The tiles of a band, for a chunk of channels; the last row and column of tiles are cut."""
        found: list[Nest] = []
        for rows, down in pieces(band, tile.rows):
            inside = tuple(
                Nest(self.x, across, self._tile(rows, columns, tile.vectors, channels))
                for columns, across in pieces(self.width, tile.columns)
            )
            found.append(Nest(self.y, down, inside))
        return tuple(found)

    def _tile(
        self, rows: int, columns: int, vectors: int, channels: tuple[tuple[Var, int], ...]
    ) -> tuple[Nest | Body, ...]:
        """The sums of a tile, and what stores them."""
        places = rows * columns
        inner = ((self.y, rows), (self.x, columns), *channels)
        body = Body({"fma": places * vectors, "load": places + vectors}, (self.image, self.weights), inner, ("fma", 1))
        turned = log2(self.layer.lanes) if self.found.layout.rule == "conv2d_nchw" else 0.0
        end = Body(
            {"load": places * vectors, "store": 2 * places * vectors, "shuffle": turned * places * vectors},
            (self.result,),
            inner,
        )
        return nest_loops((body,), self.summed), end

    def _copied(self, rows: int) -> Nest:
        """So many rows of the image, of all its channels, with zeros around them or in another order."""
        row = ceil(self.layer.image(rows) * 8 / self.layer.bits / max(rows, 1) / self.layer.lanes) * self.layer.groups
        stored = replace(self.image, stored=True)
        body = Body({"load": 1, "store": 1, "select": 1}, (self.image, stored))
        return nest_loops((body,), [(Var("line"), rows), (Var("vector"), row)])

    def _packing(self) -> Nest:
        """The weights in blocks of channels."""
        terms, channels = self.weights.shape
        lanes = self.layer.lanes
        stored = replace(self.weights, stored=True)
        assert isinstance(terms, int) and isinstance(channels, int)
        body = Body({"load": lanes, "store": lanes, "shuffle": lanes * log2(lanes)}, (stored,), self._channels(lanes))
        term, size = self.summed[0]
        loops = [(self.channels, ceil(channels / lanes)), (term, size), (Var("square"), ceil(terms / size / lanes))]
        return nest_loops((body,), loops, self.parallel)
