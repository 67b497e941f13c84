"""The recursion limit, which belongs to the whole process: it comes back, whatever happens within."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.visit import deep_recursion, is_recursion_deep


def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


@pytest.fixture(autouse=True)
def limit() -> Any:
    before = sys.getrecursionlimit()
    yield before
    now = sys.getrecursionlimit()
    sys.setrecursionlimit(before)
    assert now == before


def test_it_is_raised_within_and_comes_back(limit: int) -> None:
    with deep_recursion():
        with deep_recursion():
            assert is_recursion_deep()
            assert depth(3 * limit) == 3 * limit
        assert depth(3 * limit) == 3 * limit
    assert not is_recursion_deep()
    assert sys.getrecursionlimit() == limit
    with pytest.raises(ZeroDivisionError, match="by zero"), deep_recursion():
        _ = 1 // 0


def test_threads_that_overlap_leave_it_as_it_was(limit: int) -> None:
    """The first to enter leaves first: by its own lights it would restore what the other still needs."""
    entered, leave = threading.Barrier(2), threading.Event()
    found: list[Any] = []

    def first() -> None:
        with deep_recursion():
            entered.wait()
        leave.set()

    def second() -> None:
        with deep_recursion():
            entered.wait()
            leave.wait(20)
            found.append(depth(3 * limit))

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3 * limit]
    assert sys.getrecursionlimit() == limit


def test_concurrent_builds_leave_it_as_it_was(limit: int) -> None:
    failures: list[BaseException] = []

    def build() -> None:
        try:
            for _ in range(5):
                A = te.placeholder((7,), name="A")
                tw.lower(te.create_schedule(te.compute((7,), lambda i: A[i] * 2, name="B").op), [A])
        except tw.TilewrightError:
            pass
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("place", range(40))
def test_an_exception_at_any_line_of_it_leaves_it_as_it_was(place: int, limit: int) -> None:
    seen = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename.endswith("visit.py") and event in ("call", "line"):
            seen[0] += 1
            if seen[0] == place + 1:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with deep_recursion():
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    assert not is_recursion_deep()
    assert sys.getrecursionlimit() == limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")
def test_a_child_is_not_held_up_by_the_threads_of_its_parent(limit: int) -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with deep_recursion():
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with deep_recursion():
            pass
        os._exit(0 if sys.getrecursionlimit() == limit else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    thread.join()


def test_no_exception_leaves_it_locked() -> None:
    """After all the above, another thread can still enter."""
    entered: list[bool] = []
    for place in range(40):
        test_an_exception_at_any_line_of_it_leaves_it_as_it_was(place, sys.getrecursionlimit())

    def enter() -> None:
        with deep_recursion():
            entered.append(True)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(20)
    assert entered == [True]
