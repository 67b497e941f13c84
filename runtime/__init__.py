"""Running kernels: arrays, devices, threads, calls and their errors. Imports no compiler code."""

from .array import Array, array, empty, from_dlpack
from .device import Device, cpu, cuda
from .kernel import Kernel
from .module import Module
from .packed_array import PackedArray
from .signature import Signature
from .threads import num_threads, set_num_threads
from .timing import TimingResult

__all__ = [
    "Array",
    "Device",
    "Kernel",
    "Module",
    "PackedArray",
    "Signature",
    "TimingResult",
    "array",
    "cpu",
    "cuda",
    "empty",
    "from_dlpack",
    "num_threads",
    "set_num_threads",
]
