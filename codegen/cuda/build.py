"""Lowered functions to kernels for a GPU, or for the emulated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ...errors import user_source
from ...ir.expr import Var
from ...ir.passes.common.runner import Watcher
from ...ir.stmt import Function
from ...runtime.cuda_kernel import DeviceProgram, device_kernel
from ...runtime.errors import NoSuchSource
from ...runtime.kernel import Kernel
from ...runtime.signature import Signature
from ..abi.callback import called_back_kernel, kernel_text
from ..abi.packed import calls_packed
from ..abi.signature import signature_of, unique_names
from ..abi.stub import stub_symbols, stub_text
from ..llvm.jit import compile_text
from ..target import CUDA_ARCHITECTURES, Target
from .emulate.call import EmulatedRun
from .errors import HostCallback
from .grid_order import check_grid_order
from .module import CudaText, cuda_text
from .nvrtc import Compiled, compile_cuda, disassemble
from .plan import launches, workspaces
from .split import split

__all__ = ["cuda_kernel"]

_DEFAULT_ARCH, _EMULATED_ARCH = "sm_80", "sm_90"


def cuda_kernel(function: Function, symbols: Sequence[Var], target: Target, watchers: list[Watcher], *, bounds_check: bool,
                fast_math: bool) -> Kernel:
    """What Python calls: `function` as CUDA kernels. symbols: its free shape symbols.

    Raises CudaError where the schedule does not fit a GPU; compiling waits until the code is needed.
    """
    callback = calls_packed(function)
    if callback is not None:
        raise HostCallback(f"cannot build {function.name} for a GPU", called=user_source(),
                           reason=f"it calls the Python function {callback!r}, which runs on the host",
                           fix='target="llvm", or a build of its own for what comes before and after the call')
    check_grid_order(function)
    arch = target.arch or (_EMULATED_ARCH if target.emulate else _DEFAULT_ARCH)
    signature = signature_of(function, symbols)
    program = split(function, tuple(symbols), watchers, bounds_check=bounds_check)
    text = cuda_text(program, function, CUDA_ARCHITECTURES[arch])
    names = unique_names(function, symbols)
    plan, memory = launches(program, text, names), workspaces(program, names)
    held = tuple(constant.data for constant in function.constants)
    sources = _Sources(function, text, arch, ("--use_fast_math",) if fast_math else ())
    if target.emulate:
        kernel = called_back_kernel(signature, EmulatedRun(signature, text, plan, memory, held), sources)
    else:
        kernel = _on_device(signature, DeviceProgram(plan, memory, arch, sources.binary, text.messages, held), sources)
    kernel.kernels = plan
    return kernel


def _on_device(signature: Signature, program: DeviceProgram, sources: _Sources) -> Kernel:
    """A kernel for device memory: the same check of arguments, then the launches."""
    entries = stub_symbols(signature.name)
    compiled = compile_text([kernel_text(signature, 0), stub_text(signature)], Target(), tuple(entries.values()), {}, {})
    return device_kernel(signature, compiled.address(entries["check"]), program, sources, compiled)


class _Sources:
    """The texts of one function, by kind. What must be compiled for them is compiled when it is asked for."""

    def __init__(self, function: Function, text: CudaText, arch: str, options: tuple[str, ...]) -> None:
        self._text, self._arch, self._options = text.text, arch, options
        self._texts: dict[str, Callable[[], str]] = {
            "ir": lambda: str(function), "cuda": lambda: text.text, "ptx": lambda: self.compiled.ptx,
            "sass": lambda: disassemble(self.compiled.cubin),
        }

    @cached_property
    def compiled(self) -> Compiled:
        return compile_cuda(self._text, self._arch, self._options)

    def binary(self, unaligned: bool) -> Compiled:
        """The code. unaligned: for arguments that are aligned to their elements alone."""
        more = ("-DTW_UNALIGNED",) if unaligned else ()
        return compile_cuda(self._text, self._arch, (*self._options, *more))

    def __call__(self, kind: str) -> str:
        if kind not in self._texts:
            raise NoSuchSource(f"a CUDA kernel has no source {kind!r}", called=user_source(), allowed=", ".join(self._texts),
                               fix='f.source("cuda") shows the CUDA text')
        return self._texts[kind]()


