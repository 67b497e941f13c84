"""Reductions: every kind against numpy."""

import numpy as np
import pytest
from te_evaluate import evaluate
from tilewright import te
from tilewright.ir.expr import Reduce


def argmax_reducer():
    return te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
        name="argmax",
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max"])
def test_each_reduction_is_numpys_in_its_own_dtype(name, dtype):
    a = np.random.default_rng(1).integers(-100 if dtype[0] != "u" else 0, 100, (3, 6)).astype(dtype)
    A = te.placeholder((3, 6), dtype, name="A")
    k = te.reduce_axis((0, 6), "k")
    B = te.compute((3,), lambda i: getattr(te, name)(A[i, k], axis=k), name="B")
    expected = getattr(np, name)(a, axis=1, **({"dtype": dtype} if name in ("sum", "prod") else {}))
    assert B.dtype == dtype and B.op.reduce_axis == (k,)
    assert evaluate(B, {A: a}) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("sum", "int32", np.sum),
        ("prod", "int32", np.prod),
        ("max", "bool", np.any),
        ("min", "bool", np.all),
    ],
)
def test_sums_and_products_of_bools_count_and_extrema_stay_bool(name, dtype, expected):
    A = te.placeholder((4, 2), "bool", name="A")
    a = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool)
    k = te.reduce_axis((0, 2), "k")
    B = te.compute((4,), lambda i: getattr(te, name)(A[i, k], axis=k))
    assert B.dtype == dtype and (evaluate(B, {A: a}) == expected(a, axis=1)).all()


@pytest.mark.parametrize(("name", "worst"), [("max", -np.inf), ("min", np.inf)])
def test_the_identity_is_right_where_the_data_holds_nothing_else(name, worst):
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis((0, 3), "k")
    B = te.compute((), lambda: getattr(te, name)(A[k], axis=k))
    assert evaluate(B, {A: np.full(3, worst, "float32")}) == worst
    assert np.isnan(evaluate(B, {A: np.array([1, np.nan, 2], "float32")}))


def test_several_axes_in_a_list_or_a_tuple():
    A = te.placeholder((3, 4, 5), name="A")
    a = np.random.default_rng(2).standard_normal((3, 4, 5)).astype("float32")
    for axes in (list, tuple):
        j, k = te.reduce_axis((0, 4), "j"), te.reduce_axis((0, 5), "k")
        B = te.compute((3,), lambda i: te.sum(A[i, j, k], axis=axes([j, k])))
        assert B.op.reduce_axis == (j, k) and evaluate(B, {A: a}) == pytest.approx(a.sum((1, 2)), rel=1e-5)


def test_matmul():
    n, m, depth = te.var("n"), te.var("m"), te.var("depth")
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    a, b = np.ones((2, 3), "float32"), np.arange(12, dtype="float32").reshape(3, 4)
    assert (evaluate(C, {A: a, B: b}, {n: 2, m: 4, depth: 3}) == a @ b).all() and C.op.input_tensors == (A, B)


def test_where_and_init():
    A, S = te.placeholder((3, 6), name="A"), te.placeholder((3,), name="S")
    a, s = np.arange(18, dtype="float32").reshape(3, 6), np.array([100, 200, 300], "float32")
    k = te.reduce_axis((0, 6), "k")
    even = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, where=k % 2 == 0))
    assert (evaluate(even, {A: a}) == a[:, ::2].sum(1)).all()
    started = te.compute((3,), lambda i: te.sum(A[i, k], k, None, S[i]))
    assert (evaluate(started, {A: a, S: s}) == a.sum(1) + s).all() and started.op.input_tensors == (A, S)
    number = te.compute((3,), lambda i: te.max(A[i, k], axis=k, init=8))
    assert (evaluate(number, {A: a}) == [8, 11, 17]).all()


def test_extents_that_depend_on_data_axes():
    A = te.placeholder((4, 4), name="A")
    a = np.arange(16, dtype="float32").reshape(4, 4)

    def lower(i):
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[i, k], axis=k)

    assert (evaluate(te.compute((4,), lower), {A: a}) == np.tril(a).sum(1)).all()


