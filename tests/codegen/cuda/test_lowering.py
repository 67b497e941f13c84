"""From schedules to kernels: launches, barriers, guards, scopes, and what GPU lowering refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gpu_programs
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from gpu_programs import block, thread
from tilewright import te
from tilewright.base.errors import CallError, CudaError
from tilewright.ir.text.parser import parse


def pair(rows: int = 8, columns: int = 64) -> tuple[Any, Any, Any]:
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((rows, columns), lambda i, j: B[i, columns - 1 - j] + 1.0, name="C")
    return A, B, C


def attached(scope: str = "", threads: bool = True, at: str = "block") -> tuple[Any, list[Any]]:
    """C over blocks of one row and 64 threads, B computed at the block or at the thread."""
    A, B, C = pair()
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], block())
    s[C].bind(C.op.axis[1], thread())
    s[B].compute_at(s[C], C.op.axis[0 if at == "block" else 1])
    if threads:
        s[B].bind(B.op.axis[1], thread())
    if scope:
        s[B].set_scope(scope)
    return s, [A, C]


def text(schedule: Any, args: list[Any], **options: Any) -> str:
    """The kernels' own text."""
    source = tw.build(schedule, args, target="cuda", **options).source("cuda")
    return source[source.index('extern "C"') :]


def check(schedule: Any, args: list[Any], reference: Callable[[np.ndarray], np.ndarray]) -> Any:
    kernel = tw.build(schedule, args, target="cuda -emulate")
    rng = np.random.default_rng(3)
    values = rng.standard_normal([int(e) for e in args[0].shape]).astype("float32")
    result = np.full([int(e) for e in args[-1].shape], 77, "float32")
    kernel(values, result)
    np.testing.assert_allclose(result, reference(values), rtol=1e-5, atol=1e-5)
    return kernel


def mirrored(a: np.ndarray) -> np.ndarray:
    return 2 * a[:, ::-1] + 1


# Launches


def test_launches_tell_names_grids_blocks_and_arguments() -> None:
    program = gpu_programs.two_kernels(101)
    f = tw.build(program.schedule, program.args, target="cuda", name="twice")
    assert [(k.name, k.grid, k.block, k.dynamic_shared_bytes, k.args) for k in f.kernels] == [
        ("twice_kernel0", (4, 1, 1), (32, 1, 1), 0, (0, 2)),
        ("twice_kernel1", (4, 1, 1), (32, 1, 1), 0, (1, 2)),
    ]


def test_sources_are_text_of_four_kinds() -> None:
    program = gpu_programs.PROGRAMS["matmul_divisible"]()
    f = tw.build(program.schedule, program.args, target="cuda -arch=sm_90")
    assert 'thread("blockIdx.x", 1)' in f.source("ir")
    assert "__global__ void __launch_bounds__(64) main_kernel0(const float *__restrict__ A" in f.source("cuda")
    assert "fma.rn.f32" in f.source("ptx")
    sass = f.source("sass")
    assert {"FFMA", "LDG.E.128.CONSTANT", "BAR.SYNC.DEFER_BLOCKING"} <= set(re.findall(r"[A-Z][A-Z0-9_.]+", sass))
    assert not re.search(r"\b(STL|LDL)\b", sass), "accumulators are in registers"
    with pytest.raises(CallError, match="TW0522: a CUDA kernel has no source 'asm'"):
        f.source("asm")


def test_symbolic_shapes_decide_the_grid_of_each_call() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(outer, block())
    s[B].bind(inner, thread())
    f = tw.build(s, [A, B], target="cuda -emulate")
    assert f.kernels[0].blocks({"n": 33}) == (2, 1, 1)
    for size in (0, 1, 32, 77):
        values, result = np.arange(size, dtype="float32"), np.full(size, 77, "float32")
        f(values, result)
        np.testing.assert_array_equal(result, values * 2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_scalar_arguments_are_passed_by_value(dtype: str) -> None:
    a = te.var("a", dtype)
    A = te.placeholder((50,), dtype, name="A")
    B = te.compute((50,), lambda i: te.select(a, A[i], ~A[i]) if dtype == "bool" else A[i] * a, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], thread())
    values = (np.arange(50) % 3).astype(dtype)
    result = np.empty(50, dtype)
    tw.build(s, [a, A, B], target="cuda -emulate")(dtype != "bool" and 3, values, result)
    np.testing.assert_array_equal(result, ~values if dtype == "bool" else values * values.dtype.type(3))


