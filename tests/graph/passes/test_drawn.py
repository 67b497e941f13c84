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
from tilewright.codegen.result import BuildOptions
from tilewright.graph import PASSES, Graph
from tilewright.graph.comparison import difference
from tilewright.graph.model import Model, build_model
from tilewright.graph.node import Param

EXACT = [name for name, one in PASSES.items() if not one.changes_rounding]


def same(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> bool:
    return all(a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
               and np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)) if a.dtype.kind == "f"
               else a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def is_steady(g: Graph, arrays: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> list[bool]:
    """Which outputs hardly change where inputs and parameters change by a millionth: others tell nothing of a pass's rounding."""
    random = np.random.default_rng(0)

    def nudged(array: NDArray[Any]) -> NDArray[Any]:
        return (array * (1 + random.uniform(-1e-6, 1e-6, array.shape))).astype(array.dtype) if array.dtype.kind == "f" else array

    steady = [True] * len(expected)
    for _ in range(3):
        # A parameter of one element is an exponent, a limit or a scale: no pass rounds it.
        params = {name: Param.of(nudged(param.data)) if param.data is not None and param.data.size > 1 else param
                  for name, param in g.constants.items()}
        made = Graph.of(replace(g, constants=params)).run(*map(nudged, arrays))
        steady = [was and difference(one, other) <= (1e-4 if one.dtype.kind == "f" else 0)
                  for was, one, other in zip(steady, made, expected, strict=True)]
    return steady


def case(name: str, at: int) -> tuple[Graph, list[NDArray[Any]]]:
    return drawn_graph(drawn.rng(name, at))


def agrees(g: Graph, after: Graph, arrays: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> str:
    """What is wrong with a graph after passes that may round otherwise, by the reference."""
    for place, (name, ours, theirs) in enumerate(zip(g.outputs, after.run(*arrays), expected, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{name} is of another type"
        if difference(ours, theirs) > (3e-4 if theirs.dtype.kind == "f" else 0) and is_steady(g, arrays, expected)[place]:
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
    return build_model(g, "llvm", None, BuildOptions(), exact)


def results(m: Model, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    made = m(*arrays)
    return made if isinstance(made, list) else [made]


@pytest.mark.parametrize("at", range(drawn.count(2, 1000)))
def test_what_is_built_has_the_same_bits_after_exact_passes(at: int) -> None:
    g, arrays = case("built", at)
    assert same(results(tw.build(g, exact=True), arrays), results(built(g, True), arrays)), str(g)


@pytest.mark.parametrize("at", range(drawn.count(2, 1500)))
def test_what_is_built_after_all_passes_agrees_with_the_reference(at: int) -> None:
    g, arrays = case("built whole", at)
    expected, made = g.run(*arrays), results(tw.build(g), arrays)
    plain = results(built(g, False), arrays)
    for place, (name, ours, before, theirs) in enumerate(zip(g.outputs, made, plain, expected, strict=True)):
        if difference(ours, theirs) > 3e-4 and difference(before, theirs) <= 1e-4:
            assert not is_steady(g, arrays, expected)[place], f"{name}\n{g}\n{g.transform()}"
