"""Quantisation in floats: what integers would hold, without becoming them, of a type that is told when the kernel is called."""

from __future__ import annotations

from typing import Any

from ...ir.expr import Expr
from ...ir.ops import convert
from ...te import polymorphic as te
from ...te.tensor import Tensor
from ..checks import normalize_axis, tensor
from ..transform import injective

__all__ = ["simulated_dequantize", "simulated_quantize"]

SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
SQNN_CODE_TO_DTYPE = {code: dtype for dtype, code in SQNN_DTYPE_TO_CODE.items()}


def simulated_quantize(
    data: Tensor,
    out_dtype: int | Expr | Tensor,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    axis: int = -1,
) -> Tensor:
    """round(x / scale) + zero_point within the range of a type, in the dtype of the data.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    out_dtype : int or expression or Tensor
        The code of the type (SQNN_DTYPE_TO_CODE), a number or a te.var; 0 leaves x as it is.
    output_scale : Tensor or None, default None
        An element for each place along the axis, or one that repeats.
    output_zero_point : Tensor or None, default None
        The same.
    axis : int, default -1
        That of the channels; negative ones count from the end.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source = tensor(data, "simulated_quantize")
    scale, zero = tensor(output_scale, "the scale", 1), tensor(output_zero_point, "the zero point", 1)
    at = normalize_axis(source, axis, "simulated_quantize")

    def element(*i: Any) -> Any:
        moved = (
            te.round(source[i] / scale[te.indexmod(i[at], scale.shape[0])]) + zero[te.indexmod(i[at], zero.shape[0])]
        )
        value: Any = source[i]
        for dtype in ("int8", "uint8", "int32"):
            low, high = (bound(dtype).astype(source.dtype) for bound in (te.min_value, te.max_value))
            within = te.max(te.min(moved.astype(source.dtype), high), low)
            value = te.if_then_else(_is(out_dtype, dtype), within, value)
        return value

    return injective(source.shape, element, "simulated_quantize")


def simulated_dequantize(
    data: Tensor,
    in_dtype: int | Expr | Tensor,
    input_scale: Tensor | None = None,
    input_zero_point: Tensor | None = None,
    axis: int = -1,
) -> Tensor:
    """(x - zero_point) * scale.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    in_dtype : int or expression or Tensor
        The code of the type (SQNN_DTYPE_TO_CODE), a number or a te.var; 0 leaves x as it is.
    input_scale : Tensor or None, default None
        An element for each place along the axis, or one that repeats.
    input_zero_point : Tensor or None, default None
        The same.
    axis : int, default -1
        That of the channels; negative ones count from the end.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source = tensor(data, "simulated_dequantize")
    scale, zero = tensor(input_scale, "the scale", 1), tensor(input_zero_point, "the zero point", 1)
    at = normalize_axis(source, axis, "simulated_dequantize")

    def element(*i: Any) -> Any:
        value = (source[i] - zero[te.indexmod(i[at], zero.shape[0])]) * scale[te.indexmod(i[at], scale.shape[0])]
        return te.if_then_else(
            te.any(*(_is(in_dtype, dtype) for dtype in ("int8", "uint8", "int32"))),
            value.astype(source.dtype),
            source[i],
        )

    return injective(source.shape, element, "simulated_dequantize")


def _is(code: Any, dtype: str) -> Any:
    value = tensor(code, "the code of a type", 0)() if isinstance(code, Tensor) else convert(code)
    return value.equal(SQNN_DTYPE_TO_CODE[dtype])
