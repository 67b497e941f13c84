"""Blocks of threads that share rows: a softmax's, a norm's, or the terms of one sum.

    rows[i] of x[i, k]          for blockIdx.x:  for threadIdx.y: rows of a block                       # at: what each row needs
                                  for part, for threadIdx.x, for 4 at once:  k = (part * threads + threadIdx.x) * 4 + ..

Where neighbours are other rows rather than elements of one, threadIdx.x and threadIdx.y change places. What is computed for each
row, or for each element of one, a thread keeps in registers: of an element the one that loaded it, of a row all that share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, gcd
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir.expr import Expr, IterVar, ProducerLoad
from ...ir.passes.gpu.hardware import MAX_THREADS
from ...ir.structural import structural_key
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import find_tensor
from ..accesses import contiguous_axes, dimension, find_axes, op_loads
from ..loops import fuse_axes
from ..operations import fixed_extent
from .threads import EACH, SECTOR, THREADS, VECTOR, WARP

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ...te.tensor import Tensor

__all__ = [
    "Row",
    "RowBlock",
    "bytes_at_once",
    "describe_block",
    "row_blocks",
    "rows_read",
    "find_vector_terms",
]

KEPT, MOST_KEPT = 16, 32
"""Elements of a row that a thread keeps in registers: as many as leave room for enough other threads, and at most."""


@dataclass(frozen=True)
class Row:
    """Rows that a kernel reduces.

    count: how many there are; extent: elements of one. vector: how many neighbours of one can be loaded at once. along: whether
    neighbours are elements of one row, else those of other rows. item: bytes of an element. again: whether elements are needed
    more than once.
    """

    count: int
    extent: int
    vector: int
    along: bool
    item: int
    again: bool


@dataclass(frozen=True)
class RowBlock:
    """Block of threads over whole rows.

    threads: that share a row; beside: rows of a block; vector: neighbouring elements that a thread takes at once. along: whether
    neighbours are elements of one row, else those of other rows. kept: whether a thread has all its elements in registers.
    """

    threads: int
    beside: int
    vector: int
    along: bool
    kept: bool

    def bind_rows(self, stage: Stage, outer: Sequence[IterVar], inner: Sequence[IterVar]) -> IterVar:
        """Binds the loops over rows, and those over the elements that are stored of each, which threads share; returns the loop
        under which a row is computed."""
        if outer:
            stage.reorder(*outer, *inner)
        elements = fuse_axes(stage, inner) if inner else None
        if outer:
            whole = self.along or fixed_extent(outer[-1]) < WARP
            block, row = stage.split(fuse_axes(stage, outer) if whole else outer[-1], factor=self.beside)
            block = block if whole else fuse_axes(stage, [*outer[:-1], block])
        elif elements is not None:
            one, elements = stage.split(elements, nparts=1)
            block, row = stage.split(one, factor=1)
        else:
            block, row = stage.split(stage.fuse(), factor=1)
        stage.bind(block, thread_axis("blockIdx.x"))
        stage.bind(row, thread_axis((0, self.beside if outer else 1), f"threadIdx.{'y' if self.along else 'x'}"))
        if elements is not None:
            stage.vectorize(self._share(stage, elements)[1])
        return row

    def _share(self, stage: Stage, axis: IterVar) -> tuple[IterVar, IterVar]:
        """The loop over a row's elements, or over a sum's terms, shared by threads; returns those of a thread and of a vector."""
        rest, vector = stage.split(axis, factor=self.vector)
        part, thread = stage.split(rest, factor=self.threads)
        stage.bind(thread, self._sharing)
        if self.kept:
            stage.unroll(part)
        return thread, vector

    def sum_up(self, s: Schedule, op: Operation) -> None:
        """Has the threads of a row share its sum, and load its terms a vector at once."""
        stage = s[op]
        copies = [s[s.cache_read(tensor, "local", [op])] for tensor in find_vector_terms(stage.op)]
        thread, vector = self._share(stage, fuse_axes(stage, stage.op.reduce_axis))
        stage.set_scope("local")
        stage.unroll(vector)
        for copy in copies:
            copy.compute_at(stage, thread)
            copy.vectorize(copy.op.axis[-1])

    def keep(self, stage: Stage, outer: Sequence[int], inner: Sequence[int]) -> None:
        """Has each thread compute its elements in registers. outer, inner: the places of the loops over rows and within one."""
        extents = [fixed_extent(axis) for axis in stage.op.axis]

        def places(*index: Expr) -> list[Expr]:
            number: Expr = index[inner[0]]
            for at in inner[1:]:
                number = number * extents[at] + index[at]
            rest = number // self.vector
            return [*(index[at] for at in outer), rest // self.threads, rest % self.threads, number % self.vector]

        loops = stage.transform_layout(places, 0)
        assert loops is not None, "the stage computes"
        *_, part, thread, vector = loops
        stage.set_scope("local")
        stage.bind(thread, self._sharing)
        stage.unroll(part)
        stage.vectorize(vector)

    @property
    def _sharing(self) -> IterVar:
        return thread_axis((0, self.threads), f"threadIdx.{'x' if self.along else 'y'}")


def rows_read(op: Operation, inner: Sequence[IterVar]) -> dict[Tensor, tuple[int, ...]]:
    """The tensors that an operation reads everywhere at an element of its own for each within a row, `inner` being the axes over
    those, each as it is; with the dimensions along which these run."""
    wanted = {axis for axis in inner if fixed_extent(axis) > 1}
    found: dict[Tensor, tuple[int, ...] | None] = {}
    for load in op_loads(op):
        tensor, at = find_tensor(load), tuple(place for place, index in enumerate(load.indices) if index in wanted)
        fits = _is_plain(load) and len(at) == len(wanted) and found.get(tensor, at) == at
        found[tensor] = at if fits else None
    return {tensor: at for tensor, at in found.items() if at}


def _is_plain(load: ProducerLoad) -> bool:
    """Return whether it is read at axes, each of them once, and at places that depend on none."""
    axes = [index for index in load.indices if isinstance(index, IterVar)]
    return len(axes) == len(set(axes)) and not any(
        find_axes(index) for index in load.indices if not isinstance(index, IterVar)
    )


def find_vector_terms(op: Operation) -> list[Tensor]:
    """The tensors of which neighbouring terms of a sum read neighbours, from whole vectors on, and nothing else."""
    last = op.reduce_axis[-1]
    places: dict[Tensor, set[object]] = {}
    for load in op_loads(op):
        along = last in contiguous_axes(load) and _begins_vector(load.indices[-1], last)
        places.setdefault(find_tensor(load), set()).add(tuple(map(structural_key, load.indices)) if along else None)
    return [tensor for tensor, read in places.items() if len(read) == 1 and None not in read]


def _begins_vector(index: Expr, axis: IterVar) -> bool:
    """Return whether an index is that axis, or a multiple of any vector's length further."""
    at = dimension(index)
    return at.offset % VECTOR == 0 and at.remainder(VECTOR).keys() <= {axis}


