"""Orders of rows and writes to places, against numpy: every dtype, short rows and long ones, on every target, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import find_reference, load_rows
from topi_run import run

DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "int64", "uint32", "bool")


def random_rows(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Values with ties; floats with NaNs and zeros of both signs."""
    values = (np.random.default_rng(seed).standard_normal(shape) * 50).round().astype(dtype)
    if dtype.startswith("float") and values.size > 2:
        values.flat[::5], values.flat[1::7], values.flat[2::9] = np.nan, -0.0, 0.0
    return values


def ordered(x: np.ndarray[Any, Any], ascending: bool) -> np.ndarray[Any, Any]:
    """The places of rows in order: stable, NaNs the greatest."""
    return load_rows()["topk"].reference(x, k=-1, axis=1, largest=not ascending)[1]


def on(target: str, operator: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What the operator gives, under the schedule that is chosen for the target."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"a{at}") for at, a in enumerate(arrays)]
    made = operator(*tensors)
    outputs = made if isinstance(made, list) else [made]
    results = [np.zeros([int(extent) for extent in each.shape], str(each.dtype)) for each in outputs]
    tw.build([*tensors, *outputs], target=target)(*arrays, *results)
    return results


@pytest.mark.parametrize("dtype", drawn.part(DTYPES, 3))
def test_rows_of_any_dtype_are_sorted_stably(dtype: str) -> None:
    for at, n in enumerate((2, 63, 64, 65, 300)):
        x = random_rows((3, n), dtype, seed=n)
        want = ordered(x, at % 2 == 0)
        (got,) = on("llvm", lambda a, up=at % 2 == 0: topi.argsort(a, is_ascend=up, dtype="int32"), x)
        np.testing.assert_array_equal(got, want, err_msg=f"{dtype} {n}")


@pytest.mark.parametrize("k", drawn.part([1, 2, 32, 33, 100], 2))
def test_the_first_of_a_row_are_those_of_its_order(k: int) -> None:
    """Up to 32 are held in order while the row is walked over; more are taken from the sorted row."""
    for n in (k, k + 1, 131):
        x = random_rows((2, n), "float32", seed=n)
        want = ordered(x, False)[:, :k]
        values, places = on("llvm", lambda a: topi.topk(a, k, dtype="int32"), x)
        np.testing.assert_array_equal(places, want)
        np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


@pytest.mark.parametrize("target", ["interpret", "c", "cuda -emulate"])
def test_other_targets_give_the_same_order(target: str) -> None:
    x = random_rows((3, 70), "float32")
    want = ordered(x, True)
    (got,) = on(target, lambda a: topi.argsort(a, dtype="int32"), x)
    np.testing.assert_array_equal(got, want)
    (got,) = on(target, lambda a: topi.topk(a, 3, is_ascend=True, ret_type="indices"), x)
    np.testing.assert_array_equal(got, want[:, :3])
    (got,) = on(target, lambda a: topi.sort(a, axis=0), np.ascontiguousarray(x[:, :5]))
    np.testing.assert_array_equal(got, np.take_along_axis(x[:, :5], ordered(x[:, :5].T, True).T, 0))


def test_an_axis_in_the_middle_and_rows_of_any_length() -> None:
    x = random_rows((2, 70, 3), "int32")
    np.testing.assert_array_equal(run(lambda a: topi.sort(a, axis=1), x), np.sort(x, axis=1))
    n = te.var("n")
    data = te.placeholder((2, n), "float32", name="data")
    kernel = tw.build([data, topi.sort(data)])
    for length in (0, 1, 77):
        rows, got = random_rows((2, length), "float32", seed=length), np.empty((2, length), "float32")
        kernel(rows, got)
        np.testing.assert_array_equal(got, np.take_along_axis(rows, ordered(rows, True), 1))


def test_a_million_elements_take_a_few_walks_over_them() -> None:
    """Comparing each with each would take an hour."""
    x = np.random.default_rng(1).standard_normal((1, 1_000_003)).astype("float32")
    np.testing.assert_array_equal(on("llvm", topi.sort, x)[0], np.sort(x))


@pytest.mark.parametrize(
    "operator", [lambda a: topi.sort(a, is_ascend=False), lambda a: topi.topk(a, 3, ret_type="values")]
)
def test_gradients_go_to_the_elements_that_were_taken(operator: Callable[..., Any]) -> None:
    x = np.random.default_rng(2).permutation(40).reshape(2, 20).astype("float32")
    data = te.placeholder(x.shape, "float32", name="data")
    taken = operator(data)
    head = te.placeholder(taken.shape, "float32", name="head")
    (gradient,) = te.gradient(taken, [data], head)
    k = int(taken.shape[1])
    weights, got = np.arange(2 * k, dtype="float32").reshape(2, k) + 1, np.empty_like(x)
    tw.build([data, head, gradient])(x, weights, got)
    want = np.zeros_like(x)
    np.put_along_axis(want, np.argsort(-x, axis=1)[:, :k], weights, 1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["llvm", "interpret", "c", "cuda -emulate"])
@pytest.mark.parametrize("reduction", drawn.part(["update", "add", "mul", "min", "max"], 3))
def test_updates_outside_are_left_out_and_meet_in_order(reduction: str, target: str) -> None:
    x, updates = random_rows((5, 33), "int32"), random_rows((7, 33), "int32", seed=1)
    index = np.random.default_rng(3).integers(-7, 7, (7, 33)).astype("int32")
    with np.errstate(over="ignore"):
        want = find_reference("scatter_elements")(x, index, updates, axis=0, reduction=reduction)
    (got,) = on(target, lambda a, k, u: topi.scatter_elements(a, k, u, 0, reduction), x, index, updates)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reduction", ["update", "add"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((0, 5), 0), ((3, 0), 0), ((3, 0), 1), ((2, 0), 1), ((2, 5), 1), ((3, 2), 0), ((2, 3), 1)]
)
def test_fewer_updates_than_rows_beside_the_axis(shape: tuple[int, int], axis: int, reduction: str) -> None:
    x, updates = random_rows((3, 5), "float32"), random_rows(shape, "float32", seed=1)
    index = np.argsort(random_rows(shape, "float32", seed=2), axis=axis) - shape[axis]
    want = find_reference("scatter_elements")(x, index, updates, axis=axis, reduction=reduction)
    (got,) = on("llvm", lambda a, k, u: topi.scatter_elements(a, k, u, axis, reduction), x, index, updates)
    np.testing.assert_array_equal(got, want)


def test_gradients_go_through_updates() -> None:
    x, index, updates = (
        te.placeholder((4, 3), name="x"),
        te.placeholder((2, 3), "int32", "index"),
        te.placeholder((2, 3), name="u"),
    )
    made = topi.scatter_elements(x, index, updates)
    head = te.placeholder((4, 3), name="head")
    by_x, by_u = te.gradient(made, [x, updates], head)
    places, weights = np.array([[0, 3, 1], [0, 2, 1]], "int32"), np.arange(12, dtype="float32").reshape(4, 3) + 1
    got_x, got_u = np.empty((4, 3), "float32"), np.empty((2, 3), "float32")
    tw.build([x, index, updates, head, by_x, by_u])(
        np.zeros((4, 3), "float32"), places, np.zeros((2, 3), "float32"), weights, got_x, got_u
    )
    np.testing.assert_array_equal(got_u, [[0, 11, 0], [1, 8, 6]])  # what the last update of a place overwrote has none
    np.testing.assert_array_equal(got_x, np.where([[0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 1]], weights, 0))
