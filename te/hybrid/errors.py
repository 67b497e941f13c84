"""Errors of hybrid scripts. Every one of these points at the user's own line."""

from __future__ import annotations

from ...base.errors import TensorExpressionError


class NotAHybridFunction(TensorExpressionError):
    """Something that is not a plain Python function whose source can be read."""

    code = "TW0150"


class NotInHybridScripts(TensorExpressionError):
    """A construct of Python that hybrid scripts do not have."""

    code = "TW0151"


class UnknownHybridName(TensorExpressionError):
    """A name, an attribute or a function that the script does not know."""

    code = "TW0152"


class BadHybridCall(TensorExpressionError):
    """A hybrid script, or a function within it, called with arguments that it does not take."""

    code = "TW0153"


class BadHybridAssignment(TensorExpressionError):
    """An assignment to what cannot be assigned: an input, a loop variable, a whole buffer."""

    code = "TW0154"


class HybridReadBeforeAssignment(TensorExpressionError):
    """A name that may be read before it has a value."""

    code = "TW0155"


class BadHybridReturn(TensorExpressionError):
    """A script that does not return its output tensors, all of them, at its end."""

    code = "TW0156"


class BadHybridLoop(TensorExpressionError):
    """A loop over something that is not a range of integers."""

    code = "TW0157"


class BadHybridValue(TensorExpressionError):
    """A value of the wrong kind: a buffer where a number is needed, an index that is not an integer or out of range."""

    code = "TW0158"


class HybridLoopRaces(TensorExpressionError):
    """A loop that the script declares parallel or vectorized, and whose iterations may write the same element."""

    code = "TW0159"


class HybridAssertionFails(TensorExpressionError):
    """An assertion that is known to be false when the script is read."""

    code = "TW0160"
