"""The discrete Fourier transform, by the factors of its length (Cooley and Tukey, 1965): products with small matrices, and the
factors between them. A length that is prime is one product; complex numbers are pairs, the last dimension of a tensor.

Sums of n terms of float32 in so many steps are within log2(n) * 2**-23 * (the greatest magnitude of the exact result).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import user_source
from ..ir.expr import IntImm
from ..ir.ops import integer_value
from ..te import polymorphic as te
from ..te.shape import Extent
from ..te.tag import AlgorithmTag
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, check_count, integers, normalize_axis, tensor
from .signatures import Positive
from .transform import injective, reshape, transpose

__all__ = ["dft", "stft"]

DFT = AlgorithmTag("dft")
"""Of the results of a transform of which the length is a number; what they are computed from up to the data are its parts."""
_WHOLE = {"whole_rows": True}
"""Checks that shorten tensors leave the transforms as long as they are."""
_DIRECT = 64
"""Up to so many points a transform is one product."""
_STEP = 32
"""The greatest factor that a longer one is taken apart by."""
_MOST_OF_A_TABLE = 512
"""So many points are a matrix; of more, which are prime, its elements are looked up among the roots of unity."""


def dft(re_data: Tensor, im_data: Tensor, inverse: bool = False) -> list[Tensor]:
    """The discrete Fourier transform over the last dimension. The inverse one is divided by the length.

    Parameters
    ----------
    re_data : Tensor
        The real part, (..., n).
    im_data : Tensor
        The imaginary part, in the same shape.
    inverse : bool, default False
        Whether it is the inverse transform.

    Returns
    -------
    list of Tensor
        The real and the imaginary part, in the shape and dtype of each, float32 or float64.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    real, imaginary = tensor(re_data, "dft"), tensor(im_data, "dft")

    def pair(*i: Any) -> Any:
        # numbers stand in pairs, real and imaginary side by side
        return te.select(i[-1].equal(0), real[i[:-1]], imaginary[i[:-1]])

    found = fourier(injective((*real.shape, 2), pair, "complex"), -2, None, bool(inverse), False)

    def part(at: int, name: str) -> Tensor:
        return injective(real.shape, lambda *i: found[(*i, at)], name)

    return [part(0, "dft_real"), part(1, "dft_imaginary")]


def fourier(
    data: Tensor, axis: int, length: int | None = None, inverse: bool = False, onesided: bool = False
) -> Tensor:
    """The transform along an axis of data (..., 2), complex numbers, or (..., 1), real ones: (..., 2) in the dtype of data. length:
    so many elements along the axis are taken, zeros after the last; None: all. inverse: the inverse one, divided by the length.

    onesided: of the length // 2 + 1 first frequencies alone; those are what an inverse transform is given, and gives (..., 1).
    Raises BadAxis (TW0180), BadOperand (TW0181).
    """
    source = tensor(data, "dft")
    at = normalize_axis(source, axis, "dft")
    extent, parts = source.shape[at], source.shape[-1]
    if at == source.ndim - 1 or not isinstance(parts, IntImm) or parts.value not in (1, 2) or not source.dtype.is_float:
        raise BadOperand(
            f"dft along axis {axis} of {tensor_text(source)}",
            declared=source.source,
            called=user_source(),
            reason="its last dimension are the real and imaginary parts, 1 or 2 floats",
            fix="topi.expand_dims(x, -1) makes real numbers of x",
        )
    half = inverse and onesided  # only half of the frequencies is given: the others are their conjugates
    have: Any = integer_value(extent, extent)
    # torch's and numpy's default length of an irfft
    n: Any = integers(length, "length of dft")[0] if length is not None else 2 * (have - 1) if half else have
    if isinstance(n, int) and n < 1:
        raise BadOperand(
            f"dft of {n} points of {tensor_text(source)}",
            declared=source.source,
            called=user_source(),
            fix="length=1, or more",
        )
    kind = "float64" if str(source.dtype) == "float64" else "float32"  # float16 has too few bits for sums of many terms
    # the transformed axis last but one, before the parts
    order = [*(dim for dim in range(source.ndim - 1) if dim != at), at, source.ndim - 1]
    moved = source if order == sorted(order) else transpose(source, order)
    rows: Any = math.prod(moved.shape[:-2])
    flat = moved if source.ndim == 3 else reshape(moved, (rows, extent, parts))
    count = n // 2 + 1 if half else n

    def taken(r: Any, i: Any, part: Any) -> Any:
        """An element, 0 behind the last; of frequencies that are not given the conjugate of their mirror image."""
        place = te.min(i, n - i) if half else i
        value = flat[r, te.max(te.min(place, extent - 1), 0), part].astype(kind)
        if half:
            value = te.select(
                # the frequency in the middle, its own mirror image, has no imaginary part
                te.all(part.equal(1), i * 2 >= n),
                te.select((i * 2).equal(n), te.const(0, kind), -value),
                value,
            )
            value = te.select(te.all(part.equal(1), i.equal(0)), te.const(0, kind), value)  # nor has the first one
        inside = count is have or isinstance(have, int) and isinstance(count, int) and count <= have
        # beyond what is given it is padded with zeros
        return value if inside else te.if_then_else(place < extent, value, te.const(0, kind))

    given = te.compute((rows, n, parts), taken, name="dft_data", tag=DFT.part("data"), attrs=_WHOLE)
    found = _transform(given, n, kind, inverse)
    results = 1 if half else 2
    kept = n // 2 + 1 if onesided and not inverse else n

    def result(r: Any, i: Any, part: Any) -> Any:
        value = found[r, i, part]
        # a division by the length as a product, where it is known
        scale = te.const(1 / n, kind) if isinstance(n, int) else 1 / n.astype(kind)
        return (value * scale if inverse else value).astype(source.dtype)

    # the algorithm's schedule needs the number of points
    attrs = {**_WHOLE, "points": n, "inverse": bool(inverse)} if isinstance(n, int) else {}
    whole = te.compute((rows, kept, results), result, name="dft", tag=DFT if attrs else "injective", attrs=attrs)
    unfolded = whole if source.ndim == 3 else reshape(whole, (*moved.shape[:-2], kept, results))
    back = [order.index(dim) for dim in range(source.ndim)]
    return unfolded if back == sorted(back) else transpose(unfolded, back)


