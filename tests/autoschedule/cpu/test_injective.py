"""Operations without a reduction: what lanes run along."""

from __future__ import annotations

from collections.abc import Sequence

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

HASWELL = "llvm -mcpu=haswell"


def complex_product(shape: Sequence[int]) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Of complex numbers that lie as pairs."""
    a, b = (te.placeholder((*shape, 2), name=name) for name in "ab")

    def part(*at: te.Expr) -> te.Expr:
        *row, c = at
        real = a(*row, 0) * b(*row, 0) - a(*row, 1) * b(*row, 1)
        return te.select(c == 0, real, a(*row, 0) * b(*row, 1) + a(*row, 1) * b(*row, 0))

    return a, b, te.compute((*shape, 2), part, "product")


@pytest.mark.parametrize("shape", drawn.part([(9,), (33,), (7, 5), (3, 40), (2, 3, 17)], 3))
def test_components_that_conditions_tell_apart_are_written_out(shape: tuple[int, ...]) -> None:
    """Every lane computed all of the expressions, each of gathered elements."""
    a, b, product = complex_product(shape)
    s = tw.autoschedule.schedule(product, HASWELL)
    assert "components apart" in s.plan[0].description or s.plan[0].description.startswith("as declared")
    text = tw.build(s, [a, b, product], target=HASWELL).source("asm")
    assert "gather" not in text
    x, y = np.random.default_rng(0).standard_normal((2, *shape, 2)).astype("float32")
    results = [np.full((*shape, 2), np.nan, "float32") for _ in range(2)]
    for schedule, got in zip((s, te.create_schedule(product.op)), results, strict=True):
        tw.build(schedule, [a, b, product])(x, y, got)
    assert results[0].tobytes() == results[1].tobytes()
    wanted = x.view("complex64") * y.view("complex64")
    np.testing.assert_allclose(results[0].view("complex64"), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("row", [9, 12, 21])
def test_vectors_do_not_cross_rows_that_one_of_them_is_enough_for(row: int) -> None:
    x = te.placeholder((5, 6, 7, row), name="x")
    exchanged = te.compute((5, 7, 6, row), lambda a, b, c, d: x[a, c, b, d], "exchanged")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
    text = tw.build(tw.autoschedule.schedule(exchanged, target), [x, exchanged], target=target).source("asm")
    assert "gather" not in text


def test_long_rows_that_lie_apart_are_not_left_to_llvm() -> None:
    """LLVM makes no vectors of what they would gather."""
    x, m, b = (
        te.placeholder((2, 49, 64), name="x"),
        te.placeholder((128, 49), name="m"),
        te.placeholder((49,), name="b"),
    )
    y = te.compute(x.shape, lambda i, j, k: x[i, j, k] + (m[i * 64 + k, j] + b[j]), "y")
    (row,) = tw.autoschedule.schedule(y, "llvm -mcpu=haswell -uncalibrated -cores=1").plan
    assert "vectors at a time" in row.description


@pytest.mark.parametrize(
    ("cpu", "vectors", "columns"),
    [
        ("neoverse-n2", 1, 4),
        ("cortex-a72", 2, 4),
        ("cortex-a55", 8, 16),
        ("a64fx", 8, 64),
        ("spacemit-x60", 4, 32),
        ("sifive-u74", 4, 4),
    ],
)
def test_vectors_stand_side_by_side_where_a_processor_does_not_look_ahead(cpu: str, vectors: int, columns: int) -> None:
    """A chain of sums: by llvm-mca eight vectors of it take four times as long as one on Cortex-A55, not eight times."""
    target = f"llvm -mcpu={cpu} -uncalibrated -cores=1"
    x = te.placeholder((66, 1026), name="x")
    y = te.compute((64, 1024), lambda i, j: sum(x[i + di, j + dj] * x[i, j] for di in range(3) for dj in range(3)), "y")
    (row,) = tw.autoschedule.schedule(y, target).plan
    assert row.description.startswith(f"{vectors} vector")
    total = topi.sum(x, 0)
    assert f"vectorized({columns})" in str(tw.lower(tw.autoschedule.schedule(total, target), [x, total]))


@pytest.mark.parametrize(("cpu", "vectors", "sums"), [("neoverse-n2", 2, 2), ("cortex-a55", 4, 4), ("haswell", 1, 2)])
def test_functions_leave_registers_to_their_constants(cpu: str, vectors: int, sums: int) -> None:
    """Of several vectors side by side the constants are loaded from the stack again: two will do where a core looks ahead."""
    target = f"llvm -mcpu={cpu} -uncalibrated -cores=1"
    x = te.placeholder((64, 1024), name="x")
    y = te.compute(x.shape, lambda i, j: te.erf(x[i, j]), "y")
    assert tw.autoschedule.schedule(y, target).plan[0].description.startswith(f"{vectors} vector")
    k = te.reduce_axis((0, 1024), "k")
    total = te.compute((64,), lambda i: te.sum(te.exp(x[i, k]), k), "total")
    lanes = {"haswell": 8}.get(cpu, 4)
    assert f"for k.inner in vectorized({sums * lanes})" in str(
        tw.lower(tw.autoschedule.schedule(total, target), [x, total])
    )
