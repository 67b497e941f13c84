"""Attention: the scores of a block of queries stay in the second cache, and both products in registers.

    for task (batch, heads, blocks of queries; in parallel):
        query = q[block] * scale, transposed             # lanes are queries from here on, until values are added up
        for keys (a few):                                # product: keys broadcast, queries in lanes; k is read as it lies
            for d:  scores.tile += k[key, d] * query[d, lanes]
            scores[keys, lanes] = scores.tile, masked
        peak[lanes] = max over keys of scores;  weight = exp2(scores - peak);  total = sum over keys of weight
        for queries (a few), columns:                    # product: weights broadcast, columns of v in lanes
            for key:  value.tile += weight[key, query] * v[key, columns]
        y[block] = value / total ...                     # with what follows element by element

Keys and values are read in the order in which they lie, so nothing is packed but a block of queries. With query i seeing
keys 0 to i only, the loops over keys end where the block's last query does. A block of one or a few queries, as when a model
writes word by word, takes its scores by dot products along d, a vector at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import find_axes
from .transposes import MAX_TILE, transpose_rows

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["attention"]

FEW = 4
"""Queries of a block up to which vectors run along d."""


def attention(group: Group) -> None:
    """The rule."""
    _Attention(group).run()


class _Attention:
    def __init__(self, group: Group) -> None:
        self.group, self.s = group, group.s
        self.parts = {part.algorithm.removeprefix("attention."): part for part in group.parts}
        machine = group.machine
        self.lanes = machine.lanes(self.parts["query"].output(0).dtype.bits)
        self.vectors = 4 if machine.registers >= 32 else 2
        """Of a row of a register tile; it has as many rows as leave room for these and a broadcast element."""
        self.line = max(machine.line * 8 // self.parts["query"].output(0).dtype.bits, self.lanes)
        """Keys of which a row of a mask is read at a time: a cache line."""
        self.rows = 4
        self.block = constant_extent(self.parts["query"].axis[-1]) or 1

    def run(self) -> None:
        s, group, parts = self.s, self.group, self.parts
        group.inline_cheap_heads()
        task = self._store()
        stage, at = s[group.output], task
        s[parts["query"]].compute_at(stage, task)
        if "merged" in parts:
            stage, at = self._merge(stage, task)
        masked = parts.get("masked", parts["scores"])
        for part in (masked, *(parts[name] for name in ("max", "exp", "sum", "rounded", "value") if name in parts)):
            s[part].compute_at(stage, at)
        self._lanes_of_queries(s[parts["query"]])
        if self.block <= FEW:
            self._dot_products(masked)
        else:
            self._products(masked)
        for name in ("max", "sum"):
            self._schedule_reduction(parts[name])
        for name in ("exp", "rounded"):
            if name in parts:
                self._lanes_of_queries(s[parts[name]])
        self._values()

    def _store(self) -> IterVar:
        """The output: a task is a block of queries."""
        s, group = self.s, self.group
        stage = s[group.output]
        if group.anchor is not group.output:
            s[group.anchor].compute_inline()
        *outer, i, e = stage.op.axis
        shared = self._heads(group.anchor, 3) // self._heads(self.parts["query"], 4)
        if shared > 1:  # one block has the queries of so many heads
            outer[-1], head = stage.split(outer[-1], factor=shared)
            task, inner = stage.fuse(*outer), [head, i]
        else:
            block, i = stage.split(i, factor=self.block)
            task, inner = stage.fuse(*outer, block), [i]
        stage.parallel(task)
        columns, e = stage.split(e, factor=self.lanes)
        stage.reorder(task, *inner, columns, e)
        stage.vectorize(e)
        return task

    def _heads(self, part: Operation, place: int) -> int:
        """The extent of an axis, counted from the end; 1 where it is not known."""
        return max(constant_extent(part.axis[-place]) or 1, 1)

    def _merge(self, stage: Stage, task: IterVar) -> tuple[Stage, IterVar]:
        """Chunks of keys, one after another."""
        merged = self.s[self.parts["merged"]]
        merged.compute_at(stage, task)
        *outer, i, e = merged.op.axis
        (chunk,) = merged.op.reduce_axis
        columns, e = merged.split(e, factor=self.lanes)
        merged.reorder(*outer, chunk, i, columns, e)
        merged.vectorize(e)
        return merged, chunk

    def _lanes_of_queries(self, stage: Stage) -> None:
        stage.vectorize(stage.op.axis[-1])

    def _products(self, masked: Operation) -> None:
        """Scores in tiles of a few keys by vectors of queries."""
        s = self.s
        stage = s[masked]
        *outer, j, i = stage.op.axis
        stored, sums = self._tile(masked)
        stage = stored
        *outer, j, i = stage.op.axis
        keys, j = stage.split(j, factor=self.rows)
        queries, i = stage.split(i, factor=min(self.block, self.lanes * self.vectors))
        mask = self._mask_of_queries(masked)
        several = keys
        if mask is not None:
            several, keys = stage.split(keys, factor=max(self.line // self.rows, 1))
            transpose_rows(s, mask, mask.ndim - 2, [stage.op], min(self.lanes, MAX_TILE)).compute_at(stage, several)
        stage.reorder(*outer, *dict.fromkeys([several, keys]), queries, j, i)
        stage.unroll(j)
        stage.vectorize(i)
        sums.compute_at(stage, queries)
        self._accumulate(sums)

    def _mask_of_queries(self, masked: Operation) -> Tensor | None:
        """The mask that has a row for each query, whose lanes would be gathered one by one; None where there is none."""
        *_, j, i = masked.axis
        return next(
            (
                load.producer
                for load in collect_loads(masked.values[0])
                if isinstance(load.producer, Tensor)
                and load.producer.op is not self.parts["scores"]
                and load.producer.dtype.bits >= 32
                and load.producer.ndim > 1
                and i in find_axes(load.indices[-2])
                and j in find_axes(load.indices[-1])
            ),
            None,
        )

    def _tile(self, masked: Operation) -> tuple[Stage, Stage]:
        """The stage that stores scores, and the one of their sums in registers."""
        s, scores = self.s, self.parts["scores"]
        if masked is scores:
            return s[scores], s[s.cache_write(scores.output(0), "local")]
        s[scores].set_scope("local")
        return s[masked], s[scores]

    def _accumulate(self, sums: Stage) -> None:
        """A tile: the last two axes, rows one by one and columns in lanes, within the sum."""
        *outer, row, column = sums.op.axis
        (k,) = sums.op.reduce_axis
        sums.reorder(*outer, k, row, column)
        sums.unroll(row)
        sums.vectorize(column)

    def _schedule_reduction(self, part: Operation) -> None:
        """A reduction over keys, of all queries of the block in lanes."""
        s = self.s
        stage = s[part]
        sums = s[s.cache_write(part.output(0), "local")]
        *outer, i = stage.op.axis
        stage.vectorize(i)
        sums.compute_at(stage, outer[-1])
        *outer, i = sums.op.axis
        (j,) = sums.op.reduce_axis
        sums.reorder(*outer, j, i)
        sums.vectorize(i)

    def _values(self) -> None:
        """Weights times values, in tiles of a few queries by vectors of columns."""
        s, value = self.s, self.parts["value"]
        sums = s[s.cache_write(value.output(0), "local")]
        stage = s[value]
        *outer, i, e = stage.op.axis
        queries, i = stage.split(i, factor=min(self.rows, self.block))
        columns, e = stage.split(e, factor=self.lanes * self.vectors)
        stage.reorder(*outer, queries, columns, i, e)
        stage.unroll(i)
        stage.vectorize(e)
        sums.compute_at(stage, columns)
        self._accumulate(sums)

    def _dot_products(self, masked: Operation) -> None:
        """Scores of few queries: sums along d in lanes, which are added up at the end."""
        s, scores = self.s, self.parts["scores"]
        if masked is not scores:
            s[scores].compute_at(s[masked], s[masked].op.axis[-1])
        depth = scores.reduce_axis[0]
        if (constant_extent(depth) or 0) < self.lanes:
            return
        _, inner = s[scores].split(depth, factor=self.lanes)
        partial = s.rfactor(scores.output(0), inner, -1)
        stage = s[partial]
        stage.compute_at(s[scores], s[scores].op.axis[-1])
        *data, lane = stage.op.axis
        stage.reorder(*data, *stage.op.reduce_axis, lane)
        stage.vectorize(lane)
