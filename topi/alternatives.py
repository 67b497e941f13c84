"""Algorithms of an operator: other declarations of its values, of which schedules by rules take the one of the least time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ..base import dataclass, replace
from ..te.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm among the alternatives of a row.

    declare: by the operator's tensors and attributes, its values by the algorithm, of the same shape and dtype and right within the
    error that the operator states: a function of this package with its arguments, so that the key of a kept kernel can name it, called
    only where it is taken; None where the algorithm does not compute them, or takes more operations."""

    declare: Callable[..., partial[Tensor] | None]


def offer(result: Tensor, ways: Mapping[str, partial[Tensor] | None]) -> Tensor:
    """Return `result` with other declarations of it by their names, as `s.redeclare` takes them."""
    offered = {name: way for name, way in ways.items() if way is not None}
    if not offered:
        return result
    op = result.op.as_compute
    assert op is not None, "what has alternatives is an expression for each element"
    # as an attribute of the operation, where a schedule finds them
    return replace(op, attrs={**op.attrs, "alternatives": offered}).output(result.value_index)
