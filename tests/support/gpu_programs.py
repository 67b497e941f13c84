"""Scheduled programs for GPUs, each with its reference in numpy: what the tests of the CUDA target run and compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright import te


@dataclass(frozen=True)
class Program:
    """A schedule, its arguments (inputs, then one output), and what it computes."""

    schedule: Any
    args: list[Any]
    reference: Callable[..., np.ndarray]
    tolerance: float = 1e-5

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        made = []
        for tensor in self.args[:-1]:
            shape = [int(extent) for extent in tensor.shape]
            if "float" in tensor.dtype:
                values = rng.standard_normal(shape)
                if tensor.dtype == "bfloat16":
                    from ml_dtypes import bfloat16

                    made.append(values.astype(bfloat16))
                    continue
            else:
                values = rng.integers(-100 if tensor.dtype.startswith("int") else 0, 100, shape)
            made.append(values.astype(str(tensor.dtype)))
        return made

    def output(self) -> np.ndarray:
        """Where the result goes, filled with what no result is."""
        return np.full([int(extent) for extent in self.args[-1].shape], 77, dtype=str(self.args[-1].dtype))


def block(axis: str = "x") -> Any:
    return te.thread_axis(f"blockIdx.{axis}")


def thread(extent: int | None = None, axis: str = "x") -> Any:
    return te.thread_axis(f"threadIdx.{axis}") if extent is None else te.thread_axis((0, extent), f"threadIdx.{axis}")


def vector_add(n: int, threads: int = 64, vector: int = 1, dtype: str = "float32") -> Program:
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    i = s[C].op.axis[0]
    if vector > 1:
        i, lanes = s[C].split(i, factor=vector)
        s[C].vectorize(lanes)
    outer, inner = s[C].split(i, factor=threads)
    s[C].bind(outer, block())
    s[C].bind(inner, thread())
    return Program(s, [A, B, C], lambda a, b: a + b, 1e-2 if dtype == "float16" else 1e-5)


def transpose(rows: int, columns: int, tile: int = 16, align: bool = False) -> Program:
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((columns, rows), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    S = s.cache_read(A, "shared", [B])
    io, jo, ii, ji = s[B].tile(*s[B].op.axis, tile, tile)
    s[B].bind(io, block("y"))
    s[B].bind(jo, block("x"))
    s[B].bind(ii, thread(tile, "y"))
    s[B].bind(ji, thread(tile, "x"))
    s[S].compute_at(s[B], jo)
    s[S].bind(s[S].op.axis[0], thread(tile, "y"))
    s[S].bind(s[S].op.axis[1], thread(tile, "x"))
    if align:
        s[S].storage_align(s[S].op.axis[0], 2, 1)
    return Program(s, [A, B], lambda a: a.T)


def matmul(
    m: int, n: int, k: int, virtual: int = 2, vector: int = 1, dtype: str = "float32", unroll: bool = False
) -> Program:
    """Tiles of 32 × 32 in blocks of 8 × 8 threads: shared and local caches, virtual threads."""
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r].astype("float32") * B[r, j].astype("float32"), axis=r), name="C")
    s = te.create_schedule(C.op)
    AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    AL, BL = s.cache_read(AS, "local", [C]), s.cache_read(BS, "local", [C])
    CL = s.cache_write(C, "local")
    y, x = s[C].op.axis
    by, yi = s[C].split(y, factor=32)
    bx, xi = s[C].split(x, factor=32)
    vy, yi = s[C].split(yi, nparts=virtual)
    vx, xi = s[C].split(xi, nparts=virtual)
    ty, yi = s[C].split(yi, nparts=8)
    tx, xi = s[C].split(xi, nparts=8)
    s[C].reorder(by, bx, vy, vx, ty, tx, yi, xi)
    for axis, bound in (
        (by, block("y")),
        (bx, block("x")),
        (vy, te.thread_axis((0, virtual), "vthread", name="vy")),
        (vx, te.thread_axis((0, virtual), "vthread", name="vx")),
        (ty, thread(8, "y")),
        (tx, thread(8, "x")),
    ):
        s[C].bind(axis, bound)
    s[CL].compute_at(s[C], tx)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], factor=8)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    if unroll:
        s[CL].unroll(ki)
    s[AS].compute_at(s[CL], ko)
    s[BS].compute_at(s[CL], ko)
    s[AL].compute_at(s[CL], ki)
    s[BL].compute_at(s[CL], ki)
    for stage in (AS, BS):
        fused = s[stage].fuse(*s[stage].op.axis)
        if vector > 1:
            fused, lanes = s[stage].split(fused, factor=vector)
            s[stage].vectorize(lanes)
        fused, inner = s[stage].split(fused, factor=8)
        _, outer = s[stage].split(fused, factor=8)
        s[stage].bind(outer, thread(8, "y"))
        s[stage].bind(inner, thread(8, "x"))
    return Program(s, [A, B, C], lambda a, b: a.astype("float32") @ b.astype("float32"), 1e-4)


def conv2d(channels: int, size: int, filters: int, window: int = 3, padding: int = 1) -> Program:
    A = te.placeholder((channels, size, size), name="A")
    W = te.placeholder((filters, channels, window, window), name="W")
    P = te.compute(
        (channels, size + 2 * padding, size + 2 * padding),
        lambda c, y, x: te.if_then_else(
            te.all(y >= padding, y < size + padding, x >= padding, x < size + padding),
            A[c, y - padding, x - padding],
            0.0,
        ),
        name="P",
    )
    out = size + 2 * padding - window + 1
    c, dy, dx = te.reduce_axis((0, channels)), te.reduce_axis((0, window)), te.reduce_axis((0, window))
    C = te.compute(
        (filters, out, out), lambda f, y, x: te.sum(P[c, y + dy, x + dx] * W[f, c, dy, dx], axis=[c, dy, dx]), name="C"
    )
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    PS, WS = s.cache_read(P, "shared", [C]), s.cache_read(W, "shared", [C])
    CL = s.cache_write(C, "local")
    f, y, x = s[C].op.axis
    fo, fi = s[C].split(f, factor=4)
    yo, yi = s[C].split(y, factor=4)
    xo, xi = s[C].split(x, factor=8)
    s[C].reorder(fo, yo, xo, yi, xi, fi)
    for axis, bound in (
        (fo, block("z")),
        (yo, block("y")),
        (xo, block("x")),
        (yi, thread(4, "y")),
        (xi, thread(8, "x")),
    ):
        s[C].bind(axis, bound)
    s[CL].compute_at(s[C], xi)
    rc, ry, rx = s[CL].op.reduce_axis
    rco, rci = s[CL].split(rc, factor=2)
    s[CL].reorder(rco, rci, ry, rx, *s[CL].op.axis)
    for stage in (PS, WS):
        s[stage].compute_at(s[CL], rco)
        fused = s[stage].fuse(*s[stage].op.axis)
        fused, inner = s[stage].split(fused, factor=8)
        _, outer = s[stage].split(fused, factor=4)
        s[stage].bind(outer, thread(4, "y"))
        s[stage].bind(inner, thread(8, "x"))

    def reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        padded = np.pad(a, ((0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(1, 2))
        return np.einsum("cyxuv,fcuv->fyx", windows, w, optimize=True)

    return Program(s, [A, W, C], reference, 1e-4)


def softmax(rows: int, columns: int, threads: int = 64, across: int = 1) -> Program:
    """One row a block, or `across` rows; its maximum and its sum by the threads together."""
    A = te.placeholder((rows, columns), name="A")
    k, k2 = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="k2")
    top = te.compute((rows,), lambda i: te.max(A[i, k], axis=k), name="top")
    exps = te.compute((rows, columns), lambda i, j: te.exp(A[i, j] - top[i]), name="exps")
    total = te.compute((rows,), lambda i: te.sum(exps[i, k2], axis=k2), name="total")
    C = te.compute((rows, columns), lambda i, j: exps[i, j] / total[i], name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    io, ii = s[C].split(i, factor=across)
    s[C].bind(io, block())
    s[C].bind(ii, thread(across, "y"))
    _, ji = s[C].split(j, factor=threads)
    s[C].bind(ji, thread(threads))
    for stage in (top, exps, total):
        s[stage].compute_at(s[C], io)
        last = s[stage].op.axis[1] if stage is exps else s[stage].op.reduce_axis[0]
        _, inner = s[stage].split(last, factor=threads)
        s[stage].bind(s[stage].op.axis[0], thread(across, "y"))
        s[stage].bind(inner, thread(threads))

    def reference(a: np.ndarray) -> np.ndarray:
        e = np.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Program(s, [A, C], reference)


def row_reduce(rows: int, columns: int, x: int, y: int = 1, axis: str = "x", dtype: str = "float32") -> Program:
    """Sums of rows: `y` rows a block, x threads for each; `axis` is the thread axis that reduces."""
    other = "y" if axis == "x" else "x"
    A = te.placeholder((rows, columns), dtype, name="A")
    k = te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    io, ii = s[B].split(s[B].op.axis[0], factor=y)
    _, ki = s[B].split(s[B].op.reduce_axis[0], factor=x)
    s[B].bind(io, block())
    s[B].bind(ii, thread(y, other))
    s[B].bind(ki, thread(x, axis))
    return Program(s, [A, B], lambda a: a.sum(axis=1, dtype=a.dtype), 1e-4)


def argmax(rows: int, columns: int, threads: int = 32) -> Program:
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), name="k")
    pick = te.comm_reducer(
        lambda a, b: (
            te.select(te.any(a[1] > b[1], te.all(a[1].equal(b[1]), a[0] < b[0])), a[0], b[0]),
            te.select(a[1] >= b[1], a[1], b[1]),
        ),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    where, best = te.compute((rows,), lambda i: pick((k, A[i, k]), axis=k), name="best")
    C = te.compute((rows,), lambda i: where[i], name="C")
    s = te.create_schedule(C.op)
    s[C].bind(s[C].op.axis[0], block())
    s[where].compute_at(s[C], s[C].op.axis[0])
    _, ki = s[where].split(s[where].op.reduce_axis[0], factor=threads)
    s[where].bind(ki, thread())
    return Program(s, [A, C], lambda a: a.argmax(axis=1).astype("int32"))


def column_sums(rows: int, columns: int) -> Program:
    """A reduction whose data loop lies inside of its thread loop."""
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, rows), name="k")
    B = te.compute((columns,), lambda j: te.sum(A[k, j], axis=k), name="B")
    s = te.create_schedule(B.op)
    jo, ji = s[B].split(s[B].op.axis[0], factor=3)
    ko, ki = s[B].split(s[B].op.reduce_axis[0], factor=16)
    s[B].reorder(jo, ko, ki, ji)
    s[B].bind(jo, block())
    s[B].bind(ki, thread())
    return Program(s, [A, B], lambda a: a.sum(axis=0), 1e-4)


def two_kernels(n: int) -> Program:
    """A stage at root between two others: a workspace, and two launches."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[n - 1 - i], name="C")
    s = te.create_schedule(C.op)
    for stage in (B, C):
        outer, inner = s[stage].split(s[stage].op.axis[0], factor=32)
        s[stage].bind(outer, block())
        s[stage].bind(inner, thread())
    return Program(s, [A, C], lambda a: a * 2 + (a * 2)[::-1])


