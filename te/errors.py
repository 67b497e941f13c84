"""Errors of tensor expressions."""

from __future__ import annotations

from ..base.errors import TensorExpressionError


class BadExtent(TensorExpressionError):
    """An extent or a bound that is not an integer, is negative, or is not known before the kernel runs."""

    code = "TW0110"


class WrongParameters(TensorExpressionError):
    """The function that computes an element does not take one index for each dimension."""

    code = "TW0111"


class WrongNumberOfIndices(TensorExpressionError):
    """A tensor read with fewer or more indices than it has dimensions."""

    code = "TW0112"


class BadIndex(TensorExpressionError):
    """An index that is not an integer expression."""

    code = "TW0113"


class IndexOutOfRange(TensorExpressionError):
    """An index outside the tensor's shape, where a needed element reads or writes it."""

    code = "TW0114"


class BadBody(TensorExpressionError):
    """A compute's function that returns no value of an element."""

    code = "TW0115"


class NestedReduction(TensorExpressionError):
    """A reduction inside a larger expression."""

    code = "TW0116"


class MixedReductions(TensorExpressionError):
    """Outputs of one compute that cannot share one loop nest."""

    code = "TW0117"


class NotAReduceAxis(TensorExpressionError):
    """A reduction over something that te.reduce_axis did not make."""

    code = "TW0118"


class UnreducedAxis(TensorExpressionError):
    """A reduce axis that is used where no reduction runs over it."""

    code = "TW0119"


class ForeignAxis(TensorExpressionError):
    """An axis of one compute used in the body of another."""

    code = "TW0120"


class ShapesDoNotBroadcast(TensorExpressionError):
    """Whole tensors combined whose shapes do not match under numpy's broadcasting."""

    code = "TW0121"


class BadReducer(TensorExpressionError):
    """A combiner, identity, condition or init that does not fit what is reduced."""

    code = "TW0122"


class BadThreadAxis(TensorExpressionError):
    """A thread axis with an unknown tag, or none."""

    code = "TW0123"


class AmbiguousTensorTruth(TensorExpressionError):
    """A comparison of whole tensors has no single truth value."""

    code = "TW0124"


class TensorIsNotIterable(TensorExpressionError, TypeError):
    """A tensor used as if it were a Python sequence."""

    code = "TW0125"


class BadReinterpret(TensorExpressionError):
    """Bits read as a type of another width."""

    code = "TW0126"


class NotExtendable(TensorExpressionError, TypeError):
    """A boundary helper (te.clamped, te.mirrored, te.wrapped, te.padded) called on something that is not a tensor."""

    code = "TW0127"


class NoMatrixProduct(TensorExpressionError, TypeError):
    """The operator `@` between tensors: a product of matrices says the axis that it sums over."""

    code = "TW0129"


class NoSuchName(TensorExpressionError, AttributeError):
    """A name that the package, te, topi or a tensor does not have, or that cannot be assigned."""

    code = "TW0136"


class BadTensorIntrin(TensorExpressionError):
    """A tensor intrinsic whose operation, buffers or bodies do not fit each other."""

    code = "TW0132"


class BadDeclaredBuffer(TensorExpressionError):
    """A declared buffer whose strides, scope, alignment or offset_factor mean nothing."""

    code = "TW0133"


class BadOutsideCall(TensorExpressionError):
    """A call of outside code, or of an intrinsic by name, that says too little or the wrong thing."""

    code = "TW0134"


class UnknownIntrinsic(TensorExpressionError):
    """A shipped tensor intrinsic that does not exist, or not with these arguments."""

    code = "TW0135"


class BadConstant(TensorExpressionError):
    """A constant that is not an array of numbers that kernels compute with."""

    code = "TW0142"


class BadExtern(TensorExpressionError):
    """An extern whose inputs, outputs or body do not fit each other."""

    code = "TW0140"


class BadScan(TensorExpressionError):
    """A scan whose initial values, updates and states do not fit each other."""

    code = "TW0141"