def bytes_at_once(tensors: Iterable[Tensor], along: bool, last: int) -> tuple[int, int]:
    """Return the number of elements of these tensors that a thread loads at once, and the bytes of the widest, of rows
    whose last dimension has `last` elements."""
    item = max((tensor.dtype.bytes for tensor in tensors), default=4)
    return gcd(max(VECTOR // item, 1), last) if along else 1, item


def row_blocks(row: Row) -> list[RowBlock]:
    """The blocks that may have such rows, those first that load whole sectors and leave room for others."""
    most = MAX_THREADS if row.along else MAX_THREADS // WARP
    powers = [1 << at for at in range(most.bit_length())]
    threads = [each for each in powers if each == 1 or each * row.vector <= row.extent]
    kept = [each for each in threads if _elements(row, each) <= KEPT] or [
        each for each in threads if _elements(row, each) <= MOST_KEPT
    ]
    if row.again:
        threads = kept or [each for each in threads if each >= min(THREADS, threads[-1])]
    else:
        threads = [each for each in threads if each >= EACH and each * EACH <= row.extent]
    ways = [RowBlock(each, _count_rows(row, each), row.vector, row.along, each in kept) for each in threads]
    return sorted(ways, key=lambda way: (way.along and way.threads * way.vector * row.item < SECTOR, way.threads))


def describe_block(block: RowBlock, row: Row) -> str:
    """Describe the choice made with a block, and the reason where that is less than 16 bytes at once, or more than once."""
    own = _elements(row, block.threads)
    text = f"{block.beside} rows a block, {block.threads} threads a row"
    if row.again:
        text += f" of {own} in registers" if block.kept else ", which is too long for registers and read again"
        text += ", which leave room for about half of the threads" if block.kept and own > KEPT else ""
    size = block.vector * row.item
    return text + (f", by {size} bytes since a row has {row.extent}" if row.along and size < VECTOR else "")


def _elements(row: Row, threads: int) -> int:
    """Return the number of elements of a row that a thread has."""
    return ceil(row.extent / (threads * row.vector)) * row.vector


def _count_rows(row: Row, threads: int) -> int:
    """Rows of a block: that fill it, and leave none half empty where that can be."""
    if not row.along:
        return WARP
    most = max(THREADS // 2 // threads, 1)
    return min(most, max(row.count & -row.count, max(WARP // threads, 4)))
