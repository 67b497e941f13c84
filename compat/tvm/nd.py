"""tvm.nd: arrays and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arguments import as_list
from ...runtime import Array, Device, cpu, cuda
from ...runtime import array as _array
from ...runtime import empty as _empty
from ...runtime.array import from_dlpack as _from_dlpack

__all__ = ["Device", "NDArray", "array", "context", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu", "numpyasarray"]

gpu = cuda


class NDArray(Array):
    """An array of the host with TVM's names."""

    def same_as(self, other: object) -> bool:
        """Whether it is this very array."""
        return self is other

    def to_dlpack(self) -> Any:
        """A DLPack capsule that shares the memory."""
        return self.__dlpack__()


def _named(value: Any) -> Any:
    """An array of the host with TVM's names; one of a GPU as it is."""
    return value.view(NDArray) if isinstance(value, Array) else value


class _Absent:
    """A device of a kind that nothing here drives: it can be named and asked, and is not there."""

    exist = False

    def __init__(self, kind: str, index: int) -> None:
        self.device_name, self.device_type, self.device_id = kind, kind, index

    def __repr__(self) -> str:
        return f"{self.device_name}({self.device_id})"


_KINDS = {"llvm": cpu, "cpu": cpu, "c": cpu, "stackvm": cpu, "interpret": cpu, "cuda": cuda, "gpu": cuda, "nvptx": cuda}
_ABSENT = ("opencl", "cl", "aocl", "sdaccel", "metal", "vulkan", "vpi", "rocm", "hexagon", "webgpu", "ext_dev", "micro_dev")


def device(dev_type: Any, dev_id: int = 0) -> Any:
    """The device that a target's name (or its first word) runs on: "llvm", "cuda", or DLPack's number for it. Those of TVM's
    other kinds do not `.exist`."""
    kind = {1: "cpu", 2: "cuda"}.get(dev_type) if isinstance(dev_type, int) else str(dev_type).split()[0]
    if kind in _ABSENT:
        return _Absent(kind, dev_id)
    if kind not in _KINDS:
        raise ValueError(f"unknown device {dev_type!r}; there are {', '.join(_KINDS)}")
    return _KINDS[kind](dev_id)


context = device


def array(arr: Any, device: Device | None = None, mem_scope: str | None = None, ctx: Device | None = None) -> NDArray:
    """A copy of `arr` on a device, in its own dtype."""
    del mem_scope
    return _named(_array(np.array(arr), device or ctx))


def empty(
    shape: Any, dtype: Any = "float32", device: Device | None = None, mem_scope: str | None = None, ctx: Device | None = None,
) -> NDArray:
    """An uninitialised array; its extents may be constants of tensor shapes."""
    del mem_scope
    return _named(_empty([int(extent) for extent in as_list(shape)], dtype, device or ctx))


class _Capsule:
    """A capsule as an object that hands one out."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # of the host: arrays of GPUs hand out themselves


def from_dlpack(dltensor: Any) -> NDArray:
    """The memory of an object with DLPack, or of a capsule that to_dlpack() gave, as an array."""
    return _named(_from_dlpack(_Capsule(dltensor) if type(dltensor).__name__ == "PyCapsule" else dltensor))


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """The same memory as an array of ours."""
    return from_dlpack(np_data)