def test_extents_that_are_read_from_a_tensor():
    V, P = te.placeholder((6,), name="V"), te.placeholder((4,), "int32", name="P")
    v, p = np.arange(6, dtype="float32"), np.array([0, 2, 2, 6], "int32")

    def row(i):
        k = te.reduce_axis((P[i], P[i + 1]), "k")
        return te.sum(V[k], axis=k)

    B = te.compute((3,), row)
    assert B.op.input_tensors == (V, P) and (evaluate(B, {V: v, P: p}) == [1, 0, 14]).all()


def test_an_empty_reduction_is_its_identity():
    A = te.placeholder((3, 0), name="A")
    k = te.reduce_axis((0, 0), "k")
    B = te.compute((3,), lambda i: te.prod(A[i, k], axis=k))
    assert (evaluate(B, {A: np.empty((3, 0), "float32")}) == 1).all()


def test_argmax_by_comm_reducer():
    A = te.placeholder((5, 7), name="A")
    a = np.random.default_rng(3).standard_normal((5, 7)).astype("float32")
    k = te.reduce_axis((0, 7), "k")
    index, value = te.compute((5,), lambda i: argmax_reducer()((k, A[i, k]), axis=k), name="top")
    assert (index.dtype, value.dtype, index.op.num_outputs) == ("int32", "float32", 2)
    assert (evaluate(index, {A: a}) == a.argmax(1)).all() and (evaluate(value, {A: a}) == a.max(1)).all()


def test_one_element_of_a_tuple_reduction():
    A = te.placeholder((5, 7), name="A")
    a = np.random.default_rng(4).standard_normal((5, 7)).astype("float32")
    k = te.reduce_axis((0, 7), "k")
    value = te.compute((5,), lambda i: argmax_reducer()((k, A[i, k]), axis=k)[1], name="top")
    assert value.value_index == 1 and (evaluate(value, {A: a}) == a.max(1)).all()


def test_reductions_over_the_same_axes_share_one_loop_nest():
    A = te.placeholder((3, 6), name="A")
    a = np.arange(18, dtype="float32").reshape(3, 6)
    k = te.reduce_axis((0, 6), "k")
    total, least, some = te.compute(
        (3,),
        lambda i: (
            te.sum(A[i, k], axis=k),
            te.min(A[i, k], axis=k, init=4),
            te.sum(A[i, k] * A[i, k], axis=k, where=k < 2),
        ),
    )
    op = total.op
    assert least.op is op and some.op is op and all(isinstance(value, Reduce) for value in op.body)
    assert [value.value_index for value in op.body] == [0, 1, 2] and len({id(v.sources) for v in op.body}) == 1
    assert (evaluate(total, {A: a}) == a.sum(1)).all()
    assert (evaluate(least, {A: a}) == [0, 4, 4]).all()
    assert (evaluate(some, {A: a}) == (a[:, :2] ** 2).sum(1)).all()


def test_a_reducer_of_ones_own():
    A = te.placeholder((3, 6), "int32", name="A")
    a = np.arange(18, dtype="int32").reshape(3, 6)
    k = te.reduce_axis((0, 6), "k")
    bits = te.comm_reducer(lambda x, y: x & y, lambda dtype: te.const(-1, dtype), name="bits")
    assert (evaluate(te.compute((3,), lambda i: bits(A[i, k], axis=k)), {A: a}) == np.bitwise_and.reduce(a, 1)).all()


def test_min_and_max_of_values():
    A = te.placeholder((4,), name="A")
    a = np.array([-3, 1, 5, 9], "float32")
    clipped = te.compute((4,), lambda i: te.min(te.max(A[i], 0.0, -1.0), 6))
    assert (evaluate(clipped, {A: a}) == [0, 1, 5, 6]).all()
    assert (evaluate(te.max(A, 0.0), {A: a}) == np.maximum(a, 0)).all()
    edges = te.compute((3, 3), lambda i, j: te.max(i, j))
    assert (evaluate(edges, {}) == np.maximum.outer(range(3), range(3))).all()
