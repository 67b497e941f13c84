"""The shipped dot product of bytes: exact at all sizes, one instruction where the processor has it."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.llvm.features import target_has
from tilewright.codegen.target import Target

DOT = "x86.dot_u8i8_16x4"
Program = tuple[Any, list[Any]]


def int8_matmul(n: int, m: int, k: int) -> Program:
    """C[n, m] = A[n, k] @ B[m, k].T of bytes; what does not divide is padded in stages of its own."""
    wide, deep = -(-m // 16) * 16, -(-k // 4) * 4
    A, B = te.placeholder((n, k), "uint8", "A"), te.placeholder((m, k), "int8", "B")
    padded = te.compute((n, deep), lambda i, r: te.if_then_else(r < k, A[i, r], 0), "A.padded")
    packed = te.compute(
        (wide // 16, deep // 4, 16, 4),
        lambda jo, ro, ji, ri: te.if_then_else(
            te.all(jo * 16 + ji < m, ro * 4 + ri < k), B[jo * 16 + ji, ro * 4 + ri], 0
        ),
        "B.packed",
    )
    r = te.reduce_axis((0, deep), "r")
    whole = te.compute(
        (n, wide),
        lambda i, j: te.sum(
            padded[i, r].astype("int32") * packed[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r
        ),
        "C.padded",
    )
    C = te.compute((n, m), lambda i, j: whole[i, j], "C")
    s = te.create_schedule(C.op)
    i, j = whole.op.axis
    jo, ji = s[whole].split(j, factor=16)
    ro, ri = s[whole].split(r, factor=4)
    s[whole].reorder(i, jo, ro, ji, ri)
    s[whole].tensorize(ji, te.intrinsics.get(DOT))
    return s, [A, B, C]


def bytes_of(n: int, m: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(n * 10007 + m * 101 + k)
    a, b = draw.integers(0, 256, (n, k)).astype("uint8"), draw.integers(-128, 128, (m, k)).astype("int8")
    return a, b, a.astype("int32") @ b.T.astype("int32")


@pytest.mark.parametrize("sizes", drawn.part([(1, 1, 1), (3, 16, 4), (37, 53, 61), (16, 64, 128), (5, 17, 3)], 2))
@pytest.mark.parametrize("target", runnable("llvm", "llvm -mattr=-avx512vnni", "llvm -mcpu=x86-64", "interpret"))
def test_an_int8_matmul_of_any_size_is_exact(sizes: tuple[int, int, int], target: str) -> None:
    if target == "interpret" and sizes[0] * sizes[1] * sizes[2] > 20000:
        sizes = (7, 21, 13)
    a, b, expected = bytes_of(*sizes)
    s, args = int8_matmul(*sizes)
    found = np.full(expected.shape, 77, "int32")
    tw.build(s, args, target=target)(a, b, found)
    np.testing.assert_array_equal(found, expected)


def test_extreme_bytes_do_not_saturate() -> None:
    a, b = np.full((4, 64), 255, "uint8"), np.full((16, 64), -128, "int8")
    s, args = int8_matmul(4, 16, 64)
    found = np.zeros((4, 16), "int32")
    tw.build(s, args)(a, b, found)
    assert (found == 64 * 255 * -128).all()


def test_the_instruction_is_used_where_the_target_has_it_and_nowhere_else() -> None:
    s, args = int8_matmul(16, 64, 128)
    assert "vpdpbusd" in tw.build(s, args, target="llvm -mcpu=cascadelake").source("asm")
    assert ("vpdpbusd" in tw.build(s, args).source("asm")) == target_has(Target(), "avx512vnni")
    without = tw.build(s, args, target="llvm -mcpu=cascadelake -mattr=-avx512vnni")
    assert "llvm.x86.avx512.vpdpbusd" not in without.source("llvm")


def test_features_come_with_processors() -> None:
    if Target().architecture != "x86_64":
        pytest.skip("processors of x86-64 are named")
    known = {"cascadelake": True, "skylake-avx512": False, "x86-64-v3": False, "znver4": True}
    for cpu, has in known.items():
        assert target_has(Target.parse(f"llvm -mcpu={cpu}"), "avx512vnni") == has, cpu
    assert target_has(Target.parse("llvm -mcpu=x86-64 -mattr=+avx512vnni"), "avx512vnni")
    assert not target_has(Target.parse("llvm -mcpu=cascadelake -mattr=-avx512vnni"), "avx512vnni")
    assert not target_has(Target(), "no-such-feature")
    assert not target_has(Target.parse("llvm -mcpu=haswell"), "no-such-feature")
    arm = Target.parse("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72")
    assert target_has(arm, "neon") and not target_has(arm, "amx-int8"), (
        "another architecture's features are ignored by LLVM"
    )
    assert target_has(Target.parse("llvm -mtriple=aarch64-unknown-linux-gnu"), "neon"), "of the baseline"
    assert not target_has(Target.parse("llvm -mattr=+avx512vnni,-avx512f"), "avx512vnni"), (
        "it goes with what it builds on"
    )


def test_registers_hold_the_sums_of_the_inner_loop() -> None:
    """The accumulator is computed at the tile: reduce_init before the reduction, reduce_update within it."""
    s, args = int8_matmul(8, 32, 64)
    text = str(s)
    init, update = text.index("broadcast(0, 16)"), text.index("llvm.x86.avx512.vpdpbusd.512")
    assert init < text.index("for r.outer in 16") < update
    assert "for j.inner" not in text
    assert "for r.inner" not in text


def test_a_cached_accumulator_is_tensorized() -> None:
    n, m, k = 6, 32, 16
    A = te.placeholder((n, k), "uint8", "A")
    P = te.placeholder((m // 16, k // 4, 16, 4), "int8", "P")
    r = te.reduce_axis((0, k), "r")
    C = te.compute(
        (n, m),
        lambda i, j: te.sum(A[i, r].astype("int32") * P[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r),
        "C",
    )
    s = te.create_schedule(C.op)
    L = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, ii = s[C].split(i, factor=3)
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(io, jo, ii, ji)
    s[C].vectorize(ji)
    s[L].compute_at(s[C], jo)
    li, lj = s[L].op.axis
    ro, ri = s[L].split(s[L].op.reduce_axis[0], factor=4)
    s[L].reorder(ro, li, lj, ri)
    s[L].unroll(li)
    s[L].tensorize(lj, te.intrinsics.get(DOT))
    a, b, expected = bytes_of(n, m, k)
    packed = b.reshape(m // 16, 16, k // 4, 4).transpose(0, 2, 1, 3).copy()
    for target in runnable("llvm", "llvm -mattr=-avx512vnni", "interpret"):
        found = np.zeros((n, m), "int32")
        tw.build(s, [A, P, C], target=target)(a, packed, found)
        np.testing.assert_array_equal(found, expected)
