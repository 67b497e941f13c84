"""Lanes at constant places around one element are neighbours in one piece, of which lanes are picked."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.llvm.picked_lanes import picked_lanes
from tilewright.ir.dtype import DType
from tilewright.ir.expr import Add, Broadcast, Expr, Max, Min, Ramp, Var
from tilewright.ir.ops import const

BASE = Var("base", DType("int32"))


def ramp(first: int, lanes: int) -> Expr:
    return Ramp(const(first, "int32"), const(1, "int32"), lanes)


def all_lanes(value: Expr | int, lanes: int) -> Expr:
    return Broadcast(const(value, "int32") if isinstance(value, int) else value, lanes)


def test_clamped_lanes_are_picked_of_neighbours() -> None:
    index = Add(all_lanes(BASE, 8), Max(Min(ramp(-2, 8), all_lanes(4, 8)), all_lanes(0, 8)))
    found = picked_lanes(index, None)
    assert found is not None
    assert (str(found.base), found.count, found.lanes) == ("base + 0", 5, (0, 0, 0, 1, 2, 3, 4, 4))
    left = picked_lanes(index, ramp(0, 8) < all_lanes(3, 8))
    assert left is not None and (left.count, left.lanes) == (1, (0, 0, 0, 1, 1, 1, 1, 1)), "what is left out is 0"


def test_other_lanes_are_gathered() -> None:
    far = Add(all_lanes(BASE, 4), Ramp(const(0, "int32"), const(9, "int32"), 4))
    assert picked_lanes(far, None) is None
    assert picked_lanes(Max(Ramp(BASE, const(1, "int32"), 4), all_lanes(0, 4)), None) is None
    assert picked_lanes(Max(ramp(-1, 4), all_lanes(0, 4)), ramp(0, 4) < all_lanes(BASE, 4)) is None


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
@pytest.mark.parametrize("case", range(drawn.count(4, 300)))
def test_windows_of_clamped_rows_have_the_values_of_numpy(case: int, target: str) -> None:
    rng = drawn.rng("clamped windows", case)
    rows, columns, reach = (
        int(rng.choice([1, 3, 8])),
        int(rng.choice([1, 2, 15, 33, 64, 70, 129, 200])),
        int(rng.choice([1, 2, 5, 9])),
    )
    dtype = str(rng.choice(["uint8", "int16", "float32", "float64"]))
    data = te.placeholder((rows, columns), dtype, "A")
    clamped, k = te.clamped(data), te.reduce_axis((0, 2 * reach + 1), "k")
    most = te.compute((rows, columns), lambda i, j: te.max(clamped[i, j + k - reach], axis=k), "most")
    a = rng.integers(0, 100, (rows, columns)).astype(dtype)
    b = np.empty_like(a)
    tw.build(tw.autoschedule.schedule(most, target, exact=bool(rng.random() < 0.5)), [data, most], target)(a, b)
    padded = np.pad(a, ((0, 0), (reach, reach)), mode="edge")
    wanted = np.max([padded[:, at : at + columns] for at in range(2 * reach + 1)], axis=0)
    assert np.array_equal(b, wanted), (rows, columns, reach, dtype)


def test_clamped_rows_are_read_as_they_lie() -> None:
    data = te.placeholder((64, 1000), "uint8", "A")
    clamped, k = te.clamped(data), te.reduce_axis((0, 11), "k")
    most = te.compute((64, 1000), lambda i, j: te.max(clamped[i, j + k - 5], axis=k), "most")
    for target in ("llvm -mcpu=znver4", "llvm -mcpu=haswell"):
        s = tw.autoschedule.schedule(most, target)
        assert s.plan[0].rule == "windows" and "registers" in s.plan[0].description, s.plan
        f = tw.build(s, [data, most], target)
        assert "gather" not in f.source("llvm"), "lanes would be read one by one, which takes LLVM a minute to write"
