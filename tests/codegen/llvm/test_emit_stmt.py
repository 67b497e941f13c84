"""Loops, branches, assertions, parallel bodies and calls, by the kernel ABI."""

from __future__ import annotations

import ctypes
import gc
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from llvm_run import OPTIONS, buffer, build, call, int32, run, serial
from tilewright.base.errors import CodegenError, InternalError
from tilewright.codegen.llvm.build import CodegenOptions, compile_function
from tilewright.codegen.llvm.intrinsics import FLOAT_ROWS, OTHER_ROWS
from tilewright.codegen.target import Target
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import LT, Broadcast, BufferLoad, Call, Expr, Let, Mul, Ramp, SizeVar, StringImm, Var
from tilewright.ir.intrinsics import INTRINSICS
from tilewright.ir.stmt import Allocate, Assert, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt


@pytest.mark.parametrize("var_dtype", ["int32", "int64"])
@pytest.mark.parametrize("extent", [0, 1, 2, 7])
@pytest.mark.parametrize("begin", [-3, 0, 5])
def test_loops_of_constant_and_symbolic_extent(begin: int, extent: int, var_dtype: str) -> None:
    out = buffer("out", 16, "int64")
    n = SizeVar("n", DType(var_dtype))
    for given in (ops.const(extent, var_dtype), n):
        i = Var("i", DType(var_dtype))
        body = BufferStore(out, ops.cast(i, "int64") + 100, (i + 3,))
        function = Function("f", (out, n), For(i, ops.const(begin, var_dtype), given, LoopKind.SERIAL, body), (out,))
        got, expected = np.zeros(16, "int64"), np.zeros(16, "int64")
        expected[begin + 3 : begin + 3 + extent] = np.arange(begin, begin + extent) + 100
        argument = ctypes.c_int32(extent) if var_dtype == "int32" else ctypes.c_int64(extent)
        assert run(function, got, argument) == 0
        np.testing.assert_array_equal(got, expected)


def test_branches_lets_and_nested_loops() -> None:
    """out[i, j] = i * j where i + j is even, else -(i + j)."""
    out, i, j, t = buffer("out", 48, "int32"), Var("i"), Var("j"), Var("t")
    even = ops.equal(t % 2, 0)
    store = If(even, BufferStore(out, i * j, (i * 8 + j,)), BufferStore(out, 0 - t, (i * 8 + j,)))
    body = serial(i, 6, serial(j, 8, LetStmt(t, i + j, store)))
    got = np.zeros((6, 8), "int32")
    assert run(Function("f", (out,), body, (out,)), got) == 0
    rows, columns = np.indices((6, 8))
    np.testing.assert_array_equal(got, np.where((rows + columns) % 2 == 0, rows * columns, -(rows + columns)))


def test_let_expressions() -> None:
    out, i, square = buffer("out", 8, "int32"), Var("i"), Var("square")
    body = BufferStore(out, Let(square, i * i, square + square), (i,))
    got = np.zeros(8, "int32")
    assert run(Function("f", (out,), serial(i, 8, body), (out,)), got) == 0
    np.testing.assert_array_equal(got, 2 * np.arange(8) ** 2)


def test_scalars_and_symbols_come_in_the_order_of_the_abi() -> None:
    """Parameters in call order, then the free symbols of the shapes as int64."""
    n, m, scale, offset = (
        SizeVar("n"),
        SizeVar("m", DType("int64")),
        Var("scale", DType("float32")),
        Var("offset", DType("int8")),
    )
    a, out, i = (
        Buffer("a", (n * m,), DType("float32")),
        Buffer("out", (n * m,), DType("float32")),
        Var("i", DType("int64")),
    )
    body = BufferStore(out, BufferLoad(a, (i,)) * scale + ops.cast(offset, "float32"), (i,))
    function = Function(
        "f",
        (scale, a, offset, out),
        For(i, ops.const(0, "int64"), ops.cast(n, "int64") * m, LoopKind.SERIAL, body),
        (out,),
    )
    source, got = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    assert run(function, ctypes.c_float(2.5), source, ctypes.c_int8(-1), got, 2, 3) == 0
    np.testing.assert_array_equal(got, source * 2.5 - 1)


