"""Products of matrices against float64, in every form, by their schedules."""

from __future__ import annotations

import drawn
import ml_dtypes
import numpy
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.checks import BadOperand

UNIT = 2.0**-24


def within_bound(found, a, b, extra=0.0):
    """Whether each element lies within (k + 1) u |a||b| of the product in float64."""
    exact = a.astype("float64") @ b.astype("float64")
    bound = (a.shape[-1] + 1) * UNIT * (abs(a).astype("float64") @ abs(b).astype("float64")) + extra
    return bool((abs(found - exact) <= bound).all())


def normal(shape, seed=0, dtype="float32"):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def stored(matrix, transposed):
    return numpy.ascontiguousarray(numpy.swapaxes(matrix, -1, -2)) if transposed else matrix


def run(inputs, output, arrays, target="llvm"):
    """The output of topi.schedule's kernel, which began as NaN."""
    f = tw.build(topi.schedule(output, target), [*inputs, output], target=target)
    dtype = "float32" if str(output.dtype) == "bfloat16" else str(output.dtype)
    shape = tuple(extent.value for extent in output.shape)
    found = numpy.full(shape, numpy.nan if dtype.startswith("float") else -77, dtype)
    f(*arrays, found)
    return found


def product(m, k, n, transpose_a=False, transpose_b=False, seed=0):
    a, b = normal((m, k), seed), normal((k, n), seed + 1)
    A = te.placeholder((k, m) if transpose_a else (m, k), name="A")
    B = te.placeholder((n, k) if transpose_b else (k, n), name="B")
    C = topi.matmul(A, B, transpose_a, transpose_b)
    return within_bound(run([A, B], C, [stored(a, transpose_a), stored(b, transpose_b)]), a, b)


FORMS = [(False, False), (True, False), (False, True), (True, True)]
SHAPES = [
    (1, 1, 1),
    (5, 1, 3),
    (7, 13, 17),
    (64, 64, 64),
    (1, 100, 67),
    (67, 100, 2),
    (3, 700, 33),
    (20, 600, 45),
    (300, 70, 130),
    (37, 4096, 52),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", drawn.part(SHAPES, 2))
def test_matmul(shape, form):
    assert product(*shape, *form)


def test_sizes_as_they_come():
    for case in range(drawn.count(6, 400)):
        rng = drawn.rng("gemm", case)
        m, k, n = (int(rng.choice([1, 2, 3, 6, 7, 16, 31, 48, 65, 97, 129, 260, 300])) for _ in range(3))
        assert product(m, k, n, bool(rng.integers(2)), bool(rng.integers(2)), case), (m, k, n)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (5, 3, 0), (1, 0, 9), (1, 0, 1)])
def test_nothing_to_add_up(shape):
    m, k, n = shape
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    found = run([A, B], topi.matmul(A, B), [normal((m, k)), normal((k, n))])
    assert found.shape == (m, n) and not found.any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batches", drawn.part([(3, 3), (1, 4), (4, 1), (1, 1)], 2))
def test_batches(batches, form):
    x, y = normal((batches[0], 20, 33)), normal((batches[1], 33, 70), 1)
    X, Y = (
        te.placeholder(stored(value, swap).shape, name=name)
        for value, swap, name in zip((x, y), form, "XY", strict=True)
    )
    Z = topi.batch_matmul(X, Y, transpose_a=form[0], transpose_b=form[1])
    assert within_bound(run([X, Y], Z, [stored(x, form[0]), stored(y, form[1])]), x, y)


def test_a_batch_takes_its_second_operand_transposed_unless_told_otherwise():
    X, Y = te.placeholder((2, 3, 4), name="X"), te.placeholder((2, 5, 4), name="Y")
    assert [extent.value for extent in topi.batch_matmul(X, Y).shape] == [2, 3, 5]


def test_a_matrix_times_its_own_transpose():
    a = normal((70, 40))
    A = te.placeholder(a.shape, name="A")
    assert within_bound(run([A], topi.matmul(A, A, transpose_b=True), [a]), a, a.T)


