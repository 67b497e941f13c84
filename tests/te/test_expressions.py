"""What the contract says of expressions, as a user of numpy or TVM would try it: every program runs on the machine and
in the interpreter, and numpy is the judge."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"]


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def agrees(s: Any, args: Sequence[Any], inputs: Sequence[Any], *expected: Any, tolerance: float = 0.0) -> None:
    """Both targets write `expected` into the last arguments."""
    for target in ("llvm", "interpret"):
        found = [np.full(np.shape(e), 77).astype(np.asarray(e).dtype) for e in expected]
        tw.build(s, list(args), target=target)(*inputs, *found)
        for got, wanted in zip(found, map(np.asarray, expected), strict=True):
            assert got.dtype == wanted.dtype
            if tolerance:
                np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
            else:
                wide = [x.astype("float64") if x.dtype.kind not in "iub" else x for x in (got, wanted)]
                np.testing.assert_array_equal(*wide)


def schedule(*tensors: Any) -> Any:
    return te.create_schedule([tensor.op for tensor in tensors])


def values(dtype: str, count: int, seed: int) -> np.ndarray:
    """The ends of the range, what is special, and drawn numbers."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.max, 0, 1], dtype)
        return np.concatenate([ends, rng.integers(info.min, info.max, count - 4, dtype=dtype, endpoint=True)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    return np.concatenate([special, rng.standard_normal(count - 6) * 10]).astype(numpy_dtype(dtype))


# te.compute


def test_the_lambda_takes_variable_indices() -> None:
    A = te.placeholder((3, 1, 5), name="A")
    B = te.compute(A.shape, lambda i, *rest: A[(i, *rest)] + 1, name="B")
    a = np.arange(15, dtype="float32").reshape(3, 1, 5)
    agrees(schedule(B), [A, B], [a], a + 1)


def test_a_scalar_tensor_of_any_extent() -> None:
    for n in (0, 1, 7, 65):
        A, k = te.placeholder((n,), "int32", name="A"), te.reduce_axis((0, n), "k")
        S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
        B = te.compute((n,), lambda i: A[i] - S(), name="B")
        a = np.arange(n, dtype="int32")
        agrees(schedule(S, B), [A, S, B], [a], np.int32(a.sum()), a - np.int32(a.sum()))


def test_several_outputs_of_one_shape_and_one_consumer_inlined() -> None:
    A = te.placeholder((9, 7), "int32", name="A")
    X, Y = te.compute((9, 7), lambda i, j: (A[i, j] + 1, A[i, j] * 2), name="XY")
    Z = te.compute((9, 7), lambda i, j: X[i, j] * Y[i, j], name="Z")
    W = te.compute((9, 7), lambda i, j: Z[i, j] - Y[i, j], name="W")
    a = np.arange(63, dtype="int32").reshape(9, 7) - 30
    s = schedule(W)
    s[Z].compute_inline()
    s[X].compute_at(s[W], W.op.axis[0])
    agrees(s, [A, W], [a], (a + 1) * a * 2 - a * 2)


# Reductions


@pytest.mark.parametrize("n", [0, 1, 5, 17])
def test_extents_may_depend_on_data_axes(n: int) -> None:
    A = te.placeholder((n, n), "int64", name="A")

    def upper(i: Any) -> Any:
        k = te.reduce_axis((i, n), "k")
        return te.sum(A[i, k], axis=k)

    B = te.compute((n,), upper, name="B")
    a = np.arange(n * n).reshape(n, n)
    s = schedule(B)
    s[B].parallel(B.op.axis[0])
    agrees(s, [A, B], [a], np.triu(a).sum(1))


def test_extents_read_from_a_tensor() -> None:
    starts, columns = te.placeholder((8,), "int32", name="starts"), te.placeholder((20,), "int32", name="columns")
    X = te.placeholder((9,), "int32", name="X")

    def row(i: Any) -> Any:
        k = te.reduce_axis((starts[i], starts[i + 1]), "k")
        return te.sum(X[columns[k]], axis=k)

    Y = te.compute((7,), row, name="Y")
    p = np.array([0, 0, 3, 4, 10, 10, 15, 20], "int32")
    c, x = np.arange(20, dtype="int32") * 7 % 9, np.arange(9, dtype="int32") ** 2
    expected = np.array([x[c[p[i] : p[i + 1]]].sum() for i in range(7)], "int32")
    agrees(schedule(Y), [starts, columns, X, Y], [p, c, x], expected)


def test_where_and_init() -> None:
    A, k = te.placeholder((7, 9), "int32", name="A"), te.reduce_axis((2, 9), "k")
    a = np.arange(63, dtype="int32").reshape(7, 9) % 11 - 5
    B = te.compute((7,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > 0, init=5), name="B")
    agrees(schedule(B), [A, B], [a], (np.where(a > 0, a, 0)[:, 2:].sum(1) + 5).astype("int32"))


def test_a_sum_of_bools_counts() -> None:
    A, k = te.placeholder((5, 33), name="A"), te.reduce_axis((0, 33), "k")
    B = te.compute((5,), lambda i: te.sum(A[i, k] > 0, axis=k), name="B")
    a = np.random.default_rng(0).standard_normal((5, 33)).astype("float32")
    agrees(schedule(B), [A, B], [a], (a > 0).sum(1).astype("int32"))


@pytest.mark.parametrize("pick", ["argmax", "argmin"])
def test_comm_reducer_over_tuples_with_nans(pick: str) -> None:
    """As numpy: the first NaN wins, of equals the first."""

    def better(a: Any, b: Any) -> Any:
        return a > b if pick == "argmax" else a < b

    def combine(x: Any, y: Any) -> Any:
        ahead = te.any(
            better(x[1], y[1]),
            te.all(x[1].equal(y[1]), x[0] < y[0]),
            te.all(te.isnan(x[1]), te.any(~te.isnan(y[1]), x[0] < y[0])),
        )
        ahead = te.all(ahead, te.any(te.isnan(x[1]), ~te.isnan(y[1])))
        return te.select(ahead, x[0], y[0]), te.select(ahead, x[1], y[1])

    worst = -math.inf if pick == "argmax" else math.inf
    reducer = te.comm_reducer(combine, lambda t, u: (te.max_value(t), te.const(worst, u)), pick)
    A, k = te.placeholder((4, 65), name="A"), te.reduce_axis((0, 65), "k")
    index, value = te.compute((4,), lambda i: reducer((k, A[i, k]), axis=k), name=pick)
    a = np.random.default_rng(1).integers(-5, 5, (4, 65)).astype("float32")
    a[1, 7] = a[1, 50] = np.nan
    a[2] = worst
    s = schedule(index)
    assert s[index] is s[value]
    best = getattr(a, pick)(1)
    agrees(s, [A, index, value], [a], best.astype("int32"), a[np.arange(4), best])


# Functions and types


@pytest.mark.parametrize("a", drawn.part(INTEGERS + FLOATS, 4))
def test_mixing_types_computes_in_the_type_that_the_contract_names(a: str) -> None:
    n = 19
    A, x = te.placeholder((n,), a, name="A"), values(a, n, 0)
    others = [te.placeholder((n,), b, name=b) for b in INTEGERS + FLOATS]
    ys = [np.random.default_rng(2).permutation(values(b, n, 1)) for b in INTEGERS + FLOATS]
    outputs, expected = [], []
    with np.errstate(all="ignore"):
        for B, y in zip(others, ys, strict=True):
            for function, reference in ((operator.mul, np.multiply), (te.max, np.maximum)):
                outputs.append(te.compute((n,), lambda i, f=function, B=B: f(A[i], B[i]), name="C"))
                dtype = numpy_dtype(outputs[-1].dtype)
                wide = np.dtype("float32") if hasattr(ml_dtypes, dtype.name) else dtype
                expected.append(reference(*(v.astype(dtype).astype(wide) for v in (x, y))).astype(dtype))
    s = schedule(*outputs)
    for output in outputs[::2]:
        s[output].vectorize(output.op.axis[0])
    with np.errstate(all="ignore"):
        agrees(s, [A, *others, *outputs], [x, *ys], *expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_division_and_tanh_keep_signed_zeros(dtype: str) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2.5, -0.25])
    x, y = (grid.ravel().astype(numpy_dtype(dtype)) for grid in np.meshgrid(special, special))
    A, B = te.placeholder(x.shape, dtype, name="A"), te.placeholder(x.shape, dtype, name="B")
    outputs = [
        te.compute(x.shape, lambda i, f=f: f(A[i], B[i]), name="C")
        for f in (operator.floordiv, operator.mod, lambda a, b: te.tanh(a))
    ]
    s = schedule(*outputs)
    wide = "float64" if dtype == "float64" else "float32"
    with np.errstate(all="ignore"):
        functions = np.floor_divide, np.remainder, lambda a, b: np.tanh(a)
        expected = [f(x.astype(wide), y.astype(wide)).astype(x.dtype).astype(wide) for f in functions]
    for target in ("llvm", "interpret"):
        found = [np.empty_like(x) for _ in outputs]
        tw.build(s, [A, B, *outputs], target=target)(x, y, *found)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got.astype(wide), wanted, rtol=1e-2)
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(
                np.signbit(got.astype(wide))[known], np.signbit(wanted)[known], err_msg=target
            )


