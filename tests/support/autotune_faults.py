"""Candidates that misbehave, as the text of their loops: what tests of the tuner measure in place of schedules."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.autotune.task import Task
from tilewright.autotune.trial import Trial
from tilewright.autotune.trial_marks import make_mark

_HEAD = '@attrs(stage="loops")\ndef main(A: float32[64], B: out float32[64]):\n'
_RIGHT = ("for i in 64:", "    B[i] = A[i] * 2.0")


def doubling() -> list[te.Tensor]:
    """B = 2 A, of 64 elements."""
    a = te.placeholder((64,), name="A")
    return [a, te.compute((64,), lambda i: a[i] * 2.0, name="B")]


def task() -> Task:
    return Task.of(doubling())


def checked(task: Task, records: str, seconds: float, **more: Any) -> Trial:
    """A trial that counts as measured by this machine."""
    return Trial(records, seconds, mark=make_mark(task.key, records), **more)


def candidate(*lines: str, then: tuple[str, ...] = _RIGHT) -> str:
    """A function that does `lines`, and then what is right."""
    return _HEAD + "".join(f"    {line}\n" for line in (*lines, *then))


RIGHT = candidate()
FAULTS: dict[str, tuple[str, str]] = {
    "a signal for a bad address": ("crash", candidate('call_extern(int32, "raise", 11)')),
    "a write to page zero": ("crash", candidate('call_extern(int64, "memset", int64(64), 1, int64(4096))')),
    "abort": ("crash", candidate('call_extern(int32, "abort")')),
    "an endless loop": (
        "timeout",
        candidate("for j in 2000000000:", "    for k in 2000000000:", '        call_extern(int32, "getppid")'),
    ),
    "waiting for ever": ("timeout", candidate('call_extern(int32, "pause")')),
    "eight gigabytes": (
        "memory",
        candidate(
            "X: float32[2000000000]",
            "for j in 2000000000:",
            "    X[j] = A[j % 64]",
            "for j in 2000000000:",
            "    B[j % 64] = B[j % 64] + X[j]",
        ),
    ),
    "wrong everywhere": ("wrong output", candidate(then=("for i in 64:", "    B[i] = A[i] * 2.5"))),
    "half left out": ("wrong output", candidate(then=("for i in 32:", "    B[i] = A[i] * 2.0"))),
    "wrong at a later call": (
        "wrong output",
        candidate(then=("for i in 64:", "    B[i] = if_then_else(B[i] != B[i], A[i] * 2.0, 0.0)")),
    ),
    "garbage, and an end that looks orderly": (
        "exit",
        candidate(
            "for j in 100000:",
            '    call_extern(int32, "putchar", 123)',
            '    call_extern(int32, "putchar", 10)',
            'call_extern(int32, "exit", 0)',
        ),
    ),
    "killed": ("killed", candidate('call_extern(int32, "raise", 9)')),
    "no program": ("refused", "def main(:"),
}
"""What goes wrong: the class of failures that it is, and the candidate."""
