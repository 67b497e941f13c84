"""Processes that compile kernels beside this one.

    build            queue: k0 k1 k2 ... k133
      this process     takes from the front: prepares k0, k1, ... while LLVM compiles those before
      helper, helper   take from the back: asked for k133, k132, ... they answer with machine code

Python prepares one kernel at a time, however many cores there are; so the kernels of a model are shared with processes of our own. A
helper is told what a kernel is made of, declares it anew, and answers with what the cache would keep of it. That counts only
where it knows the kernel by the same key: program, processor, versions and sources. What it cannot do is done here.

A helper is a plain process of this interpreter that imports nothing of the caller's `__main__`. It ends when its pipe closes, when
its parent is gone, and by itself when nobody has asked for a while; one that is there already serves the next build.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, cast

from ..base.environment import read_integer
from ..base.forks import register_fork_hooks
from ..base.untrusted_input import plain_json
from ..runtime.threads import available_cpus
from .cache.store import Entry

__all__ = ["Helper", "HelperGone", "compile_jobs", "helper_at_work", "helper_idle", "limit_jobs"]

_MOST_JOBS = 1024
_MOST_BYTES = 64 << 20
"""Of an answer."""
_PATIENCE = 120.0
"""Seconds that a helper may take for a kernel; then it is done here."""


_limit: ContextVar[int] = ContextVar("tilewright_jobs", default=0)
"""The number of processes within `limit_jobs`; 0 outside."""


@contextmanager
def limit_jobs(count: int) -> Generator[None]:
    """Let so many processes compile within a `with` block, whatever TILEWRIGHT_JOBS says; 0 changes nothing."""
    token = _limit.set(count)
    try:
        yield
    finally:
        _limit.reset(token)


class HelperGone(Exception):
    """A helper that has ended, or is of no more use."""


def compile_jobs() -> int:
    """The number of processes that may compile at once: TILEWRIGHT_JOBS, else one for each CPU that this one may use; 1 where the
    interpreter is no program that can be started again. Raises BadVariable (TW0446)."""
    asked = _limit.get() or read_integer("TILEWRIGHT_JOBS", 0, _MOST_JOBS)
    name = os.path.basename(sys.executable or "")
    # a frozen program would start itself again
    if os.name != "posix" or getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return 1
    return asked or available_cpus()


class Helper:
    """A process that answers requests, one at a time. module: its main."""

    def __init__(self, module: str) -> None:
        import subprocess  # late: it takes longer than any module of ours

        self.module = module
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,  # a helper's output would disturb the caller's terminal
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # BLAS would start threads that a compiler does not use
        )
        self._received = b""

    @property
    def is_running(self) -> bool:
        """Return whether it has not ended yet."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> Entry | None:
        """Return its answer to a request; None where it has none. Raises HelperGone."""
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None and reader is not None
        deadline = time.monotonic() + _PATIENCE
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            writer.flush()
            while b"\n" not in self._received:
                self._receive(reader.fileno(), deadline)
            line, _, self._received = self._received.partition(b"\n")
            answer = cast("dict[str, Any]", plain_json(line, _MOST_BYTES))
            size = int(answer["size"])
            while len(self._received) < min(size, _MOST_BYTES):  # an answer that claims to be larger is not read on
                self._receive(reader.fileno(), deadline)
        except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
            raise HelperGone from error
        code, self._received = self._received[:size], self._received[size:]  # what is left belongs to the next answer
        return Entry(answer["about"], code) if size else None

    def _receive(self, descriptor: int, deadline: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            # a helper that hangs must not hold the build
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
        data = os.read(descriptor, 1 << 16)
        if not data:
            raise EOFError
        self._received += data

    def kill(self) -> None:
        """End it; whoever waits for its answer sees that, and cleans up."""
        self._process.kill()

    def end(self) -> None:
        """End it, and leave nothing of it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent is lost
                cast("Any", pipe).close()
        self._process.wait()

    def forget(self) -> None:
        """It is another process's: of a forked child its parent's."""
        self._process.returncode = 0  # a forked child must not wait for its parent's process


_idle: list[Helper] = []
"""Helpers of builds that are done."""


def helper_at_work(module: str) -> Helper:
    """A helper that nobody else uses: one that is there, else a new one. Raises OSError where none can be started."""
    while _idle:
        with suppress(IndexError):  # somebody else took the last
            helper = _idle.pop()
            if helper.module == module and helper.is_running:  # one that ended by itself is of no use
                return helper
            helper.end()
    return Helper(module)


def helper_idle(helper: Helper) -> None:
    """It has answered all that it was asked."""
    _idle.append(helper)


def _end_all() -> None:
    while _idle:
        _idle.pop().end()


def _drop_inherited() -> None:
    for helper in _idle:
        helper.forget()
    _idle.clear()


atexit.register(_end_all)
register_fork_hooks(in_child=_drop_inherited)
