"""Scans that share columns: recurrences after or beside each other, with what is computed element by element around them.

    F[t, j] = F[t - 1, j] / 2 + x[t, j]                              for columns j:              # a few at a time
    B[t, j] = B[t - 1, j] / 2 + F[n - 1 - t, j]          →               for t: F[t, j] = ...
    y[t, j] = B[n - 1 - t, j] - x[t, j]                                  for t: B[t, j] = ...
                                                                         for t: y[t, j] = ...

A column is an axis of the last operation at which, as it stands, each of them is read and computed, and which is time of none. In
whatever order each one reads the steps of another, the states of a block of columns need no other columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from ...ir.expr import IterVar, ProducerLoad
from ...te.operation import Operation, axis_extent
from ...te.scan import ScanOp
from ...te.shape import constant_extent, same_extent
from ...te.tensor import Tensor, find_tensor
from ..accesses import find_axes, op_loads
from ..operations import is_plain

__all__ = ["SharedColumns", "share_columns"]


class SharedColumns:
    """The columns that an operation shares with those that were taken, all of which are computed for it alone."""

    def __init__(self, output: Operation) -> None:
        self.columns = [axis for axis in output.axis if constant_extent(axis) != 1]
        self.places = {output.output(0): {axis: at for at, axis in enumerate(output.axis) if axis in self.columns}}
        """For each tensor the dimension that is a column; for that of a scan also that of its states, its first steps and updates."""
        self.taken: dict[Operation, None] = {output: None}

    def dimension(self, op: Operation, column: IterVar) -> int:
        """The dimension of an operation's results that is a column."""
        return self.places[op.output(0)][column]

    def take(self, op: Operation, steps: Collection[Operation] = ()) -> bool:
        """Return whether an operation shares columns with its readers, which were taken, and joins them. Only for a scan, whose steps are
        computed by `steps`, columns are given up."""
        before = self.columns, dict(self.places)
        for reader in [reader for reader in self.taken if any(tensor.op is op for tensor in reader.input_tensors)]:
            for load in op_loads(reader):
                if find_tensor(load).op is op:
                    self._meet(find_tensor(load), self._columns_read(reader, load))
        if op.is_stepwise:
            holds = all(map(is_plain, steps)) and self._take_steps(cast("ScanOp", op), steps) and bool(self.columns)
        else:
            holds = is_plain(op) and op.output(0) in self.places and self.columns == before[0]
        if holds:
            self.taken.update(dict.fromkeys((op, *steps)))
        else:
            self.columns, self.places = before
        return holds

    def _take_steps(self, scan: ScanOp, steps: Collection[Operation]) -> bool:
        """Return whether all states of a scan are met on the way from its updates to what they read."""
        memory = dict(scan.shared_memory)
        waiting = [output for output in scan.outputs if output in self.places]
        met = set(waiting)
        while waiting:
            tensor = waiting.pop()
            own = self.places[tensor]
            self.columns = [column for column in self.columns if own.get(column, 0) or tensor not in scan.outputs]
            for alias in (alias for alias, output in memory.items() if output is tensor):
                self.places[alias] = own
            for step in {alias.op: None for alias in (*memory, tensor) if memory.get(alias, alias) is tensor}:
                for load in op_loads(step) if step in steps else ():
                    read = memory.get(find_tensor(load), find_tensor(load))
                    if read in scan.outputs or read.op in steps:
                        self._meet(read, self._columns_read(step, load))
                        waiting += {read} - met
                        met.add(read)
        return met.issuperset(scan.outputs)

    def _columns_read(self, reader: Operation, load: ProducerLoad) -> dict[IterVar, int]:
        """The indices of a load that are columns of its reader."""
        own = self.places[reader.output(0)]
        places: dict[IterVar, int] = {}
        for column in self.columns:
            axis = reader.axis[own[column]]
            at = [place for place, index in enumerate(load.indices) if axis in find_axes(index)]
            extent = load.producer.shape[at[0]] if len(at) == 1 and load.indices[at[0]] is axis else None
            if extent is not None and same_extent(axis_extent(axis), extent):
                places[column] = at[0]
        return places

    def _meet(self, tensor: Tensor, places: dict[IterVar, int]) -> None:
        """Note where a tensor is read; columns are kept of which that is one dimension."""
        known = self.places.setdefault(tensor, places)
        self.columns = [column for column in self.columns if column in places and known.get(column) == places[column]]


def share_columns(output: Operation, scan: Operation, parts: Sequence[Operation]) -> SharedColumns:
    """The columns that an operation shares with scans and what lies between them, which are known to share some. scan: the last one;
    parts: the others, producers first, with the steps of the scans."""
    following = next(
        (at for at, op in enumerate(parts) if scan in {tensor.op for tensor in op.input_tensors}), len(parts)
    )
    members = [*parts[:following], scan, *parts[following:]]
    shared, inner = SharedColumns(output), {step for op in members for step in op.steps(members)}
    for op in reversed(members):
        if op not in inner and op is not output:
            shared.take(op, [*op.steps(members)])
    return shared
