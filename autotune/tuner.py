"""The tuner: propose, measure, record, until the database holds as many trials as were asked for."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from ..base import dataclass, field, user_source
from ..codegen.target import Target
from ..runtime.tables import html_table
from ..schedule import Record, Schedule, from_json
from ..te import Tensor
from .comparison import Comparison, Load, beats
from .errors import BadTuningOption, NoCandidate, NoRecord, RecordDoesNotFit, WrongRecord
from .features import FEATURES
from .history import History
from .measure import Measuring
from .model import Measurements
from .outcome import Limits, Outcome, lower_quartile
from .progress import Progress, readable
from .record_lookup import best_schedule, best_trial
from .records import Database
from .runners import make_runner
from .search import STRATEGIES, Candidate, CandidateFactory, Measured, make_search
from .task import Task
from .trial import Trial
from .trial_marks import make_mark
from .trial_shares import Kernel, Parted, find_kernels, shares

__all__ = ["Best", "PartedResult", "Result", "best", "tune"]

_logger = logging.getLogger(__name__)
BATCH = 8
"""Candidates between two trainings of the model."""
FINALISTS, ROUNDS = 5, 3
"""So many of the fastest are measured again, side by side with the rules' choice: the least of many noisy times flatters whoever
has it. Where none of them is faster after all, the next ones are, so often."""
SLOWER = 1.1
"""How many times slower than the rules' choice a trial may be to be measured again beside it."""
OTHERS = 512
"""Trials of other functions, or of other spaces, that the model learns from beforehand."""
RECALLED = 256
"""Trials of earlier runs whose candidates are made again: the fastest and the latest."""


class Best(NamedTuple):
    """The fastest verified candidate: the seconds that a call takes, and its schedule as records."""

    seconds: float
    records: tuple[Record, ...]

    def __repr__(self) -> str:
        return f"Best({readable(self.seconds)}, {len(self.records)} records)"


@dataclass(frozen=True)
class Result:
    """Result of tuning a task: what the database holds for it now.

    best: the fastest verified candidate; where no other is faster, the rules' choice. history: every trial, oldest first, a list
    with a table for pandas and a picture.
    baseline: the seconds that a call of the unscheduled program takes. dropped: how many candidates were given up before they were
    measured, by class of failure. comparison: with the rules' choice, as it came out in this run; None where nothing was measured
    now, and for templates. losses: how often the way to the machine that measures was lost, and found again, by class of failure.
    is_exhausted: whether this run ended with fewer trials than were asked for, since no candidate was found that had not been
    measured.
    """

    task: Task
    best: Best
    history: History
    baseline: float | None
    dropped: dict[str, int]
    comparison: Comparison | None = None
    losses: dict[str, int] = field(default_factory=dict[str, int])
    is_exhausted: bool = False

    @property
    def schedule(self) -> Schedule:
        """The best schedule, on the task's own tensors. Raises BadRecords (TW0223) where the tensors are other ones."""
        return self.task.replay(self.best.records)

    @property
    def space(self) -> str:
        """Return what the trials were drawn from: "rules", or "template:NAME(arguments)", then a mark of what defines it."""
        return self.task.key.space

    @property
    def failures(self) -> dict[str, int]:
        """Return how many trials failed, by class (see Failure.kind)."""
        return dict(Counter(trial.failure for trial in self.history if trial.failure))

    def __repr__(self) -> str:
        gain = f", {self.baseline / self.best.seconds:.1f} x the unscheduled program" if self.baseline else ""
        trials = f"{self._trials} trials of {self.task.key.space_name}"
        against = f", {self.comparison}" if self.comparison is not None else ""
        return f"<Result {self.task.name}: {self.best.seconds * 1e3:.4g} ms after {trials}{gain}{against}>"

    @property
    def _trials(self) -> str:
        return f"all {len(self.history)}" if self.is_exhausted else f"{len(self.history)}"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("best", f"{self.best.seconds * 1e3:.4g} ms")]
        if self.baseline:
            times = self.baseline / self.best.seconds
            rows.append(("unscheduled program", f"{self.baseline * 1e3:.4g} ms, {times:.1f} times as long"))
        if self.comparison is not None:
            rows.append(("beside the rules' choice", self.comparison))
        rows += [("space", self.task.key.space_name), ("trials", self._trials)]
        rows += [(f"failed: {kind}", number) for kind, number in self.failures.items()]
        return html_table(f"tuned {self.task.name}", ("", ""), rows) + self.history.plot()


