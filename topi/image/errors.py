"""Errors of operators on images."""

from __future__ import annotations

from ...base.errors import TensorExpressionError


class BadImage(TensorExpressionError):
    """A tensor, a size, a border or a weight that an operator on images cannot take."""

    code = "TW0195"
