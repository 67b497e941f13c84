"""tvm.contrib.cblas: whole matrix products by a library, here numpy's BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....te import Tensor, call_packed, extern
from ..runtime import register_func

__all__ = ["batch_matmul", "matmul"]


@register_func("tvm.contrib.cblas.matmul", override=True)
def _matmul(a: Any, b: Any, c: Any, transa: int, transb: int) -> None:
    np.matmul(a.swapaxes(-1, -2) if transa else a, b.swapaxes(-1, -2) if transb else b, out=c)


def matmul(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **_: object) -> Tensor:
    """lhs (n, k) times rhs (k, m), either given transposed, as one extern operation."""
    n, m = lhs.shape[1 if transa else 0], rhs.shape[0 if transb else 1]
    return _product((n, m), lhs, rhs, transa, transb)


def batch_matmul(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **_: object) -> Tensor:
    """Multiply as matmul does, for each of a batch: lhs (b, n, k), rhs (b, k, m)."""
    n, m = lhs.shape[2 if transa else 1], rhs.shape[1 if transb else 2]
    return _product((lhs.shape[0], n, m), lhs, rhs, transa, transb)


def _product(shape: tuple[Any, ...], lhs: Tensor, rhs: Tensor, transa: bool, transb: bool) -> Tensor:
    return extern(
        shape,
        [lhs, rhs],
        lambda ins, outs: call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], int(transa), int(transb)),
        name="C",
        dtype=lhs.dtype,
    )
