"""set_scope: in which memory the results of a stage are kept."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import user_source
from ...ir.buffer import SCOPES
from ..errors import UnknownScope
from ..model.checks import check_scope
from ..model.foreign import SCOPE
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["set_scope"]


def _tries(stage: Stage) -> Iterator[Try]:
    if not stage.op.is_given:
        for scope in SCOPES:
            yield scope, lambda one, scope=scope: one.set_scope(scope)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: not stage.is_output)
    if stage is None:
        return None
    scope = drawer.pick(["local", "shared", "global", ""])
    return f"set_scope({stage.name}, {scope})", lambda: stage.set_scope(scope)


@primitive(StagePrimitives, "storage", tries=_tries, draw=_draw, weight=2, rare=True, foreign={"scope": SCOPE})
def set_scope(stage: Stage, scope: str) -> None:
    """Keep its results in the memory `scope`.

        B: float32[64]          →      B: float32[64], shared             # set_scope("shared")

    scope: "global", "shared" (of a block of threads), "local" (of one thread) or "warp"; "" for the default of its place:
    global without threads around, shared under blocks, local under threads. Outputs and placeholders are global. Registers that
    tensor cores read have scopes of their own ("mma_a", "wgmma_c", ...), and "swizzled" is shared memory in the order in which
    products of four warps read it: whole panels of 128 bytes by 8 rows.

    Raises UnknownScope (TW0216).
    """
    headline = f"cannot set the scope of stage {stage.name} to {scope!r}"
    check_scope(scope, headline)
    if scope not in ("", "global") and (stage.is_output or stage.op.is_given):
        is_output = stage.is_output
        what = "an output: the caller passes its memory" if is_output else stage.op.noun
        fix = (
            f's.cache_write({stage.name}, "{scope}")'
            if is_output
            else f's.cache_read({stage.name}, "{scope}", readers)'
        )
        raise UnknownScope(
            headline,
            reason=f"{stage.name} is {what}, which is global",
            declared=stage.op.source,
            called=user_source(),
            fix=f"{fix} gives a copy there",
        )
    stage.schedule.record("set_scope", stage, scope=scope)
    stage.scope = scope