def test_float64_becomes_bfloat16_in_one_rounding() -> None:
    """By way of float32 the first would be a tie, rounded down to 1."""
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, 1 + 3 * 2**-8 - 2**-40, 3.39e38, 3.4e38, 2.0**-133, np.nan])
    A = te.placeholder(x.shape, "float64", name="A")
    B = te.compute(x.shape, lambda i: A[i].astype("bfloat16"), name="B")
    expected = np.array([1 + 2**-7, 1, 1 + 2**-7, 3.3895e38, np.inf, 2.0**-133, np.nan], ml_dtypes.bfloat16)
    agrees(schedule(B), [A, B], [x], expected)
    assert [te.const(float(v), "bfloat16").value for v in x[:4]] == expected[:4].astype("float64").tolist()


# Integers wrap


def wrapped(function: Callable[[Any], Any]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return function(np.arange(77, dtype="int32"))


HASHES: dict[str, Callable[[Any], Any]] = {
    "remainder": lambda i: (i * np.int32(1103515245) + np.int32(12345)) % np.int32(97),
    "quotient": lambda i: (i * np.int32(1103515245)) // np.int32(1103515245),
    "shift": lambda i: (i * np.int32(1103515245)) >> np.int32(3),
}


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_hash_of_the_index_wraps(name: str, symbolic: bool) -> None:
    """Index arithmetic does not overflow; a value does, and wraps as numpy's."""
    n = te.size_var("n") if symbolic else 77
    B = te.compute((n,), lambda i: HASHES[name](i), name="B")
    s = schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 16)
    s[B].vectorize(inner)
    agrees(s, [B], [], wrapped(HASHES[name]))


