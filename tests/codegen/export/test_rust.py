"""Programs in Rust that call a library, as docs/libraries.md shows them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import tilewright as tw
from exported import run
from tilewright import te, topi

PAGE = Path(__file__).resolve().parents[3] / "docs" / "libraries.md"
RUSTC = shutil.which("rustc", path=os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / ".cargo/bin")]))

pytestmark = pytest.mark.skipif(RUSTC is None, reason="no rustc here")


@pytest.mark.parametrize("suffix", ["so", "a"])
def test_the_program_of_the_page_runs(tmp_path: Path, suffix: str) -> None:
    library = tw.Library("layers")
    for rows, columns, depth in ((64, 32, 16), (8, 8, 8)):
        A, B = te.placeholder((rows, depth), name="A"), te.placeholder((depth, columns), name="B")
        library.add("dense", [A, B, topi.matmul(A, B)])
    library.export(tmp_path / f"liblayers.{suffix}", threads="none")
    program = re.findall(r"```rust\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    (tmp_path / "program.rs").write_text(program)
    kind = "layers" if suffix == "so" else "static=layers"
    done = run([RUSTC, "--edition", "2021", "program.rs", "-L", ".", "-l", kind], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run([tmp_path / "program"], env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.stdout == "16\n", done.stderr
