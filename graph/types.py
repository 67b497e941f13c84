"""Types of a graph's values: a shape and a dtype.

Extents are numbers, or texts over symbols: "n", "n * 2 + 1". Symbols of one name are one symbol everywhere, so that types compare
as plain tuples do, and print and parse without a context.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .. import te
from ..base.errors import TilewrightError, user_source
from ..ir import ops
from ..ir.arith.analyzer import simplify
from ..ir.expr import Add, Div, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var
from ..ir.text.parser import parse_expression
from ..ir.visit import free_vars, post_order, rewrite, substitute
from ..runtime.abi import PACKED_TYPES
from ..te.shape import scalar_dtype
from ..topi.references import array_dtype
from .errors import BadGraph

__all__ = [
    "MOST_DIMENSIONS",
    "Extent",
    "TensorType",
    "array_dtype",
    "substitute_sizes",
    "attribute_symbols",
    "cancel",
    "convert_extent",
    "extents",
    "factors",
    "is_below_zero",
    "is_open",
    "substitute_extent",
    "evaluate_extent",
    "substitute_attribute",
    "symbol",
    "symbolic_factors",
    "find_symbols",
    "tensor_type",
    "type_of_array",
]

Extent = int | str
"""A number from 0 on, or a text over symbols."""

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+(?! *\()")
"""The name of a symbol in a text, which calls no function."""
_MOST_CHARACTERS = 2000
MOST_DIMENSIONS = 64
"""Of numpy's arrays, which values are passed as."""
_MOST_ELEMENTS = 1 << 44


class TensorType(NamedTuple):
    """Type of a value.

    shape: extents, outermost first. dtype: its name, as numpy and tilewright write it.
    """

    shape: tuple[Extent, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def is_static(self) -> bool:
        """Return whether every extent is a number."""
        return all(isinstance(extent, int) for extent in self.shape)

    def at(self, sizes: Mapping[str, int]) -> TensorType:
        """The type where symbols have these sizes."""
        return TensorType(tuple(evaluate_extent(extent, sizes) for extent in self.shape), self.dtype)


def tensor_type(shape: Sequence[Any], dtype: object) -> TensorType:
    """The type of a shape as users write it (numbers, and texts over symbols) and a dtype. Raises BadGraph (TW0901)."""
    if len(shape) > MOST_DIMENSIONS:
        raise BadGraph(
            f"a shape has {len(shape)} dimensions",
            called=user_source(),
            allowed=f"{MOST_DIMENSIONS}, as many as arrays have",
            fix="fewer dimensions: those of one element may be left out",
        )
    try:
        kind = str(scalar_dtype(str(dtype)))
    except TilewrightError as problem:
        raise BadGraph(
            f"values of a graph are not of {dtype}",
            reason=problem.headline,
            called=user_source(),
            fix='dtypes such as "float32", "int64" and "bool"',
        ) from None
    if kind in PACKED_TYPES:
        raise BadGraph(
            f"values of a graph are not of {dtype}",
            reason="each has a byte at least",
            called=user_source(),
            fix='"int8" or "uint8"; g.transform("weights_int4") packs the weights of products',
        )
    return TensorType(tuple(map(_extent, shape)), kind)


def _extent(extent: Any) -> Extent:
    if isinstance(extent, str):
        return convert_extent(_expression(extent))
    if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)) or not 0 <= extent < _MOST_ELEMENTS:
        raise BadGraph(
            "a shape has an invalid extent",
            reason=f"got {extent!r}"[:200],
            called=user_source(),
            allowed="numbers from 0 on, and texts over symbols",
            fix='(1, 3, "h", "w")',
        )
    return int(cast("int", extent))


def type_of_array(array: NDArray[Any]) -> TensorType:
    """The type that an array has. Raises BadGraph (TW0901) for dtypes that values cannot have."""
    return tensor_type(array.shape, array.dtype)


@cache
def symbol(name: str) -> Var:
    """The one symbol of this name, wide enough for products of extents."""
    return te.size_var(name, "int64")


