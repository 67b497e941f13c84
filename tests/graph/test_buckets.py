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
    for n, s, bucket in ((1, 4, "n = 1, s = 4"), (1, 3, "s = 3"), (5, 3, "s = 3"), (2, 4, "any size"), (0, 7, "any size")):
        x = image(n, s)
        np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-6)
        profile = m.profile(x)
        assert profile.bucket == bucket and f"kernels, those for {bucket}" in str(profile)
    assert m.verify(image(5, 3)), "its bucket knows s alone"
    with pytest.raises(tw.GraphError, match=r"(?s)TW0906: graph rows takes no such sizes.*slice \(positions\) needs s < 8"):
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
            assert float(total) == pytest.approx(int(n) * int(s), abs=1e-3) and behind == "-1" and said == "success", line
        else:
            assert float(total) == -5 * 8 * int(n) and "slice (positions) needs s < 8" in said, line


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_what_branches_takes_the_sizes_of_its_buckets_alone(tmp_path: Path) -> None:
    branches: list[tw.graph.Graph] = []
    for operator in ("exp", "negative"):
        one = Builder(operator)
        one.output("y", one.node(operator, one.input("x", ("n", 3))))
        branches.append(one.graph())
    b = Builder("branch")
    b.output("y", b.node("if", b.input("c", (), "bool"), b.input("x", ("n", 3)), bodies=branches))
    g = b.graph()
    with pytest.raises(tw.ExportError, match=r"(?s)TW0915.*buckets="):
        g.export(tmp_path / "libnet.so")
    m = tw.build(g, buckets=[{"n": (2, 5)}])
    x = np.ones((5, 3), "float32")
    np.testing.assert_array_equal(m(np.bool_(False), x), -x)
    with pytest.raises(tw.GraphError, match=r"(?s)TW0906.*no bucket has these sizes"):
        m(np.bool_(True), x[:3])
    m.export(tmp_path / "libnet.so", threads="none")
    assert "n = 2; n = 5; others are refused." in (tmp_path / "net.h").read_text()
    program = r"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
static float x[15], y[15];
int main(void) {
    bool c = false;
    x[5] = 2;
    for (int64_t n = 2; n < 4; n++) {
        int32_t status = net(n, &c, x, y, aligned_alloc(64, net_arena_bytes(n)));
        printf("%g %s\n", y[5], net_error(status));
    }
    return 0;
}
"""
    first, second = run(program, tmp_path).splitlines()
    assert first == "-2 success" and "the sizes are none of n = 2; n = 5" in second


@pytest.mark.parametrize("buckets, reason", [
    ([{"m": 1}], "'m' is no symbol"), ([{"n": -1}], "a number from 0 on"), ([{"n": True}], "a number from 0 on"),
    ([{}], "names no size"), ({"n": 1}, "a list of dicts"), ([{"n": range(9), "s": range(9)}], "more than 64 variants"),
])
def test_buckets_that_are_none_are_refused(buckets: Buckets, reason: str) -> None:
    with pytest.raises(tw.GraphError, match=f"(?s)TW0909: graph rows has no such buckets.*{reason}"):
        tw.build(rows(), buckets=buckets)
    with pytest.raises(tw.TilewrightError, match="TW0420: buckets are sizes of a graph's symbols"):
        tw.build([tw.te.placeholder((3,))], buckets=[{"n": 1}])
