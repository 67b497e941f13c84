"""tvm.contrib.sparse: matrices in rows of stored elements, as arrays and as placeholders."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import te
from .. import nd

__all__ = ["CSRNDArray", "CSRPlaceholderOp", "array", "placeholder"]


class CSRNDArray:
    """A matrix as data, indices and indptr, made of a dense array or of these three."""

    stype = "csr"

    def __init__(self, arg1: Any, device: Any = None, shape: Any = None, *, ctx: Any = None) -> None:
        given = isinstance(arg1, tuple)
        self.data, self.indices, self.indptr = _three(arg1) if given else _rows(arg1, device or ctx)
        if given and shape is None:
            raise ValueError("three arrays do not tell how wide the matrix is: pass shape=(rows, columns)")
        self.shape: tuple[int, ...] = tuple(shape if given else arg1.shape)
        self.dtype = str(self.data.dtype)

    def numpy(self) -> Any:
        """The whole matrix."""
        whole = np.zeros(self.shape, self.dtype)
        begins = self.indptr.numpy()
        rows = np.repeat(np.arange(self.shape[0]), begins[1:] - begins[:-1])
        whole[rows, self.indices.numpy()] = self.data.numpy()
        return whole

    asnumpy = numpy


def _three(arrays: Any) -> tuple[Any, Any, Any]:
    data, indices, indptr = arrays
    return data, indices, indptr


def _rows(dense: Any, device: Any) -> tuple[Any, Any, Any]:
    """Return the non-zero elements of a dense matrix."""
    rows, columns = np.nonzero(dense)
    begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=dense.shape[0]))])
    return _three(
        nd.array(each, device) for each in (dense[rows, columns], columns.astype("int32"), begins.astype("int32"))
    )


class CSRPlaceholderOp:
    """A matrix that is passed as three tensors: data and indices of `nonzeros` elements, and indptr."""

    stype = "csr"

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str) -> None:
        self.shape, self.dtype, self.name = tuple(shape), dtype, name
        self.data = te.placeholder((nonzeros,), dtype, name=f"{name}_data")
        self.indices = te.placeholder((nonzeros,), "int32", name=f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), "int32", name=f"{name}_indptr")


def array(
    source_array: Any, device: Any = None, shape: Any = None, stype: str = "csr", *, ctx: Any = None
) -> CSRNDArray:
    """A sparse array of a dense one, or of (data, indices, indptr)."""
    _check(stype)
    return CSRNDArray(source_array, device, shape, ctx=ctx)


def placeholder(
    shape: Any,
    nonzeros: Any = None,
    dtype: str | None = None,
    name: str = "placeholder",
    stype: str | None = None,
) -> CSRPlaceholderOp:
    """A sparse tensor that is passed."""
    _check(stype or "csr")
    return CSRPlaceholderOp(shape, 0 if nonzeros is None else nonzeros, dtype or "float32", name)


def _check(stype: str) -> None:
    if stype != "csr":
        raise NotImplementedError(f"sparse matrices are rows of stored elements (csr), and not {stype!r}")
