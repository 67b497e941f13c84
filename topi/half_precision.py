"""Sums of products of floats of 8 and 16 bits, which are added up in float32 and rounded once."""

from __future__ import annotations

from .. import te
from ..ir.dtype import FLOAT32, DType
from ..te.shape import scalar_dtype
from ..te.tensor import Tensor
from .signatures import ElementType


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
