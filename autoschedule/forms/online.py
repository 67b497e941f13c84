"""Online sums: sums weighted by a softmax of a product's rows (attention), with all that belongs to them, as positions and numbers.

A schedule is tried for the match, and undone: the form names operations as they were declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir.expr import Cast, Expr, FloorMod, IntImm, IterVar, ProducerLoad
from ...ir.structural import structural_key
from ...schedule.errors import BadOnline
from ...schedule.model.inlining import expand_inlined
from ...te.factors import factors, guarded_load
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.softmax_sums import weighted_sum
from ...te.tensor import Tensor, find_tensor
from ..accesses import dimension, domain_axes, find_axes, load_axes, source
from ..loops import fuse_axes
from ..operations import elements, fixed_extent, is_plain
from .contraction import strip_conversion

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage

__all__ = ["OnlineForm", "Rows", "match_online", "product_heads", "product_sides"]

TRIED = 16
"""Terms of a chunk of the schedule that is tried: any number tells as much."""


@dataclass(frozen=True)
class Rows:
    """Place of a block's rows among an operation's axes.

    axis: which of an operation's axes runs over rows. begins: after how many they begin anew, 0 for never. heads: of how many
    values of another axis, `head`, rows lie behind each other.
    """

    axis: int
    begins: int = 0
    head: int = 0
    heads: int = 1

    def count(self, op: Operation) -> int:
        return fixed_extent(op.axis[self.axis]) * self.heads

    def order_loops(self, stage: Stage) -> tuple[list[IterVar], IterVar, IterVar]:
        """Order the loops of a stage: the outer ones, the one over rows, the one over columns, which are returned."""
        axes = list(stage.op.axis)
        row, column = axes[self.axis], axes[-1]
        inner: list[IterVar] = []
        if self.heads > 1:
            axes[self.head], head = stage.split(axes[self.head], factor=self.heads)
            inner = [head]
        outer = [axis for axis in axes if axis is not row and axis is not column]
        stage.reorder(*outer, *inner, row, column)
        return outer, fuse_axes(stage, [*inner, row]), column


@dataclass(frozen=True)
class _Output:
    """Stored output of an online sum.

    stage: what is stored. at: how its axes run over the rows; merged: which of the axes of what is merged does. inlined: what lies
    before it. outer: what merges chunks of chunks, of which there are so many; None where nothing does.
    """

    stage: Stage
    at: Rows
    merged: int
    inlined: list[Operation]
    outer: Stage | None
    chunks: int


@dataclass(frozen=True)
class OnlineForm:
    """A sum weighted by a softmax, recognised by its accesses.

    value: the weighted sum; product: what scores are elements of; output: what the group stores. of_product: the dimensions of
    the product that are a block's rows, and the terms of the sum. of_output: how the output's axes run over the rows; of_merged:
    which of the axes of what is merged does. row: which of the rows of the scores is a block's; kept: what lies between the
    product and the scores, and between the sum and the output.
    outer: what merges chunks of chunks. sizes: rows, terms, depth, columns, and how often. share: of the terms that count, on
    average. is_copied: whether what is read of each part of the sum lies in memory as it is multiplied, elements of 4 bytes, so
    that asynchronous copies can bring it. rows: of the sum where a row of the output is one of several of its dimensions. kind: the
    dtype of 16 bits that both products take; "" where they take none, or two.
    """

    value: Operation
    product: Operation
    output: Operation
    outer: Operation | None
    of_product: tuple[int, int]
    of_output: Rows
    of_merged: int
    row: int
    kept: tuple[Operation, ...]
    sizes: tuple[int, int, int, int, int]
    share: float
    is_copied: bool
    rows: int
    kind: str

    def apply_chunks(self, s: Schedule, terms: int, whole: bool = False) -> dict[str, Stage]:
        """Compute the sum so many terms at a time, in a schedule that nobody has touched; return the stages by what they are.
        What lies between the product and the scores, and between the sum and the output, is inlined."""
        into = None if self.outer is None else s[self.outer].op.output(2)
        made = s.online(s[self.value].op.output(0), terms, into, whole)
        for op in self.kept:
            if op in s:  # the sum itself is gone where another stage merges its chunks
                s[op].compute_inline()
        names = [tensor.op.name.rpartition(".")[2] for tensor in made[:-1]]
        return dict(zip((*names, "merged"), (s[tensor] for tensor in made), strict=True))


def match_online(s: Schedule, op: Operation) -> OnlineForm | None:
    """Match such a sum; None for any other operation, or where sizes are symbols. The schedule stays as it is."""
    found = weighted_sum(s[op].op)
    if found is None or s[op].is_scheduled() or found.op.axis[-1] in found.weights.axes:
        return None
    try:
        with s.attempt() as attempt:
            made = {tensor.op.name.rpartition(".")[2]: tensor for tensor in s.online(s[op].op.output(0), TRIED)}
            form = _read_form(s, op, made)
    except BadOnline:  # what is between is wanted elsewhere
        return None
    s.undo(attempt)
    return form


def _read_form(s: Schedule, op: Operation, made: dict[str, Tensor]) -> OnlineForm | None:
    """The form, from what `s.online` made, in a schedule that is about to be undone."""
    scores = s[made["scores"]]
    between = _inline_producers(scores)
    product = _product(s, scores)
    if product is None:
        return None
    stage, load = product
    merged, found = s[made["merged"]].op, _rows_and_terms(stage.op, load, scores.op)
    if found is None or len(merged.axis) != len(scores.op.axis) - 1:
        return None
    row, of_product = found
    output = _output(s, s[op], merged, (row, len(merged.axis) - 1))
    if output is None or merged.axis[row] in domain_axes(merged.reduce_axis[0]):  # rows that share no chunk
        return None
    last, outer = output.stage.op, output.outer
    length = fixed_extent(scores.op.axis[0]) * TRIED * output.chunks
    extents = [output.at.count(last), fixed_extent(stage.op.reduce_axis[0]), fixed_extent(merged.axis[-1])]
    total = elements(last)
    if not all(extents) or not length or not total:
        return None
    sizes = extents[0], length, extents[1], extents[2], total // extents[0] // extents[2]
    varies = domain_axes((merged if outer is None else outer.op).reduce_axis[0])
    return OnlineForm(
        op,
        stage.origin_op,
        output.stage.origin_op,
        None if outer is None else outer.origin_op,
        of_product,
        output.at,
        output.merged,
        row,
        (*between, *output.inlined),
        sizes,
        0.5 if varies else 1.0,
        _is_copied(s, stage.op, of_product[1], made["factor"].op),
        fixed_extent(merged.axis[row]),
        _kind(s, stage.op, made),
    )


def product_heads(s: Schedule, product: Operation) -> list[Operation]:
    """The producers of the factors of a product that are computed for it alone, element by element."""
    heads = [s[source(side)] for side in product_sides(product)]
    return [
        each.origin_op
        for each in heads
        if is_plain(each.op) and len(each.readers) == 1 and not each.is_output and not each.is_scheduled()
    ]


def _kind(s: Schedule, product: Operation, made: dict[str, Tensor]) -> str:
    """The dtype of 16 bits of what both products multiply; empty where there is none."""
    heads = {s[head].op: s[head].op.values[0] for head in product_heads(s, product)}
    both = [
        heads.get(source(side).op, factor) if not isinstance(factor, Cast) else factor
        for side, factor in zip(product_sides(product), factors(product) or (), strict=False)
    ]
    taken = {str(each.value.dtype) if isinstance(each, Cast) else "" for each in both}
    taken |= {str(made[name].dtype) if name in made else "" for name in ("rounded", "factor")}
    kind = taken.pop()
    return kind if not taken and kind in ("float16", "bfloat16") and product.output(0).dtype == "float32" else ""


def _is_copied(s: Schedule, product: Operation, terms: int, factor: Operation) -> bool:
    """Return whether the operand of the product's terms and that of the weights are plain copies of 4-byte words."""
    guarded = guarded_load(factor.values[0])
    value = factor.values[0] if guarded is None else guarded
    side = next(side for side in product_sides(product) if product.axis[terms] in load_axes(side))
    stages = [s[find_tensor(load)] for load in (side, value) if isinstance(load, ProducerLoad)]
    return (
        len(stages) == 2 and all(each.op.output(0).dtype.bytes == 4 for each in stages) and not is_plain(stages[0].op)
    )


