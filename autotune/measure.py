"""Measuring candidates in workers: built side by side, then run one at a time with everything else at rest.

Workers find in their pipes what they are to build, one candidate after the other, so that none waits for the tuner, which
chooses the next candidates meanwhile. A worker lives from candidate to candidate. Whatever goes wrong with one (it crashes,
hangs, runs out of memory, computes something else, is killed) becomes a Failure, and the worker is replaced.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..errors import user_source
from ..runtime import num_threads
from ..runtime.folders import new_folder, sweep
from .errors import WorkerFailed
from .inputs import write_inputs
from .task import Task

__all__ = ["Failure", "Limits", "Measurer", "Outcome"]

HOPELESS = 1.5
"""How many times slower than the fastest one a candidate may be to be timed with care."""
_MAX_ANSWER = 1 << 20
_DOING = {"setup": "starting", "reference": "running the unscheduled program", "load": "starting", "build": "building",
          "run": "running", "rivals": "comparing"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate has no time. kind: "refused" (an error of ours), "fault" (an internal one), "crash" (a signal),
    "killed" (SIGKILL, from outside), "exit" (the process ended), "timeout", "memory", "wrong output" or "protocol"."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What measuring gave: times of a call in seconds, or a failure. built: seconds that building took."""

    times: tuple[float, ...] = ()
    failure: Failure | None = None
    built: float = 0.0

    @property
    def seconds(self) -> float | None:
        """The time of a call: the lower quartile, because what else runs on the machine only ever adds to a time."""
        return lower_quartile(self.times) if self.times else None


@dataclass(frozen=True, slots=True)
class Limits:
    """timeout: seconds for building a candidate, and for running it. memory: bytes of address space of a worker.
    budget: seconds spent on timing a candidate that is worth it. workers: candidates that are built at the same time."""

    timeout: float = 10.0
    memory: int = 4 << 30
    budget: float = 0.03
    workers: int = 2


