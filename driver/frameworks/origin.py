"""Origins of kernels: the programs by which kernels are pickled, differentiated, and made an operator of other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from ...base.errors import user_source
from ...codegen.result import require_switch
from ...ir import Function
from ...runtime import Kernel, Module
from ...runtime.errors import NoFramework
from ...schedule import Schedule
from ..compile import BuildItem, Request

__all__ = ["Origin", "tell_origin"]


def tell_origin(module: Module, request: Request, build: Callable[[Request], Module]) -> None:
    """Let each kernel of a module say what it was built from. build: builds a request again."""
    for name, program in zip(module, request.programs, strict=True):
        module[name].origin = Origin(program, request, build)


class Origin:
    """The program of a kernel, as it was when the kernel was built."""

    def __init__(self, program: BuildItem, request: Request, build: Callable[[Request], Module]) -> None:
        self._program, self._how, self._build = program, replace(request, programs=()), build
        what = program.what
        given = what if isinstance(what, (Schedule, Function)) else cast("Sequence[Any]", what)[0]
        # a copy of the records: the schedule may change afterwards
        self._records = (list(given.records), list(given.outputs)) if isinstance(given, Schedule) else None

    def request(self) -> Request:
        """Return what builds the same kernel."""
        what = self._program.what
        if self._records is not None:
            again = Schedule.replay(*self._records)
            what = again if isinstance(what, Schedule) else [again, *cast("Sequence[Any]", what)[1:]]
        args = self._program.args
        return replace(
            self._how, programs=(replace(self._program, what=what, args=None if args is None else list(args)),)
        )

    def tensors(self) -> list[Any]:
        """The kernel's arguments as they were declared. Raises NoFramework (TW0746) where they were not."""
        what, args = self._program.what, self._program.args
        if isinstance(what, Schedule):
            return list(args or ())
        if isinstance(what, Function):
            raise NoFramework(
                "the kernel has no gradient",
                called=user_source(),
                fix="gradient=False, or build it from its tensors",
                reason="it was built from loops that were lowered before, and tensors are differentiated",
            )
        parts = list(cast("Sequence[Any]", what))
        return list(parts[1]) if isinstance(parts[0], Schedule) else parts

    def built(self, tensors: Sequence[Any], name: str) -> Kernel:
        """A kernel of these tensors, built in the same way."""
        # the derivative is another program, to which exact=True of the original says nothing
        module = self._build(replace(self._how, programs=(BuildItem(name, list(tensors)),), exact=False, renamed=False))
        return module[name]

    def pickled_parts(self) -> tuple[Any, ...]:
        """Return what pickle keeps of the kernel: its program, from which it is built where it is loaded."""
        return _rebuilt, (self._build, self.request())

    def torch_operator(self, kernel: Kernel, name: str, gradient: bool) -> Any:
        """The operator of torch."""
        require_switch("gradient", gradient)
        from .torch_op import torch_operator

        return torch_operator(kernel, name, self if gradient else None)

    def jax_function(self, kernel: Kernel) -> Any:
        """The function of jax; of loops that were lowered before, without a gradient."""
        from .jax_call import jax_function

        return jax_function(kernel, None if isinstance(self._program.what, Function) else self)


def _rebuilt(build: Callable[[Request], Module], request: Request) -> Kernel:
    module = build(request)
    return module[next(iter(module))]
