"""A function on its way to a GPU: its text, and its launches as plain data, from which kernels are called, emulated, inspected
and exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import InternalError, dataclass, replace, user_source
from ...ir.arith.analyzer import simplify
from ...ir.buffer import Buffer
from ...ir.errors import AssertionFailed
from ...ir.expr import (
    Add,
    BinaryOp,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.interpret.interpreter import Interpreter
from ...ir.lazy_values import cached_property
from ...ir.passes.common.flatten import flat_buffer
from ...ir.passes.common.int4 import pack_int4
from ...ir.passes.common.options import AS_USUAL
from ...ir.passes.common.runner import run_pipeline
from ...ir.passes.gpu.bulk_copies import BoxMap, tensor_strides
from ...ir.passes.gpu.hardware import BLOCK_TAGS, Hardware
from ...ir.stmt import Function
from ...ir.text.numbering import dump_lines, lines_file
from ...ir.visit import free_vars, seq
from ...runtime.cuda_launch import KernelLaunch, Workspace
from ...runtime.errors import KernelAssertion
from ...runtime.signature import BufferParam, Extent, ScalarParam, Signature
from ...runtime.tensor_map import TensorMap
from ..abi.packed_calls import calls_packed
from ..abi.signature import make_signature, shape_symbols, unique_names
from ..export.cpu import baseline_target
from ..export.exporter import Exporter
from ..export.final_kernel import FinalKernel
from ..export.gpu import GpuFunction, GpuImage, GpuVariant
from ..gpus import GPUS, library_architectures, target_architecture, target_features
from ..llvm.pipeline import build_pipeline
from ..result import BuildOptions
from ..target import Target
from .errors import HostCallback
from .grid_order import check_grid_order
from .module import CudaText, cuda_text
from .nvrtc import DeviceCode
from .split import FEATURES, SplitFunction, split

__all__ = [
    "DeviceUnit",
    "build_unit",
    "launches",
    "make_exporter",
    "workspaces",
]

_TOO_MANY = 2**31
"""Blocks along x."""

Names = Mapping[Buffer | Var, str]

_OPERATORS: dict[type[BinaryOp], str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    TruncDiv: "//",
    TruncMod: "%",
    Min: "min",
    Max: "max",
}


def launches(program: SplitFunction, text: CudaText, names: Names) -> tuple[KernelLaunch, ...]:
    """The launches, in order. names: of the function's parameters and symbols in its signature."""
    launches: list[KernelLaunch] = []
    for kernel, written in zip(program.kernels, text.kernels, strict=True):
        launches.append(
            KernelLaunch(
                written.name,
                _grid(kernel.hardware, names),
                kernel.hardware.block,
                written.dynamic_shared,
                (*(_tensor_map(of, place, names) for of, place in kernel.maps), *kernel.args),
                tuple(sorted(written.aligned)),
                (kernel.cluster, 1, 1),
                written.parts,
            )
        )
    return tuple(launches)


def _grid(hardware: Hardware, names: Names) -> tuple[Extent, Extent, Extent]:
    """The blocks of the launch: x, y, z."""
    x, y, z = (_extent(extent, names) for extent in hardware.grid)
    if BLOCK_TAGS[1] in hardware.folded:
        x, y = _both(x, y), 1
    if BLOCK_TAGS[2] in hardware.folded:
        x, z = _both(x, z), 1
    return x, y, z


def _both(x: Extent, other: Extent) -> Extent:
    """So many blocks along x for each of the others, as a number of 64 bits that tells when there are too many."""
    if isinstance(x, int) and isinstance(other, int):
        return min(x * other, _TOO_MANY)
    left, right = (("min", ("max", extent, 0), _TOO_MANY) for extent in (x, other))
    return ("*", left, right)


def _tensor_map(of: BoxMap, place: int, names: Names) -> TensorMap:
    source, size = of.source, of.source.dtype.bytes
    shape = tuple(_extent(extent, names) for extent in source.shape)
    strides = tuple(_extent(simplify(stride * size), names) for stride in tensor_strides(source))
    return TensorMap(place, str(source.dtype), shape, strides, of.box, of.swizzle)


def workspaces(program: SplitFunction, names: Names) -> tuple[Workspace, ...]:
    """The memory that the kernels pass on to each other."""
    return tuple(
        Workspace(buffer.name, str(buffer.dtype), _extent(flat_buffer(buffer).shape[0], names))
        for buffer in program.workspaces
    )


