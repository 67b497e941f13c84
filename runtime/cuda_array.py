"""Arrays in a GPU's memory."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.nibbles import pack_nibbles, unpack_nibbles
from .abi import PACKED_TYPES, REGISTERED_TYPES, array_bytes
from .capsule import make_capsule
from .cuda_driver import context
from .cuda_streams import Event, is_capturing, order_streams
from .device import Device, cuda
from .tensors import Found

__all__ = ["DeviceArray", "device_array", "device_empty"]

_DLPACK_CUDA = 2


class DeviceArray:
    """A compact row-major array in a GPU's memory. `numpy()` copies it to the host; torch, cupy and others take it, without a
    copy, through `__cuda_array_interface__` or DLPack."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.nbytes = array_bytes(dtype.name, math.prod(shape))
        self._memory = ctypes.c_uint64()
        self._used: Event | None = None
        """The end of its last use on another stream than the default one."""
        with context(device.index) as driver:
            place, size = ctypes.byref(self._memory), ctypes.c_size_t(max(self.nbytes, 1))
            # the driver allocates no empty memory
            driver.call(f"no memory on {device} for an array of {self.nbytes} bytes", "cuMemAlloc_v2", place, size)
        self._driver = driver

    def __del__(self) -> None:
        if getattr(self, "_driver", None) is not None and not sys.is_finalizing():  # at exit the driver may be gone
            with self._driver.current(self.device.index):
                self._driver.result("cuMemFree_v2", self._memory)

    def follow(self, stream: int) -> None:
        """Let what is begun on a stream from now on wait for the uses of this array on others. The context is current."""
        if is_capturing(self._driver, stream):  # a captured graph cannot wait for events from outside of it
            return  # a graph runs later, and waits for nothing that was begun before it
        if self._used is not None:
            self._used.hold(stream)
        else:
            order_streams(self._driver, 0, stream)

    def note(self, used: Event | None) -> None:
        """Remember the end of its last use; None where that is on the default stream."""
        self._used = used

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.name in PACKED_TYPES:
            raise AttributeError(f"the interface has no letters for {self.dtype}; DLPack has")
        # numpy has no letters for dtypes of ml_dtypes
        kind = f"<V{self.dtype.itemsize}" if self.dtype.name in REGISTERED_TYPES else self.dtype.str
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": kind,
            "data": (self._memory.value, False),
            "strides": None,
        }

    def found(self) -> Found:
        """Its memory, as a kernel's call finds that of other people's tensors."""
        return Found(self._memory.value, self.dtype.name, self.shape, None, False, self, str(self.device))

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

        stream: where the consumer will work, which waits for the elements on the GPU; -1 for a consumer that synchronises by itself;
        None or 1 for the default one. max_version: capsules are of the
        form that every version reads.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():  # the protocol asks for BufferError
            raise BufferError(f"the array lies on {self.device}; numpy() copies it to the host")
        if copy:
            return self._copy().__dlpack__(stream=stream)
        if stream != -1:  # -1: the consumer synchronises by itself
            with context(self.device.index):
                self.follow(0 if stream in (None, 1) else stream)
        return make_capsule(self._memory.value, self.shape, self.dtype.name, self.__dlpack_device__(), self)

    def _copy(self) -> DeviceArray:
        copy = device_empty(self.shape, self.dtype, self.device)
        if self.nbytes:  # an empty copy would be a driver error
            with context(self.device.index) as driver:
                self.follow(0)
                size = ctypes.c_size_t(self.nbytes)
                driver.call("a copy on the GPU failed", "cuMemcpyDtoD_v2", copy._memory, self._memory, size)
        return copy

    def numpy(self) -> NDArray[Any]:
        """A copy on the host."""
        packed = self.dtype.name in PACKED_TYPES
        values = np.empty(self.nbytes, np.uint8) if packed else np.empty(self.shape, self.dtype)
        if self.nbytes:
            with context(self.device.index) as driver:
                self.follow(0)
                host, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(self.nbytes)
                driver.call("a copy to the host failed", "cuMemcpyDtoH_v2", host, self._memory, size)
        return unpack_nibbles(values, self.shape, self.dtype) if packed else values

    asnumpy = numpy

    def copyfrom(self, source: Any) -> DeviceArray:
        """Overwrite the elements with those of a host array of the same shape."""
        values = np.ascontiguousarray(np.asarray(source), dtype=self.dtype).reshape(self.shape)
        values = pack_nibbles(values) if self.dtype.name in PACKED_TYPES else values
        if self.nbytes:
            with context(self.device.index) as driver:
                self.follow(0)
                host, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(self.nbytes)
                driver.call("a copy to the GPU failed", "cuMemcpyHtoD_v2", self._memory, host, size)
                self.note(None)  # the copy was on the default stream
        return self

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.device})"


def device_empty(shape: Sequence[int], dtype: np.dtype[Any], device: Device | None = None) -> DeviceArray:
    """An array in a GPU's memory whose elements hold nothing in particular."""
    return DeviceArray(tuple(shape), dtype, device or cuda(0))


def device_array(values: NDArray[Any], device: Device | None = None) -> DeviceArray:
    """A copy of a host array in a GPU's memory."""
    return device_empty(values.shape, values.dtype, device).copyfrom(values)
