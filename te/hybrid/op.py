"""The operation that a hybrid script makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from ...ir.buffer import Buffer
from ...ir.dtype import DType
from ...ir.expr import BufferLoad, Expr, IterVar, Let, Node, ProducerLoad, Var
from ...ir.stmt import BufferStore, For, LetStmt, Stmt
from ...ir.visit import children, post_order
from ..operation import Operation
from ..rewrite import redirect
from ..shape import zero_based
from ..tensor import Tensor

__all__ = ["HybridOp", "loops_of"]

_set = object.__setattr__


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HybridOp(Operation):
    """Tensors that a statement computes.

    body: reads its inputs as tensors (ProducerLoad), its outputs and its own memory as buffers. buffers: those of the
    outputs, in order; they begin as zeros, and so does memory that the body allocates (zeros.py). axis: the loops of the
    body whose bounds do not depend on what is read, in TVM's order: a loop before those within it, and of loops after each
    other the last one first. In the body these axes are the loops' own variables.
    """

    body: Stmt
    buffers: tuple[Buffer, ...]
    dims: tuple[tuple[IterVar, ...], ...] = field(init=False)
    kind: ClassVar[str] = "hybrid"
    noun: ClassVar[str] = "a hybrid script"
    takes_definitions: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shapes = [buffer.shape for buffer in self.buffers]
        dims = tuple(tuple(IterVar(f"{buffer.name}.ax{at}", (dom := zero_based(extent)).begin.dtype, dom)
                           for at, extent in enumerate(shape)) for buffer, shape in zip(self.buffers, shapes, strict=True))
        _set(self, "dims", dims)
        _set(self, "axis", tuple(loop.var for loop in loops_of(self.body) if isinstance(loop.var, IterVar)))
        outputs = tuple(Tensor(self, at, buffer.name, buffer.shape, buffer.dtype) for at, buffer in enumerate(self.buffers))
        _set(self, "outputs", outputs)

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(buffer.dtype for buffer in self.buffers)

    @property
    def output_shapes(self) -> tuple[tuple[Expr, ...], ...]:
        return tuple(buffer.shape for buffer in self.buffers)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return self.buffers[0].shape

    @property
    def dimensions(self) -> tuple[tuple[IterVar, ...], ...]:
        return self.dims

    @property
    def parts(self) -> tuple[Node, ...]:
        return (self.body,)

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.reads_of(self.body)

    def statement(self) -> Stmt:
        return self.body

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> HybridOp:
        """The same operation reading other tensors, over the same axes; itself where it reads none of them."""
        return self.rewritten(lambda body: redirect(body, tensors))

    @cached_property
    def loops(self) -> Mapping[Var, For]:
        """The loops of the body by their variables, in the order of `axis`."""
        return {loop.var: loop for loop in loops_of(self.body)}

    def loop(self, axis: IterVar) -> For:
        """The loop of the body that `axis` is the variable of."""
        return self.loops[axis]

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """What was found out about the body, by whoever did."""
        return {}

    @cached_property
    def bound_variables(self) -> frozenset[Var]:
        """The variables that the body binds, those of loops among them."""
        return frozenset(node.var for node in post_order(self.body) if isinstance(node, (For, Let, LetStmt)))

    @cached_property
    def chains(self) -> Mapping[IterVar, tuple[IterVar, ...]]:
        """For each axis the loops that stand directly inside each other, itself among them, outermost first."""
        chains: dict[IterVar, tuple[IterVar, ...]] = {}
        for axis in self.axis:
            if axis in chains:
                continue
            chain, inner = [axis], self.loop(axis).body
            while isinstance(inner, For) and isinstance(inner.var, IterVar):
                chain.append(inner.var)
                inner = inner.body
            chains.update(dict.fromkeys(chain, tuple(chain)))
        return chains

    @cached_property
    def nests(self) -> Mapping[tuple[IterVar, ...], tuple[IterVar, ...]]:
        """Every chain, in the order of the program, with the chain that it stands in; () for none."""
        outer: dict[tuple[IterVar, ...], tuple[IterVar, ...]] = {}
        stack: list[tuple[Node, tuple[IterVar, ...]]] = [(self.body, ())]
        while stack:
            node, around = stack.pop()
            if isinstance(node, For) and isinstance(node.var, IterVar):
                chain = self.chain_of(node.var)
                if chain != around:
                    outer[chain], around = around, chain
            stack.extend((child, around) for child in reversed(children(node)) if isinstance(child, Stmt))
        return outer

    def chain_of(self, axis: IterVar) -> tuple[IterVar, ...]:
        """The axes of the loops directly around and inside that of `axis`, outermost first; () for what is no axis."""
        return self.chains.get(axis, ())

    def around(self, nest: tuple[IterVar, ...]) -> tuple[IterVar, ...]:
        """The axes of the loops around a chain, outermost first."""
        axes: tuple[IterVar, ...] = ()
        while nest := self.nests[nest]:
            axes = (*nest, *axes)
        return axes

    @cached_property
    def data_indexed(self) -> tuple[Expr, ...]:
        """The extents of the dimensions, of tensors and of its own memory, whose indices may depend on data."""
        known = {*self.axis}

        def depends(index: Expr) -> bool:
            return any(isinstance(node, (BufferLoad, ProducerLoad)) or node in self.bound_variables and node not in known
                       for node in post_order(index))

        extents: list[Expr] = []
        for node in post_order(self.body):
            if isinstance(node, (BufferLoad, BufferStore, ProducerLoad)):
                shape = node.producer.shape if isinstance(node, ProducerLoad) else node.buffer.shape
                extents += [extent for extent, index in zip(shape, node.indices, strict=True) if depends(index)]
        return tuple(extents)

    @staticmethod
    def reads_of(body: Stmt) -> tuple[Tensor, ...]:
        """The tensors that a statement reads, each once, in the order of first use."""
        producers = (node.producer for node in post_order(body) if isinstance(node, ProducerLoad))
        return tuple(dict.fromkeys(producer for producer in producers if isinstance(producer, Tensor)))

    def rewritten(self, rule: Callable[[Any], Any]) -> HybridOp:
        """The operation with `rule` applied to its body; itself where nothing changed."""
        body = rule(self.body)
        return self if body is self.body else replace(self, body=body)


def loops_of(body: Stmt) -> list[For]:
    """The loops of a statement, outer ones before inner ones, and of loops after each other the last one first."""
    inner_first = [node for node in post_order(body) if isinstance(node, For)]
    return inner_first[::-1]


