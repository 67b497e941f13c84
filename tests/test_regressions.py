"""Programs that were once compiled wrongly or refused, found by drawn programs and made small."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.llvm import jit
from tilewright.codegen.llvm.jit import assembly_text, compile_text
from tilewright.codegen.llvm.workarounds import sign_masks
from tilewright.codegen.llvm.workarounds.masked_stores import spell_out_lone_lanes
from tilewright.codegen.llvm.workarounds.sign_masks import spell_out_sign_tests
from tilewright.codegen.target import Target
from tilewright.ir import equal
from tilewright.ir.analysis.regions import Span, difference_bound
from tilewright.ir.arith import Analyzer
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import And, Broadcast, BufferLoad, Cast, Let, Ramp, Var
from tilewright.ir.interpret import interpreter
from tilewright.ir.ops import const
from tilewright.ir.passes.common.bound_checks import bound_checks
from tilewright.ir.passes.common.hoist import hoist_invariants
from tilewright.ir.passes.common.let_names import rename_lets
from tilewright.ir.passes.common.loop_partition import loop_partition
from tilewright.ir.passes.common.narrow import narrow_offsets
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.common.storage import plan_storage
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.passes.cpu.full_vectors import widen_rows
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.stmt import Allocate, Assert, BufferStore, For, Function, LoopKind, Seq
from tilewright.ir.verify import verify
from tilewright.ir.visit import walk
from tilewright.schedule import from_json, to_json
from tilewright.schedule.lowering.bounds import _round_to_box


def agrees(s: Any, args: list[Any], *values: np.ndarray, expected: np.ndarray) -> None:
    """The kernel, and the interpreter on the lowered program, write `expected` into the last argument."""
    found = np.full(expected.shape, 77).astype(expected.dtype)
    interpreter.run(tw.lower(s, args), [*values, found], check=True)
    np.testing.assert_array_equal(found, expected)
    found = np.full(expected.shape, 77).astype(expected.dtype)
    tw.build(s, args)(*values, found)
    np.testing.assert_array_equal(found, expected)


def test_cache_read_by_stages_that_read_each_other() -> None:
    """A stage that reads both the cached tensor and another reader was left reading its operation of before."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: A[i] * B[i], name="C")
    D = te.compute((4,), lambda i: C[i] - A[i], name="D")
    s = te.create_schedule(D.op)
    s.cache_read(A, "local", [B, C])
    a = np.arange(4, dtype="float32")
    agrees(s, [A, D], a, expected=a * (a + 1) - a)


def test_select_pads_without_loading_out_of_bounds() -> None:
    """te.select may evaluate both sides, and read before the first element of what it pads."""
    A = te.placeholder((5,), name="A")
    B = te.compute((9,), lambda i: te.select(te.all(i >= 2, i < 7), A[i - 2], 0.0), name="B")
    a = np.arange(1, 6, dtype="float32")
    plain, vector = te.create_schedule(B.op), te.create_schedule(B.op)
    vector[B].vectorize(vector[B].split(B.op.axis[0], 4)[1])
    for s in (plain, vector):
        agrees(s, [A, B], a, expected=np.pad(a, 2))


def test_select_of_bools_pads_without_loading_out_of_bounds() -> None:
    """select(c, x, False) became `c and x`, which evaluates both."""
    A = te.placeholder((5,), "bool", name="A")
    B = te.compute((5,), lambda i: te.select(i < 4, A[i + 1], False), name="B")
    a = np.array([True, False, True, True, True])
    agrees(te.create_schedule(B.op), [A, B], a, expected=np.append(a[1:], False))


def test_select_within_bounds_stays_eager() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: te.select(i < 4, A[i], A[7 - i]), name="B")
    assert "select(" in str(tw.lower(te.create_schedule(B.op), [A, B]))


def test_symbolic_regions_are_no_larger_than_the_tensor() -> None:
    """The region of B was bounded by what a call lets an extent be: a buffer of a billion rows."""
    n = te.size_var("n")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, 3), lambda i, j: te.if_then_else(j + 1 < n, B[j + 1, j], B[i, j]), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = np.arange(15, dtype="float32").reshape(5, 3)
    expected = np.stack([a[j + 1, j] + 1 for j in range(3)])
    agrees(s, [A, C], a, expected=np.broadcast_to(expected, (5, 3)))


def test_rfactor_keeps_where_behind_its_guard() -> None:
    """The guard of an inexact split and a where= that reads memory were joined by `and`, which evaluates both."""
    A = te.placeholder((8,), "int8", name="A")
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=A[k] > 1), name="B")
    for first in (lambda s: s.rfactor(B, s[B].split(k, 3)[0]), lambda s: s.cache_write(B, "local")):
        s = te.create_schedule(B.op)
        first(s)
        a = np.array([1, 2, 3, 0, 5, 6, 1, 4], "int8")
        agrees(s, [A, B], a, expected=np.array([20], "int8"))


