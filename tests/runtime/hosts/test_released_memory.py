"""What building leaves in memory goes back to the system, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.driver.linking import _LLVM
from tilewright.runtime.hosts import host
from tilewright.runtime.hosts.linux import unmodified_ranges

MAPS = """\
7f8eda600000-7f8eda965000 r--p 00000000 fe:00 5660973                    /a/binding/libllvmlite.so
Rss:                 100 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
7f8eda965000-7f8edf994000 r-xp 00365000 fe:00 5660973                    /a/binding/libllvmlite.so
Private_Dirty:         0 kB
Anonymous:             0 kB
7f8ee3c77000-7f8ee3e3c000 r--p 09677000 fe:00 5660973                    /a/binding/libllvmlite.so
Private_Dirty:      1024 kB
Anonymous:          1024 kB
7f8ee3e3c000-7f8ee3e65000 rw-p 0983c000 fe:00 5660973                    /a/binding/libllvmlite.so
Private_Dirty:         0 kB
Anonymous:             0 kB
7f8ee4000000-7f8ee4001000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f8ee5000000-7f8ee5001000 r-xp 00000000 fe:00 12                         /a/another.so
Private_Dirty:         0 kB
"""


def test_what_was_changed_or_can_be_stays():
    assert list(unmodified_ranges(MAPS, "libllvmlite.so")) == [
        (0x7F8EDA600000, 0x7F8EDA965000),
        (0x7F8EDA965000, 0x7F8EDF994000),
    ]


def resident() -> int:
    """Kilobytes of LLVM's library in the memory of this process."""
    held, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-", line):
            inside = line.endswith(_LLVM)
        elif inside and line.startswith("Rss:"):
            held += int(line.split()[1])
    return held


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is where")
def test_pages_of_code_go_and_come_again():
    a = te.placeholder((37,), name="a")
    x = np.arange(37, dtype="float32")
    for times in (2, 3):  # the second is compiled once the pages are gone
        y = te.compute((37,), lambda i, times=times: a[i] * times, name="y")
        f, out = tw.build([a, y]), np.empty(37, "float32")
        f(x, out)
        np.testing.assert_array_equal(out, x * times)
        before = resident()
        host().release_memory(_LLVM)
        assert resident() < before / 4
