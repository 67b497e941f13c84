"""Drawn GPU schedules on the emulated GPU: each is refused by a typed error or agrees with numpy, races and all checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gpu_programs import Program, block, thread
from tilewright import te
from tilewright.base.errors import TilewrightError


def matmul(rng: Any) -> tuple[list[Any], Callable[..., np.ndarray]]:
    m, n, k = (int(extent) for extent in rng.choice([1, 3, 8, 13, 16, 21], 3))
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B, C], lambda a, b: a @ b


def row_extremes(rng: Any) -> tuple[list[Any], Callable[..., np.ndarray]]:
    m, n, k = (int(extent) for extent in rng.choice([1, 3, 7, 16], 3))
    A = te.placeholder((m, n, k), name="A")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((m, n), lambda i, j: te.max(A[i, j, r], axis=r), name="C")
    return [A, C], lambda a: a.max(axis=2)


def stencil(rng: Any) -> tuple[list[Any], Callable[..., np.ndarray]]:
    m, n = (int(extent) for extent in rng.choice([1, 5, 12, 17], 2))
    A = te.placeholder((m, n), name="A")

    def blurred(i: Any, j: Any) -> Any:
        left, right = te.max(j - 1, 0), te.min(j + 1, n - 1)
        return A[i, left] + A[i, j] * 2.0 + A[i, right]

    B = te.compute((m, n), blurred, name="B")
    C = te.compute((m, n), lambda i, j: te.if_then_else(i > 0, B[te.max(i - 1, 0), j], 0.0) + B[i, j], name="C")

    def reference(a: np.ndarray) -> np.ndarray:
        padded = np.pad(a, ((0, 0), (1, 1)), mode="edge")
        b = padded[:, :-2] + 2 * a + padded[:, 2:]
        return b + np.vstack([np.zeros((1, n)), b[:-1]])

    return [A, C], reference


def windowed(rng: Any) -> tuple[list[Any], Callable[..., np.ndarray]]:
    m, n = (int(extent) for extent in rng.choice([1, 4, 9], 2))
    A = te.placeholder((m + 2, n + 2), name="A")
    y, x = te.reduce_axis((0, 3), name="y"), te.reduce_axis((0, 3), name="x")
    C = te.compute((m, n), lambda i, j: te.sum(A[i + y, j + x], axis=[y, x]), name="C")
    return [A, C], lambda a: np.lib.stride_tricks.sliding_window_view(a, (3, 3)).sum(axis=(2, 3))


class Draw:
    """One drawn schedule."""

    def __init__(self, rng: Any, args: list[Any]) -> None:
        self.rng, self.args = rng, args
        self.C = args[-1]
        self.s = te.create_schedule(self.C.op)
        self.threads = {"x": int(rng.choice([1, 2, 4, 8, 32])), "y": int(rng.choice([1, 2, 4]))}

    def often(self, chance: float) -> bool:
        return bool(self.rng.random() < chance)

    def factor(self) -> int:
        return int(self.rng.choice([1, 2, 3, 4, 8]))

    def run(self) -> Program:
        s, C = self.s, self.C
        cached = bool(C.op.reduce_axis) and self.often(0.5)
        CL = s.cache_write(C, "local") if cached else None
        i, j = s[C].op.axis
        bound = self.tile(i, j)
        reducer = CL if CL is not None else C
        if CL is not None:
            s[CL].compute_at(s[C], bound)
        place: tuple[Any, Any] = (C, bound)
        if C.op.reduce_axis or CL is not None:
            place = self.reduction(reducer, place)
        for producer in list(C.op.input_tensors if CL is None else s[CL].op.input_tensors):
            if not producer.op.input_tensors:
                if self.often(0.6):
                    self.fetch(producer, reducer, place)
            elif self.often(0.5):
                s[producer].compute_inline()
            else:
                self.cooperative(producer, *place)
        return s

    def tile(self, i: Any, j: Any) -> Any:
        """The output's loops: blocks, maybe virtual threads, threads, rest. Returns the innermost thread loop."""
        s, C = self.s, self.C
        io, ii = s[C].split(i, factor=self.factor() * self.threads["y"])
        jo, ji = s[C].split(j, factor=self.factor() * self.threads["x"])
        order = [io, jo]
        if self.often(0.3):
            vi, ii = s[C].split(ii, nparts=2)
            s[C].bind(vi, te.thread_axis("vthread"))
            order.append(vi)
        ti, ii = s[C].split(ii, nparts=self.threads["y"])
        tj, ji = s[C].split(ji, nparts=self.threads["x"])
        s[C].reorder(*order, ti, tj, ii, ji)
        s[C].bind(io, block("y"))
        s[C].bind(jo, block("x"))
        s[C].bind(ti, thread(self.threads["y"], "y"))
        s[C].bind(tj, thread(self.threads["x"], "x"))
        if self.often(0.2):
            s[C].vectorize(ji)
        elif self.often(0.2):
            s[C].unroll(ji)
        return tj

    def reduction(self, stage: Any, place: tuple[Any, Any]) -> tuple[Any, Any]:
        s = self.s
        outer, inner = s[stage].split(s[stage].op.reduce_axis[0], factor=self.factor())
        if stage is self.C:
            return place
        s[stage].reorder(outer, inner, *s[stage].op.axis)
        return (stage, outer) if self.often(0.7) else place

    def fetch(self, producer: Any, reader: Any, place: tuple[Any, Any]) -> None:
        S = self.s.cache_read(producer, "shared", [reader])
        self.cooperative(S, *place)

    def cooperative(self, S: Any, stage: Any, axis: Any) -> None:
        s = self.s
        s[S].compute_at(s[stage], axis)
        s[S].set_scope("shared")
        fused = s[S].fuse(*s[S].op.axis)
        if self.often(0.2):
            fused, lanes = s[S].split(fused, factor=4)
            s[S].vectorize(lanes)
        for name in ("x", "y"):
            if self.often(0.8):
                fused, part = s[S].split(fused, factor=self.threads[name])
                s[S].bind(part, thread(self.threads[name], name))


