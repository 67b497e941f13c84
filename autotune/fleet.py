"""Measuring on the machines of a Dask cluster, which are alike: each candidate goes to one that is free.

The tuner alone writes the database, once for each candidate that it has sent out. A machine that ends, or is taken away, loses
nothing: what it was measuring is measured by another. Dask carries what is sent, by TLS where its own settings say so; whoever may
use its scheduler may run any code on its machines, as with every Dask cluster.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Self

from ..base.arguments import is_a
from ..base.errors import TilewrightError, user_source
from ..base.untrusted_input import printable
from ..ir.stmt import Function
from ..schedule import Schedule
from .comparison import Load
from .errors import MissingPackage, RunnerLost, WorkerFailed
from .measure import Done, Measurer
from .outcome import Failure, Limits, Outcome
from .search import loops_text
from .task import Task, machine_text, versions_text
from .workload import Workload

__all__ = ["Fleet", "FleetMeasurer"]

_TRIES = 5
"""How often a candidate is sent out whose machine ends before it has answered: Dask has tried several each time."""
_logger = logging.getLogger(__name__)
_PATIENCE = 60.0
"""Seconds without any machine, or without any answer beyond what a candidate may take, after which the fleet counts as lost."""


class Answer(NamedTuple):
    """Answer of a machine of a fleet. machine, versions: its own, as keys name them. value: of what it was asked. error: why there
    is none."""

    machine: str
    versions: str
    value: Any = None
    error: str = ""


# What runs on the machines


_held: dict[str, Measurer] = {}
"""What measures the task that this process was asked about last, by the tuner's number for it."""
_turn = threading.Lock()
"""One candidate is measured at a time."""


def answered(
    question: str,
    identity: str = "",
    workload: Workload | None = None,
    limits: Limits | None = None,
    texts: Sequence[str] = (),
    best: float | None = None,
    budget: float = 1.0,
) -> Answer:
    """Return what a machine is asked: "facts", "baseline", "measure" (the outcome of one candidate) or "rivals"."""
    here = Answer(machine_text(), versions_text())
    if question == "facts":
        return here
    assert workload is not None
    with _turn:
        try:
            if identity not in _held:
                while _held:
                    _held.popitem()[1].close()
                _held[identity] = Measurer(workload, limits)
            measurer = _held[identity]
            value = (
                measurer.baseline
                if question == "baseline"
                else measurer.measure(texts, best)[0]
                if question == "measure"
                else measurer.rivals(texts, budget)
            )
        except TilewrightError as error:
            return here._replace(error=str(error))
    return here._replace(value=value)


# What runs in the tuner


Came = Callable[[int, "Answer | Failure"], None]
"""Called with the number of a question, and its answer."""


