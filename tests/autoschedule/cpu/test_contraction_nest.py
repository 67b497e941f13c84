"""Estimates of contractions: what a tile takes, which panels are copied, and what the choice among tiles and sums follows from."""

from __future__ import annotations

import pytest
from tilewright import te
from tilewright.autoschedule import schedule
from tilewright.autoschedule.cpu.contraction_nest import Elements, Side, contraction_nest, copied_how, read_in_place
from tilewright.autoschedule.cpu.gemm_plan import Plan
from tilewright.autoschedule.forms.contraction import Contraction, match_contraction
from tilewright.autoschedule.loop_nest import Body, Nest
from tilewright.autoschedule.operations import fixed_extent
from tilewright.codegen.machine import MACHINES, RegisterTile

AVX2 = next(row for row in MACHINES if row.name == "avx2" and not row.cpus)


def declared(text: str, **extents: int) -> te.Tensor:
    result, left, right = text.split("-")
    a, b = (
        te.placeholder([extents[letter] for letter in operand], name=name)
        for operand, name in ((left, "A"), (right, "B"))
    )
    summed = {letter: te.reduce_axis((0, extents[letter]), letter) for letter in extents if letter not in result}

    def element(*at: te.Expr) -> te.Expr:
        index = dict(zip(result, at, strict=True)) | summed
        return te.sum(
            a(*(index[letter] for letter in left)) * b(*(index[letter] for letter in right)), list(summed.values())
        )

    return te.compute([extents[letter] for letter in result], element, name="C")


def found_in(tensor: te.Tensor) -> Contraction:
    found = match_contraction(tensor.op)
    assert found is not None
    return found


def multiply_adds(nest: Nest, times: int = 1) -> float:
    times *= nest.trips
    return sum(
        multiply_adds(part, times) if isinstance(part, Nest) else times * part.instructions.get("fma", 0)
        for part in nest.body
    )


def bodies(nest: Nest) -> list[Body]:
    return [body for part in nest.body for body in (bodies(part) if isinstance(part, Nest) else [part])]


@pytest.mark.parametrize(
    ("extent", "columns", "panels"), [(33, 16, [2, 2, 1]), (48, 16, [2, 2, 2]), (13, 24, [2]), (65, 24, [3, 3, 3])]
)
def test_whole_vectors_are_counted_and_last_panels_are_narrower(extent: int, columns: int, panels: list[int]) -> None:
    tensor = declared("ab-ca-cb", a=18, b=extent, c=11)
    found, way = (
        found_in(tensor),
        Plan(RegisterTile(6, columns // 8, columns), 0, True, 3, -(-extent // columns), False),
    )
    nest = contraction_nest(found, Elements.of(found, tensor.op), way, AVX2, False)
    assert multiply_adds(nest) == 3 * 6 * 11 * sum(panels)


def test_tiles_of_several_axes_have_all_of_them() -> None:
    found = found_in(declared("abcd-aebf-fdec", a=5, b=19, c=7, d=23, e=3, f=4))
    side = Side.of([(axis, fixed_extent(axis)) for axis in found.rows], 6)
    covered: dict[str, int] = {}
    for axis, trips in side.loops:
        covered[axis.name] = trips * side.tile[axis]
    assert covered["i0"] >= 5 and covered["i1"] >= 19
    assert [side.size, side.tile[found.rows[-1]]] == [6, 7]


def test_what_lies_side_by_side_is_copied_so_and_what_lies_along_the_sum_is_turned() -> None:
    beside = found_in(declared("ab-ca-cb", a=9, b=33, c=11))
    turned = found_in(declared("ab-ca-bc", a=9, b=33, c=11))
    apart = found_in(declared("abc-da-bdc", a=9, b=5, c=33, d=11))
    assert copied_how(beside.b, beside.columns, beside.summed, 16, 8) == "beside"
    assert copied_how(turned.b, turned.columns, turned.summed, 16, 8) == "turned"
    assert copied_how(turned.b, turned.columns, turned.summed, 12, 8) == "apart", "no whole squares"
    assert copied_how(apart.a, apart.rows, apart.summed, 6, 8) == "beside"


def test_rows_that_lie_along_the_sum_are_read_in_place() -> None:
    way = Plan(RegisterTile(6, 2, 16), 0, True, 1, 1, False)
    tensor = declared("ab-ac-bc", a=9, b=33, c=11)
    found = found_in(tensor)
    assert read_in_place(found, way)
    assert not read_in_place(found_in(declared("ab-ca-bc", a=9, b=33, c=11)), way)
    copies = [
        body
        for body in bodies(contraction_nest(found, Elements.of(found, tensor.op), way, AVX2, False))
        if any(access.stored for access in body.accesses) and "load" in body.instructions
    ]
    assert len(copies) == 1, "of columns alone"


def test_all_candidates_have_times_and_the_least_is_taken() -> None:
    (decision,) = schedule(declared("abcd-eafb-cedf", a=11, b=13, c=9, d=17, e=5, f=27), "llvm -mcpu=haswell").plan
    times = [time.seconds for _, time in decision.candidates if time is not None]
    assert decision.rule == "contraction" and len(times) == len(decision.candidates) > 8
    assert decision.seconds is not None and decision.seconds <= min(times) * 1.02 and decision.binds


@pytest.mark.parametrize(("columns", "gathered"), [(37, 7 / 37), (160, 7 / 160)])
def test_vectors_of_a_copy_that_cross_the_end_of_a_row_are_gathered(columns: int, gathered: float) -> None:
    tensor = declared("abc-ad-bdc", a=12, b=20, c=columns, d=5)
    found, way = found_in(tensor), Plan(RegisterTile(6, 2, 16), 0, True, 2, 8, False)
    nest = contraction_nest(found, Elements.of(found, tensor.op), way, AVX2, False)
    copies = [body.instructions for body in bodies(nest) if "gather" in body.instructions]
    assert copies and all(count["gather"] / count["store"] == pytest.approx(gathered) for count in copies)
    rows = declared("abc-ad-dbc", a=12, b=20, c=columns, d=5)
    whole = contraction_nest(found_in(rows), Elements.of(found_in(rows), rows.op), way, AVX2, False)
    assert not any(body.instructions.get("gather") for body in bodies(whole)), "rows behind each other are one"
