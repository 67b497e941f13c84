"""Values whose channels lie in blocks: (N, C, H, W) as (N, C / b, H, W, b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from .elementwise import wide
from .row import operator
from .windows import spatial, strided_windows

__all__: list[str] = []


def _convolved(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any) -> Any:
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    around = np.pad(x, [(0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3]), (0, 0)])
    windows = strided_windows(np.moveaxis(around, 4, 2), w.shape[2:4], stride, dilation)
    return np.einsum("ncbijxy,ocxybp->noijp", windows, w, optimize=True)


@operator("conv_in_blocks", wide(_convolved))
def _conv_in_blocks(x: Any, w: Any, *, stride: Any = (), padding: Any = (), dilation: Any = ()) -> Any:
    """x (N, C / c, H, W, c) with w (O / o, C / c, KH, KW, c, o): (N, O / o, H, W, o)."""
    stride, padding, dilation = spatial(2, stride, padding, dilation)
    return topi.nn.conv2d_NCHWc(x, w, stride, padding, dilation)
