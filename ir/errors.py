"""Errors of expressions, and of texts that should be functions."""

from __future__ import annotations

from ..base.errors import CallError, LoweringError, TensorExpressionError


class FunctionNameTaken(TensorExpressionError):
    """A Python function registered under a name that another one has."""

    code = "TW0108"


class CallbackFailed(CallError):
    """A Python function that a kernel called (te.call_packed) raised; what it raised is this error's cause."""

    code = "TW0527"


class UnknownDType(TensorExpressionError):
    """A dtype that tilewright does not have."""

    code = "TW0101"


class AmbiguousTruth(TensorExpressionError):
    """A symbolic condition has no truth value while the program is being built."""

    code = "TW0102"


class AmbiguousDivision(TensorExpressionError):
    """`/` on two integers does not say which division is meant."""

    code = "TW0103"


class MixedTypes(TensorExpressionError):
    """Operands whose types have no common meaning under the operator."""

    code = "TW0104"


class LiteralOutOfRange(TensorExpressionError):
    """A Python number that the other operand's dtype cannot hold."""

    code = "TW0105"


class NotAnExpression(TensorExpressionError):
    """A value that is not an expression and cannot become one."""

    code = "TW0106"


class NotAKnownNumber(TensorExpressionError, TypeError):
    """A symbolic expression where Python needs a number: in range, int, math functions, indices of lists."""

    code = "TW0107"


class NumpyFunctionUnknown(TensorExpressionError, TypeError):
    """A function of numpy's on symbolic expressions that has no meaning there."""

    code = "TW0128"


class BadBufferAccess(TensorExpressionError):
    """Vectors of, or pointers to, a buffer that do not fit its dimensions or element type."""

    code = "TW0130"


class BadBuilderUse(TensorExpressionError):
    """Calls of an ir_builder that make no program."""

    code = "TW0131"


class TextDoesNotParse(LoweringError):
    """A text that the loop IR's parser cannot read."""

    code = "TW0301"


class NotWellFormed(LoweringError):
    """A function that breaks the rules of the stage that it claims to be at."""

    code = "TW0302"


class OutOfBounds(LoweringError):
    """The interpreter met an access outside its buffer."""

    code = "TW0303"


class UninitializedRead(LoweringError):
    """The interpreter met a read of an element that nothing has been written to."""

    code = "TW0304"


class ParallelRace(LoweringError):
    """Two iterations of a parallel loop touch one element, and one of them writes it."""

    code = "TW0305"


class AssertionFailed(LoweringError):
    """An assertion of the program does not hold for these arguments."""

    code = "TW0306"


class ArgumentsDoNotFit(LoweringError, TypeError):
    """The interpreter was given arguments that the function does not take."""

    code = "TW0307"


class UnknownOutsideCode(LoweringError):
    """The program calls outside code that the interpreter has no implementation of."""

    code = "TW0308"