def test_the_cuda_text_is_the_same_for_both_targets() -> None:
    program = gpu_programs.PROGRAMS["softmax"]()
    texts = {
        tw.build(program.schedule, program.args, target=t).source("cuda") for t in ("cuda -arch=sm_90", "cuda -emulate")
    }
    assert len(texts) == 1


# Barriers and guards


def test_a_tile_has_one_barrier_before_use_and_one_before_the_next_fetch() -> None:
    program = gpu_programs.matmul(32, 32, 16)
    lines = [line.strip() for line in text(program.schedule, program.args).splitlines()]
    kept = [
        line for line in lines if line.startswith(("__syncthreads();", "for (int k_", "A_shared[", "A_shared_local["))
    ]
    assert [line.split("[")[0].split(" = ")[0] for line in kept] == [
        "for (int k_outer",
        "__syncthreads();",
        "A_shared",
        "__syncthreads();",
        "for (int k_inner",
        "A_shared_local",
    ]


def test_blocks_within_the_tensor_and_full_steps_of_the_reduction_run_without_guards() -> None:
    program = gpu_programs.matmul(100, 100, 100)
    found = text(program.schedule, program.args)
    assert "if (block_y < 3 && block_x < 3) {" in found
    assert "if (k_outer < 12) {" in found
    inner = found[found.index("if (k_outer < 12) {") : found.index("else {")]
    assert "for (int k_inner" in inner
    assert "if (" not in inner.removeprefix("if (k_outer < 12)")
    assert found.count("__shared__") == 2, "the copies share their memory"


def test_no_barrier_stands_between_accesses_of_one_thread() -> None:
    A = te.placeholder((8, 64), name="A")
    B = te.compute((8, 64), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((8, 64), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], block())
    s[C].bind(C.op.axis[1], thread())
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].bind(B.op.axis[1], thread())
    assert "__shared__" in text(s, [A, C])
    assert "__syncthreads" not in text(s, [A, C])
    check(s, [A, C], lambda a: a * 2 + 1)


def test_virtual_threads_share_what_is_fetched_and_own_what_they_compute() -> None:
    program = gpu_programs.matmul(32, 32, 16)
    found = text(program.schedule, program.args)
    assert found.count("A_shared[thread_y * 8 + thread_x") == 1, "fetched once for both"
    assert "float C_local[16];" in found, "2 x 2 virtual threads of 2 x 2 elements"


def test_what_no_thread_loop_surrounds_is_done_by_one_thread_where_memory_is_shared() -> None:
    s, args = attached(threads=False)
    found = text(s, args)
    assert re.search(r"if \(thread_x == 0\) \{\s+B\[j\] = ", found)
    assert found.index("B[j]") < found.index("__syncthreads") < found.index("C[")
    check(s, args, mirrored)


def test_shuffles_join_a_warp_and_shared_memory_joins_warps() -> None:
    def parts(x: int, y: int = 1, axis: str = "x") -> tuple[int, bool]:
        program = gpu_programs.row_reduce(4 * y, 4 * x, x, y, axis)
        found = text(program.schedule, program.args)
        return found.count("shuffle_down("), "__shared__" in found

    assert parts(32) == (5, False)
    assert parts(8, 4) == (3, False)
    assert parts(128) == (5 + 2, True)
    assert parts(24) == (0, True), "no power of two"
    assert parts(8, 4, axis="y") == (0, True), "not side by side in a warp"


