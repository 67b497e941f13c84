"""The mathematical functions of float64 that are vector code: their bounds, by mpmath, and the values of C's standard."""

from __future__ import annotations

from typing import Any

import drawn
import mpmath
import numpy as np
import pytest
import tilewright as tw
from maths_reference import FUNCTIONS, sample
from this_machine import runnable
from tilewright import te
from tilewright.codegen.llvm import maths

TARGETS = runnable("llvm -mcpu=haswell", "llvm -mattr=-avx512f,-fma", "llvm -mcpu=x86-64") or ["llvm"]
NAMES = sorted(maths.FUNCTIONS)
COUNT = 400

mp = mpmath.mp
EXACT: dict[str, Any] = {name: getattr(mp, name) for name in NAMES if hasattr(mp, name)} | {
    "exp2": lambda x: mp.power(2, x),
    "exp10": lambda x: mp.power(10, x),
    "log2": lambda x: mp.log(x) / mp.log(2),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "pow": mp.power,
}


def run(name: str, *inputs: np.ndarray, lanes: int, target: str = "llvm") -> np.ndarray:
    """te's function of that name, in vectors of `lanes` lanes."""
    tensors = [te.placeholder(x.shape, "float64", f"x{i}") for i, x in enumerate(inputs)]
    y = te.compute(inputs[0].shape, lambda i: getattr(te, name)(*(x[i] for x in tensors)), "y")
    s = te.create_schedule(y)
    if lanes > 1:
        s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
    out = np.empty_like(inputs[0])
    tw.build(s, [*tensors, y], target=target)(*inputs, out)
    return out


def units(got: float, exact: Any) -> float:
    """The error in units in the last place of the exact value's float64."""
    if isinstance(exact, mpmath.mpc) or exact != exact:
        return 0.0 if got != got else np.inf
    if got != got:
        return np.inf
    beyond = mp.mpf(2) ** 1024
    size = mp.mpf(got) if abs(got) < np.inf else mp.sign(got) * beyond
    exact = max(-beyond, min(beyond, exact))
    exponent = max(mp.frexp(exact)[1] - 1, -1022) if exact else -1022
    return float(abs(size - exact) / mp.mpf(2) ** (exponent - 52))


def usual(name: str) -> tuple[np.ndarray, ...]:
    """Arguments that are neither 0 nor infinite, at which the function is not either."""
    inputs = sample(name, "float64")
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](*inputs)
    kept = np.flatnonzero(np.isfinite(np.stack(inputs)).all(0) & (np.stack(inputs) != 0).all(0) & ~np.isnan(expected))
    chosen = kept[drawn.rng(f"usual {name}").permutation(len(kept))[:COUNT]]
    return tuple(x[chosen] for x in inputs)


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_at_most_two_units(name: str) -> None:
    inputs = usual(name)
    with mp.workprec(140):
        exact = [EXACT[name](*map(mp.mpf, values)) for values in zip(*(x.tolist() for x in inputs), strict=True)]
        for target in ["llvm", *drawn.part(TARGETS, 1)]:
            got = run(name, *inputs, lanes=8, target=target)
            errors = [units(*pair) for pair in zip(got.tolist(), exact, strict=True)]
            at = int(np.argmax(errors))
            shown = f"{name}({', '.join(repr(x[at]) for x in inputs)}) = {got[at]!r} on {target}"
            assert errors[at] <= 2, f"{shown}, {errors[at]} units away"


@pytest.mark.parametrize("name", NAMES)
def test_zeros_infinities_and_nan_are_those_of_numpy(name: str) -> None:
    inputs = sample(name, "float64")
    both = np.stack(inputs)
    chosen = np.flatnonzero(~np.isfinite(both).all(0) | (both == 0).any(0) | (np.abs(both) == 1).any(0))
    inputs = tuple(x[chosen] for x in inputs)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](*inputs)
    for target in ["llvm", *drawn.part(TARGETS, 1)]:
        got = run(name, *inputs, lanes=8, target=target)
        np.testing.assert_allclose(got, expected, rtol=1e-15, atol=0, err_msg=f"{name} on {target}")
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]), f"{name} on {target}")


@pytest.mark.parametrize("name", NAMES)
def test_vectors_of_any_length_and_scalars_agree_to_the_bit(name: str) -> None:
    inputs = tuple(np.ascontiguousarray(x[::-7]) for x in sample(name, "float64"))
    target = drawn.part(["llvm", *TARGETS], 1)[0]
    one = run(name, *inputs, lanes=1, target=target)
    for lanes in (8, 5, 24):
        many = run(name, *inputs, lanes=lanes, target=target)
        np.testing.assert_array_equal(one, many, f"{lanes} lanes")
        np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(many[one == 0]), f"{lanes} lanes")


@pytest.mark.parametrize("name", drawn.part(["sin", "cos", "tan"], 1))
def test_huge_angles_are_reduced_exactly(name: str) -> None:
    """6381956970095103 * 2^797 is the float64 that is nearest to a multiple of pi / 2 (J.-M. Muller et al., 2018)."""
    x = np.array(
        [6381956970095103.0 * 2.0**797, 1.7976931348623157e308, 1e22, 2.0**1023, 2.0**20, 2.0**21 + 0.5, 1e9, -1e300]
    )
    got = run(name, x, lanes=8)
    with mp.workprec(1300):
        assert max(units(g, EXACT[name](mp.mpf(v))) for g, v in zip(got.tolist(), x.tolist(), strict=True)) <= 2
