"""A function on its way to a GPU: its text and its launches, from which kernels are called, emulated, inspected and exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import user_source
from ...ir.passes.common.options import AS_USUAL
from ...ir.passes.common.runner import run_pipeline
from ...ir.stmt import Function
from ...runtime.cuda_launch import KernelLaunch, Workspace
from ...runtime.signature import BufferParam, ScalarParam, Signature
from ..abi.packed import calls_packed
from ..abi.signature import shape_symbols, signature_of, unique_names
from ..export.cpu import baseline_target
from ..export.final_kernel import FinalKernel
from ..export.gpu import GpuFunction, GpuImage, GpuVariant
from ..export.library import Exporter
from ..gpus import GPUS, architecture_of, architectures_of, features_of
from ..llvm.pipeline import pipeline_of
from ..result import BuildOptions
from ..target import Target
from .checks import Trial, trial_of
from .errors import HostCallback
from .grid_order import check_grid_order
from .module import CudaText, cuda_text
from .nvrtc import DeviceCode
from .plan import launches, workspaces
from .split import FEATURES, split

__all__ = ["DeviceUnit", "exporter_of", "unit_of"]


@dataclass(frozen=True)
class DeviceUnit:
    """function: lowered, for the target. text: its kernels as CUDA C, and code, what compiles it. plan: the launches in order;
    memory: what these pass on to each other. trial: what is tried on the host before."""

    function: Function
    target: Target
    signature: Signature
    text: CudaText
    plan: tuple[KernelLaunch, ...]
    memory: tuple[Workspace, ...]
    trial: Trial | None
    code: DeviceCode

    def exported(self) -> GpuFunction:
        """The function as a library has it: machine code for the architectures of its target, and portable text of the newest."""
        signature = replace(
            self.signature, on_stream=True, params=tuple(self._param(i) for i in range(len(self.signature.params)))
        )
        images = {arch: replace(self.code, arch=arch).compiled for arch in architectures_of(self.target)}
        newest = [arch for arch in images if not arch.endswith("a")] or list(
            images
        )  # what is sm_90a's alone runs nowhere else
        found = [GpuImage.of(arch, compiled.cubin) for arch, compiled in images.items()]
        portable = GpuImage.of(newest[-1], images[newest[-1]].ptx.encode().rstrip(b"\0"), is_portable=True)
        constants = tuple(self.function.constants)
        variant = GpuVariant(self.plan, self.memory, constants, (*found, portable), self._checks())
        return GpuFunction(signature, (variant,))

    def _param(self, i: int) -> BufferParam | ScalarParam:
        """A parameter, aligned as the kernels take it."""
        param = self.signature.params[i]
        is_wide = any(i in launch.aligned_items for launch in self.plan)
        return (
            replace(param, alignment=max(param.alignment, 16)) if is_wide and isinstance(param, BufferParam) else param
        )

    def _checks(self) -> FinalKernel | None:
        """The trial as a function of the host."""
        if self.trial is None:
            return None
        names = self.trial.names
        host = replace(self.trial.function, name=f"{self.function.name}__checks")
        signature = signature_of(host, ())
        named = replace(
            signature,
            params=tuple(
                replace(param, name=names[var]) for param, var in zip(signature.params, host.params, strict=True)
            ),
        )
        return FinalKernel(
            run_pipeline(host, pipeline_of(baseline_target(Target()), False, AS_USUAL, fuses=False), ()), named, ()
        )


def unit_of(function: Function, target: Target, options: BuildOptions) -> DeviceUnit:
    """Raises CudaError where the schedule does not fit a GPU; compiling waits until the code is needed."""
    callback = calls_packed(function)
    if callback is not None:
        raise HostCallback(
            f"cannot build {function.name} for a GPU",
            called=user_source(),
            reason=f"it calls the Python function {callback!r}, which runs on the host",
            fix='target="llvm", or a build of its own for what comes before and after the call',
        )
    check_grid_order(function)
    symbols = shape_symbols(function)
    program = split(
        function,
        symbols,
        options.watchers,
        bounds_check=options.bounds_check,
        fuses=not options.contracts,
        features=FEATURES | features_of(target),
    )
    text = cuda_text(program, function, GPUS[architecture_of(target)].block_shared)
    names = unique_names(function, symbols)
    return DeviceUnit(
        function,
        target,
        signature_of(function, symbols),
        text,
        launches(program, text, names),
        workspaces(program, names),
        trial_of(program, names),
        DeviceCode(text.text, architecture_of(target), _compiler_options(options)),
    )


def _compiler_options(options: BuildOptions) -> tuple[str, ...]:
    """How NVRTC may round: by itself it contracts products into sums."""
    return ("--use_fast_math",) if options.fast_math else (f"--fmad={'true' if options.fp_contract else 'false'}",)


def exporter_of(functions: Sequence[GpuFunction], options: BuildOptions, is_module: bool) -> Exporter:
    """What writes a library of them alone, for any processor of this machine's kind."""
    host = baseline_target(Target())
    return Exporter((), options.fast_math, options.fp_contract, host, gpu=tuple(functions), is_module=is_module)