def test_assertions_end_the_function_with_their_status() -> None:
    a, out, i = buffer("a", 8, "int32"), buffer("out", 8, "int32"), Var("i")
    temp = buffer("temp", 1 << 16, "int32")
    value = BufferLoad(a, (i,))
    checks = Seq(
        (
            Assert(LT(value, int32(100)), "a is too large"),
            Assert(LT(int32(-1), value), "a is negative"),
            BufferStore(temp, value, (i,)),
            BufferStore(out, BufferLoad(temp, (i,)), (i,)),
        )
    )
    compiled = build(Function("f", (a, out), serial(i, 8, Allocate(temp, checks)), (out,)))
    assert compiled.messages == {"f": ("a is too large", "a is negative")}
    for source, status, copied in (
        ([1] * 8, 0, 8),
        ([1, 2, 300, 4, 5, 6, 7, 8], 1, 2),
        ([1, 2, 3, 4, -5, 6, 7, 800], 2, 4),
    ):
        array, got = np.array(source, "int32"), np.zeros(8, "int32")
        assert call(compiled, "f", array, got) == status
        np.testing.assert_array_equal(got, [*source[:copied], *[0] * (8 - copied)])


def test_vector_assertions_take_every_lane() -> None:
    a = buffer("a", 16, "int32")
    lanes = Ramp(int32(0), int32(1), 16)
    compiled = build(
        Function("f", (a,), Assert(LT(BufferLoad(a, (lanes,)), Broadcast(int32(16), 16)), "out of range"), ())
    )
    array = np.arange(16, dtype="int32")
    assert call(compiled, "f", array) == 0
    array[11] = 16
    assert call(compiled, "f", array) == 1


def scaled(
    extent: Expr | int, size: Expr | int, begin: int = 0, inner: Stmt | None = None
) -> tuple[Function, Buffer, Buffer, Var]:
    a, out, i = buffer("a", size), buffer("out", size), Var("i")
    body = inner or BufferStore(out, BufferLoad(a, (i,)) * 2.0, (i,))
    return (
        Function("f", (a, out), For(i, int32(begin), ops.convert(extent), LoopKind.PARALLEL, body), (out,)),
        a,
        out,
        i,
    )


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 4, 10])
def test_parallel_tasks_cover_every_iteration_once(extent: int) -> None:
    out, i = buffer("out", 16, "int32"), Var("i")
    body = BufferStore(out, BufferLoad(out, (i,)) + 1, (i,))
    got = np.zeros(16, "int32")
    assert run(Function("f", (out,), For(i, int32(2), int32(extent), LoopKind.PARALLEL, body), (out,)), got) == 0
    np.testing.assert_array_equal(got, [1 if 2 <= x < 2 + extent else 0 for x in range(16)])


def test_parallel_bodies_take_what_they_use_with_them() -> None:
    """Scalars, symbols, let bindings (vectors too) and intermediates on the stack and on the heap."""
    n, scale = SizeVar("n"), Var("scale", DType("float32"))
    a, out = Buffer("a", (n * 4,), DType("float32")), Buffer("out", (n * 4,), DType("float32"))
    small, large = buffer("small", 4), buffer("large", 1 << 15)
    i, shift, offset = Var("i"), Var("shift", DType("float32x4")), Var("offset")
    lanes = Ramp(int32(0), int32(1), 4)
    at = Ramp(i * 4, int32(1), 4)
    value = (
        BufferLoad(a, (at,)) * Broadcast(scale, 4)
        + shift
        + BufferLoad(small, (lanes,))
        + Broadcast(BufferLoad(large, (offset,)), 4)
    )
    loop = For(i, int32(0), n, LoopKind.PARALLEL, BufferStore(out, value, (at,)))
    body: Stmt = LetStmt(shift, ops.cast(lanes, "float32x4"), LetStmt(offset, int32(7) + n, loop))
    fill = (
        BufferStore(small, Broadcast(ops.const(0.5, "float32"), 4), (lanes,)),
        BufferStore(large, ops.const(100.0, "float32"), (n + 7,)),
    )
    body = Allocate(small, Allocate(large, Seq((*fill, body))))
    source, got = np.arange(20, dtype="float32"), np.zeros(20, "float32")
    assert run(Function("f", (a, scale, out), body, (out,)), source, ctypes.c_float(3), got, 5) == 0
    np.testing.assert_array_equal(got, source * 3 + np.tile([0, 1, 2, 3], 5) + 100.5)


def test_a_failing_task_fails_the_whole() -> None:
    a, i = buffer("a", 9, "int32"), Var("i")
    check = Assert(LT(BufferLoad(a, (i,)), int32(5)), "five or more")
    compiled = build(Function("f", (a,), For(i, int32(0), int32(9), LoopKind.PARALLEL, check), ()))
    array = np.zeros(9, "int32")
    assert call(compiled, "f", array) == 0
    array[4] = 5
    assert call(compiled, "f", array) == 1


