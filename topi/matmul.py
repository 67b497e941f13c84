"""Products of matrices, one or many.

C = topi.matmul(A, B)                   # C[i, j] = sum over k of A[i, k] * B[k, j]
Z = topi.batch_matmul(x, y)             # Z[b, i, j] = sum over k of x[b, i, k] * y[b, j, k]
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..base.errors import user_source
from ..ir.arith.analyzer import Analyzer
from ..ir.dtype import FLOAT32, DType
from ..ir.expr import Expr
from ..ir.ops import common_dtype, is_const
from ..te.shape import same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand
from .signatures import ElementType

__all__ = ["batch_matmul", "matmul"]


def sum_dtype(dtype: DType, out_dtype: ElementType | None = None) -> DType:
    """The dtype in which products of `dtype` are taken and added up: `out_dtype` where it is given."""
    if out_dtype:  # what the caller asks for is not widened
        return scalar_dtype(out_dtype)
    return FLOAT32 if dtype.is_float and dtype.bits <= 16 else dtype


def convert_elements(tensor: Tensor, dtype: ElementType) -> Tensor:
    """The elements of a tensor in `dtype`: itself where it has that."""
    wanted = scalar_dtype(dtype)
    if tensor.dtype == wanted:  # a copy would be one more stage
        return tensor
    result: Tensor = te.compute(
        tensor.shape, lambda *at: tensor(*at).astype(wanted), name=f"{tensor.name}.{wanted}", tag="elemwise"
    )
    return result


def matmul(
    A: Tensor,
    B: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
    allow_tf32: bool = False,
) -> Tensor:
    """The product of two matrices.

    Of float32, each element is within (k + 1) u times the sum of |a||b| of the exact value, u = 2**-24 (Higham 2002,
    section 3.1), in any schedule.

    Parameters
    ----------
    A : Tensor
        (n, k), or (k, n) with transpose_a.
    B : Tensor
        (k, m), or (m, k) with transpose_b.
    transpose_a : bool, default False
        Whether A is taken transposed.
    transpose_b : bool, default False
        Whether B is taken transposed.
    out_dtype : str or None, default None
        In which products are taken and added up, and that of the result. None is the type that te gives to a sum of the
        two; of float16 and bfloat16 sums are float32, and rounded to that type once.
    allow_tf32 : bool, default False
        Whether factors of float32 are rounded to TF32 (te.tf32), on every target, which tensor cores multiply.

    Returns
    -------
    Tensor
        (n, m).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    check_matrices("topi.matmul", A, B, 2, "topi.matmul(A, B): (n, k) times (k, m)")
    rows, depth = _sides(A, transpose_a)
    deep, columns = _sides(B, transpose_b)
    check_depth(
        "topi.matmul", A, B, depth, deep, "transpose_a=True takes A as (k, n), transpose_b=True takes B as (m, k)"
    )
    # sums of 16-bit floats are float32 whatever the result
    kind, sums = result_dtype(A, B, out_dtype), sum_dtype(result_dtype(A, B), out_dtype)
    right = separate(A, B)
    k = te.reduce_axis((0, depth), name="k")
    C: Tensor = te.compute(
        (rows, columns),
        lambda i, j: te.sum(
            product(A[(k, i) if transpose_a else (i, k)], right[(j, k) if transpose_b else (k, j)], sums, allow_tf32),
            axis=k,
        ),
        name="matmul",
        tag="matmul",
    )
    return convert_elements(C, kind)


