"""Sums that a softmax of a product's rows weighs, attention among others, whoever declared them: no scores go to memory.

    scores[i, j] = sum over d of q[i, d] * k[j, d]    weight = softmax of rows    y[i, e] = sum over j of weight[i, j] * v[j, e]

    for task (batch, heads, blocks of rows; in parallel):
        q.turned = q[rows, :]                            # lanes are rows from here on, until values are added up
        for chunk of terms:                              # s.online; one, unless there are many
            for terms (a few):  for d:  scores[terms, lanes] += k[term, d] * q.turned[d, lanes]
            peak[lanes], weight[terms, lanes], total[lanes]
            for rows (a few):  for term:  part[row, columns] += weight[term, row] * v[term, columns]
        y[rows] = merged / total

The block's scores stay in the second cache, and both products in registers, as topi's attention has them (attention.py). The order
of sums is another one, the functions are those that were declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ...codegen.machine import Machine
from ...ir.expr import IterVar, ProducerLoad
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.softmax_sums import weighted_sum
from ..accesses import contiguous_axes, domain_axes, find_axes, load_axes, source
from ..cost.cpu import Lines
from ..cost.estimate import Estimate, add_estimates
from ..drafts.draft import Drafts
from ..forms.online import OnlineForm, match_online, product_sides
from ..loops import fuse_axes
from ..plan import Candidate, Decision
from ..registry import registered_rules
from .contraction import usual_time
from .transposes import MAX_TILE, transpose_rows

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["online_sums"]

BLOCKS = (64, 32, 16)
"""Rows of a block to choose from."""
LONG, CHUNK = 2048, 1024
"""Terms up to which a row's are one chunk, and those of a chunk beyond."""
TILE = 4
"""Terms, or rows, of a register tile."""


def online_sums(s: Schedule, begin: Callable[[Operation], Group]) -> list[Decision]:
    """Schedule such sums of a schedule that nobody has touched, with all that belongs to them, and tell what was decided. begin:
    makes the group of an operation alone."""
    decisions: list[Decision] = []
    for op in [stage.op for stage in s.stages if stage.op.reduction is not None and not stage.op.algorithm]:
        if op in s and weighted_sum(s[op].op) is not None:
            group = begin(op)
            if not any(rule.matches(group) for rule in registered_rules()) and _schedule_sum(group):
                decisions += group.decisions
    return decisions


def _schedule_sum(group: Group) -> bool:
    """Schedule such a sum; do nothing and return False where the anchor is none, or its rows are too few."""
    form = match_online(group.s, group.anchor)
    if form is None or form.outer is not None or form.product.algorithm or form.output.output(0).dtype.bits < 32:
        return False
    rows, terms, depth, columns, _ = form.sizes
    lanes, begins = group.machine.lanes(form.value.output(0).dtype.bits), form.of_output.begins
    fitting = [size for size in BLOCKS if size % lanes == 0 and size <= rows and (not begins or begins % size == 0)]
    if not fitting or min(terms, columns) < lanes or depth < TILE:
        return False
    apart, chunk = _time_separate(group, form), terms if terms <= LONG else CHUNK
    with group.s.attempt() as attempt:
        made = form.apply_chunks(group.s, chunk)
        blocks = [
            (
                f"blocks of {size} rows; scores stay in a cache",
                partial(_schedule_blocks, form=form, made=made, block=size),
            )
            for size in fitting
        ]
        whole = replace(group, output=form.output, parts=(form.product,))
        first, *others = whole.draft_candidates(blocks, ordered=True)
        undo = Candidate("each operation apart", partial(group.s.undo, attempt), apart)
        whole.choose("online", [first, *others, undo])
    return True


def _time_separate(group: Group, form: OnlineForm) -> Estimate | None:
    """The time of each operation apart: products of matrices, and rows of what lies between and behind them; None where the sum is no
    product, as of a number of terms that differs with the row."""
    s, last = group.s, group.s[form.output].op
    times = [usual_time(replace(group, anchor=op, output=op)) for op in (form.product, form.value)]
    reading, rows = {s[form.product].op}, list[Operation]()
    for op in [stage.op for stage in s.stages]:  # producers first
        if not reading.isdisjoint(tensor.op for tensor in op.input_tensors):
            reading.add(op)
            if op is not s[form.value].op:
                rows.append(op)
        if op is last:
            break
    times.append(group.draft(partial(_schedule_rows, ops=rows), Drafts(), Lines(), rows))
    known = [time for time in times if time is not None]
    return add_estimates(known) if len(known) == len(times) else None


def _schedule_rows(group: Group, ops: Sequence[Operation]) -> None:
    """Each of some operations by itself, in vectors along the last of its loops."""
    for op in ops:
        stage = group.s[op]
        _, lane = stage.split(stage.leaf_iter_vars[-1], factor=group.machine.lanes(op.output(0).dtype.bits))
        stage.vectorize(lane)
        stage.parallel(stage.leaf_iter_vars[0])


def _columns(machine: Machine, lanes: int) -> int:
    """Elements of a row of a register tile."""
    return lanes * (4 if machine.registers >= 32 else 2)


