"""The mathematical functions of float32 that are vector code: their bounds on samples of all float32 values. Every value is
looked at by tools/benchmarks/ulp.py."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

import drawn
import fit_maths
import numpy as np
import pytest
import tilewright as tw
from maths_reference import FUNCTIONS, PAIRS, errors, sample
from this_machine import runnable
from tilewright import te
from tilewright.codegen.llvm.maths_polynomials import POLYNOMIALS

TARGETS = runnable("llvm", "llvm -mattr=-avx512f", "llvm -mattr=-avx512f,-fma", "llvm -mcpu=x86-64")


def kernel(name: str, *inputs: np.ndarray, lanes: int, target: str = "llvm", fast_math: bool = False) -> Any:
    """te's function of that name, in vectors of `lanes` lanes."""
    tensors = [te.placeholder(x.shape, "float32", f"x{i}") for i, x in enumerate(inputs)]
    y = te.compute(inputs[0].shape, lambda i: getattr(te, name)(*(x[i] for x in tensors)), "y")
    s = te.create_schedule(y)
    if lanes > 1:
        s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
    return tw.build(s, [*tensors, y], target=target, fast_math=fast_math)


def run(name: str, *inputs: np.ndarray, **options: Any) -> np.ndarray:
    out = np.empty_like(inputs[0])
    kernel(name, *inputs, **options)(*inputs, out)
    return out


def worst(name: str, bound: float, **options: Any) -> None:
    inputs = sample(name)
    got = run(name, *inputs, **options)
    with np.errstate(all="ignore"):
        error = errors(got, FUNCTIONS[name](*(x.astype(np.float64) for x in inputs)))
    at = int(np.argmax(error))
    assert error[at] <= bound, (
        f"{name}({', '.join(str(x[at]) for x in inputs)}) = {got[at]}, {error[at]} units away ({options})"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_at_most_two_units(name: str) -> None:
    worst(name, 2, lanes=16)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_at_most_sixteen_units_with_fast_math(name: str) -> None:
    inputs = sample(name)
    got = run(name, *inputs, lanes=16, fast_math=True)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](*(x.astype(np.float64) for x in inputs))
    exact[exact == 0] = got[exact == 0]  # there the sign of a zero may be lost
    assert errors(got, exact).max() <= 16


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bound_holds_on_older_processors(name: str) -> None:
    for target in TARGETS[1:]:
        worst(name, 2, lanes=8, target=target)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors_of_any_length_and_scalars_agree_to_the_bit(name: str) -> None:
    inputs = sample(name)
    one = run(name, *inputs, lanes=1)
    for lanes in (16, 8, 5, 48):
        many = run(name, *inputs, lanes=lanes)
        np.testing.assert_array_equal(one, many, f"{lanes} lanes")
        np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(many[one == 0]), f"{lanes} lanes")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", drawn.part(sorted(set(FUNCTIONS) - {"sqrt", "rsqrt"}), 5))
def test_no_library_is_called(name: str, dtype: str) -> None:
    tensors = [te.placeholder((64,), dtype, f"x{i}") for i in range(2 if name in PAIRS else 1)]
    y = te.compute((64,), lambda i: getattr(te, name)(*(x[i] for x in tensors)), "y")
    for lanes in (1, 16):
        s = te.create_schedule(y)
        s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
        for target in drawn.part(TARGETS, 2):
            called = {
                line.split()[1]
                for line in tw.build(s, [*tensors, y], target=target).source("asm").splitlines()
                if line.strip().startswith("call")
            }
            assert all(callee.startswith(("tw_", "*")) for callee in called), f"{target}, {lanes} lanes: {called}"


def test_a_scalar_loop_of_sines_is_made_of_vectors() -> None:
    x = te.placeholder((1000,), name="x")
    y = te.compute((1000,), lambda i: te.sin(x[i]) + 1, "y")
    asm = tw.build(te.create_schedule(y), [x, y], target="llvm -mcpu=x86-64-v4").source("asm")
    assert "tw_sin_v16f32" in asm
    data = np.linspace(-1e6, 1e6, 1000).astype(np.float32)
    out = np.empty_like(data)
    tw.build(te.create_schedule(y), [x, y])(data, out)
    np.testing.assert_allclose(out, np.sin(data.astype(np.float64)) + 1, atol=2e-7)


def test_cosines_and_sines_stay_within_one() -> None:
    x = np.linspace(-300, 300, 1 << 16).astype(np.float32)
    for name in ("sin", "cos"):
        assert np.abs(run(name, x, lanes=16)).max() == 1
    assert run("cos", np.zeros(16, np.float32), lanes=16).tolist() == [1.0] * 16


def test_huge_angles_are_reduced_exactly() -> None:
    """6381956970095103 * 2^797 is float64's hardest; of float32 these, with their sines to 40 digits, are hard."""
    x = np.array([1.6919e38, 3.4028235e38, 1e30, 8.5e22, 2.0**127, 16367173 * 2.0**72], np.float32)
    x = np.resize(x, 16)
    import mpmath

    with mpmath.workdps(60):
        for name, exact in (("sin", mpmath.sin), ("cos", mpmath.cos)):
            want = np.array([float(exact(mpmath.mpf(float(v)))) for v in x])
            assert errors(run(name, x, lanes=16), want).max() <= 2


@pytest.mark.parametrize("constant", fit_maths.FITS)
def test_coefficients_are_as_good_as_the_fit(constant: str) -> None:
    row = fit_maths.FITS[constant]
    used = fit_maths.error_of(row, POLYNOMIALS[constant])
    assert used <= 1.05 * fit_maths.fit(row)[1]


@pytest.mark.parametrize("constant", drawn.part(fit_maths.WIDE_FITS, 6))
def test_coefficients_of_float64_are_good_to_a_third_of_a_unit(constant: str) -> None:
    assert fit_maths.wide_error_of(fit_maths.WIDE_FITS[constant], POLYNOMIALS[f"{constant}_64"]) < 2.0**-55.4


def test_a_polynomial_of_float64_is_fitted() -> None:
    assert fit_maths.wide_fit(fit_maths.WIDE_FITS["SINH"])[1] < 2.0**-60


def test_each_polynomial_has_a_fit() -> None:
    assert set(POLYNOMIALS) == {*fit_maths.FITS, *(f"{name}_64" for name in fit_maths.WIDE_FITS)}


MODES = {"x86_64": (0x400, 0x800, 0xC00), "aarch64": (0x400000, 0x800000, 0xC00000)}
"""Down, up and towards zero, as fesetround takes them."""


@pytest.mark.skipif(platform.machine() not in MODES, reason="what fesetround takes is not known of this processor")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_reduced_in_every_mode_of_rounding(name: str) -> None:
    inputs, set_mode = sample(name), ctypes.CDLL(None).fesetround
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](*(x.astype(np.float64) for x in inputs))
    normal = (np.abs(exact) > 1.2e-38) & (np.abs(exact) < 3.4e38)
    for target in drawn.part(TARGETS, 2):
        call = kernel(name, *inputs, lanes=16, target=target)
        for mode in MODES[platform.machine()]:
            out = np.empty_like(inputs[0])
            set_mode(mode)
            try:
                call(*inputs, out)
            finally:
                set_mode(0)
            assert errors(out[normal], exact[normal]).max() <= 8, f"{name} on {target}, mode {mode:#x}"
