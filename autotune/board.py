"""Measuring on another machine by the system's ssh: libraries go there, times come back.

Nothing listens there, and nothing is installed: a small program (codegen/export/runner.c) is copied into a folder of its own and
run by ssh; it takes libraries from its standard input, runs each in a process of its own, and ends, with its folder, when the
connection does. Candidates are compiled here. What it answers is data, and is read with bounds.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from ..base import dataclass, user_source
from ..base.arguments import is_a
from ..base.untrusted_input import printable
from ..codegen.export.timing_library import runner
from ..codegen.target import Target
from ..runtime.folders import new_folder
from .errors import BadTuningOption, RunnerLost
from .outcome import Failure
from .process import Process, WorkerEnded

__all__ = ["Address", "Board", "read_failure"]

ATTEMPTS = 4
"""How often in a row a connection is tried before the board counts as lost."""
# ssh's own syntax of hosts; nothing that begins with a dash, which ssh would take as an option
_HOST = re.compile(r"(?:[\w.][\w.+-]*@)?[\w.\[:][\w.:\]-]*")
_FOLDER = re.compile(r"/[\w./+-]*")  # no characters that a shell would read
_BYTES_A_SECOND = 1e5
"""What a slow connection carries at least."""


@dataclass(frozen=True)
class Address:
    """ssh://user@host:port/folder?threads=4&patience=10

    folder: where the board has room for files; its own choice where there is none. threads: that kernels use, 0 for one for each
    CPU. patience: seconds that the board may be silent beyond what it was asked to do.
    """

    host: str
    port: int | None = None
    folder: str = ""
    threads: int = 0
    patience: float = 10.0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raise BadTuningOption (TW0604)."""
        try:
            parts = urlsplit(text)  # a URL, so that options can follow the host
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
            host, folder, port = (
                unquote(parts.netloc).removesuffix(f":{parts.port}"),
                unquote(parts.path).rstrip("/"),
                parts.port,
            )
            address = cls(host, port, folder, int(options.pop("threads", "0")), float(options.pop("patience", "10")))
            # unknown options are likely misspelt ones
            if options or not _HOST.fullmatch(host) or folder and not _FOLDER.fullmatch(folder):
                raise ValueError
            if not 0 <= address.threads <= 4096 or not 0 < address.patience < 1e6:
                raise ValueError
        except ValueError:
            raise BadTuningOption(
                f"{text!r} is not an address of a board",
                called=user_source(),
                allowed="ssh://user@host:port/folder?threads=4&patience=10; all but the host may be left out",
                fix='runner="ssh://board"',
            ) from None
        return address

    def command(self, remote: str) -> list[str]:
        """Return what runs a command there: no terminal, and nobody is asked for a password."""
        program = shutil.which("ssh")
        if program is None:
            raise WorkerEnded(Failure("connection", "there is no program ssh on the PATH"))
        wait = max(1, math.ceil(self.patience))
        return [
            program,
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            f"ConnectTimeout={wait}",
            "-o",
            "ServerAliveInterval=5",
            *(["-p", str(self.port)] if self.port is not None else []),
            self.host,
            remote,
        ]


class Connection(Process):
    """One ssh, and the command that it runs."""

    def __init__(self, address: Address, remote: str, log: Path) -> None:
        command = address.command(remote)
        requests, write = os.pipe()
        read, answers = os.pipe()
        try:
            with log.open("wb") as file:
                # a session of its own: an interrupt at the terminal does not reach ssh
                process = subprocess.Popen(command, stdin=requests, stdout=answers, stderr=file, start_new_session=True)
        except OSError as error:
            os.close(write)
            os.close(read)
            raise WorkerEnded(Failure("connection", f"ssh does not start: {error}")) from None
        finally:
            os.close(requests)
            os.close(answers)
        # our ends alone stay open, so that the child's end shows as end of file
        super().__init__(process, write, read, log)

    def end_failure(self) -> Failure:
        """Return how it ended: that says something of the connection, and nothing of the candidate."""
        try:
            status = f"ssh's status is {self.process.wait(5)}"
        except subprocess.TimeoutExpired:
            status = "ssh runs on"
        return Failure("connection", f"the connection ended while {self.doing} ({status}){self.last_words()}")


