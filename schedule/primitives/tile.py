"""tile: a pair of loops becomes blocks."""

from __future__ import annotations

from ...ir.expr import Expr, IterVar
from ..model.checks import find_leaf
from ..model.foreign import AXIS, SIZE
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .split import bad_split, part_size, plain_size
from .trials import neighbours

__all__ = ["tile"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: len(drawer.data(stage)) > 1)
    if stage is None:
        return None
    x, y = drawer.some(drawer.data(stage), 2)
    a, b = drawer.factor(), drawer.factor()
    return f"tile({x.name}, {y.name}, {a}, {b}) of {stage.name}", lambda: stage.tile(x, y, a, b)


@primitive(
    StagePrimitives,
    "loops",
    tries=neighbours(lambda stage, outer, inner: stage.tile(outer, inner, 2, 2)),
    draw=_draw,
    weight=5,
    foreign={"x_parent": AXIS, "y_parent": AXIS, "x_factor": SIZE, "y_factor": SIZE},
)
def tile(
    stage: Stage,
    x_parent: IterVar,
    y_parent: IterVar,
    x_factor: int | Expr,
    y_factor: int | Expr,
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split both loops and order them (x_outer, y_outer, x_inner, y_inner).

        for x in 64:                 for x.outer in 8:                    # x_factor=8, y_factor=4
            for y in 64:                 for y.outer in 16:
                ...          →               for x.inner in 8:
                                                 for y.inner in 4: ...

    Parameters
    ----------
    x_parent : IterVar
        A loop of the stage.
    y_parent : IterVar
        Another loop of it.
    x_factor : int or Expr
        Iterations of x that a block has: positive, or an expression over symbols of shapes.
    y_factor : int or Expr
        Iterations of y that a block has.

    Returns
    -------
    tuple of IterVar
        The four loops, in their order.

    Raises
    ------
    ScheduleError
        What split and reorder raise.
    """
    find_leaf(stage, x_parent, "cannot tile")
    find_leaf(stage, y_parent, "cannot tile")
    if x_parent is y_parent:
        raise bad_split(
            stage, x_parent, "both axes of the tile are the same", "tile takes two loops: tile(i, j, 32, 8)"
        )
    x_size = plain_size(part_size(stage, x_parent, "x_factor", x_factor))
    y_size = plain_size(part_size(stage, y_parent, "y_factor", y_factor))
    with stage.schedule.compound("tile", stage, x_parent=x_parent, y_parent=y_parent, x_factor=x_size, y_factor=y_size):
        x_outer, x_inner = stage.split(x_parent, factor=x_factor)
        y_outer, y_inner = stage.split(y_parent, factor=y_factor)
        stage.reorder(x_outer, y_outer, x_inner, y_inner)
    return x_outer, y_outer, x_inner, y_inner