def test_rfactor_beside_an_axis_of_one_iteration_that_begins_elsewhere() -> None:
    """A reduce axis over the single index 2 was taken to be at 0."""
    A = te.placeholder((4, 6), name="A")
    j, k = te.reduce_axis((2, 3), "j"), te.reduce_axis((0, 6), "k")
    B = te.compute((1,), lambda i: te.sum(A[j, k], axis=[j, k]), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, 2)[1])
    a = np.arange(24, dtype="float32").reshape(4, 6)
    agrees(s, [A, B], a, expected=a[2:3].sum(1))


def test_select_of_a_cached_tensor_reads_nothing_unwritten() -> None:
    """The cache holds an element before the first, which nothing writes; eager choices read it."""
    A = te.placeholder((9,), name="A")
    B = te.compute((4,), lambda i: te.select(i >= 1, A[i * 2 - 1], 0.0), name="B")
    s = te.create_schedule(B.op)
    s.cache_read(A, "local", [B])
    a = np.arange(9, dtype="float32")
    agrees(s, [A, B], a, expected=np.array([0, 1, 3, 5], "float32"))


def test_a_maximum_that_is_the_same_for_all_elements_builds() -> None:
    """LLVM's vectorizer took exponential time over a chain of compares and selects; a maximum is now one call."""
    A = te.placeholder((3,), name="A")
    j, k = te.reduce_axis((0, 3), "j"), te.reduce_axis((0, 5), "k")
    B = te.compute(
        (3, 2, 5),
        lambda i, x, y: te.max(
            te.floor(A[i]), axis=[j, k], where=A[i].astype("float64") != (k & 7).astype("float64"), init=0.0
        ),
        name="B",
    )
    a = np.array([1, 7, -3], "float32")
    expected = np.broadcast_to(np.maximum(a, 0)[:, None, None], (3, 2, 5))
    agrees(te.create_schedule(B.op), [A, B], a, expected=expected)


def test_select_around_a_choice_inlined_into_it() -> None:
    """What a guarded choice reads was thought safe, though the select around it evaluated the choice out of range."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.if_then_else(A[0] > 0.0, A[i], A[3 - i]), name="B")
    C = te.compute((6,), lambda i: te.select(te.all(i >= 1, i < 5), B[i - 1], 0.0), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    a = np.array([-1, 2, 3, 4], "float32")
    agrees(s, [A, C], a, expected=np.pad(a[::-1], 1))


def test_stores_that_llvm_joins_too_early() -> None:
    """LLVM's loop vectorizer made invalid code of this convolution, and emitting it ended the process."""
    data, kernel = te.placeholder((2, 3, 8), name="data"), te.placeholder((3, 2, 3), name="kernel")
    P = te.compute(
        (2, 3, 2, 9), lambda n, c, y, z: te.if_then_else(te.all(y >= 1, z >= 1), data[n, c, z - 1], 0.0), name="P"
    )
    ry, rx = te.reduce_axis((0, 2), "ry"), te.reduce_axis((0, 3), "rx")
    Q = te.compute(
        (2, 3, 4), lambda n, f, z: te.sum(P[n, f, ry, z * 2 + rx] * kernel[f, ry, rx], axis=[ry, rx]), name="Q"
    )
    R = te.compute((2, 3, 4), lambda n, f, z: te.max(Q[n, f, z], 0.0), name="R")
    s = te.create_schedule(R.op)
    cache = s.cache_write(Q, "shared")
    near = s.cache_read(P, "shared", [cache])
    n, f, z = s[cache].op.axis
    ry, rx = s[cache].op.reduce_axis
    s[cache].reorder(f, z, ry, n, rx)
    s[near].compute_at(s[cache], ry)
    a = np.arange(48).reshape(2, 3, 8).astype("float32") % 7
    b = np.arange(18).reshape(3, 2, 3).astype("float32") - 9
    p = np.pad(a, ((0, 0), (0, 0), (1, 0)))
    q = sum(p[:, :, x : x + 7 : 2] * b[None, :, 1, x, None] for x in range(3))
    agrees(s, [data, kernel, R], a, b, expected=np.maximum(q, 0))


@pytest.mark.parametrize("through", ["cache_write", "rfactor"])
def test_a_reduction_over_nothing_stays_empty_behind_a_guard(through: str) -> None:
    A = te.placeholder((10, 9), "int16", name="A")
    k = te.reduce_axis((0, 9), name="k")
    B = te.compute((10,), lambda i: te.min(A[i, k], axis=k, where=te.const(False, "bool")), name="B")
    s = te.create_schedule(B)
    if through == "cache_write":
        s[B].split(B.op.axis[0], 7)
        s.cache_write(B, "local")
    else:
        s.rfactor(B, s[B].split(k, 4)[1])
    out = np.zeros(10, np.int16)
    tw.build(s, [A, B])(np.zeros((10, 9), np.int16), out)
    assert (out == 32767).all()


