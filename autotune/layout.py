"""The layout of a database: its tables and indices, how ours are told from others, and how earlier layouts become this one."""

from __future__ import annotations

import json
import re
import sqlite3

from .task import Key
from .trial_marks import is_own_mark, secret_name

__all__ = ["APPLICATION", "LAYOUT", "TIME", "has_layout", "create_tables", "trial_space"]

APPLICATION = 0x54774442
"""Marks the file as ours ("TwDB")."""
LAYOUT = 3
"""2 has marks; 3 has spaces, and finds the best of many trials by indices."""
TIME = "case when seconds is not null then coalesce(confirmed, seconds) end"
"""The better founded of a trial's two times, null where it failed: as the indices write it."""

_COLUMNS = {
    "tasks": ["id", "digest", "name", "workload", "target", "machine", "versions", "baseline"],
    "trials": ["id", "uid", "task", "config", "records", "seconds", "confirmed", "failure", "message", "created"],
}
_LATER_COLUMNS = {"tasks": ["space"], "trials": ["mark", "secret"]}
"""What layouts after the first have beyond it."""

_TASKS = """
create table {name} (
    id integer primary key, digest text not null, name text not null, workload text not null, target text not null,
    machine text not null, versions text not null, baseline real, space text not null,
    unique (workload, target, machine, versions, space))
"""
_TRIALS = """
create table trials (
    id integer primary key, uid text not null unique, task integer not null references tasks, config text not null,
    records text not null, seconds real, confirmed real, failure text not null, message text not null,
    created real not null, mark text not null default '', secret text not null default '')
"""
_INDICES = {
    "trials_in_order": "trials (task)",
    "trials_by_time": f"trials (task, {TIME}, secret)",
    "own_trials": f"trials (task, secret, {TIME}) where secret != ''",
    "confirmed_trials": "trials (task, confirmed, secret) where confirmed is not null",
}
_OTHER_INDICES = {"trials_of_task", "sqlite_autoindex_tasks_1", "sqlite_autoindex_trials_1"}
"""Those that SQLite makes itself, and that of layouts 1 and 2."""


def has_layout(connection: sqlite3.Connection, layout: int) -> bool:
    """Return whether there are our tables, and nothing else: no views, and no triggers that run when something is written."""
    kinds = connection.execute("select type, name from sqlite_master").fetchall()
    names = {kind: {name for one, name in kinds if one == kind} for kind, _ in kinds}
    indices = _INDICES.keys() | _OTHER_INDICES
    if names.pop("table", set()) != _COLUMNS.keys() or not names.pop("index", set()) <= indices or names:
        return False
    for table, first in _COLUMNS.items():
        present = _columns(connection, table)
        later = _LATER_COLUMNS[table]
        if [name for name in present if name not in later] != first or layout == LAYOUT and not {*later} <= {*present}:
            return False
    return True


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table, hidden ones too."""
    return [row[1] for row in connection.execute(f"pragma table_xinfo({table})")]


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, or bring those of an earlier layout up to this one, within the caller's transaction."""
    if not connection.execute("select count(*) from sqlite_master").fetchone()[0]:
        connection.execute(_TASKS.format(name="tasks"))
        connection.execute(_TRIALS)
        connection.execute(f"pragma application_id = {APPLICATION}")
    for column in _LATER_COLUMNS["trials"]:
        if column not in _columns(connection, "trials"):
            connection.execute(f"alter table trials add column {column} text not null default ''")
    if "space" not in _columns(connection, "tasks"):  # another process may have been first
        _divide_by_space(connection)
    connection.execute("drop index if exists trials_of_task")
    for name, what in _INDICES.items():
        connection.execute(f"create index if not exists {name} on {what}")
    connection.execute(f"pragma user_version = {LAYOUT}")


def _divide_by_space(connection: sqlite3.Connection) -> None:
    """Divide each task by the spaces that its trials say they were drawn from, and note which trials were checked here.
    The table is made anew, since SQLite changes no constraint; foreign keys are off meanwhile."""
    connection.execute(_TASKS.format(name="divided"))
    own = secret_name()
    rows = connection.execute("select id, name, workload, target, machine, versions, baseline from tasks").fetchall()
    for old, name, *texts, baseline in rows:
        numbers: dict[str, int] = {}
        for trial, config, records, mark in connection.execute(
            "select id, config, records, mark from trials where task = ? order by id", (old,)
        ).fetchall():
            key = Key(*map(str, texts), space=trial_space(config))
            if key.space not in numbers:
                numbers[key.space] = _add_task(connection, key, name, baseline)
            is_own = isinstance(mark, str) and isinstance(records, str) and is_own_mark(mark, key, records)
            moved = (-numbers[key.space], own if is_own else "", trial)  # negative: old numbers are still in use
            connection.execute("update trials set task = ?, secret = ? where id = ?", moved)
        if not numbers:
            _add_task(connection, Key(*map(str, texts)), name, baseline)
    connection.execute("delete from trials where task > 0")  # of no task
    connection.execute("update trials set task = -task")
    connection.execute("drop table tasks")
    connection.execute("alter table divided rename to tasks")


def _add_task(connection: sqlite3.Connection, key: Key, name: str, baseline: float | None) -> int:
    row = (key.digest, name, key.workload, key.target, key.machine, key.versions, baseline, key.space)
    cursor = connection.execute(
        "insert into divided (digest, name, workload, target, machine, versions, baseline, space) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


_SPACE = re.compile(r'\{"space": ("(?:[^"\\]|\\.){0,200}")')


def trial_space(config: object) -> str:
    """The space that a trial without one was drawn from, by its configuration as JSON: the rules', where that names none. Of a
    template only the name is known, so that none of today finds it under its own key."""
    match = _SPACE.match(config) if isinstance(config, str) else None
    name = json.loads(match[1]) if match else ""
    return str(name) or Key.__dataclass_fields__["space"].default
