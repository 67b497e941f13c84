"""mirror: a tensor that is the same when two of its axes are exchanged is computed on one side of its diagonal.

    for i in 64:                       for i in 64:                   # s[C].mirror(i, j)
        for j in 64:             →         for j in 64:
            C[i, j] = ...                      if i >= j: C[i, j] = ...
                                               if i > j: C[j, i] = ...

What stands on the other side has the same bits, since its expression is the same: no sum is taken up in another order. What an
iteration of a loop computes is left out where all of it lies beyond the diagonal; what lies across it is computed whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import user_source
from ...ir.expr import EQ, NE, Add, And, Call, Cast, Expr, IterVar, Max, Min, Mul, Or, Sub, Var
from ...ir.stmt import If, Stmt
from ...ir.structural import own_key, structural_key
from ...ir.visit import children, post_order, substitute
from ...te.rewrite import collect_loads, inline
from ...te.tensor import find_tensor
from ..errors import BadMirror
from ..lowering.computation import Bounds, Loop, StageBounds
from ..lowering.errors import CannotMirror
from ..lowering.extension import Extension
from ..lowering.mirroring import is_needed
from ..lowering.nest import Nest
from ..model.checks import outline
from ..model.foreign import AXIS
from ..model.inlining import expand_inlined
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["extents_agree", "have_same_bits", "is_symmetric", "mirror"]

MOST_NODES = 256
"""Of an expression that is compared with itself after the exchange."""
LOOKED_THROUGH = 3
"""How far the expressions of what is read are looked at."""
_COMMUTE = (Add, Mul, Min, Max, EQ, NE, And, Or)


# What is the same after the exchange


def _likeness(a: Expr, b: Expr) -> int:
    """2 where two values have the same bits (one NaN being like another), 1 where they may differ in their sign, 0 where neither is
    seen."""
    if structural_key(a) == structural_key(b):
        return 2
    if own_key(a) != own_key(b):
        return 0
    parts = list(zip(children(a), children(b), strict=True)) if len(children(a)) == len(children(b)) else []
    direct = min((_likeness(x, y) for x, y in parts), default=0)
    if isinstance(a, _COMMUTE) and isinstance(b, _COMMUTE):
        direct = max(direct, min(_likeness(a.a, b.b), _likeness(a.b, b.a)))
    if direct == 2:
        return 2
    if isinstance(a, Sub) and isinstance(b, Sub) and (a.dtype.is_float or a.dtype.is_signed):
        return int(min(_likeness(a.a, b.b), _likeness(a.b, b.a)) == 2)
    if direct == 1 and isinstance(a, Mul):  # a square has no sign
        return 2 if structural_key(a.a) == structural_key(a.b) else 1
    if direct == 1 and isinstance(a, Call) and a.name == "abs":
        return 2
    return int(direct == 1 and isinstance(a, Cast) and a.dtype.is_float and a.value.dtype.is_float)


def have_same_bits(a: Expr, b: Expr) -> bool:
    """Return whether two values have the same bits, as far as their expressions show, one NaN being like another."""
    return _likeness(a, b) == 2


def is_symmetric(stage: Stage, i: IterVar, j: IterVar) -> bool:
    """Return whether the elements of a stage have the same bits when two of its axes are exchanged, as far as its expression shows, with
    those of what it reads if need be."""
    value, exchange = expand_inlined(stage), dict[Var, Expr]({i: j, j: i})
    for _ in range(LOOKED_THROUGH):
        if sum(1 for _ in post_order(value)) > MOST_NODES:
            return False
        if have_same_bits(value, substitute(value, exchange)):
            return True
        computed = [
            tensor
            for tensor in dict.fromkeys(map(find_tensor, collect_loads(value)))
            if tensor.op.as_compute is not None and tensor.op.num_outputs == 1 and not tensor.op.calls_intrinsic
        ]
        for tensor in computed:
            value = inline(value, tensor, tensor.op.axis, tensor.op.values[0])
    return False


# The primitive


def _pairs(stage: Stage) -> Iterator[tuple[IterVar, IterVar]]:
    """The pairs of axes that it may be called with."""
    op = stage.op.as_compute
    if op is not None and not _reason(stage):
        axes = [axis for axis in op.axis if axis.dom is not None]
        for at, i in enumerate(axes):
            yield from ((i, j) for j in axes[at + 1 :] if extents_agree(i, j) and is_symmetric(stage, i, j))


def _tries(stage: Stage) -> Iterator[Try]:
    for i, j in _pairs(stage):
        yield f"{i.name}, {j.name}", lambda one, i=i, j=j: one.mirror(i, j)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: next(_pairs(stage), None))
    if stage is None:
        return None
    i, j = drawer.pick(list(_pairs(stage)))
    if drawer.chance(0.5):
        i, j = j, i
    return f"mirror({stage.name}, {i.name}, {j.name})", lambda: stage.mirror(i, j)


def extents_agree(i: IterVar, j: IterVar) -> bool:
    """Return whether two axes run over the same values."""
    return (
        i.dom is not None
        and j.dom is not None
        and structural_key(i.dom.begin) == structural_key(j.dom.begin)
        and structural_key(i.dom.extent) == structural_key(j.dom.extent)
    )


def _reason(stage: Stage) -> tuple[str, str] | None:
    """Return the reason that forbids it whatever the axes are, and the fix."""
    op, name = stage.op.as_compute, stage.name
    if op is None or op.calls_intrinsic or op.num_outputs > 1:
        return f"{name} is not the one tensor of a te.compute", "mirror a stage that computes one expression"
    if op.reduction is not None:
        return (
            "its elements are stored once for each term of a sum",
            f's.cache_write({name}, "local"), then mirror {name}',
        )
    if stage.attach_type in ("inline", "inlined"):
        return f"{name} is inlined, so nothing of it is stored", f"s[{name}].compute_root() first"
    return None


# The loops


class _OneSide(Extension):
    """Leaves out what lies beyond the diagonal. Raises CannotMirror (TW0343)."""

    def plan(self, bounds: Bounds) -> None:
        for computation, stage_bounds in bounds.of.items():
            if computation.stage.mirrored is not None:
                reason, fix = _obstacle(stage_bounds)
                if reason:
                    stage = computation.stage
                    raise CannotMirror(
                        f"cannot store {stage.name} on both sides of its diagonal",
                        reason=reason,
                        fix=fix,
                        declared=stage.op.source,
                        called=user_source(),
                        loops=outline(stage),
                    )

    def within(self, nest: Nest, loop: Loop, body: Stmt) -> Stmt:
        condition = is_needed(nest, loop)
        return body if condition is None else If(condition, body)


def _obstacle(bounds: StageBounds) -> tuple[str, str]:
    """Return the reason for which elements stored beyond the diagonal would be missing, or differ; and the fix."""
    computation = bounds.computation
    stage, name = computation.stage, computation.name
    assert stage.mirrored is not None
    i, j = (bounds.ranges[axis] for axis in stage.mirrored)
    if computation.parent is not None or computation.leader is not None or computation.followers:
        return f"{name} is computed in loops of other stages, or these in its own", f"s[{name}].compute_root()"
    if structural_key(i.begin) != structural_key(j.begin) or structural_key(i.extent) != structural_key(j.extent):
        return (
            f"what is read of it is {i.extent} x {j.extent}, from {i.begin} and {j.begin} on: no square on the diagonal",
            f"leave out s[{name}].mirror",
        )
    if computation.reduction is not None or stage.is_tensorized or stage.store_predicate is not None:
        return f"{name} is computed by a tensor intrinsic or a sum, or stored under a condition", "mirror a copy of it"
    if any(loop.thread for loop in bounds.loops):
        return "two threads of a GPU may store one element", f"s[{name}].parallel in place of bind"
    return "", ""


@primitive(
    StagePrimitives,
    "storage",
    tries=_tries,
    draw=_draw,
    weight=3,
    rare=True,
    foreign={"axis": AXIS, "other": AXIS},
    lowering=_OneSide,
)
def mirror(stage: Stage, axis: IterVar, other: IterVar) -> None:
    """Compute a tensor that is the same when two of its axes are exchanged on one side of its diagonal, and store it on both.

        for i in 64:                       for i in 64:                   # s[C].mirror(i, j)
            for j in 64:             →         for j in 64:
                C[i, j] = ...                      if i >= j: C[i, j] = ...
                                                   if i > j: C[j, i] = ...

    axis, other: two data axes of one extent, of a stage that is no sum itself: a sum is computed in a cache (cache_write), of
    which the stage is a copy. That exchanging them changes no bit must show in the expression, or in those of what it reads:
    A[k, i] * A[k, j], |A[i] - A[j]|, a product of a matrix with itself. What an iteration of a loop computes (caches that
    are computed there too) is left out where `axis` is less than `other` in all of it; in tiles across the diagonal all is
    computed. The stage is computed at root, and all of it is read, which is looked at when the schedule is lowered
    (CannotMirror, TW0343). No bit of any result changes.

    Raises BadMirror (TW0232).
    """
    reason = _reason(stage)
    if reason is None and any(all(given is not each for each in stage.op.axis) for given in (axis, other)):
        names = " and ".join(str(getattr(given, "name", given))[:80] for given in (axis, other))
        reason = f"{names} are not two data axes of it", "s[C].mirror(*C.op.axis)"
    if reason is None and (axis is other or not extents_agree(axis, other)):
        reason = f"{axis.name} and {other.name} are not two axes of one extent", "mirror a square"
    if reason is None and stage.mirrored is not None:
        reason = "it is mirrored already", "mirror it once"
    if reason is None and not is_symmetric(stage, axis, other):
        reason = (
            f"that its elements are the same when {axis.name} and {other.name} are exchanged does not show in its expression",
            "write it so that they change places: A[k, i] * A[k, j]",
        )
    if reason is not None:
        raise BadMirror(
            f"cannot mirror stage {stage.name}",
            reason=reason[0],
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis, other]),
            fix=reason[1],
        )
    stage.schedule.record("mirror", stage, axis=axis, other=other)
    stage.mirrored = axis, other
