"""Programs in the manner of TVM's tutorials on passes, the IR builder, intrinsics and outside code: only imports differ."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def _copy(n: int = 128):
    a = te.placeholder((n,), name="a")
    b = te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    return te.create_schedule(c.op), a, b, c


def _run(f, n: int = 128) -> None:
    x, y = np.random.rand(n).astype("float32"), np.random.rand(n).astype("float32")
    z = tvm.nd.empty((n,))
    f(tvm.nd.array(x), tvm.nd.array(y), z)
    tvm.testing.assert_allclose(z.numpy(), x + y)


def test_low_level_custom_pass_vectorizes_loops_of_eight() -> None:
    sch, a, b, c = _copy()
    loops = []

    def find_width8(op):
        """Find all the 'tir.For' nodes whose extent can be divided by 8."""
        if isinstance(op, tvm.tir.For) and isinstance(op.extent, tvm.tir.IntImm) and op.extent.value % 8 == 0:
            loops.append(op)

    def vectorize8(op):
        """Split the loops that were found, the inner one as lanes."""
        if op in loops:
            extent = op.extent.value
            name = op.loop_var.name
            lo, li = te.var(name + ".outer"), te.var(name + ".inner")
            body = tvm.tir.stmt_functor.substitute(op.body, {op.loop_var: lo * 8 + li})
            body = tvm.tir.For(li, 0, 8, tvm.tir.ForKind.VECTORIZED, body)
            return tvm.tir.For(lo, 0, extent // 8, tvm.tir.ForKind.SERIAL, body)
        return None

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def vectorize(f, mod, ctx):
        tvm.tir.stmt_functor.post_order_visit(f.body, find_width8)
        if not loops:
            return f
        return f.with_body(tvm.tir.stmt_functor.ir_transform(f.body, None, vectorize8, ["tir.For"]))

    mod = tvm.lower(sch, [a, b, c], name="test")
    assert "vectorized" not in str(mod)
    assert "i.outer" in str(vectorize(mod))
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize)]}):
        lowered = tvm.lower(sch, [a, b, c])
        assert "for i.inner in vectorized(8)" in str(lowered)
        assert lowered["main"].body.kind == tvm.tir.ForKind.SERIAL
        f = tvm.build(sch, [a, b, c], name="test")
    assert "vectorized" not in str(tvm.lower(sch, [a, b, c]))
    assert "x float>" in f.get_source()
    _run(f)


def test_passes_of_several_phases_run_in_order_and_compose() -> None:
    sch, a, b, c = _copy()
    seen = []

    def watching(name):
        @tvm.tir.transform.prim_func_pass(opt_level=0, name=name)
        def look(f, mod, ctx):
            seen.append((name, sorted(mod.functions)))
            return f

        return look

    passes = [(3, watching("late")), (0, watching("early")), (1, watching("mid"))]
    with tvm.transform.PassContext(config={"tir.add_lower_pass": passes}):
        tvm.lower(sch, [a, b, c], name="f")
    assert seen == [(name, ["f"]) for name in ("early", "mid", "late")]

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def doubled(f, mod, ctx):
        def twice(op):
            return tvm.tir.BufferStore(op.buffer, op.value * 2.0, op.indices)

        return f.with_body(tvm.tir.stmt_functor.ir_transform(f.body, None, twice, ["tir.BufferStore"]))

    mod = tvm.transform.Sequential([doubled, doubled, tvm.tir.transform.Simplify()])(tvm.lower(sch, [a, b, c]))
    f = tvm.build(mod)
    z = tvm.nd.empty((128,))
    f(tvm.nd.array(np.ones(128, "float32")), tvm.nd.array(np.ones(128, "float32")), z)
    assert (z.numpy() == 8).all()


def test_preorder_replaces_and_stops() -> None:
    sch, a, b, c = _copy()
    body = tvm.lower(sch, [a, b, c])["main"].body
    met = []

    def before(op):
        met.append(type(op).__name__)
        return tvm.tir.Evaluate(tvm.tir.const(0)) if isinstance(op, tvm.tir.For) else None

    gone = tvm.tir.stmt_functor.ir_transform(body, before, None)
    assert met == ["For"]
    assert isinstance(gone, tvm.tir.Evaluate)
    with pytest.raises(ValueError, match=r"no kind of node 'tir\.Loop'"):
        tvm.tir.stmt_functor.ir_transform(body, before, None, ["tir.Loop"])


def test_config_keys_say_what_passes_do() -> None:
    n = 64
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: te.sqrt(A[i, j]) + te.sqrt(A[i, j]), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[1], factor=8)
    s[B].vectorize(inner)
    x = np.random.rand(n, n).astype("float32")

    def final(**config) -> str:
        with tvm.transform.PassContext(
            opt_level=3, config={key.replace("__", "."): value for key, value in config.items()}
        ):
            f = tvm.build(s, [A, B])
        y = tvm.nd.empty((n, n))
        f(tvm.nd.array(x), y)
        tvm.testing.assert_allclose(y.numpy(), 2 * np.sqrt(x), rtol=1e-6)
        return f["main" if "main" in f.names else f.names[0]].source("ir")

    usual = final()
    assert "ramp(" in usual
    assert "ramp(" not in final(tir__disable_vectorize=True)
    assert usual.count("sqrt") < final(tir__disable_cse_tir=True).count("sqrt")
    assert usual.count("for ") - 1 == final(tir__UnrollLoop={"auto_max_step": 16, "explicit_unroll": True}).count(
        "for "
    )
    assert usual.count("for ") == final(tir__UnrollLoop={"auto_max_step": 16, "explicit_unroll": False}).count("for ")
    for hint in ("tir__noalias", "tir__debug_keep_trivial_loop"):
        assert final(**{hint: True}) == usual


def test_partition_and_storage_rewriting_can_be_switched_off() -> None:
    n = 100001
    A = te.placeholder((n,), name="A")
    stages = [A]
    for at in range(4):
        before = stages[-1]
        stages.append(te.compute((n,), lambda i, t=before: t[i] + 1.0, name=f"B{at}"))
    last = stages[-1]
    s = te.create_schedule(last.op)
    _, inner = s[last].split(last.op.axis[0], factor=16)
    s[last].vectorize(inner)

    def final(config) -> str:
        with tvm.transform.PassContext(config=config):
            f = tvm.build(s, [A, last])
        y = tvm.nd.empty((n,))
        f(tvm.nd.array(np.zeros(n, "float32")), y)
        assert (y.numpy() == 4).all()
        return f.entry_func.source("ir")

    usual = final({})
    allocations = ["B0:", "B1:", "B2:"]
    assert sum(name in usual for name in allocations) < 3
    assert all(name in final({"tir.disable_storage_rewrite": True}) for name in allocations)
    assert final({"tir.LoopPartition": {"partition_const_loop": False}}) != usual


def test_ir_builder_makes_a_function_of_its_own() -> None:
    n = te.var("n")
    Ab = tvm.tir.decl_buffer((n,), "float32", name="A")
    Cb = tvm.tir.decl_buffer((n,), "float32", name="C")
    ib = tvm.tir.ir_builder.create()
    Aptr, Cptr = ib.buffer_ptr(Ab), ib.buffer_ptr(Cb)
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(i % 2 == 0):
            Cptr[i] = Aptr[i] * 2.0
        with ib.else_scope():
            Cptr[i] = -Aptr[i]
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([Ab, Cb], ib.get()).with_attr("global_symbol", "mixed"))
    assert [str(var) for var in mod.get_global_vars()] == ["mixed"]
    f = tvm.build(mod, target="llvm")
    a = np.arange(9, dtype="float32")
    c = tvm.nd.empty((9,))
    f(tvm.nd.array(a), c)
    np.testing.assert_array_equal(c.numpy(), np.where(np.arange(9) % 2 == 0, a * 2, -a))


def test_ir_builder_body_of_an_extern_operation() -> None:
    n, m = 6, 5
    A = te.placeholder((n, m), name="A")

    def row_prefix(ins, outs):
        ib = tvm.tir.ir_builder.create()
        a, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            total = ib.allocate("float32", (1,), name="total", scope="local")
            total[0] = 0.0
            with ib.for_range(0, m, name="j") as j:
                total[0] += a[i, j]
                c[i, j] = total[0]
        return ib.get()

    C = te.extern((n, m), [A], row_prefix, name="C", dtype="float32")
    D = te.compute((n, m), lambda i, j: C[i, j] * 0.5, name="D")
    s = te.create_schedule(D.op)
    f = tvm.build(s, [A, D])
    a, d = np.random.rand(n, m).astype("float32"), tvm.nd.empty((n, m))
    f(tvm.nd.array(a), d)
    tvm.testing.assert_allclose(d.numpy(), a.cumsum(axis=1) / 2, rtol=1e-5)


def test_external_tensor_functions_by_a_blas() -> None:
    n, m, k = 24, 20, 28
    bias = te.var("bias", dtype="float32")
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: tvm.tir.call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False),
        name="C",
    )
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    s = te.create_schedule(D.op)
    f = tvm.build(s, [A, B, D, bias], "llvm")
    a, b = np.random.uniform(size=(n, k)).astype("float32"), np.random.uniform(size=(k, m)).astype("float32")
    d = tvm.nd.array(np.zeros((n, m), dtype="float32"))
    f(tvm.nd.array(a), tvm.nd.array(b), d, 10.0)
    tvm.testing.assert_allclose(d.numpy(), a @ b + 10, rtol=1e-5)

    from tilewright.compat.tvm.contrib import cblas

    T = te.placeholder((m, k), name="T")
    P = cblas.matmul(A, T, transb=True)
    f = tvm.build(te.create_schedule(P.op), [A, T, P])
    p = tvm.nd.empty((n, m))
    f(tvm.nd.array(a), tvm.nd.array(np.ascontiguousarray(b.T)), p)
    tvm.testing.assert_allclose(p.numpy(), a @ b, rtol=1e-5)


def test_a_python_function_as_an_extern_operation() -> None:
    kinds = []

    @tvm.register_func("tvm.contrib.my_tvm_addone", override=True)
    def my_tvm_addone(x, y):
        kinds.append((type(x), type(y)))
        tvm.nd.array(x.numpy() + 1).copyto(y)

    n = 15
    A = te.placeholder((n,), name="A")
    B = te.extern(
        A.shape, [A], lambda ins, outs: tvm.tir.call_packed("tvm.contrib.my_tvm_addone", ins[0], outs[0]), name="C"
    )
    s = te.create_schedule(B.op)
    f = tvm.build(s, [A, B], "llvm")
    a, b = tvm.nd.array(np.random.uniform(size=(n,)).astype("float32")), tvm.nd.empty((n,))
    f(a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1, rtol=1e-5)
    assert kinds == [(tvm.nd.NDArray, tvm.nd.NDArray)]
    assert tvm.get_global_func("tvm.contrib.my_tvm_addone") is not None


def test_math_functions_by_extern_by_intrinsic_and_by_a_rule_of_ones_own() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")

    def run(B, reference):
        f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
        a = np.linspace(0.1, 3, 33, dtype="float32")
        b = tvm.nd.empty((33,))
        f(tvm.nd.array(a), b)
        tvm.testing.assert_allclose(b.numpy(), reference(a), rtol=1e-5)

    run(te.compute(A.shape, lambda i: tvm.tir.call_pure_extern("float32", "expf", A[i]), name="B"), np.exp)
    run(te.compute(A.shape, lambda i: tvm.tir.call_intrin("float32", "tir.exp", A[i]), name="B"), np.exp)
    one = tvm.tir.const(1, "uint32")
    run(
        te.compute(A.shape, lambda i: tvm.tir.call_llvm_pure_intrin("float32", "llvm.fabs", one, A[i]), name="B"),
        np.abs,
    )

    def mylog(x):
        """A logarithm of one's own."""
        return tvm.tir.call_intrin(x.dtype, "tir.mylog", x)

    def my_llvm_mylog_rule(op):
        if op.dtype == "float32":
            return tvm.tir.call_pure_extern("float32", "logf", op.args[0])
        if op.dtype == "float64":
            return tvm.tir.call_pure_extern("float64", "log", op.args[0])
        return op

    tvm.ir.register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    tvm.ir.register_intrin_lowering("tir.mylog", target="llvm", f=my_llvm_mylog_rule, level=99)
    tvm.ir.register_intrin_lowering("tir.mylog", target="cuda", f=lambda op: tvm.tir.log2(op.args[0]) * 0.6931472)
    B = te.compute(A.shape, lambda i: mylog(A[i]), name="B")
    run(B, np.log)
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=16)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], "cuda -emulate")
    assert "log2" in f.entry_func.source("cuda")
    assert "logf(" not in f.entry_func.source("cuda")


