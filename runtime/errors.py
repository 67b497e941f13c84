"""Errors of calls, devices, timing, and loaded libraries."""

from __future__ import annotations

from ..base.errors import CallError, ExportError


class WrongArgumentCount(CallError):
    """More or fewer arguments than the kernel has parameters."""

    code = "TW0501"


class WrongKeyword(CallError):
    """A keyword argument that names no parameter, or one that is given already."""

    code = "TW0502"


class NotATensor(CallError):
    """A value without memory that the kernel could work on."""

    code = "TW0503"


class WrongDType(CallError):
    """Elements of another type than declared. Kernels never convert their arguments."""

    code = "TW0504"


class WrongRank(CallError):
    """Another number of dimensions than declared."""

    code = "TW0505"


class WrongShape(CallError):
    """An extent that differs from the declared one."""

    code = "TW0506"


class SymbolDisagrees(CallError):
    """Two extents that the same shape symbol stands for, and that differ."""

    code = "TW0507"


class WrongStride(CallError):
    """An array whose elements are not compact in row-major order."""

    code = "TW0508"


class Misaligned(CallError):
    """An address that is not a multiple of the element's size."""

    code = "TW0509"


class ReadOnlyOutput(CallError):
    """An output that must not be written to."""

    code = "TW0510"


class OverlappingOutput(CallError):
    """An output that shares memory with another argument."""

    code = "TW0511"


class WrongDevice(CallError):
    """Memory of another device than the kernel's."""

    code = "TW0512"


class WrongByteOrder(CallError):
    """Elements in the byte order of another machine."""

    code = "TW0513"


class WrongScalar(CallError):
    """A value that is not a number of the scalar parameter's kind."""

    code = "TW0514"


class ScalarOutOfRange(CallError):
    """A number that the scalar parameter cannot hold."""

    code = "TW0515"


class ExtentTooLarge(CallError):
    """An extent beyond what a 32-bit shape symbol may stand for."""

    code = "TW0516"


class KernelOutOfMemory(CallError, MemoryError):
    """Memory for a kernel's intermediates, or for an array, could not be had."""

    code = "TW0517"


class KernelAssertion(CallError):
    """A condition that the kernel checks while it runs does not hold."""

    code = "TW0518"


class UnreadableTensor(CallError):
    """A tensor that refuses to hand out its memory."""

    code = "TW0519"


class SymbolNotBound(CallError):
    """A shape symbol that no argument gives a value."""

    code = "TW0521"


class NoSuchSource(CallError):
    """A kind of source text that the kernel does not have."""

    code = "TW0522"


class WrongThreadCount(CallError):
    """A number of threads that makes no sense."""

    code = "TW0523"


class WrongTiming(CallError):
    """A number of runs or a duration that timing cannot work with."""

    code = "TW0524"


class UnknownDevice(CallError):
    """A device kind or index that does not exist."""

    code = "TW0525"


class NoSuchKernel(CallError, KeyError):
    """A name that a module has no kernel of."""

    code = "TW0526"

    def __str__(self) -> str:  # KeyError would show the text in quotes, its lines run together
        return self.render()


class NotSpecialisable(CallError):
    """An argument of a tw.jit function that no kernel can be kept by."""

    code = "TW0530"


class NoResult(CallError):
    """A tw.jit function that does not return tensors of known shapes."""

    code = "TW0531"


class WrongOutputs(CallError):
    """Another number of arrays in out= than the function has outputs."""

    code = "TW0532"


class NoCase(CallError):
    """Arguments that no case of a function of several shapes takes."""

    code = "TW0533"


class NothingToExport(ExportError):
    """A kernel that was not compiled here, and so cannot be exported."""

    code = "TW0740"


class NotALibrary(ExportError):
    """A file that is not a shared library of tilewright's, or not a whole one."""

    code = "TW0741"


class MissingInstructions(ExportError):
    """A library that needs instructions which this processor, or its operating system, does not have."""

    code = "TW0742"


class WrongMachine(ExportError):
    """A library for another machine than this one."""

    code = "TW0743"


class OtherVersion(ExportError):
    """A library whose description of itself is of a version that is not known here."""

    code = "TW0744"


class NoFramework(ExportError):
    """A kernel that cannot become an operator of torch, a function of jax, or a pickle."""

    code = "TW0746"


class NotLinkable(ExportError):
    """A library that the system's loader refuses."""

    code = "TW0745"
