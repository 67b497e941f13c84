"""A schedule: the stages of a group of operations, and everything that was done to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InternalError, user_source
from ...ir.expr import IterVar, Var
from ...te.operation import Operation, producers_first
from ...te.reads import check_states
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ..errors import NothingToSchedule, UnknownStage
from ..lowering.normalize import normalize
from ..primitives.cache import cache_read, cache_write
from ..primitives.clone import clone_in
from ..primitives.group import Group, create_group
from ..primitives.rfactor import rfactor
from .python_code import as_python
from .records import Record, encode
from .replay import replay_all
from .stage import Stage
from .symbols import free_symbols

if TYPE_CHECKING:
    from ...views.explain import Explanation
    from ...views.options import Options
    from .. import Verification

__all__ = ["Schedule", "create_schedule"]


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule of `ops` and of all that they read: every stage at root, its loops as declared.

    ops: the outputs, as an operation, a tensor, or a list of these. Raises NothingToSchedule.
    """
    given = [ops] if isinstance(ops, (Operation, Tensor)) else list(ops)
    outputs: dict[Operation, None] = {}
    for one in given:
        op = one.op if isinstance(one, Tensor) else one
        if not isinstance(op, Operation):
            raise NothingToSchedule(
                "cannot create a schedule", reason=f"{type(one).__name__} is neither tensor nor operation",
                called=user_source(), fix="te.create_schedule(C.op), C being what te.compute returned",
            )
        outputs.setdefault(op)
    if not outputs:
        raise NothingToSchedule("cannot create a schedule", reason="no operation was given", called=user_source(),
                                fix="te.create_schedule(C.op), C being what te.compute returned")
    made = Schedule(list(outputs))
    _check_states(made)
    return made


def _check_states(schedule: Schedule) -> None:
    """Raise the error of what reads a placeholder outside of its shape, as only the state of a scan may be read."""
    states = {state for stage in schedule.stages for state in stage.op.own_placeholders}
    for stage in schedule.stages:
        check_states(stage.op, states)


class Compound:
    """Several changes to a schedule as one."""

    def __init__(self, schedule: Schedule, saved: tuple[Any, ...]) -> None:
        self.schedule, self.saved, self.outermost = schedule, saved, False

    def __enter__(self) -> None:
        self.outermost = self.schedule.enter_compound()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.schedule.leave_compound(self.outermost, None if error is None else self.saved)


