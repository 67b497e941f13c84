"""Measuring on a board: candidates are compiled by workers here, and run there one after the other.

A connection that is lost says nothing of the candidate that was being measured: it is made again, and the candidate measured again
there. One with which the connection is lost each time has failed ("lost"); a board that cannot be reached any more ends the tuning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..base.arguments import to_list
from ..ir.stmt import Function
from ..runtime.array import numpy_dtype
from ..schedule import Schedule
from .board import Board, read_failure
from .comparison import Load
from .json_lines import is_time
from .measure import Measurer, require_success
from .outcome import HOPELESS, Failure, Limits, Outcome
from .process import WorkerEnded, WorkerProcess
from .search import loops_text
from .task import Task
from .workload import Workload

__all__ = ["BoardMeasurer", "BoardPlace"]

_TRIES = 3
"""How often a candidate is measured with which the connection is lost."""
_LOSSES = ("connection", "timeout", "protocol")
"""Failures of a connection that is made again."""
_Answer = TypeVar("_Answer")


class BoardPlace(Board):
    """A board as a place to measure on."""

    def load(self) -> Load:
        """Nobody tells."""
        return Load()

    def text(self, task: Task) -> Callable[[Schedule, Function], str]:
        """The loops."""
        del task
        return loops_text

    def measurer(self, task: Task, limits: Limits | None, inputs: Sequence[Any] | None) -> BoardMeasurer:
        """Return what measures the candidates of a task there."""
        return BoardMeasurer(self, Workload.of(task, inputs), limits)


class BoardMeasurer(Measurer):
    """The workers of one task, which compile, and the board, which runs. Raises WorkerFailed (TW0609), RunnerLost (TW0613)."""

    MAKES: ClassVar[str] = "library"

    def __init__(self, board: Board, workload: Workload, limits: Limits | None = None) -> None:
        self.board = board
        self._unscheduled = b""
        super().__init__(workload, limits)

    def _reference(self, worker: WorkerProcess, timeout: float) -> float:
        path = self._write_candidate(self.workload.unscheduled)
        worker.ask(timeout, do="library", function=path)
        require_success(worker)
        self._unscheduled = _library(path)
        return self._read_answer(lambda: self._prepare_board(timeout))

    def _load(self, worker: WorkerProcess) -> None:
        """It only compiles."""

    def _prepare_board(self, timeout: float) -> float:
        """Sends the arrays, and has the unscheduled program run: the seconds that a call takes. Raises WorkerEnded."""
        board, told = self.board, list[str]()
        for at, (shape, dtype) in enumerate(self.workload.args):
            kind = numpy_dtype(dtype)
            size = kind.itemsize
            for extent in shape:
                size *= extent
            letter = "e" if kind.kind in "biu" else "b" if dtype == "bfloat16" else "f"
            told.append(f"{letter}{kind.itemsize} {size} {int(at in self.workload.outputs)}")
            if at not in self.workload.outputs:
                board.put(str(at), (self.folder / str(at)).read_bytes())
        _require(board.ask(f"args {len(told)} {' '.join(told)}", board.address.patience, "starting"))
        board.put("a.so", self._unscheduled)
        answer = board.ask(
            self._request("reference", "a.so", timeout),
            timeout + board.address.patience,
            "running the unscheduled program",
        )
        if not is_time(answer.get("seconds")):
            _require(answer)
            raise WorkerEnded(Failure("protocol", f"no answer but {str(answer)[:80]!r}"))
        return float(answer["seconds"])

    def _request(self, what: str, libraries: str, timeout: float, budget: float = 0.0, cutoff: float = 0.0) -> str:
        return (
            f"{what} {libraries} {int(timeout * 1e3)} {self.limits.memory} {self.board.threads} {int(budget * 1e9)} "
            f"{int(cutoff * 1e9)}"
        )

    def _read_answer(self, attempt: Callable[[], _Answer]) -> _Answer:
        """Return what an attempt gives, made again where the connection is lost meanwhile. Raises WorkerEnded where it is lost each time,
        or where something else is wrong; RunnerLost (TW0613) where the board cannot be reached any more."""
        for number in range(_TRIES):
            try:
                return attempt()
            except WorkerEnded as ended:
                if ended.failure.kind not in _LOSSES:
                    raise
                self.losses[ended.failure.kind] += 1
                self._connect()
                if number == _TRIES - 1:
                    raise
        raise AssertionError("the last attempt is returned or raised")

    def _connect(self) -> None:
        """A fresh connection, with everything there that was before. Raises RunnerLost (TW0613)."""
        failure = Failure("connection", "")
        for _ in range(_TRIES):
            self.board.connect()
            try:
                if self.baseline:
                    self._prepare_board(max(600.0, 60 * self.limits.timeout))
            except WorkerEnded as ended:
                failure = ended.failure
            else:
                return
        raise self.board.loss_error(failure)

    def _ran(
        self, what: str, libraries: Sequence[bytes], timeout: float, budget: float, cutoff: float = 0.0
    ) -> dict[str, Any]:
        """The board's answer about some libraries; a failure where the connection is lost each time. Raises RunnerLost (TW0613)."""
        names = [f"{number}.so" for number in range(len(libraries))]

        def asked() -> dict[str, Any]:
            for name, library in zip(names, libraries, strict=True):
                self.board.put(name, library)
            return self.board.ask(
                self._request(what, ",".join(names), timeout, budget, cutoff),
                timeout + self.board.address.patience,
                "running",
            )

        try:
            return self._read_answer(asked)
        except WorkerEnded as ended:
            failure = ended.failure
            lost = Failure("lost", f"{failure.message}, {_TRIES} times") if failure.kind in _LOSSES else failure
            return {"failure": lost.kind, "message": lost.message}

    def _run(self, at: int, number: int, paths: Sequence[str], built: float, best: float | None) -> Outcome:
        outcomes = self._made_again(at, number, paths)
        if number in outcomes:
            return outcomes[number]
        self.held[at].discard(number)
        answer = self._ran(
            "run",
            [_library(paths[number])],
            self.limits.timeout,
            self.limits.budget,
            HOPELESS * best if best is not None else 0.0,
        )
        times = _times(answer.get("times"))
        return Outcome(times, None, built) if times is not None else Outcome(failure=read_failure(answer))

    def rivals(self, functions: Sequence[str], budget: float = 1.0) -> list[list[float]] | None:
        """Time rivals as Measurer does. Raises RunnerLost (TW0613)."""
        paths, outcomes = self._all_made(functions)
        self.held[0].clear()
        if outcomes:
            return None
        answer = self._ran("rivals", [_library(path) for path in paths], self.limits.timeout + 10 * budget, budget)
        found = [list(each) for each in map(_times, to_list(answer.get("times"))) if each is not None]
        return found if len(found) == len(paths) else None


def _library(path: str) -> bytes:
    """Return what a worker has made of the candidate in a file; it goes."""
    place = Path(path).with_suffix(".so")
    library = place.read_bytes()
    place.unlink()
    return library


def _require(answer: dict[str, Any]) -> None:
    """Raise WorkerEnded for an answer that tells of a failure."""
    if "failure" in answer:
        raise WorkerEnded(read_failure(answer))


def _times(answer: object) -> tuple[float, ...] | None:
    """Times in seconds, as a board tells them; None for anything else."""
    times = to_list(answer)
    return tuple(map(float, times)) if 0 < len(times) <= 101 and all(map(is_time, times)) else None
