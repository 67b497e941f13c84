"""Compilers that are none, hang, or write nothing or garbage, and systems without room: typed errors, in builds and exports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen import tools
from tilewright.codegen.c.source import load_c
from tilewright.codegen.errors import NoCompiler, RejectedSource, ToolFailed
from tilewright.codegen.export.errors import LinkFailed

_OUT = '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && {}; shift; done\n'
SCRIPTS = {
    "garbage": _OUT.format('echo garbage > "$2"'),
    "elf": _OUT.format('printf "\\177ELFgarbage" > "$2"'),
    "empty": _OUT.format(': > "$2"'),
    "folder": _OUT.format('mkdir "$2"'),
    "hangs": "#!/bin/sh\nsleep 100\n",
    "leaves": "#!/bin/sh\nsleep 100 &\n",
    "no_interpreter": "#!/nonexistent/sh\n",
    "no_program": "int main",
    "killed": "#!/bin/sh\nkill -9 $$\n",
    "binary": "#!/bin/sh\nhead -c 999 /dev/urandom >&2; exit 1\n",
}
COMPILERS = {
    **SCRIPTS,
    "true": "/bin/true",
    "false": "/bin/false",
    "missing": "/nonexistent/cc",
    "is a folder": "/tmp",
    "quotation": 'cc "',
}


def program(factor: int = 3) -> list[Any]:
    A = te.placeholder((64,), name="A")
    return [A, te.compute((64,), lambda i: A[i] * factor + 1, name="B")]


def call(kernel: Any) -> None:
    b = np.zeros(64, "float32")
    kernel(np.ones(64, "float32"), b)


USES: dict[str, Callable[[Path], Any]] = {
    "build": lambda folder: call(tw.build(program(), target="c")),
    "assembly": lambda folder: tw.build(program(), target="c").source("asm"),
    "export": lambda folder: tw.build(program()).export(folder / "libout.so"),
    "export c": lambda folder: tw.build(program(), target="c").export(folder / "libout.so"),
    "load": lambda folder: load_c("int cache_test;"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiler_that_is_none_is_named(
    use: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"cc_{compiler.replace(' ', '_')}"
    if compiler in SCRIPTS:
        path.write_text(SCRIPTS[compiler])
        path.chmod(0o755)
    monkeypatch.setenv("CC", str(path) if compiler in SCRIPTS else COMPILERS[compiler])
    monkeypatch.setattr(tools, "LONGEST", 0.3)
    (tmp_path / "out").mkdir()
    with pytest.raises((NoCompiler, ToolFailed, RejectedSource, LinkFailed), match=r"^(Codegen|Export)Error TW0"):
        USES[use](tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_compiler_of_the_environment_may_have_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = tools.chosen_tool("CC", ("cc", "gcc", "clang"))
    if plain is None:
        pytest.skip("this machine has no C compiler")
    monkeypatch.setenv("CC", f"{plain[0]} -DOTHER='1 2'")
    assert tools.chosen_tool("CC", ()) == [plain[0], "-DOTHER=1 2"]
    for use in USES.values():
        use(tmp_path)


def test_what_a_hanging_compiler_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mark = tmp_path / "cc_hangs", tmp_path / "mark"
    path.write_text(f"#!/bin/sh\n(sleep 1; touch {mark}) &\nwait\n")
    path.chmod(0o755)
    monkeypatch.setattr(tools, "LONGEST", 0.2)
    with pytest.raises(ToolFailed, match=r"is still running after 0\.2 seconds"):
        tools.run_tool([str(path)], tmp_path)
    time.sleep(1.2)
    assert not mark.exists()


WITHOUT_DESCRIPTORS = """
import os, resource, sys, tempfile
import numpy as np
import tilewright as tw
from tilewright import te

def program(factor):
    A = te.placeholder((64,), name="A")
    return [A, te.compute((64,), lambda i: A[i] * factor + 1, name="B")]

what, target, spare = sys.argv[1], sys.argv[2], int(sys.argv[3])
folder = tempfile.mkdtemp(dir=sys.argv[4])
if what != "first":
    f = tw.build(program(3), target=target)
    f.export(folder + "/libx.so")
    f(np.ones(64, "float32"), np.zeros(64, "float32"))

def work():
    if what == "first" or what == "build":
        tw.build(program(7), target=target)(np.ones(64, "float32"), np.zeros(64, "float32"))
    elif what == "export":
        f.export(folder + "/liby.so")
    else:
        tw.load(folder + "/libx.so")

resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(spare):
    os.close(held.pop())
try:
    work()
    said = "well"
except tw.TilewrightError as error:
    said = error.code
for descriptor in held:
    os.close(descriptor)
work()
print(said)
"""


@pytest.mark.parametrize(
    ("what", "target"),
    [("first", "llvm"), ("build", "llvm"), ("build", "c"), ("export", "llvm"), ("export", "c"), ("load", "llvm")],
)
@pytest.mark.parametrize("spare", [0, 2])
def test_without_descriptors(what: str, target: str, spare: int, tmp_path: Path) -> None:
    """An error of ours or none, and all is well once there are some again."""
    environment = {**os.environ, "TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, what, target, str(spare), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() in ("well", "TW0447", "TW0448", "TW0707", "TW0705", "TW0741")


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_no_folder_for_temporary_files(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    if folder == "file":
        place.write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises(ToolFailed, match=r"TW0447: cannot compile in the folder for temporary files"):
        call(tw.build(program(), target="c"))
    with pytest.raises(LinkFailed, match=r"\$TMPDIR"):
        tw.build(program()).export(tmp_path / "libout.so")
    call(tw.build(program()))
