"""What can be wrong with an expression or with a text that should be a function."""

from __future__ import annotations

from ..errors import LoweringError, TensorExpressionError


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
    """A value that is no expression and cannot become one."""

    code = "TW0106"


class TextDoesNotParse(LoweringError):
    """A text that the loop IR's parser cannot read."""

    code = "TW0301"


class NotWellFormed(LoweringError):
    """A function that breaks the rules of the stage that it claims to be at."""

    code = "TW0302"
