"""What a type checker sees of the package that users install."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
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

MIGRATED = """\
import numpy as np
from tilewright.compat import tvm
from tilewright.compat.tvm import autotvm, te, topi

@autotvm.template("add")
def add(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: te.exp(a[i]) + b[i], name="c")
    s = te.create_schedule(c.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", c.op.axis[0], num_outputs=2)
    outer, inner = cfg["tile"].apply(s, c, c.op.axis[0])
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return s, [a, b, c]

s, args = add(64)
with tvm.transform.PassContext(opt_level=3):
    f = tvm.build(s, args, tvm.target.Target("llvm"), name="add")
dev = tvm.cpu(0)
x, y = tvm.nd.array(np.ones(64, "float32"), dev), tvm.nd.empty((64,), "float32", dev)
f(x, x, y)
print(f.time_evaluator(f.entry_name, dev, number=3)(x, x, y).mean, tvm.lower(s, args, simple_mode=True), topi.nn.relu(args[0]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in which the package lies as it is installed, beside programs that use it."""
    folder = tmp_path_factory.mktemp("user")
    site = folder / "venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    left_out = shutil.ignore_patterns(".*", "tests", "tutorials", "tools", "docs", "build", "out", "__pycache__")
    shutil.copytree(ROOT, site / "tilewright", ignore=left_out)
    (site / "numpy").symlink_to(Path(np.__file__).parent)
    (folder / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "typeCheckingMode": "strict",
                "venvPath": ".",
                "venv": "venv",
                "include": ["program.py", "migrated.py", "mistakes.py"],
            }
        )
    )
    (folder / "program.py").write_text(PROGRAM.read_text())
    (folder / "migrated.py").write_text(MIGRATED)
    (folder / "mistakes.py").write_text(MISTAKES)
    return folder


def test_a_users_program_is_strictly_typed_and_mistakes_are_found(folder: Path) -> None:
    pytest.importorskip("pyright")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", folder], capture_output=True, text=True
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    ours = [(Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"]) for one in found]
    assert [one for one in ours if one[0] in ("program.py", "migrated.py")] == []
    assert {line for name, line, _ in ours if name == "mistakes.py"} == {3, 4, 5, 7, 8}


def test_the_program_runs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROGRAM], cwd=tmp_path, check=True, capture_output=True)
