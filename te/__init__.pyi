"""Tensor expressions: what to compute, with no word about how; written by docs/make_faces.py."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, overload

import numpy as np

from ..ir.expr import Expr as Expr, IterVar as IterVar, SizeVar as SizeVar, Var as Var
from ..schedule import Schedule as Schedule, create_schedule as create_schedule
from . import blas as blas
from . import hybrid as hybrid
from . import intrinsics as intrinsics
from .autodiff import gradient as gradient
from .axis import reduce_axis as reduce_axis, size_var as size_var, thread_axis as thread_axis, var as var
from .boundaries import Extended as Extended, clamped as clamped, mirrored as mirrored, padded as padded, wrapped as wrapped
from .compute import compute as compute, placeholder as placeholder
from .constant import ConstantOp as ConstantOp, constant as constant
from .extern import ExternOp as ExternOp, extern as extern
from .extern_calls import (
    call_extern as call_extern,
    call_intrin as call_intrin,
    call_llvm_intrin as call_llvm_intrin,
    call_llvm_pure_intrin as call_llvm_pure_intrin,
    call_packed as call_packed,
    call_pure_extern as call_pure_extern,
    target_has as target_has,
)
from .intrin_declaration import decl_buffer as decl_buffer, decl_tensor_intrin as decl_tensor_intrin
from .math import const as const, infinity as infinity, max_value as max_value, min_value as min_value
from .operation import ComputeOp as ComputeOp, Operation as Operation, PlaceholderOp as PlaceholderOp
from .scan import ScanOp as ScanOp, scan as scan
from .tag import tag_scope as tag_scope
from .tensor import Tensor as Tensor, TensorRegion as TensorRegion, TensorSlice as TensorSlice
from .tensor_compute import TensorComputeOp as TensorComputeOp
from .tensor_intrin import TensorIntrin as TensorIntrin
from .tf32 import tf32 as tf32
from .trace import trace as trace

__all__ = [
    "ComputeOp", "ConstantOp", "Expr", "Extended", "ExternOp", "IterVar", "Operation", "PlaceholderOp", "ScanOp", "Schedule",
    "SizeVar", "Tensor", "TensorComputeOp", "TensorIntrin", "TensorRegion", "TensorSlice", "Var", "abs", "acos", "acosh", "all",
    "any", "asin", "asinh", "atan", "atan2", "atanh", "blas", "call_extern", "call_intrin", "call_llvm_intrin",
    "call_llvm_pure_intrin", "call_packed", "call_pure_extern", "ceil", "ceildiv", "clamped", "clz", "comm_reducer", "compute",
    "const", "constant", "copysign", "cos", "cosh", "create_schedule", "decl_buffer", "decl_tensor_intrin", "div", "erf", "exp",
    "exp10", "exp2", "expm1", "extern", "floor", "floordiv", "floormod", "fma", "fmod", "gradient", "hybrid", "hypot",
    "if_then_else", "indexdiv", "indexmod", "infinity", "intrinsics", "isfinite", "isinf", "isnan", "likely", "log", "log10",
    "log1p", "log2", "max", "max_value", "min", "min_value", "mirrored", "nearbyint", "padded", "placeholder", "popcount",
    "pow", "power", "prod", "reduce_axis", "reinterpret", "round", "rsqrt", "scan", "select", "sigmoid", "sin", "sinh",
    "size_var", "sqrt", "sum", "tag_scope", "tan", "tanh", "target_has", "tf32", "thread_axis", "trace", "trunc", "truncdiv",
    "truncmod", "var", "wrapped",
]

_Scalar: TypeAlias = Expr | float | np.generic
_Operand: TypeAlias = Tensor | _Scalar
_Axes: TypeAlias = IterVar | Sequence[IterVar]

class _Reduction(Protocol):
    def __call__(self, expr: _Scalar, axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr: ...

class _SeveralReductions(Protocol):
    def __call__(
        self, expr: Sequence[_Scalar], axis: _Axes, where: _Scalar | None = None, init: Sequence[_Scalar] | None = None,
    ) -> tuple[Expr, ...]: ...

class _OfKinds(Protocol):
    def __call__(self, *kinds: str) -> Sequence[_Scalar]: ...

@overload
def comm_reducer(
    fcombine: Callable[[Expr, Expr], _Scalar], fidentity: Callable[[str], _Scalar], name: str = "reduce",
) -> _Reduction:
    """A reduction by a combiner of one's own.

    What it means is a left fold, in the order of the axes, that begins with the identity. Schedules split and reorder it where the laws
    that this takes are proved; docs/numerics.md says how.

    Parameters
    ----------
    fcombine : callable
        (x, y) -> the combination; over tuples, x and y are tuples and so is the result.
    fidentity : callable
        Takes the dtype of each reduced value, returns the neutral element (a tuple over tuples).
    name : str, default "reduce"
        Of the reduction.

    Raises
    ------
    BadReducer (TW0122)
        fcombine does not take two values. The values that both return are checked when the reduction is made."""
@overload
def comm_reducer(
    fcombine: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[_Scalar]],
    fidentity: Callable[[str, str], Sequence[_Scalar]] | Callable[[str, str, str], Sequence[_Scalar]] | _OfKinds,
    name: str = "reduce",
) -> _SeveralReductions: ...

def sum(expr: _Scalar, axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr:
    """The sum of `expr` over one or several axes.

    te.sum(expr, axis, where=None, init=None), in the dtype of expr: integers wrap, and bools are counted in int32. Where the
    outermost operator of expr is a product of float32 or float64, the product is fused into the sum (one rounding) on targets that
    fuse; a product that comes in by inlining is not. axis, where, init: as Reducer's. Raises NotAReduceAxis (TW0118)."""

