"""Axes that are read as digits become axes of their own: what some tensor reads at `o // 32` alone, others at `o`.

    C[o, x] = sum over c of A[o // 32 * 15 + c, x] * W[o, c]        groups of a convolution: 32 results read the same channels

    C.local[g, r, x] = sum over c of A[g * 15 + c, x] * W[g * 32 + r, c];    C[o, x] = C.local[o // 32, o % 32, x]

Then it is told by axes again what is read once for many results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...ir import Expr, FloorDiv, FloorMod, IntImm, IterVar, Node, ProducerLoad, children
from ...te.operation import Operation
from ..accesses import op_loads
from ..operations import fixed_extent

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["find_digits", "split_digits"]


def find_digits(op: Operation, loads: Iterable[ProducerLoad] | None = None) -> dict[int, int]:
    """The data axes, by their places, that some load reads in quotients or remainders by one divisor alone, with that divisor where
    it divides the extent. loads: those of the operation with what is inlined into it, where that is something."""
    divisors: dict[IterVar, set[int]] = {}
    for load in op_loads(op) if loads is None else loads:
        stack: list[Node] = list(load.indices)
        while stack:
            node = stack.pop()
            if isinstance(node, (FloorDiv, FloorMod)) and node.a in op.axis and isinstance(node.b, IntImm):
                assert isinstance(node.a, IterVar)
                divisors.setdefault(node.a, set()).add(node.b.value)
            else:
                stack.extend(children(node))
    return {
        op.axis.index(axis): by
        for axis, (by, *others) in divisors.items()
        if not others and 1 < by < fixed_extent(axis) and fixed_extent(axis) % by == 0
    }


def split_digits(group: Group, digits: Mapping[int, int]) -> Group:
    """The group with an anchor that has an axis for each quotient and each remainder. The quotients of several axes come first, as
    they are rows together, whose tiles take parts of several of them: such an anchor is stored whole, and what it was reads it."""
    s, anchor = group.s, group.anchor
    sums = s[s.cache_write(anchor.output(0), "global")] if group.output is anchor else s[anchor]

    def places(*at: Expr) -> list[Expr]:
        if len(digits) > 1:
            return [
                *(at[place] // digits[place] for place in sorted(digits)),
                *(index % digits[place] if place in digits else index for place, index in enumerate(at)),
            ]
        return [
            part
            for place, index in enumerate(at)
            for part in ([index // digits[place], index % digits[place]] if place in digits else [index])
        ]

    sums.transform_layout(places)
    return replace(group, anchor=sums.op, output=sums.op if len(digits) > 1 else group.output)
