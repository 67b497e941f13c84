"""Boxes that regions cover, counted index by index."""

from __future__ import annotations

from tilewright import te
from tilewright.compat.tvm import arith, ir
from tilewright.ir.expr import IntImm

i, j, n = te.var("i"), te.var("j"), te.var("n")
DOMAINS = {i: ir.Range(0, 5), j: ir.Range(2, 9)}


def box(*region):
    found = arith.estimate_region_lower_bound(list(region), DOMAINS, True)
    return None if found is None else [(one.min_value, one.max_value) for one in found]


def numbers(found):
    return [tuple(end.value if isinstance(end, IntImm) else str(end) for end in ends) for ends in found]


def test_what_is_covered_is_counted() -> None:
    for a, b, extent in ((8, 1, 1), (7, 1, 1), (8, 1, 2), (3, -2, 3), (2, 5, 4), (1, 1, 1), (-3, 1, 1), (0, 2, 2)):
        begin = i * a + j * b + 10
        reached = {a * x + b * y + 10 + k for x in range(5) for y in range(2, 9) for k in range(extent)}
        found = box(ir.Range.from_min_extent(begin, extent))
        whole = set(range(min(reached), max(reached) + 1))
        if found is None:
            assert reached != whole, f"{begin} covers a box"
        else:
            assert numbers(found) == [(min(reached), max(reached))] and reached == whole, begin


def test_dimensions_that_move_together_are_no_box() -> None:
    assert box(ir.Range.from_min_extent(i, 1), ir.Range.from_min_extent(i, 1)) is None
    found = box(ir.Range.from_min_extent(i + n, 2), ir.Range.from_min_extent(j * 2, 2))
    assert found is not None and numbers(found) == [("n", "n + 5"), (4, 17)]
    assert box(ir.Range.from_min_extent(i, n)) is None and box(ir.Range.from_min_extent(i * i, 1)) is None
    assert arith.estimate_region_lower_bound([ir.Range.from_min_extent(i, 1)], DOMAINS, i < 3) is None
