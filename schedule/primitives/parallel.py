"""parallel: the iterations of a loop are shared among threads."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from ...base.errors import user_source
from ...ir.expr import IterVar
from ..errors import NestedParallel, ParallelReduction, WrongArgument
from ..model.checks import enclosing_parallel, find_leaf, outline, refuse_ordered
from ..model.foreign import AXIS, require_one
from ..model.hybrid_loops import check_independent, share_nest
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from ..model.term_order import race_error
from .trials import each_loop

__all__ = ["parallel"]


def _draw(drawer: Drawer) -> Attempt | None:
    def free(stage: Stage) -> bool:
        return (
            bool(drawer.data(stage))
            and all(stage.attr(axis).kind != "parallel" for axis in stage.leaf_iter_vars)
            and (stage.attach_type != "at" or drawer.chance(0.2))
        )

    stage = drawer.some_stage(free)
    if stage is None:
        return None
    data = drawer.data(stage)
    axis = data[0] if drawer.chance(0.7) else drawer.pick(data)
    return f"parallel({axis.name}) of {stage.name}", lambda: stage.parallel(axis)


@primitive(
    StagePrimitives,
    "kinds",
    tries=each_loop(lambda stage, axis: stage.parallel(axis)),
    draw=_draw,
    weight=5,
    foreign={"axis": AXIS, "independent": require_one(False)},  # nobody else's word is taken
)
def parallel(stage: Stage, axis: IterVar, independent: bool = False) -> None:
    """Share the iterations among threads. Like vectorize, unroll and bind it replaces the kind given before.

        for i in 64:      →      parallel for i in 64:
            ...                      ...

    axis: a loop of the stage, over data alone. A loop whose extents are constants and whose work takes less time than
    waking a thread runs serially all the same. independent: your word that iterations of a script's loop touch no element in
    common where that cannot be proved, as those that write by a permutation; `s.verify()` looks for some that do.

    Raises ParallelReduction (TW0204), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
    (TW0222), ScanLoopsStay (TW0261), HybridLoopCarries (TW0280).
    """
    find_leaf(stage, axis, "cannot make parallel")
    if not isinstance(independent, bool):
        raise WrongArgument(
            f"cannot make '{axis.name}' of stage {stage.name} parallel",
            reason=f"independent is {independent!r}, neither True nor False"[:200],
            called=user_source(),
            fix=f"s[{stage.name}].parallel({axis.name}, independent=True)",
        )
    if not independent:
        check_independent(stage, axis, "cannot make parallel")
    refuse_ordered(stage, [axis], "cannot make parallel")
    if axis.kind == "reduce":
        raise race_error(
            ParallelReduction, stage, axis, "cannot make", " parallel", "threads", "make a data axis parallel"
        )
    # Whatever surrounds this loop, or any loop of the stage: all of them are one nest.
    other = next(
        (
            leaf
            for leaf in stage.leaf_iter_vars
            if leaf is not axis and stage.attr(leaf).kind == "parallel" and share_nest(stage, leaf, axis)
        ),
        None,
    )
    above = enclosing_parallel(stage)
    if other is not None or above is not None:
        where = other.name if other is not None else f"{above[1].name} of stage {above[0].name}" if above else ""
        shown = outline(stage, [axis] if other is None else [axis, other])
        raise NestedParallel(
            f"cannot make '{axis.name}' of stage {stage.name} parallel",
            reason=f"{where} is parallel already, and parallel loops do not nest: the threads are all at work",
            declared=stage.op.source,
            called=user_source(),
            loops=shown,
            fix="fuse both loops and make the fused one parallel"
            if other is not None
            else f"leave the loops of {stage.name} serial, or compute it elsewhere",
        )
    stage.schedule.record("parallel", stage, axis=axis, **({"independent": True} if independent else {}))
    stage.annotate(axis, kind="parallel", bind_thread=None, vouched=independent)
