"""numpy's functions of elements in te programs give what numpy gives of the values; names that there are not are told."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.ufuncs import UFUNCS

_NUMBERS = np.array([0.25, 0.5, -0.75, 0.125, 0.0, 1.0, -0.5], "float32")
_OTHERS = np.array([0.5, 0.5, 0.25, -2.0, 3.0, 1.0, 0.5], "float32")
_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert", "bitwise_count")


@pytest.mark.parametrize("name", sorted({*UFUNCS} - {"divmod"}))
def test_a_ufunc_of_elements_and_of_whole_tensors_is_numpys(name: str) -> None:
    ufunc = getattr(np, name)
    values = [_NUMBERS, _OTHERS][: ufunc.nin]
    if name == "arccosh":
        values = [_NUMBERS + 2]
    if name in _INTEGERS:
        values = [np.arange(1, 8, dtype="int32"), np.array([3, 1, 4, 1, 5, 2, 6], "int32")][: ufunc.nin]
    if name == "power":
        values[0] = np.abs(values[0])
    with np.errstate(all="ignore"):
        expected = ufunc(*values)
    tensors = [te.placeholder((7,), value.dtype.name, name=f"x{at}") for at, value in enumerate(values)]
    by_element = te.compute((7,), lambda i: ufunc(*(tensor[i] for tensor in tensors)), name="by_element")
    whole = ufunc(*tensors)
    got = [np.zeros(7, tensor.dtype) for tensor in (by_element, whole)]
    tw.build(te.create_schedule([by_element, whole]), [*tensors, by_element, whole], target="interpret")(*values, *got)
    for result in got:
        np.testing.assert_allclose(result.astype(expected.dtype), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("both", [divmod, np.divmod])
def test_divmod_gives_quotient_and_remainder(both: Callable[..., Any]) -> None:
    values = np.array([-9, -4, -1, 0, 5, 8], "int32")
    A = te.placeholder((6,), "int32", name="A")
    quotient, rest = both(A, 4)
    of_element, by_element = te.compute((6,), lambda i: both(4, A[i]), name="by_element")
    got = [np.zeros(6, "int32") for _ in range(4)]
    outputs = [quotient, rest, of_element, by_element]
    tw.build(te.create_schedule(outputs), [A, *outputs], target="interpret")(values, *got)
    with np.errstate(all="ignore"):
        expected = [*np.divmod(values, 4), *np.divmod(4, values)]
    np.testing.assert_array_equal(got, expected)
    assert [str(part) for part in both(np.int32(9), te.var("n"))] == ["9 // n", "9 % n"]


def test_a_numpy_scalar_on_the_left_keeps_to_our_types() -> None:
    A = te.placeholder((4,), name="A")
    i = te.var("i")
    assert str(np.float64(2) * A[i]) == str(2.0 * A[i])
    assert (np.float32(2) * i).dtype == "float32" and (np.int64(3) + i).dtype == "int64"
    assert str(np.float32(2) < A[i]) == str(A[i] > np.float32(2)) or "<" in str(np.float32(2) < A[i])


@pytest.mark.parametrize(
    "program, fix",
    [
        (lambda A: np.sum(A[0]), r"write te\.sum\(x, axis=k\)"),
        (lambda A: np.max(A), r"write topi\.max"),
        (lambda A: np.matmul(A, A), r"topi\.matmul"),
        (lambda A: np.add(A, 1, out=np.zeros(4)), r"np\.add with out="),
        (lambda A: np.cbrt(A[0]), r"te\.power"),
        (lambda A: np.add.outer(A, A), r"np\.add\.outer"),
        (lambda A: np.where(A[0] > 0, A[0], 0), r"te\.if_then_else"),
        (lambda A: np.clip(A[0], 0, 1), r"te\.min\(te\.max"),
        (lambda A: np.round(A[0]), r"te\.nearbyint"),
        (lambda A: np.isclose(A, A), r"te\.abs\(a - b\)"),
    ],
    ids=["sum", "max", "matmul", "out", "cbrt", "outer", "where", "clip", "round", "isclose"],
)
def test_what_numpy_cannot_do_with_symbols_says_what_to_write(program: object, fix: str) -> None:
    assert callable(program)
    with pytest.raises(TypeError, match=fix) as raised:
        program(te.placeholder((4,), name="A"))
    error = raised.value
    assert isinstance(error, tw.TensorExpressionError) and error.code == "TW0128"
    assert error.called is not None and error.called.file == __file__, "numpy's own lines are not the user's"


def test_numpy_tells_the_shape_of_what_is_symbolic() -> None:
    A = te.placeholder((4, 5), name="A")
    assert np.shape(A) is A.shape and np.ndim(A) == 2 and np.shape(A[0, 0]) == () and np.ndim(A[0, 0]) == 0


@pytest.mark.parametrize(
    "convert",
    [
        float,
        int,
        round,
        complex,
        math.floor,
        math.ceil,
        math.trunc,
        lambda x: f"{x:.2f}",
    ],
    ids=["float", "int", "round", "complex", "floor", "ceil", "trunc", "format"],
)
def test_no_number_of_python_is_made_of_what_is_symbolic(convert: Callable[[Any], object]) -> None:
    A = te.placeholder((4,), name="A")
    for symbolic in (A, A[0], te.var("n")):
        with pytest.raises(tw.TensorExpressionError, match="TW0107"):
            convert(symbolic)
    assert f"{te.const(3)} {A[0]} {A}" == "3 A[0] Tensor(A: float32[4], placeholder)"


def test_a_tensor_is_not_searched() -> None:
    with pytest.raises(tw.TensorExpressionError, match=r"TW0125[\s\S]*topi\.any"):
        _ = 1 in te.placeholder((4,), name="A")


def test_elements_have_no_matrix_product() -> None:
    A = te.placeholder((4,), name="A")
    for product in (lambda: A[0] @ A[1], lambda: 2 @ A[1], lambda: A[0] @ A):
        with pytest.raises(tw.TensorExpressionError, match=r"TW0104[\s\S]*te\.sum"):
            product()


def test_the_operator_at_names_the_operator_that_does_it() -> None:
    A, B = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    for product in (lambda: A @ B, lambda: A @ np.zeros((5, 6))):
        with pytest.raises(tw.TensorExpressionError, match=r"TW0129[\s\S]*topi\.matmul\(A, "):
            product()


@pytest.mark.parametrize(
    "ask, meant",
    [
        (lambda: te.reduceaxis, "te.reduce_axis"),
        (lambda: tw.biuld, "tw.build"),
        (lambda: tw.topi.softmax, "topi.nn.softmax"),
        (lambda: tw.topi.nn.relux, "topi.nn.relu"),
        (lambda: tw.autotune.tuner_, "autotune.tune"),
        (lambda: te.maximum, r"te.max(a, b)"),
        (lambda: te.vectorise, "s[T].vectorize(axis)"),
        (lambda: te.placeholder((3,)).as_type, "Tensor.astype"),
        (lambda: te.create_schedule(te.compute((3,), lambda i: i)).cacheread, "Schedule.cache_read"),
        (lambda: te.create_schedule(te.compute((3,), lambda i: i)).vectorize, "s[T].vectorize"),
    ],
    ids=["te", "tw", "topi", "topi.nn", "autotune", "elsewhere", "primitive", "tensor", "schedule", "of a stage"],
)
def test_a_name_that_there_is_not_says_which_was_meant(ask: object, meant: str) -> None:
    """TW0136, and TW0227 of schedules."""
    assert callable(ask)
    with pytest.raises(AttributeError, match=re.escape(meant)) as raised:
        ask()
    assert isinstance(raised.value, tw.TilewrightError)


def test_asking_whether_there_is_a_name_goes_on_working() -> None:
    assert not hasattr(te, "nothing_of_the_kind") and getattr(tw, "nothing_of_the_kind", 3) == 3
    assert not hasattr(te.placeholder((3,)), "__array_interface__")


def test_the_faces_list_what_users_may_use_and_nothing_else() -> None:
    for face in (tw, te):
        listed = {name for name in dir(face) if not name.startswith("_")}
        assert listed == set(face.__all__)
