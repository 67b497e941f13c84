"""The advice of refusals: what it says to do is not refused in its turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tilewright as tw
from tilewright import te

A = te.placeholder((4, 16), "int32", name="A")
k = te.reduce_axis((0, 16), "k")
LOOPS: dict[str, Callable[[Any], Any]] = {
    "vectorize": lambda stage: stage.vectorize(k),
    "parallel": lambda stage: stage.parallel(k),
    "bind to blocks": lambda stage: stage.bind(k, te.thread_axis("blockIdx.x")),
    "bind to threads": lambda stage: stage.bind(k, te.thread_axis("threadIdx.x")),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_rfactor_is_no_advice_for_a_combiner_that_it_refuses(loop: str) -> None:
    horner = te.comm_reducer(lambda x, y: x * 2 + y, lambda dtype: te.const(0, dtype), name="horner")
    C = te.compute((4,), lambda i: horner(A[i, k], axis=k), name="C")
    with pytest.raises(tw.TilewrightError, match=r"TW0234.*horner must not be split"):
        te.create_schedule(C.op).rfactor(C, k)
    with pytest.raises(tw.TilewrightError, match="serial") as refused:
        LOOPS[loop](te.create_schedule(C.op)[C])
    assert "rfactor" not in str(refused.value)


@pytest.mark.parametrize("loop", ["vectorize", "parallel", "bind to blocks"])
def test_rfactor_is_the_advice_for_a_sum(loop: str) -> None:
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    with pytest.raises(tw.TilewrightError, match=r"fix: .*s.rfactor\(C, k\) first"):
        LOOPS[loop](te.create_schedule(C.op)[C])
