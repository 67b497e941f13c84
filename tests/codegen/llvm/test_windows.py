"""Gathers whose lanes all lie within a few vectors: those are loaded, and lanes picked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te

WIDE = "llvm -mcpu=znver4"


def program(n: int, size: int, reach: int, dtype: str, lanes: int, offsets: str = "int32") -> Any:
    """out[i] = T[base[i // lanes] + (offset[i], kept from 0 to reach)]."""
    T = te.placeholder((size,), dtype, name="T")
    base = te.placeholder((-(-n // lanes),), "int32", name="base")
    offset = te.placeholder((n,), offsets, name="offset")
    out = te.compute(
        (n,), lambda i: T[te.max(base[i // lanes], 0) + te.max(te.min(offset[i].astype("int32"), reach), 0)], "out"
    )
    s = te.create_schedule(out.op)
    _, lane = s[out].split(out.op.axis[0], factor=lanes)
    s[out].vectorize(lane)
    return s, [T, base, offset, out]


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("int32", 16), ("uint16", 32), ("float64", 8)])
@pytest.mark.parametrize(
    ("n", "size", "reach"), [(160, 200, 31), (75, 50, 15), (96, 61, 60), (100, 300, 200), (1, 1, 0)]
)
def test_against_numpy(dtype: str, lanes: int, n: int, size: int, reach: int) -> None:
    rng = np.random.default_rng(n)
    s, args = program(n, size, reach, dtype, lanes)
    table = rng.integers(0, 1000, size).astype(dtype)
    base = rng.integers(0, size, -(-n // lanes)).astype(np.int32)
    base[-1] = size - 1  # a window most of which lies beyond the table
    offset = (rng.integers(0, 1 << 20, n) % np.minimum(reach + 1, size - base.repeat(lanes)[:n])).astype(np.int32)
    got = np.zeros(n, dtype)
    tw.build(s, args)(table, base, offset, got)
    np.testing.assert_array_equal(got, table[base.repeat(lanes)[:n] + offset])


@pytest.mark.parametrize(
    ("dtype", "lanes", "reach", "picks", "kind"),
    [("float32", 16, 31, 1, "ps"), ("int32", 16, 40, 2, "d"), ("uint16", 32, 63, 1, "w")],
)
def test_code_permutes(dtype: str, lanes: int, reach: int, picks: int, kind: str) -> None:
    s, args = program(16 * lanes, 4096, reach, dtype, lanes)
    code = tw.build(s, args, WIDE).source("asm")
    assert "gather" not in code
    assert (
        sum(line.split()[0] in (f"vpermi2{kind}", f"vpermt2{kind}") for line in code.splitlines() if line.strip())
        == picks
    )


@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", WIDE])
def test_code_gathers_elsewhere(target: str) -> None:
    s, args = program(256, 4096, 31 if target != WIDE else 2000, "float32", 16)
    code = tw.build(s, args, target).source("asm")
    assert "vpermi2" not in code and "vpermt2" not in code
