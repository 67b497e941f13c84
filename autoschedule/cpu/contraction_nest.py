"""The loops of a contraction as a product of matrices, as a nest to estimate before anything is scheduled.

    rows of A copied, by tiles                    unless they are read where they lie
    for outer, some rows, some panels (tasks):
      for panels:
        columns of B copied, one panel
        for tiles of rows:
          for the sum:  body: a multiply-add for each vector of the tile
          store the tile

Loops over rows and over columns are those of the operation's own axes, the last of which a tile takes whole or in part, so that
what each access touches is told from its own indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2, prod

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.expr import IterVar, ProducerLoad, Var
from ...te.operation import Operation
from ..accesses import contiguous_axes, load_access, load_axes, row_steps, store_access
from ..cost.instructions import NEAR, count_transfers
from ..forms.contraction import Contraction
from ..loop_nest import Body, Nest, nest_loops
from ..matrices import flat
from ..operations import fixed_extent, size_of
from .gemm_plan import Plan

__all__ = ["Elements", "Run", "contraction_nest", "copied_how", "lies_along", "read_in_place"]

GUARD = 2
"""Comparisons of lanes, and what joins them, for a vector of an image whose guard depends on them."""
LONG = 16
"""Terms of the innermost loop of a sum from which on the loops around it cost little."""


def lies_along(found: Contraction) -> bool:
    """Whether the elements of a row lie side by side, in the order in which they are summed up, and rows behind each other."""
    indices = found.a.indices
    last = len(found.summed) + (len(found.rows) if len(found.rows) > 1 else 0)
    return indices[len(indices) - last :] == (*(found.rows if len(found.rows) > 1 else ()), *found.summed)


def read_in_place(found: Contraction, way: Plan) -> bool:
    """Whether rows are read where they lie; those of a tensor that is read by columns too are not."""
    return (
        found.a.producer is not found.b.producer
        and found.a not in found.guarded
        and (
            lies_along(found)
            or (
                not way.depth
                and found.summed[-1] in contiguous_axes(found.a)
                and fixed_extent(found.summed[-1]) >= LONG
            )
        )
    )


def copied_how(load: ProducerLoad, along: Sequence[IterVar], summed: Sequence[IterVar], width: int, lanes: int) -> str:
    """How `width` neighbours `along` these axes come into a panel: "beside" each other as they lie, most of them in one row, or a
    few elements apart; "turned", loaded along the sum and turned in registers; or "apart", one by one."""
    inner = tuple(axis for axis in along if axis in load_axes(load))
    if (
        inner
        and _is_near(load, inner[-1])
        and (len(inner) == 1 or load.indices[-len(inner) :] == inner or fixed_extent(inner[-1]) >= 2 * lanes)
    ):
        return "beside"
    return "turned" if len(inner) == 1 and load.indices[-1] is summed[-1] and width % lanes == 0 else "apart"


def _crossing(load: ProducerLoad, along: Sequence[IterVar], lanes: int) -> float:
    """The part of the vectors of neighbours `along` these axes that cross the end of a row of the last of them."""
    inner = tuple(axis for axis in along if axis in load_axes(load) and fixed_extent(axis) > 1)
    if len(inner) < 2 or load.indices[-len(inner) :] == inner:
        return 0.0
    return min((lanes - 1) / fixed_extent(inner[-1]), 1.0)


def _is_near(load: ProducerLoad, axis: IterVar) -> bool:
    """Whether neighbours along an axis lie in one row, few enough elements apart for vectors of which lanes are picked."""
    return 1 <= row_steps(load).get(axis, 0) <= NEAR


@dataclass(frozen=True)
class Side:
    """Rows or columns in tiles: the loops over tiles, the outermost first, each axis with its iterations; about how many
    values of each axis one tile has, and how many in all."""

    loops: tuple[tuple[Var, int], ...]
    tile: Mapping[Var, int]
    size: int

    @staticmethod
    def of(axes: Sequence[tuple[Var, int]], size: int) -> Side:
        """That of several axes with their extents, which are one for the tiles."""
        tiles, left = ceil(prod(extent for _, extent in axes) / size), size
        loops: list[tuple[Var, int]] = []
        tile: dict[Var, int] = {}
        for axis, extent in reversed(axes):
            trips = max(round(extent / left), 1)
            tile[axis] = ceil(extent / trips)  # so that all tiles have all of it
            if left < extent:
                loops.insert(0, (axis, trips))
            left = ceil(left / extent)
        (first, _), *others = loops or [(axes[0][0], 1)]
        return Side(((first, ceil(tiles / prod(trips for _, trips in others))), *others), tile, size)


@dataclass(frozen=True, eq=False)
class Run:
    """Columns that lie behind each other as one axis, in B and in the result, so that runs of them are longer than the last of
    their axes: `column` of them, and what is touched there."""

    column: Var
    b: Access
    stored: Access

    @staticmethod
    def of(found: Contraction, op: Operation) -> Run | None:
        """That of a contraction; None where its columns lie apart."""
        load, columns, size = found.b, found.columns, size_of(found.columns)
        count, source = len(columns), load_access(load)
        behind = all(index is axis for index, axis in zip(load.indices[-count:], columns, strict=False))
        inside = tuple(map(fixed_extent, columns[1:]))
        if (
            found.mirrored
            or not behind
            or len(load.indices) < count
            or source.shape[len(source.shape) - count + 1 :] != inside
        ):
            return None
        column = Var("columns")
        b = Access(source.array, (*load.indices[:-count], column), (*source.shape[:-count], size))
        extents = tuple(map(fixed_extent, op.axis[:-count]))
        return Run(column, b, Access(op.output(0), (*op.axis[:-count], column), (*extents, size), stored=True))


@dataclass(frozen=True, eq=False)
class Elements:
    """What a contraction touches, at its own axes: of both tensors, of the panels that are copies of them, and of the result.
    panel: of one panel of columns, whose memory the next one takes again, at `column` of it."""

    a: Access
    b: Access
    rows: Access
    columns: Access
    column: Var
    panel: Access
    stored: tuple[Access, ...]
    run: Run | None = None

    @staticmethod
    def of(found: Contraction, op: Operation) -> Elements:
        """Those of an operation that is one."""
        panels = _panel(found.a, found.rows, found), _panel(found.b, found.columns, found)
        places: list[Mapping[IterVar, IterVar]] = [{}]
        if found.mirrored:
            places.append({found.rows[0]: found.columns[0], found.columns[0]: found.rows[0]})
        stored = tuple(store_access(op.output(0), [at.get(axis, axis) for axis in op.axis]) for at in places)
        column, summed = Var("column"), flat([(axis, fixed_extent(axis)) for axis in found.summed])
        panel = Access(found.b.producer, (column, summed), (size_of(found.columns), size_of(found.summed)))
        return Elements(load_access(found.a), load_access(found.b), *panels, column, panel, stored, Run.of(found, op))


def contraction_nest(found: Contraction, elements: Elements, way: Plan, machine: Machine, known: bool) -> Nest:
    """The nest of a contraction under a plan, with its copies. known: columns are copied when the kernel is built."""
    lanes, in_place = machine.lanes(found.b.dtype.bits), read_in_place(found, way)
    run = elements.run if way.together else None
    own = (
        [(axis, fixed_extent(axis)) for axis in found.columns]
        if run is None
        else [(run.column, size_of(found.columns))]
    )
    rows = Side.of([(axis, fixed_extent(axis)) for axis in found.rows], way.tile.rows)
    columns = Side.of(own, way.tile.columns)
    parts = [
        ceil(ceil(size_of(found.rows) / way.tile.rows) / max(way.row_tiles, 1)),
        ceil(ceil(size_of(found.columns) / way.tile.columns) / max(way.panels, 1)),
    ]
    inner: tuple[tuple[Var, int], ...] = (
        *rows.tile.items(),
        *columns.tile.items(),
        (elements.column, way.tile.columns),
    )
    panel, source, stored = elements.columns if known else elements.panel, elements.b, elements.stored
    if run is not None:  # whose memory the next panels of columns take again
        term = flat([(axis, fixed_extent(axis)) for axis in found.summed])
        held = Access(panel.array, (run.column, term), (way.tile.columns * way.panels, size_of(found.summed)))
        panel, source, stored = held, run.b, (run.stored,)
    accesses = elements.a if in_place else elements.rows, panel
    last, depth = found.summed[-1], size_of(found.summed)
    share = min((1 + (way.tile.rows + way.tile.columns) / size_of(found.rows)) / 2, 1) if found.mirrored else 1
    if in_place and not lies_along(found):
        summed = [(axis, fixed_extent(axis)) for axis in found.summed]
    else:  # one loop over all of them
        summed = [(last, ceil(depth / way.depth)), (last, way.depth)] if way.depth else [(last, depth)]

    def panels(number: int, wide: int) -> Nest:
        """So many of these columns each, in the loops that are not of tasks. Where columns are of several axes, LLVM keeps the
        addresses of their copy in a vector, and one of the sums in memory if the tile leaves no register."""
        vectors = ceil(wide / lanes)
        fma = way.tile.rows * vectors
        spilled = int(len(found.columns) > 1 and vectors * (way.tile.rows + 1) + 1 >= machine.registers)
        count = {"fma": fma, "load": way.tile.rows + vectors + spilled, "store": spilled}
        body = Body(count, accesses, inner, ("fma", 1), spilled)
        across = way.tile.rows * wide * found.mirrored  # results that are stored across lanes
        stores = way.tile.rows * count_transfers(wide, lanes, machine) + across
        end: tuple[Nest | Body, ...] = (Body({"store": stores, "shuffle": across}, stored, inner),)
        if way.depth:  # sums are added to a panel of results
            end = (nest_loops((Body({"load": fma, "store": fma}, (), inner),), summed[:1]), *end)
        (row, number_of_rows), *other_rows = _in_parts(rows.loops, parts[0])
        tiles = nest_loops((nest_loops((body,), summed), *end), ((row, ceil(number_of_rows * share)), *other_rows))
        copying = (
            ()
            if known
            else (_copying(found.b, source, panel, columns, found, found.columns, machine, elements.column),)
        )
        (axis, trips), *others = _in_parts(columns.loops, parts[1])
        over_panels = (axis, min(trips, number)), *others
        if way.together:
            inside = nest_loops((nest_loops((body,), summed), *end), over_panels)
            tiles = nest_loops((inside,), ((row, ceil(number_of_rows * share)), *other_rows))
            return Nest(None, 1, (*(nest_loops((copy,), over_panels) for copy in copying), tiles))
        return nest_loops((*copying, tiles), over_panels)

    whole, rest = divmod(size_of(found.columns), way.tile.columns)
    nests: tuple[Nest | Body, ...] = (panels(whole + 1, way.tile.columns),)
    if rest and parts[1] == 1 and len(columns.loops) == 1:  # the last panel is narrower
        nests = (*((panels(whole, way.tile.columns),) if whole else ()), panels(1, rest))
    tasks = [*((axis, fixed_extent(axis)) for axis in found.outer), (found.rows[0], parts[0]), (own[0][0], parts[1])]
    for axis, trips in reversed(tasks):
        if trips > 1:
            nests = (Nest(axis, trips, nests, way.parallel),)
    if not in_place:
        outer = [(axis, fixed_extent(axis)) for axis in found.outer if elements.a.step(axis)]
        copying = _copying(found.a, elements.a, elements.rows, rows, found, found.rows, machine)
        copies = nest_loops((copying,), (*outer, *rows.loops))
        nests = (Nest(copies.axis, copies.trips, copies.body, way.parallel), *nests)
    return Nest(None, 1, nests)


def _in_parts(loops: Sequence[tuple[Var, int]], parts: int) -> tuple[tuple[Var, int], ...]:
    """The loops over the tiles of one of so many parts."""
    (axis, trips), *others = loops
    return (axis, ceil(trips / parts)), *others


def _panel(load: ProducerLoad, own: Sequence[IterVar], found: Contraction) -> Access:
    """An element of the copy: panels are rows of it, which is as many bytes, and the axes of the sum are one."""
    axes = load_axes(load)
    data = [axis for axis in (*found.outer, *own) if axis in axes]
    summed = flat([(axis, fixed_extent(axis)) for axis in found.summed])
    return Access(load.producer, (*data, summed), (*map(fixed_extent, data), size_of(found.summed)))


def _copying(
    load: ProducerLoad,
    source: Access,
    panel: Access,
    side: Side,
    found: Contraction,
    own: Sequence[IterVar],
    machine: Machine,
    column: Var | None = None,
) -> Nest:
    """The loops that copy one panel, of as many values along `own` as its tile has; they are at `column` of it, where that is not
    told by their own places."""
    lanes, width = machine.lanes(load.dtype.bits), side.size
    how = copied_how(load, own, found.summed, width, lanes)
    loops = [(axis, fixed_extent(axis)) for axis in found.summed]
    inner: dict[Var, int] = {**side.tile, **({column: width} if column is not None else {})}
    number = float(count_transfers(width, lanes, machine) if how == "beside" else width)
    count = {"load": number, "store": number} if how != "apart" else {"picked": number, "put": number}
    if load in found.guarded:
        count["select"] = GUARD * number
        if not machine.masks:
            count["masked"] = count.pop("load", 0.0) + count.pop("picked", 0.0)
    elif how == "beside":
        across = number * _crossing(load, own, lanes)
        count |= {"load": number - across, "gather": across}
    if how == "turned":
        axis, extent = loops[-1]
        loops[-1], inner[axis] = (axis, ceil(extent / lanes)), lanes
        count["shuffle"] = width * log2(lanes)
    written = replace(panel, stored=True)
    return nest_loops((Body(count, (source, written), tuple(inner.items())),), loops)
