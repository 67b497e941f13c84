"""The database of results: one SQLite file, in WAL mode, synchronous=FULL: what was acknowledged survives a crash.

One process writes at a time (the tuner's own, never its workers); others may read. A result holds for a whole key, which
is compared in full. Trials are appended and have an identity of their own, so that importing twice changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from ..autoschedule.search.space import Config
from ..base import ScheduleError, TilewrightError, dataclass, replace, user_source
from ..base.arguments import to_path
from ..base.untrusted_input import plain_json
from ..schedule import from_json
from .database_file import connect, copy_to_ram, read_only
from .errors import CorruptDatabase, DatabaseBusy, ForeignDatabase, NoRecord
from .json_lines import Line, is_time, parse_line, write_line
from .layout import APPLICATION, LAYOUT, TIME, create_tables, has_layout
from .task import Key
from .trial import Trial
from .trial_marks import is_own_mark, make_mark, secret_name

__all__ = ["Database", "TunedTask"]

_CHECKED_AT_ONCE = 4 << 20
"""Bytes of a file whose pages are all looked at when it is opened; those of a longer one, before it is first written to."""
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
"""SQLite's errors of files, or folders, that cannot be written."""
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


@dataclass(frozen=True, slots=True)
class TunedTask:
    """Summary of what the database holds for one key. trials, failures: how many. best: seconds a call of the fastest, None where all
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
        self.path = to_path(path) or Path()
        if to_path(path) is None:
            raise NoRecord(
                f"cannot open a database at {path!r}"[:200],
                reason="the path is not valid on this system",
                called=user_source(),
                fix='pass a path, as "tune.sqlite"',
            )
        if must_exist and not self.path.exists():
            raise NoRecord(
                f"there is no database {str(self.path)!r}",
                called=user_source(),
                fix=f"autotune.tune(args, database={str(self.path)!r}) makes one",
            )
        self._require_file()
        self._is_checked = False
        try:
            with self._faults():
                self._connection = self._open(connect(self.path), writes=True)
        except DatabaseBusy as error:
            cause = error.__context__
            if not self.path.exists() or _code(cause) not in _UNWRITABLE:
                raise
            with self._faults():
                self._connection = self._open(read_only(self.path), writes=False)

    def _open(self, connection: sqlite3.Connection, writes: bool) -> sqlite3.Connection:
        """The connection, after a look at what is there; another one, to a copy, where that is of an earlier layout and may not be
        written. Closes it when something is raised."""
        try:
            layout = self._layout(connection)
            if writes:
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = full")
                if layout != LAYOUT:
                    with _transaction(connection):
                        create_tables(connection)
                connection.execute("pragma foreign_keys = on")
                return connection
            if layout != LAYOUT:
                earlier, connection = connection, copy_to_ram(connection)
                earlier.close()
                create_tables(connection)
            connection.execute("pragma query_only = on")
            return connection
        except BaseException:
            connection.close()
            raise

    def _layout(self, connection: sqlite3.Connection) -> int:
        """The number of the layout, 0 of an empty file. Raises ForeignDatabase."""

        def answer(statement: str) -> Any:
            return connection.execute(statement).fetchone()[0]

        connection.execute("pragma trusted_schema = off")
        application, layout = answer("pragma application_id"), answer("pragma user_version")
        if not answer("select count(*) from sqlite_master"):
            return 0
        is_known = layout in range(1, LAYOUT + 1)
        if application != APPLICATION or not is_known or not has_layout(connection, layout):
            raise ForeignDatabase(
                f"cannot use {str(self.path)!r}",
                called=user_source(),
                reason="it is a database of another program"
                if application != APPLICATION
                else f"its layout is {layout}, and this version of tilewright knows {LAYOUT}"
                if not is_known
                else "it does not have tilewright's tables",
                fix="name another file; nothing was changed in this one",
            )
        if layout != LAYOUT or answer("pragma page_count") * answer("pragma page_size") <= _CHECKED_AT_ONCE:
            self._check_pages(connection)
        return layout

    def _check_pages(self, connection: sqlite3.Connection) -> None:
        """Look at all pages, once. Raises sqlite3.DatabaseError."""
        if not self._is_checked and (verdict := connection.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(verdict)
        self._is_checked = True

    def _require_file(self) -> None:
        """The path must be of a file, or of none: SQLite would wait for ever for somebody to write into a pipe."""
        try:
            kind = self.path.stat().st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(kind):
            raise ForeignDatabase(
                f"cannot use {str(self.path)!r}",
                reason="it is not a file",
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

    def require_writable(self) -> None:
        """Raise DatabaseBusy (TW0635) where nothing can be added."""
        with self._faults(), self._writing():
            self._connection.execute("update tasks set id = id where false")

    def add(self, key: Key, name: str, trial: Trial) -> None:
        """Append a trial: when this returns it is on the disk. One that is there already (by its uid) is left alone.

        Parameters
        ----------
        key : Key
            The task's key: program, target, space and machine.
        name : str
            The task's name, for tables.
        trial : Trial
            The trial.

        Raises
        ------
        DatabaseBusy (TW0635)
            Another process holds the file for too long, or it cannot be written.
        """
        with self._faults(), self._writing():
            self._insert(self._task(key, name), key, trial)

    def confirm(self, key: Key, seconds: Mapping[str, float]) -> None:
        """Notes the seconds that calls of some trials, by their uids, took when they were measured again, side by side: from now on
        they go before all others of the key. Raises DatabaseBusy (TW0635)."""
        with self._faults(), self._writing():
            self._connection.execute(
                "update trials set confirmed = null where task = ? and confirmed is not null", (self._find(key),)
            )
            for uid, measured in seconds.items():
                self._connection.execute("update trials set confirmed = ? where uid = ?", (measured, uid))

    def set_baseline(self, key: Key, name: str, seconds: float) -> None:
        """Note the time of the unscheduled program.

        Parameters
        ----------
        key : Key
            The task's key: program, target, space and machine.
        name : str
            The task's name, for tables.
        seconds : float
            Time of a call, in seconds.

        Raises
        ------
        DatabaseBusy (TW0635)
            Another process holds the file for too long, or it cannot be written.
        """
        with self._faults(), self._writing():
            self._connection.execute("update tasks set baseline = ? where id = ?", (seconds, self._task(key, name)))

    def accept(self, key: Key, trial: Trial, seconds: float) -> None:
        """Mark a trial as checked by this machine.

        Parameters
        ----------
        key : Key
            The task's key: program, target, space and machine.
        trial : Trial
            The trial.
        seconds : float
            Time of a call on this machine, in seconds.

        Raises
        ------
        DatabaseBusy (TW0635)
            Another process holds the file for too long, or it cannot be written.
        """
        with self._faults(), self._writing():
            self._connection.execute(
                "update trials set confirmed = ?, mark = ?, secret = ? where uid = ?",
                (seconds, make_mark(key, trial.records), secret_name(), trial.uid),
            )

    def refuse(self, trial: Trial, failure: str, message: str) -> None:
        """Note that a trial failed when this machine checked it.

        Parameters
        ----------
        trial : Trial
            The trial.
        failure : str
            The kind of failure, as of `Trial.failure`.
        message : str
            What to print about it.

        Raises
        ------
        DatabaseBusy (TW0635)
            Another process holds the file for too long, or it cannot be written.
        """
        with self._faults(), self._writing():
            self._connection.execute(
                "update trials set seconds = null, confirmed = null, mark = '', secret = '', failure = ?, message = ? "
                "where uid = ?",
                (failure, message, trial.uid),
            )

    def _task(self, key: Key, name: str) -> int:
        number = self._find(key)
        if number is not None:
            return number
        row = (key.digest, name, key.workload, key.target, key.machine, key.versions, key.space)
        cursor = self._connection.execute(
            "insert into tasks (digest, name, workload, target, machine, versions, space) values (?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _insert(self, task: int, key: Key, trial: Trial) -> bool:
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
            secret_name() if self.is_marked(key, trial) else "",
        )
        done = self._connection.execute(
            "insert or ignore into trials (uid, task, config, records, seconds, confirmed, failure, message, created, mark, "
            "secret) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        confirmed = self._rows(key, f"{_IS_CONFIRMED} order by confirmed, id")
        return next(confirmed, None) or next(self._rows(key, f"{TIME} is not null order by {TIME}, id"), None)

    def candidates(self, key: Key, most: int) -> tuple[list[Trial], Trial | None]:
        """The fastest trial that this machine has checked, of those that it measured side by side if there are any, None
        where there is none; and those that would be faster, at most so many, but were not checked here."""
        own, others = secret_name(), list[Trial]()
        best: Trial | None = None
        for ranked in (f"{_IS_CONFIRMED} order by confirmed, id", f"{TIME} is not null order by {TIME}, id"):
            for trial in self._rows(key, f"secret = ? and {ranked}", own):
                if self.is_marked(key, trial):
                    best = trial
                    break
                others.append(trial)  # it was changed since it was marked
            if best is not None:
                break
        limit = float("inf") if best is None or best.time is None else best.time
        faster = f"secret != ? and {TIME} < ? order by {TIME}, id limit ?"
        others = [trial for trial in others if trial.time is not None and trial.time < limit]
        others += self._rows(key, faster, own, limit, most)
        unique = {trial.uid: trial for trial in others}
        return sorted(unique.values(), key=lambda trial: trial.time or 0.0)[:most], best

    @staticmethod
    def is_marked(key: Key, trial: Trial) -> bool:
        """Return whether this machine has checked a trial of a key."""
        return is_own_mark(trial.mark, key, trial.records)

    def check(self) -> Iterator[tuple[Key, Trial, str]]:
        """Every trial, and why its records would be refused before anything is run; "" where they would not. Raises
        CorruptDatabase (TW0631) where the file is damaged or a value is of another type."""
        with self._faults():
            if (verdict := self._connection.execute("pragma integrity_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(verdict)
        for task in self.tasks():
            for trial in self.trials(task.key):
                try:
                    from_json(trial.records, foreign=True)
                except ScheduleError as error:
                    yield task.key, trial, error.reason
                else:
                    yield task.key, trial, ""

    def _rows(self, key: Key, which: str, *values: object) -> Iterator[Trial]:
        """Trials of a key, read one after the other."""
        with self._faults():
            task = self._find(key)
            statement = f"select {_TRIAL} from trials where task = ? and {which}"
            yield from map(_trial, self._connection.execute(statement, (task, *values)))

    def extremes(self, key: Key, most: int) -> list[Trial]:
        """Return at most so many trials of a key, oldest first: the fastest and the latest, where there are more."""
        if self.count(key) <= most:
            return self.trials(key)
        with self._faults():
            task = self._find(key)
            chosen = (
                f"select id from (select id from trials where task = ? and {TIME} is not null order by {TIME}, id limit ?) "
                "union select id from (select id from trials where task = ? order by id desc limit ?)"
            )
            rows = self._connection.execute(
                f"select {_TRIAL} from trials where id in ({chosen}) order by id", (task, most // 2, task, most // 2)
            ).fetchall()
            return [_trial(row) for row in rows]

    def count(self, key: Key) -> int:
        """Return how many trials there are of a key."""
        with self._faults():
            statement = "select count(*) from trials where task = ?"
            return self._connection.execute(statement, (self._find(key),)).fetchone()[0]

    def task_keys(self) -> list[Key]:
        """Return what there are trials of, in the order in which it was first tuned."""
        with self._faults():
            rows = self._connection.execute(f"select {_KEY} from tasks order by id").fetchall()
            return [_key(row) for row in rows]

    def spaces(self, key: Key) -> list[Key]:
        """The key with each of the spaces that there are trials of."""
        return [each for each in self.task_keys() if replace(each, space=key.space) == key]

    def has_result(self, key: Key) -> bool:
        """Return whether any trial of a key succeeded."""
        return self.best(key) is not None

    def baseline(self, key: Key) -> float | None:
        """Seconds a call of the unscheduled program, None where it was not measured."""
        with self._faults():
            row = self._connection.execute("select baseline from tasks where id = ?", (self._find(key),)).fetchone()
            return None if row is None else row[0]

    def tasks(self) -> list[TunedTask]:
        """Return what there are results for, in the order in which it was first tuned."""
        with self._faults():
            rows = self._connection.execute(
                f"select {_KEY}, name, (select count(*) from trials where task = tasks.id), "
                f"(select count(*) from trials where task = tasks.id and {TIME} is null), "
                f"coalesce((select min(confirmed) from trials where task = tasks.id and {_IS_CONFIRMED}), "
                f"(select min({TIME}) from trials where task = tasks.id)), baseline from tasks order by id"
            ).fetchall()
            return [_tuned_task(row) for row in rows]

    def _find(self, key: Key) -> int | None:
        row = self._connection.execute(
            "select id from tasks where workload = ? and target = ? and machine = ? and versions = ? and space = ?",
            (key.workload, key.target, key.machine, key.versions, key.space),
        ).fetchone()
        return None if row is None else row[0]

    # JSON lines

    def export_lines(self) -> Iterator[str]:
        """Every trial as a line of JSON, with its whole key."""
        for task in self.tasks():
            for trial in self.trials(task.key):
                with self._faults():
                    line = write_line(Line(task.key, task.name, task.baseline, trial))
                yield line

    def import_lines(self, lines: Iterable[str]) -> int:
        """Add what `export_lines` gave, all or nothing; returns how many trials were new. Raises BadRecordLine (TW0634).

        Trials that this machine did not measure are checked when one of them is to be used.
        """
        return self._add_lines(parse_line(number, line) for number, line in enumerate(lines, 1) if line.strip())

    def merge(self, other: Database) -> int:
        """Add the trials of another database, all or nothing; returns how many were new. Raises what reading it raises, and
        BadRecordLine (TW0634) for one that holds what no import takes."""
        return self.import_lines(other.export_lines())

    def keep_versions(self, versions: str) -> int:
        """Remove the trials that were measured by other versions (see Key), which are never used again; returns how many."""
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
                new += self._insert(task, line.key, line.trial)
                self._connection.execute(
                    "update tasks set baseline = coalesce(baseline, ?) where id = ?", (line.baseline, task)
                )
        return new

    # Faults

    @contextmanager
    def _writing(self) -> Generator[None]:
        """A transaction: committed at the end, undone by an error. The first one looks at all pages before."""
        self._check_pages(self._connection)
        with _transaction(self._connection):
            yield

    @contextmanager
    def _faults(self) -> Generator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except TilewrightError:
            raise
        except (sqlite3.Error, ValueError, OSError) as error:
            if isinstance(error, OSError) or _code(error) in _TAKEN:
                raise DatabaseBusy(
                    f"cannot use the database {str(self.path)!r}",
                    reason=str(error),
                    called=user_source(),
                    fix="check that the folder exists and can be written, and that no other program holds the file",
                ) from None
            raise CorruptDatabase(
                f"the database {str(self.path)!r} is damaged",
                reason=str(error)[:300],
                called=user_source(),
                fix="it was left as it is: move it away, save what can be read by `sqlite3 FILE .recover`, and tune into "
                "another file",
            ) from None


_KEY = "workload, target, machine, versions, space"
_TRIAL = "uid, config, records, seconds, confirmed, failure, message, created, mark"
_IS_CONFIRMED = "confirmed is not null and seconds is not null"


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("begin immediate")
    try:
        yield
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _code(error: BaseException | None) -> int | None:
    """The kind of an error of SQLite's, None of another one."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _trial(row: tuple[Any, ...]) -> Trial:
    """A row of _TRIAL. Raises ValueError: a column of SQLite's holds values of any type."""
    uid, config, records, seconds, confirmed, failure, message, created, mark = row
    if not all(isinstance(text, str) for text in (uid, config, records, failure, message, mark)):
        raise ValueError("a text of a trial is missing")
    if not all(value is None or is_time(value) for value in (seconds, confirmed)) or not is_time(created):
        raise ValueError("a time of a trial is missing")
    return Trial(
        records, seconds, Config.of(plain_json(config, 1 << 20)), failure, message, confirmed, created, uid, mark
    )


def _key(row: Sequence[Any]) -> Key:
    """A row of _KEY. Raises ValueError, likewise."""
    if not all(isinstance(text, str) for text in row):
        raise ValueError("a task holds values of other types")
    return Key(*row)


def _tuned_task(row: tuple[Any, ...]) -> TunedTask:
    """Raise ValueError, likewise."""
    *key, name, trials, failures, best, baseline = row
    if not isinstance(name, str) or not all(time is None or is_time(time) for time in (best, baseline)):
        raise ValueError("a task holds values of other types")
    return TunedTask(_key(key), name, trials, failures, best, baseline)
