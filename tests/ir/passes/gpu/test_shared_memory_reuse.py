"""Shared memory of which one part is needed after the other: one place, and a barrier between."""

from __future__ import annotations

from typing import Any

import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from planted_faults import built, dropped
from tilewright import te
from tilewright.autoschedule.scheduler import schedule
from tilewright.base.errors import CudaError

EXTENT = 96


class Product:
    """Of two matrices of float16 on tensor cores, whose tile leaves through shared memory."""

    def __init__(self, columns: int = EXTENT) -> None:
        A = te.placeholder((EXTENT, EXTENT), "float16", name="A")
        B = te.placeholder((EXTENT, columns), "float16", name="B")
        k = te.reduce_axis((0, EXTENT), "k")
        C = te.compute(
            (EXTENT, columns), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), "C"
        )
        self.args = [A, B, C]
        names = "tensor cores, tiles of 64 x 32 x 64, 2 x 2 warps of 32 x 16, 3 stages"
        self.schedule = schedule(
            [C],
            "cuda -emulate",
            chooser=lambda _, ways: next(at for at, way in enumerate(ways) if way.description == names),
        )

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        return [
            rng.integers(-8, 9, [int(extent) for extent in tensor.shape]).astype("float16") for tensor in self.args[:-1]
        ]

    def output(self) -> np.ndarray:
        return np.zeros([int(extent) for extent in self.args[-1].shape], "float32")


@pytest.mark.parametrize("columns", [EXTENT, 67])
def test_the_result_lies_where_the_pipeline_was(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where some blocks have guards, so that there are two ways through the kernel."""
    program = Product(columns)
    f = tw.build(program.schedule, program.args, target="cuda -emulate")
    text = f.source("cuda")
    places = [line.split(" + ")[1] for line in text.splitlines() if "reinterpret_cast<" in line and "*const" in line]
    assert len(places) == 3 and places.count("0);") == 2, "the result begins where the first matrix does"
    a, b = program.inputs()
    for order in gpu_choices.ORDERS:
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(order))
        f(a, b, c := program.output())
        np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))


def test_without_the_barrier_between_them_it_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = Product()
    kernel = built(monkeypatch, program, dropped(-2))
    for order in gpu_choices.ORDERS:
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(order))
        with pytest.raises(CudaError, match="TW0820: race"):
            kernel(*program.inputs(), program.output())


def test_what_is_needed_at_once_lies_apart() -> None:
    A = te.placeholder((4096,), name="A")
    B = te.compute((4096,), lambda i: A[i] + A[4095 - i], name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].op.axis[0], factor=1024)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis((0, 1024), "threadIdx.x"))
    copies = [s.cache_read(A, "shared", [B])]
    s[copies[0]].compute_at(s[B], outer)
    s[copies[0]].bind(
        s[copies[0]].split(s[copies[0]].op.axis[0], factor=1024)[1], te.thread_axis((0, 1024), "threadIdx.x")
    )
    f = tw.build(s, [A, B], target="cuda -emulate")
    assert "unsigned char" not in f.source("cuda").split("__global__")[1]
