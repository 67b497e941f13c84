"""Databases that can be read and not written: on mounts that are read-only, in layouts of before, with what a crash left."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import autotune_faults as faults
import drawn
import pytest
from tilewright import autotune
from tilewright.autotune.database_file import read_only
from tilewright.autotune.errors import DatabaseBusy
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial

RECORDS = '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]'

_MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
_READER = """
import json, sys
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial
with Database(sys.argv[1]) as database:
    (task,) = database.tasks()
    said = {"trials": task.trials, "best": database.best(task.key).seconds, "refused": []}
    for write in (
        lambda: database.add(task.key, "B", Trial("[]", 1.0)), database.require_writable,
        lambda: database.confirm(task.key, {}), lambda: database.keep_versions(""),
    ):
        try:
            write()
        except Exception as error:
            said["refused"].append(error.code)
print(json.dumps(said))
"""


def mounted(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a namespace in which a folder is mounted read-only."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no program unshare on this machine")
    probe = subprocess.run([unshare, "-rm", "sh", "-c", _MOUNTED, folder, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"this machine mounts nothing for its users: {probe.stderr.strip()}")
    return subprocess.run([unshare, "-rm", "sh", "-c", _MOUNTED, folder, *command], capture_output=True, text=True)


def filled(folder: Path, left: str) -> Path:
    """A database with two trials, of which the second may stand in what was left beside it."""
    folder.mkdir()
    path, task = folder / "t.sqlite", faults.task()
    with Database(path) as database:
        database.add(task.key, "B", Trial(RECORDS, 2e-3))
    if left == "another journal":
        with sqlite3.connect(path) as connection:
            connection.execute("pragma journal_mode = delete")
        connection.close()
    if left == "a write-ahead log":
        with Database(path) as database:
            database.add(task.key, "B", Trial(RECORDS, 1e-3))
            kept = {each: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}
        for each in folder.iterdir():
            each.unlink()
        for each, content in kept.items():
            each.write_bytes(content)
        assert path.with_name("t.sqlite-wal").stat().st_size
    return path


@pytest.mark.parametrize("left", drawn.part(["nothing", "another journal", "a write-ahead log"], 2))
def test_a_database_on_a_read_only_mount_is_read_and_not_written(tmp_path: Path, left: str) -> None:
    path = filled(tmp_path / "mount", left)
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    done = mounted(path.parent, sys.executable, "-c", _READER, str(path))
    assert done.returncode == 0, done.stderr
    trials, best = (2, 1e-3) if left == "a write-ahead log" else (1, 2e-3)
    assert json.loads(done.stdout) == {"trials": trials, "best": best, "refused": ["TW0635"] * 4}
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("left", ["nothing", "a write-ahead log"])
def test_what_cannot_be_written_is_opened_as_unchanging_or_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """As on such a mount, on machines that mount nothing: SQLite says what it says there."""
    path = filled(tmp_path / "strange # 100%?", left)
    monkeypatch.setattr("tilewright.autotune.records.connect", unwritable)
    with Database(path) as database:
        assert len(database.trials(faults.task().key)) == (2 if left == "a write-ahead log" else 1)
        with pytest.raises(DatabaseBusy, match=r"TW0635.*\n.*readonly"):
            database.add(faults.task().key, "B", Trial(RECORDS, 1.0))
        with pytest.raises(DatabaseBusy, match="TW0635"):
            autotune.tune(faults.doubling(), trials=9, database=database, progress=False)


def test_one_of_an_earlier_layout_is_divided_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, task = filled(tmp_path / "folder", "another journal"), faults.task()
    with sqlite3.connect(path) as connection:
        connection.execute("alter table trials drop column mark")
        connection.execute("pragma user_version = 1")
    connection.close()
    before = path.read_bytes()
    monkeypatch.setattr("tilewright.autotune.records.connect", unwritable)
    with Database(path) as database:
        assert [trial.seconds for trial in database.trials(task.key)] == [2e-3]
        with pytest.raises(DatabaseBusy, match="TW0635"):
            database.add(task.key, "B", Trial(RECORDS, 1.0))
    assert path.read_bytes() == before and [*path.parent.iterdir()] == [path]


def unwritable(path: Path) -> sqlite3.Connection:
    raise _told(path)


def _told(path: Path) -> sqlite3.Error:
    """The error of SQLite's for a file whose folder cannot be written."""
    try:
        sqlite3.connect(path.parent / "no folder" / "t.sqlite").execute("select 1")
    except sqlite3.Error as error:
        return error
    raise AssertionError


def test_a_copy_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "folder", "a write-ahead log")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    read_only(path).close()
    assert [*(tmp_path / "temporary").iterdir()] == []
