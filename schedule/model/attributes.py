"""Attributes of a stage's axes."""

from __future__ import annotations

from typing import Literal

from ...base.dataclass import dataclass
from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import const
from ...te.tensor_intrin import TensorIntrin

__all__ = [
    "IMPORTS",
    "IMPORT_C",
    "IMPORT_LLVM",
    "SKIP",
    "AttachType",
    "AxisKind",
    "IterAttr",
    "LoopNote",
    "loop_pragmas",
    "skips",
]

AxisKind = Literal["serial", "parallel", "vectorized", "unrolled", "thread", "tensorized"]
"""How the loop runs; never what it means."""

AttachType = Literal["root", "at", "with", "inline", "inlined"]
"""Where a stage is computed: before its consumers (root), at a loop of another stage (at), within the expressions of
its consumers (inline: asked for; inlined: done, by normalize())."""


IMPORT_LLVM, IMPORT_C = "import_llvm", "import_c"
IMPORTS = (IMPORT_LLVM, IMPORT_C)
"""The pragmas of text that defines functions: they say something about the program, not about the loop."""
SKIP = "debug_skip_region"
"""The pragma of a loop that is left out, with all that it holds."""


class LoopNote:
    """Note of a primitive about a loop, for the lowering in its row; its text is what messages say of the loop."""


@dataclass(frozen=True, slots=True, eq=False)
class IterAttr:
    """Annotations of a loop.

    kind: of the loop. bind_thread: the thread axis, exactly where kind is "thread". pragmas: in the order in which
    they were set, a key once. notes: of primitives with a lowering of
    their own. storage_align: (factor, offset) of the stride of this dimension. intrinsic: what stands in place of this loop
    and those inside it, where kind is "tensorized". vouched: that the iterations of a parallel loop are independent is the
    user's word.
    """

    kind: AxisKind = "serial"
    bind_thread: IterVar | None = None
    pragmas: tuple[tuple[str, Expr | None], ...] = ()
    storage_align: tuple[int, int] | None = None
    notes: tuple[LoopNote, ...] = ()
    intrinsic: TensorIntrin | None = None
    vouched: bool = False

    @property
    def annotates_loop(self) -> bool:
        """Return whether it says anything that would be lost with the loop."""
        return self.kind != "serial" or bool(self.pragmas) or bool(self.notes)

    def has_kind(self, other: IterAttr) -> bool:
        """Return whether a loop of which this is noted runs as one of which that is."""
        # notes have lowerings of their own, which are asked apart
        return self.kind == other.kind and self.bind_thread is other.bind_thread and self.pragmas == other.pragmas


def loop_pragmas(pragmas: tuple[tuple[str, Expr | None], ...]) -> tuple[tuple[str, Expr], ...]:
    """Return the pragmas that say something about the loop."""
    # TVM's pragmas without a value count as 1
    return tuple((key, value if value is not None else const(1)) for key, value in pragmas if key not in IMPORTS)


def skips(pragmas: tuple[tuple[str, Expr | None], ...]) -> bool:
    """Return whether a loop is left out."""
    # a value of 0 switches the pragma off
    return any(key == SKIP and not (isinstance(value, IntImm) and value.value == 0) for key, value in pragmas)