@dataclass(frozen=True, repr=False)
class PartedResult:
    """Results of tuning the kernels of a graph. results: by their names; counts: how often a call runs each."""

    results: dict[str, Result]
    counts: dict[str, int]

    @property
    def seconds(self) -> float:
        """Return what the best of all of them take in a call, each measured by itself."""
        return sum(self.counts[name] * result.best.seconds for name, result in self.results.items())

    def __repr__(self) -> str:
        trials = sum(len(result.history) for result in self.results.values())
        return f"<PartedResult: {self.seconds * 1e3:.4g} ms in {len(self.results)} kernels after {trials} trials>"

    def _repr_html_(self) -> str:
        rows = [
            (name, self.counts[name], readable(result.best.seconds), len(result.history), result.comparison or "")
            for name, result in self.results.items()
        ]
        caption = f"tuned: {self.seconds * 1e3:.4g} ms in a call"
        return html_table(caption, ("kernel", "in a call", "best", "trials", "beside the rules' choice"), rows)


@overload
def tune(
    args: Parted | Sequence[Kernel],
    target: str | Target = "llvm",
    trials: int = 64,
    database: str | Path | Database = "tune.sqlite",
    *,
    search: str = "evolution",
    seed: int = 0,
    inputs: None = None,
    limits: Limits | None = None,
    progress: bool | None = None,
    exact: bool = False,
    runner: object = None,
) -> PartedResult: ...
@overload
def tune(
    args: Sequence[Tensor] | Task,
    target: str | Target = "llvm",
    trials: int = 64,
    database: str | Path | Database = "tune.sqlite",
    *,
    search: str = "evolution",
    seed: int = 0,
    inputs: Sequence[Any] | None = None,
    limits: Limits | None = None,
    progress: bool | None = None,
    exact: bool = False,
    runner: Any = None,
) -> Result: ...


