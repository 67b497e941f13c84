"""What the scheduler chooses for GPUs, run on the emulator beside the program without a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.plan import Candidate
from tilewright.autoschedule.scheduler import schedule
from tilewright.codegen.cuda.emulate.call import SEED_VARIABLE
from tilewright.codegen.gpus import target_architecture
from tilewright.codegen.target import Target
from tilewright.runtime.array import numpy_dtype
from tilewright.te.shape import constant_extent

__all__ = ["differs", "text_of"]

ORDERS = (0, 1, 2)
"""Of blocks and of threads, in which the emulator runs a kernel: one of them, drawn, or all under `make soak`."""


def computed_of(output: Any) -> list[Any]:
    """A tensor and all that it is computed from."""
    found: dict[Any, None] = {}
    stack = [output]
    while stack:
        tensor = stack.pop()
        found[tensor] = None
        stack.extend(tensor.op.input_tensors)
    return list(found)


def inputs_of(output: Any) -> list[Any]:
    """The placeholders that a tensor is computed from."""
    return [tensor for tensor in computed_of(output) if not tensor.op.input_tensors]


def _size_of_sums(output: Any) -> float:
    """How large sums of standard normal values are, of as many as the longest here has: a total near zero keeps their roundings."""
    terms = [
        prod(constant_extent(axis) or 1 for axis in getattr(tensor.op, "reduce_axis", ()))
        for tensor in computed_of(output)
    ]
    return sqrt(max(terms, default=1))


def differs(
    output: Any,
    rng: np.random.Generator,
    choose: Callable[[Sequence[Candidate]], int] | None = None,
    exact: bool = False,
    bits: bool = True,
    tolerance: float = 1e-5,
    target: str = "cuda -emulate",
) -> str:
    """How a chosen schedule computes anything else, in any order, than the unscheduled program: not the same bits where it is
    exact, else not within `tolerance`, relative to the largest result and to what is summed. choose: takes one of a rule's
    candidates. bits: False for functions of mathematics, whose last bits a GPU's library has otherwise."""
    inputs = inputs_of(output)
    chooser = {} if choose is None else {"chooser": lambda _, ways: choose(ways)}
    s = schedule([output], target, exact=exact, **chooser)
    arrays = [_values(tensor, rng) for tensor in inputs]
    kernels = [
        tw.build(each, [*inputs, output], target=where)
        for each, where in ((s, target), (te.create_schedule(output.op), "llvm"))
    ]
    if exact and not s.is_exact:
        return f"exact=True chose\n{s.plan}"
    if drawn.SOAK:  # NVRTC takes what the emulator takes
        tw.build(s, [*inputs, output], target=f"cuda -arch={target_architecture(Target.parse(target))}").source("ptx")
    expected = _result(kernels[1], output, arrays)
    for order in ORDERS if drawn.SOAK else (int(rng.choice(ORDERS)),):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SEED_VARIABLE, str(order))
            ours = _result(kernels[0], output, arrays)
        if s.is_exact and bits:
            same = np.array_equal(ours, expected, equal_nan=ours.dtype.kind == "f")
        else:
            apart = abs(ours.astype("float64") - expected.astype("float64"))
            same = bool(
                np.all(apart <= tolerance * max(_size_of_sums(output), abs(expected.astype("float64")).max(initial=0)))
            )
        if not same:
            return f"in order {order}: {ours}\nnot\n{expected}\n{s.plan}\n{s}"
    return ""


def _result(kernel: tw.Kernel, output: Any, arrays: Sequence[np.ndarray]) -> np.ndarray:
    result = np.full([int(extent) for extent in output.shape], 77, numpy_dtype(output.dtype))
    kernel(*arrays, result)
    return result


def _values(tensor: Any, rng: np.random.Generator) -> np.ndarray:
    shape = [int(extent) for extent in tensor.shape]
    if "float" in tensor.dtype:
        return rng.standard_normal(shape).astype(numpy_dtype(tensor.dtype))
    return rng.integers(-100, 100, shape).astype(tensor.dtype)


def text_of(s: Any, output: Any, target: str = "cuda -arch=sm_80") -> str:
    """The CUDA C of a schedule's kernels, without what stands before them."""
    text = tw.build(s, [*inputs_of(output), output], target=target).source("cuda")
    return text[text.index('extern "C"') :]