def _transform(x: Tensor, n: Any, kind: str, inverse: bool) -> Tensor:
    """The transform of (rows, n, 1 or 2), (rows, n, 2). n: a number, or an extent over symbols, whose transform is one product."""
    if not isinstance(n, int):
        return _product(x, n, 1, kind, inverse)
    # the greatest factor first, as fewer passes move less memory
    outer = 1 if n <= _DIRECT else max((one for one in range(2, _STEP + 1) if n % one == 0), default=1)
    if outer == 1:
        return _product(x, n, 1, kind, inverse)
    inner = n // outer
    first = _product(x, outer, inner, kind, inverse)  # of shape (rows, outer * inner, 2), real and imaginary parts last
    # the turns of all (outer, inner) pairs, computed when the program is declared
    turns = te.constant(_roots(n, inverse)[np.outer(np.arange(outer), np.arange(inner)) % n].astype(kind), "turns")

    def turned(r: Any, i: Any, part: Any) -> Any:
        # row, place among the outer ones, place among the inner ones
        row, k, j = te.indexdiv(r, outer), te.indexmod(r, outer), i
        real, imaginary = (first[row, k * inner + j, at] for at in (0, 1))
        return te.select(
            part.equal(0),
            real * turns[k, j, 0] - imaginary * turns[k, j, 1],
            real * turns[k, j, 1] + imaginary * turns[k, j, 0],
        )

    rows = x.shape[0]
    second = _transform(
        te.compute((rows * outer, inner, 2), turned, name="dft_turned", tag=DFT.part("turned"), attrs=_WHOLE),
        inner,
        kind,
        inverse,
    )

    def ordered(r: Any, i: Any, part: Any) -> Any:
        # the outer place is the fast one of the result
        return second[r * outer + te.indexmod(i, outer), te.indexdiv(i, outer), part]

    return te.compute((rows, n, 2), ordered, name="dft_order", tag=DFT.part("order"), attrs=_WHOLE)


