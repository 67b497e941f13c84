"""Tensor cores through tensorize: exact in the emulator, the instructions in the machine code, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_programs import Program, block, mma_matmul, thread
from tilewright import te
from tilewright.base.errors import CudaError, LoweringError, TensorExpressionError

SEEDS = range(3)
SHAPES = [(37, 45, 29, "kn"), (16, 8, 16, "kn"), (1, 1, 1, "nk"), (65, 33, 100, "nk")]


def whole_numbers(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs whose products and sums float32 holds exactly, in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-64, 65, [int(extent) for extent in t.shape]).astype("float16") for t in program.args[:-1]]


def run(program: Program, inputs: list[np.ndarray], target: str = "cuda -emulate") -> np.ndarray:
    output = program.output()
    tw.build(program.schedule, program.args, target=target)(*inputs, output)
    return output


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_of_whole_numbers_are_exact_at_any_size(
    shape: tuple[int, int, int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = mma_matmul(*shape)
    for seed in SEEDS:
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        inputs = whole_numbers(program, seed)
        np.testing.assert_array_equal(run(program, inputs), program.reference(*inputs).astype("float32"))


@pytest.mark.parametrize(("layout", "ahead"), [("kn", 8), ("nk", 8), ("kn", 1), ("nk", 1)])
def test_products_of_8_terms_are_exact_and_the_hardware_has_them(
    layout: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ahead: by ldmatrix where rows are aligned, and one by one where they are not."""
    program = mma_matmul(37, 45, 29, layout, ahead=ahead, terms=8)
    for seed in SEEDS:
        monkeypatch.setenv("TILEWRIGHT_EMULATE_SEED", str(seed))
        inputs = whole_numbers(program, seed)
        np.testing.assert_array_equal(run(program, inputs), program.reference(*inputs).astype("float32"))
    code = tw.build(program.schedule, program.args, target="cuda -arch=sm_80").source("sass")
    assert "HMMA.1688.F32" in code and ("LDSM.16" in code) == (ahead == 8) and not re.search(r"\b(LDL|STL)\b", code)


def test_sums_are_rounded_once_a_product_of_tiles() -> None:
    program = mma_matmul(32, 32, 16)
    inputs = program.inputs(5)
    exact = inputs[0].astype("float64") @ inputs[1].astype("float64")  # one tile along k: a float32 rounding of this
    np.testing.assert_array_equal(run(program, inputs), exact.astype("float32"))


def test_infinities_and_nan_go_through() -> None:
    program = mma_matmul(16, 16, 16)
    a, b = (np.ones((16, 16), "float16") for _ in range(2))
    a[3, 4], a[5, 6] = np.inf, np.nan
    found = run(program, [a, b])
    assert np.isposinf(found[3]).all() and np.isnan(found[5]).all() and (np.delete(found, (3, 5), 0) == 16).all()


@pytest.mark.parametrize("ahead", [1, 8])
def test_tiles_are_loaded_by_ldmatrix_where_rows_are_aligned(ahead: int) -> None:
    program = mma_matmul(37, 45, 29, ahead=ahead)
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate")
    stride = {1: 33, 8: 40}[ahead]
    assert re.search(rf"tw_mma_load_a\(.*, {stride}, {int(stride % 8 == 0)}\);", kernel.source("cuda"))
    inputs = whole_numbers(program, 0)
    np.testing.assert_array_equal(run(program, inputs), program.reference(*inputs).astype("float32"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("layout", ["kn", "nk"])
def test_the_machine_code_has_the_instructions_and_keeps_fragments_in_registers(layout: str, arch: str) -> None:
    program = mma_matmul(37, 45, 100, layout)
    kernel = tw.build(program.schedule, program.args, target=f"cuda -arch={arch}")
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in kernel.source("ptx")
    code = kernel.source("sass")
    assert "HMMA.16816.F32" in code, "the tensor core's product"
    assert "LDSM.16.M88.4" in code and (layout == "nk" or "LDSM.16.MT88.4" in code), (
        "ldmatrix, of two tiles of the right side"
    )
    assert not re.search(r"LDSM\S*88\.[12]\b", code)
    assert not re.search(r"\b(LDL|STL)\b", code), "fragments stay in registers"


def product_of_rows(
    rows: int, axes: tuple[Any, ...] = (), split: int = 1, direct: bool = True
) -> tuple[Any, list[Any], Any]:
    """Rows by 16 times 16 by 8, a tile of 16 rows at a time, from and to global memory. split: how many tiles the inner of
    two loops runs over, the outer and inner bound to `axes`."""
    A, B = te.placeholder((rows, 16), "float16", name="A"), te.placeholder((16, 8), "float16", name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((rows, 8), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), "C")
    s = te.create_schedule(C.op)
    AF, BF = s.cache_read(A, "mma_a", [C]), s.cache_read(B, "mma_b", [C])
    CF = s.cache_write(C, "mma_c")
    tile, i = s[C].split(C.op.axis[0], factor=16)
    loops = s[C].split(tile, factor=split)
    for loop, axis in zip(loops, axes, strict=False):
        s[C].bind(loop, axis)
    for stage in (AF, BF, CF):
        s[stage].compute_at(s[C], loops[1])
    s[AF].tensorize(s[AF].op.axis[0], te.intrinsics.get("cuda.mma_load_a", "global"))
    s[BF].tensorize(s[BF].op.axis[0], te.intrinsics.get("cuda.mma_load_b", "kn", "global"))
    s[CF].tensorize(s[CF].op.axis[0], te.intrinsics.get("cuda.mma_m16n8k16"))
    if direct:
        s[C].tensorize(i, te.intrinsics.get("cuda.mma_store"))
    return s, [A, B, C], AF


PLACES: dict[str, tuple[int, tuple[Any, ...], int, tuple[int, int, int]]] = {
    "one warp": (16, (block(),), 1, (32, 1, 1)),
    "four warps": (128, (block(), thread(axis="y")), 4, (32, 4, 1)),
    "warps without a tile": (96, (block(), thread(axis="y")), 4, (32, 4, 1)),
    "virtual threads": (128, (block(), te.thread_axis("vthread")), 4, (32, 1, 1)),
    "virtual threads without a tile": (96, (block(), te.thread_axis("vthread")), 4, (32, 1, 1)),
    "a loop": (128, (block(),), 4, (32, 1, 1)),
}


@pytest.mark.parametrize("name", PLACES)
def test_warps_need_no_loop_over_their_lanes_and_may_have_nothing_to_do(name: str) -> None:
    rows, axes, split, threads = PLACES[name]
    s, args, _ = product_of_rows(rows, axes, split)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-99, 99, (rows, 16)).astype("float16"), rng.integers(-99, 99, (16, 8)).astype("float16")
    c = np.empty((rows, 8), "float32")
    kernel = tw.build(s, args, target="cuda -emulate")
    assert kernel.kernels[0].block == threads
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a.astype("float64") @ b.astype("float64"))


