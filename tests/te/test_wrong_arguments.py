"""Arguments that mean nothing: typed errors from every function of te, whatever is passed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune, te
from tilewright.topi.fourier import fourier

ITSELF: list[Any] = []
ITSELF.append(ITSELF)
NONSENSE: list[Any] = [
    None,
    "",
    "x",
    b"x",
    1.5,
    float("nan"),
    10**30,
    -1,
    {},
    {1: 2},
    object(),
    np.float32(1.5),
    np.zeros(3),
    np.array(None),
    (1, [2]),
    slice(3),
    1j,
    ITSELF,
    "é" * 300,
    te,
]
A = te.placeholder((4, 6), name="A")
C = te.compute((4, 6), lambda i, j: A[i, j] + 1, name="C")
OFFERED = tw.topi.nn.conv2d(te.placeholder((1, 4, 6, 6)), te.placeholder((4, 4, 3, 3)), padding=1, algorithm="auto")
SPECTRUM = fourier(te.placeholder((2, 16, 2)), 1)
KERNEL = tw.build([A, C], target="interpret")
GRAPH = tw.graph.parse("graph g {\n  input x: float32[4]\n  y: float32[4] = relu(x)\n  output y\n}\n")
ENTRY_POINTS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: te.var(x, y),
    lambda x, y: te.size_var(x, y),
    lambda x, y: te.placeholder(x, y),
    lambda x, y: te.placeholder((4,), name=x),
    lambda x, y: te.compute(x, y),
    lambda x, y: te.reduce_axis(x, y),
    lambda x, y: te.thread_axis(x, y),
    lambda x, y: te.const(x, y),
    lambda x, y: te.tanh(x) + y,
    lambda x, y: te.padded(A, x),
    lambda x, y: te.extern(x, [A], y),
    lambda x, y: te.decl_buffer((4,), "float32", "b", strides=x),
    lambda x, y: te.decl_tensor_intrin(C.op, x, "i", y),
    lambda x, y: te.target_has(x),
    lambda x, y: te.create_schedule(x),
    lambda x, y: te.create_schedule(C.op)[C].mirror(x, y),
    lambda x, y: te.create_schedule(C.op)[C].polyphase(x, y),
    lambda x, y: te.create_schedule(C.op)[C].matricize(x, y),
    lambda x, y: te.create_schedule(C.op).factor(x, y),
    lambda x, y: te.create_schedule(C.op).factor(C, x),
    lambda x, y: te.create_schedule(C.op).fast_fourier(x, y),
    lambda x, y: te.create_schedule(SPECTRUM.op).fast_fourier(SPECTRUM, x),
    lambda x, y: te.create_schedule(C.op).redeclare(x, y),
    lambda x, y: te.create_schedule(OFFERED.op).redeclare(OFFERED, x),
    lambda x, y: tw.jit(x),
    lambda x, y: tw.jit(lambda a: a, dynamic=x),
    lambda x, y: tw.jit(lambda a, b: te.tanh(A[0, 0]))(x, y),
    lambda x, y: tw.Device(x, y) if isinstance(x, str) else tw.Device("cpu", x),
    lambda x, y: tw.graph.load(x),
    lambda x, y: autotune.Template("t", x),
    lambda x, y: tw.load(x, y),
    lambda x, y: tw.Library("l").add(x, [A, C], target=y),
    lambda x, y: tw.Library("l").add("f", x, y),
    lambda x, y: KERNEL.as_torch_op(x, y),
    lambda x, y: KERNEL.as_torch_op(f"wrong::{abs(hash(repr(x)))}", gradient=x),
    lambda x, y: KERNEL.source(x),
    lambda x, y: KERNEL.export(x, threads="none", loadable=y),
    lambda x, y: tw.build({"f": [A, C]}, target="interpret")[x],
    lambda x, y: tw.build(te.create_schedule(C.op), [A, x], target="interpret", name=y),
    lambda x, y: te.compute((4,), lambda i: A[i, 0], tag=x, attrs=y),
    lambda x, y: te.Schedule.replay(x, C.op),
    lambda x, y: te.create_schedule(C.op).verify(x),
    lambda x, y: GRAPH.save(x),
    lambda x, y: GRAPH.gradient(x, y),
    lambda x, y: GRAPH.training_step("y", x, optimizer=y),
]


@pytest.mark.parametrize("at", range(len(ENTRY_POINTS)))
def test_nonsense_is_a_typed_error(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a name like "x" is that of a file to write
    rng = drawn.rng("wrong arguments", at)
    pairs = [(x, NONSENSE[int(rng.integers(len(NONSENSE)))]) for x in NONSENSE]
    for x, y in pairs:
        with contextlib.suppress(tw.TilewrightError):  # a few mean something somewhere
            repr(ENTRY_POINTS[at](x, y))
