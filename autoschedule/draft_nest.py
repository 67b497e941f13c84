"""Loop nests of drafts: what lowering makes of the same primitives, in numbers.

    C.local at a loop of C:            for task in parallel:
                                         for k:  body: a term for each of the tile
                                         body: the tile is stored

A loop over parts of several axes is a loop over each. What is computed at a loop is computed for the box that one iteration of it
reads, and its memory is taken again by the next iteration, so that it never holds more than that box.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod

from ..codegen.machine import Machine
from ..ir.analysis.count import value_of
from ..ir.analysis.footprint import Access, box_of, width_of
from ..ir.combine import combined
from ..ir.expr import Expr, FloorDiv, FloorMod, IterVar, ProducerLoad, Reduce, Var
from ..ir.structural import structural_key
from ..ir.visit import substitute
from ..schedule.model.inlining import inlined_into
from ..te.operation import Operation
from ..te.rewrite import collect_loads, inline
from ..te.tensor import Tensor
from .accesses import ASSUMED, dimension, find_axes, numeric_shape
from .cost.bodies import Load, Site, assemble_body
from .cost.instructions import Work, list_work
from .draft import Draft, DraftStage, Undrafted, extent_in_numbers
from .loop_nest import Body, Nest
from .operations import is_known

__all__ = ["nest_of_draft"]

APART = 64
"""Elements between lanes that are gathered."""
Digits = Sequence[tuple[IterVar, int]]
"""A loop as loops over declared axes, the outermost first, each with its iterations."""
Parts = tuple[Nest | Body, ...]


def nest_of_draft(draft: Draft, machine: Machine) -> Nest:
    """The loops of all that a candidate schedules. Raises Undrafted."""
    return _Nests(draft, machine).nest()


@dataclass(frozen=True, eq=False)
class _Frame:
    """A run of a stage. widths: the values of each of its own axes. names: what stands for an axis where it is one of
    the reader's. moved: how far loops around move an axis. box: the elements of each dimension; None: all of them. around: the own
    axes that the loop around moves. runs: the values of several axes as one, by the identities of these, where they are less than
    the product of theirs."""

    widths: Mapping[Var, int]
    names: Mapping[Var, Var] = field(default_factory=dict[Var, Var])
    moved: Mapping[Var, Expr] = field(default_factory=dict[Var, Expr])
    box: tuple[int, ...] | None = None
    around: frozenset[Var] = frozenset()
    runs: Mapping[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])


@dataclass(frozen=True, eq=False)
class _Value:
    """The expressions of a stage, with those that are inlined into it: the update of sums, whose loads are `owns`, or the
    values themselves."""

    values: tuple[Expr, ...]
    loads: tuple[ProducerLoad, ...]
    works: tuple[Work, ...]
    owns: tuple[ProducerLoad, ...] = ()

    @property
    def own(self) -> ProducerLoad | None:
        """The load of the sum that is taken up."""
        return self.owns[0] if self.owns else None


class _Nests:
    def __init__(self, draft: Draft, machine: Machine) -> None:
        self.draft, self.machine = draft, machine
        self.frames: dict[int, _Frame] = {}
        self.shared: dict[int, frozenset[int]] = {}
        self.placed: dict[tuple[int, IterVar], list[DraftStage]] = {}
        for stage in draft.stages:
            if stage.attach_type == "at" and stage.parent is not None:
                parent, axis = stage.parent
                self.placed.setdefault((id(parent), parent.find_leaf(axis)), []).append(stage)

    def nest(self) -> Nest:
        """All stages at root, producers first."""
        roots = [stage for stage in self.draft.stages if stage.attach_type == "root" and not _is_ready(stage)]
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
        nests = [part for stage in ordered.values() for part in self.stage(stage, self._full_frame(stage))]
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

    def _full_frame(self, stage: DraftStage) -> _Frame:
        return _Frame({axis: extent_in_numbers(axis) for axis in (*stage.own, *stage.reduced)})

    # Loops

    def stage(self, stage: DraftStage, frame: _Frame) -> Parts:
        """The loops of a stage."""
        return _StageNest(self, stage, frame).parts()

    def value(self, stage: DraftStage) -> _Value:
        """The value of a stage, found once for an operation and what is inlined into it."""
        inlined = inlined_into(stage)  # type: ignore[arg-type]
        key = ("value", id(stage.op), *(id(each.op) for each in inlined))

        def make() -> _Value:
            op = stage.op
            values = [op.values[0]] if op.reduction is not None else list(op.values)
            for each in inlined:
                values = [inline(value, each.op.output(0), each.op.axis, each.op.values[0]) for value in values]
            reduction = values[0] if isinstance(values[0], Reduce) else None
            owns: tuple[ProducerLoad, ...] = ()
            if reduction is not None:
                owns = tuple(ProducerLoad(tensor, tuple(stage.own)) for tensor in op.outputs)
                values = combined(reduction, owns, reduction.sources)
            loads = tuple(load for load in collect_loads(*values) if not any(load is own for own in owns))
            return _Value(tuple(values), loads, tuple(list_work(values, self.machine)), owns)

        return self.draft.shared.once(key, (stage.op, *(each.op for each in inlined)), make)

    # Accesses

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
            return None if stage is not None and _is_register(stage) else self.access(load, None, None, (), ())
        return None if _is_register(stage) else self.access(load, stage, "lies", (), ())

    def read(self, load: ProducerLoad, frame: _Frame, box: tuple[int, ...] | None) -> Access:
        """The element that is loaded in memory. box: of what its producer stores at a time; None for all."""
        used = self.draft.shared.once(
            ("variables", id(load)), load, lambda: {*Access(load.producer, load.indices, ()).variables}
        )
        names = {axis: name for axis, name in frame.names.items() if axis in used}
        moved = {axis: by for axis, by in frame.moved.items() if axis in used}
        return self.access(load, self.producer(load), box, tuple(names.items()), tuple(moved.items()))

    def access(
        self,
        load: ProducerLoad,
        stage: DraftStage | None,
        box: tuple[int, ...] | str | None,
        names: tuple[tuple[Var, Var], ...],
        moved: tuple[tuple[Var, Expr], ...],
    ) -> Access:
        layout = stage.layout if stage is not None else None
        key: Hashable = (
            "access",
            id(load),
            box,
            None if stage is None or layout is None else self._layout_key(stage),
            tuple((id(axis), id(name)) for axis, name in names),
            tuple((id(axis), structural_key(by)) for axis, by in moved),
        )

        def make() -> Access:
            indices: Sequence[Expr] = load.indices
            shape: Sequence[int] = (
                box
                if isinstance(box, tuple)
                else stage.extents
                if stage is not None and len(stage.own) == len(load.indices)
                else numeric_shape(load.producer)
            )
            if layout is not None and stage is not None:
                shape = self._shape(stage, shape)
                indices = layout(*indices)
                if box == "lies":
                    kept = [
                        (index, size)
                        for index, size in zip(indices, shape, strict=True)
                        if not isinstance(index, FloorDiv)
                    ]
                    indices = [_fastest(index.a) if isinstance(index, FloorMod) else index for index, _ in kept]
                    shape = [size for _, size in kept]
            places: dict[Var, Expr] = {**dict(names), **{axis: axis + by for axis, by in moved}}
            if places:
                indices = [substitute(index, places) for index in indices]
            array = stage.array if stage is not None else load.producer
            return Access(array, tuple(indices), tuple(shape))

        return self.draft.shared.once(key, (load, stage, names, moved), make)

    def _layout_key(self, stage: DraftStage) -> Hashable:
        assert stage.layout is not None
        if stage.layout_key is None:
            stage.layout_key = tuple(structural_key(index) for index in stage.layout(*stage.own))
        return stage.layout_key

    def _shape(self, stage: DraftStage, box: Sequence[int]) -> tuple[int, ...]:
        """The extents of a box of elements in a layout."""
        assert stage.layout is not None
        widths: dict[Var, int] = dict(zip(stage.own, box, strict=True))
        return tuple(_number(width_of(index, widths)) for index in stage.layout(*stage.own))

    def written(self, stage: DraftStage, frame: _Frame) -> Access:
        """The element that is stored."""
        load = self.draft.shared.once(
            ("stored", id(stage.op.output(0)), *map(id, stage.own)),
            (stage.op, stage.own),
            lambda: ProducerLoad(stage.op.output(0), tuple(stage.own)),
        )
        shape = frame.box if frame.box is not None else tuple(frame.widths[axis] for axis in stage.own)
        names = tuple((axis, frame.names[axis]) for axis in stage.own if axis in frame.names)
        read = self.access(load, stage, shape, names, ())
        return self.draft.shared.once(
            ("written", id(read)), read, lambda: Access(read.array, read.indices, read.shape, stored=True)
        )


class _StageNest:
    """The loops of one run of a stage."""

    def __init__(self, nests: _Nests, stage: DraftStage, frame: _Frame) -> None:
        self.nests, self.stage, self.frame, self.machine = nests, stage, frame, nests.machine
        self.leaves = stage.leaf_iter_vars
        self.value = nests.value(stage)
        self.summed = self.value.own is not None
        done = nests.shared.get(id(stage), ())
        self.works = [work for at, work in enumerate(self.value.works) if at not in done] if done else self.value.works
        self.narrow: dict[IterVar, Digits] = {}
        self.run: tuple[tuple[Var, ...], Var] | None = None
        self.begin = self._body_begin()
        reduce = [at for at in range(self.begin) if self._reduces(self.leaves[at])]
        data = [at for at in range(self.begin) if not self._reduces(self.leaves[at])]
        self.last_data = data[-1] + 1 if data else 0
        self.resumed = bool(reduce) and reduce[0] < self.last_data
        self.is_register = _is_register(stage)

    def parts(self) -> Parts:
        """All of them."""
        return self._build_loops(0)

    def _body_begin(self) -> int:
        begin = len(self.leaves)
        while begin and self.stage.kinds.get(self.leaves[begin - 1]) in ("unroll", "vectorize"):
            if (id(self.stage), self.leaves[begin - 1]) in self.nests.placed:
                break
            begin -= 1
        return begin

    def _reduces(self, leaf: IterVar) -> bool:
        return self.summed and leaf.kind == "reduce"

    def digits(self, leaf: IterVar) -> Digits:
        """A loop as loops over own axes."""
        known = self.narrow.get(leaf)
        if known is not None:
            return known
        part = self.stage.parts.get(leaf)
        if part is None:
            return [(leaf, self.frame.widths.get(leaf, 1))]
        whole = [digit for each in part.of for digit in self.digits(each)]
        if not part.factor:
            return whole
        outer, inner = _divide(whole, part.factor)
        return inner if part.inner else outer

    def _build_loops(self, at: int) -> Parts:
        """Build the loops from a place on."""
        if self.summed and at == self.last_data <= self.begin:
            return self._sums()
        if at == self.begin:
            return (self._plain(),)
        return self._loop(at, lambda: self._build_loops(at + 1))

    def _loop(self, at: int, within: Callable[[], Parts]) -> Parts:
        """A loop, with what is computed in each of its iterations. Its last iteration has fewer lanes where these do not divide
        their axis, and where fewer vectors do for them."""
        leaf = self.leaves[at]
        digits = self.digits(leaf)
        parallel = self.stage.kinds.get(leaf) == "parallel"
        rest = self._rest(leaf) if not parallel or self.machine.cores == 1 else None
        if rest is not None:
            inner, few = rest
            ((axis, trips),) = digits
            first = self._wrap(at, [(axis, trips - 1)], parallel, within) if trips > 1 else ()
            self.narrow[inner] = [(axis, few)]
            last = self._wrap(at, [(axis, 1)], parallel, within)
            del self.narrow[inner]
            return (*first, *last)
        return self._wrap(at, digits, parallel, within)

    def _wrap(self, at: int, digits: Digits, parallel: bool, within: Callable[[], Parts]) -> Parts:
        inside: Parts = (*self._build_placed(at), *within())
        share = self._share(at)
        for axis, trips in reversed(digits):
            if trips > 1 or parallel:
                inside = (Nest(self._name(axis), ceil(trips * share), inside, parallel),)
                share = 1.0
        return inside

    def _rest(self, leaf: IterVar) -> tuple[IterVar, int] | None:
        """The lanes whose steps a loop counts, and how many are left for the last step; None where it costs what others do."""
        part = self.stage.parts.get(leaf)
        if part is None or not part.factor or part.inner:
            return None
        lanes = [
            inner
            for inner, other in self.stage.parts.items()
            if other.inner
            and other.of[0] is part.of[0]
            and len(other.of) == 1
            and any(inner is leaf for leaf in self.leaves[self.begin :])
        ]
        whole = [digit for each in part.of for digit in self.digits(each)]
        if not lanes or self.stage.kinds.get(lanes[0]) != "vectorize" or len(whole) != 1:
            return None
        few = whole[0][1] % part.factor
        width = self.machine.lanes(self.stage.op.output(0).dtype.bits)
        fewer = not self.machine.masks or ceil(few / width) < ceil(part.factor / width)
        return (lanes[0], few) if few and whole[0][1] > part.factor and fewer else None

    def _share(self, at: int) -> float:
        """The part of a loop's iterations that are computed: of what is mirrored, those up to the diagonal."""
        if self.stage.mirrored is None:
            return 1.0
        row, column = self.stage.mirrored
        over_rows = [
            place for place in range(self.begin) if any(axis is row for axis, _ in self.digits(self.leaves[place]))
        ]
        if at != max(over_rows, default=None):
            return 1.0
        inner = self._inner(self.begin)
        extent = self.frame.widths.get(row, 1)
        return min((1 + (inner.get(row, 1) + inner.get(column, 1)) / max(extent, 1)) / 2, 1.0)

    def _inner(self, begin: int) -> dict[Var, int]:
        """The values of own axes that loops from a place on take."""
        values: dict[Var, int] = {}
        for leaf in self.leaves[begin:]:
            for axis, trips in self.digits(leaf):
                values[axis] = values.get(axis, 1) * trips
        return {axis: min(count, self.frame.widths.get(axis, count)) for axis, count in values.items()}

    def _name(self, axis: Var) -> Var:
        return self.frame.names.get(axis, axis)

    def _moved_axes(self, begin: int) -> frozenset[Var]:
        """The own axes that the loop around moves: the last with more than one iteration."""
        for leaf in reversed(self.leaves[:begin]):
            for axis, trips in reversed(self.digits(leaf)):
                if trips > 1:
                    return frozenset({axis})
        return self.frame.around

    # What is computed at loops

    def _build_placed(self, at: int) -> Parts:
        """Build the stages that are computed in each iteration of a loop, producers first. What is computed in loops
        inside of it reads too."""
        own = self.nests.placed.get((id(self.stage), self.leaves[at]), ())
        if not own:
            return ()
        waiting = [each for leaf in self.leaves[at:] for each in self.nests.placed.get((id(self.stage), leaf), ())]
        readers: list[tuple[_Value, _Frame, Mapping[Var, int]]] = [
            (self.value, self._body_frame(at), self._inner(at + 1))
        ]
        placed: list[tuple[DraftStage, _Frame]] = []
        while waiting:
            ready = [
                one for one in waiting if not any(self._reads(other, one) for other in waiting if other is not one)
            ]
            if not ready:
                raise Undrafted("stages at a loop that read each other")
            for stage in ready:
                waiting.remove(stage)
                frame = self._find_frame(stage, readers)
                if frame is not None:
                    readers.append((self.nests.value(stage), frame, frame.widths))
                    if stage in own:
                        self.nests.frames[id(stage)] = frame
                        placed.append((stage, frame))
        met: list[DraftStage] = []
        parts: list[Nest | Body] = []
        for stage, frame in reversed(placed):
            self.nests.shared[id(stage)] = frozenset[int]().union(*(self._find_common(other, stage) for other in met))
            parts += self.nests.stage(stage, frame)
            met.append(stage)
        return tuple(parts)

    def _find_common(self, first: DraftStage, second: DraftStage) -> frozenset[int]:
        """The places of the works of a stage that another one of the same loops has done, all of whose terms are written out as well."""
        one, other = self.nests.value(first), self.nests.value(second)
        if not one.owns or not other.owns or not _has_no_loops(first) or not _has_no_loops(second):
            return frozenset()
        axes, others = (*first.own, *first.reduced), (*second.own, *second.reduced)
        if list(map(extent_in_numbers, axes)) != list(map(extent_in_numbers, others)):
            return frozenset()

        def find() -> frozenset[int]:
            names = dict[Var, Expr](zip(others, axes, strict=True))
            keys = {structural_key(work.node) for work in one.works}
            return frozenset(
                at for at, work in enumerate(other.works) if structural_key(substitute(work.node, names)) in keys
            )

        return self.nests.draft.shared.once(("common", id(one), id(other)), (one, other), find)

    def _body_frame(self, at: int) -> _Frame:
        return replace(self.frame, around=self._moved_axes(at + 1), runs=self._runs(at + 1))

    def _reads(self, reader: DraftStage, stage: DraftStage) -> bool:
        return any(self.nests.producer(load) is stage for load in self.nests.value(reader).loads)

    def _find_frame(
        self, producer: DraftStage, readers: Sequence[tuple[_Value, _Frame, Mapping[Var, int]]]
    ) -> _Frame | None:
        """The frame of a stage that readers need, each with the values that loops inside take of its axes."""
        found: _Frame | None = None
        for value, frame, inner in readers:
            loads = [load for load in value.loads if self.nests.producer(load) is producer]
            if loads:
                needed = _make_frame(producer, loads, frame, inner)
                found = needed if found is None else _join_frames(found, needed, producer)
        return found

    # Bodies

    def _site(self) -> tuple[Site, tuple[tuple[Var, int], ...], dict[Var, int]]:
        """The loops of the body, by own axes; the same as accesses name them; and those over data that are written out. A part of
        several axes as one is counted as so many values of the last of them; what it touches is told by all."""
        written: dict[Var, int] = {}
        lanes: dict[Var, int] = {}
        rows: dict[Var, int] = {}
        inner: dict[Var, int] = {}
        addresses = 0
        for leaf in self.leaves[self.begin :]:
            is_lane = self.stage.kinds[leaf] == "vectorize"
            digits = self.digits(leaf)
            for axis, trips in digits:
                inner[axis] = inner.get(axis, 1) * trips
            if len(digits) > 1 and leaf not in self.narrow:
                addresses += is_lane
                values, (longest, most) = self._values(leaf), max(digits, key=lambda digit: digit[1])
                if is_lane and most < values:
                    self.run = tuple(axis for axis, _ in digits), longest
                digits = [(longest, values)]
            for axis, trips in digits:
                for into in (lanes,) if is_lane else (written,) if self._reduces(leaf) else (written, rows):
                    into[axis] = into.get(axis, 1) * trips
        machine = replace(self.machine, padded=True) if self._reads_panels(lanes) else self.machine
        names = tuple((self._name(axis), trips) for axis, trips in inner.items())
        return Site(machine, written, lanes, self._moved_axes(self.begin), addresses), names, rows

    def _values(self, leaf: IterVar) -> int:
        """The iterations of a loop, of one over several axes too."""
        part = self.stage.parts.get(leaf)
        if part is None:
            return self.frame.widths.get(leaf, 1)
        run = self.frame.runs.get(tuple(map(id, part.of)))
        whole = run if run is not None else prod(map(self._values, part.of))
        return whole if not part.factor else min(part.factor, whole) if part.inner else ceil(whole / part.factor)

    def _runs(self, at: int) -> dict[tuple[int, ...], int]:
        """The values that loops from a place on take of several axes as one."""
        runs = dict(self.frame.runs)
        for leaf in self.leaves[at:]:
            part = self.stage.parts.get(leaf)
            axes = self._find_axes(part.of) if part is not None and part.inner else ()
            if len(axes) > 1:
                runs[tuple(map(id, axes))] = self._values(leaf)
        return runs

    def _find_axes(self, loops: Sequence[IterVar]) -> tuple[IterVar, ...]:
        """The own axes that loops are made of, where they are all of these."""
        axes: list[IterVar] = []
        for loop in loops:
            part = self.stage.parts.get(loop)
            if part is not None and part.factor:
                return ()
            axes += [loop] if part is None else self._find_axes(part.of)
        return tuple(axes)

    def _reads_panels(self, lanes: Mapping[Var, int]) -> bool:
        """Return whether all that lanes run along is copies in panels, which can be read beyond their ends."""
        along = [
            load
            for load in self.value.loads
            if any(node in lanes for index in load.indices for node in find_axes(index))
        ]
        stages = [self.nests.producer(load) for load in along]
        return bool(stages) and all(stage is not None and stage.layout is not None for stage in stages)

    def _accesses(self) -> list[Access]:
        """The elements that are read from memory."""
        accesses: dict[int, Access] = {}
        for load in self.value.loads:
            producer = self.nests.producer(load)
            if producer is not None and _is_register(producer):
                continue
            box = self._find_box(producer) if producer is not None and producer.attach_type == "at" else None
            access = self.nests.read(load, self.frame, box)
            accesses[id(access)] = access
        return list(accesses.values())

    def _find_box(self, producer: DraftStage) -> tuple[int, ...] | None:
        """The elements of a stage that is computed at a loop which are stored at a time."""
        frame = self.nests.frames.get(id(producer))
        return frame.box if frame is not None else None

    def _plain(self) -> Body:
        """A statement that is no sum, or a sum that is taken up in memory."""
        site, inner, _ = self._site()
        stored = None if self.is_register else self.nests.written(self.stage, self.frame)
        accesses = [*self._accesses(), *([stored] if stored is not None else [])]
        lies = self._lies() if stored is not None else None
        return assemble_body(self.value.values, self.value.works, lies, self._where, site, tuple(accesses), inner)

    def _sums(self) -> Parts:
        """The loops over terms, and what becomes of the sums."""
        site, inner, rows = self._site()
        if self.resumed and self.last_data == self.begin:  # loops over data inside of those over terms
            return (self._plain(),)
        own = self.value.own
        body = assemble_body(
            self.value.values,
            self.works,
            None,
            self._where,
            site,
            tuple(self._accesses()),
            inner,
            rows,
            own,
            carried=self.last_data < self.begin,
        )
        parts: Parts = self._terms(self.last_data, body)
        if self.is_register:
            return parts
        stored = self.nests.written(self.stage, self.frame)
        end = Site(self.machine, rows, site.lanes)
        tile = tuple(
            (axis, trips) for axis, trips in inner if all(axis is not self._name(each) for each in self.stage.reduced)
        )
        values = self.value.owns if self.resumed else ()
        works = [work for work in self.value.works if any(work.load is each for each in values)]
        return (*parts, assemble_body(values, works, self._lies(), self._where_kept, end, (stored,), tile))

    def _terms(self, at: int, body: Body) -> Parts:
        return (body,) if at == self.begin else self._loop(at, lambda: self._terms(at + 1, body))

    def _where(self, load: Load) -> Access | None:
        assert isinstance(load, ProducerLoad)
        if any(load is own for own in self.value.owns):
            return self._lies() if self.resumed and self.last_data == self.begin else None
        producer, access = self.nests.producer(load), self.nests.lies(load)
        return access if producer is not None and producer.layout is not None else self._lay_run(access)

    def _where_kept(self, load: Load) -> Access | None:
        del load
        return self._lies()

    def _lay_run(self, access: Access | None) -> Access | None:
        """The layout of an access along lanes that cross rows of several axes: in one piece, or apart."""
        if self.run is None or access is None:
            return access
        axes, along = self.run
        steps = [abs(access.step(axis)) for axis in axes]
        if not any(steps):
            return access
        reach = 1
        for axis, step in zip(reversed(axes), reversed(steps), strict=True):
            if step != reach or not access.is_even(axis):
                return Access(access.array, (along * APART,), (ASSUMED * APART,))
            reach *= self.frame.widths.get(axis, 1)
        return Access(access.array, (along,), (ASSUMED,))

    def _lies(self) -> Access:
        """The layout of the lanes of what is stored."""
        return self._lay_run(self._stored_element()) or self._stored_element()

    def _stored_element(self) -> Access:
        own = self.value.own
        load = (
            own
            if own is not None
            else self.nests.draft.shared.once(
                ("stored", id(self.stage.op.output(0)), *map(id, self.stage.own)),
                (self.stage.op, self.stage.own),
                lambda: ProducerLoad(self.stage.op.output(0), tuple(self.stage.own)),
            )
        )
        read = self.nests.access(load, self.stage, "lies", (), ())
        return self.nests.draft.shared.once(
            ("written", id(read)), read, lambda: Access(read.array, read.indices, read.shape, stored=True)
        )


