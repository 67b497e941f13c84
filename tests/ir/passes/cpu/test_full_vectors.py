"""Private rows that end within a vector are made as long as one: what is computed stays, and masks leave the sums."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from same_result import after
from tilewright import te
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.loop_partition import loop_partition
from tilewright.ir.passes.common.remove_likely import remove_likely
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.cpu.full_vectors import widen_rows
from tilewright.ir.passes.cpu.vectorize import vectorize

ROW = """
def row(A: float32[{n}], w: float32[1], C: out float32[{n}]):
    T: local float32[{n}]
    for x in vectorized({n}):
        T[x] = 1.0
    for x in vectorized({n}):
        T[x] = T[x] + A[x] * w[0]
    for x in vectorized({n}):
        C[x] = T[x]
"""


@pytest.mark.parametrize(
    ("n", "wide"),
    [
        (1, 1),
        (3, 4),
        (4, 4),
        (7, 8),
        (12, 16),
        (13, 16),
        (14, 16),
        (16, 16),
        (17, 17),
        (24, 24),
        (27, 32),
        (30, 32),
        (32, 32),
    ],
)
def test_row_is_as_long_as_its_vectors(n: int, wide: int) -> None:
    result = after(ROW.format(n=n), widen_rows)
    assert f"T: local float32[{wide}]" in str(result)
    assert ("if_then_else" in str(result)) == (wide != n)
    after(ROW.format(n=n), widen_rows, flatten, vectorize)


@pytest.mark.parametrize("reads", ["T[x + 0 * w] + T[12 - x]", "T[12 - x]", "T[0] + T[x]"])
def test_row_that_is_read_otherwise_stays(reads: str) -> None:
    result = after(
        f"""
def row(w: int32, A: float32[13], C: out float32[13]):
    T: local float32[13]
    for x in vectorized(13):
        T[x] = A[x]
    for x in vectorized(13):
        C[x] = {reads}
""",
        widen_rows,
        w=1,
    )
    assert "T: local float32[13]" in str(result)


def test_rows_that_an_if_cuts_short() -> None:
    """What split loops leave where partition makes no more copies."""
    text = """
def row(n: int32, A: float32[28], C: out float32[28]):
    for xo in 2:
        T: local float32[16]
        for x in vectorized(16):
            if likely({guard}):
                T[x] = A[xo * 14 + x]
        for x in vectorized(16):
            if {guard}:
                C[xo * 14 + x] = T[x] + T[x]
"""
    short = str(after(text.format(guard="x < 14"), widen_rows, n=1))
    assert "if_then_else(x < 14" in short and "vectorized(14)" in short and "if likely" not in short
    symbolic = str(after(text.format(guard="xo * 14 + x < n"), widen_rows, n=5))
    assert "if_then_else" in symbolic and symbolic.count("if xo") == 1
    after(text.format(guard="x < 12 + xo * 2"), widen_rows, flatten, vectorize, remove_likely, n=5)


def test_loop_that_stores_elsewhere_too_is_not_longer() -> None:
    result = after(
        """
def row(A: float32[13], B: out float32[13], C: out float32[13]):
    T: local float32[13]
    for x in vectorized(13):
        T[x] = A[x]
        B[x] = A[x]
    for x in vectorized(13):
        C[x] = T[x]
""",
        widen_rows,
    )
    assert "vectorized(16)" not in str(result)


def test_one_vector_is_masked_not_cut() -> None:
    text = """
def row(A: float32[14], C: out float32[14]):
    for x in vectorized(14):
        C[x] = if_then_else(likely(1 <= x), A[x - 1], 0.0)
"""
    assert "vectorized(14)" in str(after(text, lambda function: loop_partition(function, 64), simplify))
    assert "vectorized(13" in str(after(text, loop_partition, simplify)).replace("1, extent=13", "13")
    after(text, lambda function: loop_partition(function, 64), simplify, widen_rows, flatten, vectorize, remove_likely)


def test_ragged_sums_stay_in_registers() -> None:
    k = te.reduce_axis((0, 64), "k")
    a, b = te.placeholder((4, 64), name="A"), te.placeholder((64, 14), name="B")
    c = te.compute((4, 14), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local")
    s[c].vectorize(c.op.axis[1])
    row, column = s[tile].op.axis
    s[tile].reorder(s[tile].op.reduce_axis[0], row, column)
    s[tile].unroll(row)
    s[tile].vectorize(column)
    masked = [
        line for line in tw.build(s, [a, b, c], target="llvm -mcpu=znver4").source("asm").splitlines() if "{%k" in line
    ]
    assert 0 < len(masked) <= 4 + 1  # a store for each row, and one load of B
    rng = np.random.default_rng(0)
    x, y = rng.random((4, 64), dtype=np.float32), rng.random((64, 14), dtype=np.float32)
    out = np.empty((4, 14), np.float32)
    tw.build(s, [a, b, c])(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)


PANEL = """
def panel(A: float32[{n}], w: float32[1], C: out float32[{n}]):
    P: float32[{n}]
    for x in vectorized({n}):
        P[x] = A[x]
    T: local float32[{n}]
    for x in vectorized({n}):
        T[x] = 1.0
    for x in vectorized({n}):
        T[x] = T[x] + {term}
    for x in vectorized({n}):
        C[x] = T[x]