def test_parallel_within_parallel_is_serial() -> None:
    out, i, j = buffer("out", 24, "int32"), Var("i"), Var("j")
    inner = For(j, int32(0), int32(4), LoopKind.PARALLEL, BufferStore(out, i * 10 + j, (i * 4 + j,)))
    compiled = build(Function("f", (out,), For(i, int32(0), int32(6), LoopKind.PARALLEL, inner), (out,)))
    assert compiled.ir_text.count("call i32 @tw_parallel_for") == 1
    got = np.zeros(24, "int32")
    assert call(compiled, "f", got) == 0
    np.testing.assert_array_equal(got, [i * 10 + j for i in range(6) for j in range(4)])


def test_two_parallel_loops_and_two_functions_in_one_module() -> None:
    functions = []
    for name, factor in (("double", 2.0), ("triple", 3.0)):
        a, out, i, j = buffer("a", 8), buffer("out", 8), Var("i"), Var("j")
        first = For(i, int32(0), int32(8), LoopKind.PARALLEL, BufferStore(out, BufferLoad(a, (i,)) * factor, (i,)))
        second = For(j, int32(0), int32(8), LoopKind.PARALLEL, BufferStore(out, BufferLoad(out, (j,)) + 1.0, (j,)))
        functions.append(Function(name, (a, out), Seq((first, second)), (out,)))
    compiled = compile_function(functions, Target(), CodegenOptions(symbols=OPTIONS))
    source = np.arange(8, dtype="float32")
    for name, factor in (("double", 2), ("triple", 3)):
        got = np.zeros(8, "float32")
        assert call(compiled, name, source, got) == 0
        np.testing.assert_array_equal(got, source * factor + 1)


def test_calls_of_outside_functions() -> None:
    a, out, i = buffer("a", 6), buffer("out", 6), Var("i")
    value = Call("call_extern", (StringImm("cbrtf"), BufferLoad(a, (i,))), DType("float32"))
    source, got = np.array([0, 1, 8, 27, 64, 125], "float32"), np.zeros(6, "float32")
    assert run(Function("f", (a, out), serial(i, 6, BufferStore(out, value, (i,))), (out,)), source, got) == 0
    np.testing.assert_allclose(got, np.cbrt(source), rtol=1e-6)
    data = Var("data", DType("handle"))
    filled = Buffer("filled", (int32(6),), DType("uint8"), data=data)
    fill = Evaluate(Call("call_extern", (StringImm("memset"), data, int32(7), ops.const(6, "int64")), DType("handle")))
    bytes_got = np.zeros(6, "uint8")
    assert run(Function("f", (filled,), fill, (filled,)), bytes_got) == 0
    np.testing.assert_array_equal(bytes_got, 7)
    root = Call("call_llvm_intrinsic", (StringImm("llvm.sqrt.f32"), BufferLoad(a, (i,))), DType("float32"))
    assert run(Function("f", (a, out), serial(i, 6, BufferStore(out, root, (i,))), (out,)), source, got) == 0
    np.testing.assert_array_equal(got, np.sqrt(source))


def test_unknown_functions_are_named() -> None:
    out = buffer("out", 1)
    for name, intrinsic, code in (
        ("no_such_function", "call_extern", "TW0411"),
        ("llvm.no.such.f32", "call_llvm_intrinsic", "TW0412"),
    ):
        value = Call(intrinsic, (StringImm(name), ops.const(1.0, "float32")), DType("float32"))
        with pytest.raises(CodegenError, match=f"(?s){code}.*{re.escape(name)}"):
            run(Function("f", (out,), BufferStore(out, value, (int32(0),)), (out,)), np.zeros(1, "float32"))


def test_every_intrinsic_has_a_row_and_others_are_refused() -> None:
    others = {
        "packed_array": "an argument, which call_packed's row reads",
        "mul_add": "decided by a pass",
        "atomic_add": "a store, which emit_stmt adds with",
    }
    assert set(INTRINSICS) - {*FLOAT_ROWS, *OTHER_ROWS} == set(others)
    out = buffer("out", 1)
    value = Call("warp_shuffle", (ops.const(1.0, "float32"),), DType("float32"))
    with pytest.raises(
        CodegenError, match=r"(?s)TW0413.*no row for the intrinsic 'warp_shuffle'.*allowed: abs, access_ptr, acos"
    ):
        build(Function("f", (out,), BufferStore(out, value, (int32(0),)), (out,)))


