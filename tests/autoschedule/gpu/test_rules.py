"""Scans on GPUs: blocks share the columns of a step where no step mixes them."""

from __future__ import annotations

import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def smoothed(steps: int, columns: int) -> te.Tensor:
    """A scan whose steps read the columns beside their own."""
    A, state = te.placeholder((steps, columns), name="A"), te.placeholder((steps, columns), name="state")
    first = te.compute((1, columns), lambda t, i: A[t, i], name="first")
    step = te.compute(
        (steps, columns), lambda t, i: state[t - 1, i] + state[t - 1, te.max(i - 1, 0)] + A[t, i], name="step"
    )
    return te.scan(first, step, state, inputs=[A], name="smoothed")


@pytest.mark.parametrize(
    ("output", "blocks"),
    [
        (topi.cumsum(te.placeholder((5, 67), name="A"), 0), 3),
        (topi.cumsum(te.placeholder((5, 31), name="A"), 0), 1),
        (smoothed(5, 67), 1),
    ],
    ids=["columns", "a warp", "mixed"],
)
def test_blocks_share_the_columns_of_a_scan_that_mixes_none(output: te.Tensor, blocks: int) -> None:
    assert gpu_choices.differs(output, np.random.default_rng(blocks), exact=True) == ""
    s = tw.autoschedule.schedule([output], target="cuda -emulate")
    (launch,) = tw.build(s, [*gpu_choices.inputs_of(output), output], target="cuda -emulate").kernels
    assert launch.grid == (blocks, 1, 1)
