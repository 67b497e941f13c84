"""What f.kernels tells of the code: registers, occupancy, the main loop, and how accesses go through memory."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.cuda.inspection import InspectedKernel, main_loop
from tilewright.codegen.gpus import GPUS, Occupancy

compiled = pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVRTC is not installed")


def transposed(side: int, padding: int) -> tw.Kernel:
    """B[j, i] = A[i, j] through a square of shared memory, whose rows are so much longer than a warp."""
    A = te.placeholder((side, side), name="A")
    B = te.compute((side, side), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    i, j, ii, jj = s[B].tile(*B.op.axis, 32, 32)
    s[tile].compute_at(s[B], j)
    if padding:
        s[tile].storage_align(tile.op.axis[0], 32, padding)
    x, y = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    for stage, (rows, columns) in ((s[B], (ii, jj)), (s[tile], tuple(s[tile].op.axis))):
        _, row = stage.split(rows, 8)
        stage.bind(row, y)
        stage.bind(columns, x)
    s[B].bind(i, te.thread_axis("blockIdx.y"))
    s[B].bind(j, te.thread_axis("blockIdx.x"))
    return tw.build(s, [A, B], target="cuda -emulate -arch=sm_80")


def launch_of(f: tw.Kernel) -> InspectedKernel:
    (launch,) = f.kernels
    return launch


@pytest.mark.parametrize(("padding", "passes"), [(0, 32), (1, 1)])
def test_columns_of_an_unpadded_square_go_through_one_bank(padding: int, passes: int) -> None:
    f = transposed(64, padding)
    a, b = np.random.default_rng(1).random((64, 64), "float32"), np.zeros((64, 64), "float32")
    assert launch_of(f).traffic == (), "nothing ran"
    f(a, b)
    assert (b == a.T).all()
    loads = [row for row in launch_of(f).traffic if row.memory == "shared" and not row.stores]
    assert [(row.instructions, row.transactions, row.least) for row in loads] == [(128, 128 * passes, 128)]
    assert launch_of(f).bank_conflicts == 128 * (passes - 1)
    assert launch_of(f).uncoalesced == 0
    line = f.source("cuda").splitlines()[loads[0].line - 1]
    assert line.strip().startswith("B["), "the line of the text that reads the square"


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (11, 32)])
def test_strided_reads_take_more_sectors_than_their_bytes(stride: int, sectors: int) -> None:
    n = 64
    A = te.placeholder((n * stride,), name="A")
    B = te.compute((n,), lambda i: A[i * stride] + 1, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, B], target="cuda -emulate")
    f(np.zeros(n * stride, "float32"), np.zeros(n, "float32"))
    (load,) = [row for row in launch_of(f).traffic if not row.stores]
    assert (load.instructions, load.transactions, load.least, load.bytes) == (2, 2 * sectors, 2 * 4, 4)
    assert launch_of(f).uncoalesced == 2 * (sectors - 4)


def test_lanes_of_a_branch_are_one_instruction_without_the_others() -> None:
    n = 37
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.if_then_else(i % 2 == 0, A[i], 0.0), name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, B], target="cuda -emulate")
    f(np.ones(n, "float32"), np.zeros(n, "float32"))
    (load,) = [row for row in launch_of(f).traffic if not row.stores]
    assert (load.instructions, load.transactions, load.least) == (2, 4 + 1, 2 + 1), (
        "16 floats of 128 bytes, and 3 of 20"
    )


@compiled
def test_registers_and_shared_memory_are_the_compilers() -> None:
    launch = launch_of(transposed(64, 1))
    assert 8 <= launch.registers <= 64 and launch.spilled_bytes == launch.local_bytes == 0
    assert launch.shared_bytes == (31 * 33 + 32) * 4, "the last row is not padded"
    assert launch.occupancy == Occupancy(8, 1.0, "threads")


@compiled
def test_an_array_that_no_register_holds_is_local_memory() -> None:
    A, at = te.placeholder((64, 50), name="A"), te.placeholder((9,), "int32", name="at")
    k = te.reduce_axis((0, 9))
    B = te.compute((64, 50), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((64,), lambda i: te.sum(B[i, te.max(te.min(at[k], 49), 0)], k), name="C")
    s = te.create_schedule(C.op)
    s[B].set_scope("local")
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    assert launch_of(tw.build(s, [A, at, C], target="cuda -emulate")).local_bytes >= 200


@compiled
def test_the_main_loop_is_the_one_that_computes() -> None:
    n = te.var("n")
    A = te.placeholder((n, 32), name="A")
    k = te.reduce_axis((0, n))
    B = te.compute((32,), lambda i: te.sum(A[k, i] * A[k, i], k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    counts = launch_of(tw.build(s, [A, B], target="cuda -emulate", fp_contract=True)).instructions
    assert counts["FFMA"] == counts["LDG.32"] > 0 and "STG.32" not in counts


def test_loops_are_found_in_assembly() -> None:
    text = """
//--------------------- .text.other ----
.text.other:
        /*0000*/  EXIT ;
//--------------------- .text.k ----
.text.k:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
.L_x_2:
        /*0020*/              @!P0 LDS.U.64 R8, [UR5] ;
        /*0030*/                   FFMA R5, R6, R7, R5 ;
        /*0040*/               @P1 BRA `(.L_x_2) ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
        /*0060*/                   STG.E.U16 [R2.64], R4 ;
        /*0070*/                   EXIT ;
.L_x_0:
        /*0080*/                   BRA `(.L_x_0);
        /*0090*/                   NOP;
"""
    assert main_loop(text, "k") == {"LDS.64": 1, "FFMA": 1, "BRA": 1}
    assert main_loop(text, "other") == {"EXIT": 1}, "without a loop it is the whole kernel"


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "bound"),
    [
        ("sm_80", 256, 32, 0, 8, "threads"),
        ("sm_80", 256, 33, 0, 6, "registers"),
        ("sm_80", 1024, 64, 0, 1, "registers"),
        ("sm_80", 128, 32, 48 * 1024, 3, "shared memory"),
        ("sm_86", 32, 16, 0, 16, "blocks"),
        ("sm_90", 64, 255, 0, 4, "registers"),
        ("sm_89", 33, 16, 0, 24, "threads"),
    ],
)
def test_occupancy_is_the_least_of_what_a_multiprocessor_has(
    arch: str, threads: int, registers: int, shared: int, blocks: int, bound: str
) -> None:
    held = Occupancy.of(GPUS[arch], threads, registers, shared)
    assert (held.blocks, held.bound) == (blocks, bound)
    assert held.share == blocks * -(-threads // 32) * 32 / GPUS[arch].threads


@pytest.mark.parametrize(("across", "beside"), [("threadIdx.y", "threadIdx.x"), ("threadIdx.x", "threadIdx.y")])
@pytest.mark.parametrize("sharing", [3, 8, 24])
def test_threads_that_join_their_sums_meet_in_no_bank(across: str, beside: str, sharing: int) -> None:
    A = te.placeholder((96, 40), name="A")
    k = te.reduce_axis((0, 96))
    B = te.compute((40,), lambda j: te.sum(A[k, j], k), name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 20)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis(beside))
    s[B].bind(s[B].split(B.op.reduce_axis[0], sharing)[1], te.thread_axis(across))
    f = tw.build(s, [A, B], target="cuda -emulate")
    a, b = np.random.default_rng(2).integers(0, 9, (96, 40)).astype("float32"), np.zeros(40, "float32")
    f(a, b)
    assert (b == a.sum(0)).all()
    assert launch_of(f).bank_conflicts == 0
