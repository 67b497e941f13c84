"""Errors of operators of neural networks."""

from __future__ import annotations

from ...base.errors import TensorExpressionError


class BadWindow(TensorExpressionError):
    """A stride, a dilation, a padding or a size that no window over an image has."""

    code = "TW0190"


class BadConvolution(TensorExpressionError):
    """Data and kernel of a convolution whose dimensions, channels or layouts do not fit each other."""

    code = "TW0191"


class BadAttention(TensorExpressionError):
    """Queries, keys and values whose dimensions, sizes or types do not fit each other."""

    code = "TW0197"


class BadQuantised(TensorExpressionError):
    """Quantised data, weights, scales or zero points whose types or sizes do not fit each other."""

    code = "TW0198"
