"""GPU kernels on the emulated GPU, in several orders of threads and with the race checker on, against numpy; and each
compiled for real ones."""

from __future__ import annotations

import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from tilewright.codegen.target import CUDA_ARCHITECTURES

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("name", gpu_programs.PROGRAMS)
def test_kernels_agree_with_numpy_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.PROGRAMS[name]()
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate")
    inputs = program.inputs()
    expected = program.reference(*inputs)
    for seed in SEEDS:
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        output = program.output()
        kernel(*inputs, output)
        found, limit = output.astype("float64"), program.tolerance
        np.testing.assert_allclose(found, expected.astype("float64"), rtol=limit, atol=limit)


@pytest.mark.parametrize("arch", CUDA_ARCHITECTURES)
@pytest.mark.parametrize("name", gpu_programs.PROGRAMS)
def test_kernels_compile_to_machine_code(name: str, arch: str) -> None:
    program = gpu_programs.PROGRAMS[name]()
    kernel = tw.build(program.schedule, program.args, target=f"cuda -arch={arch}")
    assert f".target {arch}" in kernel.source("ptx")
    for launch in kernel.kernels:
        assert f".visible .entry {launch.name}(" in kernel.source("ptx")
