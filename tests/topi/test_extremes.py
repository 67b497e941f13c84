"""topi's operators on extreme values of every dtype, against numpy: zeros of both signs, infinities, NaNs, subnormals, the least and
the greatest, powers of two and their neighbours, halves.

What there is, and what numpy says of it, are the rows of the graph's table of operators; `ADDED` has those of topi alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.graph.operators.row import OPERATORS, row_of
from tilewright.ir.errors import AmbiguousDivision, MixedTypes
from topi_run import numpy_dtype

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")


def extremes(dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        powers = {sign * (1 << k) + by for k in range(0, info.bits, 5) for sign in (-1, 1) for by in (-1, 0, 1)}
        chosen = powers | {info.min, info.min + 1, info.max, info.max - 1, info.min // 2, 5, 7, 10, -3}
        return np.array(sorted(at for at in chosen if info.min <= at <= info.max), dtype)
    kind = numpy_dtype(dtype)
    info = ml_dtypes.finfo(kind)
    whole = 2.0**info.nmant
    sizes = [0.0, 1, 2, 3, 7, 10, 16, 17, 88, 1000, 0.5, 1.5, 2.5, 0.1, 0.3, 0.7, 1e-3, math.pi, math.pi / 2, math.inf]
    sizes += [*map(float, (info.max, info.tiny, info.smallest_subnormal, info.eps, 1 + info.eps, 1 - info.eps / 2))]
    sizes += [whole, whole + 0.5, 2 * whole - 1, math.nan]
    return np.array([sign * size for size in sizes for sign in (1, -1)]).astype(kind)


ADDED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {"mod": (topi.mod, np.fmod)}
CLIPPED: list[tuple[Any, Any]] = [
    (0, 300),
    (-1000, 7),
    (300, 400),
    (5, 2),
    (-1.5, 2.5),
    (-(2**40), 2**40),
    (-math.inf, 200),
]
APPLIED = [
    *(
        name
        for name, row in OPERATORS.items()
        if row.declare.__module__.endswith((".elementwise", ".mathematics"))
        and not row.attributes
        and name not in ("where", "ceil_log2")  # which is of positive numbers
    ),
    "relu",
    *ADDED,
]
SIGNLESS = {"maximum", "minimum", "relu", "clip", "sign", "round", "log_add_exp", *ADDED}
"""Those that give a zero of another sign, as numpy may."""


def error_of(name: str) -> float:
    """By how many units in the last place of the result an element may miss what is computed in float64."""
    return 0 if name in ADDED else row_of(name).error


def declared(name: str) -> tuple[Callable[..., Any], Callable[..., Any], int]:
    """The operator, what numpy says, and how many operands it has."""
    if name in ADDED:
        return *ADDED[name], 2
    row = row_of(name)
    return row.declare, row.reference, row.inputs[0]


def results(operators: Sequence[Callable[..., Any]], arrays: Sequence[Any], target: str) -> list[Any]:
    tensors = [te.placeholder(x.shape, str(x.dtype), name="xyz"[at]) for at, x in enumerate(arrays)]
    made = [operator(*tensors) for operator in operators]
    given = [np.zeros([int(extent) for extent in one.shape], numpy_dtype(one.dtype)) for one in made]
    tw.build(te.create_schedule([one.op for one in made]), [*tensors, *made], target=target)(*arrays, *given)
    return given


def agree(name: str, got: Any, want: Any, arrays: Sequence[Any]) -> None:
    where = np.broadcast_arrays(*arrays)
    with np.errstate(all="ignore"):
        want = np.asarray(want).astype(got.dtype) if got.dtype.kind not in "iub" else np.asarray(want)
        if got.dtype.kind in "iub":
            right = got == want
        else:
            a, b = got.astype(np.float64), want.astype(np.float64)
            same_sign = (np.signbit(a) == np.signbit(b)) | (name in SIGNLESS)
            right = ((a == b) & same_sign) | (np.isnan(a) & np.isnan(b))
            if units := error_of(name):
                info = ml_dtypes.finfo(got.dtype)
                sizes = [b, *(x.astype(np.float64) for x in where)] if name == "log_add_exp" else [b]
                arguments = np.max(np.abs(np.nan_to_num(sizes, posinf=0, neginf=0)), axis=0)
                right |= np.abs(a - b) <= units * float(info.eps) * arguments + units * float(info.smallest_subnormal)
    wrong = np.argwhere(~right)[:5]
    shown = [(*(str(x[tuple(at)]) for x in where), str(got[tuple(at)]), str(want[tuple(at)])) for at in wrong]
    assert not shown, f"{name} of {got.dtype}: arguments, result, numpy's {shown}"


@pytest.mark.parametrize(
    ("dtype", "target"), [(dtype, target) for dtype in DTYPES for target in drawn.part(["llvm", "c", "interpret"], 1)]
)
def test_extreme_values_are_numpys(dtype: str, target: str) -> None:
    x = extremes(dtype)
    names = drawn.part(APPLIED, 16)
    for inputs, arrays in ((1, (x,)), (2, (x[:, None], x[None, :]))):
        some: list[str] = []
        for name in names:
            operator, _, count = declared(name)
            if count != inputs:
                continue
            try:
                operator(*(te.placeholder(array.shape, dtype, name="x") for array in arrays))
            except (AmbiguousDivision, MixedTypes):
                continue  # divided, or raised to a power, as no integers are; bits of floats
            some.append(name)
        for first in range(0, len(some), 8):
            part = some[first : first + 8]
            for name, got in zip(part, results([declared(name)[0] for name in part], arrays, target), strict=True):
                taken = [a.astype(np.float32) if error_of(name) and a.dtype.kind in "iub" else a for a in arrays]
                with np.errstate(all="ignore"):
                    agree(name, got, declared(name)[1](*taken), arrays)


@pytest.mark.parametrize("dtype", drawn.part(DTYPES, 5))
def test_bounds_of_any_size_are_those_that_the_dtype_holds(dtype: str) -> None:
    x, row = extremes(dtype), row_of("clip")
    ways = [lambda a, at=at: topi.clip(a, *at) for at in CLIPPED]
    for (low, high), got in zip(CLIPPED, results(ways, [x], "llvm"), strict=True):
        with np.errstate(all="ignore"):
            agree("clip", got, row.reference(x, low=low, high=high), [x])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_bounds_that_are_data_are_no_narrower_than_they_are(dtype: str) -> None:
    x, wide = extremes(dtype), np.array([-(2**40), -300, -1, 0, 7, 200, 2**40])
    low, high = (grid.reshape(-1, 1) for grid in np.meshgrid(wide, wide))
    A, L, H = (
        te.placeholder(x.shape, dtype, "A"),
        te.placeholder(low.shape, "int64", "L"),
        te.placeholder(low.shape, "int64", "H"),
    )
    B = te.compute((len(low), len(x)), lambda i, j: topi.clip(A[j], L[i, 0], H[i, 0]), "B")
    got = np.empty((len(low), len(x)), dtype)
    tw.build([A, L, H, B])(x, low, high, got)
    info = np.iinfo(dtype)
    np.testing.assert_array_equal(got, np.clip(np.clip(x.astype(np.int64), low, high), info.min, info.max))


@pytest.mark.parametrize("dtype", drawn.part(DTYPES, 4))
def test_conversions_of_extreme_values_truncate_and_saturate(dtype: str) -> None:
    x = extremes(dtype)
    for other, got in zip(
        DTYPES, results([lambda a, to=to: topi.cast(a, to) for to in DTYPES], [x], "llvm"), strict=True
    ):
        with np.errstate(all="ignore"):
            agree("cast", got, converted(x, other), [x])


def converted(x: Any, dtype: str) -> Any:
    if dtype == "bool" or dtype in FLOATS:
        narrow = dtype in ("float16", "bfloat16") and x.dtype.kind in "iu"
        return x != 0 if dtype == "bool" else (x.astype(np.float32) if narrow else x).astype(numpy_dtype(dtype))
    if x.dtype.kind in "iub":
        return x.astype(dtype)
    info = np.iinfo(dtype)
    whole = [
        0 if math.isnan(v) else info.max if v == math.inf else info.min if v == -math.inf else int(v)
        for v in x.astype(float)
    ]
    return np.array([min(max(v, info.min), info.max) for v in whole], dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_rows_know_where_nans_stand(dtype: str, right: bool) -> None:
    values = extremes(dtype)
    row = np.sort(values.astype(np.float64)).astype(values.dtype)
    (got,) = results([lambda a: topi.searchsorted(a, a, right)], [row], "llvm")
    exact = row.astype(np.float64)
    np.testing.assert_array_equal(got, np.searchsorted(exact, exact, "right" if right else "left"))
    (got,) = results([lambda a, b: topi.searchsorted(a, b, right)], [row[:-4], values], "llvm")
    np.testing.assert_array_equal(
        got, np.searchsorted(exact[:-4], values.astype(np.float64), "right" if right else "left")
    )


def test_places_of_integers_of_either_sign() -> None:
    rows, values = np.array([-5, -1, 0, 3, 100], "int8"), np.array([0, 1, 99, 255], "uint8")
    (got,) = results([lambda a, b: topi.searchsorted(a, b)], [rows, values], "llvm")
    np.testing.assert_array_equal(got, np.searchsorted(rows, values))


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max"])
def test_bools_are_scattered(reduction: str) -> None:
    rng = drawn.rng(f"bools {reduction}")
    data, index, new = rng.random(9) < 0.5, rng.integers(-9, 9, 14), rng.random(14) < 0.5
    combine = {
        "update": lambda a, b: b,
        "add": np.logical_or,
        "mul": np.logical_and,
        "min": np.minimum,
        "max": np.maximum,
    }
    want = data.copy()
    for at, value in zip(index, new, strict=True):
        want[at] = combine[reduction](want[at], value)
    for target in ("llvm", "c", "interpret"):
        (got,) = results([lambda a, i, u: topi.scatter_elements(a, i, u, 0, reduction)], [data, index, new], target)
        np.testing.assert_array_equal(got, want, err_msg=target)
