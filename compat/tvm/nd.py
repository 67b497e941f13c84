"""tvm.nd: arrays and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime import Array as NDArray
from ...runtime import Device, cpu, cuda
from ...runtime import array as _array
from ...runtime import empty as _empty

__all__ = ["Device", "NDArray", "array", "context", "cpu", "cuda", "device", "empty", "gpu", "numpyasarray"]

gpu = cuda
_KINDS = {"llvm": cpu, "cpu": cpu, "c": cpu, "stackvm": cpu, "cuda": cuda, "gpu": cuda, "nvptx": cuda}


def device(name: str, index: int = 0) -> Device:
    """The device that a target name (or its first word) runs on."""
    kind = str(name).split()[0]
    if kind not in _KINDS:
        raise ValueError(f"unknown device {name!r}; there are {', '.join(_KINDS)}")
    return _KINDS[kind](index)


context = device


def array(arr: Any, device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """A copy of `arr` on a device, in its own dtype."""
    return _array(np.array(arr), device or ctx)


def empty(shape: int | Sequence[int], dtype: Any = "float32", device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """An uninitialised array."""
    return _empty(shape, dtype, device or ctx)


def numpyasarray(array: np.ndarray[Any, Any]) -> NDArray:
    """The same memory as an array of ours."""
    return _array(array)
