"""Whether a function before and after passes does the same: both are interpreted on drawn inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import drawn
import numpy as np
from tilewright.ir.buffer import Buffer
from tilewright.ir.expr import IntImm
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.stmt import Function
from tilewright.ir.text.parser import parse
from tilewright.ir.verify import verify

__all__ = ["after", "apply", "assert_same", "draw_arguments"]


def apply(function: Function, passes: Sequence[Callable[[Function], Function]]) -> Function:
    """The function after the passes."""
    for step in passes:
        function = step(function)
    return function


def after(text: str, *passes: Callable[[Function], Function], stage: str = "", **scalars: int) -> Function:
    """The function of `text` after the passes, having checked that it still does the same."""
    before = parse(text)
    result = apply(before, passes)
    if stage:
        verify(result.with_attrs(stage=stage))
    assert_same(before, result, **scalars)
    return result


def draw_arguments(function: Function, scalars: dict[str, int], case: int = 0) -> list[np.ndarray | int]:
    """An argument for each parameter: arrays of small numbers, which floats add exactly, and the given scalars."""
    rng = drawn.rng(function.name, case)
    found: list[np.ndarray | int] = []
    for parameter in function.params:
        if not isinstance(parameter, Buffer):
            found.append(scalars[parameter.name])
            continue
        shape = [extent.value if isinstance(extent, IntImm) else scalars[extent.name] for extent in parameter.shape]
        low = 0 if parameter.dtype.kind in ("uint", "bool") else -8
        high = 2 if parameter.dtype.kind == "bool" else 9
        found.append(rng.integers(low, high, size=shape).astype(parameter.dtype))
    return found


def assert_same(before: Function, result: Function, **scalars: int) -> None:
    """Fails where the two functions leave different outputs, or one of them reads or writes out of bounds."""
    arguments = draw_arguments(before, scalars)
    expected = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    got = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    run(before, expected, check=False)
    run(result, got, check=False, declared=before.params)
    for parameter, a, b in zip(before.params, expected, got, strict=True):
        if isinstance(parameter, Buffer):
            np.testing.assert_array_equal(b, a, err_msg=f"{parameter.name} of\n{before}\nafter\n{result}\n{scalars}")
