"""A graph as kernels, and the calls of them in order: on inputs, outputs, weights and places in an arena. Where sizes are symbols,
kernels are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import cast

from .. import te
from ..base import dataclass, replace
from ..codegen.llvm.build import kernel_symbol
from ..driver.linking import Part
from ..ir import Assert, Buffer, Call, Expr, IntImm, Seq, StringImm, Var, ops
from ..ir.constant import Constant
from ..ir.dtype import HANDLE, DType
from ..te.shape import convert_shape
from .arena import ALIGNMENT, Lifetime, Size, plan_symbolic_offsets
from .kernels import Step, declared_kernel, is_heavy, reuse_input
from .memory_views import Homes, find_placements
from .node import Parts
from .rewrite import hoist_params, remove_dead, replace_outputs
from .states import steps_with_state
from .types import Extent, TensorType, array_dtype, extents, factors, substitute_sizes, symbol
from .weights import Weights, collect_weights

__all__ = ["Layout", "Place", "Plan", "value_bytes", "value_buffer"]


@dataclass(frozen=True)
class Layout:
    """Places in the arena, in bytes from its beginning. values: of what steps give, by name. workspaces: of the memory that each
    step works in. size: of the whole."""

    values: Mapping[str, Size]
    workspaces: tuple[tuple[Size, ...], ...]
    size: Size

    @property
    def bytes(self) -> int:
        """The size where no symbol is in it."""
        assert isinstance(self.size, int), "the sizes of the graph are known"
        return self.size

    def at(self, sizes: Mapping[str, int]) -> Layout:
        """The places where symbols have these sizes."""

        def known(size: Size) -> Size:
            return size if isinstance(size, int) else cast("IntImm", substitute_sizes(size, sizes)).value

        return Layout(
            {name: known(at) for name, at in self.values.items()},
            tuple(tuple(map(known, places)) for places in self.workspaces),
            known(self.size),
        )


@dataclass(frozen=True)
class Place:
    """Place of a value: so many elements of a buffer behind its beginning."""

    buffer: Buffer
    offset: Expr | int = 0

    def advance(self, number: Expr | int, elements: Size) -> Place:
        """So many times these elements further on."""
        return Place(self.buffer, self.offset + number * elements)


@dataclass(frozen=True)
class Plan:
    """Plan of a model's call.

    graph: what is computed, without what nobody needs; the graphs inside of its nodes have no parameters of their own. steps:
    its kernels in the order of a call.
    """

    graph: Parts
    steps: tuple[Step, ...]

    @staticmethod
    def of(g: Parts) -> Plan:
        """The plan of a graph."""
        whole, steps = steps_with_state(
            replace(hoist_params(remove_dead(replace_outputs(g, g.results))), state=g.state)
        )
        return Plan(
            whole,
            tuple(
                steps_in_place(whole, steps, find_placements(whole, {name for step in steps for name in step.outputs}))
            ),
        )

    @cached_property
    def over(self) -> frozenset[str]:
        """The kernels that put their result over a value that they read whole, those of graphs inside too."""
        own = frozenset(
            name for name, step in zip(self.names, self.steps, strict=True) if step.over and not step.stores_part
        )
        return own.union(*(plan.over for plans in self.inside.values() for plan in plans))

    @property
    def inputs(self) -> list[str]:
        """The inputs in the order of main's arguments: those that are only read, then the state."""
        return sorted(self.graph.inputs, key=lambda name: name in self.graph.state)

    @property
    def outputs(self) -> dict[str, str]:
        """The value of each output that has memory of its own, by its name."""
        state = set(self.graph.state.values())
        return {name: value for name, value in self.graph.results.items() if name not in state}

    @cached_property
    def inside(self) -> dict[str, tuple[Plan, ...]]:
        """The plans of the graphs inside of a step's node, by the step's name."""
        return {
            name: tuple(map(Plan.of, step.nodes[-1].bodies))
            for name, step in zip(self.names, self.steps, strict=True)
            if step.nodes[-1].bodies
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kernel of each step: what it does, and a digest of its structure, so that it is called the same in every model."""
        return tuple(f"{_word(step)}_{sha256(step.key.encode()).hexdigest()[:12]}" for step in self.steps)

    @property
    def counts(self) -> dict[str, int]:
        """The number of times each kernel runs, by its name."""
        return dict(Counter(self.names))

    def shapes_text(self, step: Step) -> str:
        """Return the shapes of a step's results, as text."""
        return ", ".join(str(self.graph.types[name]) for name in step.outputs)

    def steps_by_name(self) -> dict[str, tuple[Step, dict[str, TensorType]]]:
        """The first step of each kernel, with the types of its graph's values, by the kernel's name; those of graphs inside too,
        nodes with graphs inside left out."""
        types = self.graph.types
        first = dict(zip(reversed(self.names), reversed(self.steps), strict=True))
        found = {name: (first[name], types) for name in dict.fromkeys(self.names) if name not in self.inside}
        for plans in self.inside.values():
            for plan in plans:
                found |= {name: step for name, step in plan.steps_by_name().items() if name not in found}
        return found

    def kernels(self) -> dict[str, list[te.Tensor | Var]]:
        """Each kernel as tensors, what it is passed and then what it gives, and its symbols, by its name; those of graphs inside
        too."""
        return {name: declared_kernel(step, types) for name, (step, types) in self.steps_by_name().items()}

    @property
    def weights_name(self) -> str:
        """Name of the packed parameters in the function that calls the kernels."""
        return self._arguments("weights")[-1]

    @property
    def arguments(self) -> list[str]:
        """Names of that function's arguments: inputs, state, outputs, and at last the arena."""
        return self._arguments()

    def _arguments(self, *further: str) -> list[str]:
        """The names of main's arguments, and further ones, of which no two are equal."""
        return _distinct([*self.inputs, *self.outputs, "arena", *further])

    @cached_property
    def placed(self) -> Homes:
        """The values that lie in the memory of others, of which they are a part, or over which they are put."""
        found = find_placements(self.graph, {name for step in self.steps for name in step.outputs})
        for step in self.steps:
            if step.over and step.over not in self.graph.inputs:
                found[step.outputs[0]] = found.get(step.over, (step.over, 0))
        return found

    def lifetimes(self, parts: Mapping[str, Part]) -> dict[str | tuple[int, int], Lifetime]:
        """Return the lifetimes in the arena: values by their names, and the memory that steps work in by the step's number and
        its own. parts: the kernels, by their names."""
        types, outputs = self.graph.types, set(self.graph.results.values())
        born: dict[str, int] = {}
        last: dict[str, int] = {}
        for at, step in enumerate(self.steps):
            for name in (self._home(name) for name in step.outputs):
                last[name] = at
                born.setdefault(name, at)
            last.update((home, at) for name in step.inputs if (home := self._home(name)) in born)
        lives: dict[str | tuple[int, int], Lifetime] = {
            name: _lifetime((*types[name].shape, array_dtype(types[name].dtype).itemsize), at, last[name])
            for name, at in born.items()
            if name not in outputs
        }
        return lives | {
            (at, k): _lifetime((size,), at, at)
            for at, kernel in enumerate(self.names)
            for k, size in enumerate(parts[kernel].workspaces)
        }

    def layout(self, parts: Mapping[str, Part]) -> Layout:
        """Lay out all values in the least memory that we find. parts: the kernels, by their names."""
        types = self.graph.types
        offsets, size = plan_symbolic_offsets(self.lifetimes(parts))
        within = tuple(
            tuple(offsets[at, k] for k in range(len(parts[kernel].workspaces))) for at, kernel in enumerate(self.names)
        )
        values = {name: at for name, at in offsets.items() if isinstance(name, str)}
        values |= {
            name: values[home] + at * array_dtype(types[name].dtype).itemsize
            for name, (home, at) in self.placed.items()
            if home in values
        }
        least = max(size, ALIGNMENT) if isinstance(size, int) else size + ALIGNMENT
        return Layout(values, within, least)

    def _home(self, name: str) -> str:
        """The value in whose memory one lies."""
        return self.placed[name][0] if name in self.placed else name

    def weights(self, parts: Mapping[str, Part], packed: MutableMapping[str, Constant]) -> Weights:
        """Return the weights that these kernels read. packed: as collect_weights takes it."""
        return collect_weights(self.graph, self.steps, [parts[name] for name in self.names], packed)

    def calls(
        self, outer: Mapping[str, Place], layout: Layout, arena: Buffer, weights: Sequence[Sequence[Place]] = ()
    ) -> Seq:
        """The calls of the kernels. outer: where values lie that are not in the arena. weights: where that lies which each kernel
        reads of parameters, where there are any."""

        def pointer(name: str, mode: str) -> Expr:
            home, at = self.placed.get(name, (name, 0))
            place = outer[home].advance(1, at) if home in outer else None
            return (
                arena.access_ptr("rw", offset=layout.values[name])
                if place is None
                else place.buffer.access_ptr(mode, offset=place.offset)
            )

        def call(at: int, step: Step) -> Assert:
            pointers: list[Expr] = [pointer(name, "r") for name in step.passed]
            pointers += [pointer(name, "rw" if step.over else "w") for name in step.outputs]
            pointers += map(symbol, step.symbols)
            pointers += [
                place.buffer.access_ptr("r", offset=place.offset) for place in (weights[at] if weights else ())
            ]
            pointers += [arena.access_ptr("rw", offset=offset) for offset in layout.workspaces[at]]
            status = Call("call_extern", (StringImm(kernel_symbol(self.names[at])), *pointers), DType("int32"))
            done = ops.equal(status, ops.const(0, "int32"))
            return Assert(
                done, f"step {at} ({step.nodes[-1].operator}) had no memory to work in, or does not take these sizes"
            )

        return Seq(tuple(call(at, step) for at, step in enumerate(self.steps)))


def _lifetime(size: Sequence[Extent], first: int, last: int) -> Lifetime:
    number, of = factors(size)
    return Lifetime(number, first, last, of)


def _distinct(names: Sequence[str]) -> list[str]:
    """Source of names of which no two are equal."""
    taken: dict[str, None] = {}
    for name in names:
        spelled = name or "_"
        while spelled in taken:
            spelled += "_"
        taken[spelled] = None
    return list(taken)


def _word(step: Step) -> str:
    """The operator that a kernel is named after: the heavy one."""
    return next((node.operator for node in step.nodes if is_heavy(node)), step.nodes[-1].operator)


def value_bytes(kind: TensorType) -> int:
    """Return the number of bytes of a value of known extents."""
    return prod(int(extent) for extent in kind.shape) * array_dtype(kind.dtype).itemsize


def value_buffer(name: str, kind: TensorType, alignment: int = 0) -> Buffer:
    """A buffer of a value, whose extents may speak of symbols."""
    return Buffer(
        name, convert_shape(extents(kind.shape), name), DType(kind.dtype), data=Var(name, HANDLE), alignment=alignment
    )


# Results in the memory of what they are computed from.
#
#     y = relu(add(conv(h, w), x))      where nobody needs x afterwards: y is stored over x, element by element
#
# Then a kernel touches one array less, and what it stores is in the cache, where it was read just before.


def steps_in_place(g: Parts, steps: Sequence[Step], homes: Homes) -> list[Step]:
    """The steps, those with their results over one of the values that they read last that can be computed so: values of the arena
    in which nothing else lies. homes: what lies in the memory of other values."""
    types, made = g.types, {name for step in steps for name in step.outputs}
    shared = {*homes, *(home for home, _ in homes.values()), *g.inputs, *g.results.values()}
    last = {name: at for at, step in enumerate(steps) for name in (*step.inputs, *step.outputs)}
    found: list[Step] = []
    for at, step in enumerate(steps):
        over: Step | None = None
        if not step.over and not step.nodes[-1].bodies and shared.isdisjoint(step.outputs):
            free = [name for name in step.inputs if name in made and name not in shared and last[name] == at]
            over = next((each for name in free if (each := reuse_input(step, name, types)) is not None), None)
        found.append(over or step)
    return found
