"""Reasons for which a kernel cannot run on a GPU: TW0830 to TW0835."""

from __future__ import annotations

from ..base.errors import CudaError
from .abi import Trouble


class DriverMissing(CudaError):
    """The machine has no NVIDIA driver."""

    code = "TW0830"


class GpuMissing(CudaError):
    """The driver finds no GPU, or not the one that was asked for."""

    code = "TW0831"


class PycudaMissing(CudaError):
    """Neither pycuda nor NVIDIA's cuda-bindings, which load and launch kernels, is installed."""

    code = "TW0832"


class WrongArchitecture(CudaError):
    """Code for a newer architecture than the GPU's."""

    code = "TW0833"


class LaunchFailed(CudaError):
    """The driver refused a launch, or memory for it."""

    code = "TW0834"


class UnknownStream(CudaError):
    """The stream passed to a call is none."""

    code = "TW0835"


TROUBLES: dict[Trouble, tuple[type[CudaError], str]] = {
    Trouble.NO_DRIVER: (DriverMissing, "this machine has no NVIDIA driver (libcuda.so.1)"),
    Trouble.OLD_DRIVER: (DriverMissing, "NVIDIA's driver is older than 12.0"),
    Trouble.NO_GPU: (GpuMissing, "the driver finds no GPU to run it on"),
    Trouble.ARCHITECTURE: (WrongArchitecture, "it has no code for this GPU's architecture"),
    Trouble.LOAD: (WrongArchitecture, "the driver refuses its code"),
    Trouble.MEMORY: (LaunchFailed, "no memory on the GPU for its intermediates"),
    Trouble.LAUNCH: (LaunchFailed, "the driver refuses a launch"),
}
"""Why a function of an exported library does not run: the error, and the reason in words."""

RESULTS = {
    1: "invalid value",
    2: "out of memory",
    3: "not initialized",
    4: "deinitialized",
    34: "a stub in the driver's place",
    46: "device unavailable",
    100: "no device",
    101: "invalid device",
    200: "invalid image",
    201: "invalid context",
    209: "no binary for this GPU",
    214: "uncorrectable memory error",
    218: "invalid PTX",
    220: "NVLink error",
    221: "the compiler of PTX is missing",
    222: "unsupported version of PTX",
    223: "compiling of PTX is disabled",
    300: "invalid source",
    301: "file not found",
    302: "shared object not found",
    303: "shared object not initialized",
    304: "operating system's error",
    400: "invalid handle",
    401: "illegal state",
    500: "not found",
    600: "not ready",
    700: "illegal address",
    701: "out of resources for a launch",
    702: "launch timed out",
    709: "context is destroyed",
    710: "assertion",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "launch failed",
    720: "cooperative launch too large",
    800: "not permitted",
    801: "not supported",
    802: "system not ready",
    803: "the driver does not fit the system",
    804: "the driver's compatibility package does not fit this GPU",
    900: "not permitted while a stream is captured",
    901: "the capture of a stream was invalidated",
    999: "unknown error",
}
"""The driver's results in words, as statuses tell them."""
