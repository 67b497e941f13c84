"""Tensors, computes, axes, and operators on whole tensors."""

# ruff: noqa: SIM201, SIM202, SIM300  (what == and != mean, and from either side, is what is tested)

import functools
import sys

import numpy as np
import pytest
from te_evaluate import evaluate
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.ir.expr import Expr, IntImm, IterVar, ProducerLoad


def line() -> int:
    """The caller's line."""
    return sys._getframe(1).f_lineno


def data(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 4).astype(dtype)


# Declaring


def test_a_placeholder_knows_what_and_where_it_is():
    here = line() + 1
    A = te.placeholder((3, 4), "int8", name="A")
    assert (A.dtype, A.ndim, A.name, A.op.name) == ("int8", 2, "A", "A")
    assert A.source is not None and (A.source.line, A.source.file) == (here, __file__)
    assert isinstance(A.op, te.PlaceholderOp) and A.op.input_tensors == () and A.op.num_outputs == 1
    assert repr(A) == "Tensor(A: int8[3, 4], placeholder)" and A.op.output(0) is A


def test_defaults():
    A = te.placeholder((2,))
    B = te.compute((2,), lambda i: A[i])
    assert (A.name, A.dtype, B.name, B.op.tag, dict(B.op.attrs)) == ("placeholder", "float32", "compute", "", {})


@pytest.mark.parametrize("shape", [5, (5,), [5], np.int64(5), np.array([5]), (np.uint8(5),), te.const(5)])
def test_shapes_are_taken_as_users_write_them(shape):
    A = te.placeholder(shape, name="A")
    assert [int(extent) for extent in A.shape] == [5] and A.shape == (5,)
    assert isinstance(A.shape[0], IntImm) and list(range(A.shape[0])) == [0, 1, 2, 3, 4]


def test_dtypes_are_taken_as_users_write_them():
    assert [
        te.placeholder((1,), d).dtype for d in (np.float16, np.dtype("uint8"), "bfloat16", float, bool, "int64")
    ] == ["float16", "uint8", "bfloat16", "float32", "bool", "int64"]


def test_lambda_parameters_name_the_axes():
    C = te.compute((2, 3), lambda row, column: row + column, name="C")
    assert [axis.name for axis in C.op.axis] == ["row", "column"]
    assert [(axis.kind, int(axis.dom.begin), int(axis.dom.extent)) for axis in C.op.axis] == [
        ("data", 0, 2),
        ("data", 0, 3),
    ]


def test_varargs_get_all_axes():
    A = te.placeholder((2, 3, 4), name="A")
    assert [axis.name for axis in te.compute(A.shape, lambda *i: A(*i)).op.axis] == ["i0", "i1", "i2"]
    assert [axis.name for axis in te.compute(A.shape, lambda n, *i: A[(n, *i)]).op.axis] == ["n", "i0", "i1"]
    assert te.compute((), lambda *i: len(i)).op.body[0].value == 0


def test_parameters_with_defaults_capture_and_are_no_axes():
    A = te.placeholder((4,), name="A")
    made = [te.compute((4,), lambda i, shift=shift: A[i] + shift) for shift in (1, 2)]
    assert [str(t.op.body[0]) for t in made] == ["A[i] + 1.0", "A[i] + 2.0"]
    partial = functools.partial(lambda scale, i: A[i] * scale, 3.0)
    assert te.compute((4,), partial).op.axis[0].name == "i"


def test_axis_dtypes_follow_the_extent():
    n64 = te.var("n", "int64")
    dtypes = [
        te.compute((extent,), lambda i: i).op.axis[0].dtype for extent in (2**30 - 1, 2**30, 2**40, n64, te.var("m"))
    ]
    assert dtypes == ["int32", "int64", "int64", "int64", "int32"]
    assert te.compute((te.var("b", "uint8"),), lambda i: i).op.axis[0].dtype == "int32"