def _rows_and_terms(product: Operation, load: ProducerLoad, scores: Operation) -> tuple[int, tuple[int, int]] | None:
    """The last of the rows of the scores that one side of the product alone is read along; and the dimensions of the product that
    are these, and the terms. None where there are none, or the sides are read otherwise."""
    chunk, *rows, term = scores.axis
    sides = product_sides(product)
    terms = [at for at, index in enumerate(load.indices) if term in find_axes(index)]
    others = {axis for at, index in enumerate(load.indices) if at not in terms for axis in find_axes(index)}
    if len(sides) != 2 or len(terms) != 1 or len(product.reduce_axis) != 1 or chunk in others:
        return None
    sides.sort(key=lambda side: product.axis[terms[0]] in load_axes(side))
    own, other = map(load_axes, sides)
    if product.axis[terms[0]] in own or product.axis[terms[0]] not in other:
        return None
    place = {index: at for at, index in enumerate(load.indices) if isinstance(index, IterVar)}
    fit = [at for at, axis in enumerate(rows) if axis in place and product.axis[place[axis]] in own - other]
    return (fit[-1], (place[rows[fit[-1]]], terms[0])) if fit else None


def _inline_producers(scores: Stage) -> list[Operation]:
    """Inlines what lies between scores and the product that they are of, element by element; returns these."""
    inlined: list[Operation] = []
    waiting = [scores]
    while waiting:
        for producer in waiting.pop().producers:
            if (
                is_plain(producer.op)
                and not producer.is_output
                and producer.attach_type != "inline"
                and all(reader is scores or reader.attach_type == "inline" for reader in producer.readers)
            ):
                producer.compute_inline()
                inlined.append(producer.origin_op)
                waiting.append(producer)
    return inlined


