"""Devices: where memory lies and kernels run."""

from __future__ import annotations

from ..base import CudaError, dataclass, user_source
from ..base.arguments import is_a
from .errors import UnknownDevice

__all__ = ["Device", "cpu", "cuda"]

DLPACK_KINDS = {"cpu": 1, "cuda": 2}
_DLPACK_NAMES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    13: "cuda_managed",
}
HOST_KINDS = (1, 3)
"""DLPack device types whose memory the CPU may read and write."""
GPU_KINDS = (2, 13)
"""Those whose memory a GPU of NVIDIA's may."""


@dataclass(frozen=True, slots=True)
class Device:
    """A kind ("cpu" or "cuda") and which one of that kind, from 0. Raises UnknownDevice (TW0525) for any other."""

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        # True is an int, and no index
        if not is_a(self.kind, str) or self.kind not in DLPACK_KINDS or type(self.index) is not int or self.index < 0:
            raise UnknownDevice(
                f"there is no device {self.kind!r} with index {self.index!r}",
                called=user_source(),
                allowed="cpu and cuda, with an index from 0",
                fix="tw.cpu(), or tw.cuda(0)",
            )

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's (device type, device id)."""
        return DLPACK_KINDS[self.kind], self.index

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind, as TVM names it."""
        return DLPACK_KINDS[self.kind]

    @property
    def device_id(self) -> int:
        """The index, as TVM names it."""
        return self.index

    @property
    def exist(self) -> bool:
        """Return whether it can be used here: the host always, a GPU where the driver finds it."""
        if self.kind == "cpu":
            return True
        from .cuda_driver import find_driver  # stands on devices

        try:
            find_driver(self.index)
        except CudaError:
            return False
        return True

    def sync(self) -> None:
        """Wait until everything that was begun on it is done; on the host everything is. Raises DriverMissing (TW0830) or
        GpuMissing (TW0831) for a GPU that is not there, and LaunchFailed (TW0834) for a kernel that failed on it."""
        if self.kind == "cuda":
            from .cuda_driver import find_driver

            find_driver(self.index).synchronize(self.index)

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"

    __repr__ = __str__


def cpu(index: int = 0) -> Device:
    """The host. All CPUs are one device; the index is kept for programs that name one. Raises UnknownDevice (TW0525) for an index
    that is negative or no integer."""
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """The CUDA device with this index, from 0. Naming one asks nothing of the machine; using it does. Raises UnknownDevice (TW0525)
    for an index that is negative or no integer."""
    return Device("cuda", index)


def dlpack_name(kind: int, index: int) -> str:
    """A DLPack device as users know it."""
    return f"{_DLPACK_NAMES.get(kind, f'device type {kind}')}({index})"
