"""Footprints of accesses while loops run: boxes of elements, bytes, cache lines.

An index is a sum of multiples of loop variables. While some loops run it takes at most 1 + Σ |coefficient| · (trips - 1)
neighbouring values, and never more than its dimension has: a box for each access (the footprint of Williams, Waterman and
Patterson's roofline model, 2009). Accesses whose indices differ in constants alone, as those of a stencil do, share the least
box around them; the boxes of others are added up. An index that is clamped, wrapped around or divided by a constant takes no
more values than what it is made of, and one that is read from memory as many as there are places to read it from.

Widths, and what comes out, are integers, or Counts: symbolic, and telling upper bounds apart from exact numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import gcd

from ...base.dataclass import dataclass
from ..arith.linear import LinearForm
from ..buffer import Buffer
from ..expr import BufferLoad, Cast, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Producer, ProducerLoad, Var
from ..lazy_values import cached_property
from ..structural import Key, structural_key
from ..visit import post_order
from .count import Count, Number, bound_count, evaluate_count, least, product
from .linear import linear, merge_divisions, occurs, terms

__all__ = [
    "LINE",
    "Access",
    "Array",
    "Widths",
    "access_box",
    "line_bytes",
    "count_bytes",
    "count_values",
    "lines_in_cache",
]

Array = Buffer | Producer
Widths = Mapping[Var, Number | None]
"""How many values each variable of the loops that run takes, None where that is not known; all others stay as they are."""
Changing = Callable[[], Collection[Buffer]]
LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, eq=False)
class Access:
    """An element that is read or written.

    indices: None where it may be any. shape: of the array, as numbers. changing: gives the buffers whose elements change while
    the program runs, so that an index that is read from them may take other values each time.
    """

    array: Array
    indices: tuple[Expr, ...] | None
    shape: tuple[Number, ...]
    stored: bool = False
    changing: Changing = frozenset

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return max(1, self.array.dtype.bits // 8)

    @cached_property
    def is_indirect(self) -> bool:
        """Return whether an element that is read elsewhere decides its place."""
        return any(isinstance(node, (BufferLoad, ProducerLoad)) for node in post_order(*(self.indices or ())))

    @cached_property
    def forms(self) -> tuple[LinearForm, ...]:
        """Each index as a sum."""
        return tuple(linear(index) for index in self.indices or ())

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """Variables in its indices."""
        return tuple(dict.fromkeys(node for node in post_order(*(self.indices or ())) if isinstance(node, Var)))

    @cached_property
    def pattern(self) -> tuple[tuple[Key, ...], tuple[int, ...]]:
        """Common form of accesses, and their differences in each dimension."""
        # accesses that differ by constants share one box
        parts = [_pattern(form) for form in self.forms]
        return tuple(key for key, _ in parts), tuple(offset for _, offset in parts)

    @cached_property
    def sums(self) -> tuple[tuple[int, tuple[tuple[Var, int], ...]], ...] | None:
        """Return for each dimension its extent, and the variables in its index, each with how far one step of it moves; None where an
        index is more than a sum of multiples of variables, or an extent no number."""
        if self.indices is None:
            return None
        dimensions: list[tuple[int, tuple[tuple[Var, int], ...]]] = []
        for form, extent in zip(self.forms, self.shape, strict=True):
            parts = tuple((atom, abs(factor)) for atom, factor in terms(form) if isinstance(atom, Var))
            # an index of quotients is counted another way
            if not isinstance(extent, int) or len(parts) < len(form.coeffs):
                return None
            dimensions.append((extent, parts))
        return tuple(dimensions)

    def is_even(self, var: Var) -> bool:
        """Return whether all neighbouring values of a loop variable lie as many elements apart: its quotients and remainders, if any, are
        digits of one place."""
        known = self._even.get(var)  # a quotient moves in steps: neighbours need not be neighbours
        if known is None:
            known = self._even[var] = not any(occurs(var, form) for form in self.forms) or not occurs(var, self._place)
        return known

    @cached_property
    def _place(self) -> LinearForm:
        """All indices as one."""
        stride, place = 1, LinearForm({}, 0)
        for form, extent in zip(reversed(self.forms), reversed(self.shape), strict=True):
            place = place.plus(form, stride)
            stride *= extent if isinstance(extent, int) else 1
        return merge_divisions(place)

    @cached_property
    def _even(self) -> dict[Var, bool]:
        """Results for even numbers that were asked for."""
        return {}

    def step(self, var: Var) -> int:
        """Elements between neighbouring values of a loop variable; where that is no constant, some number that is not 0."""
        known = self._steps.get(var)
        if known is not None:
            return known
        if any(occurs(var, form) for form in self.forms) and self.is_even(var):
            step = self._steps[var] = self._place.coefficient(var)  # indices of all dimensions as one place in memory
            return step
        stride, step = 1, 0
        for form, extent in zip(reversed(self.forms), reversed(self.shape), strict=True):
            step += stride * _coefficient(form, var)
            stride *= extent if isinstance(extent, int) else 1
        self._steps[var] = step
        return step

    def repeats(self, var: Var) -> bool:
        """Return whether neighbouring values of a loop variable read neighbouring elements, each several times in a row: `var // 2`."""
        if not self.indices or var in post_order(*self.indices[:-1]):
            return False
        moving = [(atom, factor) for atom, factor in terms(self.forms[-1]) if var in post_order(atom)]
        return len(moving) == 1 and any(
            isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm) and factor * linear(atom.a).coefficient(var) == 1
            for atom, factor in moving
        )

    @cached_property
    def _steps(self) -> dict[Var, int]:
        """Results for steps that were asked for: many nests are over the same accesses."""
        return {}


Box = tuple[Number, ...]
"""How many indices of each dimension."""


def access_box(access: Access, widths: Widths, spread: Sequence[int] = ()) -> Box:
    """The box that an access touches. spread: in each dimension, how far others of the same form lie apart."""
    if access.indices is None:  # any element may be meant
        return tuple(map(bound_count, access.shape))
    known = _box_of_sums(access, widths) if not spread else None
    if known is not None:
        return known  # most accesses are simple sums: counted without Counts
    box: list[Number] = []
    for form, extent, apart in zip(access.forms, access.shape, spread or (0,) * len(access.forms), strict=True):
        width = _width(form, widths, access.changing, apart)
        box.append(bound_count(extent) if width is None else least(width, extent))
    return tuple(box)


def _box_of_sums(access: Access, widths: Widths) -> Box | None:
    """The same where indices and widths are as simple as most are; None where they are not."""
    if access.sums is None:
        return None
    box: list[int] = []
    for extent, parts in access.sums:
        width = 1
        for var, factor in parts:
            values = widths.get(var, 1)
            if not isinstance(values, int):
                return None
            width += factor * (values - 1)
        box.append(min(width, extent))
    return tuple(box)


def line_bytes(box: Box, size: int, unknown: int = 1, shape: Sequence[Number] = (), line: int = LINE) -> float:
    """Bytes of the cache lines under a box of elements of `size` bytes each: rows of neighbours, each of a line at least.
    unknown: what a width counts as that is a symbol. shape: of the array, where rows that are shorter than a line are to count as
    neighbours too. line: bytes of what is counted, of a page where it is pages."""
    return _rows_of_lines(box, size, unknown, shape, line)[0]


def lines_in_cache(
    box: Box, size: int, unknown: int, shape: Sequence[Number], line: int, page: int
) -> tuple[float, float]:
    """Bytes of the cache lines under a box, and of the room in a cache that they take up: more where rows begin at few places of a
    page, since a cache chooses the place of a line by its address, and keeps few lines at each."""
    lines, rows, between = _rows_of_lines(box, size, unknown, shape, line)
    return lines, max(lines, float(rows * gcd(between, page))) if between else lines


def _rows_of_lines(box: Box, size: int, unknown: int, shape: Sequence[Number], line: int) -> tuple[float, int, int]:
    """The bytes of the lines under a box, the number of its rows, and the greatest divisor of the bytes between them; 0 where that
    is not known."""
    if not box:
        return size, 1, 0
    count, span, stride, between = 1, size, size, 0
    is_known = True
    for width, extent in zip(reversed(box), reversed(shape or [None] * len(box)), strict=True):
        known = width if isinstance(width, int) else evaluate_count(width)
        values = unknown if known is None else known
        if stride < line or stride <= span:  # of neighbours, or of what touches
            span += stride * (values - 1)
        elif values > 1:
            count *= values
            between = gcd(between, stride) if is_known else 1  # rows at equal distances fall on few sets of a cache
        known = extent if isinstance(extent, int) or extent is None else evaluate_count(extent)
        is_known = is_known and known is not None
        stride = line * span if known is None else stride * known  # an unknown extent is taken to be far away
    return float(count * max(span, line)), count, between


def count_bytes(accesses: Iterable[Access], widths: Widths) -> dict[Array, Number]:
    """The distinct bytes of each array that accesses touch. Takes time linear in the number of accesses."""
    forms: dict[Array, dict[Key, list[Access]]] = {}
    for access in accesses:
        key = access.pattern[0] if access.indices is not None else None  # stencil accesses of one form share a box
        forms.setdefault(access.array, {}).setdefault(key, []).append(access)
    sizes: dict[Array, Number] = {}
    for array, groups in forms.items():
        boxes = [_count_elements(group, widths) for group in groups.values()]
        one = next(iter(groups.values()))[0]
        # boxes of other forms may overlap, but no more than the array is touched
        total = boxes[0] if len(boxes) == 1 else least(bound_count(sum(boxes)), product(one.shape))
        sizes[array] = total * one.bytes
    return sizes


def count_values(value: Expr, widths: Widths) -> Number | None:
    """Return the number of neighbouring values that an integer expression takes; None where that is not known."""
    return 1 if isinstance(value, IntImm) else _width(linear(value), widths, frozenset, 0)


def _count_elements(group: Sequence[Access], widths: Widths) -> Number:
    """The elements of accesses of one form: the box around them, or each of theirs."""
    first = group[0]
    if first.indices is None:
        return product(access_box(first, widths))
    places = dict.fromkeys(access.pattern[1] for access in group)
    around = product(access_box(first, widths, [max(offsets) - min(offsets) for offsets in zip(*places, strict=True)]))
    return around if len(places) == 1 else least(around, bound_count(product(access_box(first, widths)) * len(places)))


def _pattern(form: LinearForm) -> tuple[Key, int]:
    """The form of an index without its constant, and that. Of a function of one form it is that form's."""
    lone = _lone(form)
    if lone is None:
        return form.key, form.const
    inner, offset = _pattern(linear(lone.a))
    return (type(lone), structural_key(lone.b), inner), offset