def _schedule_blocks(group: Group, form: OnlineForm, made: Mapping[str, Stage], block: int) -> None:
    """Schedule all that belongs to the sum, so many rows at a time. made: what computes its chunks."""
    s, machine = group.s, group.machine
    made = {name: s[stage.op] for name, stage in made.items()}
    lanes = machine.lanes(form.value.output(0).dtype.bits)
    several = _columns(machine, lanes)
    stage = s[form.output]
    outer, row, e = form.of_output.order_loops(stage)
    blocks, i = stage.split(row, factor=block)
    columns, e = stage.split(e, factor=lanes)
    task = fuse_axes(stage, [*outer, blocks])
    stage.reorder(task, i, columns, e)
    stage.parallel(task)
    stage.vectorize(e)
    at = _merge(made["merged"], (stage, task), form.row, lanes)
    for name in ("weight", "rounded"):
        if name in made:
            made[name].compute_at(*at)
            made[name].vectorize(_put_last(made[name], 1 + form.row))
    for name in ("peak", "total"):
        _reduce_terms(made[name], at, 1 + form.row)
    _compute_scores(s, made["scores"], form, at, (stage, task), min(several, block))
    _add_values(made["part"], made["factor"], at, 1 + form.row, several)


def _merge(stage: Stage, at: tuple[Stage, IterVar], row: int, lanes: int) -> tuple[Stage, IterVar]:
    """Merge the chunks of a block; return the stage with the loop over chunks."""
    stage.compute_at(*at)
    (chunk,) = stage.op.reduce_axis
    axes = list(stage.op.axis)
    i, e = axes[row], axes[-1]
    columns, e = stage.split(e, factor=lanes)
    first = [axis for axis in axes[:-1] if axis is not i and axis in domain_axes(chunk)]
    others = [axis for axis in axes[:-1] if axis is not i and axis not in first]
    stage.reorder(*first, chunk, *others, i, columns, e)
    stage.vectorize(e)
    return stage, chunk


def _put_last(stage: Stage, place: int) -> IterVar:
    """Lay an axis out side by side; return its loop."""
    order = [*(at for at in range(len(stage.op.axis)) if at != place), place]
    if order == sorted(order):
        return stage.op.axis[place]
    moved = stage.transform_layout(lambda *index: [index[at] for at in order])
    assert moved is not None
    return moved[-1]


def _reduce_terms(stage: Stage, at: tuple[Stage, IterVar], row: int) -> None:
    """A number for each row, which are lanes."""
    s = stage.schedule
    sums = s[s.cache_write(stage.op.output(0), "local")]
    stage.compute_at(*at)
    stage.vectorize(_put_last(stage, row))
    sums.compute_at(*at)
    lane = _put_last(sums, row)
    sums.reorder(*(axis for axis in sums.leaf_iter_vars if axis is not lane), lane)
    sums.vectorize(lane)


def _compute_scores(
    s: Schedule,
    scores: Stage,
    form: OnlineForm,
    at: tuple[Stage, IterVar],
    task: tuple[Stage, IterVar],
    width: int,
) -> None:
    """Scores in tiles of a few terms by vectors of rows, from the product in registers."""
    scores.compute_at(*at)
    term = scores.op.axis[-1]
    row = _put_last(scores, 1 + form.row)
    term = scores.leaf_iter_vars[-2]
    terms, term = scores.split(term, factor=TILE)
    rows, row = scores.split(row, factor=width)
    scores.reorder(terms, rows, term, row)
    scores.unroll(term)
    scores.vectorize(row)
    sums = s[form.product]
    sums.set_scope("local")
    sums.compute_at(scores, rows)
    i, j = (sums.op.axis[place] for place in form.of_product)
    load = next(side for side in product_sides(sums.op) if i in load_axes(side))
    if i not in contiguous_axes(load):
        place = next(place for place, index in enumerate(load.indices) if i in find_axes(index))
        size = min(width, MAX_TILE)
        transpose_rows(s, source(load), place, [sums.op], size).compute_at(*task)
    names = [axis.name for axis in sums.op.axis]
    lane = _put_last(sums, form.of_product[0])
    j = next(axis for axis in sums.op.axis if axis.name == names[form.of_product[1]])
    depth = sums.op.reduce_axis[0]
    sums.reorder(depth, j, lane)
    sums.unroll(j)
    sums.vectorize(lane)


def _add_values(part: Stage, factor: Stage, at: tuple[Stage, IterVar], row: int, width: int) -> None:
    """Weights times values, in tiles of a few rows by vectors of columns."""
    s = part.schedule
    if _lies_along_columns(factor):
        factor.compute_inline()
    sums = s[s.cache_write(part.op.output(0), "local")]
    part.compute_at(*at)
    i, e = part.op.axis[row], part.op.axis[-1]
    rows, i = part.split(i, factor=TILE)
    columns, e = part.split(e, factor=width)
    part.reorder(*(axis for axis in part.leaf_iter_vars if axis not in (rows, columns, i, e)), rows, columns, i, e)
    part.unroll(i)
    part.vectorize(e)
    sums.compute_at(part, columns)
    i, e, term = sums.op.axis[row], sums.op.axis[-1], sums.op.reduce_axis[0]
    sums.reorder(*(axis for axis in sums.op.axis if axis is not i and axis is not e), term, i, e)
    sums.unroll(i)
    sums.vectorize(e)


def _lies_along_columns(factor: Stage) -> bool:
    """Return whether what weights are multiplied with is read as it lies."""
    value = factor.op.values[0]
    loads = collect_loads(value)
    return isinstance(value, ProducerLoad) and all(factor.op.axis[-1] in contiguous_axes(load) for load in loads)