class Fleet:
    """A cluster as a place to measure on. scheduler: its address, or a distributed.Client. Raises RunnerLost (TW0613), and
    MissingPackage (TW0611) where there is no Dask."""

    def __init__(self, scheduler: Any) -> None:
        self._is_own = is_a(scheduler, str)
        self.client: Any = _client(scheduler) if self._is_own else scheduler
        self.machine = ""

    def __enter__(self) -> Self:
        answer = self.ask([dict[str, Any](question="facts")], _PATIENCE)[0]
        if is_a(answer, Failure):
            self.close()
            raise _fleet_error(f"{answer.kind}: {answer.message}")
        self.machine = answer.machine
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the cluster as it is."""
        if self._is_own:
            self.client.close()

    def load(self) -> Load:
        """Nobody tells."""
        return Load()

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        """The loops."""
        del task
        return loops_text

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> FleetMeasurer:
        """Return what measures the candidates of a task there."""
        return FleetMeasurer(self, Workload.of(task, inputs), limits or Limits())

    def ask(
        self,
        questions: Sequence[Mapping[str, Any]],
        patience: float,
        came: Came | None = None,
        losses: Counter[str] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        """The answers to questions, each by a machine that is free; a Failure for one that no machine outlived. patience: seconds
        within which at least one is answered. came: called with each answer once. Raises RunnerLost (TW0613)."""
        answers: list[Any] = [None] * len(questions)
        tries = [1] * len(questions)
        open_ = {number: self._submit(question) for number, question in enumerate(questions)}
        if meanwhile is not None:
            meanwhile()
        since = time.monotonic()
        try:
            while open_:
                ended = [number for number, future in open_.items() if future.done()]
                for number in ended:
                    answer = self._answer(open_.pop(number), tries[number])
                    if answer is None:
                        tries[number] += 1
                        _logger.warning("a machine of the fleet ended; its candidate is sent to another one")
                        if losses is not None:
                            losses["killed"] += 1
                        open_[number] = self._submit(questions[number])
                        continue
                    answers[number] = answer
                    if came is not None:
                        came(number, answer)
                if ended:
                    since = time.monotonic()
                elif time.monotonic() - since > patience or not self._has_machines(since):
                    raise _fleet_error("no machine of the fleet responds")
                time.sleep(0.005 if ended else 0.02)
        finally:
            for future in open_.values():
                future.cancel()
        return answers

    def _submit(self, question: Mapping[str, Any]) -> Any:
        return self.client.submit(answered, **question, pure=False, key=f"tilewright-{uuid.uuid4().hex}")

    def _has_machines(self, since: float) -> bool:
        """Return whether there are any, or were until a moment ago."""
        return bool(self.client.scheduler_info()["workers"]) or time.monotonic() - since < _PATIENCE

    def _answer(self, future: Any, tries: int) -> Answer | Failure | None:
        """None for one that is to be asked again: its machine ended. Raises RunnerLost (TW0613)."""
        if future.status == "finished":
            answer = future.result()
            if (
                not is_a(answer, Answer)
                or answer.versions != versions_text()
                or self.machine not in ("", answer.machine)
            ):
                raise _fleet_error(
                    "a machine sent an unexpected answer"
                    if not is_a(answer, Answer)
                    else f"a machine of the fleet is {answer.machine!r} with {answer.versions!r}, others are {self.machine!r}; "
                    f"here is {versions_text()!r}"
                )
            return answer
        error = future.exception() if future.status == "error" else None
        if error is not None and type(error).__name__ != "KilledWorker":
            raise _fleet_error(f"{type(error).__name__}: {error}")
        if error is None and future.status != "lost":
            raise _fleet_error("the scheduler does not respond")
        if tries < _TRIES:
            return None
        return Failure("lost", f"the machines that measured it ended, {tries} times: {error}")


class FleetMeasurer:
    """Measurement of the candidates of one task on a fleet. Raises WorkerFailed (TW0609), RunnerLost (TW0613)."""

    def __init__(self, fleet: Fleet, workload: Workload, limits: Limits) -> None:
        self.fleet, self.limits = fleet, limits
        self.losses: Counter[str] = Counter()
        self._about = {
            "identity": uuid.uuid4().hex,
            "workload": workload,
            "limits": Limits(limits.timeout, limits.memory, limits.budget, workers=1),
        }
        self._patience = max(600.0, 60 * limits.timeout) + _PATIENCE
        answer = self._ask_about([{"question": "baseline"}])[0]
        if is_a(answer, Failure) or answer.error:
            reason = answer.message if is_a(answer, Failure) else answer.error
            raise WorkerFailed(
                f"cannot measure {workload.name}: the unscheduled program does not run on the fleet",
                called=user_source(),
                reason=printable(reason, lines=True),
                fix="check that tw.build(args) runs there on arrays of these shapes",
            )
        self.baseline = float(answer.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Machines keep their workers until they are asked about another task."""

    def _ask_about(
        self, questions: Sequence[dict[str, Any]], came: Came | None = None, meanwhile: Callable[[], None] | None = None
    ) -> list[Any]:
        return self.fleet.ask(
            [self._about | question for question in questions], self._patience, came, self.losses, meanwhile
        )

    def measure(
        self,
        functions: Sequence[str],
        best: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        done: Done | None = None,
    ) -> list[Outcome]:
        """Measure as Measurer does. Raises RunnerLost (TW0613)."""
        outcomes: dict[int, Outcome] = {}

        def came(number: int, answer: Answer | Failure) -> None:
            outcomes[number] = (
                Outcome(failure=answer)
                if isinstance(answer, Failure)
                else Outcome(failure=Failure("fault", answer.error[:2000]))
                if answer.error
                else answer.value
            )
            if done is not None:
                done(number, outcomes[number])

        self._ask_about(
            [{"question": "measure", "texts": (function,), "best": best} for function in functions], came, meanwhile
        )
        return [outcomes[number] for number in range(len(functions))]

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """Time rivals as Measurer does, all on one machine. Raises RunnerLost (TW0613)."""
        answer = self._ask_about([{"question": "rivals", "texts": tuple(functions), "budget": budget}])[0]
        return None if is_a(answer, Failure) else answer.value


def _client(address: str) -> Any:
    """A client of a scheduler. Raises MissingPackage (TW0611), RunnerLost (TW0613)."""
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise MissingPackage(
            "cannot measure on a fleet",
            reason="the package distributed is not installed",
            called=user_source(),
            fix='pip install "tilewright[fleet]"',
        ) from None
    try:
        return distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (
        OSError,
        ValueError,
        RuntimeError,
        TypeError,
    ) as error:  # TypeError: TLS without certificates in Dask's settings
        raise _fleet_error(f"{address}: {error}") from None


def _fleet_error(reason: str) -> RunnerLost:
    return RunnerLost(
        "cannot measure on the fleet",
        reason=printable(reason[:2000], lines=True),
        called=user_source(),
        fix="check that the scheduler runs, and on each machine a worker of the same tilewright: `dask worker ADDRESS "
        "--nthreads 1`; every trial so far is kept, and running it again goes on",
    )
