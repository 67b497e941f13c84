"""The smallest program and schedule that still fail in the same way.

Primitives are left out one by one, last first; then numbers among the choices that made the program are lowered and left
out, which shrinks shapes, expressions and the number of stages alike. Whatever fails as before is kept.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from .oracle import Options, check, signature
from .program import Program
from .programs import drawn_program

__all__ = ["Candidate", "dies", "has_failure", "shrink"]

Candidate = tuple[list[int], list[Any]]
"""The choices of a program, and the records of a schedule."""


def shrink(
    numbers: Sequence[int],
    records: Sequence[Any],
    fails: Callable[[Candidate], bool],
    seconds: float,
    are_fixed: bool = False,
) -> Candidate | None:
    """Return the smallest choices and records found within `seconds` that still fail; None where these do not. are_fixed: whether
    each number has a meaning by its place, so that numbers are lowered and none is left out."""
    until = time.monotonic() + seconds
    best: Candidate = list(numbers), list(records)
    if not fails(best):
        return None

    def better(candidate: Candidate) -> bool:
        return time.monotonic() < until and fails(candidate)

    size = (-1, -1, -1)
    while size != _size(best) and time.monotonic() < until:
        size = _size(best)
        best = best[0], _fewer_records(best, better)
        if not are_fixed:
            best = _fewer_numbers(best, better), best[1]
        best = _lower_numbers(best, better), best[1]
    return best


def _size(candidate: Candidate) -> tuple[int, int, int]:
    numbers, records = candidate
    return len(numbers), sum(numbers), len(records)


def has_failure(candidate: Candidate, options: Options, wanted: str) -> bool:
    """Return whether the case fails with the signature `wanted`."""
    numbers, records = candidate
    try:
        program: Program = drawn_program(numbers)
        s = te.Schedule.replay(records, program.outputs)
    except Exception:  # noqa: BLE001 - records may speak of what is gone, and choices may make no program
        return wanted == "draw"
    try:
        check(program, s, options)
    except Exception as error:  # noqa: BLE001 - the kind of failure is compared
        return signature(error) == wanted
    return False


def dies(candidate: Candidate, options: Options) -> bool:
    """Return whether the case ends the process that runs it, here a copy of this one, or does not end itself."""
    child = os.fork()
    if not child:
        faulthandler.disable()
        signal.alarm(20)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        has_failure(candidate, options, "")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _fewer_records(best: Candidate, better: Callable[[Candidate], bool]) -> list[Any]:
    numbers, records = best
    for at in reversed(range(len(records))):
        fewer = records[:at] + records[at + 1 :]
        if better((numbers, fewer)):
            records = fewer
    return records


def _fewer_numbers(best: Candidate, better: Callable[[Candidate], bool]) -> list[int]:
    numbers, records = best
    for length in (16, 4, 1):
        at = len(numbers) - length
        while at >= 0:
            fewer = numbers[:at] + numbers[at + length :]
            if better((fewer, records)):
                numbers = fewer
            at -= length
    return numbers


def _lower_numbers(best: Candidate, better: Callable[[Candidate], bool]) -> list[int]:
    numbers, records = best
    for at in range(len(numbers)):
        while numbers[at]:
            lower = next(
                (
                    value
                    for value in dict.fromkeys((0, numbers[at] // 2, numbers[at] - 1))
                    if better(([*numbers[:at], value, *numbers[at + 1 :]], records))
                ),
                None,
            )
            if lower is None:
                break
            numbers = [*numbers[:at], lower, *numbers[at + 1 :]]
    return numbers
