"""The best schedule that a database holds, which this machine has checked.

What a record says is not believed: one that was measured elsewhere is run in a process of its own and compared with the
unscheduled program, once, before it is used. The database is told what came out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike

from ..base.arguments import to_path
from ..base.errors import PerformanceWarning, ScheduleError, TilewrightError, user_source, warn_user
from ..base.untrusted_input import printable
from ..codegen.target import Target
from ..ir import IntImm, deep_recursion
from ..schedule import Schedule, from_json
from ..schedule.lowering.lower import lower
from ..te import Tensor
from .errors import DatabaseBusy, NoRecord, RecordDoesNotFit, WorkerFailed, WrongRecord
from .measure import Measurer
from .outcome import SCHEDULE_FAULTS, Failure, Limits
from .records import Database
from .task import Key, Task, machine_text
from .trial import Trial

__all__ = ["best_schedule", "best_trial", "find_schedule"]

_AT_ONCE = 4
"""Of trials that somebody else measured: so many are checked before one is used, because their times may be no times of here."""
_REPLAY_FAULTS = (*SCHEDULE_FAULTS, RecursionError, MemoryError)


def best_schedule(
    task: Task, database: Database | str | PathLike[str], any_space: bool = False
) -> tuple[Schedule, Trial]:
    """The schedule of the fastest trial of a task that this machine has checked, on the task's own tensors; those that were
    measured elsewhere and look faster are checked first. any_space: of its program, whatever space the trials were drawn from.

    Raises NoRecord (TW0633); RecordDoesNotFit (TW0636) or WrongRecord (TW0637) where there are only records that are refused;
    and what opening a database raises.
    """
    if not isinstance(database, Database):
        with Database(database, must_exist=True) as opened:  # opened once, whoever asks
            return best_schedule(task, opened, any_space)
    trial = best_trial(task, database, any_space)
    try:
        # foreign: records of others are read with bounds
        return task.replay(from_json(trial.records, foreign=True)), trial
    except ScheduleError as error:
        raise _unfit(task, error.headline) from error  # the record is another schedule's, or damaged


def best_trial(task: Task, database: Database, any_space: bool = False) -> Trial:
    """The trial of best_schedule. Raises NoRecord (TW0633), RecordDoesNotFit (TW0636), WrongRecord (TW0637)."""
    elsewhere = task.key.machine != machine_text() or not task.target.runs_here
    keys = database.spaces(task.key) if any_space else [task.key]
    unchecked, best = (
        ([], _best_elsewhere(task, database, any_space)) if elsewhere else _candidates(database, keys, _AT_ONCE)
    )
    if unchecked:
        accepted, refused = _check(task, database, unchecked)
        # after the check, what was accepted has times of this machine
        best = _candidates(database, keys, 0)[1] or min(accepted, key=lambda trial: trial.time or 0.0, default=None)
        if best is None and refused:
            kind, message = refused[0].kind, refused[0].message
            raise (
                _unfit(task, message)
                if kind == "refused"
                else WrongRecord(
                    f"the best record of {task.name} is refused: {kind}",
                    reason=message,
                    called=user_source(),
                    fix="tune it here: autotune.tune(args, database=...)",
                )
            )
        for failure in refused:  # a warning, as there is another one to use
            warn_user(
                user_source(), printable(f"a record of {task.name} is refused ({failure.kind}): {failure.message}")
            )
    if best is None:
        raise NoRecord(
            f"{str(database.path)!r} holds no verified result for {task.name}",
            called=user_source(),
            reason=_what_there_is(task, database),
            fix="tune it: autotune.tune(args, database=...)",
        )
    return best


def _candidates(database: Database, keys: Sequence[Key], most: int) -> tuple[list[Trial], Trial | None]:
    """Database.candidates of several keys, of one program on one machine."""
    each = [database.candidates(key, most) for key in keys]
    bests = [best for _, best in each if best is not None]
    # confirmed ones first
    best = min(bests, key=lambda trial: (trial.confirmed is None, trial.time or 0.0), default=None)
    limit = math.inf if best is None or best.time is None else best.time
    # slower ones need no check
    faster = [trial for others, _ in each for trial in others if (trial.time or 0.0) < limit]
    return sorted(faster, key=lambda trial: trial.time or 0.0)[:most], best


def _best_elsewhere(task: Task, database: Database, any_space: bool) -> Trial | None:
    """The fastest trial that a tuner of this machine has had measured on the machine of the task's key; where that is this one,
    though the target is for another, on the one that was asked last. What others have measured there cannot be checked here."""
    own, is_any = task.key, task.key.machine == machine_text()
    keys = [
        key
        for key in database.task_keys()
        if (any_space or key.space == own.space)
        and replace(key, space=own.space, machine=own.machine if is_any else key.machine) == own
    ]
    trials = [trial for key in keys if (trial := database.candidates(key, 0)[1]) is not None]
    return max(trials, key=lambda trial: trial.created, default=None)  # the machine that was asked last


def _unfit(task: Task, reason: str) -> RecordDoesNotFit:
    return RecordDoesNotFit(
        f"the best record of {task.name} does not fit its tensors",
        reason=reason,
        called=user_source(),
        fix="tune it again, into another file",
    )


def _check(task: Task, database: Database, trials: Sequence[Trial]) -> tuple[list[Trial], list[Failure]]:
    """Compares what the trials compute with the unscheduled program, and tells the database. Those that are right, with the
    times that they take here, and what is wrong with the others."""
    accepted: list[Trial] = []
    failures: list[tuple[Trial, Failure]] = []
    texts: dict[str, list[Trial]] = {}
    for trial in trials:
        try:
            with deep_recursion():
                schedule = task.replay(from_json(trial.records, foreign=True))
                # equal loops are measured once
                texts.setdefault(str(lower(schedule, list(task.args), "main")), []).append(trial)
        except _REPLAY_FAULTS as error:
            said = (
                error.headline + (f": {error.reason}" if error.reason else "")
                if isinstance(error, TilewrightError)
                else f"{type(error).__name__}: {error}"
            )
            failures.append((trial, Failure("refused", said)))
    if texts:
        size = sum(math.prod(map(int, tensor.shape)) * tensor.dtype.bytes for tensor in task.args)  # pyright: ignore[reportArgumentType]
        with Measurer(task, Limits(workers=1, memory=Limits().memory + 4 * size)) as measurer:
            outcomes = measurer.measure(list(texts))
        for alike, outcome in zip(texts.values(), outcomes, strict=True):
            if outcome.failure is None:
                accepted += [replace(trial, confirmed=outcome.seconds) for trial in alike]
            else:
                failures += [(trial, outcome.failure) for trial in alike]
    with suppress(DatabaseBusy):  # one that can only be read: checked again, the next time
        for trial in accepted:
            database.accept(task.key, trial, trial.confirmed or 0.0)
        for trial, failure in failures:
            database.refuse(trial, failure.kind, failure.message)
    return accepted, [failure for _, failure in failures]


def find_schedule(
    args: Sequence[Tensor],
    target: Target,
    database: Database | str | PathLike[str],
    *,
    exact: bool = False,
) -> Schedule | None:
    """The best schedule of tensors, for tw.build; None where there is no result for them. exact: of those that keep every bit.

    A file that does not exist is warned of: most likely its name is wrong. So are records that are refused. Raises what opening
    a database raises.
    """
    place = None if isinstance(database, Database) else to_path(database)
    if place is None and not isinstance(database, Database):
        Database(database).close()  # raises what it is
    if place is not None and not place.exists():
        warn_user(
            user_source(),
            printable(f"there is no database {str(database)!r}: the kernel takes topi's schedule"),
            PerformanceWarning,
        )
        return None
    is_tuned = target.backend.for_processors or target.backend.rules == "gpu"
    # symbolic shapes have no tuned results
    if not is_tuned or not all(isinstance(e, IntImm) for tensor in args for e in tensor.shape):
        return None
    try:
        return best_schedule(Task.of(list(args), target, exact=exact), database, any_space=True)[0]
    except NoRecord:
        return None  # nothing tuned is the usual case
    except (RecordDoesNotFit, WrongRecord, WorkerFailed) as error:
        told = f"{error.headline}: {error.reason}; the kernel takes topi's schedule"
        warn_user(user_source(), printable(told, lines=True), PerformanceWarning)
        return None


def _what_there_is(task: Task, database: Database) -> str:
    """Results for the same workload under other keys, which are not used."""
    for other in database.task_keys():
        if other.workload == task.key.workload and database.has_result(other):
            differing = [
                f"{name} {getattr(other, name)!r}, here {getattr(task.key, name)!r}"
                for name in ("target", "machine", "versions", "space")
                if getattr(other, name) != getattr(task.key, name)
            ]
            if differing:
                return f"there are results for the same workload, but of {'; '.join(differing)}"
    return "nothing was tuned for this workload"
