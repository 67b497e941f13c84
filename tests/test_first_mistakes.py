"""The mistakes that every new user makes, and the whole message that each one gets."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


class Program:
    """D = A B + 1, with a stage C for the product."""

    def __init__(self) -> None:
        self.A = te.placeholder((4, 5), name="A")
        self.B = te.placeholder((5, 6), name="B")
        self.k = te.reduce_axis((0, 5), name="k")
        self.C = te.compute((4, 6), lambda i, j: te.sum(self.A[i, self.k] * self.B[self.k, j], axis=self.k), name="C")
        self.D = te.compute((4, 6), lambda i, j: self.C[i, j] + 1, name="D")
        self.s = te.create_schedule(self.D)


@pytest.fixture
def p() -> Program:
    return Program()


def message(error: pytest.ExceptionInfo[tw.TilewrightError]) -> str:
    """The text, with the numbers of this file's lines taken out."""
    return re.sub(r"test_first_mistakes\.py:\d+", "here", str(error.value))


def test_shapes_that_do_not_match(p: Program) -> None:
    with pytest.raises(tw.TensorExpressionError, match="TW0121") as error:
        p.A + p.B
    assert (
        message(error)
        == """\
TensorExpressionError TW0121: cannot add A and B: shapes (4, 5) and (5, 6) do not broadcast
  dimension 0 is 4 in A and 5 in B
  A: float32[4, 5], declared at here: self.A = te.placeholder((4, 5), name="A")
  B: float32[5, 6], declared at here: self.B = te.placeholder((5, 6), name="B")
  called at here: p.A + p.B
  allowed: aligned from the last dimension on, extents are equal, or one of them is 1
  fix: declare A and B with one extent there, or say which elements meet: te.compute(shape, lambda *i: ...)"""
    )


def test_vectorizing_a_reduction(p: Program) -> None:
    with pytest.raises(tw.ScheduleError, match="TW0203") as error:
        p.s[p.C].vectorize(p.k)
    assert (
        message(error)
        == """\
ScheduleError TW0203: cannot vectorize 'k' of stage C
  C is a reduction over k: vector lanes would race on C[i, j]   (here)
  called at here: p.s[p.C].vectorize(p.k)
      for i in 4:
        for j in 6:
          for k in 5:         # reduce
              ^
  fix: vectorize a data axis (i, j), or s.rfactor(C, k) first"""
    )


def test_computing_at_an_axis_of_another_stage(p: Program) -> None:
    with pytest.raises(tw.ScheduleError, match="TW0202") as error:
        p.s[p.C].compute_at(p.s[p.D], p.C.op.axis[0])
    assert (
        message(error)
        == """\
ScheduleError TW0202: cannot compute C at 'i' of stage D
  i is an axis of stage C, not of D   (here)
  called at here: p.s[p.C].compute_at(p.s[p.D], p.C.op.axis[0])
      for i in 4:
        for j in 6:
  fix: use an axis of D: i, j"""
    )


def test_using_an_axis_after_it_was_split(p: Program) -> None:
    i = p.D.op.axis[0]
    p.s[p.D].split(i, 2)
    with pytest.raises(tw.ScheduleError, match="TW0205") as error:
        p.s[p.D].split(i, 2)
    assert (
        message(error)
        == """\
ScheduleError TW0205: cannot split 'i' of stage D
  i was split into i.outer, i.inner at here   (here)
  called at here: p.s[p.D].split(i, 2)
      for i.outer in 2:
          ^^^^^^^
        for i.inner in 2:
            ^^^^^^^
          for j in 6:
  fix: use i.outer or i.inner"""
    )


def test_a_target_that_there_is_not(p: Program) -> None:
    for target in ("", "metal"):
        with pytest.raises(tw.CodegenError, match="TW0401") as error:
            tw.build(p.s, [p.A, p.B, p.D], target=target)
        text = message(error)
        assert text.startswith(f"CodegenError TW0401: unknown target '{target}'\n  called at here: tw.build(")
        assert "\n  allowed: llvm (" in text
        assert text.endswith('\n  fix: target="llvm"')


def test_half_precision_passed_for_single(p: Program) -> None:
    f = tw.build(p.s, [p.A, p.B, p.D])
    with pytest.raises(tw.CallError, match="TW0504") as error:
        f(np.zeros((4, 5), "float16"), np.zeros((5, 6), "float32"), np.zeros((4, 6), "float32"))
    assert (
        message(error)
        == """\
CallError TW0504: 'A' (argument 1 of main) has dtype float16; float32 is expected
  expected A: float32[4, 5]
  called at here: f(np.zeros((4, 5), "float16"), np.zeros((5, 6), "float32"), np.zeros((4, 6), "float32"))
  allowed: main(A: float32[4, 5], B: float32[5, 6], D: out float32[4, 6])
  fix: pass x.astype("float32"), or declare the placeholder with that dtype"""
    )


def test_the_greater_by_pythons_own_function(p: Program) -> None:
    with pytest.raises(tw.TensorExpressionError, match="TW0102") as error:
        te.compute((4, 6), lambda i, j: max(p.C[i, j], 0))
    assert "Python's max compares its arguments now" in str(error.value)
    assert error.value.fix == "te.max(a, b) in place of max(a, b)"
