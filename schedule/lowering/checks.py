"""Checks of the whole schedule, once the extents of its loops are known."""

from __future__ import annotations

from ...base.errors import user_source
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, IntImm, IterVar
from ..model.checks import derived_roots, outline
from .computation import Bounds, Computation, Loop, StageBounds
from .errors import InitReadsUnrealised, NestedParallelLoops, ThreadExtentsDiffer, VectorExtentNotConstant
from .shared_loops import check_shared_loops

__all__ = ["check_loops"]


def check_loops(bounds: Bounds) -> None:
    """Raise VectorExtentNotConstant (TW0337), NestedParallelLoops (TW0338), ThreadExtentsDiffer (TW0339) and InitReadsUnrealised
    (TW0340)."""
    threads: dict[tuple[Computation, IterVar | None], dict[str, Loop]] = {}
    for computation in bounds.dataflow.computations:
        stage_bounds = bounds.of[computation]
        outermost = computation.path()[-1]
        _check_early_reads(bounds, stage_bounds)
        if computation.leader is not None:
            check_shared_loops(stage_bounds, bounds.of[computation.leader])
        for loop in stage_bounds.loops:
            if loop.var is None:  # a loop without a variable has one iteration, which nothing can be wrong with
                continue
            if loop.attr.kind == "vectorized" and not isinstance(loop.extent, IntImm):
                raise _vector_extent(loop)
            if loop.attr.kind == "parallel":
                _check_not_nested(stage_bounds, loop)
            # virtual threads are unrolled, and have no launch extent
            if loop.thread and not loop.thread.startswith(("vthread", "cthread")):
                # loops after each other at root are kernels of their own, with extents of their own
                nest = _outermost_loop(loop) if computation is outermost else None
                _check_thread(loop, threads.setdefault((outermost, nest), {}), bounds.analyzer)


def _outermost_loop(loop: Loop) -> IterVar | None:
    """The outermost loop of a script around this one: those after each other at root are kernels of their own."""
    declared = loop.stage.op.declared_loops
    for root in derived_roots(loop.stage, loop.axis):
        chain = declared.axis_chain(root)
        if chain:
            return (*declared.around(chain), *chain)[0]
    return None


def _check_early_reads(bounds: Bounds, stage_bounds: StageBounds) -> None:
    """Check that no stage read before the reduction begins is computed within it."""
    computation = stage_bounds.computation
    for tensor in computation.early_reads:
        producer = bounds.dataflow.by_op.get(tensor.op)
        # its producer would be computed inside of what needs it before
        if producer is not None and producer.parent is computation and producer.place >= stage_bounds.first_reduce_loop:
            loop, name = stage_bounds.loops[producer.place], computation.name
            raise InitReadsUnrealised(
                f"cannot compute {producer.name} at '{loop.axis.name}' of {name}",
                declared=computation.op.source,
                reason=f"{name} reads {producer.name} before its reduction begins, for init= or for the domain of an axis",
                called=user_source(),
                loops=outline(computation.stage, [loop.axis]),
                fix=f"compute {producer.name} outside '{stage_bounds.loops[stage_bounds.first_reduce_loop].axis.name}', or at root",
            )


def _vector_extent(loop: Loop) -> VectorExtentNotConstant:
    name, axis = loop.stage.name, loop.axis.name
    return VectorExtentNotConstant(
        f"cannot vectorize '{axis}' of stage {name}",
        reason=f"its extent is {loop.extent}: vectors have a constant length",
        declared=loop.stage.op.source,
        called=user_source(),
        loops=outline(loop.stage, [loop.axis]),
        fix=f"outer, inner = s[{name}].split({axis}, factor=8), then vectorize inner",
    )


def _check_not_nested(bounds: StageBounds, loop: Loop) -> None:
    around = next(
        (outer for outer in bounds.enclosing if outer.var is not None and outer.attr.kind == "parallel"), None
    )
    if around is None:
        return
    raise NestedParallelLoops(
        f"cannot lower: '{loop.axis.name}' of {loop.stage.name} is parallel inside the parallel loop '{around.axis.name}' of "
        f"{around.stage.name}",
        reason="parallel loops do not nest: the outer one takes all threads",
        declared=loop.stage.op.source,
        called=user_source(),
        loops=outline(loop.stage, [loop.axis]),
        fix=f"make '{loop.axis.name}' serial or vectorized",
    )


def _check_thread(loop: Loop, seen: dict[str, Loop], analyzer: Analyzer) -> None:
    """One extent a thread tag in one kernel."""
    bound = loop.attr.bind_thread
    assert bound is not None
    first = seen.setdefault(loop.thread, loop)
    if not _equal(first.extent, loop.extent, analyzer):
        raise ThreadExtentsDiffer(
            f"cannot lower: {loop.thread} has two extents in one kernel",
            declared=loop.stage.op.source,
            called=user_source(),
            loops=outline(loop.stage, [loop.axis]),
            reason=f"{first.extent} by '{first.axis.name}' of {first.stage.name}, {loop.extent} by '{loop.axis.name}' of "
            f"{loop.stage.name}",
            fix="split the loops by one factor, and bind the inner ones",
        )
    if bound.dom is not None and not _equal(bound.dom.extent, loop.extent, analyzer):
        raise ThreadExtentsDiffer(
            f"cannot lower: '{loop.axis.name}' of {loop.stage.name} does not fit the thread axis that it is bound to",
            reason=f"its extent is {loop.extent}, {bound.name} was declared with {bound.dom.extent}",
            declared=loop.stage.op.source,
            called=user_source(),
            loops=outline(loop.stage, [loop.axis]),
            fix=f"split it by {bound.dom.extent} and bind the inner loop, or leave the thread axis open",
        )


def _equal(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):  # two constants need no proof
        return a.value == b.value
    return analyzer.can_prove_equal(a, b)
