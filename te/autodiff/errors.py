"""Errors of programs that cannot be differentiated."""

from __future__ import annotations

from ...base.errors import TensorExpressionError


class NotDifferentiable(TensorExpressionError):
    """A gradient through something that has no derivative known to us: outside code, bits, an arbitrary combiner."""

    code = "TW0170"


class GradientOfIntegers(TensorExpressionError):
    """A gradient of, or with respect to, a tensor that is not of floats."""

    code = "TW0171"


class BadHead(TensorExpressionError):
    """A head whose shape does not end in the output's, or that is not of floats."""

    code = "TW0172"


class NotTensors(TensorExpressionError):
    """te.gradient called on something that is not a tensor."""

    code = "TW0173"
