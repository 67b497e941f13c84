"""GPU kernels on the emulated GPU, in several orders of threads and with the race checker on, against numpy; and each
compiled for real ones."""

from __future__ import annotations

import drawn
import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.gpus import GPUS

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("name", drawn.part(gpu_programs.PROGRAMS, 14))
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


@pytest.mark.parametrize("arch", drawn.part(GPUS, 2))
@pytest.mark.parametrize("name", drawn.part(gpu_programs.PROGRAMS, 6))
def test_kernels_compile_to_machine_code(name: str, arch: str) -> None:
    program = gpu_programs.PROGRAMS[name]()
    kernel = tw.build(program.schedule, program.args, target=f"cuda -arch={arch}")
    assert f".target {arch}" in kernel.source("ptx")
    for launch in kernel.kernels:
        assert f".visible .entry {launch.name}(" in kernel.source("ptx")


@pytest.mark.parametrize("threads", [3, 8, 64])
def test_virtual_threads_that_join_a_reduction_of_real_threads_have_places_of_their_own(threads: int) -> None:
    rows, n = 2, 130
    A = te.placeholder((n, rows), "int32", name="A")
    r = te.reduce_axis((0, n), "r")
    B = te.compute((rows,), lambda i: te.sum(A[r, i], axis=r), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("vthread"))
    outer, inner = s[B].split(B.op.reduce_axis[0], nparts=threads)
    steps, _ = s[B].split(inner, nparts=2)
    s[B].reorder(steps, B.op.axis[0], outer)  # the elements' loop is within a loop of the reduction: its init is apart
    s[B].bind(outer, te.thread_axis("threadIdx.y"))
    values = np.random.default_rng(threads).integers(-9, 9, (n, rows)).astype("int32")
    found = np.empty(rows, "int32")
    tw.build(s, [A, B], target="cuda -emulate")(values, found)
    np.testing.assert_array_equal(found, values.sum(0))


def test_threads_over_no_elements_reduce_nothing() -> None:
    A, B = te.placeholder((2, 1), name="A"), te.placeholder((1, 0), name="B")
    r = te.reduce_axis((0, 1), "r")
    C = te.compute((2, 0), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(s[C].fuse(*C.op.axis), factor=8)
    s[C].bind(inner, te.thread_axis((0, 8), "threadIdx.x"))
    s[C].reorder(C.op.reduce_axis[0], inner)
    found = np.empty((2, 0), "float32")
    tw.build(s, [A, B, C], target="cuda -emulate")(np.ones((2, 1), "float32"), np.empty((1, 0), "float32"), found)
    assert found.shape == (2, 0)
