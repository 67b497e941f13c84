"""Copies that contractions read, and the choice among tiles and sums."""

from __future__ import annotations

import tilewright as tw
from tilewright import te
from tilewright.autoschedule import schedule
from tilewright.autoschedule.cpu.contraction import copied_how, read_in_place
from tilewright.autoschedule.cpu.gemm_plan import Plan
from tilewright.autoschedule.forms.contraction import Contraction, match_contraction
from tilewright.codegen.machine import RegisterTile


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


def test_all_candidates_have_times_and_the_least_is_taken() -> None:
    decision, *_ = schedule(declared("abcd-eafb-cedf", a=11, b=13, c=9, d=17, e=5, f=27), "llvm -mcpu=haswell").plan
    times = [time.seconds for _, time in decision.candidates if time is not None]
    assert decision.rule == "contraction" and len(times) == len(decision.candidates) > 8
    assert decision.seconds is not None and decision.seconds <= min(times) * 1.02 and decision.binds


def test_what_two_products_read_of_an_inlined_view_is_not_asked_for_ahead() -> None:
    images, w, g = (
        te.placeholder(shape, name=name) for name, shape in (("x", (40, 2, 4, 8)), ("w", (64, 24)), ("g", (40, 24)))
    )
    flat = te.compute((40, 64), lambda i, j: images[i, j // 32, j // 8 % 4, j % 8], name="flat")
    k, b = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 40), "b")
    forward = te.compute((40, 24), lambda i, j: te.sum(flat[i, k] * w[k, j], axis=k), name="forward")
    backward = te.compute((64, 24), lambda i, j: te.sum(flat[b, i] * g[b, j], axis=b), name="backward")
    s = schedule([forward, backward], "llvm -mcpu=haswell -cores=1 -uncalibrated")
    assert tw.lower(s, [images, w, g, forward, backward])