def test_rank_zero():
    s = te.placeholder((), name="s")
    t = te.compute((), lambda: s() * 2 + s[()], name="t")
    assert t.shape == () and t.op.axis == () and isinstance(s(), ProducerLoad)
    assert evaluate(t, {s: np.float32(3)}) == 9
    A = te.placeholder((2,), name="A")
    scaled = te.compute((2,), lambda i: A[i] * s + s)
    assert evaluate(scaled, {A: data((2,)), s: np.float32(3)}) == pytest.approx(data((2,)) * 3 + 3)


def test_symbols():
    n, m = te.var("n"), te.size_var("m")
    assert (te.var().name, te.var("x", "float32").dtype, m.dtype) == ("tindex", "float32", "int32")
    A = te.placeholder((n, m * 2), name="A")
    assert evaluate(A + 1, {A: data((2, 6))}, {n: 2, m: 3}) == pytest.approx(data((2, 6)) + 1)
    assert repr(A) == "Tensor(A: float32[n, m * 2], placeholder)"


def test_several_outputs():
    A = te.placeholder((3,), name="A")
    low, high = te.compute((3,), lambda i: (A[i] - 1, A[i] + 1), name="both")
    assert low.op is high.op and (low.value_index, high.value_index) == (0, 1)
    assert (low.name, high.name, low.op.name) == ("both.v0", "both.v1", "both")
    assert evaluate(high, {A: data((3,))}) == pytest.approx(data((3,)) + 1)
    assert isinstance(te.compute((3,), lambda i: [A[i]]), te.Tensor)


def test_outputs_may_differ_in_dtype():
    a, b = te.compute((2,), lambda i: (i, i.astype("float32")))
    assert (a.dtype, b.dtype) == ("int32", "float32")


def test_tags_and_attributes():
    with te.tag_scope(tag="conv"):
        A = te.compute((1,), lambda i: i)
        with te.tag_scope("inner"):
            B = te.compute((1,), lambda i: i)
        C = te.compute((1,), lambda i: i, tag="own", attrs={"unroll": 4})

    @te.tag_scope(tag="pool")
    def pool():
        return te.compute((1,), lambda i: i) + 1

    assert [t.op.tag for t in (A, B, C, pool(), te.compute((1,), lambda i: i))] == ["conv", "inner", "own", "pool", ""]
    assert C.op.attrs["unroll"] == 4 and pool().op.tag == "pool"


def test_operations_list_their_inputs_once_in_order_of_use():
    A, B, I = (te.placeholder((4,), d, name=n) for d, n in (("float32", "A"), ("float32", "B"), ("int32", "I")))
    C = te.compute((4,), lambda i: B[I[i] % 4] + A[i] + B[i])
    assert C.op.input_tensors == (I, B, A)


# Axes


def test_reduce_axes():
    n = te.var("n")
    k = te.reduce_axis((1, n), name="k")
    assert (k.kind, k.dtype, str(k.dom)) == ("reduce", "int32", "Range(1, n - 1)")
    assert te.reduce_axis((0, 2**31)).dtype == "int64" and te.reduce_axis((0, 5)).name == "rv"


def test_thread_axes():
    tx = te.thread_axis("threadIdx.x")
    assert (tx.kind, tx.thread_tag, tx.name, tx.dom) == ("thread", "threadIdx.x", "threadIdx.x", None)
    for made in (te.thread_axis((0, 32), "threadIdx.y", name="ty"), te.thread_axis(32, "threadIdx.y", "ty")):
        assert (made.thread_tag, made.name, int(made.dom.extent)) == ("threadIdx.y", "ty", 32)


def test_axes_are_expressions_and_keys_by_identity():
    i, j = te.compute((4, 4), lambda i, j: i + j).op.axis
    assert isinstance(i % 2, Expr) and {i: "i", j: "j"}[j] == "j"
    assert i == i and i != j and not i == j and i in [j, i] and i not in [j]
    assert i.var is i and isinstance(i, IterVar)
    assert str(i == 3) == "i == 3"


