"""Grids of more blocks along y and z than a launch takes: they lie along x beside its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from planted_faults import exact_in_every_order
from tilewright import te
from tilewright.ir.passes.gpu import hardware
from tilewright.runtime.signature import evaluate_extent
from warpgroups import wgmma_matmul

EMULATED = "cuda -emulate"


def numbered(shape: tuple[Any, Any, Any], tags: str, threads: int = 3) -> Any:
    """A schedule of a copy with each of three axes on blocks, the last one split over threads."""
    A = te.placeholder(shape, "int32", name="A")
    B = te.compute(shape, lambda i, j, k: A[i, j, k] * 3 + 1, name="B")
    s = te.create_schedule(B.op)
    *rest, last = B.op.axis
    outer, inner = s[B].split(last, factor=threads)
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    for axis, tag in zip((*rest, outer), tags, strict=True):
        s[B].bind(axis, te.thread_axis(f"blockIdx.{tag}"))
    return s, [A, B]


@pytest.mark.parametrize("tags", ["yzx", "zxy"])
@pytest.mark.parametrize("most", [1, 4])
def test_every_element_has_its_block(tags: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along one axis, both, or neither; also where shapes come with the call, of which none is known to fit."""
    monkeypatch.setattr(hardware, "MAX_BLOCKS", most)
    n, m = te.var("n"), te.var("m")
    values = np.arange(4 * 5 * 13, dtype="int32").reshape(4, 5, 13)
    for shape in ((4, 5, 13), (n, m, 13), (4, n, m)):
        f, result = tw.build(*numbered(shape, tags), target=EMULATED), np.zeros_like(values)
        f(values, result)
        np.testing.assert_array_equal(result, values * 3 + 1)
    f(values[:, :0], result[:, :0])  # no blocks
    bound = dict(zip(tags, (4, 5, 5), strict=True))
    grid = tw.build(*numbered((4, 5, 13), tags), target=EMULATED).kernels[0].grid
    y, z = (1 if bound[tag] > most else bound[tag] for tag in "yz")
    assert grid == (4 * 5 * 5 // (y * z), y, z)


def test_a_batch_beyond_a_grid_is_computed() -> None:
    """In a single launch; of the fewest blocks that need it."""
    s, args = numbered((70_001, 1, 2), "yzx", threads=2)
    f = tw.build(s, args, target=EMULATED)
    assert f.kernels[0].grid == (70_001, 1, 1)
    values = np.arange(140_002, dtype="int32").reshape(70_001, 1, 2)
    result = np.zeros_like(values)
    f(values, result)
    np.testing.assert_array_equal(result, values * 3 + 1)
    assert tw.build(*numbered((65_535, 1, 2), "yzx"), target=EMULATED).kernels[0].grid == (1, 65_535, 1)


def test_blocks_of_a_cluster_stay_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "MAX_BLOCKS", 1)
    program = wgmma_matmul(264, 128, 264, bulk=True, roles=True, cluster=2)
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate -arch=sm_90a")
    assert kernel.kernels[0].grid == (10, 1, 1) and kernel.kernels[0].cluster == (2, 1, 1)
    exact_in_every_order(program, kernel, monkeypatch)


def test_a_number_of_blocks_that_no_grid_holds_does_not_wrap() -> None:
    """Of each factor as many are counted as there are too many, so that the product of three fits in 64 bits."""
    n, m = te.var("n"), te.var("m")
    (x, y, z) = tw.build(*numbered((n, m, 13), "zyx"), target=EMULATED).kernels[0].grid
    assert (y, z) == (1, 1)
    values = {"n": 2**31 - 1, "m": 2**31 - 1}
    assert 2**31 <= evaluate_extent(x, values) < 2**63
    assert evaluate_extent(x, {"n": 70_000, "m": 2}) == 70_000 * 2 * 5
    assert evaluate_extent(x, {"n": 0, "m": 2**31 - 1}) == 0
