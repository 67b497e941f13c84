"""Inlining: expressions of elements with the definitions of inlined stages put where they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...te.rewrite import inline

if TYPE_CHECKING:
    from ...ir.expr import Expr
    from .stage import Stage

__all__ = ["expand_inlined", "find_inlined"]


def find_inlined(stage: Stage) -> list[Stage]:
    """The stages whose expressions stand in that of `stage`: readers before what they read."""
    inlined: set[Stage] = set()
    stack = [stage]
    while stack:
        for producer in stack.pop().producers:
            if producer not in inlined and producer.attach_type == "inline":
                inlined.add(producer)
                stack.append(producer)
    # consumers first: a definition may bring reads of other inlined stages
    return [each for each in reversed(stage.schedule.sort_stages(inlined)) if each.op.values]


def expand_inlined(stage: Stage, at: int = 0) -> Expr:
    """The value `at` of an element, with the expressions of inlined stages in it."""
    value = stage.op.values[at]
    for producer in find_inlined(stage):  # one after the other, as expressions grow
        value = inline(value, producer.op.output(0), producer.op.axis, producer.op.values[0])
    return value
