"""Drafts: schedules in numbers, which take the primitives that a candidate applies and give its loop nest (nests.py).

    draft = Draft(s)                                # nothing of s changes
    stage = draft[C]
    i, r = stage.split(stage.op.axis[0], factor=6)
    stage.unroll(r)
    nest_of_draft(draft, machine)                   # what is estimated

Primitives cost milliseconds where they check, rewrite and record, and lowering as much again; here microseconds. Loops are parts of
declared axes: a loop knows the axes that it stands for and how much of each an iteration takes. Whatever a draft has no numbers for
raises Undrafted: such a candidate has no estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from ...base import dataclass, replace
from ...ir.dtype import INT32
from ...ir.expr import Expr, FloorDiv, FloorMod, IterVar, Node, ProducerLoad, Range, Reduce, Var
from ...ir.ops import const, integer_value
from ...ir.structural import structural_key
from ...ir.visit import post_order, rewrite, substitute
from ...te.factors import guarded_load
from ...te.operation import ComputeOp, Operation
from ...te.rewrite import collect_loads
from ...te.tensor import Tensor
from ..accesses import ASSUMED, dimension, find_axes

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage

__all__ = ["Draft", "DraftStage", "Drafts", "Part", "Undrafted", "extent_in_numbers"]

Made = TypeVar("Made")


class Undrafted(Exception):
    """A primitive, or a use of one, for which drafts have no numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A loop over parts of others: their iterations one after the other (factor 0), or `factor` of these at a time (inner), or the
    steps of so many (outer)."""

    of: tuple[IterVar, ...]
    factor: int = 0
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """The kind of a loop: serial, parallel, unroll, vectorize, or a thread axis."""

    kind: str


class Drafts:
    """Operations that several drafts of one schedule share, made once: copies, and readers of copies."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, object]] = {}

    def once(self, key: Hashable, alive: object, make: Callable[[], Made]) -> Made:
        """Return the result of `make`, made once for a key. alive: the objects whose identities are in the key, kept
        while it is."""
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = make(), alive
        return known[0]


