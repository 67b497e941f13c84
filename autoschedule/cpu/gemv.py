"""Products of a matrix and a few vectors: every element of the matrix is read once, so memory decides, and its rows are to
be read as they lie.

    rows along the sum (w[j, k])                          rows across it (B[k, j])

    for task:  for tile of rows j:                        for part of the sum (in parallel):
        for k.outer:                                          for eight rows k:
            for j of the tile:  for k in lanes:                   for j in lanes:
                partial[j, lane] += w[j, k] * x[k]                    part[j] += B[k, j] * x[k] + B[k + 1, j] * x[k + 1] ...
        y[j] = sum over lanes of partial[j, lane]         y[j] = sum over parts of part[j]

A processor fetches ahead along a few rows at a time, and across the ends of rows that are read whole. A matrix that no cache
holds is read row after row of its tile, as it lies: one stream has all of memory's bandwidth, and several whose pages end one
after the other have not.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...codegen.machine import WAYS
from ...ir.expr import IntImm, ProducerLoad
from ...schedule import Stage
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import ASSUMED, source
from ..forms.contraction import Contraction, match_product
from ..loops import unroll_loops
from ..matrices import upstream
from ..operations import is_known
from .gemm_nest import product_sizes
from .gemm_plan import Product
from .lanes import CHAINS, LONG, VECTORS, vectors_of_a_chain
from .streams import LAST_CACHE
from .threads import TASKS, WORTH_THREADS

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["find_schedule"]

ALONG = 32
"""The most vectors beside a matrix whose rows lie along the sum: more are worth packing it."""
ALL_TOGETHER = 6
"""Vectors up to which all are multiplied with a row at once."""


@dataclass(frozen=True)
class Thin:
    """Product of a matrix with a few vectors.

    matrix: the operand that is read once; vectors: the other; outer: the place of the matrix's axis among the last two of
    the result, and few: how many vectors there are; along: whether the matrix's rows lie along the sum.
    """

    matrix: ProducerLoad
    vectors: ProducerLoad
    outer: int
    few: int
    along: bool


def find_schedule(group: Group) -> Callable[[Group], None] | None:
    """Return what schedules a product of a matrix and a few vectors; None where the group's anchor is none."""
    found = match_product(group.anchor)
    if found is None:
        return None
    sizes = product_sizes(group, found)
    shape = thin(group, found, sizes)
    return None if shape is None else lambda own: gemv(own, sizes, shape)


def thin(group: Group, found: Contraction, sizes: Product) -> Thin | None:
    """Return a product as one of a matrix and a few vectors; None where it is none."""
    anchor, lanes = group.anchor, group.machine.lanes(group.anchor.output(0).dtype.bits)
    (k,) = anchor.reduce_axis
    if sizes.in_place:
        return None
    for matrix, vectors, outer in ((found.b, found.a, 1), (found.a, found.b, 0)):
        few, last = constant_extent(anchor.axis[-1 - outer if outer else -1]), matrix.indices[-1]
        if few is None or constant_extent(anchor.axis[-2 + outer]) == 1 and outer == 0:
            continue
        most = ALONG if outer else lanes // 2  # more columns than that fill the lanes themselves
        most = min(most, ALL_TOGETHER) if upstream(group, matrix) else most  # which is computed anew for each few
        if last is k and few <= most and (sizes.k or ASSUMED) >= LONG * min(few - 1, VECTORS):
            return Thin(matrix, vectors, outer, few, True)
        if last is anchor.axis[-2 + outer] and few <= VECTORS:
            return Thin(matrix, vectors, outer, few, False)
    return None


def gemv(group: Group, sizes: Product, shape: Thin) -> None:
    """Schedules the group. What the matrix is computed from element by element is inlined: each is read once."""
    for head in upstream(group, shape.matrix):
        group.s[head].compute_inline()
    most = max(sizes.m, sizes.n) * (sizes.k or 1) * sizes.batch
    threads = group.machine.cores if most >= WORTH_THREADS else 1
    if shape.along:
        _schedule_along_sum(group, shape, threads)
    else:
        _schedule_across_rows(group, shape, sizes.batch, threads)


