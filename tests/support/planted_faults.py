"""Kernels whose CUDA text is changed on its way to the emulator, as a wrong compiler would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from tilewright.codegen.cuda import unit
from warpgroups import whole_numbers

__all__ = ["BARRIER", "built", "dropped", "everywhere", "exact_in_every_order", "nth_replaced", "orders", "replaced"]

BARRIER = "__syncthreads();"


def nth(text: str, what: str, number: int) -> int:
    """Where the `number`-th occurrence of `what` begins, from 0."""
    places = [match.start() for match in re.finditer(re.escape(what), text)]
    assert number < len(places), f"the text has {len(places)} of {what}"
    return places[number]


def dropped(number: int) -> Callable[[str], str]:
    """The text without one barrier."""

    def mutate(text: str) -> str:
        at = nth(text, BARRIER, number)
        return text[:at] + text[at + len(BARRIER) :]

    return mutate


def replaced(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    def mutate(text: str) -> str:
        assert old in text, f"there is no {old!r} to replace"
        return text.replace(old, new, count)

    return mutate


def everywhere(old: str, new: str) -> Callable[[str], str]:
    return replaced(old, new, -1)


def nth_replaced(old: str, new: str, number: int) -> Callable[[str], str]:
    """The `number`-th occurrence of `old` in the kernel replaced, from 0."""

    def mutate(text: str) -> str:
        places = [match.start() for match in re.finditer(re.escape(old), text[text.index('extern "C"') :])]
        at = text.index('extern "C"') + places[number]
        return text[:at] + new + text[at + len(old) :]

    return mutate


def orders(monkeypatch: pytest.MonkeyPatch, count: int = 3) -> Iterator[int]:
    """So many orders of blocks and threads, in each of which the emulator then runs kernels."""
    for seed in range(count):
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        yield seed


def exact_in_every_order(
    program: gpu_programs.Program, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> list[np.ndarray]:
    """Holds the results of whole numbers against the reference, in several orders of blocks and threads; returns the inputs."""
    inputs = whole_numbers(program)
    for _ in orders(monkeypatch):
        found = program.output()
        kernel(*inputs, found)
        np.testing.assert_array_equal(found, program.reference(*inputs))
    return inputs


def built(
    monkeypatch: pytest.MonkeyPatch,
    program: gpu_programs.Program,
    mutate: Callable[[str], str],
    target: str = "cuda -emulate",
) -> Any:
    original = unit.cuda_text

    def mutated(*args: Any) -> Any:
        made = original(*args)
        return replace(made, text=mutate(made.text))

    monkeypatch.setattr(unit, "cuda_text", mutated)
    return tw.build(program.schedule, program.args, target=target)
