"""transform_layout: the elements of a tensor in another order, and in a memory of another shape.

The operation is rewritten over the new dimensions, and what reads it reads the new place. An argument has the new shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import TilewrightError, user_source
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import (
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    IterVar,
    Node,
    ProducerLoad,
    Range,
    Reduce,
    Var,
)
from ...ir.ops import conjunction, const, if_then_else, likely
from ...ir.visit import free_vars, rewrite
from ...te.operation import ComputeOp, Operation
from ...te.rewrite import substitute_axes
from ...te.tensor import Tensor
from ..errors import BadLayout
from ..model.checks import outline, require_list
from ..model.foreign import LAYOUT, NOTHING, NUMBER, either
from ..model.index_map import IndexMap, Inverse, NoLayout, invert
from ..model.layout import first_then, refuse_dangling_predicate, retire
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["transform_layout"]


def _tries(stage: Stage) -> Iterator[Try]:
    if stage.op.outputs[0].ndim > 1:
        yield "the last two dimensions swapped", lambda one: one.transform_layout(lambda *i: [*i[:-2], i[-1], i[-2]])


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: not stage.is_output and stage.op.axis and not stage.is_scheduled())
    if stage is None:
        return None
    rank = len(stage.op.axis)
    order, place, factor = drawer.permutation(rank), drawer.below(rank), drawer.pick([2, 4, 3, 8])
    blocked, pad = drawer.chance(0.5), drawer.pick([None, None, 0])

    def places(*indices: Any) -> list[Any]:
        moved = [indices[at] for at in order]
        return (
            [*moved[:place], moved[place] // factor, *moved[place + 1 :], moved[place] % factor] if blocked else moved
        )

    label = f"transform_layout({order}, {place}, {factor if blocked else 1}) of {stage.name}"
    return label, lambda: stage.transform_layout(places, pad)


@primitive(
    StagePrimitives,
    "storage",
    tries=_tries,
    draw=_draw,
    weight=2.5,
    rare=True,
    foreign={"mapping_function": LAYOUT, "pad_value": either(NOTHING, NUMBER)},
)
def transform_layout(
    stage: Stage,
    mapping_function: Callable[..., Any],
    pad_value: Any = None,
) -> list[IterVar] | None:
    """Lay the elements out as mapping_function says.

        for n in 2:                         for n in 2:       # transform_layout(lambda n, c: [n, c // 4, c % 4])
          for c in 6:                         for c.outer in 2:
            A[n, c] = ...            →          for c.inner in 4:
        B[n, c] = A[n, c] ...                     A[n, c.outer, c.inner] = ... if c.outer * 4 + c.inner < 6 else 0.0
                                            B[n, c] = A[n, c // 4, c % 4] ...

    mapping_function: takes the indices of an element and returns those of its place, `lambda n, c, h, w: [n, c // 4, h, w,
    c % 4]`, or with a swizzle `lambda i, j: [i, j // 8 ^ i % 8, j % 8]`; the tensor then has the shape that these span; where
    it is an argument, callers pass and get arrays of that shape. pad_value: of the tensor's dtype, or a list with one for each
    output; what stands where no element lies (a C of 6 in fours), or 0 where none is given: computed tensors are filled with
    it. Returns the loops of a stage that computes, one for each new dimension; a placeholder has none (None).

    Raises BadLayout (TW0253): where elements would share a place, or where the loops are scheduled already.
    """
    _check_stage(stage)
    op = stage.op
    extents = op.output_shape
    like = op.axis if op.values else tuple(Var(f"i{at}", extent.dtype) for at, extent in enumerate(extents))
    try:
        layout = IndexMap.of(mapping_function, like)
        axes: list[IterVar] = []

        def axis(place: int, extent: Expr) -> Var:
            axes.append(IterVar(_name(layout, place), extent.dtype, Range(const(0, extent.dtype), extent)))
            return axes[-1]

        inverse = invert(layout, extents, axis)
    except NoLayout as problem:
        raise _bad(stage, problem.reason, problem.fix) from None
    pads = _pads(stage, pad_value)
    with stage.schedule.compound("transform_layout", stage, mapping_function=layout, pad_value=pad_value):
        compute = op.as_compute
        laid_out = op.reshape(inverse.shape) if compute is None else _rebuild(compute, axes, inverse, pads)
        retire(stage.schedule, op.axis, f"was an axis of {stage.name} until transform_layout gave it others{{at}}")
        _read_there(stage, laid_out, layout)
    return list(stage.op.axis) if op.values else None


def _bad(stage: Stage, reason: str, fix: str) -> BadLayout:
    return BadLayout(
        f"cannot transform the layout of {stage.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage),
        fix=fix,
    )


def _check_stage(stage: Stage) -> None:
    op = stage.op
    if op.as_compute is None and not op.is_passed:
        raise _bad(
            stage, f"{stage.name} is not an expression element by element", "transform a copy of it, by cache_read"
        )
    if stage.attach_type in ("inline", "inlined"):
        raise _bad(stage, f"{stage.name} is inlined, so it lies nowhere", f"s[{stage.name}].compute_root() first")
    if (
        stage.relations
        or stage.iter_var_attrs
        or any(a is not b for a, b in zip(stage.leaf_iter_vars, stage.all_iter_vars, strict=False))
    ):
        raise _bad(
            stage,
            "its loops are scheduled already, and a new layout makes new ones",
            "call transform_layout first, then schedule the loops that it returns",
        )
    placed = stage.schedule.find_placed(stage)
    if placed:
        raise _bad(
            stage,
            f"{placed[0].name} is computed at a loop of it, which would vanish",
            f"call transform_layout first, then place {placed[0].name} at a loop that it returns",
        )
    refuse_dangling_predicate(stage, op.reduce_axis, BadLayout, "cannot transform the layout of")
    reader = next((other for other in stage.schedule.sort_stages(stage.readers) if not other.op.values), None)
    if reader is not None:
        raise _bad(
            stage,
            f"{reader.name}, a {reader.op.kind}, reads it as it is",
            f's.cache_read({stage.name}, "global", readers) gives a copy to transform',
        )


def _pads(stage: Stage, pad_value: Any) -> tuple[Expr, ...]:
    """Return the fill value of the padding of each output."""
    op = stage.op
    listed = require_list(pad_value) if isinstance(pad_value, (list, tuple)) else [pad_value] * op.num_outputs
    given: list[Any] = [0 if item is None else item for item in listed]
    advice = "pad_value takes a number of the tensor's dtype" + (
        ", or one for each output" if op.num_outputs > 1 else ""
    )
    if len(given) != op.num_outputs:
        raise _bad(stage, f"there are {len(given)} pad values for {op.num_outputs} outputs", advice)
    pads: list[Expr] = []
    for value, tensor in zip(given, op.outputs, strict=True):
        fits = not isinstance(value, Expr) or value.dtype == tensor.dtype
        try:
            pad = const(value, tensor.dtype) if not isinstance(value, Expr) else value
        except (TilewrightError, TypeError, ValueError, OverflowError):
            fits, pad = False, const(0)
        if not fits or not isinstance(pad, (IntImm, FloatImm)):
            raise _bad(stage, f"the pad value {value!r} is not a constant of type {tensor.dtype}"[:200], advice)
        pads.append(pad)
    return tuple(pads)


def _name(layout: IndexMap, place: int) -> str:
    """A name for a new dimension, after the index that it comes from."""
    index = layout.indices[place]
    if isinstance(index, Var):
        return index.name
    if isinstance(index, (FloorDiv, FloorMod)) and isinstance(index.a, Var):
        return f"{index.a.name}.{'outer' if isinstance(index, FloorDiv) else 'inner'}"
    return f"ax{place}"


def _rebuild(op: ComputeOp, axes: Sequence[IterVar], inverse: Inverse, pads: tuple[Expr, ...]) -> ComputeOp:
    """The operation over the new dimensions."""
    condition = likely(conjunction(*inverse.conditions)) if inverse.conditions else None
    own, analyzer = {*op.axis}, Analyzer()
    for axis in axes:
        if axis.dom is not None:
            analyzer.bind(axis, axis.dom)

    def read(node: Node) -> Node | None:  # (o.outer * 4 + o.inner) // 4 is o.outer
        if isinstance(node, ProducerLoad):
            return replace(node, indices=tuple(map(analyzer.simplify, node.indices)))
        return replace(node, condition=analyzer.simplify(node.condition)) if isinstance(node, IfThenElse) else None

    def rule(value: Expr) -> Expr:
        there = rewrite(substitute_axes(value, op.axis, inverse.values), read)
        if condition is None:
            return there
        if isinstance(there, Reduce):
            first = there.init or there.combiner.identity
            inits = tuple(if_then_else(condition, value, pad) for value, pad in zip(first, pads, strict=True))
            return replace(there, condition=first_then(condition, there.condition), init=inits)
        if op.reduction is not None:  # a bound of a reduce axis: beyond the elements the axis is empty
            return if_then_else(condition, there, const(0, there.dtype)) if own & {*free_vars(value)} else there
        return there

    moved = op.rewritten(rule)
    body = moved.body
    if condition is not None and op.reduction is None:
        body = tuple(if_then_else(condition, value, pad) for value, pad in zip(body, pads, strict=True))
    return ComputeOp(name=op.name, tag=op.tag, attrs=op.attrs, source=op.source, axis=tuple(axes), body=body)


def _read_there(stage: Stage, laid_out: Operation, layout: IndexMap) -> None:
    """Give the stage its new operation, and let its readers read the elements where they lie now. What is read at plain axes stays
    as it is said: a loop that was split so gives the indices back, (k // 5 * 5 + k % 5) // 4 being k // 4."""
    schedule, before = stage.schedule, stage.op
    now, simplify = dict(zip(before.outputs, laid_out.outputs, strict=True)), Analyzer().simplify

    def rule(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor) and node.producer in now:
            places = layout(*node.indices)
            plain = all(isinstance(index, (Var, IntImm)) for index in node.indices)
            return ProducerLoad(
                now[node.producer], tuple(places if plain else map(simplify, places))
            )  # i // 8 * 8 + i % 8 is i
        return None

    def moved(value: Expr) -> Expr:
        return rewrite(value, rule)

    readers = [reader for reader in schedule.sort_stages(stage.readers) if reader.op.values]
    schedule.rewrite({reader: reader.op.rewritten(moved) for reader in readers}, anew={stage: laid_out})
