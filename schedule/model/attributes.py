"""What a stage notes about one of its axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import const
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin

__all__ = ["IMPORTS", "IMPORT_C", "IMPORT_LLVM", "SKIP", "Ahead", "AttachType", "AxisKind", "IterAttr", "Overlap", "loop_pragmas",
           "skips"]

AxisKind = Literal["serial", "parallel", "vectorized", "unrolled", "thread", "tensorized"]
"""How the loop runs; never what it means."""

AttachType = Literal["root", "at", "inline", "inlined"]
"""Where a stage is computed: before its consumers (root), at a loop of another stage (at), within the expressions of
its consumers (inline: asked for; inlined: done, by normalize())."""


Overlap = Literal["", "double", "rolling"]
"""What iterations of the loop that a stage is computed at do with its storage: each has its own; two take turns, so that
the next one is loaded while one is used (double_buffer); what the last one computed is used again (rolling_buffer)."""


IMPORT_LLVM, IMPORT_C = "import_llvm", "import_c"
IMPORTS = (IMPORT_LLVM, IMPORT_C)
"""The pragmas of text that defines functions: they say something about the program, not about the loop."""
SKIP = "debug_skip_region"
"""The pragma of a loop that is left out, with all that it holds."""


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


def loop_pragmas(pragmas: tuple[tuple[str, Expr | None], ...]) -> tuple[tuple[str, Expr], ...]:
    """Those that say something about the loop."""
    return tuple((key, value if value is not None else const(1)) for key, value in pragmas if key not in IMPORTS)


def skips(pragmas: tuple[tuple[str, Expr | None], ...]) -> bool:
    """Whether a loop is left out."""
    return any(key == SKIP and not (isinstance(value, IntImm) and value.value == 0) for key, value in pragmas)
