"""Errors of building, emulating and running GPU kernels: TW0813 to TW0839. Lowering's own are in
ir/passes/gpu/errors.py."""

from __future__ import annotations

from ...base.errors import CudaError


class CompilerMissing(CudaError):
    """NVRTC, which compiles CUDA code, is not installed."""

    code = "TW0813"


class DisassemblerMissing(CudaError):
    """nvdisasm, which prints machine code of GPUs, is not installed."""

    code = "TW0814"


class HostCallback(CudaError):
    """A Python function that code on a GPU would have to call."""

    code = "TW0816"


class BlocksDepend(CudaError):
    """A serial loop around loops over blocks, whose iterations depend on what other blocks do in them."""

    code = "TW0817"


class EmulatorUnavailable(CudaError):
    """The emulator needs a C++ compiler on the machine."""

    code = "TW0815"


class EmulatedRace(CudaError):
    """Data race: two threads touched one address without a barrier between them, and one of them stored."""

    code = "TW0820"


class EmulatedOutOfBounds(CudaError):
    """An access outside of every buffer."""

    code = "TW0821"


class EmulatedDivergentBarrier(CudaError):
    """A barrier that some threads of the block did not come to."""

    code = "TW0822"


class EmulatedBadShuffle(CudaError):
    """An exchange within a warp with lanes that do not take part."""

    code = "TW0823"


class EmulatedMisaligned(CudaError):
    """A vector access at an address that is not a multiple of its size."""

    code = "TW0824"


class EmulatedAssertion(CudaError):
    """A condition that the kernel checks while it runs does not hold."""

    code = "TW0825"


class EmulatedEarlyAccess(CudaError):
    """An access of what an asynchronous copy or product is still at, before the thread that began it has waited for it."""

    code = "TW0826"


class EmulatedUnordered(CudaError):
    """An instruction of tensor cores or of the copy engine without the fence, or without the threads, that it needs."""

    code = "TW0827"


class EmulatedDeadlock(CudaError):
    """A wait for a phase of a barrier that cannot end: threads that do not arrive, or bytes that do not come."""

    code = "TW0828"
