"""Blocks that take one part of the work after the other: right for as many as a GPU holds, whichever it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from planted_faults import exact_in_every_order
from tilewright import te
from tilewright.codegen.cuda import unit
from warpgroups import TARGET, wgmma_matmul


def with_blocks(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """From now on kernels whose blocks stay are launched on so many."""
    launches = unit.launches

    def changed(*given: Any) -> Any:
        return tuple(replace(each, grid=(count, 1, 1)) if each.parts else each for each in launches(*given))

    monkeypatch.setattr(unit, "launches", changed)


@pytest.mark.parametrize(("cluster", "counts"), [(1, (1, 3, 7)), (2, (2, 6))])
def test_products_are_exact_on_any_number_of_blocks(
    cluster: int, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = wgmma_matmul(264, 128, 136, resident=4, bulk=True, roles=True, cluster=cluster)
    for count in counts:
        with monkeypatch.context() as patch:
            with_blocks(patch, count)
            kernel = tw.build(program.schedule, program.args, target=TARGET)
            assert kernel.kernels[0].parts == 12 and kernel.kernels[0].grid == (count, 1, 1)
            exact_in_every_order(program, kernel, patch)


def copied(body: Any, marked: bool = True, tag: str = "x") -> Any:
    """A kernel of 4 blocks, each with 3 parts of 8 elements, and what it does with those."""
    A = te.placeholder((96,), "int32", name="A")
    B = te.compute((96,), lambda i: body(A, i), name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], factor=8)
    parts, block = s[B].split(block, factor=4)
    if marked:
        s[B].pragma(parts, "resident_blocks")
    s[B].bind(block, te.thread_axis(f"blockIdx.{tag}"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, B], target="cuda -emulate")


def test_parts_are_taken_where_the_schedule_says_so() -> None:
    values, result = np.arange(96, dtype="int32"), np.zeros(96, "int32")
    for options, parts in (({}, 12), ({"marked": False}, 0), ({"tag": "y"}, 0)):
        f = copied(lambda A, i: A[95 - i] * 2, **options)
        assert f.kernels[0].parts == parts and ("gridDim.x" in f.source("cuda")) == bool(parts)
        f(values, result)
        np.testing.assert_array_equal(result, values[::-1] * 2)


def test_the_rules_leave_the_number_of_blocks_to_the_launch() -> None:
    A, B = (te.placeholder((8192, 8192), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 8192), "k")
    C = te.compute((8192, 8192), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k))
    (launch,) = tw.build([A, B, C], target="cuda -arch=sm_90a").kernels
    assert launch.parts >= 64 * 32 and launch.parts % launch.cluster[0] == 0
