"""`tilewright export FILE.py:FUNCTION LIBRARY`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
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
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(PROGRAM)
    return tmp_path / "kernels.py"


def test_a_function_becomes_a_library(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "libhalve.so"
    assert main(["export", f"{program}:halve", str(library), "--threads", "none"]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in ("libhalve.so", "halve.h", "halve.json")]
    out = np.empty(8, np.float32)
    tw.load(library)(np.ones(8, np.float32), out)
    assert (out == 0.5).all()
    assert main(["export", f"{program}:halve", str(library), "--name", "in_half"]) == 0
    assert tw.load(library).name == "in_half"


def test_a_dict_becomes_a_library_of_several(program: Path, tmp_path: Path) -> None:
    assert main(["export", f"{program}:both", str(tmp_path / "libboth.so")]) == 0
    assert set(tw.load(tmp_path / "libboth.so")) == {"thrice", "halve"}


def test_what_cannot_be_exported_is_said_in_a_line(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (f"{program}:nothing", "nowhere.py:f", "kernels.py"):
        assert main(["export", source, str(tmp_path / "libx.so")]) == 2
        assert "it is given as FILE.py:FUNCTION" in " ".join(capsys.readouterr().err.split())
    assert main(["export", f"{program}:halve", str(tmp_path / "libx.exe")]) == 1
    assert "TW0701" in capsys.readouterr().err
