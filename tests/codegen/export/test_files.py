"""What killed exports leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.export.files import write_text_file, write_together


def test_what_killed_writers_left_beside_a_file_goes_with_the_next_one_that_writes_it(tmp_path: Path) -> None:
    """What is an hour old; another process may be writing what is younger, and other names are none of ours."""
    left, young, other = (
        tmp_path / name for name in (".lib.so.0123456789abcdef", ".lib.so.fedcba9876543210", ".lib.so.swp")
    )
    for file in (left, young, other):
        file.write_bytes(b"half")
    for file in (left, other):
        os.utime(file, (time.time() - 7200,) * 2)
    write_together({tmp_path / "lib.so": (b"whole", 0o644)})
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([young.name, other.name, "lib.so"])
    assert (tmp_path / "lib.so").read_bytes() == b"whole"


@pytest.fixture(scope="module")
def kernel() -> tw.Kernel:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    return tw.build(te.create_schedule(b.op), [a, b])


@pytest.mark.parametrize("path", [5, None, 1.5, b"libx.so", [], "lib\0.so", "lib\udc80.so", "lib\n.so"], ids=repr)
def test_what_is_no_path_is_refused(kernel: tw.Kernel, path: Any) -> None:
    with pytest.raises(tw.ExportError, match="TW0705"):
        kernel.export(path)
    with pytest.raises(tw.ExportError, match="TW0705"):
        write_text_file(path, "a page")


@pytest.mark.parametrize("threads", [[], {}, None, 5, "many"], ids=repr)
def test_what_is_no_way_of_threads_is_refused(kernel: tw.Kernel, threads: Any, tmp_path: Path) -> None:
    with pytest.raises(tw.ExportError, match="TW0702"):
        kernel.export(tmp_path / "libx.so", threads=threads)


def test_folders_that_are_missing_or_in_the_place_of_a_file_are_refused(kernel: tw.Kernel, tmp_path: Path) -> None:
    (tmp_path / "libx.so").mkdir()
    for place in (tmp_path / "libx.so", tmp_path / "missing" / "libx.so"):
        with pytest.raises(tw.ExportError, match="TW0705"):
            kernel.export(place, threads="none")
        with pytest.raises(tw.ExportError, match="TW0705"):
            write_text_file(place, "a page")
    assert write_text_file(tmp_path / "page.html", "\u00e9").read_text("utf-8") == "\u00e9"


IN_ASCII = r"""
import sys
import tilewright as tw
from tilewright import te
assert sys.getfilesystemencoding() == "ascii"
a = te.placeholder((4,), name="A")
b = te.compute((4,), lambda i: a[i] + 1, name="B")
s = te.create_schedule(b.op)
kernel = tw.build(s, [a, b])
for enter in (lambda: kernel.export("lib\u00e9.so"), lambda: tw.load("lib\u00e9.so"), lambda: s.show("\u00e9.html")):
    try:
        enter()
    except tw.ExportError as error:
        print(error.code)
"""


def test_names_that_the_file_system_cannot_hold_are_refused(tmp_path: Path) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", IN_ASCII], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split(), done.returncode) == (["TW0705", "TW0741", "TW0705"], 0), done.stderr