@pytest.mark.parametrize("rows", [1, 4, 9, 130])
def test_dense_with_its_bias_and_what_follows(rows):
    x, w, b, r = normal((rows, 90)), normal((75, 90), 1), normal((75,), 2), normal((rows, 75), 3)
    X, W, B, R = (te.placeholder(one.shape, name=name) for one, name in zip((x, w, b, r), "XWBR", strict=True))
    Y = topi.nn.dense(X, W, B)
    Z = te.compute(Y.shape, lambda i, j: te.max(Y[i, j], 0.0) + R[i, j], name="Z")
    s = topi.schedule(Z)
    assert all(s[op].attach_type != "root" for op in (Y.op, Y.op.input_tensors[0].op)), "one pass over the result"
    exact = numpy.maximum(x.astype("float64") @ w.T + b, 0) + r
    found = run([X, W, B, R], Z, [x, w, b, r])
    assert (abs(found - exact) <= 93 * UNIT * (abs(x) @ abs(w.T) + abs(b) + abs(r))).all()


@pytest.mark.parametrize("outs", [1, 64, 75, 130])
@pytest.mark.parametrize("rows", [1, 20])
def test_weights_packed_beforehand(rows, outs):
    x, w, b = normal((rows, 50)), normal((outs, 50), 1), normal((outs,), 2)
    packed = topi.nn.prepack_dense(w)
    W = te.placeholder(w.shape, name="W")
    assert numpy.array_equal(run([W], topi.nn.prepack_dense(W), [w]), packed)
    X, P, B = (
        te.placeholder(x.shape, name="X"),
        te.placeholder(packed.shape, name="P"),
        te.placeholder(b.shape, name="B"),
    )
    found = run([X, P, B], topi.nn.packed_dense(X, P, outs, B), [x, packed, b])
    assert within_bound(found - b, x, w.T, 4 * UNIT * (abs(x) @ abs(w.T) + abs(b)).max())


@pytest.mark.parametrize(
    ("dtype", "out", "unit"),
    drawn.part(
        [
            ("float64", None, 2.0**-53),
            ("float16", "float32", UNIT),
            ("bfloat16", "float32", UNIT),
            ("int8", "int32", 0.0),
            ("int32", None, 0.0),
        ],
        3,
    ),
)
@pytest.mark.parametrize("form", FORMS[::3])
def test_types(dtype, out, unit, form):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else numpy.dtype(dtype)
    rng = numpy.random.default_rng(1)
    a, b = (rng.integers(-100, 100, shape).astype(kind) for shape in ((35, 50), (50, 41)))
    A, B = (
        te.placeholder(stored(one, swap).shape, dtype, name=name)
        for one, swap, name in zip((a, b), form, "AB", strict=True)
    )
    found = run([A, B], topi.matmul(A, B, *form, out_dtype=out), [stored(a, form[0]), stored(b, form[1])])
    a, b = a.astype("float64"), b.astype("float64")
    assert (abs(found - a @ b) <= 51 * unit * (abs(a) @ abs(b))).all()


