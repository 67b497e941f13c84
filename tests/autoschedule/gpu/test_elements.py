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
