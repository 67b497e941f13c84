"""topi.nn.utils: paddings and strides as programs on topi compute them."""

from __future__ import annotations

from typing import Any

from .....base.arguments import is_sequence
from .....te import Tensor
from ..utils import get_const_int, simplify

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d", "infer_pad", "infer_stride", "simplify"]


def get_pad_tuple(padding: Any, kernel: Any) -> tuple[Any, ...]:
    """(top, left, bottom, right) of "SAME", "VALID", one number, (height, width), or all four."""
    return _both_sides(padding, kernel, 2)


def get_pad_tuple1d(padding: Any, kernel: Any) -> tuple[Any, ...]:
    """(left, right) of "SAME", "VALID", one number, or both."""
    return _both_sides(padding, kernel if is_sequence(kernel) else (kernel,), 1)


def get_pad_tuple3d(padding: Any, kernel: Any) -> tuple[Any, ...]:
    """(front, top, left, back, bottom, right) of "SAME", "VALID", one number, three, or all six."""
    return _both_sides(padding, kernel, 3)


def _both_sides(padding: Any, kernel: Any, dims: int) -> tuple[Any, ...]:
    """Return the padding before each dimension, then the padding behind each."""
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"unknown padding {padding!r}; there are 'SAME' and 'VALID'")
        whole = [extent - 1 if padding == "SAME" else 0 for extent in kernel]
    else:
        given = list(padding) if is_sequence(padding) else [padding] * dims
        if len(given) == 2 * dims:
            return tuple(given)
        if len(given) != dims:
            raise ValueError(f"padding {padding!r} has {len(given)} parts, of {dims} dimensions")
        whole = [2 * part for part in given]
    before = [(part + 1) // 2 for part in whole]
    return (*before, *(part - first for part, first in zip(whole, before, strict=True)))


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[int, int]:
    """Infer the padding before the height and the width of (N, C, H, W)."""
    if data_pad is None:
        return 0, 0
    high, wide = (
        get_const_int(padded) - get_const_int(plain)
        for padded, plain in zip(data_pad.shape[2:4], data.shape[2:4], strict=True)
    )
    return high // 2, wide // 2


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[int, int]:
    """The strides of a convolution of (N, C, H, W) by (O, C, KH, KW) from its shapes."""

    def step(at: int) -> int:
        inner, window, outer = (get_const_int(each.shape[at]) for each in (data, kernel, out))
        return (inner - window) // (outer - 1) if outer > 1 else 1

    return step(2), step(3)
