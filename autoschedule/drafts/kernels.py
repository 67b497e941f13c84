"""Loop nests of drafts for GPUs: kernels of blocks and threads, with the memories that their stages fill.

    C.local at a loop of C:            for blockIdx.x:  for threadIdx.x:
    A.shared at a loop of C.local        C.local (registers)
                                           for k.outer:  A.shared (shared)   for threadIdx.x: ...
                                             for k:  body: a term for each of the tile
                                         body: the tile is stored

Registers hold what one thread reads, shared memory what all threads of a block read, virtual ones too: a stage has a frame for each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING

from ...ir.analysis.footprint import Access, Array, access_box
from ...ir.analysis.warps import WIDEST
from ...ir.expr import IterVar, ProducerLoad, Var
from ..accesses import find_axes
from ..cost.instructions import Work, distinct_elements
from ..cost.kernels import SECTOR
from ..loop_nest import Body, Memory, Nest, Transfer
from .draft import Draft, DraftStage, extent_in_numbers
from .frames import Digits, Frame, Parts, Value, is_register, join_frames, make_frame
from .nests import Nests, pad_shape
from .stages import StageNest

if TYPE_CHECKING:
    from ...codegen.machine import Machine

__all__ = ["kernels_of_draft", "make_transfer"]


def kernels_of_draft(draft: Draft, machine: Machine) -> tuple[Nest, ...]:
    """The kernels of all that a candidate schedules, producers first. Raises Undrafted."""
    nest = _KernelNests(draft, machine).nest()
    return (nest,) if nest.memory is not None else tuple(part for part in nest.body if isinstance(part, Nest))


class _KernelNests(Nests):
    """The nests of all stages of a draft on a GPU."""

    def __init__(self, draft: Draft, machine: Machine) -> None:
        super().__init__(draft, machine)
        self.has_shared = any(stage.scope == "shared" for stage in draft.stages)

    def stage(self, stage: DraftStage, frame: Frame) -> Parts:
        parts = _KernelStage(self, stage, frame).parts()
        box = frame.box or tuple(frame.widths[axis] for axis in stage.own)
        elements = prod(pad_shape(stage, self.lay_out_shape(stage, box)))
        size = 0 if self._is_renamed(stage) else elements * sum(each.dtype.bytes for each in stage.op.outputs)
        scope = stage.scope or "local" if stage.attach_type == "at" else "global"
        among = prod(
            _declared_extent(stage, leaf)
            for leaf in stage.leaf_iter_vars
            if leaf.kind != "reduce" and stage.kinds.get(leaf, "").startswith("threadIdx")
        )
        return (Nest(None, 1, parts, memory=Memory(stage.array, scope, size, stage.stages, among)),)

    def lay_out_shape(self, stage: DraftStage, box: Sequence[int]) -> tuple[int, ...]:
        """The extents of a box as they lie; of axes that it has whole, those of the layout's loops, since they begin with these."""
        if stage.layout is None:
            return tuple(box)
        shape, extents = super().lay_out_shape(stage, box), stage.extents
        part = {axis for axis, size, extent in zip(stage.own, box, extents, strict=True) if size < extent}
        return tuple(
            extent_in_numbers(loop) if axes.isdisjoint(part) else size
            for axes, size, loop in zip(self._find_layout_axes(stage), shape, stage.op.axis, strict=True)
        )

    def _find_layout_axes(self, stage: DraftStage) -> Sequence[set[IterVar]]:
        """The axes that tell each index of a layout."""
        return self.draft.shared.once(
            ("layout axes", self._layout_key(stage)),
            stage.own,
            lambda: [find_axes(index) for index in self._map_indices(stage)],
        )

    def _is_renamed(self, stage: DraftStage) -> bool:
        """Return whether a stage in registers copies what lies there already."""
        value = self.value(stage)
        copied = self.producer(value.loads[0]) if value.loads and value.values[0] is value.loads[0] else None
        return copied is not None and is_register(copied) and is_register(stage)


