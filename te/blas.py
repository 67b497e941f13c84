"""Matrix products by the BLAS library that scipy brings: `te.blas.matmul(A, B)`, an extern over a Python function.

C = te.blas.matmul(A, B)             # A: (n, k), B: (k, m), both float32 or both float64
D = te.compute((n, m), lambda i, j: te.max(C[i, j], 0))
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..base.arguments import is_a
from ..base.errors import user_source
from ..ir.packed_functions import register_func
from .errors import BadExtern
from .extern import extern
from .extern_calls import call_packed
from .shape import same_extent
from .tensor import Tensor, tensor_text

__all__ = ["matmul"]

_ROUTINES = {"float32": "sgemm", "float64": "dgemm"}  # the BLAS routines of single and double precision


def matmul(
    A: Tensor, B: Tensor, transpose_a: bool = False, transpose_b: bool = False, name: str = "blas_matmul"
) -> Tensor:
    """The product of two matrices, computed by scipy's sgemm or dgemm when the kernel runs.

    Parameters
    ----------
    A : Tensor
        (n, k), or (k, n) with transpose_a, of float32 or float64.
    B : Tensor
        (k, m), or (m, k) with transpose_b, of the same dtype.
    transpose_a : bool, default False
        Whether A is transposed.
    transpose_b : bool, default False
        Whether B is transposed.
    name : str, default "blas_matmul"
        Of the tensor.

    Returns
    -------
    Tensor
        (n, m), of their dtype.

    Raises
    ------
    BadExtern (TW0140)
        Dtypes or shapes do not fit, or scipy is not installed.
    """
    reason = ""
    if not (is_a(A, Tensor) and is_a(B, Tensor) and A.ndim == B.ndim == 2):
        reason = f"got {A!r} and {B!r}, where two matrices are asked for"
    elif A.dtype != B.dtype or A.dtype not in _ROUTINES:
        reason = f"got {tensor_text(A)} and {tensor_text(B)}: both have to be float32, or both float64"
    # proved equal, as extents may be symbols
    elif not same_extent(A.shape[0 if transpose_a else 1], B.shape[1 if transpose_b else 0]):
        reason = f"the depths of {tensor_text(A)} and {tensor_text(B)} differ"
    elif find_spec("scipy") is None:
        reason = "scipy is not installed"
    if reason:
        raise BadExtern(
            f"cannot declare the matrix product {name}",
            reason=reason[:300],
            called=user_source(),
            fix="pip install scipy" if "scipy" in reason else "te.blas.matmul(A, B): (n, k) times (k, m)",
        )
    shape = (A.shape[1 if transpose_a else 0], B.shape[0 if transpose_b else 1])
    product: Tensor = extern(
        shape,
        [A, B],
        lambda ins, outs: call_packed(_FUNCTION, ins[0], ins[1], outs[0], int(transpose_a), int(transpose_b)),
        name=name,
        dtype=A.dtype,
        tag="blas",
    )
    return product


_FUNCTION = "tilewright.blas.matmul"


@register_func(_FUNCTION, override=True)  # an import may be made twice
def _matmul(a: Any, b: Any, c: Any, transpose_a: int, transpose_b: int) -> None:
    """c = a @ b for matrices in rows, which BLAS takes for the columns of their transposes: c.T = b.T @ a.T, in place."""
    if c.size == 0:  # BLAS refuses matrices without elements
        return
    if a.size == 0:
        c[...] = 0  # a sum over nothing
        return
    # imported when first called, as scipy takes long to load
    gemm = getattr(import_module("scipy.linalg.blas"), _ROUTINES[c.dtype.name])
    # rows are BLAS's columns: the transposed product
    gemm(1.0, b.T, a.T, 0.0, c.T, trans_a=transpose_b, trans_b=transpose_a, overwrite_c=1)