def test_threads_reduce_to_one_element_in_one_kernel_with_its_init() -> None:
    A = te.placeholder((33,), name="A")
    k = te.reduce_axis((0, 33), name="k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    assert len(check(s, [A, B], lambda a: a.sum()).kernels) == 1
    s[B].bind(k, thread())
    assert len(check(s, [A, B], lambda a: a.sum()).kernels) == 1


def test_rfactor_with_a_store_predicate_reduces_across_threads() -> None:
    A = te.placeholder((7, 300), name="A")
    k = te.reduce_axis((0, 300), name="k")
    B = te.compute((7,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    tx = thread()
    _, ki = s[B].split(B.op.reduce_axis[0], factor=32)
    BF = s.rfactor(B, ki)
    io, ii = s[B].split(s[B].op.axis[0], factor=4)
    s[B].bind(io, block())
    s[B].bind(ii, thread(axis="y"))
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    check(s, [A, B], lambda a: a.sum(axis=1))


# Memory


@pytest.mark.parametrize("scope", ["", "shared", "global"])
def test_a_stage_at_a_block_lies_in_shared_memory_or_in_a_workspace_of_the_block(scope: str) -> None:
    s, args = attached(scope)
    kernel = check(s, args, mirrored)
    assert ("__shared__" in kernel.source("cuda")) == (scope != "global")
    assert len(kernel.kernels[0].args) == (3 if scope == "global" else 2)


def test_a_stage_at_a_thread_lies_in_local_memory() -> None:
    s, args = attached(threads=False, at="thread")
    assert "  float B[1];" in text(s, args)
    check(s, args, mirrored)


def test_warp_memory_has_a_place_for_each_warp() -> None:
    A, B, C = pair()
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], factor=4)
    _, ji = s[C].split(C.op.axis[1], factor=32)
    s[C].bind(io, block())
    s[C].bind(ii, thread(4, "y"))
    s[C].bind(ji, thread(32))
    s[B].compute_at(s[C], ii)
    s[B].set_scope("warp")
    _, bi = s[B].split(B.op.axis[1], factor=32)
    s[B].bind(bi, thread(32))
    assert "float B[256];" in text(s, [A, C])
    check(s, [A, C], mirrored)


def test_arguments_that_are_aligned_to_their_elements_alone_run_too() -> None:
    program = gpu_programs.PROGRAMS["vector_add_vectors"]()
    f = tw.build(program.schedule, program.args, target="cuda -emulate")
    a, b = program.inputs()
    shifted = np.empty(1025 * 4, np.uint8)[4:].view("float32")
    shifted[:] = a
    assert shifted.ctypes.data % 16 == 4
    result = program.output()
    f(shifted, b, result)
    np.testing.assert_allclose(result, a + b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_rounds_after_every_operation(dtype: str) -> None:
    A, B = te.placeholder((500,), dtype, name="A"), te.placeholder((500,), dtype, name="B")
    C = te.compute((500,), lambda i: te.max(A[i] * B[i] + A[i] / B[i], B[i]), name="C")
    host, device = te.create_schedule(C.op), te.create_schedule(C.op)
    device[C].bind(C.op.axis[0], thread())
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(500) * 10.0 ** rng.integers(-4, 4, 500)).astype(kind) for _ in range(2))
    found, expected = np.empty(500, kind), np.empty(500, kind)
    tw.build(device, [A, B, C], target="cuda -emulate")(a, b, found)
    tw.build(host, [A, B, C])(a, b, expected)
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


def test_bound_checks_stop_the_kernel_with_their_message() -> None:
    X, I = te.placeholder((10,), name="X"), te.placeholder((10,), "int32", name="I")
    Y = te.compute((10,), lambda i: X[I[i]], name="Y")
    s = te.create_schedule(Y.op)
    s[Y].bind(Y.op.axis[0], thread())
    f = tw.build(s, [X, I, Y], target="cuda -emulate", bounds_check=True)
    x, i, y = np.arange(10, dtype="float32"), np.arange(10, dtype="int32")[::-1].copy(), np.empty(10, "float32")
    f(x, i, y)
    np.testing.assert_array_equal(y, x[::-1])
    i[3] = 20
    with pytest.raises(CudaError, match=r"TW0825: assertion in main_kernel0, line \d+: X is read out of range"):
        f(x, i, y)
    with pytest.raises(
        CudaError, match=r"TW0821: out of bounds in main_kernel0.*thread \(3, 0, 0\).*reads element 20 of 'X'"
    ):
        tw.build(s, [X, I, Y], target="cuda -emulate")(x, i, y)


# Refusals


def unbound() -> tuple[Any, list[Any]]:
    A, B, C = pair()
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    return s, [A, C]


def symbolic_threads() -> tuple[Any, list[Any]]:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], thread())
    return s, [A, B]


def too_many(x: int = 64, y: int = 64) -> tuple[Any, list[Any]]:
    A = te.placeholder((y, x), name="A")
    B = te.compute((y, x), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], thread(axis="y"))
    s[B].bind(B.op.axis[1], thread())
    return s, [A, B]


def shared_at_root() -> tuple[Any, list[Any]]:
    A, B, C = pair()
    s = te.create_schedule(C.op)
    for stage in (B, C):
        s[stage].bind(stage.op.axis[0], block())
        s[stage].bind(stage.op.axis[1], thread())
    s[B].set_scope("shared")
    return s, [A, C]


