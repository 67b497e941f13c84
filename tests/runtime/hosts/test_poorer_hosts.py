"""Linux made to look like other systems: kernels build, run in parallel or serially, export and load, and models are kept in files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_PROC = """
import builtins, io, mmap, os, sys

for name in ("sched_getaffinity", "sched_setaffinity", "register_at_fork", "fork", "forkpty", "memfd_create", "O_TMPFILE"):
    delattr(os, name)
for name in [name for name in dir(mmap) if name.startswith("MADV_")]:
    delattr(mmap, name)
os.sysconf_names = {name: at for name, at in os.sysconf_names.items() if "CACHE" not in name}

def refusing(function):
    def refused(path, *more, **named):
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "no such file", os.fsdecode(path))
        return function(path, *more, **named)
    return refused

builtins.open = io.open = refusing(io.open)
os.open, os.stat = refusing(os.open), refusing(os.stat)
"""
OTHER_SYSTEM = """
import ctypes, ctypes.util, mmap, os, subprocess, sys, tempfile
import llvmlite.binding, ml_dtypes, numpy

sys.platform = {platform!r}
import tilewright
from tilewright.runtime import hosts

system = hosts.host()
sys.platform = "linux"
for name in ("sched_getaffinity", "sched_setaffinity", "memfd_create", "O_TMPFILE"):
    delattr(os, name)
{patches}
"""
MACOS = """
from tilewright.runtime.hosts import macos
macos._ask = lambda name, most: b""
macos.MacOS.loaded_files = lambda self, part: []
"""
WINDOWS = """
from tilewright.runtime.hosts.windows import Windows
Windows.library_base = hosts.Host.library_base
for name in ("MAP_PRIVATE", "MAP_ANONYMOUS"):
    delattr(mmap, name)
for name in ("register_at_fork", "fork", "geteuid", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
"""
SYSTEMS = {
    "linux without /proc": WITHOUT_PROC,
    "unknown": OTHER_SYSTEM.format(platform="unknown", patches=""),
    "macos": OTHER_SYSTEM.format(platform="darwin", patches=MACOS),
    "windows": OTHER_SYSTEM.format(platform="win32", patches=WINDOWS),
}
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.graph.mapped_arrays import paged_copy
from tilewright.runtime.hosts import host

A, B = te.placeholder((300, 200), name="A"), te.placeholder((200, 400), name="B")
folder = Path(sys.argv[1])

def exported(factor):
    f = tw.build([A, B, te.compute((300, 400), lambda i, j: topi.matmul(A, B)[i, j] * factor)], name="product")
    return f, f.export(folder / "libproduct.so")[0]

a, b = np.ones((300, 200), "float32"), np.full((200, 400), 0.5, "float32")
for factor in (1, 3):  # the second library has the path of the first, which is loaded
    f, path = exported(factor)
    for function in (f, tw.load(path)):
        c = np.zeros((300, 400), "float32")
        function(a, b, c)
        assert (c == 100 * factor).all()
assert (paged_copy(a) == a).all()
print(type(host()).__name__, len(list(folder.parent.rglob("*.kernel"))) > 0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it takes from Linux what others have not")
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_poorer_system_builds_calls_exports_and_loads(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "libraries").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SYSTEMS[system] + PROGRAM, str(tmp_path / "libraries")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    kinds = {"linux without /proc": "Linux", "unknown": "Host", "macos": "MacOS", "windows": "Windows"}
    assert done.stdout.split() == [kinds[system], "True"], done.stderr
