"""Drawn schedules: primitives on stages and loops where they look legal, and now and then where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

from ... import te
from ...errors import TilewrightError
from ...ir.expr import IntImm
from ...ir.ops import is_const
from ...schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective
from ...schedule.model.axes import declared_ranges
from .choices import Choices
from .epilogue import WINDOW
from .gpu import begin, finish
from .state import exact

__all__ = ["PRIMITIVES", "Drawn", "draw_schedule"]

FACTORS = (1, 2, 3, 4, 4, 5, 7, 8, 8, 16, 32)
TAGS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread", "vthread")
MOST_COPIES = 20
"""Of the body of a loop, by unrolling: more seldom finds more, and takes LLVM seconds."""
WILD = 0.015
"""The share of primitives that are drawn with no regard to what is legal."""


@dataclass
class Drawn:
    """What became of the primitives of one schedule: how often each was tried, refused with which code, and on which
    operations it was taken."""

    tried: dict[str, int] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    taken: list[tuple[Any, str]] = field(default_factory=list)


Attempt = tuple[str, Callable[[], Any]]


class Mutator:
    """Draws primitives for one schedule."""

    def __init__(self, choices: Choices, s: Any, about: str = "") -> None:
        self.choices, self.s = choices, s
        rolls = any(stage.op.tag == WINDOW for stage in s.stages) and self.chance(0.4)
        chosen = "rolling_buffer" if rolls else self.pick(SELDOM) if self.chance(FOCUSED) else ""
        self.focus = about or chosen
        """What this schedule is about, where it is about one primitive."""
        self.groups: list[tuple[Any, Any]] = []
        """Groups that have no place yet, and the stage that each gives."""
        self.subject: Any = None
        """The stage that the primitive in the making is for."""

    def chance(self, share: float) -> bool:
        return self.choices.chance(share)

    def pick(self, items: Sequence[Any]) -> Any:
        return self.choices.pick(items)

    @property
    def stages(self) -> list[Any]:
        return [stage for stage in self.s.stages
                if not (stage.op.is_given or stage.op.is_stepwise) and stage.attach_type not in ("inline", "inlined")]

    def extent(self, stage: Any, axis: Any) -> int | None:
        """The declared extent of a loop, where it is a constant."""
        found = declared_ranges(stage).get(axis)
        return found.extent.value if found is not None and isinstance(found.extent, IntImm) else None

    def begins_at_zero(self, stage: Any, axis: Any) -> bool:
        found = declared_ranges(stage).get(axis)
        return found is not None and is_const(found.begin, 0)

    def plain(self, stage: Any) -> list[Any]:
        """Loops that carry no annotation, and that no intrinsic stands for."""
        leaves = stage.leaf_iter_vars
        outside = next((at for at, axis in enumerate(leaves) if stage.attr(axis).kind == "tensorized"), len(leaves))
        return [axis for axis in leaves[:outside] if stage.attr(axis).kind == "serial" and not stage.attr(axis).pragmas]

    def data(self, stage: Any) -> list[Any]:
        return [axis for axis in self.plain(stage) if axis.kind != "reduce"]

    def some_stage(self, fits: Callable[[Any], Any]) -> Any:
        fitting = [stage for stage in self.stages if fits(stage)]
        self.subject = self.pick(fitting) if fitting else None
        return self.subject

    def readers(self, stage: Any) -> list[Any]:
        return [other for other in self.s.stages if any(tensor.op is stage.op for tensor in other.op.input_tensors)]

    # Loops

    def split(self) -> Attempt | None:
        stage = self.some_stage(self.plain)
        if stage is None:
            return None
        axis, size = self.pick(self.plain(stage)), self.pick(FACTORS)
        named = {"factor": size} if self.chance(0.7) else {"nparts": size}
        return f"split({axis.name}, {named}) of {stage.name}", lambda: stage.split(axis, **named)

    def fuse(self) -> Attempt | None:
        def pairs(stage: Any) -> list[tuple[Any, Any]]:
            leaves, plain = stage.leaf_iter_vars, self.plain(stage)
            return [(a, b) for a, b in pairwise(leaves)
                    if a in plain and b in plain and ((a.kind == "reduce") == (b.kind == "reduce") or self.chance(0.1))]
        stage = self.some_stage(pairs)
        if stage is None:
            return None
        found = pairs(stage)
        if not found:
            return None
        a, b = self.pick(found)
        return f"fuse({a.name}, {b.name}) of {stage.name}", lambda: stage.fuse(a, b)

    def reorder(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: len(stage.leaf_iter_vars) > 1)
        if stage is None:
            return None
        leaves = stage.leaf_iter_vars
        order = [leaves[at] for at in self.choices.permutation(len(leaves))][: max(2, self.choices.below(len(leaves) + 1))]
        return f"reorder({order}) of {stage.name}", lambda: stage.reorder(*order)

    def tile(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: len(self.data(stage)) > 1)
        if stage is None:
            return None
        data = self.data(stage)
        x, y = self.choices.some(data, 2)
        a, b = self.pick(FACTORS), self.pick(FACTORS)
        return f"tile({x.name}, {y.name}, {a}, {b}) of {stage.name}", lambda: stage.tile(x, y, a, b)

    # Kinds

    def parallel(self) -> Attempt | None:
        def free(stage: Any) -> bool:
            return bool(self.data(stage)) and all(stage.attr(axis).kind != "parallel" for axis in stage.leaf_iter_vars) and (
                stage.attach_type != "at" or self.chance(0.2))
        stage = self.some_stage(free)
        if stage is None:
            return None
        data = self.data(stage)
        axis = data[0] if self.chance(0.7) else self.pick(data)
        return f"parallel({axis.name}) of {stage.name}", lambda: stage.parallel(axis)

    def vectorize(self) -> Attempt | None:
        def known(stage: Any) -> list[Any]:
            return [axis for axis in self.data(stage) if (self.extent(stage, axis) or 99) <= 65]
        stage = self.some_stage(known)
        if stage is None:
            return None
        axes = known(stage)
        axis = axes[-1] if self.chance(0.7) else self.pick(axes)
        return f"vectorize({axis.name}) of {stage.name}", lambda: stage.vectorize(axis)

    def unroll(self) -> Attempt | None:
        def short(stage: Any) -> list[Any]:
            return [axis for axis in self.plain(stage) if (self.extent(stage, axis) or 99) <= 9]
        stage = self.some_stage(short)
        if stage is None:
            return None
        axis = self.pick(short(stage))
        copies = prod(self.extent(stage, one) or 8 for one in stage.leaf_iter_vars if stage.attr(one).kind == "unrolled")
        if copies * (self.extent(stage, axis) or 8) > MOST_COPIES and not self.chance(0.03):
            return None
        return f"unroll({axis.name}) of {stage.name}", lambda: stage.unroll(axis)

    def bind(self) -> Attempt | None:
        def bindable(stage: Any) -> list[Any]:
            return [axis for axis in self.plain(stage) if self.begins_at_zero(stage, axis)
                    and (axis.kind != "reduce" or self.chance(0.15))]
        stage = self.some_stage(bindable)
        if stage is None:
            return None
        axes = bindable(stage)
        if not axes:
            return None
        axis = self.pick(axes)
        extent = self.extent(stage, axis)
        taken = {}
        for other in self.stages:
            for one in other.leaf_iter_vars:
                thread = other.attr(one).bind_thread
                if thread is not None:
                    taken[thread.thread_tag] = self.extent(other, one) if other is not stage else "here"
        fitting = [tag for tag in TAGS if tag.startswith("vthread") or taken.get(tag, extent) == extent]
        tags = [tag for tag in fitting if tag.startswith("threadIdx")] if axis.kind == "reduce" else fitting
        if not tags or (extent is None and self.chance(0.7)):
            return None
        tag = self.pick(tags)
        thread = te.thread_axis((0, extent), tag) if extent is not None and self.chance(0.3) else te.thread_axis(tag)
        return f"bind({axis.name}, {tag}) of {stage.name}", lambda: stage.bind(axis, thread)

    def pragma(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: stage.leaf_iter_vars)
        if stage is None:
            return None
        axis = self.pick(stage.leaf_iter_vars)
        pragmas: list[tuple[str, Any]] = [("auto_unroll_max_step", 8), ("auto_unroll_max_step", 64), ("unroll_explicit", True),
                                          ("parallel_barrier_when_finish", None), ("parallel_stride_pattern", None),
                                          ("parallel_launch_point", None)]
        key, value = self.pick(pragmas)
        return f"pragma({axis.name}, {key}) of {stage.name}", lambda: stage.pragma(axis, key, value)

    # Placement

    def compute_at(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output and self.readers(stage))
        if stage is None:
            return None
        readers = self.readers(stage)
        if len(readers) > 1 and self.chance(0.9):
            return None
        parent = readers[0]
        if parent.attach_type in ("inline", "inlined") or not parent.leaf_iter_vars:
            return None
        has_parallel = any(stage.attr(one).kind == "parallel" for one in stage.leaf_iter_vars)
        if has_parallel and self.chance(0.8):
            return None
        axis = self.pick(parent.leaf_iter_vars)
        return f"compute {stage.name} at {axis.name} of {parent.name}", lambda: stage.compute_at(parent, axis)

    def compute_inline(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output and stage.op.num_outputs == 1 and not stage.op.reduce_axis
                                and not self.attached(stage))
        return None if stage is None else (f"inline {stage.name}", stage.compute_inline)

    def attached(self, stage: Any) -> bool:
        return any(other.attach_stage is stage for other in self.s.stages)

    def compute_root(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output)
        return None if stage is None else (f"root {stage.name}", stage.compute_root)

    def auto_inline(self) -> Attempt | None:
        self.subject = None
        which = self.pick([AutoInlineElemWise, AutoInlineBroadcast, AutoInlineInjective])
        return which.__name__, lambda: which(self.s)

    # Storage

    def cache_read(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: stage.op.input_tensors)
        if stage is None:
            return None
        tensor = self.pick(list(stage.op.input_tensors))
        everyone = [other for other in self.s.stages if tensor in other.op.input_tensors]
        readers = everyone if self.chance(0.5) else [stage]
        scope = self.pick(["local", "shared", "global"])
        ops = [one.op for one in readers]
        return f"cache_read({tensor.name}, {scope}, {readers})", lambda: self.s.cache_read(tensor, scope, ops)

    def cache_write(self) -> Attempt | None:
        def bare(stage: Any) -> bool:
            return all(axis in stage.op.axis or stage.attr(axis).kind == "serial" for axis in stage.leaf_iter_vars)
        stage = self.some_stage(bare)
        if stage is None:
            return None
        outputs = list(stage.op.outputs)
        scope = self.pick(["local", "global", "shared"])
        return (f"cache_write({stage.name}, {scope})",
                lambda: self.s.cache_write(outputs[0] if len(outputs) == 1 else outputs, scope))

    def clone_in(self) -> Attempt | None:
        """A stage that readers, or one of them, compute again for themselves."""
        stage = self.some_stage(lambda stage: stage.op.values and len(self.readers(stage)) + stage.is_output > 1)
        if stage is None:
            return None
        readers = self.readers(stage)
        chosen = self.choices.some(readers, 1 + self.choices.below(len(readers)))
        outputs = list(stage.op.outputs)
        return (f"clone_in({stage.name}, {chosen})",
                lambda: self.s.clone_in(outputs[0] if len(outputs) == 1 else outputs, chosen))

    def double_buffer(self) -> Attempt | None:
        stage = self.attached_stage()
        return None if stage is None else (f"double_buffer of {stage.name}", stage.double_buffer)

    def rolling_buffer(self) -> Attempt | None:
        stage = self.attached_stage()
        return None if stage is None else (f"rolling_buffer of {stage.name}", stage.rolling_buffer)

    def attached_stage(self) -> Any:
        """A stage that is computed at a loop of another; one is put there where there is none."""
        stage = self.some_stage(lambda stage: stage.attach_type == "at")
        if stage is not None:
            return stage
        found = self.compute_at()
        if found is None:
            return None
        try:
            found[1]()
        except TilewrightError:
            return None
        return self.subject

    def prefetch(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: stage.op.input_tensors and self.plain(stage))
        if stage is None:
            return None
        tensor, axis, offset = self.pick(stage.op.input_tensors), self.pick(self.plain(stage)), self.pick([1, 2, 4, -3])
        return f"prefetch({tensor.name}, {axis.name}, {offset}) of {stage.name}", lambda: stage.prefetch(tensor, axis, offset)

    def transform_layout(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output and stage.op.axis and not stage.is_scheduled())
        if stage is None:
            return None
        rank = len(stage.op.axis)
        order, place, factor = self.choices.permutation(rank), self.choices.below(rank), self.pick([2, 4, 3, 8])
        blocked, pad = self.chance(0.5), self.pick([None, None, 0])

        def places(*indices: Any) -> list[Any]:
            found = [indices[at] for at in order]
            return [*found[:place], found[place] // factor, *found[place + 1:], found[place] % factor] if blocked else found

        label = f"transform_layout({order}, {place}, {factor if blocked else 1}) of {stage.name}"
        return label, lambda: stage.transform_layout(places, pad)

    def tensorize(self) -> Attempt | None:
        """The microkernel on a product of packed matrices, whose loops are brought into order first."""
        def fits(stage: Any) -> bool:
            axes = stage.op.axis
            tile = [axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else 0 for axis in axes[2:]]
            return stage.op.values and len(axes) == 4 and tile == [4, 4] and len(stage.op.reduce_axis) == 1 and (
                isinstance(stage.op.reduce_axis[0].dom.extent, IntImm))
        stage = self.some_stage(fits)
        if stage is None:
            return None
        (_, _, ii, ji), (r,) = stage.op.axis, stage.op.reduce_axis
        depth = self.pick([size for size in (1, 2, 4) if self.chance(0.1) or int(r.dom.extent) % size == 0] or [1])
        try:
            outer, inner = stage.split(r, factor=depth)
            stage.reorder(outer, ii, ji, inner)
            kernel = te.intrinsics.get("vector.outer_product_4x4", depth, str(stage.op.output(0).dtype))
        except TilewrightError:
            return None
        return f"tensorize({ii.name}, {depth}) of {stage.name}", lambda: stage.tensorize(ii, kernel)

    def env_threads(self) -> Attempt | None:
        """Threads around all steps of a recurrence, after the loops of most of its stages are bound to them."""
        self.subject = next((stage for stage in self.s.stages if stage.op.is_stepwise), None)
        if self.subject is None:
            return None
        scan, count = self.subject, self.pick([1, 2, 4, 8])
        thread = te.thread_axis((0, count), "threadIdx.x")
        threads = [te.thread_axis((0, 1), "blockIdx.x"), thread] if self.chance(0.5) else [thread]
        for tensor in (*scan.op.init, *scan.op.update):
            stage = self.s[tensor]
            axes = [axis for axis in self.data(stage) if axis is not stage.op.axis[0]]
            if axes and self.chance(0.9):
                try:
                    stage.bind(stage.split(axes[-1], factor=count)[1], thread)
                except TilewrightError:
                    return None
        return f"env_threads({count}) of {scan.name}", lambda: scan.env_threads(threads)

    def set_scope(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output)
        if stage is None:
            return None
        scope = self.pick(["local", "shared", "global", ""])
        return f"set_scope({stage.name}, {scope})", lambda: stage.set_scope(scope)

    def create_group(self) -> Attempt | None:
        """A stage, with those that only it reads or not, as one; or such a group put to a loop of its reader."""
        if self.groups and self.chance(0.7):
            group, self.subject = self.groups.pop()
            parents = self.readers(self.subject)
            axes = parents[0].leaf_iter_vars if parents else []
            if not axes:
                return None
            axis = self.pick(axes)
            return f"{group} at {axis.name} of {parents[0].name}", lambda: group.compute_at(parents[0], axis)
        stage = self.some_stage(lambda stage: not stage.is_output and stage.op.input_tensors and len(self.readers(stage)) == 1)
        if stage is None:
            return None
        inputs, whole = list(stage.op.input_tensors), self.chance(0.5)

        def make() -> None:
            self.groups.append((self.s.create_group(stage.op.output(0), inputs, whole), stage))
        return f"create_group({stage.name}, {inputs}, {whole})", make

    def rfactor(self) -> Attempt | None:
        def factorable(stage: Any) -> list[Any]:
            return [axis for axis in stage.leaf_iter_vars if axis.kind == "reduce" and self.begins_at_zero(stage, axis)
                    and stage.attr(axis).kind == "serial"]
        stage = self.some_stage(factorable)
        if stage is None:
            return None
        axis, place = self.pick(factorable(stage)), self.choices.below(len(stage.op.axis) + 1)
        outputs = list(stage.op.outputs)
        return (f"rfactor({stage.name}, {axis.name}, {place})",
                lambda: self.s.rfactor(outputs[0] if len(outputs) == 1 else outputs, axis, place))

    def storage_align(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: not stage.is_output and stage.op.axis)
        if stage is None:
            return None
        axis, factor, offset = self.pick(stage.op.axis), self.pick([1, 2, 8, 16, 32]), self.choices.below(9)
        label = f"storage_align({axis.name}, {factor}, {offset}) of {stage.name}"
        return label, lambda: stage.storage_align(axis, factor, offset)

    def set_store_predicate(self) -> Attempt | None:
        stage = self.some_stage(lambda stage: True)
        if stage is None:
            return None
        predicate: Any = True
        if stage.op.axis:
            axis = self.pick(stage.op.axis)
            end = axis.dom.begin + axis.dom.extent
            predicate = self.pick([axis >= 0, axis < end, te.all(axis >= 0, axis < end), te.likely(axis < end), ~(axis < 0)])
        return f"set_store_predicate({stage.name}, {predicate})", lambda: stage.set_store_predicate(predicate)

    # Choosing

    def wild(self) -> Attempt:
        """Any primitive on any stage and axis, among them those that are gone."""
        stage, other = self.pick(self.s.stages), self.pick(self.s.stages)
        axes = [axis for one in self.s.stages for axis in one.all_iter_vars] + list(self.s.retired)
        if not axes:
            return "wild root", stage.compute_root
        axis = self.pick(axes)
        number = self.choices.number(-1, 5)
        tensor = self.pick(stage.op.outputs)
        return self.pick([
            (f"wild split({axis}, {number}) of {stage.name}", lambda: stage.split(axis, number)),
            (f"wild fuse of {stage.name}", lambda: stage.fuse(axis, self.pick(axes))),
            (f"wild reorder of {stage.name}", lambda: stage.reorder(axis, self.pick(axes))),
            (f"wild parallel({axis}) of {stage.name}", lambda: stage.parallel(axis)),
            (f"wild vectorize({axis}) of {stage.name}", lambda: stage.vectorize(axis)),
            (f"wild unroll({axis}) of {stage.name}", lambda: stage.unroll(axis)),
            (f"wild bind({axis}) of {stage.name}", lambda: stage.bind(axis, te.thread_axis(number, "threadIdx.x"))),
            (f"wild compute {stage.name} at {axis} of {other.name}", lambda: stage.compute_at(other, axis)),
            (f"wild inline {stage.name}", stage.compute_inline),
            (f"wild cache_read({tensor.name})", lambda: self.s.cache_read(tensor, "local", [other.op])),
            (f"wild cache_write({tensor.name})", lambda: self.s.cache_write(tensor, "local")),
            (f"wild rfactor({tensor.name}, {axis})", lambda: self.s.rfactor(tensor, axis, number)),
            (f"wild storage_align({axis})", lambda: stage.storage_align(axis, number, 1)),
            (f"wild set_scope({stage.name})", lambda: stage.set_scope(self.pick(["local", "nowhere"]))),
            (f"wild set_store_predicate({stage.name}, {axis})", lambda: stage.set_store_predicate(axis)),
            (f"wild pragma({axis})", lambda: stage.pragma(axis, self.pick(["unroll_explicit", "nothing"]), number)),
        ])

    def attempt(self, first: bool = False) -> tuple[str, Attempt]:
        if first and self.chance(0.5):  # while the loops are in place
            found = self.tensorize()
            if found is not None:
                return "tensorize", found
        if self.chance(WILD):
            return "wild", self.wild()
        for _ in range(20):
            name = self.focus if self.focus and self.chance(0.5) else self.choices.weighted(TABLE)
            found = getattr(self, name)()
            if found is not None:
                return name, found
        return "compute_root", ("root", self.s.stages[-1].compute_root)


TABLE = (
    (20, "split"), (6, "fuse"), (7, "reorder"), (5, "tile"), (5, "parallel"), (7, "vectorize"), (4, "unroll"), (7, "bind"),
    (2, "pragma"), (11, "compute_at"), (4, "compute_inline"), (1, "compute_root"), (1, "auto_inline"), (5, "cache_read"),
    (5, "cache_write"), (2, "set_scope"), (4, "rfactor"), (2, "storage_align"), (2, "set_store_predicate"), (2, "double_buffer"),
    (1, "rolling_buffer"), (2, "prefetch"), (2.5, "transform_layout"), (3, "tensorize"), (1, "create_group"),
    (2, "env_threads"), (1.5, "clone_in"),
)
"""Every primitive, and how often it is drawn."""
SELDOM = ("rolling_buffer", "double_buffer", "transform_layout", "rfactor", "compute_inline", "create_group", "set_scope",
          "env_threads", "clone_in")
"""What is drawn seldom, or fits few stages."""
FOCUSED = 0.15
"""The share of schedules that are about one of these."""
PRIMITIVES = tuple(name for _, name in TABLE)


def _check_unchanged(s: Any, state: Any, text: str, what: str) -> None:
    assert exact(s) == state, f"{what} changed the schedule"
    assert not text or s.as_python() == text, f"{what} changed the schedule's text"


def draw_schedule(choices: Choices, s: Any, text: bool = True, gpu: bool = False, about: str = "") -> Drawn:
    """Applies up to 12 drawn primitives. A refused one must leave the schedule as it was: by identity, and (with `text`) as
    text. gpu: what stands at the root is bound to threads. about: the primitive that is drawn most."""
    mutator, drawn = Mutator(choices, s, about), Drawn()
    if gpu:
        begin(choices, s)
    _draw_primitives(mutator, drawn, s, text)
    if gpu:
        finish(choices, s)
    return drawn


def _draw_primitives(mutator: Mutator, drawn: Drawn, s: Any, text: bool) -> None:
    choices = mutator.choices
    shown = s.as_python() if text else ""
    for at in range(max(choices.below(13), choices.below(13))):
        places = exact(s)
        name, (label, apply) = mutator.attempt(first=not at)
        if text and exact(s) != places:  # it was made ready by other primitives
            shown = s.as_python()
        subject = None if mutator.subject is None else mutator.subject.op
        drawn.tried[name] = drawn.tried.get(name, 0) + 1
        before = exact(s)
        try:
            apply()
        except TilewrightError as error:
            drawn.refused.setdefault(name, []).append(error.code)
            _check_unchanged(s, before, shown, f"the refused {label} ({error.code})")
        except Exception as error:
            error.add_note(f"from {label}")
            raise
        else:
            if name != "wild" and subject is not None:
                drawn.taken.append((subject, name))
            shown = s.as_python() if text else ""