def _schedule_along_sum(group: Group, shape: Thin, threads: int) -> None:
    s, anchor, output = group.s, group.anchor, group.output
    (k,) = anchor.reduce_axis
    if shape.vectors.indices[-1] is not k:
        _copy_vectors(group, shape.vectors)
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    far, depth = _is_far(group, shape.matrix), constant_extent(k) or ASSUMED
    partials: list[Stage] = []
    for size in dict.fromkeys(min(size, depth) for size in (CHAINS * lanes if far else lanes, lanes)):
        _, part = s[anchor].split(s[anchor].op.reduce_axis[0], factor=size)
        partial = s.rfactor(anchor.output(0), part, factor_axis=len(anchor.axis))
        assert isinstance(partial, Tensor)
        partials.append(s[partial])
    stage = s[output]
    axes = list(stage.op.axis)
    outer, few = axes[-2 + shape.outer], axes[-1 - shape.outer]
    several = min(shape.few, VECTORS if shape.few > ALL_TOGETHER else ALL_TOGETHER)
    most = (group.machine.registers - 1 - several) // max(several, 1)
    extent = constant_extent(outer)
    rows = max(min(WAYS, most, extent or WAYS, ceil((extent or 1 << 30) / threads)), 1)
    tile, row = stage.split(outer, factor=rows)
    task, tile = stage.split(tile, factor=max(ceil((extent or 1 << 14) / rows / (threads * TASKS)), 1))
    some, few = stage.split(few, factor=max(several, 1))
    stage.reorder(*axes[:-2], task, tile, some, few, row)
    task = stage.fuse(*axes[:-2], task)
    if threads > 1:
        stage.parallel(task)
    sums = s[anchor]
    if output is not anchor:
        sums.set_scope("local")
        sums.compute_at(stage, some)
        unroll_loops(sums, sums.op.axis[-2:])
    else:
        stage.unroll(row)
    sums.unroll(sums.op.reduce_axis[0])
    for inner in partials:
        inner.set_scope("local")
        inner.compute_at(stage, some)
        _add_up(inner, shape.outer, far)


def _add_up(stage: Stage, outer: int, one_by_one: bool) -> None:
    """The sums of a tile, of all its rows together or of one after the other."""
    *batch, i, j, lane = stage.op.axis
    few, row = (i, j) if outer else (j, i)
    stage.reorder(*batch, *((row, *stage.op.reduce_axis) if one_by_one else (*stage.op.reduce_axis, row)), few, lane)
    stage.unroll(few)
    if not one_by_one:
        stage.unroll(row)
    stage.vectorize(lane)


def _is_far(group: Group, matrix: ProducerLoad) -> bool:
    """Return whether a matrix is read from memory: no cache holds it, or, of a model's weights, what is used in between has driven it out
    of those that are not shared."""
    tensor = source(matrix)
    known = [extent.value for extent in tensor.shape if isinstance(extent, IntImm)]
    room = group.machine.l2 if is_known(tensor) else LAST_CACHE // 2
    return len(known) == tensor.ndim and prod(known) * tensor.dtype.bytes > room


def _copy_vectors(group: Group, vectors: ProducerLoad) -> None:
    """A copy of the vectors in which each lies along the sum."""
    s = group.s
    copy = s.cache_read(source(vectors), "global", [group.anchor])
    for head in upstream(group, vectors):
        s[head].compute_inline()
    s[copy].transform_layout(lambda *at: [*at[:-2], at[-1], at[-2]])


def _schedule_across_rows(group: Group, shape: Thin, batch: int, threads: int) -> None:
    s, anchor, output = group.s, group.anchor, group.output
    (k,) = anchor.reduce_axis
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    depth, width = constant_extent(k) or 0, max(group.machine.l1 // 2 * 8 // anchor.output(0).dtype.bits, lanes)
    vectors = lanes * vectors_of_a_chain(group.machine)
    parts = min(threads * TASKS, depth // (4 * WAYS)) if threads > 1 and batch < threads else 1
    stage, sums = s[output], s[anchor]
    if parts > 1:
        part, _ = sums.split(k, nparts=parts)
        partial = s.rfactor(anchor.output(0), part)
        assert isinstance(partial, Tensor)
        _add_rows(s[partial], shape, vectors, width)
        s[partial].parallel(s[partial].op.axis[0])
    if output is anchor:
        sums = s[s.cache_write(anchor.output(0), "global")]
    else:
        sums.set_scope("global")
    axes = list(stage.op.axis)
    wide, row = stage.split(axes[-2 + shape.outer], factor=width)
    stage.reorder(*axes[:-2], wide, axes[-1 - shape.outer], row)
    task = stage.fuse(*axes[:-2], wide)
    if shape.outer or shape.few == 1:
        stage.vectorize(row)
    sums.compute_at(stage, task)
    if parts > 1:
        *outer, i, j = sums.op.axis
        few, row = (i, j) if shape.outer else (j, i)
        chunk, row = sums.split(row, factor=WAYS * lanes)
        sums.reorder(*outer, few, chunk, *sums.op.reduce_axis, row)
        sums.vectorize(row)
    else:
        _add_rows(sums, shape, vectors, width)
        if threads > 1:
            stage.parallel(task)


def _add_rows(sums: Stage, shape: Thin, lanes: int, width: int) -> None:
    """A few rows of the matrix at a time, times their elements of the vectors, onto sums in the first cache."""
    if not shape.outer and shape.few > 1:
        sums.transform_layout(lambda *at: [*at[:-2], at[-1], at[-2]])
        *outer, few, row = sums.op.axis
    else:
        *outer, i, j = sums.op.axis
        few, row = (i, j) if shape.outer else (j, i)
    (k,) = sums.op.reduce_axis
    several, k = sums.split(k, factor=WAYS)
    wide, row = sums.split(row, factor=width)
    vector, lane = sums.split(row, factor=lanes)
    sums.reorder(*outer, wide, several, vector, few, k, lane)
    sums.unroll(few)
    sums.unroll(k)
    sums.vectorize(lane)
