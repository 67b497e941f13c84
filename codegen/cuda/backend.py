"""The target "cuda": kernels for NVIDIA's GPUs, or for an emulated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...errors import user_source
from ...ir.stmt import Function
from ...runtime.cuda_kernel import DeviceProgram, device_kernel
from ...runtime.kernel import Kernel
from ...runtime.module import Module
from ...runtime.signature import Signature
from ..abi.callback import callback_kernel, kernel_text
from ..abi.packed import calls_packed
from ..abi.signature import shape_symbols, signature_of, unique_names
from ..abi.stub import stub_symbols, stub_text
from ..errors import UnknownArchitecture
from ..gpus import GPUS, architecture_of
from ..llvm.jit import compile_text
from ..result import BuildOptions, BuildResult
from ..sources import Sources
from ..target import Backend, Target, nearest
from .assembly import sass_lines
from .checks import call_checks
from .emulate.call import EmulatedRun
from .errors import HostCallback
from .grid_order import check_grid_order
from .inspection import InspectedKernel
from .module import cuda_text
from .nvrtc import DeviceCode
from .plan import launches, workspaces
from .split import FEATURES, split

__all__ = ["BACKEND"]

def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    return BuildResult(Module({function.name: _kernel(function, target, options) for function in functions}))


def _kernel(function: Function, target: Target, options: BuildOptions) -> Kernel:
    """What Python calls: `function` as CUDA kernels.

    Raises CudaError where the schedule does not fit a GPU; compiling waits until the code is needed.
    """
    callback = calls_packed(function)
    if callback is not None:
        raise HostCallback(f"cannot build {function.name} for a GPU", called=user_source(),
                           reason=f"it calls the Python function {callback!r}, which runs on the host",
                           fix='target="llvm", or a build of its own for what comes before and after the call')
    check_grid_order(function)
    arch = architecture_of(target)
    symbols = shape_symbols(function)
    signature = signature_of(function, symbols)
    program = split(function, symbols, options.watchers, bounds_check=options.bounds_check, fuses=not options.contracts)
    text = cuda_text(program, function, GPUS[arch].block_shared)
    names = unique_names(function, symbols)
    plan, memory, checks = launches(program, text, names), workspaces(program, names), call_checks(program, names)
    held = tuple(constant.data for constant in function.constants)
    code = DeviceCode(text.text, arch, _compiler_options(options))
    sources = _sources(function, code)
    emulated = EmulatedRun(signature, text, plan, memory, held, checks) if _is_emulated(target) else None
    if emulated is not None:
        kernel = callback_kernel(signature, emulated, sources)
    else:
        kernel = _on_device(signature, DeviceProgram(plan, memory, arch, code.binary, text.messages, held, checks), sources)
    kernel.kernels = tuple(
        InspectedKernel(launch.name, launch.grid, launch.block, launch.dynamic_shared_bytes, launch.args, launch.aligned,
                        gpu=GPUS[arch], code=code, counted=partial(emulated.traffic, at) if emulated is not None else tuple)
        for at, launch in enumerate(plan))
    return kernel


def _on_device(signature: Signature, program: DeviceProgram, sources: Sources) -> Kernel:
    """A kernel for device memory: the same check of arguments, then the launches."""
    entries = stub_symbols(signature.name)
    compiled = compile_text([kernel_text(signature, 0), stub_text(signature)], Target(), tuple(entries.values()), {}, {})
    return device_kernel(signature, compiled.address(entries["check"]), program, sources, compiled)


def _sources(function: Function, code: DeviceCode) -> Sources:
    texts: dict[str, Callable[[], str]] = {
        "ir": lambda: str(function), "cuda": lambda: code.text, "ptx": lambda: code.compiled.ptx,
        "sass": lambda: code.sass,
    }
    return Sources("a CUDA kernel", texts, 'f.source("cuda") shows the CUDA text')


def _compiler_options(options: BuildOptions) -> tuple[str, ...]:
    """How NVRTC may round: by itself it contracts products into sums."""
    return ("--use_fast_math",) if options.fast_math else (f"--fmad={'true' if options.fp_contract else 'false'}",)


def _is_emulated(target: Target) -> bool:
    return target.has_flag("emulate")


def _check(target: Target) -> None:
    arch = target.option("arch")
    if arch and arch not in GPUS:
        raise UnknownArchitecture(
            f"target {str(target)!r}: unknown GPU architecture {arch!r}", called=user_source(),
            allowed=", ".join(GPUS), fix=nearest(arch, GPUS, "-arch={}"))


BACKEND = Backend(
    "cuda", "NVIDIA GPUs, through CUDA C and NVRTC", _compile,
    options={"arch": "architecture, " + " or ".join(GPUS), "emulate": "without a GPU: run on the emulator (no value)"},
    flags=("emulate",), check=_check, has=lambda _, feature: feature in FEATURES, rules="gpu",
    device=lambda target: "cpu" if _is_emulated(target) else "cuda", assembly=sass_lines,
)
