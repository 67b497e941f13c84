"""Loop nests of drafts: what lowering makes of the same primitives, in numbers.

    C.local at a loop of C:            for task in parallel:
                                         for k:  body: a term for each of the tile
                                         body: the tile is stored

A loop over parts of several axes is a loop over each. What is computed at a loop is computed for the box that one iteration of it
reads, and its memory is taken again by the next iteration, so that it never holds more than that box.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import product
from math import gcd, prod

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access, count_values
from ...ir.arith import simplify
from ...ir.combine import combine_values
from ...ir.expr import Add, Expr, FloorDiv, FloorMod, IfThenElse, IterVar, Node, ProducerLoad, Reduce, Select, Var
from ...ir.ops import const, integer_value
from ...ir.structural import structural_key
from ...ir.visit import post_order, rewrite, substitute
from ...schedule.model.inlining import find_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads, inline
from ...te.tensor import Tensor
from ..accesses import find_axes, numeric_shape, strip_clamps
from ..cost.bodies import Load
from ..cost.instructions import list_work
from ..loop_nest import Nest
from ..loops import MOST_BODIES
from ..operations import is_known
from .draft import Draft, DraftStage, Undrafted, extent_in_numbers
from .frames import Frame, Parts, Value, find_fastest, is_register, parse_width
from .stages import StageNest

__all__ = ["Nests", "nest_of_draft", "pad_shape"]


def nest_of_draft(draft: Draft, machine: Machine) -> Nest:
    """The loops of all that a candidate schedules. Raises Undrafted."""
    return Nests(draft, machine).nest()


class Nests:
    """The nests of all stages of a draft on a machine."""

    def __init__(self, draft: Draft, machine: Machine) -> None:
        self.draft, self.machine = draft, machine
        self.frames: dict[int, Frame] = {}
        self.values: dict[int, Value] = {}
        self.sources: dict[int, frozenset[int]] = {}
        self.shared: dict[int, frozenset[int]] = {}
        self.placed: dict[tuple[int, IterVar], list[DraftStage]] = {}
        self.partners: dict[tuple[int, IterVar], list[DraftStage]] = {}
        for stage in draft.stages:
            if stage.attach_type == "at" and stage.parent is not None:
                parent, axis = stage.parent
                self.placed.setdefault((id(parent), parent.find_leaf(axis)), []).append(stage)
            if stage.partner is not None:
                partner, axis = stage.partner
                self.partners.setdefault((id(partner), partner.find_leaf(axis)), []).append(stage)

    def nest(self) -> Nest:
        """All stages at root, producers first."""
        roots = [
            stage
            for stage in self.draft.stages
            if stage.attach_type == "root"
            and stage.partner is None
            and (not _is_ready(stage) or not {*self.draft.outputs}.isdisjoint(self.draft.find_ops(stage)))
        ]
        ordered: dict[int, DraftStage] = {}

        def visit(stage: DraftStage) -> None:
            if id(stage) in ordered:
                return
            for tensor in self._all_inputs(stage):
                producer = self.draft.by_op.get(tensor.op)
                if producer is not None and producer is not stage and producer in roots:
                    visit(producer)
            ordered[id(stage)] = stage

        for stage in roots:
            visit(stage)
        nests = [part for stage in ordered.values() for part in self.stage(stage, self.full_frame(stage))]
        return nests[0] if len(nests) == 1 and isinstance(nests[0], Nest) else Nest(None, 1, tuple(nests))

    def _all_inputs(self, stage: DraftStage) -> Iterable[Tensor]:
        """The tensors that a stage reads, with those of what is inlined into it or computed at its loops."""
        waiting, met = [stage], {id(stage)}
        while waiting:
            each = waiting.pop()
            yield from each.op.input_tensors
            below = [self.draft[tensor] for tensor in each.op.input_tensors]
            for producer in below:
                if producer.attach_type in ("inline", "inlined", "at") and id(producer) not in met:
                    met.add(id(producer))
                    waiting.append(producer)

    def list_inner_stages(self, stage: DraftStage, at: int = 0) -> Iterable[DraftStage]:
        """The stages that are computed at a stage's loops from a place on, or at loops of these."""
        for leaf in stage.leaf_iter_vars[at:]:
            for each in self.placed.get((id(stage), leaf), ()):
                yield each
                yield from self.list_inner_stages(each)

    def full_frame(self, stage: DraftStage) -> Frame:
        """The frame of a stage that is computed at once."""
        return Frame({axis: extent_in_numbers(axis) for axis in (*stage.own, *stage.reduced)})

    # Loops

    def stage(self, stage: DraftStage, frame: Frame) -> Parts:
        """The loops of a stage."""
        return StageNest(self, stage, frame).parts()

    def value(self, stage: DraftStage) -> Value:
        """The value of a stage."""
        known = self.values.get(id(stage))
        if known is None:
            known = self.values[id(stage)] = self._find_value(stage)
        return known

    def reads(self, reader: DraftStage, stage: DraftStage) -> bool:
        """Return whether a stage reads what another one computes."""
        sources = self.sources.get(id(reader))
        if sources is None:
            sources = self.sources[id(reader)] = frozenset(id(self.producer(load)) for load in self.value(reader).loads)
        return id(stage) in sources

    def _find_value(self, stage: DraftStage) -> Value:
        """The value of a stage, found once for an operation and what is inlined into it."""
        if not stage.op.values:
            raise Undrafted(f"{stage.op.name}, which is no expression")
        inlined = find_inlined(stage)  # type: ignore[arg-type]
        key = ("value", id(stage.op), *(id(each.op) for each in inlined))

        def make() -> Value:
            op = stage.op
            values = [op.values[0]] if op.reduction is not None else list(op.values)
            for each in inlined:
                for known in self.draft.find_ops(each):  # a reader may know what it was before a cache
                    values = [inline(value, known.output(0), each.op.axis, each.op.values[0]) for value in values]
            reduction = values[0] if isinstance(values[0], Reduce) else None
            owns: tuple[ProducerLoad, ...] = ()
            if reduction is not None:
                owns = tuple(ProducerLoad(tensor, tuple(stage.own)) for tensor in op.outputs)
                values = combine_values(reduction, owns, reduction.sources)
            loads = tuple(load for load in collect_loads(*values) if not any(load is own for own in owns))
            return Value(tuple(values), loads, tuple(list_work(values, self.machine)), owns)

        return self.draft.shared.once(key, (stage.op, *(each.op for each in inlined)), make)

    def specialize(self, value: Value, leaves: Sequence[IterVar]) -> Value:
        """A value for each iteration of loops that are written out, where these decide which elements it reads: then each is read
        once for all of them, and conditions on them are settled."""
        told = [leaf for leaf in leaves if any(map(partial(_distinguishes, leaf), value.values))]
        if not told or prod(map(extent_in_numbers, told)) > MOST_BODIES // 2:  # else it takes longer than it tells
            return value

        def make() -> Value:
            values: list[Expr] = []
            for places in product(*(range(extent_in_numbers(leaf)) for leaf in told)):
                numbers: dict[Var, Expr] = {
                    leaf: const(place, leaf.dtype) for leaf, place in zip(told, places, strict=True)
                }
                values += [simplify(substitute(each, numbers)) for each in value.values]
            return Value(tuple(values), tuple(collect_loads(*values)), tuple(list_work(values, self.machine)))

        return self.draft.shared.once(("written out", id(value), *map(id, told)), (value, told), make)

    # Accesses

    def access_all(self, load: ProducerLoad) -> Access:
        """The element that is loaded of all that its producer has, by indices as they were written."""
        return self.draft.shared.once(
            ("whole", id(load)), load, lambda: Access(load.producer, load.indices, numeric_shape(load.producer))
        )

    def producer(self, load: Load) -> DraftStage | None:
        """The stage that computes what is loaded, where the candidate schedules it."""
        stage = (
            self.draft.by_op.get(load.producer.op)
            if isinstance(load, ProducerLoad) and isinstance(load.producer, Tensor)
            else None
        )
        return stage if stage is not None and stage.touched else None

    def lies(self, load: ProducerLoad) -> Access | None:
        """The element that is loaded, for how lanes lie; None of registers."""
        stage = self.producer(load)
        if stage is None or stage.layout is None:
            return None if stage is not None and is_register(stage) else self.access(load, None, None, (), ())
        return None if is_register(stage) else self.access(load, stage, "lies", (), ())

    def read(self, load: ProducerLoad, frame: Frame, box: tuple[int, ...] | None) -> Access:
        """The element that is loaded in memory. box: of what its producer stores at a time; None for all."""
        used = self.draft.shared.once(
            ("variables", id(load)), load, lambda: {*Access(load.producer, load.indices, ()).variables}
        )
        names = {axis: name for axis, name in frame.names.items() if axis in used}
        moved = {axis: by for axis, by in frame.moved.items() if axis in used}
        return self.access(load, self.producer(load), box, tuple(names.items()), tuple(moved.items()), mirrors=True)

    def access(
        self,
        load: ProducerLoad,
        stage: DraftStage | None,
        box: tuple[int, ...] | str | None,
        names: tuple[tuple[Var, Var], ...],
        moved: tuple[tuple[Var, Expr], ...],
        mirrors: bool = False,
    ) -> Access:
        """The element of a load. mirrors: which elements are touched is asked, and borders that are mirrored touch what is near."""
        layout = stage.layout if stage is not None else None
        key: Hashable = (
            "access",
            id(load),
            box,
            mirrors,
            None if stage is None or layout is None else self._layout_key(stage),
            tuple((id(axis), id(name)) for axis, name in names),
            tuple((id(axis), structural_key(by)) for axis, by in moved),
        )

        def make() -> Access:
            indices: Sequence[Expr] = [
                strip_clamps(index, mirrors) for index in load.indices
            ]  # loops are cut where clamps begin
            shape: Sequence[int] = (
                box
                if isinstance(box, tuple)
                else stage.extents
                if stage is not None and len(stage.own) == len(load.indices)
                else numeric_shape(load.producer)
            )
            if layout is not None and stage is not None:
                shape = self.lay_out_shape(stage, shape)
                indices = layout(*indices)
                if box != "lies":
                    shape = pad_shape(stage, shape)
                else:
                    kept = [
                        (index, size)
                        for index, size in zip(indices, shape, strict=True)
                        if not isinstance(index, FloorDiv)
                    ]
                    indices = [find_fastest(index.a) if isinstance(index, FloorMod) else index for index, _ in kept]
                    shape = [size for _, size in kept]
            elif stage is not None and isinstance(box, tuple):
                shape = pad_shape(stage, shape)
            places: dict[Var, Expr] = {**dict(names), **{axis: axis + by for axis, by in moved}}
            if places:
                indices = [substitute(index, places) for index in indices]
            array = stage.array if stage is not None else load.producer
            return Access(array, tuple(indices), tuple(shape))

        return self.draft.shared.once(key, (load, stage, names, moved), make)

    def settle_digits(self, access: Access, spans: tuple[tuple[Var, int, int], ...]) -> Access:
        """An access whose quotients and remainders of axes, or of those and an offset, are constants, and the axes, where all values in a
        body have one quotient. spans: axes, how many values of each, and what the first is a multiple of."""

        def make() -> Access:
            known = {axis: (many, begin) for axis, many, begin in spans}

            def rule(node: Node) -> Node | None:
                if not isinstance(node, (FloorDiv, FloorMod)):
                    return None
                axis, offset = (node.a.a, integer_value(node.a.b)) if isinstance(node.a, Add) else (node.a, 0)
                if not isinstance(axis, Var) or axis not in known or offset is None:
                    return None
                (many, begin), by = known[axis], integer_value(node.b)
                begin = gcd(begin, offset)
                if not by or not (many <= by if begin % by == 0 else by % begin == 0 and many <= begin):
                    return None
                return const(0, node.dtype) if isinstance(node, FloorDiv) else node.a

            indices = tuple(rewrite(index, rule) for index in access.indices or ())
            if all(a is b for a, b in zip(indices, access.indices or (), strict=True)):
                return access
            return Access(access.array, indices, access.shape, stored=access.stored)

        return self.draft.shared.once(("digits", id(access), spans), access, make)

    def _layout_key(self, stage: DraftStage) -> Hashable:
        if stage.layout_key is None:
            stage.layout_key = tuple(map(structural_key, self._map_indices(stage)))
        return stage.layout_key

    def _map_indices(self, stage: DraftStage) -> Sequence[Expr]:
        """The indices of the place of an element in a layout."""
        assert stage.layout is not None
        return stage.layout(*stage.own)

    def lay_out_shape(self, stage: DraftStage, box: Sequence[int]) -> tuple[int, ...]:
        """The extents of a box of elements as they lie in memory."""
        if stage.layout is None:
            return tuple(box)
        widths = dict[Var, int](zip(stage.own, box, strict=True))
        return self.draft.shared.once(
            ("laid out", self._layout_key(stage), *box),
            stage.own,
            lambda: tuple(parse_width(count_values(index, widths)) for index in self._map_indices(stage)),
        )

    def written(self, stage: DraftStage, frame: Frame) -> Access:
        """The element that is stored."""
        shape = frame.box if frame.box is not None else tuple(frame.widths[axis] for axis in stage.own)
        names = tuple((axis, frame.names[axis]) for axis in stage.own if axis in frame.names)
        return self.make_stored(stage, self.own_load(stage), shape, names)

    def own_load(self, stage: DraftStage) -> ProducerLoad:
        """A load of the element that a stage computes."""
        return self.draft.shared.once(
            ("stored", id(stage.op.output(0)), *map(id, stage.own)),
            (stage.op, stage.own),
            lambda: ProducerLoad(stage.op.output(0), tuple(stage.own)),
        )

    def make_stored(
        self,
        stage: DraftStage,
        load: ProducerLoad,
        box: tuple[int, ...] | str,
        names: tuple[tuple[Var, Var], ...] = (),
    ) -> Access:
        """The element of a load as one that is stored."""
        read = self.access(load, stage, box, names, ())
        return self.draft.shared.once(
            ("written", id(read)), read, lambda: Access(read.array, read.indices, read.shape, stored=True)
        )


def pad_shape(stage: DraftStage, shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of a box whose rows are padded, as far as whole extents tell these."""
    padded = list(shape)
    for place, (factor, offset) in stage.aligned.items():
        inner = prod(shape[place + 2 :])
        stride = inner * shape[place + 1] if place + 1 < len(shape) else 1
        more = (offset - stride) % factor
        if more and place + 1 < len(shape) and more % inner == 0:
            padded[place + 1] += more // inner
    return tuple(padded)


def _distinguishes(leaf: IterVar, value: Expr) -> bool:
    """Return whether a condition, a quotient or a remainder of an axis decides what a value reads."""
    return any(
        isinstance(node, (Select, IfThenElse))
        and leaf in find_axes(node.condition)
        or isinstance(node, (FloorDiv, FloorMod))
        and leaf in find_axes(node)
        for node in post_order(value)
    )


def _is_ready(stage: DraftStage) -> bool:
    """Return whether what a stage computes is known when the kernel is built."""
    op: Operation = stage.op
    return bool(op.input_tensors) and all(is_known(tensor) for tensor in op.input_tensors) if op.values else False