# Elements


def test_elements_by_every_spelling():
    A = te.placeholder((4, 5), name="A")
    i, j = te.var("i"), te.var("j")
    assert {str(x) for x in (A[i, j], A(i, j), A[i][j], A[(i, j)])} == {"A[i, j]"}
    assert isinstance(A[i], te.TensorSlice) and A[i].dtype == "float32" and A[i].shape == (5,)


def test_indices_are_int32_or_int64():
    A = te.placeholder((300,), name="A")
    I = te.placeholder((4,), "uint8", name="I")
    load = A[I[0] + 255]
    assert [load.indices[0].dtype, A[np.int64(3)].indices[0].dtype, A[te.var("q", "uint32")].indices[0].dtype] == [
        "int32",
        "int64",
        "int64",
    ]
    assert str(load) == "A[int32(I[0] + 255)]"


# Whole tensors


def test_equality_of_tensors_is_an_expression_with_the_truth_of_identity():
    A, B, C = te.placeholder((4,), name="A"), te.placeholder((4,), name="B"), te.placeholder((5, 5), name="C")
    equal = A == B
    assert equal.dtype == "bool" and equal.shape == (4,)
    assert not equal and A == A and A != B and not A != A
    assert not A == C and A != C, "shapes that do not match are no obstacle to the question"
    assert A in [C, B, A] and A not in [B, C] and {A: 1, B: 2}[B] == 2
    assert A is not None and A != None and not A == "A" and A != A.op  # noqa: E711
    assert A == A.op.output(0) and hash(A) == hash(A.op.output(0))
    assert A, "a tensor is true: `if bias:` asks whether there is one"


def test_comparisons_of_whole_tensors():
    A, B = te.placeholder((2, 3), name="A"), te.placeholder((3,), name="B")
    a, b = data((2, 3)), data((3,), seed=1)
    for symbol, made, expected in [
        ("<", A < B, a < b),
        ("<=", A <= 1, a <= 1),
        (">", A > B, a > b),
        (">=", 0.5 >= A, a <= 0.5),
        ("==", A == A, a == a),
        ("!=", A != B, a != b),
    ]:
        assert made.dtype == "bool" and (evaluate(made, {A: a, B: b}) == expected).all(), symbol


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((3, 1), (4,)),
        ((1, 1), (2, 3)),
        ((), (3,)),
        ((2, 1, 3), (5, 1)),
        ((0, 3), (1, 3)),
        ((1,), (1,)),
    ],
)
def test_broadcasting_is_numpys(x, y):
    A, B = te.placeholder(x, name="A"), te.placeholder(y, name="B")
    a, b = data(x), data(y, seed=1)
    made = A * B - A
    assert tuple(map(int, made.shape)) == (a * b).shape
    assert evaluate(made, {A: a, B: b}) == pytest.approx(a * b - a)


def test_symbolic_broadcasting():
    n, m = te.var("n"), te.size_var("m")
    A, B, C = te.placeholder((n, m + 1), name="A"), te.placeholder((1, m + 1), name="B"), te.placeholder((1,), name="C")
    made = A + B + C
    assert made.shape[0] is n and evaluate(
        made, {A: data((2, 4)), B: data((1, 4)), C: data((1,))}, {n: 2, m: 3}
    ) == pytest.approx(data((2, 4)) + data((1, 4)) + data((1,)))


