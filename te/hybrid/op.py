"""The operation that a hybrid script makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...base import dataclass, field, replace
from ...ir.buffer import Buffer
from ...ir.dtype import DType
from ...ir.expr import BufferLoad, Expr, IterVar, Node, ProducerLoad, Var
from ...ir.lazy_values import cached_property
from ...ir.stmt import BufferStore, For, LoopKind, Stmt
from ...ir.visit import post_order, rewrite
from ..declared_loops import DeclaredLoops, collect_loops
from ..operation import Operation
from ..rewrite import redirect
from ..shape import declare_axes
from ..tensor import Tensor
from .races import meeting_buffer

if TYPE_CHECKING:
    from ..sizes import Sizes

__all__ = ["HybridOp"]

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
    written: frozenset[Buffer] = frozenset()
    """Memory that is known to be written before it is read, since that was seen before its loops were changed."""
    dims: tuple[tuple[IterVar, ...], ...] = field(init=False)
    kind: ClassVar[str] = "hybrid"
    noun: ClassVar[str] = "a hybrid script"
    takes_definitions: ClassVar[bool] = True
    runs_in_order: ClassVar[bool] = True
    begins_undefined: ClassVar[bool] = False
    """Whether nothing is read that the statement did not write before, so that no zeros are wanted."""

    def __post_init__(self) -> None:
        _set(self, "dims", tuple(declare_axes(buffer.shape, f"{buffer.name}.ax") for buffer in self.buffers))
        _set(self, "axis", tuple(loop.var for loop in collect_loops(self.body) if isinstance(loop.var, IterVar)))
        outputs = tuple(
            Tensor(self, at, buffer.name, buffer.shape, buffer.dtype) for at, buffer in enumerate(self.buffers)
        )
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
        return self.find_reads(self.body)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """TVM's name for `input_tensors`."""
        return self.input_tensors

    def statement(self) -> Stmt:
        return self.body

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> HybridOp:
        """The same operation reading other tensors, over the same axes; itself where it reads none of them."""
        return self.rewritten(lambda body: redirect(body, tensors))

    @cached_property
    def declared_loops(self) -> DeclaredLoops:
        return DeclaredLoops(self.body)

    @cached_property
    def is_vouched_for(self) -> bool:
        """Return whether iterations of a loop that the script makes parallel are not proved to touch no element in common."""
        return any(
            isinstance(node, For) and node.kind is LoopKind.PARALLEL and meeting_buffer(node) is not None
            for node in post_order(self.body)
        )

    @cached_property
    def data_indexed(self) -> tuple[Expr, ...]:
        """The extents of the dimensions, of tensors and of its own memory, whose indices may depend on data."""
        known, bound = {*self.axis}, self.declared_loops.bound_variables

        def depends(index: Expr) -> bool:
            return any(
                isinstance(node, (BufferLoad, ProducerLoad)) or node in bound and node not in known
                for node in post_order(index)
            )

        extents: list[Expr] = []
        for node in post_order(self.body):
            if isinstance(node, (BufferLoad, BufferStore, ProducerLoad)):
                shape = node.producer.shape if isinstance(node, ProducerLoad) else node.buffer.shape
                extents += [extent for extent, index in zip(shape, node.indices, strict=True) if depends(index)]
        return tuple(extents)

    @staticmethod
    def find_reads(body: Stmt) -> tuple[Tensor, ...]:
        """The tensors that a statement reads, each once, in the order of first use."""
        producers = (node.producer for node in post_order(body) if isinstance(node, ProducerLoad))
        return tuple(dict.fromkeys(producer for producer in producers if isinstance(producer, Tensor)))

    def choose_extents(self, sizes: Sizes, is_output: bool) -> None:
        """The loops of constant length become shorter, and its tensors as large as what these reach."""
        for axis in self.axis:
            sizes.choose(axis, 0, True)
        evaluate = sizes.spans(self.axis)
        others = self.declared_loops.bound_variables.difference(self.axis)

        def reach(indices: Sequence[Expr]) -> list[int | None]:
            known = [not any(node in others for node in post_order(index)) for index in indices]
            return [need if sure else None for need, sure in zip(sizes.reach(indices, evaluate), known, strict=True)]

        needs = {buffer: sizes.requirements(output) for buffer, output in zip(self.buffers, self.outputs, strict=True)}
        for node in post_order(self.body):
            if isinstance(node, ProducerLoad):
                sizes.need(node.producer, reach(node.indices))
            elif isinstance(node, (BufferLoad, BufferStore)) and node.buffer in needs:
                needs[node.buffer] = [
                    sizes.most(both) for both in zip(needs[node.buffer], reach(node.indices), strict=True)
                ]
        for buffer, wanted in needs.items():
            sizes.shapes[buffer] = tuple(
                sizes.extent(extent, need, False) for extent, need in zip(buffer.shape, wanted, strict=True)
            )

    def resize(self, sizes: Sizes, tensors: Mapping[Tensor, Tensor]) -> HybridOp:
        axes: dict[Var, Expr] = {}
        loops: dict[Var, IterVar] = {axis: sizes.rebuild_axis(axis, axes, tensors) for axis in self.axis}
        buffers = {buffer: replace(buffer, shape=sizes.shapes[buffer]) for buffer in self.buffers}

        def rule(node: Node) -> Node | None:
            if isinstance(node, For) and node.var in loops:
                loop = loops[node.var]
                assert loop.dom is not None, "axes of operations have a domain"
                return replace(node, var=loop, begin=loop.dom.begin, extent=loop.dom.extent)
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in buffers:
                return replace(node, buffer=buffers[node.buffer])
            return axes.get(node) if isinstance(node, Var) else None

        body = rewrite(self.replace_inputs(tensors).body, rule)
        return replace(self, body=body, buffers=tuple(buffers[buffer] for buffer in self.buffers))

    def rewritten(self, rule: Callable[[Any], Any]) -> HybridOp:
        """The operation with `rule` applied to its body; itself where nothing changed."""
        body = rule(self.body)
        return self if body is self.body else replace(self, body=body)
