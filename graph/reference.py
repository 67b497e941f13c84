"""The reference: a graph run node by node by numpy. What is built is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CallError, user_source
from ..runtime.array import readable_array
from ..runtime.diagnose import is_traced_by_jax
from .errors import BadGraphInput
from .node import Node, Parts
from .operators import result_types, row_of
from .size_conditions import check_sizes
from .types import Extent, array_dtype, evaluate_extent, find_symbols, substitute_attribute, type_of_array

__all__ = ["bound_inputs", "run", "run_node", "solve_sizes"]


def run(g: Parts, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[NDArray[Any]]:
    """The outputs, in order."""
    given = bound_inputs(g, arrays, named)
    sizes = solve_sizes(g, given)
    if sizes:
        check_sizes(g, sizes)
    return _results(g, given, sizes)


def _results(g: Parts, given: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> list[NDArray[Any]]:
    """The outputs for these inputs, by name, where symbols have these sizes."""
    last_use = {name: node for node in g.nodes for name in node.inputs}
    values = {**g.params, **given}
    kept = set(g.results.values())
    for node in g.nodes:
        results = run_node(node, [values[name] if name else None for name in node.inputs], sizes)
        values.update(zip(node.outputs, results, strict=True))
        for name in node.inputs:
            if name and name not in kept and last_use[name] is node:
                values.pop(name, None)
    return [values[name] for name in g.results.values()]


def run_node(node: Node, inputs: Sequence[NDArray[Any] | None], sizes: Mapping[str, int]) -> list[NDArray[Any]]:
    """Run a node on these arrays, of the types that it says. Raises BadNode (TW0903) where symbols have sizes that it does
    not take."""
    if node.bodies:
        return _run_control_node(node, inputs, sizes)
    attributes = (
        {name: substitute_attribute(value, sizes) for name, value in node.attributes.items()}
        if sizes
        else node.attributes
    )
    if sizes:  # it may be no program at these
        result_types(
            row_of(node.operator), attributes, [None if array is None else type_of_array(array) for array in inputs]
        )
    with np.errstate(all="ignore"):
        results = row_of(node.operator).reference(*inputs, **attributes)
        several = cast("Sequence[Any]", results) if isinstance(results, (list, tuple)) else [results]
        typed = [
            np.asarray(result).astype(array_dtype(kind.dtype), copy=False)
            for result, kind in zip(several, node.types, strict=True)
        ]
    for result, kind in zip(typed, node.types, strict=True):
        expected = tuple(evaluate_extent(extent, sizes) for extent in kind.shape)
        assert result.shape == expected, (
            f"the reference of {node.operator} gives {result.shape}, and declares {expected}"
        )
    return typed


def _run_control_node(
    node: Node, inputs: Sequence[NDArray[Any] | None], sizes: Mapping[str, int]
) -> list[NDArray[Any]]:
    """Run a node with graphs inside."""
    given = [array for array in inputs if array is not None]

    def inside(body: Parts, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        return _results(body, dict(zip(body.inputs, arrays, strict=True)), sizes)

    if node.operator == "if":
        return inside(node.bodies[0 if given[0] else 1], given[1:])
    trips, condition, *rest = inputs
    carried = cast("int", node.attributes["carried"])
    count = cast("tuple[int, ...]", substitute_attribute(node.attributes["count"], sizes))
    state, values = cast("list[NDArray[Any]]", rest[:carried]), cast("list[NDArray[Any]]", rest[carried:])
    limits = [1 << 62, *count] if trips is None else [int(trips), *count]
    most = min(limits)
    rows = [
        np.zeros([evaluate_extent(extent, sizes) for extent in kind.shape], array_dtype(kind.dtype))
        for kind in node.types[carried:]
    ]
    going, at = condition is None or bool(condition), 0
    while going and at < most:
        results = inside(node.bodies[0], [np.asarray(at, np.int64), *state, *values])
        if condition is not None:
            going = bool(results.pop(0))
        state = results[:carried]
        for whole, row in zip(rows, results[carried:], strict=True):
            whole[at] = row
        at += 1
    return [*state, *rows]


def bound_inputs(g: Parts, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The inputs by name, each of its dtype and shape. Raises BadGraphInput (TW0906)."""
    if len(arrays) > len(g.inputs):
        raise _bad(g, f"it takes {len(g.inputs)} inputs, and got {len(arrays)}")
    given = dict(zip(g.inputs, arrays, strict=False))
    for name, array in named.items():
        if name not in g.inputs or name in given:
            raise _bad(g, f"{name!r} is {'given twice' if name in given else 'none of its inputs'}")
        given[name] = array
    missing = [name for name in g.inputs if name not in given]
    if missing:
        raise _bad(g, f"it is not given {', '.join(missing)}")
    bound = {name: _convert_input(g, name, given[name]) for name in g.inputs}
    sizes = solve_sizes(g, bound)
    for name, kind in g.inputs.items():
        expected = tuple(evaluate_extent(extent, sizes) for extent in kind.shape)
        if bound[name].shape != expected:
            raise _bad(
                g,
                f"{name} is {kind}, and got the shape {bound[name].shape}"
                + (f", where {', '.join(f'{key} is {size}' for key, size in sizes.items())}" if sizes else ""),
            )
    return bound