def test_operators_and_their_reflections():
    A, I = te.placeholder((5,), name="A"), te.placeholder((5,), "int32", name="I")
    a, i = np.abs(data((5,))) + 1, np.array([-7, -1, 1, 3, 9], "int32")
    cases = [
        (A + 1, a + 1),
        (1 - A, 1 - a),
        (2 * A, 2 * a),
        (1 / A, 1 / a),
        (A / 2, a / 2),
        (A**2, a**2),
        (A**0.5, a**0.5),
        (2**A, np.float32(2) ** a),
        (-A, -a),
        (+A, a),
        (abs(I), abs(i)),
        (I // 2, i // 2),
        (7 // I, 7 // i),
        (I % 3, i % 3),
        (7 % I, 7 % i),
        (I << 2, i << 2),
        (I & 6, i & 6),
        (~I, ~i),
        (np.float32(3) * A, 3 * a),
        (A * te.const(2.0), a * 2),
        (I * 0.5, i.astype("float32") * 0.5),
        (I.astype("int64") * 10**10, i.astype("int64") * 10**10),
    ]
    for at, (made, expected) in enumerate(cases):
        found = evaluate(made, {A: a, I: i})
        assert found.dtype == np.asarray(expected).dtype, f"case {at}: {made.op.body}"
        assert found == pytest.approx(expected), f"case {at}: {made.op.body}"


def test_logic_on_bool_tensors():
    P, Q = te.placeholder((4,), "bool", name="P"), te.placeholder((4,), "bool", name="Q")
    p, q = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for made, expected in [
        (P & Q, p & q),
        (P | Q, p | q),
        (P ^ Q, p ^ q),
        (~P, ~p),
        (te.all(P, Q), p & q),
        (te.any(P, Q), p | q),
    ]:
        assert made.dtype == "bool" and (evaluate(made, {P: p, Q: q}) == expected).all()


def test_whole_tensors_with_scalars_of_the_program():
    alpha = te.var("alpha", "float32")
    A = te.placeholder((3,), name="A")
    assert evaluate(A * alpha + alpha, {A: data((3,))}, {alpha: np.float32(2)}) == pytest.approx(data((3,)) * 2 + 2)
    assert evaluate(A - A[0], {A: data((3,))}) == pytest.approx(data((3,)) - data((3,))[0])


def test_names_and_tags_of_elementwise_operations():
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((4,), name="B")
    assert [(t.op.name, t.op.tag) for t in (A + A, A * B, te.exp(A), -A, A < B)] == [
        ("T_add", "broadcast"),
        ("T_multiply", "broadcast"),
        ("T_exp", "elemwise"),
        ("T_negative", "elemwise"),
        ("T_less", "broadcast"),
    ]
    assert A.astype("float32") is A and A.astype("int8").dtype == "int8"


def test_elementwise_operations_say_where_they_were_written():
    A = te.placeholder((3,), name="A")
    here = line() + 1
    B = A + 1
    assert B.source is not None and B.source.line == here


def test_ten_thousand_nodes():
    A = te.placeholder((4,), name="A")

    def body(i):
        total = A[i]
        for _ in range(5_000):
            total = total + A[i]
        return total

    B = te.compute((4,), body, name="B")
    C = te.placeholder((4,), name="C")
    assert B.op.input_tensors == (A,)
    assert B.op.replace_inputs({A: C}).input_tensors == (C,)


def test_a_doubled_expression_is_visited_once_a_node():
    A = te.placeholder((4,), name="A")

    def body(i):
        value = A[i]
        for _ in range(64):  # 2^64 paths, 65 nodes
            value = value + value
        return value

    assert te.compute((4,), body).op.input_tensors == (A,)


def test_every_name_of_the_face_is_there():
    assert [name for name in te.__all__ if getattr(te, name, None) is None] == []
    with pytest.raises(AttributeError, match=r"te has no shedule[\s\S]*te\.Schedule"):
        _ = te.shedule


def test_errors_of_te_are_values_errors_of_the_family():
    with pytest.raises(ValueError, match="TW0110") as caught:
        te.placeholder((2.5,))
    assert isinstance(caught.value, TilewrightError) and caught.value.code == "TW0110"


def test_schedules_are_found_on_the_face_of_te():
    from tilewright import schedule

    assert te.create_schedule is schedule.create_schedule and te.Schedule is schedule.Schedule