def _product(x: Tensor, n: Any, apart: int, kind: str, inverse: bool) -> Tensor:
    """The transforms of n elements that lie `apart` elements apart, of which as many begin: (rows, n * apart, 2)."""
    parts = int(x.shape[2])
    j, q = te.reduce_axis((0, n), "j"), te.reduce_axis((0, parts), "q")
    matrix = _matrix(n, parts, kind, inverse)

    def total(r: Any, i: Any, part: Any) -> Any:
        return te.sum(
            matrix[te.indexdiv(i, apart), j, part, q] * x[r, j * apart + te.indexmod(i, apart), q], axis=[j, q]
        )

    return te.compute((x.shape[0], n * apart, 2), total, name="dft_product", tag=DFT.part("product"), attrs=_WHOLE)


def _matrix(n: Any, parts: int, kind: str, inverse: bool) -> Any:
    """Return the matrix of a transform of n elements of so many parts: (n, n, 2, parts)."""
    if not isinstance(n, int):
        turn = (2 if inverse else -2) * math.pi

        def open_root(k: Any, i: Any, part: Any, other: Any) -> Any:
            # modulo n, so that the angle stays small and exact
            angle = ((k.astype("int64") * i.astype("int64")) % n).astype("float64") * (turn / n.astype("float64"))
            sine = te.select(part.equal(0), -te.sin(angle), te.sin(angle))
            return te.select(part.equal(other), te.cos(angle), sine).astype(kind)

        return injective((n, n, 2, parts), open_root, "fourier")
    roots = _roots(n, inverse)
    if n <= _MOST_OF_A_TABLE:  # a table of n * n roots, for matrices that are small
        table = roots[np.outer(np.arange(n), np.arange(n)) % n]  # k, j, part
        whole = np.stack([table, np.stack([-table[..., 1], table[..., 0]], -1)], -1)  # k, j, part, q
        return te.constant(np.ascontiguousarray(whole[..., :parts]).astype(kind), "fourier")
    units = te.constant(  # n roots, indexed by (k * i) % n
        np.stack([roots, np.stack([-roots[:, 1], roots[:, 0]], -1)], -1)[..., :parts].astype(kind), "roots"
    )

    def root(k: Any, i: Any, part: Any, other: Any) -> Any:
        return units[(k * i) % n, part, other]

    return injective((n, n, 2, parts), root, "fourier")


def _roots(n: int, inverse: bool) -> np.ndarray[Any, Any]:
    """The powers of the root of unity, (n, 2)."""
    angles = (2 if inverse else -2) * np.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], -1)


def stft(
    data: Tensor,
    n_fft: Positive,
    hop_length: Positive,
    win_length: Positive,
    window: Tensor,
    normalized: bool = False,
    onesided: bool = True,
    output_shape: Sequence[Extent] | None = None,
) -> Tensor:
    """The Fourier transforms of windows of a signal.

    Parameters
    ----------
    data : Tensor
        (batch, n).
    n_fft : int
        Points of a transform.
    hop_length : int
        Elements from window to window.
    win_length : int
        Elements of a window.
    window : Tensor
        Weights of a window's elements, (win_length,).
    normalized : bool, default False
        Whether results are divided by sqrt(n_fft).
    onesided : bool, default True
        Whether the n_fft // 2 + 1 first frequencies are taken alone.
    output_shape : sequence of numbers or None, default None
        What the shape comes to, if it is given.

    Returns
    -------
    Tensor
        (batch, frequencies, windows, 2), real and imaginary parts last.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, weights = tensor(data, "stft", 2), tensor(window, "the window of stft", 1)
    frequencies = n_fft // 2 + 1 if onesided else n_fft
    if output_shape is not None:
        check_count(output_shape, "output_shape of stft", 4)
    shape = output_shape or (source.shape[0], frequencies, te.indexdiv(source.shape[1] - win_length, hop_length) + 1, 2)
    by = te.const(1 / math.sqrt(n_fft) if normalized else 1.0, source.dtype)
    windows: Any = te.indexdiv(source.shape[1] - win_length, hop_length) + 1

    def weighed(batch: Any, at: Any, k: Any, _: Any) -> Any:
        return weights[k] * source[batch, at * hop_length + k]

    frames = injective((source.shape[0], windows, win_length, 1), weighed, "stft_frames")
    spectra = fourier(frames, 2, win_length)

    def element(batch: Any, f: Any, at: Any, part: Any) -> Any:
        place = f if frequencies <= win_length else te.indexmod(f, win_length)  # more frequencies than points repeat
        return spectra[batch, at, place, part] * by if normalized else spectra[batch, at, place, part]

    return injective(tuple(shape), element, "stft")
