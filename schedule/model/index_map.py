"""Index maps: where the elements of a tensor lie in another layout, and which element lies at a place of it.

    n, c, h, w  ->  n, c // 4, h, w, c % 4          a map
    n, c, h, w  =   p0, p1 * 4 + p4, p2, p3         its inverse, where p1 * 4 + p4 < C: beyond lies padding

    i, j  ->  i, j // 8 ^ i % 8, j % 8              a swizzle
    i, j  =   p0, (p1 ^ p0 % 8) * 8 + p2            j // 8 is told by p1 once i is known: i ^ b ^ b is i

A map is a list of sums of digits; a whole index may be such a sum ^ something that the other indices tell. A digit of an index i
is (i // low) % (high // low), the index itself included; i may be such a sum in turn, as in (h * W + w) // 8. A sum is taken
apart again where each term is larger than all the smaller ones together can be; an index is put together again where its digits
leave no gap.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from ...base import dataclass, field
from ...ir import ops
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Add, Call, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Node, Range, Sub, Var
from ...ir.ops import integer_value
from ...ir.structural import own_key, structural_key
from ...ir.visit import children, free_vars, post_order, substitute

__all__ = ["IndexMap", "Inverse", "NoLayout", "invert"]


class NoLayout(Exception):
    """Reason for which a map is not a layout, and a fix; the primitive makes its error of it."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


@dataclass(frozen=True, slots=True, eq=False)
class IndexMap:
    """`indices` at the `parameters`. Called on indices it gives those in the new layout."""

    parameters: tuple[Var, ...]
    indices: tuple[Expr, ...]

    def __call__(self, *given: Expr) -> list[Expr]:
        values: dict[Var, Expr] = {
            # in the parameters' dtype, so that int32 and int64 do not mix
            parameter: ops.cast(index, parameter.dtype)
            for parameter, index in zip(self.parameters, given, strict=True)
        }
        return [substitute(index, values) for index in self.indices]

    @staticmethod
    def of(function: Callable[..., Any], like: Sequence[Var]) -> IndexMap:
        """The map that a function of indices is; its parameters are named and typed as `like`. Raises NoLayout."""
        # variables of its own: a map is used in several places
        advice = "a layout is a function such as lambda n, c, h, w: [n, c // 4, h, w, c % 4]"
        parameters = tuple(Var(parameter.name, parameter.dtype) for parameter in like)
        if not callable(function):  # any callable, as TVM takes them
            raise NoLayout(f"it is {function!r}, no function"[:200], advice)
        try:
            result = function(*parameters)
        except TypeError as fault:
            # the user's function has another number of parameters
            raise NoLayout(f"called on {len(parameters)} indices it says: {fault}"[:200], advice) from None
        listed = list(cast("Sequence[Any]", result)) if isinstance(result, (list, tuple)) else [result]
        indices: list[Expr] = []
        for at, index in enumerate(listed):
            # True is an int, but no index
            expr = ops.convert(index) if isinstance(index, (int, Expr)) and not isinstance(index, bool) else None
            if expr is None or not expr.dtype.is_integer:
                raise NoLayout(f"index {at} of the new layout is {index!r}, not an integer expression"[:200], advice)
            indices.append(expr)
        return IndexMap(parameters, tuple(indices))


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """Inverse of a layout's index map.

    shape: of the new layout. values: each index of the old one, over `axes`, those of the new one. conditions: what
    holds where there is an element; none where the layout has no padding.
    """

    shape: tuple[Expr, ...]
    values: tuple[Expr, ...]
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Atom:
    """Source of digits: a parameter or a sum. key: alike for the same ones."""

    key: str
    extent: Expr
    of: Var | _Sum


