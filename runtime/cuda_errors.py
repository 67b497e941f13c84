"""Why a kernel cannot run on a GPU: TW0830 to TW0834."""

from __future__ import annotations

from ..errors import CudaError


class DriverMissing(CudaError):
    """The machine has no NVIDIA driver."""

    code = "TW0830"


class GpuMissing(CudaError):
    """The driver finds no GPU, or not the one that was asked for."""

    code = "TW0831"


class PycudaMissing(CudaError):
    """pycuda, which calls the driver, is not installed."""

    code = "TW0832"


class WrongArchitecture(CudaError):
    """Code for a newer architecture than the GPU's."""

    code = "TW0833"


class LaunchFailed(CudaError):
    """The driver refused a launch, or memory for it."""

    code = "TW0834"
