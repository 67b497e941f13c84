"""What a kernel takes and gives, as frameworks ask for it: its inputs, its outputs, and their shapes from the inputs' shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime.signature import BufferParam, ScalarParam, Signature, evaluate_extent

__all__ = ["inputs_of", "output_shapes", "outputs_of"]


def inputs_of(signature: Signature) -> list[BufferParam | ScalarParam]:
    """What a call passes, outputs apart."""
    return [param for param in signature.params if isinstance(param, ScalarParam) or not param.is_output]


def outputs_of(signature: Signature) -> list[BufferParam]:
    """What a call writes."""
    return [param for param in signature.params if isinstance(param, BufferParam) and param.is_output]


def output_shapes(signature: Signature, given: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The shape of each output for these inputs: arrays and numbers, in order. Extents may be symbols of the framework's own."""
    known: dict[str, Any] = {}
    arrays: dict[int, Any] = {}
    rest = iter(given)
    for at, param in enumerate(signature.params):
        if isinstance(param, ScalarParam):
            known[param.name] = next(rest)
        elif not param.is_output:
            arrays[at] = next(rest)
    for symbol in signature.symbols:
        binding = signature.bindings[symbol.name]
        if binding.param in arrays:
            known[symbol.name] = _undone(arrays[binding.param].shape[binding.dim], binding.steps)
    return [tuple(_extent(extent, known) for extent in param.shape) for param in outputs_of(signature)]


def _undone(value: Any, steps: Sequence[tuple[str, int]]) -> Any:
    for operator, number in steps:
        value = evaluate_extent((operator, "value", number), {"value": value})
    return value


def _extent(extent: Any, known: Mapping[str, Any]) -> Any:
    return extent if isinstance(extent, int) else evaluate_extent(extent, known)
