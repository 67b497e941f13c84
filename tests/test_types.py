"""What a type checker sees of the package that users install."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "support" / "typed_program.py"

MISTAKES = """\
from tilewright import te, topi
import tilewright as tw
te.reduceaxis((0, 4))
topi.sotfmax(1)
tw.autotune_all
a = te.placeholder((4,))
number: int = a[0]
tw.build([a]).tiem()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in which the package lies as it is installed, beside programs that use it."""
    folder = tmp_path_factory.mktemp("user")
    left_out = shutil.ignore_patterns(".*", "tests", "tutorials", "tools", "docs", "build", "out", "__pycache__")
    shutil.copytree(ROOT, folder / "site" / "tilewright", ignore=left_out)
    (folder / "pyrightconfig.json").write_text(json.dumps(
        {"typeCheckingMode": "strict", "extraPaths": ["site"], "include": ["program.py", "mistakes.py"]}))
    (folder / "program.py").write_text(PROGRAM.read_text())
    (folder / "mistakes.py").write_text(MISTAKES)
    return folder


def test_a_users_program_is_strictly_typed_and_mistakes_are_found(folder: Path) -> None:
    pytest.importorskip("pyright")
    done = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", folder],
                          capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    ours = [(Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"]) for one in found]
    assert [one for one in ours if one[0] == "program.py"] == []
    assert {line for name, line, _ in ours if name == "mistakes.py"} == {3, 4, 5, 7, 8}


def test_the_program_runs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROGRAM], cwd=tmp_path, check=True, capture_output=True)
