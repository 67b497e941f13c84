"""Indices as maps of iterators: sums of digits, each digit ((source // lower) % extent) * scale of a loop or of loops fused.

    x in [0, 3), y in [0, 10), z in [0, 9)
    (z // 3 * 10 + y) * 3 + z % 3           one iterator of extent 90: digits of z and y that fit together without a gap
    [x * 10 + y // 5, y % 5]                no map: y // 5 runs to 2, not to 10

`detect` rewrites each index bottom up into a sum of digits (IterSum). Sums of several digits are seen as one iterator where scales
and extents fit: ordered from the least, each scale is the scale before it times its extent. Only one iterator can be divided: its
digit is split in two. Conditions `low <= sum < high` make iterators of their own, of less extent, and what reads the same sum of
digits reads them. In the end the digits that are read of each source must be apart, so that the indices move
independently over all of their extents; `bijective` asks that nothing is left out as well.

`subspaces` takes each index apart into loops outside and inside; `digits` solves for the loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ...base.dataclass import dataclass
from ..arith import Analyzer
from ..expr import GE, GT, LE, LT, Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Range, Sub, Var
from ..ops import conjuncts, const, index_ceildiv, integer_value, is_const, maximum, minimum
from ..structural import structural_key
from ..visit import free_vars
from .mixed_radix import IterMark, IterSplit, IterSum

__all__ = ["NoMapError", "Rewriter", "detect", "digits"]


_Digit: TypeAlias = tuple[IterMark, object, object]
"""What a digit is looked up by, whatever its scale."""


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Digits, by what they are looked up by, with their scales, that together are `mark` + shift."""

    scales: Mapping[_Digit, Expr]
    mark: IterMark
    shift: Expr
    condition: bool


class NoMapError(Exception):
    """An index that is not a map of iterators."""


def _digit(split: IterSplit) -> _Digit:
    return split.source, structural_key(split.lower_factor), structural_key(split.extent)