def _convert_input(g: Parts, name: str, given: Any) -> NDArray[Any]:
    kind = g.inputs[name]
    try:
        array = readable_array(given)
    except CallError as refused:
        raise _bad(
            g,
            f"numpy makes no array of what is given for {name}: {refused.reason}"[:300],
            _JAX_ADVICE if is_traced_by_jax(given) else _ADVICE,
        ) from None
    if not hasattr(given, "dtype") and array.dtype.kind in "fiub" and not kind.dtype.startswith("bool"):
        array = array.astype(array_dtype(kind.dtype))
    if str(array.dtype) != kind.dtype or array.ndim != len(kind.shape):
        raise _bad(g, f"{name} is {kind}, and got {array.dtype} of {array.ndim} dimensions")
    return array


def solve_sizes(g: Parts, values: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return the sizes of the symbols by the inputs. Raises BadGraphInput (TW0906) where one is not told."""
    pairs = [
        (extent, size)
        for name, kind in g.inputs.items()
        for extent, size in zip(kind.shape, values[name].shape, strict=True)
        if isinstance(extent, str)
    ]
    sizes = {extent: size for extent, size in pairs if find_symbols([extent]) == {extent}}
    for symbol in [name for name in g.symbols if name not in sizes]:
        telling = ((extent, size) for extent, size in pairs if find_symbols([extent]) - sizes.keys() == {symbol})
        told = next(
            (told for extent, size in telling if (told := _solve_symbol(extent, symbol, size, sizes)) is not None), None
        )
        if told is None:
            raise _bad(g, f"no extent of an input tells {symbol}")
        sizes[symbol] = told
    return sizes


def _solve_symbol(extent: Extent, symbol: str, size: int, sizes: Mapping[str, int]) -> int | None:
    """Solve for a symbol where an extent, a multiple of it and something besides, has this size; the size may be no such one."""
    first, second = (evaluate_extent(extent, {**sizes, symbol: number}) for number in (1, 2))
    return max(1 + (size - first) // (second - first), 0) if second > first else None


_ADVICE = "its inputs in order, or by name, as arrays of these types"
_JAX_ADVICE = "under jax.jit jax.pure_callback(model, [jax.ShapeDtypeStruct(shape, dtype), ...], *inputs), a shape for each output"


def _bad(g: Parts, reason: str, fix: str = _ADVICE) -> BadGraphInput:
    takes = ", ".join(f"{name}: {kind}" for name, kind in g.inputs.items())
    return BadGraphInput(
        f"graph {g.name} cannot be called like this",
        reason=reason,
        called=user_source(),
        allowed=takes,
        fix=fix,
    )
