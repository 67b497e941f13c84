"""The command line: what it prints, and its exit statuses 0 (done), 1 (failed) and 2 (usage)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import __version__
from tilewright.cli import main
from tilewright.cli.doctor import examine
from tilewright.ir.text.parser import parse

PROGRAM = """
import sys
import numpy as np
import tilewright as tw
from tilewright import te

A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B)
outer, inner = s[B].split(B.op.axis[0], 16)
s[B].vectorize(inner)
f = tw.build(s, [A, B], name="increment")
b = np.zeros(64, "float32")
f(np.ones(64, "float32"), b)
print("result", b[0], __name__, sys.argv[1:])
"""
REFUSED = """
from tilewright import te
A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] + 1, name="B")
te.create_schedule(B)[B].split(B.op.axis[0], factor=0)
"""


def written(folder: Path, text: str, name: str = "program.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def usage_error(*arguments: str) -> bool:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(list(arguments))
    return True


def test_run_passes_arguments_on_and_returns_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.argv), list(sys.path)
    assert main(["run", written(tmp_path, PROGRAM), "--fast", "3"]) == 0
    assert capsys.readouterr().out == "result 2.0 __main__ ['--fast', '3']\n"
    assert (sys.argv, sys.path) == before


def test_run_finds_modules_beside_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "VALUE = 41", "beside_the_program.py")
    assert main(["run", written(tmp_path, "from beside_the_program import VALUE\nprint(VALUE + 1)")]) == 0
    assert capsys.readouterr().out == "42\n"


def test_run_prints_a_users_error_without_a_traceback_and_returns_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", written(tmp_path, REFUSED)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ScheduleError TW0206: cannot split 'i' of stage B\n")
    assert "called at program.py:5: te.create_schedule(B)[B].split(B.op.axis[0], factor=0)\n" in told
    assert "      for i in 64:\n          ^\n" in told
    assert "Traceback" not in told


def test_run_hands_on_how_the_program_exits(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^5$"):
        main(["run", written(tmp_path, "import sys; sys.exit(5)")])


def test_run_without_a_file_to_run_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error("run")
    assert "FILE.py --demo is required" in capsys.readouterr().err
    assert usage_error("run", "--demo", written(tmp_path, PROGRAM))
    assert "not allowed with argument --demo" in capsys.readouterr().err
    for nothing in (tmp_path / "absent.py", tmp_path):
        assert main(["run", str(nothing)]) == 2
        assert capsys.readouterr().err == f"tilewright run: no file {nothing}\n"


def test_unknown_and_missing_commands_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error()
    assert usage_error("frobnicate")
    assert "invalid choice: 'frobnicate'" in capsys.readouterr().err
    assert usage_error("doctor", "now")
    assert "unrecognized arguments: now" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--help"], ["run", "--help"]])
def test_help_returns_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(arguments)
    assert capsys.readouterr().out.startswith("usage: tilewright")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"tilewright {__version__}\n"


def test_time_passes_lists_every_pass_in_order_and_their_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--time-passes", written(tmp_path, PROGRAM)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("result 2.0")
    rows = dict(line.split() for line in told.err.splitlines() if len(line.split()) == 2 and "." in line)
    passes = [name for name in rows if name != "total"]
    assert passes.index("lower_threads") < passes.index("simplify") < passes.index("vectorize")
    assert float(rows["total"]) == pytest.approx(sum(float(rows[name]) for name in passes), abs=0.01 * len(passes))
    assert float(rows["total"]) > 0


def test_dump_writes_the_program_after_each_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path / "dump"))
    assert main(["run", written(tmp_path, PROGRAM)]) == 0
    *files, loops = sorted((tmp_path / "dump" / "increment").iterdir())
    assert loops.name.startswith("loops.") and "for i" in loops.read_text()
    assert [int(file.name[:2]) for file in files] == list(range(len(files)))
    assert files[0].name == "00_lowered.ir"
    assert "vectorized" in files[0].read_text()
    assert "vectorized" not in files[-1].read_text()
    assert all(parse(file.read_text()).name == "increment" for file in files)


def test_doctor_names_each_part_and_says_why_one_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    findings = examine()
    parts = {finding.part for finding in findings}
    assert {
        "Python",
        "LLVM",
        "CPU",
        "CPU features",
        "threads",
        "CUDA driver",
        "pycuda or cuda-bindings",
        "nvidia-cuda-nvrtc",
        "cc",
        "tilewright",
        "numpy",
        "xgboost",
        "cache",
        "database",
    } <= parts
    assert all(part in told for part in parts)
    assert all(finding.detail for finding in findings)
    lines = [line for line in told.splitlines() if line.split()[:1] in (["ok"], ["--"])]
    assert [line.split()[0] == "ok" for line in lines] == [finding.found for finding in findings]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in told


def test_the_module_is_the_command(tmp_path: Path) -> None:
    def status(*arguments: str) -> int:
        command = [sys.executable, "-m", "tilewright", *arguments]
        return subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=tmp_path).returncode

    assert status("run", written(tmp_path, "print('done')")) == 0
    assert status("run", written(tmp_path, REFUSED)) == 1
    assert status("run") == 2


# tilewright report of a schedule

SCHEDULES = """
from tilewright import te
A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B)
s[B].vectorize(s[B].split(B.op.axis[0], 16)[1])
def whole():
    return s
