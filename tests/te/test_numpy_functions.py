"""numpy's functions of elements in te programs give what numpy gives of the values; names that there are not are told."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.ufuncs import UFUNCS

_NUMBERS = np.array([0.25, 0.5, -0.75, 0.125, 0.0, 1.0, -0.5], "float32")
_OTHERS = np.array([0.5, 0.5, 0.25, -2.0, 3.0, 1.0, 0.5], "float32")
_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert", "bitwise_count")


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_a_ufunc_of_elements_and_of_whole_tensors_is_numpys(name: str) -> None:
    ufunc = getattr(np, name)
    values = [_NUMBERS, _OTHERS][:ufunc.nin]
    if name == "arccosh":
        values = [_NUMBERS + 2]
    if name in _INTEGERS:
        values = [np.arange(1, 8, dtype="int32"), np.array([3, 1, 4, 1, 5, 2, 6], "int32")][:ufunc.nin]
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


def test_a_numpy_scalar_on_the_left_keeps_to_our_types() -> None:
    A = te.placeholder((4,), name="A")
    i = te.var("i")
    assert str(np.float64(2) * A[i]) == str(2.0 * A[i])
    assert (np.float32(2) * i).dtype == "float32" and (np.int64(3) + i).dtype == "int64"
    assert str(np.float32(2) < A[i]) == str(A[i] > np.float32(2)) or "<" in str(np.float32(2) < A[i])


@pytest.mark.parametrize("program, fix", [
    (lambda A: np.sum(A[0]), r"write te\.sum\(x, axis=k\)"), (lambda A: np.max(A), r"write topi\.max"),
    (lambda A: np.matmul(A, A), r"topi\.matmul"), (lambda A: np.add(A, 1, out=np.zeros(4)), r"np\.add with out="),
    (lambda A: np.cbrt(A[0]), r"te\.power"), (lambda A: np.add.outer(A, A), r"np\.add\.outer"),
], ids=["sum", "max", "matmul", "out", "cbrt", "outer"])
def test_what_numpy_cannot_do_with_symbols_says_what_to_write(program: object, fix: str) -> None:
    assert callable(program)
    with pytest.raises(TypeError, match=fix) as raised:
        program(te.placeholder((4,), name="A"))
    error = raised.value
    assert isinstance(error, tw.TensorExpressionError) and error.code == "TW0128"
    assert error.called is not None and error.called.file == __file__, "numpy's own lines are not the user's"


def test_the_operator_at_names_the_operator_that_does_it() -> None:
    A, B = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    for product in (lambda: A @ B, lambda: A @ np.zeros((5, 6))):
        with pytest.raises(tw.TensorExpressionError, match=r"TW0129[\s\S]*topi\.matmul\(A, "):
            product()


@pytest.mark.parametrize("ask, meant", [
    (lambda: te.reduceaxis, "te.reduce_axis"), (lambda: tw.biuld, "tw.build"), (lambda: tw.topi.softmax, "topi.nn.softmax"),
    (lambda: tw.topi.nn.relux, "topi.nn.relu"), (lambda: tw.autotune.tuner_, "autotune.tune"),
    (lambda: te.maximum, r"te.max(a, b)"),
    (lambda: te.placeholder((3,)).as_type, "Tensor.astype"),
    (lambda: te.create_schedule(te.compute((3,), lambda i: i)).cacheread, "Schedule.cache_read"),
    (lambda: te.create_schedule(te.compute((3,), lambda i: i)).vectorize, "s[T].vectorize"),
], ids=["te", "tw", "topi", "topi.nn", "autotune", "elsewhere", "tensor", "schedule", "of a stage"])
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
