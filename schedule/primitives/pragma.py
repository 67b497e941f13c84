"""pragma: what passes and code generation are told about a loop, or with a loop about the program."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import dataclass, replace, user_source
from ...ir.copies import BULK_STORE
from ...ir.expr import Expr, IntImm, IterVar, StringImm
from ...ir.ops import const, is_const
from ...ir.passes.common.loop_partition import HINT
from ...ir.passes.cpu.nontemporal import NONTEMPORAL
from ...ir.passes.cpu.reassociation import REASSOCIATE
from ...ir.passes.cpu.unroll_and_jam import JAM
from ...ir.passes.gpu.accumulated_parts import ACCUMULATE
from ...ir.passes.gpu.flushed_powers import FLUSH
from ...ir.passes.gpu.hardware import RESIDENT
from ..errors import UnknownPragma
from ..model.attributes import IMPORT_C, IMPORT_LLVM, SKIP
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS, FLAG, NOTHING, either, integer, require_one
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import each_loop

__all__ = ["KEYS", "pragma"]


@dataclass(frozen=True, slots=True)
class _Key:
    """Values of a key: a test, and the value of an example."""

    takes: Callable[[object], bool]
    example: object


_SWITCH = _Key(lambda value: value is None or isinstance(value, (bool, int)), None)
_COUNT = _Key(lambda value: isinstance(value, int) and value >= 0, 16)
_TEXT = _Key(lambda value: isinstance(value, str) and bool(value.strip()), "the text that defines the functions")

KEYS = {
    "auto_unroll_max_step": _COUNT,
    "unroll_explicit": _Key(_COUNT.takes, True),
    "parallel_launch_point": _SWITCH,
    "parallel_stride_pattern": _SWITCH,
    "parallel_barrier_when_finish": _SWITCH,
    HINT: _SWITCH,
    NONTEMPORAL: _SWITCH,
    RESIDENT: _SWITCH,
    BULK_STORE: _SWITCH,
    FLUSH: _SWITCH,
    ACCUMULATE: _SWITCH,
    REASSOCIATE: _SWITCH,
    JAM: _SWITCH,
    SKIP: _SWITCH,
    IMPORT_LLVM: _TEXT,
    IMPORT_C: _TEXT,
}
"""What passes read."""

_FOREIGN = {
    "axis": AXIS,
    "pragma_value": either(NOTHING, FLAG, integer(0, 4096)),
    "pragma_type": require_one(
        "auto_unroll_max_step",
        "unroll_explicit",
        "parallel_launch_point",
        "parallel_stride_pattern",
        "parallel_barrier_when_finish",
        HINT,
        NONTEMPORAL,
        RESIDENT,
        BULK_STORE,
        FLUSH,
        ACCUMULATE,
        REASSOCIATE,
        JAM,
    ),
}
"""Without those that bring code or leave loops out."""


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.leaf_iter_vars)
    if stage is None:
        return None
    axis = drawer.pick(stage.leaf_iter_vars)
    pragmas: list[tuple[str, Any]] = [
        ("auto_unroll_max_step", 8),
        ("auto_unroll_max_step", 64),
        ("unroll_explicit", True),
        ("parallel_barrier_when_finish", None),
        ("parallel_stride_pattern", None),
        ("parallel_launch_point", None),
        (HINT, None),
        (RESIDENT, None),
        (REASSOCIATE, None),
        (JAM, None),
    ]
    key, value = drawer.pick(pragmas)
    return f"pragma({axis.name}, {key}) of {stage.name}", lambda: stage.pragma(axis, key, value)


@primitive(
    StagePrimitives,
    "kinds",
    named=(),
    tries=each_loop(lambda stage, axis: stage.pragma(axis, "unroll_explicit", True)),
    draw=_draw,
    weight=2,
    foreign=_FOREIGN,
)
def pragma(stage: Stage, axis: IterVar, pragma_type: str, pragma_value: int | str | None = None) -> None:
    """Say something to the passes about a loop. A key that was set before takes the new value.

        for i in 3:       →      C[0] = A[0]               # pragma(i, "unroll_explicit", True)
            C[i] = A[i]          C[1] = A[1]
                                 C[2] = A[2]

    - auto_unroll_max_step: the number of statements up to which loops below are unrolled.
    - unroll_explicit: unroll here rather than leave it to LLVM (0 or 1).
    - import_llvm: LLVM IR as text that defines functions which the program calls, whatever the loop; import_c: the same in C.
    - debug_skip_region: the loop is left out, with all that it holds.
    - parallel_stride_pattern: of a parallel loop; neighbouring iterations go to different tasks.
    - parallel_launch_point: of a loop around a parallel one; the threads are launched here, once, where iterations are shown
      not to depend on each other.
    - parallel_barrier_when_finish: of a parallel loop within such a one; all threads finish it before anything goes on, so that
      iterations around it may depend on each other.
    - loop_partition_hint: the loop is cut where the guards of values in it end, those of te.if_then_else, so that most iterations
      have none: windows over padded images. Other loops are cut where te.likely, or lanes, ask for it.
    - nontemporal_store: vectorized loops from here down store past the caches, where CPUs can: for large results that are not
      read soon; a hint, for loops whose lanes store side by side to one tensor.
    - resident_blocks: of a loop around blocks along x alone; all iterations of both loops are parts of the work, which as many blocks
      as the GPU at hand holds take one after the other, in whole clusters. They are not to depend on each other.
    - bulk_store: of the outermost of loops that copy from shared memory to a tensor, element by element and bound to nothing; the copy
      engine of sm_90a stores boxes instead. The memory is "shared", or "swizzled", of which four warps store their sums by rows.
    - flush_powers: te.exp2 of float32 within the loop may be 0 where it is below 2**-126, and a product in its exponent is not rounded
      by itself, which GPUs compute in fewer instructions.
    - accumulate_parts: of the loop over the chunks that s.online merges, with tensor cores; weights of a chunk are taken from the
      largest score so far, and what these multiply is added to the sums where they lie, instead of merged with them.
    - reassociate: of the innermost loop of a script; what it adds up is added in any order, by the lanes of vectors where CPUs have
      them (OpenMP's reduction of a simd loop).
    - unroll_and_jam: of a script's loop around loops; four iterations share a pass of these, in registers, where none of them touches
      what another one does out of its turn. No bit changes.

    Parameters
    ----------
    axis : IterVar
        A loop of the stage.
    pragma_type : str
        One of the above.
    pragma_value : int, bool, str or None, default None
        A number of statements, 0 or 1, or a text, as said above; from debug_skip_region on none, a bool or an integer.

    Raises
    ------
    UnknownPragma (TW0214)
        No pass reads it, or not with this value.
    AxisIsNoLoop (TW0205)
        The loop was split or fused.
    NotAnAxisOfStage (TW0202)
        The axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    """
    find_leaf(stage, axis, "cannot put a pragma on")
    headline = f"cannot put the pragma {pragma_type!r} on '{axis.name}' of stage {stage.name}"

    def bad(reason: str, fix: str) -> UnknownPragma:
        return UnknownPragma(
            headline,
            reason=reason,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            allowed=", ".join(KEYS),
            fix=fix,
        )

    known = KEYS.get(pragma_type) if isinstance(pragma_type, str) else None
    if known is None:
        raise bad("no pass reads this key", f's[{stage.name}].pragma({axis.name}, "auto_unroll_max_step", 16)')
    plain = pragma_value.value if isinstance(pragma_value, (IntImm, StringImm)) else pragma_value
    if not isinstance(plain, (int, str, type(None))):
        raise bad(f"its value is {pragma_value!r}, no constant"[:200], "give an integer, a bool or a string")
    if not known.takes(plain):
        example = "" if known.example is None else f", {known.example!r}"
        raise bad(f"its value is {plain!r}"[:200], f"s[{stage.name}].pragma({axis.name}, {pragma_type!r}{example})")
    stage.schedule.record("pragma", stage, axis=axis, pragma_type=pragma_type, pragma_value=plain)
    noted: Expr = StringImm(plain) if isinstance(plain, str) else const(1 if plain is None else int(plain))
    attr = stage.attr(axis)
    others = tuple(pair for pair in attr.pragmas if pair[0] != pragma_type)
    stage.iter_var_attrs[axis] = replace(attr, pragmas=(*others, (pragma_type, noted)))
    if pragma_type == FLUSH and not is_const(noted, 0):
        stage.schedule.losses.append(f"powers of 2 in {stage.name} that are below 2**-126 may be 0")
    if pragma_type == REASSOCIATE and not is_const(noted, 0):
        stage.schedule.losses.append(f"the loop over {axis.name} of {stage.name} adds in any order")
