"""te.trace: values printed while a kernel runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.arguments import is_a, to_list
from ..base.errors import user_source
from ..ir.expr import Call, Expr, StringImm
from ..ir.ops import convert
from .errors import BadOutsideCall

__all__ = ["trace"]


def trace(args: Sequence[Any], tag: str = "trace") -> Expr:
    """The last of `args`; all of them are printed, after the tag, each time that it is computed: `tag: 3 0.5`.

    args: scalar numbers and expressions (strings, not last, are printed as they are). It may stand wherever an expression
    may: te.compute((n,), lambda i: te.trace([i, A[i]], "A")). A kernel built here prints by Python's print, an exported one
    and a GPU's by C's printf. Where a schedule computes a value more than once it is printed more than once, and the order
    of parallel iterations is open. It has the dtype of the last. Raises BadOutsideCall (TW0134) for vectors, and where a string or
    nothing is last.
    """
    values = [convert(argument) for argument in to_list(args)]
    wrong = "" if values else "there is nothing to print"
    if values and isinstance(values[-1], StringImm):
        wrong = "its last argument, which it gives, is a string"
    vector = next((value for value in values if value.dtype.lanes > 1), None)
    if vector is not None:
        wrong = f"`{vector}` is a vector"
    if not is_a(tag, str):
        wrong = f"its tag is {tag!r}"
    if wrong:
        raise BadOutsideCall(
            "cannot trace",
            reason=wrong[:200],
            called=user_source(),
            fix='te.trace([i, A[i]], "A"): what to print, the value to go on with last',
        )
    return Call("trace", (StringImm(tag), *values), values[-1].dtype)
