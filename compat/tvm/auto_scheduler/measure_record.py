"""tvm.auto_scheduler.measure_record: logs of trials, a line of JSON each, as `tilewright db export` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from ....autotune.errors import BadRecordLine, NoRecord
from ....autotune.json_lines import Line, write_line
from ....autotune.records import Database
from ....autotune.task import Key
from ....autotune.trial import Trial
from ....base.arguments import is_a
from ....base.errors import user_source, warn_user
from ....base.untrusted_input import plain_json

__all__ = ["RecordToFile", "Recording", "logged", "read_log"]


class RecordToFile:
    """Appends each trial to a log."""

    def __init__(self, filename: str | PathLike[str]) -> None:
        self.filename = Path(filename)

    def write(self, line: str) -> None:
        """Appends one line."""
        self.filename.parent.mkdir(parents=True, exist_ok=True)
        with self.filename.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class EarlyStop(Exception):
    """Enough trials without a better one."""


class Recording(Database):
    """The trials of one tuning in memory, each handed on as a line when it has come, and again when it is confirmed.

    early_stopping: ends the tuning by EarlyStop after so many trials without a better one.
    """

    def __init__(self, write: Callable[[str], None], early_stopping: int | None = None) -> None:
        super().__init__(":memory:")
        self._write, self._patience = write, early_stopping
        self._baseline: float | None = None
        self._of: dict[str, tuple[Key, str, Trial]] = {}
        self._best, self._since = float("inf"), 0

    def set_baseline(self, key: Key, name: str, seconds: float) -> None:
        """Notes how long the unscheduled program takes."""
        super().set_baseline(key, name, seconds)
        self._baseline = seconds

    def add(self, key: Key, name: str, trial: Trial) -> None:
        """Appends a trial."""
        super().add(key, name, trial)
        self._of[trial.uid] = (key, name, trial)
        self._write(write_line(Line(key, name, self._baseline, trial)))
        self._since = 0 if trial.seconds is not None and trial.seconds < self._best else self._since + 1
        self._best = min(self._best, trial.seconds or float("inf"))
        if self._patience is not None and self._since >= self._patience:
            raise EarlyStop(f"{self._since} trials without a better one")

    def confirm(self, key: Key, seconds: Mapping[str, float]) -> None:
        """Notes the times that trials took when they were measured again."""
        super().confirm(key, seconds)
        for uid, measured in seconds.items():
            if uid in self._of:
                _, name, trial = self._of[uid]
                plain = json.loads(write_line(Line(key, name, self._baseline, trial)))
                self._write(json.dumps(plain | {"confirmed": measured}))


def logged(filename: str | PathLike[str]) -> list[tuple[int, str]]:
    """The lines of a log with their numbers; of a trial that was confirmed, which stands there twice, the later. Raises NoRecord
    where there is no such file."""
    path = Path(filename)
    if not path.is_file():
        raise NoRecord(
            f"there is no log {str(path)!r}",
            called=user_source(),
            fix=f"tune with measure_callbacks=[auto_scheduler.RecordToFile({str(path)!r})]",
        )
    lines: dict[object, tuple[int, str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if line.strip():
            lines[_uid(line) or number] = (number, line)
    return list(lines.values())


def read_log(filename: str | PathLike[str], into: Database) -> None:
    """Add the trials of a log. Lines that are none are left out, with a warning each. Raises NoRecord where there is no
    such file."""
    for number, line in logged(filename):
        try:
            into.import_lines([line])
        except BadRecordLine as error:
            warn_user(user_source(), f"{filename}, line {number}, is not a record and is left out: {error.reason}")


def _uid(line: str) -> str:
    try:
        record = plain_json(line, len(line))
    except ValueError:
        return ""
    return str(record.get("uid", "")) if is_a(record, dict) else ""
