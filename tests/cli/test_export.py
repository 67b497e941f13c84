"""`tilewright export FILE.py:FUNCTION LIBRARY` and `tilewright export LIBRARY.toml`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import needs_x86
from tilewright.cli import main

PROGRAM = """
from tilewright import te

def halve():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 0.5, name="B")
    return te.create_schedule(B), [A, B]

def both():
    A = te.placeholder((8,), name="A")
    return {"thrice": [A, te.compute((8,), lambda i: A[i] * 3, name="B")], "halve": halve()}

listed = halve()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(PROGRAM)
    return tmp_path / "kernels.py"


def test_a_function_becomes_a_library(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "libhalve.so"
    assert main(["export", f"{program}:halve", str(library), "--threads", "none"]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / name) for name in ("libhalve.so", "halve.h", "halve.json")
    ]
    out = np.empty(8, np.float32)
    tw.load(library)(np.ones(8, np.float32), out)
    assert (out == 0.5).all()
    assert main(["export", f"{program}:halve", str(library), "--name", "in_half"]) == 0
    assert tw.load(library).name == "in_half"


def test_a_list_becomes_a_library_by_its_name(program: Path, tmp_path: Path) -> None:
    assert main(["export", f"{program}:listed", str(tmp_path / "libx.so")]) == 0
    assert tw.load(tmp_path / "libx.so").name == "listed"


def test_a_dict_becomes_a_library_of_several(program: Path, tmp_path: Path) -> None:
    assert main(["export", f"{program}:both", str(tmp_path / "libboth.so")]) == 0
    assert set(tw.load(tmp_path / "libboth.so")) == {"thrice", "halve"}


def test_what_cannot_be_exported_is_said_in_a_line(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in (f"{program}:nothing", "nowhere.py:f", "kernels.py"):
        assert main(["export", source, str(tmp_path / "libx.so")]) == 2
        assert "is given as FILE.py:FUNCTION" in " ".join(capsys.readouterr().err.split())
    assert main(["export", f"{program}:halve", str(tmp_path / "libx.exe")]) == 1
    assert "TW0701" in capsys.readouterr().err
    assert main(["export", f"{program}:halve", str(tmp_path / "libx.so"), "--tuned", "misspelt.sqlite"]) == 1
    assert "TW0633: there is no database 'misspelt.sqlite'" in capsys.readouterr().err
    assert not list(tmp_path.glob("libx*")) and not Path("misspelt.sqlite").exists()


LIBRARY = """
name = "shapes"
version = "2.1"
target = ["llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3"]
threads = "none"

[[function]]
source = "sized.py:doubled"
arguments = { rows = 8 }

[[function]]
source = "sized.py:doubled"
arguments = { rows = 3, dtype = "float64" }

[[function]]
name = "halve"
source = "kernels.py:halve"
"""

SIZED = """
from tilewright import te

def doubled(rows, dtype="float32"):
    A = te.placeholder((rows,), dtype, name="A")
    return [A, te.compute((rows,), lambda i: A[i] * 2, name="B")]
"""


@pytest.fixture
def listed(program: Path) -> Path:
    (program.parent / "sized.py").write_text(SIZED)
    (program.parent / "shapes.toml").write_text(LIBRARY)
    return program.parent / "shapes.toml"


@needs_x86
def test_a_folder_that_is_named_is_made(listed: Path, tmp_path: Path) -> None:
    assert main(["export", str(listed), f"{tmp_path}/build/deep"]) == 0
    assert (tmp_path / "build" / "deep" / "libshapes.so").exists()
    assert "\nVersion: 2.1\n" in (tmp_path / "build" / "deep" / "shapes.pc").read_text()


@needs_x86
def test_a_file_lists_the_functions_of_a_library(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(listed), str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / name) for name in ("libshapes.so", "shapes.h", "shapes.json")
    ]
    module = tw.load(tmp_path / "libshapes.so")
    assert list(module) == ["doubled", "doubled_1", "doubled_2", "halve"]
    out = np.empty(3)
    module["doubled"](np.ones(3), out)
    assert (out == 2).all()
    assert "x86-64-v3" in (tmp_path / "shapes.h").read_text()


@pytest.mark.parametrize(
    ("changed", "by", "reason"),
    [
        ('name = "shapes"', "", "name is missing"),
        ("threads =", "thread =", "it has a key 'thread'"),
        ('threads = "none"', "threads = 3", "threads is 3"),
        ('version = "2.1"', "version = '2\"'", "TW0703"),
        ("[[function]]", "[function]", "function"),
        ('"llvm -mcpu=x86-64-v2", ', "7, ", "target is"),
        ('source = "kernels.py:halve"', "", "source is missing"),
        ("kernels.py:halve", "kernels.py:nothing", "is not a function of a file"),
        ("kernels.py:halve", "../..:halve", "is not a function"),
        ("rows = 8", "columns = 8", "does not take its arguments"),
        ("rows = 8", "rows = ", "Invalid value"),
        ("rows = 8", "rows = " + "[" * 3000, "recursion"),
        ('name = "shapes"', 'name = "a b"', "TW0703"),
        ('name = "halve"', 'name = "class"', "TW0703"),
        ('name = "halve"', "name = 'a\"b'", "TW0422"),
        ('threads = "none"', 'threads = "nine"', "TW0702"),
        ('threads = "none"', 'tuned = "misspelt.sqlite"', "TW0633"),
    ],
)
def test_a_file_that_lists_no_library_is_refused(
    listed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changed: str,
    by: str,
    reason: str,
) -> None:
    assert changed in LIBRARY
    listed.write_text(LIBRARY.replace(changed, by).replace('"llvm -mcpu=x86-64-v3"', ""))
    assert main(["export", str(listed), str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert ("TW0711" in said or reason.startswith("TW")) and reason in said
    assert not list(tmp_path.glob("*.so"))


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("misspelt.py:blur", "misspelt.py"):
        assert main(["export", source, "libblur.so"]) == 2
        assert "there is no file 'misspelt.py'" in capsys.readouterr().err
    assert main(["export", "misspelt.toml", "build/"]) == 1
    assert "there is no such file" in capsys.readouterr().err