def _product(s: Schedule, scores: Stage) -> tuple[Stage, ProducerLoad] | None:
    """The one product that scores are of, which nothing else reads, and how it is read."""
    loads = {
        (load.producer, *map(structural_key, load.indices)): load
        for load in collect_loads(expand_inlined(scores))
        if find_tensor(load).op.reduction is not None
    }
    if len(loads) != 1:
        return None
    load = next(iter(loads.values()))
    stage = s[find_tensor(load)]
    readers = all(reader is scores or reader.attach_type == "inline" for reader in stage.readers)
    return (stage, load) if readers and not stage.is_output and factors(stage.op) is not None else None


def _output(s: Schedule, value: Stage, merged: Operation, places: tuple[int, int]) -> _Output | None:
    """The last of the elementwise operations that follow the sum, each read by the next alone, those in which chunks of chunks are
    merged among them. places: of rows and columns among the merged axes."""
    best: _Output | None = None
    inlined: list[Stage] = []
    outer: Stage | None = None
    chunks, stage, size = 1, value, elements(value.op) or 0
    while True:
        at = _reads_merged(stage, merged, places)
        if at is not None and all(reader is stage or reader in inlined for reader in s[merged].readers):
            best = _Output(stage, at, places[0], [each.origin_op for each in inlined], outer, chunks)
        following = next(iter(stage.readers), None)
        if stage.is_output or following is None or len(stage.readers) > 1 or following.is_scheduled():
            return best
        stage.compute_inline()
        inlined.append(stage)
        if following.op.reduction is not None:
            moved = _merges(following, merged, places)
            if (
                outer is not None
                or moved is None
                or not all(each is following or each in inlined for each in s[merged].readers)
            ):
                return best
            places, chunks = moved
            outer, stage, merged, size = following, following, following.op, elements(following.op) or 0
            following = next(iter(stage.readers), None)
            if stage.is_output or following is None or len(stage.readers) > 1 or following.is_scheduled():
                return best
        if not is_plain(following.op) or not 0 < (elements(following.op) or 0) <= size:
            return best
        stage = following


def _merges(stage: Stage, merged: Operation, places: tuple[int, int]) -> tuple[tuple[int, int], int] | None:
    """The places of the merged rows and columns among the axes of a reduction that merges these further, and the number of chunks;
    None for any other reduction."""
    op = stage.op
    indices = [load.indices for load in collect_loads(expand_inlined(stage)) if find_tensor(load).op is merged]
    if len(op.reduce_axis) != 1 or op.num_outputs < 2 or not indices:
        return None
    chunk, first = op.reduce_axis[0], indices[0]
    row, column = (first[place] for place in places)
    along = [at for at, index in enumerate(first) if index is chunk]
    if row not in op.axis or column is not op.axis[-1] or len(along) != 1:
        return None
    if any(not all(one is other for one, other in zip(each, first, strict=True)) for each in indices):
        return None
    return (op.axis.index(row), op.axis.index(column)), fixed_extent(merged.axis[along[0]])


def _reads_merged(stage: Stage, merged: Operation, places: tuple[int, int]) -> Rows | None:
    """The rows that the axes of a stage run over, where its last one runs over the columns; None for any other access."""
    indices = {load.indices for load in collect_loads(expand_inlined(stage)) if find_tensor(load).op is merged}
    axes = stage.op.axis
    if not axes or len({tuple(map(structural_key, each)) for each in indices}) != 1:
        return None
    at = next(iter(indices))
    row, column = at[places[0]], at[places[1]]
    begins = 0
    if isinstance(row, FloorMod) and isinstance(row.b, IntImm):
        row, begins = row.a, row.b.value
    if column is not axes[-1]:
        return None
    if isinstance(row, IterVar):
        return Rows(axes.index(row), begins) if row is not column and row in axes else None
    return _match_heads(row, axes) if not begins else None


def _match_heads(row: Expr, axes: Sequence[IterVar]) -> Rows | None:
    """The rows of several heads behind each other, `head % heads * rows + i`."""
    at = dimension(row)
    if len(at.steps) != 1 or len(at.rest) != 1:
        return None
    ((own, step),), ((heads, rows),) = at.steps.items(), at.rest
    if (
        step != 1
        or own not in axes[:-1]
        or not isinstance(heads, FloorMod)
        or not isinstance(heads.a, IterVar)
        or not isinstance(heads.b, IntImm)
    ):
        return None
    fits = heads.a in axes[:-1] and rows == fixed_extent(own) and heads.a is not own
    divides = fits and fixed_extent(heads.a) % heads.b.value == 0
    return Rows(axes.index(own), 0, axes.index(heads.a), heads.b.value) if divides else None


def product_sides(op: Operation) -> list[ProducerLoad]:
    """The loads that a product multiplies, before conversions."""
    return [side for side in map(strip_conversion, factors(op) or ()) if isinstance(side, ProducerLoad)]
