"""Nests of a draft's stages: loops around bodies, with the stages that are computed at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from ...ir import Expr, ProducerLoad, Var, substitute
from ...ir.analysis.footprint import Access
from ...ir.ops import const
from ...ir.structural import structural_key
from ..accesses import ASSUMED, find_axes
from ..cost.bodies import Load, Site, assemble_body
from ..cost.instructions import Work
from ..loop_nest import Body, Nest
from .draft import DraftStage, Undrafted, extent_in_numbers
from .frames import Digits, Frame, Parts, Value, has_no_loops, is_register, join_frames, make_frame
from .loops import StageLoops

if TYPE_CHECKING:
    from .nests import Nests

__all__ = ["StageNest"]


class StageNest(StageLoops):
    """The loops of one run of a stage, with the work of their bodies."""

    def __init__(self, nests: Nests, stage: DraftStage, frame: Frame) -> None:
        super().__init__(nests, stage, frame)
        done = nests.shared.get(id(stage), ())
        self.works = [work for at, work in enumerate(self.value.works) if at not in done] if done else self.value.works
        self.run: tuple[tuple[Var, ...], Var] | None = None
        self.is_register = is_register(stage)
        self.digits_of = self._find_digits()
        self.begins: list[Nest | Body] = []

    def _find_digits(self) -> tuple[tuple[Var, int, int], ...]:
        """The axes that a body takes several values of, each with how many lie side by side, and with what the first is a multiple of,
        where quotients or remainders of it are read."""
        if not self.value.has_digits:
            return ()
        lanes = [leaf for leaf in self.leaves[self.begin :] if self.stage.kinds[leaf] == "vectorize"]
        # of vectors that are written out each has places of its own
        inner = {**self.inner_values(self.begin), **dict(digit for leaf in lanes for digit in self.digits(leaf))}
        return tuple((axis, many, self.frame.find_alignment(axis, many)) for axis, many in inner.items() if many > 1)

    def parts(self) -> Parts:
        """All of them."""
        return self._build_loops(0)

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
        rest = self.find_rest(leaf) if not parallel or self.machine.cores == 1 else None
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
        partners = self._find_partners(at)
        placed = self._build_placed(at, partners)
        share, begins = self.find_share(at), tuple(self.begins)
        self.begins.clear()
        inside: Parts = (*placed, *within())
        for partner in partners:
            inside = (*inside, *partner._build_loops(at + 1))
        for axis, trips in reversed(digits):
            if trips > 1 or parallel:
                inside = (Nest(self.name(axis), ceil(trips * share), inside, parallel),)
                share = 1.0
        return (*begins, *inside)

    def _find_partners(self, at: int) -> list[StageNest]:
        """The stages that are computed with this one in each iteration of a loop: as many loops of theirs are the same."""
        names = {axis: self.name(axis) for axis in self.stage.own}
        partners: list[StageNest] = []
        for stage in self.nests.partners.get((id(self.stage), self.leaves[at]), ()):
            same = {own: names[axis] for own, axis in zip(stage.own, self.stage.own, strict=True)}
            partners.append(StageNest(self.nests, stage, replace(self.nests.full_frame(stage), names=same)))
        return partners

    def _build_placed(self, at: int, partners: Sequence[StageNest] = ()) -> Parts:
        """Build the stages that are computed in each iteration of a loop, producers first. What is computed in loops
        inside of it reads too."""
        own = self.nests.placed.get((id(self.stage), self.leaves[at]), ())
        if not own:
            return ()
        waiting = list(self.nests.list_inner_stages(self.stage, at))
        readers: list[tuple[Value, Frame, Mapping[Var, int]]] = [
            (each.value, each._body_frame(at), each.inner_values(at + 1)) for each in (self, *partners)
        ]
        placed: list[tuple[DraftStage, Frame]] = []
        while waiting:
            ready = [
                one for one in waiting if not any(self.nests.reads(other, one) for other in waiting if other is not one)
            ]
            if not ready:
                raise Undrafted("stages at a loop that read each other")
            for stage in ready:
                waiting.remove(stage)
                frame = self._find_frame(stage, readers)
                if frame is not None:
                    if stage.is_rolling:
                        frame, begin = frame.roll()
                        self.begins += self.nests.stage(stage, begin)
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
        if not one.owns or not other.owns or not has_no_loops(first) or not has_no_loops(second):
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

    def _body_frame(self, at: int) -> Frame:
        return replace(self.frame, around=self.moved_axes(at + 1), runs=self.find_runs(at + 1))

    def _find_frame(
        self, producer: DraftStage, readers: Sequence[tuple[Value, Frame, Mapping[Var, int]]]
    ) -> Frame | None:
        """The frame of a stage that readers need, each with the values that loops inside take of its axes."""
        found: Frame | None = None
        for value, frame, inner in readers:
            loads = [load for load in value.loads if self.nests.producer(load) is producer]
            if loads:
                needed = make_frame(producer, list(map(self.nests.access_all, loads)), frame, inner)
                found = needed if found is None else join_frames(found, needed, producer)
        return found

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
                values, (longest, most) = self.values(leaf), max(digits, key=lambda digit: digit[1])
                if is_lane and most < values:
                    self.run = tuple(axis for axis, _ in digits), longest
                digits = [(longest, values)]
            for axis, trips in digits:
                for into in (lanes,) if is_lane else (written,) if self.reduces(leaf) else (written, rows):
                    into[axis] = into.get(axis, 1) * trips
        machine = replace(self.machine, padded=True) if self._reads_panels(lanes) else self.machine
        names = tuple((self.name(axis), trips) for axis, trips in inner.items())
        return Site(machine, written, lanes, self.moved_axes(self.begin), addresses), names, rows

    def _works_along_lanes(self) -> Sequence[Work]:
        """The works of an iteration: what depends on any of several axes that are lanes as one is of these lanes."""
        if self.run is None:
            return self.works
        axes, along = self.run
        return [work if work.own.isdisjoint(axes) else replace(work, own=work.own | {along}) for work in self.works]

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
            if producer is not None and is_register(producer):
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
        """A statement that is not a sum, or a sum that is taken up in memory."""
        site, inner, _ = self._site()
        stored = None if self.is_register else self.nests.written(self.stage, self.frame)
        accesses = [*self._accesses(), *([stored] if stored is not None else [])]
        lies = self._lies() if stored is not None else None
        return assemble_body(
            self.value.values, self._works_along_lanes(), lies, self._where, site, tuple(accesses), inner
        )

    def _sums(self) -> Parts:
        """The loops over terms, and what becomes of the sums."""
        site, inner, rows = self._site()
        if self.resumed and self.last_data == self.begin:  # loops over data inside of those over terms
            return (self._plain(),)
        own = self.value.own
        body = assemble_body(
            self.value.values,
            self._works_along_lanes(),
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
            (axis, trips) for axis, trips in inner if all(axis is not self.name(each) for each in self.stage.reduced)
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
        if access is not None and self.digits_of:
            access = self.nests.settle_digits(access, self.digits_of)
        return access if producer is not None and producer.layout is not None else self._lay_run(access)

    def _where_kept(self, load: Load) -> Access | None:
        del load
        return self._lies()

    def _lay_run(self, access: Access | None) -> Access | None:
        """The layout of an access along lanes that cross rows of several axes: in one piece, or apart."""
        if self.run is None or access is None:
            return access
        axes, along = self.run
        moves = [access.step(axis) for axis in axes]
        if not any(moves):
            return access
        turned = any(move < 0 for move in moves) and any(move > 0 for move in moves)
        steps = [0 if turned else abs(move) for move in moves]  # rows forwards whose elements lie backwards: apart
        reach, apart = 1, 1
        for axis, step in zip(reversed(axes), reversed(steps), strict=True):
            if step != reach or not access.is_even(axis):
                apart = self.machine.line  # each in a line of its own
                break
            reach *= self.frame.widths.get(axis, 1)

        def make() -> Access:
            gone: dict[Var, Expr] = {axis: const(0, axis.dtype) for axis in axes}
            indices = (*(substitute(index, gone) for index in access.indices or ()), along * apart)
            return Access(access.array, indices, (*access.shape, ASSUMED * apart), stored=access.stored)

        return self.nests.draft.shared.once(("run", id(access), *map(id, axes), id(along), apart), (access, axes), make)

    def _lies(self) -> Access:
        """The layout of the lanes of what is stored."""
        stored = self._stored_element()
        return stored if self.stage.layout is not None else self._lay_run(stored) or stored

    def _stored_element(self) -> Access:
        own = self.value.own
        return self.nests.make_stored(self.stage, own if own is not None else self.nests.own_load(self.stage), "lies")
