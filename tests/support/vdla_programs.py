"""Programs for the accelerator, with schedules, for the tests of codegen/vdla."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla
from tilewright.codegen.vdla.program import Program, build_program
from tilewright.ir.interpret.interpreter import Interpreter


def product(
    sizes: tuple[int, int, int],
    *,
    tile: tuple[int, int] = (16, 16),
    depth: int = 16,
    intrinsic: int = 8,
    threads: int = 1,
    layout: str = "kykx",
    weights: str = vdla.wgt_buffer,
) -> tuple[te.Schedule, list[te.Tensor]]:
    """A product of int8 matrices. sizes: rows, columns, depth. layout: how both lie, "yk" or "ky" and then "kx" or "xk"."""
    n, m, d = sizes
    a_turned, b_turned = layout[:2] == "ky", layout[2:] == "xk"
    A = te.placeholder((d, n) if a_turned else (n, d), "int8", "A")
    B = te.placeholder((m, d) if b_turned else (d, m), "int8", "B")
    k = te.reduce_axis((0, d), "k")
    C = te.compute(
        (n, m),
        lambda y, x: te.sum(
            (A[k, y] if a_turned else A[y, k]).astype("int32") * (B[x, k] if b_turned else B[k, x]).astype("int32"),
            axis=k,
        ),
        "C",
    )
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, vdla.acc_buffer)
    AL, BL = s.cache_read(A, vdla.inp_buffer), s.cache_read(B, weights)
    place, y = s[C].split(C.op.axis[0], nparts=threads)
    yo, xo, yi, xi = s[C].tile(y, C.op.axis[1], *tile)
    s[C].reorder(yo, xo, place, yi, xi)
    if threads > 1:
        s[C].bind(place, te.thread_axis("vthread"))
    s[CL].compute_at(s[C], place)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], depth)
    km, ki = s[CL].split(ki, intrinsic)
    cyo, cxo, cyi, cxi = s[CL].tile(*s[CL].op.axis, intrinsic, intrinsic)
    s[CL].reorder(ko, cyo, cxo, km, cyi, cxi, ki)
    s[AL].compute_at(s[CL], ko)
    s[BL].compute_at(s[CL], ko)
    s[CL].tensorize(cyi, vdla.gemm8x8 if intrinsic == 8 else vdla.gemm(intrinsic, intrinsic, intrinsic))
    return s, [A, B, C]


def arrays(args: list[te.Tensor], seed: int = 0) -> list[Any]:
    """Drawn integers for the inputs, and an output that holds something else."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(extent) for extent in tensor.shape) for tensor in args]
    bounds = [np.iinfo(str(tensor.dtype)) for tensor in args]
    least = [max(bound.min, -(10**5)) for bound in bounds]
    return [
        rng.integers(low, min(bound.max, 10**5), shape, str(tensor.dtype), endpoint=True)
        for tensor, shape, bound, low in zip(args, shapes, bounds, least, strict=True)
    ]


def compiled(s: te.Schedule, args: list[te.Tensor]) -> Program:
    """What f.kernels[0] of a build is, without what calls it."""
    return build_program(tw.lower(s, args))


def assert_same_bits(s: te.Schedule, args: list[te.Tensor]) -> Program:
    """The program, whose result is that of the unscheduled one."""
    program, values = compiled(s, args), arrays(args)
    expected = values[-1].copy()
    Interpreter(tw.lower(te.create_schedule(args[-1].op), args))(*values[:-1], expected)
    program.run({tensor.name: value for tensor, value in zip(args, values, strict=True)})
    np.testing.assert_array_equal(values[-1], expected)
    return program
