"""Errors that teach, and warnings: every error names its subject, the reason, what would be allowed and the fix.

The families below are public. Each concrete error is a small class with its own code, declared in the `errors.py` of
the folder that raises it:

    class VectorizeReduction(ScheduleError):
        '''Vector lanes over a reduce axis would race on the element that they reduce into.'''
        code = "TW0203"

    raise VectorizeReduction("cannot vectorize 'k' of stage C", reason="C is a reduction over k: ...",
                             declared=tensor.source, called=user_source(), fix="vectorize a data axis (i, j)")

Codes: TW01xx te, 02xx schedule, 03xx lowering, 04xx codegen, 05xx call, 06xx tuning and records,
07xx export and load, 08xx CUDA, 09xx models.
"""

from __future__ import annotations

import errno
import linecache
import sys
import warnings
from _thread import get_ident
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import CO_VARARGS
from itertools import pairwise
from types import FrameType
from typing import Any, ClassVar

from .dataclass import dataclass

__all__ = [
    "BadVariable",
    "CATALOGUE",
    "CallError",
    "CodegenError",
    "CudaError",
    "ExportError",
    "FAULTS",
    "GraphError",
    "InternalError",
    "LoweringError",
    "OutOfResources",
    "PerformanceWarning",
    "RecordError",
    "ScheduleError",
    "SourceLine",
    "TensorExpressionError",
    "TilewrightDeprecationWarning",
    "TilewrightError",
    "TilewrightWarning",
    "TuningError",
    "internal_error",
    "resource_error",
    "is_interruption",
    "user_source",
    "waiting_callers",
    "warn_user",
]

CATALOGUE: dict[str, type[TilewrightError]] = {}
"""Every concrete error class by its code, filled as the classes are declared."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the user's program."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """The line itself, stripped; empty where the source is not available."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_cell(self.file) or self.file.rsplit('/', 1)[-1]}:{self.line}"


def _cell(file: str) -> str:
    """Return what IPython calls the cell that it keeps under the name of a file, "Cell In[3]"; empty for any other."""
    interactive: Any = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None and hasattr(interactive, "get_ipython") else None
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    return " ".join(name(file) or ()) if name is not None else ""


_OWN_PACKAGE = __name__.rsplit(".", 2)[0]
_BETWEEN = ("contextlib", "functools", "jax", "numpy", "torch")
"""Packages that call back into ours on a user's behalf."""
waiting_callers: dict[int, FrameType | None] = {}
"""By the number of a thread that works for another one (runtime.critical_section): where that one waits, None where it goes on."""


@cache
def _find_owner(module: str) -> str:
    """Return our own package, or one between us and users, that a module belongs to; "" of any other."""
    package = module.partition(".")[0]
    if package in _BETWEEN:
        return package
    return _OWN_PACKAGE if module == _OWN_PACKAGE or module.startswith(_OWN_PACKAGE + ".") else ""


def user_source(through: Sequence[str] | None = None) -> SourceLine | None:
    """The innermost line on the call stack that is not tilewright's own: where the user called us. through: None where another of
    our modules than these lies between."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    waiting = waiting_callers.get(get_ident())
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        owner = _find_owner(module)
        if owner == "":
            return SourceLine(frame.f_code.co_filename, frame.f_lineno)
        if through is not None and owner == _OWN_PACKAGE and module.removeprefix(_OWN_PACKAGE + ".") not in through:
            return None
        frame = frame.f_back
        if frame is None:
            frame, waiting = waiting, None
    return None


class TilewrightError(RuntimeError):
    """Base class of every error that a user can cause.

    headline: what could not be done, and to what. reason: why. declared: where the subject was declared. called: the
    user's line that asked for it. loops: the loop nest it speaks of, with a caret. allowed: what would have been taken.
    fix: what to write instead.
    """

    code: ClassVar[str] = "TW0000"

    def __init_subclass__(cls) -> None:
        code = cls.__dict__.get("code")
        if code is None:
            return
        taken = CATALOGUE.get(code)
        if taken is not None and (taken.__module__, taken.__name__) != (cls.__module__, cls.__name__):
            raise TypeError(f"error code {code} is taken by {taken.__name__}")  # not by itself, imported once more
        CATALOGUE[code] = cls

    def __init__(
        self,
        headline: str,
        *,
        reason: str = "",
        declared: SourceLine | None = None,
        called: SourceLine | None = None,
        loops: str = "",
        allowed: str = "",
        fix: str = "",
    ) -> None:
        self.headline: str = headline
        self.reason: str = reason
        self.declared: SourceLine | None = declared
        self.called: SourceLine | None = called
        self.loops: str = loops
        self.allowed: str = allowed
        self.fix: str = fix
        super().__init__(self.render())
        self.add_note(f"  page: tilewright explain {self.code}")
        _filter_tracebacks()

    @classmethod
    def family(cls) -> str:
        """The public class that the code belongs to, as it is printed: ScheduleError and so on."""
        return next(
            base.__name__ for base in cls.__mro__ if TilewrightError in base.__bases__ or base is TilewrightError
        )

    def render(self) -> str:
        """The whole message, in the form that every error of ours has, without control characters: parts of it may be foreign."""
        lines = [f"{self.family()} {self.code}: {self.headline}"]
        if self.reason:
            lines += _indent(self.reason + (f"   ({self.declared})" if self.declared else ""), 2)
        elif self.declared:
            lines.append(f"  declared at {self.declared}: {self.declared.text}")
        if self.called:
            lines.append(f"  called at {self.called}: {self.called.text}")
        if self.loops:
            lines += _indent(self.loops, 6)
        if self.allowed:
            lines += _indent("allowed: " + self.allowed, 2)
        if self.fix:
            lines += _indent("fix: " + self.fix, 2)
        return _printable("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        return (_revive, (type(self), self.__dict__))


def _revive(cls: type[TilewrightError], state: dict[str, object]) -> TilewrightError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (error.render(),)
    return error


def _filter_tracebacks() -> None:
    """See tracebacks.py: from the first error on, its users' frames alone are printed."""
    try:
        from .tracebacks import filter_tracebacks  # what prints is not for those who meet no error
    except (ImportError, OSError):  # a circle, while that module is loaded; or no descriptor is left to read it
        return
    filter_tracebacks()