class DraftStage:
    """A stage of a draft.

    op: the operation as it is computed now. own: the axes that its value is over, those of `op` unless its layout was transformed.
    layout: maps an element's indices to those of its place. array: what its elements are told by, whatever the operation becomes.
    partner: a stage that it is computed with, at a loop; is_rolling: it keeps what the iteration before has computed. touched:
    whether the candidate schedules it. stages: of the pipeline that fills it. threads: extents of the thread axes that its loops
    are bound to, by their tags, where they are declared. aligned: by the place of a dimension, its padded stride as a remainder:
    (modulus, remainder).
    """

    def __init__(self, draft: Draft, op: Operation, attach_type: str = "root") -> None:
        self.schedule, self.op, self.attach_type = draft, op, attach_type
        self.own, self.reduced = op.axis, op.reduce_axis
        self.leaf_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.parts: dict[IterVar, Part] = {}
        self.became: dict[IterVar, IterVar] = {}
        self.kinds: dict[IterVar, str] = {}
        self.parent: tuple[DraftStage, IterVar] | None = None
        self.partner: tuple[DraftStage, IterVar] | None = None
        self.is_rolling = False
        self.mirrored: tuple[IterVar, IterVar] | None = None
        self.layout: Callable[..., Sequence[Expr]] | None = None
        self.layout_key: Hashable = None
        self.array = op.outputs[0]
        self.scope = ""
        self.stages = 1
        self.threads: dict[str, int] = {}
        self.aligned: dict[int, tuple[int, int]] = {}
        self.touched = False

    def __getattr__(self, name: str) -> Any:
        raise Undrafted(f"{name} of a stage")

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of its own axes."""
        return tuple(map(extent_in_numbers, self.own))

    @property
    def producers(self) -> list[DraftStage]:
        """The stages of what it reads."""
        return [self.schedule[tensor] for tensor in self.op.input_tensors]

    # Loops

    def split(
        self, axis: IterVar, factor: int | None = None, nparts: int | None = None, **others: Any
    ) -> tuple[IterVar, IterVar]:
        """Split a loop into steps of `factor` iterations, or into `nparts` of them."""
        if nparts is not None and factor is None:
            factor = max(-(-extent_in_numbers(axis) // nparts), 1)
        if factor is None or others:
            raise Undrafted("split by anything but a factor or a number of parts")
        whole = extent_in_numbers(axis)
        outer = IterVar(f"{axis.name}.outer", axis.dtype, _range(-(-whole // factor)), axis.kind)
        inner = IterVar(f"{axis.name}.inner", axis.dtype, _range(min(factor, whole)), axis.kind)
        self.parts[outer], self.parts[inner] = Part((axis,), factor), Part((axis,), factor, True)
        self.became[axis] = inner
        at = self._place(axis)
        self.leaf_iter_vars[at : at + 1] = [outer, inner]
        return outer, inner

    def fuse(self, *axes: IterVar) -> IterVar:
        """Make one loop of several."""
        if len(axes) == 1:
            return axes[0]
        kind = "reduce" if any(axis.kind == "reduce" for axis in axes) else "data"
        count = prod(map(extent_in_numbers, axes))
        dtype = axes[0].dtype if axes else INT32
        fused = IterVar(".".join(axis.name for axis in axes), dtype, _range(count), kind)
        self.parts[fused] = Part(axes)
        places = [self._place(axis) for axis in axes]
        if not places:
            self.leaf_iter_vars.insert(0, fused)
            return fused
        self.leaf_iter_vars[places[0]] = fused
        for place in sorted(places[1:], reverse=True):
            del self.leaf_iter_vars[place]
        self.became.update(dict.fromkeys(axes, fused))
        return fused

    def reorder(self, *axes: IterVar) -> None:
        """Permute loops in their places."""
        for place, axis in zip(sorted(map(self._place, axes)), axes, strict=True):
            self.leaf_iter_vars[place] = axis

    def parallel(self, axis: IterVar) -> None:
        """Share the iterations of a loop among threads."""
        self._annotate(axis, "parallel")

    def unroll(self, axis: IterVar) -> None:
        """Write the iterations of a loop out."""
        self._annotate(axis, "unroll")

    def vectorize(self, axis: IterVar) -> None:
        """Make the iterations of a loop lanes."""
        self._annotate(axis, "vectorize")

    def bind(self, axis: IterVar, thread_axis: IterVar) -> None:
        """Run the iterations of a loop on a thread axis."""
        self._annotate(axis, thread_axis.thread_tag)
        if thread_axis.dom is not None:
            self.threads[thread_axis.thread_tag] = extent_in_numbers(thread_axis)

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Pad rows of a dimension."""
        (place,) = (at for at, each in enumerate(self.op.axis) if each is axis)
        self.aligned[place] = factor, offset

    def pipeline(self, stages: int) -> None:
        """Begin copies `stages` - 1 iterations ahead."""
        self.stages = stages

    def pragma(self, axis: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Do nothing: pragmas change how code is made, which estimates do not see."""
        del pragma_type, pragma_value
        self._place(axis)

    def prefetch(self, tensor: Tensor, axis: IterVar, offset: int, **others: Any) -> None:
        """Do nothing: what is asked for ahead is read all the same."""
        del tensor, offset, others
        self._place(axis)

    def _annotate(self, axis: IterVar, kind: str) -> None:
        self._place(axis)
        self.kinds[axis] = kind

    def _place(self, axis: IterVar) -> int:
        self.touched = True
        for place, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return place
        raise Undrafted(f"{axis.name} is not a loop")

    def attr(self, axis: IterVar) -> Annotation:
        """The annotation of a loop."""
        return Annotation(self.kinds.get(axis, "serial"))

    def find_leaf(self, axis: IterVar) -> IterVar:
        """The loop that an axis is now: of one that was split, the inner part."""
        while axis in self.became:
            axis = self.became[axis]
        return axis

    # Places

    def compute_at(self, parent: DraftStage, scope: IterVar) -> None:
        """Compute what is needed in each iteration of a loop."""
        self.touched, self.attach_type, self.parent = True, "at", (parent, scope)

    def compute_with(self, partner: DraftStage, axis: IterVar) -> None:
        """Compute a part in each iteration of a loop of another stage, which has loops as this one has."""
        self.touched, self.partner = True, (partner, axis)

    def rolling_buffer(self, strict: bool = True) -> None:
        """Compute in each iteration what the one before has not."""
        del strict
        self.is_rolling = True

    def compute_inline(self) -> None:
        """Compute each element where it is read."""
        self.attach_type = "inline"

    def set_scope(self, scope: str) -> None:
        """Keep the elements in a memory."""
        self.touched, self.scope = True, scope

    def mirror(self, axis: IterVar, other: IterVar) -> None:
        """Compute one side of a diagonal, and store it on both."""
        self.mirrored = axis, other

    def transform_layout(self, mapping_function: Callable[..., Sequence[Expr]], pad_value: Any = None) -> list[IterVar]:
        """Lay the elements out as a function of their indices says, which is made of axes, of several as one number, and of its
        quotients and remainders by constants."""
        del pad_value
        if self.parts or self.layout is not None:
            raise Undrafted("a layout of loops that are scheduled")
        self.touched = True
        axes = [self._make_loop(index, place) for place, index in enumerate(mapping_function(*self.op.axis))]
        self.layout = mapping_function
        self.leaf_iter_vars[: len(self.own)] = axes
        self.op = self.schedule.move_op(self, axes)
        return list(axes)

    def _make_loop(self, index: Expr, place: int) -> IterVar:
        """The loop that stands for an index of a layout: over an axis, or over a part of the number that several make."""
        whole, by = (index.a, integer_value(index.b)) if isinstance(index, (FloorDiv, FloorMod)) else (index, 0)
        if by is None:
            raise Undrafted(f"a layout by {index}")
        is_part = isinstance(whole, (FloorDiv, FloorMod))
        digits = [self._make_loop(whole, place)] if is_part else _digits(whole, self.own)
        if not by and len(digits) == 1:
            return digits[0]
        size = prod(map(extent_in_numbers, digits))
        inner = isinstance(index, FloorMod)
        extent = size if not by else min(by, size) if inner else -(-size // by)
        loop = IterVar(f"ax{place}", index.dtype, _range(extent), "data")
        self.parts[loop] = Part(tuple(digits), by, inner)
        return loop


class Draft:
    """A schedule in numbers, made of one that does not change. shared: what other drafts of the same schedule have made."""

    def __init__(self, schedule: Schedule, shared: Drafts) -> None:
        self.real, self.shared = schedule, shared
        self.by_op: dict[Operation, DraftStage] = {}
        self.by_stage: dict[int, DraftStage] = {}
        self.copies: list[DraftStage] = []

    def __getitem__(self, key: Operation | Tensor | DraftStage) -> DraftStage:
        if isinstance(key, DraftStage):
            return key
        op = key.op if isinstance(key, Tensor) else key
        known = self.by_op.get(op)
        if known is None:
            stage: Stage = self.real[op]
            known = self.by_stage.get(id(stage))
            if known is None:
                known = self.by_stage[id(stage)] = DraftStage(self, stage.op, stage.attach_type)
                self.by_op[stage.op] = known
            self.by_op[op] = known
        return known

    def __getattr__(self, name: str) -> Any:
        raise Undrafted(f"{name} of a schedule")

    @property
    def outputs(self) -> Sequence[Operation]:
        """The operations whose results a call returns."""
        return self.real.outputs

    @property
    def stages(self) -> Iterable[DraftStage]:
        """The stages that the candidate has scheduled or made."""
        return [stage for stage in dict.fromkeys((*self.by_op.values(), *self.copies)) if stage.touched]

    def find_ops(self, stage: object) -> list[Operation]:
        """The operations that a stage stands for: its own, and what that was before."""
        return [op for op, known in self.by_op.items() if known is stage]

    def sort_stages(self, stages: Iterable[DraftStage]) -> list[DraftStage]:
        """Stages in the order of the schedule."""
        places = {id(stage): at for at, stage in enumerate(self.real.stages)}
        mine = {id(draft): places[key] for key, draft in self.by_stage.items() if key in places}
        return sorted(stages, key=lambda stage: mine.get(id(stage), -1))

    in_order = sort_stages

    # Stages

    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Any:
        """A stage that computes what the stage of `tensor` did, which copies it."""
        outputs = [tensor] if isinstance(tensor, Tensor) else list(tensor)
        stage = self[outputs[0]]
        op = stage.op.as_compute
        if len(outputs) != stage.op.num_outputs or stage.layout is not None or op is None:
            raise Undrafted("a cache of some outputs, or in another layout")

        def make() -> tuple[ComputeOp, ComputeOp]:
            cache = ComputeOp(name=f"{op.name}.{scope}", axis=op.axis, body=op.body)
            return cache, replace(op, body=tuple(ProducerLoad(each, op.axis) for each in cache.outputs))

        cache, copy = self.shared.once(("cache_write", id(op)), op, make)
        made = self._add(cache, scope)
        if stage.parts:  # the loops are those of the cache, as its axes
            made.leaf_iter_vars, made.parts, made.became = stage.leaf_iter_vars, stage.parts, stage.became
            made.op = self.move_op(made, [leaf for leaf in made.leaf_iter_vars if leaf.kind != "reduce"])
            stage.parts, stage.became = {}, {}
        stage.op, stage.reduced, stage.leaf_iter_vars = copy, (), list(op.axis)
        self.by_op[copy] = stage
        return made.op.output(0) if isinstance(tensor, Tensor) else list(made.op.outputs)

    def cache_read(self, tensor: Tensor, scope: str, readers: Iterable[Any], reindex: bool = False) -> Tensor:
        """A copy of `tensor` that readers read in its place."""
        source = self[tensor]
        is_laid_out = source.layout is not None
        stages = [self[reader] for reader in readers]
        is_read = any(tensor in stage.op.input_tensors for stage in stages)  # whatever its stage computes by now
        current = tensor if is_read else source.op.output(tensor.value_index)
        ops = [op for stage in stages if (op := stage.op.as_compute) is not None]
        if not ops or len(ops) < len(stages) or is_laid_out and source.scope != "local" or reindex and len(ops) > 1:
            raise Undrafted("a copy for what is not an expression, or of another layout")
        copy, moved = self.shared.once(
            ("cache_read", id(current), reindex, *map(id, ops)),
            (ops, current),
            lambda: _make_copy(ops, current, scope, reindex),
        )
        for stage, op in zip(stages, moved, strict=True):
            stage.op = op
            self.by_op[op] = stage
        return self._add(copy, scope).op.output(0)

    def rfactor(self, tensor: Tensor | Sequence[Tensor], axis: IterVar, factor_axis: int = 0) -> Any:
        """Sums for each value of `axis`, one of the two parts of a reduce axis, and the sum of these."""
        stage = self[tensor if isinstance(tensor, Tensor) else tensor[0]]
        op, reduction, part = stage.op.as_compute, stage.op.reduction, stage.parts.get(axis)
        if reduction is None or part is None or not part.factor or len(part.of) != 1 or op is None:
            raise Undrafted("an rfactor of anything but a part of one axis")
        (along,), place = part.of, factor_axis % (len(op.axis) + 1)
        if along not in reduction.axes:
            raise Undrafted("an rfactor of several axes as one")

        def make() -> tuple[ComputeOp, ComputeOp]:
            return _sum_in_parts(op, reduction, along, part, place)

        partial, whole = self.shared.once(("parts", id(op), id(along), part.factor, part.inner, place), op, make)
        self._add(partial, "local" if part.inner else "")
        stage.op, stage.reduced, stage.parts = whole, whole.reduce_axis, {}
        stage.leaf_iter_vars = [*whole.axis, *whole.reduce_axis]
        self.by_op[whole] = stage
        return partial.output(0) if isinstance(tensor, Tensor) else list(partial.outputs)

    def move_op(self, stage: DraftStage, axes: Sequence[IterVar]) -> Operation:
        """The operation of a stage over the loops of its new layout. Its value stays over those of the old one, unless these
        are the same in another order."""
        op = stage.op.as_compute
        if op is None:
            raise Undrafted("a layout of what is not an expression element by element")
        moved = (
            replace(op, axis=tuple(axes))
            if {*axes} == {*op.axis}
            else _OverLoops(name=op.name, axis=tuple(axes), body=op.body, reducing=op.reduce_axis)
        )
        self.by_op[moved] = stage
        return moved

    def _add(self, op: Operation, scope: str) -> DraftStage:
        stage = self.by_op[op] = DraftStage(self, op)
        stage.scope, stage.touched = scope, True
        self.copies.append(stage)
        return stage


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _OverLoops(ComputeOp):
    """An operation whose loops are not those that its value is over. reducing: those of them that reduce."""

    reducing: tuple[IterVar, ...] = ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self.reducing


def extent_in_numbers(axis: IterVar) -> int:
    """The extent of an axis; where the call decides, what is assumed."""
    return integer_value(axis.dom.extent, ASSUMED) if axis.dom is not None else ASSUMED


def _range(extent: int) -> Range:
    dtype = "int32" if extent < 1 << 31 else "int64"
    return Range(const(0, dtype), const(extent, dtype))


def _sum_in_parts(
    op: ComputeOp, reduction: Reduce, along: IterVar, part: Part, place: int
) -> tuple[ComputeOp, ComputeOp]:
    """The sums over one part of a reduce axis for each value of the other, the axis at a place, and the sum of these."""
    steps, taken = -(-extent_in_numbers(along) // part.factor), min(part.factor, extent_in_numbers(along))
    kept, left = (taken, steps) if part.inner else (steps, taken)
    data, rest = (IterVar(f"{along.name}.kept", along.dtype, _range(kept), kind) for kind in ("data", "reduce"))
    term = IterVar(f"{along.name}.term", along.dtype, _range(left), "reduce")
    at: dict[Var, Expr] = {along: term * part.factor + data if part.inner else data * part.factor + term}
    axes = tuple(term if each is along else each for each in reduction.axes)
    sources = tuple(substitute(each, at) for each in reduction.sources)
    some = replace(reduction, sources=sources, axes=axes, condition=substitute(reduction.condition, at))
    values = tuple(replace(some, value_index=each) for each in range(op.num_outputs))
    partial = ComputeOp(name=f"{op.name}.rf", axis=(*op.axis[:place], data, *op.axis[place:]), body=values)
    loads = tuple(ProducerLoad(each, (*op.axis[:place], rest, *op.axis[place:])) for each in partial.outputs)
    whole = replace(reduction, sources=loads, axes=(rest,), fused=())
    return partial, replace(op, body=tuple(replace(whole, value_index=each) for each in range(op.num_outputs)))


def _digits(number: Expr, own: Sequence[IterVar]) -> list[IterVar]:
    """The axes that make a number, the greatest factor first."""
    form = dimension(number)
    if form.rest or form.steps.keys() - {*own}:
        raise Undrafted(f"a layout by {number}")
    if not form.steps:
        return []
    axes = sorted(form.steps, key=lambda axis: -form.steps[axis])
    step = 1
    for axis in reversed(axes):
        if form.steps[axis] != step:
            raise Undrafted(f"a layout by {number}")
        step *= extent_in_numbers(axis)
    return axes


def _make_copy(
    ops: Sequence[ComputeOp], tensor: Tensor, scope: str, reindex: bool
) -> tuple[ComputeOp, Sequence[ComputeOp]]:
    """A copy of a tensor, and the operations that read it. Its axes are those of the one reader that index it, so that loops over them
    are those of the copy too."""
    name, op = f"{tensor.name}.{scope}", ops[0]
    loads = [load for each in ops for load in collect_loads(*each.values) if load.producer is tensor]
    if not loads:
        raise Undrafted(f"{op.name} reads {tensor.name} through others")
    if not reindex:
        axes = tuple(_choose_axis(tensor, loads, place) for place in range(tensor.ndim))
        copy = ComputeOp(name=name, axis=axes, body=(ProducerLoad(tensor, axes),))
        return copy, [each.replace_inputs({tensor: copy.output(0)}) for each in ops]
    guards = [node for value in op.values for node in post_order(value) if _guards(node, loads[0])]
    read: Expr = guards[0] if guards else loads[0]
    used = find_axes(read)
    at = tuple(axis for axis in (*op.axis, *op.reduce_axis) if axis in used)
    copy = ComputeOp(name=name, axis=at, body=(read,))
    place, kind = structural_key(read), type(read)

    def rule(node: Node) -> Node | None:
        return (
            ProducerLoad(copy.output(0), at)
            if isinstance(node, kind) and (node is read or structural_key(node) == place)
            else None
        )

    return copy, [op.rewritten(lambda value: rewrite(value, rule))]


def _guards(node: Node, load: ProducerLoad) -> bool:
    return isinstance(node, Expr) and node is not load and guarded_load(node) is load


def _choose_axis(tensor: Tensor, loads: Sequence[ProducerLoad], place: int) -> IterVar:
    """The axis that all loads index a dimension by, where it is none of another's; else one of its own."""
    (index, *others) = dict.fromkeys(load.indices[place] for load in loads)
    elsewhere = {
        axis for load in loads for at, each in enumerate(load.indices) if at != place for axis in find_axes(each)
    }
    if isinstance(index, IterVar) and not others and index not in elsewhere:
        return index
    extent = tensor.shape[place]
    return IterVar(f"ax{place}", extent.dtype, Range(const(0, extent.dtype), extent), "data")
