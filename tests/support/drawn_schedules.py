"""Small programs, and primitives on them, drawn: what tests of lowering and of passes schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lowered
import numpy as np
from tilewright import te

__all__ = ["PROGRAMS", "Program", "draw_primitive"]

Program = tuple[Any, list[Any], list[np.ndarray], np.ndarray]


def matmul(rng: np.random.Generator) -> Program:
    m, n, k = (int(rng.choice([1, 2, 3, 4, 5, 8, 9])) for _ in range(3))
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    P = te.compute((k, n), lambda i, j: B[i, j] * 2.0, name="P")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * P[r, j], axis=r), name="C")
    D = te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    a, b = lowered.floats(m, k), lowered.floats(k, n, seed=1)
    return D, [A, B, D], [a, b], np.maximum(a @ (2 * b), 0)


def blur(rng: np.random.Generator) -> Program:
    m, n = (int(rng.choice([1, 2, 3, 5, 8, 9])) for _ in range(2))
    A = te.placeholder((m, n), name="A")
    P = te.compute(
        (m + 2, n + 2),
        lambda i, j: te.if_then_else(te.all(i >= 1, i <= m, j >= 1, j <= n), A[i - 1, j - 1], 0.0),
        name="P",
    )
    X = te.compute((m + 2, n), lambda i, j: P[i, j] + P[i, j + 1] + P[i, j + 2], name="X")
    Y = te.compute((m, n), lambda i, j: X[i, j] + X[i + 1, j] + X[i + 2, j], name="Y")
    a = lowered.floats(m, n)
    p = np.pad(a, 1)
    x = p[:, :-2] + p[:, 1:-1] + p[:, 2:]
    return Y, [A, Y], [a], x[:-2] + x[1:-1] + x[2:]


def clamped(rng: np.random.Generator) -> Program:
    n = int(rng.choice([1, 2, 3, 5, 8, 9, 17]))
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[te.max(i - 2, 0)] + A[i], name="B")
    C = te.compute((n,), lambda i: B[te.min(i + 1, n - 1)] * B[n - 1 - i], name="C")
    S = te.compute((n,), lambda i: C[i] + B[i], name="S")
    a = lowered.floats(n)
    i = np.arange(n)
    b = a[np.maximum(i - 2, 0)] + a
    return S, [A, S], [a], b[np.minimum(i + 1, n - 1)] * b[n - 1 - i] + b


def layout(rng: np.random.Generator) -> Program:
    n = int(rng.choice([1, 3, 4, 8]))
    A = te.placeholder((n * 4, n), name="A")
    F = te.compute((n * n * 4,), lambda i: A[i // n, i % n] + 1.0, name="F")
    T = te.compute((n, n * 4), lambda i, j: F[j * n + i] * 2.0, name="T")
    a = lowered.floats(n * 4, n)
    return T, [A, T], [a], ((a + 1) * 2).T


def symbolic(rng: np.random.Generator) -> Program:
    n = te.size_var("n")
    size = int(rng.choice([0, 1, 2, 5, 8, 9]))
    A = te.placeholder((n + 2, 3), name="A")
    B = te.compute((n + 2, 3), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((n, 3), lambda i, j: te.sum(B[i + k, j], axis=k), name="C")
    D = te.compute((n, 3), lambda i, j: C[i, j] + B[i, j], name="D")
    a = lowered.floats(size + 2, 3)
    b = 2 * a
    return D, [A, D], [a], b[:-2] + b[1:-1] + b[2:] + b[:-2]


def conv2d(rng: np.random.Generator) -> Program:
    size, stride, dilation = int(rng.choice([4, 5, 7])), int(rng.choice([1, 2])), int(rng.choice([1, 2]))
    taps = 2
    out = (size + 2 - dilation * (taps - 1) - 1) // stride + 1
    A, W = te.placeholder((2, size, size), name="A"), te.placeholder((3, 2, taps, taps), name="W")
    P = te.compute(
        (2, size + 2, size + 2),
        lambda c, i, j: te.if_then_else(te.all(i >= 1, i < size + 1, j >= 1, j < size + 1), A[c, i - 1, j - 1], 0.0),
        name="P",
    )
    rc, ri, rj = te.reduce_axis((0, 2), "rc"), te.reduce_axis((0, taps), "ri"), te.reduce_axis((0, taps), "rj")
    C = te.compute(
        (3, out, out),
        lambda o, y, x: te.sum(
            P[rc, y * stride + ri * dilation, x * stride + rj * dilation] * W[o, rc, ri, rj], axis=[rc, ri, rj]
        ),
        name="C",
    )
    R = te.compute((3, out, out), lambda o, y, x: te.max(C[o, y, x], 0.0), name="R")
    a, w = lowered.floats(2, size, size), lowered.floats(3, 2, taps, taps, seed=1)
    p = np.pad(a, ((0, 0), (1, 1), (1, 1)))
    expected = np.zeros((3, out, out), "float32")
    for di in range(taps):
        for dj in range(taps):
            last = (out - 1) * stride + 1
            rows = p[:, di * dilation :, dj * dilation :][:, :last:stride, :last:stride]
            expected += np.einsum("chw,oc->ohw", rows, w[:, :, di, dj])
    return R, [A, W, R], [a, w], np.maximum(expected, 0)


def argmax(rng: np.random.Generator) -> Program:
    m, n = int(rng.choice([1, 2, 5, 8])), int(rng.choice([1, 2, 5, 8, 9]))

    def combine(x: Any, y: Any) -> Any:
        first = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])

    reducer = te.comm_reducer(combine, lambda t0, t1: (te.max_value(t0), te.min_value(t1)), name="argmax")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] * A[i, n - 1 - j], name="B")
    k = te.reduce_axis((0, n), "k")
    at, best = te.compute((m,), lambda i: reducer((k, B[i, k]), axis=k), name="T")
    D = te.compute((m,), lambda i: best[i] + at[i].astype("float32"), name="D")
    a = lowered.floats(m, n)
    b = a * a[:, ::-1]
    return D, [A, D], [a], b.max(1) + b.argmax(1)


def triangle(rng: np.random.Generator) -> Program:
    n = int(rng.choice([1, 2, 3, 5, 8]))
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i] + 1.0, name="B")
    C = te.compute((n,), lambda i: te.sum(B[i, (k := te.reduce_axis((i, n), "k"))] * B[k, i], axis=k), name="C")
    D = te.compute((n,), lambda i: C[n - 1 - i], name="D")
    a = lowered.floats(n, n)
    b = a.T + 1
    return D, [A, D], [a], np.triu(b * b.T).sum(1)[::-1]


def gathered(rng: np.random.Generator) -> Program:
    n = int(rng.choice([1, 3, 8]))
    A, at = te.placeholder((n, 5), name="A"), te.placeholder((7,), "int32", name="at")
    B = te.compute((n, 5), lambda i, j: A[i, 4 - j] * 2.0, name="B")
    two, three = te.compute((7, 5), lambda i, j: (B[at[i], j], B[n - 1, j] + i), name="G")
    k = te.reduce_axis((0, 5), "k")
    D = te.compute((7,), lambda i: te.sum(two[i, k] - three[6 - i, k], axis=k, where=k > 0), name="D")
    a, where = lowered.floats(n, 5), np.arange(7, dtype="int32") * 3 % n
    b = 2 * a[:, ::-1]
    i = np.arange(7)[:, None]
    return D, [A, at, D], [a, where], (b[where] - (b[n - 1] + i)[::-1])[:, 1:].sum(1)


def symbolic_matmul(rng: np.random.Generator) -> Program:
    m, n, k = te.size_var("m"), te.size_var("n"), te.var("k")
    shape = [int(rng.choice([0, 1, 2, 3, 5, 8])) for _ in range(3)]
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    P = te.compute((n, k), lambda j, q: B[q, j] * 2.0, name="P")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * P[j, r], axis=r), name="C")
    D = te.compute((m, n), lambda i, j: te.max(C[i, j], 0.0) + C[te.min(i + 1, m - 1), j], name="D")
    a, b = lowered.floats(shape[0], shape[2]), lowered.floats(shape[2], shape[1], seed=1)
    c = a @ (2 * b)
    return D, [A, B, D], [a, b], np.maximum(c, 0) + c[np.minimum(np.arange(shape[0]) + 1, shape[0] - 1)]


def wandering(rng: np.random.Generator) -> Program:
    """Indices that divide, wrap around, shift and run backwards, through integers of 16 bits."""
    n, step = int(rng.choice([1, 2, 5, 8, 12])), int(rng.choice([1, 2, 3, 5]))
    A = te.placeholder((n,), "uint8", name="A")
    B = te.compute((n,), lambda i: A[(i * step) % n].astype("int16") * 3, name="B")
    C = te.compute((2 * n, 3), lambda i, j: B[i // 2] + B[te.max(te.min(i - n + j, n - 1), 0)], name="C")
    k = te.reduce_axis((0, 3), "k")
    D = te.compute((n, 2), lambda i, j: te.max(C[i * 2 + j, k] - C[2 * n - 1 - i, 2 - k], axis=k), name="D")
    E = te.compute((2, n), lambda i, j: D[(j + n // 2) % n, 1 - i].astype("float32"), name="E")
    a = (np.arange(n) * 37 % 256).astype("uint8")
    i, j = np.indices((2 * n, 3))
    b = a[np.arange(n) * step % n].astype("int16") * 3
    c = b[i // 2] + b[np.clip(i - n + j, 0, n - 1)]
    d = (c.reshape(n, 2, 3) - c[2 * n - 1 - np.arange(n)][:, None, ::-1]).max(2)
    return E, [A, E], [a], d[(np.arange(n) + n // 2) % n][:, ::-1].T


PROGRAMS: list[Callable[[np.random.Generator], Program]] = [
    matmul,
    blur,
    clamped,
    layout,
    symbolic,
    conv2d,
    argmax,
    triangle,
    gathered,
    symbolic_matmul,
    wandering,
]


def draw_primitive(rng: np.random.Generator, s: Any) -> None:
    """One primitive on a drawn stage; raises what the primitive raises."""
    stages = [stage for stage in s.stages if stage.op.kind == "compute"]
    stage = stages[rng.integers(len(stages))]
    leaves = stage.leaf_iter_vars
    axis = leaves[rng.integers(len(leaves))] if leaves else None
    what = rng.choice(
        [
            "split",
            "split",
            "nparts",
            "fuse",
            "reorder",
            "at",
            "at",
            "at",
            "inline",
            "kind",
            "write",
            "read",
            "rfactor",
            "bind",
            "align",
            "scope",
        ]
    )
    if what in ("split", "nparts") and axis is not None:
        size = int(rng.integers(1, 7))
        stage.split(axis, size) if what == "split" else stage.split(axis, nparts=size)
    elif what == "fuse" and len(leaves) > 1:
        at = int(rng.integers(len(leaves) - 1))
        stage.fuse(leaves[at], leaves[at + 1])
    elif what == "reorder":
        stage.reorder(*(leaves[at] for at in rng.permutation(len(leaves))))
    elif what == "at":
        readers = [one for one in stages if one.reads(stage) and one.leaf_iter_vars]
        if readers:  # mostly the first: it is the likeliest to have all others under it
            other = readers[0 if rng.random() < 0.7 else rng.integers(len(readers))]
            stage.compute_at(other, other.leaf_iter_vars[rng.integers(len(other.leaf_iter_vars))])
    elif what == "align" and stage.op.axis:
        stage.storage_align(
            stage.op.axis[rng.integers(len(stage.op.axis))], int(rng.integers(2, 9)), int(rng.integers(2))
        )
    elif what == "scope":
        stage.set_scope(str(rng.choice(["global", "shared", "local"])))
    elif what == "inline":
        stage.compute_inline()
    elif what == "kind" and axis is not None:
        getattr(stage, str(rng.choice(["parallel", "vectorize", "unroll"])))(axis)
    elif what == "bind" and axis is not None:
        stage.bind(axis, te.thread_axis(str(rng.choice(["blockIdx.x", "threadIdx.x", "vthread"]))))
    elif what == "write":
        s.cache_write(stage.op.output(0), str(rng.choice(["global", "local"])))
    elif what == "read":
        tensors = list(stage.op.input_tensors)
        s.cache_read(tensors[rng.integers(len(tensors))], "local", [stage.op])
    elif what == "rfactor" and axis is not None:
        s.rfactor(stage.op.output(0), axis)
