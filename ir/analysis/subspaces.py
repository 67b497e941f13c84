"""Maps of iterators taken apart into the loops outside of a block and those inside: index = outer * extent of inner + inner.

z * 12 + y * 3 + x + c  by x in [0, 3):    outer z * 4 + y of extent 8, inner x + c of extent 3
(i * 4 + j) // 2 % 4    by j in [0, 4):    outer i % 2, inner j // 2: a digit may have a part on each side
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...base.dataclass import dataclass
from ..expr import Expr, Range, Var
from ..ops import conjunction, const, is_const
from .iterators import NoMapError, Rewriter
from .mixed_radix import IterMark, IterSplit, IterSum, normalize

__all__ = ["subspace_divide"]


@dataclass(frozen=True, eq=False)
class _Parts:
    """The outer and the inner part, None where it is empty."""

    outer: IterSplit | None
    inner: IterSplit | None


class _Divider:
    """Split iterators into parts. inside: the loops inside."""

    def __init__(self, rewriter: Rewriter, inside: Collection[Var]) -> None:
        self.rewriter = rewriter
        self.inside = {split.source for var in inside for split in rewriter.loops[var].args}
        self.simplify = rewriter.analyzer.simplify
        self.known: dict[IterMark, _Parts] = {}
        self.conditions: dict[bool, list[Expr]] = {False: [], True: []}
        """By whether they are conditions of the loops inside."""

    def divide_mark(self, mark: IterMark) -> _Parts:
        """The parts of a whole iterator: mark = outer * extent of inner + inner."""
        if mark not in self.known:
            self.known[mark] = self._divide_mark(mark)
        return self.known[mark]

    def _divide_mark(self, mark: IterMark) -> _Parts:
        if mark in self.inside:
            return _Parts(None, self.rewriter.full_split(mark))
        if isinstance(mark.source, Var):
            return _Parts(self.rewriter.full_split(mark), None)
        parts = [self.divide_split(split) for split in mark.source.args]
        sides = {side for part in parts for side in (part.outer and "outer", part.inner and "inner") if side}
        conditional = mark in self.rewriter.conditions
        if sides != {"outer", "inner"}:
            if conditional:
                source = normalize(mark.source)
                below = [] if is_const(mark.source.base, 0) else [source >= 0]
                self.conditions["inner" in sides] += [source < mark.extent, *below]
            whole = self.rewriter.full_split(mark)
            return _Parts(None, whole) if "inner" in sides else _Parts(whole, None)
        if conditional:
            raise NoMapError
        return self._divide_both(mark.source.args, parts)

    def _divide_both(self, args: Sequence[IterSplit], parts: Sequence[_Parts]) -> _Parts:
        """Divide sums of digits, from the greatest scale on, that stand on both sides: those outside come first."""
        outer: list[IterSplit] = []
        inner: list[IterSplit] = []
        for split, part in zip(reversed(args), reversed(parts), strict=True):
            if part.inner is not None:
                if outer:
                    raise NoMapError
                inner.append(self._scale(part.inner, split.scale))
            if part.outer is not None:
                among = part.inner.extent if part.inner is not None else const(1, split.scale.dtype)
                outer.append(self._scale(part.outer, self.simplify(split.scale * among)))
        extent = self._extent(inner)
        return _Parts(
            self._one([self._scale(each, self.simplify(each.scale // extent)) for each in outer]), self._one(inner)
        )

    def _extent(self, ascending: Sequence[IterSplit]) -> Expr:
        return self.simplify(ascending[-1].scale * ascending[-1].extent)

    def _one(self, ascending: Sequence[IterSplit]) -> IterSplit:
        if len(ascending) == 1:
            return ascending[0]
        total = IterSum(tuple(reversed(ascending)), const(0, ascending[0].extent.dtype))
        return self.rewriter.full_split(IterMark(total, self._extent(ascending)))

    @staticmethod
    def _scale(split: IterSplit, scale: Expr) -> IterSplit:
        return IterSplit(split.source, split.lower_factor, split.extent, scale)

    def divide_split(self, split: IterSplit) -> _Parts:
        """The parts of a digit, without its scale."""
        one = const(1, split.scale.dtype)
        plain = self._scale(split, one)
        parts = self.divide_mark(split.source)
        if parts.outer is None or parts.inner is None:
            return _Parts(None, plain) if parts.outer is None else _Parts(plain, None)
        lower, among = split.lower_factor, parts.inner.extent
        if self.rewriter.divides(among, self.simplify(lower * split.extent)):
            return _Parts(None, self._digit(parts.inner, lower, split.extent))
        if self.rewriter.divides(lower, among):
            return _Parts(self._digit(parts.outer, self.simplify(lower // among), split.extent), None)
        if not self.rewriter.divides(among, lower):
            raise NoMapError
        low = self.simplify(among // lower)
        if not self.rewriter.divides(split.extent, low):
            raise NoMapError
        return _Parts(
            self._digit(parts.outer, one, self.simplify(split.extent // low)), self._digit(parts.inner, lower, low)
        )

    def _digit(self, part: IterSplit, lower: Expr, extent: Expr) -> IterSplit:
        """(part // lower) % extent, of a part whose scale is 1."""
        return IterSplit(part.source, self.simplify(part.lower_factor * lower), extent, const(1, extent.dtype))


def subspace_divide(
    indices: Sequence[Expr],
    ranges: Mapping[Var, Range],
    inside: Collection[Var],
    condition: Expr | None = None,
    bijective: bool = False,
) -> list[tuple[IterMark, IterMark]]:
    """Each index as (outer, inner), of which index = outer * inner.extent + inner; then, as the extents of two more, under which
    conditions the loops outside and inside run. Nothing where the indices cannot be taken apart so."""
    rewriter = Rewriter(ranges)
    sums = rewriter.detect_sums(indices, condition, bijective)
    divider = _Divider(rewriter, inside)
    try:
        divisions = [_division(divider, each) for each in sums]
        for mark in rewriter.conditions:
            divider.divide_mark(mark)
    except NoMapError:
        return []
    if not divisions:
        return []
    nothing = IterSum((), const(0, sums[0].base.dtype))
    outside, within = (IterMark(nothing, conjunction(*divider.conditions[side])) for side in (False, True))
    return [*divisions, (outside, within)]


def _division(divider: _Divider, total: IterSum) -> tuple[IterMark, IterMark]:
    zero, one = const(0, total.base.dtype), const(1, total.base.dtype)
    trivial = IterMark(IterSum((), zero), one)
    if not total.args:
        return trivial, IterMark(total, one)
    (split,) = total.args
    parts = divider.divide_split(split)
    if parts.outer is None or parts.inner is None:
        whole = IterMark(total, split.extent)
        return (trivial, whole) if parts.outer is None else (whole, trivial)
    if not divider.rewriter.analyzer.can_prove_equal(split.scale, 1):
        raise NoMapError
    return (
        IterMark(IterSum((parts.outer,), zero), parts.outer.extent),
        IterMark(IterSum((parts.inner,), total.base), parts.inner.extent),
    )
