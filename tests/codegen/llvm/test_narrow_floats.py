"""Floats of 16 bits to and from float32, with the processors' instructions and without."""

from __future__ import annotations

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te

TARGETS = runnable("llvm", "llvm -mattr=-avx512f", "llvm -mcpu=x86-64")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def build(count: int, source: str, target_dtype: str, lanes: int, **options: object) -> tw.Kernel:
    x = te.placeholder((count,), source, "x")
    y = te.compute((count,), lambda i: x[i].astype(target_dtype), "y")
    s = te.create_schedule(y)
    s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
    return tw.build(s, [x, y], **options)


def converted(x: np.ndarray, dtype: np.dtype, lanes: int, **options: object) -> np.ndarray:
    out = np.empty(x.shape, dtype)
    build(x.size, x.dtype.name, dtype.name, lanes, **options)(x, out)
    return out


def floats() -> np.ndarray:
    """Every float16 and bfloat16, what lies halfway between them and next to that, and any floats."""
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bfloat = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    near = [
        (x.view(np.uint32) + np.uint32(step)).view(np.float32)
        for x, steps in ((half, (0, 0x0FFF, 0x1000, 0x1001)), (bfloat, (0, 0x7FFF, 0x8000, 0x8001)))
        for step in steps
    ]
    small = np.linspace(-1e-6, 1e-6, 1 << 16).astype(np.float32)
    drawn_bits = drawn.rng("narrow floats").integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    return np.concatenate([*near, small, drawn_bits.view(np.float32)])


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """To the bit, but for what a NaN carries."""
    wide = [x.astype(np.float32) for x in (got, expected)]
    np.testing.assert_array_equal(np.isnan(wide[0]), np.isnan(wide[1]))
    kept = ~np.isnan(wide[0])
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}")[kept], expected.view(f"u{got.itemsize}")[kept])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=lambda dtype: dtype.name)
def test_conversions_round_to_nearest_even(dtype: np.dtype, target: str) -> None:
    x = floats()
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    for lanes in (1, 5, 16, 32):
        assert_same(converted(x, dtype, lanes, target=target), expected)
        assert_same(converted(every, np.dtype(np.float32), lanes, target=target), every.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_no_library_converts(dtype: str, target: str) -> None:
    for pair in ((dtype, "float32"), ("float32", dtype), (dtype, "float64")):
        for lanes in (1, 16):
            asm = build(64, *pair, lanes, target=target).source("asm")
            assert not any(
                name in asm for name in ("truncsfhf", "extendhfsf", "truncsfbf", "truncdfhf", "truncdfbf")
            ), pair


def test_the_instruction_of_bfloat16_with_fast_math() -> None:
    target = "llvm -mcpu=sapphirerapids"
    assert "vcvtneps2bf16" in build(64, "float32", "bfloat16", 16, target=target, fast_math=True).source("asm")
    assert "vcvtneps2bf16" not in build(64, "float32", "bfloat16", 16, target=target).source("asm")
    if not runnable("llvm -mattr=+avx512bf16"):
        pytest.skip("this processor has no AVX512-BF16")
    x = floats()
    with np.errstate(all="ignore"):
        expected = x.astype(BFLOAT16)
    tiny = np.abs(x) < 2.0**-126
    got = converted(x, BFLOAT16, 16, fast_math=True)
    assert_same(got[~tiny], expected[~tiny])
    assert not got[tiny].astype(np.float32).any(), "subnormal numbers become 0"


def test_the_instructions_of_float16() -> None:
    for lanes, register in ((8, "ymm"), (16, "zmm")):
        asm = build(64, "float32", "float16", lanes, target="llvm -mcpu=x86-64-v4").source("asm")
        assert "vcvtps2ph" in asm and register in asm
        assert "vcvtph2ps" in build(64, "float16", "float32", lanes, target="llvm -mcpu=x86-64-v4").source("asm")
