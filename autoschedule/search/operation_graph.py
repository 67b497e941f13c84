"""What the rules of the derived space want to know about the operations of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.analysis.work import innermost, work_of
from ...ir.cached import cached_property
from ...schedule import create_schedule
from ...schedule.primitives.auto_inline import is_elementwise
from ...te import Tensor
from ...te.operation import Operation
from ..operations import axes_in, extents_of, fixed_extent, loads_of

__all__ = ["OperationGraph", "has_reuse"]


class OperationGraph:
    """The operations of a function as they were declared.

    ops: what computes, producers first. outputs: those whose tensors are passed, or are read whole by what is no compute.
    consumers: who reads each.
    """

    def __init__(self, args: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.args, self.output_tensors = tuple(args), list(outputs)
        stages = create_schedule(self.output_tensors).stages
        self.ops: list[Operation] = [stage.op for stage in stages if stage.op.values]
        self.other_ops = [stage.op for stage in stages if not stage.op.values and not stage.op.is_given]
        self.outputs: set[Operation] = {tensor.op for tensor in outputs}
        self.outputs.update(tensor.op for other in self.other_ops for tensor in other.input_tensors)
        self.consumers: dict[Operation, list[Operation]] = {op: [] for op in self.ops}
        for op in self.ops:
            for source in dict.fromkeys(tensor.op for tensor in op.input_tensors):
                if source in self.consumers:
                    self.consumers[source].append(op)

    @cached_property
    def work(self) -> int:
        """How many elements are computed, those of reductions included."""
        return sum(innermost(work_of(op.statement()), unknown=0) for op in self.ops)

    @cached_property
    def tails(self) -> dict[Operation, list[Operation]]:
        """For each reduction with reuse: the elementwise operations after it, each read by the next alone. The last one
        is where its tiles are stored."""
        claimed: set[Operation] = set()
        tails: dict[Operation, list[Operation]] = {}
        for op in self.ops:
            if has_reuse(op):
                tail = list(self._tail(op))
                tail = tail if not claimed.intersection(tail) else []
                claimed.update(tail)
                tails[op] = tail
        return tails

    def _tail(self, op: Operation) -> Iterator[Operation]:
        current = op
        while current not in self.outputs and len(self.consumers[current]) == 1:
            reader = self.consumers[current][0]
            same = extents_of(reader) == extents_of(op)
            if not same or not _reads_at_axes(reader, current) or reader.num_outputs > 1:
                return
            yield reader
            current = reader


def _reads_at_axes(reader: Operation, source: Operation) -> bool:
    """Whether `reader`, no reduction, reads `source` at exactly its own axes."""
    if reader.reduction is not None or reader.calls_intrinsic:
        return False
    if is_elementwise(reader):
        return True
    reads = [load for load in loads_of(reader) if load.producer is source.output(0)]
    return all(len(load.indices) == len(reader.axis) and all(a is b for a, b in zip(load.indices, reader.axis, strict=True))
               for load in reads)


def has_reuse(op: Operation) -> bool:
    """Whether it is a reduction in which each of two or more tensors lacks one of the data axes: what is read can be
    used for a whole tile. What a tensor intrinsic computes is tiled by that."""
    if op.calls_intrinsic:
        return False
    if op.reduction is None or op.num_outputs > 1 or any(fixed_extent(axis) == 0 for axis in (*op.axis, *op.reduce_axis)):
        return False
    axes = {axis for axis in op.axis if fixed_extent(axis) > 1}
    loads = [{axis for index in load.indices for axis in axes_in(index)} for load in loads_of(op)]
    lacking = [bool(axes - used) for used in loads]
    return len(loads) >= 2 and bool(axes) and any(lacking) and (all(lacking) or len(axes) > 1)