class WorkerEnded(Exception):
    """The worker is gone, or of no more use."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class WorkerProcess:
    """One worker and the pipes to it."""

    def __init__(self, limits: Limits, folder: Path, number: int) -> None:
        requests, self._write = os.pipe()
        self._read, answers = os.pipe()
        os.set_blocking(self._write, False)
        self._log = folder / f"worker-{number}.log"
        command = [sys.executable, "-P", "-m", f"{__package__}.worker", str(requests), str(answers), str(os.getpid()),
                   str(limits.memory)]
        try:
            with self._log.open("wb") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                pass_fds=(requests, answers), start_new_session=True)
        finally:
            os.close(requests)
            os.close(answers)
        self._received = b""
        self._deadline = 0.0
        self._doing = "starting"
        self._said = 0

    def fileno(self) -> int:
        """For selectors: readable when an answer, or the end, has come."""
        return self._read

    def ask(self, timeout: float, **request: Any) -> None:
        """Sends a request. Raises WorkerEnded."""
        self._deadline, self._doing = time.monotonic() + timeout, _DOING[request["do"]]
        self._said = self._log.stat().st_size
        data = memoryview(json.dumps(request).encode() + b"\n")
        with selectors.DefaultSelector() as selector:
            selector.register(self._write, selectors.EVENT_WRITE)
            while data:
                if not selector.select(self.left):
                    raise WorkerEnded(Failure("timeout", f"{self._doing}: it does not read what it is asked"))
                try:
                    data = data[os.write(self._write, data):]
                except BrokenPipeError:
                    raise WorkerEnded(self._ended()) from None

    @property
    def left(self) -> float:
        """Seconds until its answer is overdue."""
        return max(0.0, self._deadline - time.monotonic())

    def expect(self, timeout: float) -> None:
        """The next answer is overdue so many seconds from now: of what waited for its turn."""
        self._deadline = time.monotonic() + timeout

    def answer(self, more: bool = False) -> dict[str, Any]:
        """Waits for the answer. more: whether others may follow at once. Raises WorkerEnded: also where it is overdue, or no
        answer at all."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(self.left):
                    raise WorkerEnded(Failure("timeout", f"{self._doing} takes longer than it may"))
                data = os.read(self._read, 1 << 16)
                self._received += data
                if not data:
                    raise WorkerEnded(self._ended())
                if len(self._received) > _MAX_ANSWER:
                    raise WorkerEnded(Failure("protocol", "the answer does not end"))
        line, _, self._received = self._received.partition(b"\n")
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict) or self._received and not more:
                raise ValueError
        except ValueError:
            raise WorkerEnded(Failure("protocol", f"no answer but {line[:80]!r}")) from None
        return cast("dict[str, Any]", answer)

    def _ended(self) -> Failure:
        """How it ended. The pipe is closed, so it has ended or is about to."""
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return Failure("protocol", f"it closed its pipe while {self._doing}")
        said = self.last_words()
        if status >= 0:
            return Failure("exit", f"the process ended with status {status} while {self._doing}{said}")
        name = next((known.name for known in signal.Signals if known == -status), f"signal {-status}")
        kind = "killed" if -status == signal.SIGKILL else "crash"
        return Failure(kind, f"the process was ended by {name} while {self._doing}{said}")

    def last_words(self) -> str:
        """The last line that it printed since it was asked."""
        with suppress(OSError):
            with self._log.open("rb") as log:
                log.seek(max(self._said, log.seek(0, os.SEEK_END) - 2000))
                lines = log.read().decode(errors="replace").strip().splitlines()
            return f": {lines[-1][:300]}" if lines else ""
        return ""

    def stop(self) -> None:
        """Ends it, and whatever it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)   # not waited for yet, so the number is still its own
        self.process.wait()
        os.close(self._read)
        os.close(self._write)


class Measurer:
    """The workers of one task, with its arrays and reference outputs in a folder of their own.

    inputs: the arrays to measure on, for the tensors that are no outputs, in order; drawn where not given.
    Raises WorkerFailed (TW0609), WrongInputs (TW0610).
    """

    def __init__(self, task: Task, limits: Limits | None = None, inputs: Sequence[Any] | None = None, seed: int = 0) -> None:
        self.task, self.limits = task, limits or Limits()
        self.outputs = [at for at, tensor in enumerate(task.args) if tensor in task.outputs]
        self.shapes = [([int(extent) for extent in tensor.shape], str(tensor.dtype)) for tensor in task.args]
        constants = task.unscheduled.constants
        self.shapes += [(list(held.data.shape), str(held.data.dtype)) for held in constants]
        self.constants = len(constants)
        sweep("tune")
        self.folder = new_folder("tune")
        self.started = self.asked = 0
        self.held: list[set[int]] = [set() for _ in range(self.limits.workers)]
        """By worker, the numbers of the kernels that it has built and not run yet."""
        self.workers: list[WorkerProcess] = []
        self.baseline = 0.0
        try:
            write_inputs(task, self.outputs, self.folder, inputs, seed)
            for at, held in enumerate(constants, len(task.args)):
                held.data.tofile(self.folder / str(at))
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Measurer:
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
            first = self.workers[0]
            for worker in self.workers:
                _succeed(worker)
            first.ask(max(600.0, 60 * self.limits.timeout), do="reference", function=self._written(str(self.task.unscheduled)))
            self.baseline = _succeed(first)["seconds"]
            for worker in self.workers:
                worker.ask(60.0, do="load")
                _succeed(worker)
        except WorkerEnded as ended:
            raise WorkerFailed(
                f"cannot measure {self.task.name}: the unscheduled program does not run", reason=ended.failure.message,
                called=user_source(), fix="see that tw.build(args) runs on arrays of these shapes; `memory` and `timeout` "
                                          "are the limits of the processes that measure") from None

    def _new_worker(self) -> WorkerProcess:
        self.started += 1
        worker = WorkerProcess(self.limits, self.folder, self.started)
        worker.ask(60.0, do="setup", args=self.shapes, outputs=self.outputs, constants=self.constants, threads=num_threads(),
                   target=str(self.task.target), folder=str(self.folder))
        return worker

    def _replace(self, at: int) -> None:
        """A fresh worker in place of one that failed."""
        self.workers[at].stop()
        self.held[at].clear()
        try:
            self.workers[at] = self._new_worker()
            _succeed(self.workers[at])
            self.workers[at].ask(60.0, do="load")
            _succeed(self.workers[at])
        except WorkerEnded as ended:
            raise WorkerFailed("a process that measures does not start again", reason=ended.failure.message,
                               called=user_source(), fix="see that memory and process limits leave room for it") from None

    # Candidates

    def measure(
        self, functions: Sequence[str], best: float | None = None, meanwhile: Callable[[], None] | None = None,
    ) -> list[Outcome]:
        """Times of candidates, each the text of its loops. best: seconds of the fastest so far: one that is far slower is
        timed less carefully. meanwhile: called while they are built. Raises WorkerFailed (TW0609) where a process that measures
        does not start again."""
        outcomes: dict[int, Outcome] = {}
        paths = [self._written(function) for function in functions]
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
        for path in paths:
            Path(path).unlink()
        for held in self.held:
            held.clear()
        return [outcomes[number] for number in range(len(paths))]

    def _written(self, function: str) -> str:
        """A file with the text of a function, so that requests are short and several fit into a pipe."""
        self.asked += 1
        path = self.folder / f"{self.asked}.ir"
        path.write_text(function, encoding="utf-8")
        return str(path)

    def _queue(self, at: int, share: Sequence[int], paths: Sequence[str], outcomes: dict[int, Outcome]) -> None:
        """Asks a worker to build its share, one after the other."""
        for place, number in enumerate(share):
            if self._try(at, number, outcomes, self.limits.timeout, do="build", id=number, function=paths[number]):
                continue
            self._queue(at, share[:place], paths, outcomes)  # the worker is a new one
            self._queue(at, share[place + 1:], paths, outcomes)
            return

    def _collect(
        self, at: int, share: Sequence[int], paths: Sequence[str], outcomes: dict[int, Outcome], seconds: list[float],
    ) -> None:
        """Waits until a worker has built its share, and notes how long each took."""
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
                self._queue(at, share[place + 1:], paths, outcomes)

    def _run(self, at: int, number: int, paths: Sequence[str], built: float, best: float | None) -> Outcome:
        """Has a worker run what it built; once more built where a worker ended meanwhile."""
        outcomes: dict[int, Outcome] = {}
        if number not in self.held[at]:
            self._queue(at, [number], paths, outcomes)
            self._collect(at, [number], paths, outcomes, [0.0] * len(paths))
        if number not in outcomes:
            self._try(at, number, outcomes, self.limits.timeout, do="run", id=number, budget=self.limits.budget,
                      cutoff=None if best is None else HOPELESS * best)
        answer = self._answer(at, number, outcomes) if number not in outcomes else {}
        self.held[at].discard(number)
        return Outcome(tuple(answer["times"]), None, built) if "times" in answer else outcomes[number]

    def _try(self, at: int, number: int, outcomes: dict[int, Outcome], timeout: float, **request: Any) -> bool:
        """Asks a worker something about a candidate; whether it could be asked."""
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
        if answer["failure"] == "wrong output":   # it may have written where it should not
            self._replace(at)
        return {}

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """The seconds of several candidates that were measured before, run in turn so that a drift of the machine's speed meets all
        of them; None where one now fails. Raises WorkerFailed (TW0609)."""
        outcomes: dict[int, Outcome] = {}
        paths = [self._written(function) for function in functions]
        numbers = list(range(len(paths)))
        self._queue(0, numbers, paths, outcomes)
        self._collect(0, numbers, paths, outcomes, [0.0] * len(paths))
        self.held[0].clear()
        if outcomes:
            return None
        self._try(0, 0, outcomes, self.limits.timeout + 10 * budget, do="rivals", ids=numbers, budget=budget)
        answer = self._answer(0, 0, outcomes) if not outcomes else {}
        return answer.get("times")


def lower_quartile(times: Sequence[float]) -> float:
    """The time that a quarter of the times is below."""
    return sorted(times)[len(times) // 4]


def _succeed(worker: WorkerProcess) -> dict[str, Any]:
    """The answer of a worker that has to succeed. Raises WorkerEnded."""
    answer = worker.answer()
    if "failure" in answer:
        raise WorkerEnded(Failure(answer["failure"], answer["message"]))
    return answer
