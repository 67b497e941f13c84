"""te.constant: tensors whose elements are known when the kernel is built, such as the weights of a model.

    w = te.constant(weights)                        # a copy of a numpy array
    y = topi.nn.dense(x, w)
    f = tw.build([x, y])                            # w is no argument

A model's kernels are shared by layers of other weights: they read constants that are open, given after the kernel was built.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..base import TilewrightError, dataclass, user_source
from ..ir.constant import Constant, aligned_copy
from ..ir.expr import Expr
from .errors import BadConstant
from .operation import GivenOp
from .shape import convert_shape, scalar_dtype
from .tensor import Tensor

__all__ = ["ConstantOp", "constant", "open_constant"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConstantOp(GivenOp):
    """A tensor whose elements are known: the kernel has them with it, and nobody passes them."""

    value: Constant
    kind: ClassVar[str] = "constant"
    noun: ClassVar[str] = "a constant: its elements are known"

    @property
    def constant(self) -> Constant | None:
        return self.value


def constant(array: Any, name: str = "constant") -> Tensor:
    """A tensor that holds what `array` holds now.

    array: a numpy array (of bool, int8 to int64, uint8 to uint64, float16 to float64, or ml_dtypes' int4, uint4, bfloat16,
    float8_e4m3fn and float8_e5m2) of any shape, or what numpy makes one of; Python's own numbers and lists of them are float32, int32 or
    bool, as everywhere. It is copied.
    The tensor has the array's shape and dtype. What is computed from constants alone and stored at root is computed when the kernel
    is built, not when it is called. Raises BadConstant (TW0142) for arrays of other types, and for what is no array.
    """
    elements = _convert_array(array, name)
    op = ConstantOp(
        name=name,
        shape=convert_shape(elements.shape, name),
        dtype=scalar_dtype(str(elements.dtype)),
        value=Constant(name, aligned_copy(elements)),
        source=user_source(),
    )
    return op.output(0)


def open_constant(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Tensor:
    """A tensor whose elements are given once, after the kernel is built: what is computed from such alone and stored at root is
    computed then, and not in each call."""
    op = ConstantOp(
        name=name,
        shape=convert_shape(shape, name),
        dtype=scalar_dtype(str(dtype)),
        value=Constant.open(name, shape, dtype),
        source=user_source(),
    )
    return op.output(0)


def _convert_array(value: Any, name: str) -> NDArray[Any]:
    """The elements in this machine's byte order, without the gaps of a view."""
    if isinstance(value, (Tensor, Expr)):
        raise _bad(name, f"{value!r} is computed by the program"[:200], "pass a numpy array")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise _bad(name, f"numpy makes no array of it: {problem}"[:300], "pass a numpy array") from None
    if not hasattr(value, "dtype"):
        array = _convert_numbers(array, name)
    kind = array.dtype.newbyteorder("=")
    try:
        scalar_dtype(kind.name)
    except TilewrightError:
        raise _bad(
            name, f"its elements are of numpy's {array.dtype}, which no kernel computes with", 'array.astype("float32")'
        ) from None
    return array.astype(kind, copy=False)


def _convert_numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Python's floats are float32 and its integers int32, as te.const makes them."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype != np.int64:
        return array
    narrow = array.astype(np.int32)
    if not np.array_equal(narrow, array):
        raise _bad(name, "integers of Python are int32, and one of them does not fit", 'np.asarray(values, "int64")')
    return narrow


def _bad(name: str, reason: str, fix: str) -> BadConstant:
    return BadConstant(
        f"cannot make the constant {name}",
        reason=reason,
        called=user_source(),
        allowed="arrays of bool, integers of 4 bits and more, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32 and float64",
        fix=fix,
    )
