"""Tensors of which only the elements that change are stored, where the result of an update lies in its first input's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..ir import Stmt, ops
from ..ir.builder import ir_builder
from ..te import polymorphic as te
from ..te.indices import index_from_end, is_in_range
from ..te.shape import Extent

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.minimum,
    "max": np.maximum,
}
"""How an update is combined with what is there, by numpy."""
_STORED: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": ops.add,
    "mul": ops.multiply,
    "min": ops.minimum,
    "max": ops.maximum,
}


_Place = Callable[[tuple[Any, ...], list[Any]], Sequence[Any]]


def store(
    shape: Sequence[Extent],
    dtype: str,
    inputs: Sequence[te.Tensor],
    extents: Sequence[Any],
    place: _Place,
    reduction: str = "update",
) -> te.Tensor:
    """Store the last of the inputs, of these extents, at the places that `place` gives for a position in it and buffers of the
    inputs; what is outside is left out. Later positions come after earlier ones."""

    def body(ins: list[Any], outs: list[Any]) -> Stmt:
        ib = ir_builder()
        given, result = [ib.buffer_ptr(one) for one in ins], ib.buffer_ptr(outs[0])
        with ExitStack() as loops:
            i = tuple(loops.enter_context(ib.for_range(0, extent, name=f"i{at}")) for at, extent in enumerate(extents))
            there = place(i, given)
            for index, extent in zip(there, shape, strict=True):
                if not any(index is one for one in i):
                    loops.enter_context(ib.if_scope(is_in_range(index, extent)))
            new = ops.cast(given[-1][i], result.dtype)
            result[tuple(there)] = new if reduction == "update" else _STORED[reduction](result[tuple(there)], new)
        return ib.get()

    tensor: te.Tensor = te.extern(tuple(shape), list(inputs), body, name="stored", dtype=dtype)
    return tensor


def elements_in_place(shape: Any, dtype: str, indices: Any, updates: Any, *, axis: int, reduction: str) -> te.Tensor:
    at = axis % len(shape)
    return store(
        shape,
        dtype,
        [indices, updates],
        indices.shape,
        lambda i, given: (*i[:at], index_from_end(given[0][i], shape[at]), *i[at + 1 :]),
        reduction,
    )
