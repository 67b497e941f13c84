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
import ctypes, os, sys, threading, time
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

X = te.placeholder((64,), "int32", name="X")
Y = te.compute((64,), lambda i: X[i] + 1, "Y")
s = te.create_schedule(Y.op)
s[Y].parallel(Y.op.axis[0])
count = tw.build(s, [X, Y])
tw.set_num_threads(5)

def count_often(pauses):
    x = y = np.zeros(64, "int32")
    for at in range(300):
        x, y = y, np.full(64, -1, "int32")
        count(x, y)
        if at % 10 == 0:
            time.sleep(pauses)  # threads go to sleep meanwhile, or are about to
    assert (y == 300).all()
    done.append(pauses)

done = []
callers = [threading.Thread(target=count_often, args=(pauses,), daemon=True) for pauses in (0, 5e-5, 5e-4)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join(60)
assert len(done) == 3
pool = bool(host().waiting)
if pool:
    assert "own pool" in tw.runtime.threads.describe()[1]
if host().waiting in ("futex", "conditions"):  # a child that C code has made, which no hook of Python's sees
    child = ctypes.CDLL(None).fork()
    if child == 0:
        y = np.zeros(64, "int32")
        count(np.ones(64, "int32"), y)
        os._exit(int(not (y == 2).all()))
    assert os.waitpid(child, 0)[1] == 0
print(type(host()).__name__, host().waiting or "-", len(list(folder.parent.rglob("*.kernel"))) > 0)
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
    kinds = {
        "linux without /proc": ("Linux", "futex"),
        "unknown": ("Host", "-"),
        "macos": ("MacOS", "conditions"),
        "windows": ("Windows", "addresses"),
    }
    assert done.stdout.split() == [*kinds[system], "True"], done.stderr
