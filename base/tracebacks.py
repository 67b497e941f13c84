"""Tracebacks of users' errors: the lines of the user's program, without the compiler's own.

    Traceback (most recent call last):
      File "matmul.py", line 22, in <module>
        s[C].vectorize(k)
    tilewright.schedule.errors.VectorizeReduction: ScheduleError TW0203: cannot vectorize 'k' of stage C
    ...
    12 frames of tilewright are left out; TILEWRIGHT_TRACEBACK=all shows them

What Python, its threads and IPython print is filtered, from the first error of ours on and only where nobody else has taken that over;
the exception keeps all frames, for debuggers. Faults of ours (InternalError) are printed whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .environment import read_choice
from .errors import BadVariable, TilewrightError

__all__ = ["filter_tracebacks", "shows_all", "users_frames"]

_OWN = __name__.rsplit(".", 2)[0]
_HELPERS = ("contextlib", "functools")
"""Modules whose frames lie between ours."""


def shows_all() -> bool:
    """Return whether every frame is asked for. Raises BadVariable (TW0446)."""
    return read_choice("TILEWRIGHT_TRACEBACK", "all", "users") == "all"


def users_frames(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A traceback without the frames of this package, and how many those are; itself where all are."""
    frames: list[TracebackType] = []
    at, own = trace, 0
    while at is not None:
        module = str(at.tb_frame.f_globals.get("__name__", ""))
        if module == _OWN or module.startswith(_OWN + ".") or (own and module in _HELPERS):
            own += 1
        else:
            frames.append(at)
        at = at.tb_next
    if not own or not frames:
        return trace, 0
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept, own


def filter_tracebacks() -> None:
    """Let what prints uncaught exceptions, where it is Python's own or IPython's, leave frames of ours out."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print
    threads: Any = sys.modules.get("threading")
    if threads is not None and threads.excepthook is threads.__excepthook__:
        threads.excepthook = _print_of_thread
    interactive: Any = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None and hasattr(interactive, "get_ipython") else None
    if shell is not None and not getattr(shell, "custom_exceptions", ()):
        shell.set_custom_exc((TilewrightError,), _print_in_notebook)


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    with _users_frames_alone(error):
        sys.__excepthook__(kind, error, error.__traceback__ if isinstance(error, TilewrightError) else trace)


def _print_of_thread(args: Any) -> None:
    threads: Any = sys.modules["threading"]
    if not isinstance(args.exc_value, TilewrightError):
        threads.__excepthook__(args)
        return
    with _users_frames_alone(args.exc_value):
        given = (args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread)
        threads.__excepthook__(threads.ExceptHookArgs(given))


def _print_in_notebook(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    _: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    with _users_frames_alone(error):
        shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


@contextmanager
def _users_frames_alone(error: BaseException) -> Generator[None]:
    """Hide our frames while an error of a user's is printed: it and what it came from have the user's frames alone; what only our frames
    raised is not shown. Says then how many are left out."""
    undo: list[Callable[[], None]] = []
    count = 0
    try:
        count = 0 if not isinstance(error, TilewrightError) or shows_all() else _cut(error, undo)
    except BadVariable as wrong:
        sys.stderr.write(f"{wrong}\n")
    try:
        yield
    finally:
        for each in reversed(undo):
            each()
    if count:
        left = f"{count} frames of tilewright are left out" if count > 1 else "a frame of tilewright is left out"
        sys.stderr.write(f"{left}; TILEWRIGHT_TRACEBACK=all shows every one\n")


def _cut(error: BaseException, undo: list[Callable[[], None]]) -> int:
    seen: set[int] = set()
    at: BaseException | None = error
    total = 0
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        undo.append(_keep_state(at))
        kept, count = users_frames(at.__traceback__)
        total += count
        at.__traceback__ = kept
        origin = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
        if origin is not None and not isinstance(origin, TilewrightError) and _is_ours(origin.__traceback__):
            at.__cause__ = None  # what is raised inside says nothing to a user
            origin = None
        at = origin
    return total


def _is_ours(trace: TracebackType | None) -> bool:
    """Return whether an exception was raised and caught by our frames alone."""
    return trace is not None and users_frames(trace) == (trace, 0) and _own(trace)


def _own(trace: TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == _OWN


def _keep_state(error: BaseException) -> Callable[[], None]:
    trace, cause, suppressed = error.__traceback__, error.__cause__, error.__suppress_context__

    def restore() -> None:
        error.__traceback__ = trace
        error.__cause__ = cause
        error.__suppress_context__ = suppressed

    return restore
