"""pipeline: stages that are begun some iterations ahead, for every target; what is asynchronous is in tests/codegen/cuda."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule import errors
from tilewright.schedule.lowering import errors as lower_errors


def windows(n: int) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """B is computed tile by tile of C, which reads windows of it."""
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] + 1, name="B")
    C = te.compute((n,), lambda i: B[i] * B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 8)
    s[B].compute_at(s[C], outer)
    return s, A, B, C


@pytest.mark.parametrize(
    ("target", "n", "stages"), [*itertools.product(("llvm", "interpret"), (1, 8, 9, 31, 64), (2, 5)), ("c", 31, 3)]
)
def test_every_target_computes_the_same_whether_or_not_it_copies_asynchronously(
    target: str, n: int, stages: int
) -> None:
    s, A, B, C = windows(n)
    s[B].pipeline(stages)
    a = np.arange(n + 2, dtype="float32")
    c = np.zeros(n, "float32")
    tw.build(s, [A, C], target=target)(a, c)
    np.testing.assert_array_equal(c, (a[:-2] + 1) * (a[2:] + 1))


def test_places_take_turns_and_a_wait_leaves_all_groups_but_those_that_are_not_needed_yet() -> None:
    s, A, B, C = windows(64)
    s[B].pipeline(4)
    text = str(tw.lower(s, [A, C]))
    assert "B: float32[4, 10]" in text
    assert text.count('"tw_copies_commit"') == 1 + 1, "one in the loop over the first parts, and one in the loop"
    assert 'call_extern(int32, "tw_copies_wait", 2)' in text
    assert "if i.outer < 5:" in text and "B[(i.outer + 3) % 4, " in text and "B[i.outer % 4, " in text
    copy = te.Schedule.replay(s.trace, [C.op])
    assert str(copy) == str(s) and f"s[{B.name}].pipeline(4)" in s.as_python().replace("stages=", "")


def test_a_double_buffer_and_a_pipeline_share_a_loop() -> None:
    A, W = te.placeholder((40,), name="A"), te.placeholder((40,), name="W")
    B, V = te.compute((40,), lambda i: A[i] + 1, name="B"), te.compute((40,), lambda i: W[i] * 2, name="V")
    C = te.compute((40,), lambda i: B[i] * V[i], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 8)
    for stage in (B, V):
        s[stage].compute_at(s[C], outer)
    s[B].pipeline(3)
    s[V].double_buffer()
    a, w, c = np.arange(40, dtype="float32"), np.ones(40, "float32"), np.zeros(40, "float32")
    tw.build(s, [A, W, C])(a, w, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def test_what_has_no_pipeline_is_refused() -> None:
    s, A, B, C = windows(32)
    before = str(s)
    for wrong in (1, 17, True, 2.0):
        with pytest.raises(errors.BadOverlap, match=r"TW0252(?s:.*)integers from 2 to 16"):
            s[B].pipeline(wrong)
    with pytest.raises(errors.BadOverlap, match="C is an output"):
        s[C].pipeline(2)
    s[B].double_buffer()
    with pytest.raises(errors.BadOverlap, match="double_buffer was called on it"):
        s[B].pipeline(2)
    assert str(windows(32)[0]) == before


def test_what_is_waited_for_together_has_as_many_stages_and_reads_nothing_that_is_under_way() -> None:
    A = te.placeholder((40,), name="A")
    B = te.compute((40,), lambda i: A[i] + 1, name="B")
    C = te.compute((40,), lambda i: B[i] * 2 + A[i], name="C")
    D = te.compute((40,), lambda i: C[i] - B[i], name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 8)
    for stage in (C, B):
        s[stage].compute_at(s[D], outer)
    s[B].pipeline(3)
    copy = s.copy()
    s[C].pipeline(2)
    with pytest.raises(lower_errors.CannotComputeAhead, match=r"TW0351(?s:.*)takes 3 turns and C, at the same loop, 2"):
        tw.lower(s, [A, D])
    copy[C].pipeline(3)
    with pytest.raises(lower_errors.CannotComputeAhead, match=r"TW0351(?s:.*)it reads B, which is not there that many"):
        tw.lower(copy, [A, D])