def test_what_operands_are_made_of_is_computed_as_they_are_packed():
    x, w = normal((40, 30)), normal((3, 33, 2), 1).astype("float16")
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(w.shape, "float16", name="W")
    padded = te.compute((40, 33), lambda i, k: te.if_then_else(k < 30, X[i, k], 0.5), name="padded")
    weights = te.compute((33, 6), lambda k, j: W[j // 2, k, j % 2].astype("float32") * 2.0, name="weights")
    Y = topi.matmul(padded, weights)
    s = topi.schedule(Y)
    assert s[weights].attach_type == "inlined" or s[weights].attach_type == "inline"
    a = numpy.concatenate([x, numpy.full((40, 3), 0.5, "float32")], axis=1)
    b = 2 * w.astype("float32").transpose(1, 0, 2).reshape(33, 6)
    assert within_bound(run([X, W], Y, [x, w]), a, b)


@pytest.mark.parametrize("unknown", drawn.part(["m", "n", "k", "mn", "mnk"], 3))
@pytest.mark.parametrize("form", FORMS[::3])
def test_sizes_that_the_call_decides(unknown, form):
    sizes = {"m": 70, "n": 90, "k": 33}
    m, n, k = (te.var(name) if name in unknown else sizes[name] for name in "mnk")
    A, B = (
        te.placeholder((k, m) if form[0] else (m, k), name="A"),
        te.placeholder((n, k) if form[1] else (k, n), name="B"),
    )
    bias = te.placeholder((n,), name="bias")
    C = topi.matmul(A, B, *form)
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias[j], name="D")
    f = tw.build(topi.schedule(D), [A, B, bias, D])
    for given in ((70, 90, 33), (1, 1, 1), (6, 64, 5), (131, 200, 40), (0, 3, 4), (3, 4, 0)):
        rows, columns, depth = (one if name in unknown else sizes[name] for one, name in zip(given, "mnk", strict=True))
        a, b, c = normal((rows, depth)), normal((depth, columns), 1), normal((columns,), 2)
        found = numpy.full((rows, columns), numpy.nan, "float32")
        f(stored(a, form[0]), stored(b, form[1]), c, found)
        assert within_bound(found - c, a, b, 8 * UNIT * (1 + abs(c).max(initial=0)) * (1 + depth)), given


def test_one_row_of_any_length():
    n, k = te.var("n"), te.var("k")
    A, B = te.placeholder((1, k), name="A"), te.placeholder((k, n), name="B")
    C = topi.matmul(A, B)
    f = tw.build(topi.schedule(C), [A, B, C])
    for columns, depth in ((1, 1), (100, 9), (513, 64), (3, 0)):
        a, b, c = normal((1, depth)), normal((depth, columns), 1), numpy.full((1, columns), numpy.nan, "float32")
        f(a, b, c)
        assert within_bound(c, a, b)


def test_schedules_replay():
    A, B = te.placeholder((100, 300), name="A"), te.placeholder((300, 200), name="B")
    C = topi.matmul(A, B)
    s = topi.schedule(C)
    again = te.Schedule.replay(s.records, C)
    assert str(tw.lower(again, [A, B, C])) == str(tw.lower(s, [A, B, C]))


A, B3 = te.placeholder((4, 5), name="A"), te.placeholder((2, 4, 5), name="B3")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: topi.matmul(A, A), "cannot multiply A: float32.4, 5. by A"),
        (lambda: topi.matmul(A, B3), "2 dimensions are asked for, and there are 2 and 3"),
        (lambda: topi.matmul(A, 3), "takes tensors"),
        (
            lambda: topi.matmul(A, te.placeholder((te.var("p"), 3), name="P")),
            "the sum would run over 5 elements of A and p of P",
        ),
        (lambda: topi.batch_matmul(B3, te.placeholder((3, 4, 5), name="C3")), "the batches 2 and 3 differ"),
        (
            lambda: topi.nn.dense(A, A, te.placeholder((5,), name="b")),
            "the sum would run over 4 elements of dense and 5 of b",
        ),
        (lambda: topi.nn.dense(A, A, A), "a bias has one dimension"),
        (lambda: topi.nn.packed_dense(A, A, 4), "three dimensions"),
        (lambda: topi.nn.packed_dense(A, te.placeholder((1, 5, 16), name="P"), 17), "finds no 17 features"),
        (lambda: topi.nn.prepack_dense(B3), "takes a matrix"),
    ],
)
def test_refusals(declare, message):
    with pytest.raises(BadOperand, match=message):
        declare()


def test_products_that_do_not_say_so():
    """The rule knows them by what they compute: here with two batch axes, one of which an operand lacks."""
    a, b = normal((2, 3, 70, 40)), normal((3, 90, 40), 1)
    A, B = te.placeholder(a.shape, name="A"), te.placeholder(b.shape, name="B")
    k = te.reduce_axis((0, 40), name="k")
    C = te.compute((2, 3, 70, 90), lambda p, q, i, j: te.sum(A[p, q, i, k] * B[q, j, k], axis=k), name="C")
    s = topi.schedule(C)
    assert any(record.primitive == "transform_layout" for record in s.records), "B is packed"
    assert within_bound(run([A, B], C, [a, b]), a, numpy.swapaxes(b, -1, -2))


@pytest.mark.parametrize(
    "body",
    [
        lambda A, B, i, j, k: A[i, k] * B[k, j] * 2.0,
        lambda A, B, i, j, k: A[i, k] + B[k, j],
        lambda A, B, i, j, k: A[i, k] * B[(k + j) % 40, j],
        lambda A, B, i, j, k: A[i, k] * A[k, j],
    ],
    ids=["scaled", "sums", "skewed", "squared"],
)
def test_what_calls_itself_a_product_and_is_none(body):
    a, b = normal((40, 40)), normal((40, 40), 1)
    A, B = te.placeholder(a.shape, name="A"), te.placeholder(b.shape, name="B")
    k = te.reduce_axis((0, 40), name="k")
    C = te.compute((40, 40), lambda i, j: te.sum(body(A, B, i, j, k), axis=k), name="C", tag="matmul")
    inputs = [one for one in (A, B) if one in C.op.input_tensors]
    plain = tw.build(te.create_schedule(C), [*inputs, C])
    wanted = numpy.empty((40, 40), "float32")
    arrays = [a, b][: len(inputs)]
    plain(*arrays, wanted)
    assert numpy.allclose(run(inputs, C, arrays), wanted, atol=1e-4)
