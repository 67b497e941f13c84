"""The fuzzer itself: it repeats, makes failures smaller, writes programs that fail on their own, and knows what it reached."""

from __future__ import annotations

import base64
import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import planted_bugs
import pytest
import tilewright as tw
from tilewright import te
from tilewright.cli import main
from tilewright.ir import equal
from tilewright.tools.fuzz import Failure, Options, Program, check, drawn_program, shrink
from tilewright.tools.fuzz.aim import aimed_cases
from tilewright.tools.fuzz.case import draw_case, run_case
from tilewright.tools.fuzz.choices import Choices, case_choices, replay_choices
from tilewright.tools.fuzz.coverage import OPERATIONS, Coverage, illegal
from tilewright.tools.fuzz.epilogue import add_window_sums
from tilewright.tools.fuzz.guard import Guarded
from tilewright.tools.fuzz.large import draw_large
from tilewright.tools.fuzz.programs import PROGRAMS, draw_program
from tilewright.tools.fuzz.schedules import PRIMITIVES
from tilewright.tools.fuzz.source import Unwritable, program_source
from tilewright.tools.fuzz.workers import run_all, worker_command
from tilewright.views.sparse import SparseArray, sparse


def test_choices_replay_and_end_in_zeros() -> None:
    drawn_once = case_choices(5, 3)
    made = [
        drawn_once.below(10),
        drawn_once.number(-2, 2),
        drawn_once.pick("abc"),
        drawn_once.chance(0.5),
        drawn_once.permutation(4),
        drawn_once.pick_weighted([(1, "x"), (2, "y")]),
    ]
    again = replay_choices(drawn_once.made)
    assert made == [
        again.below(10),
        again.number(-2, 2),
        again.pick("abc"),
        again.chance(0.5),
        again.permutation(4),
        again.pick_weighted([(1, "x"), (2, "y")]),
    ]
    assert (again.below(9), again.chance(0.99), again.permutation(3)) == (0, False, [0, 1, 2])
    assert Choices(None, [7]).below(3) == 2


@pytest.mark.parametrize("kind", range(len(PROGRAMS)), ids=[draw.__name__ for _, draw in PROGRAMS])
def test_every_kind_of_program_is_drawn_again_by_its_choices_and_declared_again_by_its_source(kind: int) -> None:
    for case in range(drawn.count(2, 40)):
        choices = case_choices(drawn.SEED, case, 100 + kind)
        with np.errstate(all="ignore"):
            program = PROGRAMS[kind][1](choices)
            again = PROGRAMS[kind][1](replay_choices(choices.made))
        assert check(program, te.create_schedule(program.outputs), Options(text=False)) == ""
        lowered = lower(program)
        assert equal(lower(again), lowered)
        assert all(
            a.held == b.held if isinstance(a, SparseArray) else np.asarray(a).tobytes() == np.asarray(b).tobytes()
            for a, b in zip(program.values, again.values, strict=True)
        )
        try:
            text = program_source(program)
        except Unwritable:
            assert program.name in ("scan", "hybrid", "extern", "gradient")
            continue
        scope: dict[str, Any] = {"te": te, "np": np, "base64": base64, "ml_dtypes": ml_dtypes}
        exec(text, scope)
        declared = tw.lower(te.create_schedule(scope["ops"]), scope["args"])
        assert equal(declared, lowered) or "max" in text or "min" in text, f"{text}\n{lowered}\n{declared}"


def lower(program: Program) -> Any:
    return tw.lower(te.create_schedule(program.outputs), program.args)


def test_the_smallest_choices_make_a_program() -> None:
    program = drawn_program([])
    assert program.name == "chain"
    assert check(program, te.create_schedule(program.outputs)) == ""


def test_arrays_lie_against_pages_that_end_the_process() -> None:
    value = np.arange(10, dtype="int32")
    end, begin = Guarded(value, at_end=True, written=False), Guarded(value, at_end=False, written=False)
    assert (end.view.ctypes.data + value.nbytes) % mmap.PAGESIZE == begin.view.ctypes.data % mmap.PAGESIZE == 0
    assert end.view.tolist() == value.tolist()
    assert end.complaint() == ""
    end.view[3] = 0
    assert end.complaint() == "changed its input"
    touch = (
        "import numpy as np, sys; from tilewright.tools.fuzz.guard import Guarded; "
        "g = Guarded(np.zeros(5, 'int8'), {end}, True); "
        "import ctypes; ctypes.c_char.from_address(g.view.ctypes.data + {at}).value"
    )
    for at_end, at, status in ((True, 4, 0), (True, 5, -11), (False, 0, 0), (False, -1, -11)):
        done = subprocess.run([sys.executable, "-c", touch.format(end=at_end, at=at)], check=False)
        assert done.returncode == status, (at_end, at)


