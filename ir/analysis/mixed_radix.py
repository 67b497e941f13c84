"""Sums of digits of iterators, ((source // lower) % extent) * scale each, as expressions, and solved for the loops that they read.

`iterators` finds them in indices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce

from ...base.dataclass import dataclass
from ..arith import Analyzer
from ..expr import Expr, Var
from ..ops import is_const
from ..structural import structural_key

__all__ = ["IterMark", "IterSplit", "IterSum", "inverse", "normalize"]


@dataclass(frozen=True, eq=False)
class IterMark:
    """An iterator that runs over [0, extent): a loop's variable, or a sum of digits that fit together."""

    source: Var | IterSum
    extent: Expr


@dataclass(frozen=True, eq=False)
class IterSplit:
    """A digit of an iterator: ((source // lower_factor) % extent) * scale. What is not given is that of the whole iterator."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr

    @property
    def is_whole(self) -> bool:
        """Return whether it is all of its iterator."""
        return is_const(self.lower_factor, 1) and structural_key(self.extent) == structural_key(self.source.extent)


@dataclass(frozen=True, eq=False)
class IterSum:
    """A sum of digits and of a base that moves with none of them."""

    args: Sequence[IterSplit]
    base: Expr


def normalize(value: IterSum | IterSplit | Expr) -> Expr:
    """The expression of a sum or of a digit."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, IterSum):
        parts = [normalize(each) for each in value.args]
        is_zero = is_const(value.base, 0)  # a base of 0 would leave an addition of 0
        return reduce(lambda a, b: a + b, parts if parts and is_zero else [*parts, value.base])
    mark, lower = value.source, value.lower_factor
    source = normalize(mark.source)
    if not value.is_whole:
        ends = value.extent if is_const(lower, 1) else Analyzer().simplify(lower * value.extent)
        # a digit up to the end of its iterator needs no remainder
        below = source if Analyzer().can_prove_equal(ends, mark.extent) else source % ends
        source = below if is_const(lower, 1) else below // lower
    return source if is_const(value.scale, 1) else source * value.scale


def inverse(sums: Sequence[IterSum], outputs: Sequence[Expr]) -> dict[Var, Expr]:
    """The loops' variables by the values of the indices, of a map that `iterators.detect` found bijective: outputs[i] is that of
    sums[i]. Digits of a sum stand from the greatest scale on, so that the first is what the others leave."""
    simplify = Analyzer().simplify
    below = [mark.source for mark in _marks(sums) if isinstance(mark.source, IterSum)]
    readers = Counter(split.source for each in (*sums, *below) for split in each.args)
    values: dict[IterMark, Expr] = {}
    loops: dict[Var, Expr] = {}
    ready = list(zip(sums, outputs, strict=True))
    while ready:
        total, value = ready.pop()
        rest = simplify(value - total.base)
        for split in total.args:
            # the greatest digit is what the others leave: no remainder
            digit = rest // split.scale if split is total.args[0] else rest // split.scale % split.extent
            mark, term = split.source, digit * split.lower_factor
            values[mark] = simplify(values[mark] + term if mark in values else term)
            readers[mark] -= 1
            if readers[mark]:  # all digits of the iterator must be known before it is
                continue
            if isinstance(mark.source, Var):
                loops[mark.source] = values[mark]
            else:
                ready.append((mark.source, values[mark]))
    return loops


def _marks(sums: Sequence[IterSum]) -> Iterator[IterMark]:
    """Every iterator of the sums, each once."""
    seen: set[IterMark] = set()
    work = [split.source for each in sums for split in each.args]
    while work:
        mark = work.pop()
        if mark in seen:
            continue
        seen.add(mark)
        yield mark
        if isinstance(mark.source, IterSum):
            work.extend(split.source for split in mark.source.args)
