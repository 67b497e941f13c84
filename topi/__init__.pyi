"""The operators of tilewright.topi; written by docs/make_faces.py."""

from typing import Any, TypeAlias, overload

import numpy as np

from ..te import Expr, Tensor
from . import image as image, nn as nn, random as random, vision as vision
from ..driver.schedule import schedule as schedule
from .arrangement import (
    adv_index as adv_index,
    collapse_sum as collapse_sum,
    expand_like as expand_like,
    matrix_set_diag as matrix_set_diag,
    meshgrid as meshgrid,
    ndarray_size as ndarray_size,
    reverse_sequence as reverse_sequence,
    sequence_mask as sequence_mask,
    shape as shape,
    sliding_window as sliding_window,
    strided_set as strided_set,
    trilu as trilu,
    unravel_index as unravel_index,
)
from .contraction import einsum as einsum, tensordot as tensordot
from .coordinates import argwhere as argwhere, sparse_reshape as sparse_reshape, sparse_to_dense as sparse_to_dense
from .cumulative import cumprod as cumprod, cumsum as cumsum
from .elementwise import elemwise_sum as elemwise_sum
from .filling import (
    arange as arange,
    broadcast_to as broadcast_to,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from .fixed_point import fixed_point_multiply as fixed_point_multiply
from .fourier import dft as dft, stft as stft
from .linear_algebra import det as det
from .lookups import gather as gather, gather_nd as gather_nd, one_hot as one_hot, take as take
from .matmul import batch_matmul as batch_matmul, matmul as matmul
from .order import (
    argsort as argsort,
    invert_permutation as invert_permutation,
    scatter_elements as scatter_elements,
    scatter_nd as scatter_nd,
    sort as sort,
    topk as topk,
)
from .reduction import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    sum as sum,
)
from .sets import searchsorted as searchsorted, unique as unique
from .transform import (
    concatenate as concatenate,
    expand_dims as expand_dims,
    flip as flip,
    layout_transform as layout_transform,
    pad as pad,
    repeat as repeat,
    reshape as reshape,
    split as split,
    squeeze as squeeze,
    stack as stack,
    strided_slice as strided_slice,
    tile as tile,
    transpose as transpose,
)

_Scalar: TypeAlias = Expr | float | np.generic
_Operand: TypeAlias = Tensor | _Scalar

@overload
def abs(x: _Scalar) -> Expr:
    """|x| in its dtype; the least int8 and its like wrap to themselves.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def abs(x: Tensor) -> Tensor: ...

@overload
def acos(x: _Scalar) -> Expr:
    """The arc cosine, in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def acos(x: Tensor) -> Tensor: ...

@overload
def acosh(x: _Scalar) -> Expr:
    """The inverse hyperbolic cosine.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def acosh(x: Tensor) -> Tensor: ...

@overload
def add(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs + rhs.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def add(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def add(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def asin(x: _Scalar) -> Expr:
    """The arc sine, in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def asin(x: Tensor) -> Tensor: ...

@overload
def asinh(x: _Scalar) -> Expr:
    """The inverse hyperbolic sine.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def asinh(x: Tensor) -> Tensor: ...

@overload
def atan(x: _Scalar) -> Expr:
    """The arc tangent, in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def atan(x: Tensor) -> Tensor: ...

