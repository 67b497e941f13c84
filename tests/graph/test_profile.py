"""Where a model's time goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright.graph import Builder


def test_a_profile_has_a_row_for_each_kernel_in_order() -> None:
    b = Builder()
    w = b.param("w", np.ones((6, 11), "float32"))
    y = b.node("relu", b.node("matmul", b.input("x", (5, 6)), w, source="first layer"), source="bend")
    b.output("y", b.node("softmax", y, source="last"))
    m = tw.build(b.graph())
    profile = m.profile(np.ones((5, 6), "float32"))
    product, softmax = profile.rows
    assert "matmul" in product.kernel and "softmax" in softmax.kernel
    assert product.operations == 2 * 5 * 6 * 11 + 5 * 11, "products, sums, and the greater of each and 0"
    assert product.moved == 4 * (5 * 6 + 6 * 11 + 5 * 11)
    assert product.shapes == "float32[5, 11]"
    assert "last" in softmax.nodes
    assert 0 < product.seconds <= profile.seconds
    assert profile.busy > 0 and all(row.busy > 0 for row in profile.rows), "the calling thread computes"
    assert "CPU" in str(profile) and "GFLOP/s" in str(profile) and "2 kernels" in str(profile)


def test_a_profile_of_open_sizes_is_of_those_of_the_arrays() -> None:
    b = Builder()
    b.output("y", b.node("exp", b.input("x", ("n", 3))))
    m = tw.build(b.graph())
    assert m.profile(np.ones((7, 3), "float32")).rows[0].moved == 2 * 4 * 21


def test_the_page_has_the_kernels_and_the_graph(tmp_path: Path) -> None:
    b = Builder("net")
    x = b.input("x", (3, 5))
    b.output("y", b.node("softmax", b.node("add", x, x, source="Add@0"), source="Softmax@0"))
    m = tw.build(b.graph())
    for page in (m.show(tmp_path / "net.html"), m.show(tmp_path / "timed.html", np.ones((3, 5), "float32"))):
        text = page.read_text()
        assert "graph net {" in text and "add(x, x)" in text and "object at" not in text
        assert text.count("Add@0") == text.count("Softmax@0") == 2, "beside its kernel, and in the graph"