def with_arguments():
    return s, [A, B]
def tensors():
    return [A, te.compute((8,), lambda i: A[i] * 2, name="D")]
listed = [A, te.compute((8,), lambda i: A[i] * 2, name="E")]
number = 3
def no_schedule():
    return 3
"""


@pytest.mark.parametrize(
    ("function", "title", "shown"),
    [
        ("", "B", "vectorize(i_inner)"),
        (":whole", "B", "vectorize(i_inner)"),
        (":with_arguments", "B", "vectorize(i_inner)"),
        (":tensors", "D", "vectorize("),
        (":s", "B", "vectorize(i_inner)"),
        (":listed", "E", "vectorize("),
    ],
)
def test_report_writes_the_page_about_a_schedule(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    function: str,
    title: str,
    shown: str,
) -> None:
    out = tmp_path / "page.html"
    assert main(["report", written(tmp_path, SCHEDULES) + function, "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    text = out.read_text()
    assert f"<title>{title} · schedule</title>" in text and shown in text and 'aria-label="assembly"' in text


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (":nothing", "has no 'nothing': it has "),
        (":number", "gives no schedule"),
        (":no_schedule", "gives no schedule"),
    ],
)
def test_report_says_what_is_no_schedule(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    function: str,
    message: str,
) -> None:
    assert main(["report", written(tmp_path, SCHEDULES) + function]) == 2
    assert message in capsys.readouterr().err
    assert main(["report", written(tmp_path, "x = 1")]) == 2
    assert "gives no schedule; name it: FILE.py:NAME" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none.py")]) == 2
    assert "no file" in capsys.readouterr().err


def test_report_of_a_database_that_is_not_there_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none.sqlite")]) == 1
    assert "none.sqlite" in capsys.readouterr().err


def test_explain_prints_the_page_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for code in ("TW0203", "tw0203", "203"):
        assert main(["explain", code]) == 0
        page = capsys.readouterr().out
        assert "VectorizeReduction" in page and "s.rfactor(B, k)" in page
    assert main(["explain", "TW0230"]) == 1
    assert re.search(r"did you mean .*TW0830", capsys.readouterr().err)


def test_an_error_of_a_command_names_no_line_but_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "best", str(tmp_path / "none.sqlite")]) == 1
    told = capsys.readouterr().err
    assert "there is no database" in told and "called at" not in told, "nobody's line asked for it"
    assert "page: tilewright explain TW0633" in told


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in ("doctor", "opt", "reduce", "tune"):
        assert command in script
    assert "--print-each" in script


def test_completion_without_shtab_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "pip install 'tilewright[completion]'" in capsys.readouterr().err
