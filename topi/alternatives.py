"""Other declarations that an operator offers for what it computes, of which schedules by rules take the cheapest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..te.tensor import Tensor


def offer(result: Tensor, **ways: partial[Tensor]) -> Tensor:
    """Return `result` with other declarations of it by their names, as `s.redeclare` takes them: made only where one is taken, of the
    same shape and dtype, right within the error that the operator states for them. Each is a function of this package with its
    arguments, so that the key of a kept kernel can name it."""
    op = result.op.as_compute
    assert op is not None, "what has alternatives is an expression for each element"
    # as an attribute of the operation, where a schedule finds them
    return replace(op, attrs={**op.attrs, "alternatives": ways}).output(result.value_index)
