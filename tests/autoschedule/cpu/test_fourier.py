"""Fourier transforms become passes of small ones, of factors that fill vectors."""

from __future__ import annotations

from math import prod

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cost.fourier import PassCycles
from tilewright.autoschedule.cpu.fourier import fourier_steps
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target
from tilewright.topi.fourier import fourier

TARGET = "llvm -mcpu=haswell"


def test_the_factors_are_those_of_the_length_or_of_a_longer_one() -> None:
    wide, narrow = (
        PassCycles(machine.lanes(bits), machine)
        for cpu, bits in (("skylake-avx512", 32), ("haswell", 64))
        for machine in [find_machine(Target.parse(f"llvm -mcpu={cpu} -uncalibrated"))]
    )
    for n in (*range(16, 130), 1000, 1009, 1024, 2310, 4096, 65536):
        for passes in (wide, narrow):
            steps = fourier_steps(n, passes)
            length = prod(map(prod, steps))
            assert length == n or 2 * n - 1 <= length < 4 * n, (n, steps)
            assert steps[0] and passes.of(steps) > 0
    assert prod(map(prod, fourier_steps(1009, wide))) == 2048
    assert max(max(step) for step in fourier_steps(4096, wide)) <= 16


@pytest.mark.parametrize("n", drawn.part([16, 29, 60, 97, 100, 243, 256, 1000, 1009, 1331], 4))
def test_transforms_are_passes_where_sums_may_take_another_order(n: int) -> None:
    x = te.placeholder((3, n, 2), name="x")
    y = fourier(x, 1)
    s = tw.autoschedule.schedule(y, TARGET)
    row = next(row for row in s.plan if row.rule == "fourier")
    assert row.chosen == 1 and row.description.startswith("passes of") and not s.is_exact
    array, out = drawn.rng(f"passes {n}").standard_normal((3, n, 2)).astype("float32"), np.empty((3, n, 2), "float32")
    tw.build(s, [x, y])(array, out)
    want = np.fft.fft(array[..., 0].astype("float64") + 1j * array[..., 1])
    np.testing.assert_allclose(out[..., 0] + 1j * out[..., 1], want, atol=2e-6 * np.abs(want).max())
    exact = tw.autoschedule.schedule(y, TARGET, exact=True)
    assert exact.is_exact and not any(row.rule == "fourier" for row in exact.plan)


def test_parts_and_windows_are_passes_too() -> None:
    real, imaginary = te.placeholder((2, 3, 48), "float64", "re"), te.placeholder((2, 3, 48), "float64", "im")
    x, window = te.placeholder((2, 200), name="x"), te.placeholder((64,), name="window")
    for outputs in (topi.dft(real, imaginary, True), [topi.stft(x, 64, 16, 64, window)]):
        plan = tw.autoschedule.schedule(outputs, TARGET).plan
        assert [row.chosen for row in plan if row.rule == "fourier"] == [1]
