"""The page about a Raspberry Pi: its library is built, its C program linked and run under qemu as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import tilewright as tw

PAGE = Path(tw.__file__).parent / "docs" / "raspberry-pi.md"
PYTHON = PAGE.parents[1] / "out" / "aarch64" / "bin" / "python"
TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)) or not Path("/usr/aarch64-linux-gnu/lib").exists(),
    reason=f"not installed: {' or '.join(TOOLS)}",
)


def blocks() -> list[str]:
    """The indented texts of the page."""
    return [
        textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(), re.MULTILINE)
    ]


def test_what_the_page_says_prints_what_it_says(tmp_path: Path) -> None:
    program = next(block for block in blocks() if "lib.export_python" in block)
    source = next(block for block in blocks() if "#include" in block)
    commands = next(block for block in blocks() if "aarch64-linux-gnu-gcc" in block)
    source, _, _ = source.partition("aarch64-linux-gnu-gcc")
    (tmp_path / "layers.py").write_text(program)
    (tmp_path / "main.c").write_text(source)
    subprocess.run([sys.executable, "layers.py"], cwd=tmp_path, check=True, timeout=120)
    told = re.findall(r"^(aarch64-linux-gnu-gcc .*|qemu-aarch64 .*)$", commands, re.MULTILINE)
    output = [subprocess.run(each.split(), cwd=tmp_path, capture_output=True, text=True, check=True) for each in told]
    assert [done.stdout for done in output] == ["", "48\n"]
    assert (tmp_path / "package" / "layers" / "liblayers.so").exists()


@pytest.mark.skipif(not PYTHON.exists(), reason=f"no {PYTHON}, which `make qemu` makes")
def test_its_package_is_called_from_python_there(tmp_path: Path) -> None:
    program = next(block for block in blocks() if "lib.export_python" in block)
    called = next(block for block in blocks() if block.lstrip().startswith("import layers"))
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "wheels", "./package"]
    subprocess.run(pip, cwd=tmp_path, check=True, timeout=240)
    (wheel,) = (tmp_path / "wheels").glob("layers-1.0.0-py3-none-linux_aarch64.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "site")
    done = subprocess.run(
        [PYTHON, "-c", called + "print(c[0, 0])"],
        cwd=tmp_path / "wheels",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site"), "QEMU_CPU": "cortex-a72"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "48.0\n", done.stderr
