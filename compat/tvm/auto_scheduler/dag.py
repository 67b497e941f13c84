"""tvm.auto_scheduler.compute_dag: the operations of a function, to be printed and counted."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

from ....autotune.task import computed_tensors
from ....ir.expr import Expr, Reduce
from ....schedule import Schedule, create_schedule
from ....te import Operation, Tensor
from ..autotvm.task.flop import counted_flop
from .loop_state import State

__all__ = ["ComputeDAG"]


class ComputeDAG:
    """Operations of a function. tensors: of it, in call order. ops: their operations, inputs first. flop_ct: its operations on values."""

    def __init__(self, compute: Sequence[Tensor] | Schedule) -> None:
        schedule = compute if isinstance(compute, Schedule) else create_schedule(computed_tensors(compute))
        self.ops: list[Operation] = [stage.op for stage in schedule.stages]
        self.tensors = (
            list(compute) if not isinstance(compute, Schedule) else [tensor for op in self.ops for tensor in op.outputs]
        )
        self.flop_ct = counted_flop(schedule)

    def get_init_state(self) -> State:
        """The state without a step."""
        return State(self.tensors)

    def apply_steps_from_state(self, state: State, layout_rewrite: object = None) -> tuple[Schedule, list[Tensor]]:
        """The schedule that the steps of a state make, and the tensors. layout_rewrite is taken, without effect: weights are packed
        by schedules."""
        del layout_rewrite
        return State(self.tensors, state.transform_steps).schedule, list(self.tensors)

    def print_python_code_from_state(self, state: State) -> str:
        """The primitives of a state's schedule as Python."""
        return state.schedule.as_python()

    def infer_bound_from_state(self, state: State) -> State:
        """A copy of the state: bounds are known without being asked for."""
        return state.copy()

    def hash_key(self) -> str:
        """A text that functions of the same operations share."""
        return md5(str(self).encode(), usedforsecurity=False).hexdigest()

    def __str__(self) -> str:
        return "".join(f"{line}\n" for op in self.ops for line in _lines(op))

    __repr__ = __str__


def _lines(op: Operation) -> list[str]:
    shape = ", ".join(map(str, op.output_shape))
    if op.is_passed:
        return [f"{op.name} = PLACEHOLDER [{shape}]"]
    if not op.values:
        read = ", ".join(tensor.name for tensor in op.input_tensors)
        return [f"{op.name} = {op.kind}({read}) [{shape}]"]
    axes = ", ".join(axis.name for axis in op.axis)
    return [f"{tensor.name}({axes}) {_value(value)}" for tensor, value in zip(op.outputs, op.values, strict=True)]


_SIGNS = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


def _value(value: Expr) -> str:
    if isinstance(value, Reduce) and value.combiner.name in _SIGNS:
        return f"{_SIGNS[value.combiner.name]} {value.sources[value.value_index]}"
    return f"= {value}"
