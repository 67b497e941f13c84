"""Discrete Fourier transforms: any length, real or complex, along any axis, cut or filled up, one half of the frequencies."""

from __future__ import annotations

import numpy as np

from ...te import polymorphic as te
from ...topi.fourier import fourier
from .choices import Choices
from .program import Draw, Program

__all__ = ["draw_spectrum"]

LENGTHS = (1, 2, 3, 15, 16, 17, 24, 29, 31, 32, 45, 60, 64, 67, 77, 100, 128)


def draw_spectrum(choices: Choices) -> Program:
    """A transform, or an inverse one, and its scaled square now and then."""
    draw = Draw(choices, "matmul")
    dtype, n = draw.pick(["float32", "float32", "float64"]), draw.pick(LENGTHS)
    inverse, onesided = draw.chance(0.4), draw.chance(0.4)
    half = inverse and onesided
    have = max(n + draw.number(-3, 3), 1) if draw.chance(0.2) else n // 2 + 1 if half else n
    shape = [draw.number(1, 3) for _ in range(draw.number(1, 2))]
    at = draw.number(0, len(shape))
    shape.insert(at, have)
    parts = draw.number(1, 2)
    array = choices.contents().standard_normal((*shape, parts)).astype(dtype)
    x = draw.program.add_argument(te.placeholder((*shape, parts), dtype, "x"), array)
    y = fourier(x, at, n, inverse, onesided)
    z = array[..., 0].astype("float64") + (1j * array[..., 1] if parts == 2 else 0)
    if half:
        expected = np.fft.irfft(z, n, at)[..., None]
    else:
        whole = (np.fft.ifft if inverse else np.fft.fft)(z, n, at)
        whole = np.take(whole, range(n // 2 + 1), at) if onesided else whole
        expected = np.stack([whole.real, whole.imag], -1)
    draw.program.result(y, expected.astype(dtype))
    most = max(float(np.abs(expected).max()), 1.0)
    return draw.finish(most * (1e-5 if dtype == "float32" else 1e-13))
