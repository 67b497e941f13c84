"""The database of results: one SQLite file, in WAL mode, synchronous=FULL: what was acknowledged survives a crash.

One process writes at a time (the tuner's own, never its workers); others may read. A result holds for a whole key, which
is compared in full. Trials are appended and have an identity of their own, so that importing twice changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, cast

from ..autoschedule.search.space import Config
from ..codegen.target import Target
from ..errors import ScheduleError, user_source
from ..ir.expr import IntImm
from ..schedule import Schedule, from_json
from ..te import Tensor
from .errors import BadRecordLine, CorruptDatabase, DatabaseBusy, ForeignDatabase, NoRecord, RecordDoesNotFit
from .task import Key, Task

__all__ = ["Database", "Trial", "TunedTask", "best_schedule", "find_schedule", "to_line"]

_APPLICATION = 0x54774442
"""Marks the file as ours ("TwDB")."""
_LAYOUT = 1
_BUSY_SECONDS = 30.0

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


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured candidate.

    records: its schedule as JSON. seconds: of a call, None where it failed; confirmed: measured again, side by side with its
    rivals. config: the point of its space, None where nobody knows. failure: a class of failures (see measure.Failure), "" for
    none, and message: what it said. created: in seconds since 1970. uid: tells it from all others, of other machines too.
    """

    records: str
    seconds: float | None
    config: Config | None = None
    failure: str = ""
    message: str = ""
    confirmed: float | None = None
    created: float = field(default_factory=time.time)
    uid: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def time(self) -> float | None:
        """The better founded of its two times, in seconds a call; None where it failed."""
        return self.seconds if self.confirmed is None else self.confirmed


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
            raise NoRecord(f"there is no database {str(self.path)!r}", called=user_source(),
                           fix=f"autotune.tune(args, database={str(self.path)!r}) makes one")
        with self._faults():
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            with self._faults():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        answer = self._one
        application, layout = answer("pragma application_id")[0], answer("pragma user_version")[0]
        tables = answer("select count(*) from sqlite_master")[0]
        if tables and (application, layout) != (_APPLICATION, _LAYOUT):
            raise ForeignDatabase(
                f"cannot use {str(self.path)!r}", called=user_source(),
                reason="it is a database of another program" if application != _APPLICATION else
                       f"its layout is {layout}, and this version of tilewright knows {_LAYOUT}",
                fix="name another file; nothing was changed in this one")
        answer("pragma journal_mode = wal")
        answer("pragma synchronous = full")
        answer("pragma foreign_keys = on")
        if not tables:
            self._create()
        elif (verdict := answer("pragma quick_check(1)")[0]) != "ok":
            raise sqlite3.DatabaseError(verdict)

    def _create(self) -> None:
        with self._writing():
            if not self._one("select count(*) from sqlite_master")[0]:   # another process may have been first
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"pragma application_id = {_APPLICATION}")
                self._connection.execute(f"pragma user_version = {_LAYOUT}")

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

    def confirm(self, trial: Trial, seconds: float) -> None:
        """Notes the seconds that a call of a trial took when it was measured again. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute("update trials set confirmed = ? where uid = ?", (seconds, trial.uid))

    def set_baseline(self, key: Key, name: str, seconds: float) -> None:
        """Notes how many seconds a call of the unscheduled program takes. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute("update tasks set baseline = ? where id = ?", (seconds, self._task(key, name)))

    def _task(self, key: Key, name: str) -> int:
        number = self._find(key)
        if number is not None:
            return number
        row = (key.digest, name, key.workload, key.target, key.machine, key.versions)
        cursor = self._connection.execute(
            "insert into tasks (digest, name, workload, target, machine, versions) values (?, ?, ?, ?, ?, ?)", row)
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _insert(self, task: int, trial: Trial) -> bool:
        config = json.dumps(None if trial.config is None else trial.config.plain())
        row = (trial.uid, task, config, trial.records, trial.seconds, trial.confirmed, trial.failure, trial.message,
               trial.created)
        done = self._connection.execute(
            "insert or ignore into trials (uid, task, config, records, seconds, confirmed, failure, message, created) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return done.rowcount > 0

    # Reading

    def trials(self, key: Key) -> list[Trial]:
        """Every trial of a key, oldest first."""
        with self._faults():
            task = self._find(key)
            rows = self._connection.execute("select * from trials where task = ? order by id", (task,)).fetchall()
        return [_trial(row) for row in rows]

    def best(self, key: Key) -> Trial | None:
        """The fastest verified trial of a key; None where none succeeded."""
        with self._faults():
            row = self._connection.execute(
                "select * from trials where task = ? and seconds is not null order by coalesce(confirmed, seconds) limit 1",
                (self._find(key),)).fetchone()
        return None if row is None else _trial(row)

    def tasks(self) -> list[TunedTask]:
        """What there are results for, in the order in which it was first tuned."""
        with self._faults():
            rows = self._connection.execute(
                "select workload, target, machine, versions, name, count(trials.id), coalesce(sum(failure != ''), 0), "
                "min(coalesce(confirmed, seconds)), baseline "
                "from tasks left join trials on trials.task = tasks.id group by tasks.id order by tasks.id").fetchall()
        return [TunedTask(Key(*row[:4]), *row[4:]) for row in rows]

    def _find(self, key: Key) -> int | None:
        row = self._connection.execute(
            "select id from tasks where workload = ? and target = ? and machine = ? and versions = ?",
            (key.workload, key.target, key.machine, key.versions)).fetchone()
        return None if row is None else row[0]

    # JSON lines

    def export_lines(self) -> Iterator[str]:
        """Every trial as a line of JSON, with its whole key."""
        for task in self.tasks():
            for trial in self.trials(task.key):
                yield to_line(task.key, task.name, task.baseline, trial)

    def import_lines(self, lines: Iterable[str]) -> int:
        """Adds what `export_lines` gave, all or nothing; returns how many trials were new. Raises BadRecordLine (TW0634)."""
        parsed = [_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        new = 0
        with self._faults(), self._writing():
            for key, name, baseline, trial in parsed:
                task = self._task(key, name)
                new += self._insert(task, trial)
                self._connection.execute("update tasks set baseline = coalesce(baseline, ?) where id = ?", (baseline, task))
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
        except sqlite3.OperationalError as error:
            raise DatabaseBusy(f"cannot use the database {str(self.path)!r}", reason=str(error), called=user_source(),
                               fix="see that the folder exists and can be written, and that no other program holds the file"
                               ) from None
        except sqlite3.DatabaseError as error:
            raise CorruptDatabase(
                f"the database {str(self.path)!r} is damaged", reason=str(error), called=user_source(),
                fix="it was left as it is: move it away, save what can be read by `sqlite3 FILE .recover`, and tune into "
                    "another file") from None


def _trial(row: tuple[Any, ...]) -> Trial:
    _, uid, _, config, records, seconds, confirmed, failure, message, created = row
    return Trial(records, seconds, Config.of(json.loads(config)), failure, message, confirmed, created, uid)


def to_line(key: Key, name: str, baseline: float | None, trial: Trial) -> str:
    """A trial as a line of JSON, with its whole key."""
    return json.dumps({
        "workload": key.workload, "target": key.target, "machine": key.machine, "versions": key.versions, "name": name,
        "baseline": baseline, "uid": trial.uid, "records": json.loads(trial.records),
        "config": None if trial.config is None else trial.config.plain(), "seconds": trial.seconds,
        "confirmed": trial.confirmed, "failure": trial.failure, "message": trial.message, "created": trial.created,
    })


_KEY_FIELDS = ("workload", "target", "machine", "versions")


def _line(number: int, line: str) -> tuple[Key, str, float | None, Trial]:
    """One line of an export. Raises BadRecordLine."""
    try:
        plain = cast("dict[str, Any]", json.loads(line))
        texts = [plain[name] for name in (*_KEY_FIELDS, "name", "uid", "failure", "message")]
        numbers = [plain[name] for name in ("seconds", "confirmed", "baseline")]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text is missing")
        if not all(value is None or (isinstance(value, (int, float)) and value > 0) for value in numbers):
            raise ValueError("a time is no positive number")
        if (plain["seconds"] is None) == (plain["failure"] == ""):
            raise ValueError("a trial either has a time or has failed")
        records = json.dumps(plain["records"])
        from_json(records)
        trial = Trial(records, plain["seconds"], Config.of(plain["config"]), plain["failure"], plain["message"],
                      plain["confirmed"], float(plain["created"]), plain["uid"])
        return Key(*texts[:4]), plain["name"], plain["baseline"], trial
    except (ValueError, TypeError, KeyError, ScheduleError) as fault:
        raise BadRecordLine(f"line {number} is no record", reason=f"{type(fault).__name__}: {fault}"[:300],
                            called=user_source(), fix="import what `tilewright db export` wrote; nothing was imported"
                            ) from None


def best_schedule(task: Task, database: Database | str | PathLike[str]) -> tuple[Schedule, Trial]:
    """The schedule of the fastest verified trial of a task, on the task's own tensors.

    Raises NoRecord (TW0633), RecordDoesNotFit (TW0636), and what opening a database raises.
    """
    if not isinstance(database, Database):
        with Database(database, must_exist=True) as opened:
            return best_schedule(task, opened)
    trial = database.best(task.key)
    if trial is None:
        raise NoRecord(f"{str(database.path)!r} holds no verified result for {task.name}", called=user_source(),
                       reason=_what_there_is(task, database), fix="tune it: autotune.tune(args, database=...)")
    try:
        return task.replay(from_json(trial.records)), trial
    except ScheduleError as error:
        raise RecordDoesNotFit(f"the best record of {task.name} does not fit its tensors", reason=error.headline,
                               called=user_source(), fix="tune it again, into another file") from error


def find_schedule(args: Sequence[Tensor], target: Target, database: Database | str | PathLike[str]) -> Schedule | None:
    """The best schedule of tensors, for tw.build; None where there is no result for them.

    A file that does not exist is warned of: most likely its name is wrong. Raises what opening a database raises.
    """
    if not isinstance(database, Database) and not Path(database).exists():
        warnings.warn(f"there is no database {str(database)!r}: the kernel takes topi's schedule", stacklevel=4)
        return None
    if not target.is_native or not all(isinstance(e, IntImm) for tensor in args for e in tensor.shape):
        return None
    try:
        return best_schedule(Task.of(list(args), target), database)[0]
    except NoRecord:
        return None


def _what_there_is(task: Task, database: Database) -> str:
    """Results for the same workload under other keys, which are not used."""
    for other in database.tasks():
        if other.key.workload == task.key.workload and other.trials > other.failures:
            differing = [f"{name} {getattr(other.key, name)!r}, here {getattr(task.key, name)!r}" for name in _KEY_FIELDS[1:]
                         if getattr(other.key, name) != getattr(task.key, name)]
            if differing:
                return f"there are results for the same workload, but of {'; '.join(differing)}"
    return "nothing was tuned for this workload"
