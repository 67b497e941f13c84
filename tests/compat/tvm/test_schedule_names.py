"""What programs ask of schedules by TVM's names: numbers of kinds, groups, graphs of what is read, pragmas that nobody reads."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def two_stages(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((n,), lambda i: B[i] * 2, name="C")
    return A, B, C, te.create_schedule(C.op)


def test_kinds_of_axes_and_places_are_tvm_s_numbers_and_our_words() -> None:
    _, B, C, s = two_stages(37)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner)
    s[C].pragma(outer, "unroll")
    assert s[C].iter_var_attrs[inner].iter_type == te.schedule.IterVar.Vectorized
    assert s[C].iter_var_attrs[outer].iter_type == te.schedule.IterVar.Unrolled
    assert s[B].attach_type == 1 and s[B].attach_type == "root"
    s[B].compute_at(s[C], outer)
    assert s[B].attach_type == 4 and s[B].attach_type != 2 and s[B].attach_type in ("at",)
    twin = s.copy()
    assert twin[C].iter_var_attrs[inner].iter_type == te.schedule.IterVar.Vectorized and type(twin) is type(s)


@pytest.mark.parametrize("value", [3, "a word", None])
def test_a_pragma_that_no_pass_reads_is_kept_without_effect(
    value: int | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    A, _, C, s = two_stages(5)
    s[C].pragma(C.op.axis[0], "of_somebody_else", value)
    assert s[C].iter_var_attrs[C.op.axis[0]].pragma_keys[0].value == "of_somebody_else"
    a, c = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    tvm.build(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def test_groups_count_what_lies_in_them() -> None:
    _, B, C, _ = two_stages(7)
    D = te.compute((7,), lambda i: C[i] - 3, name="D")
    s = te.create_schedule(D.op)
    inner = s.create_group(outputs=C, inputs=B)
    outer = s.create_group(outputs=C, inputs=B, include_inputs=True)
    assert inner.group == outer and inner.num_child_stages == 1 and outer.num_child_stages == 2
    outer.compute_at(s[D], D.op.axis[0])
    assert outer.attach_stage == s[D] and inner.attach_type == 4


def test_bounds_of_symbolic_extents_are_the_symbols() -> None:
    m = te.var("m")
    A = te.placeholder((8 * m,), name="A")
    B = te.compute((8 * m,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(B.op.axis[0], 8)
    bounds = te.schedule.InferBound(s)
    assert isinstance(bounds, tvm.container.Map) and bounds[outer].extent is m


def test_what_reads_what_and_where_it_is_computed() -> None:
    A, B, C, s = two_stages(9)
    graph = te.schedule.CreateReadGraph([C.op])
    assert graph[C.op] == [B] and graph[B.op] == [A]
    assert te.schedule.PostDFSOrder([C.op], graph) == [A.op, B.op, C.op]
    s[B].compute_at(s[C], C.op.axis[0])
    assert te.schedule.CreateAttachPath(s)[B.op] == [C.op.axis[0]]


@pytest.mark.parametrize(("swaps", "apart"), [(False, 1), (True, 0)])
def test_which_dimensions_a_scan_keeps_apart(swaps: bool, apart: int) -> None:
    l, m, n = te.var("l"), te.var("m"), te.var("n")
    state, X = te.placeholder((l, m, n)), te.placeholder((l, m, n))
    init = te.compute((1, m, n), lambda _, i, j: X[0, i, j])
    update = te.compute((l, m, n), lambda t, i, j: X[t, i, j] + (state[t - 1, j, i] if swaps else state[t - 1, i, j]))
    scan = te.scan(init, update, state).op
    assert [te.schedule.ScanFixPointAnalysis(scan)[axis].value for axis in scan.spatial_axis_] == [apart, apart]
    assert set(te.schedule.ScanGetBody(scan)) == {scan, update.op}


def test_a_reducer_of_values_combines_them() -> None:
    total = te.comm_reducer(lambda x, y: x + y, lambda t: tvm.tir.const(0, dtype=t))
    m, n = te.var("m"), te.var("n")
    assert isinstance(total(m, n), tvm.tir.Add)


def test_a_packed_function_gets_an_address_for_a_pointer() -> None:
    seen = []

    @tvm.register_func("test.address", override=True)
    def address(place, count):
        seen.append((place.value, count))

    A = te.placeholder((6,), name="A")
    B = te.extern(
        (6,), [A], lambda ins, outs: tvm.tir.call_packed("test.address", outs[0].access_ptr("w", offset=2), 4), name="B"
    )
    a, b = np.zeros(6, "float32"), np.zeros(6, "float32")
    tvm.build(te.create_schedule(B.op), [A, B])(a, b)
    assert seen == [(b.ctypes.data + 8, 4)]


def test_loops_of_a_hybrid_schedule_are_called_saved_and_loaded(tmp_path) -> None:
    @te.hybrid.script
    def scaled(n, a, table):
        b = output_tensor((n,), a.dtype)  # noqa: F821
        for i in range(n):
            b[i] = a[i] * table[0, 1]
        return b

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = scaled(n, a, [[1, 3]])
    module = te.hybrid.build(te.create_schedule(b.op), [n, a], [b])
    module.save(tmp_path / "scaled.txt")
    loaded = te.hybrid.HybridModule()
    loaded.load(tmp_path / "scaled.txt")
    values = np.arange(7, dtype="float32")
    np.testing.assert_array_equal(loaded(7, values), values * 3)
    again = loaded(n, a)
    result = np.zeros(7, "float32")
    tvm.build(te.create_schedule(again.op), [n, a, again])(7, values, result)
    np.testing.assert_array_equal(result, values * 3)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        loaded(values)


def test_bounds_are_deduced_and_expressions_tried() -> None:
    a, b = te.var("a"), te.var("b")
    within = tvm.arith.IntervalSet(2, 3)
    found = tvm.arith.deduce_bound(a, a * 4 + b < 17, {b: within}, {b: within})
    assert found.max_value.value == 3 and found.min_value is tvm.arith.neg_inf()
    assert tvm.arith.deduce_bound(a, a + b, {b: within}, {}).is_nothing()
    tvm.testing.assert_prim_expr_equal((a + b) * 2, b * 2 + a * 2)
    with pytest.raises(ValueError, match="not proved to be equal"):
        tvm.testing.assert_prim_expr_equal(a, b)
    ranges = {a: tvm.ir.Range(0, 5), b: tvm.ir.Range(-3, 3)}
    tvm.testing.check_bool_expr_is_true(a + b >= 1, ranges, cond=a > 3)
    with pytest.raises(AssertionError, match="is false at a = 0, b = -3"):
        tvm.testing.check_bool_expr_is_true(a + b >= -2, ranges)


def test_buffers_of_an_intrinsic_have_numbers() -> None:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] + 1, name="y")
    intrin = te.decl_tensor_intrin(y.op, lambda ins, outs: tvm.tir.call_packed("f", ins[0].data, outs[0].data))
    assert [intrin.buffers[at].shape[0].value for at in range(2)] == [16, 16]
    with pytest.raises(KeyError, match="z"):
        intrin.buffers["z"]
