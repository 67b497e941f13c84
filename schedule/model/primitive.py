"""A schedule primitive as a row: one file of schedule/primitives/ holds all that is known of it.

    @primitive(StagePrimitives, "loops", tries=each_loop(lambda stage, axis: stage.unroll(axis)), draw=_draw, weight=4)
    def unroll(stage: Stage, axis: IterVar) -> None:
        '''Write the iterations of a loop out. (What it takes and gives, the loops before and after, what it raises.)'''
        find_leaf(stage, axis, "cannot unroll")              # what must hold, each with its error
        stage.schedule.record("unroll", stage, axis=axis)    # what a record keeps, under the names of the parameters
        ...                                                  # what it does to the state

The function is the method: its name, its parameters after the first one and its docstring are what users see. From the
row come the method and its stub (methods.pyi), how a record is replayed and printed as Python, what `s.options` tries and
what the fuzzer draws, and what it adds to lowering where loops are not all that it changes.
Every module of schedule/primitives/ is loaded with schedule/, so that a file is all there is to add.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from ...base import InternalError, dataclass, user_source
from ...ir.lazy_values import cached_property
from ..errors import WrongArgument
from .foreign import Arguments
from .methods import GroupPrimitives, SchedulePrimitives, StagePrimitives

if TYPE_CHECKING:
    from ...ir.expr import IterVar
    from .records import Record
    from .schedule import Schedule
    from .stage import Stage

__all__ = [
    "Attempt",
    "Drawer",
    "Family",
    "Primitive",
    "Try",
    "find_primitive",
    "lowerings",
    "find_owner",
    "primitive",
    "primitives",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Owner: TypeAlias = type[StagePrimitives] | type[SchedulePrimitives] | type[GroupPrimitives]

Family = Literal["loops", "kinds", "hardware", "placement", "storage", "stages"]
"""What a primitive changes: the loops of a stage, how one runs, what hardware it runs on, where the stage is computed, how its
results are stored, which stages there are. The order in which primitives are listed."""

Try: TypeAlias = "tuple[str, Callable[[Stage], object]]"
"""Arguments as `s.options` shows them, and the call with these, on a stage of a copy of the schedule."""

Attempt: TypeAlias = "tuple[str, Callable[[], object]]"
"""A drawn call as text, and the call."""


class Drawer(Protocol):
    """Source of drawn arguments for a row: decisions, and the stages and loops that look as if they fit."""

    @property
    def s(self) -> Schedule:
        """The schedule."""
        ...

    @property
    def stages(self) -> list[Stage]:
        """The stages that compute something in loops of their own."""
        ...

    def chance(self, share: float) -> bool:
        """True with this probability."""
        ...

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, of which there is at least one; the simplest stands first."""
        ...

    def below(self, bound: int) -> int:
        """A number from 0 up to, not including, `bound`."""
        ...

    def permutation(self, count: int) -> list[int]:
        """The numbers below count in some order."""
        ...

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items, in the order in which they stand."""
        ...

    def factor(self) -> int:
        """The size of a part of a loop, from 1 to 32."""
        ...

    def some_stage(self, fits: Callable[[Stage], object]) -> Stage | None:
        """A stage with loops of which `fits` is true; None where there is none. The draw is then counted for it."""
        ...

    def about(self, stage: Stage | None) -> None:
        """Count the draw for this stage."""
        ...

    def extent(self, stage: Stage, axis: IterVar) -> int | None:
        """The declared extent of a loop, where it is a constant."""
        ...

    def begins_at_zero(self, stage: Stage, axis: IterVar) -> bool:
        """Return whether a loop counts from 0."""
        ...

    def plain(self, stage: Stage) -> list[IterVar]:
        """The loops that carry no annotation, and that no intrinsic stands for."""
        ...

    def data(self, stage: Stage) -> list[IterVar]:
        """Return the loops that are not over reduce axes."""
        ...

    def readers(self, stage: Stage) -> list[Stage]:
        """The stages that read a result of this one."""
        ...

    def attached_stage(self) -> Stage | None:
        """A stage that is computed at a loop of another; one is put there where there is none."""
        ...


@dataclass(frozen=True, eq=False)
class Primitive:
    """Row of a primitive: all that is known of it. owner: which class it is a method of. named: the arguments that as_python writes with
    their names. weight: how often the fuzzer draws it, relative to others. rare: whether it fits so few stages that some
    drawn schedules are about it. early: whether it is tried first, while the loops are as they are declared. foreign: the
    arguments that its records may have where they come as text from somewhere; None where they are not taken from there.
    lowering: what it adds to lowering (an Extension), where that is more than changed loops."""

    owner: Owner
    family: Family
    method: Callable[..., Any]
    named: tuple[str, ...] | None
    tries: Callable[[Stage], Iterable[Try]]
    draw: Callable[[Drawer], Attempt | None] | None
    weight: float
    rare: bool
    early: bool
    foreign: Arguments | None
    lowering: type | None

    @property
    def name(self) -> str:
        """Name of the method, and of its records."""
        return self.method.__name__

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the function: the stage, schedule or group that it is called on, and the method's parameters."""
        return inspect.signature(self.method)

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Return the parameters of the method, without the stage, schedule or group that it is called on."""
        return tuple(self.signature.parameters.values())[1:]

    @property
    def untyped(self) -> list[inspect.Parameter]:
        """The parameters without their types, as messages show them."""
        return [parameter.replace(annotation=parameter.empty) for parameter in self.parameters]

    @cached_property
    def listed(self) -> str | None:
        """The parameter that takes any number of arguments, as `axes` of fuse."""
        return next(
            (parameter.name for parameter in self.parameters if parameter.kind is parameter.VAR_POSITIONAL), None
        )

    @cached_property
    def shown_by_name(self) -> tuple[str, ...]:
        """The arguments that read better with their names: those that may be left out, if the row says nothing else."""
        if self.named is not None:
            return self.named
        return tuple(parameter.name for parameter in self.parameters if parameter.default is not parameter.empty)


_ROWS: dict[tuple[Owner, str], Primitive] = {}


def _nothing(stage: Stage) -> Iterable[Try]:
    del stage
    return ()


def primitive(
    owner: Owner,
    family: Family,
    *,
    named: tuple[str, ...] | None = None,
    tries: Callable[[Stage], Iterable[Try]] = _nothing,
    draw: Callable[[Drawer], Attempt | None] | None = None,
    weight: float = 0,
    rare: bool = False,
    early: bool = False,
    foreign: Arguments | None = None,
    lowering: type | None = None,
) -> Callable[[F], F]:
    """Make a function a primitive: a method of `owner`, with a row of what Primitive says.

    tries: the calls that stand for all others of it when `s.options` looks for what a stage can take. draw: a call for the
    fuzzer, that looks legal, or None where nothing fits. foreign: for a primitive that cannot change what is computed, whatever
    its arguments, in these bounds.
    """

    def register(method: F) -> F:
        row = Primitive(owner, family, method, named, tries, draw, weight, rare, early, foreign, lowering)
        taken = _ROWS.get((owner, row.name))
        if taken is not None and taken.method.__module__ != method.__module__:  # not itself, imported once more
            raise InternalError(f"two primitives are named {row.name}")
        _ROWS[owner, row.name] = row
        setattr(owner, row.name, _check_arguments(row))
        return method

    return register


def _check_arguments(row: Primitive) -> Callable[..., Any]:
    """The method, whose calls with arguments that it has no parameters for are typed errors."""

    @wraps(row.method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return row.method(*given, **named)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from within
            subject = f" of {given[0].op.name}" if given and hasattr(given[0], "op") else ""
            raise WrongArgument(
                f"cannot call {row.name}{subject} so",
                reason=str(error),
                called=user_source(),
                fix=f"{row.name}({', '.join(map(str, row.untyped))})",
            ) from None

    return call


def find_primitive(owner: Owner, name: str) -> Primitive | None:
    """The primitive of this name, if the class has one."""
    return _ROWS.get((owner, name))


def find_owner(record: Record) -> Owner:
    """The class whose primitive a record names."""
    if record.stage is not None:
        return StagePrimitives
    return GroupPrimitives if "group" in record.arguments else SchedulePrimitives


def primitives(owner: Owner | None = None) -> dict[str, Primitive]:
    """The primitives of one class by their names, by family and name; without a class those of stages and of schedules."""
    families = get_args(Family)
    owners = (StagePrimitives, SchedulePrimitives) if owner is None else (owner,)
    rows = (row for (cls, _), row in _ROWS.items() if cls in owners)
    return {row.name: row for row in sorted(rows, key=lambda row: (families.index(row.family), row.name))}


def lowerings() -> list[type]:
    """Return what primitives add to lowering, each once."""
    return list(dict.fromkeys(row.lowering for row in _ROWS.values() if row.lowering is not None))