def test_one_kernel_for_all_sizes() -> None:
    program = mma_matmul(te.size_var("m"), te.size_var("n"), te.size_var("k"))
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate")
    rng = np.random.default_rng(1)
    for m, n, k in ((37, 45, 29), (1, 1, 1), (64, 32, 100)):
        a, b = rng.integers(-9, 9, (m, k)).astype("float16"), rng.integers(-9, 9, (k, n)).astype("float16")
        c = np.empty((m, n), "float32")
        kernel(a, b, c)
        np.testing.assert_array_equal(c, a.astype("float64") @ b.astype("float64"))


@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_without_a_tensor_core_the_same_schedule_runs_as_loops(target: str) -> None:
    program = mma_matmul(37, 20, 29)
    inputs = whole_numbers(program, 1)
    np.testing.assert_array_equal(run(program, inputs, target), program.reference(*inputs).astype("float32"))


def test_the_schedule_copies_and_replays() -> None:
    program = mma_matmul(20, 20, 20)
    texts = {str(tw.lower(s, program.args)) for s in (program.schedule, program.schedule.copy())}
    assert len(texts) == 1
    assert "cuda.mma_m16n8k16" in program.schedule.as_python()


def test_dp4a_adds_four_products_at_once() -> None:
    A, B = te.placeholder((37, 24), "int8", name="A"), te.placeholder((37, 24), "int8", name="B")
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((37,), lambda i: te.sum(A[i, k].astype("int32") * B[i, k].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    outer, inner = s[C].split(C.op.axis[0], 16)
    s[C].bind(outer, block())
    s[C].bind(inner, thread(16))
    s[CL].compute_at(s[C], inner)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 4)
    s[CL].reorder(ko, *s[CL].op.axis, ki)
    s[CL].tensorize(s[CL].op.axis[0], te.intrinsics.get("cuda.dp4a"))
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, (37, 24)).astype("int8") for _ in range(2))
    for target in ("cuda -emulate", "llvm"):
        c = np.zeros(37, "int32")
        tw.build(s, [A, B, C], target=target)(a, b, c)
        np.testing.assert_array_equal(c, (a.astype("int32") * b.astype("int32")).sum(1))
    assert "IDP.4A.S8.S8" in tw.build(s, [A, B, C], target="cuda -arch=sm_80").source("sass")


# What is refused


def build(s: Any, args: list[Any]) -> None:
    tw.build(s, args, target="cuda -emulate")


def test_a_warp_is_32_threads_along_x() -> None:
    s, args, _ = product_of_rows(16, (block(),), direct=False)
    s[args[2]].bind(args[2].op.axis[1], thread())
    with pytest.raises(
        CudaError,
        match=r"(?s)TW0840: .*8 threads along threadIdx\.x, and an instruction of a whole warp.*"
        r"32 threads of threadIdx\.x.*thread_axis\(\(0, 32\)",
    ):
        build(s, args)


