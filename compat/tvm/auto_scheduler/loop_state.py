"""tvm.auto_scheduler.loop_state: schedules that are written step by step, in TVM's words for its search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.expr import IterVar
from ....schedule import Schedule
from ....te import Operation, Tensor
from ....te.shape import constant_extent
from .steps import ANNOTATIONS, Steps

__all__ = ["State", "StateStage"]


class StateStage:
    """A stage of a state: op, and the loops that it has now, outermost first."""

    def __init__(self, stage: Any, loops: Sequence[IterVar]) -> None:
        self.op: Operation = stage.op
        self.iters = list(loops)
        self.compute_at: str = stage.attach_type


class State:
    """A schedule under way, made by ComputeDAG.get_init_state(). Stages are named by operations, tensors, or numbers in the order
    of `stages`; loops are those of `state[C].iters`. Each step returns the loops, or the stage, that it makes. Steps raise what the
    primitives raise, and ValueError for a loop or a stage that is not there."""

    def __init__(self, tensors: Sequence[Tensor], steps: Sequence[Sequence[Any]] = ()) -> None:
        self._tensors = list(tensors)
        self._steps = Steps(tensors)
        for step in steps:
            self._steps.take(step)

    @property
    def transform_steps(self) -> list[Sequence[Any]]:
        """The steps so far, as lines of a log hold them."""
        return list(self._steps.steps)

    @property
    def stages(self) -> list[StateStage]:
        """The stages with their loops, inputs first."""
        return [StateStage(stage, self._steps.axes[stage]) for stage in self._steps.stages]

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages."""
        return [stage.op for stage in self._steps.stages]

    @property
    def schedule(self) -> Schedule:
        """The schedule that the steps have made; it is this state's own."""
        return self._steps.s

    def copy(self) -> State:
        """A state of the same steps."""
        return State(self._tensors, self.transform_steps)

    def __getitem__(self, stage: Any) -> StateStage:
        return self.stages[self._number(stage)]

    def __str__(self) -> str:
        return str(self._steps.s)

    def _number(self, stage: Any) -> int:
        if isinstance(stage, int):
            return stage
        op = stage.op if isinstance(stage, (Tensor, StateStage)) else stage
        for number, each in enumerate(self._steps.stages):
            if op in (each.op, each.origin_op):
                return number
        raise ValueError(f"the state has no stage {getattr(op, 'name', op)!r}")

    def _place(self, stage: Any, loop: Any) -> tuple[int, int]:
        """The numbers of a stage and of a loop of it. A loop of the state that this one was copied from is the one of its name."""
        number = self._number(stage)
        loops = self._steps.axes[self._steps.stages[number]]
        if isinstance(loop, int):
            return number, loop
        same = [at for at, each in enumerate(loops) if each is loop] or [
            at for at, each in enumerate(loops) if each.var.name == loop.var.name
        ]
        if len(same) != 1:
            raise ValueError(
                f"{loop.var.name} is not a loop of {self._steps.stages[number].name}; "
                f"there are {', '.join(each.var.name for each in loops)}"
            )
        return number, same[0]

    def _loops(self, number: int) -> list[IterVar]:
        return self._steps.axes[self._steps.stages[number]]

    def _annotate(self, stage: Any, loop: Any, word: str) -> IterVar:
        number, at = self._place(stage, loop)
        self._steps.take(["AN", number, at, ANNOTATIONS[word]])
        return self._loops(number)[at]

    def bind(self, stage: Any, iterator: Any, thread_name: str) -> IterVar:
        """Loops run by threads: "blockIdx.x", "threadIdx.y", "vthread" and their like."""
        return self._annotate(stage, iterator, thread_name)

    def parallel(self, stage: Any, iterator: Any) -> IterVar:
        """Run a loop in parallel."""
        return self._annotate(stage, iterator, "parallel")

    def vectorize(self, stage: Any, iterator: Any) -> IterVar:
        """Run a loop by lanes."""
        return self._annotate(stage, iterator, "vectorize")

    def unroll(self, stage: Any, iterator: Any, max_unroll: int | None = None) -> IterVar:
        """Unrolls a loop; one that is longer than max_unroll stays."""
        number, at = self._place(stage, iterator)
        extent = constant_extent(self._loops(number)[at])
        if max_unroll is not None and extent is not None and extent > max_unroll:
            return self._loops(number)[at]
        return self._annotate(stage, iterator, "unroll")

    def fuse(self, stage: Any, iters: Sequence[Any]) -> IterVar:
        """Loops that follow each other as one."""
        places = [self._place(stage, each) for each in iters]
        number, first = places[0]
        self._steps.take(["FU", number, [at for _, at in places]])
        return self._loops(number)[first]

    def pragma(self, stage: Any, iterator: Any, pragma_type: str) -> None:
        """A pragma on a loop, "auto_unroll_max_step$64"."""
        self._steps.take(["PR", *self._place(stage, iterator), pragma_type])

    def reorder(self, stage: Any, order: Sequence[Any]) -> None:
        """All loops of a stage in a new order."""
        places = [self._place(stage, each) for each in order]
        self._steps.take(["RE", self._number(stage), [at for _, at in places]])

    def split(self, stage: Any, iterator: Any, lengths: Sequence[int], inner_to_outer: bool = True) -> list[IterVar]:
        """A loop as one more than there are lengths, which are those of the inner ones, or of the outer ones."""
        number, at = self._place(stage, iterator)
        extent = constant_extent(self._loops(number)[at])
        return self._split(
            ["SP", number, at, extent, [int(each) for each in lengths], int(inner_to_outer)], len(lengths) + 1
        )

    def follow_split(self, stage: Any, iterator: Any, src_step_id: int, n_split: int) -> list[IterVar]:
        """A loop as another was split in an earlier step, in n_split + 1."""
        return self._split(["FSP", *self._place(stage, iterator), src_step_id, n_split], n_split + 1)

    def follow_fused_split(
        self,
        stage: Any,
        iterator: Any,
        src_step_ids: Sequence[int],
        level: int,
        factor_or_nparts: bool,
    ) -> list[IterVar]:
        """A loop in two by the product of lengths of earlier splits, whose results were fused."""
        return self._split(["FFSP", *self._place(stage, iterator), list(src_step_ids), level, int(factor_or_nparts)], 2)

    def _split(self, step: Sequence[Any], count: int) -> list[IterVar]:
        self._steps.take(step)
        return self._loops(step[1])[step[2] : step[2] + count]

    def storage_align(self, stage: Any, iterator: Any, factor: int, offset: int) -> None:
        """Pads what is stored along a dimension."""
        self._steps.take(["SA", *self._place(stage, iterator), factor, offset])

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Any) -> None:
        """Compute a stage within a loop of another."""
        self._steps.take(["CA", self._number(stage), *self._place(target_stage, target_iter)])

    def compute_inline(self, stage: Any) -> None:
        """Compute a stage where it is read."""
        self._steps.take(["CI", self._number(stage)])

    def compute_root(self, stage: Any) -> None:
        """Compute a stage before its readers."""
        self._steps.take(["CR", self._number(stage)])

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> Operation:
        """A copy of what a stage holds, for readers; the operation that makes it."""
        number = self._number(stage)
        self._steps.take(["CHR", number, scope_name, [self._number(each) for each in reader_stages]])
        return self.stage_ops[number + 1]

    def cache_write(self, stage: Any, scope_name: str) -> Operation:
        """Compute a stage elsewhere, and copy it from there; return the operation that computes it."""
        number = self._number(stage)
        self._steps.take(["CHW", number, scope_name])
        return self.stage_ops[number]

    def rfactor(self, stage: Any, iterator: Any, factor_iter_id: int) -> Operation:
        """Partial results of a reduction, along a loop of it; the operation that computes them."""
        number, at = self._place(stage, iterator)
        self._steps.take(["RF", number, at, factor_iter_id])
        return self.stage_ops[number]
