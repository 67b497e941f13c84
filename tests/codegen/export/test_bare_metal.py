"""Kernels as C on a microcontroller without a system: Cortex-M7 under qemu, as docs/libraries.md shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

PAGE = Path(__file__).resolve().parents[3] / "docs" / "libraries.md"
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")


def _lacking() -> str:
    """The tools that are not here, or the headers of C that its compiler lacks."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not absent:
        source = "#include <math.h>\n#include <stdlib.h>\n"
        command = [TOOLS[0], "-E", "-x", "c", "-", "-o", "/dev/null"]
        if subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode:
            absent = ["headers of C for arm-none-eabi-gcc (newlib)"]
    return ", ".join(absent)


pytestmark = pytest.mark.skipif(bool(_lacking()), reason=f"not installed: {_lacking()}")


def test_the_program_of_the_page_runs_on_a_cortex_m7(tmp_path: Path) -> None:
    A, W = te.placeholder((1, 8, 12, 12), name="A"), te.placeholder((8, 8, 3, 3), name="W")
    rows = topi.reshape(topi.nn.relu(topi.nn.conv2d(A, W, padding=1)), (8, 144))
    args = [A, W, topi.nn.softmax(rows)]
    tw.build(args, target="c", name="layer").export(tmp_path / "layer.c", threads="none")
    assert not re.search(r"\b(malloc|aligned_alloc|free)\b", (tmp_path / "layer.c").read_text())
    page = PAGE.read_text().partition("## Microcontrollers")[2].partition("\n## ")[0]
    sources = dict(re.findall(r"```\w+ (\S+)\n(.*?)```", page, re.DOTALL))
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    commands = re.findall(r"^    ((?:arm-none-eabi-gcc|qemu-system-arm) .*)$", page, re.MULTILINE)
    assert sources.keys() == {"main.c", "board.ld"} and len(commands) == 2
    for command in commands:
        done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    got = np.array([int(word, 16) for word in done.stderr.split()], np.uint32).view(np.float32)  # qemu's console
    a, w = np.arange(8 * 144, dtype=np.float32) % 7, np.arange(8 * 72, dtype=np.float32) % 5 / 64
    here = np.empty((8, 144), np.float32)
    tw.build(args)(a.reshape(1, 8, 12, 12), w.reshape(8, 8, 3, 3), here)
    np.testing.assert_allclose(got, here.ravel()[::36], rtol=1e-5)
