"""One function for every size, with code of its own for some: chosen natively, in Python's call and in C."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder
from tilewright.graph.variants import Buckets

from .test_export import run

BUCKETS: Buckets = [{"n": 1, "s": 4}, {"s": 3}]


def rows() -> tw.graph.Graph:
    """softmax(x @ w + positions[:s]): a table of 7 positions."""
    random = np.random.default_rng(0)
    b = Builder("rows")
    x = b.node("matmul", b.input("x", ("n", "s", 6)), b.param("w", random.standard_normal((6, 5)).astype("float32")))
    table = b.param("table", random.standard_normal((7, 5)).astype("float32"))
    at = b.node("slice", table, begin=(0,), end=("s",), step=(1,), axes=(0,), source="positions")
    b.output("y", b.node("softmax", b.node("add", x, at)))
    return b.graph()


def image(n: int, s: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(n + s).standard_normal((n, s, 6)).astype("float32")


def test_the_first_bucket_that_fits_runs_and_any_other_size_does_too() -> None:
    g = rows()
    m = tw.build(g, buckets=BUCKETS)
    for n, s, bucket in (
        (1, 4, "n = 1, s = 4"),
        (1, 3, "s = 3"),
        (5, 3, "s = 3"),
        (2, 4, "any size"),
        (0, 7, "any size"),
    ):
        x = image(n, s)
        np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-6)
        profile = m.profile(x)
        assert profile.bucket == bucket and f"kernels, those for {bucket}" in str(profile)
    assert m.verify(image(5, 3)), "its bucket knows s alone"
    with pytest.raises(
        tw.GraphError, match=r"(?s)TW0906: graph rows takes no such sizes.*slice \(positions\) needs s < 8"
    ):
        m(image(1, 8))


def test_kernels_that_do_not_know_the_size_are_shared() -> None:
    g = rows()
    m = tw.build(g, buckets=[{"n": 1}, {"n": 2}])
    x = image(1, 2)
    one = m(x)
    np.testing.assert_allclose(m(np.concatenate([x, x])), np.concatenate([one, one]), rtol=1e-5, atol=1e-6)
    assert m.profile(x).bucket == "n = 1"


PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static long allocations;
extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { allocations++; return __libc_malloc(size); }
void *aligned_alloc(size_t at, size_t size) { allocations++; return __libc_memalign(at, size); }
static float x[9 * 9 * 6], y[9 * 9 * 5];
int main(void) {
    for (int i = 0; i < 9 * 9 * 6; i++) x[i] = (float)(i * 7 % 11) / 5;
    for (int64_t s = 3; s < 9; s++) for (int64_t n = 1; n < 3; n++) {
        void *arena = aligned_alloc(64, net_arena_bytes(n, s));
        long before = allocations;
        for (int i = 0; i < 9 * 9 * 5; i++) y[i] = -1;
        int32_t status = net(n, s, x, y, arena);
        if (allocations != before) return 3;
        double sum = 0;
        for (int i = 0; i < n * s * 5; i++) sum += y[i];
        printf("%d %d %.3f %g %s\n", (int)n, (int)s, sum, y[n * s * 5], net_error(status));
        free(arena);
    }
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_library_chooses_and_refuses_sizes_that_do_not_fit(tmp_path: Path) -> None:
    rows().export(tmp_path / "libnet.so", threads="none", buckets=BUCKETS)
    header = (tmp_path / "net.h").read_text()
    assert "the first that fits runs: n = 1, s = 4; s = 3; others take code for any size." in header.replace("\n *", "")
    assert "arena  memory to work in: net_arena_bytes(n, s) bytes, aligned to 64" in header
    for line in run(PROGRAM, tmp_path).splitlines():
        n, s, total, behind, said = line.split(" ", 4)
        if int(s) < 8:
            assert float(total) == pytest.approx(int(n) * int(s), abs=1e-3) and behind == "-1" and said == "success", (
                line
            )
        else:
            assert float(total) == -5 * 8 * int(n) and "slice (positions) needs s < 8" in said, line


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_what_branches_and_loops_takes_any_size(tmp_path: Path) -> None:
    """A loop over the rows that are there, in one of two branches: sums of those before, times that of all, of 4 columns."""
    body = Builder("body")
    i, state, x = body.input("i", (), "int64"), body.input("state", ("k",)), body.input("x", ("n", "k"))
    after = body.node("add", state, body.node("take", x, i, axis=0))
    body.output("next", after)
    whole = body.node("multiply", body.node("sum", x, axes=(0,)), after)
    body.output("row", body.node("slice", whole, begin=("k - 4",), end=("k",), step=(1,), axes=(0,)))
    looping, plain = Builder("looping"), Builder("plain")
    for one in (looping, plain):
        one.input("first", ("k",))
        one.input("x", ("n", "k"))
    looping.output("y", looping.nodes("loop", "", "", "first", "x", bodies=(body.graph(),), carried=1, count=("n",))[1])
    plain.output("y", plain.node("slice", "x", begin=("k - 4",), end=("k",), step=(1,), axes=(1,)))
    b = Builder("branch")
    given = b.input("c", (), "bool"), b.input("first", ("k",)), b.input("x", ("n", "k"))
    b.output("y", b.node("if", *given, bodies=(looping.graph(), plain.graph())))
    g = b.graph()
    m = tw.build(g, buckets=[{"n": 2}])
    random = np.random.default_rng(3)
    for n, k in ((2, 4), (1, 5), (7, 4), (0, 9), (17, 33)):
        first, x = random.standard_normal(k).astype("float32"), random.standard_normal((n, k)).astype("float32")
        np.testing.assert_array_equal(m(np.bool_(False), first, x), x[:, -4:])
        (expected,) = g.run(np.bool_(True), first, x)
        np.testing.assert_allclose(m(np.bool_(True), first, x), expected, rtol=1e-5, atol=1e-5)
    m.export(tmp_path / "libnet.so", threads="none")
    assert "n = 2; others take code for any size." in (tmp_path / "net.h").read_text()
    program = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static float first[5] = {0, 0, 0, 0, 1}, x[15] = {[9] = 1, [14] = 2}, y[12];
int main(void) {
    bool c = true;
    for (int64_t n = 2; n < 4; n++)
        for (int64_t k = 5; k > 2; k -= 2) {
            int32_t status = net(k, n, &c, first, x, y, aligned_alloc(64, net_arena_bytes(k, n)));
            printf("%g %s\n", y[4 * n - 1], net_error(status));
        }
    return 0;
}
"""
    lines = run(program, tmp_path).splitlines()
    assert [lines[0], lines[2]] == ["2 success", "12 success"]
    assert all("slice needs 4 <= k" in line for line in (lines[1], lines[3])), lines


@pytest.mark.parametrize(
    "buckets, reason",
    [
        ([{"m": 1}], "'m' is not a symbol"),
        ([{"n": -1}], "a number from 0 on"),
        ([{"n": True}], "a number from 0 on"),
        ([{}], "names no size"),
        ({"n": 1}, "a list of dicts"),
        ([{"n": range(9), "s": range(9)}], "more than 64 variants"),
    ],
)
def test_buckets_that_are_none_are_refused(buckets: Buckets, reason: str) -> None:
    with pytest.raises(tw.GraphError, match=f"(?s)TW0909: graph rows has no such buckets.*{reason}"):
        tw.build(rows(), buckets=buckets)
    with pytest.raises(tw.TilewrightError, match="TW0420: buckets are sizes of a graph's symbols"):
        tw.build([tw.te.placeholder((3,))], buckets=[{"n": 1}])