def tune(
    args: Any,
    target: str | Target = "llvm",
    trials: int = 64,
    database: str | Path | Database = "tune.sqlite",
    *,
    search: str = "evolution",
    seed: int = 0,
    inputs: Sequence[Any] | None = None,
    limits: Limits | None = None,
    progress: bool | None = None,
    exact: bool = False,
    runner: Any = None,
) -> Any:
    """Look for the fastest schedule of a function, or of each kernel of a graph.

    Every candidate is built and run in another process, and compared with the unscheduled program before its time counts. The
    first is the rules' choice, and the last thing that is done is to run it and the fastest in turn: what does not beat it there
    is not the result. A space that has no more candidates ends a run early, which the result says (is_exhausted). Interrupting it
    (Ctrl-C) keeps every trial so far.

    Trials of one space are no trials of another: a template's task is tuned beside what the rules gave for the same program, and
    beside the template with other knobs.

    Parameters
    ----------
    args : sequence of Tensor, Task, Graph or sequence of GraphTask
        Inputs, then outputs, of any dtypes and of static shapes; or a template's task; or a graph, or some of its `tasks()`: then
        `trials` are shared among the kernels by their estimated part of a call's time, two at least for each, and the result has a
        result for each by its name (seconds, results, counts), which `tw.build(g, tuned=database)` takes.
    target : str or Target, default "llvm"
        "llvm", or "llvm -mcpu=..." of a CPU whose instructions this one has; or "cuda -arch=...", whose candidates are checked on
        the emulator and ranked by estimates and counts: their seconds are ranks, no times.
    trials : int, default 64
        Measured candidates that the database shall hold, those of earlier runs included: running again goes on, or returns at once.
    database : str, Path or Database, default "tune.sqlite"
        An open one, or its file, which is made where there is none.
    search : str, default "evolution"
        "evolution" (guided by a cost model) or "random".
    seed : int, default 0
        Of all that is drawn.
    inputs : sequence of arrays or None, default None
        Arrays to measure on, of the shapes and dtypes of the tensors that are no outputs, in their order; drawn where it is None.
    limits : Limits or None, default None
        Seconds and bytes that a candidate may take.
    progress : bool or None, default None
        Whether to show a live display; None shows it where the standard error output is a terminal.
    exact : bool, default False
        Whether candidates keep the declared order of sums, and so every bit. Their trials are kept apart from others, and
        `tw.build(..., tuned=..., exact=True)` finds them.
    runner : str, distributed.Client or None, default None
        The machine that measures, if not this one: `ssh://user@board`, for which `target` names the board's processor, or the
        scheduler of a Dask fleet of equal machines (`tcp://host:port`, `tls://host:port`, a client). Results hold for that machine.

    Raises
    ------
    NothingToTune (TW0601)
        `args` are neither the tensors of a function nor a template's task.
    SymbolicShape (TW0602)
        A shape is not known.
    TargetCannotBeTuned (TW0603)
        Nothing here measures for the target.
    BadTuningOption (TW0604)
        An option has a value that it does not take.
    NoCandidate (TW0608)
        No candidate ran and gave the right results.
    WorkerFailed (TW0609)
        The process that runs candidates does not start.
    WrongInputs (TW0610)
        `inputs` have other shapes, dtypes or another number.
    RunnerLost (TW0613)
        The board or the fleet does not answer any more.
    CorruptDatabase (TW0631), ForeignDatabase (TW0632), DatabaseBusy (TW0635)
        The file cannot be read.
    """
    if type(trials) is not int or trials < 1:
        raise BadTuningOption(
            f"cannot tune for {trials!r} trials", called=user_source(), allowed="a positive number", fix="trials=64"
        )
    if search not in STRATEGIES:
        raise BadTuningOption(f"there is no search {search!r}", called=user_source(), allowed=", ".join(STRATEGIES))
    kernels = find_kernels(args, target)
    if kernels is not None:
        if inputs is not None:
            raise BadTuningOption(
                "inputs are of one function",
                reason="each kernel of a graph has its own, which are drawn",
                called=user_source(),
                fix="leave out inputs, or tune the task of one kernel: g.tasks()[0].tensors",
            )
        with _open_database(database) as records:
            one = partial(
                tune,
                target=target,
                database=records,
                search=search,
                seed=seed,
                limits=limits,
                progress=progress,
                exact=exact,
                runner=runner,
            )
            given = shares(kernels, target, trials)
            results = {
                kernel.name: one(Task.of(kernel.tensors, target, name=kernel.name), trials=given[kernel.name])
                for kernel in kernels
            }
        return PartedResult(results, {kernel.name: kernel.count for kernel in kernels})
    declared = Task.of(args, target, exact=exact)
    with make_runner(runner, declared.target) as place, _open_database(database) as records:
        task = Task.of(declared, machine=place.machine)
        run = _Run(task, CandidateFactory(task, place.text(task)), records, trials, search, seed)
        if not run.is_done:
            records.require_writable()
            run.search.prepare()
            shown = sys.stderr.isatty() if progress is None else progress
            with (
                place.measurer(run.task, limits, inputs) as measurer,
                Progress(run.task.name, trials, shown) as display,
            ):
                run.measure(measurer, display, place.load())
        return run.result()


@contextmanager
def _open_database(database: str | Path | Database) -> Generator[Database]:
    if isinstance(database, Database):
        yield database
        return
    with Database(database) as opened:
        yield opened


