"""Kernels on the emulated GPU without a look at each access."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def test_what_nobody_checks_computes_the_same_and_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays whose rows begin between vectors are copied to where a GPU's memory begins."""
    a = te.placeholder((8, 64), name="A")
    b = te.compute((8, 64), lambda i, j: te.exp(a[i, 63 - j]), name="B")
    s = te.create_schedule(b.op)
    store = s.cache_read(a, "shared", [b])
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    outer, inner = s[b].split(b.op.axis[1], 4)
    s[b].bind(outer, te.thread_axis("threadIdx.x"))
    s[b].vectorize(inner)
    s[store].compute_at(s[b], b.op.axis[0])
    place, lane = s[store].split(store.op.axis[1], 4)
    s[store].bind(place, te.thread_axis("threadIdx.x"))
    s[store].vectorize(lane)
    f = tw.build(s, [a, b], target="cuda -emulate")
    x = np.linspace(-1, 1, 513, dtype="float32")[1:].reshape(8, 64)
    checked, unchecked = np.zeros((8, 64), "float32"), np.zeros(513, "float32")[1:].reshape(8, 64)
    f(x, checked)
    assert f.kernels[0].traffic, "accesses are counted where they are checked"
    monkeypatch.setenv("TILEWRIGHT_EMULATE_CHECK", "0")
    f(x, unchecked)
    assert (unchecked == checked).all() and (np.diff(checked[0]) < 0).all()
    assert f.kernels[0].traffic == ()
