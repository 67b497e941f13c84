"""How the suite runs: one seed for all of its processes, and tests that have the machine to themselves."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import drawn
import pytest

os.environ.setdefault("TILEWRIGHT_CACHE", "0")  # tests see what is built now, and leave nothing in the user's folder
os.environ["TILEWRIGHT_SEED"] = str(drawn.SEED)  # the workers of pytest-xdist are given this environment, and draw the same

ROOM = Path(__file__)
GATE = ROOM.with_name("pytest.ini")


def pytest_report_header() -> str:
    return f"drawn checks: TILEWRIGHT_SEED={drawn.SEED}" + (" TILEWRIGHT_SOAK=1 (full counts)" if drawn.SOAK else "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tests share the room, but for those that are marked `alone`. Whoever waits for it holds the gate, so that tests that
    come and go cannot keep one out that has to be alone."""
    alone = item.get_closest_marker("alone") is not None
    with open(GATE) as gate, open(ROOM) as room:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)  # a child that was forked may keep the file open
