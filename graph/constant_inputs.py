"""Inputs whose values are known, so that a graph does not take them any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from .errors import BadGraphInput
from .node import Param, Parts
from .rewrite import replace_shapes
from .types import TensorType, array_dtype

__all__ = ["convert_inputs", "bind_inputs"]


def convert_inputs(inputs: Mapping[str, TensorType], values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Values of inputs, by name, as arrays of their types: numbers and lists of them take the input's dtype. Raises BadGraphInput
    (TW0906)."""
    return {name: _array(inputs, name, value) for name, value in values.items()}


def _array(inputs: Mapping[str, TensorType], name: str, value: Any) -> NDArray[Any]:
    kind = inputs.get(name)
    if kind is None:
        raise BadGraphInput(
            f"the model has no input {name!r}"[:200],
            called=user_source(),
            allowed=", ".join(inputs),
            fix="values of its inputs, by name",
        )
    try:
        given = np.asarray(value)
        array = given if hasattr(value, "dtype") else np.asarray(value, array_dtype(kind.dtype))
        same = bool(np.array_equal(array, given)) or array.dtype.kind not in "biu"
    except (ValueError, TypeError, OverflowError) as problem:
        raise _does_not_fit(name, kind, str(problem)) from None
    fits = array.ndim == len(kind.shape) and all(
        isinstance(said, str) or extent == said for extent, said in zip(array.shape, kind.shape, strict=True)
    )
    if str(array.dtype) != kind.dtype or not fits or not same:
        raise _does_not_fit(
            name, kind, f"got {given.dtype} of shape {given.shape}" + (f", {value!r}" if not same else "")
        )
    return array


def _does_not_fit(name: str, kind: TensorType, reason: str) -> BadGraphInput:
    return BadGraphInput(
        f"the model's input {name} is {kind}", reason=reason[:300], called=user_source(), fix="a value of this type"
    )


def bind_inputs(g: Parts, values: Mapping[str, NDArray[Any]]) -> Parts:
    """The graph in which these inputs are parameters. values: of their types. Raises BadGraphInput (TW0906)."""
    if past := sorted(values.keys() & g.state.keys()):
        raise BadGraphInput(
            f"the input {past[0]} is state",
            called=user_source(),
            reason="each call updates it",
            fix="values of other inputs",
        )
    sized = replace_shapes(g, {name: value.shape for name, value in values.items()})
    inputs = {name: kind for name, kind in sized.inputs.items() if name not in values}
    return replace(
        sized, inputs=inputs, constants={**sized.constants, **{name: Param.of(value) for name, value in values.items()}}
    )
