"""Guards that are the same for all that an instruction takes in."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import LoweringError
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.expr import Range, SizeVar, Var
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.ops import const, convert
from tilewright.ir.stmt import If
from tilewright.ir.visit import free_vars, walk
from tilewright.schedule.tensorize.nest import strip_inner


@pytest.mark.parametrize("step", [8, 12, 16, 32])
@pytest.mark.parametrize("size", [1, 15, 16, 17])
@pytest.mark.parametrize("bound", [-16, 0, 31, 32, 40, 48, 96])
def test_what_is_left_says_the_same_at_every_inner_iteration(step: int, size: int, bound: int) -> None:
    i, ii = Var("i", convert(0).dtype), Var("ii", convert(0).dtype)
    value = i * step + ii
    for condition, holds in (
        (value < bound, lambda number: number < bound),
        (value >= bound, lambda number: number >= bound),
    ):
        analyzer = Analyzer()
        analyzer.bind(i, Range(const(-3), const(12)))
        analyzer.bind(ii, Range(const(0), const(size)))
        found = strip_inner(condition, [ii], analyzer)
        alike = all(holds(a * step + b) == holds(a * step) for a in range(-3, 9) for b in range(size))
        if ii not in free_vars(found):
            assert alike, "iterations that differ were taken for one"
        elif step % 16 == 0 and bound % 16 == 0 and size <= 16:
            pytest.fail(f"{condition} was not seen to be the same for all of {size}")


def test_symbols_that_are_rounded_up_are_whole_tiles() -> None:
    n, i, ii = SizeVar("n", convert(0).dtype), Var("i", convert(0).dtype), Var("ii", convert(0).dtype)
    analyzer = Analyzer()
    analyzer.bind(ii, Range(const(0), const(16)))
    analyzer.bind(i, Range(const(0), n))
    assert ii not in free_vars(strip_inner(i * 16 + ii < te.ceildiv(n, 32) * 32, [ii], analyzer))
    assert ii in free_vars(strip_inner(i * 16 + ii < n, [ii], analyzer))


def row_of_four() -> te.TensorIntrin:
    a = te.placeholder((4,), name="a")
    c = te.compute((4,), lambda i: a[i] * 2.0, "c")
    return te.decl_tensor_intrin(
        c.op, lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], "float32x4") * 2.0), "row_of_four"
    )


@pytest.mark.parametrize(("size", "fits"), [(24, True), (20, True), (22, False)])
def test_tiles_beyond_the_end_are_left_out_as_a_whole(size: int, fits: bool) -> None:
    A = te.placeholder((size,), name="A")
    B = te.compute((size,), lambda i: A[i] * 2.0, "B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=16)
    _, inner = s[B].split(inner, factor=4)
    s[B].tensorize(inner, row_of_four())
    if not fits:
        with pytest.raises(LoweringError, match=r"(?s)TW0383: .*changes with"):
            tw.lower(s, [A, B])
        return
    function = tw.lower(s, [A, B])
    assert any(isinstance(node, If) for node in walk(function.body)), "20 and 24 are not multiples of 16"
    a = np.arange(size, dtype="float32")
    for call in (lambda *arrays: run(function, list(arrays)), tw.build(s, [A, B])):
        found = np.zeros(size, "float32")
        call(a, found)
        np.testing.assert_array_equal(found, a * 2)
