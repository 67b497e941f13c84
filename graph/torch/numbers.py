"""Numbers that an exported program computes: extents over symbols, quotients of them, and what is said of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...base.dataclass import dataclass
from ...ir.text.parser import parse_expression
from ..conversion import Refused
from ..types import Extent, convert_extent, tensor_type

__all__ = ["Formula", "Ratio", "combine", "extent", "number", "to_ratio", "round_ratio"]

_FOLDED = (
    "add",
    "and_",
    "ceil",
    "eq",
    "floor",
    "floordiv",
    "ge",
    "gt",
    "le",
    "lt",
    "mod",
    "mul",
    "ne",
    "neg",
    "or_",
    "pow",
    "sub",
    "truediv",
    "trunc",
)
_SYMBOLIC: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sym_max": max,
    "sym_min": min,
    "sym_not": operator.not_,
    "sym_float": float,
    "sym_int": int,
    "trunc": math.trunc,
}
_TEXTS = {
    "add": "({}) + ({})",
    "sub": "({}) - ({})",
    "mul": "({}) * ({})",
    "floordiv": "({}) // ({})",
    "mod": "({}) % ({})",
    "neg": "0 - ({})",
    "sym_max": "max({}, {})",
    "sym_min": "min({}, {})",
}
_OPEN = ("ge", "gt", "le", "lt", "eq", "ne", "sym_not", "and_", "or_")
"""What holds of symbols is not asked: it is there to be asserted."""
_MOST_POWER = 4
_MOST_PARTS = 1 << 10
"""A float is a number of parts of 1, at most so many: then quotients of sizes are rounded as those of whole numbers are."""


@dataclass(frozen=True)
class Ratio:
    """A float that extents over symbols make, above / below; below is above 0 where it is a number."""

    above: Extent
    below: Extent = 1

    def __str__(self) -> str:
        return f"({self.above}) / ({self.below})"


@dataclass(frozen=True)
class Formula:
    """A float that is computed of others at the call: a power of an extent, and what is made of one."""

    name: str
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


_FORMULAS = ("add", "mul", "neg", "pow", "sqrt", "sub", "sym_float", "truediv")


def extent(text: Extent) -> Extent:
    """An extent, in its one form; a text of numbers alone is one."""
    if isinstance(text, int):
        return text
    return tensor_type([text if any(map(str.isalpha, text)) else convert_extent(parse_expression(text))], "bool").shape[
        0
    ]


def to_ratio(value: Any) -> Ratio:
    """A number as a ratio. Raises Refused for floats that are not a small fraction of a power of 2."""
    if isinstance(value, Ratio):
        return value
    if isinstance(value, (int, str)):
        return Ratio(value)
    above, below = float(value).as_integer_ratio()
    if below > _MOST_PARTS:
        raise Refused(f"an extent over symbols meets {value}, which is not a small fraction of a power of 2")
    return Ratio(above, below)


def round_ratio(name: str, value: Ratio) -> Extent:
    """A ratio as a whole number: floor, ceil, or trunc."""
    above, below = value.above, value.below
    if name == "ceil":
        above = _combine_integers("sub", _combine_integers("add", above, below), 1)
    elif name == "trunc" and isinstance(above, str):
        return extent(f"truncdiv({above}, {below})")
    return _combine_integers("floordiv", above, below)


def combine(name: str, operands: Sequence[Any]) -> Ratio:
    """Combine numbers by a function, as a ratio. Raises Refused."""
    if name in ("neg", "sym_float"):
        one = to_ratio(operands[0])
        return one if name == "sym_float" else Ratio(_combine_integers("sub", 0, one.above), one.below)
    if name not in ("add", "sub", "mul", "truediv"):
        raise Refused("it computes a number that has to be known")
    a, b = map(to_ratio, operands)
    if name == "truediv":
        if b.above == 0:
            raise Refused("it divides by 0")
        if isinstance(b.above, int) and b.above < 0:
            a, b = Ratio(_combine_integers("sub", 0, a.above), a.below), Ratio(-b.above, b.below)
        b = Ratio(b.below, b.above)
    if name in ("mul", "truediv"):
        return Ratio(_combine_integers("mul", a.above, b.above), _combine_integers("mul", a.below, b.below))
    parts = _combine_integers("mul", a.above, b.below), _combine_integers("mul", b.above, a.below)
    return Ratio(_combine_integers(name, *parts), _combine_integers("mul", a.below, b.below))


def _combine_integers(name: str, a: Extent, b: Extent) -> Extent:
    """Apply a function of whole numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return int(getattr(operator, name)(a, b))
    return extent(_TEXTS[name].format(a, b))


def number(target: str, operands: Sequence[Any]) -> Any:
    """Evaluate a function on numbers: a number, an extent over symbols, a Ratio of them, or None for a truth that depends on
    symbols. Raises Refused."""
    name = target.rpartition(".")[2] if not target.endswith(".default") else target.rsplit(".", 2)[1]
    if (name in _FOLDED or name in _SYMBOLIC) and all(isinstance(one, (int, float, bool)) for one in operands):
        return (_SYMBOLIC.get(name) or getattr(operator, name))(*operands)
    if name in _OPEN:
        return None
    if (
        name == "pow"
        and isinstance(operands[0], str)
        and isinstance(operands[1], int)
        and 0 < operands[1] <= _MOST_POWER
    ):
        return extent(" * ".join([f"({operands[0]})"] * operands[1]))
    if name == "pow" or name.endswith("sqrt") or any(isinstance(one, Formula) for one in operands):
        plain = name.removeprefix("_sym_").removeprefix("sym_") if name.endswith("sqrt") else name
        if plain not in _FORMULAS:
            raise Refused("it computes a number that has to be known")
        return Formula(plain, tuple(operands))
    if name in _TEXTS and all(isinstance(one, (int, str)) for one in operands):
        return extent(_TEXTS[name].format(*operands))
    if name in ("ceil", "floor", "sym_int", "trunc"):
        return round_ratio("trunc" if name == "sym_int" else name, to_ratio(operands[0]))
    if name == "floordiv":
        return round_ratio("floor", combine("truediv", operands))
    return combine(name, operands)
