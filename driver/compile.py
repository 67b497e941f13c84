"""Compiler from programs to kernels: lowered, and compiled by the backend of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..base import PerformanceWarning, dataclass, replace, user_source, warn_user
from ..codegen.build import build_kernels
from ..codegen.result import BuildOptions, BuildResult
from ..codegen.target import Target
from ..ir.analysis.lane_strides import find_scattered_lanes
from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Node, Var
from ..ir.ops import const
from ..ir.stmt import Allocate, BufferStore, For, Function, LoopKind, Seq, Stmt
from ..ir.structural import equal
from ..ir.visit import rewrite, walk
from ..schedule import Schedule
from ..te import Tensor
from .lower import lower_program

__all__ = ["BuildItem", "Request", "compile_programs", "lowered_programs", "reuse_input_memory"]


@dataclass(frozen=True, slots=True)
class BuildItem:
    """A function to be: its name, what it is made from (a schedule, a list of tensors, a schedule with its arguments, or a lowered
    function), and the arguments of a schedule. over: whether its output is put over the last of its inputs (reuse_input_memory)."""

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
        # schedules are mutable, tensors are not
        return replace(self, what=[part.copy() if isinstance(part, Schedule) else part for part in parts])


@dataclass(frozen=True, slots=True)
class Request:
    """Request to compile programs. renamed: functions that are lowered already take the names of their programs, as those of a module do.
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
        lower_program(program.what, program.args, program.name, request.target, request.exact)
        for program in request.programs
    ]
    for function, program in zip(functions, request.programs, strict=True):
        by_hand = isinstance(program.what, Schedule) and not program.what.decisions
        if by_hand and request.target.backend.rules != "gpu":
            _warn_of_scattered_lanes(function)
    functions = [
        reuse_input_memory(function) if program.over else function
        for function, program in zip(functions, request.programs, strict=True)
    ]
    if request.renamed:
        functions = [
            replace(function, name=program.name) for function, program in zip(functions, request.programs, strict=True)
        ]
    return functions


# A function whose result lies where one of its inputs does, so that what it stores is in the cache already.
#
# for i, j:  y[i, j] = relu(sums[i, j] + x[i, j])      →      for i, j:  y[i, j] = relu(sums[i, j] + y[i, j])


def reuse_input_memory(function: Function) -> Function:
    """The function with its output in the memory of the input before it, which it is no longer passed. Where an element of that is
    read elsewhere than in what is stored at its own place, once, the function reads a copy that it makes first."""
    under, result = [each for each in function.arguments if isinstance(each, Buffer)][-2:]
    near = _reads_in_place(function.body, under, result)
    read = result if near else Buffer(f"{under.name}.before", under.shape, under.dtype)

    def rule(node: Node) -> Node | None:
        return replace(node, buffer=read) if isinstance(node, BufferLoad) and node.buffer is under else None

    body: Stmt = rewrite(function.body, rule)
    if not near:
        body = Allocate(read, Seq((_copy_loops(result, read), body)))
    return replace(function, params=tuple(each for each in function.params if each is not under), body=body)


def _reads_in_place(body: Stmt, under: Buffer, result: Buffer) -> bool:
    """Return whether the one statement that stores the result is the only one that reads what lies under it, and at the same place."""
    storing = [node for node in walk(body) if isinstance(node, BufferStore) and node.buffer is result]
    if len(storing) != 1:  # a second store might read what the first has overwritten
        return False
    (store,) = storing
    beside = [node for node in walk(store.value) if isinstance(node, BufferLoad) and node.buffer is under]
    reads = sum(isinstance(node, BufferLoad) and node.buffer is under for node in walk(body))
    others = any(isinstance(node, BufferLoad) and node.buffer is result for node in walk(body))
    return (
        reads == len(beside)  # a read before the store would see the old value, one after it the new one
        and not others
        and all(all(equal(*pair) for pair in zip(load.indices, store.indices, strict=True)) for load in beside)
    )


def _copy_loops(source: Buffer, copy: Buffer) -> Stmt:
    """The loops that copy all of a buffer."""
    loops = [Var(f"at{at}", extent.dtype) for at, extent in enumerate(source.shape)]
    body: Stmt = BufferStore(copy, BufferLoad(source, tuple(loops)), tuple(loops))
    for var, extent in zip(reversed(loops), reversed(source.shape), strict=True):
        body = For(var, const(0, var.dtype), extent, LoopKind.SERIAL, body)
    return body


def _warn_of_scattered_lanes(function: Function) -> None:
    """Warn, at a user's line, of lanes in a schedule by hand that store elements one by one."""
    source = user_source(("driver.compile", "driver.build"))
    for each in find_scattered_lanes(function.body) if source is not None else ():
        warn_user(source, f"{each}: vectorize a loop along which they lie side by side", PerformanceWarning)
