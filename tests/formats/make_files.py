"""Writes the files of this release that later releases must read or refuse: `python tests/formats/make_files.py v1.0`.

Run once for a release; files of a release are never written again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.autotune.json_lines import Line, write_line
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


def main(folder: Path) -> None:
    """Write one file of each kind."""
    folder.mkdir()
    s, args = scaled()
    (folder / "scaled.ir").write_text(file_text(tw.lower(s, args, name="scaled")))
    (folder / "records.json").write_text(to_json(s.records) + "\n")
    trial = Trial(to_json(s.records), 1e-3)
    key = replace(Task.of(args).key, target="llvm (haswell, 256 bits)", machine="a processor of that time, 2 threads")
    (folder / "trials.jsonl").write_text(write_line(Line(key, "B", 2e-3, trial)) + "\n")
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