def _make_frame(producer: DraftStage, loads: Sequence[ProducerLoad], frame: _Frame, inner: Mapping[Var, int]) -> _Frame:
    """The frame that loads in a reader ask of a stage. frame: of the reader; inner: the values that loops inside take of
    its axes."""
    box = _union(loads, inner)
    names: dict[Var, Var] = {}
    moved: dict[Var, Expr] = {}
    around: set[Var] = set()
    widths: dict[Var, int] = {axis: extent_in_numbers(axis) for axis in producer.reduced}
    own_axes = {id(index): axis for index, axis in zip(loads[0].indices, producer.own, strict=False)}
    runs = {
        tuple(id(own_axes[each]) for each in axes): values
        for axes, values in frame.runs.items()
        if all(each in own_axes for each in axes)
    }
    for place, axis in enumerate(producer.own):
        index = loads[0].indices[place]
        if not frame.around.isdisjoint(find_axes(index)):
            around.add(axis)
        if isinstance(index, IterVar) and all(load.indices[place] is index for load in loads):
            widths[axis] = min(inner.get(index, 1), extent_in_numbers(axis))
            name = frame.names.get(index, index)
            if name is not axis:
                names[axis] = name
            if index in frame.moved:
                moved[axis] = frame.moved[index]
        else:
            widths[axis] = min(box[place], extent_in_numbers(axis))
            by = _make_shift(index, frame, inner)
            if by is not None:
                moved[axis] = by
    box = tuple(widths[axis] for axis in producer.own)
    return _Frame(widths, names, moved, box, frozenset(around), runs)


