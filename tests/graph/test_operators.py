"""Every row of the table: what is built agrees with numpy's reference, at small and odd sizes."""

from __future__ import annotations

import zlib

import drawn
import numpy as np
import pytest
import tilewright as tw
from operator_cases import CASES
from tilewright.graph import OPERATORS, Builder


@pytest.mark.parametrize("at", drawn.part(range(len(CASES)), 60), ids=lambda at: f"{CASES[at][0]}-{at}")
def test_what_is_built_agrees_with_the_reference(at: int) -> None:
    name, one = CASES[at]
    attributes = one.attributes
    arrays = one.arrays(np.random.default_rng(zlib.crc32(repr((name, attributes)).encode())))
    b = Builder()
    values = [b.input(f"x{at}", array.shape, array.dtype) for at, array in enumerate(arrays)]
    for at, value in enumerate(b.nodes(name, *values, **attributes)):
        b.output(f"y{at}", value)
    g = b.graph()
    assert tw.graph.parse(str(g)) == g
    built = tw.build(g)(*arrays)
    for ours, theirs in zip(built if isinstance(built, list) else [built], g.run(*arrays), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_every_row_has_a_sample() -> None:
    assert [name for name, row in OPERATORS.items() if not row.samples] == []