class Rewriter:
    """Indices over loops, as sums of digits. ranges: of the loops."""

    def __init__(self, ranges: Mapping[Var, Range]) -> None:
        self.analyzer = Analyzer()
        for var, span in ranges.items():
            self.analyzer.bind(var, span)
        self.patterns: list[_Pattern] = []
        self.loops = {var: self._loop(var, span) for var, span in ranges.items()}

    def _loop(self, var: Var, span: Range) -> IterSum:
        extent = self.analyzer.simplify(span.extent)
        if is_const(extent, 1):  # a loop of one iteration is a constant
            return IterSum((), span.begin)
        return (
            IterSum((self.full_split(IterMark(var, extent)),), const(0, var.dtype))
            if self.is_zero(span.begin)
            else self._shift(var, Range(span.begin, extent))
        )

    def _shift(self, var: Var, span: Range) -> IterSum:
        start = IterMark(IterSum((self.full_split(IterMark(var, span.extent)),), -span.begin), span.extent)
        return IterSum((self.full_split(start),), span.begin)

    def detect_sums(self, indices: Sequence[Expr], condition: Expr | None, bijective: bool) -> list[IterSum]:
        """Return the result of `detect`."""
        try:
            if condition is not None:
                self.constrain(condition)
            sums = [self.fuse(self.parse_sum(self.analyzer.simplify(index))) for index in indices]
        except NoMapError:
            return []
        return sums if self._are_disjoint(sums, bijective) else []

    @property
    def conditions(self) -> list[IterMark]:
        """The iterators that run less far than their digits would, for a condition."""
        return [pattern.mark for pattern in self.patterns if pattern.condition]

    @staticmethod
    def full_split(mark: IterMark, scale: Expr | None = None) -> IterSplit:
        """All of an iterator."""
        one = const(1, mark.extent.dtype)
        return IterSplit(mark, one, mark.extent, one if scale is None else scale)

    def is_zero(self, value: Expr) -> bool:
        """Return whether it is proved to be 0."""
        return self.analyzer.can_prove_equal(value, 0)

    def divides(self, value: Expr, divisor: Expr) -> bool:
        """Return whether `value` is proved to be a multiple of `divisor`."""
        return is_const(divisor, 1) or self.is_zero(value % divisor)

    # From expressions to sums

    def parse_sum(self, index: Expr) -> IterSum:
        """The index as a sum of digits; NoMapError where it is none."""
        if isinstance(index, Var) and index in self.loops:
            return self.loops[index]
        if not any(var in self.loops for var in free_vars(index)):  # what moves with no loop is part of the base
            return IterSum((), index)
        if isinstance(index, (Add, Sub)):
            return self.added(self.parse_sum(index.a), self.parse_sum(index.b), 1 if isinstance(index, Add) else -1)
        if isinstance(index, (Mul, FloorDiv, FloorMod)):
            a, b = self.parse_sum(index.a), self.parse_sum(index.b)
            if isinstance(index, Mul) and not a.args:
                a, b = b, a
            if b.args:  # a product of two iterators is no map
                raise NoMapError
            if isinstance(index, Mul):
                return self.scale(a, b.base)
            return self.divided(a, b.base)[isinstance(index, FloorMod)]
        raise NoMapError

    def added(self, a: IterSum, b: IterSum, sign: int = 1) -> IterSum:
        """a + sign * b; equal digits become one."""
        digits: dict[_Digit, IterSplit] = {_digit(each): each for each in a.args}
        for each in b.args:
            key, scale = _digit(each), each.scale * sign
            before = digits.pop(key, None)
            scale = self.analyzer.simplify(scale if before is None else before.scale + scale)
            if not self.is_zero(scale):  # terms that cancel leave no digit
                digits[key] = IterSplit(each.source, each.lower_factor, each.extent, scale)
        return IterSum(tuple(digits.values()), self.analyzer.simplify(a.base + b.base * sign))

    def scale(self, a: IterSum, factor: Expr) -> IterSum:
        """a * factor."""
        simplify = self.analyzer.simplify
        if self.is_zero(factor):
            return IterSum((), const(0, factor.dtype))
        args = tuple(
            IterSplit(each.source, each.lower_factor, each.extent, simplify(each.scale * factor)) for each in a.args
        )
        return IterSum(args, simplify(a.base * factor))

    def divided(self, a: IterSum, divisor: Expr) -> tuple[IterSum, IterSum]:
        """a // divisor and a % divisor."""
        a, simplify = self.fuse(a), self.analyzer.simplify
        zero = const(0, divisor.dtype)
        if not a.args:
            return IterSum((), simplify(a.base // divisor)), IterSum((), simplify(a.base % divisor))
        (split,) = a.args
        if self.divides(split.scale, divisor):  # a multiple of the divisor divides without a remainder
            high = IterSplit(split.source, split.lower_factor, split.extent, simplify(split.scale // divisor))
            return IterSum((high,), simplify(a.base // divisor)), IterSum((), simplify(a.base % divisor))
        start = simplify(a.base % divisor)
        # less than the divisor: no quotient
        if self.analyzer.can_prove(start + split.scale * (split.extent - 1) < divisor):
            return IterSum((), simplify(a.base // divisor)), IterSum((split,), start)
        # the begin must lie at a step of the divisor
        if not self.divides(divisor, split.scale) or not self.is_zero(start):
            raise NoMapError
        by, base = simplify(divisor // split.scale), simplify(a.base // divisor)
        exact = self.divides(split.extent, by)
        if not exact and not split.is_whole:  # a part of a digit cannot be rounded up
            raise NoMapError
        extent = simplify((split.extent if exact else split.extent + by - 1) // by)
        lower, one = simplify(split.lower_factor * by), const(1, divisor.dtype)
        low = IterSplit(split.source, split.lower_factor, by, split.scale)
        return IterSum((IterSplit(split.source, lower, extent, one),), base), IterSum((low,), zero)

    # Several digits as one iterator

    def fuse(self, total: IterSum) -> IterSum:
        """The sum as one digit of one iterator, or none; NoMapError where its digits do not fit together."""
        for pattern in self.patterns:
            total = self._replace(total, pattern)
        if len(total.args) <= 1:
            return total
        chain = next((chain for first in total.args if (chain := self._chain(first, total.args))), None)
        if chain is None:
            raise NoMapError
        simplify, scale = self.analyzer.simplify, chain[0].scale
        parts = [
            IterSplit(each.source, each.lower_factor, each.extent, simplify(each.scale // scale))
            for each in reversed(chain)
        ]
        # the same digits must be one iterator wherever they are read
        extent = simplify(parts[0].scale * parts[0].extent)
        known = self._find_known(parts)
        mark = known or IterMark(IterSum(tuple(parts), const(0, extent.dtype)), extent)
        if known is None:
            self._remember(parts, mark, const(0, extent.dtype))
        return IterSum((self.full_split(mark, scale),), total.base)

    def _chain(self, first: IterSplit, args: Sequence[IterSplit]) -> list[IterSplit] | None:
        """The digits from the one of least scale on, each of the scale at which those before it end; None where they leave a
        gap or overlap."""
        chain, rest = [first], [each for each in args if each is not first]
        while rest:
            ends = chain[-1].scale * chain[-1].extent
            # digits fit where each begins at the end of the one before
            following = next((each for each in rest if self.analyzer.can_prove_equal(each.scale, ends)), None)
            if following is None:
                return None
            chain.append(following)
            rest.remove(following)
        return chain

    def _find_known(self, parts: Sequence[IterSplit]) -> IterMark | None:
        """The iterator that these digits were seen as before, so that what reads digits of it reads them of one."""
        wanted = {_digit(each): structural_key(each.scale) for each in parts}
        return next(
            (
                pattern.mark
                for pattern in self.patterns
                if not pattern.condition
                and wanted == {key: structural_key(scale) for key, scale in pattern.scales.items()}
            ),
            None,
        )

    def _remember(self, parts: Iterable[IterSplit], mark: IterMark, shift: Expr, condition: bool = False) -> None:
        self.patterns.append(_Pattern({_digit(each): each.scale for each in parts}, mark, shift, condition))

    def _replace(self, total: IterSum, pattern: _Pattern) -> IterSum:
        """The sum with the pattern's iterator in the place of its digits, where all of them are there at one scale."""
        if not pattern.condition:  # only a condition's iterator replaces digits
            return total
        there = {_digit(each): each.scale for each in total.args}
        if not pattern.scales.keys() <= there.keys():
            return total
        some, least = next(iter(pattern.scales.items()))
        if not self.divides(there[some], least):
            return total
        scale = self.analyzer.simplify(there[some] // least)
        if not all(self.analyzer.can_prove_equal(there[key], factor * scale) for key, factor in pattern.scales.items()):
            return total
        kept = tuple(each for each in total.args if _digit(each) not in pattern.scales)
        return IterSum(
            (*kept, self.full_split(pattern.mark, scale)), self.analyzer.simplify(total.base + pattern.shift * scale)
        )

    # Conditions

    def constrain(self, condition: Expr) -> None:
        """Take conjunctions of comparisons of sums with what moves with no loop; NoMapError where one is none."""
        bounds: list[tuple[IterSum, Expr | None, Expr | None]] = []
        for each in conjuncts(condition):
            if not isinstance(each, (LT, LE, GT, GE)):
                raise NoMapError
            if self.analyzer.can_prove(each):  # a condition that always holds takes nothing away
                continue
            total = self.parse_sum(self.analyzer.simplify(each.a - each.b))
            least, zero = (1 if isinstance(each, GT) else 0), const(0, total.base.dtype)
            if isinstance(each, (LT, LE)):
                bounds.append((IterSum(total.args, zero), None, (1 if isinstance(each, LE) else 0) - total.base))
            else:
                bounds.append((IterSum(total.args, zero), least - total.base, None))
        # conditions of few digits first: longer ones contain them
        for total, low, high in sorted(bounds, key=lambda bound: len(bound[0].args)):
            self._bound(total, low, high)

    def _bound(self, total: IterSum, low: Expr | None, high: Expr | None) -> None:
        """low <= total < high."""
        if not total.args:
            raise NoMapError
        # with the signs turned the bounds change places
        if all(isinstance(each.scale, IntImm) and each.scale.value < 0 for each in total.args):
            negated = self.scale(total, const(-1, total.base.dtype))
            self._bound(negated, None if high is None else 1 - high, None if low is None else 1 - low)
            return
        one, simplify = self.fuse(total), self.analyzer.simplify
        (split,) = one.args
        scale, extent = split.scale, split.extent
        if not isinstance(scale, IntImm):
            raise NoMapError
        zero = const(0, one.base.dtype)
        begin = zero if low is None else simplify(maximum(index_ceildiv(low - one.base, scale), zero))
        end = extent if high is None else simplify(minimum(index_ceildiv(high - one.base, scale), extent))
        if self.is_zero(begin) and self.analyzer.can_prove_equal(end, extent):  # the whole digit lies within the bounds
            return
        mark, plain = split.source, IterSplit(split.source, split.lower_factor, extent, const(1, zero.dtype))
        inside = mark.source if isinstance(mark.source, IterSum) and self._is_fused(split) else IterSum((plain,), zero)
        new = IterMark(IterSum(inside.args, simplify(inside.base - begin)), simplify(end - begin))
        self._remember(inside.args, new, begin, condition=True)

    def _is_fused(self, split: IterSplit) -> bool:
        return split.is_whole and any(
            pattern.mark is split.source and not pattern.condition for pattern in self.patterns
        )

    # Whether the indices move independently

    def _are_disjoint(self, sums: Sequence[IterSum], bijective: bool) -> bool:
        """Return whether the digits of every iterator that is read are apart, and, if asked for, none is left out."""
        read: dict[IterMark, list[IterSplit]] = {}
        work = [split for each in sums for split in each.args]
        while work:
            split = work.pop()
            # a sum that is read reads the digits that it is made of
            if split.source not in read and isinstance(split.source.source, IterSum):
                work.extend(split.source.source.args)
            read.setdefault(split.source, []).append(split)
        if not all(self._is_covered(mark, splits, bijective) for mark, splits in read.items()):
            return False
        # a condition on loops that are not read would leave out iterations
        if any(mark not in read and not self._collect_loops(mark).isdisjoint(read) for mark in self.conditions):
            return False
        loops = {split.source for each in self.loops.values() for split in each.args}
        return not bijective or loops <= read.keys()

    def _collect_loops(self, mark: IterMark) -> set[IterMark]:
        if isinstance(mark.source, Var):
            return {mark}
        return {below for split in mark.source.args for below in self._collect_loops(split.source)}

    def _is_covered(self, mark: IterMark, splits: list[IterSplit], bijective: bool) -> bool:
        if len(splits) == 1 and not bijective:  # a single digit cannot overlap with itself
            return True
        done, rest = const(1, mark.extent.dtype), list(splits)
        while rest:
            following = next((each for each in rest if self.analyzer.can_prove_equal(each.lower_factor, done)), None)
            if following is None and not bijective:
                least = min(rest, key=lambda each: integer_value(each.lower_factor, 0))
                following = (
                    least if self.divides(least.lower_factor, done) and not is_const(least.lower_factor, 1) else None
                )  # a gap between digits is allowed where only distinctness is asked
            if following is None:
                return False
            rest.remove(following)
            done = self.analyzer.simplify(following.lower_factor * following.extent)
        return self.analyzer.can_prove_equal(done, mark.extent) or not bijective and self.divides(mark.extent, done)


def detect(
    indices: Sequence[Expr],
    ranges: Mapping[Var, Range],
    condition: Expr | None = None,
    bijective: bool = False,
) -> list[IterSum]:
    """Each index as a base and at most one digit of an iterator, all of which move independently over all of their extents while
    the loops run where the condition holds; nothing where they are no such map. bijective: no two iterations may have one value."""
    return Rewriter(ranges).detect_sums(indices, condition, bijective)


def digits(index: Expr, ranges: Mapping[Var, Range]) -> IterSum | None:
    """The index as a sum of digits, whether or not they fit together; None where it is none."""
    try:
        return Rewriter(ranges).parse_sum(index)
    except NoMapError:
        return None