class _KernelStage(StageNest):
    """The loops of one run of a stage by the threads of a block. at: the place of the loop whose stages are being built."""

    at = 0
    nests: _KernelNests

    def find_rest(self, leaf: IterVar) -> tuple[IterVar, int] | None:
        """None: threads beyond the end do nothing."""
        return None

    def divide(self, whole: Digits, factor: int) -> tuple[Digits, Digits]:
        """The steps of so many iterations, and these: values of the inner axes first, since each thread has one."""
        outer, inner, left = list[tuple[IterVar, int]](), list[tuple[IterVar, int]](), factor
        for axis, extent in reversed(whole):
            trips = max(min(left, extent), 1)
            inner.insert(0, (axis, trips))
            outer.insert(0, (axis, ceil(extent / trips)))
            left = ceil(left / max(extent, 1))
        return outer, inner

    def moved_axes(self, begin: int) -> frozenset[Var]:
        """The own axes that the nearest loop of a thread's own moves."""
        for leaf in reversed(self.leaves[:begin]):
            for axis, trips in reversed(self.digits(leaf)):
                if trips > 1 and not _is_thread(self.stage.kinds.get(leaf, "")):
                    return frozenset({axis})
        return self.frame.around

    def _wrap(self, at: int, digits: Digits, parallel: bool, within: Callable[[], Parts]) -> Parts:
        kind = self.stage.kinds.get(self.leaves[at], "")
        thread = kind if _is_thread(kind) else ""
        inside: Parts = (*self._build_placed(at), *within())
        loops = [(axis, trips) for axis, trips in digits if trips > 1]
        total = prod(trips for _, trips in loops)
        share = self.values(self.leaves[at]) / total if len(digits) > 1 and total > 1 else 1.0
        for place, (axis, trips) in reversed(list(enumerate(loops))):
            inside = (Nest(self.name(axis), trips, inside, thread=thread, share=share if place == 0 else 1.0),)
        return inside

    def _build_placed(self, at: int, partners: Sequence[StageNest] = ()) -> Parts:
        self.at = at
        return super()._build_placed(at, partners)

    def _find_frame(
        self, producer: DraftStage, readers: Sequence[tuple[Value, Frame, Mapping[Var, int]]]
    ) -> Frame | None:
        """The frame of a stage: what all threads of a block read of what lies in shared memory, else what one does."""
        found: Frame | None = None
        for value, frame, inner in readers:
            loads = [load for load in value.loads if self.nests.producer(load) is producer]
            if not loads:
                continue
            reads = list(map(self.nests.access_all, loads))
            if self.nests.has_shared:
                block = self._block_values(self.at) if value is self.value else frame.block or frame.widths
                needed = _make_frames(producer, reads, frame, inner, block)
            else:
                needed = make_frame(producer, reads, frame, inner)
            found = needed if found is None else join_frames(found, needed, producer)
        return found

    def _block_values(self, at: int) -> dict[Var, int]:
        """The values of own axes that loops inside of a place take with the threads of a block around."""
        values: dict[Var, int] = {}
        for place, leaf in enumerate(self.leaves):
            kind = self.stage.kinds.get(leaf, "")
            if place > at or _is_thread(kind) and not kind.startswith("block"):
                for axis, trips in self.digits(leaf):
                    values[axis] = values.get(axis, 1) * trips
        widths, block = self.frame.widths, self.frame.block or self.frame.widths
        return {
            axis: min(ceil(count * block.get(axis, 1) / max(widths.get(axis, 1), 1)), block.get(axis, count))
            for axis, count in {**dict.fromkeys(block, 1), **values}.items()
        }

    # Bodies

    def _plain(self) -> Body:
        return self._count(self.works, stored=not self.is_register)

    def _sums(self) -> Parts:
        if self.resumed and self.last_data == self.begin:
            return (self._plain(),)
        parts: Parts = self._terms(self.last_data, self._count(self.works))
        threads = prod(
            prod(trips for _, trips in self.digits(leaf))
            for leaf in self.leaves
            if leaf.kind == "reduce" and _is_thread(self.stage.kinds.get(leaf, ""))
        )
        if threads > 1:
            parts = (*parts, Body({"join": threads}))
        return parts if self.is_register else (*parts, self._count((), stored=True))

    def _count(self, works: Sequence[Work], stored: bool = False) -> Body:
        """The work of one iteration of a thread, of which equal parts are done once."""
        written, lanes = dict[Var, int](), dict[Var, int]()
        for leaf in self.leaves[self.begin :]:
            into = lanes if self.stage.kinds.get(leaf) == "vectorize" else written
            for axis, trips in self.digits(leaf):
                into[axis] = into.get(axis, 1) * trips
        around = [
            digit
            for leaf in reversed(self.leaves[: self.begin])
            if not _is_thread(self.stage.kinds.get(leaf, ""))
            for digit in reversed(self.digits(leaf))
        ]
        count: dict[str, float] = {}
        kept: list[Array] = []
        loads: list[tuple[ProducerLoad, float]] = []
        for work in works:
            if work.load is None:
                often = 1.0 if self.value.owns else _find_share(work, around)
                times = prod(trips for axis, trips in (*written.items(), *lanes.items()) if axis in work.own)
                for name in work.classes:
                    count[name] = count.get(name, 0.0) + often * times * max(work.bits // 32, 1)
            elif isinstance(work.load, ProducerLoad) and not any(work.load is own for own in self.value.owns):
                producer = self.nests.producer(work.load)
                if producer is not None and is_register(producer):
                    kept.append(producer.array)
                else:
                    loads.append((work.load, _find_share(work, around)))
        transfers = self._loads(loads, written, lanes)
        if stored:
            access = self.nests.written(self.stage, self.frame)
            scope = self.stage.scope if self.stage.attach_type == "at" else "global"
            places = prod(trips for axis, trips in written.items() if access.step(self.name(axis)))
            transfers.append(self._transfer(access, scope, places, lanes))
        inner: dict[Var, int] = {}
        for axis, trips in (*written.items(), *lanes.items()):
            inner[self.name(axis)] = inner.get(self.name(axis), 1) * trips
        accesses = tuple(each.access for each in transfers)
        return Body(count, accesses, tuple(inner.items()), transfers=tuple(transfers), kept=tuple(kept))

    def _loads(
        self, loads: Sequence[tuple[ProducerLoad, float]], written: Mapping[Var, int], lanes: Mapping[Var, int]
    ) -> list[Transfer]:
        """The loads of a body, each with how often it is done in an iteration: of elements that several read together, each once."""
        forms: dict[object, list[tuple[ProducerLoad, float, Access]]] = {}
        for load, often in loads:
            plain = self.nests.access(load, None, None, (), ())
            forms.setdefault((plain.array, plain.pattern[0]), []).append((load, often, plain))
        transfers: list[Transfer] = []
        for several in forms.values():
            counts = [often * distinct_elements(plain, written) for _, often, plain in several]
            share = 1.0
            if len(several) > 1:
                offsets = zip(*(plain.pattern[1] for _, _, plain in several), strict=True)
                box = access_box(several[0][2], written, [max(each) - min(each) for each in offsets])
                together = prod(size if isinstance(size, int) else 1 for size in box) * several[0][1]
                share = min(together / max(sum(counts), 1e-9), 1.0)
            alike: dict[Hashable, list[int]] = {}  # those that differ in nothing that is counted, as one
            for at, (load, _, plain) in enumerate(several):
                alike.setdefault(self._place_key(load, plain, lanes), []).append(at)
            for places in alike.values():
                load = several[places[0]][0]
                producer = self.nests.producer(load)
                placed = producer if producer is not None and producer.attach_type == "at" else None
                box = self._find_box(placed) if placed is not None else None
                scope = placed.scope if placed is not None else "global"
                access = self.nests.read(load, self.frame, box)
                transfers.append(self._transfer(access, scope, share * sum(counts[at] for at in places), lanes))
        return transfers

    def _place_key(self, load: ProducerLoad, plain: Access, lanes: Mapping[Var, int]) -> Hashable:
        """The same for loads of one form whose elements lie alike in sectors, or in shared memory, which has none."""
        producer = self.nests.producer(load)
        if producer is not None and producer.attach_type == "at" and producer.scope == "shared" and not lanes:
            return producer
        if producer is not None and producer.layout is not None:
            return load
        return producer, *(offset % SECTOR for offset in plain.pattern[1][-1:])

    def _transfer(self, access: Access, scope: str, places: float, lanes: Mapping[Var, int]) -> Transfer:
        count = prod(lanes.values())
        begins = (*access.pattern[1][-1:], *(access.shape[-1:] if len(access.shape) > 1 else ()))
        # a vector begins at a multiple of its size; layouts are shifted so that it does
        if self.stage.layout is None and any(begin % count for begin in begins if isinstance(begin, int)):
            places, lanes = places * prod(trips for axis, trips in lanes.items() if access.step(self.name(axis))), {}
        return make_transfer(access, scope, places, {self.name(axis): trips for axis, trips in lanes.items()})


def make_transfer(access: Access, scope: str, places: float, lanes: Mapping[Var, int]) -> Transfer:
    """The loads or stores of an access at so many places: neighbours along lanes at once, as far as they lie so."""
    moved = {axis: trips for axis, trips in lanes.items() if trips > 1 and access.step(axis)}
    count = prod(moved.values())
    beside = len(moved) == 1 and all(access.step(axis) == 1 for axis in moved)
    size = min(count * access.bytes, WIDEST) if beside else access.bytes
    return Transfer(access, scope, places * max(count * access.bytes // size, 1), size)


def _find_share(work: Work, around: Digits) -> float:
    """The part of the iterations of loops, the innermost first, in which something is computed: it is before those that it does not
    depend on."""
    share = 1.0
    for axis, trips in around:
        if axis in work.own:
            break
        share /= max(trips, 1)
    return share


def _make_frames(
    producer: DraftStage, reads: Sequence[Access], frame: Frame, inner: Mapping[Var, int], block: Mapping[Var, int]
) -> Frame:
    """The frame that loads ask of a stage: what a thread reads, or of what lies in shared memory what all threads of a block read, whose
    values of its axes are `block`; with what that is anyway."""
    whole = make_frame(producer, reads, frame, block)
    own = whole if producer.scope == "shared" else make_frame(producer, reads, frame, inner)
    return replace(own, block=whole.widths)


def _declared_extent(stage: DraftStage, leaf: IterVar) -> int:
    """The extent of a loop as it was split, whatever lies beyond the end."""
    part = stage.parts.get(leaf)
    return part.factor if part is not None and part.inner else extent_in_numbers(leaf)


def _is_thread(kind: str) -> bool:
    """Return whether a kind of loop is a thread axis's tag."""
    return kind.startswith(("blockIdx", "threadIdx", "vthread"))
