"""A fault of our own becomes an InternalError that names a folder with all that is needed to repeat it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import CATALOGUE, InternalError
from tilewright.codegen.llvm import pipeline
from tilewright.driver import reproduction_bundle
from tilewright.ir import Function, equal, parse
from tilewright.schedule.model.serialise import from_json


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(reproduction_bundle, "_WRITTEN", {})


def program() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((30,), name="A")
    B = te.compute((30,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=8)
    return s, [A, B]


def faulty(function: Function) -> Function:
    """A pass that is wrong."""
    raise KeyError("no such buffer")


def folder_of(error: BaseException) -> Path:
    named = re.search(r"to repeat it: (\S+)$", str(error))
    assert named is not None
    return Path(named[1])


def test_a_faulty_pass_leaves_a_folder_that_repeats_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline, "hoist_invariants", faulty)
    s, args = program()
    with pytest.raises(
        tw.InternalError, match=r"pass 'hoist' failed on function 'add': KeyError: 'no such buffer'"
    ) as caught:
        tw.build(s, args, target="llvm", name="add")
    assert not isinstance(caught.value, tw.TilewrightError)
    assert isinstance(caught.value.__cause__, KeyError)
    folder = folder_of(caught.value)
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o77 == 0, "a program is nobody else's business"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(texts) == {
        "README.txt",
        "error.txt",
        "program.py",
        "schedule.py",
        "records.json",
        "before_hoist.ir",
        "versions.txt",
        "target.txt",
    }
    assert texts["program.py"] == Path(__file__).read_text()
    assert "raise KeyError" in texts["error.txt"]
    assert "numpy " + np.__version__ in texts["versions.txt"]
    assert texts["target.txt"] == "llvm\n"
    assert parse(texts["before_hoist.ir"]).name == "add"


def test_what_the_folder_holds_makes_the_schedule_again(monkeypatch: pytest.MonkeyPatch) -> None:
    s, args = program()
    monkeypatch.setattr(pipeline, "hoist_invariants", faulty)
    with pytest.raises(tw.InternalError, match="pass 'hoist'") as caught:
        tw.build(s, args)
    folder, ops = folder_of(caught.value), [args[-1].op]
    again = te.Schedule.replay(from_json((folder / "records.json").read_text()), ops)
    names: dict[str, Any] = {"te": te, "ops": ops}
    exec((folder / "schedule.py").read_text(), names)
    for schedule in (again, names["s"]):
        assert equal(tw.lower(schedule, args), tw.lower(s, args))


def test_a_fault_while_lowering_and_one_that_knows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise InternalError("bounds of nothing", {"region.txt": "[0, 0)"})

    monkeypatch.setattr("tilewright.schedule.lowering.lower.infer_bounds", wrong)
    s, args = program()
    with pytest.raises(tw.InternalError, match=r"^bounds of nothing\n  to repeat it: ") as caught:
        tw.lower(s, args)
    folder = folder_of(caught.value)
    assert (folder / "region.txt").read_text() == "[0, 0)"
    assert ".split(" in (folder / "schedule.py").read_text()


def test_one_fault_is_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline, "hoist_invariants", faulty)
    s, args = program()
    named = set()
    for _ in range(3):
        with pytest.raises(tw.InternalError, match="pass 'hoist'") as caught:
            tw.build(s, args)
        named.add(folder_of(caught.value))
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == named
    assert len(named) == 1


def test_a_module_of_several_tells_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "hoist_invariants", faulty)
    s, args = program()
    with pytest.raises(tw.InternalError, match="pass 'hoist'") as caught:
        tw.build({"one": (s, args), "two": tw.lower(s, args)})
    names = {path.name for path in folder_of(caught.value).iterdir()}
    assert {"one_0_schedule.py", "one_0_records.json", "two_function.ir"} <= names


def test_where_nothing_can_be_written_the_fault_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(pipeline, "hoist_invariants", faulty)
    s, args = program()
    with pytest.raises(tw.InternalError, match="no folder could be written"):
        tw.build(s, args)


def test_errors_of_users_leave_no_folder(tmp_path: Path) -> None:
    s, args = program()
    with pytest.raises(tw.LoweringError, match="TW0330"):
        tw.build(s, args[1:])
    assert not list(tmp_path.iterdir())
    assert InternalError not in CATALOGUE.values()
