"""Exceptions on the way between machine code and Python: a call that did not come to its end never counts as done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


class Struck(BaseException):
    """An exception that nobody expects."""


def plus_one() -> list[te.Tensor]:
    A = te.placeholder((7,), name="A")
    return [A, te.compute((7,), lambda i: A[i] + 1, name="B")]


def twice_by_python() -> list[te.Tensor]:
    tw.register_func("callback_twice", lambda x, y: np.multiply(x, 2, out=y), override=True)
    A = te.placeholder((7,), name="A")
    return [A, te.extern((7,), [A], lambda ins, outs: te.call_packed("callback_twice", ins[0], outs[0]), name="B")]


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), RecursionError("deep"), ValueError("v")])
def test_what_an_interpreted_kernel_raises_the_call_raises(
    raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tw.build(plus_one(), target="interpret")
    a, b = np.arange(7, dtype="float32"), np.zeros(7, "float32")
    with monkeypatch.context() as patched:
        patched.setattr("tilewright.ir.interpret.interpreter.Interpreter.__call__", _raising(raised))
        with pytest.raises(type(raised), match=str(raised) or "^$") as caught:
            f(a, b)
    assert caught.value is raised
    f(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_memory_that_an_interpreted_kernel_cannot_get_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tw.build(plus_one(), target="interpret")
    monkeypatch.setattr("tilewright.ir.interpret.interpreter.Interpreter.__call__", _raising(MemoryError("no")))
    with pytest.raises(tw.CallError, match=r"TW0517[\s\S]*main could not get memory for its intermediates"):
        f(np.arange(7, dtype="float32"), np.zeros(7, "float32"))


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_call_lets_go_of_what_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tw.build(plus_one(), target="interpret")
    raised = KeyboardInterrupt("by hand")
    monkeypatch.setattr("tilewright.ir.interpret.interpreter.Interpreter.__call__", _raising(raised))
    with pytest.raises(KeyboardInterrupt, match="by hand"):
        f(np.zeros(7, "float32"), np.zeros(7, "float32"))
    before = sys.getrefcount(raised)
    with pytest.raises(KeyboardInterrupt, match="by hand"):
        f(np.zeros(7, "float32"), np.zeros(7, "float32"))
    assert sys.getrefcount(raised) == before


@pytest.mark.parametrize(
    ("target", "program"), [("interpret", plus_one), ("llvm", twice_by_python), ("c", twice_by_python)]
)
def test_no_call_succeeds_that_was_struck_at_any_of_its_lines(
    target: str, program: Callable[[], list[te.Tensor]]
) -> None:
    """Each line, and each entry of a function, of a call: those at which only ctypes can catch what is raised, too."""
    f = tw.build(program(), target=target)
    a, wanted = np.arange(7, dtype="float32"), np.zeros(7, "float32")
    f(a, wanted)
    places = _places(lambda: f(a, np.zeros(7, "float32")))
    assert len(places) > 10
    quiet, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for place in places:
            b = np.full(7, np.nan, "float32")
            if _finishes(lambda b=b: f(a, b), place):
                np.testing.assert_array_equal(b, wanted, err_msg=f"struck at {place}")
    finally:
        sys.unraisablehook = quiet
    b = np.zeros(7, "float32")
    f(a, b)
    np.testing.assert_array_equal(b, wanted)


def _places(action: Callable[[], Any]) -> list[tuple[str, str, int]]:
    found: dict[tuple[str, str, int], None] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if event in ("call", "line"):
            found[event, frame.f_code.co_filename, frame.f_lineno] = None
        return trace

    _traced(action, trace)
    return list(found)


def _finishes(action: Callable[[], Any], place: tuple[str, str, int]) -> bool:
    """Whether an action comes to its end although it is struck, once, at a place."""
    armed = [True]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if armed[0] and (event, frame.f_code.co_filename, frame.f_lineno) == place:
            armed[0] = False
            raise Struck
        return trace

    try:
        _traced(action, trace)
    except (Struck, KeyboardInterrupt, tw.CallError):
        return False
    return True


def _traced(action: Callable[[], Any], trace: Any) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