@dataclass(frozen=True, slots=True)
class _Digit:
    """(atom // low) % (high // low); without high, atom // low."""

    atom: _Atom
    low: int
    high: int | None

    @property
    def extent(self) -> Expr:
        if self.high is not None:
            return ops.const(self.high // self.low, self.atom.extent.dtype)  # a digit has at most high / low values
        return ops.index_ceildiv(self.atom.extent, self.low)  # the highest digit has what is left of the extent


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """offset + the sum of factor * digit."""

    terms: tuple[tuple[Expr, _Digit], ...]
    offset: int


Conditions: TypeAlias = list[Expr]


@dataclass(frozen=True, slots=True)
class _Question:
    """Key of an inversion: equal for maps of one structure over equal extents, whatever their variables are called."""

    key: Hashable
    of: IndexMap = field(compare=False)
    extents: Sequence[Expr] = field(compare=False)

    @staticmethod
    def ask(of: IndexMap, extents: Sequence[Expr]) -> _Question:
        # numbered, so that names do not matter to the key
        numbers = {parameter: at for at, parameter in enumerate(of.parameters)}
        parts: list[Hashable] = [
            tuple(str(parameter.dtype) for parameter in of.parameters),
            tuple(map(structural_key, extents)),
        ]
        places: dict[int, int] = {}
        for node in post_order(*of.indices):
            own = numbers.get(node) if isinstance(node, Var) else None
            places[id(node)] = len(parts)  # a node's place, by which its readers name it
            parts.append((own_key(node) if own is None else own, tuple(places[id(child)] for child in children(node))))
        return _Question((*parts, tuple(places[id(index)] for index in of.indices)), of, extents)


def invert(of: IndexMap, extents: Sequence[Expr], axes: Callable[[int, Expr], Var]) -> Inverse:
    """The inverse of a map of indices below `extents`. axes: makes the variable of a dimension of the new layout from its
    place and its extent. Raises NoLayout."""
    inverse, made = _invert_symbolically(_Question.ask(of, extents))
    # the caller's variables take the places of the cached ones
    own = {there: axes(place, extent) for place, (there, extent) in enumerate(zip(made, inverse.shape, strict=True))}
    return Inverse(
        inverse.shape,
        tuple(substitute(value, own) for value in inverse.values),
        tuple(substitute(condition, own) for condition in inverse.conditions),
    )


@lru_cache(maxsize=512)
def _invert_symbolically(question: _Question) -> tuple[Inverse, tuple[Var, ...]]:
    """The inverse over variables of its own, which equal maps share."""
    of, made = question.of, list[Var]()

    def axis(place: int, extent: Expr) -> Var:
        made.append(Var(f"p{place}", extent.dtype))
        return made[-1]

    moved = {  # swizzles are taken off first, and put back on the inverse
        place: index.args
        for place, index in enumerate(of.indices)
        if isinstance(index, Call) and index.name == "bitwise_xor"
    }
    still = IndexMap(
        of.parameters, tuple(moved[place][0] if place in moved else index for place, index in enumerate(of.indices))
    )
    inverse = _Inversion(still, question.extents).run(axis)
    if moved:
        inverse = _invert_swizzle(inverse, of.parameters, {made[place]: by for place, (_, by) in moved.items()}, made)
    return inverse, tuple(made)


def _invert_swizzle(
    inverse: Inverse, parameters: Sequence[Var], moved: Mapping[Var, Expr], axes: Sequence[Var]
) -> Inverse:
    """The inverse where an element lies at its index ^ a value that the other indices tell, for the indices `moved`."""
    analyzer, there = Analyzer(), dict[Var, Expr]()
    for axis, extent in zip(axes, inverse.shape, strict=True):
        analyzer.bind(axis, Range(ops.const(0, axis.dtype), extent))  # places begin at 0, which proofs use
    values = dict(zip(parameters, inverse.values, strict=True))
    for axis, by in moved.items():
        extent = inverse.shape[axes.index(axis)]
        value = analyzer.simplify(ops.cast(substitute(by, values), axis.dtype))
        size = integer_value(extent, 0)
        if size < 1 or size & (size - 1):  # ^ stays within a power of two only
            raise NoLayout(
                f"`^` moves elements among {extent} places, which is not a power of two",
                "pad the index, or take digits of it",
            )
        # two swizzles that depend on each other cannot be undone one by one
        if any(other in free_vars(value) for other in moved):
            raise NoLayout(f"`{by}` depends on what is moved by `^`", "move by digits of the other indices")
        if not analyzer.can_prove(value >= 0) or not analyzer.can_prove(value < size):
            raise NoLayout(
                f"`{by}` may be {size} or more, or below 0, and moves elements out of {size} places",
                f"take what is left by {size}",
            )
        there[axis] = ops.bitwise("bitwise_xor", axis, value)  # x ^ b ^ b is x
    return Inverse(
        inverse.shape,
        tuple(substitute(value, there) for value in inverse.values),
        tuple(substitute(condition, there) for condition in inverse.conditions),
    )


class _Inversion:
    def __init__(self, of: IndexMap, extents: Sequence[Expr]) -> None:
        self.map, self.extents = of, extents
        self.analyzer = Analyzer()
        self.parameters: dict[Var, _Atom] = {}
        for at, (parameter, extent) in enumerate(zip(of.parameters, extents, strict=True)):
            self.parameters[parameter] = _Atom(f"p{at}", ops.cast(extent, parameter.dtype), parameter)
            for symbol in free_vars(extent):
                self.analyzer.bind(symbol, (0, None))  # extents are not negative
        self.found: dict[str, list[tuple[_Digit, Expr]]] = {}
        self.atoms: dict[str, _Atom] = {}
        self.conditions: Conditions = []

    def run(self, axes: Callable[[int, Expr], Var]) -> Inverse:
        sums = [self.parse(index) for index in self.map.indices]
        shape = tuple(self.reach(total) for total in sums)
        for at, (total, extent) in enumerate(zip(sums, shape, strict=True)):
            axis = axes(at, extent)
            self.analyzer.bind(axis, Range(ops.const(0, axis.dtype), extent))
            self.separate(axis, total)
        values = {**dict.fromkeys(self.map.parameters)}
        order = sorted(self.atoms.values(), key=lambda atom: -len(atom.key))  # sums before what they are sums of
        while order:
            atom = order.pop(0)
            value = self.combine(atom)
            if isinstance(atom.of, Var):
                values[atom.of] = value  # a parameter is told by its digits
                continue
            before = set(self.atoms)
            self.separate(value, atom.of)
            order = sorted(
                [*order, *(self.atoms[key] for key in self.atoms if key not in before)], key=lambda one: -len(one.key)
            )
        for parameter, extent in zip(self.map.parameters, self.extents, strict=True):
            if values[parameter] is None:  # an extent of 1 needs no index
                if not self.analyzer.can_prove(extent <= 1):
                    raise NoLayout(
                        f"the new layout loses {parameter.name}: two elements would have the same address",
                        f"use {parameter.name} in one of its indices",
                    )
                values[parameter] = ops.const(0, parameter.dtype)
        simplify = self.analyzer.simplify
        return Inverse(
            shape,
            tuple(simplify(value) for value in values.values() if value is not None),
            tuple(dict.fromkeys(self.conditions)),
        )

    # From expressions to sums of digits

    def parse(self, value: Expr) -> _Sum:
        """An index as a sum of digits."""
        known: dict[int, _Sum] = {}
        for node in post_order(value):
            if isinstance(node, Expr):
                known[id(node)] = self._parse(node, [known[id(child)] for child in children(node)])
        return known[id(value)]

    def _parse(self, node: Node, parts: list[_Sum]) -> _Sum:
        if isinstance(node, IntImm):
            return _Sum((), node.value)
        if isinstance(node, Var):
            atom = self.parameters.get(node)
            # a symbol of a shape counts as a factor, which is looked at where it is multiplied
            return _Sum(((ops.const(1, node.dtype), _Digit(atom, 1, None)),), 0) if atom is not None else _Sum((), 0)
        if isinstance(node, Cast) and node.dtype.is_integer:  # a cast does not move anything
            return parts[0]
        if isinstance(node, (Add, Sub)):
            self._no_symbols(node)
            sign = 1 if isinstance(node, Add) else -1
            # a difference has negative factors, which `reach` refuses
            more = parts[1].terms if sign == 1 else tuple((-factor, digit) for factor, digit in parts[1].terms)
            return _Sum((*parts[0].terms, *more), parts[0].offset + sign * parts[1].offset)
        if isinstance(node, Mul):
            return self._scale(node, parts)
        if isinstance(node, (FloorDiv, FloorMod)) and isinstance(node.b, IntImm) and node.b.value > 0:
            # only by constants: digits of symbols have no bounds
            return self._digits(parts[0], node.b.value, isinstance(node, FloorMod))
        raise NoLayout(
            f"`{node}` is not a sum of indices, multiples of them, and their quotients and remainders by constants",
            "compose the layout of +, *, // and % with constants; a whole index may be such a one ^ another",
        )

    def _no_symbols(self, node: Add | Sub) -> None:
        for side in (node.a, node.b):
            if not isinstance(side, IntImm) and not self._add_indices(side):
                raise NoLayout(f"`{node}` shifts an index by a symbol", "shift by constants")

    def _add_indices(self, value: Expr) -> bool:
        return any(isinstance(node, Var) and node in self.parameters for node in post_order(value))

    def _scale(self, node: Mul, parts: list[_Sum]) -> _Sum:
        for factor, (side, mine) in ((node.a, (node.b, parts[1])), (node.b, (node.a, parts[0]))):
            if not self._add_indices(factor):
                # a constant times a symbol: the symbol is the factor
                if isinstance(side, IntImm) and not isinstance(factor, IntImm):
                    continue
                offset = mine.offset
                if offset and not isinstance(factor, IntImm):
                    raise NoLayout(f"`{node}` shifts an index by a symbol", "shift by constants")
                scale = integer_value(factor, 1)
                return _Sum(
                    tuple((ops.cast(factor, term.dtype) * term, digit) for term, digit in mine.terms), offset * scale
                )
        raise NoLayout(f"`{node}` multiplies indices", "multiply indices by constants or symbols of the shape")

    def _digits(self, of: _Sum, by: int, remainder: bool) -> _Sum:
        """Quotient `of // by`, or remainder `of % by`."""
        if not of.terms:
            return _Sum((), of.offset % by if remainder else of.offset // by)  # constants divide at once
        if by == 1:
            return _Sum((), 0) if remainder else of
        first, digit = of.terms[0]  # one digit alone may be taken apart further
        span = None if digit.high is None else digit.high // digit.low
        # otherwise the sum is an atom of its own
        if len(of.terms) > 1 or of.offset or not ops.is_const(first, 1) or (span is not None and span % by):
            digit = _Digit(self._atom(of), 1, None)
        low, high = (digit.low, digit.low * by) if remainder else (digit.low * by, digit.high)
        return _Sum(((ops.const(1, digit.atom.extent.dtype), _Digit(digit.atom, low, high)),), 0)

    def _atom(self, of: _Sum) -> _Atom:
        terms = " + ".join(
            # sorted, since sums are the same in any order of terms
            sorted(f"{factor} * ({digit.atom.key} // {digit.low} % {digit.high})" for factor, digit in of.terms)
        )
        return _Atom(f"({of.offset} + {terms})", self.reach(of), of)

    def reach(self, of: _Sum) -> Expr:
        """One more than the greatest value of a sum."""
        if of.offset < 0 or any(isinstance(factor, IntImm) and factor.value < 0 for factor, _ in of.terms):
            raise NoLayout(
                "an index of the new layout counts down, or begins below 0",
                "count the indices of a layout upwards, from 0",
            )
        if any(ops.is_const(digit.extent, 0) for _, digit in of.terms):  # an empty extent makes the whole empty
            return ops.const(0, of.terms[0][0].dtype)
        total: Expr = ops.const(of.offset + 1, of.terms[0][0].dtype if of.terms else ops.const(0).dtype)
        for factor, digit in of.terms:
            total = total + factor * (digit.extent - 1)  # each digit's greatest value
        return self.analyzer.simplify(total)

    # From sums to their digits, and from digits to indices

    def separate(self, value: Expr, of: _Sum) -> None:
        """Note what each digit of a sum is where the sum is `value`, which does not go beyond what the sum can be."""
        rest = value
        if of.offset:
            self.require(rest >= of.offset)  # below the offset there is no element
            rest = rest - of.offset
        terms = self._descending(of)
        for _, digit in of.terms:
            if ops.is_const(digit.extent, 1):  # digits of one value take no part
                self._note(digit, ops.const(0, value.dtype))
        for at, (factor, digit) in enumerate(terms):
            below = self.reach(_Sum(tuple(terms[at + 1 :]), 0))
            # smaller terms must not reach the factor, or two elements would meet
            if not self.analyzer.can_prove(below <= factor):
                raise NoLayout(
                    f"two elements would have the same address: in an index of the new layout, what is below the factor "
                    f"{factor} reaches up to {below} - 1",
                    "multiply by the extent of what is added",
                )
            quotient = self.analyzer.simplify(ops.floordiv(rest, factor))
            # a gap between two digits is padding
            if at and not self.analyzer.can_prove_equal(terms[at - 1][0], factor * digit.extent):
                self.require(quotient < digit.extent)
            self._note(digit, quotient)
            rest = self.analyzer.simplify(ops.floormod(rest, factor))  # what is left for the smaller digits
        if not ops.is_const(rest, 0) and not (not terms and self.analyzer.can_prove(rest.equal(0))):
            self.require(rest.equal(0))

    def _note(self, digit: _Digit, value: Expr) -> None:
        self.found.setdefault(digit.atom.key, []).append((digit, value))
        self.atoms.setdefault(digit.atom.key, digit.atom)

    def _descending(self, of: _Sum) -> list[tuple[Expr, _Digit]]:
        """The terms that are not always 0, the greatest factor first."""
        done: list[tuple[Expr, _Digit]] = []
        for factor, digit in of.terms:
            if ops.is_const(digit.extent, 1):
                continue
            # in descending order, as far as symbols can be compared
            at = next((at for at, (other, _) in enumerate(done) if self.analyzer.can_prove(factor >= other)), len(done))
            done.insert(at, (factor, digit))
        return done

    def combine(self, atom: _Atom) -> Expr:
        """The value of what digits were taken of. Raises NoLayout where one is missing."""
        name = atom.of.name if isinstance(atom.of, Var) else "a sum of indices"
        reached, step, total = 1, 1, None
        told = [fact for fact in self.found[atom.key] if fact[0].high != fact[0].low]  # i % 1 tells nothing
        for digit, value in sorted(told, key=lambda one: one[0].low):
            if digit.low < reached or reached == 0:  # the same digit twice
                raise NoLayout(
                    f"two indices of the new layout repeat the same part of {name}",
                    "let each digit of an index occur once",
                )
            if digit.low > reached:  # a gap: some elements would share an address
                raise NoLayout(
                    f"the new layout loses {name} % {digit.low}: two elements would have the same address",
                    f"use {name} % {digit.low} in one of its indices",
                )
            part = value if digit.low == 1 else value * digit.low  # digits stand side by side from the lowest on
            total = part if total is None else total + part
            reached, step = 0 if digit.high is None else digit.high, digit.low
        if total is None:
            total = ops.const(0, atom.extent.dtype)
        if reached and not self.analyzer.can_prove(atom.extent <= reached):  # the highest digits are missing
            raise NoLayout(
                f"the new layout loses {name} // {reached}: two elements would have the same address",
                f"use {name} // {reached} in one of its indices",
            )
        total = self.analyzer.simplify(total)
        span = reached or step
        if not self.analyzer.can_prove_equal(ops.floormod(atom.extent, ops.const(span, atom.extent.dtype)), 0) or (
            reached and not self.analyzer.can_prove_equal(atom.extent, reached)
        ):
            self.require(total < atom.extent)  # padding behind the last element
        return total

    def require(self, condition: Expr) -> None:
        """Note a condition that is not proved."""
        if not self.analyzer.can_prove(condition):
            simplified = self.analyzer.simplify(condition)
            # the same condition may come from two indices
            if not any(str(simplified) == str(condition) for condition in self.conditions):
                self.conditions.append(simplified)
