"""te.compute whose function calls a tensor intrinsic on parts of tensors: scheduled like any other stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te
from tilewright.ir.stmt import If
from tilewright.ir.visit import walk
from tilewright.te import errors as te_errors

TARGETS = ("llvm", "interpret")


def vadd(size: int, scope: str = "") -> te.TensorIntrin:
    """z = x + y as one vector."""
    x, y = te.placeholder((size,), name="x"), te.placeholder((size,), name="y")
    z = te.compute((size,), lambda i: x[i] + y[i], "z")
    wide = f"float32x{size}"
    return te.decl_tensor_intrin(
        z.op,
        lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], wide) + ins[1].vload([0], wide)),
        "vadd",
        default_buffer_params={"offset_factor": size, "scope": scope},
    )


def gemm(rows: int, columns: int, depth: int, parts: int = 3) -> te.TensorIntrin:
    """z[i, j] = sum of x[i, k] * y[j, k]; parts: 1 the body alone, 2 no reduce_init, 3 all."""
    k = te.reduce_axis((0, depth), "k")
    x, y = te.placeholder((rows, depth), name="x"), te.placeholder((columns, depth), name="y")
    z = te.compute((rows, columns), lambda i, j: te.sum(x[i][k] * y[j][k], axis=k), "z")
    binds = {one: te.decl_buffer(one.shape, one.dtype, one.name, strides=[te.var("s"), 1]) for one in (x, y, z)}

    def bodies(ins: list[Any], outs: list[Any]) -> Any:
        def loops(begin: bool, go_on: bool) -> Any:
            ib = tw.ir_builder()
            a, b, c = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
            with ib.for_range(0, rows, "p") as p, ib.for_range(0, columns, "q") as q:
                if begin:
                    c[p, q] = 0.0
                if go_on:
                    with ib.for_range(0, depth, "r") as r:
                        c[p, q] = c[p, q] + a[p, r] * b[q, r]
            return ib.get()

        whole, begin, go_on = loops(True, True), loops(True, False), loops(False, True)
        return whole if parts == 1 else (whole, None if parts == 2 else begin, go_on)

    return te.decl_tensor_intrin(z.op, bodies, "gemm", binds)


def built(s: Any, args: list[Any], arrays: list[np.ndarray], expected: np.ndarray) -> None:
    for target in TARGETS:
        found = np.full(expected.shape, 77, expected.dtype)
        tw.build(s, args, target=target)(*arrays, found)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{target}\n{s}")


def rows_added(n: int = 8, size: int = 16) -> tuple[Any, ...]:
    A, B, call = te.placeholder((n, size), name="A"), te.placeholder((n * size,), name="B"), vadd(size)
    C = te.compute((n, size), lambda i: call(A[i, 0:size], B[i * size : (i + 1) * size]), "C")
    a, b = floats(n, size), floats(n * size, seed=1)
    return A, B, C, [a, b], a + b.reshape(n, size)


def test_a_part_for_each_call() -> None:
    A, B, C, arrays, expected = rows_added()
    s = te.create_schedule(C.op)
    assert "C[i, ramp(0, 1, 16)] = A[i, ramp(0, 1, 16)] + B[ramp(i * 16, 1, 16)]" in str(s)
    assert [axis.name for axis in C.op.axis] == ["i", "ax0"]
    assert isinstance(C.op, te.TensorComputeOp)
    built(s, [A, B, C], arrays, expected)


@pytest.mark.parametrize("factor", [1, 2, 3, 5, 8, 11])
def test_outer_loops_are_split_reordered_and_run_in_parallel(factor: int) -> None:
    A, B, C, arrays, expected = rows_added()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor)
    s[C].reorder(inner, outer)
    s[C].parallel(inner)
    built(s, [A, B, C], arrays, expected)
    again = te.Schedule.replay(s.trace, C.op)
    assert str(again) == str(s)
    space: dict[str, Any] = {"te": te, "ops": [C.op]}
    exec(s.as_python(), space)
    assert str(space["s"]) == str(s)
    assert str(s.copy()) == str(s)


def blocked(
    n: int = 3, m: int = 2, d: int = 5, sizes: tuple[int, int, int] = (4, 8, 2), parts: int = 3
) -> tuple[Any, ...]:
    rows, columns, depth = sizes
    A, B = te.placeholder((n, d, rows, depth), name="A"), te.placeholder((m, d, columns, depth), name="B")
    k, call = te.reduce_axis((0, d), "k"), gemm(rows, columns, depth, parts)
    C = te.compute((n, m, rows, columns), lambda i, j: call(A[i, k, 0:rows, 0:depth], B[j, k], reduce_axis=k), "C")
    a, b = floats(n, d, rows, depth), floats(m, d, columns, depth, seed=1)
    return A, B, C, k, [a, b], np.einsum("iarc,jasc->ijrs", a, b)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_reduction_goes_on_over_calls(parts: int) -> None:
    A, B, C, k, arrays, expected = blocked(parts=parts)
    s = te.create_schedule(C.op)
    built(s, [A, B, C], arrays, expected)
    i, j = C.op.axis[:2]
    ko, ki = s[C].split(k, 2)  # 5 = 2 * 2 + 1: the tail is guarded
    s[C].reorder(ko, j, i, ki)
    built(s, [A, B, C], arrays, expected)


@pytest.mark.parametrize("factor", [4, 8, 12])
def test_computed_at_a_loop_of_its_reader_and_with_its_producer_within(factor: int) -> None:
    A, B, C, k, arrays, expected = blocked()
    P = te.compute(A.shape, lambda *i: A[i] * 2, "P")
    call = gemm(4, 8, 2)
    C = te.compute((3, 2, 4, 8), lambda i, j: call(P[i, k, 0:4, 0:2], B[j, k], reduce_axis=k), "C")
    D = te.compute((12, 16), lambda i, j: C[i // 4, j // 8, i % 4, j % 8] + 1, "D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], factor)
    s[C].compute_at(s[D], outer)
    s[P].compute_at(s[C], s[C].op.axis[1])
    built(s, [A, B, D], arrays, 2 * expected.transpose(0, 2, 1, 3).reshape(12, 16) + 1)


def test_a_reader_of_half_a_part_still_gets_it_whole() -> None:
    A, B, C, arrays, expected = rows_added()
    D = te.compute((8, 4), lambda i, j: C[i, j * 4] * 2, "D")
    s = te.create_schedule(D.op)
    io, _ = s[D].split(D.op.axis[1], 2)
    s[C].compute_at(s[D], io)
    assert "C: float32[1, 16]" in str(s)
    built(s, [A, B, D], arrays, 2 * expected[:, ::4])


def test_caches_of_its_operands_and_of_its_result() -> None:
    A, B, C, k, arrays, expected = blocked()
    s = te.create_schedule(C.op)
    AL, BL = s.cache_read(A, "local", C), s.cache_read(B, "local", [C])
    CL = s.cache_write(C, "local")
    assert isinstance(CL.op, te.TensorComputeOp)
    assert not isinstance(s[C].op, te.TensorComputeOp)
    i, j, p, q = s[C].op.axis
    s[C].vectorize(q)
    s[CL].compute_at(s[C], j)
    s[AL].compute_at(s[CL], k)
    s[BL].compute_at(s[CL], k)
    text = str(s)
    assert "A.local: local float32[1, 1, 4, 2]" in text
    assert "C.local: local float32[1, 1, 4, 8]" in text
    built(s, [A, B, C], arrays, expected)


def test_loops_before_cache_write_are_the_layout_and_the_intrinsic_stays() -> None:
    A, B, C, k, arrays, expected = blocked(n=4)
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 2)
    s[C].reorder(ii, C.op.axis[1], io)
    CL = s.cache_write(C, "global")
    assert [str(extent) for extent in CL.shape] == ["2", "2", "2", "4", "8"]
    built(s, [A, B, C], arrays, expected)
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 3)
    before = s.trace
    with pytest.raises(tw.ScheduleError, match=r"(?s)cannot cache writes of C.*whole parts of the cache"):
        s.cache_write(C, "local")
    assert s.trace == before


def test_a_loop_that_was_tensorized_goes_into_the_cache() -> None:
    A, B = te.placeholder((6, 16), name="A"), te.placeholder((6, 16), name="B")
    C = te.compute((6, 16), lambda i, j: A[i, j] + B[i, j], "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], vadd(16))
    s.cache_write(C, "local")
    text = str(s)
    assert "C.local[i.c, ramp(0, 1, 16)] = A[" in text
    assert "for j in 16:\n            C[i, j] = C.local[i, j]" in text
    a, b = floats(6, 16), floats(6, 16, seed=1)
    built(s, [A, B, C], [a, b], a + b)


def scaled(size: Any = 8) -> te.TensorIntrin:
    v, w = te.var("v", "float32"), te.var("w", "float32")
    x = te.placeholder((size,), name="x")
    z = te.compute((size,), lambda i: x[i] * v + w, "z")

    def body(ins: list[Any], outs: list[Any], scalars: list[Any]) -> Any:
        assert scalars == [v, w]
        ib = tw.ir_builder()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, ins[0].shape[0], "t") as t:
            out[t] = te.call_intrin("float32", "fma", source[t], scalars[0], scalars[1])
        return ib.get()

    return te.decl_tensor_intrin(z.op, body, "scaled", scalar_params=[v, w])


def test_scalars_between_the_parts() -> None:
    call = scaled()
    assert len(call.scalar_params) == 2
    A, S = te.placeholder((5, 8), name="A"), te.placeholder((5,), name="S")
    a, scale = floats(5, 8), floats(5, seed=1)
    for make in (lambda i: call(S[i], A[i], i + 1), lambda i: call(A[i], scalar_inputs=[S[i], i + 1])):
        C = te.compute((5, 8), make, "C")
        built(
            te.create_schedule(C.op),
            [A, S, C],
            [a, scale],
            a * scale[:, None] + np.arange(1, 6, dtype="float32")[:, None],
        )


def test_scalars_that_the_program_is_passed() -> None:
    n, call = te.var("n", "float32"), scaled()
    A = te.placeholder((5, 8), name="A")
    C = te.compute((5, 8), lambda i: call(n, A[i], 2.5), "C")
    s = te.create_schedule(C.op)
    a = floats(5, 8)
    for target in TARGETS:
        found = np.zeros((5, 8), "float32")
        tw.build(s, [n, A, C], target=target)(3.0, a, found)
        np.testing.assert_allclose(found, a * 3 + 2.5, rtol=1e-5)


def test_scalars_are_found_where_a_loop_is_tensorized() -> None:
    A, S = te.placeholder((5, 16), name="A"), te.placeholder((5,), name="S")
    C = te.compute((5, 16), lambda i, j: A[i, j] * S[i] + te.exp(S[i]), "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[1], 8)
    s[C].tensorize(inner, scaled())
    assert "fma(A[i, j.outer * 8 + t], S[i], exp(S[i]))" in str(s)
    a, scale = floats(5, 16), floats(5, seed=1)
    built(s, [A, S, C], [a, scale], a * scale[:, None] + np.exp(scale)[:, None])


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (
            lambda A, S, i, j: A[i, j] * S[j] + 1.0,
            r"it has `S\[.*\]`, which changes under the loop, where the intrinsic has v, one ",
        ),
        (
            lambda A, S, i, j: A[i, j] * S[i],
            r"it has `A\[.*\] \* S\[.*\]` of float32 where the intrinsic has `x\[i\] \* v \+ w`",
        ),
    ],
)
def test_scalars_that_are_none(value: Any, match: str) -> None:
    A, S = te.placeholder((8, 8), name="A"), te.placeholder((8,), name="S")
    C = te.compute((8, 8), lambda i, j: value(A, S, i, j), "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], scaled())
    with pytest.raises(tw.LoweringError, match=rf"(?s)TW0381.*{match}"):
        tw.lower(s, [A, S, C])


def passes_scalar(ins: list[Any], outs: list[Any], scalars: list[Any]) -> Any:
    return te.call_extern("int32", "f", scalars[0])


def test_one_scalar_cannot_be_two_values() -> None:
    v = te.var("v", "float32")
    x = te.placeholder((8,), name="x")
    z = te.compute((8,), lambda i: x[i] * v + v, "z")
    twice = te.decl_tensor_intrin(z.op, passes_scalar, "twice", scalar_params=[v])
    A = te.placeholder((8,), name="A")
    for plus, fits in ((2.0, True), (3.0, False)):
        C = te.compute((8,), lambda i, plus=plus: A[i] * 2.0 + plus, "C")
        s = te.create_schedule(C.op)
        s[C].tensorize(C.op.axis[0], twice)
        if fits:
            assert "(2.0)" in str(s) or ", 2.0)" in str(s)
        else:
            with pytest.raises(
                tw.LoweringError, match=r"the intrinsic's v would be `2.0` at one place and `3.0` at the other"
            ):
                tw.lower(s, [A, C])


def test_a_scalar_that_nothing_tells() -> None:
    v, x = te.var("v"), te.placeholder((8,), name="x")
    z = te.compute((8,), lambda i: x[i] + 1.0, "z")
    hint = te.decl_tensor_intrin(z.op, passes_scalar, "hint", scalar_params=[v])
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], hint)
    with pytest.raises(
        tw.LoweringError, match=r"(?s)no value is known for the scalar parameter v of hint is.*fix: call the intrin"
    ):
        tw.lower(s, [A, C])
    D = te.compute((8,), lambda: hint(A, 5), "D")
    assert '"f", 5)' in str(te.create_schedule(D.op))


def test_symbolic_sizes_are_those_of_each_use() -> None:
    n = te.size_var("n")
    call = scaled(n)
    A = te.placeholder((6, 10), name="A")
    a = floats(6, 10)
    for size in (10, 5, 2):
        C = te.compute((6, 10 // size, size), lambda i, j, size=size: call(A[i, j * size : j * size + size], i, j), "C")
        expected = a.reshape(6, -1, size) * np.arange(6)[:, None, None] + np.arange(10 // size)[None, :, None]
        built(te.create_schedule(C.op), [A, C], [a], expected.astype("float32"))
    D = te.compute((6, 10), lambda i, j: A[i, j] * 2.0 + 1.0, "D")
    s = te.create_schedule(D.op)
    s[D].tensorize(s[D].split(D.op.axis[1], 5)[1], call)
    built(s, [A, D], [a], a * 2 + 1)


def test_one_element_a_call_as_in_tvm() -> None:
    n, v, w = te.size_var("n"), te.size_var("v"), te.size_var("w")
    x = te.placeholder((n,), "int32", name="x")
    z = te.compute((n,), lambda i: x[i] * v + w, name="z")
    seen: list[Any] = []

    def body(ins: list[Any], outs: list[Any], sp: list[Any]) -> Any:
        seen.append(ins[0].shape[0])
        return outs[0].vstore([0], ins[0].vload([0]) * sp[0] + sp[1])

    call = te.decl_tensor_intrin(z.op, body, scalar_params=[v, w], default_buffer_params={"offset_factor": 1})
    assert seen[0] is n
    A = te.placeholder((10, 10), "int32", name="A")
    C = te.compute((10, 10), lambda i, j: call(i * i, A[i, j], i + j), name="C")
    s = te.create_schedule(C.op)
    a = np.arange(100, dtype="int32").reshape(10, 10)
    i, j = np.mgrid[:10, :10].astype("int32")
    built(s, [A, C], [a], a * (i * i) + i + j)
    fused = s[C].fuse(*C.op.axis)
    s[C].parallel(s[C].split(fused, 7)[0])
    assert any(isinstance(node, If) for node in walk(tw.lower(s, [A, C]).body))
    built(s, [A, C], [a], a * (i * i) + i + j)


def test_pairs_of_outputs() -> None:
    x = te.placeholder((8,), name="x")
    z = te.compute((8,), lambda i: (x[i] + 1, x[i] * 2), "z")
    both = te.decl_tensor_intrin(
        z[0].op, lambda ins, outs: te.call_extern("int32", "unknown_both", *(out.access_ptr("w") for out in outs))
    )
    A = te.placeholder((3, 8), name="A")
    C, D = te.compute((3, 8), lambda i: both(A[i, 0:8]), "CD")
    a, c, d = floats(3, 8), np.zeros((3, 8), "float32"), np.zeros((3, 8), "float32")
    tw.build(te.create_schedule(C.op), [A, C, D], target="interpret")(a, c, d)
    np.testing.assert_allclose(c, a + 1)
    np.testing.assert_allclose(d, a * 2)


def rows(make: Any, wide: int = 16) -> Any:
    """What computes 4 rows by the call that `make` makes of an intrinsic, two tensors and an index."""
    return lambda f, A, B: te.compute((4, wide), lambda i: make(f, A, B, i))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (rows(lambda f, A, B, i: f(A[i, 0:16])), "it was given 1 parts of tensors and 0 scalars; it takes x: "),
        (rows(lambda f, A, B, i: f(A[i, 0:16], A[i, 0:16], 3)), "2 parts of tensors and 1 scalars"),
        (rows(lambda f, A, B, i: f(A[i, 0:8], A[i, 0:16])), r"the part A\[i, 0:8\] has the extents \(1, 8\), and x: "),
        (
            rows(lambda f, A, B, i: f(A[i, i:16], A[i, 0:16])),
            r"\(1, 16 - i\), and x: .*in sizes that are numbers.*parts of one size",
        ),
        (rows(lambda f, A, B, i: f(A[i, 0:16], B[i, 0:16])), r"the part B\[i, 0:16\] is float64, and y: float32"),
        (rows(lambda f, A, B, i: f(A[i, 0:16], A[i, 0:16]), 8), r"a part of shape \(8,\); the intrinsic gives \(16,\)"),
        (rows(lambda f, A, B, i: f(A[i], A[i], reduce_axis=te.reduce_axis((0, 2)))), "z does not reduce"),
        (rows(lambda f, A, B, i: f(A[i], A[i], reduce_axis=3)), "its reduce_axis is 3"),
    ],
)
def test_calls_that_do_not_fit(call: Any, match: str) -> None:
    A, B = te.placeholder((4, 16), name="A"), te.placeholder((4, 16), "float64", name="B")
    with pytest.raises(te_errors.BadTensorIntrin, match=rf"(?s)TW0132.*{match}"):
        call(vadd(16), A, B)


def test_more_calls_that_do_not_fit() -> None:
    A, B = te.placeholder((4, 4, 4), name="A"), te.placeholder((4, 4), name="B")
    k = te.reduce_axis((0, 4), "k")
    whole = gemm(4, 4, 4, parts=1)
    with pytest.raises(
        te_errors.BadTensorIntrin, match="is to go on with a reduction over k, and has no reduce_update"
    ):
        te.compute((4, 4), lambda: whole(A[k], B, reduce_axis=k))
    C = te.compute((4, 4, 4), lambda i: whole(A[i + 1], B))
    with pytest.raises(te_errors.IndexOutOfRange, match=r"(?s)reads outside A.*runs from 1 to 4"):
        tw.lower(te.create_schedule(C.op), [A, B, C])
    with pytest.raises(
        te_errors.BadTensorIntrin, match=r"(?s)the scalar v is 'x'.*a number or an expression of float32"
    ):
        te.compute((4,), lambda: scaled(4)(B[0], "x", 1))
    with pytest.raises(te_errors.BadTensorIntrin, match="its scalar_params are 3"):
        te.decl_tensor_intrin(whole.op, lambda ins, outs, scalars: None, scalar_params=[3])  # type: ignore[list-item]
    with pytest.raises(te_errors.UnreducedAxis, match="uses the reduce axis 'k'"):
        te.compute((4, 4), lambda: whole(A[k], B))
    with pytest.raises(te_errors.WrongParameters, match="takes 1 index, but its shape has 2 dimensions"):
        te.compute((4, 4), lambda i: B[i] + 1)


def test_what_primitives_refuse() -> None:
    A, B, C, k, _, _ = blocked()
    P = te.compute(A.shape, lambda *i: A[i] * 2, "P")
    call = gemm(4, 8, 2)
    C = te.compute((3, 2, 4, 8), lambda i, j: call(P[i, k], B[j, k], reduce_axis=k), "C")
    D = te.compute(C.shape, lambda *i: C[i] + 1, "D")
    s = te.create_schedule(D.op)
    before = s.trace
    with pytest.raises(tw.ScheduleError, match=r"cannot inline stage P\n.*C calls a tensor intrinsic on P"):
        s[P].compute_inline()
    with pytest.raises(tw.ScheduleError, match=r"cannot inline stage C\n.*C is computed by the tensor intrinsic gemm"):
        s[C].compute_inline()
    with pytest.raises(tw.ScheduleError, match=r"(?s)cannot factor the reduction C over 'k'.*adds up whole parts of C"):
        s.rfactor(C, k)
    with pytest.raises(tw.ScheduleError, match="ax0 is tensorized, which would be lost"):
        s[C].split(C.op.axis[2], 2)
    assert s.trace == before
    s[C].reorder(C.op.axis[2], k)  # the reduction within the intrinsic
    with pytest.raises(
        tw.LoweringError, match=r"(?s)TW0380.*the reduce axes of C run through \(k: 5, k: 2\) under the loop"
    ):
        tw.lower(s, [A, B, D])
    text = str(s)
    assert "open: cannot tensorize 'ax0' of stage C by gemm" in text


def test_on_the_emulated_gpu() -> None:
    A, B, C, k, arrays, expected = blocked()
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))
    found = np.full(expected.shape, 77, "float32")
    tw.build(s, [A, B, C], target="cuda -emulate")(*arrays, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_symbolic_number_of_calls(rows: int) -> None:
    n, call = te.var("n"), vadd(16)
    A, B = te.placeholder((n, 16), name="A"), te.placeholder((n * 16,), name="B")
    C = te.compute((n, 16), lambda i: call(A[i], B[i * 16 : i * 16 + 16]), "C")
    D = te.compute((n, 16), lambda i, j: C[i, j] * 2, "D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 3)
    s[C].compute_at(s[D], outer)
    a, b = floats(rows, 16), floats(rows * 16, seed=1)
    built(s, [A, B, D], [a, b], 2 * (a + b.reshape(rows, 16)))


def test_calls_that_read_calls() -> None:
    """The second reads rows i and max(i - 1, 0) of the first, which is computed where they are needed."""
    call, A = vadd(16), te.placeholder((6, 16), name="A")
    C = te.compute((6, 16), lambda i: call(A[i], A[5 - i]), "C")
    E = te.compute((6, 16), lambda i: call(C[i], C[te.max(i - 1, 0)]), "E")
    a = floats(6, 16)
    c = a + a[::-1]
    expected = c + c[np.maximum(np.arange(6) - 1, 0)]
    for factor in (None, 1, 4):
        s = te.create_schedule(E.op)
        if factor is not None:
            outer, _ = s[E].split(E.op.axis[0], factor)
            s[C].compute_at(s[E], outer)
        built(s, [A, E], [a], expected)
    s[C].storage_align(C.op.axis[0], 32, 7)
    with pytest.raises(tw.LoweringError, match=r"TW0382.*\n.*of the part of C: .* multiple of offset_factor=16"):
        tw.lower(s, [A, E])