DRAWS = (matmul, row_extremes, stencil, windowed)


def reductions(rng: Any) -> tuple[Any, list[Any], Callable[..., np.ndarray]]:
    """A reduction across threads, at root or at a block of what reads it, in any order of its loops."""
    m, n, k = (int(extent) for extent in rng.choice([1, 2, 5, 8, 17, 40], 3))
    dtype = str(rng.choice(["float32", "float32", "int32", "float64"]))
    A = te.placeholder((m, n, k), dtype, name="A")
    r = te.reduce_axis((0, k), name="r")
    kind = str(rng.choice(["sum", "max", "min"]))
    B = te.compute((m, n), lambda i, j: getattr(te, kind)(A[i, j, r], axis=r), name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] + B[m - 1 - i, n - 1 - j], name="C")
    s = te.create_schedule(C.op)
    size = {"x": int(rng.choice([1, 2, 3, 8, 32, 64])), "y": int(rng.choice([1, 2, 4, 5]))}
    across, other = ("x", "y") if rng.random() < 0.7 else ("y", "x")
    i, j = s[C].op.axis
    jo, ji = s[C].split(j, factor=size["x"])
    s[C].bind(i, block())
    s[C].bind(ji, thread(size["x"], "x"))
    at_block = rng.random() < 0.5
    io, ii = s[B].op.axis
    ro, ri = s[B].split(s[B].op.reduce_axis[0], factor=size[across])
    to, ti = s[B].split(ii, factor=size[other])
    s[B].bind(ri, thread(size[across], across))
    s[B].bind(ti, thread(size[other], other))
    order = [ro, ri, to, ti]
    rng.shuffle(order)
    s[B].reorder(io, *order)
    if at_block:
        s[B].compute_at(s[C], i)
        if rng.random() < 0.3:
            s[C].reorder(i, jo, ji)
    else:
        s[B].bind(io, block())
    return (
        s,
        [A, C],
        lambda a: (b := getattr(a, kind)(axis=2, **({"dtype": dtype} if kind == "sum" else {}))) + b[::-1, ::-1],
    )


def test_drawn_reductions_across_threads_are_refused_or_right(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, refusals = 0, []
    count = drawn.count(30, 1000)
    for case in range(count):
        rng = drawn.rng("gpu reductions", case)
        try:
            schedule, args, reference = reductions(rng)
            kernel = tw.build(schedule, args, target="cuda -emulate")
        except TilewrightError as error:
            refusals.append(str(error).splitlines()[0])
            continue
        accepted += 1
        shape = [int(e) for e in args[0].shape]
        values = (rng.standard_normal(shape) * 9).astype(str(args[0].dtype))
        output = np.full([int(e) for e in args[1].shape], 77, str(args[0].dtype))
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(case))
        kernel(values, output)
        np.testing.assert_allclose(
            output, reference(values), rtol=1e-4, atol=1e-4, err_msg=f"case {case} of seed {drawn.SEED}"
        )
    assert accepted >= count / 3, refusals


def test_drawn_schedules_are_refused_or_right(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, refusals = 0, []
    count = drawn.count(40, 1500)
    for case in range(count):
        rng = drawn.rng("gpu schedules", case)
        args, reference = DRAWS[int(rng.integers(len(DRAWS)))](rng)
        inputs = [rng.standard_normal([int(e) for e in t.shape]).astype("float32") for t in args[:-1]]
        output = np.full([int(e) for e in args[-1].shape], 77, "float32")
        try:
            schedule = Draw(rng, args).run()
            kernel = tw.build(schedule, args, target="cuda -emulate")
        except TilewrightError as error:
            refusals.append(str(error).splitlines()[0])
            continue
        accepted += 1
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(case))
        kernel(*inputs, output)
        np.testing.assert_allclose(
            output, reference(*inputs), rtol=1e-4, atol=1e-4, err_msg=f"case {case} of seed {drawn.SEED}"
        )
        if os.environ.get("TILEWRIGHT_SOAK") != "1" and case % 4 == 0:
            assert tw.build(schedule, args, target="cuda -arch=sm_80").source("ptx")
    assert accepted >= count / 3, refusals
