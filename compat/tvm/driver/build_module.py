"""tvm.lower, tvm.build and the modules that they give."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ....base.arguments import is_a, is_sequence
from ....codegen.result import BuildOptions
from ....driver import build as driver
from ....ir import Allocate, Buffer, Call, Function, If, Node, Seq, Var, rewrite
from ....runtime import Kernel, TimingResult
from ....runtime.loaded_model import LoadedModel
from ....schedule import Schedule
from ....te import Tensor, placeholder
from ..binds import Binds, bound, need_no_binds, tensors_of
from ..executor import OfLibrary
from ..ir_module import IRModule
from ..library import export_library, load_kernels
from ..nd import is_emulated
from ..nodes import ours
from ..target import Target
from ..tir import decl_buffer
from ..transform import PassContext

__all__ = ["IRModule", "Module", "build", "form_irmodule", "get_binds", "load_module", "lower", "schedule_to_module"]

Args = Sequence[Tensor | Var]
_MAIN = "__tvm_main__"
"""TVM's other name for a module's first function."""


class Module:
    """Built kernels; calling it calls the first."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        kind: str,
        built: Kernel | driver.Module | None = None,
        portable: Callable[[], Module] | None = None,
    ) -> None:
        self._kernels, self._built, self._portable = dict(kernels), built, portable
        self.type_key = kind
        self.entry_name = next(iter(self._kernels))
        self.entry_func = self._kernels[self.entry_name]

    def __call__(self, *args: Any) -> None:
        self.entry_func(*args)

    @property
    def imported_modules(self) -> list[Any]:
        """Imported modules of a module for GPUs: the one that runs there, whose .get_source() is CUDA C."""
        return [SimpleNamespace(type_key="cuda", get_source=self._device_source)] if self.type_key == "cuda" else []

    def _device_source(self, fmt: str = "") -> str:
        return self.entry_func.source("ptx" if fmt == "ptx" else "cuda")

    def __getitem__(self, name: str) -> Any:
        if name == "default" and isinstance(self.entry_func, LoadedModel):
            return OfLibrary(self.entry_func).on
        if name not in self._kernels and name != _MAIN:
            raise AttributeError(f"the module has no function {name!r}; there are {', '.join(self._kernels)}")
        return self._kernels.get(name, self.entry_func)

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """The kernel of this name."""
        del query_imports
        return self[name]

    @property
    def names(self) -> list[str]:
        """The names of the kernels."""
        return list(self._kernels)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Return whether there is a kernel of this name."""
        del query_imports
        return name in self._kernels or name == _MAIN

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **_: object,
    ) -> Callable[..., TimingResult]:
        """A function of the kernel's arguments that times it: .mean, .median, .min, .max, .std, .results in seconds. On the
        emulated GPU, whose times say nothing of a GPU's, each of `repeat` is one call, and none comes before them."""
        kernel = self[func_name]
        if self.type_key == "cuda" and is_emulated():
            return lambda *args: TimingResult(tuple(_seconds(kernel, args) for _ in range(repeat)), 1)
        return lambda *args: kernel.time(*args, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def export_library(self, file_name: str | PathLike[str], *_: object, **__: object) -> None:
        """Write the kernels as a library, with a C header and a manifest: .so, .a, .o, or .tar of the first. What was built as
        C is built by LLVM for it, which has the same bits, since the library is to be loaded. Raises ExportError."""
        built = self if self._portable is None else self._portable()
        export_library(built._built or built.entry_func, file_name)

    def save(self, file_name: str | PathLike[str], fmt: str = "") -> None:
        """Write an object (.o), assembly (.s, .asm) or LLVM IR (.ll)."""
        place = Path(file_name)
        kind = fmt or place.suffix.lstrip(".")
        if kind == "o":
            export_library(self._built or self.entry_func, place)
        elif kind in ("s", "asm", "ll"):
            place.write_text(self.get_source(kind))
        else:
            raise ValueError(f"cannot save as {kind!r}; there are o, s, asm and ll")

    def get_source(self, fmt: str = "") -> str:
        """The LLVM IR ("ll", ""), or the assembly ("asm", "s"); the C of what was built as C, the CUDA C of what runs on GPUs, an
        accelerator's instructions."""
        if self.type_key in ("c", "cuda"):
            return self.entry_func.source(self.type_key)
        if self.type_key == "vdla":
            return self.entry_func.source("asm")
        return self.entry_func.source("asm" if fmt in ("asm", "s") else "llvm")


def _seconds(kernel: Kernel, args: tuple[Any, ...]) -> float:
    begin = time.perf_counter()
    kernel(*args)
    return time.perf_counter() - begin


def load_module(path: str | PathLike[str], fmt: str = "") -> Module:
    """The module of a .so or .tar that export_library wrote. Raises ExportError."""
    del fmt
    return Module(load_kernels(path), "library")


def lower(
    inp: Schedule | Function | IRModule,
    args: Args | None = None,
    name: str = "main",
    binds: Binds | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """The loops of a schedule, after the passes of tir.add_lower_pass. simple_mode is accepted: ours are always simple.
    Outputs that are no arguments are memory of the function's own; an argument that is inlined is passed and left alone. binds:
    the buffers that stand for arguments, compact and each for one of them. Raises ArgumentNotBuildable for others."""
    del simple_mode
    if not isinstance(inp, Schedule):
        need_no_binds(binds)
    if isinstance(inp, IRModule):
        return inp
    if isinstance(inp, Function):
        function = inp
    else:
        given = _replace_inlined(inp, tensors_of(args or (), binds))
        own = _missing_outputs(inp, given)
        function = _allocate_results(driver.lower(inp, [*given, *own], name), len(own))
        function = bound(_keep_intrinsics(function), given, binds)
    mod = IRModule({function.name: function})
    for step in PassContext.current().lower_passes:
        mod = step(mod)
    return mod


def schedule_to_module(
    sch: Schedule,
    args: Args | None = None,
    name: str = "main",
    binds: Binds | None = None,
) -> IRModule:
    """The loops of a schedule without the passes of the context. Raises as `lower` does."""
    with PassContext():
        return lower(sch, args, name, binds)


form_irmodule = schedule_to_module


def get_binds(
    args: Args, compact: bool = False, binds: Binds | None = None
) -> tuple[dict[Tensor, Buffer], list[Buffer | Var]]:
    """A buffer for each tensor among the arguments that `binds` has none for, and the arguments with buffers for tensors."""
    del compact  # every buffer is
    found = dict(binds or {})
    for arg in args:
        if isinstance(arg, Tensor) and arg not in found:
            found[arg] = decl_buffer(arg.shape, arg.dtype, arg.name)
    return found, [found[arg] if isinstance(arg, Tensor) else arg for arg in args]


def _keep_intrinsics(function: Function) -> Function:
    """The function with intrinsics alone where the interpreter, which no target of TVM's is, would run what they mean."""

    def rule(node: Node) -> Node | None:
        if (
            isinstance(node, If)
            and isinstance(node.condition, Call)
            and node.condition.name == "target_has"
            and (getattr(node.condition.args[0], "value", "") == "interpreter")
        ):
            return node.else_body or Seq(())
        return None

    return function.with_body(rewrite(function.body, rule))


def _missing_outputs(s: Schedule, args: Sequence[Tensor | Var]) -> list[Tensor]:
    """The schedule's outputs that are not arguments; none where no arguments are given, which asks for all."""
    return [tensor for op in s.outputs for tensor in op.outputs if tensor not in args] if args else []


def _allocate_results(function: Function, count: int) -> Function:
    """The function with its last `count` arguments in memory of its own."""
    given = function.arguments[: len(function.arguments) - count]
    own = [buffer for buffer in function.arguments[len(given) :] if isinstance(buffer, Buffer)]
    body = reduce(lambda inner, buffer: Allocate(buffer, inner), own, function.body)
    outputs = tuple(buffer for buffer in function.outputs if buffer not in own)
    return replace(function, params=(*given, *function.params[len(function.arguments) :]), body=body, outputs=outputs)


def _replace_inlined(s: Schedule, args: Sequence[Tensor | Var]) -> list[Tensor | Var]:
    """The arguments, with a placeholder where a stage was inlined into what reads it: nothing stores it."""
    return [
        placeholder(arg.shape, arg.dtype, arg.name) if isinstance(arg, Tensor) and _is_inlined(s, arg) else arg
        for arg in args
    ]


def _is_inlined(s: Schedule, tensor: Tensor) -> bool:
    return tensor in s and s[tensor].attach_type in ("inline", "inlined")


def build(
    inputs: Any,
    args: Args | None = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "default_function",
    binds: Binds | None = None,
    **_: object,
) -> Module:
    """Native code for a schedule with its arguments, a lowered function or module or a list of these, or a dict of target to
    lowered module. target_host is taken and says nothing new: what runs on the host is always built for it. binds: as for
    lower."""
    del target_host
    if is_a(inputs, Mapping):
        need_no_binds(binds)
        return _build_for_targets(inputs)
    if not isinstance(inputs, Schedule):
        need_no_binds(binds)
    chosen = _target(target or Target.current() or "llvm")
    functions = _functions(inputs)
    context = PassContext.current()
    if (
        functions is None
        and isinstance(inputs, Schedule)
        and (context.lower_passes or binds or _needs_loops(inputs, args or ()))
    ):
        functions = lower(inputs, args, name, binds).functions
    what, given = (inputs, args) if functions is None else ({key: ours(each) for key, each in functions.items()}, None)
    options = BuildOptions(bounds_check=context.checks_bounds, passes=context.options)
    built = driver.build_with_options(what, given, chosen.ours, name, options)
    portable = partial(build, inputs, args, "llvm", None, name, binds) if chosen.kind.name == "c" else None
    if functions is None:
        return Module({built.name: built}, chosen.kind.name, None, portable)
    return Module({key: built[key] for key in built}, chosen.kind.name, built, portable)


def _needs_loops(s: Schedule, args: Sequence[Tensor | Var]) -> bool:
    """Return whether the arguments are such as our driver does not take with a schedule."""
    return bool(_missing_outputs(s, args)) or any(_is_inlined(s, arg) for arg in args if isinstance(arg, Tensor))


def _target(target: Any) -> Target:
    return target if isinstance(target, Target) else Target(target)


def _functions(inputs: Any) -> dict[str, Function] | None:
    """The lowered functions of a module, or of a list of functions and modules, by name; None for anything else."""
    if isinstance(inputs, IRModule):
        return inputs.functions
    if isinstance(inputs, Function):
        return {inputs.name: inputs}
    if not is_sequence(inputs) or not all(isinstance(part, (Function, IRModule)) for part in inputs):
        return None
    return {name: function for part in inputs for name, function in (_functions(part) or {}).items()}


def _build_for_targets(inputs: Mapping[Any, Any]) -> Module:
    """{target: lowered module}, as for programs that have a part for each device."""
    parts = [build(lowered, target=target) for target, lowered in inputs.items()]
    return Module({name: part[name] for part in parts for name in part.names}, parts[0].type_key)
