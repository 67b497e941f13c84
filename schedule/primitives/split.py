"""split and tile: one loop becomes two, and a pair of loops becomes blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.expr import Expr, IntImm, IterVar
from ...ir.ops import convert
from ...ir.visit import free_vars
from ..errors import BadSplit
from ..model.axes import find_leaf, outline, refuse_lost_annotation
from ..model.relations import Split

if TYPE_CHECKING:
    from ..model.stage import Stage

__all__ = ["split", "tile"]


def split(stage: Stage, axis: IterVar, factor: Any, nparts: Any, disable_predication: bool) -> tuple[IterVar, IterVar]:
    """See Stage.split."""
    place = find_leaf(stage, axis, "cannot split")
    if (factor is None) == (nparts is None):
        given = "neither factor nor nparts was given" if factor is None else "both factor and nparts were given"
        raise _bad(
            stage, axis, f"{given}: either fixes the other", "give the inner extent (factor=8) or the outer (nparts=4)"
        )
    refuse_lost_annotation(
        stage, axis, "cannot split", f"split first, then annotate {axis.name}.outer or {axis.name}.inner"
    )
    checked_factor = None if factor is None else _extent(stage, axis, "factor", factor)
    checked_nparts = None if nparts is None else _extent(stage, axis, "nparts", nparts)
    stage.schedule.record("split", stage, parent=axis, factor=_plain(checked_factor), nparts=_plain(checked_nparts),
                          disable_predication=bool(disable_predication))
    outer = replace(axis, name=axis.name + ".outer", dom=None)
    inner = replace(axis, name=axis.name + ".inner", dom=None)
    relation = Split(axis, outer, inner, checked_factor, checked_nparts, bool(disable_predication), user_source())
    stage.derive(relation, place, 1, (outer, inner))
    return outer, inner


def _plain(extent: Expr | None) -> Expr | int | None:
    return extent.value if isinstance(extent, IntImm) else extent


def _bad(stage: Stage, axis: IterVar, reason: str, fix: str) -> BadSplit:
    return BadSplit(f"cannot split '{axis.name}' of stage {stage.name}", reason=reason, declared=stage.op.source,
                    called=user_source(), loops=outline(stage, [axis]), fix=fix)


def _extent(stage: Stage, axis: IterVar, name: str, given: Any) -> Expr:
    """A factor or nparts: a positive constant, or an expression over symbols of integer type."""
    advice = f"{name} takes a positive integer, such as {name}=8"
    try:
        number = given if isinstance(given, Expr) else int(given.__index__())
    except (AttributeError, TypeError):
        raise _bad(stage, axis, f"{name} is {given!r}, no integer"[:200], advice) from None
    if isinstance(given, bool) or (isinstance(number, Expr) and not number.dtype.is_integer):
        raise _bad(stage, axis, f"{name} is {given!r}, no integer"[:200], advice)
    if isinstance(number, (int, IntImm)):
        if int(number) <= 0:
            raise _bad(stage, axis, f"{name} is {int(number)}, and a loop is not split into parts of that size", advice)
        if int(number) > axis.dtype.greatest:
            raise _bad(
                stage, axis, f"{name} is {int(number)}, which {axis.name} ({axis.dtype}) cannot count to", advice
            )
        return IntImm(int(number), axis.dtype)
    loose = next((var for var in free_vars(number) if isinstance(var, IterVar)), None)
    if loose is not None:
        raise _bad(stage, axis, f"{name} is {number}, which changes with the axis {loose.name}", advice)
    return convert(number)


def tile(
    stage: Stage, x: IterVar, y: IterVar, x_factor: Any, y_factor: Any
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """See Stage.tile."""
    find_leaf(stage, x, "cannot tile")
    find_leaf(stage, y, "cannot tile")
    if x is y:
        raise _bad(stage, x, "both axes of the tile are the same", "tile takes two loops: tile(i, j, 32, 8)")
    factors = (_plain(_extent(stage, x, "x_factor", x_factor)), _plain(_extent(stage, y, "y_factor", y_factor)))
    with stage.schedule.compound("tile", stage, x_parent=x, y_parent=y, x_factor=factors[0], y_factor=factors[1]):
        x_outer, x_inner = stage.split(x, factor=x_factor)
        y_outer, y_inner = stage.split(y, factor=y_factor)
        stage.reorder(x_outer, y_outer, x_inner, y_inner)
    return x_outer, y_outer, x_inner, y_inner