def test_import_of_c_code_for_a_tensorized_inner_loop() -> None:
    from tilewright.compat.tvm.contrib import clang, utils

    source = """extern "C" int scale_update(float *c, float *a, int n) {
        for (int i = 0; i < n; ++i) c[i] = 3.0f * a[i];
        return 0;
    }"""
    temp = utils.tempdir()
    code = clang.create_llvm(source, output=temp.relpath("temp.ll"))
    assert temp.listdir() == ["temp.ll"]
    n, width = 64, 16
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 3.0, name="C")
    a = te.placeholder((width,), name="a")
    c = te.compute((width,), lambda i: a[i] * 3.0, name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        ib = tvm.tir.ir_builder.create()
        ib.emit(tvm.tir.call_extern("int32", "scale_update", outs[0].access_ptr("w"), ins[0].access_ptr("r"), width))
        return ib.get()

    scale = te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, c: Cb})
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=width)
    s[C].tensorize(inner, scale)
    s[C].pragma(outer, "import_llvm", code)
    f = tvm.build(s, [A, C])
    x, y = np.random.rand(n).astype("float32"), tvm.nd.empty((n,))
    f(tvm.nd.array(x), y)
    tvm.testing.assert_allclose(y.numpy(), x * 3, rtol=1e-6)


def test_deployment_by_objects_and_a_linker() -> None:
    from tilewright.compat.tvm.contrib import cc, utils

    if cc.get_cc() is None:
        pytest.skip("this machine has no C++ compiler")
    sch, a, b, c = _copy()
    fadd = tvm.build(sch, [a, b, c], "llvm", name="myadd")
    temp = utils.tempdir()
    fadd.save(temp.relpath("myadd.o"))
    cc.create_shared(temp.relpath("myadd.so"), [temp.relpath("myadd.o")])
    _run(tvm.runtime.load_module(temp.relpath("myadd.so")))
    fadd.export_library(temp.relpath("packed.so"))
    loaded = tvm.runtime.load_module(temp.relpath("packed.so"))
    assert loaded.implements_function("myadd")
    _run(loaded.get_function("myadd"))


def test_ir_builder_points_to_memory_of_somebody_elses() -> None:
    ib = tvm.tir.ir_builder.create()
    n = te.size_var("n")
    A, B = ib.pointer("float32", name="A"), ib.pointer("float32", name="B")
    with ib.for_range(0, n, name="i") as i, ib.if_scope(i % 2 == 0):
        B[i] = A[i] + 1
    f = tvm.build(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([A, B, n], ib.get()).with_attr("global_symbol", "steps")), target="llvm"
    )
    a, b = np.arange(7, dtype="float32"), np.full(7, -1, "float32")
    f(a, b, 7)
    np.testing.assert_array_equal(b, np.where(np.arange(7) % 2 == 0, a + 1, -1))
