"""The smaller and the greater of two floats, alone and in lanes: a NaN where one is, and -0 less than +0."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.target import Target

TARGETS = runnable("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
EXPRESSIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "max": lambda a, b, zero, six: te.max(a, b),
    "min": lambda a, b, zero, six: te.min(a, b),
    "relu": lambda a, b, zero, six: te.max(a, zero) + te.max(zero, b),
    "a second maximum drops a NaN": lambda a, b, zero, six: te.select(te.max(a, zero) > zero, te.max(a, zero), zero),
    "a second minimum drops a NaN": lambda a, b, zero, six: te.select(te.min(a, six) < six, te.min(a, six), six),
    "relu6": lambda a, b, zero, six: te.min(te.max(a, zero), six),
    "clip": lambda a, b, zero, six: te.max(te.min(b, six), zero),
    "as an integer": lambda a, b, zero, six: te.max(te.min(a, b), zero).astype("uint8").astype(a.dtype),
}


def special(dtype: str) -> np.ndarray:
    limits = np.finfo(dtype)
    positive = np.array([0, limits.smallest_subnormal, limits.tiny, 1.5, 6, 7, limits.max, np.inf, np.nan], dtype)
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_special_numbers_are_as_in_the_interpreter(name: str, dtype: str) -> None:
    a, b = (x.ravel().copy() for x in np.meshgrid(special(dtype), special(dtype)))
    A, B = te.placeholder(a.shape, dtype, name="A"), te.placeholder(a.shape, dtype, name="B")
    zero, six = te.const(0.0, dtype), te.const(6.0, dtype)
    C = te.compute(a.shape, lambda i: EXPRESSIONS[name](A[i], B[i], zero, six), name="C")
    expected = np.zeros_like(a)
    tw.build(te.create_schedule(C.op), [A, B, C], target="interpret")(a, b, expected)
    for target in TARGETS:
        for lanes in (1, 4, 13, 48):
            s = te.create_schedule(C.op)
            s[C].vectorize(s[C].split(C.op.axis[0], factor=lanes)[1])
            found = np.zeros_like(a)
            tw.build(s, [A, B, C], target=target)(a, b, found)
            same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | (found != found) & (
                expected != expected
            )
            assert same.all(), (target, lanes, a[~same][0], b[~same][0], found[~same][0], expected[~same][0])


@pytest.mark.skipif(Target().architecture != "x86_64", reason="counts instructions of x86-64")
def test_a_minimum_of_vectors_takes_three_instructions_and_no_choice() -> None:
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), name="B")
    C = te.compute((8,), lambda i: te.min(A[i], B[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    code = tw.build(s, [A, B, C], target="llvm -mcpu=haswell").source("asm")
    assert len(re.findall(r"\tvminps\b", code)) == 2 and len(re.findall(r"\tvorps\b", code)) == 1
    assert "blendv" not in code and "vcmp" not in code


@pytest.mark.skipif(Target().architecture != "x86_64", reason="counts instructions of x86-64")
def test_a_maximum_of_vectors_is_a_range_where_there_is_that_instruction() -> None:
    A, B = te.placeholder((48,), name="A"), te.placeholder((48,), name="B")
    C = te.compute((48,), lambda i: te.max(A[i], B[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    code = tw.build(s, [A, B, C], target="llvm -mcpu=skylake-avx512").source("asm")
    assert len(re.findall(r"\tvrangeps\b", code)) == 3 == len(re.findall(r"\tvcmpunordps\b", code))
    assert "vmaxps" not in code and "vpmovd2m" not in code, "nothing is put in order by signs"
    code = tw.build(s, [A, B, C], target="llvm -mcpu=haswell").source("asm")
    assert len(re.findall(r"\tvmaxps\b", code)) == 12 and len(re.findall(r"\tvcmpunordps\b", code)) == 6
    assert "blendv" not in code, "nor is anything chosen"


def recurrence(least: bool, size: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Each number the lesser, or the greater, of what was before and of its own."""
    X = te.placeholder((size,), "float64", name="X")
    state = te.placeholder((size,), "float64", name="S")
    choose = te.min if least else te.max
    update = te.compute((size,), lambda i: choose(state[i - 1], X[i]) * 1.5, name="update")
    scan = te.scan(te.compute((1,), lambda i: X[i], name="init"), update, state, inputs=[X], name="scan")
    return te.create_schedule(scan.op), [X, scan]


@pytest.mark.parametrize("least", [True, False])
def test_recurrences_keep_special_numbers(least: bool) -> None:
    numbers = special("float64")
    data = np.random.default_rng(0).choice(numbers[~np.isnan(numbers)], 200)
    for tail in (data, np.append(data[:150], [np.nan, 1.0, -0.0, np.inf] * 5)):
        s, args = recurrence(least, len(tail))
        expected, found = np.zeros_like(tail), np.zeros_like(tail)
        tw.build(s, args, target="interpret")(tail, expected)
        for target in TARGETS:
            tw.build(s, args, target=target)(tail, found)
            np.testing.assert_array_equal(found, expected, target)
            zeros = expected == 0
            np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]), target)


@pytest.mark.skipif(Target().architecture != "x86_64", reason="counts instructions of x86-64")
def test_a_recurrence_waits_for_two_instructions_of_a_minimum() -> None:
    s, args = recurrence(True, 1000)
    code = tw.build(s, args, target="llvm -mcpu=haswell").source("asm")
    assert len(re.findall(r"\tvminsd\b", code)) == 2 * len(re.findall(r"\tvorp[sd]\b", code)) > 0
    assert "blendv" not in code and "vcmpunord" not in code
    s, args = recurrence(False, 1000)
    code = tw.build(s, args, target="llvm -mcpu=haswell").source("asm")
    assert len(re.findall(r"\tvmaxsd\b", code)) == 2 * len(re.findall(r"\tvandp[sd]\b", code)) > 0