def _make_shift(index: Expr, frame: _Frame, inner: Mapping[Var, int]) -> Expr | None:
    """The distance that loops around a reader move an index."""
    total: Expr | None = None
    for axis, step in dimension(index).steps.items():
        values = inner.get(axis, 1)
        if values < extent_in_numbers(axis):
            place = frame.names.get(axis, axis) * (step * values)
            total = place if total is None else total + place
        if axis in frame.moved:
            place = frame.moved[axis] * step
            total = place if total is None else total + place
    return total


def _join_frames(one: _Frame, other: _Frame, producer: DraftStage) -> _Frame:
    """The frame that covers what two readers need."""
    widths = {axis: max(width, other.widths[axis]) for axis, width in one.widths.items()}
    return replace(
        one, widths=widths, box=tuple(widths[axis] for axis in producer.own), around=one.around | other.around
    )


def _fastest(number: Expr) -> Expr:
    """The axis that moves a number by one: along it values of the number lie side by side in a panel, which begins at a vector."""
    return next((axis for axis, step in dimension(number).steps.items() if step == 1), number)


def _divide(whole: Digits, factor: int) -> tuple[Digits, Digits]:
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


def _union(loads: Sequence[ProducerLoad], widths: Mapping[Var, int]) -> tuple[int, ...]:
    """The box around what loads of one tensor read."""
    first = loads[0]
    shape = numeric_shape(first.producer)
    boxes = [[_number(size) for size in box_of(Access(load.producer, load.indices, shape), widths)] for load in loads]
    if len(loads) == 1:
        return tuple(boxes[0])
    spread: list[int] = []
    for place in range(len(shape)):
        offsets = [dimension(load.indices[place]).offset for load in loads]
        spread.append(max(offsets) - min(offsets))
    return tuple(min(max(box[place] for box in boxes) + spread[place], extent) for place, extent in enumerate(shape))


def _number(width: object) -> int:
    if isinstance(width, int):
        return width
    known = value_of(width) if width is not None else None  # type: ignore[arg-type]
    return ASSUMED if known is None else known


def _is_register(stage: DraftStage) -> bool:
    """Return whether elements of a stage lie in registers: small ones that are computed where they are read."""
    return stage.scope == "local" and stage.attach_type == "at"


def _has_no_loops(stage: DraftStage) -> bool:
    """Return whether all loops of a stage are written out or lanes."""
    return all(stage.kinds.get(leaf) in ("unroll", "vectorize") for leaf in stage.leaf_iter_vars)


def _is_ready(stage: DraftStage) -> bool:
    """Return whether what a stage computes is known when the kernel is built."""
    op: Operation = stage.op
    return bool(op.input_tensors) and all(is_known(tensor) for tensor in op.input_tensors) if op.values else False
