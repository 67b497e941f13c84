"""tvm.lower, tvm.build and the modules that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import driver
from ...ir import Function, Var
from ...runtime import Kernel
from ...runtime.timing import TimingResult
from ...schedule import Schedule
from ...te import Tensor
from .target import Target

__all__ = ["IRModule", "Module", "build", "lower"]

Args = Sequence[Tensor | Var]


class IRModule:
    """Lowered functions by name; prints as their loops."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = dict(functions)

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    def script(self) -> str:
        """The text of every function."""
        return "\n".join(map(str, self.functions.values()))

    astext = __str__ = __repr__ = script


class Module:
    """Built kernels; calling it calls the first."""

    imported_modules: tuple[()] = ()

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = dict(kernels)
        self.entry_name = next(iter(self._kernels))
        self.entry_func = self._kernels[self.entry_name]

    def __call__(self, *args: Any) -> None:
        self.entry_func(*args)

    def __getitem__(self, name: str) -> Kernel:
        return self._kernels[name]

    get_function = __getitem__

    def time_evaluator(
        self, func_name: str, dev: object = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0, **_: object
    ) -> Callable[..., TimingResult]:
        """A function of the kernel's arguments that times it: .mean, .median, .min, .max, .std, .results in seconds."""
        kernel = self._kernels[func_name]
        return lambda *args: kernel.time(*args, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def get_source(self, fmt: str = "") -> str:
        """The LLVM IR ("ll", ""), or the assembly ("asm", "s")."""
        return self.entry_func.source("asm" if fmt in ("asm", "s") else "llvm")


def lower(inp: Schedule | Function, args: Args | None = None, name: str = "main", simple_mode: bool = False) -> IRModule:
    """The loops of a schedule. simple_mode is accepted: ours are always simple."""
    del simple_mode
    function = inp if isinstance(inp, Function) else driver.lower(inp, list(args or ()), name)
    return IRModule({function.name: function})


def build(
    inputs: Any, args: Args | None = None, target: Any = None, target_host: Any = None, name: str = "default_function"
) -> Module:
    """Native code for a schedule with its arguments, a lowered module, or a list of lowered functions."""
    del target_host
    chosen = str(target or Target.current() or "llvm")
    if isinstance(inputs, IRModule):
        inputs = list(inputs.functions.values())
    if isinstance(inputs, (list, tuple)) and all(isinstance(f, Function) for f in inputs):
        built = driver.build({f.name: f for f in inputs}, target=chosen)
        return Module({key: built[key] for key in built})
    kernel = driver.build(inputs, args, target=chosen, name=name)
    return Module({kernel.name: kernel})