def batch_matmul(
    x: Tensor,
    y: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    allow_tf32: bool = False,
) -> Tensor:
    """The products of two batches of matrices. As in TVM, y is taken transposed unless it is said otherwise. Error
    bounds are those of matmul.

    Parameters
    ----------
    x : Tensor
        (b, n, k), or (b, k, n) with transpose_a.
    y : Tensor
        (b, m, k), or (b, k, m) where transpose_b is False. A batch of one matrix serves for all of the other's.
    out_dtype : str or None, default None
        As of matmul.
    transpose_a : bool, default False
        Whether x is taken transposed.
    transpose_b : bool, default True
        Whether y is taken transposed.
    allow_tf32 : bool, default False
        As of matmul.

    Returns
    -------
    Tensor
        (b, n, m).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    usage = "topi.batch_matmul(x, y): (b, n, k) and (b, m, k); with transpose_b=False (b, n, k) and (b, k, m)"
    check_matrices("topi.batch_matmul", x, y, 3, usage)
    rows, depth = _sides(x, transpose_a)
    deep, columns = _sides(y, transpose_b)
    check_depth("topi.batch_matmul", x, y, depth, deep, usage)
    one_x, one_y = is_const(x.shape[0], 1), is_const(y.shape[0], 1)  # a batch of one matrix broadcasts
    if not (one_x or one_y or _agree(x.shape[0], y.shape[0])):
        raise _bad("topi.batch_matmul", x, y, f"the batches {x.shape[0]} and {y.shape[0]} differ", usage)
    kind, sums = result_dtype(x, y, out_dtype), sum_dtype(result_dtype(x, y), out_dtype)
    y = separate(x, y)
    k = te.reduce_axis((0, depth), name="k")

    def element(b: Expr, i: Expr, j: Expr) -> Expr:
        left, right = (0 if one_x else b), (0 if one_y else b)  # the only matrix is read whatever the batch
        return te.sum(
            product(
                x[(left, k, i) if transpose_a else (left, i, k)],
                y[(right, j, k) if transpose_b else (right, k, j)],
                sums,
                allow_tf32,
            ),
            axis=k,
        )

    products: Tensor = te.compute(
        (y.shape[0] if one_x else x.shape[0], rows, columns), element, name="batch_matmul", tag="batch_matmul"
    )
    return convert_elements(products, kind)


def product(a: Expr, b: Expr, dtype: Any, allow_tf32: bool = False) -> Expr:
    """a * b in `dtype`. allow_tf32: of both rounded to TF32 where all are float32."""
    if allow_tf32 and a.dtype == b.dtype == dtype == "float32":  # on every target the same rounding
        return te.tf32(a) * te.tf32(b)
    return (a if a.dtype == dtype else a.astype(dtype)) * (b if b.dtype == dtype else b.astype(dtype))


def separate(a: Tensor, b: Tensor) -> Tensor:
    """b, as another tensor where it is a: a schedule then may read the two from different places."""
    if a is not b:
        return b
    # the name shows whose copy it is
    copy: Tensor = te.compute(b.shape, lambda *at: b(*at), name=f"{b.name}.again", tag="injective")
    return copy


def result_dtype(a: Tensor, b: Tensor, out_dtype: str | None = None) -> Any:
    """The type of a product of matrices: as asked for, or the wider of the two."""
    return common_dtype(a.dtype, b.dtype) if out_dtype is None else te.const(0, out_dtype).dtype


def check_matrices(name: str, a: object, b: object, rank: int, usage: str) -> None:
    """Raise BadOperand (TW0181) unless both are tensors of `rank` dimensions."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        wrong = b if isinstance(a, Tensor) else a
        raise BadOperand(f"{name} takes tensors", reason=f"got {wrong!r}"[:200], called=user_source(), fix=usage)
    if a.ndim != rank or b.ndim != rank:
        raise _bad(name, a, b, f"{rank} dimensions are asked for, and there are {a.ndim} and {b.ndim}", usage)


def check_depth(name: str, a: Tensor, b: Tensor, depth: Expr, deep: Expr, usage: str) -> None:
    """Raise BadOperand (TW0181) where the extents that are summed over are not known to be equal."""
    if not _agree(depth, deep):
        raise _bad(name, a, b, f"the sum would run over {depth} elements of {a.name} and {deep} of {b.name}", usage)


def _bad(name: str, a: Tensor, b: Tensor, reason: str, usage: str) -> BadOperand:
    return BadOperand(
        f"{name} cannot multiply {tensor_text(a)} by {tensor_text(b)}",
        reason=reason,
        declared=a.source,
        called=user_source(),
        fix=usage,
    )


def _sides(matrix: Tensor, swapped: bool) -> tuple[Expr, Expr]:
    """The last two extents, in the order in which they are used."""
    first, second = matrix.shape[-2:]
    return (second, first) if swapped else (first, second)


def _agree(a: Expr, b: Expr) -> bool:
    """Return whether two extents are surely equal: where they were not, elements beyond a tensor's end would be read."""
    return same_extent(a, b) or Analyzer().can_prove_equal(a, b)  # a prover, since extents may be equal sums of symbols
