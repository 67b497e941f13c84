"""Processes that answer: a request goes out as bytes, a line of JSON comes back, in time or not."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast

from ..base.untrusted_input import plain_json
from ..runtime.hosts import host
from .outcome import Failure, Limits

__all__ = ["Process", "WorkerEnded", "WorkerProcess"]

_MAX_ANSWER = 1 << 20
_DOING = {
    "setup": "starting",
    "reference": "running the unscheduled program",
    "load": "starting",
    "build": "building",
    "library": "building",
    "probe": "looking at a candidate",
    "run": "running",
    "rivals": "comparing",
}


class WorkerEnded(Exception):
    """The worker is gone, or of no more use."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Process:
    """A process that is asked by a pipe and answers by another; what else it prints is in a log."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int, log: Path) -> None:
        self.process, self._write, self._read, self._log = process, write, read, log
        os.set_blocking(write, False)  # a full pipe must not block the tuner
        self._received = b""
        self._deadline = 0.0
        self.doing = "starting"
        self._said = 0
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.stop()

    def fileno(self) -> int:
        """Return the descriptor for selectors: readable when an answer, or the end, has come."""
        return self._read

    def send(self, timeout: float, doing: str, request: bytes) -> None:
        """Sends a request, of which the answer is overdue after `timeout` seconds. Raises WorkerEnded."""
        self._deadline, self.doing = time.monotonic() + timeout, doing
        self._said = self._log.stat().st_size  # what the log says later belongs to this request
        data = memoryview(request)
        with selectors.DefaultSelector() as selector:
            selector.register(self._write, selectors.EVENT_WRITE)
            while data:
                if not selector.select(self.left):  # the time left shrinks with each part
                    raise WorkerEnded(Failure("timeout", f"{self.doing}: it does not read its input"))
                try:
                    data = data[os.write(self._write, data) :]  # a pipe takes what it has room for
                except BrokenPipeError:
                    raise WorkerEnded(self.end_failure()) from None

    @property
    def left(self) -> float:
        """Seconds until its answer is overdue."""
        return max(0.0, self._deadline - time.monotonic())

    def expect(self, timeout: float) -> None:
        """The next answer is overdue so many seconds from now: of what waited for its turn."""
        self._deadline = time.monotonic() + timeout

    def answer(self, more: bool = False) -> dict[str, Any]:
        """Wait for the answer. more: whether others may follow at once. Raises WorkerEnded: also where it is overdue, or no
        answer at all."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(self.left):
                    raise WorkerEnded(Failure("timeout", f"{self.doing} has timed out"))
                data = os.read(self._read, 1 << 16)
                self._received += data
                if not data:  # the end of the pipe: the process is gone
                    raise WorkerEnded(self.end_failure())
                if len(self._received) > _MAX_ANSWER:  # an answer without end would fill the memory
                    raise WorkerEnded(Failure("protocol", "the answer is not terminated"))
        line, _, self._received = self._received.partition(b"\n")
        try:
            answer = plain_json(line, _MAX_ANSWER)
            # one answer to one request, unless more are announced
            if not isinstance(answer, dict) or self._received and not more:
                raise ValueError
        except ValueError:
            raise WorkerEnded(Failure("protocol", f"no answer but {line[:80]!r}")) from None
        return cast("dict[str, Any]", answer)

    def end_failure(self) -> Failure:
        """Return how it ended. The pipe is closed, so it has ended or is about to."""
        try:
            status = self.process.wait(5)  # a moment, as the pipe closes before the process ends
        except subprocess.TimeoutExpired:
            return Failure("protocol", f"it closed its pipe while {self.doing}")
        said = self.last_words()
        if status >= 0:
            return Failure("exit", f"the process ended with status {status} while {self.doing}{said}")
        # the signal's name where the system has one
        name = next((known.name for known in signal.Signals if known == -status), f"signal {-status}")
        kind = "killed" if host().is_killed(status) else "crash"
        return Failure(kind, f"the process was ended by {name} while {self.doing}{said}")

    def last_words(self) -> str:
        """The last line that it printed since it was asked."""
        with suppress(OSError):
            with self._log.open("rb") as log:
                # the last two thousand bytes are enough for a line
                log.seek(max(self._said, log.seek(0, os.SEEK_END) - 2000))
                lines = log.read().decode(errors="replace").strip().splitlines()
            return f": {lines[-1][:300]}" if lines else ""
        return ""

    def no_more(self) -> None:
        """Nothing more is asked of it."""
        if self._is_open:
            self._is_open = False
            os.close(self._write)

    def stop(self, patience: float = 0.0) -> None:
        """Ends it, and whatever it has started. patience: seconds in which it may end by itself, since nothing more is asked."""
        self.no_more()
        if patience:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            host().end_process(self.process)
        self.process.wait()
        os.close(self._read)  # after the process, which might still write


class WorkerProcess(Process):
    """A worker of this machine (see worker)."""

    def __init__(self, limits: Limits, folder: Path, number: int) -> None:
        requests, write = os.pipe()
        read, answers = os.pipe()
        log = folder / f"worker-{number}.log"
        command = [
            sys.executable,
            "-P",  # -P: the current folder is not on the module path
            "-m",
            f"{__package__}.worker",
            str(requests),
            str(answers),
            str(os.getpid()),
            str(limits.memory),
        ]
        try:
            with log.open("wb") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=(requests, answers),
                    start_new_session=True,
                )
        finally:
            os.close(requests)
            os.close(answers)
        super().__init__(process, write, read, log)

    def ask(self, timeout: float, **request: Any) -> None:
        """Sends a request. Raises WorkerEnded."""
        self.send(timeout, _DOING[request["do"]], json.dumps(request).encode() + b"\n")
