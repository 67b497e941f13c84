"""Frames: what one run of a draft's stage computes, as told by what reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd, prod

from ...base import dataclass, field, replace
from ...ir import Expr, FloorDiv, FloorMod, IterVar, ProducerLoad, Var, post_order
from ...ir.analysis.count import evaluate_count
from ...ir.analysis.footprint import Access, access_box
from ...ir.arith.linear import LinearForm
from ...ir.lazy_values import cached_property
from ..accesses import ASSUMED, Dimension, dimension, find_axes, strip_clamps
from ..cost.instructions import Work
from ..loop_nest import Body, Nest
from .draft import DraftStage, extent_in_numbers

__all__ = [
    "Digits",
    "Frame",
    "Parts",
    "Value",
    "divide",
    "find_fastest",
    "has_no_loops",
    "is_register",
    "join_frames",
    "make_frame",
    "parse_width",
]

Digits = Sequence[tuple[IterVar, int]]
"""A loop as loops over declared axes, the outermost first, each with its iterations."""
Parts = tuple[Nest | Body, ...]
"""Loops and bodies that run one after the other."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A run of a stage. widths: the values of each of its own axes. names: what stands for an axis where it is one of
    the reader's. moved: how far loops around move an axis. box: the elements of each dimension; None: all of them. around: the own
    axes that the loop around moves. runs: the values of several axes as one, by the identities of these, where they are less than
    the product of theirs. block: on a GPU, the values that all threads of a block together take; None: the widths. aligned: what
    the first value of an axis is a multiple of; 0, and where there is none, of an axis that begins with its first. steps: how far
    an iteration of the loop around moves an axis."""

    widths: Mapping[Var, int]
    names: Mapping[Var, Var] = field(default_factory=dict[Var, Var])
    moved: Mapping[Var, Expr] = field(default_factory=dict[Var, Expr])
    box: tuple[int, ...] | None = None
    around: frozenset[Var] = frozenset()
    runs: Mapping[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    block: Mapping[Var, int] | None = None
    aligned: Mapping[Var, int] = field(default_factory=dict[Var, int])
    steps: Mapping[Var, int] = field(default_factory=dict[Var, int])

    def find_alignment(self, axis: Var, inside: int) -> int:
        """A number that the first of `inside` values of an axis, which loops inside take, is a multiple of; 0: it is the first."""
        return gcd(self.aligned.get(axis, 0), inside if inside < self.widths.get(axis, 1) else 0)

    def roll(self) -> tuple[Frame, Frame]:
        """The frame of what an iteration computes beside what the one before did, and of what the first one has to besides."""
        fewer = {axis: min(width, self.steps.get(axis) or width) for axis, width in self.widths.items()}
        rest = {
            axis: max(width - fewer[axis], 1) if width > fewer[axis] else width for axis, width in self.widths.items()
        }
        return replace(self, widths=fewer), replace(self, widths=rest)


@dataclass(frozen=True, eq=False)
class Value:
    """The expressions of a stage, with those that are inlined into it: the update of sums, whose loads are `owns`, or the
    values themselves."""

    values: tuple[Expr, ...]
    loads: tuple[ProducerLoad, ...]
    works: tuple[Work, ...]
    owns: tuple[ProducerLoad, ...] = ()

    @cached_property
    def has_digits(self) -> bool:
        """Return whether quotients or remainders of axes are indices."""
        return any(isinstance(node, (FloorDiv, FloorMod)) for load in self.loads for node in post_order(*load.indices))

    @property
    def own(self) -> ProducerLoad | None:
        """The load of the sum that is taken up."""
        return self.owns[0] if self.owns else None


def make_frame(producer: DraftStage, reads: Sequence[Access], frame: Frame, inner: Mapping[Var, int]) -> Frame:
    """The frame that a reader's loads ask of a stage. reads: what they read of all that it computes; frame: of the reader; inner:
    the values that loops inside take of its axes."""
    box = _union(reads, inner)
    names: dict[Var, Var] = {}
    moved: dict[Var, Expr] = {}
    around: set[Var] = set()
    aligned: dict[Var, int] = {}
    steps: dict[Var, int] = {}
    widths: dict[Var, int] = {axis: extent_in_numbers(axis) for axis in producer.reduced}
    indices = reads[0].indices or ()
    own_axes = {id(index): axis for index, axis in zip(indices, producer.own, strict=False)}
    runs = {
        tuple(id(own_axes[each]) for each in axes): values
        for axes, values in frame.runs.items()
        if all(each in own_axes for each in axes)
    }
    for place, axis in enumerate(producer.own):
        index, extent = indices[place], extent_in_numbers(axis)
        is_axis = isinstance(index, IterVar)
        if frame.around and not frame.around.isdisjoint((index,) if is_axis else find_axes(index)):
            around.add(axis)
            moving = {each: step for each, step in dimension(strip_clamps(index)).steps.items() if each in frame.around}
            steps[axis] = sum(step * inner.get(each, 1) for each, step in moving.items())
        if is_axis and all(read.indices is not None and read.indices[place] is index for read in reads):
            widths[axis] = min(inner.get(index, 1), extent)
            name = frame.names.get(index, index)
            if name is not axis:
                names[axis] = name
            aligned[axis] = frame.find_alignment(index, inner.get(index, 1))
            if index in frame.moved:
                moved[axis] = frame.moved[index]
        else:
            widths[axis] = min(box[place], extent)
            aligned[axis] = 1
            by = _make_shift(reads[0].forms[place], frame, inner)
            if by is not None:
                moved[axis] = by
    box = tuple(widths[axis] for axis in producer.own)
    return Frame(widths, names, moved, box, frozenset(around), runs, aligned=aligned, steps=steps)


def _make_shift(index: LinearForm, frame: Frame, inner: Mapping[Var, int]) -> Expr | None:
    """The distance that loops around a reader move an index."""
    total: Expr | None = None
    for axis, step in Dimension(index).steps.items():
        values = inner.get(axis, 1)
        if values < extent_in_numbers(axis):
            place = frame.names.get(axis, axis) * (step * values)
            total = place if total is None else total + place
        if axis in frame.moved:
            place = frame.moved[axis] * step
            total = place if total is None else total + place
    return total


def join_frames(one: Frame, other: Frame, producer: DraftStage) -> Frame:
    """The frame that covers what two readers need."""
    widths = {axis: max(width, other.widths[axis]) for axis, width in one.widths.items()}
    return replace(
        one, widths=widths, box=tuple(widths[axis] for axis in producer.own), around=one.around | other.around
    )


def find_fastest(number: Expr) -> Expr:
    """The axis that moves a number by one: along it values of the number lie side by side in a panel, which begins at a vector."""
    return next((axis for axis, step in dimension(number).steps.items() if step == 1), number)


def divide(whole: Digits, factor: int) -> tuple[Digits, Digits]:
    """The steps of so many iterations, and these."""
    total = prod(extent for _, extent in whole)
    if factor >= total:
        return [], whole
    if len(whole) == 1:
        ((axis, extent),) = whole
        return [(axis, ceil(extent / factor))], [(axis, factor)]
    steps, left = ceil(total / factor), factor
    outer: list[tuple[IterVar, int]] = []
    inner: list[tuple[IterVar, int]] = []
    for axis, extent in reversed(whole):
        trips = max(round(extent / left), 1)
        inner.insert(0, (axis, ceil(extent / trips)))  # so that all steps have all of it
        if left < extent:
            outer.insert(0, (axis, trips))
        left = ceil(left / extent)
    if not outer:
        return [(whole[0][0], steps)], inner
    (first, _), *others = outer
    return [(first, ceil(steps / prod(trips for _, trips in others))), *others], inner


def _union(reads: Sequence[Access], widths: Mapping[Var, int]) -> tuple[int, ...]:
    """The box around what loads of one tensor read."""
    boxes = [[parse_width(size) for size in access_box(read, widths)] for read in reads]
    if len(reads) == 1:
        return tuple(boxes[0])
    offsets = zip(*([form.const for form in read.forms] for read in reads), strict=True)
    return tuple(
        min(max(sizes) + max(apart) - min(apart), parse_width(extent))
        for sizes, apart, extent in zip(zip(*boxes, strict=True), offsets, reads[0].shape, strict=True)
    )


def parse_width(width: object) -> int:
    if isinstance(width, int):
        return width
    known = evaluate_count(width) if width is not None else None  # type: ignore[arg-type]
    return ASSUMED if known is None else known


def is_register(stage: DraftStage) -> bool:
    """Return whether elements of a stage lie in registers: small ones that are computed where they are read."""
    return stage.scope == "local" and stage.attach_type == "at"


def has_no_loops(stage: DraftStage) -> bool:
    """Return whether all loops of a stage are written out or lanes."""
    return all(stage.kinds.get(leaf) in ("unroll", "vectorize") for leaf in stage.leaf_iter_vars)
