"""`tilewright opt`: passes over IR text, and refusals."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright import te
from tilewright.cli import main
from tilewright.ir import equal, parse


@pytest.fixture
def scaled(tmp_path: Path) -> str:
    """A file with a function whose vectorized loop has a guard."""
    a = te.placeholder((100,), name="A")
    b = te.compute((100,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    path = tmp_path / "scaled.ir"
    path.write_text(f"{tw.lower(s, [a, b], name='scaled')}\n")
    return str(path)


def test_named_passes_run_in_order(scaled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", scaled, "--passes", "loop_partition, simplify"]) == 0
    text = capsys.readouterr().out
    assert "for i.outer in 12" in text and "likely" in text.split("for i.inner")[2] and "ramp" not in text


def test_the_result_is_read_again(scaled: str, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of half the pipeline give what one run of the whole does."""
    assert main(["opt", scaled, "--list"]) == 0
    names = capsys.readouterr().out.split()
    half = str(tmp_path / "half.ir")
    assert main(["opt", scaled, "--passes", ",".join(names[:14]), "-o", half]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(half).read_text()))
    assert main(["opt", "-", "--passes", ",".join(names[14:])]) == 0
    twice = capsys.readouterr().out
    assert main(["opt", scaled]) == 0
    assert equal(parse(twice), parse(capsys.readouterr().out))


def test_each_change_is_printed(scaled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", scaled, "--target", "c", "--bounds-check", "--print-each"]) == 0
    text = capsys.readouterr().out
    assert "# cse (no change)\n" in text and '# flatten\n@attrs(stage="flat")' in text and "# bound_checks" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passes", "vectorise"], "unknown pass vectorise: the pipeline has target_facts, .*vectorize"),
        (["--target", "cuda -emulate"], "the passes of target 'cuda' do not run on one function"),
    ],
)
def test_wrong_usage_is_2(scaled: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["opt", scaled, *arguments])
    assert re.search(message, " ".join(capsys.readouterr().err.split()))


def test_a_text_that_is_no_function_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.ir").write_text("def f(A: float32[4]):\n    A[0] =\n")
    assert main(["opt", str(tmp_path / "bad.ir")]) == 1
    assert "TW030" in capsys.readouterr().err
    (tmp_path / "bad.ir").write_bytes(b"\x9a")
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["opt", str(tmp_path / "bad.ir")])
    assert "is not text in UTF-8" in capsys.readouterr().err


def test_a_reader_that_ends_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "tilewright", "opt", "--list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_verbose_commands_log_below_the_packages_name(scaled: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tilewright")
    before = list(logger.handlers)
    try:
        assert main(["--verbose", "opt", scaled, "--list"]) == 0
        assert logger.level == logging.INFO and len(logger.handlers) == len(before) + 1
    finally:
        logger.setLevel(logging.NOTSET)
        logger.handlers[:] = before
