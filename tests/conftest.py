"""How the suite runs: one seed for all of its processes, which tests are fast, and tests that have the machine to themselves."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import drawn
import effort
import pytest

os.environ.setdefault("TILEWRIGHT_CACHE", "0")  # tests see what is built now, and leave nothing in the user's folder
os.environ.setdefault("TILEWRIGHT_JOBS", "1")  # the suite's own processes have all cores
os.environ["TILEWRIGHT_SEED"] = str(
    drawn.SEED
)  # the workers of pytest-xdist are given this environment, and draw the same

ROOM = Path(__file__)
GATE = ROOM.with_name("pytest.ini")
TABLE = ROOM.with_name("slow.txt")
SLOW = frozenset(TABLE.read_text().split())
LIMIT = 0.2
"""Seconds that all cases of a fast test take together, on two cores with nothing else to do."""
HAS_NVRTC = importlib.util.find_spec("nvidia") is not None
NO_NVRTC = "NVRTC is not installed"

_took: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the texts in golden/ anew, as they are now")
    parser.addoption(
        "--measure", action="store_true", help=f"write tests/slow.txt: which of these tests take more than {LIMIT} s"
    )


def pytest_report_header() -> str:
    return f"drawn checks: TILEWRIGHT_SEED={drawn.SEED}" + (
        " TILEWRIGHT_SOAK=1 (full counts)" if drawn.SOAK else ", of slow tests one of three cases"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that slow.txt names are marked slow, and all others fast. Of the cases of a slow test one of three is taken, which the
    seed draws, where a run of whole files does not ask for all of them."""
    left_out: set[str] = set()
    chosen = config.option.keyword or config.option.measure or any("::" in part for part in config.args)
    if not (drawn.SOAK or chosen):
        left_out = _left_out(item.nodeid for item in items)
    for item in items:
        item.add_marker("slow" if _function(item.nodeid) in SLOW else "fast")
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def _left_out(cases: Iterable[str]) -> set[str]:
    """The cases of slow tests that this run does without: of three and more about two of three."""
    of_slow: dict[str, list[str]] = {}
    for case in cases:
        if _function(case) in SLOW:
            of_slow.setdefault(_function(case), []).append(case)
    return {
        case
        for name, all_of_it in of_slow.items()
        if len(all_of_it) > 2
        for case in drawn.rng(f"cases of {name}").permutation(all_of_it)[-(-len(all_of_it) // 3) :].tolist()
    }


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _took[_function(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--measure") and not hasattr(session.config, "workerinput"):
        names = {name for name in SLOW if name not in _took} | {
            name for name, seconds in _took.items() if seconds > LIMIT
        }
        TABLE.write_text("".join(f"{name}\n" for name in sorted(names)))


def _function(case: str) -> str:
    """The function of a test's case: nn/test_pool.py::test_windows, of nn/test_pool.py::test_windows[max]."""
    return case.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test builds with little effort where the seed says so, and shares the room.

    By hooks: fixtures for it would cost each of thousands of short tests a millisecond."""
    with _room(alone=item.get_closest_marker("alone") is not None), pytest.MonkeyPatch.context() as patch:
        if effort.is_little(item):
            effort.with_little_effort(patch)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test leaves the environment as its fixtures made it, of which those of a module hold for the tests to come; and is skipped where
    it compiles for GPUs and there is no compiler for them, as on AArch64."""
    before = dict(os.environ)
    try:
        return (yield)
    except BaseException as error:
        if not _is_without_nvrtc(error):
            raise
    finally:
        if (after := dict(os.environ)) != before:
            for name in after.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
    # behind the block, and forgotten: the error would keep what the test holds on the GPU
    sys.last_value = sys.last_traceback = None
    pytest.skip(NO_NVRTC)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """A fixture may be what compiles for GPUs."""
    try:
        return (yield)
    except BaseException as error:
        if not _is_without_nvrtc(error):
            raise
    pytest.skip(NO_NVRTC)


def _is_without_nvrtc(error: BaseException) -> bool:
    return not HAS_NVRTC and NO_NVRTC in str(error)


@contextmanager
def _room(alone: bool) -> Generator[None]:
    """Tests share the room, but for those that are marked `alone`. Whoever waits for it holds the gate, so that tests that
    come and go cannot keep one out that has to be alone."""
    with open(GATE) as gate, open(ROOM) as room:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)  # a child that was forked may keep the file open


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): the text is that of the file golden/name beside the test, which --update-golden writes."""

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")
        assert f"{text}\n" == path.read_text(), f"{path.name} differs: pass --update-golden if that is meant"

    return compare
