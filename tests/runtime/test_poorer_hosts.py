"""Linux made to look like a system without /proc, /sys, affinities, forks and advice on memory: kernels build, run, export and load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

POORER = """
import builtins, io, mmap, os, sys

for name in ("sched_getaffinity", "sched_setaffinity", "register_at_fork", "fork", "forkpty"):
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

import numpy as np
import tilewright as tw
from tilewright import te, topi

A, B = te.placeholder((300, 200), name="A"), te.placeholder((200, 400), name="B")
f = tw.build([A, B, topi.matmul(A, B)], name="product")
a, b = np.ones((300, 200), "float32"), np.full((200, 400), 0.5, "float32")
for function in (f, tw.load(f.export(sys.argv[1], threads="none")[0])):
    c = np.zeros((300, 400), "float32")
    function(a, b, c)
    assert (c == 100).all()
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it takes from Linux what others have not")
def test_a_poorer_linux_builds_calls_exports_and_loads(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", POORER, str(tmp_path / "libproduct.so")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr
