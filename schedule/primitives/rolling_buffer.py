"""rolling_buffer: what the last iteration computed is used again, and only the rest computed.

    for y in 6:                           B: float32[3, 8]
        B: float32[3, 8]                  for y in 6:
        for r in 3:                           for r in 3:
            for x in 8:             →             for x in 8:
                B[r, x] = A[y + r, x]                 if y == 0 or r >= 2: B[(y + r) % 3, x] = A[y + r, x]
        ... B[r, x] ...                       ... B[(y + r) % 3, x] ...

The dimension that moves with the outermost of the loops is stored around a ring of its extent in the region. Where further
loops inside move other dimensions, those are stored in full, so that the ring turns by whole rows. As TVM's
InjectRollingBuffer. The ring may stop for some iterations, as a window does that is clamped at the ends of its dimension: then
what it would have moved by is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...base import dataclass, replace, user_source
from ...ir import Allocate, Buffer, Expr, IntImm, IterVar, Stmt, free_vars, substitute
from ...ir.analysis.regions import difference_bound
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import cast, const, disjunction, floormod, integer_value
from ..lowering.computation import Bounds, Computation, Loop, StageBounds
from ..lowering.errors import CannotRoll
from ..lowering.extension import Extension, Place
from ..lowering.nest import Storage
from ..lowering.overlap import check_shared, moved_accesses
from ..model.checks import outline
from ..model.methods import StagePrimitives
from ..model.overlap import Overlap
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .overlap import set_overlap
from .trials import once

__all__ = ["rolling_buffer"]

_ROLLING = "rolling_buffer"


@dataclass(frozen=True, slots=True, eq=False)
class _Dimension:
    """Motion of the region in one dimension: by `step` in each iteration of `loop`; or by `step` at most, which is no less
    than 0, where it is not `steady`."""

    axis: IterVar
    begin: Expr
    extent: Expr
    loop: Loop | None
    step: int
    steady: bool

    @property
    def kept(self) -> int:
        """The number of its values that are those of the last iteration too."""
        return max(self.extent.value - self.step, 0) if self.loop is not None and isinstance(self.extent, IntImm) else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Rolling:
    """Ring that rows roll through.

    place: of the loop of the parent around which the storage lies. ring: the dimension that is stored around.
    """

    computation: Computation
    place: int
    dimensions: tuple[_Dimension, ...]
    ring: int

    def fresh(self, offsets: Mapping[IterVar, Expr]) -> list[Expr]:
        """Return the condition on elements, at `offsets` from the begin of the region, that no iteration before computed. An element
        is known if the last iteration of any of the loops had it, all its dimensions that move with that loop considered."""
        conditions: list[Expr] = []
        for loop in dict.fromkeys(dimension.loop for dimension in self.dimensions):
            moved = [dimension for dimension in self.dimensions if dimension.loop is loop]
            if loop is not None and all(dimension.kept and dimension.axis in offsets for dimension in moved):
                new = (
                    offsets[dimension.axis] >= const(dimension.kept, offsets[dimension.axis].dtype)
                    for dimension in moved
                )
                conditions.append(disjunction(loop.value.equal(0), *new))
        return conditions


def _plan(bounds: StageBounds, parent: StageBounds, readers: Sequence[Stage], analyzer: Analyzer) -> _Rolling:
    """Plan how the region of a stage moves with the loops that it is computed in. readers: the stages that read it.

    Raises CannotRoll (TW0352)."""
    computation = bounds.computation
    axes = computation.op.axis
    _check_elementwise(computation.stage, readers, parent.loops[computation.place])
    candidates = _serial_loops(computation, parent)
    moving: dict[IterVar, tuple[Loop, int, bool]] = {}
    best: tuple[int, dict[IterVar, tuple[Loop, int, bool]]] | None = None
    problem = "no serial loop is around it" if not candidates else ""
    for place, loop in candidates:
        known = {axis: _step(bounds, axis, loop, analyzer) for axis in axes}
        steps = {axis: step for axis, step in known.items() if step is not None}
        odd = next(
            (
                axis
                for axis in axes
                if axis not in steps
                or (steps[axis][0] and axis in moving)
                or not all(steady for _, _, steady in moving.values())
            ),
            None,
        )
        if odd is not None or _changes(bounds, axes, loop):
            problem = f"what {loop.axis.name} needs of {axes[0].name if odd is None else odd.name} does not move by a constant step"
            break
        moved = {axis: (loop, step, steady) for axis, (step, steady) in steps.items() if step}
        moving = moving | moved
        if any(_extent(bounds, axis) > step for axis, (_, step, _) in moved.items()) and (
            len(moved) == 1 or all(steady for _, _, steady in moved.values())
        ):
            best = place, moving
    if best is None:
        loop = candidates[0][1] if candidates else parent.loops[computation.place]
        raise _refusal(
            computation.stage,
            loop,
            problem or f"iterations of {loop.axis.name} need nothing of {computation.name} that the last one computed",
            "drop rolling_buffer, or compute it at the loop along which regions overlap",
        )
    place, moving = best
    dimensions = tuple(
        _Dimension(axis, bounds.ranges[axis].begin, bounds.ranges[axis].extent, *moving.get(axis, (None, 0, True)))
        for axis in axes
    )
    outermost = parent.loops[place]
    ring = next(at for at, dimension in enumerate(dimensions) if dimension.loop is outermost and dimension.kept)
    return _Rolling(computation, place, dimensions, ring)


def _check_elementwise(stage: Stage, readers: Sequence[Stage], loop: Loop) -> None:
    """A ring has no strides that instructions, or functions that get pointers, could be told."""
    for user in (stage, *readers):
        if not user.op.values or any(attr.kind == "tensorized" for attr in user.iter_var_attrs.values()):
            how = "is tensorized" if user.op.values else f"is a {user.op.kind}"
            raise _refusal(
                stage, loop, f"{user.name} {how}, and takes memory as one piece: a ring is none", "drop rolling_buffer"
            )


def _serial_loops(computation: Computation, parent: StageBounds) -> list[tuple[int, Loop]]:
    """The loops around a stage in its parent that run in order, innermost first, with their places."""
    loops: list[tuple[int, Loop]] = []
    for place in range(computation.place, -1, -1):
        loop = parent.loops[place]
        if loop.var is None:
            continue
        # iterations of other loops run at once: none finds the rows of the one before
        if loop.attr.kind not in ("serial", "unrolled"):
            break
        loops.append((place, loop))
    return loops


def _extent(bounds: StageBounds, axis: IterVar) -> int:
    return integer_value(bounds.ranges[axis].extent, 0)


def _step(bounds: StageBounds, axis: IterVar, loop: Loop, analyzer: Analyzer) -> tuple[int, bool] | None:
    """Return by how much the begin of a dimension moves with a loop, and whether it always does (else it moves by no more); None where
    that is not known, or may be negative."""
    begin, var = bounds.ranges[axis].begin, loop.var
    assert var is not None
    if var not in free_vars(begin):
        return 0, True
    if not isinstance(bounds.ranges[axis].extent, IntImm):
        return None
    following = substitute(begin, {var: var + 1})
    moved = analyzer.simplify(following - begin)
    if isinstance(moved, IntImm):
        # backwards it would need rows that the ring has overwritten
        return None if moved.value < 0 else (moved.value, True)
    most, back = difference_bound(following, begin, analyzer), difference_bound(begin, following, analyzer)
    return None if most is None or back is None or back > 0 else (most, False)


def _changes(bounds: StageBounds, axes: Sequence[IterVar], loop: Loop) -> bool:
    """Return whether the extent of the region changes with a loop."""
    return any(loop.var in free_vars(bounds.ranges[axis].extent) for axis in axes)


def _refusal(stage: Stage, loop: Loop, reason: str, fix: str) -> CannotRoll:
    where = stage.attach_stage
    return CannotRoll(
        f"cannot give stage {stage.name} a rolling buffer",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops="" if where is None else outline(where, [loop.axis]),
        fix=fix,
    )


def _roll(nest: Stmt, plan: _Rolling, storage: Storage, analyzer: Analyzer) -> Stmt:
    """The statement `nest` of the loop at plan.place, the storage around it."""
    shape: list[Expr] = []
    for at, dimension in enumerate(plan.dimensions):
        extent = storage.buffers[plan.computation.op.output(0)].shape[at]
        if dimension.loop is not None and at != plan.ring:
            last = cast(dimension.loop.extent, extent.dtype) - 1
            extent = analyzer.simplify(extent + last * const(dimension.step, extent.dtype))
        shape.append(extent)

    def at_place(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        result: list[Expr] = []
        for at, (dimension, index) in enumerate(zip(plan.dimensions, indices, strict=True)):
            if dimension.loop is None:
                result.append(index)
            elif at == plan.ring:
                result.append(floormod(index + dimension.begin, cast(dimension.extent, index.dtype)))
            else:
                result.append(index + cast(dimension.loop.value, index.dtype) * const(dimension.step, index.dtype))
        return tuple(result)

    stage, axes = plan.computation.stage, plan.computation.op.axis
    strides = storage.strides(stage, axes, shape)
    moved: dict[Buffer, tuple[Buffer, Callable[[tuple[Expr, ...]], tuple[Expr, ...]]]] = {}
    for tensor in plan.computation.op.outputs:
        old = storage.buffers[tensor]
        new = storage.buffers[tensor] = replace(old, shape=tuple(shape), strides=strides)
        moved[old] = new, at_place
    result = moved_accesses(nest, moved, analyzer)
    for new, _ in moved.values():
        result = Allocate(new, result)
    return result


class _Rings(Extension):
    def __init__(self, storage: Storage, analyzer: Analyzer) -> None:
        super().__init__(storage, analyzer)
        self.plans: dict[Place, list[_Rolling]] = {}
        """Storage that lies around a loop, by that loop."""
        self.outliving: set[Computation] = set()

    def plan(self, bounds: Bounds) -> None:
        for computation, stage_bounds in bounds.of.items():
            overlap = computation.stage.overlap
            if overlap is None or overlap.primitive != _ROLLING:
                continue
            check_shared(computation)
            parent = computation.parent
            assert parent is not None, "it is computed at a loop"
            if any(loop.var is not None for loop in bounds.of[parent].loops[: computation.place + 1]):
                readers = [reader.stage for reader in bounds.dataflow.consumers.get(computation.op, ())]
                try:
                    plan = _plan(stage_bounds, bounds.of[parent], readers, self.analyzer)
                except CannotRoll:
                    if not overlap.strict:
                        continue
                    raise
                stage_bounds.fresh = plan.fresh
                self.plans.setdefault((parent, plan.place), []).append(plan)
                self.outliving.add(computation)

    def allocates(self, computation: Computation) -> bool:
        return computation in self.outliving

    def around(self, place: Place, loop: Loop, statement: Stmt) -> Stmt:
        for plan in self.plans.pop(place, []):
            statement = _roll(statement, plan, self.storage, self.analyzer)
        return statement


# The primitive


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.attached_stage()
    return None if stage is None else (f"rolling_buffer of {stage.name}", stage.rolling_buffer)


@primitive(
    StagePrimitives,
    "storage",
    tries=once(lambda stage: stage.rolling_buffer()),
    draw=_draw,
    weight=1,
    rare=True,
    foreign={},
    lowering=_Rings,
)
def rolling_buffer(stage: Stage, strict: bool = True) -> None:
    """Use again what the last iteration of the loop that it is computed at computed, and compute the rest.

        for y in 6:                           B: float32[3, 8]
            B: float32[3, 8]                  for y in 6:
            for r in 3:                           for r in 3:
                for x in 8:             →             for x in 8:
                    B[r, x] = A[y + r, x]                 if y == 0 or r >= 2: B[(y + r) % 3, x] = A[y + r, x]
            ... B[r, x] ...                       ... B[(y + r) % 3, x] ...

    What is read must move by constant steps that are smaller than its extent, which is decided when the schedule is lowered.
    strict: whether it is refused there otherwise (CannotRoll, TW0352); else all is computed in each iteration.

    Raises BadOverlap (TW0252).
    """
    more = {} if strict else {"strict": False}
    set_overlap(stage, Overlap(_ROLLING, "rolling", strict=strict), **more)
