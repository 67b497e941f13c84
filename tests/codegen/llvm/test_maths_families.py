"""Processors that fuse give the same bits of mathematical functions, whatever other instructions they have, in lanes and alone; those
that do not are a family of their own."""

from __future__ import annotations

import functools

import drawn
import numpy as np
import pytest
from emulated_avx512 import Processor
from maths_reference import FUNCTIONS, sample
from tilewright.codegen.host import full_processor
from tilewright.codegen.llvm import maths
from tilewright.codegen.llvm.features import maths_options
from tilewright.codegen.llvm.maths_options import MathsOptions
from tilewright.codegen.target import Target

FUSED = (
    "-mcpu=x86-64-v3",
    "-mcpu=x86-64-v4",
    "-mcpu=haswell",
    "-mcpu=znver4",
    "-mcpu=skylake-avx512",
    "-mcpu=skylake-avx512 -mattr=-avx512vl",
    "-mcpu=x86-64 -mattr=+fma",
    "-mtriple=aarch64-unknown-linux-gnu",
    "-mtriple=aarch64-unknown-linux-gnu -mattr=+sve",
)
ALONE = ("-mcpu=x86-64", "-mcpu=x86-64-v2", "-mcpu=haswell -mattr=-fma", "-mcpu=x86-64-v4 -mattr=-fma,-avx512f")
WIDTHS = (1, 4, 5, 8, 16, 32, 48)


@functools.cache
def results(name: str, dtype: str, options: MathsOptions, lanes: int) -> np.ndarray:
    return Processor(options).run(name, *part(name, dtype), lanes=lanes)


@functools.cache
def part(name: str, dtype: str) -> tuple[np.ndarray, ...]:
    """Some of the usual arguments, the special ones among them; as many as fill vectors of all lengths."""
    arguments = sample(name, dtype)
    size = drawn.count(1 << 14, 1 << 17) // 240 * 240
    return tuple(np.resize(x[::-1], size) for x in arguments)


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    word = f"uint{one.itemsize * 8}"
    return (one.view(word) == other.view(word)) | (np.isnan(one) & np.isnan(other))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", [FUSED, ALONE], ids=["fused", "alone"])
@pytest.mark.parametrize("name", drawn.part(sorted(maths.FUNCTIONS), 10))
def test_a_family_of_processors_gives_one_result(name: str, family: tuple[str, ...], dtype: str) -> None:
    machines = {maths_options(Target.parse(f"llvm {text}"), fast=False): text for text in family}
    want = results(name, dtype, next(iter(machines)), 1)
    here = full_processor().features
    cases = [(options, lanes) for options in machines for lanes in WIDTHS]
    for options, lanes in drawn.part(cases, 8):
        if options.permutes and not here.get("avx2"):
            continue  # this instruction is not emulated
        got = results(name, dtype, options, lanes)
        wrong = np.flatnonzero(~same(got, want[: len(got)]))[:5]
        shown = [(*(str(x[at]) for x in part(name, dtype)), str(got[at]), str(want[at])) for at in wrong]
        assert not shown, f"{name} of {dtype} on {machines[options]}, {lanes} lanes: {shown}"


def test_all_functions_are_looked_at() -> None:
    assert set(maths.FUNCTIONS) <= set(FUNCTIONS)