def _printable(text: str) -> str:
    """A text without control characters but its line breaks and tabs."""
    try:
        from .untrusted_input import printable  # what JSON takes to load is not for those who meet no error
    except OSError:  # no descriptor is left to read it
        return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)
    return printable(text, lines=True)


def _indent(text: str, columns: int) -> list[str]:
    return [" " * columns + line for line in text.splitlines()]


class TensorExpressionError(TilewrightError, ValueError):
    """A tensor expression that means nothing."""


class ScheduleError(TilewrightError, ValueError):
    """A primitive that the schedule cannot take."""


class LoweringError(TilewrightError, ValueError):
    """A schedule that is whole but does not lower."""


class CodegenError(TilewrightError, RuntimeError):
    """A program, or a target, that code generation cannot serve."""


class CallError(TilewrightError, TypeError, ValueError):
    """A kernel called with arguments that it does not take."""


class TuningError(TilewrightError, RuntimeError):
    """Tuning that cannot start or go on."""


class RecordError(TilewrightError, ValueError):
    """A tuning database or record that cannot be read."""


class ExportError(TilewrightError, RuntimeError):
    """A library that cannot be written or loaded."""


class CudaError(TilewrightError, RuntimeError):
    """CUDA code that cannot be compiled or run here."""


class GraphError(TilewrightError, ValueError):
    """A model that cannot be read, described, built or run."""


class BadVariable(CodegenError):
    """A variable of the environment that tilewright reads, set to what it cannot be."""

    code = "TW0446"


class OutOfResources(CodegenError):
    """A build for which the system has no more file descriptors, memory or room on a disk."""

    code = "TW0448"


class InternalError(RuntimeError):
    """A fault of tilewright's own. Please report it, with the text of the message and the folder that it names, where it
    names one.

    evidence: texts by the name of the file that they will have in that folder. bundle: the folder, "" while there is none.
    """

    def __init__(self, message: str, evidence: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.evidence: dict[str, str] = dict(evidence or {})
        self.bundle = ""


FAULTS = (
    AssertionError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What Python raises where a compiler's own code is wrong. Errors of users derive from some of these too: tell them apart
by TilewrightError first."""


_SPENT = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN)


def resource_error(error: OSError, doing: str) -> OutOfResources | None:
    """The error for what the system refused because it has no more of it; None where it refused for another reason, or where a signal
    handler did. doing: what could not be done."""
    if error.errno not in _SPENT or is_interruption(error):
        return None
    return OutOfResources(
        doing,
        called=user_source(),
        reason=f"{error.filename or 'the system'}: {error.strerror}",
        fix="close files, make room, or raise the limits of the process (ulimit -n)",
    )


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception came from a signal handler, and has nothing to do with what it ended: Ctrl-C, or raised below a
    function that was called with a number and with the very frame that it interrupted."""
    if isinstance(error, KeyboardInterrupt):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        handler, code = trace.tb_next.tb_frame, trace.tb_next.tb_frame.f_code
        given = [handler.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        if code.co_flags & CO_VARARGS:
            rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
            given += handler.f_locals.get(rest, ())
        if any(isinstance(a, int) and b is trace.tb_frame for a, b in pairwise(given)):
            return True
        trace = trace.tb_next
    return False


def internal_error(error: BaseException, doing: str, evidence: Mapping[str, str] | None = None) -> InternalError:
    """`error` as a fault of ours that knows of `evidence` too: itself, if it is one already."""
    if isinstance(error, InternalError):
        error.evidence |= evidence or {}
        return error
    return InternalError(f"{doing}: {type(error).__name__}: {error}", evidence)


class TilewrightWarning(UserWarning):
    """Base class of every warning of this package: the program runs, but perhaps not as its author expects."""


class PerformanceWarning(TilewrightWarning):
    """A schedule or a setting that is legal and slower than it looks."""


class TilewrightDeprecationWarning(TilewrightWarning, DeprecationWarning):
    """A public name or a file format that a later release will no longer have; the message says which one and what replaces it."""


def warn_user(source: SourceLine | None, text: str, category: type[TilewrightWarning] = TilewrightWarning) -> None:
    """Issue a warning at a line of the user's program, once for each line and text by default. source: None where no line is known."""
    file, line = (source.file, source.line) if source else (__file__, 1)
    warnings.warn_explicit(text, category, file, line, registry=_warned)


_warned: dict[Any, Any] = {}
"""Warnings that were issued, as the module `warnings` keeps them."""
