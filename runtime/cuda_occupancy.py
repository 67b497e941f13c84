"""The number of blocks of a kernel that a GPU holds at once, as the driver says it of the GPU that is there."""

from __future__ import annotations

import ctypes
from math import prod

from .cuda_driver import Driver
from .cuda_launch import KernelLaunch

__all__ = ["blocks_at_once"]

_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class _Config(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


def blocks_at_once(driver: Driver, index: int, code: bytes, launch: KernelLaunch) -> int:
    """Return, for a kernel whose blocks take one part after the other, how many are launched along x: those that the GPU holds at once,
    whole clusters, and no more than there are parts. code: with the kernel. Raises LaunchFailed (TW0834)."""
    doing = f"the driver does not say how many blocks of {launch.name} run at once"
    library, kernel, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    nothing, none = ctypes.c_void_p(), ctypes.c_uint()
    driver.call(
        # PTX has to end with a zero byte
        doing,
        "cuLibraryLoadData",
        ctypes.byref(library),
        code + b"\0",
        nothing,
        nothing,
        none,
        nothing,
        nothing,
        none,
    )
    try:
        driver.call(doing, "cuLibraryGetKernel", ctypes.byref(kernel), library, launch.name.encode())
        shared, threads, together = launch.dynamic_shared_bytes, prod(launch.block), launch.cluster[0]
        if shared:  # occupancy depends on the shared memory that the launch will ask for
            driver.call(doing, "cuKernelSetAttribute", _DYNAMIC_SHARED, shared, kernel, driver.device(index))
        if together == 1:
            name, last, times = "cuOccupancyMaxActiveBlocksPerMultiprocessor", threads, driver.processors(index)
            driver.call(doing, name, ctypes.byref(count), kernel, last, ctypes.c_size_t(shared))
        else:
            config, times = _Config((launch.parts, 1, 1), launch.block, shared), together
            driver.call(doing, "cuOccupancyMaxActiveClusters", ctypes.byref(count), kernel, ctypes.byref(config))
    finally:
        driver.result("cuLibraryUnload", library)
    return min(launch.parts, max(count.value * times, together))  # at least one cluster, and no block without a part
