"""The database of results: one SQLite file, in WAL mode, synchronous=FULL: what was acknowledged survives a crash.

One process writes at a time (the tuner's own, never its workers); others may read. A result holds for a whole key, which
is compared in full. Trials are appended and have an identity of their own, so that importing twice changes nothing.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ..autoschedule.search.space import Config
from ..errors import ScheduleError, TilewrightError, user_source
from ..schedule import from_json
from ..untrusted import plain_json
from .errors import CorruptDatabase, DatabaseBusy, ForeignDatabase, NoRecord
from .lines import Line, from_line, is_time, to_line
from .seal import mark_of
from .task import Key
from .trial import Trial

__all__ = ["Database", "TunedTask"]

_APPLICATION = 0x54774442
"""Marks the file as ours ("TwDB")."""
_LAYOUT = 2
_BUSY_SECONDS = 30.0
_LONGEST_TEXT = 64 << 20
"""Bytes: longer values are taken for damage."""
_TAKEN = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_AUTH,
}
"""SQLite's errors of files that are not at fault themselves."""

_TABLES = """
create table tasks (
    id integer primary key, digest text not null, name text not null, workload text not null, target text not null,
    machine text not null, versions text not null, baseline real, unique (workload, target, machine, versions));
create table trials (
    id integer primary key, uid text not null unique, task integer not null references tasks, config text not null,
    records text not null, seconds real, confirmed real, failure text not null, message text not null,
    created real not null);
create index trials_of_task on trials (task, seconds);
"""
_MARKS = "alter table trials add column mark text not null default ''"
"""What layout 2 has beyond layout 1."""
_COLUMNS = {
    "tasks": "id digest name workload target machine versions baseline",
    "trials": "id uid task config records seconds confirmed failure message created",
}
_INDICES = {"trials_of_task", "sqlite_autoindex_tasks_1", "sqlite_autoindex_trials_1"}


@dataclass(frozen=True, slots=True)
class TunedTask:
    """What the database holds for one key. trials, failures: how many. best: seconds a call of the fastest, None where all
    failed. baseline: seconds a call of the unscheduled program, None where it was not measured."""

    key: Key
    name: str
    trials: int
    failures: int
    best: float | None
    baseline: float | None


