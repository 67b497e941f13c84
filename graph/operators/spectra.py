"""Fourier transforms, determinants, and elements each once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te, topi
from ...topi.fourier import fourier
from ...topi.row import floating, integers, sample
from .row import operator

__all__: list[str] = []


def _numpy_fft(x: Any, *, axis: int, length: int | None, inverse: bool, onesided: bool) -> Any:
    wide = x.astype(np.float64)
    numbers = wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0)
    at = axis % x.ndim
    if inverse and onesided:
        # numpy's real result has no parts dimension
        return np.fft.irfft(numbers, 2 * (x.shape[at] - 1) if length is None else length, at)[..., None]
    result: Any = (np.fft.ifft if inverse else np.fft.fft)(numbers, length, at)
    if onesided:
        # a one-sided transform has half of the frequencies and one
        result = np.take(result, np.arange(int(result.shape[at]) // 2 + 1), at)
    return np.stack([result.real, result.imag], -1)


@operator(
    "dft",
    _numpy_fft,
    samples=[
        sample(floating(3, 15, 2), axis=1),
        sample(floating(9, 2, 1), axis=0, length=12, onesided=True),
        sample(floating(1, 72, 2), inverse=True),
        sample(floating(2, 5, 2), inverse=True, onesided=True),
        sample(floating(2, 5, 1), inverse=True, onesided=True, length=7),
    ],
)
def _dft(x: Any, *, axis: int = -2, length: int | None = None, inverse: bool = False, onesided: bool = False) -> Any:
    """The discrete Fourier transform along an axis of complex numbers (..., 2), or real ones (..., 1), as topi.fourier has it."""
    return fourier(x, axis, length, inverse, onesided)


def _each_once(x: Any, *, ordered: bool) -> Any:
    values, first, inverse, counts = np.unique(x, True, True, True)
    # order of first appearance, where elements are not sorted
    order = np.arange(len(values)) if ordered else np.argsort(first)
    rest = len(x) - len(values)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return (
        # behind the last element stand copies of the first one, as the operator has it
        np.pad(values[order], (0, rest), constant_values=x[0]),
        np.pad(first[order], (0, rest)),
        places[inverse.reshape(-1)],
        np.pad(counts[order], (0, rest)),
        np.asarray(len(values)),
    )


@operator(
    "unique",
    _each_once,
    samples=[sample(integers(17)), sample(integers(17, dtype="uint8"), ordered=False), sample(floating(1))],
)
def _unique(x: Any, *, ordered: bool = True) -> Any:
    """The elements of a vector each once, where each is first met, the place among them of each element, how often each is met, and
    how many they are, int64 all: vectors as long as x, of which the first so many count, as topi.unique has it."""
    values, first, inverse, number, counts = topi.unique(x, ordered, True)

    def wide(value: Any) -> Any:
        # int32 inside, int64 as ONNX has it
        return te.compute(value.shape, lambda *i: value[i].astype("int64"), name="wide", tag="elemwise")

    return [
        values,
        *map(wide, (first, inverse, counts)),
        te.compute((), lambda: number[0].astype("int64"), name="number"),
    ]


def _numpy_searchsorted(rows: Any, values: Any, *, right: bool) -> Any:
    result = np.empty(values.shape, np.int64)
    side: Any = "right" if right else "left"
    for place in np.ndindex(*values.shape[:-1]):
        result[place] = np.searchsorted(rows if rows.ndim == 1 else rows[place], values[place], side)
    return result


@operator(
    "searchsorted",
    _numpy_searchsorted,
    samples=[
        sample(np.asarray([0.0, 2.0, 4.0, 6.0, 8.0], "float32"), integers(3, 5, below=10, dtype="float32")),
        sample(
            np.asarray([[0, 0, 0, 1, 1, 1, 2], [2, 2, 3, 3, 3, 4, 4]], "int64"), integers(2, 4, below=5), right=True
        ),
    ],
)
def _declare_searchsorted(rows: Any, values: Any, *, right: bool = False) -> Any:
    """Return the positions of values in ascending rows, int64, as topi.searchsorted has it."""
    return topi.searchsorted(rows, values, right)