def test_a_region_wider_than_its_dimensions_integers_is_the_whole_dimension() -> None:
    n = te.var("n", "int64")
    axis = te.compute((2,), lambda i: i, name="A").op.axis[0]
    span = Span(te.const(0), te.max(1, n.astype("int32")), 1 << 31)
    found = _round_to_box(span, axis.dom, axis, (), Analyzer())
    assert found is axis.dom


def test_rfactor_of_a_part_whose_other_part_is_fused_with_another_axis_reduces_that_axis_once() -> None:
    A = te.placeholder((4, 3, 2), "int32", name="A")
    r, q = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 2), name="q")
    B = te.compute((4,), lambda i: te.sum(A[i, r, q], axis=[r, q]), name="B")
    for factor in (7, 1):
        s = te.create_schedule(B)
        outer, inner = s[B].split(q, factor=factor)
        s[B].fuse(r, outer)
        s.rfactor(B, inner)
        a, out = np.arange(24, dtype=np.int32).reshape(4, 3, 2), np.zeros(4, np.int32)
        tw.build(s, [A, B])(a, out)
        np.testing.assert_array_equal(out, a.sum((1, 2)))


def test_llvm_does_not_vectorize_straight_lines_into_invalid_code(tmp_path: Path) -> None:
    """LLVM 22 joins the stores of these tiles before one of their values is computed, and ends the process when it emits
    that; hence a process of its own."""
    program = tmp_path / "tiles.py"
    program.write_text(
        textwrap.dedent('''
        import numpy as np
        import tilewright as tw
        from tilewright.ir.text.parser import parse

        f = tw.build(parse("""
            def D(A: float32[4, 4], B: float32[12, 4], D: out float32[4, 12]):
                near: local float32[12, 4]
                for ax0 in 12:
                    for ax1 in 4:
                        near[ax0, ax1] = B[ax0, ax1]
                C: float32[4, 12]
                for tile in 3:
                    for i in 4:
                        for j in 4:
                            C[i, tile * 4 + j] = 0.0
                            for k in 4:
                                C[i, tile * 4 + j] = C[i, tile * 4 + j] + A[i, k] * near[tile * 4 + j, k]
                for i in 4:
                    for j in 12:
                        D[i, j] = C[i, j] + 1.0
        """))
        a, b = np.arange(16, dtype="float32").reshape(4, 4), np.arange(48, dtype="float32").reshape(12, 4)
        d = np.zeros((4, 12), "float32")
        f(a, b, d)
        np.testing.assert_array_equal(d, a @ b.T + 1)
    ''')
    )
    subprocess.run([sys.executable, str(program)], check=True)


def test_what_is_computed_within_an_iteration_is_not_prefetched_for_a_later_one() -> None:
    """The prefetch stood before the allocation of the memory that it spoke of."""
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    s[C].prefetch(B, outer, 1)
    with pytest.raises(tw.LoweringError, match=r"computed within an iteration of 'i\.outer'"):
        tw.lower(s, [A, C])


