"""online: a sum weighted by a softmax, chunk by chunk, of which nothing is kept but a maximum, a total and the sum so far.

    peak[i] = max over j of x[i, j]                         for c in 4:                         # online(O, 64)
    total[i] = sum over j of exp(x[i, j] - peak[i])           O.peak[c, i] = max over 64 terms of x
    O[i, e] = sum over j of                              →    O.total[c, i] = sum over them of exp(x - O.peak[c, i])
      exp(x[i, j] - peak[i]) / total[i] * v[j, e]             O.part[c, i, e] = sum over them of exp(x - O.peak[c, i]) * v[j, e]
                                                              (largest, total, sum)[i, e] = merged with these three
                                                            O[i, e] = sum[i, e] / total[i, e]

Of two chunks the one with the lower maximum counts for less. So a row of x is needed a chunk at a time, and need not be stored.
(Milakov and Gimelshein 2018, Online normalizer calculation for softmax; Dao et al. 2022, FlashAttention, section 3.1.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...base import dataclass, replace, user_source
from ...ir.expr import LT, Add, Cast, Expr, IntImm, IterVar, Max, Mul, Node, ProducerLoad, Range, Reduce, Var
from ...ir.ops import TRUE, cast, conjunction, const, if_then_else, index_ceildiv, select
from ...ir.structural import structural_key
from ...ir.visit import post_order, rewrite, substitute
from ...te.math import fma, min_value
from ...te.operation import ComputeOp, Operation
from ...te.reduce import comm_reducer
from ...te.rewrite import collect_loads, rewrite_reduction
from ...te.shape import constant_extent
from ...te.softmax_sums import WeightedSum, rows_of_total, weighted_sum
from ...te.tensor import Tensor, find_tensor
from ..errors import BadOnline
from ..model.checks import refusal
from ..model.foreign import FLAG, NOTHING, TENSORS, either, integer
from ..model.layout import add_root_axis, check_outputs, retire
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .chunk_merges import count_chunks, flatten_merge

__all__ = ["online"]

LONGEST = 1 << 20
"""Terms of a chunk at most."""


def _tries(stage: Stage) -> Iterator[Try]:
    if not stage.is_scheduled() and weighted_sum(stage.op) is not None:
        yield "64", lambda one: one.schedule.online(one.op.output(0), 64)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: weighted_sum(stage.op) is not None)
    if stage is None:
        return None
    factor = drawer.pick([1, 3, 4, 16])
    return f"online({stage.name}, {factor})", lambda: drawer.s.online(stage.op.output(0), factor)


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1.5,
    rare=True,
    foreign={"tensor": TENSORS, "factor": integer(1, LONGEST), "into": either(NOTHING, TENSORS), "whole": FLAG},
)
def online(
    schedule: Schedule, tensor: Tensor, factor: int, into: Tensor | None = None, whole: bool = False
) -> list[Tensor]:
    """Compute a sum weighted by a softmax chunk by chunk, with what is needed to merge these.

        peak[i] = max over j of x[i, j]                     for c in 4:                         # online(O, 64)
        total[i] = sum over j of exp(x[i, j] - peak[i])       O.peak[c, i] = max over 64 terms of x
        O[i, e] = sum over j of                        →      O.total[c, i] = sum of exp(x - O.peak[c, i])
          exp(x[i, j] - peak[i]) / total[i] * v[j, e]         O.part[c, i, e] = sum of exp(x - O.peak[c, i]) * v[j, e]
                                                              (largest, total, sum)[i, e] = merged with these three
                                                            O[i, e] = sum[i, e] / total[i, e]

    The sums are taken in another order, and weights have another factor in common. What reads the maximum or the total beside the
    tensor reads what is merged; the stages that were between are gone.

    Parameters
    ----------
    tensor : Tensor
        A sum over one axis of exp(x - peak) times something, peak being the maximum of the same x; divided by the sum of the weights
        before, behind, or nowhere, with element by element operations between.
    factor : int
        Terms of a chunk.
    into : Tensor or None, default None
        An output of a reduction that merges what is merged further, over longer chunks that a program has declared, each
        min(length, terms - chunk * length) terms, `factor` dividing the length: it merges the short chunks itself, and is the last of
        the tensors returned.
    whole : bool, default False
        Whether what weights are multiplied with is the same for all rows of a chunk, where rows have terms of their own number: a
        row multiplies what others alone have by weights of 0, which gives NaN where that is not finite.

    Returns
    -------
    list of Tensor
        "O.scores", "O.peak", "O.weight", "O.total", "O.factor" (what weights are multiplied with), "O.part" and "O.merged" (its sum),
        each but the last with a dimension for the chunk before its others; and "O.rounded" behind the weight where weights are
        rounded to be multiplied.

    Raises
    ------
    BadOnline (TW0233)
        It is no such sum, or not to be computed chunk by chunk.
    UnknownStage (TW0201)
        The schedule does not compute the tensor.
    WrongArgument (TW0222)
        An argument is of another kind.
    """
    stage, _ = check_outputs(schedule, tensor, BadOnline, "cannot compute by chunks")
    found = _check_weighted_sum(stage, factor)
    total = _total(stage, found)
    with schedule.compound("online", tensor=tensor, factor=factor, into=into, whole=whole):
        chunks = _Chunks(found, total, factor, whole)
        made = chunks.operations()
        before = _intermediate_stages(stage, found, total)
        for each in made:
            schedule.insert_stage(schedule.find_place(stage), each, stage)
        value = stage.op.output(0)
        readers = {each: op for each in list(stage.readers) if (op := chunks.reader(each.op, value)) is not None}
        retire(schedule, stage.op.reduce_axis, f"was an axis of {stage.name} until online made chunks of it{{at}}")
        schedule.rewrite(readers, anew={stage: chunks.result()})
        _drop(schedule, [*before, *chunks.unread_stages(schedule)], stage, found, total)
        merged = made[-1]
        if into is not None:
            merged = _flatten(schedule[into], schedule[merged], stage, chunks)
        schedule.losses.append(f"terms of {stage.name} are added up chunk by chunk")
    return [each.output(0) for each in made[:-1]] + [merged.output(2)]


def _flatten(outer: Stage, merged: Stage, stage: Stage, chunks: _Chunks) -> Operation:
    """Let a stage merge the chunks that `merged` does, which goes, and the weighted sum with it."""
    inner, value = merged.op.as_compute, stage.op.as_compute
    assert inner is not None and value is not None
    op = flatten_merge(outer.op, inner, value, chunks.merged_extent(inner), chunks.factor)
    others = [reader.name for each in (merged, stage) for reader in each.readers if reader not in (outer, stage)]
    if op is None:
        raise _bad(
            stage, f"{outer.name} is not a merger of its chunks of whole multiples of {chunks.factor}", "leave into out"
        )
    if others or stage.is_output or outer.is_scheduled():
        reason = (
            f"{others[0]} reads what is merged too" if others else f"{outer.name} is scheduled, or the sum is an output"
        )
        raise _bad(stage, reason, "leave into out")
    retire(
        outer.schedule,
        outer.op.reduce_axis,
        f"was an axis of {outer.name} until online made shorter chunks of it{{at}}",
    )
    outer.schedule.rewrite({}, anew={outer: op})
    outer.schedule.refresh()
    for each in (stage, merged):
        outer.schedule.drop_stage(each)
    return outer.op


def _bad(stage: Stage, reason: str, fix: str) -> BadOnline:
    return refusal(
        BadOnline, stage, f"cannot compute {stage.name} by chunks that are merged", stage.leaf_iter_vars, reason, fix
    )


def _check_weighted_sum(stage: Stage, factor: int) -> WeightedSum:
    op, found = stage.op, weighted_sum(stage.op)
    if found is None or op.as_compute is None:
        raise _bad(
            stage,
            "it is not a sum over one axis of exp(x - peak) * v, peak being the maximum of x over the same terms",
            "pass the sum that is weighted, O[i, e] = sum over j of weight[i, j] * v[j, e]",
        )
    if not 1 <= factor <= LONGEST:
        raise _bad(stage, f"a chunk would have {factor} terms", f"a factor from 1 to {LONGEST}")
    if not stage.is_untouched() or stage.group is not None:
        raise _bad(stage, "its loops are scheduled already", "call online first")
    rows = found.weights.axes
    own = {node for node in post_order(found.weights.power) if isinstance(node, IterVar)}.difference({found.axis})
    if len(rows) != len(found.weights.peak.indices) or len({*rows}) != len(rows) or not own <= {*rows}:
        raise _bad(
            stage,
            f"the maximum {found.weights.peak} is not read at an axis for each of its dimensions",
            "let the maximum have the axes that tell rows apart, and no others",
        )
    if op.output(0).dtype != found.weights.power.dtype:
        raise _bad(
            stage,
            f"it is {op.output(0).dtype}, and its weights are {found.weights.power.dtype}",
            "take one dtype for both",
        )
    return found


def _total(stage: Stage, found: WeightedSum) -> tuple[Operation, dict[IterVar, IterVar]]:
    """The sum of the weights, and for each of its axes the one of the weighted sum that it is."""
    named = [found.total.producer.op] if found.total is not None and isinstance(found.total.producer, Tensor) else []
    for op in named or [each.op for each in stage.schedule.stages if each is not stage]:
        rows = rows_of_total(op, found)
        if rows is not None and op.output(0).dtype == found.weights.power.dtype:
            return op, rows
    raise _bad(stage, "nothing adds its weights up", "let another stage have total[i] = sum over j of weight[i, j]")


def _intermediate_stages(
    stage: Stage, found: WeightedSum, total: tuple[Operation, Mapping[IterVar, IterVar]]
) -> list[Stage]:
    """The stages from the maximum on that the weighted sum is computed from, and the total, the last first."""
    peak = stage.schedule[find_tensor(found.weights.peak)]
    stages, waiting = {peak, stage.schedule[total[0]]}, [stage]
    while waiting:
        for producer in waiting.pop().producers:
            if producer not in stages and producer is not peak and producer.reads(peak):
                stages.add(producer)
                waiting.append(producer)
    waiting = [stage.schedule[total[0]]]
    while waiting:
        for producer in waiting.pop().producers:
            if producer not in stages and producer.reads(peak):
                stages.add(producer)
                waiting.append(producer)
    return stage.schedule.sort_stages(stages)[::-1]


def _drop(
    schedule: Schedule,
    between: Sequence[Stage],
    stage: Stage,
    found: WeightedSum,
    total: tuple[Operation, Mapping[IterVar, IterVar]],
) -> None:
    """Take away what is read no longer. Raises BadOnline where the maximum or the total is."""
    schedule.refresh()
    needed = {find_tensor(found.weights.peak).op, total[0]}
    for each in between:
        if each.readers or each.is_output:
            if each.op in needed or each.is_output:
                names = ", ".join(reader.name for reader in each.readers) or "an output of the schedule"
                raise _bad(
                    stage, f"{each.name} is wanted whole, by {names}", f"read it where {stage.name} is read, row by row"
                )
            continue
        if schedule.find_placed(each) or each.group is not None:
            raise _bad(stage, f"{each.name} would be gone, and other stages are computed at it", "call online first")
        schedule.drop_stage(each)


@dataclass(frozen=True)
class _Axes:
    """Axes of chunks, and of the terms of one."""

    chunk: IterVar
    term: IterVar


class _Chunks:
    """The operations. They are written in terms of the weighted sum's own axes, and of two that say the chunk and the term in it;
    each gets axes of its own."""

    def __init__(
        self, found: WeightedSum, total: tuple[Operation, dict[IterVar, IterVar]], factor: int, whole: bool
    ) -> None:
        self.found, self.weights = found, found.weights
        self.total, self.rows_of_total = total
        self.value, self.scale, self.through = found.weights.unscale()
        self.op = found.op
        self.rows = [axis for axis in self.op.axis if axis in {*self.weights.axes}]
        dtype, domain = found.axis.dtype, found.axis.dom
        assert domain is not None
        self.extent = domain.extent
        count = index_ceildiv(_longest(found), factor)
        self.axes = _Axes(
            IterVar("c", dtype, Range(const(0, dtype), cast(count, dtype))),
            IterVar(found.axis.name, dtype, Range(const(0, dtype), const(factor, dtype))),
        )
        self.factor, self.is_alike = factor, whole
        self.place = self.axes.chunk * factor + self.axes.term
        length = constant_extent(found.axis)
        self.is_whole = length is not None and length % factor == 0
        self.tensors: dict[str, Tensor] = {}

    def operations(self) -> list[ComputeOp]:
        """Return the operations computed of each chunk, in order, and those that merge them."""
        weights, c, t, kind = self.weights, self.axes.chunk, self.axes.term, self.weights.power.dtype
        scores = self._restrict(self.value, const(-math.inf, kind))
        made = [self._build("scores", [c, *self.rows, t], scores)]
        own = self._read("scores", [c, *self.rows, t])
        peak = self._reduce_chunk(find_tensor(weights.peak).op, weights.find_source(own))
        made.append(self._build("peak", [c, *self.rows], peak))
        largest = self._peak()
        if self.scale is not None or not weights.is_bounded:  # a chunk of which no term counts
            largest = Max(largest, min_value(str(kind)))
        made.append(self._build("weight", [c, *self.rows, t], weights.find_power(self._scale(own) - largest)))
        weight = self._read("weight", [c, *self.rows, t])
        multiplied: Expr = weight
        if weights.stored is not None:
            made.append(self._build("rounded", [c, *self.rows, t], Cast(weight, weights.stored)))
            multiplied = Cast(self._read("rounded", [c, *self.rows, t]), kind)
        made.append(self._build("total", [c, *self.rows], self._reduce_chunk(self.total, weight)))
        factor = _find_stored(self.found.factor)
        factor = (self._restrict_to_tensors if self.is_alike else self._restrict)(factor, const(0, factor.dtype))
        read = {node for node in post_order(factor) if isinstance(node, IterVar)}
        over = [
            c,
            *(axis for axis in self.rows if axis in read),
            t,
            *(axis for axis in self.op.axis if axis not in self.rows),
        ]
        made.append(self._build("factor", over, factor))
        part = self._reduce_chunk(self.op, Mul(multiplied, cast(self._read("factor", over), kind)))
        made.append(self._build("part", [c, *self.op.axis], part))
        return [*made, self._merge()]

    def _restrict(self, value: Expr, otherwise: Expr) -> Expr:
        """A value of a term; of none behind the last another one."""
        there = substitute(value, {self.found.axis: self.place})
        return there if self.is_whole else if_then_else(self.place < self.extent, there, otherwise)

    def _restrict_to_tensors(self, value: Expr, otherwise: Expr) -> Expr:
        """A value of a term, of none behind the last of the tensors that are read another one."""
        there = substitute(value, {self.found.axis: self.place})
        ends = [
            LT(index, extent)
            for load in collect_loads(there)
            for index, extent in zip(load.indices, load.producer.shape, strict=True)
            if any(node is self.axes.term for node in post_order(index))
        ]
        return if_then_else(conjunction(*ends), there, otherwise)

    def _reduce_chunk(self, like: Operation, source: Expr) -> Reduce:
        """A reduction of the terms of a chunk, as another one is."""
        assert like.reduction is not None
        return replace(
            like.reduction, sources=(source,), axes=(self.axes.term,), condition=TRUE, init=(), value_index=0
        )

    def _scale(self, value: Expr) -> Expr:
        return value if self.scale is None else Mul(value, self.scale)

    def _peak(self) -> Expr:
        """The largest score of a chunk."""
        return self._scale(self._read("peak", [self.axes.chunk, *self.rows]))

    def _read(self, name: str, at: Sequence[Expr]) -> ProducerLoad:
        return ProducerLoad(self.tensors[name], tuple(at))

    def _build(self, name: str, over: Sequence[IterVar], *body: Expr) -> ComputeOp:
        """An operation over these axes, which become others."""
        new: dict[Var, Expr] = {}
        axes: list[list[IterVar]] = [[], []]
        first = body[0]
        for at, group in enumerate((over, first.axes if isinstance(first, Reduce) else ())):
            for each in group:
                assert each.dom is not None
                within = Range(substitute(each.dom.begin, new), substitute(each.dom.extent, new))
                axes[at].append(add_root_axis(each, within, each.name, "reduce" if at else "data"))
                new[each] = axes[at][-1]
        values: tuple[Expr, ...] = tuple(substitute(value, new) for value in body)
        if isinstance(whole := values[0], Reduce):
            values = tuple(replace(whole, axes=tuple(axes[1]), value_index=at) for at in range(len(values)))
        op = ComputeOp(
            name=f"{self.op.name}.{name}", tag="", attrs={}, source=user_source(), axis=tuple(axes[0]), body=values
        )
        self.tensors[name] = op.output(0)
        return op

    def _merge(self) -> ComputeOp:
        """The largest maximum, the total and the sum of all chunks."""
        c, kind = self.axes.chunk, self.weights.power.dtype

        def merge(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
            both = Max(a[0], b[0])
            left, right = (
                select(one[0] >= both, const(1, kind), self.weights.find_power(one[0] - both)) for one in (a, b)
            )
            return both, fma(a[1], left, b[1] * right), fma(a[2], left, b[2] * right)

        def nothing(*_: Any) -> tuple[Expr, ...]:
            return const(-math.inf, kind), const(0, kind), const(0, kind)

        combiner = comm_reducer(merge, nothing, name="merge").combiner((kind, kind, kind), True)
        rows = [c, *self.rows]
        sources = self._peak(), self._read("total", rows), self._read("part", [c, *self.op.axis])
        assert c.dom is not None
        seen = replace(c, dom=Range(c.dom.begin, count_chunks(self.extent, self.factor)))
        moved = tuple(substitute(source, {c: seen}) for source in sources)
        whole = Reduce(combiner, moved, (seen,), TRUE)
        return self._build("merged", list(self.op.axis), *(replace(whole, value_index=at) for at in range(3)))

    def _read_row(self, at: Sequence[Expr], value: int) -> Expr:
        """The largest maximum, or the total, of the row of an element; NaN, as exp(-inf - -inf) is, where no term counts."""
        op = self.tensors["merged"].op
        largest, total = (ProducerLoad(op.output(each), tuple(at)) for each in (0, 1))
        return largest if value == 0 else total if self.weights.is_bounded else Add(total, largest - largest)

    def result(self) -> ComputeOp:
        """The weighted sum, from what is merged."""
        op, norm = self.op.as_compute, self.found.norm
        assert op is not None
        value: Expr = ProducerLoad(self.tensors["merged"].op.output(2), tuple(op.axis))
        if norm is not None:
            total = self._read_row(op.axis, 1)

            def rule(node: Node) -> Node | None:
                return total if node is self.found.total else None

            value = replace(norm, a=value, b=rewrite(norm.b, rule))
        elif not self.weights.is_bounded:
            largest = self._read_row(op.axis, 0)
            value = Add(value, largest - largest)
        return replace(op, body=(value,), tag="", algorithm="", attrs={})

    def unread_stages(self, schedule: Schedule) -> list[Stage]:
        """The stages that computed scaled scores, the last first, but for outputs."""
        return [schedule[op] for op in self.through if not schedule[op].is_output]

    def merged_extent(self, merged: ComputeOp) -> Expr:
        """The terms of a row, by the axes of what is merged."""
        return substitute(self.extent, dict[Var, Expr](zip(self.op.axis, merged.axis, strict=True)))

    def reader(self, op: Operation, result: Tensor) -> ComputeOp | None:
        """An operation that reads the maximum or the total beside the weighted sum, with what is merged in their place; None for
        one that does not."""
        compute = op.as_compute
        if compute is None:
            return None
        elements = [load.indices for load in collect_loads(*compute.body) if load.producer is result]
        numbers = {self.total: (self.rows_of_total, 1), find_tensor(self.weights.peak).op: (self._rows_of_peak(), 0)}

        def rule(node: Node) -> Node | None:
            if (
                not isinstance(node, ProducerLoad)
                or not isinstance(node.producer, Tensor)
                or node.producer.op not in numbers
            ):
                return None
            rows, value = numbers[node.producer.op]
            own = dict(zip((rows[axis] for axis in node.producer.op.axis), node.indices, strict=True))
            for at in elements:
                if all(
                    structural_key(at[self.op.axis.index(axis)]) == structural_key(index) for axis, index in own.items()
                ):
                    return self._read_row(at, value)
            return None

        body = rewrite_reduction(compute.body, lambda value: rewrite(value, rule))
        return replace(compute, body=body) if body is not compute.body else None

    def _rows_of_peak(self) -> dict[IterVar, IterVar]:
        return dict(zip(find_tensor(self.weights.peak).op.axis, self.weights.axes, strict=True))


def _find_stored(factor: Expr) -> Expr:
    """Return the operand before its conversion for a product: of floats of fewer bits these are kept."""
    narrow = isinstance(factor, Cast) and factor.value.dtype.is_float and factor.value.dtype.bits < factor.dtype.bits
    return factor.value if isinstance(factor, Cast) and narrow else factor


def _longest(found: WeightedSum) -> Expr:
    """The most terms that a row has: those that are there, or as many as a tensor that is read at each of them."""
    extent = found.axis.dom.extent if found.axis.dom is not None else const(0, found.axis.dtype)
    if not any(isinstance(node, IterVar) for node in post_order(extent)):
        return extent
    places = [
        size
        for load in collect_loads(found.weights.value, found.factor)
        for index, size in zip(load.indices, load.producer.shape, strict=True)
        if (index.value if isinstance(index, Cast) else index) is found.axis
    ]
    known = [size for size in places if isinstance(size, IntImm)]
    return min(known, key=lambda size: size.value) if known else places[0]
