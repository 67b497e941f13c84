"""split: one loop becomes two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...base.errors import user_source
from ...ir import Expr, IntImm, IterVar, free_vars
from ...ir.ops import convert, integer_value
from ..errors import BadSplit
from ..model.checks import find_leaf, outline, refuse_lost_annotation
from ..model.foreign import AXIS, NOTHING, SIZE, either, require_one
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.relations import Split
from ..model.stage import Stage
from .trials import each_loop

__all__ = ["bad_split", "part_size", "plain_size", "split"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(drawer.plain)
    if stage is None:
        return None
    axis, size = drawer.pick(drawer.plain(stage)), drawer.factor()
    named: dict[str, Any] = {"factor": size} if drawer.chance(0.7) else {"nparts": size}
    return f"split({axis.name}, {named}) of {stage.name}", lambda: stage.split(axis, **named)


@primitive(
    StagePrimitives,
    "loops",
    tries=each_loop(lambda stage, axis: stage.split(axis, 2)),
    draw=_draw,
    weight=20,
    foreign={
        "parent": AXIS,
        "factor": either(NOTHING, SIZE),
        "nparts": either(NOTHING, SIZE),
        "disable_predication": require_one(False),
    },
)
def split(
    stage: Stage,
    parent: IterVar,
    factor: int | Expr | None = None,
    nparts: int | Expr | None = None,
    disable_predication: bool = False,
) -> tuple[IterVar, IterVar]:
    """Make two loops of one: (outer, inner), inner of `factor` iterations or outer of `nparts`.

        for i in 10:                 for i.outer in 3:                    # factor=4
            ...              →           for i.inner in 4:
                                             if i.outer * 4 + i.inner < 10: ...

    A loop that is annotated is not split, since the annotation would be lost: split first.

    Parameters
    ----------
    parent : IterVar
        A loop of the stage.
    factor : int, Expr or None, default None
        Iterations of the inner loop: positive, or an expression over symbols of shapes.
    nparts : int, Expr or None, default None
        Iterations of the outer loop, instead of `factor`.
    disable_predication : bool, default False
        Whether to leave out the guard of the tail that an extent which does not divide leaves. A call at which there is a tail is
        refused (TW0518), unless a store predicate guards it.

    Returns
    -------
    tuple of IterVar
        The outer loop and the inner one.

    Raises
    ------
    BadSplit (TW0206)
        Not exactly one of `factor` and `nparts` is a positive integer.
    AxisIsNoLoop (TW0205)
        The loop was split or fused.
    NotAnAxisOfStage (TW0202)
        The axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    AnnotationWouldBeLost (TW0213)
        The loop is annotated.
    """
    place = find_leaf(stage, parent, "cannot split")
    if (factor is None) == (nparts is None):
        given = "neither factor nor nparts was given" if factor is None else "both factor and nparts were given"
        raise bad_split(
            stage,
            parent,
            f"{given}: either fixes the other",
            "give the inner extent (factor=8) or the outer (nparts=4)",
        )
    refuse_lost_annotation(
        stage, parent, "cannot split", f"split first, then annotate {parent.name}.outer or {parent.name}.inner"
    )
    inner_extent = None if factor is None else part_size(stage, parent, "factor", factor)
    outer_extent = None if nparts is None else part_size(stage, parent, "nparts", nparts)
    stage.schedule.record(
        "split",
        stage,
        parent=parent,
        factor=plain_size(inner_extent),
        nparts=plain_size(outer_extent),
        disable_predication=bool(disable_predication),
    )
    outer = replace(parent, name=parent.name + ".outer", dom=None)
    inner = replace(parent, name=parent.name + ".inner", dom=None)
    relation = Split(parent, outer, inner, inner_extent, outer_extent, bool(disable_predication), user_source())
    stage.derive(relation, place, 1, (outer, inner))
    return outer, inner


def plain_size(extent: Expr | None) -> Expr | int | None:
    """The size of a part as a record holds it."""
    return integer_value(extent, extent)


def bad_split(stage: Stage, axis: IterVar, reason: str, fix: str) -> BadSplit:
    """The error for a loop that cannot be split so."""
    return BadSplit(
        f"cannot split '{axis.name}' of stage {stage.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=fix,
    )


def part_size(stage: Stage, axis: IterVar, name: str, given: Any) -> Expr:
    """A factor or nparts: a positive constant, or an expression over symbols of integer type. Raises BadSplit (TW0206)."""
    advice = f"{name} takes a positive integer, such as {name}=8"
    try:
        number = given if isinstance(given, Expr) else int(given.__index__())
    except (AttributeError, TypeError):
        raise bad_split(stage, axis, f"{name} is {given!r}, not an integer"[:200], advice) from None
    if isinstance(given, bool) or (isinstance(number, Expr) and not number.dtype.is_integer):
        raise bad_split(stage, axis, f"{name} is {given!r}, not an integer"[:200], advice)
    if isinstance(number, (int, IntImm)):
        if int(number) <= 0:
            raise bad_split(
                stage, axis, f"{name} is {int(number)}, and a loop is not split into parts of that size", advice
            )
        if int(number) > axis.dtype.greatest:
            raise bad_split(
                stage, axis, f"{name} is {int(number)}, which {axis.name} ({axis.dtype}) cannot count to", advice
            )
        return IntImm(int(number), axis.dtype)
    loose = next((var for var in free_vars(number) if isinstance(var, IterVar)), None)
    if loose is not None:
        raise bad_split(stage, axis, f"{name} is {number}, which changes with the axis {loose.name}", advice)
    return convert(number)
