"""State: an input and an output that are one buffer, which a call updates where it lies."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.base.errors import GraphError
from tilewright.graph import Builder

RANDOM = np.random.default_rng(7)


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def cache(rows: int = 7) -> tw.graph.Graph:
    """A row is put into a cache, whose mean is the output."""
    b = Builder("cache")
    past, row, at = b.input("past", (2, rows, 5)), b.input("row", (2, 1, 5)), b.input("at", (1,), "int64")
    present = b.node("put", past, at, row, axis=1)
    b.output("mean", b.node("mean", present, axes=(1,), keepdims=False))
    b.output("present", present)
    b.state("past", "present")
    return b.graph()


def followed(g: tw.graph.Graph, *arrays: Any, calls: int = 3) -> tw.graph.Graph:
    """The graph, whose model was called several times on the same arrays, which became each time what the reference says."""
    m = tw.build(g)
    assert m.verify(*arrays), m.verify(*arrays)
    for _ in range(calls):
        expected = dict(zip(g.outputs, g.run(*[array.copy() for array in arrays]), strict=True))
        given = m(*arrays)
        results = dict(zip(m.outputs, given if len(m.outputs) != 1 else [given], strict=True))
        for past, present in g.state.items():
            results[present] = arrays[list(g.inputs).index(past)]
        for name, wanted in expected.items():
            np.testing.assert_allclose(results[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    return g


def test_state_that_may_not_be_written_is_refused_after_good_calls_too() -> None:
    m = tw.build(cache())
    past, row, at = values(2, 7, 5), values(2, 1, 5), np.array([3])
    m(past, row, at)
    m(past, row, at)
    past.flags.writeable = False
    with pytest.raises(GraphError, match=r"(?s)TW0906.*it may not be written"):
        m(past, row, at)


def test_state_is_written_where_the_caller_has_it_and_is_no_further_output() -> None:
    g = cache()
    assert tw.graph.parse(str(g)) == g and "state past = present" in str(g)
    m = tw.build(g)
    assert list(m.outputs) == ["mean"] and m.state == {"past": "present"}
    past = np.zeros((2, 7, 5), "float32")
    for at in (0, 3, -1, 9):
        row = values(2, 1, 5)
        expected = g.run(past.copy(), row, [at])
        mean = m(past, row, np.array([at]))
        np.testing.assert_array_equal(past, expected[1])
        np.testing.assert_allclose(mean, expected[0], rtol=1e-5, atol=1e-6)


def test_a_row_costs_the_same_however_long_the_past_is() -> None:
    b = Builder()
    past, row, at = b.input("past", (1, 3_000_001, 5)), b.input("row", (1, 1, 5)), b.input("at", (1,), "int64")
    b.output("present", b.node("put", past, at, row, axis=1))
    b.state("past", "present")
    m = tw.build(b.graph())
    held = np.zeros((1, 3_000_001, 5), "float32")
    row = values(1, 1, 5)
    assert m(held, row, np.array([2_999_999])) == []
    np.testing.assert_array_equal(held[0, 2_999_999], row[0, 0])
    assert m.arena_bytes == 64  # nothing of the 60 million bytes is anywhere else
    assert m.profile(held, row, np.array([5])).rows[0].moved < 100


def test_state_that_stays_in_time_and_profile_is_kept() -> None:
    m = tw.build(cache())
    past = np.zeros((2, 7, 5), "float32")
    m.time(past, values(2, 1, 5), np.array([1]), repeat=1, min_repeat_ms=0.1)
    m.profile(past, values(2, 1, 5), np.array([1]))
    assert not past.any()


def test_weights_are_updated_after_all_that_reads_them() -> None:
    b = Builder("step")
    w, slope, moment = (b.input(name, (33,)) for name in ("w", "slope", "moment"))
    after = b.node("add", b.node("multiply", moment, b.param("decay", np.float32(0.9))), slope)
    b.output("weights", b.node("subtract", w, b.node("multiply", after, b.param("rate", np.float32(0.1)))))
    b.output("loss", b.node("sum", b.node("multiply", w, slope), axes=(0,), keepdims=False))
    b.output("moments", after)
    b.state("w", "weights")
    b.state("moment", "moments")
    followed(b.graph(), values(33), values(33), values(33))


def test_what_cannot_be_computed_in_place_is_copied() -> None:
    b = Builder("copies")
    p, q, r, t = (b.input(name, (3, 3)) for name in "pqrt")
    b.output("of_p", q)  # they change places
    b.output("of_q", p)
    b.output("of_r", b.node("matmul", r, r))
    b.output("of_t", b.node("transpose", t, axes=(1, 0)))
    b.output("first", b.node("relu", p))
    for name in "pqrt":
        b.state(name, f"of_{name}")
    followed(b.graph(), *(values(3, 3) for _ in range(4)))


def test_what_reads_both_the_past_and_the_present() -> None:
    b = Builder("both")
    past, row, at = b.input("past", (5, 3)), b.input("row", (1, 3)), b.input("at", (1,), "int32")
    present = b.node("put", past, at, row, axis=0)
    b.output("change", b.node("subtract", present, past))
    b.output("present", present)
    b.state("past", "present")
    followed(b.graph(), values(5, 3), values(1, 3), np.array([2], "int32"))


@pytest.mark.parametrize("reduction", ["update", "add"])
def test_scatters_are_done_in_place(reduction: str) -> None:
    b = Builder("scatters")
    x, y = b.input("x", (4, 5)), b.input("y", (4, 5))
    places, pairs = b.input("places", (2, 5), "int64"), b.input("pairs", (3, 2), "int64")
    b.output("x2", b.node("scatter_elements", x, places, b.input("rows", (2, 5)), axis=0, reduction=reduction))
    b.output("y2", b.node("scatter_nd", y, pairs, b.input("numbers", (3,)), reduction=reduction))
    b.state("x", "x2")
    b.state("y", "y2")
    g = b.graph()
    followed(
        g,
        values(4, 5),
        values(4, 5),
        np.array([[0, 1, -1, 3, 9], [0, 2, 2, -4, 1]]),
        np.array([[1, 2], [3, -1], [1, 2]]),
        values(2, 5),
        values(3),
    )
    assert tw.build(g).arena_bytes == 64


@pytest.mark.parametrize(
    ("past", "present", "reason"),
    [
        ("row", "present", "is float32\\[2, 1, 5\\], and 'present' float32\\[2, 7, 5\\]"),
        ("no", "present", "no input 'no'"),
        ("past", "no", "no output 'no'"),
        ("past", "present", "state already"),
    ],
)
def test_pairs_that_are_no_state_are_refused(past: str, present: str, reason: str) -> None:
    b = Builder()
    put = b.node("put", b.input("past", (2, 7, 5)), b.input("at", (1,), "int64"), b.input("row", (2, 1, 5)), axis=1)
    b.output("present", put)
    if "already" in reason:
        b.state("past", "present")
    with pytest.raises(GraphError, match=f"TW0901[^$]*{reason}"):
        b.state(past, present)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (np.zeros((2, 5, 7), "float32").transpose(0, 2, 1), "side by side"),
        (np.zeros((2, 7, 5), "float32").tolist(), "not an array"),
    ],
)
def test_state_that_cannot_be_updated_where_it_is_is_refused(given: Any, reason: str) -> None:
    m = tw.build(cache())
    with pytest.raises(GraphError, match=f"TW0906[^$]*{reason}"):
        m(given, values(2, 1, 5), np.array([1]))
    kept = np.zeros((2, 7, 5), "float32")
    kept.flags.writeable = False
    with pytest.raises(GraphError, match=r"TW0906[^$]*may not be written"):
        m(kept, values(2, 1, 5), np.array([1]))


PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
    static float past[2 * 7 * 5], row[2 * 5], mean[2 * 5];
    void *arena = aligned_alloc(64, net_arena_bytes());
    for (int64_t at = 0; at < 3; at++) {
        for (int k = 0; k < 10; k++) row[k] = (float)(k + 1) * (float)(at + 1);
        if (net(row, &at, past, mean, arena)) return 1;
    }
    float sum = 0;
    for (int k = 0; k < 70; k++) sum += past[k];
    printf("%g %g %g\n", sum, past[5], mean[9]);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_in_c_passes_state_once_after_the_inputs(tmp_path: Path) -> None:
    cache().export(tmp_path / "libnet.so", threads="none")
    header = (tmp_path / "net.h").read_text()
    assert "int32_t net(const float *row, const int64_t *at, float *past, float *mean, void *arena);" in header
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(
        ["cc", "-O1", "-o", "program", "program.c", "-L.", "-lnet", "-Wl,-rpath,."], cwd=tmp_path, check=True
    )
    said = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.split() == ["330", "2", f"{60 / 7:g}"]