class _Run:
    """One call of tune: what was measured before and what is measured now."""

    def __init__(
        self, task: Task, factory: CandidateFactory, database: Database, trials: int, search: str, seed: int
    ) -> None:
        self.task, self.database, self.trials = task, database, trials
        self.is_done = database.count(task.key) >= trials
        self.history = [] if self.is_done else database.trials(task.key)
        self.factory = factory
        others = [] if self.is_done else _others(database, task)
        self.search = make_search(search, task, self.factory, seed + 7919 * len(self.history), others)
        self.seen = {trial.records for trial in self.history}
        self.candidates: dict[str, Candidate] = {}
        self.measured: list[Measured] = []
        self.comparison: Comparison | None = None
        self.losses: Counter[str] = Counter()
        self.is_exhausted = False

    def measure(self, measurer: Measuring, display: Progress, load: Load) -> None:
        """Measures until there are as many trials as wanted, or no more candidates. The next ones are chosen while some are
        built."""
        self.losses = measurer.losses
        display.dropping(self.factory.dropped, self.factory.first_message)
        usual = next(self.task.space.begin(), None)
        first = self.factory.make(usual) if usual is not None else None
        self._recall()
        if measurer.baseline:
            self.database.set_baseline(self.task.key, self.task.name, measurer.baseline)
        _logger.info("%s: %d of %d trials are known", self.task.name, len(self.history), self.trials)
        display.begin(self.history, measurer.baseline, first.records if first is not None else "", measurer.losses)
        batch = [first] if first is not None and first.records not in self.seen else []
        batch += self._propose(batch, BATCH - len(batch))
        while batch:
            display.say("building and choosing")
            following: list[Candidate] = []
            best = min((trial.seconds for trial in self.history if trial.seconds is not None), default=None)
            measurer.measure(
                [candidate.text for candidate in batch],
                best,
                partial(self._choose, batch, following),
                partial(self._came, batch, display),
            )
            batch = following or self._propose(
                [], BATCH
            )  # drawn anew: a few draws may miss what a small space has left
        self.is_exhausted = len(self.history) < self.trials
        display.show_exhaustion(self.is_exhausted)
        display.say("comparing the fastest")
        self._confirm(measurer, first, load)
        display.compare(self.comparison)

    def _came(self, batch: Sequence[Candidate], display: Progress, number: int, outcome: Outcome) -> None:
        """Notes what measuring a candidate gave, as soon as it is known."""
        candidate, failure = batch[number], outcome.failure
        trial = Trial(
            candidate.records,
            outcome.seconds,
            candidate.config,
            failure.kind if failure else "",
            failure.message if failure else "",
            mark=self._mark(candidate) if failure is None else "",
        )
        self._note(candidate, trial)
        taken = f"{trial.seconds:.3g} s" if trial.seconds is not None else f"{trial.failure}: {trial.message}"
        _logger.info("%s: trial %d of %d: %s", self.task.name, len(self.history), self.trials, taken)
        display.say("measuring")
        display.add(trial, outcome.spread)

    def _choose(self, batch: list[Candidate], following: list[Candidate]) -> None:
        following += self._propose(batch, BATCH)

    def _propose(self, batch: list[Candidate], most: int) -> list[Candidate]:
        """The candidates after a batch, some of which may not be measured yet."""
        waiting = sum(candidate.records not in self.seen for candidate in batch)
        count = min(most, self.trials - len(self.history) - waiting)
        seen = self.seen | {candidate.records for candidate in batch}
        return self.search.propose(count, self.measured, seen) if count > 0 else []

    def _mark(self, candidate: Candidate) -> str:
        return make_mark(self.task.key, candidate.records)

    def _note(self, candidate: Candidate, trial: Trial) -> None:
        """Records a trial, and only then counts it."""
        self.database.add(self.task.key, self.task.name, trial)
        self.history.append(trial)
        self.seen.add(trial.records)
        self.candidates[trial.records] = candidate
        self.measured.append(Measured(candidate, trial.seconds))

    def _recall(self) -> None:
        """Trials of earlier runs, for the model: those whose configuration still means the same."""
        for trial in self.database.extremes(self.task.key, RECALLED):
            if trial.config is None or not self.task.space.fits(trial.config):
                continue
            candidate = self.factory.make(trial.config)
            if candidate is not None and candidate.records == trial.records:
                self.candidates[trial.records] = candidate
                self.measured.append(Measured(candidate, trial.seconds))

    def _confirm(self, measurer: Measuring, first: Candidate | None, load: Load) -> None:
        """Measures the fastest again, in turn with the rules' choice, and notes what came out: of what is not faster, nothing."""
        known = [trial for trial in self.history if trial.seconds is not None and trial.records in self.candidates]
        usual = next((trial for trial in known if first is not None and trial.records == first.records), None)
        rivals = sorted((trial for trial in known if trial is not usual), key=lambda trial: trial.time or 0.0)
        if usual is not None and usual.seconds is not None:
            rivals = [trial for trial in rivals if (trial.time or 0.0) < SLOWER * usual.seconds]
        for start in range(0, max(min(len(rivals), ROUNDS * FINALISTS), 1 if usual is not None else 0), FINALISTS):
            finalists = [*([usual] if usual is not None else []), *rivals[start : start + FINALISTS]]
            times = measurer.rivals([self.candidates[trial.records].text for trial in finalists])
            if times is None:
                return
            faster = [
                (trial, each)
                for trial, each in zip(finalists, times, strict=True)
                if usual is None
                or trial is usual
                or beats(each, times[0])
                and self._counts(trial, usual, times[0], load)
            ]
            self.database.confirm(self.task.key, {trial.uid: lower_quartile(each) for trial, each in faster})
            if usual is None:
                return
            winner = min((each for _, each in faster), key=lower_quartile)
            self.comparison = Comparison(tuple(times[0]), tuple(winner), load)
            if len(faster) > 1:
                return

    def _counts(self, trial: Trial, usual: Trial, times: Sequence[float], load: Load) -> bool:
        """Return whether what a comparison with the rules' choice says of a candidate can be believed: beside other load one of a single
        thread is faster for that alone."""
        alike = self.candidates[trial.records].is_parallel or not self.candidates[usual.records].is_parallel
        return alike or not Comparison(tuple(times), tuple(times), load).is_noisy

    def _winner(self) -> Trial | None:
        try:
            return best_trial(self.task, self.database)
        except (NoRecord, RecordDoesNotFit, WrongRecord):
            return None

    def result(self) -> Result:
        """Return what the database holds now. Raises NoCandidate (TW0608)."""
        winner = self._winner()
        history = self.database.trials(self.task.key)
        if winner is None or winner.time is None:
            first = {trial.failure: trial.message for trial in reversed(history)}
            reasons = [
                f"{kind} ({sum(trial.failure == kind for trial in history)}): {message}"
                for kind, message in first.items()
            ]
            reasons += [
                f"{kind} ({self.factory.dropped[kind]}): {message}"
                for kind, message in self.factory.first_message.items()
            ]
            raise NoCandidate(
                f"no candidate of {self.task.name} could be built, run and verified",
                called=user_source(),
                reason="\n".join(reasons) or "the space is empty",
                fix="the messages above are the first of each class; tw.build(args) shows whether the "
                "unscheduled program runs",
            )
        baseline = self.database.baseline(self.task.key)
        rules = next(self.task.space.begin(), None)
        usual = next((trial for trial in history if rules is not None and trial.config == rules), None)
        best = Best(winner.time, from_json(winner.records, foreign=True))
        return Result(
            self.task,
            best,
            History(history, usual, baseline),
            baseline,
            dict(self.factory.dropped),
            self.comparison,
            dict(self.losses),
            self.is_exhausted,
        )


