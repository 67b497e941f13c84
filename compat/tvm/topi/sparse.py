"""topi.sparse: products with what tvm.contrib.sparse declares."""

from __future__ import annotations

from typing import Any

from .... import te
from ....te import Tensor
from ....topi.nn import sparse as _ours
from ....topi.transform import transpose
from ..contrib.sparse import CSRPlaceholderOp

__all__ = ["csrmm", "csrmv", "dense"]


def csrmv(a: CSRPlaceholderOp, x: Tensor, y: Tensor | None = None) -> Tensor:
    """a (M, K) times x (K, 1), plus y (M,)."""
    return csrmm(a, x, y)


def csrmm(a: CSRPlaceholderOp, b: Tensor, c: Tensor | None = None) -> Tensor:
    """a (M, K) times b (K, N), plus c (M,) in each row."""
    total = _ours.sparse_dense_sp_lhs(a.data, a.indices, a.indptr, transpose(b))
    return (
        total if c is None else te.compute(total.shape, lambda i, j: total[i, j] + c[i], name="csrmm", tag="broadcast")
    )


def dense(data: Any, weight: Any, bias: Tensor | None = None) -> Tensor:
    """data (M, K) times the transposed of weight (N, K), one of which is sparse, plus bias (N,)."""
    if isinstance(data, CSRPlaceholderOp) == isinstance(weight, CSRPlaceholderOp):
        raise NotImplementedError(f"one of data and weight is sparse, and got {data} and {weight}")
    if isinstance(data, CSRPlaceholderOp):
        total = _ours.sparse_dense_sp_lhs(data.data, data.indices, data.indptr, weight)
    else:
        total = _ours.sparse_dense_sp_rhs(data, weight.data, weight.indices, weight.indptr)
    return (
        total
        if bias is None
        else te.compute(total.shape, lambda i, j: total[i, j] + bias[j], name="dense", tag="broadcast")
    )
