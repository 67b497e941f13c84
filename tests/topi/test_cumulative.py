"""Running sums and products along axes by symbols, which may be empty."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import find_reference


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_axes_by_symbols_may_be_empty(name: str, axis: int, exclusive: bool) -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = getattr(topi, name)(A, axis=axis, exclusive=exclusive)
    kernel = tw.build([A, B], exact=True)
    for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (5, 7)):
        a = (np.arange(np.prod(shape)).reshape(shape) % 5 - 2).astype("float32")
        b = np.full(shape, 9, "float32")
        kernel(a, b)
        np.testing.assert_array_equal(b, find_reference(name)(a, axis=axis, exclusive=exclusive))


def test_a_running_sum_along_a_symbol_begins_with_the_first_element() -> None:
    """-0 among them."""
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    b = np.ones(2, "float32")
    tw.build([A, topi.cumsum(A)])(np.array([-0.0, -0.0], "float32"), b)
    assert np.signbit(b).all()
