"""Plans of tensorization: the match of a tensor intrinsic with the loops of a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...base import LoweringError, dataclass, user_source
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, IterVar, Var
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ..lowering.computation import Loop, StageBounds
from ..model.checks import outline

__all__ = ["Part", "Plan", "TensorizedStage"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a tensor that an intrinsic works on. begin: in the tensor, for each of its dimensions. dims: which of
    them are the dimensions of the intrinsic's tensor, in its order; in the others the part is one element wide."""

    tensor: Tensor
    begin: tuple[Expr, ...]
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of a match, for lowering: the intrinsic, for the sizes that it has here, the place of its loop, and the part that each
    of its tensors is."""

    intrinsic: TensorIntrin
    place: int
    parts: dict[Tensor, Part]
    scalars: Mapping[Var, Expr]
    """The values of the intrinsic's scalar parameters, in terms of loops, tensors being read as tensors."""


@dataclass(slots=True)
class TensorizedStage:
    """A stage as the match sees it. resolve: replaces axes, threads and symbols in a value, keeping reads of tensors."""

    stage_bounds: StageBounds
    place: int
    intrinsic: TensorIntrin
    analyzer: Analyzer
    axes: Mapping[IterVar, Expr]
    """The value of each root axis in terms of loops."""
    resolve: Callable[[Expr, Mapping[IterVar, Expr]], Expr]

    @property
    def inner(self) -> tuple[Loop, ...]:
        return self.stage_bounds.loops[self.place :]

    def error(self, kind: type[LoweringError], reason: str, fix: str, shown: str = "") -> LoweringError:
        """The error of `kind` about the tensorized loop; shown: what stands below the loops."""
        loop, stage = self.stage_bounds.loops[self.place], self.stage_bounds.computation.stage
        return kind(
            f"cannot tensorize '{loop.axis.name}' of stage {stage.name} by {self.intrinsic.name}",
            reason=reason,
            declared=stage.op.source,
            called=user_source(),
            fix=fix,
            loops=outline(stage, [loop.axis]) + (f"\n{shown}" if shown else ""),
        )
