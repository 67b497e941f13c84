"""Programs that fail under the command line: told as Python tells it, without the frames of tilewright."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright.cli import main

SCRIPTS = {
    "no Python": (b"def f(:\n  pass\n", "SyntaxError: invalid syntax", 4),
    "null bytes": (b"x = 1\0\n", "SyntaxError: source code", 2),
    "no UTF-8": (b'x = "\xff"\n', "SyntaxError: (unicode error)", 4),
    "a lacking module": (b"import nosuchmodule\n", "ModuleNotFoundError: No module named 'nosuchmodule'", 4),
    "a fault of its own": (b"def f():\n  return 1 / 0\nf()\n", "ZeroDivisionError: division by zero", 7),
}


@pytest.mark.parametrize("case", SCRIPTS)
@pytest.mark.parametrize("command", ["run {}", "report {}", "tune {}:f", "export {}:f libf.so"])
def test_a_failing_program_is_told_briefly(
    case: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, last, most = SCRIPTS[case]
    Path("program.py").write_bytes(text)
    assert main(command.format("program.py").split()) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(last) and len(lines) <= most
    assert 'File "program.py"' in "\n".join(lines[:2]) and not any("runpy" in line for line in lines)


def test_a_function_that_fails_is_told_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text("def f():\n    return {}['k']\n", encoding="utf-8")
    for command in ("tune program.py:f", "export program.py:f libf.so", "report program.py:f"):
        assert main(command.split()) == 1
        assert capsys.readouterr().err.splitlines()[1:] == [
            '  File "program.py", line 2, in f',
            "    return {}['k']",
            "           ~~^^^^^",
            "KeyError: 'k'",
        ]


def test_a_function_that_takes_arguments_and_a_path_that_is_too_long_are_told_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text("def f(x):\n    return x\n", encoding="utf-8")
    for command in ("tune program.py:f", "export program.py:f libf.so", "report program.py:f"):
        assert main(command.split()) == 1
        assert "f cannot be called with what is given: missing a required argument: 'x'" in capsys.readouterr().err
    for command in ("run {}", "tune {}:f", "export {}:f libf.so", "report {}:f", "report {}.py"):
        assert main(command.format("x" * 5000).split()) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err
