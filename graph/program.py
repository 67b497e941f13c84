"""A graph of known sizes as one function of machine code: its kernels, each structure once, and a main function that calls them in
order, on inputs, outputs, weights and places in an arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..codegen.llvm.build import kernel_symbol
from ..codegen.result import BuildOptions
from ..driver.build import build_with_options
from ..ir import ops
from ..ir.buffer import Buffer
from ..ir.constant import Constant
from ..ir.dtype import HANDLE, DType
from ..ir.expr import Call, Expr, StringImm, Var
from ..ir.stmt import Assert, Function, Seq
from ..runtime import Kernel
from ..te.shape import as_shape
from .arena import ALIGNMENT, Lifetime, places
from .kernels import Step, declared_kernel, steps_of
from .node import Parts
from .rewrite import with_results, without_dead
from .types import TensorType, array_dtype

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Program", "build_program"]


@dataclass(frozen=True)
class Program:
    """main: takes the inputs, the outputs and the arena. kernels: how often each structure runs, by the name of its function."""

    graph: Parts
    steps: tuple[Step, ...]
    main: Kernel
    arena_bytes: int
    kernels: dict[str, int]


def build_program(
    g: Parts, target: str, options: BuildOptions, tuned: str | PathLike[str] | Database | None, exact: bool,
) -> Program:
    """The graph, of known sizes, as machine code."""
    whole = without_dead(with_results(g, g.results))
    steps = steps_of(whole)
    names = {key: f"k{at}" for at, key in enumerate(dict.fromkeys(step.key for step in steps))}
    first = {names[step.key]: step for step in reversed(steps)}
    types = whole.types
    main, arena = _main(whole, steps, names, types)
    parts: dict[str, Any] = {name: declared_kernel(first[name], types) for name in names.values()}
    module = build_with_options({**parts, "main": main}, None, target, "main", options, tuned, exact)
    counts = {name: sum(names[step.key] == name for step in steps) for name in names.values()}
    return Program(whole, tuple(steps), module["main"], arena, counts)


def _bytes(kind: TensorType) -> int:
    return prod(int(extent) for extent in kind.shape) * array_dtype(kind.dtype).itemsize


def _main(g: Parts, steps: list[Step], names: Mapping[str, str], types: Mapping[str, TensorType]) -> tuple[Function, int]:
    """The function that calls the kernels, and how large its arena is."""
    born = {name: at for at, step in enumerate(steps) for name in step.outputs}
    last = {**born, **{name: at for at, step in enumerate(steps) for name in step.inputs if name in born}}
    outputs = set(g.results.values())
    offsets, size = places({name: Lifetime(_bytes(types[name]), at, last[name])
                            for name, at in born.items() if name not in outputs})
    arena = _buffer("arena", TensorType((max(size, ALIGNMENT),), "uint8"))
    buffers = {name: _buffer(f"p{at}", types[name]) for at, name in enumerate([*g.inputs, *g.results.values(), *g.params])}
    held = tuple(Constant(f"w{at}", data) for at, data in enumerate(g.params.values()))

    def pointer(name: str, mode: str) -> Expr:
        if name in buffers:
            return buffers[name].access_ptr(mode)
        return arena.access_ptr("rw", offset=offsets[name])

    def call(at: int, step: Step) -> Assert:
        pointers = [pointer(name, "r") for name in step.inputs] + [pointer(name, "w") for name in step.outputs]
        status = Call("call_extern", (StringImm(kernel_symbol(names[step.key])), *pointers), DType("int32"))
        return Assert(ops.equal(status, ops.const(0, "int32")), f"step {at} ({step.nodes[-1].operator}) had no memory to work in")

    results = tuple(buffers[name] for name in g.results.values())
    params = (*(buffers[name] for name in g.inputs), *results, arena, *(buffers[name] for name in g.params))
    return Function("main", params, Seq(tuple(call(at, step) for at, step in enumerate(steps))), (*results, arena), {}, held), size


def _buffer(name: str, kind: TensorType) -> Buffer:
    return Buffer(name, as_shape(kind.shape, name), DType(kind.dtype), data=Var(name, HANDLE))
