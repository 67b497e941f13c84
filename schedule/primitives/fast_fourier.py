"""fast_fourier: a discrete Fourier transform by passes of small ones, in place of products with matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast

from ...base.arguments import is_sequence
from ...base.errors import user_source
from ...te.tensor import Tensor
from ..errors import BadFourier
from ..model.checks import outline
from ..model.foreign import PATH, TENSORS
from ..model.layout import check_outputs, refuse_dangling_predicate
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["fast_fourier", "fourier_points"]

MOST = 31
"""The largest factor: its transform is written out."""


def _tries(stage: Stage) -> Iterator[Try]:
    steps = _some_steps(stage)
    if steps is not None:
        yield f"{steps}", lambda one: one.schedule.fast_fourier(one.op.output(0), steps)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: _some_steps(stage) is not None)
    steps = None if stage is None else _some_steps(stage)
    if stage is None or steps is None:
        return None
    return f"fast_fourier({stage.name}, {steps})", lambda: drawer.s.fast_fourier(stage.op.output(0), steps)


def _some_steps(stage: Stage) -> list[list[int]] | None:
    """Steps that a transform can take; None where it cannot, or is none."""
    points = fourier_points(stage)
    if points is None or not stage.is_untouched():
        return None
    found: list[int] = []
    left = points
    for each in range(2, MOST + 1):
        while left % each == 0:
            found.append(each)
            left //= each
    if left > 1:
        found = [2] * (2 * points - 2).bit_length()
    return [found[: len(found) // 2 or 1], found[len(found) // 2 or 1 :]] if found else None


def fourier_points(stage: Stage) -> int | None:
    """The points of the transform whose results a stage computes; None of any other stage."""
    op = stage.op.as_compute
    points = None if op is None or op.algorithm != "dft" else op.attrs.get("points")
    return points if isinstance(points, int) and _find_data(stage) is not None else None


def _find_data(stage: Stage) -> Tensor | None:
    """The data of a transform, where all that lies between is as declared."""
    data: Tensor | None = None
    waiting, met = [stage.op], {stage.op}
    while waiting:
        for tensor in waiting.pop().input_tensors:
            kind = tensor.op.algorithm
            if kind == "dft.data" and data in (None, tensor):
                data = tensor
            elif kind in ("dft.product", "dft.turned", "dft.order"):
                if tensor.op not in met:
                    met.add(tensor.op)
                    waiting.append(tensor.op)
            elif tensor.op.constant is None and not _is_table(tensor):
                return None
    return data


def _is_table(tensor: Tensor) -> bool:
    """Return whether a tensor is computed from constants alone."""
    op = tensor.op
    return (
        bool(op.values)
        and bool(op.input_tensors)
        and all(each.op.constant is not None or _is_table(each) for each in op.input_tensors)
    )


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1,
    rare=True,
    foreign={"tensor": TENSORS, "steps": PATH},
)
def fast_fourier(schedule: Schedule, tensor: Tensor, steps: Sequence[Sequence[int]]) -> list[Tensor]:
    """Compute a discrete Fourier transform of topi by passes of small transforms, in one stage of loops.

        for r, k:  for j:                               for r:                                 # fast_fourier(X, [[8, 4], [8, 8]])
          X[r, k] += matrix[k, j] * x[r, j]      →        passes of 8 and 4 over columns, rotations and a transposition,
                                                          passes of 8 and 8 over columns

    tensor: the result of topi.dft or of its kin along an axis of known length, not scheduled yet. steps: the factors of the first and
    of the second step, each from 2 to 31, at least one in the first; their product is the length, or any number from twice the
    length less 1 on: then the transform is a convolution of that length. Rows are loops that a schedule may share. Results are
    those of other sums, within the error that topi.dft states. Returns the tables of roots that the passes read.

    Raises BadFourier (TW0264), UnknownStage (TW0201), WrongArgument (TW0222).
    """
    from ...te.fourier import Transform
    from ...te.fourier import fast_fourier as declare

    stage, _ = check_outputs(schedule, tensor, BadFourier, "cannot transform")
    points, data = fourier_points(stage), _find_data(stage)
    op = stage.op.as_compute
    if points is None or data is None or op is None:
        raise _bad(stage, "it is not a result of a discrete Fourier transform of known length", "topi.dft(re, im)")
    if not stage.is_untouched():
        raise _bad(stage, "its loops are scheduled already", "call fast_fourier first")
    both = _check_steps(stage, steps, points)
    refuse_dangling_predicate(stage, (), BadFourier, "cannot transform")
    with schedule.compound("fast_fourier", tensor=tensor, steps=both):
        parts = _parts(stage)
        _, kept, results = op.output(0).shape
        inverse = bool(op.attrs["inverse"])
        transform = Transform(
            points, int(data.shape[-1]), int(kept), int(results), inverse, 1 / points if inverse else 1.0, both
        )
        made = declare(op.name, data, op.output(0).shape, transform, op.output(0).dtype, op.source)
        tables = [each for each in made.input_tensors if each.op.constant is not None and each is not data]
        for table in tables:
            schedule.insert_stage(schedule.find_place(stage), table.op, stage)
        schedule.rewrite({}, anew={stage: made})
        _drop(schedule, parts)
        schedule.losses.append(f"{stage.name} is computed by other sums than those of its matrix")
    return tables


def _bad(stage: Stage, reason: str, fix: str) -> BadFourier:
    return BadFourier(
        f"cannot transform {stage.name} by small factors",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, stage.leaf_iter_vars),
        fix=fix,
    )


def _check_steps(stage: Stage, steps: Sequence[Sequence[int]], points: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    fix = "the factors of both steps, as [[8, 4], [8, 8]] of 2048 points"
    items: list[Any] = list(steps) if is_sequence(steps) else []
    lists = [list(cast("Sequence[Any]", item)) for item in items if is_sequence(item)]
    if len(items) != 2 or len(lists) != 2 or not lists[0]:
        raise _bad(stage, f"its steps are {steps!r}"[:200], fix)
    wrong = [each for step in lists for each in step if type(each) is not int or not 2 <= each <= MOST]
    if wrong:
        raise _bad(stage, f"{wrong[0]!r} is not a factor from 2 to {MOST}"[:200], fix)
    length = prod(lists[0]) * prod(lists[1])
    if length != points and not 2 * points - 1 <= length < 1 << 31:
        raise _bad(stage, f"they come to {length} points, which are neither {points} nor {2 * points - 1} or more", fix)
    return tuple(lists[0]), tuple(lists[1])


def _parts(stage: Stage) -> list[Stage]:
    """The stages of a transform but its last, and its tables; readers before what they read."""
    found: dict[Stage, None] = {}
    waiting = [stage]
    while waiting:
        for producer in waiting.pop().producers:
            own = producer.op.algorithm.startswith("dft.") and producer.op.algorithm != "dft.data"
            if own or producer.op.constant is not None or _is_table(producer.op.output(0)):
                found[producer] = None
                waiting.append(producer)
    return stage.schedule.sort_stages(found)[::-1]


def _drop(schedule: Schedule, parts: Sequence[Stage]) -> None:
    """Take away what is read no longer."""
    schedule.refresh()
    for each in parts:
        if not each.readers and not each.is_output and not schedule.find_placed(each) and each.group is None:
            schedule.drop_stage(each)