def test_lanes_do_not_work_alone() -> None:
    s, args, _ = product_of_rows(512, (thread(),))
    with pytest.raises(CudaError, match=r"(?s)TW0840: .*stands in '.*', bound to threadIdx\.x.*threadIdx\.y"):
        build(s, args)


def test_elements_of_fragments_are_read_by_the_lane_that_has_them_alone() -> None:
    s, args, _ = product_of_rows(16, (block(),), direct=False)
    with pytest.raises(
        CudaError,
        match=r"(?s)TW0840: .*C\.mma_c\[.*in mma_c, is accessed by a thread that is not proved to have it"
        r".*cuda\.mma_load_a.*8 threads of threadIdx\.y and columns // 2 % 4",
    ):
        build(s, args)


LANES = {
    "a": ("mma_a", "cuda.mma_load_a", ("shared", 32, 32, "mk", "float16"), (32, 32), "float16", 2),
    "a of bytes": ("mma_a", "cuda.mma_load_a", ("shared", 16, 64, "mk", "int8"), (16, 64), "int8", 4),
    "a of words": ("mma_a", "cuda.mma_load_a", ("shared", 16, 16, "mk", "float32"), (16, 16), "float32", 1),
    "b by columns": ("mma_bt", "cuda.mma_load_b", ("nk", "shared", 16, 32, "float16"), (16, 32), "float16", 2),
    "8 terms": ("mma_a8", "cuda.mma_load_a", ("shared", 16, 16, "mk", "float16", 8), (16, 16), "float16", 2),
}
"""scope, what loads it and its arguments, the shape, the dtype, and neighbours of a row in one lane."""


@pytest.mark.parametrize(("name", "split"), [*((name, True) for name in LANES), ("a", False)])
def test_lanes_compute_with_their_own_elements(name: str, split: bool) -> None:
    """split: 4 threads by 8, or 32 of one axis."""
    scope, load, arguments, shape, dtype, each = LANES[name]
    A = te.placeholder(shape, dtype, name="A")
    B = te.compute(shape, lambda i, j: A[i, j], "B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    fragment = s.cache_read(shared, scope, [B])
    i, j = B.op.axis
    down, group = s[B].split(i, factor=8)
    over, inner = s[B].split(j, factor=4 * each)
    place, beside = s[B].split(inner, factor=each)
    one, down = s[B].split(down, nparts=1)
    s[B].reorder(one, group, place, down, over, beside)
    s[B].bind(one, block())
    if split:
        s[B].bind(group, te.thread_axis((0, 8), "threadIdx.y"))
        s[B].bind(place, te.thread_axis((0, 4), "threadIdx.x"))
    else:
        s[B].bind(s[B].fuse(group, place), te.thread_axis((0, 32), "threadIdx.x"))
    s[fragment].compute_at(s[B], one)
    s[fragment].tensorize(s[fragment].op.axis[0], te.intrinsics.get(load, *arguments))
    s[shared].compute_at(s[B], one)
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    found = np.zeros(shape, dtype)
    tw.build(s, [A, B], target="cuda -emulate")(array, found)
    np.testing.assert_array_equal(found, array)


def test_fragments_hold_whole_tiles() -> None:
    A = te.placeholder((16, 12), "float16", name="A")
    B = te.compute((16, 12), lambda i, j: A[i, j], "B")
    s = te.create_schedule(B.op)
    AF = s.cache_read(A, "mma_a", [B])
    outer, _ = s[B].split(B.op.axis[0], factor=16)
    s[AF].compute_at(s[B], outer)
    s[B].bind(outer, block())
    s[B].bind(B.op.axis[1], thread())
    with pytest.raises(
        CudaError, match=r"(?s)TW0840: .*A\.mma_a, of shape \[16, 12\], lies in mma_a.*whole tiles of 16 by 16"
    ):
        build(s, [A, B])


def test_a_stage_in_other_memory_is_no_fragment() -> None:
    s, args, fragment = product_of_rows(16, (block(),))
    s[fragment].set_scope("shared")
    with pytest.raises(LoweringError, match=r"it lies in shared memory, and .* is declared in mma_a"):
        build(s, args)


def test_tiles_have_16_or_8_terms() -> None:
    with pytest.raises(TensorExpressionError, match="tiles of float16 have no 4 terms"):
        te.intrinsics.get("cuda.mma_load_a", "shared", 0, 0, "mk", "float16", 4)
    with pytest.raises(TensorExpressionError, match="tiles of int8 have no 8 terms"):
        te.intrinsics.get("cuda.mma_load_b", "nk", "shared", 0, 0, "int8", 8)


def test_b_comes_by_rows_of_k_or_of_n() -> None:
    with pytest.raises(TensorExpressionError, match=r"(?s)takes no B of layout 'mn'.*kn, nk"):
        te.intrinsics.get("cuda.mma_load_b", "mn")
