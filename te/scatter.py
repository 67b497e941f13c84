"""Scatters: an operation of loops whose steps write to places that are data.

    for i, j: table[index[i], j] += value[i, j]

As a sum each element would ask every step whether it was met; so it takes one step for each value. Steps run in the order of
the loops: of several that meet in an element, "add" adds in that order, and of "store" the last one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

from ..base import dataclass, replace, user_source
from ..ir import Buffer, BufferLoad, BufferStore, Expr, For, If, IterVar, LoopKind, ProducerLoad, Range, Stmt, ops
from ..ir.visit import seq
from .hybrid.op import HybridOp
from .scatter_add import Addition
from .shape import declare_axes
from .tensor import Tensor
from .wraparound import wrapping

__all__ = ["Combine", "scatter"]

Combine = Literal["add", "multiply", "min", "max", "store"]

_COMBINE: dict[Combine, Callable[[Expr, Expr], Expr]] = {
    "add": ops.add,
    "multiply": ops.multiply,
    "min": ops.minimum,
    "max": ops.maximum,
    "store": lambda _, value: value,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScatterOp(HybridOp):
    """A script of stores to places that are data. addition: where it adds up values, and nothing else."""

    addition: Addition | None

    @property
    def additions(self) -> Addition | None:
        return self.addition


def scatter(
    name: str,
    shape: Sequence[Expr],
    steps: Addition,
    combine: Combine = "add",
    begin: Tensor | None = None,
) -> Tensor:
    """The tensor of `shape` and of the value's dtype whose elements begin as those of `begin`, or as zeros; then at each of the
    steps, in the order of their axes, the value is combined with the element at its place."""
    steps = replace(steps, value=wrapping(steps.axes, (steps.value,))[0])
    buffer = Buffer(name, tuple(shape), steps.value.dtype)
    body: Stmt = BufferStore(buffer, _COMBINE[combine](BufferLoad(buffer, steps.place), steps.value), steps.place)
    for holds, _ in reversed(steps.conditions):
        body = If(holds, body)
    body = _nest(steps.axes, body)
    if begin is not None:
        axes = declare_axes(buffer.shape, "i")
        body = seq(_nest(axes, BufferStore(buffer, ProducerLoad(begin, axes), axes)), body)
    op = ScatterOp(
        name=name,
        tag="scatter",
        source=user_source(),
        buffers=(buffer,),
        body=body,
        addition=steps if combine == "add" and begin is None else None,
    )
    return op.output(0)


def _nest(loops: Sequence[IterVar], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        domain = cast(Range, loop.dom)
        body = For(loop, domain.begin, domain.extent, LoopKind.SERIAL, body)
    return body
