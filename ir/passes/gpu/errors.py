"""Errors of GPU lowering: TW0801 to TW0812, TW0840 and TW0841."""

from __future__ import annotations

from ....base.errors import CudaError


class NothingBound(CudaError):
    """A loop nest at the root that no thread axis runs."""

    code = "TW0801"


class BlockExtentNotConstant(CudaError):
    """A threadIdx loop whose extent is not known when the kernel is built."""

    code = "TW0802"


class ThreadExtentsDisagree(CudaError):
    """Loops of one thread tag whose extents cannot be compared."""

    code = "TW0803"


class TooManyThreads(CudaError):
    """A block with more threads than a GPU runs."""

    code = "TW0804"


class UnknownThreadTag(CudaError):
    """A thread axis that no GPU has."""

    code = "TW0805"


class DivergentBarrier(CudaError):
    """A barrier, or a collective of threads, needed where not every thread of the block comes by."""

    code = "TW0806"


class SharedOutsideKernel(CudaError):
    """Shared or local memory that several kernels would have to see."""

    code = "TW0807"


class LocalAcrossThreads(CudaError):
    """Local memory filled by one thread and read by another."""

    code = "TW0808"


class CrossBlock(CudaError):
    """Memory written by one block and read by another of the same kernel."""

    code = "TW0809"


class ReductionNotRecognised(CudaError):
    """Threads that meet in one element without a reduction that joins them."""

    code = "TW0810"


class LocalNotConstant(CudaError):
    """Shared or local memory of a size that is not known when the kernel is built."""

    code = "TW0811"


class TooMuchShared(CudaError):
    """More shared memory than a block has."""

    code = "TW0812"


class FragmentMisused(CudaError):
    """Registers of a tensor core in a way that only its instructions can use them."""

    code = "TW0840"


class CannotCopyInBulk(CudaError):
    """A copy that the copy engine is to do, and that is not a box of a tensor, with zeros outside, as it knows them."""

    code = "TW0841"
