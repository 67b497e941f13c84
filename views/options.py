"""What a stage can take now, and why it cannot take the rest.

There is no second list of rules: each primitive is tried on a copy of the schedule, with one choice of numbers where it
takes any (a split by 2 stands for all), and where the schedule held together before, the copy is lowered too. What is
legal is what raises nothing; the reasons are those of the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from ..errors import TilewrightError
from ..ir.buffer import SCOPES
from ..ir.expr import IterVar
from ..schedule.lowering.lower import lower
from ..schedule.lowering.text import all_arguments
from ..schedule.model.replay import ON_SCHEDULES, ON_STAGES
from ..schedule.model.schedule import Schedule
from ..schedule.model.stage import Stage
from ..te.axis import thread_axis
from ..te.errors import UnknownIntrinsic
from ..te.intrinsics import get as shipped_intrinsic
from ..te.intrinsics import names as shipped_intrinsics
from ..te.tensor_intrin import TensorIntrin

__all__ = ["Option", "Options", "options"]

Try: TypeAlias = "tuple[str, Callable[[Stage], Any]]"
"""The arguments as they are shown, and the call on the stage of a copy."""


@dataclass(frozen=True, slots=True)
class Option:
    """A primitive with the arguments it was tried with. error: what it raised, None where it is legal."""

    primitive: str
    arguments: str
    error: TilewrightError | None

    @property
    def is_legal(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Options:
    """What was tried on a stage. holds: whether the schedule holds together as it is, so that what only the whole schedule
    decides was looked at too."""

    stage: str
    tried: tuple[Option, ...]
    holds: bool

    @property
    def legal(self) -> tuple[Option, ...]:
        """What raises nothing."""
        return tuple(option for option in self.tried if option.is_legal)

    @property
    def refused(self) -> tuple[Option, ...]:
        """What raises, each with its error."""
        return tuple(option for option in self.tried if not option.is_legal)

    def reason(self, primitive: str, arguments: str = "") -> str:
        """Why this was refused; "" where it is legal or was not tried."""
        found = next((one for one in self.refused if (one.primitive, one.arguments) == (primitive, arguments)), None)
        return "" if found is None or found.error is None else found.error.reason or found.error.headline

    def __str__(self) -> str:
        width = max((len(option.primitive) for option in self.tried), default=0)
        lines = [f"stage {self.stage} can take"]
        for primitive in dict.fromkeys(option.primitive for option in self.legal):
            taken = [option.arguments for option in self.legal if option.primitive == primitive]
            lines.append(f"  {primitive:<{width}}  {'; '.join(filter(None, taken)) or 'yes'}")
        lines.append("and not")
        because: dict[tuple[str, str], list[str]] = {}
        for option in self.refused:
            assert option.error is not None
            reason = f"{option.error.reason or option.error.headline} ({option.error.code})"
            because.setdefault((option.primitive, reason), []).append(option.arguments)
        lines += [f"  {primitive:<{width}}  {'; '.join(tried) + ': ' if tried[0] else ''}{reason}"
                  for (primitive, reason), tried in because.items()]
        if not self.holds:
            lines.append("The schedule does not hold together as it is, so that what the whole decides was not looked at.")
        return "\n".join(lines)

    __repr__ = __str__


def options(schedule: Schedule, stage: Stage) -> Options:
    """Every primitive tried on `stage`; `schedule` stays as it is."""
    place = schedule.place_of(stage)
    holds = _lowers(schedule) is None
    tried: list[Option] = []
    for primitive in (*ON_STAGES, *ON_SCHEDULES):
        for shown, call in _TRIES[primitive](stage):
            copy = schedule.copy()
            error = _raised(lambda call=call, copy=copy: call(copy.stages[place]))
            if error is None and holds:
                error = _lowers(copy)
            tried.append(Option(primitive, shown, error))
    return Options(stage.name, tuple(tried), holds)


def _raised(action: Callable[[], object]) -> TilewrightError | None:
    try:
        action()
    except TilewrightError as error:
        return error
    return None


def _lowers(schedule: Schedule) -> TilewrightError | None:
    return _raised(lambda: lower(schedule, all_arguments(schedule)))


# What is tried. Axes and operations are the same objects in a copy; stages are found by their places.


def _once(call: Callable[[Stage], Any]) -> Callable[[Stage], Iterator[Try]]:
    def tries(stage: Stage) -> Iterator[Try]:
        if not stage.op.is_given:
            yield "", call

    return tries


def _each_loop(call: Callable[[Stage, IterVar], Any]) -> Callable[[Stage], Iterator[Try]]:
    def tries(stage: Stage) -> Iterator[Try]:
        for axis in stage.leaf_iter_vars:
            yield axis.name, lambda one, axis=axis: call(one, axis)

    return tries


def _neighbours(call: Callable[[Stage, IterVar, IterVar], Any]) -> Callable[[Stage], Iterator[Try]]:
    def tries(stage: Stage) -> Iterator[Try]:
        for outer, inner in pairwise(stage.leaf_iter_vars):
            yield f"{outer.name}, {inner.name}", lambda one, a=outer, b=inner: call(one, a, b)

    return tries


def _bind(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        for tag in ("blockIdx.x", "threadIdx.x", "vthread"):
            yield f"{axis.name}, {tag}", lambda one, axis=axis, tag=tag: one.bind(axis, thread_axis(tag))


def _tensorize(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        for name in shipped_intrinsics():
            made = _plain_intrinsic(name)
            if made is not None:
                yield f"{axis.name}, {name}", lambda one, axis=axis, made=made: one.tensorize(axis, made)


def _plain_intrinsic(name: str) -> TensorIntrin | None:
    """An intrinsic that comes in one size; for the others somebody has to choose."""
    try:
        return shipped_intrinsic(name)
    except UnknownIntrinsic:
        return None


def _compute_at(stage: Stage) -> Iterator[Try]:
    if stage.op.is_given:
        return
    for at, reader in enumerate(stage.schedule.stages):
        if reader.reads(stage):
            for axis in reader.leaf_iter_vars:
                yield f"{reader.name}, {axis.name}", lambda one, at=at, axis=axis: one.compute_at(one.schedule.stages[at], axis)


def _scopes(stage: Stage) -> Iterator[Try]:
    if not stage.op.is_given:
        for scope in SCOPES:
            yield scope, lambda one, scope=scope: one.set_scope(scope)


def _data_axes(call: Callable[[Stage, IterVar], Any]) -> Callable[[Stage], Iterator[Try]]:
    def tries(stage: Stage) -> Iterator[Try]:
        for axis in stage.op.axis:
            yield axis.name, lambda one, axis=axis: call(one, axis)

    return tries


def _predicate(stage: Stage) -> Iterator[Try]:
    for axis in stage.op.axis[:1]:
        yield f"a condition on {axis.name}", lambda one, axis=axis: one.set_store_predicate(axis >= 0)


def _cache_read(stage: Stage) -> Iterator[Try]:
    readers = [one.op for one in stage.schedule.stages if any(tensor.op is stage.op for tensor in one.op.input_tensors)]
    if readers:
        names = ", ".join(op.name for op in readers)
        yield f"for {names}", lambda one: one.schedule.cache_read(one.op.output(0), "local", readers)


def _cache_write(stage: Stage) -> Iterator[Try]:
    if not stage.op.is_given:
        yield "", lambda one: one.schedule.cache_write(list(one.op.outputs), "local")


def _rfactor(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        if axis.kind == "reduce":
            yield axis.name, lambda one, axis=axis: one.schedule.rfactor(list(one.op.outputs), axis)


def _clone(stage: Stage) -> Iterator[Try]:
    readers = [one.op for one in stage.schedule.stages if any(tensor.op is stage.op for tensor in one.op.input_tensors)]
    if readers:
        yield f"for {readers[-1].name}", lambda one: one.schedule.clone_in(list(one.op.outputs), readers[-1:])


def _group(stage: Stage) -> Iterator[Try]:
    inputs = [tensor for tensor in stage.op.input_tensors if tensor in stage.schedule]
    if inputs:
        names = ", ".join(tensor.name for tensor in inputs)
        yield f"from {names}", lambda one: one.schedule.create_group(list(one.op.outputs), inputs)


def _layout(stage: Stage) -> Iterator[Try]:
    if stage.op.outputs[0].ndim > 1:
        yield "the last two dimensions swapped", lambda one: one.transform_layout(lambda *i: [*i[:-2], i[-1], i[-2]])


def _prefetch(stage: Stage) -> Iterator[Try]:
    for tensor in stage.op.input_tensors:
        for axis in stage.leaf_iter_vars:
            yield f"{tensor.name}, {axis.name}", lambda one, axis=axis, tensor=tensor: one.prefetch(tensor, axis, 1)


def _threads(stage: Stage) -> Iterator[Try]:
    if stage.op.is_stepwise:
        yield "threadIdx.x", lambda one: one.env_threads([thread_axis((0, 32), "threadIdx.x")])


_TRIES: dict[str, Callable[[Stage], Iterator[Try]]] = {
    "split": _each_loop(lambda stage, axis: stage.split(axis, 2)),
    "fuse": _neighbours(lambda stage, outer, inner: stage.fuse(outer, inner)),
    "reorder": _neighbours(lambda stage, outer, inner: stage.reorder(inner, outer)),
    "tile": _neighbours(lambda stage, outer, inner: stage.tile(outer, inner, 2, 2)),
    "parallel": _each_loop(lambda stage, axis: stage.parallel(axis)),
    "vectorize": _each_loop(lambda stage, axis: stage.vectorize(axis)),
    "unroll": _each_loop(lambda stage, axis: stage.unroll(axis)),
    "bind": _bind,
    "pragma": _each_loop(lambda stage, axis: stage.pragma(axis, "unroll_explicit", True)),
    "tensorize": _tensorize,
    "compute_at": _compute_at,
    "compute_inline": _once(lambda stage: stage.compute_inline()),
    "compute_root": _once(lambda stage: stage.compute_root()),
    "set_scope": _scopes,
    "storage_align": _data_axes(lambda stage, axis: stage.storage_align(axis, 8, 1)),
    "set_store_predicate": _predicate,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "rfactor": _rfactor,
    "create_group": _group,
    "clone_in": _clone,
    "transform_layout": _layout,
    "double_buffer": _once(lambda stage: stage.double_buffer()),
    "rolling_buffer": _once(lambda stage: stage.rolling_buffer()),
    "prefetch": _prefetch,
    "env_threads": _threads,
}
"""For each primitive, what it is tried with."""