def test_a_write_beside_an_array_is_told() -> None:
    guarded = Guarded(np.zeros(3, "int8"), at_end=True, written=True)
    ctypes.c_ubyte.from_address(guarded.view.ctypes.data - 1).value = 1
    assert guarded.complaint() == "wrote outside"


def test_a_failure_is_made_smaller_and_written_as_a_program_that_fails_on_its_own(tmp_path: Path) -> None:
    """A bug is planted in a worker; what it writes fails with the bug, and holds without."""
    bug = planted_bugs.BY_NAME["wrong fuse order"]
    reports = run_all([*planted_bugs.worker(bug, 3), "3.0"], range(100), workers=2)
    report = next(one for one in reports if one["failure"])
    reports.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert report["python"].count(".fuse(") == 1
    path = tmp_path / "reproduction.py"
    path.write_text(report["python"])
    with_bug = subprocess.run(
        [sys.executable, str(Path(planted_bugs.__file__)), "--run", bug.name, str(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert with_bug.returncode == 1, with_bug.stdout
    assert "Failure: " in with_bug.stderr
    without = subprocess.run([sys.executable, str(path)], check=True, capture_output=True, text=True)
    assert without.stdout.splitlines()[-1] == "it no longer fails"


def test_a_worker_that_dies_is_one_failed_case() -> None:
    command = [sys.executable, "-c", "import sys, os\nfor line in sys.stdin: os.abort()"]
    reports = list(run_all(command, range(2), workers=1))
    assert [report["case"] for report in reports] == [0, 1]
    assert all("died of signal 6" in report["failure"] for report in reports)


def test_a_case_that_prints_has_failed() -> None:
    program = """
import os
from tilewright.tools.fuzz.workers import serve

def run(case):
    os.write(2, ["", "remark: hello", "hi", "remark: <unknown>:0:0: loop not vectorized: what LLVM says\\n"][case].encode())
    return {"case": case, "failure": ""}

serve(run)
"""
    reports = list(run_all([sys.executable, "-c", program], range(4), workers=1))
    assert [report["failure"] for report in reports] == [
        "",
        "case 1: it printed 'remark: hello'",
        "case 2: it printed 'hi'",
        "",
    ]


def test_what_a_worker_started_ends_with_its_worker(tmp_path: Path) -> None:
    told = tmp_path / "child"
    program = (
        f"import subprocess, sys\nfor line in sys.stdin:\n    child = subprocess.Popen(['sleep', '600'])\n"
        f"    open({str(told)!r}, 'w').write(str(child.pid))\n    while True: pass"
    )
    (report,) = run_all([sys.executable, "-c", program], range(1), workers=1, seconds=0.3)
    assert "no end after" in report["failure"]
    for _ in range(200):
        if not _runs(int(told.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("the worker's child still runs")


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_case_that_ends_the_process_is_made_smaller_in_copies_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(candidate: Any, options: Options, wanted: str) -> bool:
        if 3 in candidate[0] and "split" in candidate[1]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return True

    monkeypatch.setattr(shrink, "has_failure", crash)
    found = shrink.shrink([5, 3, 7, 0, 2], ["split", "fuse"], lambda one: shrink.dies(one, Options()), 20.0)
    assert found == ([3], ["split"])
    assert shrink.shrink([5], ["split"], lambda one: shrink.dies(one, Options()), 1.0) is None


def test_a_worker_writes_the_program_of_a_case_that_ended_another(tmp_path: Path) -> None:
    done = subprocess.run([*worker_command(3, "llvm"), "1"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("# case 1 of seed 3 ends the process\n")
    path = tmp_path / "reproduction.py"
    path.write_text(done.stdout)
    subprocess.run([sys.executable, str(path)], check=True, capture_output=True)


def test_the_command_writes_its_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")  # which the command sets for its whole process
    assert (
        main(["fuzz", "--seed", "1", "--cases", "3", "--workers", "0", "--target", "llvm", "--out", str(tmp_path)]) == 0
    )
    told = capsys.readouterr().out
    assert "seed 1: 3 cases, 0 failed" in told
    table = json.loads((tmp_path / "coverage.json").read_text())
    assert table["cases"] == 3
    assert len(table["coverage"]["cells"]) + len(table["coverage"]["empty"]) >= len(OPERATIONS) * 5
    assert "a reduction cannot be inlined" in table["coverage"]["illegal"]
    with pytest.raises(SystemExit, match="2"):
        main(["fuzz", "--cases", "many"])


def test_cells_are_illegal_by_a_rule_or_wanted() -> None:
    coverage = Coverage()
    coverage.add([("matmul", "float32", "split")])
    assert ("matmul", "float32", "split") not in coverage.empty
    assert ("matmul", "float64", "split") in coverage.empty
    assert illegal("elementwise", "int8", "rfactor") == "only a reduction has an axis to factor"
    assert illegal("softmax", "int8", "split") == "exponentials and divisions are of floats"
    assert illegal("gradient", "int8", "split") == "derivatives are of floats"
    assert illegal("extern", "int8", "split").startswith("an extern is a statement")
    assert illegal("matmul", "float32", "env_threads").startswith("only a recurrence has steps")
    assert not illegal("scan", "bool", "env_threads") and not illegal("extern", "int8", "compute_at")
    assert {primitive for _, _, primitive in coverage.all_cells()} == set(PRIMITIVES)


def test_one_case_is_the_same_again() -> None:
    reports = [run_case(11, 4, "llvm") for _ in range(2)]
    assert reports[0].pop("seconds") > 0 < reports[1].pop("seconds")
    assert reports[0] == reports[1]
    numbers, _, _ = draw_case(11, 4, "llvm")
    assert draw_program(numbers).name == reports[0]["name"]
    assert worker_command(11, "llvm")[-2:] == ["11", "llvm"]


def test_a_wrong_result_is_a_failure_that_names_the_element() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1, name="B")
    a = np.ones(3, "float32")
    program = Program("wrong", [A, B], [a, np.array([2, 2, 3], "float32")], [False, True])
    with pytest.raises(Failure, match=r"against numpy: B\[2\] is 2.0, expected 3.0 \(1 of 3 elements differ\)"):
        check(program, te.create_schedule(B.op))


CELLS = [("argmax", "int16", "rfactor"), ("sum", "float64", "rolling_buffer")][: drawn.count(1, 2)]
"""The second is reached by one case of hundreds."""


@pytest.mark.parametrize("cell", CELLS, ids="/".join)
def test_what_no_case_has_reached_is_aimed_at(cell: tuple[str, str, str]) -> None:
    coverage = Coverage()
    coverage.add(other for other in coverage.all_cells() if other != cell)
    assert coverage.empty == [cell]
    for report in aimed_cases(drawn.SEED, coverage, 0):
        assert not report["failure"], report["python"]
        coverage.add(report["cells"])
    assert coverage.empty == []


def test_what_stands_behind_a_program_takes_no_symbol_away() -> None:
    n = te.size_var("n")
    A = te.placeholder((4,), name="A")
    wide = te.compute((4, n), lambda i, j: A[i] + j, name="wide")
    last = te.compute((4,), lambda i: wide[i, 0] * 2, name="last")
    made = Program("chain", [A, wide, last], [np.zeros(4), np.zeros((4, 3)), np.zeros(4)], [False, True, True])
    add_window_sums(made, case_choices(1, 1, 0))
    tw.lower(te.create_schedule(made.outputs), made.args)  # n is known by the shape of `wide`


def touched_pages(array: np.ndarray[Any, Any]) -> int:
    """The pages of an array that are in memory; what the process has besides, an emulator's tables of pages, does not count."""
    first = array.ctypes.data & -mmap.PAGESIZE
    size = array.ctypes.data + array.nbytes - first
    found = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    told = ctypes.CDLL(None).mincore(
        ctypes.c_void_p(first), ctypes.c_size_t(size), found.ctypes.data_as(ctypes.c_void_p)
    )
    assert told == 0
    return int((found & 1).sum())


def test_large_extents_are_drawn_around_the_ends_of_int16_and_int32_on_memory_that_is_not_touched() -> None:
    near: set[int] = set()
    for case in range(60):
        program = draw_large(case_choices(1, case))
        shape = next(value.shape for value in program.values if isinstance(value, SparseArray))
        near |= {
            bits
            for bits in (15, 16, 31)
            for extent in (*shape, *(int(v) for v in program.values if np.ndim(v) == 0))
            if abs(extent - (1 << bits)) <= 3
        }
        near |= {32} if len(shape) == 1 and shape[0] > 1 << 31 else set()
    assert near == {15, 16, 31, 32}
    huge = sparse((1 << 34,), "int8", {(1 << 34) - 1: 7})
    guarded = Guarded(huge.copy(), at_end=True, written=False)
    assert guarded.view[-1] == 7 and huge[5] == 0
    assert touched_pages(guarded.view) < 1 << 14
    assert guarded.complaint() == ""
