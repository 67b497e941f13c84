"""Kernels as C become WebAssembly, as docs/libraries.md shows it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest
import tilewright as tw
from exported import run
from tilewright import te

PAGE = Path(__file__).resolve().parents[3] / "docs" / "libraries.md"

pytestmark = pytest.mark.skipif(
    not shutil.which("node") or importlib.util.find_spec("ziglang") is None,
    reason="node or the ziglang package is not here",
)


def test_the_program_of_the_page_runs_under_node(tmp_path: Path) -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: te.exp(A[i]) * 3, name="B")
    tw.build([A, B], target="c", name="grow").export(tmp_path / "grow.c", threads="none")
    page = PAGE.read_text().partition("## WebAssembly")[2]
    command = re.findall(r"^ +zig (cc .*)$", page, re.MULTILINE)[0].split()
    done = run([sys.executable, "-m", "ziglang", *command], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "run.mjs").write_text(re.findall(r"```js\n(.*?)```", page, re.DOTALL)[0])
    done = run(["node", "run.mjs"], cwd=tmp_path)
    assert done.stdout.startswith("0 8.1548"), done.stderr
