"""Runs scheduled programs in the interpreter, for the tests of lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tilewright.ir.interpret import interpreter
from tilewright.ir.stmt import Allocate, BufferStore, For, Function, If
from tilewright.ir.verify import verify
from tilewright.ir.visit import walk
from tilewright.schedule.lowering.lower import lower


def run(schedule: Any, args: Sequence[Any], inputs: Sequence[Any], output: tuple[tuple[int, ...], str]) -> np.ndarray:
    """The last argument's contents after the lowered program ran on `inputs`."""
    function = lower(schedule, args)
    verify(function, "loops")
    result = np.full(output[0], 77, dtype=output[1])
    interpreter.run(function, [*inputs, result], check=True)
    return result


def check(schedule: Any, args: Sequence[Any], inputs: Sequence[Any], expected: np.ndarray) -> Function:
    """Assert that the lowered program computes `expected` into its last argument; returns the program."""
    found = run(schedule, args, inputs, (expected.shape, str(expected.dtype)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return lower(schedule, args)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def loops(function: Function) -> list[str]:
    """Every loop as "name:extent", outermost first, in the order of the program."""
    return [f"{node.var.name}:{node.extent}" for node in walk(function.body) if isinstance(node, For)]


def find(function: Function, kind: type[Any], holds: Callable[[Any], bool] = lambda node: True) -> list[Any]:
    """The statements of a kind, in the order of the program."""
    return [node for node in walk(function.body) if isinstance(node, kind) and holds(node)]


def guards(function: Function) -> list[str]:
    """The conditions of all guards, as text."""
    return [str(node.condition) for node in find(function, If)]


def allocated(function: Function) -> dict[str, tuple[str, ...]]:
    """The shape of every buffer that the program allocates, by name."""
    return {node.buffer.name: tuple(map(str, node.buffer.shape)) for node in find(function, Allocate)}


def stores_to(function: Function, name: str) -> list[BufferStore]:
    return find(function, BufferStore, lambda node: node.buffer.name == name)