"""


def unmasked(text: str) -> str:
    return str(after(text, lambda function: widen_rows(function, 256, masks=False)))


@pytest.mark.parametrize(("n", "wide"), [(5, 8), (7, 8), (8, 8), (13, 16), (31, 32)])
def test_without_masks_a_row_is_whole_where_it_reads_the_functions_own_memory(n: int, wide: int) -> None:
    result = unmasked(PANEL.format(n=n, term="P[x] * w[0]"))
    assert f"T: local float32[{wide}]" in result and f"P: float32[{wide}]" in result
    assert "if_then_else" not in result, "lanes beyond the row compute on what the panel's end holds"
    assert (f"P[{'i0 + '}{n}] = 0.0" in result) == (wide > n), (
        "which is zeros: what is left there may be denormal, and slow"
    )


@pytest.mark.parametrize("named", ["w[0] - 2.0", "P[x] - w[0]"], ids=["for all lanes", "by lanes"])
def test_without_masks_a_row_is_whole_where_something_of_its_terms_has_a_name(named: str) -> None:
    """The row was stored under the name that it had before it was longer, which nothing defines."""
    result = unmasked(f"""
def squares(w: float32[1], C: out float32[13]):
    P: float32[13]
    for x in vectorized(13):
        P[x] = 3.0
    T: local float32[13]
    for x in vectorized(13):
        T[x] = 1.0
    for x in vectorized(13):
        once: float32 = {named}
        T[x] = T[x] + P[x] * once * once
    for x in vectorized(13):
        C[x] = T[x]
""")
    assert "T: local float32[16]" in result
    assert result.count("for x in vectorized(16)") >= 2 and "whole" not in result


@pytest.mark.parametrize("term", ["A[x] * w[0]", "P[x] / w[0]", "P[12 - x] * w[0]"])
def test_without_masks_a_row_stays_where_it_reads_otherwise_or_divides(term: str) -> None:
    result = unmasked(PANEL.format(n=13, term=term))
    assert "T: local float32[13]" in result and "P: float32[13]" in result


@pytest.mark.parametrize("panels", [2, 3])
def test_without_masks_a_panel_is_whole_as_soon_as_one_lane_of_it_is_needed(panels: int) -> None:
    result = unmasked(f"""
def row(w: float32[2], C: out float32[29]):
    P: float32[16]
    for x in vectorized(16):
        P[x] = 2.0
    for p in {panels}:
        T: local float32[16]
        for x in vectorized(16):
            if p * 16 + x < 29:
                T[x] = P[x] * w[p]
        for x in vectorized(16):
            if p * 16 + x < 29:
                C[p * 16 + x] = T[x]
""")
    assert "if p * 16 + 0 < 29:" in result, "w[p] is not read for a panel of which nothing is needed"
    assert result.count("if p * 16 + x < 29:") == 1, "what is stored elsewhere stays guarded"


WINDOW = """
def window(A: float32[{n}], w: float32[3], C: out float32[{n}]):
    P: float32[{padded}]
    for x in vectorized({n}):
        P[x + 1] = A[x]
    T: local float32[{n}]
    for x in vectorized({n}):
        T[x] = 1.0
    for k in 3:
        for x in vectorized({n}):
            T[x] = T[x] + P[{index}] * w[k]
    for x in vectorized({n}):
        a: float32 = T[x] + w[0]
        C[x] = max(a, 0.0) * a
"""


@pytest.mark.parametrize(
    ("n", "index", "padded", "needed"),
    [(7, "x + k", 9, 10), (13, "x + k", 15, 18), (5, "x * 2 + k", 11, 17), (7, "x + k", 64, 64)],
)
def test_without_masks_a_row_is_whole_where_it_reads_a_window_of_the_functions_own_memory(
    n: int, index: str, padded: int, needed: int
) -> None:
    result = unmasked(WINDOW.format(n=n, padded=padded, index=index))
    wide = -(-n // 8) * 8
    assert f"T: local float32[{wide}]" in result and f"P: float32[{needed}]" in result
    assert f"whole: local float32[{wide}]" in result, "what is stored is made for all lanes"
    assert f"in vectorized({n}):" in result, "and stored for those of the row alone"
    assert "if_then_else" not in result


@pytest.mark.parametrize(("index", "stays"), [("6 - x", True), ("x * k", False), ("x + 2 - k", False)])
def test_without_masks_a_row_stays_where_lanes_beyond_it_would_read_before_the_memory(index: str, stays: bool) -> None:
    assert ("T: local float32[7]" in unmasked(WINDOW.format(n=7, padded=13, index=index))) == stays