def prod(expr: _Scalar, axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr:
    """The product of `expr` over one or several axes.

    te.prod(expr, axis, where=None, init=None), in the dtype of expr (int32 for bools): integers wrap."""

@overload
def min(expr: _Scalar, axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr:
    """The least of `expr` over one or several axes, or of values.

    te.min(expr, axis, where=None, init=None), or te.min(a, b, ...) of values. Of NaNs it is NaN."""
@overload
def min(expr: _Scalar, second: _Scalar, /, *more: _Scalar) -> Expr: ...
@overload
def min(expr: Tensor, second: _Operand, /, *more: _Operand) -> Tensor: ...
@overload
def min(expr: _Scalar, second: Tensor, /, *more: _Operand) -> Tensor: ...

@overload
def max(expr: _Scalar, axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr:
    """The greatest of `expr` over one or several axes, or of values.

    te.max(expr, axis, where=None, init=None), or te.max(a, b, ...) of values. Of NaNs it is NaN."""
@overload
def max(expr: _Scalar, second: _Scalar, /, *more: _Scalar) -> Expr: ...
@overload
def max(expr: Tensor, second: _Operand, /, *more: _Operand) -> Tensor: ...
@overload
def max(expr: _Scalar, second: Tensor, /, *more: _Operand) -> Tensor: ...


@overload
def abs(x: _Scalar) -> Expr:
    """|x|, in its shape and dtype; the least int8 and its like wrap to themselves. Raises NotAnExpression (TW0106)."""
@overload
def abs(x: Tensor) -> Tensor: ...

@overload
def acos(x: _Scalar, /) -> Expr:
    """The arc cosine, in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def acos(x: Tensor, /) -> Tensor: ...

@overload
def acosh(x: _Scalar, /) -> Expr:
    """The inverse hyperbolic cosine.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def acosh(x: Tensor, /) -> Tensor: ...

@overload
def all(*conditions: _Scalar) -> Expr:
    """Return whether every condition holds (true for none), as bool. Tensors broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
@overload
def all(first: Tensor, *conditions: _Operand) -> Tensor: ...
@overload
def all(first: _Scalar, second: Tensor, *conditions: _Operand) -> Tensor: ...

@overload
def any(*conditions: _Scalar) -> Expr:
    """Return whether some condition holds (false for none), as bool. Tensors broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
@overload
def any(first: Tensor, *conditions: _Operand) -> Tensor: ...
@overload
def any(first: _Scalar, second: Tensor, *conditions: _Operand) -> Tensor: ...

@overload
def asin(x: _Scalar, /) -> Expr:
    """The arc sine, in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def asin(x: Tensor, /) -> Tensor: ...

@overload
def asinh(x: _Scalar, /) -> Expr:
    """The inverse hyperbolic sine.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def asinh(x: Tensor, /) -> Tensor: ...

@overload
def atan(x: _Scalar, /) -> Expr:
    """The arc tangent, in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def atan(x: Tensor, /) -> Tensor: ...

@overload
def atan2(x: _Scalar, y: _Scalar, /) -> Expr:
    """The angle of the point (y, x) = operands, in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 2."""
@overload
def atan2(x: Tensor, y: _Operand, /) -> Tensor: ...
@overload
def atan2(x: _Scalar, y: Tensor, /) -> Tensor: ...

@overload
def atanh(x: _Scalar, /) -> Expr:
    """The inverse hyperbolic tangent.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def atanh(x: Tensor, /) -> Tensor: ...

@overload
def ceil(x: _Scalar, /) -> Expr:
    """The least whole number not below x; an integer is returned as it is.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def ceil(x: Tensor, /) -> Tensor: ...

@overload
def ceildiv(a: _Scalar, b: _Scalar) -> Expr:
    """a / b rounded up, whatever the signs; x / 0 is 0 for integers. Tensors broadcast; the result has the dtype that the two meet
    in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def ceildiv(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def ceildiv(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def clz(x: _Scalar, /) -> Expr:
    """The number of leading zero bits, as int32 (the width where x is 0).

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def clz(x: Tensor, /) -> Tensor: ...

@overload
def copysign(x: _Scalar, y: _Scalar, /) -> Expr:
    """The magnitude of the first with the sign of the second.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 2."""
@overload
def copysign(x: Tensor, y: _Operand, /) -> Tensor: ...
@overload
def copysign(x: _Scalar, y: Tensor, /) -> Tensor: ...

@overload
def cos(x: _Scalar, /) -> Expr:
    """The cosine of x in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def cos(x: Tensor, /) -> Tensor: ...

@overload
def cosh(x: _Scalar, /) -> Expr:
    """The hyperbolic cosine.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def cosh(x: Tensor, /) -> Tensor: ...

@overload
def div(a: _Scalar, b: _Scalar) -> Expr:
    """a / b: of floats the quotient. Tensors broadcast. Raises AmbiguousDivision (TW0103) of two integers, as `/` does,
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def div(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def div(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def erf(x: _Scalar, /) -> Expr:
    """The error function.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def erf(x: Tensor, /) -> Tensor: ...

@overload
def exp(x: _Scalar, /) -> Expr:
    """e ** x. An integer is converted to float32, here and below.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def exp(x: Tensor, /) -> Tensor: ...

@overload
def exp10(x: _Scalar, /) -> Expr:
    """10 ** x.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def exp10(x: Tensor, /) -> Tensor: ...

@overload
def exp2(x: _Scalar, /) -> Expr:
    """2 ** x.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def exp2(x: Tensor, /) -> Tensor: ...

@overload
def expm1(x: _Scalar, /) -> Expr:
    """exp(x) - 1, exact near 0.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def expm1(x: Tensor, /) -> Tensor: ...

@overload
def floor(x: _Scalar, /) -> Expr:
    """The greatest whole number not above x; an integer is returned as it is.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def floor(x: Tensor, /) -> Tensor: ...

@overload
def floordiv(a: _Scalar, b: _Scalar) -> Expr:
    """a // b as Python's: rounded towards minus infinity; x // 0 = 0 for integers. Tensors broadcast; the result has the dtype
    that the two meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def floordiv(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def floordiv(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def floormod(a: _Scalar, b: _Scalar) -> Expr:
    """a % b as Python's, with the sign of b; x % 0 = 0 for integers. Tensors broadcast; the result has the dtype that the two
    meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def floormod(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def floormod(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def fma(x: _Scalar, y: _Scalar, z: _Scalar, /) -> Expr:
    """a * b + c, rounded once.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 3."""
@overload
def fma(x: Tensor, y: _Operand, z: _Operand, /) -> Tensor: ...
@overload
def fma(x: _Scalar, y: Tensor, z: _Operand, /) -> Tensor: ...
@overload
def fma(x: _Scalar, y: _Scalar, z: Tensor, /) -> Tensor: ...

@overload
def fmod(x: _Scalar, y: _Scalar) -> Expr:
    """C's remainder, with the sign of x, in the shape to which both broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
@overload
def fmod(x: Tensor, y: _Operand) -> Tensor: ...
@overload
def fmod(x: _Scalar, y: Tensor) -> Tensor: ...

@overload
def hypot(x: _Scalar, y: _Scalar, /) -> Expr:
    """sqrt(a * a + b * b) without overflow on the way.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 2."""
@overload
def hypot(x: Tensor, y: _Operand, /) -> Tensor: ...
@overload
def hypot(x: _Scalar, y: Tensor, /) -> Tensor: ...

@overload
def if_then_else(condition: _Scalar, true_value: _Scalar, false_value: _Scalar) -> Expr:
    """One of two values; only the chosen one is evaluated, so the other may read out of range (padding).

    Parameters
    ----------
    condition : Expr, Tensor or bool
        Chooses.
    true_value : Expr, Tensor or number
        The value where it holds.
    false_value : Expr, Tensor or number
        The value where it does not.

    Returns
    -------
    Expr or Tensor
        Of the dtype that the two values meet in. Tensors broadcast.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand is neither an expression nor a number.
    ShapesDoNotBroadcast (TW0121)
        Tensors do not broadcast."""
@overload
def if_then_else(condition: Tensor, true_value: _Operand, false_value: _Operand) -> Tensor: ...
@overload
def if_then_else(condition: _Scalar, true_value: Tensor, false_value: _Operand) -> Tensor: ...
@overload
def if_then_else(condition: _Scalar, true_value: _Scalar, false_value: Tensor) -> Tensor: ...

@overload
def indexdiv(a: _Scalar, b: _Scalar) -> Expr:
    """The quotient of indices, neither of which is negative: floordiv. Tensors broadcast; the result has the dtype that the two
    meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def indexdiv(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def indexdiv(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def indexmod(a: _Scalar, b: _Scalar) -> Expr:
    """The remainder of indices, neither of which is negative: floormod. Tensors broadcast; the result has the dtype that the
    two meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def indexmod(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def indexmod(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def isfinite(x: _Scalar, /) -> Expr:
    """Whether x is neither a NaN nor infinite, as bool.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def isfinite(x: Tensor, /) -> Tensor: ...

@overload
def isinf(x: _Scalar, /) -> Expr:
    """Whether x is infinite, as bool.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def isinf(x: Tensor, /) -> Tensor: ...

@overload
def isnan(x: _Scalar, /) -> Expr:
    """Whether x is a NaN, as bool.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def isnan(x: Tensor, /) -> Tensor: ...

@overload
def likely(condition: _Scalar) -> Expr:
    """The condition, known to hold nearly always: loop partitioning peels the iterations where it may not. Raises
    NotAnExpression (TW0106)."""
@overload
def likely(condition: Tensor) -> Tensor: ...

@overload
def log(x: _Scalar, /) -> Expr:
    """The natural logarithm.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def log(x: Tensor, /) -> Tensor: ...

@overload
def log10(x: _Scalar, /) -> Expr:
    """The logarithm to base 10.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def log10(x: Tensor, /) -> Tensor: ...

@overload
def log1p(x: _Scalar, /) -> Expr:
    """log(1 + x), exact near 0.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def log1p(x: Tensor, /) -> Tensor: ...

@overload
def log2(x: _Scalar, /) -> Expr:
    """The logarithm to base 2.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def log2(x: Tensor, /) -> Tensor: ...

@overload
def nearbyint(x: _Scalar, /) -> Expr:
    """The nearest whole number, halves to even (numpy's round); an integer as it is.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def nearbyint(x: Tensor, /) -> Tensor: ...

@overload
def popcount(x: _Scalar, /) -> Expr:
    """The number of bits that are set, in the dtype of x.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def popcount(x: Tensor, /) -> Tensor: ...

@overload
def pow(x: _Scalar, y: _Scalar) -> Expr:
    """x ** y, in the shape to which they broadcast. Integers take a constant exponent from 0 to 1024; everything else is computed in
    floats. Raises MixedTypes (TW0104), NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def pow(x: Tensor, y: _Operand) -> Tensor: ...
@overload
def pow(x: _Scalar, y: Tensor) -> Tensor: ...

@overload
def power(x: _Scalar, y: _Scalar) -> Expr:
    """x ** y, in the shape to which they broadcast. Integers take a constant exponent from 0 to 1024; everything else is computed in
    floats. Raises MixedTypes (TW0104), NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def power(x: Tensor, y: _Operand) -> Tensor: ...
@overload
def power(x: _Scalar, y: Tensor) -> Tensor: ...

@overload
def reinterpret(dtype: object, value: _Scalar) -> Expr:
    """The bits of `value`, a scalar or a tensor, read as `dtype`, which has the same width. Raises BadReinterpret (TW0126),
    UnknownDType (TW0101)."""
@overload
def reinterpret(dtype: object, value: Tensor) -> Tensor: ...

@overload
def round(x: _Scalar, /) -> Expr:
    """The nearest whole number, halves away from zero (C's round); an integer as it is.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def round(x: Tensor, /) -> Tensor: ...

@overload
def rsqrt(x: _Scalar, /) -> Expr:
    """1 / sqrt(x).

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def rsqrt(x: Tensor, /) -> Tensor: ...

@overload
def select(condition: _Scalar, true_value: _Scalar, false_value: _Scalar) -> Expr:
    """One of two values; both may be evaluated, which vectorizes best.

    Parameters
    ----------
    condition : Expr, Tensor or bool
        Chooses.
    true_value : Expr, Tensor or number
        The value where it holds.
    false_value : Expr, Tensor or number
        The value where it does not.

    Returns
    -------
    Expr or Tensor
        Of the dtype that the two values meet in. Tensors broadcast.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand is neither an expression nor a number.
    ShapesDoNotBroadcast (TW0121)
        Tensors do not broadcast."""
@overload
def select(condition: Tensor, true_value: _Operand, false_value: _Operand) -> Tensor: ...
@overload
def select(condition: _Scalar, true_value: Tensor, false_value: _Operand) -> Tensor: ...
@overload
def select(condition: _Scalar, true_value: _Scalar, false_value: Tensor) -> Tensor: ...

@overload
def sigmoid(x: _Scalar, /) -> Expr:
    """1 / (1 + exp(-x)).

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def sigmoid(x: Tensor, /) -> Tensor: ...

@overload
def sin(x: _Scalar, /) -> Expr:
    """The sine of x in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def sin(x: Tensor, /) -> Tensor: ...

@overload
def sinh(x: _Scalar, /) -> Expr:
    """The hyperbolic sine.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def sinh(x: Tensor, /) -> Tensor: ...

@overload
def sqrt(x: _Scalar, /) -> Expr:
    """The square root.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def sqrt(x: Tensor, /) -> Tensor: ...

@overload
def tan(x: _Scalar, /) -> Expr:
    """The tangent of x in radians.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def tan(x: Tensor, /) -> Tensor: ...

@overload
def tanh(x: _Scalar, /) -> Expr:
    """The hyperbolic tangent.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def tanh(x: Tensor, /) -> Tensor: ...

@overload
def trunc(x: _Scalar, /) -> Expr:
    """x without its fraction; an integer is returned as it is.

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than 1."""
@overload
def trunc(x: Tensor, /) -> Tensor: ...

@overload
def truncdiv(a: _Scalar, b: _Scalar) -> Expr:
    """a / b as C's on integers: rounded towards zero. Tensors broadcast; the result has the dtype that the two meet in. Raises
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def truncdiv(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def truncdiv(a: _Scalar, b: Tensor) -> Tensor: ...

@overload
def truncmod(a: _Scalar, b: _Scalar) -> Expr:
    """C's % on integers: with the sign of a. Tensors broadcast; the result has the dtype that the two meet in. Raises
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
@overload
def truncmod(a: Tensor, b: _Operand) -> Tensor: ...
@overload
def truncmod(a: _Scalar, b: Tensor) -> Tensor: ...
