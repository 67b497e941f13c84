"""TVM's names around kernels: tir constructors, contexts, modules, arrays, targets, contexts of passes."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te, tir


def increment(n=8, name="B", by=1):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + by, name=name)
    return te.create_schedule(B.op), A, B


def ones(n=8):
    return tvm.nd.array(np.ones(n, "float32"))


def test_tir_constructors_build_and_are_types() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    for made, kind in (
        (tir.Add(x, 1), tir.Add),
        (tir.Sub(x, y), tir.Sub),
        (tir.Mul(2, x), tir.Mul),
        (tir.FloorDiv(x, 3), tir.FloorDiv),
        (tir.FloorMod(x, 3), tir.FloorMod),
        (tir.Min(x, 4), tir.Min),
        (tir.Max(x, y), tir.Max),
        (tir.EQ(x, 1), tir.EQ),
        (tir.NE(x, 1), tir.NE),
        (tir.LT(x, 1), tir.LT),
        (tir.And(x < 1, y < 2), tir.And),
        (tir.Or(x < 1, y < 2), tir.Or),
        (tir.Not(x < 1), tir.Not),
        (tir.Select(x < 1, x, y), tir.Select),
        (tir.Cast("float32", x), tir.Cast),
        (tir.IntImm("int32", 7), tir.IntImm),
        (tir.FloatImm("float32", 0.5), tir.FloatImm),
        (tir.StringImm("s"), tir.StringImm),
    ):
        assert isinstance(made, kind), made
        assert isinstance(made, tir.PrimExpr)
    assert not isinstance(x + 1, tir.Mul)
    assert isinstance(x + y, tir.expr.Add)
    assert tir.IntImm("int32", 7).value == 7
    assert tir.IntImm("int64", 7).dtype == "int64"
    assert str(tir.Add(x, 1)) == str(x + 1)
    assert tir.const(1, "int64").dtype == "int64"
    assert tir.const(1.5).dtype == "float32"
    assert isinstance(tir.const(3, "int32"), tir.IntImm)


def test_tir_expressions_run() -> None:
    A = te.placeholder((12,), "int32", name="A")
    cases = {
        "div": (lambda a: tir.div(a, 5) + te.div(a, 2), lambda a: np.trunc(a / 5) + np.trunc(a / 2)),
        "truncmod": (lambda a: tir.truncmod(a, 5), lambda a: np.fmod(a, 5)),
        "floormod": (lambda a: tir.floormod(a, 5), lambda a: a % 5),
        "shift": (lambda a: tir.shift_left(a, 2) + tir.shift_right(a, 1), lambda a: (a << 2) + (a >> 1)),
        "bits": (
            lambda a: tir.bitwise_xor(tir.bitwise_and(a, 12), tir.bitwise_not(a)) | tir.bitwise_or(a, 1),
            lambda a: ((a & 12) ^ ~a) | (a | 1),
        ),
        "choice": (
            lambda a: tir.if_then_else(tir.any(a < -3, a > 3), a, tir.max(a, 0)),
            lambda a: np.where((a < -3) | (a > 3), a, np.maximum(a, 0)),
        ),
        "select": (
            lambda a: tir.Select(tir.all(a > 0, a % 2 == 0), a * 10, -a),
            lambda a: np.where((a > 0) & (a % 2 == 0), a * 10, -a),
        ),
        "limits": (lambda a: tir.min(tir.max_value("int32"), a) + tir.abs(a), lambda a: a + abs(a)),
        "popcount": (lambda a: tir.popcount(tir.abs(a)), lambda a: np.bitwise_count(abs(a))),
        "cast": (
            lambda a: tir.Cast("int32", tir.round(tir.Cast("float32", a) * 1.5)),
            lambda a: np.round(a * 1.5 + 1e-3 * np.sign(a)),
        ),
    }
    a = np.array([-9, -6, -5, -4, -1, 0, 1, 2, 3, 4, 5, 11], "int32")
    for name, (build, reference) in cases.items():
        B = te.compute((12,), lambda i: build(A[i]), name=name)
        f = tvm.build(te.create_schedule(B.op), [A, B])
        b = tvm.nd.empty((12,), "int32")
        f(tvm.nd.array(a), b)
        np.testing.assert_array_equal(b.numpy(), reference(a), name)


def test_conditions_written_with_tir_any_and_all_in_a_mask() -> None:
    n = 9
    A = te.placeholder((n, n), name="A")
    B = te.compute(
        (n, n), lambda i, j: tir.if_then_else(tir.all(i <= j, tir.Not(tir.EQ(i, 3))), A[i, j], tir.const(0, "float32"))
    )
    f = tvm.build(te.create_schedule(B.op), [A, B])
    a, b = np.random.rand(n, n).astype("float32"), tvm.nd.empty((n, n))
    f(tvm.nd.array(a), b)
    expected = np.triu(a)
    expected[3] = 0
    np.testing.assert_array_equal(b.numpy(), expected)


def test_pass_context_and_its_predecessor() -> None:
    s, A, B = increment()
    with tvm.transform.PassContext(
        opt_level=3, config={"tir.disable_vectorize": False, "tir.UnrollLoop": {"auto_max_step": 16}}
    ):
        assert tvm.transform.PassContext.current().opt_level == 3
        f = tvm.build(s, [A, B], target="llvm")
    b = tvm.nd.empty((8,))
    f(ones(), b)
    assert (b.numpy() == 2).all()
    with tvm.ir.transform.PassContext(opt_level=3, disabled_pass=["FuseOps"]):
        tvm.lower(s, [A, B])
    with tvm.build_config(auto_unroll_max_step=16, unroll_explicit=False):
        tvm.build(s, [A, B])
    with pytest.raises(AttributeError, match=r"invalid config option 'tir\.no_such_thing'"):
        tvm.transform.PassContext(config={"tir.no_such_thing": 1})


def test_bound_checkers_of_the_pass_context_catch_an_index_from_data() -> None:
    A, I = te.placeholder((8,), name="A"), te.placeholder((4,), "int32", name="I")
    B = te.compute((4,), lambda i: A[I[i]], name="B")
    s = te.create_schedule(B.op)
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        f = tvm.build(s, [A, I, B])
    b = tvm.nd.empty((4,))
    f(ones(), tvm.nd.array(np.array([0, 7, 3, 1], "int32")), b)
    with pytest.raises(tvm.TVMError, match="A"):
        f(ones(), tvm.nd.array(np.array([0, 8, 3, 1], "int32")), b)


def test_build_takes_modules_lists_and_dicts() -> None:
    (s1, A1, B1), (s2, A2, B2) = increment(name="B"), increment(name="D", by=2)
    first, second = tvm.lower(s1, [A1, B1], name="plus_one"), tvm.lower(s2, [A2, B2], name="plus_two")
    assert isinstance(first, tvm.IRModule)
    assert [str(v) for v in first.get_global_vars()] == ["plus_one"]
    b = tvm.nd.empty((8,))
    for what in (
        first,
        first["plus_one"],
        [first],
        [first["plus_one"]],
        {"llvm": first},
        {tvm.target.Target("llvm"): first},
    ):
        mod = tvm.build(what, target=None if isinstance(what, dict) else "llvm")
        mod["plus_one"](ones(), b)
        assert (b.numpy() == 2).all()
    both = tvm.build([first["plus_one"], second["plus_two"]], target="llvm")
    both["plus_two"](ones(), b)
    assert (b.numpy() == 3).all()
    both.get_function("plus_one")(ones(), b)
    assert (b.numpy() == 2).all()
    together = tvm.ir.IRModule({"one": first["plus_one"], "two": second["plus_two"]})
    mod = tvm.build(together)
    mod["two"](ones(), b)
    assert (b.numpy() == 3).all()
    with pytest.raises(AttributeError, match="no function 'three'"):
        mod["three"]


def test_time_evaluator_gives_results_and_their_mean() -> None:
    s, A, B = increment()
    f = tvm.build(s, [A, B], name="timed")
    dev = tvm.cpu(0)
    cost = f.time_evaluator(f.entry_name, dev, number=5, repeat=3)(ones(), tvm.nd.empty((8,)))
    assert len(cost.results) == 3
    assert cost.mean == pytest.approx(np.mean(cost.results))
    assert cost.min <= cost.median <= cost.max
    again = f.time_evaluator("timed", dev=dev, repeat=2, number=1, min_repeat_ms=1)(ones(), tvm.nd.empty((8,)))
    assert np.array(again.results).shape == (2,)
    assert "define" in f.get_source()
    assert "timed" in f.get_source("asm")
    assert not f.imported_modules
    assert f.type_key == "llvm"


def test_arrays_and_devices() -> None:
    for dev in (
        tvm.cpu(),
        tvm.cpu(0),
        tvm.device("cpu", 0),
        tvm.device("llvm"),
        tvm.context("llvm", 0),
        tvm.nd.cpu(0),
        tvm.runtime.device("cpu"),
    ):
        assert dev == tvm.cpu(0)
        assert dev.exist
        assert (dev.device_type, dev.device_id) == (1, 0)
        dev.sync()
    gpu = tvm.gpu(0)
    assert gpu == tvm.cuda(0) == tvm.device("cuda", 0)
    assert gpu.device_type == 2
    assert isinstance(gpu.exist, bool)
    assert tvm.runtime.enabled("llvm")
    assert not tvm.runtime.enabled("opencl")
    a = tvm.nd.array(np.arange(6, dtype="int64").reshape(2, 3), ctx=tvm.cpu(0))
    assert isinstance(a, tvm.nd.NDArray)
    assert a.shape == (2, 3)
    assert a.dtype == "int64"
    assert a.device == tvm.cpu(0)
    assert a.ctx == tvm.cpu(0)
    b = tvm.nd.empty(a.shape, a.dtype, tvm.cpu(0))
    a.copyto(b)
    np.testing.assert_array_equal(b.asnumpy(), a.numpy())
    np.testing.assert_array_equal(a.copyto(tvm.cpu(0)).numpy(), a.numpy())
    b.copyfrom(np.zeros((2, 3)))
    assert not b.numpy().any()
    assert tvm.nd.array([1.0, 2.0]).dtype == "float64"
    view = tvm.nd.from_dlpack(np.arange(3, dtype="float32"))
    assert view.numpy().tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="unknown device"):
        tvm.device("quantum")


def test_targets() -> None:
    plain = tvm.target.Target("llvm -mcpu=x86-64-v3 -mattr=+avx2,+fma -keys=cpu -libs=cblas")
    assert plain.kind.name == "llvm"
    assert plain.mcpu == "x86-64-v3"
    assert plain.mattr == ["+avx2", "+fma"]
    assert "cpu" in plain.keys
    assert tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}).mcpu == "x86-64-v3"
    assert str(tvm.target.create("llvm")) == "llvm"
    assert tvm.target.Target(tvm.target.Target("llvm")) == tvm.target.Target("llvm")
    assert tvm.target.Target("llvm", host="llvm").host.kind.name == "llvm"
    assert tvm.target.cuda().kind.name == "cuda"
    assert tvm.target.Target.current() is None
    with tvm.target.Target("llvm") as target:
        assert tvm.target.Target.current() is target
    s, A, B = increment()
    tvm.build(s, [A, B], "llvm -keys=cpu -libs=mkl -device=arm_cpu")(ones(), tvm.nd.empty((8,)))
    with pytest.raises(tvm.TVMError, match="unknown target"):
        tvm.build(s, [A, B], "abacus")


def test_arithmetic_analyzer() -> None:
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    ana.bind(x, tvm.ir.Range(0, 16))
    ana.bind(y, tvm.ir.Range.from_min_extent(4, 8))
    bound = ana.const_int_bound(x * 4 + y)
    assert (bound.min_value, bound.max_value) == (4, 71)
    m = ana.modular_set(x * 8 + 3)
    assert (m.coeff, m.base) == (8, 3)
    assert ana.can_prove(x < 16)
    assert ana.can_prove_greater_equal(y, 4)
    assert ana.can_prove_less(y, 12)
    assert not ana.can_prove_less(y, 11)
    assert str(ana.simplify((x * 4 + 3) // 4)) == "x"
    assert str(ana.rewrite_simplify(x - x)) == "0"
    assert ana.can_prove_equal((x + y) * 2, x * 2 + y * 2)
    with ana.constraint_scope(x % 4 == 0):
        assert ana.can_prove(tir.floormod(x, 2) == 0)
    assert tvm.ir.Range(2, 10).extent.value == 8
    assert isinstance(tvm.ir.Range(5), tvm.ir.Range)


def test_the_loops_of_a_schedule_alone() -> None:
    s, A, B = increment(32)
    stmt = tvm.te.schedule.ScheduleOps(s, tvm.te.schedule.InferBound(s))
    loops = []
    tir.stmt_functor.post_order_visit(stmt, lambda node: loops.append(node) if isinstance(node, tir.For) else None)
    assert [int(loop.extent) for loop in loops] == [32]


def test_sets_of_integers() -> None:
    ana = tvm.arith.Analyzer()
    x, y, n = te.var("x"), te.var("y"), te.var("n")
    found = ana.int_set(x * 2 + y, {x: tvm.arith.IntervalSet(0, n - 1)})
    assert ana.can_prove_equal(found.min_value, y)
    assert ana.can_prove_equal(found.max_value, n * 2 - 2 + y)
    assert isinstance(found, tvm.arith.IntSet)
    unbounded = ana.int_set(x, {x: tvm.arith.IntervalSet(tvm.arith.neg_inf(), tvm.arith.pos_inf())})
    assert unbounded.is_everything()
    assert tvm.arith.IntervalSet(3, 2).is_nothing()
    assert not tvm.arith.IntSet.single_point(3).is_nothing()
    lanes = tvm.arith.IntSet.vector(tir.Ramp(y, 4, 8))
    assert ana.can_prove_equal(lanes.max_value - lanes.min_value, 28)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (lambda x, y, n: x * 3 + y + n, [3, 1, "n"]),
        (lambda x, y, n: (x - y) * n - x, ["n - 1", "-n", 0]),
        (lambda x, y, n: x * 0 + n * 2, [0, 0, "n * 2"]),
        (lambda x, y, n: x * y, []),
        (lambda x, y, n: x // 2 + y, []),
    ],
)
def test_linear_equations(written, wanted) -> None:
    x, y, n = te.var("x"), te.var("y"), te.var("n")
    found = tvm.arith.detect_linear_equation(written(x, y, n), [x, y])
    terms = {"n": n, "n - 1": n - 1, "-n": -n, "n * 2": n * 2}
    assert len(found) == len(wanted)
    for value, want in zip(found, wanted, strict=True):
        assert tvm.arith.Analyzer().can_prove_equal(value, terms.get(want, want))


def test_expressions_and_statements_by_their_less_common_names() -> None:
    x, y = te.var("x"), te.var("y")
    assert tir.analysis.expr_deep_equal(te.add(x, 1), x + 1)
    assert not tir.analysis.expr_deep_equal(te.subtract(x, 1), te.multiply(x, 1) + 1)
    assert tir.analysis.undefined_vars(x + y, [x]) == [y]
    body = tir.stmt_seq(x + 1, tir.stmt_seq(tir.Evaluate(x), tir.Evaluate(y)))
    assert len(tir.stmt_list(body)) == 3
    A, E = te.placeholder((5,), name="A"), te.placeholder((5,), "int32", name="E")
    sums = te.compute((5,), lambda i: te.logaddexp(A[i], A[4 - i]), name="sums")
    scaled = te.compute((5,), lambda i: tir.ldexp(A[i], E[i]), name="scaled")
    fixed = te.compute((5,), lambda i: tir.q_multiply_shift(E[i] * 1000, 1 << 30, 31, E[i] - 4), name="fixed")
    func = tvm.build(te.create_schedule([sums.op, scaled.op, fixed.op]), [A, E, sums, scaled, fixed])
    a, e = np.array([-np.inf, 800, 0.5, -800, -np.inf], "float32"), np.array([3, -2, 0, 5, 7], "int32")
    got = [np.zeros(5, "float32"), np.zeros(5, "float32"), np.zeros(5, "int32")]
    func(a, e, *got)
    np.testing.assert_allclose(got[0], np.logaddexp(a, a[::-1]), rtol=1e-6)
    np.testing.assert_allclose(got[1], np.ldexp(a, e), rtol=1e-6)
    np.testing.assert_array_equal(got[2], np.floor(e * 500.0 * 2.0 ** (e - 4) + 0.5))


def test_visiting_lowered_functions() -> None:
    s, A, B = increment(32)
    outer, inner = s[B].split(B.op.axis[0], 8)
    s[B].vectorize(inner)
    function = tvm.lower(s, [A, B])["main"]
    loops, stores = [], []

    def visit(node):
        if isinstance(node, tir.For):
            loops.append(node)
        if isinstance(node, tir.BufferStore):
            stores.append(node)

    tir.stmt_functor.post_order_visit(function.body, visit)
    assert [int(loop.extent) for loop in loops] == [8, 4]
    assert len(stores) == 1
    names = []
    tir.stmt_functor.pre_order_visit(function.body, lambda node: names.append(type(node).__name__))
    assert names[0] == "For"
    x, y = te.var("x"), te.var("y")
    assert str(tir.stmt_functor.substitute(x + 1, {x: y})) == str(y + 1)
    tvm.ir.assert_structural_equal(function, tvm.lower(s, [A, B])["main"])
    with pytest.raises(ValueError, match="structurally different"):
        tvm.ir.assert_structural_equal(x + 1, x + 2)


def test_registered_functions() -> None:
    @tvm.register_func("test.compat.add_one", override=True)
    def add_one(x):
        return x + 1

    assert tvm.get_global_func("test.compat.add_one")(1) == 2
    assert tvm.get_global_func("test.compat.nothing", allow_missing=True) is None
    with pytest.raises(ValueError, match="registered already"):
        tvm.register_func("test.compat.add_one", add_one)


def test_scalars_by_position_and_converted_values() -> None:
    n, alpha, shift = te.var("n"), te.var("alpha", "float32"), te.var("shift", "int32")
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: alpha * X[i] + shift.astype("float32"), name="Y")
    f = tvm.build(te.create_schedule(Y.op), [alpha, shift, X, Y])
    y = tvm.nd.empty((8,))
    f(np.float32(3), 4, ones(), y)
    assert (y.numpy() == 7).all()
    f(tvm.runtime.convert(3).value, np.int64(4), ones(), y)
    assert (y.numpy() == 7).all()
    assert tvm.convert([1, 2.5])[1].value == 2.5
    assert tvm.convert("text").value == "text"
    assert tvm.DataType("float16").bits == 16


def test_enabled_targets_run_a_test_the_way_tvms_suite_does() -> None:
    for target, dev in tvm.testing.enabled_targets():
        s, A, B = increment()
        with tvm.target.Target(target):
            f = tvm.build(s, [A, B])
        b = tvm.nd.array(np.zeros(8, "float32"), dev)
        f(ones(), b)
        tvm.testing.assert_allclose(b.numpy(), 2 * np.ones(8))
    with pytest.raises(AssertionError, match="shapes differ"):
        tvm.testing.assert_allclose(np.zeros(2), np.zeros(3))