def _extent(extent: Expr, names: Names) -> Extent:
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        return names[extent]
    if isinstance(extent, Cast):
        return _extent(extent.value, names)
    if not isinstance(extent, BinaryOp) or type(extent) not in _OPERATORS:
        raise InternalError(f"the extent {extent} of a grid is not integer arithmetic")
    return (_OPERATORS[type(extent)], _extent(extent.a, names), _extent(extent.b, names))


@dataclass(frozen=True)
class DeviceUnit:
    """Device code of a function, with the plan of its launches.

    function: lowered, for the target. text: its kernels as CUDA C, and code, what compiles it. plan: the launches in order;
    memory: what these pass on to each other. trial: what is tried on the host before.
    """

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
        images = {arch: replace(self.code, arch=arch).compiled for arch in library_architectures(self.target)}
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
        signature = make_signature(host, ())
        named = replace(
            signature,
            params=tuple(
                replace(param, name=names[var]) for param, var in zip(signature.params, host.params, strict=True)
            ),
        )
        return FinalKernel(
            run_pipeline(host, build_pipeline(baseline_target(Target()), False, AS_USUAL, fuses=False), ()), named, ()
        )


def build_unit(function: Function, target: Target, options: BuildOptions) -> DeviceUnit:
    """Raise CudaError where the schedule does not fit a GPU; compiling waits until the code is needed."""
    callback = calls_packed(function)
    if callback is not None:
        raise HostCallback(
            f"cannot build {function.name} for a GPU",
            called=user_source(),
            reason=f"it calls the Python function {callback!r}, which runs on the host",
            fix='target="llvm", or a build of its own for what comes before and after the call',
        )
    check_grid_order(function)
    function = dump_lines(function, str(target))
    lines = lines_file(function.name, str(target))
    symbols, signature = shape_symbols(function), make_signature(function, shape_symbols(function))
    function = pack_int4(function, on_gpu=True)
    program = split(
        function,
        symbols,
        options.watchers,
        bounds_check=options.bounds_check,
        fuses=not options.contracts,
        features=FEATURES | target_features(target),
    )
    text = cuda_text(program, function, GPUS[target_architecture(target)].block_shared, str(lines or ""))
    names = unique_names(function, symbols)
    return DeviceUnit(
        function,
        target,
        signature,
        text,
        launches(program, text, names),
        workspaces(program, names),
        build_trial(program, names),
        DeviceCode(
            text.text,
            target_architecture(target),
            (*_compiler_options(options), *(["-lineinfo"] if lines is not None else [])),
        ),
    )


def _compiler_options(options: BuildOptions) -> tuple[str, ...]:
    """Return NVRTC's options about rounding: by itself it contracts products into sums."""
    return ("--use_fast_math",) if options.fast_math else (f"--fmad={'true' if options.fp_contract else 'false'}",)


def make_exporter(functions: Sequence[GpuFunction], options: BuildOptions, is_module: bool) -> Exporter:
    """Return a function that writes a library of them alone, for any processor of this machine's kind."""
    host = baseline_target(Target())
    return Exporter((), options.fast_math, options.fp_contract, host, gpu=tuple(functions), is_module=is_module)


# What the host tries out before it launches kernels: that their static indices stay inside, where only a call tells.


@dataclass(frozen=True)
class Trial:
    """Function that checks on the host before a launch.

    function: of scalars and shape symbols, whose names in the signature are in `names`.
    """

    function: Function
    names: Mapping[Buffer | Var, str]

    @cached_property
    def _interpreter(self) -> Interpreter:
        return Interpreter(self.function, False)

    def check_values(self, values: Mapping[str, int]) -> None:
        """Raise KernelAssertion (TW0518) where it fails on values, given by name."""
        try:
            self._interpreter(*(values[self.names[param]] for param in self.function.params))
        except AssertionFailed as failure:
            raise KernelAssertion(
                failure.headline,
                reason=failure.reason,
                called=user_source(),
                fix="pass arguments whose shapes keep every index inside",
            ) from None


def build_trial(program: SplitFunction, names: Mapping[Buffer | Var, str]) -> Trial | None:
    """None where there is nothing to try. names: of the function's parameters and symbols."""
    if not program.checks:
        return None
    body = seq(*program.checks)
    return Trial(Function("checks", tuple(free_vars(body)), body, (), {"stage": "loops"}), names)
