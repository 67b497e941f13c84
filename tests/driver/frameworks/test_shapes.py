"""Shapes of a kernel's outputs, as frameworks ask for them before there are any."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.driver.frameworks.shapes import shape_reader


def reader_of(rows: object, columns: object, width: object) -> object:
    a = te.placeholder((rows, columns), name="A")
    b = te.compute((rows, width), lambda i, j: a[i, 0] + j.astype("float32"), name="B")
    return shape_reader(tw.build([a, b], name="spread").signature)


def test_extents_are_those_of_the_inputs_or_computed_of_them() -> None:
    n, m = te.var("n"), te.var("m")
    given = [np.zeros((3, 7), "float32")]
    for reader, shape in (
        (reader_of(n, m, m), (3, 7)),
        (reader_of(n, m, m * 2 + 1), (3, 15)),
        (reader_of(3, 7, 5), (3, 5)),
    ):
        assert callable(reader) and reader(given) == [shape]


@pytest.mark.parametrize("width", [1, 2])
def test_an_input_of_another_rank_is_named(width: int) -> None:
    m = te.var("m")
    reader = reader_of(te.var("n"), m, m * width)
    with pytest.raises(tw.CallError, match=r"TW0505: 'A' \(argument 1 of spread\) has 1 dimensions; 2 are expected"):
        assert callable(reader) and reader([np.zeros(3, "float32")])
