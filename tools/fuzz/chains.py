"""Chains of stages, each elementwise or a reduction, of drawn expressions; and such stages that stand side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import te
from .choices import Choices
from .expressions import Context, cast, const, draw_read, draw_term
from .program import Draw, Program, grids, spread, terms, values
from .terms import DTYPES, EPSILON, EXACT, FLOATS, INTEGERS, Size, Source, Term, evaluate_arrays, express_tensors

__all__ = ["IDENTITY", "REDUCERS", "draw_chain", "draw_siblings", "fold"]


def elementwise_stage(draw: Draw, sources: list[Source], shape: tuple[Size, ...], dtype: str, smooth: bool) -> Source:
    context = Context(draw.choices, list(shape), sources, smooth)
    term = draw_term(context, dtype, draw.number(1, 3))
    if draw.chance(0.8):  # read what came last
        latest = draw_read(context, sources[-1])
        latest = cast(latest, dtype) if draw.chance(0.7) and not smooth else latest
        if latest.dtype == dtype == "bool":
            term = Term("any", "bool", (term, latest))
        elif latest.dtype == dtype:
            term = Term(
                "max", dtype, (term, latest), bound=max(term.bound, latest.bound), steps=max(term.steps, latest.steps)
            )
    tensor = te.compute(terms(*shape), lambda *axes: express_tensors(term, axes), draw.name("T"))
    extents = values(*shape)
    array = spread(evaluate_arrays(term, grids(*extents)), extents)
    return Source(tensor, array, shape, dtype, term.bound, term.steps)


IDENTITY: dict[str, Callable[[str], Any]] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "min": lambda dtype: np.inf if dtype in FLOATS else (True if dtype == "bool" else np.iinfo(dtype).max),
    "max": lambda dtype: -np.inf if dtype in FLOATS else (False if dtype == "bool" else np.iinfo(dtype).min),
}
UFUNC: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
REDUCERS: dict[str, Any] = {"sum": te.sum, "prod": te.prod, "min": te.min, "max": te.max}


def fold(kind: str, array: np.ndarray, count: int, first: Any) -> np.ndarray:
    """Reduce the last `count` axes one element at a time, starting from `first`."""
    lead = array.shape[: array.ndim - count]
    flat = array.reshape(*lead, int(np.prod(array.shape[array.ndim - count :], dtype=int)))
    result = np.broadcast_to(np.asarray(first).astype(array.dtype), lead).copy()
    for at in range(flat.shape[-1]):
        result = np.asarray(UFUNC[kind](result, flat[..., at]))
    return result


def reduction_stage(
    draw: Draw, sources: list[Source], shape: tuple[Size, ...], reduced: tuple[Size, ...], dtype: str, smooth: bool
) -> Source:
    context = Context(draw.choices, [*shape, *reduced], sources, smooth)
    kind = draw.pick(["min", "max"] if dtype == "bool" else ["sum", "sum", "prod", "min", "max"])
    length = int(np.prod(values(*reduced), dtype=int))
    term = draw_term(context, dtype, draw.number(0, 2))
    if kind == "prod" and dtype in FLOATS:
        positive = Term("gt", "bool", (term, const(0.0, dtype)))
        term = Term("select", dtype, (positive, const(2.0 if length <= 6 else 1.0, dtype), const(-1.0, dtype)), bound=2)
    if kind == "sum" and term.bound * 2**term.steps * max(length, 1) > EXACT.get(dtype, np.inf):
        kind = "max"
    where = draw_term(context, "bool", 1) if draw.chance(0.25) else None
    first = const(draw.pick([0, 1, 3]) if dtype != "bool" else True, dtype) if draw.chance(0.2) else None
    if first is not None and draw.chance(0.3) and dtype in INTEGERS:
        first = draw_term(Context(draw.choices, list(shape), sources), dtype, 1)
    names = [draw.name("k") for _ in reduced]
    begins = [draw.pick([0, 0, 0, 1, 3]) for _ in reduced]
    axes = [
        te.reduce_axis((begin, size.te + begin), name) for size, name, begin in zip(reduced, names, begins, strict=True)
    ]

    def compute(*data: Any) -> Any:
        at = [*data, *(axis - begin if begin else axis for axis, begin in zip(axes, begins, strict=True))]
        condition = None if where is None else express_tensors(where, at)
        init = None if first is None else express_tensors(first, data)
        return REDUCERS[kind](
            express_tensors(term, at), axis=axes[0] if len(axes) == 1 else axes, where=condition, init=init
        )

    tensor = te.compute(terms(*shape), compute, draw.name("R"))
    extents, whole = values(*shape), values(*shape, *reduced)
    grid = grids(*whole)
    array = spread(evaluate_arrays(term, grid), whole)
    identity = np.asarray(IDENTITY[kind](dtype)).astype(array.dtype)
    if where is not None:
        array = np.where(evaluate_arrays(where, grid), array, identity)
    start = identity if first is None else spread(evaluate_arrays(first, grids(*extents)), extents)
    bound = {"sum": term.bound * max(length, 1) + 3, "prod": 64.0}.get(kind, term.bound + 3)
    return Source(tensor, fold(kind, array, len(reduced), start), shape, dtype, bound, term.steps)


def draw_chain(choices: Choices) -> Program:
    """Inputs of related shapes, then one to four stages, each elementwise or a reduction, over what came before."""
    draw = Draw(choices, "chain")
    symbolic = 0.6 if draw.chance(0.2) else 0.0
    smooth = draw.chance(0.15)
    dtypes = [draw.pick([*INTEGERS, *FLOATS, "bool", "float32", "int32"]) for _ in range(3)]
    if smooth:
        dtypes = [draw.pick(["float32", "float64", "float32", "float16"])] * 3
    if not smooth and draw.chance(0.25):  # NaN and infinities, and integers that they are converted to
        draw.special = 0.1
        dtypes = [draw.pick(FLOATS), draw.pick(INTEGERS), draw.pick(DTYPES)]
    # now and then so large that tensors share storage
    base = draw.shape(draw.number(0, 4), 4200 if draw.chance(0.04) else 512, symbolic)
    sources: list[Source] = []
    for _ in range(draw.number(1, 3)):
        shape = base
        if draw.chance(0.3) and base:  # broadcast: without some dimensions, or with 1 there
            shape = tuple(Size(1, 1) if draw.chance(0.3) else size for size in base if draw.chance(0.7))
        if draw.chance(0.2) and shape:
            shape = tuple(shape[at] for at in choices.permutation(len(shape)))
        sources.append(draw.source(shape, draw.pick(dtypes)))
    stages: list[Source] = []
    worst = 1.0
    for _ in range(draw.number(1, 4)):
        shape, dtype = base, draw.pick(dtypes)
        if draw.chance(0.2):
            shape = tuple(base[at] for at in choices.permutation(len(base)))
        if draw.chance(0.3) and not smooth:
            split = draw.number(0, len(shape)) if draw.chance(0.5) else len(shape)
            kept, reduced = shape[:split], shape[split:]
            if not reduced or draw.chance(0.3):
                reduced = (*reduced, draw.size(5))
            source = reduction_stage(draw, sources, kept, reduced, dtype, smooth)
            base = kept if kept and draw.chance(0.4) else base
        else:
            source = elementwise_stage(draw, sources, shape, dtype, smooth)
        worst = max(worst, source.bound)
        sources.append(source)
        stages.append(source)
    if len(stages) > 1 and draw.chance(0.2):
        chosen = draw.pick(stages[:-1])
        draw.program.result(chosen.tensor, chosen.array)
    draw.program.result(stages[-1].tensor, stages[-1].array)
    tolerance = 256 * worst * max(EPSILON[dtype] for dtype in dtypes) if smooth else 0.0
    return draw.finish(tolerance)


def draw_siblings(choices: Choices) -> Program:
    """Two to four stages that read the same inputs and not each other, over the same axes; and perhaps one that does."""
    draw = Draw(choices, "siblings")
    shape = draw.shape(draw.number(1, 3), 512, 0.5 if draw.chance(0.2) else 0.0)
    dtypes = [draw.pick([*INTEGERS, *FLOATS, "float32", "int32"]) for _ in range(2)]
    inputs = [draw.source(shape, dtype) for dtype in dtypes]
    reduced = shape[draw.number(0, len(shape)) :]
    kept = shape[: len(shape) - len(reduced)]
    stages: list[Source] = []
    for _ in range(draw.number(2, 4)):
        dtype = draw.pick(dtypes)
        stages.append(
            reduction_stage(draw, inputs, kept, reduced, dtype, False)
            if reduced and draw.chance(0.7)
            else elementwise_stage(draw, inputs, shape, dtype, False)
        )
    if draw.chance(0.3):
        stages.append(elementwise_stage(draw, [*inputs, *stages[:2]], shape, draw.pick(dtypes), False))
        stages = stages[2 if draw.chance(0.5) else 0 :]
    for stage in stages:
        draw.program.result(stage.tensor, stage.array)
    return draw.finish()
