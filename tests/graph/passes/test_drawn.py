"""Random graphs after every pass: the same bits where a pass is exact, else what the reference says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from drawn_graphs import drawn_graph
from numpy.typing import NDArray
from tilewright.base.errors import GraphError
from tilewright.codegen.result import BuildOptions
from tilewright.graph import PASSES, Graph
from tilewright.graph.comparison import difference
from tilewright.graph.model import Model
from tilewright.graph.node import Param

EXACT = [name for name, one in PASSES.items() if not one.changes_rounding]


def is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind not in "iub"


def same(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> bool:
    return all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
        if is_float(a)
        else a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(ours, theirs, strict=True)
    )


def unit(g: Graph) -> tuple[float, float]:
    """How far neighbours of the coarsest floats in a graph are apart, and how far results may be."""
    dtypes = {kind.dtype for kind in g.types.values()}
    return (8e-3, 0.15) if "bfloat16" in dtypes else (1e-3, 0.02) if "float16" in dtypes else (1e-6, 3e-4)


def is_steady(g: Graph, arrays: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> list[bool]:
    """Which outputs hardly change where inputs and parameters change by a unit: others tell nothing of a pass's rounding."""
    random, (far, most) = np.random.default_rng(0), unit(g)

    def nudged(array: NDArray[Any]) -> NDArray[Any]:
        return (
            np.asarray(array * (1 + random.uniform(-far, far, array.shape))).astype(array.dtype)
            if is_float(array)
            else array
        )

    steady = [True] * len(expected)
    for _ in range(3):
        # A parameter of one element is an exponent, a limit or a scale: no pass rounds it.
        params = {
            name: Param.of(nudged(param.data)) if param.data is not None and param.data.size > 1 else param
            for name, param in g.constants.items()
        }
        made = Graph.of(replace(g, constants=params)).run(*map(nudged, arrays))
        steady = [
            was and difference(one, other) <= (most / 3 if is_float(one) else 0)
            for was, one, other in zip(steady, made, expected, strict=True)
        ]
    return steady


def case(name: str, at: int) -> tuple[Graph, list[NDArray[Any]]]:
    """A drawn graph, and arrays of sizes that it takes."""
    random = drawn.rng(name, at)
    while True:
        g, arrays = drawn_graph(random)
        try:
            g.run(*arrays)
        except GraphError:  # a slice, or the greatest k, of less
            assert g.symbols
            continue
        return g, arrays


def agrees(g: Graph, after: Graph, arrays: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> str:
    """What is wrong with a graph after passes that may round otherwise, by the reference."""
    for place, (name, ours, theirs) in enumerate(zip(g.outputs, after.run(*arrays), expected, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{name} is of another type"
        if difference(ours, theirs) > (unit(g)[1] if is_float(theirs) else 0) and is_steady(g, arrays, expected)[place]:
            return f"{name} differs by {difference(ours, theirs)}"
    return ""


@pytest.mark.parametrize("at", range(drawn.count(6, 2500)))
def test_the_reference_gives_the_same_bits_after_exact_passes(at: int) -> None:
    g, arrays = case("exact", at)
    expected = g.run(*arrays)
    for name in EXACT:
        after = g.transform(name)
        assert after is g or same(after.run(*arrays), expected), f"{name}\n{g}\n{after}"
    after = g.transform(*EXACT)
    assert same(after.run(*arrays), expected), f"{g}\n{after}"


@pytest.mark.parametrize("at", range(drawn.count(6, 2500)))
def test_every_pass_keeps_what_the_reference_says(at: int) -> None:
    g, arrays = case("rounds", at)
    expected = g.run(*arrays)
    for name in PASSES:
        after = g.transform(name)
        assert after is g or not (problem := agrees(g, after, arrays, expected)), f"{name}: {problem}\n{g}\n{after}"
    after = g.transform()
    assert not (problem := agrees(g, after, arrays, expected)), f"{problem}\n{g}\n{after}"


def built(g: Graph, exact: bool) -> Model:
    """The graph as it is, without passes."""
    return Model(g, "llvm", BuildOptions(), None, exact)


def results(g: Graph, m: Model, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """What a model gives, in the order of the graph's outputs, state among them."""
    mine = [array.copy() for array in arrays]
    made = m(*mine)
    held = dict(zip(m.outputs, made if isinstance(made, list) else [made], strict=True))
    held |= {present: mine[list(m.inputs).index(past)] for past, present in m.state.items()}
    return [held[name] for name in g.outputs]


@pytest.mark.parametrize("at", range(drawn.count(2, 1000)))
def test_what_is_built_has_the_same_bits_after_exact_passes(at: int) -> None:
    g, arrays = case("built", at)
    assert same(results(g, tw.build(g, exact=True), arrays), results(g, built(g, True), arrays)), str(g)


@pytest.mark.parametrize("at", range(drawn.count(2, 1500)))
def test_what_is_built_after_all_passes_agrees_with_the_reference(at: int) -> None:
    g, arrays = case("built whole", at)
    expected, made = g.run(*arrays), results(g, tw.build(g), arrays)
    plain = results(g, built(g, False), arrays)
    for place, (name, ours, before, theirs) in enumerate(zip(g.outputs, made, plain, expected, strict=True)):
        if difference(ours, theirs) > unit(g)[1] and difference(before, theirs) <= unit(g)[1] / 3:
            assert not is_steady(g, arrays, expected)[place], f"{name}\n{g}\n{g.transform()}"
