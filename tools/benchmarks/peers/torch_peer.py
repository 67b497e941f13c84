"""torch on the CPU: MKL's and oneDNN's kernels, and its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cases import Arrays, Builder, Runner

__all__ = ["call", "matmul", "tensors"]


def tensors(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Tensors on the arrays' memory; bfloat16 included."""
    import torch

    def tensor(array: np.ndarray) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    return [tensor(array) for array in arrays]


def call(function: Callable[..., Any], out: bool = False) -> Builder:
    """`function(torch, *inputs)`, the inputs as tensors, without gradients; out: it takes out=."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        import torch

        given = tensors(inputs)
        into = {"out": tensors(outputs)[0]} if out else {}

        def run() -> Any:
            with torch.inference_mode():
                return function(torch, *given, **into)

        return run

    return builder


matmul = call(lambda torch, a, b, out: torch.matmul(a, b, out=out), out=True)
"""C = A @ B, into the array given."""