class Board:
    """A machine that ssh reaches, while it is used. Raises BadTuningOption (TW0604), RunnerLost (TW0613), and NoLinker (TW0706) or
    LinkFailed (TW0707) where the program that runs there cannot be compiled for it."""

    def __init__(self, text: str, target: Target) -> None:
        self.address = Address.parse(text)
        self.program = runner(target)
        self.folder = new_folder("board")
        self.connection: Connection | None = None
        self.place = ""
        self._number = 0
        self._known: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()  # a failed start must not leave a folder
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and with it what is left there."""
        if self.connection is not None:
            self.connection.stop(2.0)
        self.connection = None
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def machine(self) -> str:
        """Its processor as it calls it, and the threads that kernels use."""
        return f"{self._known['machine']}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def threads(self) -> int:
        """Return the number of threads that kernels use there."""
        return self.address.threads or self._known["cpus"]

    # The connection

    def connect(self) -> None:
        """A fresh connection in place of what there was. Raises RunnerLost (TW0613) where several attempts fail."""
        failure = Failure("connection", "")
        for attempt in range(ATTEMPTS):
            try:
                # 0.4 s, 1.6 s, 6.4 s: a board that restarts needs some time
                self._connect(0.1 * 4**attempt if attempt else 0.0)
            except WorkerEnded as ended:
                failure = ended.failure
            else:
                return
        raise self.loss_error(failure)

    def loss_error(self, failure: Failure) -> RunnerLost:
        """Return the error for a board that cannot be reached any more."""
        return RunnerLost(
            f"cannot measure on {self.address.host}: {failure.kind}",
            reason=printable(failure.message),
            called=user_source(),
            fix=f"check that `ssh -o BatchMode=yes {self.address.host} true` works; every trial so far is kept, and running it again "
            "goes on",
        )

    def _connect(self, wait: float) -> None:
        if self.connection is not None:
            self.connection.stop()
            self.connection = None
        time.sleep(wait)  # a board that starts again is not asked too often
        base, old = self.address.folder or '"${TMPDIR:-/tmp}"', self.place
        tidy = f"rm -rf {shlex.quote(old)}; " if old else ""  # what a lost connection has left there
        with self._open_connection(
            f'{tidy}d=$(mktemp -d {base}/tilewright-XXXXXXXX) && cat > "$d/runner" && chmod 700 "$d/runner" && '
            'printf \'{"folder": "%s"}\\n\' "$d"'
        ) as upload:
            upload.send(self._time(self.program), "copying the runner there", self.program)
            upload.no_more()
            place = _value(upload.answer(), "folder")
        # the answer is used in a shell's command, and so must hold no other characters
        if not is_a(place, str) or not _FOLDER.fullmatch(place):
            raise WorkerEnded(Failure("protocol", f"it did not create a folder, but answered {str(place)[:80]!r}"))
        self.place = place
        quoted = shlex.quote(place)
        # the folder goes with the runner, however that ends
        self.connection = self._open_connection(f"{quoted}/runner {quoted}; rm -rf {quoted}")
        told = self.ask("machine", self.address.patience, "starting")
        machine, cpus = _value(told, "machine"), _value(told, "cpus")
        if (
            not is_a(machine, str)
            or not machine.strip()
            or len(machine) > 256  # bounds on all that the board says
            or not is_a(cpus, int)
            or not 0 < cpus < 1 << 16
        ):
            raise WorkerEnded(Failure("protocol", f"it did not describe itself, but answered {str(told)[:80]!r}"))
        self._known = {"machine": printable(machine.strip()), "cpus": cpus}

    def _open_connection(self, remote: str) -> Connection:
        self._number += 1
        return Connection(self.address, remote, self.folder / f"ssh-{self._number}.log")

    def _time(self, data: bytes) -> float:
        return self.address.patience + len(data) / _BYTES_A_SECOND  # larger files may take longer

    def ask(self, request: str, timeout: float, doing: str) -> dict[str, Any]:
        """The answer to a request. Raises WorkerEnded where the connection gives none, in time and as it should be."""
        if self.connection is None:
            raise WorkerEnded(Failure("connection", "there is none"))
        self.connection.send(timeout, doing, request.encode() + b"\n")
        return self.connection.answer()

    def put(self, name: str, data: bytes) -> None:
        """A file of that name in the board's folder. Raises WorkerEnded."""
        if self.connection is None:
            raise WorkerEnded(Failure("connection", "there is none"))
        self.connection.send(self._time(data), "copying", f"file {name} {len(data)}\n".encode() + data)
        answer = self.connection.answer()
        if answer:  # success is an empty answer
            raise WorkerEnded(read_failure(answer))


_KINDS = ("refused", "crash", "killed", "exit", "timeout", "memory", "wrong output", "protocol", "lost")


def _value(answer: dict[str, Any], name: str) -> Any:
    """C value of whatever type."""
    return answer.get(name)


def read_failure(answer: dict[str, Any]) -> Failure:
    """The failure that a board tells of: one of those that there are."""
    kind, message = _value(answer, "failure"), _value(answer, "message")
    if kind not in _KINDS or not is_a(message, str):
        return Failure("protocol", f"no answer but {str(answer)[:80]!r}")
    # printable: a board may send control characters
    return Failure("memory" if kind == "refused" and "memory" in message.lower() else kind, printable(message[:2000]))
