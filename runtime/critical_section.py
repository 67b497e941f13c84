"""Critical sections: run on a helper thread, so that neither KeyboardInterrupt nor a tracer can split them.

What strikes the thread that waits ends the waiting at once. The work goes on to its end by itself, frees what it made, and
nobody gets its result. So what must not stop halfway, such as LLVM with its locks and with modules that must not outlive their
context, or a compiler in a temporary folder, needs no thought for every line.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar, cast

from ..base.errors import waiting_callers
from ..base.forks import register_fork_hooks

__all__ = ["ProcessLock", "run_on_thread", "run_in_turn", "run_shielded", "shielded_call"]

T = TypeVar("T")
P = ParamSpec("P")


class _Job(Generic[T]):
    """Work on its way. done: locked until it has ended."""

    def __init__(self, work: Callable[[], T], caller: Any) -> None:
        self.work: Callable[[], T] | None = work
        self.caller: Any = caller
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = _thread.allocate_lock()
        self.done.acquire()  # locked until the work ends: waiting is acquiring

    def run(self) -> None:
        _running.add(self)
        thread = _thread.get_ident()
        waiting_callers[thread] = self.caller
        try:
            assert self.work is not None
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001  (whoever waits gets it)
            self.error = error
        finally:
            waiting_callers.pop(thread)
            self.work = self.caller = None  # the frame would keep its variables alive
            _running.discard(self)
            self.done.release()

    def wait(self) -> None:
        """Wait until it has ended."""
        self.done.acquire()
        self.done.release()

    def outcome(self) -> T:
        """Return what the work returned. Raises what it raised."""
        error, self.error = self.error, None  # an exception holds its frames, which hold this job
        if error is None:
            return cast("T", self.result)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


_running: set[_Job[Any]] = set()


def run_shielded(work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises what it raises; or what strikes meanwhile, which leaves `work` running to its end."""
    if _thread.get_ident() in waiting_callers:  # this thread is out of reach already
        return work()
    job = _Job(work, sys._getframe())  # pyright: ignore[reportPrivateUsage]
    try:
        _thread.start_new_thread(job.run, ())
    except RuntimeError:  # no more threads: then without
        return work()
    job.wait()
    return job.outcome()


def run_on_thread(work: Callable[[], object]) -> None:
    """Do `work`, which raises nothing, while the caller goes on. The caller's frame is not kept: it and those that called it would
    hold their variables, a user's arrays among them, until the work has ended."""
    try:
        _thread.start_new_thread(_Job(work, None).run, ())
    except RuntimeError:
        work()


def shielded_call(function: Callable[P, T]) -> Callable[P, T]:
    """The function with every call of it shielded."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        return run_shielded(partial(function, *args, **named))

    return call


def run_in_turn(function: Callable[P, T]) -> Callable[P, T]:
    """The function with every call of it shielded, and no two of all such functions at once: for those that use LLVM. A fork waits
    for its turn too, so that the child finds no lock of LLVM's held by a thread that it does not have."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        return run_shielded(partial(_run_alone, partial(function, *args, **named)))

    return call


class ProcessLock:
    """A reentrant lock that a forked child finds free, whoever held it in its parent.

    Held as `with lock(): work()`, within one line: a tracer (a debugger, a test) may raise at the beginning of any, and a `with`
    whose end is the beginning of a line would keep the lock.
    """

    def __init__(self) -> None:
        self._held = os.getpid(), threading.RLock()

    def __call__(self) -> threading.RLock:
        """This process's lock."""
        if self._held[0] != os.getpid():  # a child has one thread, which does not hold the parent's lock
            self._held = os.getpid(), threading.RLock()
        return self._held[1]


_turn = threading.RLock()


def _run_alone(work: Callable[[], T]) -> T:
    with _turn:
        return work()


def _reset_child() -> None:
    global _turn
    _turn = threading.RLock()
    _running.clear()
    waiting_callers.clear()


def _let_end() -> None:
    """Wait, when Python ends, for sections that still run."""
    for job in list(_running):  # the interpreter may not end under running native code
        job.wait()


atexit.register(_let_end)
# a child without the thread that holds the turn would wait for ever
register_fork_hooks(before=lambda: _turn.acquire(), in_parent=lambda: _turn.release(), in_child=_reset_child)
