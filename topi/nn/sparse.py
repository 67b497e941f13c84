"""Products and sums with sparse matrices: rows of stored elements (CSR), or rows of stored blocks (BSR).

A CSR matrix is (data, indices, indptr): row r holds data[indptr[r]:indptr[r + 1]] in the columns that indices has at the same
places. In BSR an element of data is a block, (stored, rows, columns), indices count blocks, and so does indptr. What indices and
indptr say is data: it must lie in the matrices, which `bounds_check=True` checks.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import user_source
from ...ir.ops import common_dtype
from ...te import hybrid
from ...te import polymorphic as te
from ...te.hybrid.runtime import output_tensor
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, BadParameter, tensor
from ..matmul import convert_elements, product, sum_dtype
from ..transform import transpose

__all__ = [
    "sparse_add",
    "sparse_conv2d",
    "sparse_dense",
    "sparse_dense_sp_lhs",
    "sparse_dense_sp_rhs",
    "sparse_transpose",
]


def sparse_dense(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    sparse_lhs: bool = False,
) -> Tensor:
    """The product of a sparse matrix S, CSR or BSR, and a dense one D, the second of which is transposed.

    Parameters
    ----------
    dense_data : Tensor
        D, (M, K).
    sparse_data : Tensor
        The stored elements, or blocks, of S (N, K).
    sparse_indices : Tensor
        Their columns.
    sparse_indptr : Tensor
        Where each row's begin.
    sparse_lhs : bool, default False
        Whether S is the first factor.

    Returns
    -------
    Tensor
        D S', (M, N), or with sparse_lhs S D'.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    if sparse_lhs:
        return sparse_dense_sp_lhs(sparse_data, sparse_indices, sparse_indptr, dense_data)
    return sparse_dense_sp_rhs(dense_data, sparse_data, sparse_indices, sparse_indptr)


def sparse_dense_sp_rhs(data: Tensor, weight_data: Tensor, weight_indices: Tensor, weight_indptr: Tensor) -> Tensor:
    """A dense matrix times the transposed of a sparse one.

    Parameters
    ----------
    data : Tensor
        (M, K).
    weight_data : Tensor
        The stored elements, or blocks, of the weights (N, K).
    weight_indices : Tensor
        Their columns.
    weight_indptr : Tensor
        Where each row's begin.

    Returns
    -------
    Tensor
        (M, N).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "sparse_dense", 2)
    return _product(source, (weight_data, weight_indices, weight_indptr), (source.shape[0],), 1, "sparse_dense")


def sparse_dense_sp_lhs(data_data: Tensor, data_indices: Tensor, data_indptr: Tensor, weight: Tensor) -> Tensor:
    """A sparse matrix times the transposed of a dense one.

    Parameters
    ----------
    data_data : Tensor
        The stored elements, or blocks, of the data (M, K).
    data_indices : Tensor
        Their columns.
    data_indptr : Tensor
        Where each row's begin.
    weight : Tensor
        (N, K).

    Returns
    -------
    Tensor
        (M, N).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(weight, "sparse_dense", 2)
    return _product(source, (data_data, data_indices, data_indptr), (source.shape[0],), 0, "sparse_dense")


