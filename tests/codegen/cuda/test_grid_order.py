# ruff: noqa: F821
"""Serial loops around the blocks of a grid: what a block goes on with must be its own."""

from __future__ import annotations

import pytest
import tilewright as tw
from tilewright import te


@te.hybrid.script
def windows(a):
    s = output_tensor((24,), a.dtype)
    for t in range(8):
        for x in range(16):
            s[t + x] = s[t + x] + a[x]
    return s


@te.hybrid.script
def rows(a):
    s = output_tensor((128,), a.dtype)
    for t in range(8):
        for x in range(16):
            s[t * 16 + x] = s[t * 16 + x] + a[x]
    return s


def built(script) -> object:
    a = te.placeholder((16,), "float32", name="a")
    out = script(a)
    s = te.create_schedule(out.op)
    x = next(axis for axis in out.op.axis if axis.name == "x")
    outer, inner = s[out].split(x, 4)
    s[out].bind(outer, te.thread_axis("blockIdx.x"))
    s[out].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, out], target="cuda -emulate")


def test_elements_that_pass_from_block_to_block_are_refused() -> None:
    """Both accesses are at one function of the threads, but an element is another block's in another iteration."""
    with pytest.raises(tw.CudaError, match=r"(?s)TW0817.*an iteration of 't' depends on other blocks' work"):
        built(windows)


def test_a_row_for_each_iteration_is_each_blocks_own() -> None:
    assert built(rows) is not None
