"""A schedule: the stages of a group of operations, and everything that was done to them."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from ...base.errors import InternalError, user_source
from ...ir import IterVar, Var, free_vars
from ...te.operation import Operation, producers_first
from ...te.tensor import Tensor
from ..errors import NothingToSchedule, UnknownStage
from .encode import encode
from .group import Group
from .lazy_api import LazyScheduleMethods
from .methods import SchedulePrimitives
from .records import Record
from .stage import Stage

__all__ = ["Schedule", "create_schedule", "collect_operations"]


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule of `ops` and of all that they read: every stage at root, its loops as declared.

    ops: the outputs, as an operation, a tensor, or a list of these. Raises NothingToSchedule (TW0224).
    """
    return Schedule(collect_operations(ops))


def collect_operations(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> list[Operation]:
    """The operations that a schedule is created for, each once. Raises NothingToSchedule (TW0224)."""
    has_several = (
        # an array of rank 0 is iterable by type alone
        isinstance(ops, Iterable) and not isinstance(ops, (Operation, Tensor)) and getattr(ops, "ndim", 1) != 0
    )
    given: list[Any] = list(cast("Iterable[Any]", ops)) if has_several else [ops]
    outputs: dict[Operation, None] = {}
    for each in given:
        op = each.op if isinstance(each, Tensor) else each
        if not isinstance(op, Operation):
            raise NothingToSchedule(
                "cannot create a schedule",
                reason=f"{type(each).__name__} is neither tensor nor operation",
                called=user_source(),
                fix="te.create_schedule(C.op), C being what te.compute returned",
            )
        outputs.setdefault(op)  # each operation once, in the order given
    if not outputs:
        raise NothingToSchedule(
            "cannot create a schedule",
            reason="no operation was given",
            called=user_source(),
            fix="te.create_schedule(C.op), C being what te.compute returned",
        )
    return list(outputs)


class Compound:
    """Several changes to a schedule as one: where an error comes out of any, all are undone.

    notes: whether the primitives within are noted by themselves. kept: the states, before they were first changed, of the stages
    and groups that these changes are about.
    """

    def __init__(self, schedule: Schedule, notes: bool = False) -> None:
        self.schedule, self.notes = schedule, notes
        self.stages, self.lengths, self.known_losses = list(schedule.stages), schedule.lengths(), len(schedule.losses)
        self.kept: dict[Stage | Group, tuple[Any, ...]] = {}

    @property
    def new_stages(self) -> set[Stage]:
        """The stages that were not there before."""
        return set(self.schedule.stages).difference(self.stages)  # compared as sets: primitives insert stages anywhere

    def __enter__(self) -> Compound:
        self.schedule.compounds.append(self)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.schedule.compounds.remove(self)
        if error is not None:
            self.schedule.undo(self)  # undone before the error leaves


class Schedule(SchedulePrimitives, LazyScheduleMethods):
    """The stages of a group of operations; made by te.create_schedule.

    outputs: the operations it was created for, as declared (s[op].op is what computes one now). stages: in topological
    order, producers first. stage_map: from every operation that a stage has had to the stage. retired: axes that
    cache_write or rfactor took away, with what to say of them, the latest last. groups: what create_group made. decisions: what
    rules chose for it, where they made it: `plan` tells. compounds: the compound primitives that are under way, the outermost
    first. losses: what primitives have done for good to the order in which terms are added, in words.

    STAGE, GROUP: what its stages and groups are; a façade has subclasses with further names.
    """

    STAGE: ClassVar[type[Stage]] = Stage
    GROUP: ClassVar[type[Group]] = Group

    def __init__(self, outputs: list[Operation]) -> None:
        self.outputs = outputs
        results = set(outputs)
        # producers first, which primitives and lowering rely on
        self.stages = [self.STAGE(op, self, op in results) for op in producers_first(outputs)]
        self.stage_map: dict[Operation, Stage] = {stage.origin_op: stage for stage in self.stages}
        self.retired: list[tuple[IterVar, str]] = []  # for messages about axes that no longer exist
        self.groups: list[Group] = []
        self.decisions: tuple[Any, ...] = ()
        self.compounds: list[Compound] = []
        self.losses: list[str] = []
        self._records: list[Record] = []
        self._threads: list[IterVar] = []
        self._symbols: list[Var] | None = None
        self._places: dict[Stage, int] = {}
        self._link()

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        """The stage of a tensor or an operation. Raises UnknownStage."""
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None or stage.is_gone:  # a stage may have been dropped by a primitive
            raise self._unknown(key)
        return stage

    def __contains__(self, key: object) -> bool:
        """Return whether it has a stage for this tensor or operation."""
        op = key.op if isinstance(key, Tensor) else key
        return isinstance(op, Operation) and op in self.stage_map and not self.stage_map[op].is_gone

    def _unknown(self, key: object) -> UnknownStage:
        known = ", ".join(stage.name for stage in self.stages)
        if not isinstance(key, (Tensor, Operation)):
            return UnknownStage(
                f"the schedule has no stage for a {type(key).__name__}",
                reason=f"got {key!r}"[:200],
                called=user_source(),
                allowed=f"tensors and operations: {known}",
            )
        op = key.op if isinstance(key, Tensor) else key
        # another operation of the same name is what users mix up most
        twin = next((stage for stage in self.stages if stage.name == op.name), None)
        reason = f"{op.name} is not computed on the way to {', '.join(tensor.name for tensor in self.outputs)}"
        if op in self.stage_map:
            reason = f"{op.name} is computed no longer: a primitive has put others in its place"
        fix = "create the schedule from the tensors that you want computed"
        if twin is not None:
            declared = f" at {twin.op.source}" if twin.op.source is not None else ""
            reason, fix = f"the schedule's {op.name} is another operation, declared{declared}", "use that one's tensor"
        return UnknownStage(
            f"the schedule has no stage for {op.name}",
            reason=reason,
            declared=op.source,
            called=user_source(),
            allowed=f"tensors and operations: {known}",
            fix=fix,
        )

    def find_place(self, stage: Stage) -> int:
        """The place of `stage` in stages."""
        if not self._places:  # made anew after each insertion
            self._places = {stage: at for at, stage in enumerate(self.stages)}
        place = self._places.get(stage)
        if place is None:
            raise InternalError(f"stage {stage.name} is not of this schedule")
        return place

    def sort_stages(self, stages: Iterable[Stage]) -> list[Stage]:
        """These stages, producers first."""
        return sorted(stages, key=self.find_place)

    def group_place(self, group: Group) -> int:
        """The place of `group` in groups."""
        for at, other in enumerate(self.groups):
            if other is group:
                return at
        raise InternalError("a group of another schedule")

    def find_placed(self, stage: Stage) -> list[Stage | Group]:
        """The stages and groups that were told to be computed at a loop of `stage`."""
        groups = [member for member in stage.placed if isinstance(member, Group)]
        return [
            *self.sort_stages(member for member in stage.placed if isinstance(member, Stage)),
            *sorted(groups, key=self.group_place),
        ]

    def find_computed(self, stage: Stage) -> list[Stage]:
        """The stages that are computed at a loop of `stage`, by themselves or with their groups."""
        if any(isinstance(member, Group) for member in stage.placed):  # members of groups are placed by them
            return [
                other for other in self.stages if other.attach_type in ("at", "with") and other.attach_stage is stage
            ]
        return self.sort_stages(member for member in stage.placed if isinstance(member, Stage))

    @property
    def symbols(self) -> list[Var]:
        """The variables that the declared operations leave open: those of shapes, and scalar arguments."""
        if self._symbols is None:
            self._symbols = free_symbols(producers_first(self.outputs))
        return self._symbols

    def symbol_place(self, var: Var) -> int:
        """The place of `var` in symbols; a new one where a primitive brought it."""
        for at, symbol in enumerate(self.symbols):
            if symbol is var:
                return at
        self.symbols.append(var)  # a primitive may bring symbols of its own
        return len(self.symbols) - 1

    def thread_place(self, thread: IterVar) -> int:
        """The number of a thread axis, by first use."""
        for at, each in enumerate(self._threads):
            if each is thread:
                return at
        self._threads.append(thread)  # numbered by first use, so that records do not depend on names
        return len(self._threads) - 1

    # Changes, for the primitives alone

    def insert_stage(self, place: int, op: Operation, beside: Stage) -> Stage:
        """Make a stage for `op` at `place` in stages, of the group that `beside` belongs to. For primitives alone."""
        stage = self.STAGE(op, self)
        stage.group = beside.group
        self.stages.insert(place, stage)
        self._places = {}
        self.stage_map[op] = stage
        stage.link()
        return stage

    def drop_stage(self, stage: Stage) -> None:
        """Take away a stage that nobody reads any more."""
        self.keep(stage)
        stage.unlink()
        stage.is_gone = True
        self.stages.remove(stage)
        self._places = {}

    def rewrite(self, changed: Mapping[Stage, Operation], anew: Mapping[Stage, Operation] | None = None) -> None:
        """Give stages other operations, all at once; whoever reads them is to read what these compute. changed: of axes that
        take the places of those before, which may read any outputs that their stages had until now. anew: of other axes,
        whose loops start anew."""
        started = anew or {}
        for stage, op in started.items():
            stage.begin_anew(op)
        for stage, op in changed.items():
            stage.change(op)  # all are changed before any is asked for its readers
        for stage in (*started, *changed):
            stage.mark_readers()

    def refresh(self) -> None:
        """Let the operations of all stages read what is computed now."""
        for stage in self.stages:
            _ = stage.op

    def keep(self, member: Stage | Group) -> None:
        """Note a stage or a group that is about to change, so that a compound primitive can be undone."""
        for compound in self.compounds:
            if member not in compound.kept:  # the state before the first change alone
                compound.kept[member] = member.save_state()

    def _link(self) -> None:
        """Make what stages and groups know of each other from what they are."""
        for stage in self.stages:
            stage.readers, stage.placed = {}, {}
        for member in (*self.stages, *self.groups):
            member.link()

    def lengths(self) -> tuple[int, ...]:
        """Lengths of what only grows."""
        # what only grows is undone by its length
        return len(self.stage_map), len(self.retired), len(self._records), len(self._threads), len(self.losses)

    def undo(self, compound: Compound) -> None:
        """Back to where the compound primitive began, from where it may go on, and be undone again."""
        known = set(compound.stages)
        gone = compound.new_stages | {each for each in compound.kept if isinstance(each, Stage) and each not in known}
        for member in {*gone, *compound.kept}:
            member.unlink()
        for outer in self.compounds:  # of a stage that is gone there is no state to go back to
            outer.kept = {member: state for member, state in outer.kept.items() if member not in gone}
        self.stages, self._places = list(compound.stages), {}
        for member, state in compound.kept.items():
            member.restore(state)
        operations, *lengths = compound.lengths
        while len(self.stage_map) > operations:  # dicts keep their order: the last ones are new
            self.stage_map.popitem()
        for growing, length in zip((self.retired, self._records, self._threads, self.losses), lengths, strict=True):
            del growing[length:]
        for member in compound.kept:
            if member in known or isinstance(member, Group):
                member.link()
        compound.kept.clear()

    def attempt(self) -> Compound:
        """Attempt primitives, for `with s.attempt() as attempt`: these are noted as ever, but undone by an error,
        or by `undo(attempt)`."""
        return Compound(self, notes=True)

    # Records

    @property
    def records(self) -> tuple[Record, ...]:
        """Return what was done, in order."""
        return tuple(self._records)

    trace = records

    def record(self, primitive: str, stage: Stage | None = None, **arguments: Any) -> None:
        """Note a primitive that is about to change the schedule, unless it is part of another. For primitives alone."""
        if all(compound.notes for compound in self.compounds):  # within a compound only the whole is noted
            named: list[Any] = [stage]
            for value in arguments.values():
                named += value if isinstance(value, (list, tuple)) else [value]
            near = [
                self[item] if isinstance(item, Tensor) else item for item in named if isinstance(item, (Stage, Tensor))
            ]
            encoded = {name: encode(self, value, near) for name, value in arguments.items()}
            place = None if stage is None else self.find_place(stage)
            # noted before the change, since places change with it
            self._records.append(Record(primitive, place, encoded, user_source()))

    def compound(self, primitive: str, stage: Stage | None = None, **arguments: Any) -> Compound:
        """Note a primitive that consists of several changes, made within `with`: an error in any undoes all, and those
        that are primitives are not noted by themselves. For primitives alone."""
        compound = Compound(self)
        self.record(primitive, stage, **arguments)
        return compound

    def copy(self) -> Schedule:
        """A schedule of its own with the same stages, axes and records."""
        self.refresh()  # both are to have the same operations
        twin = type(self).__new__(type(self))  # without __init__, which would make new stages
        twin.outputs, twin.retired, twin.decisions = self.outputs, list(self.retired), self.decisions
        twin._records, twin._threads = list(self._records), list(self._threads)
        twin._symbols = None if self._symbols is None else list(self._symbols)
        twin.compounds, twin.losses, twin._places = [], list(self.losses), {}
        # by identity, since stages are mapped one to one
        stages = {id(stage): stage.copied(twin) for stage in self.stages}
        twin.stages = list(stages.values())
        twin.stage_map = {op: stages[id(stage)] for op, stage in self.stage_map.items() if not stage.is_gone}
        twin.groups = [self.GROUP(twin, None) for _ in self.groups]
        groups = {id(old): new for old, new in zip(self.groups, twin.groups, strict=True)}
        for old, new in zip(self.groups, twin.groups, strict=True):  # groups may lie in groups, so all are made first
            new.restore((None if old.outer is None else groups[id(old.outer)], old.own_placement))
        for stage in twin.stages:
            stage.group = None if stage.group is None else groups[id(stage.group)]
        for member in (*twin.stages, *twin.groups):
            placed = member.own_placement
            if placed.stage is not None:
                member.attach(placed.type, stages[id(placed.stage)], placed.axis)
        twin._link()
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Schedule:
        """Copy as `copy` does: operations and axes never change, and those of a copy are still the ones that users hold."""
        return self.copy()  # operations and axes are shared: users hold them

    def __repr__(self) -> str:
        return f"schedule({', '.join(stage.name for stage in self.stages)})"


# The symbols of operations.


def free_symbols(operations: Sequence[Operation]) -> list[Var]:
    """The variables that the operations leave open, in the order of first use: those of shapes and scalar arguments."""
    symbols: dict[Var, None] = {}
    for op in operations:
        axes = {*op.axis, *op.reduce_axis}  # an operation's own axes are bound
        for part in (*(extent for shape in op.output_shapes for extent in shape), *op.parts):
            symbols.update(dict.fromkeys(var for var in free_vars(part) if var not in axes))
    return list(symbols)
