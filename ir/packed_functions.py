"""Python functions that kernels call, by name.

    @tw.register_func("scale")
    def scale(x, y):                 # numpy views of the buffers: inputs are read-only
        np.multiply(x, 2, out=y)

    te.extern((n,), [A], lambda ins, outs: te.call_packed("scale", ins[0], outs[0]))

A function gets a numpy array for a buffer (good for the length of the call), a Python number for a number, a str for a
string. It returns an integer or nothing; an array counts as nothing. What it raises ends the kernel and comes back to the
kernel's caller as the cause of a CallbackFailed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from ..base.arguments import is_array
from ..base.errors import TilewrightError, is_interruption, user_source
from .errors import CallbackFailed, FunctionNameTaken

__all__ = ["call_func", "callback_failed", "find_func", "register_func", "registered_names", "trace_line"]

Function = TypeVar("Function", bound=Callable[..., Any])
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[Function], Function]: ...
@overload
def register_func(name: str, f: Function, override: bool = False) -> Function: ...
@overload
def register_func(name: Function) -> Function: ...
def register_func(
    name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Callable[..., Any]:
    """Register a Python function for te.call_packed: as a decorator, with a name or under the function's own, or as a call.

    Parameters
    ----------
    name : str or callable
        The name; or, of a decorator without one, the function.
    f : callable, optional
        The function; without it a decorator is returned.
    override : bool, default False
        Whether a function of this name may be replaced; kernels that were built keep the one that they were built with.

    Raises
    ------
    FunctionNameTaken (TW0108)
        Another function has the name.
    """
    if callable(name):
        return register_func(getattr(name, "__name__", type(name).__name__), name)
    label = str(name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if label in _FUNCTIONS and not override:
            raise FunctionNameTaken(
                f"a function named {label!r} is registered already",
                called=user_source(),
                reason=f"it is {_FUNCTIONS[label]!r}"[:200],
                fix=f"tw.register_func({label!r}, override=True), or another name",
            )
        _FUNCTIONS[label] = function
        return function

    return register if f is None else register(f)


def find_func(name: str) -> Callable[..., Any] | None:
    """The function of a name; None where nobody has registered one."""
    return _FUNCTIONS.get(name)


def registered_names() -> list[str]:
    """The names of all functions, sorted."""
    return sorted(_FUNCTIONS)


def call_func(name: str, function: Callable[..., Any], args: Sequence[Any]) -> int:
    """Call a registered function: 0 for None and for an array. Raises CallbackFailed for whatever it raises
    that is not an interruption."""
    try:
        result = function(*args)
        if result is None or (is_array(result) and result.ndim):  # numpy's functions return their `out`
            return 0
        return operator.index(result)
    except BaseException as error:
        if is_interruption(error):
            raise
        raise callback_failed(name, error) from error


def callback_failed(name: str, error: BaseException) -> CallbackFailed:
    """The error for what a registered function raised, which is to be its cause."""
    if isinstance(error, TilewrightError):
        reason = error.headline
    else:
        reason = f"{type(error).__name__}: {error}"
    return CallbackFailed(
        f"the packed function {name!r} raised an exception",
        reason=reason[:300],
        called=user_source(),
        fix="see the exception that is this one's cause",
    )


def trace_line(tag: str, values: Sequence[Any]) -> str:
    """Return the line that te.trace prints."""
    return " ".join([f"{tag}:", *map(str, values)]) + "\n"
