"""ONNX's operators on signals: Fourier transforms, windows, mel filters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..conversion import Refused, few
from .context import Context, converts
from .package import dtype_named

__all__: list[str] = []


@converts("DFT")
def _convert_dft(c: Context) -> str:
    length = int(c.array(1).reshape(-1)[0]) if c.has(1) else None
    axis = c.numbers(2)[0] if c.has(2) else int(c.attribute("axis", 1 if c.opset < 20 else -2))
    return c.emit(
        "dft",
        c[0],
        axis=c.within(axis, c.rank(0)),
        length=length,
        inverse=bool(c.attribute("inverse", 0)),
        onesided=bool(c.attribute("onesided", 0)),
    )


@converts("STFT")
def _convert_stft(c: Context) -> str:
    """The frames of a signal, each times the window, transformed."""
    size = c.type(0).shape[1]
    if not isinstance(size, int):
        raise Refused("the length of the signal is not known")
    step = int(c.array(1).reshape(-1)[0])
    length = int(c.array(3).reshape(-1)[0]) if c.has(3) else c.extent(2, 0) if c.has(2) else size
    if not 0 < length <= size or step < 1:
        raise Refused(f"there are no frames of {length} every {step}")
    count = (size - length) // step + 1
    few(count, length)
    places = c.constant(np.arange(count)[:, None] * step + np.arange(length))
    frames = c.emit("take", c[0], places, axis=1)
    if c.has(2):
        if c.static(2) != (length,):
            raise Refused(f"its window is not as long as a frame, {length}")
        frames = c.emit("multiply", frames, c.reshape(c[2], (length, 1)))
    return c.emit("dft", frames, axis=2, onesided=bool(c.attribute("onesided", 1)))


@converts("HannWindow", "HammingWindow", "BlackmanWindow")
def _convert_window(c: Context) -> str:
    size, kind = int(c.array(0).reshape(-1)[0]), dtype_named(int(c.attribute("output_datatype", 1)))
    with np.errstate(invalid="ignore"):  # a symmetric window of one is 0 / 0, as ONNX defines it
        turns = 2 * np.pi * np.arange(few(size)) / np.float64(size if c.attribute("periodic", 1) else size - 1)
    weights = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }[c.proto.op_type]
    values = weights[0] - weights[1] * np.cos(turns) + weights[2] * np.cos(2 * turns)
    return c.emit("cast", c.constant(values), dtype=kind)


@converts("MelWeightMatrix")
def _convert_mel(c: Context) -> str:
    bins, points, rate, low, high = (float(c.array(at).reshape(-1)[0]) for at in range(5))
    return c.emit(
        "cast",
        c.constant(_filters(int(bins), int(points), int(rate), low, high)),
        dtype=dtype_named(int(c.attribute("output_datatype", 1))),
    )


def _filters(bins: int, points: int, rate: int, low: float, high: float) -> NDArray[np.float64]:
    """Triangles over frequencies, (points // 2 + 1, bins), whose corners are equally far apart on the mel scale."""
    rows = points // 2 + 1
    if few(bins, rows) < 1 or rate < 1:
        raise Refused(f"there are no {bins} filters of {rows} frequencies")
    ends = 2595 * np.log1p(np.asarray([low, high]) / 700) / np.log(10)
    mels = np.arange(bins + 2) * ((ends[1] - ends[0]) / (bins + 2)) + ends[0]
    corners = ((points + 1) * (700 * np.expm1(mels / 2595 * np.log(10))) // rate).astype(np.int64)
    result = np.zeros((rows, bins))
    for at in range(bins):
        first, middle, last = (int(one) for one in corners[at : at + 3])
        if middle == first:
            result[middle, at] = 1
        else:
            result[first : middle + 1, at] = np.arange(middle - first + 1) / (middle - first)
        if last > middle:
            result[middle:last, at] = (last - np.arange(middle, last)) / (last - middle)
    return result
