"""NVIDIA's driver: its functions by ctypes, and the contexts in which they are called.

Everything works on a device's primary context, which torch and cupy share. It is retained once for each GPU that is used, and
released when the process ends. Nothing here is touched before a kernel runs or an array is made on a GPU, so that building for CUDA
needs no driver. Kernels are loaded and launched by a package (cuda_binding.py).
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from ..base.errors import CudaError, user_source
from .cuda_errors import RESULTS, DriverMissing, GpuMissing, LaunchFailed

__all__ = ["EMULATE", "Driver", "ask_driver", "context", "find_driver", "reason_text", "refused", "unusable"]

DRIVER_LIBRARY = "libcuda.so.1"
EMULATE = 'target="cuda -emulate" runs kernels without a GPU'
_MAJOR, _MINOR, _PROCESSORS = 75, 76, 16  # CU_DEVICE_ATTRIBUTE_...


def ask_driver() -> tuple[int, int]:
    """(the driver's status, 0 where it works; how many GPUs it finds). Raises OSError where there is no driver."""
    library = ctypes.CDLL(DRIVER_LIBRARY)
    count = ctypes.c_int()
    return library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)), count.value


class Driver:
    """The driver's functions, which take what ctypes takes."""

    def __init__(self, name: str) -> None:
        self.library = ctypes.CDLL(name)
        self._retained: dict[int, ctypes.c_void_p] = {}
        self._lock = Lock()

    def result(self, name: str, *arguments: Any) -> int:
        """Call a function of the driver; return its result, 0 for success."""
        return int(getattr(self.library, name)(*arguments))

    def call(self, doing: str, name: str, *arguments: Any) -> None:
        """Raise LaunchFailed (TW0834) with `doing`, what was not done, where a function of the driver does not return 0."""
        result = self.result(name, *arguments)
        if result:
            raise refused(doing, result)

    def device(self, index: int) -> int:
        """The driver's number of a GPU. Raises LaunchFailed (TW0834)."""
        device = ctypes.c_int()
        self.call(f"cannot find cuda({index})", "cuDeviceGet", ctypes.byref(device), index)
        return device.value

    def attribute(self, index: int, number: int) -> int:
        """One of CUdevice_attribute. Raises LaunchFailed (TW0834)."""
        value, device = ctypes.c_int(), self.device(index)
        self.call(f"cannot ask cuda({index}) what it has", "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    def capability(self, index: int) -> tuple[int, int]:
        """The major and minor version of a GPU's architecture. Raises LaunchFailed (TW0834)."""
        return self.attribute(index, _MAJOR), self.attribute(index, _MINOR)

    def processors(self, index: int) -> int:
        """The multiprocessors of a GPU. Raises LaunchFailed (TW0834)."""
        return self.attribute(index, _PROCESSORS)

    def device_name(self, index: int) -> str:
        """The name of a GPU as a product. Raises LaunchFailed (TW0834)."""
        name, device = ctypes.create_string_buffer(256), self.device(index)
        self.call(f"cannot ask cuda({index}) for its name", "cuDeviceGetName", name, len(name), device)
        return name.value.decode(errors="replace")

    def primary(self, index: int) -> ctypes.c_void_p:
        """The primary context of a GPU, retained once. Raises GpuMissing (TW0831)."""
        with self._lock:  # two threads may ask for the first context at once
            held = self._retained.get(index)
            if held is None:
                held = ctypes.c_void_p()
                result = self.result("cuDevicePrimaryCtxRetain", ctypes.byref(held), self.device(index))
                if result:
                    raise unusable(index, reason_text(result))
                if not self._retained:  # released once, when the process ends
                    atexit.register(self._release)
                self._retained[index] = held
            return held

    def _release(self) -> None:
        for index in self._retained:
            self.result("cuDevicePrimaryCtxRelease_v2", self.device(index))
        self._retained.clear()

    @contextmanager
    def current(self, index: int) -> Generator[None]:
        """Make the primary context of a GPU current. Raises GpuMissing (TW0831)."""
        result = self.result("cuCtxPushCurrent_v2", self.primary(index))
        if result:
            raise unusable(index, reason_text(result))
        try:
            yield
        finally:  # popped whatever happened inside
            self.result("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def synchronize(self, index: int) -> None:
        """Wait for everything that was begun on a GPU. Raises LaunchFailed (TW0834) where a kernel of it failed."""
        with self.current(index):
            self.call(f"a kernel failed on cuda({index})", "cuCtxSynchronize")


def refused(doing: str, result: int, fix: str = "") -> LaunchFailed:
    """The error for what the driver did not do."""
    return LaunchFailed(doing, reason=reason_text(result), called=user_source(), fix=fix)


def reason_text(result: int) -> str:
    """Return the meaning of a result of the driver."""
    return f"the driver says: {RESULTS.get(result, f'result {result}')}"


def unusable(index: int, reason: str) -> CudaError:
    """The error for a GPU that is there, and whose context cannot be had."""
    return GpuMissing(
        f"cannot run on cuda({index})",
        called=user_source(),
        reason=reason,
        fix="see what else holds this GPU",
    )


@cache
def _load_driver(name: str) -> Driver:
    return Driver(name)


def find_driver(index: int = 0) -> Driver:
    """The driver, once GPU `index` is there. Raises DriverMissing (TW0830), GpuMissing (TW0831)."""
    try:
        status, count = ask_driver()
    except OSError as error:
        raise DriverMissing(
            "cannot run on a GPU: this machine has no NVIDIA driver",
            reason=str(error),
            called=user_source(),
            fix=f"install NVIDIA's driver; {EMULATE}",
        ) from None
    if status or count <= index:  # an index beyond what the driver finds is the commoner mistake
        reason = f"the driver's cuInit returned {status}" if status else f"the driver finds {count} GPUs"
        raise GpuMissing(
            f"cannot run on a GPU: there is no cuda({index})",
            reason=reason,
            called=user_source(),
            fix=f"run where a GPU is visible (CUDA_VISIBLE_DEVICES, container options); {EMULATE}",
        )
    return _load_driver(DRIVER_LIBRARY)


@contextmanager
def context(index: int) -> Generator[Driver]:
    """The driver, with the primary context of GPU `index` current. Raises DriverMissing (TW0830), GpuMissing (TW0831)."""
    driver = find_driver(index)
    with driver.current(index):
        yield driver