class Schedule:
    """The stages of a group of operations; made by te.create_schedule.

    outputs: the operations it was created for, as declared (s[op].op is what computes one now). stages: in topological
    order, producers first. stage_map: from every operation that a stage has had to the stage. retired: axes that
    cache_write or rfactor took away, with what to say of them. groups: what create_group made.
    """

    def __init__(self, outputs: list[Operation]) -> None:
        self.outputs = outputs
        results = set(outputs)
        self.stages = [Stage(op, self, op in results) for op in producers_first(outputs)]
        self.stage_map: dict[Operation, Stage] = {stage.op: stage for stage in self.stages}
        self.retired: dict[IterVar, str] = {}
        self.groups: list[Group] = []
        self._records: list[Record] = []
        self._threads: list[IterVar] = []
        self._symbols: list[Var] | None = None
        self._within_compound = False

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        """The stage of a tensor or an operation. Raises UnknownStage."""
        op = key.op if isinstance(key, Tensor) else key
        found = self.stage_map.get(op) if isinstance(op, Operation) else None
        if found is None:
            raise self._unknown(key)
        return found

    def __contains__(self, key: object) -> bool:
        """Whether it has a stage for this tensor or operation."""
        op = key.op if isinstance(key, Tensor) else key
        return isinstance(op, Operation) and op in self.stage_map

    def _unknown(self, key: object) -> UnknownStage:
        known = ", ".join(stage.name for stage in self.stages)
        if not isinstance(key, (Tensor, Operation)):
            return UnknownStage(f"the schedule has no stage for a {type(key).__name__}", reason=f"got {key!r}"[:200],
                                called=user_source(), allowed=f"tensors and operations: {known}")
        op = key.op if isinstance(key, Tensor) else key
        twin = next((stage for stage in self.stages if stage.name == op.name), None)
        reason = f"{op.name} is not computed on the way to {', '.join(one.name for one in self.outputs)}"
        fix = "create the schedule from the tensors that you want computed"
        if twin is not None:
            declared = f" at {twin.op.source}" if twin.op.source is not None else ""
            reason, fix = f"the schedule's {op.name} is another operation, declared{declared}", "use that one's tensor"
        return UnknownStage(f"the schedule has no stage for {op.name}", reason=reason, declared=op.source,
                            called=user_source(), allowed=f"tensors and operations: {known}", fix=fix)

    def place_of(self, stage: Stage) -> int:
        """The place of `stage` in stages."""
        for at, one in enumerate(self.stages):
            if one is stage:
                return at
        raise InternalError(f"stage {stage.name} is not of this schedule")

    def group_place(self, group: Group) -> int:
        """The place of `group` in groups."""
        for at, one in enumerate(self.groups):
            if one is group:
                return at
        raise InternalError("a group of another schedule")

    def placed_at(self, stage: Stage) -> list[Stage | Group]:
        """The stages and groups that were told to be computed at a loop of `stage`."""
        return [one for one in (*self.stages, *self.groups) if one.own_placement.stage is stage]

    @property
    def symbols(self) -> list[Var]:
        """The variables that the declared operations leave open: those of shapes, and scalar arguments."""
        if self._symbols is None:
            self._symbols = free_symbols(producers_first(self.outputs))
        return self._symbols

    def symbol_place(self, var: Var) -> int:
        """The place of `var` in symbols; a new one where a primitive brought it."""
        for at, one in enumerate(self.symbols):
            if one is var:
                return at
        self.symbols.append(var)
        return len(self.symbols) - 1

    def thread_place(self, thread: IterVar) -> int:
        """The number of a thread axis, by first use."""
        for at, one in enumerate(self._threads):
            if one is thread:
                return at
        self._threads.append(thread)
        return len(self._threads) - 1

    def insert_stage(self, place: int, op: Operation, beside: Stage) -> Stage:
        """A new stage for `op` at `place` in stages, of the group that `beside` belongs to. For the primitives alone."""
        stage = Stage(op, self)
        stage.group = beside.group
        self.stages.insert(place, stage)
        self.stage_map[op] = stage
        return stage

    # Primitives

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of `tensor` in `scope`, which `readers` (a tensor, operation or stage, or a list) read in its place.

        Returns the copy, "A.shared" for A in "shared". Raises BadCacheRead, UnknownScope, UnknownStage.
        """
        return cache_read(self, tensor, scope, readers)

    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Any:
        """Compute `tensor` into a cache in `scope` first; its stage becomes a copy of the cache, with its loops anew.

        tensor: or a list of all outputs of one operation. Splits and reorders made before define the layout of the
        cache: a dimension for each loop over data, in their order; what was done to reduce axes moves to the cache.
        Returns the cache, "C.local" for C in "local", or a list for a list. Stages attached at loops that vanish move
        to the cache's. Raises BadCacheWrite, AnnotationWouldBeLost, UnknownScope, UnknownStage.
        """
        return cache_write(self, tensor, scope)

    def rfactor(self, tensor: Tensor | Sequence[Tensor], axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduce in two stages: "C.rf", partial results with a dimension for the reduce loop `axis` at place
        `factor_axis`, and C over that dimension. Both start with their loops as declared; C keeps its data axes.

        Returns the tensor of partial results (a list for several outputs or for a list). Raises BadRfactor,
        AxisIsNoLoop, NotAnAxisOfStage, AnnotationWouldBeLost, UnknownStage.
        """
        return rfactor(self, tensor, axis, factor_axis)

    def clone_in(self, tensor: Tensor | Sequence[Tensor], readers: Any) -> Any:
        """A second stage, "C.clone", that computes `tensor` again; `readers` (a tensor, operation or stage, or a list) read it
        in its place.

        tensor: or a list of all outputs of one operation; somebody else reads it, or it is an output. The clone has its
        loops as they are declared, and its own place: readers far apart can each have theirs near. Returns the clone (a list
        for a list). Raises BadClone, UnknownStage.
        """
        return clone_in(self, tensor, readers)

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Group:
        """A group of the stages on the ways from `inputs` to `outputs` (tensors, or lists of these), outputs included,
        which its compute_at places together. include_inputs: whether the inputs' stages belong to it; placeholders never
        do. Groups contain each other or have nothing in common. Raises BadGroup, UnknownStage.
        """
        return create_group(self, outputs, inputs, include_inputs)

    def normalize(self) -> Schedule:
        """A copy for lowering: inlined stages put into their readers, loops over root axes counted from 0."""
        return normalize(self)

    # Records

    @property
    def records(self) -> tuple[Record, ...]:
        """What was done, in order."""
        return tuple(self._records)

    trace = records

    @staticmethod
    def replay(
        records: Iterable[Record], ops: Operation | Tensor | Sequence[Operation | Tensor],
        intrinsics: Mapping[str, TensorIntrin] | None = None,
    ) -> Schedule:
        """A new schedule of `ops` to which the records are applied.

        ops: the operations that they were recorded for, or others of the same make-up. intrinsics: tensor intrinsics of
        one's own by name, for records that were read from a text. Raises BadRecords, IntrinsicNotGiven, and what the
        primitives raise.
        """
        made = create_schedule(ops)
        replay_all(made, records, intrinsics)
        return made

    def as_python(self) -> str:
        """Python code that makes this schedule again in `s`, given `te` and `ops` (what create_schedule took); and, where
        it uses tensor intrinsics of one's own, `intrinsics`, these by name."""
        return as_python(self, create_schedule(self.outputs))

    def record(self, primitive: str, stage: Stage | None = None, **arguments: Any) -> None:
        """Note a primitive that is about to change the schedule, unless it is part of another. For primitives alone."""
        if not self._within_compound:
            encoded = {name: encode(self, value) for name, value in arguments.items()}
            place = None if stage is None else self.place_of(stage)
            self._records.append(Record(primitive, place, encoded, user_source()))

    def compound(self, primitive: str, stage: Stage | None = None, **arguments: Any) -> Compound:
        """Note a primitive that consists of several changes, made within `with`: an error in any undoes all, and those
        that are primitives are not noted by themselves. For primitives alone."""
        saved = self._saved()
        self.record(primitive, stage, **arguments)
        return Compound(self, saved)

    def leave_compound(self, outermost: bool, undo: tuple[Any, ...] | None) -> None:
        """The end of a compound primitive; `undo` is the state to go back to, if any."""
        if undo is not None:
            self._restore(undo)
        if outermost:
            self._within_compound = False

    def enter_compound(self) -> bool:
        """The begin of a compound primitive; whether it is part of no other."""
        outermost, self._within_compound = not self._within_compound, True
        return outermost

    def _saved(self) -> tuple[Any, ...]:
        return ([(stage, stage.saved()) for stage in self.stages], dict(self.stage_map), dict(self.retired),
                list(self._records), list(self._threads), [(group, group.saved()) for group in self.groups])

    def _restore(self, saved: tuple[Any, ...]) -> None:
        stages, self.stage_map, self.retired, self._records, self._threads, groups = saved
        self.stages = [stage for stage, _ in stages]
        for stage, state in stages:
            stage.restore(state)
        self.groups = [group for group, _ in groups]
        for group, state in groups:
            group.restore(state)

    def copy(self) -> Schedule:
        """A schedule of its own with the same stages, axes and records."""
        made = Schedule.__new__(Schedule)
        made.outputs, made.retired = self.outputs, dict(self.retired)
        made._records, made._threads = list(self._records), list(self._threads)
        made._symbols = None if self._symbols is None else list(self._symbols)
        made._within_compound = False
        twins = {id(stage): stage.copied(made) for stage in self.stages}
        made.stages = list(twins.values())
        made.stage_map = {op: twins[id(stage)] for op, stage in self.stage_map.items()}
        made.groups = [Group(made, None) for _ in self.groups]
        groups = {id(group): twin for group, twin in zip(self.groups, made.groups, strict=True)}
        for group, twin in zip(self.groups, made.groups, strict=True):
            twin.outer = None if group.outer is None else groups[id(group.outer)]
            twin.restore((twin.outer, group.own_placement))
        for stage in made.stages:
            stage.group = None if stage.group is None else groups[id(stage.group)]
        for one in (*made.stages, *made.groups):
            placed = one.own_placement
            if placed.stage is not None:
                one.attach(placed.type, twins[id(placed.stage)], placed.axis)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Schedule:
        """As copy: operations and axes never change, and those of a copy are still the ones that users hold."""
        return self.copy()

    # Looking

    def explain(self, stage: Stage | Tensor | Operation) -> Explanation:
        """What becomes of a stage, to print: which part is computed where and how often, the memory that takes, the bytes
        touched at each loop; with a warning where it is computed several times over.

        Raises LoweringError where the schedule does not hold together, UnknownStage.
        """
        from ...views.explain import explain  # lowering stands on schedules

        return explain(self, stage if isinstance(stage, Stage) else self[stage])

    def options(self, stage: Stage | Tensor | Operation) -> Options:
        """Which primitives a stage can take now, on which of its axes, and why not the others, to print. Each is tried on
        a copy, so what it says is what a call would. Raises UnknownStage."""
        from ...views.options import options  # it replays every primitive

        return options(self, stage if isinstance(stage, Stage) else self[stage])

    def show(self, path: str | PathLike[str] | None = None, target: str = "llvm") -> Path | None:
        """A page that links the records, the loops with their costs, and the assembly for `target`, a CPU: written to
        `path`; without one displayed in a notebook, or written to a temporary file that the browser opens where there is a
        screen. Returns the file. Raises PageNeedsJinja.
        """
        from .. import show_schedule

        return show_schedule(self, path, target)

    def verify(
        self, shapes: Mapping[Var | str, int] | Sequence[Mapping[Var | str, int]] | None = None, seed: int = 0,
        target: str = "llvm",
    ) -> Verification:
        """Checks the schedule against the program without it, on inputs drawn with `seed`: by the interpreter, which also
        finds accesses out of bounds, unwritten elements and races, and by native code for `target`. What is too large is cut
        down: the same operations, scheduled by the same records, on a corner of the outputs and reductions.

        shapes: a number for each symbol of the shapes (by its te.var or its name), or several such; chosen where None.
        Returns what was checked, to print. Raises ResultsDiffer, which names an element, what it should be and is, and the
        primitive since which it is wrong; CannotVerify; LoweringError for what the interpreter finds.
        """
        from .. import verify_schedule

        return verify_schedule(self, shapes, seed, target)

    def _repr_html_(self) -> str:
        from .. import schedule_html

        return schedule_html(self)

    def __str__(self) -> str:
        """The loops as they stand now, or, of a schedule that does not hold together yet, what is still open."""
        from ..lowering.text import schedule_text  # lowering stands on schedules

        return schedule_text(self)

    def __repr__(self) -> str:
        return f"schedule({', '.join(stage.name for stage in self.stages)})"
