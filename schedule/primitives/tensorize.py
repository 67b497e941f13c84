"""tensorize: a tensor intrinsic does the work of a loop and of everything inside it.

Whether the intrinsic computes what the loops do is decided at lowering, which then puts its bodies in their place.
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import TilewrightError, user_source
from ...ir.expr import IterVar
from ...te.errors import UnknownIntrinsic
from ...te.shape import constant_extent
from ...te.tensor_intrin import TensorIntrin
from ..errors import BadTensorize
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS, INTRINSIC
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["tensorize"]


def _tries(stage: Stage) -> Iterator[Try]:
    """The intrinsics that come in one size; for the others somebody has to choose."""
    from ...te.intrinsics import get, names  # loads every one that there is

    for axis in stage.leaf_iter_vars:
        for name in names():
            try:
                intrinsic = get(name)
            except UnknownIntrinsic:
                continue
            yield f"{axis.name}, {name}", lambda one, axis=axis, intrinsic=intrinsic: one.tensorize(axis, intrinsic)


def _draw(drawer: Drawer) -> Attempt | None:
    """The microkernel on a product of packed matrices, whose loops are brought into order first."""
    from ...te.intrinsics import get  # loads every one that there is

    def fits(stage: Stage) -> bool:
        tile, depths = (
            [constant_extent(axis) or 0 for axis in axes] for axes in (stage.op.axis[2:], stage.op.reduce_axis)
        )
        return (
            bool(stage.op.values) and len(stage.op.axis) == 4 and tile == [4, 4] and len(depths) == 1 and depths[0] > 0
        )

    stage = drawer.some_stage(fits)
    if stage is None:
        return None
    (_, _, ii, ji), (r,) = stage.op.axis, stage.op.reduce_axis
    depth = drawer.pick(
        [size for size in (1, 2, 4) if drawer.chance(0.1) or (constant_extent(r) or 0) % size == 0] or [1]
    )
    try:
        outer, inner = stage.split(r, factor=depth)
        stage.reorder(outer, ii, ji, inner)
        kernel = get("vector.outer_product_4x4", depth, str(stage.op.output(0).dtype))
    except TilewrightError:
        return None
    return f"tensorize({ii.name}, {depth}) of {stage.name}", lambda: stage.tensorize(ii, kernel)


@primitive(
    StagePrimitives,
    "hardware",
    tries=_tries,
    draw=_draw,
    weight=3,
    early=True,
    foreign={"axis": AXIS, "intrinsic": INTRINSIC},
)
def tensorize(stage: Stage, axis: IterVar, intrinsic: TensorIntrin) -> None:
    """Let a tensor intrinsic do the work of this loop and of all inside it.

        for i in 4:                            for i in 4:
          for j in 16:            →              gemv(C[i * 16 : i * 16 + 16], A, B)
            for k in 64:
              C[i * 16 + j] += ...

    axis: a loop of the stage. intrinsic: what te.decl_tensor_intrin or te.intrinsics.get returned. Whether it computes what
    the loops do is decided when the schedule is lowered, once their ranges are known.

    Raises BadTensorize (TW0240), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), NotOfHybridStages
    (TW0282).
    """
    find_leaf(stage, axis, "cannot tensorize")
    refuse_hybrid(
        stage,
        f"cannot tensorize '{axis.name}' of",
        "an intrinsic is matched with an expression for each element",
        "write the part that the intrinsic computes as a te.compute of its own",
    )
    headline = f"cannot tensorize '{axis.name}' of stage {stage.name}"
    if not isinstance(intrinsic, TensorIntrin):
        raise BadTensorize(
            headline,
            reason=f"expected a tensor intrinsic, got {type(intrinsic).__name__}",
            called=user_source(),
            fix="pass what te.decl_tensor_intrin or te.intrinsics.get returned",
        )
    other = next(
        (leaf for leaf in stage.leaf_iter_vars if leaf is not axis and stage.attr(leaf).kind == "tensorized"), None
    )
    if other is not None:
        raise BadTensorize(
            headline,
            reason=f"'{other.name}' is tensorized already, and one intrinsic computes a stage",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [other, axis]),
            fix=f"tensorize either '{other.name}' or '{axis.name}'",
        )
    if not stage.op.values or len(stage.op.outputs) != len(intrinsic.op.outputs):
        raise BadTensorize(
            headline,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            reason=f"{stage.name} computes {len(stage.op.outputs)} tensors, the intrinsic {intrinsic.name} "
            f"{len(intrinsic.op.outputs)}",
            fix="declare an intrinsic of as many outputs",
        )
    stage.schedule.record("tensorize", stage, axis=axis, intrinsic=intrinsic)
    if any(tensor.dtype.is_float for tensor in stage.op.outputs):
        stage.schedule.losses.append(f"the intrinsic adds the floats of {stage.name} in an order of its own")
    stage.annotate(axis, kind="tensorized", bind_thread=None, intrinsic=intrinsic)
