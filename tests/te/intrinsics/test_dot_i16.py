"""The shipped dot products of numbers of 16 bits: exact for all that differences of bytes can be."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te


def product(rows: int, panels: int, depth: int, kind: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """Rows of pairs by panels of 16 columns."""
    a, b = te.placeholder((rows, depth), "int16", "a"), te.placeholder((panels, depth // 2, 16, 2), kind, "b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute(
        (rows, panels, 16),
        lambda i, p, lane: te.sum(a[i, k].astype("int32") * b[p, k // 2, lane, k % 2].astype("int32"), axis=k),
        "c",
    )
    s = te.create_schedule(c.op)
    i, p, lane = c.op.axis
    pair, inner = s[c].split(k, factor=2)
    s[c].reorder(i, p, pair, lane, inner)
    s[c].tensorize(lane, te.intrinsics.get("x86.dot_i16_16x2" if kind == "int16" else "x86.dot_i16i8_16x2"))
    return s, [a, b, c]


@pytest.mark.parametrize("kind, most", [("int16", 255), ("int8", 127)])
@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64", "interpret"))
def test_sums_of_products_are_exact(kind: str, most: int, target: str) -> None:
    rows, depth = 3, 14
    s, args = product(rows, 2, depth, kind)
    random = np.random.default_rng(0)
    x = random.integers(-255, 256, (rows, depth)).astype("int16")
    w = random.integers(-most - 1, most + 1, (2, depth // 2, 16, 2)).astype(kind)
    x[0], w[0] = 255, -most - 1
    found = np.zeros((rows, 2, 16), "int32")
    tw.build(s, args, target=target)(x, w, found)
    np.testing.assert_array_equal(
        found, np.einsum("iqt,pqlt->ipl", x.reshape(rows, -1, 2).astype("int32"), w.astype("int32"))
    )


@pytest.mark.parametrize("cpu, instruction", [("znver4", "vpdpwssd"), ("haswell", "vpmaddwd"), ("x86-64", "pmaddwd")])
def test_each_processor_has_its_instruction(cpu: str, instruction: str) -> None:
    assert instruction in tw.build(
        *product(2, 1, 8, "int8"), target=f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
    ).source("asm")
