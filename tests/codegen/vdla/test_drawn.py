"""Drawn schedules of a layer on the accelerator: the result is that of the unscheduled program, and no fault is found."""

from __future__ import annotations

import random
from typing import Any

import drawn
import pytest
from tilewright import te
from tilewright.codegen import vdla
from vdla_programs import assert_same_bits

EPILOGUES: list[Any] = [
    lambda s, b: te.max((s + b) >> 2, -3),
    lambda s, b: te.min(te.max(s, b) + s, 100),
    lambda s, b: s - 1,
]


@pytest.mark.parametrize("number", range(8))
def test_a_drawn_schedule_computes_what_was_declared(number: int) -> None:
    r = random.Random(drawn.SEED * 1000 + number)
    n, m, d = (r.choice([8, 16, 32]) for _ in range(3))
    A, B, b = (
        te.placeholder((n, d), "int8", "A"),
        te.placeholder((d, m), "int8", "B"),
        te.placeholder((m,), "int32", "b"),
    )
    k = te.reduce_axis((0, d), "k")
    S = te.compute((n, m), lambda y, x: te.sum(A[y, k].astype("int32") * B[k, x].astype("int32"), axis=k), "S")
    epilogue, dtype = r.choice(EPILOGUES), r.choice(["int8", "int32"])
    R = te.compute((n, m), lambda y, x: epilogue(S[y, x], b[x]), "R")
    out = te.compute((n, m), lambda y, x: R[y, x].astype(dtype), "out")
    s = te.create_schedule(out.op)
    AL, BL = s.cache_read(A, vdla.inp_buffer), s.cache_read(B, r.choice([vdla.wgt_buffer, vdla.inp_buffer]))
    stages = [S, R] if epilogue is EPILOGUES[2] else [S, R, s.cache_read(b, vdla.acc_buffer)]
    place = tiles(s, out, r)
    for stage in stages:
        s[stage].set_scope(vdla.acc_buffer)
        s[stage].compute_at(s[out], place)
    size, depth = r.choice([4, 8]), r.choice([4, 8])
    yo, xo, yi, xi = s[S].tile(*S.op.axis, size, size)
    ko, ki = s[S].split(k, depth * r.choice([1, 2]))
    km, ki = s[S].split(ki, depth)
    outer = r.choice([[ko, yo, xo, km], [yo, ko, xo, km], [yo, xo, ko, km], [ko, km, yo, xo]])
    s[S].reorder(*outer, yi, xi, ki)
    s[S].tensorize(yi, vdla.gemm(size, size, depth))
    for copy in (AL, BL):
        if r.random() < 0.8:
            s[copy].compute_at(s[S], r.choice(outer))
    assert_same_bits(s, [A, B, *([b] if len(stages) == 3 else []), out])


def tiles(s: te.Schedule, out: te.Tensor, r: random.Random) -> Any:
    """Tiles of 8 by 8 of the output, in one of the ways of sharing them among virtual threads; where a tile is computed."""
    yo, xo, yi, xi = s[out].tile(*out.op.axis, 8, 8)
    how = r.choice(["one", "rows", "columns", "tiles", "both", "unrolled"])
    if how == "unrolled":
        s[out].unroll(xo)
    if how in ("one", "unrolled"):
        return xo
    if how == "both":
        s[out].bind(yo, te.thread_axis("vthread"))
        s[out].bind(xo, te.thread_axis("cthread"))
        return xo
    if how == "tiles":
        _, thread = s[out].split(s[out].fuse(yo, xo), 2)
    else:
        rest, thread = s[out].split(yo if how == "rows" else xo, 2)
        s[out].reorder(rest, *([xo] if how == "rows" else [yo]), thread, yi, xi)
    s[out].bind(thread, te.thread_axis("vthread"))
    return thread
