"""Inputs and outputs of a kernel for frameworks: which they are, and the outputs' shapes from the inputs' shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.errors import InternalError, user_source
from ...runtime.errors import WrongRank
from ...runtime.signature import BufferParam, ScalarParam, Signature, evaluate_extent

__all__ = ["find_inputs", "output_shapes", "find_outputs", "shape_reader"]


def find_inputs(signature: Signature) -> list[BufferParam | ScalarParam]:
    """Return what a call passes, outputs apart."""
    return [param for param in signature.params if isinstance(param, ScalarParam) or not param.is_output]


def find_outputs(signature: Signature) -> list[BufferParam]:
    """Return what a call writes."""
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
        if binding.param in arrays:  # a symbol that only outputs have is not known here
            known[symbol.name] = _undone(arrays[binding.param].shape[binding.dim], binding.steps)
    return [tuple(_extent(extent, known) for extent in param.shape) for param in find_outputs(signature)]


def shape_reader(signature: Signature) -> Callable[[Sequence[Any]], list[tuple[Any, ...]]]:
    """Return what gives the shapes of the outputs for inputs, as output_shapes does; quickly where each extent is a number or one of an
    input's."""
    places = {
        i: at
        for at, i in enumerate(
            i for i, param in enumerate(signature.params) if isinstance(param, ScalarParam) or not param.is_output
        )
    }
    read = {
        name: (places[binding.param], binding.dim)  # a symbol behind arithmetic has to be solved for
        for name, binding in signature.bindings.items()
        if binding.param in places and not binding.steps
    }
    shapes = [
        tuple(
            extent if isinstance(extent, int) else read.get(extent) if isinstance(extent, str) else None
            for extent in param.shape
        )
        for param in find_outputs(signature)
    ]
    known = [tuple(extent for extent in shape if extent is not None) for shape in shapes]
    # constant shapes need no look at the inputs
    if known == shapes and all(isinstance(extent, int) for shape in known for extent in shape):
        return lambda given: known

    def read_shapes(given: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            if known != shapes:
                return output_shapes(signature, given)
            return [
                tuple([extent if isinstance(extent, int) else given[extent[0]].shape[extent[1]] for extent in shape])
                for shape in known
            ]
        except IndexError:
            raise _wrong_rank(signature, given) from None

    return read_shapes


def _wrong_rank(signature: Signature, given: Sequence[Any]) -> Exception:
    """Return what to say where an extent of an input is asked for that it does not have."""
    for at, (param, one) in enumerate(zip(find_inputs(signature), given, strict=True)):
        if isinstance(param, BufferParam) and len(one.shape) != len(param.shape):
            return WrongRank(
                f"'{param.name}' (argument {at + 1} of {signature.name}) has {len(one.shape)} dimensions; {len(param.shape)} are "
                "expected",
                reason=f"shape {tuple(one.shape)}",
                allowed=str(signature),
                called=user_source(),
                fix=f"reshape it to {len(param.shape)} dimensions",
            )
    raise InternalError("a shape was read that is there")


def _undone(value: Any, steps: Sequence[tuple[str, int]]) -> Any:
    for operator, number in steps:
        value = evaluate_extent((operator, "value", number), {"value": value})
    return value


def _extent(extent: Any, known: Mapping[str, Any]) -> Any:
    return extent if isinstance(extent, int) else evaluate_extent(extent, known)