@lru_cache(4096)
def _expression(text: str) -> Expr:
    """The extent that a text describes. Raises BadGraph (TW0901)."""
    if len(text) <= _MOST_CHARACTERS and (names := set(_SYMBOL.findall(text))):
        try:
            value = parse_expression(text, **{name: symbol(name) for name in names})
        except TilewrightError as problem:
            raise _no_extent(text, problem.headline) from None
        if any(isinstance(node, Div) for node in post_order(value)):
            raise _no_extent(text, "/ does not say which division is meant: // rounds down")
        if value.dtype.is_integer and value.dtype.lanes == 1:
            return value
    raise _no_extent(text, "it is not an integer expression over symbols")


def _no_extent(text: str, reason: str) -> BadGraph:
    return BadGraph(
        f"a shape has an invalid extent: {text[:200]!r}",
        reason=reason,
        called=user_source(),
        allowed="numbers from 0 on, and texts over symbols",
        fix='(1, 3, "h", "w")',
    )


def extents(shape: Sequence[Extent]) -> tuple[Any, ...]:
    """A shape as topi takes it."""
    return tuple(_expression(extent) if isinstance(extent, str) else extent for extent in shape)


def convert_extent(extent: Any) -> Extent:
    """An extent of topi's as types have it."""
    if isinstance(extent, Expr):
        value = simplify(rewrite(simplify(extent), _one_division))
        return value.value if isinstance(value, IntImm) else str(value)
    return int(extent)


def _one_division(value: Expr) -> Expr | None:
    """(x // a + b) // c as (x + a * b) // (a * c): what two steps make of an extent beside what one makes of it; and x y // (x z)
    as y // z. Sizes are so small that nothing overflows, which does not hold of integers in general."""
    if not isinstance(value, FloorDiv):
        return None
    if not isinstance(value.b, IntImm):
        return _quotient(value)
    if value.b.value <= 0 or not isinstance(value.a, Add):
        return None
    inner, more = value.a.a, value.a.b
    if not (
        isinstance(inner, FloorDiv) and isinstance(inner.b, IntImm) and isinstance(more, IntImm) and inner.b.value > 0
    ):
        return None
    return FloorDiv(inner.a + inner.b.value * more.value, inner.b * value.b)