def sparse_conv2d(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> Tensor:
    """The convolution by windows of 1 x 1 with sparse weights.

    Parameters
    ----------
    dense_data : Tensor
        (N, H, W, C) or (N, C, H, W).
    sparse_data : Tensor
        The stored blocks of the weights (O, C): of each a row of columns or, as (stored, rows), one column.
    sparse_indices : Tensor
        Their columns.
    sparse_indptr : Tensor
        Where each row's begin.
    layout : str, default "NHWC"
        "NHWC" or "NCHW".
    kernel_size : int, default 1
        1.

    Returns
    -------
    Tensor
        The sums in the layout of the data, with O channels.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    if layout not in ("NHWC", "NCHW") or kernel_size != 1:
        raise BadParameter(
            f"sparse_conv2d takes windows of 1 x 1 over NHWC or NCHW, and got {kernel_size} and {layout!r}",
            called=user_source(),
            fix='kernel_size=1, layout="NHWC"',
        )
    source = tensor(dense_data, "sparse_conv2d", 4)
    last = layout == "NHWC"
    given = source if last else transpose(source, (0, 2, 3, 1))
    blocks = _product(given, (sparse_data, sparse_indices, sparse_indptr), given.shape[:3], 3, "sparse_conv2d")
    return blocks if last else transpose(blocks, (0, 3, 1, 2))


def _product(dense: Tensor, matrix: tuple[Tensor, Tensor, Tensor], outer: Any, at: int, subject: str) -> Tensor:
    """The sums over the last axis of `dense` with each row of a sparse matrix, whose number is index `at` of the result."""
    data, indices, indptr = _check_matrix(matrix, subject)
    rows: Any = indptr.shape[0] - 1
    high: Any = data.shape[1] if data.ndim > 1 else 1
    wide: Any = data.shape[2] if data.ndim > 2 else 1
    shape = [*outer]
    shape.insert(at, rows * high)
    kind = common_dtype(data.dtype, dense.dtype)

    def total(*index: Any) -> Any:
        row, rest = index[at], (*index[:at], *index[at + 1 :])
        line = te.indexdiv(row, high) if data.ndim > 1 else row
        stored = te.reduce_axis((0, indptr[line + 1] - indptr[line]), "stored")
        place = indptr[line] + stored
        inner = (te.indexmod(row, high),) if data.ndim > 1 else ()
        if data.ndim < 3:
            return te.sum(product(data[(place, *inner)], dense[(*rest, indices[place])], sum_dtype(kind)), axis=stored)
        column = te.reduce_axis((0, wide), "column")
        term = product(data[(place, *inner, column)], dense[(*rest, indices[place] * wide + column)], sum_dtype(kind))
        return te.sum(term, axis=[stored, column])

    return convert_elements(te.compute(tuple(shape), total, name=subject), kind)


def sparse_add(dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor) -> Tensor:
    """A dense matrix plus a CSR matrix of its shape.

    Parameters
    ----------
    dense_data : Tensor
        (M, N).
    sparse_data : Tensor
        The stored elements.
    sparse_indices : Tensor
        Their columns.
    sparse_indptr : Tensor
        Where each row's begin.

    Returns
    -------
    Tensor
        (M, N).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(dense_data, "sparse_add", 2)
    data, indices, indptr = _check_matrix((sparse_data, sparse_indices, sparse_indptr), "sparse_add", 1)
    added: Any = _add_rows(source, data, indices, indptr)
    return added


@hybrid.script
def _add_rows(dense: Any, data: Any, indices: Any, indptr: Any) -> Any:
    total = output_tensor(dense.shape, dense.dtype)
    for row in range(dense.shape[0]):
        for column in range(dense.shape[1]):
            total[row, column] = dense[row, column]
        for stored in range(indptr[row + 1] - indptr[row]):
            place = indptr[row] + stored
            total[row, indices[place]] = total[row, indices[place]] + data[place]
    return total


def sparse_transpose(sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor) -> list[Tensor]:
    """A square CSR matrix transposed.

    Parameters
    ----------
    sparse_data : Tensor
        The stored elements.
    sparse_indices : Tensor
        Their columns.
    sparse_indptr : Tensor
        Where each row's begin.

    Returns
    -------
    list of Tensor
        Its data, indices and indptr, in each row by ascending columns.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    data, indices, indptr = _check_matrix((sparse_data, sparse_indices, sparse_indptr), "sparse_transpose", 1)
    moved: Any = _transpose_csr(data, indices, indptr)
    return list(moved)


@hybrid.script
def _transpose_csr(data: Any, indices: Any, indptr: Any) -> Any:
    values = output_tensor(data.shape, data.dtype)
    columns = output_tensor(indices.shape, indices.dtype)
    begins = output_tensor(indptr.shape, indptr.dtype)
    for i in range(indptr.shape[0]):
        begins[i] = 0
    for i in range(indices.shape[0]):
        column = indices[i].astype("int64")  # behind the last int8 is none: 127 + 1
        begins[column + 1] = begins[column + 1] + 1
    for i in range(indptr.shape[0] - 1):
        begins[i + 1] = begins[i + 1] + begins[i]
    for row in range(indptr.shape[0] - 1):
        for stored in range(indptr[row + 1] - indptr[row]):
            place = indptr[row] + stored
            there = begins[indices[place]]
            columns[there] = row
            values[there] = data[place]
            begins[indices[place]] = there + 1
    for i in range(indptr.shape[0] - 1):
        begins[indptr.shape[0] - 1 - i] = begins[indptr.shape[0] - 2 - i]
    begins[0] = 0
    return values, columns, begins


def _check_matrix(
    matrix: tuple[Tensor, Tensor, Tensor], subject: str, rank: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The three tensors of a sparse matrix. rank: of its data, 1 to 3 where it is None."""
    data = tensor(matrix[0], f"the data of {subject}", rank)
    indices, indptr = (tensor(each, f"the indices of {subject}", 1) for each in matrix[1:])
    for each in (indices, indptr):
        if not each.dtype.is_integer:
            raise BadOperand(
                f"{subject}: {tensor_text(each)} is not places",
                reason="they are integers",
                declared=each.source,
                called=user_source(),
                fix='topi.cast(x, "int32")',
            )
    if not 1 <= data.ndim <= 3:
        raise BadOperand(
            f"{subject}: {tensor_text(data)} is not a sparse matrix",
            declared=data.source,
            called=user_source(),
            reason="its data are stored elements (n,) or blocks (n, rows, columns)",
            fix="topi.reshape them",
        )
    return data, indices, indptr
