"""Tables of bytes that stay in registers, of which lanes pick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.target import Target

SIZES = (5, 16, 17, 64, 100, 128, 129, 256)


def program(lanes: int) -> tuple[te.Schedule, list[Any]]:
    """results[t][i] = tables[t][places[t][i]], and of a table for each channel of its own."""
    tables = [te.placeholder((size,), "int8", name=f"T{size}") for size in SIZES]
    places = [te.placeholder((333,), "uint8", name=f"P{size}") for size in SIZES]
    channels, place = te.placeholder((3, 256), "uint8", name="C"), te.placeholder((3, 333), "uint8", name="Q")
    results = [
        te.compute((333,), lambda i, T=T, P=P: T[P[i].astype("int32")], f"R{T.name}")
        for T, P in zip(tables, places, strict=True)
    ]
    results.append(te.compute((3, 333), lambda c, i: channels[c, place[c, i].astype("int32")], "R"))
    s = te.create_schedule([each.op for each in results])
    for each in results:
        s[each].vectorize(s[each].split(each.op.axis[-1], factor=lanes)[1])
    return s, [*tables, channels, *places, place, *results]


@pytest.mark.parametrize(
    ("target", "lanes"),
    [("llvm", 64), ("llvm -mcpu=haswell", 32), ("llvm -mcpu=skylake-avx512", 64), ("llvm -mcpu=icelake-server", 48)],
)
def test_against_numpy(target: str, lanes: int) -> None:
    s, args = program(lanes)
    built = tw.build(s, args, runnable(target, "llvm")[0])
    rng = np.random.default_rng(lanes)
    tables = [rng.integers(-128, 128, size).astype(np.int8) for size in SIZES]
    channels = rng.integers(0, 256, (3, 256)).astype(np.uint8)
    places = [rng.integers(0, size, 333).astype(np.uint8) for size in SIZES]
    place = rng.integers(0, 256, (3, 333)).astype(np.uint8)
    got = [np.zeros(333, np.int8) for _ in SIZES] + [np.zeros((3, 333), np.uint8)]
    built(*tables, channels, *places, place, *got)
    for table, at, result in zip(tables, places, got, strict=False):
        np.testing.assert_array_equal(result, table[at])
    np.testing.assert_array_equal(got[-1], np.take_along_axis(channels, place.astype(int), 1))


@pytest.mark.parametrize(
    ("target", "instruction", "count"),
    [
        ("llvm -mcpu=znver4", "vper", 2),
        ("llvm -mcpu=haswell", "vpshufb", 16),
        ("llvm -mcpu=skylake-avx512", "vpshufb", 16),
    ],
)
def test_code_picks(target: str, instruction: str, count: int) -> None:
    T, P = te.placeholder((256,), "uint8", name="T"), te.placeholder((4096,), "uint8", name="P")
    R = te.compute((4096,), lambda i: T[P[i].astype("int32")], "R")
    s = te.create_schedule(R.op)
    s[R].vectorize(s[R].split(R.op.axis[0], factor=Target.parse(target).lanes(8))[1])
    code = tw.build(s, [T, P, R], target).source("asm")
    assert sum(line.split()[0].startswith(instruction) for line in code.splitlines() if line.strip()) == count
