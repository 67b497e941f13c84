"""Schedules held against numpy and against the unscheduled program, in every place where kernels run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.structural import equal
from tilewright.ir.text.parser import parse
from tilewright.ir.verify import verify
from tilewright.schedule import Schedule, from_json, to_json

__all__ = ["CPU", "EMULATED", "as_declared", "holds", "replays"]

CPU = ("interpret", "llvm")
EMULATED = (*CPU, "cuda -emulate")


def replays(s: Schedule, ops: Sequence[Any]) -> None:
    """The records, their JSON, the Python text and a copy all make the same program again."""
    text = str(s)
    assert str(te.Schedule.replay(s.trace, list(ops))) == text
    assert str(te.Schedule.replay(from_json(to_json(s.trace)), list(ops))) == text
    assert str(s.copy()) == text
    space: dict[str, Any] = {"te": te, "ops": list(ops)}
    exec(s.as_python(), space)
    assert str(space["s"]) == text


def holds(
    s: Schedule,
    args: Sequence[Any],
    inputs: Sequence[Any],
    expected: Sequence[np.ndarray],
    targets: Sequence[str] = CPU,
    tolerance: float = 1e-5,
) -> tw.ir.Function:
    """Every target leaves `expected` in the last arguments; the loops are well formed, and read back as they print."""
    function = tw.lower(s, args)
    verify(function)
    assert equal(parse(str(function)), function), "what is printed is read back otherwise"
    for target in targets:
        outputs = [np.full(one.shape, 77, one.dtype) for one in expected]
        tw.build(s, args, target=target)(*inputs, *outputs)
        for found, one in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=tolerance, atol=tolerance, err_msg=f"{target}\n{function}")
    return function


def as_declared(
    args: Sequence[Any], inputs: Sequence[Any], shapes: Sequence[tuple[tuple[int, ...], str]]
) -> list[np.ndarray]:
    """What the unscheduled program computes, by the interpreter."""
    outputs = [np.full(shape, 77, dtype) for shape, dtype in shapes]
    computed = [one.op for one in args if isinstance(one, te.Tensor) and one.op.kind != "placeholder"]
    run(tw.lower(te.create_schedule(computed), list(args)), [*inputs, *outputs])
    return outputs
