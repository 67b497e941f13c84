"""Kernels by Triton for `make gpu` to compare with: what its own tutorials compute, in a few lines of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["triton_peers"]

_SOURCE = """
import triton
import triton.language as tl

@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)

@triton.jit
def softmax(a, c, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(a + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(c + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)
"""


def triton_peers(folder: str) -> dict[str, Callable[..., Any]]:
    """By the name of a piece of work, the same by Triton on torch's tensors; empty without Triton. folder: on sys.path, where a
    file of the kernels may lie, whose source Triton reads."""
    try:
        importlib.import_module("triton")
    except ImportError:
        return {}
    with open(f"{folder}/tilewright_triton_kernels.py", "w") as file:
        file.write(_SOURCE)
    kernels = importlib.import_module("tilewright_triton_kernels")

    def add(a: Any, b: Any) -> Any:
        c = a.new_empty(a.shape)
        kernels.add[(-(-a.numel() // 4096),)](a, b, c, a.numel(), BLOCK=4096)
        return c

    def softmax(a: Any) -> Any:
        c = a.new_empty(a.shape)
        kernels.softmax[(a.shape[0],)](a, c, a.shape[1], BLOCK=1 << (a.shape[1] - 1).bit_length(), num_warps=16)
        return c

    return {"add": add, "softmax": softmax}