def _quotient(value: FloorDiv) -> Expr | None:
    """A quotient without what both sides are multiplied by, and x // (x // c), of a multiple x of c, as c (x is not 0, since that divides);
    None where it stays."""
    parts = value.b
    if (
        isinstance(parts, FloorDiv)
        and isinstance(parts.b, IntImm)
        and str(parts.a) == str(value.a)
        and is_multiple(value.a, parts.b.value)
    ):
        return parts.b
    (number, above), (under, below) = _factors([value.a]), _factors([value.b])
    common = math.gcd(number, under)
    if not cancel(above, below) and common <= 1:
        return None
    whole, divisor = (
        reduce(operator.mul, factors_of, ops.const(one // max(common, 1), "int64"))
        for factors_of, one in ((above, number), (below, under))
    )
    return whole if isinstance(divisor, IntImm) and divisor.value == 1 else FloorDiv(whole, divisor)


_MOST_RESIDUES = 1 << 10
"""Of symbols together, for which an extent is computed."""


def is_multiple(extent: Expr, factor: int) -> bool:
    """Return whether an extent of sums, products and remainders is a multiple of a number for every value of its symbols: each is
    tried at all remainders by what it is divided by, on which alone such an extent's remainder depends."""
    period, symbols = max(factor, 1), dict[Var, None]()
    for node in post_order(extent):
        if isinstance(node, FloorMod) and isinstance(node.b, IntImm) and node.b.value > 0:
            period = math.lcm(period, node.b.value)
        elif isinstance(node, Var):
            symbols[node] = None
        elif not isinstance(node, (Add, Sub, Mul, IntImm)):
            return False
    if factor < 2 or period ** len(symbols) > _MOST_RESIDUES:
        return factor == 1
    tried = itertools.product(*([ops.const(at, var.dtype) for at in range(period)] for var in symbols))
    made = (
        ops.integer_value(simplify(substitute(extent, dict(zip(symbols, values, strict=True))))) for values in tried
    )
    return all(value is not None and value % factor == 0 for value in made)


def cancel(above: list[Expr], below: list[Expr]) -> bool:
    """Take what is a factor of both from both. Return whether there was such a factor."""
    count = len(below)
    for factor in list(below):
        if (at := next((at for at, one in enumerate(above) if str(one) == str(factor)), None)) is not None:
            del above[at]
            below.remove(factor)
    return len(below) < count


def factors(extents_of: Sequence[Extent]) -> tuple[int, Expr | None]:
    """A product of extents as a number times an expression over symbols, None where there are none."""
    number, rest = symbolic_factors(extents_of)
    return number, reduce(operator.mul, rest) if rest else None


def symbolic_factors(extents_of: Sequence[Extent]) -> tuple[int, list[Expr]]:
    """A product of extents as a number, and expressions over symbols that it is multiplied by, in order."""
    number = math.prod(extent for extent in extents_of if isinstance(extent, int))
    more, rest = _factors([_expression(extent) for extent in extents_of if isinstance(extent, str)])
    return number * more, rest


def _factors(open_ones: list[Expr]) -> tuple[int, list[Expr]]:
    """The product of these as a number, and expressions that it is multiplied by, in order."""
    number, rest = 1, list[Expr]()
    while open_ones:
        one = open_ones.pop()
        if isinstance(one, Mul):
            open_ones += [one.a, one.b]
        elif isinstance(one, IntImm):
            number *= one.value
        else:
            rest.append(one)
    return number, sorted(rest, key=str)


def attribute_symbols(value: Any) -> set[str]:
    """The symbols that an attribute speaks of: in the texts inside of tuples."""
    if not isinstance(value, tuple):
        return set()
    parts = cast("tuple[Any, ...]", value)
    return set[str]().union(
        *(find_symbols([part]) if isinstance(part, str) else attribute_symbols(part) for part in parts)
    )


def find_symbols(shape: Sequence[Extent]) -> set[str]:
    """The symbols that a shape speaks of."""
    return {var.name for extent in shape if isinstance(extent, str) for var in free_vars(_expression(extent))}


def substitute_extent(extent: Extent, sizes: Mapping[str, int]) -> Extent:
    """An extent where these symbols have sizes; others stay."""
    if isinstance(extent, int) or not find_symbols([extent]) & sizes.keys():
        return extent
    return convert_extent(substitute_sizes(_expression(extent), sizes))


def evaluate_extent(extent: Extent, sizes: Mapping[str, int]) -> int:
    """Evaluate an extent where symbols have these sizes."""
    number = substitute_extent(extent, sizes)
    assert isinstance(number, int), "an expression over numbers is a number"
    return number


def substitute_sizes(value: Expr, sizes: Mapping[str, int]) -> Expr:
    """An expression over symbols where some have sizes."""
    known = {var: te.const(sizes[var.name], str(var.dtype)) for var in free_vars(value) if var.name in sizes}
    return simplify(substitute(value, known))


def is_below_zero(text: str) -> bool:
    """Return whether an integer over symbols, none of which is negative, is 0 or less for all of their sizes."""
    answer = simplify(_expression(text) <= 0)
    return isinstance(answer, IntImm) and bool(answer.value)


def is_open(value: Any) -> bool:
    """Return whether an attribute speaks of symbols."""
    return isinstance(value, tuple) and any(
        isinstance(part, str) or is_open(part) for part in cast("tuple[Any, ...]", value)
    )


def substitute_attribute(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its extents, the texts inside of tuples, where these symbols have sizes."""
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return tuple(
            substitute_extent(part, sizes) if isinstance(part, str) else substitute_attribute(part, sizes)
            for part in parts
        )
    return value