def _others(database: Database, task: Task) -> list[Measurements]:
    """Return what was measured of other functions on this machine, those of the last ones."""
    found: list[Measurements] = []
    for other in reversed(database.task_keys()):
        wanted = OTHERS - sum(len(each.rows) for each in found)
        if other != task.key and other.machine == task.key.machine and wanted > 0:
            measured = Measurements.of(
                (np.asarray(trial.config.features, np.float32), trial.seconds)
                for trial in database.extremes(other, wanted)
                if trial.config is not None and len(trial.config.features) == FEATURES
            )
            found += [measured] if measured is not None else []
    return found


def best(args: Any, target: str | Target = "llvm", database: str | Path | Database = "tune.sqlite") -> Schedule:
    """Return the fastest schedule that the database holds for a function, on its own tensors.

    Parameters
    ----------
    args : sequence of Tensor or Task
        Inputs, then outputs, of static shapes: trials of every space count, the rules' and those of templates for the same program.
        Of a task, a template's for one, those of its own space.
    target : str or Target, default "llvm"
        As for tune.
    database : str, Path or Database, default "tune.sqlite"
        The file, or an open database.

    Raises
    ------
    NoRecord (TW0633)
        The database holds no trial of it.
    CorruptDatabase (TW0631), ForeignDatabase (TW0632), DatabaseBusy (TW0635)
        The file cannot be read.
    TuningError
        What tune raises for its arguments.
    """
    return best_schedule(Task.of(args, target), database, any_space=not isinstance(args, Task))[0]
