"""prefetch(..., around=True): each step of a stage asks for its part of what a later iteration of the loop around reads."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def rows(shape: tuple[int, ...], step: int = 32) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """x * 2, a row at a time, then + 1."""
    x = te.placeholder(shape, name="x")
    e = te.compute(shape, lambda *i: x[i] * 2.0, "e")
    o = te.compute(shape, lambda *i: e[i] + 1.0, "o")
    s = te.create_schedule(o.op)
    *outer, _ = s[o].op.axis
    s[e].compute_at(s[o], s[o].fuse(*outer) if len(outer) > 1 else outer[0])
    outer_step, inner = s[e].split(s[e].op.axis[-1], step)
    s[e].vectorize(inner)
    s[e].prefetch(x, outer_step, 1, around=True)
    return s, x, e, o


@pytest.mark.parametrize("shape", [(8, 256), (7, 100), (5, 3, 64), (1, 64)])
def test_the_next_row_is_asked_for_and_nothing_beyond_the_tensor(shape: tuple[int, ...]) -> None:
    s, x, _, o = rows(shape)
    text = str(tw.lower(s, [x, o]))
    assert ("prefetch(" in text) == (shape[0] > 1)
    if shape == (8, 256):
        assert "if i0 < 7:" in text and "x[i0 + 1, i1.outer * 32 + line1 * 16]" in text
    values = np.random.default_rng(1).random(shape, "float32")
    for target in ("llvm", "interpret"):
        got = np.zeros_like(values)
        tw.build(s, [x, o], target=target)(values, got)
        assert np.array_equal(got, values * 2 + 1)


def test_it_is_recorded() -> None:
    s, _, _, o = rows((8, 256))
    assert "offset=1, around=True" in s.as_python()
    assert str(te.Schedule.replay(s.trace, [o.op])) == str(s)


def test_a_stage_at_root_has_nothing_around_it() -> None:
    s, x, e, o = rows((8, 256))
    s[e].compute_root()
    with pytest.raises(tw.LoweringError, match=r"(?s)TW0353.*e is computed at no loop, of which a later iteration could be meant"):
        tw.lower(s, [x, o])


def test_what_is_computed_within_the_loop_around_is_nowhere_yet() -> None:
    x = te.placeholder((8, 64), name="x")
    d = te.compute((8, 64), lambda i, j: x[i, j] + 3.0, "d")
    e = te.compute((8, 64), lambda i, j: d[i, j] * 2.0, "e")
    o = te.compute((8, 64), lambda i, j: e[i, j] + 1.0, "o")
    s = te.create_schedule(o.op)
    row = s[o].op.axis[0]
    s[d].compute_at(s[o], row)
    s[e].compute_at(s[o], row)
    s[e].prefetch(d, s[e].op.axis[1], 1, around=True)
    with pytest.raises(tw.LoweringError, match=r"TW0353.*"):
        tw.lower(s, [x, o])


@pytest.mark.parametrize("shape", [(8, 64), (5, 50), (1, 64), (2, 3, 40)])
def test_into_the_second_cache_a_stream_goes_on_with_the_next_row(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    y = te.compute(shape, lambda *i: x[i] * 2.0, "y")
    s = te.create_schedule(y.op)
    step, lane = s[y].split(s[y].op.axis[-1], 16)
    s[y].vectorize(lane)
    s[y].prefetch(x, step, 3, level=2)
    if shape == (8, 64):
        assert "if i0 + (i1.outer + 3) // 4 < 8:" in str(s)
        assert "x[i0 + (i1.outer + 3) // 4, (i1.outer + 3) % 4 * 16]" in str(s)
    assert "offset=3, level=2" in s.as_python() and str(te.Schedule.replay(s.trace, [y.op])) == str(s)
    values = np.random.default_rng(1).random(shape, "float32")
    for target in ("llvm", "interpret"):
        got, f = np.zeros_like(values), tw.build(s, [x, y], target=target)
        f(values, got)
        assert np.array_equal(got, values * 2)
    assert "prefetcht1" in tw.build(s, [x, y], target="llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").source("asm")
