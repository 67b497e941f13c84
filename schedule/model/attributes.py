"""What a stage notes about one of its axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Expr, IterVar
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin

__all__ = ["Ahead", "AttachType", "AxisKind", "IterAttr", "Overlap"]

AxisKind = Literal["serial", "parallel", "vectorized", "unrolled", "thread", "tensorized"]
"""How the loop runs; never what it means."""

AttachType = Literal["root", "at", "inline", "inlined"]
"""Where a stage is computed: before its consumers (root), at a loop of another stage (at), within the expressions of
its consumers (inline: asked for; inlined: done, by normalize())."""


Overlap = Literal["", "double", "rolling"]
"""What iterations of the loop that a stage is computed at do with its storage: each has its own; two take turns, so that
the next one is loaded while one is used (double_buffer); what the last one computed is used again (rolling_buffer)."""


@dataclass(frozen=True)
class Ahead:
    """A prefetch of what iteration `offset` further on reads; around: of the loop that the stage is computed at. level: of
    the cache that it goes into."""

    tensor: Tensor
    offset: int
    around: bool = False
    level: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class IterAttr:
    """kind: of the loop. bind_thread: the thread axis, exactly where kind is "thread". pragmas: in the order in which
    they were set, a key once. storage_align: (factor, offset) of the stride of this dimension. intrinsic: what stands in
    place of this loop and those inside it, where kind is "tensorized"."""

    kind: AxisKind = "serial"
    bind_thread: IterVar | None = None
    pragmas: tuple[tuple[str, Expr | None], ...] = ()
    storage_align: tuple[int, int] | None = None
    prefetches: tuple[Ahead, ...] = ()
    intrinsic: TensorIntrin | None = None

    @property
    def annotates_loop(self) -> bool:
        """Whether it says anything that would be lost with the loop."""
        return self.kind != "serial" or bool(self.pragmas) or bool(self.prefetches)
