"""Writes the files of this release that later releases must read or refuse: `python tests/formats/make_files.py v1.0`.

Run once for a release; files of a release are never written again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.autotune.json_lines import Line, write_line
from tilewright.autotune.records import Database
from tilewright.autotune.task import Task
from tilewright.autotune.trial import Trial
from tilewright.ir.text.printer import file_text
from tilewright.schedule import to_json

HERE = Path(__file__).resolve().parent


def scaled() -> tuple[te.Schedule, list[te.Tensor]]:
    """A schedule of 100 products, split and vectorized."""
    a = te.placeholder((100,), name="A")
    b = te.compute((100,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    return s, [a, b]


def write_database(path: Path, line: str) -> None:
    """Write a database of one trial, without the journal that SQLite keeps beside it."""
    with tempfile.TemporaryDirectory() as folder:
        with Database(Path(folder, "tune.sqlite")) as database:
            database.import_lines([line])
        with sqlite3.connect(Path(folder, "tune.sqlite")) as connection:
            connection.execute("pragma journal_mode = delete")
        connection.close()
        shutil.copy(Path(folder, "tune.sqlite"), path)


def write_cached_kernel(path: Path) -> None:
    """Build with a cache of its own, and copy the entry."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": folder}
        s, args = scaled()
        tw.build(s, args)
        (entry,) = Path(folder, "kernels").glob("*.kernel")
        shutil.copy(entry, path)


def main(folder: Path) -> None:
    """Write one file of each kind that is not there."""
    folder.mkdir(exist_ok=True)
    s, args = scaled()
    (folder / "scaled.ir").write_text(file_text(tw.lower(s, args, name="scaled")))
    (folder / "records.json").write_text(to_json(s.records) + "\n")
    trial = Trial(to_json(s.records), 1e-3)
    key = replace(Task.of(args).key, target="llvm (haswell, 256 bits)", machine="a processor of that time, 2 threads")
    (folder / "trials.jsonl").write_text(write_line(Line(key, "B", 2e-3, trial)) + "\n")
    write_database(folder / "tune.sqlite", write_line(Line(key, "B", 2e-3, trial)))
    write_cached_kernel(folder / "scaled.kernel")
    b = tw.graph.Builder("net")
    x = b.input("x", ("n", 4))
    b.output("y", b.node("relu", b.node("matmul", x, b.param("w", np.arange(8, dtype="float32").reshape(4, 2)))))
    b.graph().save(folder / "net.safetensors")
    library = tw.build(s, args, target="llvm -mcpu=x86-64", name="scaled").export(
        folder / "libscaled.so", threads="none"
    )
    for path in library:
        if path.suffix not in (".so", ".h"):
            path.unlink()


if __name__ == "__main__":
    main(HERE / sys.argv[1])
