"""Products by warpgroups: schedules by hand on swizzled memory, as rules for sm_90a make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from gpu_programs import Program, block, thread
from tilewright import te

TARGET = "cuda -emulate -arch=sm_90a"


def wgmma_matmul(
    m: int,
    n: int,
    k: int,
    layouts: tuple[str, str] = ("mk", "kn"),
    tile: tuple[int, int, int] = (64, 64, 64),
    groups: int = 1,
    stages: int = 3,
    dtype: str = "float16",
    bulk: bool = False,
    roles: bool = False,
    resident: int = 0,
    cluster: int = 1,
    square: bool = False,
    stored: int = 0,
    held: bool = False,
) -> Program:
    """Matrices at any size in tiles padded with zeros, by `groups` of four warps one below the other. bulk: whether one thread
    begins copies of whole tiles; roles: of warps of its own. resident: blocks, where these compute one tile after the
    other; cluster: of them, neighbours, that copy together. square: whether the threads of four warps are 4 by 32. stored: columns
    of the result that the copy engine stores at once; held: whether threads load A into the registers that products take it from."""
    sums, size = ("int32", 1) if "int8" in dtype else ("float32", 4 if dtype == "float32" else 2)
    a_layout, b_layout = layouts
    A = te.placeholder((k, m) if a_layout == "km" else (m, k), dtype, name="A")
    B = te.placeholder((n, k) if b_layout == "nk" else (k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def product(i: Any, j: Any) -> Any:
        left, right = A[r, i] if a_layout == "km" else A[i, r], B[j, r] if b_layout == "nk" else B[r, j]
        if dtype == "float32":
            left, right = te.tf32(left), te.tf32(right)
        return te.sum(left.astype(sums) * right.astype(sums), axis=r)

    C = te.compute((m, n), product, name="C")
    s = te.create_schedule(C.op)
    a, b, c = s.matricize(C, [C.op.axis[0]], [C.op.axis[1]], tile, (a_layout == "km", b_layout == "nk"))
    CF = s.cache_write(c, "wgmma_c")
    by, bx, yi, xi = s[C].tile(*s[C].op.axis, *tile[:2])
    if resident:
        parts, bx = s[C].split(s[C].fuse(by, bx), factor=resident)
        s[C].pragma(parts, "resident_blocks")
    else:
        s[C].bind(by, block("y"))
    s[C].bind(bx, block("x"))
    at = bx
    if stored:
        at, xi = s[C].split(xi, factor=stored)
        s[C].reorder(at, yi, xi)
        s[C].unroll(at)
        s[C].pragma(yi, "bulk_store")
    else:
        spread(s[C], s[C].fuse(yi, xi), groups, 1, square)
        s[c].storage_align(s[c].op.axis[0], 32, 8)
    scope = "swizzled" if stored else "shared"
    s[c].set_scope(scope)
    s[c].compute_at(s[C], at)
    group, rows = s[c].split(s[c].op.axis[0], factor=tile[0] // groups)
    s[c].bind(group, thread(groups, "z" if square else "y"))
    s[c].tensorize(rows, te.intrinsics.get("cuda.wgmma_store", tile[0] // groups, stored or tile[1], sums, scope))
    i, j = s[CF].op.axis
    outer, inner = s[CF].split(s[CF].op.reduce_axis[0], factor=tile[2])
    if stored:
        s[CF].compute_at(s[C], bx)
        group, i = s[CF].split(i, factor=tile[0] // groups)
        s[CF].bind(group, thread(groups, "y"))
        s[CF].reorder(outer, group, i, j, inner)
    else:
        s[CF].compute_at(s[c], group)
        s[CF].reorder(outer, i, j, inner)
    s[CF].tensorize(
        i,
        te.intrinsics.get(
            "cuda.wgmma", b_layout, tile[0] // groups, tile[1], tile[2], dtype, a_layout, *(["wgmma_a"] * held)
        ),
    )
    for tensor, row in ((a, A.shape[1]), (b, B.shape[1])):
        s[tensor].compute_at(s[CF], outer)
        if held and tensor is a:
            hold(s[a], size)
            continue
        s[tensor].set_scope("swizzled")
        if not bulk:
            spread(
                s[tensor],
                s[tensor].fuse(*s[tensor].op.axis),
                groups,
                16 // size if int(row) % (16 // size) == 0 else 1,
                square,
            )
        if stages > 1:
            s[tensor].pipeline(stages, by="tma" if bulk else "cp.async", warp_specialize=roles, cluster=cluster)

    def reference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if dtype == "float32":  # halves of the last bit away from zero
            left, right = (((each.view("uint32") + 0x1000) & 0xFFFFE000).view("float32") for each in (left, right))
        left, right = left.astype("float64"), right.astype("float64")
        return (left.T if a_layout == "km" else left) @ (right.T if b_layout == "nk" else right)

    return Program(s, [A, B, C], reference)


def hold(stage: Any, size: int) -> None:
    """A matrix in the registers that four warps of 4 by 32 threads multiply from."""
    stage.set_scope("wgmma_a")
    (row, term), each = stage.op.axis, 4 // size
    rest, place = stage.split(row, factor=8)
    warp, below = stage.split(rest, factor=2)
    _, warp = stage.split(warp, factor=4)
    over, inner = stage.split(term, factor=4 * each)
    lane, beside = stage.split(inner, factor=each)
    stage.reorder(warp, place, lane, below, over, beside)
    stage.bind(stage.fuse(warp, place), thread(32, "y"))
    stage.bind(lane, thread(4))


def spread(stage: Any, rest: Any, groups: int, vector: int, square: bool = False) -> None:
    """The iterations of a loop by all threads of a block."""
    if vector > 1:
        rest, lanes = stage.split(rest, factor=vector)
        stage.vectorize(lanes)
    rest, lane = stage.split(rest, factor=128)
    if square:
        row, lane = stage.split(lane, factor=4)
        stage.bind(row, thread(32, "y"))
    stage.bind(lane, thread(4 if square else 128))
    rest, group = stage.split(rest, factor=groups)
    stage.bind(group, thread(groups, "z" if square else "y"))


def whole_numbers(program: Program, seed: int = 0) -> list[np.ndarray]:
    """Inputs whose products and sums float32 holds exactly, in any order; of float32 TF32 rounds every other one along k."""
    from ml_dtypes import bfloat16

    rng = np.random.default_rng(seed)
    inputs = [
        rng.integers(
            -8 if each.dtype != "uint8" else 190,
            9 if each.dtype != "uint8" else 256,
            [int(extent) for extent in each.shape],
        ).astype(bfloat16 if each.dtype == "bfloat16" else each.dtype)
        for each in program.args[:-1]
    ]
    for number, each in enumerate(inputs):
        if each.dtype == np.float32:
            each[..., number::2] += rng.integers(0, 4, each[..., number::2].shape) / np.float32(2048)
    return inputs


def on_warpgroups(**said: Any) -> Program:
    """As wgmma_matmul, of drawn numbers: float32 rounds their sums."""
    return replace(wgmma_matmul(**said), tolerance=1e-3)


HOPPER: dict[str, Callable[[], Program]] = {
    "wgmma_by_threads": partial(on_warpgroups, m=131, n=72, k=200),
    "wgmma_by_boxes": partial(on_warpgroups, m=131, n=72, k=200, bulk=True),
    "wgmma_by_narrow_boxes": partial(
        on_warpgroups, m=65, n=24, k=72, layouts=("mk", "nk"), tile=(64, 24, 32), bulk=True
    ),
    "wgmma_by_roles": partial(on_warpgroups, m=264, n=136, k=264, groups=2, tile=(128, 64, 64), bulk=True, roles=True),
    "wgmma_by_resident_blocks": partial(on_warpgroups, m=264, n=136, k=136, resident=4, bulk=True, roles=True),
    "wgmma_by_pairs": partial(on_warpgroups, m=264, n=128, k=264, bulk=True, roles=True, cluster=2),
    "wgmma_stored_by_boxes": partial(
        on_warpgroups, m=200, n=136, k=264, tile=(128, 64, 64), groups=2, bulk=True, roles=True, resident=3, stored=32
    ),
    "wgmma_by_resident_pairs": partial(
        on_warpgroups, m=192, n=128, k=264, resident=2, bulk=True, roles=True, cluster=2
    ),
}
"""What sm_90a has alone, by hand."""
