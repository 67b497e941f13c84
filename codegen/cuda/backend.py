"""The target "cuda": kernels for NVIDIA's GPUs, or for an emulated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...base.errors import user_source
from ...ir.stmt import Function
from ...runtime.cuda_kernel import DeviceProgram, device_kernel
from ...runtime.kernel import Exporting, Kernel
from ...runtime.module import Module
from ...runtime.signature import Signature
from ..abi.callback import callback_kernel, kernel_text
from ..abi.stub import stub_symbols, stub_text
from ..errors import UnknownArchitecture
from ..gpus import GPUS, target_architecture, target_features
from ..llvm.jit import compile_text
from ..result import BuildOptions, BuildResult
from ..sources import Sources
from ..target import Backend, Target, nearest
from .assembly import sass_lines
from .emulate.call import EmulatedRun
from .inspection import InspectedKernel
from .nvrtc import DeviceCode
from .split import FEATURES
from .unit import DeviceUnit, build_unit, make_exporter

__all__ = ["BACKEND"]


def _compile(functions: Sequence[Function], target: Target, options: BuildOptions) -> BuildResult:
    units = [build_unit(function, target, options) for function in functions]

    def exporting(
        units: Sequence[DeviceUnit], is_module: bool, path: Any, threads: str, loadable: bool
    ) -> tuple[Path, Path, Path]:
        return make_exporter([unit.exported() for unit in units], options, is_module)(path, threads, loadable)

    def exports(units: Sequence[DeviceUnit], is_module: bool) -> Exporting | None:
        return None if _is_emulated(target) else partial(exporting, units, is_module)

    kernels = {unit.function.name: _kernel(unit, exports([unit], False)) for unit in units}
    return BuildResult(Module(kernels, exports(units, True)))


def _kernel(unit: DeviceUnit, exporting: Exporting | None) -> Kernel:
    """Make the Python callable of a function compiled to CUDA kernels. exporting: writes the library of it."""
    signature, plan, code, arch = unit.signature, unit.plan, unit.code, target_architecture(unit.target)
    held = tuple(constant.data for constant in unit.function.constants)
    sources = _sources(unit.function, code)
    check = unit.trial.check_values if unit.trial is not None else None
    emulated = EmulatedRun(signature, unit.text, plan, unit.memory, held, check) if _is_emulated(unit.target) else None
    if emulated is not None:
        kernel = callback_kernel(signature, emulated, sources)
    else:
        program = DeviceProgram(plan, unit.memory, arch, code.binary, unit.text.messages, held, check)
        kernel = _build_device_kernel(signature, program, sources, exporting)
    kernel.kernels = tuple(
        InspectedKernel(
            launch.name,
            launch.grid,
            launch.block,
            launch.dynamic_shared_bytes,
            launch.args,
            launch.aligned,
            launch.cluster,
            launch.parts,
            gpu=GPUS[arch],
            code=code,
            counted=partial(emulated.traffic, at) if emulated is not None else tuple,
        )
        for at, launch in enumerate(plan)
    )
    kernel.workspaces, kernel.constants = unit.memory, held
    return kernel


def _build_device_kernel(
    signature: Signature, program: DeviceProgram, sources: Sources, exporting: Exporting | None
) -> Kernel:
    """A kernel for device memory: the same check of arguments, then the launches."""
    entries = stub_symbols(signature.name)
    compiled = compile_text(
        [kernel_text(signature, 0), stub_text(signature)], Target(), tuple(entries.values()), {}, {}
    )
    return device_kernel(signature, compiled.address(entries["check"]), program, sources, compiled, exporting)


def _sources(function: Function, code: DeviceCode) -> Sources:
    texts: dict[str, Callable[[], str]] = {
        "ir": lambda: str(function),
        "cuda": lambda: code.text,
        "ptx": lambda: code.compiled.ptx,
        "sass": lambda: code.sass,
    }
    return Sources("a CUDA kernel", texts, 'f.source("cuda") shows the CUDA text')


def _is_emulated(target: Target) -> bool:
    return target.has_flag("emulate")


def _check(target: Target) -> None:
    for arch in filter(None, target.option("arch").split(",")):
        if arch not in GPUS:
            raise UnknownArchitecture(
                f"target {str(target)!r}: unknown GPU architecture {arch!r}",
                called=user_source(),
                allowed=", ".join(GPUS),
                fix=nearest(arch, GPUS, "-arch={}"),
            )


BACKEND = Backend(
    "cuda",
    "NVIDIA GPUs, through CUDA C and NVRTC",
    _compile,
    options={
        "arch": "architecture, " + " or ".join(GPUS) + "; several, with commas between them, for a library's code",
        "emulate": "without a GPU: run on the emulator (no value)",
    },
    flags=("emulate",),
    check=_check,
    has=lambda target, feature: feature in FEATURES | target_features(target),
    rules="gpu",
    device=lambda target: "cpu" if _is_emulated(target) else "cuda",
    assembly=sass_lines,
)
