"""Primitives that a stage can take now, and the reasons against the rest.

There is no second list of rules: each primitive is tried on a copy of the schedule, with what its row says: one choice of
numbers where it takes any (a split by 2 stands for all). Where the schedule held together before, the copy is lowered too.
What is legal is what raises nothing; the reasons are those of the errors.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base import TilewrightError, dataclass
from ..codegen.target import Target
from ..schedule import Schedule, Stage
from ..schedule.lowering.lower import lower
from ..schedule.lowering.text import all_arguments
from ..schedule.model.primitive import primitives
from ..te import Operation, Tensor

__all__ = ["Option", "Options", "options"]

_ARCHITECTURES = {"x86": "x86_64", "arm": "aarch64"}
"""Processors that have the intrinsics of a family."""


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
    """Trials of the primitives on a stage. holds: whether the schedule holds together as it is, so that what only the whole schedule
    decides was looked at too."""

    stage: str
    tried: tuple[Option, ...]
    holds: bool

    @property
    def legal(self) -> tuple[Option, ...]:
        """Trials that raise nothing."""
        return tuple(option for option in self.tried if option.is_legal)

    @property
    def refused(self) -> tuple[Option, ...]:
        """Trials that raise, each with its error."""
        return tuple(option for option in self.tried if not option.is_legal)

    def reason(self, primitive: str, arguments: str = "") -> str:
        """Return the reason for which this was refused; "" where it is legal or was not tried."""
        option = next(
            (each for each in self.refused if (each.primitive, each.arguments) == (primitive, arguments)), None
        )
        return "" if option is None or option.error is None else option.error.reason or option.error.headline

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
        lines += [
            f"  {primitive:<{width}}  {'; '.join(tried) + ': ' if tried[0] else ''}{reason}"
            for (primitive, reason), tried in because.items()
        ]
        if not self.holds:
            lines.append(
                "The schedule does not hold together as it is, so that what the whole decides was not looked at."
            )
        return "\n".join(lines)

    __repr__ = __str__


def options(schedule: Schedule, given: Stage | Tensor | Operation, target: str = "llvm") -> Options:
    """Every primitive tried on a stage with what the target has; `schedule` stays as it is. Raises UnknownStage (TW0201)."""
    chosen = Target.parse(target)
    stage = given if isinstance(given, Stage) else schedule[given]
    place = schedule.find_place(stage)
    holds = _lowers(schedule) is None
    tried: list[Option] = []
    for name, row in primitives().items():
        for shown, call in row.tries(stage):
            if not _has(chosen, name, shown):
                continue
            copy = schedule.copy()
            error = _catch_error(lambda call=call, copy=copy: call(copy.stages[place]))
            if error is None and holds:
                error = _lowers(copy)
            tried.append(Option(name, shown, error))
    return Options(stage.name, tuple(tried), holds)


def _has(target: Target, primitive: str, shown: str) -> bool:
    """Return whether what a primitive is tried with, a memory, threads or an intrinsic by its name, is the target's."""
    on_gpu = target.backend.device(target) != "cpu"
    if primitive in ("bind", "env_threads"):
        return on_gpu
    if primitive == "set_scope":
        return on_gpu or not (shown.startswith(("mma", "wgmma")) or shown in ("shared", "warp", "swizzled"))
    if primitive == "tensorize":
        family = shown.rpartition(", ")[2].partition(".")[0]
        if family in _ARCHITECTURES:
            return not on_gpu and target.architecture == _ARCHITECTURES[family]
        return on_gpu if family == "cuda" else True
    return True


def _catch_error(action: Callable[[], object]) -> TilewrightError | None:
    try:
        action()
    except TilewrightError as error:
        return error
    return None


def _lowers(schedule: Schedule) -> TilewrightError | None:
    return _catch_error(lambda: lower(schedule, all_arguments(schedule)))
