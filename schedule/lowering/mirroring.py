"""A stage that is stored on both sides of the diagonal of two of its axes: which iterations are needed, and what each stores.

    for i.outer in 11:
        for j.outer in 4:
            if 16 * j.outer <= 6 * i.outer + 5:                      # some of the tile lies on the near side
                ...
                if 16 * j.outer + 15 < 6 * i.outer:                  # all of it does
                    for i in 6:  for j in vectorized(16):  C[i, j] = ...
                    for i in 6:  for j in vectorized(16):  C[j, i] = ...
                else:
                    for i in 6:  for j in vectorized(16):
                        if i >= j: C[i, j] = ...
                        if i > j: C[j, i] = ...

Each element is stored once, so that iterations may run in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...ir import Expr, If, IntImm, IterVar, Stmt, Var
from ...ir.analysis.linear import expression, linear, terms
from ...ir.dtype import INT64
from ...ir.ops import is_const
from ...ir.structural import structural_key
from ...ir.visit import free_vars, seq
from .computation import Loop, StageBounds
from .nest import Nest

__all__ = ["is_needed", "mirrored_nest"]

_COUNTED = ("serial", "parallel")
"""The kinds of loops that may leave iterations out."""


def is_needed(nest: Nest, loop: Loop) -> Expr | None:
    """Return the condition on a loop's iterations of which some element lies on the near side of the diagonal; None where a loop
    outside of it has asked for the same, or it cannot be told."""
    bounds = nest.stage_bounds
    # threads and lanes always run all of their iterations
    if nest.computation.stage.mirrored is None or loop.var is None or loop.attr.kind not in _COUNTED:
        return None
    greatest = _find_distance(bounds, bounds.offsets, bounds.loops[bounds.loops.index(loop) + 1 :], greatest=True)
    if greatest is None or loop.var not in free_vars(greatest):  # the loop outside has left out the same iterations
        return None
    condition = nest.analyzer.simplify(greatest >= 0)
    return None if is_const(condition, 1) else condition


def mirrored_nest(nest: Nest) -> Stmt:
    """The nest of a stage that is mirrored."""
    mirrored, bounds, loops = nest.computation.stage.mirrored, nest.stage_bounds, nest.stage_bounds.loops
    assert mirrored is not None
    i, j = mirrored

    def stored(offsets: dict[IterVar, Expr], near: Sequence[int | None], far: Sequence[int | None]) -> Stmt:
        """An element where it is declared, and on the other side, each for those of `near` and of `far`: whatever lies so far
        from the diagonal at least, or all."""
        axes, apart = nest.axis_values(offsets), _find_distance(bounds, offsets, ())
        assert apart is not None
        values = [nest.value(value, axes) for value in nest.computation.values]
        stores: list[Stmt] = []
        for at, leasts in ((offsets, near), ({**offsets, i: offsets[j], j: offsets[i]}, far)):
            store = nest.stores(values, at)
            stores += [
                store if least is None else If(nest.analyzer.simplify(apart >= least), store) for least in leasts
            ]
        return nest.guard(seq(*stores), offsets)

    def tile(within: Sequence[Loop], near: Sequence[int | None], far: Sequence[int | None]) -> Stmt:
        """The loops of a tile, with variables of their own."""
        offsets = nest.rename(within)
        body = nest.loops(within, stored(offsets, near, far), attach=False)
        nest.renamed = {}
        return body

    counted = [at for at, loop in enumerate(loops) if loop.var is not None and loop.attr.kind in _COUNTED]
    first = counted[-1] + 1 if counted else 0
    outer, inner = loops[:first], loops[first:]
    least = _find_distance(bounds, bounds.offsets, inner)
    # something computed inside of the tile would be computed for both sides
    in_tile = any(other.parent is nest.computation and other.place >= first for other in nest.bounds.of)
    # the tile is too irregular to be told apart as a whole
    if least is None or in_tile or all(loop.var is None for loop in inner):
        return nest.loops(loops, stored(bounds.offsets, (None,) if _is_asked(nest) else (0,), (1,)), attach=True)
    across = [replace(loop, attr=replace(loop.attr, kind="serial")) for loop in inner]  # there are few such tiles
    both = seq(tile(inner, (None,), ()), tile(inner, (), (None,)))
    return nest.loops(outer, If(nest.analyzer.simplify(least >= 1), both, tile(across, (0,), (1,))), attach=True)


def _is_asked(nest: Nest) -> bool:
    """Return whether some loop leaves out all that lies beyond the diagonal, element by element."""
    apart = _find_distance(nest.stage_bounds, nest.stage_bounds.offsets, ())
    assert apart is not None
    needed = structural_key(nest.analyzer.simplify(apart >= 0))
    asked = (is_needed(nest, loop) for loop in nest.stage_bounds.loops)
    return any(condition is not None and structural_key(condition) == needed for condition in asked)


def _find_distance(
    bounds: StageBounds, offsets: Mapping[IterVar, Expr], loops: Sequence[Loop], greatest: bool = False
) -> Expr | None:
    """Return the distance of an element from the diagonal, the least or greatest of all iterations of these loops; None where that cannot
    be told."""
    mirrored = bounds.computation.stage.mirrored
    assert mirrored is not None
    apart = linear(offsets[mirrored[0]]).plus(linear(offsets[mirrored[1]]), -1)
    extents: dict[Var, Expr] = {loop.var: loop.extent for loop in loops if loop.var is not None}
    for part, times in list(terms(apart)):
        if isinstance(part, Var) and part in extents:
            extent = extents[part]
            if not isinstance(extent, IntImm):  # the distance changes by an unknown number of steps
                return None
            last = times * (extent.value - 1)
            apart = apart.plus(linear(part), -times).shift(max(last, 0) if greatest else min(last, 0))
        elif not extents.keys().isdisjoint(free_vars(part)):
            return None
    return expression(apart, INT64)
