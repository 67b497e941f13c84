"""What a product of matrices reads, for the rules that schedule it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import Expr, IntImm, IterVar, ProducerLoad
from ...te.operation import ComputeOp, Operation
from ...te.tensor import Tensor
from ..reading import loads_of
from .gemm_plan import Product
from .injective import constant

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["Operands", "as_compute", "operands", "reduce_axes", "source", "upstream"]


@dataclass(frozen=True)
class Operands:
    """The two factors as the sum reads them, and the sizes."""

    a: ProducerLoad
    b: ProducerLoad
    product: Product


def operands(group: Group) -> Operands:
    """What the anchor multiplies."""
    anchor = group.anchor
    a, b = loads_of(as_compute(anchor))
    (k,) = reduce_axes(anchor)
    *batch, i, j = anchor.axis
    packed = anchor.tag == "packed_dense"
    heads = {tensor for head in group.heads for tensor in head.outputs}
    width = _number(b.producer.shape[-1])
    product = Product(
        m=constant(i) or 0, n=constant(j) or 0, k=constant(k) or 0, batch=prod(constant(axis) or 1 for axis in batch),
        bits=max(b.dtype.bits, anchor.output(0).dtype.bits), stride=width, in_place=packed,
        scattered=not packed and (b.indices[-1] is not j or b.producer in heads), columns=width if packed else 0)
    return Operands(a, b, product)


def source(load: ProducerLoad) -> Tensor:
    """The tensor that is read."""
    assert isinstance(load.producer, Tensor)
    return load.producer


def upstream(group: Group, load: ProducerLoad) -> list[Operation]:
    """The heads that an operand is computed from."""
    found: dict[Operation, None] = {}
    stack = [source(load).op]
    while stack:
        op = stack.pop()
        if op in group.heads and op not in found:
            found[op] = None
            stack.extend(tensor.op for tensor in op.input_tensors)
    return list(found)


def as_compute(op: Operation) -> ComputeOp:
    """An operation that is known to be a compute."""
    assert isinstance(op, ComputeOp)
    return op


def reduce_axes(op: Operation) -> tuple[IterVar, ...]:
    """The axes that it sums over."""
    return as_compute(op).reduce_axis


def _number(extent: Expr) -> int:
    return extent.value if isinstance(extent, IntImm) else 0
