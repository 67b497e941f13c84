"""Arrays that lie side by side in large pages."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder
from tilewright.graph.large_pages import CHUNK, LEAST, PAGE, LargePages
from tilewright.graph.mapped_arrays import is_paged, paged_copy


def test_arrays_lie_apart_and_are_aligned() -> None:
    pages, random = LargePages(), np.random.default_rng(0)
    arrays = [pages.zeros((int(random.integers(1, 400)), 1031), np.dtype("float32")) for _ in range(80)]
    arrays.append(pages.zeros((CHUNK // 4 + 5,), np.dtype("float32")))
    for at, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0 and not array.any()
        array[...] = at + 1
    assert all((array == at + 1).all() for at, array in enumerate(arrays))


def test_the_chunk_goes_with_its_arrays() -> None:
    pages = LargePages()
    first, second = (pages.zeros((LEAST,), np.dtype("int32")) for _ in range(2))
    assert second.ctypes.data == first.ctypes.data + first.nbytes, "one page serves both"
    chunk = first
    while isinstance(chunk.base, np.ndarray):
        chunk = chunk.base
    assert chunk.nbytes >= CHUNK + PAGE
    gone = weakref.ref(chunk)
    del pages, chunk, first
    gc.collect()
    assert gone() is not None
    del second
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("columns", [512, 515])
def test_a_model_reads_what_lay_in_files(columns: int) -> None:
    """Weights as they are, and packed: the graph keeps its own."""
    random = np.random.default_rng(1)
    weights = [random.standard_normal(shape).astype("float32") for shape in ((columns, 300), (300, columns))]
    b = Builder()
    value = b.input("x", (1, columns))
    for at, each in enumerate(weights):
        value = b.node("matmul", value, b.param(f"w{at}", paged_copy(each)))
    b.output("y", value)
    g = b.graph()
    m, x = tw.build(g), random.standard_normal((1, columns)).astype("float32")
    np.testing.assert_allclose(m(x), x @ weights[0] @ weights[1], rtol=1e-3, atol=1e-3)
    assert is_paged(paged_copy(weights[0])) and not is_paged(weights[0])
    for at, each in enumerate(weights):
        np.testing.assert_array_equal(g.params[f"w{at}"], each)


def test_a_table_that_is_looked_up_stays_in_its_file() -> None:
    random = np.random.default_rng(2)
    table = random.standard_normal((1000, 300)).astype("float32")
    b = Builder()
    rows = b.node("take", b.param("table", paged_copy(table)), b.input("at", (5,), "int64"), axis=0)
    weights = b.param("w", paged_copy(random.standard_normal((300, 256)).astype("float32")))
    b.output("y", b.node("matmul", rows, weights))
    g, at = b.graph(), np.array([7, 0, 999, 7, 3])
    m = tw.build(g)
    np.testing.assert_allclose(m(at), table[at] @ g.params["w"], rtol=1e-3, atol=1e-3)
    assert is_paged(next(one.data for one in m._program({}).weights.held.values() if one.data.shape == table.shape))
