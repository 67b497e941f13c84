"""Match of a tensor intrinsic with the loops under a tensorized one, and the parts of tensors that it works on.

The values of the stage are written in terms of the axes of the intrinsic: each root axis is a begin, which the loops
outside decide, plus an axis of the intrinsic. Then both bodies are walked side by side. Where the stage reads A[i, j] and
the intrinsic a[k], the part of A begins at what is left of (i, j) without k, and nothing of that may depend on an axis
of the intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from ...base.errors import LoweringError
from ...ir import Expr, IntImm, IterVar, Var, substitute
from ...ir.analysis.regions import Span, SpanEvaluator
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import cast, const, is_const
from ...te.tensor import Tensor
from ...te.tensor_compute import TensorComputeOp, intrinsic_call
from ...te.tensor_intrin import TensorIntrin, pair_dimensions
from ..lowering.computation import StageBounds
from ..lowering.errors import TensorizeRegion
from .bodies import Bodies, sides
from .plan import Part, Plan, TensorizedStage
from .show import beside

__all__ = ["Part", "Plan", "match", "tensorized_place"]


def tensorized_place(bounds: StageBounds) -> int:
    """The index of the tensorized loop among those of the stage; -1 for none."""
    return next((at for at, loop in enumerate(bounds.loops) if loop.attr.kind == "tensorized"), -1)


def match(
    bounds: StageBounds,
    place: int,
    axes: Mapping[IterVar, Expr],
    analyzer: Analyzer,
    resolve: Callable[[Expr, Mapping[IterVar, Expr]], Expr],
) -> Plan:
    """The plan for the tensorized loop at `place`. axes: the value of each root axis in terms of loops.

    Raises TensorizeRegion (TW0380) and TensorizeBody (TW0381).
    """
    intrinsic = bounds.loops[place].attr.intrinsic
    assert intrinsic is not None
    stage = TensorizedStage(bounds, place, intrinsic, analyzer, axes, resolve)
    begins, extents = _box(stage)
    stage.intrinsic = intrinsic = _choose_sizes(stage, extents)
    for axis in (*intrinsic.op.axis, *intrinsic.op.reduce_axis):
        if axis.dom is not None:
            analyzer.bind(axis, axis.dom)
    partners = _partners(stage, extents)
    values = {
        axis: begin + cast(partners[axis], axis.dtype) if axis in partners else begin for axis, begin in begins.items()
    }
    parts: dict[Tensor, Part] = {}
    op = bounds.computation.op
    begin = tuple(begins[axis] for axis in op.axis)
    call = intrinsic_call(op)
    if call is not None and call.intrinsic is not intrinsic:
        call = None
    dims = (
        tuple(at for at, axis in enumerate(op.axis) if values[axis] is not begins[axis])
        if call is None
        else call.out_dims
    )
    for mine, its in zip(op.outputs, intrinsic.op.outputs, strict=True):
        parts[its] = Part(mine, begin, dims)
    if call is not None:
        return Plan(intrinsic, place, parts | _called_parts(stage, call, begins), _called_scalars(stage, call, begins))
    bodies = Bodies(stage, values, partners, parts)
    bodies.compare()
    return Plan(intrinsic, place, parts, bodies.scalars)


def _called_parts(stage: TensorizedStage, op: TensorComputeOp, begins: Mapping[IterVar, Expr]) -> dict[Tensor, Part]:
    """The parts of a stage whose operation calls the intrinsic."""
    parts: dict[Tensor, Part] = {}
    for its, part in zip(stage.intrinsic.inputs, op.boxes, strict=True):
        assert isinstance(part.begin.producer, Tensor)
        begin = tuple(stage.analyzer.simplify(stage.resolve(index, begins)) for index in part.begin.indices)
        parts[its] = Part(part.begin.producer, begin, part.dims)
    return parts


def _called_scalars(stage: TensorizedStage, op: TensorComputeOp, begins: Mapping[IterVar, Expr]) -> dict[Var, Expr]:
    values = (stage.analyzer.simplify(stage.resolve(value, begins)) for value in op.scalars)
    return dict(zip(stage.intrinsic.scalar_params, values, strict=True))


# Axes


def _box(stage: TensorizedStage) -> tuple[dict[IterVar, Expr], dict[IterVar, int]]:
    """Return the begin of each root axis under the outer loops, and the number of values that the inner loops take it through."""
    op = stage.stage_bounds.computation.op
    extents: dict[IterVar, int] = {}
    begins: dict[IterVar, Expr] = {}
    for axis in (*op.axis, *op.reduce_axis):
        begins[axis], extents[axis] = _find_extent(stage, axis)
    _check_box(stage, extents)
    return begins, extents


def _choose_sizes(stage: TensorizedStage, extents: Mapping[IterVar, int]) -> TensorIntrin:
    """The intrinsic, its symbols for sizes replaced by what the loops run through."""
    op, its = stage.stage_bounds.computation.op, stage.intrinsic.op
    symbols: dict[Var, Expr] = {}
    for mine, wanted in ((op.axis, its.axis), (op.reduce_axis, its.reduce_axis)):
        pair_dimensions(
            [extents[axis] for axis in mine], [axis.dom.extent for axis in wanted if axis.dom is not None], symbols
        )
    return stage.intrinsic.specialised(symbols)


def _partners(stage: TensorizedStage, extents: Mapping[IterVar, int]) -> dict[IterVar, IterVar]:
    """The axis of the intrinsic that each root axis runs along, for those that do."""
    op, its = stage.stage_bounds.computation.op, stage.intrinsic.op
    return {
        **_pair_axes(stage, op.axis, its.axis, extents, "data"),
        **_pair_axes(stage, op.reduce_axis, its.reduce_axis, extents, "reduce"),
    }


def _find_extent(stage: TensorizedStage, axis: IterVar) -> tuple[Expr, int]:
    """Return the begin of a root axis under the outer loops, and the number of values that the inner loops take it through."""
    value = stage.axes[axis]
    zeros = {loop.var: const(0, loop.var.dtype) for loop in stage.inner if loop.var is not None}
    begin = stage.analyzer.simplify(substitute(value, zeros))
    spans = {loop.var: Span.of(const(0, loop.var.dtype), loop.extent) for loop in stage.inner if loop.var is not None}
    offset = stage.analyzer.simplify(value - begin)
    span = SpanEvaluator(spans, stage.analyzer)(offset)
    if span is None or not isinstance(span.high, IntImm) or not is_const(span.low, 0):
        raise stage.error(
            TensorizeRegion,
            f"{axis.name} takes the values `{value}` there, which are not a constant number of consecutive ones",
            "split the axes so that whole inner loops of constant extent lie under the tensorized one",
        )
    return begin, span.high.value + 1


def _check_box(stage: TensorizedStage, extents: Mapping[IterVar, int]) -> None:
    """The inner loops must run through the whole box, each point once."""
    lengths = [loop.extent for loop in stage.inner]
    points = prod(length.value for length in lengths if isinstance(length, IntImm))
    if any(not isinstance(length, IntImm) for length in lengths) or points != prod(extents.values()):
        shown = ", ".join(f"{loop.axis.name} in {loop.extent}" for loop in stage.inner)
        region = " x ".join(f"{axis.name}: {extent}" for axis, extent in extents.items() if extent != 1)
        raise stage.error(
            TensorizeRegion,
            f"its loops ({shown}) do not run through all of the box ({region})",
            "tensorize loops that come from splits of single axes",
        )


def _pair_axes(
    stage: TensorizedStage,
    mine: Sequence[IterVar],
    wanted: Sequence[IterVar],
    extents: Mapping[IterVar, int],
    kind: str,
) -> dict[IterVar, IterVar]:
    """Axes of the stage with those of the intrinsic, from the last on; axes of one iteration may be left out."""
    pairs: dict[IterVar, IterVar] = {}
    rest = list(mine)
    for partner in reversed(wanted):
        length = partner.dom.extent if partner.dom is not None else None
        while (
            rest and not (isinstance(length, IntImm) and extents[rest[-1]] == length.value) and extents[rest[-1]] == 1
        ):
            rest.pop()
        if not rest or not isinstance(length, IntImm) or extents[rest[-1]] != length.value:
            raise _region(stage, mine, wanted, extents, kind)
        pairs[rest.pop()] = partner
    if any(extents[axis] != 1 for axis in rest):
        raise _region(stage, mine, wanted, extents, kind)
    return pairs


def _region(
    stage: TensorizedStage,
    mine: Sequence[IterVar],
    wanted: Sequence[IterVar],
    extents: Mapping[IterVar, int],
    kind: str,
) -> LoweringError:
    computed = ", ".join(f"{axis.name}: {extents[axis]}" for axis in mine) or "no axis"
    takes = (
        ", ".join(f"{axis.name}: {axis.dom.extent if axis.dom is not None else '?'}" for axis in wanted) or "no axis"
    )
    return stage.error(
        TensorizeRegion,
        f"the {kind} axes of {stage.stage_bounds.computation.name} run through ({computed}) under the loop, those of the intrinsic "
        f"through ({takes})",
        _advice(stage, mine, wanted, extents),
        _show(stage, mine, wanted, extents),
    )


def _show(
    stage: TensorizedStage,
    mine: Sequence[IterVar],
    wanted: Sequence[IterVar],
    extents: Mapping[IterVar, int],
) -> str:
    """Both nests, the first loops that differ, counted from the innermost, marked."""
    its = stage.intrinsic.op
    known = {axis: str(axis.dom.extent) for axis in (*its.axis, *its.reduce_axis) if axis.dom is not None}
    alone = mine if len(mine) == len(wanted) else ()
    shown = {axis: str(extent) for axis, extent in extents.items() if extent != 1 or axis in alone}
    left, right = sides(stage, shown)
    a, b = ([axis for axis in reversed(axes) if axis in shows] for axes, shows in ((mine, shown), (wanted, known)))
    for x, y in zip(a, b, strict=False):
        if shown[x] != known[y]:
            return beside(left, right, (x.name, y.name))
    longer = "loop without partner"
    return beside(
        left, right, (a[len(b)].name if len(a) > len(b) else longer, b[len(a)].name if len(b) > len(a) else longer)
    )


def _advice(
    stage: TensorizedStage, mine: Sequence[IterVar], wanted: Sequence[IterVar], extents: Mapping[IterVar, int]
) -> str:
    """The split that is missing, where it is one."""
    name = stage.stage_bounds.computation.name
    for axis, partner in zip(reversed(mine), reversed(wanted), strict=False):
        length = partner.dom.extent if partner.dom is not None else None
        if isinstance(length, IntImm) and extents[axis] != length.value:
            return f"s[{name}].split({axis.name}, factor={length.value}), and bring the outer loop outside of the tensorized one"
    return "leave out of the tensorized loop what the intrinsic has no axis for, by reorder and split"
