"""Errors of the arguments of operators."""

from __future__ import annotations

from ..base.errors import TensorExpressionError


class BadAxis(TensorExpressionError):
    """An axis that a tensor does not have, or one that is listed twice."""

    code = "TW0180"


class BadOperand(TensorExpressionError):
    """A tensor of a rank, shape or dtype that the operator does not take."""

    code = "TW0181"


class BadParameter(TensorExpressionError):
    """A number, a mode or a list that says how the operator works, and cannot be."""

    code = "TW0182"