def test_unbound_names_are_faults_of_ours() -> None:
    out, stray = buffer("out", 1), Var("stray")
    with pytest.raises(InternalError, match="variable stray is used where it is not bound"):
        build(Function("f", (out,), BufferStore(out, ops.const(1.0, "float32"), (stray,)), (out,)))
    with pytest.raises(InternalError, match="buffer lost is used outside of its allocation"):
        build(Function("f", (out,), BufferStore(buffer("lost", 4), ops.const(1.0, "float32"), (int32(0),)), (out,)))


def test_half_arithmetic_needs_no_special_processor() -> None:
    if Target().architecture != "x86_64":
        return
    a, out, i = buffer("a", 32, "float16"), buffer("out", 32, "float16"), Var("i")
    body = serial(i, 32, BufferStore(out, BufferLoad(a, (i,)) * BufferLoad(a, (i,)), (i,)))
    source, got = np.linspace(-4, 4, 32).astype("float16"), np.zeros(32, "float16")
    assert call(build(Function("f", (a, out), body, (out,)), "llvm -mcpu=x86-64"), "f", source, got) == 0
    np.testing.assert_array_equal(got, source * source)


def test_threads_may_build_at_once() -> None:
    def work(factor: int) -> bool:
        a, out, i = buffer("a", 64), buffer("out", 64), Var("i")
        body = serial(i, 64, BufferStore(out, BufferLoad(a, (i,)) * float(factor), (i,)))
        source, got = np.arange(64, dtype="float32"), np.zeros(64, "float32")
        return run(Function("f", (a, out), body, (out,)), source, got) == 0 and bool((got == source * factor).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(16)))


def microkernel(rows: int, vectors: int, depth: int, accumulators: str) -> Function:
    """C[rows, 16 vectors] += A[rows, depth] B[depth, 16 vectors]; sums in a local buffer, or in C itself."""
    width = 16 * vectors
    a, b, c, local = (
        buffer("a", rows * depth),
        buffer("b", depth * width),
        buffer("c", rows * width),
        buffer("local", rows * width),
    )
    k = Var("k")
    target = local if accumulators == "local" else c
    first, update, last = [], [], []
    for row in range(rows):
        for vector in range(vectors):
            at = Ramp(int32(row * width + vector * 16), int32(1), 16)
            product = Mul(
                Broadcast(BufferLoad(a, (k + row * depth,)), 16),
                BufferLoad(b, (Ramp(k * width + vector * 16, int32(1), 16),)),
            )
            first.append(BufferStore(target, Broadcast(ops.const(0.0, "float32"), 16), (at,)))
            update.append(
                BufferStore(
                    target, Call("fma", (product.a, product.b, BufferLoad(target, (at,))), product.dtype), (at,)
                )
            )
            last.append(BufferStore(c, BufferLoad(target, (at,)), (at,)))
    body = Seq((Seq(tuple(first)), serial(k, depth, update), Seq(tuple(last))))
    return Function("f", (a, b, c), Allocate(local, body) if accumulators == "local" else body, (c,))


@pytest.mark.parametrize("accumulators", ["local", "output"])
def test_accumulators_stay_in_registers(accumulators: str) -> None:
    compiled = build(microkernel(6, 4, 100, accumulators), "llvm -mcpu=skylake-avx512")
    loops = [block for block in re.split(r"\n(?=\.LBB)", compiled.asm()) if "vfmadd" in block]
    inner = next(block for block in loops if re.search(r"\tj\w+\t" + re.escape(block.split(":")[0]), block))
    inner = inner[: re.search(r"\tj\w+\t\.LBB", inner).end()]  # pyright: ignore[reportOptionalMemberAccess]
    assert inner.count("vfmadd") >= 24
    assert not re.search(r"\tvmov\w+\t%zmm\d+, [^%]*\(", inner), "a store, or a spill, in the inner loop"
    assert "%rsp" not in inner


def test_the_microkernel_multiplies() -> None:
    rng = np.random.default_rng(5)
    a, b, c = rng.random((6, 100), "float32"), rng.random((100, 64), "float32"), np.zeros((6, 64), "float32")
    for accumulators in ("local", "output"):
        assert run(microkernel(6, 4, 100, accumulators), a, b, c) == 0
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_scalar_loops_are_vectorized_by_llvm() -> None:
    function, *_ = scaled(1024, 1024)
    assert "<16 x float>" in build(function, "llvm -mcpu=skylake-avx512").llvm_text_optimized()


