"""storage_align: rows of a tensor padded, so that they begin where they should."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.expr import Expr, IterVar
from ...ir.ops import const, floormod
from ..errors import BadStorageAlign
from ..lowering.extension import Extension
from ..model.checks import find_axis, find_place, refusal
from ..model.foreign import AXIS, LARGEST, integer
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .trials import each_dimension

__all__ = ["storage_align"]


class _Strides(Extension):
    def strides(self, stage: Stage, axes: Sequence[IterVar], shape: Sequence[Expr]) -> tuple[Expr, ...]:
        wanted = [stage.attr(axis).storage_align for axis in axes]
        if not any(wanted):
            return ()
        strides: list[Expr] = []
        stride: Expr = const(1, axes[-1].dtype)
        for align, extent in zip(reversed(wanted), reversed(shape), strict=True):
            if align is not None:
                factor, offset = align
                stride = stride + floormod(offset - stride, factor)
            strides.append(stride)
            stride = stride * extent
        return tuple(reversed(strides))


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: not stage.is_output and stage.op.axis)
    if stage is None:
        return None
    axis, factor, offset = drawer.pick(stage.op.axis), drawer.pick([1, 2, 8, 16, 32]), drawer.below(9)
    return f"storage_align({axis.name}, {factor}, {offset}) of {stage.name}", lambda: stage.storage_align(
        axis, factor, offset
    )


@primitive(
    StagePrimitives,
    "storage",
    named=("factor", "offset"),
    draw=_draw,
    weight=2,
    lowering=_Strides,
    tries=each_dimension(lambda stage, axis: stage.storage_align(axis, 8, 1)),
    foreign={"axis": AXIS, "factor": integer(1, 4096), "offset": integer(-4096, 4096)},
)
def storage_align(stage: Stage, axis: IterVar, factor: int, offset: int) -> None:
    """Pad so that the stride of the dimension `axis` is `offset` modulo `factor`, in elements.

        B: float32[32, 32]      →      B: float32[32, 32], strides (33, 1)    # storage_align(i, 32, 1)

    Parameters
    ----------
    axis : IterVar
        A data axis of the operation, s[B].op.axis, of a stage that is not an output.
    factor : int
        In elements, 1 to 2^31 - 1.
    offset : int
        In elements.

    Raises
    ------
    BadStorageAlign (TW0217)
        The stride cannot be aligned so.
    NotAnAxisOfStage (TW0202)
        The axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    NotOfHybridStages (TW0282)
        The stage is a hybrid script.
    """
    find_axis(stage, axis, "cannot align the stride of")
    headline = f"cannot align the stride of '{axis.name}' of stage {stage.name}"
    refuse_hybrid(
        stage,
        f"cannot align the stride of '{axis.name}' of",
        "its axes are loops, no dimensions",
        f's.cache_read({stage.name}, "global", readers) gives a copy to align',
    )

    bad = partial(refusal, BadStorageAlign, stage, headline, [axis])

    dimensions = [dim for dims in stage.op.dimensions for dim in dims]
    if find_place(dimensions, axis) < 0:
        names = ", ".join(axis.name for axis in dimensions)
        raise bad(f"{axis.name} is not a dimension of {stage.name}", f"use one of s[{stage.name}].op.axis: {names}")
    if stage.is_output:
        raise bad(
            f"{stage.name} is an output: the caller decides how its memory is laid out",
            f's.cache_write({stage.name}, "global") gives an intermediate to align',
        )
    if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor <= LARGEST:
        raise bad(f"the factor is {factor!r}, no integer of 1 to {LARGEST}"[:200], f"storage_align({axis.name}, 32, 1)")
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise bad(f"the offset is {offset!r}, not an integer"[:200], f"storage_align({axis.name}, {factor}, 0)")
    stage.schedule.record("storage_align", stage, axis=axis, factor=factor, offset=offset)
    stage.annotate(axis, storage_align=(factor, offset % factor))
