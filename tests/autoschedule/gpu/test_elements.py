"""Operations without a reduction on GPUs: whole vectors where rows consist of them, tiles for what is read across."""

from __future__ import annotations

from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def moved(rng: np.random.Generator) -> Any:
    """A tensor with its axes in another order, beside what lies as it is stored."""
    shape = [int(rng.choice([1, 3, 16, 33, 40])) for _ in range(3)]
    order = [int(at) for at in rng.permutation(3)]
    A = te.placeholder(shape, name="A")
    B = te.placeholder([shape[at] for at in order], name="B")
    return te.compute(B.shape, lambda *at: A[tuple(at[order.index(dim)] for dim in range(3))] * 2.0 + B[at], name="C")


@pytest.mark.parametrize("at", range(drawn.count(3, 300)))
def test_drawn_moves_keep_every_bit(at: int) -> None:
    rng = drawn.rng("gpu moves", at)
    assert gpu_choices.differs(moved(rng), rng) == ""


@pytest.mark.parametrize(("columns", "at_once"), [(64, True), (63, False)])
def test_rows_of_whole_vectors_move_16_bytes_a_thread(columns: int, at_once: bool) -> None:
    A, B = te.placeholder((37, columns), name="A"), te.placeholder((columns,), name="B")
    output = te.compute((37, columns), lambda i, j: A[i, j] + B[j], name="C")
    text = gpu_choices.text_of(tw.autoschedule.schedule([output], target="cuda"), output)
    assert ("tw_load<4>(&A[" in text) == ("tw_store(&C[" in text) == at_once


def test_a_transpose_goes_through_shared_memory_whose_rows_lie_in_other_banks() -> None:
    A = te.placeholder((640, 480), name="A")
    output = te.compute((480, 640), lambda i, j: A[j, i], name="T")
    text = gpu_choices.text_of(tw.autoschedule.schedule([output], target="cuda"), output)
    assert "__shared__ __align__(16) float A_shared[1055]" in text and "__syncthreads()" in text


@pytest.mark.parametrize(("shape", "lanes"), [((4, 33), 4), ((3, 34), 2), ((5, 33), "an")])
def test_rows_of_one_shape_are_taken_as_one(shape: tuple[int, int], lanes: int | str) -> None:
    A, B = te.placeholder(shape, name="A"), te.placeholder(shape, name="B")
    output = te.compute(shape, lambda i, j: A[i, j] + B[i, j], name="C")
    assert gpu_choices.differs(output, np.random.default_rng(4)) == ""
    s = tw.autoschedule.schedule([output], target="cuda")
    assert s.plan[0].description.startswith(f"{lanes} element")


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_transpose_moves_16_bytes_each_way_but_of_elements_wider_than_banks(dtype: str) -> None:
    A = te.placeholder((256, 512), dtype, name="A")
    output = te.compute((512, 256), lambda i, j: A[j, i], name="T")
    s = tw.autoschedule.schedule([output], target="cuda -emulate")
    kernel = tw.build(s, [A, output], target="cuda -emulate")
    values = (np.arange(256 * 512) % 2000).reshape(256, 512).astype(dtype)
    result = np.empty((512, 256), dtype)
    kernel(values, result)
    np.testing.assert_array_equal(result, values.T)
    (launch,) = kernel.kernels
    assert launch.uncoalesced == 0
    assert {row.bytes for row in launch.traffic if row.memory == "global"} == {8 if dtype == "float64" else 16}
    assert launch.bank_conflicts == 0 or dtype == "float16"


def test_a_plan_says_what_is_not_read_side_by_side() -> None:
    A, where = te.placeholder((64, 64), name="A"), te.placeholder((64,), "int32", name="where")
    for read, said in (
        (lambda i, j: A[i, where[j]], "A is read where data say"),
        (lambda i, j: A[i, 63 - j], "places that lie apart"),
        (lambda i, j: A[j, i], "since A is read across"),
    ):
        s = tw.autoschedule.schedule([te.compute((64, 64), read, name="C")], target="cuda")
        assert said in s.plan[0].description


@pytest.mark.parametrize(
    ("declared", "at_once"),
    [
        (lambda A: te.compute((32, 64), lambda i, j: A[i, te.max(j - 1, 0)] + A[i, te.min(j + 1, 63)], name="C"), "an"),
        (lambda A: te.compute((32, 64), lambda i, j: A[i, j] + A[te.max(i - 1, 0), j], name="C"), "4"),
        (lambda A: te.compute((32, 128), lambda i, j: A[i, j // 2], name="C"), "an"),  # by 4 as few
    ],
    ids=["beside", "above", "twice"],
)
def test_what_is_read_beside_its_place_is_read_by_neighbouring_threads(declared: Any, at_once: str) -> None:
    A = te.placeholder((32, 64), name="A")
    output = declared(A)
    s = tw.autoschedule.schedule([output], target="cuda -emulate")
    assert [row.description.partition(" ")[0] for row in s.plan] == [at_once], "other numbers read more sectors"
    assert gpu_choices.differs(output, np.random.default_rng(6)) == ""
    f = tw.build(s, [A, output], target="cuda -emulate")
    f(np.ones((32, 64), "float32"), np.zeros(tuple(int(extent) for extent in output.shape), "float32"))
    moved = [row for row in f.kernels[0].traffic if row.memory == "global"]
    assert sum(row.transactions for row in moved) <= 1.3 * sum(row.least for row in moved)
