"""Guards of exported programs: assumptions of torch about sizes, checked in each run: greatest sizes, and numbers that are equal,
such as `math.trunc(L['x'].size()[0] / 2) == 3`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...base.errors import GraphError
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import IntImm
from ..conversion import Refused
from ..node import Parts
from ..size_conditions import conditions
from ..types import Extent, TensorType, extents
from .extents import read_expression
from .numbers import extent

__all__ = ["assumptions"]

_MOST_CHARACTERS = 2000


def assumptions(guards: Sequence[str], greatest: Mapping[str, int], g: Parts) -> list[str]:
    """Extents over the symbols of a graph's inputs that are not negative where torch's assumptions hold, but those of which this is
    known, or asked of the graph anyway. What cannot be read is left out."""
    asked = {str(condition) for condition, _ in conditions(g)}
    analyzer = Analyzer()
    found: dict[str, None] = {}
    for one in (*_bounds(greatest, g.symbols), *(one for guard in guards for one in _equal(guard, g.inputs))):
        if isinstance(one, str):
            met = analyzer.simplify(extents([one])[0] >= 0)
            if str(met) not in asked and not (isinstance(met, IntImm) and met.value):
                found[one] = None
    return list(found)


def _bounds(greatest: Mapping[str, int], symbols: Collection[str]) -> Iterator[Extent]:
    for name, most in greatest.items():
        if name in symbols:
            yield extent(f"{most} - {name}")


def _equal(guard: str, inputs: Mapping[str, TensorType]) -> Iterator[Extent]:
    """Both differences of what a guard says to be equal."""
    try:
        node = ast.parse(guard[:_MOST_CHARACTERS], mode="eval").body
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            a, b = (read_expression(_sizes(side, inputs)) for side in (node.left, node.comparators[0]))
            if isinstance(a, str) or isinstance(b, str):
                yield extent(f"({a}) - ({b})")
                yield extent(f"({b}) - ({a})")
    except (
        SyntaxError,
        ValueError,
        TypeError,
        LookupError,
        RecursionError,
        MemoryError,
        ArithmeticError,
        GraphError,
        Refused,
    ):
        return


class _Sizes(ast.NodeTransformer):
    """Put extents of inputs in the places of `L['x'].size()[0]`."""

    def __init__(self, inputs: Mapping[str, TensorType]) -> None:
        self.inputs = inputs

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size")), slice=ast.Constant(value=int(axis))
            ):
                shape = self.inputs["_".join(map(str, _path(source)))].shape
                return ast.parse(f"({shape[axis]})", mode="eval").body
            case _:
                raise ValueError("it speaks of something else than sizes")


def _sizes(node: ast.expr, inputs: Mapping[str, TensorType]) -> ast.expr:
    return _Sizes(inputs).visit(node)


def _path(node: ast.expr) -> list[Any]:
    """The keys of `L['x'][0]`."""
    match node:
        case ast.Name(id="L"):
            return []
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return [*_path(inner), key]
        case _:
            raise ValueError("it speaks of something else than inputs")
