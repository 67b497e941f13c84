"""Comparison of a built model with the reference, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass
from .concatenations import find_joined_parts
from .node import Node, Parts
from .plan import Plan
from .program import Program
from .reference import run_node
from .rewrite import remove_dead, replace_outputs
from .types import array_dtype

__all__ = ["Comparison", "first_difference"]

_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-9}


@dataclass(frozen=True)
class Comparison:
    """Result of Model.verify: true where every value agrees with the reference.

    node: the first one that differs. value: its name. error: the greatest difference, relative to the greatest magnitude of the
    value (for integers and bools: how many elements differ).
    """

    node: Node | None = None
    value: str = ""
    error: float = 0.0

    def __bool__(self) -> bool:
        return self.node is None

    def __str__(self) -> str:
        if self.node is None:
            return f"every value agrees with the reference (greatest relative difference {self.error:.3g})"
        source = f" ({self.node.source})" if self.node.source else ""
        return f"{self.node.operator}{source} gives {self.value}, which differs from the reference by {self.error:.3g}"


def first_difference(
    g: Parts,
    given: Mapping[str, NDArray[Any]],
    build: Callable[[Parts], Program],
    run: Callable[[Program, Sequence[Any], Sequence[Any]], None],
    own: Program,
) -> Comparison:
    """The first node of a graph that differs: each kernel's values are compared with what the reference makes of
    the values that the kernel read, and then what `own`, which keeps none of these, gives with what they are."""
    arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in given.items()}
    ends = {
        value: np.empty(cast("tuple[int, ...]", own.types[value].shape), array_dtype(own.types[value].dtype))
        for value in own.plan.outputs.values()
    }
    run(own, [arrays[name].copy() for name in own.plan.inputs], [ends[value] for value in own.plan.outputs.values()])
    plan = Plan.of(g)
    watched = [
        *(name for step in plan.steps for name in step.outputs),
        *(whole for whole, _ in find_joined_parts(plan.graph).values()),
        *plan.placed,
    ]
    whole = _with_results(g, watched)
    # what is a result is cut elsewhere, perhaps into kernels that store others
    while more := [
        name for step in Plan.of(whole).steps for name in step.outputs if name in g.types.keys() - whole.results
    ]:
        watched += more
        whole = _with_results(g, watched)
    program = build(whole)
    sizes, types = program.sizes, whole.types
    results = {
        name: np.empty(cast("tuple[int, ...]", types[value].at(sizes).shape), array_dtype(types[value].dtype))
        for name, value in whole.results.items()
    }
    run(program, list(arrays.values()), list(results.values()))
    values = {**g.params, **given, **{whole.results[name]: array for name, array in results.items()}}
    worst = 0.0
    for step in program.plan.steps:
        local = dict(values)
        for node in step.nodes:
            # from the kernel's own inputs, so that errors of earlier kernels do not add up
            outputs = run_node(node, [local[name] if name else None for name in node.inputs], sizes)
            local.update(zip(node.outputs, outputs, strict=True))
        for name in step.outputs:
            error = difference(values[name], local[name])
            if error > _TOLERANCE.get(str(local[name].dtype), 0):
                return Comparison(step.nodes[-1], name, error)
            worst = max(worst, error)
    for step in program.plan.steps:
        for name in ends.keys() & set(step.outputs):
            if difference(ends[name], values[name]) > _TOLERANCE.get(str(ends[name].dtype), 0):
                return Comparison(step.nodes[-1], name, difference(ends[name], values[name]))
    return Comparison(error=worst)


def _with_results(g: Parts, names: Iterable[str]) -> Parts:
    """A graph of which values are results by their names, as far as it has them."""
    return remove_dead(replace_outputs(g, {name: name for name in names if name in g.types}))


def difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Return the distance of two arrays, as Comparison has it. A NaN is not a distance from a NaN."""
    if theirs.dtype.kind in "iub":
        return float(np.count_nonzero(ours != theirs))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    # infinities are equal, and their difference would be NaN
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return float("inf")
    # relative to the greatest value: near 0 a sum's rounding is large beside its own result
    finite = b[np.isfinite(b)]
    return float(np.abs(a - b)[~same].max() / max(np.abs(finite).max(initial=0), 1e-30))