def _lone(form: LinearForm) -> Min | Max | FloorDiv | FloorMod | None:
    """Return the form of an index that is no sum: a form that is clamped, wrapped around or divided by a constant."""
    if len(form.coeffs) != 1 or form.const:
        return None
    ((atom, factor),) = terms(form)
    # only constants can be compared exactly
    if factor != 1 or not isinstance(atom, (Min, Max, FloorDiv, FloorMod)) or not isinstance(atom.b, IntImm):
        return None
    return atom


def _width(form: LinearForm, widths: Widths, changing: Changing, spread: int) -> Number | None:
    """Return the number of neighbouring values that a sum takes, and others that are up to `spread` apart from it."""
    if _lone(form) is not None:
        ((atom, _),) = terms(form)
        return _values(atom, widths, changing, spread)[0]
    width: Number = 1 + spread
    scattered: list[Number] = []
    for atom, factor in terms(form):
        values, neighbours = _values(atom, widths, changing)
        if values is None:
            return None
        if not neighbours:  # data point anywhere: each value is an element
            scattered.append(values)
        elif values != 1:
            width = width + abs(factor) * (values - 1)
    return product((width, *scattered))


def _values(atom: Expr, widths: Widths, changing: Changing, spread: int = 0) -> tuple[Number | None, bool]:
    """Return the number of values that a term takes, and whether they are neighbours."""
    if isinstance(atom, Var):
        return widths.get(atom, 1), True
    if isinstance(atom, Cast) and atom.value.dtype.is_integer:
        return _width(linear(atom.value), widths, changing, spread), True
    if isinstance(atom, (Min, Max)):
        sides = [_width(linear(side), widths, changing, spread) for side in (atom.a, atom.b)]
        known = [side for side in sides if side is not None]
        return (bound_count(_greatest(known)) if len(known) == 2 else None), True
    if isinstance(atom, (FloorDiv, FloorMod)) and isinstance(atom.b, IntImm) and atom.b.value > 0:
        return _count_divided(atom, atom.b.value, widths, changing, spread)
    values: Number = 1
    for node in post_order(atom):
        if isinstance(node, BufferLoad) and node.buffer in changing():  # an index that changes may be any
            return None, False
        if isinstance(node, Var):
            own = widths.get(node, 1)
            if own is None:
                return None, False
            values = values * own
    return (1, True) if values == 1 else (bound_count(values), False)


