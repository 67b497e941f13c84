"""Numbers that an exported program computes: extents over symbols, and what is said of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..conversion import Refused
from ..types import Extent, tensor_type

__all__ = ["extent", "number"]

_FOLDED = ("add", "and_", "eq", "floordiv", "ge", "gt", "le", "lt", "mod", "mul", "ne", "neg", "or_", "pow", "sub", "truediv")
_SYMBOLIC: dict[str, Callable[..., Any]] = {
    "sym_max": max, "sym_min": min, "sym_not": operator.not_, "sym_float": float, "sym_int": int}
_TEXTS = {"add": "({}) + ({})", "sub": "({}) - ({})", "mul": "({}) * ({})", "floordiv": "({}) // ({})", "mod": "({}) % ({})",
          "neg": "0 - ({})", "sym_max": "max({}, {})", "sym_min": "min({}, {})"}
_OPEN = ("ge", "gt", "le", "lt", "eq", "ne", "sym_not", "and_", "or_")
"""What holds of symbols is not asked: it is there to be asserted."""


def extent(text: Extent) -> Extent:
    """An extent, in its one form."""
    return tensor_type([text], "bool").shape[0]


def number(target: str, operands: Sequence[Any]) -> Any:
    """What a function on numbers gives: a number, an extent over symbols, or None for a truth that depends on symbols."""
    name = target.rpartition(".")[2] if not target.endswith(".default") else target.rsplit(".", 2)[1]
    if (name in _FOLDED or name in _SYMBOLIC) and all(isinstance(one, (int, float, bool)) for one in operands):
        return (_SYMBOLIC.get(name) or getattr(operator, name))(*operands)
    if name in _OPEN:
        return None
    if name in _TEXTS and all(isinstance(one, (int, str)) for one in operands):
        return extent(_TEXTS[name].format(*operands))
    raise Refused("it computes a number that has to be known")
