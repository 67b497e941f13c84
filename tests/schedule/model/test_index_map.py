"""Inverses of index maps: that maps of one structure share one, each over its own variables."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.dtype import INT32
from tilewright.ir.expr import Var
from tilewright.ir.ops import const
from tilewright.ir.visit import free_vars
from tilewright.schedule.model.index_map import IndexMap, NoLayout, invert


def inverse_of(function: object, extents: tuple[int, ...], name: str) -> tuple[list[Var], list[set[Var]], list[str]]:
    """The axes that were made, which variables each index of the inverse has, and its text."""
    made: list[Var] = []

    def axis(place: int, extent: te.Expr) -> Var:
        made.append(Var(f"{name}{place}", extent.dtype))
        return made[-1]

    parameters = [Var(f"{name}_{at}", INT32) for at in range(len(extents))]
    inverse = invert(IndexMap.of(function, parameters), [const(extent, INT32) for extent in extents], axis)  # type: ignore[arg-type]
    return made, [set(free_vars(value)) for value in inverse.values], [str(value) for value in inverse.values]


def test_equal_maps_have_equal_inverses_over_variables_of_their_own() -> None:
    first, used, text = inverse_of(lambda i, j: [j // 8, i, j % 8], (7, 43), "a")
    second, other, again = inverse_of(lambda i, j: [j // 8, i, j % 8], (7, 43), "b")
    assert set(first).isdisjoint(second), "each call makes its own axes"
    assert set().union(*used) == set(first) and set().union(*other) == set(second), (
        "and its inverse is over these alone"
    )
    assert [line.replace("a", "b") for line in text] == again, "else they are the same"


@pytest.mark.parametrize("extents", [(7, 43), (43, 7), (8, 40), (1, 1)])
def test_maps_that_differ_share_nothing(extents: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    data = rng.standard_normal(extents).astype("float32")
    for by in (2, 4, 8):
        for turned in (False, True):
            a = te.placeholder(extents, name="A")
            b = te.compute(extents, lambda i, j, a=a: a[i, j] + 1.0, name="B")
            c = te.compute(extents, lambda i, j, b=b: b[i, j] * 2.0, name="C")
            s = te.create_schedule(c.op)
            across, along = (lambda i, j, by=by: [i // by, j, i % by]), (lambda i, j, by=by: [j // by, i, j % by])
            s[b].transform_layout(across if turned else along)
            out = np.full(extents, np.nan, "float32")
            tw.build(s, [a, c])(data, out)
            np.testing.assert_array_equal(out, (data + 1) * 2, err_msg=f"{extents} by {by}, turned: {turned}")


def test_a_map_that_is_no_layout_is_refused_each_time() -> None:
    for name in ("x", "y"):
        with pytest.raises(NoLayout, match="two elements would have the same address"):
            inverse_of(lambda i, j: [i + j], (4, 4), name)
