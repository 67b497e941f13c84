"""From programs to kernels: lowered, and compiled by the backend of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..codegen.build import build_kernels
from ..codegen.result import BuildOptions, BuildResult
from ..codegen.target import Target
from ..ir import Function, Var
from ..schedule import Schedule
from ..te import Tensor
from .lower import function_of
from .over import put_over

__all__ = ["BuildItem", "Request", "compile_programs", "lowered_programs"]


@dataclass(frozen=True, slots=True)
class BuildItem:
    """A function to be: its name, what it is made from (a schedule, a list of tensors, a schedule with its arguments, or a lowered
    function), and the arguments of a schedule. over: whether its output is put over the last of its inputs (see over.py)."""

    name: str
    what: Any
    args: Sequence[Tensor | Var] | None = None
    over: bool = False

    def snapshot(self) -> BuildItem:
        """The program as it is now: the user may go on scheduling."""
        if isinstance(self.what, Schedule):
            return replace(self, what=self.what.copy(), args=list(self.args or ()))
        if isinstance(self.what, Function):
            return self
        parts = list(cast("Sequence[Any]", self.what))
        return replace(self, what=[part.copy() if isinstance(part, Schedule) else part for part in parts])


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. renamed: functions that are lowered already take the names of their programs, as those of a module do.
    exact: sums keep their declared order. bare: without what Python calls them by."""

    programs: tuple[BuildItem, ...]
    target: Target
    options: BuildOptions
    renamed: bool = False
    exact: bool = False
    bare: bool = False

    def snapshot(self) -> Request:
        """The request as it is now."""
        return replace(self, programs=tuple(program.snapshot() for program in self.programs))


def compile_programs(request: Request) -> BuildResult:
    """The kernels of a request, built anew. Raises LoweringError, CodegenError and CudaError."""
    return build_kernels(lowered_programs(request), request.target, request.options)


def lowered_programs(request: Request) -> list[Function]:
    """The functions of a request, lowered. Raises LoweringError."""
    functions = [
        function_of(program.what, program.args, program.name, request.target, request.exact)
        for program in request.programs
    ]
    functions = [
        put_over(function) if program.over else function
        for function, program in zip(functions, request.programs, strict=True)
    ]
    if request.renamed:
        functions = [
            replace(function, name=program.name) for function, program in zip(functions, request.programs, strict=True)
        ]
    return functions
