"""Arrays in a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .capsule import make_capsule
from .cuda_driver import context
from .device import Device, cuda
from .tensors import Found

__all__ = ["DeviceArray", "device_array", "device_empty"]

_DLPACK_CUDA = 2


class DeviceArray:
    """A compact row-major array in a GPU's memory. `numpy()` copies it to the host; torch, cupy and others take it, without a
    copy, through `__cuda_array_interface__` or DLPack."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.nbytes = math.prod(shape) * dtype.itemsize
        with context(device.index) as driver:
            self._memory = driver.mem_alloc(max(self.nbytes, 1))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = self.dtype.str if self.dtype.kind != "V" else f"<V{self.dtype.itemsize}"
        return {"version": 3, "shape": self.shape, "typestr": kind, "data": (int(self._memory), False), "strides": None}

    def found(self) -> Found:
        """Its memory, as a kernel's call finds that of other people's tensors."""
        return Found(int(self._memory), self.dtype.name, self.shape, None, False, self, str(self.device))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CUDA, self.device.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule that shares the memory. Raises BufferError for another device, as the protocol asks.

        stream: where the consumer will work; -1 for a consumer that synchronises by itself. max_version: capsules are of the
        form that every version reads.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array lies on {self.device}; numpy() copies it to the host")
        if copy:
            return self._copied().__dlpack__(stream=stream)
        if stream != -1:
            with context(self.device.index) as driver:
                driver.Context.synchronize()
        return make_capsule(int(self._memory), self.shape, self.dtype.name, self.__dlpack_device__(), self)

    def _copied(self) -> DeviceArray:
        copy = device_empty(self.shape, self.dtype, self.device)
        if self.nbytes:
            with context(self.device.index) as driver:
                driver.memcpy_dtod(int(copy._memory), int(self._memory), self.nbytes)
        return copy

    def numpy(self) -> NDArray[Any]:
        """A copy on the host."""
        values = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with context(self.device.index) as driver:
                driver.memcpy_dtoh(values, self._memory)
        return values

    asnumpy = numpy

    def copyfrom(self, source: Any) -> DeviceArray:
        """Overwrite the elements with those of a host array of the same shape."""
        values = np.ascontiguousarray(np.asarray(source), dtype=self.dtype).reshape(self.shape)
        if self.nbytes:
            with context(self.device.index) as driver:
                driver.memcpy_htod(self._memory, values)
        return self

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.device})"


def device_empty(shape: Sequence[int], dtype: np.dtype[Any], device: Device | None = None) -> DeviceArray:
    """An array in a GPU's memory whose elements hold nothing in particular."""
    return DeviceArray(tuple(shape), dtype, device or cuda(0))


def device_array(values: NDArray[Any], device: Device | None = None) -> DeviceArray:
    """A copy of a host array in a GPU's memory."""
    return device_empty(values.shape, values.dtype, device).copyfrom(values)
