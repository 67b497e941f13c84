"""Files of earlier releases are read, and files of later ones are refused by name."""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from formats.make_files import scaled
from tilewright import ir, te
from tilewright.autotune.json_lines import FORMAT, parse_line
from tilewright.autotune.layout import LAYOUT
from tilewright.autotune.records import Database
from tilewright.ir.text.printer import TEXT_VERSION, file_text
from tilewright.runtime.metadata import MAGIC, VERSION
from tilewright.schedule import from_json

HERE = Path(__file__).resolve().parent
releases = pytest.mark.parametrize("folder", sorted(HERE.glob("v*")), ids=lambda folder: folder.name)


@releases
def test_ir_text_is_read(folder: Path) -> None:
    s, args = scaled()
    text = (folder / "scaled.ir").read_text()
    function = tw.lower(s, args, name="scaled")
    assert ir.equal(ir.parse(text), function)
    assert file_text(function).startswith(f"# tilewright loop IR, version {TEXT_VERSION}\n")
    with pytest.raises(tw.LoweringError, match=r"TW0301: cannot read loop IR of version 7(.|\n)*reads version 1"):
        ir.parse(text.replace("version 1", "version 7", 1))


@releases
def test_records_replay(folder: Path) -> None:
    s, args = scaled()
    again = te.Schedule.replay(from_json((folder / "records.json").read_text()), [args[1].op])
    assert str(again) == str(s)


@releases
def test_trials_are_imported(folder: Path, tmp_path: Path) -> None:
    line = (folder / "trials.jsonl").read_text()
    with Database(tmp_path / "tune.sqlite") as database:
        assert database.import_lines([line]) == 1
        assert [task.key.machine for task in database.tasks()] == ["a processor of that time, 2 threads"]
    later = json.dumps(json.loads(line) | {"format": FORMAT + 1})
    with pytest.raises(
        tw.RecordError, match=r"TW0634(.|\n)*its format has version 2, and this release reads version 1"
    ):
        parse_line(1, later)


@releases
def test_models_are_loaded(folder: Path, tmp_path: Path) -> None:
    g = tw.graph.load(folder / "net.safetensors")
    (y,) = g.run(np.ones((3, 4), "float32"))
    np.testing.assert_array_equal(y, np.full((3, 2), [12, 16], "float32"))
    later = tmp_path / "later.safetensors"
    content = (folder / "net.safetensors").read_bytes()
    assert content.count(b'"tilewright.graph.format": "1"') == 1
    later.write_bytes(content.replace(b'"tilewright.graph.format": "1"', b'"tilewright.graph.format": "2"'))
    with pytest.raises(
        tw.GraphError, match=r"TW0905(.|\n)*its format has version '2', and this release reads version 1"
    ):
        tw.graph.load(later)


@releases
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is for x86-64")
def test_libraries_are_called_or_refused(folder: Path, tmp_path: Path) -> None:
    """A library of this version is called; one of another version is refused, and its C functions are what they were."""
    f = tw.load(folder / "libscaled.so")
    b = np.empty(100, "float32")
    f(np.arange(100, dtype="float32"), b)
    np.testing.assert_array_equal(b, np.arange(100, dtype="float32") * 2)
    later = tmp_path / "liblater.so"
    begin = MAGIC + struct.pack("<i", VERSION)
    content = (folder / "libscaled.so").read_bytes()
    assert content.count(begin) == 1
    later.write_bytes(content.replace(begin, MAGIC + struct.pack("<i", VERSION + 1)))
    with pytest.raises(tw.ExportError, match=rf"TW07\d\d(.|\n)*{VERSION + 1}"):
        tw.load(later)


@releases
def test_databases_are_opened(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "tune.sqlite", tmp_path)
    for _ in range(2):  # the first one may bring it to the layout of now
        with Database(tmp_path / "tune.sqlite") as database:
            (task,) = database.tasks()
            assert task.key.machine == "a processor of that time, 2 threads"
            assert [trial.seconds for trial in database.trials(task.key)] == [1e-3]
    with sqlite3.connect(tmp_path / "tune.sqlite") as connection:
        connection.execute(f"pragma user_version = {LAYOUT + 1}")
    connection.close()
    with pytest.raises(tw.RecordError, match=rf"TW0632(.|\n)*{LAYOUT + 1}"):
        Database(tmp_path / "tune.sqlite")


@releases
def test_cached_kernels_are_built_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of another release that lies where ours would is not run: its key names other sources."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    s, args = scaled()
    tw.build(s, args)
    (entry,) = tmp_path.glob("kernels/*.kernel")
    built, old = entry.read_bytes(), (folder / "scaled.kernel").read_bytes()
    entry.write_bytes(old)
    f = tw.build(*scaled())
    b = np.empty(100, "float32")
    f(np.arange(100, dtype="float32"), b)
    np.testing.assert_array_equal(b, np.arange(100, dtype="float32") * 2)
    assert (entry.read_bytes() == old) == (built == old), "both are true until a source is changed after a release"