@overload
def atan2(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The angle of the point (rhs, lhs), in radians.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def atan2(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def atan2(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def atanh(x: _Scalar) -> Expr:
    """The inverse hyperbolic tangent.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def atanh(x: Tensor) -> Tensor: ...

@overload
def bitwise_and(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs & rhs of integers, or of bools.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def bitwise_and(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def bitwise_and(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def bitwise_not(x: _Scalar) -> Expr:
    """~x of an integer, or of a bool.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def bitwise_not(x: Tensor) -> Tensor: ...

@overload
def bitwise_or(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs | rhs of integers, or of bools.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def bitwise_or(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def bitwise_or(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def bitwise_xor(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs ^ rhs of integers, or of bools.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def bitwise_xor(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def bitwise_xor(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def cast(x: _Scalar, dtype: object) -> Expr:
    """x converted to `dtype`, in its shape: to integers towards zero, to bool whether it is not 0. Raises UnknownDType (TW0101),
    NotAnExpression (TW0106)."""
@overload
def cast(x: Tensor, dtype: object) -> Tensor: ...

@overload
def ceil(x: _Scalar) -> Expr:
    """The least whole number not below x; an integer is returned as it is.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def ceil(x: Tensor) -> Tensor: ...

@overload
def ceil_log2(x: _Scalar) -> Expr:
    """The least integer n for which 2 ** n is not below x, in the shape and the dtype of x: of an integer from 1 on exact, of a
    float ceil(log2(x)). Raises NotAnExpression (TW0106)."""
@overload
def ceil_log2(x: Tensor) -> Tensor: ...

@overload
def clip(x: _Scalar, a_min: Any, a_max: Any) -> Expr:
    """min(max(x, a_min), a_max). A NaN stays a NaN.

    Parameters
    ----------
    x : Tensor, number or expression
        Of any shape.
    a_min : number or expression
        The least value; one that an integer dtype does not hold is its end.
    a_max : number or expression
        The greatest value.

    Returns
    -------
    Tensor or expression
        The shape and the dtype of x.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor."""
@overload
def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor: ...

@overload
def cos(x: _Scalar) -> Expr:
    """The cosine of x in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def cos(x: Tensor) -> Tensor: ...

@overload
def cosh(x: _Scalar) -> Expr:
    """The hyperbolic cosine.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def cosh(x: Tensor) -> Tensor: ...

@overload
def divide(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs / rhs of floats. Two integers are refused, as by `/`: floor_divide and trunc_divide say which quotient is meant.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), AmbiguousDivision (TW0103)."""
@overload
def divide(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def divide(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def equal(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs == rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def equal(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def equal(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def erf(x: _Scalar) -> Expr:
    """The error function.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def erf(x: Tensor) -> Tensor: ...

@overload
def exp(x: _Scalar) -> Expr:
    """e ** x. An integer is converted to float32, here and below.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def exp(x: Tensor) -> Tensor: ...

@overload
def exp10(x: _Scalar) -> Expr:
    """10 ** x.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def exp10(x: Tensor) -> Tensor: ...

@overload
def exp2(x: _Scalar) -> Expr:
    """2 ** x.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def exp2(x: Tensor) -> Tensor: ...

@overload
def expm1(x: _Scalar) -> Expr:
    """exp(x) - 1, exact near 0.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def expm1(x: Tensor) -> Tensor: ...

@overload
def floor(x: _Scalar) -> Expr:
    """The greatest whole number not above x; an integer is returned as it is.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def floor(x: Tensor) -> Tensor: ...

@overload
def floor_divide(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The quotient rounded towards minus infinity, as Python's and numpy's (1.0 // 0.1 is 9); of integers x // 0 = 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def floor_divide(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def floor_divide(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def floor_mod(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The remainder with the sign of rhs, as Python's and numpy's; of integers x % 0 = 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def floor_mod(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def floor_mod(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def greater(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs > rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def greater(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def greater(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def greater_equal(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs >= rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def greater_equal(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def greater_equal(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def hypot(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """sqrt(lhs ** 2 + rhs ** 2), without overflow on the way.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def hypot(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def hypot(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def identity(x: _Scalar) -> Expr:
    """x itself, as a tensor of its own.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def identity(x: Tensor) -> Tensor: ...

@overload
def isfinite(x: _Scalar) -> Expr:
    """Whether x is neither a NaN nor infinite, as bool.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and the dtype bool. Raises NotAnExpression (TW0106)."""
@overload
def isfinite(x: Tensor) -> Tensor: ...

@overload
def isinf(x: _Scalar) -> Expr:
    """Whether x is infinite, as bool.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and the dtype bool. Raises NotAnExpression (TW0106)."""
@overload
def isinf(x: Tensor) -> Tensor: ...

@overload
def isnan(x: _Scalar) -> Expr:
    """Whether x is a NaN, as bool.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and the dtype bool. Raises NotAnExpression (TW0106)."""
@overload
def isnan(x: Tensor) -> Tensor: ...

@overload
def left_shift(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs << rhs of integers; bits that leave on the left are lost, all of them where rhs is below 0 or the width or more.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def left_shift(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def left_shift(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def less(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs < rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def less(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def less(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def less_equal(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs <= rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def less_equal(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def less_equal(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def log(x: _Scalar) -> Expr:
    """The natural logarithm.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def log(x: Tensor) -> Tensor: ...

@overload
def log10(x: _Scalar) -> Expr:
    """The logarithm to base 10.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def log10(x: Tensor) -> Tensor: ...

@overload
def log1p(x: _Scalar) -> Expr:
    """log(1 + x), exact near 0.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def log1p(x: Tensor) -> Tensor: ...

@overload
def log2(x: _Scalar) -> Expr:
    """The logarithm to base 2.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def log2(x: Tensor) -> Tensor: ...

@overload
def log_add_exp(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """log(exp(lhs) + exp(rhs)), without overflow on the way.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def log_add_exp(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def log_add_exp(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def logical_and(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether both hold, as bool; a number holds where it is not 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def logical_and(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def logical_and(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def logical_not(x: _Scalar) -> Expr:
    """Whether x does not hold, as bool; a number holds where it is not 0.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and the dtype bool. Raises NotAnExpression (TW0106)."""
@overload
def logical_not(x: Tensor) -> Tensor: ...

@overload
def logical_or(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether at least one holds, as bool; a number holds where it is not 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def logical_or(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def logical_or(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def logical_xor(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether exactly one holds, as bool; a number holds where it is not 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def logical_xor(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def logical_xor(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def maximum(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The greater one; a NaN where either is a NaN.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def maximum(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def maximum(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def minimum(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The lesser one; a NaN where either is a NaN.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def minimum(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def minimum(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def mod(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The remainder with the sign of lhs, as TVM has it under this name: trunc_mod. numpy's mod is floor_mod.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape, and the
    dtype that te's rules give to the two together; it is an expression where neither is a tensor. Raises ShapesDoNotBroadcast
    (TW0121), NotAnExpression (TW0106)."""
@overload
def mod(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def mod(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def multiply(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs * rhs.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def multiply(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def multiply(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def nearbyint(x: _Scalar) -> Expr:
    """The nearest whole number, halves to even, as numpy's round.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def nearbyint(x: Tensor) -> Tensor: ...

@overload
def negative(x: _Scalar) -> Expr:
    """-x.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def negative(x: Tensor) -> Tensor: ...

@overload
def not_equal(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """Whether lhs != rhs, as bool.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype bool; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def not_equal(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def not_equal(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def power(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs ** rhs. Integers take a constant exponent from 0 to 1024, all else is computed in floats.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def power(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def power(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def reinterpret(x: _Scalar, dtype: object) -> Expr:
    """The bits of x read as `dtype`, which has the same width, in the shape of x. Raises BadReinterpret (TW0126), UnknownDType
    (TW0101)."""
@overload
def reinterpret(x: Tensor, dtype: object) -> Tensor: ...

@overload
def right_shift(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs >> rhs of integers; the sign stays, and alone where rhs is below 0 or the width or more.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106), MixedTypes (TW0104)."""
@overload
def right_shift(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def right_shift(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def round(x: _Scalar) -> Expr:
    """The nearest whole number, halves away from zero, as TVM's and C's round; numpy's is nearbyint.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def round(x: Tensor) -> Tensor: ...

@overload
def rsqrt(x: _Scalar) -> Expr:
    """1 / sqrt(x).

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def rsqrt(x: Tensor) -> Tensor: ...

@overload
def sigmoid(x: _Scalar) -> Expr:
    """1 / (1 + exp(-x)).

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def sigmoid(x: Tensor) -> Tensor: ...

@overload
def sign(x: _Scalar) -> Expr:
    """-1, 0 or 1 in the shape and the dtype of x, after its sign; a NaN of a NaN. Raises NotAnExpression (TW0106)."""
@overload
def sign(x: Tensor) -> Tensor: ...

@overload
def sin(x: _Scalar) -> Expr:
    """The sine of x in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def sin(x: Tensor) -> Tensor: ...

@overload
def sinh(x: _Scalar) -> Expr:
    """The hyperbolic sine.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def sinh(x: Tensor) -> Tensor: ...

@overload
def sqrt(x: _Scalar) -> Expr:
    """The square root.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def sqrt(x: Tensor) -> Tensor: ...

@overload
def square(x: _Scalar) -> Expr:
    """x * x.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def square(x: Tensor) -> Tensor: ...

@overload
def subtract(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """lhs - rhs.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def subtract(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def subtract(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def tan(x: _Scalar) -> Expr:
    """The tangent of x in radians.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def tan(x: Tensor) -> Tensor: ...

@overload
def tanh(x: _Scalar) -> Expr:
    """The hyperbolic tangent.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype where that is a float, else float32. Raises NotAnExpression (TW0106)."""
@overload
def tanh(x: Tensor) -> Tensor: ...

@overload
def trunc(x: _Scalar) -> Expr:
    """x without its fraction; an integer is returned as it is.

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    and its dtype. Raises NotAnExpression (TW0106)."""
@overload
def trunc(x: Tensor) -> Tensor: ...

@overload
def trunc_divide(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The quotient rounded towards zero: of floats trunc(lhs / rhs), in float32 at least; of integers C's, x / 0 = 0.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def trunc_divide(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def trunc_divide(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def trunc_mod(lhs: _Scalar, rhs: _Scalar) -> Expr:
    """The remainder with the sign of lhs, as C's and numpy's fmod.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    and the dtype that te's rules give to the two together; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106)."""
@overload
def trunc_mod(lhs: Tensor, rhs: _Operand) -> Tensor: ...
@overload
def trunc_mod(lhs: _Scalar, rhs: Tensor) -> Tensor: ...

@overload
def where(condition: _Scalar, x: _Scalar, y: _Scalar) -> Expr:
    """x where the condition holds, y elsewhere. Shapes broadcast as numpy's do.

    Parameters
    ----------
    condition : Tensor, number or expression
        A bool, or a number that is not 0.
    x : Tensor, number or expression
        Where it holds.
    y : Tensor, number or expression
        Elsewhere.

    Returns
    -------
    Tensor or expression
        The broadcast shape, and the dtype that te's rules give to x and y together.

    Raises
    ------
    ShapesDoNotBroadcast (TW0121)
        Shapes that do not broadcast.
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor."""
@overload
def where(condition: Tensor, x: _Operand, y: _Operand) -> Tensor: ...
@overload
def where(condition: _Scalar, x: Tensor, y: _Operand) -> Tensor: ...
@overload
def where(condition: _Scalar, x: _Scalar, y: Tensor) -> Tensor: ...
