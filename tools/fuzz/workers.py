"""Run drawn cases in worker processes, so that a crash or an endless loop is one failed case and not the end of pytest.

A worker reads case numbers from its standard input and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["run_all", "run_cases", "serve", "worker_command"]

RENEW = 400
"""Cases after which a worker is replaced: every kernel leaves code behind."""


def serve(run_case: Callable[[int], dict[str, Any]]) -> None:
    """The worker's loop. Whatever the cases print goes to standard error, and is a failure: a compiler is silent."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        before = os.fstat(2).st_size
        report = run_case(int(line))
        printed = _since(before)
        if printed and not report["failure"]:
            report["failure"] = f"case {report['case']}: it printed {printed[:500]!r}"
        answers.write(json.dumps(report) + "\n")
        answers.flush()


def _since(place: int) -> str:
    """Return the part of standard error, a file, from a place on; but for what LLVM says of a loop that it rewrote itself until it
    could no longer turn it into vectors, which nothing can keep it from."""
    text = os.pread(2, os.fstat(2).st_size - place, place).decode(errors="replace")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_REMARK))


_REMARK = "remark: <unknown>:0:0: loop not vectorized: "


class _Worker:
    """One process, and the case that it is at."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            start_new_session=True,
        )
        self.case = -1
        self.done = 0
        self.began = self.began_busy = 0.0

    def give(self, case: int) -> None:
        assert self.process.stdin is not None
        self.case, self.began, self.began_busy = case, time.monotonic(), self.busy()
        self.process.stdin.write(f"{case}\n".encode())
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the worker's answer; a crash where it has died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.done += 1
        if line:
            return json.loads(line)
        status = self.process.wait()
        return self.report_failure(f"the process died of {f'signal {-status}' if status < 0 else f'status {status}'}")

    def report_failure(self, what: str) -> dict[str, Any]:
        self.errors.seek(0)
        tail = self.errors.read()[-3000:].decode(errors="replace")
        return {
            "case": self.case,
            "name": "?",
            "failure": f"{what}\n{tail}",
            "refused": {},
            "tried": {},
            "lowering": "",
            "seconds": time.monotonic() - self.began,
            "died": True,
        }

    def busy(self) -> float:
        """The processor seconds that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def late(self, seconds: float) -> bool:
        """Return whether its case takes too long: by its own work, or, where it sleeps, by the clock."""
        allowed = seconds * (3 if self.done == 0 else 1)  # the first case also imports everything
        return self.busy() - self.began_busy > allowed or time.monotonic() - self.began > 10 * allowed

    def end(self) -> None:
        end_session(self.process)
        self.errors.close()


def end_session(process: subprocess.Popen[Any]) -> None:
    """Ends a process that leads a session, and what it has started: a compiler that finds no end would go on."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def worker_command(seed: int, target: str) -> list[str]:
    """The command of a worker that runs cases of `seed`."""
    return [sys.executable, "-X", "faulthandler", "-m", "tilewright.tools.fuzz.worker", str(seed), target]


def run_cases(seed: int, target: str, cases: Iterable[int], workers: int = 2) -> Iterator[dict[str, Any]]:
    """The reports of all cases; a failure brings a program that repeats it, also where its worker died."""
    command = worker_command(seed, target)
    for report in run_all(command, cases, workers):
        if report.get("died"):
            again = subprocess.Popen(
                [*command, str(report["case"])],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            with suppress(subprocess.TimeoutExpired):  # the report has the seed and the number all the same
                report["python"] = again.communicate(timeout=240)[0]
            end_session(again)
        yield report


def run_all(
    command: list[str], cases: Iterable[int], workers: int = 2, seconds: float = 60.0
) -> Iterator[dict[str, Any]]:
    """The reports of all cases, as they come in, from workers that `command` starts. A case that takes more than `seconds`
    of a processor has failed."""
    environment = {**os.environ, "TILEWRIGHT_VERIFY": "1", "OMP_WAIT_POLICY": "passive"}
    waiting = iter(cases)
    running: dict[int, _Worker] = {}
    selector = selectors.DefaultSelector()

    def start(worker: _Worker | None) -> None:
        """Give a worker its next case: the old one, or a new one in its place."""
        case = next(waiting, None)
        if worker is not None and (case is None or worker.done >= RENEW):
            retire(worker)
            worker = None
        if case is None:
            return
        if worker is None:
            worker = _Worker(command, environment)
            running[worker.process.pid] = worker
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # pyright: ignore[reportArgumentType]
        worker.give(case)

    def retire(worker: _Worker) -> None:
        selector.unregister(worker.process.stdout)  # pyright: ignore[reportArgumentType]
        running.pop(worker.process.pid)
        worker.end()

    try:
        for _ in range(workers):
            start(None)
        while running:
            for key, _ in selector.select(timeout=1.0):
                worker: _Worker = key.data
                report = worker.answer()
                yield report
                if report.get("died"):
                    retire(worker)
                    start(None)
                else:
                    start(worker)
            for worker in list(running.values()):
                if worker.late(seconds):
                    yield worker.report_failure(f"no end after {seconds:.0f} s")
                    retire(worker)
                    start(None)
    finally:
        for worker in list(running.values()):
            worker.end()
