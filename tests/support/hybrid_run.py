"""Runs hybrid scripts as Python, in the interpreter and as native code, for the tests of hybrid scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te

__all__ = ["agree", "outputs_of", "tensors_like"]


def tensors_like(arrays: Sequence[Any], symbolic: bool = False) -> list[Any]:
    """A placeholder for each array, of its shape or of symbols; numbers as they are."""
    symbols: dict[int, Any] = {}
    made: list[Any] = []
    for at, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            made.append(array)
            continue
        shape = [
            symbols.setdefault(extent, te.size_var(f"n{len(symbols)}")) if symbolic else extent
            for extent in array.shape
        ]
        made.append(te.placeholder(shape, str(array.dtype), name=f"in{at}"))
    return made


def outputs_of(made: Any) -> list[Any]:
    """The output tensors of a script as a list."""
    return list(made) if isinstance(made, (tuple, list)) else [made]


def agree(
    script: Any,
    arrays: Sequence[Any],
    expected: Any,
    schedule: Callable[[Any, list[Any]], None] | None = None,
    targets: Sequence[str] = ("interpret", "llvm"),
    symbolic: bool = False,
    exact: bool = True,
) -> Any:
    """Assert that the script gives `expected` (one array or several) as Python and as a kernel for each target, scheduled
    by `schedule(s, outputs)`. Returns the schedule."""
    wanted = outputs_of(expected)
    compare = (
        np.testing.assert_array_equal if exact else lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    )
    kept = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
    for found, want in zip(outputs_of(script(*kept)), wanted, strict=True):
        compare(found, want)
        assert found.dtype == want.dtype
    inputs = tensors_like(arrays, symbolic)
    outputs = outputs_of(script(*inputs))
    s = te.create_schedule([outputs[0].op])
    if schedule is not None:
        schedule(s, outputs)
    passed = [tensor for tensor in inputs if isinstance(tensor, te.Tensor)]
    for target in targets:
        kernel = tw.build(s, [*passed, *outputs], target=target)
        results = [np.full(want.shape, 113, want.dtype) for want in wanted]  # whatever was there must not matter
        kernel(*(array.copy() for array in arrays if isinstance(array, np.ndarray)), *results)
        for found, want in zip(results, wanted, strict=True):
            compare(found, want)
    return s