def test_a_clamped_hash_of_the_index_wraps_in_every_lane() -> None:
    B = te.compute((77,), lambda i: te.max(i * 1103515245, 5), name="B")
    s = schedule(B)
    s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])
    agrees(s, [B], [], wrapped(lambda i: np.maximum(i * np.int32(1103515245), np.int32(5))))


@pytest.mark.parametrize("seed", [2**31 - 5, -(2**31), 7, -3])
def test_arithmetic_on_a_scalar_argument_wraps(seed: int) -> None:
    v = te.var("seed")
    with np.errstate(over="ignore"):
        x = np.int32(seed) + np.arange(9, dtype="int32")
        cases = [
            (
                lambda i: ((v + i) * 1103515245 + 12345) % 1000,
                (x * np.int32(1103515245) + np.int32(12345)) % np.int32(1000),
            ),
            (lambda i: te.if_then_else((v + i) * 2 < v, 1, 0), (x * np.int32(2) < np.int32(seed)).astype("int32")),
            (lambda i: (v * 3) // 3 + i, np.int32(seed) * np.int32(3) // np.int32(3) + np.arange(9, dtype="int32")),
        ]
    for function, expected in cases:
        B = te.compute((9,), function, name="B")
        agrees(schedule(B), [v, B], [seed], expected)


def test_indices_stay_index_arithmetic() -> None:
    """What reads memory is not made to wrap: its reach must be known."""
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n * m,), lambda i: te.if_then_else(i * 3 + 1 < n * m, A[(i * 3 + 1) // m, (i * 3 + 1) % m], 0.0))
    assert "uint32" not in str(tw.lower(schedule(B), [A, B]))


# Mistakes


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda A, i: math.exp(A[i]), r"TW0107[\s\S]*the value of `A\[i\]` is not known[\s\S]*te\.exp"),
        (lambda A, i: sum(A[j] for j in range(i)), r"TW0107[\s\S]*te\.reduce_axis"),
        (lambda A, i: [1, 2, 3][i], r"TW0107[\s\S]*te\.placeholder"),
        (lambda A, i: A[i] + np.arange(4), r"TW0106[\s\S]*ndarray is not an expression[\s\S]*te\.placeholder"),
        (lambda A, i: te.select(i > 2, "a", "b"), r"TW0106[\s\S]*str is not an expression"),
        (lambda A, i: te.exp("x"), r"TW0106[\s\S]*str is not an expression"),
        (lambda A, i: min(A[i], 0.0), r"TW0102[\s\S]*te\.min\(a, b\) in place of min"),
        (lambda A, i: A[i] << 1, r"TW0104[\s\S]*shift_left takes integers[\s\S]*te\.reinterpret"),
        (lambda A, i: te.sum(A[i]), r"TW0118[\s\S]*sum has no axis"),
        (
            lambda A, i: te.comm_reducer(lambda x, y: x + y, 0)(A[i], axis=te.reduce_axis((0, 2))),
            r"TW0122[\s\S]*fidentity=",
        ),
    ],
)
def test_a_mistake_in_a_body_is_explained(mistake: Callable[[Any, Any], Any], words: str) -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(tw.TensorExpressionError, match=words) as error:
        te.compute((4,), lambda i: mistake(A, i))
    assert "called at test_expressions.py" in str(error.value)


def test_mistakes_outside_a_body() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0111[\s\S]*its function before its shape"):
        te.compute(lambda i: A[i], (4,))
    with pytest.raises(tw.TensorExpressionError, match=r'TW0101[\s\S]*did you mean "float32"'):
        te.placeholder((4,), "flaot32")
    with pytest.raises(AttributeError, match=r"te has no where[\s\S]*write te\.if_then_else"):
        _ = te.where  # pyright: ignore[reportAttributeAccessIssue]
