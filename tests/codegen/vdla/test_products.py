"""target="vdla": products of int8 matrices, by every way in which tiles may lie."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla
from tilewright.codegen.vdla.machine import MACHINE
from tilewright.compat import tvm
from tilewright.ir.interpret.interpreter import Interpreter
from vdla_programs import arrays, assert_same_bits, compiled, product


@pytest.mark.parametrize("layout", ["kykx", "ykkx", "ykxk", "kyxk"])
def test_matrices_may_lie_any_way_round(layout: str) -> None:
    assert_same_bits(*product((16, 24, 8), tile=(8, 24), depth=8, layout=layout))


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((8, 8, 8), {"tile": (8, 8), "depth": 8}),
        ((24, 8, 40), {"tile": (24, 8), "depth": 40}),
        ((16, 48, 32), {"threads": 1, "intrinsic": 16}),
        ((32, 16, 32), {"threads": 2}),
        ((28, 14, 21), {"tile": (7, 7), "depth": 7, "threads": 2, "intrinsic": 7}),
        ((32, 8, 16), {"tile": (8, 8), "depth": 8, "threads": 4}),
        ((16, 16, 16), {"weights": vdla.inp_buffer}),
    ],
)
def test_results_are_those_of_the_unscheduled_program(sizes: tuple[int, int, int], options: dict) -> None:
    assert_same_bits(*product(sizes, **options))


def test_sums_wrap_in_32_bits() -> None:
    """1040 products of -128 by -128, taken up by what a sum begins with near the end of int32."""
    A, B = te.placeholder((8, 16), "int8", "A"), te.placeholder((8, 16), "int8", "B")
    k = te.reduce_axis((0, 16), "k")
    S = te.compute((8, 8), lambda y, x: te.sum(A[y, k].astype("int32") * B[x, k].astype("int32"), axis=k), "S")
    C = te.compute((8, 8), lambda y, x: S[y, x] + (2**31 - 1), "C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, vdla.acc_buffer)
    s[S].set_scope(vdla.acc_buffer)
    s[S].tensorize(S.op.axis[0], vdla.gemm(8, 8, 16))
    s.cache_read(A, vdla.inp_buffer)
    s.cache_read(B, vdla.wgt_buffer)
    f = tw.build(s, [A, B, C], target="vdla")
    a, c = np.full((8, 16), -128, "int8"), np.zeros((8, 8), "int32")
    f(a, a, c)
    assert CL.name.startswith("C.") and (c == 16 * 128 * 128 + 2**31 - 1 - 2**32).all()


def test_virtual_threads_load_while_the_array_computes() -> None:
    """Each has places of its own, so that the copies of one wait for the products of the other no more."""
    waited = {}
    for threads in (1, 2):
        report = compiled(*product((64, 64, 64), tile=(16, 16), depth=32, threads=threads)).timed()
        waited[threads] = report.cycles, report.stalls["ex", "a token of ld"]
        assert report.products == 64**3 and report.utilisation == 64**3 / (report.cycles * MACHINE.peak)
    assert waited[2][0] < 0.8 * waited[1][0] and waited[2][1] < 0.6 * waited[1][1]


def test_threads_within_threads_share_by_rows_and_by_columns() -> None:
    """Each of four threads has sums of its own; inputs belong to rows of threads, weights to columns."""
    A, B = te.placeholder((16, 16), "int8", "A"), te.placeholder((16, 16), "int8", "B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 16), lambda y, x: te.sum(A[y, k].astype("int32") * B[k, x].astype("int32"), axis=k), "C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, vdla.acc_buffer)
    AL, BL = s.cache_read(A, vdla.inp_buffer), s.cache_read(B, vdla.wgt_buffer)
    rows, columns, _, _ = s[C].tile(*C.op.axis, 8, 8)
    s[C].bind(rows, te.thread_axis("vthread"))
    s[C].bind(columns, te.thread_axis("cthread"))
    s[CL].compute_at(s[C], columns)
    yi, xi = s[CL].op.axis
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 8)
    s[CL].reorder(ko, yi, xi, ki)
    s[CL].tensorize(yi, vdla.gemm8x8)
    s[AL].compute_at(s[CL], ko)
    s[BL].compute_at(s[CL], ko)
    program = assert_same_bits(s, [A, B, C])
    loads = [str(each).partition("(")[2].partition("[")[0] for each in program.stream if each.unit == "ld"]
    assert len(loads) == 8 and len(set(loads)) == 8, "two parts of each operand, twice, in places that take turns"


def test_the_same_schedule_runs_on_other_targets() -> None:
    s, args = product((16, 16, 16))
    values = arrays(args)
    Interpreter(tw.lower(s, args))(*values)
    np.testing.assert_array_equal(values[2], values[0].T.astype("int32") @ values[1].astype("int32"))


def test_the_listing_shows_copies_products_and_tokens() -> None:
    f = tw.build(*product((16, 16, 32)), target="vdla")
    lines = f.source("asm").splitlines()
    assert lines[0] == "; main: 8 instructions"
    assert lines[2].endswith("ld.dma_copy2d(A.vdla.inp_buffer[0: 1], A[0: 1]) over 256")
    assert "ex.pop_dep_from(ld); ex.gemm(C.vdla.acc_buffer[0: " in lines[4] and lines[4].endswith("ex.push_dep_to(ld)")
    with pytest.raises(tw.CallError, match=r"(?s)no source 'ptx'.*asm"):
        f.source("ptx")


def test_both_operands_in_one_scratchpad_take_turns() -> None:
    cycles = [
        compiled(*product((16, 16, 16), weights=scope)).timed().busy["ex"]
        for scope in (vdla.wgt_buffer, vdla.inp_buffer)
    ]
    assert cycles[1] - cycles[0] == 16 * 16 * 16 // 8 // 8


def test_the_snippet_of_the_lecture() -> None:
    """A[k, y] by B[k, x], with tvm's names; what the slide leaves out stands between its lines."""
    from tilewright.compat.tvm import te as t
    from tilewright.compat.tvm import vdla

    A, B = t.placeholder((32, 32), "int8", "A"), t.placeholder((32, 32), "int8", "B")
    k = t.reduce_axis((0, 32), "k")
    C = t.compute((32, 32), lambda y, x: t.sum(A[k, y].astype("int32") * B[k, x].astype("int32"), axis=k), "C")
    s = t.create_schedule(C.op)
    CL = s.cache_write(C, vdla.acc_buffer)
    AL = s.cache_read(A, vdla.inp_buffer)
    BL = s.cache_read(B, vdla.wgt_buffer)
    yo, xo, _, _ = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 8)
    s[CL].compute_at(s[C], xo)
    yi, xi = s[CL].op.axis
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 8)
    s[CL].reorder(ko, yi, xi, ki)
    s[AL].compute_at(s[CL], ko)
    s[BL].compute_at(s[CL], ko)
    s[CL].tensorize(yi, vdla.gemm8x8)
    f = tvm.build(s, [A, B, C], "vdla")
    assert f.get_source().startswith("; ") and "ld.push_dep_to(ex)" in f.get_source()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (32, 32), "int8") for _ in range(2))
    c = tvm.nd.empty((32, 32), "int32")
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.T.astype("int32") @ b.astype("int32"))