def test_a_replayed_layout_counts_as_wide_as_the_one_that_was_recorded() -> None:
    """Indices of 64 bits went through 32."""
    n = te.var("n", "int64")
    A = te.placeholder((n, 5), name="A")
    B = te.compute((n, 5), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((n, 5), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: [i // 4, j, i % 4])
    lowered = tw.lower(s, [A, C])
    for records in (s.records, from_json(to_json(s.records))):
        assert equal(tw.lower(te.Schedule.replay(records, C.op), [A, C]), lowered)


@pytest.mark.parametrize(("source", "stored"), [(64, 8), (64, 32), (32, 8), (32, 16), (16, 8)])
def test_one_lane_that_is_left_of_a_truncated_vector_writes_itself_alone(source: int, stored: int) -> None:
    """LLVM 22 stores the whole element, as it was before it was truncated, where a constant mask leaves one lane."""
    cases = [(lanes, lane) for lanes in (2, 3, 4, 8, 16) for lane in range(lanes)]
    text = ""
    for lanes, lane in cases:
        narrow, mask = f"<{lanes} x i{stored}>", ", ".join(f"i1 {str(at == lane).lower()}" for at in range(lanes))
        text += f"""
            define void @f_{lanes}_{lane}(ptr %from, ptr %to) {{
              %wide = load <{lanes} x i{source}>, ptr %from, align 1
              %v = trunc <{lanes} x i{source}> %wide to {narrow}
              call void @llvm.masked.store.v{lanes}i{stored}.p0({narrow} %v, ptr align 1 %to, <{lanes} x i1> <{mask}>)
              ret void
            }}
        """
    compiled = compile_text([text], Target.parse("llvm"), [f"f_{lanes}_{lane}" for lanes, lane in cases], {}, {})
    for lanes, lane in cases:
        values, found = np.arange(300, 300 + lanes).astype(f"int{source}"), np.full(lanes + 16, 77, f"int{stored}")
        wanted = found.copy()
        wanted[lane] = values[lane].astype(f"int{stored}")
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(compiled.address(f"f_{lanes}_{lane}"))
        function(values.ctypes.data, found.ctypes.data)
        np.testing.assert_array_equal(found, wanted)


def test_masked_stores_of_one_lane_are_spelled_out_and_others_kept() -> None:
    def store(mask: str, value: str = "%v") -> str:
        return f"  call void @llvm.masked.store.v2i8.p0(<2 x i8> {value}, ptr align 4 %p, <2 x i1> <{mask}>)\n"

    for kept in (store("i1 true, i1 true"), store("i1 true, i1 %m"), store("i1 false, i1 true", "splat (i8 3)")):
        assert spell_out_lone_lanes(kept) == kept
    assert spell_out_lone_lanes(store("i1 false, i1 true")) == (
        "  %lone.0 = extractelement <2 x i8> %v, i64 1\n  %lone.0.at = getelementptr inbounds i8, ptr %p, i64 1\n"
        "  store i8 %lone.0, ptr %lone.0.at, align 1\n"
    )


@pytest.mark.parametrize("extent", [0, 1, 5])
@pytest.mark.parametrize("symbolic", [False, True])
def test_virtual_threads_of_no_and_of_unknown_number(extent: int, symbolic: bool) -> None:
    n = te.var("n") if symbolic else extent
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    s[B].bind(B.op.axis[0], te.thread_axis("vthread"))
    around = np.full(extent + 2, 77, "float32")
    tw.build(s, [A, B])(np.arange(extent, dtype="float32"), around[1 : 1 + extent])
    np.testing.assert_array_equal(around, [77, *range(1, extent + 1), 77])


def test_a_difference_of_deeply_nested_minima_takes_no_exponential_time() -> None:
    xs = [te.var(f"x{at}") for at in range(24)]
    least = [te.min(*(x + shift for x in xs)) for shift in (0, 3)]
    greatest = [te.max(*(x + shift for x in xs)) for shift in (0, 3)]
    analyzer = Analyzer()
    assert difference_bound(least[1], least[0], analyzer) == 3
    assert difference_bound(greatest[0], greatest[1], analyzer) == -3
    assert difference_bound(greatest[0], least[0], analyzer) is None


def test_a_let_that_is_shared_stays_one_where_its_gathers_are_narrowed() -> None:
    A, out = Buffer("A", (const(100, "int64"),), DType("int32")), Buffer("out", (const(8, "int64"),), DType("int32"))
    bound, lanes = Var("bound", DType("int32")), Ramp(const(0, "int64"), const(1, "int64"), 8)
    turned = Ramp(const(0, "int32"), const(1, "int32"), 8) % Broadcast(const(7, "int32"), 8)
    gathered = BufferLoad(A, (Cast(turned, DType("int64x8")),))
    shared = Let(bound, const(3, "int32"), gathered * Broadcast(bound, 8))
    body = BufferStore(out, shared + shared, (lanes,))
    narrowed = narrow_offsets(Function("main", (A, out), body, (out,), {"stage": "flat"}))
    assert "int64x8" not in str(narrowed), "there was something to narrow"
    verify(narrowed)


@pytest.mark.parametrize("nested", [False, True])
def test_a_let_that_is_simplified_under_two_conditions_becomes_two(nested: bool) -> None:
    """And so does one within it, which both copies share until a name is changed."""
    A, out = Buffer("A", (const(9),), DType("int32")), Buffer("out", (const(9),), DType("int32"))
    i, bound = Var("i", DType("int32")), Var("bound", DType("int32"))
    deep = Var("deep", DType("int32"))
    square = Let(deep, bound * 3, deep * deep) if nested else bound * bound
    shared = Let(bound, BufferLoad(A, (te.max(i, 4),)), square + te.max(i, 4))
    chosen = te.if_then_else(i >= 4, shared, te.if_then_else(i < 2, shared, 0))
    body = For(i, const(0), const(9), LoopKind.SERIAL, BufferStore(out, chosen, (i,)))
    function = Function("main", (A, out), body, (out,), {"stage": "loops"})
    verify(function)
    simpler = simplify(function)
    verify(simpler)
    a, found, wanted = np.arange(1, 10, dtype="int32"), np.zeros(9, "int32"), np.zeros(9, "int32")
    interpreter.run(function, [a, wanted])
    interpreter.run(simpler, [a, found])
    np.testing.assert_array_equal(found, wanted)


def test_shared_values_are_data_whose_arithmetic_wraps() -> None:
    """max(b - p + 6, p - b - 6) is max(p - b - 12, b - p) + 6 only where nothing wraps, as indices do not."""
    A, C = te.placeholder((4,), "float16", name="A"), te.placeholder((4,), "float16", name="C")

    def body(i: te.Expr) -> te.Expr:
        x, y = A[i].astype("int32"), C[i].astype("int32")
        b, p = x | y, x * y
        return te.max(b - p + 6, p - b - 6)

    B = te.compute((4,), body, name="B")
    a, c = np.array([np.inf, -np.inf, 7, 0], "float16"), np.array([0, 1, -3, np.inf], "float16")
    found, wanted = np.zeros(4, "int32"), np.zeros(4, "int32")
    s = te.create_schedule(B)
    tw.build(s, [A, C, B], target="interpret")(a, c, wanted)
    tw.build(s, [A, C, B])(a, c, found)
    np.testing.assert_array_equal(found, wanted)


def test_an_init_that_reads_is_not_read_beyond_the_last_whole_tile() -> None:
    """The cache of a reduction that was split 13 by 5 begins in 15 places; only 13 of them have an init to read."""
    A, first = te.placeholder((13, 4), name="A"), te.placeholder((13,), name="first")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute((13,), lambda i: te.sum(A[i, k], axis=k, init=first[i]), name="B")
    s = te.create_schedule(B)
    s[B].split(B.op.axis[0], 5)
    s.cache_write(B, "global")
    rng = np.random.default_rng(3)
    a, begin = (rng.integers(-9, 9, shape).astype("float32") for shape in ((13, 4), 13))
    found = np.zeros(13, "float32")
    tw.build(s, [A, first, B], target="interpret")(a, begin, found)
    np.testing.assert_array_equal(found, begin + a.sum(1))


@pytest.mark.parametrize(
    "run",
    [unroll, plan_storage, widen_rows, vectorize, loop_partition, hoist_invariants],
    ids=lambda run: run.__name__,
)
def test_a_pass_over_statements_does_not_write_out_what_expressions_share(run: Callable[[Function], Function]) -> None:
    """Sixty squares, each of the one before: 2 ** 60 operators for a pass that meets what is shared once a place."""
    A, out, own = (Buffer(name, (const(64),), DType("int32")) for name in ("A", "out", "own"))
    i, j = Var("i", DType("int32")), Var("j", DType("int32"))
    value: te.Expr = BufferLoad(A, (i * 16 + j,))
    for _ in range(60):
        value = te.max(value, 3) * value
    lanes = For(j, const(0), const(16), LoopKind.VECTORIZED, BufferStore(own, value, (i * 16 + j,)))
    copied = For(
        j, const(0), const(16), LoopKind.SERIAL, BufferStore(out, BufferLoad(own, (i * 16 + j,)), (i * 16 + j,))
    )
    body = Allocate(own, For(i, const(0), const(4), LoopKind.UNROLLED, Seq((lanes, copied))))
    made = run(Function("main", (A, out), body, (out,), {"stage": "loops"}))
    assert sum(1 for _ in walk(made.body)) < 5000


def test_bounds_are_checked_of_what_has_a_name_within_the_expression() -> None:
    """The check stands before the statement, where a let's variable has no value: neither as an index nor in a condition."""
    A, B, out = (Buffer(name, (const(extent),), DType("int32")) for name, extent in (("A", 9), ("B", 5), ("out", 9)))
    i, place = Var("i", DType("int32")), Var("place", DType("int32"))
    chosen = te.if_then_else(
        place >= 0, BufferLoad(B, (place,)) + te.if_then_else(place < 3, BufferLoad(B, (i // 2,)), 0), 0
    )
    body = For(
        i, const(0), const(9), LoopKind.SERIAL, BufferStore(out, Let(place, BufferLoad(A, (i,)) - 1, chosen), (i,))
    )
    checked = bound_checks(Function("main", (A, B, out), body, (out,), {"stage": "loops"}))
    verify(checked)
    found = np.zeros(9, "int32")
    interpreter.run(checked, [np.array([0, 1, 2, 3, 4, 5, 0, 1, 5], "int32"), np.arange(5, dtype="int32"), found])
    np.testing.assert_array_equal(found, [0, 0, 2, 3, 3, 4, 0, 3, 4])
    with pytest.raises(tw.TilewrightError, match=r"B is read out of range"):
        interpreter.run(checked, [np.full(9, 6, "int32"), np.arange(5, dtype="int32"), found])


def test_lets_of_one_name_in_two_branches_get_names_of_their_own() -> None:
    """As common-subexpression elimination made them of a choice that two branches share."""
    A, out = Buffer("A", (const(9),), DType("int32")), Buffer("out", (const(9),), DType("int32"))
    i, name = Var("i", DType("int32")), Var("name", DType("int32"))
    one, other = (Let(name, BufferLoad(A, (i,)), name * factor) for factor in (2, 3))
    body = For(i, const(0), const(9), LoopKind.SERIAL, BufferStore(out, te.if_then_else(i < 5, one, other), (i,)))
    assert len({node.var for node in walk(rename_lets(body)) if isinstance(node, Let)}) == 2
    verify(Function("main", (A, out), rename_lets(body), (out,), {"stage": "loops"}))


def test_a_check_has_no_names_that_the_statement_binds_again() -> None:
    """Names within a condition, and within the value of another name, stand for themselves in the check."""
    A, B, out = (Buffer(name, (const(extent),), DType("int32")) for name, extent in (("A", 9), ("B", 5), ("out", 9)))
    i, inner, outer = (Var(name, DType("int32")) for name in ("i", "inner", "outer"))
    place = Let(inner, BufferLoad(A, (i,)), inner * inner)
    value = Let(
        outer, place, te.if_then_else(Let(Var("again", DType("int32")), outer, outer > 0), BufferLoad(B, (outer,)), 0)
    )
    body = For(i, const(0), const(9), LoopKind.SERIAL, BufferStore(out, value, (i,)))
    checked = bound_checks(Function("main", (A, B, out), body, (out,), {"stage": "loops"}))
    verify(checked)
    found = np.zeros(9, "int32")
    interpreter.run(checked, [np.array([0, 1, 2, -2, -1, 0, 0, 1, 2], "int32"), np.arange(5, dtype="int32"), found])
    np.testing.assert_array_equal(found, [0, 1, 4, 4, 1, 0, 0, 1, 4])
    with pytest.raises(tw.TilewrightError, match=r"B is read out of range"):
        interpreter.run(checked, [np.full(9, 3, "int32"), np.arange(5, dtype="int32"), found])


def test_a_normalised_schedule_still_fills_what_its_intrinsic_fills() -> None:
    """A tile that is read one element at a time is computed whole, also where its loops were counted from 0."""
    a, b = (te.placeholder((1, 1, 4), "int64", name) for name in "ab")
    r = te.reduce_axis((0, 1), "r")
    T = te.compute((1, 1, 4, 4), lambda io, jo, ii, ji: te.sum(a[io, r, ii] * b[jo, r, ji], axis=r), "T")
    C = te.compute((4, 4), lambda i, j: T[i // 4, j // 4, i % 4, j % 4], "C")
    s = te.create_schedule(C)
    s[T].tensorize(T.op.axis[2], te.intrinsics.get("vector.outer_product_4x4", 1, "int64"))
    s[T].compute_at(s[C], C.op.axis[1])
    x, y, found = np.arange(4)[None, None], np.arange(4)[None, None] + 3, np.zeros((4, 4), "int64")
    tw.build(s.normalize(), [a, b, C], target="interpret")(x, y, found)
    np.testing.assert_array_equal(found, np.outer(x, y))


def test_a_prefetch_along_fused_loops_of_unknown_length_asks_for_rows() -> None:
    """Of lengths that count in 64 bits: what an iteration reads spans more planes than an int32 counts, as far as is known."""
    n, m = te.var("n", "int64"), te.size_var("m", "int64")
    A = te.placeholder((63, n, m), "float16", name="A")
    B = te.compute((1, 63, n, m), lambda b, i, j, k: A[i, j, k] + A[(k * 2 - 1) % 63, j, k], name="B")
    s = te.create_schedule(B)
    b, i, j, _ = B.op.axis
    s[B].prefetch(A, s[B].fuse(b, s[B].fuse(i, j)), -3)
    a = np.arange(63 * 5 * 7, dtype="int32").reshape(63, 5, 7).astype("float16")
    found = np.zeros((1, 63, 5, 7), "float16")
    tw.build(s, [A, B])(a, found)
    np.testing.assert_array_equal(found[0], a + np.stack([a[(k * 2 - 1) % 63, :, k] for k in range(7)], axis=-1))


def test_an_intrinsic_reads_vectors_before_a_dimension_of_one_element() -> None:
    """A layout may put half of a dimension of one element behind the one that the intrinsic's vectors run along."""
    a, b = (te.placeholder((1, 3, 4), "int64", name) for name in "ab")
    r = te.reduce_axis((0, 3), "r")
    T = te.compute((1, 1, 4, 4), lambda io, jo, ii, ji: te.sum(a[io, r, ii] * b[jo, r, ji], axis=r), "T")
    s = te.create_schedule(T)
    copied = s.cache_read(b, "global", [T])
    outer, inner = s[T].split(r, 1)
    s[T].reorder(outer, T.op.axis[2], T.op.axis[3], inner)
    s[T].tensorize(T.op.axis[2], te.intrinsics.get("vector.outer_product_4x4", 1, "int64"))
    s[copied].transform_layout(lambda i, k, j: [i // 2, k, j, i % 2])
    function = tw.lower(s, [a, b, T])
    verify(function)
    x, y, found = np.arange(12).reshape(1, 3, 4), np.arange(12).reshape(1, 3, 4) - 5, np.zeros((1, 1, 4, 4), "int64")
    tw.build(s, [a, b, T])(x, y, found)
    np.testing.assert_array_equal(found[0, 0], x[0].T @ y[0])


NOT_NUMBERS = np.array([np.nan, -np.nan, -1, 0, 1e30, np.inf, -np.inf, 5], "float32")


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_a_nan_behind_a_maximum_with_0_becomes_the_integer_0(dtype: str) -> None:
    A = te.placeholder((8,), "float32", name="A")
    B = te.compute((8,), lambda i: te.max(te.const(0.0, "float32"), A[i]).astype(dtype), name="B")
    got = np.ones(8, dtype)
    tw.build(te.create_schedule(B.op), [A, B])(NOT_NUMBERS, got)
    most = np.iinfo(dtype).max
    assert got.tolist() == [0, 0, 0, 0, most, most, 0, 5]


@pytest.mark.parametrize("least", [False, True])
def test_a_maximum_with_0_that_is_compared_with_0_keeps_to_what_a_nan_compares_as(least: bool) -> None:
    zero = te.const(0.0, "float32")
    bound = te.min if least else te.max
    A = te.placeholder((8,), "float32", name="A")

    def chosen(i: te.Var) -> te.Expr:
        value = bound(A[i], zero)
        return te.select(value < zero if least else value > zero, value, zero)

    B = te.compute((8,), chosen, name="B")
    got = np.ones(8, "float32")
    tw.build(te.create_schedule(B.op), [A, B])(NOT_NUMBERS, got)
    expected = np.where(np.isnan(NOT_NUMBERS), 0, (np.minimum if least else np.maximum)(NOT_NUMBERS, 0))
    assert got.tolist() == expected.tolist()


def test_a_bounds_check_reads_no_condition_where_another_one_forbids_it() -> None:
    """Conditions within conditions were joined by and, which evaluates both."""
    n = 7
    A = te.placeholder((n,), "int32", name="A")
    B = te.placeholder((n,), "int32", name="B")
    index = te.placeholder((n,), "int32", name="index")
    C = te.compute(
        (2, 4),
        lambda o, i: te.if_then_else(o * 4 + i < n, te.if_then_else(A[o * 4 + i] > 0, B[index[o * 4 + i]], 0), 0),
        name="C",
    )
    function = tw.lower(te.create_schedule(C.op), [A, B, index, C])
    checks = [node for node in walk(bound_checks(function).body) if isinstance(node, Assert)]
    assert checks
    joined = [node for check in checks for node in walk(check.condition) if isinstance(node, And)]
    assert not [
        node
        for node in joined
        if any(isinstance(inner, BufferLoad) and inner.buffer.name == "A" for inner in walk(node))
    ]


@pytest.mark.parametrize("dtype", ["bool", "int8"])
def test_few_comparisons_of_bytes_side_by_side_are_those_of_their_neighbours(dtype: str) -> None:
    """LLVM made one mask of the eight, and shifted a bit into it that stood for no byte."""
    A = te.placeholder((8,), dtype, name="A")
    F = te.compute((8,), lambda i: A[i].equal(0) if dtype == "int8" else ~A[i], name="F")
    O = te.compute((16,), lambda i: te.if_then_else(i < 8, F[i], F[15 - i]), name="O")
    N = te.compute((15,), lambda i: te.any(O[i], O[i + 1]), name="N")
    values = np.ones(8, dtype)
    values[1] = 0
    first = values == 0
    both = np.concatenate([first, first[::-1]])
    agrees(te.create_schedule(N.op), [A, N], values, expected=both[:-1] | both[1:])


def masks_of_signs() -> tuple[te.Schedule, list[te.Tensor]]:
    """A program whose masks are made of signs, looked into, and shifted."""

    def clipped(index: Any, last: int) -> Any:
        return te.max(te.min(index, last), 0)

    A, B = te.placeholder((7, 4, 3, 5), "uint32", "A"), te.placeholder((7, 4, 3, 5), "uint32", "B")
    C = te.compute(B.shape, lambda i, j, k, l: ~(0 - B[i, j, k, 4].astype("int8")), "C")

    def chosen(i: Any, j: Any, k: Any, l: Any) -> Any:
        first = C[clipped(i * 3 + 2, 6), j, clipped(-k - 2, 2), clipped(i + 1, 4)].astype("int64")
        other = C[clipped((-k - 2) // 3, 6), 3 - j, A[i, (k * 3 + 2) % 4, k, l].astype("int32") % 3, 4 - l]
        here = C[i, j, k, l].astype("int64")
        looked_up = C[C[i, 1, k, l].astype("int32") % 7, j, k, (l + 2) % 5]
        return te.select(~(first > here), te.select(first > here, other, looked_up), other)

    D = te.compute(B.shape, chosen, "D")

    def greatest(i: Any, j: Any, k: Any, l: Any) -> Any:
        at = te.if_then_else(
            te.all(l >= 0, l < 7), A[l, D[i, j, k, l].astype("int32") % 4, k, l], te.const(1, "uint32")
        )
        read = A[i, at.astype("int32") % 4, k, l].astype("int8")
        return te.max(te.max(te.max(read, D[i, j, k, l]), te.const(2, "int8")), D[i, j, k, 4 - l])

    E = te.compute(B.shape, greatest, "E")

    def joined(i: Any, j: Any, k: Any, l: Any) -> Any:
        divisor = te.select(te.all(j - 2 + l >= 0, j - 2 + l < 5), C[i, 3 - j, 2 - k, j - 2 + l], te.const(1, "int8"))
        rest = te.truncmod(D[clipped(-j - 2, 6), j, k, l], divisor)
        window = te.if_then_else(te.all(k >= 0, k < 4), E[clipped((k + 2) // 3, 6), k, k, l], te.const(0, "int8"))
        return te.max(rest + (E[0, j, k, 4 - l] - l.astype("int8")), window)

    F = te.compute(B.shape, joined, "F")
    s = te.create_schedule(F.op)
    return s, [A, B, F]


def test_masks_of_signs_that_are_looked_into_stay_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM took the signs of four bytes into an ordinary register, dropped the mask, and shifted another one in its place."""
    s, args = masks_of_signs()
    avx512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
    assert "movmsk" not in tw.build(s, args, target=avx512).source("asm")
    monkeypatch.setattr(jit, "spell_out_sign_tests", lambda text: text)
    at_fault = "movmsk" in tw.build(s, args, target=avx512).source("asm")
    assert at_fault == (llvm.llvm_version_info[0] in sign_masks.VERSIONS), (
        "codegen/llvm/workarounds/sign_masks.py says otherwise"
    )
    monkeypatch.undo()
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2**32, (7, 4, 3, 5), "uint32"), rng.integers(130, 250, (7, 4, 3, 5), "uint32")
    expected = np.zeros((7, 4, 3, 5), "int8")
    tw.build(s, args, target="interpret")(a, b, expected)
    agrees(s, args, a, b, expected=expected)


_SIGN_TESTS = {
    "negative": ("icmp slt {v} %x, zeroinitializer", lambda x: x < 0),
    "not negative": ("icmp sgt {v} %x, splat ({e} -1)", lambda x: x >= 0),
    "odd": ("trunc {v} %x to <{n} x i1>", lambda x: x % 2 == 1),
}


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("form", _SIGN_TESTS)
def test_sign_tests_that_are_looked_into_are_comparisons_on_avx512(form: str, bits: int) -> None:
    written, meant = _SIGN_TESTS[form]
    for lanes in (2, 3, 4, 8, 16, 32):
        names = {"v": f"<{lanes} x i{bits}>", "e": f"i{bits}", "n": lanes}
        looks = "".join(
            f"  %b{at} = extractelement <{lanes} x i1> %c, i64 {at}\n  %z{at} = zext i1 %b{at} to i8\n"
            f"  %p{at} = getelementptr i8, ptr %q, i64 {at}\n  store i8 %z{at}, ptr %p{at}\n"
            for at in range(lanes)
        )
        text = (
            f"define void @f(ptr %p, ptr %q) {{\n  %x = load {names['v']}, ptr %p, align 1\n"
            f"  %c = {written.format(**names)}\n{looks}  ret void\n}}\n"
        )
        changed = spell_out_sign_tests(text)
        assert written.format(**names) not in changed
        machine_code = assembly_text([changed], Target.parse("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
        assert not re.findall(r"movmsk|vpmov[bwdq]2m", machine_code)
        x, found = np.random.default_rng(lanes).integers(-5, 5, lanes).astype(f"int{bits}"), np.full(lanes, 77, "uint8")
        compiled = compile_text([changed], Target.parse("llvm"), ["f"], {}, {})
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(compiled.address("f"))(
            x.ctypes.data, found.ctypes.data
        )
        np.testing.assert_array_equal(found, meant(x))


def test_sign_tests_of_masks_that_nobody_looks_into_stay() -> None:
    text = "  %0 = icmp slt <4 x i32> %x, zeroinitializer\n  %s = select <4 x i1> %0, <4 x i32> %x, <4 x i32> %y\n"
    assert spell_out_sign_tests(text) == text


def test_lanes_over_a_tensorized_loop_are_told_apart_though_the_intrinsic_stores_vectors() -> None:
    A, B = te.placeholder((2, 1, 4), "int16", "A"), te.placeholder((2, 1, 4), "int16", "B")
    r = te.reduce_axis((0, 1), "r")
    T = te.compute((2, 2, 4, 4), lambda io, jo, ii, ji: te.sum(A[io, r, ii] * B[jo, r, ji], axis=r), name="T")
    s = te.create_schedule(T.op)
    io, jo, ii, _ = T.op.axis
    s[T].split(r, factor=1)
    s[T].tensorize(ii, te.intrinsics.get("vector.outer_product_4x4", 1, "int16"))
    s[T].vectorize(s[T].fuse(io, jo))
    a, b = np.arange(8, dtype="int16").reshape(2, 1, 4), np.arange(3, 11, dtype="int16").reshape(2, 1, 4)
    out = np.zeros((2, 2, 4, 4), "int16")
    tw.build(s, [A, B, T])(a, b, out)
    assert np.array_equal(out, np.einsum("iru,jrv->ijuv", a, b))