def across_blocks() -> tuple[Any, list[Any]]:
    A, B, C = pair()
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[1], block())
    s[B].compute_at(s[C], C.op.axis[0])
    return s, [A, B, C]


def symbolic_shared() -> tuple[Any, list[Any]]:
    n = te.var("n")
    A = te.placeholder((8, n), name="A")
    B = te.compute((8, n), lambda i, j: A[i, n - 1 - j], name="B")
    s = te.create_schedule(B.op)
    S = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], block())
    s[S].compute_at(s[B], B.op.axis[0])
    return s, [A, B]


def large_tile() -> tuple[Any, list[Any]]:
    A = te.placeholder((512, 512), name="A")
    B = te.compute((512, 512), lambda i, j: A[511 - i, j], name="B")
    s = te.create_schedule(B.op)
    S = s.cache_read(A, "shared", [B])
    outer, _ = s[B].split(B.op.axis[0], factor=512)
    s[B].bind(outer, block())
    s[B].bind(B.op.axis[1], thread())
    s[S].compute_at(s[B], outer)
    s[S].bind(s[S].op.axis[1], thread())
    return s, [A, B]


def traded_local() -> tuple[Any, list[Any]]:
    """Threads fetch a tile by rows and read it by columns, each from its own memory."""
    program = gpu_programs.transpose(45, 37)
    next(stage for stage in program.schedule.stages if stage.scope == "shared").scope = "local"
    return program.schedule, program.args


def shared_by_blocks() -> tuple[Any, list[Any]]:
    """A stage's own loop is bound to blocks, within the block that reads all of it."""
    A, B, C = pair()
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], block())
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("shared")
    s[B].bind(B.op.axis[1], block("y"))
    return s, [A, B, C][::2]