def test_operators_are_rounded_as_written_and_fast_math_is_not() -> None:
    a, out, i = buffer("a", 64), buffer("out", 1), Var("i")
    total = BufferStore(out, BufferLoad(out, (int32(0),)) + BufferLoad(a, (i,)) * BufferLoad(a, (i,)), (int32(0),))
    function = Function("f", (a, out), serial(i, 64, total), (out,))
    plain, contracted, fast = build(function), build(function, fp_contract=True), build(function, fast_math=True)
    assert "fadd float" in plain.ir_text
    assert "contract" not in plain.ir_text
    assert "fadd contract float" in contracted.ir_text
    assert "reassoc" not in contracted.ir_text
    assert "nnan" not in fast.ir_text
    assert "ninf" not in fast.ir_text
    assert "vector.reduce.fadd" in fast.llvm_text_optimized()
    assert "vector.reduce.fadd" not in plain.llvm_text_optimized()


def test_code_for_another_machine_is_made_and_not_run() -> None:
    function, *_ = scaled(64, 64)
    here = Target().architecture
    other = build(function, f"llvm -mtriple={'x86_64' if here == 'aarch64' else 'aarch64'}-unknown-linux-gnu")
    assert re.search(r"\tf(add|mul)\tv|\t(add|mul)ps\t", other.asm())
    assert other.object_bytes[:4] == b"\x7fELF"
    with pytest.raises(CodegenError, match=r"(?s)TW0410.*does not run on this machine"):
        other.address("tw_kernel_f")
    newer = build(function, f"llvm -mattr={'+sme' if here == 'aarch64' else '+amx-bf16,+avx512fp16'}")
    if not newer.target.runs_here:
        with pytest.raises(CodegenError, match="TW0410"):
            newer.address("tw_kernel_f")


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


def test_code_is_freed_with_its_module() -> None:
    function, *_ = scaled(64, 64)

    def round_trips(count: int) -> None:
        for _ in range(count):
            build(function).address("tw_kernel_f")
        gc.collect()

    round_trips(20)
    before = resident_kib()
    round_trips(100)
    assert resident_kib() - before < 2500  # a kernel's code and LLVM's state for it are some 100 KiB


def test_index_arithmetic_promises_no_overflow_and_data_does_not() -> None:
    a, out, i = buffer("a", 64, "int32"), buffer("out", 64, "int32"), Var("i")
    value = BufferLoad(a, (i * 1 + 0,)) + 5
    text = build(Function("f", (a, out), serial(i, 32, BufferStore(out, value, (i * 2 + 1,))), (out,))).ir_text
    assert re.search(r"mul nsw i32 %i\d+, 2", text)
    assert re.search(r"= add i32 %v\d+, 5", text)


def test_large_strides_use_64_bit_addresses() -> None:
    """An int64 offset beyond 2^31 reaches its element (a sparse mapping)."""
    size = 3 << 30
    out, i = Buffer("out", (ops.const(size, "int64"),), DType("int8")), Var("i", DType("int64"))
    body = BufferStore(out, ops.const(7, "int8"), (i * (1 << 30) + 5,))
    got = np.memmap(_sparse(size), np.int8, "r+", shape=(size,))
    assert (
        run(
            Function("f", (out,), For(i, ops.const(0, "int64"), ops.const(3, "int64"), LoopKind.SERIAL, body), (out,)),
            got,
        )
        == 0
    )
    assert [int(got[k * (1 << 30) + 5]) for k in range(3)] == [7, 7, 7]


def _sparse(size: int) -> str:
    import tempfile

    file = tempfile.NamedTemporaryFile(delete=False)  # noqa: SIM115  (mapped after this returns)
    file.truncate(size)
    file.close()
    return file.name


def test_a_sum_of_floats_keeps_its_order_also_where_it_is_a_plain_loop() -> None:
    a, out, i = buffer("a", 64), buffer("out", 1), Var("i")
    total = BufferStore(out, BufferLoad(out, (int32(0),)) + BufferLoad(a, (i,)), (int32(0),))
    function = Function("f", (a, out), serial(i, 64, total), (out,))
    values, got = np.random.default_rng(1).standard_normal(64).astype("float32") * 1e4, np.zeros(1, "float32")
    assert run(function, values, got) == 0
    want = np.float32(0)
    for value in values:
        want = want + value
    assert got[0] == want


def test_loops_that_are_not_plain_are_closed_to_llvms_vectorizer() -> None:
    a, out, i = buffer("a", 128), buffer("out", 64), Var("i")
    strided = BufferStore(out, BufferLoad(a, (i * 2,)), (i,))
    carried = BufferStore(out, BufferLoad(out, (i,)) + 1.0, (i + 1,))
    for body, extent in ((strided, 64), (carried, 63)):
        assert (
            '!"llvm.loop.vectorize.width", i32 1}'
            in build(Function("f", (a, out), serial(i, extent, body), (out,))).ir_text
        )
