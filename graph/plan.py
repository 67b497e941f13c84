"""A graph of known sizes as kernels, and a main function that calls them in order: on inputs, outputs, weights and places in an
arena."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import prod

from .. import te
from ..codegen.llvm.build import kernel_symbol
from ..ir import ops
from ..ir.buffer import Buffer
from ..ir.constant import Constant
from ..ir.dtype import HANDLE, DType
from ..ir.expr import Call, Expr, StringImm, Var
from ..ir.stmt import Assert, Function, Seq
from ..te.shape import as_shape
from .arena import ALIGNMENT, Lifetime, places
from .kernels import Step, declared_kernel, steps_of
from .node import Parts
from .operators import row_of
from .rewrite import with_results, without_dead
from .types import TensorType, array_dtype

__all__ = ["Plan", "value_bytes"]


@dataclass(frozen=True)
class Plan:
    """graph: what is computed, without what nobody needs. steps: its kernels in the order of a call. offsets: where values lie in
    the arena, by name; arena_bytes: how long that is."""

    graph: Parts
    steps: tuple[Step, ...]
    offsets: Mapping[str, int]
    arena_bytes: int

    @staticmethod
    def of(g: Parts) -> Plan:
        """The plan of a graph of known sizes."""
        whole = without_dead(with_results(g, g.results))
        steps, types, outputs = steps_of(whole), whole.types, set(whole.results.values())
        born = {name: at for at, step in enumerate(steps) for name in step.outputs}
        last = {**born, **{name: at for at, step in enumerate(steps) for name in step.inputs if name in born}}
        offsets, size = places({name: Lifetime(value_bytes(types[name]), at, last[name])
                                for name, at in born.items() if name not in outputs})
        return Plan(whole, tuple(steps), offsets, max(size, ALIGNMENT))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kernel of each step: what it does, and a digest of its structure, so that it is called the same in every model."""
        return tuple(f"{_word(step)}_{sha256(step.key.encode()).hexdigest()[:12]}" for step in self.steps)

    @property
    def counts(self) -> dict[str, int]:
        """How often each kernel runs, by its name."""
        return dict(Counter(self.names))

    def kernels(self) -> dict[str, list[te.Tensor]]:
        """Each kernel as tensors, what it reads and then what it gives, by its name."""
        types = self.graph.types
        first = dict(zip(reversed(self.names), reversed(self.steps), strict=True))
        return {name: declared_kernel(first[name], types) for name in dict.fromkeys(self.names)}

    def main(self) -> Function:
        """The function that calls the kernels: takes the inputs, the outputs and the arena."""
        g, types = self.graph, self.graph.types
        arena = _buffer("arena", TensorType((self.arena_bytes,), "uint8"))
        buffers = {name: _buffer(f"p{at}", types[name]) for at, name in enumerate([*g.inputs, *g.results.values(), *g.params])}
        held = tuple(Constant(f"w{at}", data, g.constants[name].digest) for at, (name, data) in enumerate(g.params.items()))

        def pointer(name: str, mode: str) -> Expr:
            if name in buffers:
                return buffers[name].access_ptr(mode)
            return arena.access_ptr("rw", offset=self.offsets[name])

        def call(at: int, step: Step) -> Assert:
            pointers = [pointer(name, "r") for name in step.inputs] + [pointer(name, "w") for name in step.outputs]
            status = Call("call_extern", (StringImm(kernel_symbol(self.names[at])), *pointers), DType("int32"))
            done = ops.equal(status, ops.const(0, "int32"))
            return Assert(done, f"step {at} ({step.nodes[-1].operator}) had no memory to work in")

        results = tuple(buffers[name] for name in g.results.values())
        params = (*(buffers[name] for name in g.inputs), *results, arena, *(buffers[name] for name in g.params))
        calls = Seq(tuple(call(at, step) for at, step in enumerate(self.steps)))
        return Function("main", params, calls, (*results, arena), {}, held)


def _word(step: Step) -> str:
    """The operator that a kernel is named after: the heavy one."""
    return next((node.operator for node in step.nodes if row_of(node.operator).fusion == "heavy"), step.nodes[-1].operator)


def value_bytes(kind: TensorType) -> int:
    """How many bytes a value of known extents takes."""
    return prod(int(extent) for extent in kind.shape) * array_dtype(kind.dtype).itemsize


def _buffer(name: str, kind: TensorType) -> Buffer:
    return Buffer(name, as_shape(kind.shape, name), DType(kind.dtype), data=Var(name, HANDLE))