REFUSALS: dict[str, tuple[Callable[[], tuple[Any, list[Any]]], str]] = {
    "nothing is bound": (
        unbound,
        r"(?s)TW0801: cannot lower main_kernel0: no loop over C is bound.*fix: s\[C\].bind\(axis",
    ),
    "a symbolic number of threads": (
        symbolic_threads,
        r"(?s)TW0802: .*'i', bound to threadIdx.x, has the extent n.*split the loop",
    ),
    "too many threads": (too_many, r"(?s)TW0804: .*a block of 4096 threads.*at most 1024"),
    "too many threads along one axis": (lambda: too_many(2048, 1), r"(?s)TW0804: .*2048 threads along threadIdx.x"),
    "shared memory at root": (
        shared_at_root,
        r"(?s)TW0807: cannot lower: B lies in shared memory and is computed at root",
    ),
    "local memory in which threads trade places": (
        traded_local,
        r"(?s)TW0808: .*A.shared, in local memory, is filled by the threads of threadIdx.[xy] together",
    ),
    "local memory of many threads": (
        lambda: attached("local"),
        r"(?s)TW0808: .*B, in local memory, is filled by the threads of threadIdx.x.*set_scope",
    ),
    "one block waits for another": (
        across_blocks,
        r"(?s)TW0809: .*B is computed outside of the loop that is bound to blockIdx.x",
    ),
    "blocks fill shared memory together": (
        shared_by_blocks,
        r"(?s)TW0809: .*B, in shared memory of a kernel, is filled by the blocks of blockIdx.y together",
    ),
    "shared memory of unknown size": (symbolic_shared, r"(?s)TW0811: .*A.shared, in shared memory, has .*n.* elements"),
    "more shared memory than there is": (
        large_tile,
        r"(?s)TW0812: .*1048576 bytes of shared memory.*at most 166912 bytes",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_gpu_cannot_do_is_refused_with_a_fix(name: str) -> None:
    program, message = REFUSALS[name]
    schedule, args = program()
    with pytest.raises(CudaError, match=message):
        tw.build(schedule, args, target="cuda")


def test_functions_written_by_hand_are_refused_too() -> None:
    cases = {
        r"TW0805: .*bound to .threadIdx.w.": 'for i in thread("threadIdx.w", 4):\n        C[i] = A[i]',
        r"(?s)TW0810: .*threads of threadIdx.x \('i'\) all update the same elements of C": 'for i in thread("threadIdx.x", 4):\n        C[0] = C[0] + A[i]',  # noqa: E501
        r"(?s)TW0806: .*under `A\[0\] < 1.0`": """for i in thread("threadIdx.x", 4):
        S: shared float32[4]
        if A[0] < 1.0:
            for j in thread("threadIdx.x", 4):
                S[j] = A[j]
            C[i] = S[3 - i]""",
        r"(?s)TW0806: .*shuffle|work together": """for i in thread("threadIdx.x", 4):
        if A[i] < 1.0:
            C[i] = call_extern(float32, "tw_shuffle", A[i], 0, 4)""",
    }
    for message, body in cases.items():
        function = parse(f'@attrs(stage="loops")\ndef main(A: float32[4], C: out float32[4]):\n    {body}\n')
        with pytest.raises(CudaError, match=message):
            tw.build(function, target="cuda")


def test_a_shorter_thread_loop_keeps_a_guard() -> None:
    function = parse("""@attrs(stage="loops")
def main(A: float32[8], C: out float32[8]):
    for i in thread("threadIdx.x", 8):
        S: shared float32[8]
        for j in thread("threadIdx.x", 8):
            S[j] = A[j]
        for j in thread("threadIdx.x", 4):
            C[j] = S[7 - j]
            C[j + 4] = S[3 - j]
""")
    f = tw.build(function, target="cuda -emulate")
    assert "if (thread_x < 4)" in f.source("cuda")
    values, result = np.arange(8, dtype="float32"), np.empty(8, "float32")
    f(values, result)
    np.testing.assert_array_equal(result, values[::-1])


def test_a_reduction_over_no_threads_is_begun_all_the_same() -> None:
    A = te.placeholder((0, 3), name="A")
    k = te.reduce_axis((0, 0), name="k")
    B = te.compute((3,), lambda j: te.sum(A[k, j], axis=k), name="B")
    s = te.create_schedule(B)
    s[B].bind(k, thread())
    found = np.full(3, 7, np.float32)
    tw.build(s, [A, B], target="cuda -emulate")(np.zeros((0, 3), np.float32), found)
    np.testing.assert_array_equal(found, 0)


def test_lanes_whose_shared_memory_is_taken_out_of_the_loop_run_one_after_another() -> None:
    """Where the inside of a guarded loop is freed of its guards, allocations leave the loops: lanes then share one element."""
    A, W = te.placeholder((3, 3), "int64", name="A"), te.placeholder((3,), "int64", name="W")
    P = te.compute((3, 3), lambda i, j: A[i, j] + 1, name="P")
    r = te.reduce_axis((0, 3), "r")
    X = te.compute((3, 1), lambda i, j: te.sum(P[i, j + r] * W[r], axis=r), name="X")
    s = te.create_schedule(X)
    s[P].compute_at(s[X], r)
    part = s.rfactor(X, r, factor_axis=2)
    i, j, lane = s[part].op.axis
    s[part].vectorize(lane)
    fused = s[part].fuse(*s[part].split(i, factor=8), j)
    s[part].bind(s[part].split(fused, factor=8)[0], block())
    s[X].bind(X.op.axis[0], block())
    a, w, found = np.arange(9).reshape(3, 3), np.array([1, 10, 100]), np.zeros((3, 1), np.int64)
    tw.build(s, [A, W, X], target="cuda -emulate")(a, w, found)
    np.testing.assert_array_equal(found[:, 0], (a + 1) @ w)


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_memory_that_threads_share_is_not_filled_in_a_loop_that_some_threads_leave_early(scope: str) -> None:
    """The first thread fills it for all: it did one step where others did more, and the store was lost."""
    A = te.placeholder((8, 1), name="A")

    def prefix(i: te.Var, j: te.Var) -> te.Expr:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[k, j], axis=k)

    B = te.compute((8, 1), prefix, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    copy = s.cache_read(A, scope, [B])
    s[copy].compute_at(s[B], B.op.reduce_axis[0])
    with pytest.raises(
        CudaError, match=f"TW0806.*A.{scope}, in {scope} memory, is filled where not all threads that share it"
    ):
        tw.build(s, [A, B], target="cuda -emulate")
    s[copy].set_scope("local")
    values = np.arange(8, dtype="float32").reshape(8, 1)
    found = np.empty_like(values)
    tw.build(s, [A, B], target="cuda -emulate")(values, found)
    np.testing.assert_array_equal(found, np.cumsum(values, 0))