def row_norm(rows: int, columns: int) -> Program:
    """A reduction by one thread alone, in shared memory, read by all."""
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="B")
    C = te.compute((rows, columns), lambda i, j: A[i, j] / te.sqrt(B[i] + 1.0), name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    s[C].bind(i, block())
    _, ji = s[C].split(j, factor=32)
    s[C].bind(ji, thread())
    s[B].compute_at(s[C], i)
    return Program(s, [A, C], lambda a: a / np.sqrt((a * a).sum(axis=1, keepdims=True) + 1), 1e-4)


def pipelined_matmul(
    n: int, m: int, depth: int, stages: int, vector: int, dtype: str = "float32", padded: bool = False
) -> Program:
    """Tiles of 16 by 16 by 8 in shared memory, which are on their way `stages` - 1 iterations ahead. vector: elements that a thread
    copies at once. padded: whether the tensors are, with zeros, to whole tiles."""
    A, B = te.placeholder((n, depth), dtype, name="A"), te.placeholder((depth, m), dtype, name="B")
    whole = [-(-extent // 16) * 16 if padded else extent for extent in (n, m, depth)]

    def read(tensor: Any, shape: tuple[int, int], name: str) -> Any:
        inside = te.compute(
            shape,
            lambda i, j: te.if_then_else(
                te.all(i < tensor.shape[0], j < tensor.shape[1]), tensor[i, j], te.const(0, dtype)
            ),
            name=name,
        )
        return inside if padded else tensor

    AP, BP = read(A, (whole[0], whole[2]), "A_padded"), read(B, (whole[2], whole[1]), "B_padded")
    k = te.reduce_axis((0, whole[2]), "k")
    C = te.compute((n, m), lambda i, j: te.sum(AP[i, k] * BP[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    tiles = [s.cache_read(one, "shared", [CL]) for one in (AP, BP)]
    (bi, i), (bj, j) = (s[C].split(axis, 16) for axis in C.op.axis)
    (ti, ii), (tj, jj) = s[C].split(i, nparts=4), s[C].split(j, nparts=8)
    s[C].reorder(bi, bj, ti, tj, ii, jj)
    for axis, bound in ((bi, block("y")), (bj, block("x")), (ti, thread(4, "y")), (tj, thread(8, "x"))):
        s[C].bind(axis, bound)
    s[CL].compute_at(s[C], tj)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 8)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    for tile, source in zip(tiles, (AP, BP), strict=True):
        if padded:
            s[source].compute_inline()
        s[tile].compute_at(s[CL], ko)
        rest = s[tile].fuse(*s[tile].op.axis)
        if vector > 1:
            rest, lanes = s[tile].split(rest, vector)
            s[tile].vectorize(lanes)
        rest, x = s[tile].split(rest, 8)
        _, y = s[tile].split(rest, 4)
        s[tile].bind(y, thread(4, "y"))
        s[tile].bind(x, thread(8, "x"))
        s[tile].pipeline(stages)
    return Program(s, [A, B, C], lambda a, b: a.astype("float64") @ b.astype("float64"))


def mma_matmul(
    m: int,
    n: int,
    k: int,
    layout: str = "kn",
    warps: tuple[int, int] = (2, 2),
    sums: tuple[int, int] = (16, 16),
    ahead: int = 8,
    vector: int = 1,
    terms: int = 16,
) -> Program:
    """float16 on tensor cores at any size: tiles padded with zeros on their way to shared memory, `warps` of a block with
    `sums` each, which leave through shared memory. ahead: elements after each row of a tile in shared memory. vector: how many
    elements a thread fetches at once. terms: of an instruction, 16 or 8."""
    tile_m, tile_n, tile_k = warps[0] * sums[0], warps[1] * sums[1], 32
    whole_m, whole_n, whole_k = (-(-extent // tile) * tile for extent, tile in ((m, tile_m), (n, tile_n), (k, tile_k)))
    A = te.placeholder((m, k), "float16", name="A")
    B = te.placeholder((k, n) if layout == "kn" else (n, k), "float16", name="B")
    zero = te.const(0, "float16")

    def padded(tensor: Any, shape: tuple[int, int], name: str) -> Any:
        height, width = tensor.shape
        return te.compute(
            shape, lambda i, j: te.if_then_else(te.all(i < height, j < width), tensor[i, j], zero), name=name
        )

    AP = padded(A, (whole_m, whole_k), "A_padded")
    BP = padded(B, (whole_k, whole_n) if layout == "kn" else (whole_n, whole_k), "B_padded")
    r = te.reduce_axis((0, whole_k), name="k")

    def product(i: Any, j: Any) -> Any:
        right = BP[r, j] if layout == "kn" else BP[j, r]
        return te.sum(AP[i, r].astype("float32") * right.astype("float32"), axis=r)

    CP = te.compute((whole_m, whole_n), product, name="C_padded")
    C = te.compute((m, n), lambda i, j: CP[i, j], name="C")
    s = te.create_schedule(C.op)
    AS, BS = s.cache_read(AP, "shared", [CP]), s.cache_read(BP, "shared", [CP])
    half = "8" if terms == 8 else ""
    AF = s.cache_read(AS, f"mma_a{half}", [CP])
    BF = s.cache_read(BS, f"mma_b{half}" if layout == "kn" else f"mma_bt{half}", [CP])
    CF = s.cache_write(CP, "mma_c")
    s[AP].compute_inline()
    s[BP].compute_inline()
    s[CP].set_scope("shared")
    by, bx, yi, xi = s[C].tile(*s[C].op.axis, tile_m, tile_n)
    s[C].bind(by, block("y"))
    s[C].bind(bx, block("x"))
    cooperate(s, C, s[C].fuse(yi, xi), warps)

    s[CP].compute_at(s[C], bx)
    wi, ii = s[CP].split(s[CP].op.axis[0], factor=sums[0])
    wj, ji = s[CP].split(s[CP].op.axis[1], factor=sums[1])
    s[CP].bind(wi, thread(warps[0], "z"))
    s[CP].bind(wj, thread(warps[1], "y"))
    s[CP].reorder(wi, wj, ii, ji)
    tiles(s, CP, (ii, 16), (ji, 8), "cuda.mma_store")

    s[CF].compute_at(s[CP], wj)
    ko, ki = s[CF].split(s[CF].op.reduce_axis[0], factor=tile_k)
    km, ki = s[CF].split(ki, factor=terms)
    s[CF].reorder(ko, km, *s[CF].op.axis, ki)
    s[CF].unroll(km)
    product = ["cuda.mma_m16n8k8", layout, 16, 8, 8, "mk", "float16"] if half else ["cuda.mma_m16n8k16", layout]
    tiles(s, CF, (s[CF].op.axis[0], 16), (s[CF].op.axis[1], 8), *product)
    for stage, load in (
        (AF, ["cuda.mma_load_a", "shared", 0, 0, "mk", "float16", terms]),
        (BF, ["cuda.mma_load_b", layout, "shared", 0, 0, "float16", terms]),
    ):
        s[stage].compute_at(s[CF], km)
        sizes = (16, terms) if stage is AF else (terms, 8) if layout == "kn" else (8, terms)
        tiles(s, stage, *zip(s[stage].op.axis, sizes, strict=True), *load)
    for stage in (AS, BS):
        s[stage].compute_at(s[CF], ko)
        if ahead:
            s[stage].storage_align(s[stage].op.axis[0], 16, ahead)
        cooperate(s, stage, s[stage].fuse(*s[stage].op.axis), warps, vector)

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a.astype("float64") @ (b if layout == "kn" else b.T).astype("float64")

    return Program(s, [A, B, C], reference, 1e-5)


def tiles(s: Any, stage: Any, rows: tuple[Any, int], columns: tuple[Any, int], *intrinsic: Any) -> None:
    """A stage by unrolled tiles, each by an instruction; what a reduction adds up stays inside."""
    (row, height), (column, width) = rows, columns
    outer, row = s[stage].split(row, factor=height)
    over, column = s[stage].split(column, factor=width)
    s[stage].reorder(outer, over, row, column, *s[stage].leaf_iter_vars[-1:] if s[stage].op.reduce_axis else [])
    s[stage].unroll(outer)
    s[stage].unroll(over)
    s[stage].tensorize(row, te.intrinsics.get(*intrinsic))


def cooperate(s: Any, stage: Any, fused: Any, warps: tuple[int, int], vector: int = 1) -> None:
    """All threads of a block, `warps` of 32, share the iterations of a loop."""
    if vector > 1:
        fused, lanes = s[stage].split(fused, factor=vector)
        s[stage].vectorize(lanes)
    for extent, axis in ((32, "x"), (warps[1], "y"), (warps[0], "z")):
        fused, inner = s[stage].split(fused, factor=extent)
        s[stage].bind(inner, thread(extent, axis))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "vector_add": lambda: vector_add(1003),
    "vector_add_one": lambda: vector_add(1),
    "vector_add_vectors": lambda: vector_add(1024, vector=4),
    "vector_add_odd_vectors": lambda: vector_add(1003, vector=4),
    "vector_add_half": lambda: vector_add(515, dtype="float16"),
    "vector_add_bytes": lambda: vector_add(515, dtype="int8"),
    "transpose": lambda: transpose(45, 37),
    "transpose_padded": lambda: transpose(33, 50, align=True),
    "matmul": lambda: matmul(37, 45, 29),
    "matmul_divisible": lambda: matmul(64, 32, 16, vector=4, unroll=True),
    "matmul_half": lambda: matmul(33, 40, 17, dtype="float16"),
    "matmul_plain_threads": lambda: matmul(37, 45, 29, virtual=1),
    "mma_matmul": lambda: mma_matmul(37, 45, 29),
    "mma_matmul_columns": lambda: mma_matmul(33, 50, 70, layout="nk"),
    "mma_matmul_divisible": lambda: mma_matmul(64, 64, 64, ahead=0, vector=8),
    "mma_matmul_k8": lambda: mma_matmul(37, 45, 29, terms=8),
    "mma_matmul_wide": lambda: mma_matmul(70, 40, 33, warps=(2, 1), sums=(32, 32)),
    "conv2d": lambda: conv2d(5, 11, 7),
    "softmax": lambda: softmax(7, 133),
    "softmax_rows": lambda: softmax(7, 45, threads=16, across=3),
    "row_sums_warp": lambda: row_reduce(7, 100, 32),
    "row_sums_half_warp": lambda: row_reduce(7, 100, 8, 4),
    "row_sums_four_warps": lambda: row_reduce(5, 300, 128, 2),
    "row_sums_odd": lambda: row_reduce(5, 100, 24, 3),
    "row_sums_strided": lambda: row_reduce(9, 50, 8, 4, axis="y"),
    "row_sums_integers": lambda: row_reduce(7, 100, 32, dtype="int32"),
    "argmax": lambda: argmax(6, 77),
    "column_sums": lambda: column_sums(37, 11),
    "two_kernels": lambda: two_kernels(101),
    "row_norm": lambda: row_norm(5, 71),
}
"""By name, each at a size that no tile divides, where it has one."""
