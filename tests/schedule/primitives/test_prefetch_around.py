"""prefetch(..., around=True): each step of a stage asks for its part of what a later iteration of the loop around reads; with
share, for its share of what a loop further out will read."""

from __future__ import annotations

import re
from typing import Any

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
    with pytest.raises(
        tw.LoweringError, match=r"(?s)TW0353.*e is computed at no loop, of which a later iteration could be meant"
    ):
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


def panels(
    count: int, rows: int, depth: int, width: int, level: int = 2
) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """A product with panels of B, rows of four at a time, of which each step asks for its share of the next panel."""
    a, b = te.placeholder((rows, depth), name="A"), te.placeholder((count, depth, width), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((rows, count * width), lambda i, j: te.sum(a[i, k] * b[j // width, k, j % width], axis=k), name="C")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    i, j = s[c].op.axis
    panel, j = s[c].split(j, factor=width)
    tile, i = s[c].split(i, factor=4)
    s[c].reorder(panel, tile, i, j)
    s[sums].compute_at(s[c], tile)
    i, j = s[sums].op.axis
    s[sums].reorder(s[sums].op.reduce_axis[0], i, j)
    s[sums].vectorize(j)
    s[sums].prefetch(b, s[sums].op.reduce_axis[0], 1, level=level, share=2)
    return s, a, b, c


def asked(count: int, rows: int, depth: int, width: int) -> dict[int, set[int]]:
    """The lines of B that the text of the program asks for, by the panel that is computed meanwhile."""
    s, a, b, c = panels(count, rows, depth, width)
    found = re.search(
        r"(?:for line in (\d+):\s+)?prefetch\(int32, access_ptr\(handle, B\[(.*?), 0, 0\], (.*), 1\), 2\)",
        str(tw.lower(s, [a, b, c])),
    )
    assert found is not None
    lines: dict[int, set[int]] = {}
    for panel in range(count):
        for tile in range(-(-rows // 4)):
            for k in range(depth):
                for line in range(int(found[1] or 1)):
                    names: dict[str, object] = {"j_outer": panel, "i_outer": tile, "k": k, "line": line, "min": min}
                    base, offset = (eval(text.replace(".outer", "_outer"), names) for text in (found[2], found[3]))
                    lines.setdefault(panel, set()).add((base * depth * width + offset) * 4 // 64)
    return lines


@pytest.mark.parametrize(
    ("count", "rows", "depth", "width"), [(8, 40, 64, 32), (3, 7, 5, 64), (5, 64, 33, 16), (2, 4, 3, 128)]
)
def test_the_steps_of_a_panel_ask_for_all_of_the_next_one_and_nothing_else(
    count: int, rows: int, depth: int, width: int
) -> None:
    each = depth * width * 4 // 64
    for panel, lines in asked(count, rows, depth, width).items():
        following = min(panel + 1, count - 1)
        assert lines == set(range(following * each, (following + 1) * each))


@pytest.mark.parametrize("target", ["llvm", "interpret", "c"])
def test_shares_change_no_result(target: str) -> None:
    s, a, b, c = panels(3, 7, 5, 16)
    draw = np.random.default_rng(2)
    x, y, got = draw.random((7, 5), "float32"), draw.random((3, 5, 16), "float32"), np.zeros((7, 48), "float32")
    tw.build(s, [a, b, c], target=target)(x, y, got)
    assert np.allclose(got, np.einsum("ik,pkj->ipj", x, y).reshape(7, 48), rtol=1e-5)
    assert "offset=1, share=2, level=2" in s.as_python() and str(te.Schedule.replay(s.trace, [c.op])) == str(s)


def test_what_does_not_lie_together_or_has_no_next_one_is_not_asked_for() -> None:
    s, a, b, c = panels(1, 8, 4, 16)
    assert "prefetch(" not in str(tw.lower(s, [a, b, c]))  # one panel
    x = te.placeholder((8, 64), name="x")
    e = te.compute((8, 64), lambda i, j: x[i, j] * 2.0, "e")
    o = te.compute((8, 64), lambda i, j: e[i, j] + 1.0, "o")
    s = te.create_schedule(o.op)
    i, j = s[o].op.axis
    columns, j = s[o].split(j, factor=16)
    s[o].reorder(columns, i, j)
    s[e].compute_at(s[o], i)
    s[e].prefetch(x, s[e].op.axis[1], 1, share=2)  # sixteen columns of all rows: rows lie apart
    assert "prefetch(" not in str(tw.lower(s, [x, o]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"share": -1}, "the share is -1"),
        ({"share": True}, "the share is True"),
        ({"share": 1, "around": True}, "and around is given too"),
    ],
)
def test_a_share_is_a_number_of_loops(given: dict[str, Any], said: str) -> None:
    s, _, e, _ = rows((8, 256))
    with pytest.raises(tw.ScheduleError, match=rf"(?s)TW0251.*{said}"):
        s[e].prefetch(s[e].op.input_tensors[0], s[e].op.axis[0], 1, **given)
