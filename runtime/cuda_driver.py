"""GPUs through pycuda: the driver and its contexts.

Everything works on a device's primary context, which torch and cupy share. Nothing here is touched before a kernel runs or
an array is made on a GPU, so that building for CUDA needs neither driver nor pycuda.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ..errors import user_source
from .cuda_errors import RESULTS, DriverMissing, GpuMissing, PycudaMissing

__all__ = ["ask_driver", "context", "driver_library", "find_driver", "primary_context"]

DRIVER_LIBRARY = "libcuda.so.1"
_EMULATE = 'target="cuda -emulate" runs kernels without a GPU'


def ask_driver() -> tuple[int, int]:
    """(the driver's status, 0 where it works; how many GPUs it finds). Raises OSError where there is no driver."""
    library = ctypes.CDLL(DRIVER_LIBRARY)
    count = ctypes.c_int()
    return library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)), count.value


def driver_library(index: int = 0) -> ctypes.CDLL:
    """The driver itself, once GPU `index` is there. Raises DriverMissing (TW0830), GpuMissing (TW0831)."""
    try:
        status, count = ask_driver()
    except OSError as error:
        raise DriverMissing(
            "cannot run on a GPU: this machine has no NVIDIA driver",
            reason=str(error),
            called=user_source(),
            fix=f"install NVIDIA's driver; {_EMULATE}",
        ) from None
    if status or count <= index:
        reason = f"the driver's cuInit returned {status}" if status else f"the driver finds {count} GPUs"
        raise GpuMissing(
            f"cannot run on a GPU: there is no cuda({index})",
            reason=reason,
            called=user_source(),
            fix=f"run where a GPU is visible (CUDA_VISIBLE_DEVICES, container options); {_EMULATE}",
        )
    return ctypes.CDLL(DRIVER_LIBRARY)


def find_driver(index: int = 0) -> Any:
    """pycuda's driver module, once the driver, GPU `index` and pycuda are there.

    Raises DriverMissing (TW0830), GpuMissing (TW0831), PycudaMissing (TW0832): which of the three it is, and what to do.
    """
    driver_library(index)
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as error:
        raise PycudaMissing(
            "cannot run on a GPU: pycuda is not installed",
            reason=str(error),
            called=user_source(),
            fix=f"pip install 'tilewright[cuda]'; {_EMULATE}",
        ) from None
    driver.init()
    return driver


@lru_cache(maxsize=16)
def _primary(index: int) -> tuple[Any, Any]:
    driver = find_driver(index)
    return driver, driver.Device(index).retain_primary_context()


@contextmanager
def context(index: int) -> Generator[Any]:
    """pycuda's driver module, with the primary context of GPU `index` current. Raises DriverMissing (TW0830), GpuMissing (TW0831),
    PycudaMissing (TW0832)."""
    driver, primary = _primary(index)
    primary.push()
    try:
        yield driver
    finally:
        primary.pop()


@contextmanager
def primary_context(index: int) -> Generator[ctypes.CDLL]:
    """The driver itself, with the primary context of GPU `index` current: what needs no pycuda. Raises DriverMissing (TW0830),
    GpuMissing (TW0831)."""
    driver = driver_library(index)
    device, held = ctypes.c_int(), ctypes.c_void_p()
    for result in (
        lambda: driver.cuDeviceGet(ctypes.byref(device), index),
        lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(held), device),
        lambda: driver.cuCtxPushCurrent_v2(held),
    ):
        status = result()
        if status:
            raise GpuMissing(
                f"cannot run on cuda({index})",
                called=user_source(),
                reason=f"the driver says: {RESULTS.get(status, status)}",
                fix="see what else holds this GPU",
            )
    try:
        yield driver
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(held))
