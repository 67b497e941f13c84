"""tvm.nd: arrays and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.arguments import to_list
from ...base.environment import is_enabled
from ...runtime import Array, Device, cpu
from ...runtime import array as _array
from ...runtime import empty as _empty
from ...runtime.array import from_dlpack as _from_dlpack
from ...runtime.cuda_driver import find_driver as _find_driver

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cl",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "is_emulated",
    "metal",
    "numpyasarray",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]


def is_emulated() -> bool:
    """Return whether "cuda" stands for the emulated GPU, whose arrays are the host's: where TILEWRIGHT_EMULATE is set."""
    return is_enabled("TILEWRIGHT_EMULATE")


class _Gpu(Device):
    """A GPU, and what programs ask of it."""

    __slots__ = ()

    @property
    def exist(self) -> bool:
        return is_emulated() or super().exist

    @property
    def device_name(self) -> str:
        return str(self)

    @property
    def compute_version(self) -> str | None:
        """Its capability, such as "9.0"; None where there is no GPU."""
        if is_emulated() or not super().exist:
            return "9.0" if is_emulated() else None
        major, minor = _find_driver(self.index).capability(self.index)
        return f"{major}.{minor}"

    def _attribute(self, number: int, emulated: int) -> int | None:
        """One of the driver's attributes, by CUdevice_attribute; what the emulated GPU has in its place; None where there is no GPU."""
        if is_emulated() or not super().exist:
            return emulated if is_emulated() else None
        return _find_driver(self.index).attribute(self.index, number)

    @property
    def warp_size(self) -> int | None:
        return self._attribute(10, 32)

    @property
    def max_threads_per_block(self) -> int | None:
        return self._attribute(1, 1024)

    @property
    def max_shared_memory_per_block(self) -> int | None:
        return self._attribute(8, 48 << 10)

    @property
    def multi_processor_count(self) -> int | None:
        return self._attribute(16, 1)

    def sync(self) -> None:
        """Wait for the device. The emulated one has always done everything."""
        if not is_emulated():
            super().sync()


def cuda(index: int = 0) -> Device:
    """A GPU, as tw.cuda. Raises UnknownDevice (TW0525)."""
    return _Gpu("cuda", index)


gpu = cuda


def _place(device: Device | None) -> Device | None:
    """Return the memory in which arrays of a device lie."""
    return cpu(0) if isinstance(device, _Gpu) and is_emulated() else device


class NDArray(Array):
    """An array of the host with TVM's names."""

    def same_as(self, other: object) -> bool:
        """Return whether it is this very array."""
        return self is other

    def to_dlpack(self) -> Any:
        """A DLPack capsule that shares the memory."""
        return self.__dlpack__()


def _wrap_array(value: Any) -> Any:
    """An array of the host with TVM's names; one of a GPU as it is."""
    return value.view(NDArray) if isinstance(value, Array) else value


class _Absent:
    """A device of a kind that nothing here drives: it can be named and asked, and is not there."""

    exist = False

    def __init__(self, kind: str, index: int) -> None:
        self.device_name, self.device_type, self.device_id = kind, _ABSENT[kind], index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Absent) and (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_name}({self.device_id})"


_KINDS = {"llvm": cpu, "cpu": cpu, "c": cpu, "stackvm": cpu, "interpret": cpu, "cuda": cuda, "gpu": cuda, "nvptx": cuda}
_ABSENT = {
    "opencl": 4,
    "cl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "ext_dev": 12,
    "webgpu": 15,
    "hexagon": 16,
    "aocl": 32,
    "sdaccel": 33,
    "micro_dev": 35,
}
"""TVM's numbers of the kinds that nothing here drives."""
_NUMBERED = {1: "cpu", 2: "cuda", **{number: kind for kind, number in reversed(_ABSENT.items())}}


def device(dev_type: Any, dev_id: int = 0) -> Any:
    """The device that a target's name (or its first word) runs on: "llvm", "cuda", or DLPack's number for it. Those of TVM's
    other kinds do not `.exist`."""
    kind = _NUMBERED.get(dev_type) if isinstance(dev_type, int) else str(dev_type).split()[0]
    if kind in _ABSENT:
        return _Absent(kind, dev_id)
    if kind not in _KINDS:
        raise ValueError(f"unknown device {dev_type!r}; there are {', '.join(_KINDS)}")
    return _KINDS[kind](dev_id)


context = device


def _absent(kind: str) -> Callable[[int], _Absent]:
    def of(dev_id: int = 0) -> _Absent:
        return _Absent(kind, dev_id)

    of.__doc__ = f"A device for {kind!r}, which does not `.exist`."
    return of


opencl, metal, vulkan, vpi, rocm = (_absent(kind) for kind in ("opencl", "metal", "vulkan", "vpi", "rocm"))
hexagon, webgpu, ext_dev = (_absent(kind) for kind in ("hexagon", "webgpu", "ext_dev"))
cl = opencl


def array(arr: Any, device: Device | None = None, mem_scope: str | None = None, ctx: Device | None = None) -> NDArray:
    """A copy of `arr` on a device, in its own dtype."""
    del mem_scope
    return _wrap_array(_array(np.array(arr), _place(device or ctx)))


def empty(
    shape: Any,
    dtype: Any = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """An uninitialised array; its extents may be constants of tensor shapes."""
    del mem_scope
    return _wrap_array(_empty([int(extent) for extent in to_list(shape)], dtype, _place(device or ctx)))


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
    return _wrap_array(_from_dlpack(_Capsule(dltensor) if type(dltensor).__name__ == "PyCapsule" else dltensor))


def numpyasarray(np_data: np.ndarray[Any, Any]) -> NDArray:
    """The same memory as an array of ours."""
    return from_dlpack(np_data)