class Database:
    """An open database, one SQLite file. path: of the file, which is made where there is none, unless it must exist.

    Opening it, and each of its methods, raises CorruptDatabase (TW0631), ForeignDatabase (TW0632) and DatabaseBusy (TW0635);
    opening raises NoRecord (TW0633) where the file must exist. A damaged file is left as it is.
    """

    def __init__(self, path: str | PathLike[str], must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise NoRecord(
                f"there is no database {str(self.path)!r}",
                called=user_source(),
                fix=f"autotune.tune(args, database={str(self.path)!r}) makes one",
            )
        self._require_file()
        with self._faults():
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
            self._connection.text_factory = _text
        try:
            with self._faults():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        answer = self._one
        answer("pragma trusted_schema = off")
        application, layout = answer("pragma application_id")[0], answer("pragma user_version")[0]
        tables = answer("select count(*) from sqlite_master")[0]
        if tables and (application != _APPLICATION or layout not in (1, _LAYOUT) or not self._is_laid_out(layout)):
            raise ForeignDatabase(
                f"cannot use {str(self.path)!r}",
                called=user_source(),
                reason="it is a database of another program"
                if application != _APPLICATION
                else f"its layout is {layout}, and this version of tilewright knows {_LAYOUT}"
                if layout not in (1, _LAYOUT)
                else "it has not the tables that tilewright makes",
                fix="name another file; nothing was changed in this one",
            )
        if tables and (verdict := answer("pragma quick_check(1)")[0]) != "ok":
            raise sqlite3.DatabaseError(verdict)
        answer("pragma journal_mode = wal")
        answer("pragma synchronous = full")
        answer("pragma foreign_keys = on")
        if layout != _LAYOUT:
            self._make()

    def _is_laid_out(self, layout: int) -> bool:
        """Whether there are our tables, and nothing else: no views, and no triggers that run when something is written."""
        kinds = self._connection.execute("select type, name from sqlite_master").fetchall()
        names = {kind: {name for one, name in kinds if one == kind} for kind, _ in kinds}
        if names.pop("table", set()) != _COLUMNS.keys() or not names.pop("index", set()) <= _INDICES or names:
            return False
        columns = {
            table: " ".join(row[1] for row in self._connection.execute(f"pragma table_xinfo({table})"))
            for table in _COLUMNS
        }
        return columns == _COLUMNS | ({"trials": _COLUMNS["trials"] + " mark"} if layout > 1 else {})

    def _make(self) -> None:
        """The tables, or what those of an earlier layout lack."""
        with self._writing():
            layout = self._one("pragma user_version")[0]  # another process may have been first
            if not self._one("select count(*) from sqlite_master")[0]:
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"pragma application_id = {_APPLICATION}")
            if layout < _LAYOUT:
                self._connection.execute(_MARKS)
                self._connection.execute(f"pragma user_version = {_LAYOUT}")

    def _require_file(self) -> None:
        """The path must be of a file, or of none: SQLite would wait for ever for somebody to write into a pipe."""
        try:
            kind = self.path.stat().st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(kind):
            raise ForeignDatabase(
                f"cannot use {str(self.path)!r}",
                reason="it is no file",
                called=user_source(),
                fix="give the path of a file, or of one that is to be made",
            )

    def close(self) -> None:
        """No more use of it."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    # Writing

    def add(self, key: Key, name: str, trial: Trial) -> None:
        """Appends a trial: when this returns it is on the disk. One that is there already (by its uid) is left alone. Raises
        DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._insert(self._task(key, name), trial)

    def confirm(self, key: Key, seconds: Mapping[str, float]) -> None:
        """Notes the seconds that calls of some trials, by their uids, took when they were measured again, side by side: from now on
        they go before all others of the key. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute("update trials set confirmed = null where task = ?", (self._find(key),))
            for uid, measured in seconds.items():
                self._connection.execute("update trials set confirmed = ? where uid = ?", (measured, uid))

    def set_baseline(self, key: Key, name: str, seconds: float) -> None:
        """Notes how many seconds a call of the unscheduled program takes. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute("update tasks set baseline = ? where id = ?", (seconds, self._task(key, name)))

    def accept(self, key: Key, trial: Trial, seconds: float) -> None:
        """Marks a trial as checked by this machine, where a call takes so many seconds. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute(
                "update trials set confirmed = ?, mark = ? where uid = ?",
                (seconds, mark_of(key, trial.records), trial.uid),
            )

    def refuse(self, trial: Trial, failure: str, message: str) -> None:
        """Notes that a trial failed when this machine checked it. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute(
                "update trials set seconds = null, confirmed = null, mark = '', failure = ?, message = ? where uid = ?",
                (failure, message, trial.uid),
            )

    def _task(self, key: Key, name: str) -> int:
        number = self._find(key)
        if number is not None:
            return number
        row = (key.digest, name, key.workload, key.target, key.machine, key.versions)
        cursor = self._connection.execute(
            "insert into tasks (digest, name, workload, target, machine, versions) values (?, ?, ?, ?, ?, ?)", row
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _insert(self, task: int, trial: Trial) -> bool:
        config = json.dumps(None if trial.config is None else trial.config.plain())
        row = (
            trial.uid,
            task,
            config,
            trial.records,
            trial.seconds,
            trial.confirmed,
            trial.failure,
            trial.message,
            trial.created,
            trial.mark,
        )
        done = self._connection.execute(
            "insert or ignore into trials (uid, task, config, records, seconds, confirmed, failure, message, created, mark) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        return done.rowcount > 0

    # Reading

    def trials(self, key: Key) -> list[Trial]:
        """Every trial of a key, oldest first."""
        with self._faults():
            task = self._find(key)
            rows = self._connection.execute(
                f"select {_TRIAL} from trials where task = ? order by id", (task,)
            ).fetchall()
            return [_trial(row) for row in rows]

    def best(self, key: Key) -> Trial | None:
        """The fastest trial of a key, whoever measured it, of those that were measured side by side if there are any; None where
        none succeeded."""
        return min(self._fastest(key), key=lambda trial: trial.confirmed is None, default=None)

    def candidates(self, key: Key, most: int) -> tuple[list[Trial], Trial | None]:
        """The fastest trial that this machine has checked, of those that it measured side by side if there are any, None
        where there is none; and those that would be faster, at most so many, but were not checked here."""
        trials = list(self._fastest(key))
        own = [trial for trial in trials if self.is_marked(key, trial)]
        best = min(own, key=lambda trial: trial.confirmed is None, default=None)
        others = [
            trial for trial in trials if trial not in own and (best is None or (trial.time or 0.0) < (best.time or 0.0))
        ]
        return others[:most], best

    @staticmethod
    def is_marked(key: Key, trial: Trial) -> bool:
        """Whether this machine has checked a trial of a key."""
        return bool(trial.mark) and hmac.compare_digest(trial.mark.encode(), mark_of(key, trial.records).encode())

    def check(self) -> Iterator[tuple[Key, Trial, str]]:
        """Every trial, and why its records would be refused before anything is run; "" where they would not. Raises
        CorruptDatabase (TW0631) where the file is damaged or a value is of another type."""
        with self._faults():
            if (verdict := self._one("pragma integrity_check(1)")[0]) != "ok":
                raise sqlite3.DatabaseError(verdict)
        for task in self.tasks():
            for trial in self.trials(task.key):
                try:
                    from_json(trial.records, foreign=True)
                except ScheduleError as error:
                    yield task.key, trial, error.reason
                else:
                    yield task.key, trial, ""

    def _fastest(self, key: Key) -> Iterator[Trial]:
        """The trials that succeeded, the fastest first."""
        with self._faults():
            rows = self._connection.execute(
                f"select {_TRIAL} from trials where task = ? and seconds is not null order by coalesce(confirmed, seconds), id",
                (self._find(key),),
            ).fetchall()
            yield from map(_trial, rows)

    def tasks(self) -> list[TunedTask]:
        """What there are results for, in the order in which it was first tuned."""
        with self._faults():
            rows = self._connection.execute(
                "select workload, target, machine, versions, name, count(trials.id), coalesce(sum(failure != ''), 0), "
                "coalesce(min(confirmed), min(seconds)), baseline "
                "from tasks left join trials on trials.task = tasks.id group by tasks.id order by tasks.id"
            ).fetchall()
            return [_tuned_task(row) for row in rows]

    def _find(self, key: Key) -> int | None:
        row = self._connection.execute(
            "select id from tasks where workload = ? and target = ? and machine = ? and versions = ?",
            (key.workload, key.target, key.machine, key.versions),
        ).fetchone()
        return None if row is None else row[0]

    # JSON lines

    def export_lines(self) -> Iterator[str]:
        """Every trial as a line of JSON, with its whole key."""
        for task in self.tasks():
            for trial in self.trials(task.key):
                with self._faults():
                    line = to_line(Line(task.key, task.name, task.baseline, trial))
                yield line

    def import_lines(self, lines: Iterable[str]) -> int:
        """Adds what `export_lines` gave, all or nothing; returns how many trials were new. Raises BadRecordLine (TW0634).

        Trials that this machine did not measure are checked when one of them is to be used.
        """
        return self._add_lines(from_line(number, line) for number, line in enumerate(lines, 1) if line.strip())

    def merge(self, other: Database) -> int:
        """Adds the trials of another database, all or nothing; returns how many were new. Raises what reading it raises, and
        BadRecordLine (TW0634) for one that holds what no import takes."""
        return self.import_lines(other.export_lines())

    def keep_versions(self, versions: str) -> int:
        """Removes the trials that were measured by other versions (see Key), which are never used again; returns how many."""
        with self._faults():
            with self._writing():
                removed = self._connection.execute(
                    "delete from trials where task in (select id from tasks where versions != ?)", (versions,)
                ).rowcount
                self._connection.execute("delete from tasks where versions != ?", (versions,))
            self._connection.execute("vacuum")
        return removed

    def _add_lines(self, lines: Iterable[Line]) -> int:
        parsed = list(lines)
        new = 0
        with self._faults(), self._writing():
            for line in parsed:
                task = self._task(line.key, line.name)
                new += self._insert(task, line.trial)
                self._connection.execute(
                    "update tasks set baseline = coalesce(baseline, ?) where id = ?", (line.baseline, task)
                )
        return new

    # Faults

    def _one(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()

    @contextmanager
    def _writing(self) -> Generator[None]:
        """A transaction: committed at the end, undone by an error."""
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")

    @contextmanager
    def _faults(self) -> Generator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except TilewrightError:
            raise
        except (sqlite3.Error, ValueError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _TAKEN:
                raise DatabaseBusy(
                    f"cannot use the database {str(self.path)!r}",
                    reason=str(error),
                    called=user_source(),
                    fix="see that the folder exists and can be written, and that no other program holds the file",
                ) from None
            raise CorruptDatabase(
                f"the database {str(self.path)!r} is damaged",
                reason=str(error)[:300],
                called=user_source(),
                fix="it was left as it is: move it away, save what can be read by `sqlite3 FILE .recover`, and tune into "
                "another file",
            ) from None


_TRIAL = "uid, config, records, seconds, confirmed, failure, message, created, mark"


def _text(data: bytes) -> str:
    """A text of a database, which may hold any bytes."""
    return data.decode(errors="replace")


def _trial(row: tuple[Any, ...]) -> Trial:
    """A row of _TRIAL. Raises ValueError: a column of SQLite's holds values of any type."""
    uid, config, records, seconds, confirmed, failure, message, created, mark = row
    if not all(isinstance(text, str) for text in (uid, config, records, failure, message, mark)):
        raise ValueError("a trial holds no text where one should be")
    if not all(value is None or is_time(value) for value in (seconds, confirmed)) or not is_time(created):
        raise ValueError("a trial holds no time where one should be")
    return Trial(
        records, seconds, Config.of(plain_json(config, 1 << 20)), failure, message, confirmed, created, uid, mark
    )


def _tuned_task(row: tuple[Any, ...]) -> TunedTask:
    """Raises ValueError, likewise."""
    *texts, trials, failures, best, baseline = row
    if not all(isinstance(text, str) for text in texts) or not all(
        time is None or is_time(time) for time in (best, baseline)
    ):
        raise ValueError("a task holds values of other types")
    return TunedTask(Key(*texts[:4]), texts[4], trials, failures, best, baseline)