def _count_divided(
    atom: FloorDiv | FloorMod,
    divisor: int,
    widths: Widths,
    changing: Changing,
    spread: int,
) -> tuple[Number | None, bool]:
    """The values of a quotient or a remainder. Where the dividend begins is known if what stays as it is are multiples."""
    form = linear(atom.a)
    inner = _width(form, widths, changing, spread)
    if inner is None:
        return (bound_count(divisor), True) if isinstance(atom, FloorMod) else (None, True)
    if inner == 1:
        return 1, True
    # multiples of the divisor do not move the begin
    aligned = not spread and all(factor % divisor == 0 for value, factor in terms(form) if value not in widths)
    aligned = aligned and all(factor > 0 for _, factor in terms(form))
    begin = form.const % divisor if aligned else divisor - 1
    last = begin + inner - 1
    if isinstance(atom, FloorMod):
        fits = aligned and _no_more(last, divisor - 1)
        # a remainder has at most as many values as its divisor
        return (inner, True) if fits else (least(bound_count(inner), divisor), _no_more(divisor, inner))
    number = evaluate_count(last)
    if number is not None:
        quotients = number // divisor + 1
        return (quotients if isinstance(last, int) else Count.of(quotients, last.is_exact and aligned)), True
    return bound_count(inner), True


def _no_more(a: Number, b: Number) -> bool:
    """Return whether a number is certainly no more than another."""
    x, y = evaluate_count(a), evaluate_count(b)
    return x is not None and y is not None and x <= y


def _greatest(numbers: Sequence[Number]) -> Number:
    """The greater of two; their sum where that is not known."""
    a, b = numbers
    return b if _no_more(a, b) else a if _no_more(b, a) else a + b


def _coefficient(form: LinearForm, var: Var) -> int:
    """Return the coefficient of a loop in an index; some other coefficient where that is not a constant."""
    direct = form.coefficient(var)
    if direct:
        return direct
    others = ((atom, factor) for atom, factor in terms(form) if not isinstance(atom, Var))
    return next((factor for atom, factor in others if any(node is var for node in post_order(atom))), 0)
