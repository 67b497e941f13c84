"""Measuring candidates in workers: built side by side, then run one at a time with everything else at rest.

Workers find in their pipes what they are to build, one candidate after the other, so that none waits for the tuner, which
chooses the next candidates meanwhile. A worker lives from candidate to candidate. Whatever goes wrong with one (it crashes,
hangs, runs out of memory, computes something else, is killed) becomes a Failure, and the worker is replaced.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from ..base.errors import user_source
from ..runtime import num_threads
from ..runtime.folders import new_folder, sweep
from .errors import WorkerFailed
from .outcome import HOPELESS, Failure, Limits, Outcome
from .process import WorkerEnded, WorkerProcess
from .task import Task
from .workload import Workload

__all__ = ["Done", "Measurer", "Measuring"]

Done = Callable[[int, Outcome], None]
"""Called with the number of a candidate, and what measuring it gave, as soon as that is known."""


class Measuring(Protocol):
    """Measurement of the candidates of one task, here or elsewhere. baseline: seconds that a call of the unscheduled program takes
    there. losses: how often the way there was lost and found again, by class of failure."""

    baseline: float
    losses: Counter[str]

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

    def measure(
        self,
        functions: Sequence[str],
        best: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        done: Done | None = None,
    ) -> list[Outcome]:
        """See Measurer.measure."""
        ...

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """See Measurer.rivals."""
        ...


class Measurer:
    """The workers of one task, with its arrays and reference outputs in a folder of their own.

    inputs: the arrays to measure on, for the tensors that are not outputs, in order; drawn where not given.
    Raises WorkerFailed (TW0609), WrongInputs (TW0610).
    """

    MAKES: ClassVar[str] = "build"
    """What workers are asked to make of a candidate before it is run."""

    def __init__(
        self, task: Task | Workload, limits: Limits | None = None, inputs: Sequence[Any] | None = None, seed: int = 0
    ) -> None:
        self.workload = task if isinstance(task, Workload) else Workload.of(task, inputs, seed)
        self.limits = limits or Limits()
        sweep("tune")
        self.folder = new_folder("tune")
        self.started = self.asked = 0
        self.held: list[set[int]] = [set() for _ in range(self.limits.workers)]
        """By worker, the numbers of the kernels that it has built and not run yet."""
        self.workers: list[WorkerProcess] = []
        self.baseline = 0.0
        self.losses: Counter[str] = Counter()
        try:
            self.workload.write(self.folder)
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker and removes the folder."""
        for worker in self.workers:
            worker.stop()
        self.workers = []
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        """The first workers; one of them runs the unscheduled program."""
        try:
            self.workers = [self._new_worker() for _ in range(self.limits.workers)]
            for worker in self.workers:
                require_success(worker)
            self.baseline = self._reference(self.workers[0], max(600.0, 60 * self.limits.timeout))
            for worker in self.workers:
                self._load(worker)
        except WorkerEnded as ended:
            raise WorkerFailed(
                f"cannot measure {self.workload.name}: the unscheduled program does not run",
                reason=ended.failure.message,
                called=user_source(),
                fix="check that tw.build(args) runs on arrays of these shapes; `memory` and `timeout` "
                "are the limits of the processes that measure",
            ) from None

    def _new_worker(self) -> WorkerProcess:
        self.started += 1
        worker = WorkerProcess(self.limits, self.folder, self.started)
        workload = self.workload
        worker.ask(
            60.0,
            do="setup",
            args=workload.shapes,
            outputs=workload.outputs,
            constants=len(workload.constants),
            threads=num_threads(),
            target=workload.target,
            folder=str(self.folder),
        )
        return worker

    def _reference(self, worker: WorkerProcess, timeout: float) -> float:
        """Run the unscheduled program: the seconds that a call takes. Raises WorkerEnded."""
        worker.ask(timeout, do="reference", function=self._write_candidate(self.workload.unscheduled))
        return require_success(worker)["seconds"]

    def _load(self, worker: WorkerProcess) -> None:
        """Let a worker read what the unscheduled program computed. Raises WorkerEnded."""
        worker.ask(60.0, do="load")
        require_success(worker)

    def _replace(self, at: int) -> None:
        """A fresh worker in place of one that failed."""
        self.workers[at].stop()
        self.held[at].clear()
        try:
            self.workers[at] = self._new_worker()
            require_success(self.workers[at])
            self._load(self.workers[at])
        except WorkerEnded as ended:
            raise WorkerFailed(
                "a measuring process does not restart",
                reason=ended.failure.message,
                called=user_source(),
                fix="check that memory and process limits leave room for it",
            ) from None

    # Candidates

    def measure(
        self,
        functions: Sequence[str],
        best: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        done: Done | None = None,
    ) -> list[Outcome]:
        """Times of candidates, each the text of its loops. best: seconds of the fastest so far: one that is far slower is
        timed less carefully. meanwhile: called while they are built; done: with each outcome, as soon as there is one. Raises
        WorkerFailed (TW0609) where a measuring process does not restart."""
        outcomes: dict[int, Outcome] = {}
        paths = [self._write_candidate(function) for function in functions]
        shares = [list(range(at, len(paths), len(self.workers))) for at in range(len(self.workers))]
        for at, share in enumerate(shares):
            self._queue(at, share, paths, outcomes)
        if meanwhile is not None:
            meanwhile()
        seconds = [0.0] * len(paths)
        for at, share in enumerate(shares):
            self._collect(at, share, paths, outcomes, seconds)
        for number in range(len(paths)):
            if number not in outcomes:
                outcomes[number] = self._run(number % len(self.workers), number, paths, seconds[number], best)
                time_of = outcomes[number].seconds
                best = time_of if best is None or time_of is not None and time_of < best else best
            if done is not None:
                done(number, outcomes[number])
        for path in paths:
            Path(path).unlink()
        for held in self.held:
            held.clear()
        return [outcomes[number] for number in range(len(paths))]

    def _write_candidate(self, function: str) -> str:
        """A file with the text of a function, so that requests are short and several fit into a pipe."""
        self.asked += 1
        path = self.folder / f"{self.asked}.ir"
        path.write_text(function, encoding="utf-8")
        return str(path)

    def _queue(self, at: int, share: Sequence[int], paths: Sequence[str], outcomes: dict[int, Outcome]) -> None:
        """Ask a worker to build its share, one after the other."""
        for place, number in enumerate(share):
            if self._try(at, number, outcomes, self.limits.timeout, do=self.MAKES, id=number, function=paths[number]):
                continue
            self._queue(at, share[:place], paths, outcomes)  # the worker is a new one
            self._queue(at, share[place + 1 :], paths, outcomes)
            return

    def _collect(
        self,
        at: int,
        share: Sequence[int],
        paths: Sequence[str],
        outcomes: dict[int, Outcome],
        seconds: list[float],
    ) -> None:
        """Wait until a worker has built its share, and notes how long each took."""
        for place, number in enumerate(share):
            if number in outcomes:
                continue
            self.workers[at].expect(self.limits.timeout)
            worker = self.workers[at]
            answer = self._answer(at, number, outcomes, more=True)
            if "seconds" in answer:
                self.held[at].add(number)
                seconds[number] = answer["seconds"]
            if self.workers[at] is not worker:
                self._queue(at, share[place + 1 :], paths, outcomes)

    def _run(self, at: int, number: int, paths: Sequence[str], built: float, best: float | None) -> Outcome:
        """Has a worker run what it built; once more built where a worker ended meanwhile."""
        outcomes = self._made_again(at, number, paths)
        if number not in outcomes:
            self._try(
                at,
                number,
                outcomes,
                self.limits.timeout,
                do="run",
                id=number,
                budget=self.limits.budget,
                cutoff=None if best is None else HOPELESS * best,
            )
        answer = self._answer(at, number, outcomes) if number not in outcomes else {}
        self.held[at].discard(number)
        return Outcome(tuple(answer["times"]), None, built) if "times" in answer else outcomes[number]

    def _made_again(self, at: int, number: int, paths: Sequence[str]) -> dict[int, Outcome]:
        """Has a worker build what it does not hold any more; what went wrong, by number."""
        outcomes: dict[int, Outcome] = {}
        if number not in self.held[at]:
            self._queue(at, [number], paths, outcomes)
            self._collect(at, [number], paths, outcomes, [0.0] * len(paths))
        return outcomes

    def _try(self, at: int, number: int, outcomes: dict[int, Outcome], timeout: float, **request: Any) -> bool:
        """Ask a worker something about a candidate; whether it could be asked."""
        try:
            self.workers[at].ask(timeout, **request)
        except WorkerEnded as ended:
            outcomes[number] = Outcome(failure=ended.failure)
            self._replace(at)
            return False
        return True

    def _answer(self, at: int, number: int, outcomes: dict[int, Outcome], more: bool = False) -> dict[str, Any]:
        """The answer of a worker; {} where it is a failure, which is then noted."""
        try:
            answer = self.workers[at].answer(more)
        except WorkerEnded as ended:
            outcomes[number] = Outcome(failure=ended.failure)
            self._replace(at)
            return {}
        if "failure" not in answer:
            return answer
        outcomes[number] = Outcome(failure=Failure(answer["failure"], answer["message"]))
        if answer["failure"] == "wrong output":  # it may have written where it should not
            self._replace(at)
        return {}

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """The seconds of several candidates that were measured before, run in turn so that a drift of the machine's speed meets all
        of them; None where one now fails. Raises WorkerFailed (TW0609)."""
        paths, outcomes = self._all_made(functions)
        numbers = list(range(len(paths)))
        self.held[0].clear()
        if outcomes:
            return None
        self._try(0, 0, outcomes, self.limits.timeout + 10 * budget, do="rivals", ids=numbers, budget=budget)
        answer = self._answer(0, 0, outcomes) if not outcomes else {}
        return answer.get("times")

    def _all_made(self, functions: Sequence[str]) -> tuple[list[str], dict[int, Outcome]]:
        """Has the first worker build several; their files, and what went wrong."""
        outcomes: dict[int, Outcome] = {}
        paths = [self._write_candidate(function) for function in functions]
        self._queue(0, range(len(paths)), paths, outcomes)
        self._collect(0, range(len(paths)), paths, outcomes, [0.0] * len(paths))
        return paths, outcomes


def require_success(worker: WorkerProcess) -> dict[str, Any]:
    """The answer of a worker that has to succeed. Raises WorkerEnded."""
    answer = worker.answer()
    if "failure" in answer:
        raise WorkerEnded(Failure(answer["failure"], answer["message"]))
    return answer
