"""How long windows in registers take, as they would be computed: what an estimate needs of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

from ...ir.analysis.footprint import Access, box_of
from ...ir.combine import is_fused
from ...ir.expr import Expr, FloatImm, IfThenElse, IntImm, IterVar, Mul, Reduce, Select, Var
from ...ir.visit import Rewriter, post_order, substitute
from ...schedule.model.inlined import expanded
from ...te.operation import Operation
from ...te.rewrite import collect_loads, inline
from ...te.shape import constant_extent
from ..accesses import ASSUMED, find_axes, load_access, numeric_shape, store_access
from ..cost.cpu import estimate
from ..cost.estimate import Estimate, pad_estimate
from ..cost.instructions import count_instructions, instruction_classes, list_work
from ..loop_nest import Body, Nest, nest_loops

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["guarded_axes", "time_of_images", "time_of_windows"]

SCRATCH = 2
"""Registers kept for what is neither a sum nor read more than once."""
FAR, APART, EACH = 0.1, 0.3, 0.15
"""Parts of their time that are not foreseen: of tiles that do not lie one after the other in memory, of lanes that guards tell
apart where machines have no masks, and of what begins and ends a tile, shared among its places."""
WIDEST = 4
"""Strides of lanes up to which whole vectors are loaded and lanes picked (codegen); beyond, they are gathered."""


def time_of_windows(
    group: Group,
    sums: Sequence[Operation],
    images: Sequence[Operation],
    along: int,
    rows: int,
    stored: bool,
    parallel: bool,
) -> Estimate:
    """Of sums that are kept for `rows` places along a data axis of the output. parallel: whether threads share tasks."""
    nests = _Nests(group, sums, images, along, rows, stored, parallel)
    time = estimate(nests.nest(), group.machine)
    extents = [constant_extent(axis) for axis in nests.output.axis]
    more = EACH / rows + (FAR if any(extent != 1 for extent in extents[along + 1 : -1]) else 0.0)
    more += APART if nests.in_parts and not group.machine.masks else 0.0
    return pad_estimate(time, more)


def time_of_images(group: Group, images: Sequence[Operation]) -> Estimate:
    """Of what windows read around each place, stored before them."""
    nests = _Nests(group, (), images, 0, 1, stored=True, parallel=False)
    return estimate(
        Nest(None, 1, tuple(nests.image(image, numeric_shape(image.output(0))) for image in images)), group.machine
    )


def guarded_axes(group: Group, sums: Sequence[Operation], images: Sequence[Operation]) -> set[int]:
    """The axes of the output, by their places, that guards ask for in what windows read, images inlined."""
    nests = _Nests(group, sums, images, 0, 1, stored=False, parallel=False)
    found: set[int] = set()
    for op in sums:
        axes = group.s[op].op.axis
        for node in post_order(nests.source(group.s[op].op)):
            if isinstance(node, IfThenElse):
                found.update(axes.index(axis) for axis in find_axes(node.condition) if axis in axes)
    return found


class _Nests:
    def __init__(
        self,
        group: Group,
        sums: Sequence[Operation],
        images: Sequence[Operation],
        along: int,
        rows: int,
        stored: bool,
        parallel: bool,
    ) -> None:
        self.group, self.sums, self.images, self.machine = group, sums, images, group.machine
        self.along, self.rows, self.stored, self.parallel = along, rows, stored, parallel
        self.output = group.s[group.output].op
        self.lanes = self.machine.lanes(self.output.output(0).dtype.bits)
        self.in_parts = False
        """Whether guards tell the lanes of what is read apart."""

    def nest(self) -> Nest:
        axes = self.output.axis
        extents = [constant_extent(axis) or ASSUMED for axis in axes]
        steps = [(axes[self.along], ceil(extents[self.along] / self.rows)), (axes[-1], ceil(extents[-1] / self.lanes))]
        alone = len(axes) == 2  # then blocks are the tasks, as windows.py orders them
        (inner, trips), (outer, blocks) = reversed(steps) if alone else steps
        body: tuple[Nest, ...] = (
            Nest(outer, blocks, (Nest(inner, trips, (self._tile(),)),), parallel=alone and self.parallel),
        )
        if self.stored:
            body = (*(self.image(image, self._region(image)) for image in self.images), *body)
        for at in reversed(range(len(axes) - 1)):
            if at != self.along:
                body = (Nest(axes[at], extents[at], body, parallel=self.parallel),)
        return body[0] if len(body) == 1 else Nest(None, 1, body)

    def _tile(self) -> Body:
        """The sums of some places of one vector, and what becomes of them."""
        axes = self.output.axis
        tile: dict[IterVar, int] = {axes[self.along]: self.rows, axes[-1]: self.lanes}
        count: Counter[str] = Counter()
        accesses: list[Access] = []
        terms: list[Expr] = []
        taps: dict[tuple[int, int], IterVar] = {}
        for op in self.sums:
            now = self.group.s[op].op
            reduction = now.reduction
            assert reduction is not None
            sizes = [constant_extent(axis) or 1 for axis in now.reduce_axis]
            # windows alike are over the same taps, so that what their terms have in common is found
            same: dict[Var, Expr] = {
                axis: taps.setdefault((at, size), axis)
                for at, (axis, size) in enumerate(zip(now.reduce_axis, sizes, strict=True))
            }
            source = substitute(self.source(now), {**dict(zip(now.axis, axes, strict=True)), **same})
            fused = isinstance(source, Mul) and is_fused(reduction, 0)
            terms += [source.a, source.b] if fused and isinstance(source, Mul) else [source]
            each = (
                Counter(["fma"])
                if fused
                else Counter(
                    name
                    for node in post_order(*reduction.combiner.result)
                    for name in instruction_classes(node, self.group.machine)
                )
            )
            for name, many in each.items():
                count[name] += many * self.rows * prod(sizes)
        over = {axis: size for (_, size), axis in taps.items()}
        alike, again = self._counted(terms, {axes[self.along]: self.rows, **over}, axes[-1], count, accesses)
        held = self.rows * len(self.sums) + SCRATCH
        # place after place takes up all its taps: what has no register is loaded for each of them
        count["load"] += max(held + alike + again - self.machine.registers, 0) * self.rows
        value = expanded(self.group.s[self.output])
        if not isinstance(value, Reduce):
            sums = {op.output(0) for op in self.sums}
            self._counted([value], {axes[self.along]: self.rows}, axes[-1], count, accesses, skip=sums)
        count["store"] += self.rows
        spilled = max(held - self.machine.registers, 0) * len(self.sums)
        count["load"] += spilled
        count["store"] += spilled
        accesses.append(store_access(self.output.output(0), axes))
        return Body(count, tuple(accesses), tuple(tile.items()))

    def source(self, now: Operation) -> Expr:
        """A term, with the images in it where they are inlined."""
        reduce = expanded(self.group.s[now])
        assert isinstance(reduce, Reduce)
        value = reduce.sources[0]
        if not self.stored:
            for image in reversed(self.images):
                value = inline(value, image.output(0), image.axis, expanded(self.group.s[self.group.s[image].op]))
        return value

    def _counted(
        self,
        values: Sequence[Expr],
        written_out: Mapping[IterVar, int],
        lane: IterVar,
        count: Counter[str],
        accesses: list[Access],
        skip: Iterable[object] = (),
    ) -> tuple[int, int]:
        """Adds what expressions take; returns how many vectors every tile reads that only taps change, and how many places before
        the middle of a tile read as well as those after it."""
        lanes, along = {lane: self.lanes}, self.output.axis[self.along]
        apart = any(
            lane in find_axes(node.condition)
            for value in values
            for node in post_order(value)
            if isinstance(node, (IfThenElse, Select))
        )
        self.in_parts = self.in_parts or apart
        values = [_unguarded(value) for value in values]
        found = {id(load): load_access(load) for value in values for load in collect_loads(value)}
        arithmetic = count_instructions(
            list_work(values, self.machine), self.machine, written_out, lanes, (), lambda load: found[id(load)]
        )
        for name in ("load", "gather"):
            arithmetic.pop(name, None)
        count.update(arithmetic)
        met: set[tuple[object, ...]] = set()
        alike = again = 0
        for value in values:
            for load in collect_loads(value):
                access = found[id(load)]
                key = (access.array, *access.pattern)
                if key in met or load.producer in skip:
                    continue
                met.add(key)
                many = _distinct(access, written_out)
                accesses.append(access)
                if not access.step(along):
                    alike += many
                    continue
                half = self.rows // 2
                before, after = (
                    _distinct(access, {**written_out, along: places}) for places in (half, self.rows - half)
                )
                again += before + after - many if half else 0
                self._loaded(access, lane, many, count, apart)
        return alike, again

    def _loaded(self, access: Access, lane: IterVar, many: int, count: Counter[str], apart: bool) -> None:
        step = abs(access.step(lane))
        if step > WIDEST:
            count["gather"] += many
            return
        across = self._crosses(access, lane) if step else 0.0
        count["masked" if apart and step and not self.machine.masks else "load"] += many + ceil(many * across)
        count["shuffle"] += many * (step - 1)

    def _crosses(self, access: Access, lane: IterVar) -> float:
        """Which part of a load's vectors lies in two lines of the cache, and takes as long as two."""
        if access.sums is None:
            return 0.0
        last, width = access.sums[-1], access.shape[-1]
        aligned = (
            all(factor % self.lanes == 0 for var, factor in last[1] if var is not lane) and last[0] % self.lanes == 0
        )
        aligned = aligned and (width % self.lanes == 0 if isinstance(width, int) else True)
        return 0.0 if aligned else self.machine.vector_bytes / self.machine.line

    def image(self, image: Operation, extents: Sequence[int]) -> Nest:
        """A region of an image that is stored, so many elements along each axis."""
        value = expanded(self.group.s[self.group.s[image].op])
        loads = collect_loads(value)
        found = {id(load): load_access(load) for load in loads}
        lanes = {image.axis[-1]: self.lanes}
        count = count_instructions(
            list_work([value], self.machine), self.machine, {}, lanes, (), lambda load: found[id(load)]
        )
        count["store"] += 1
        stored = store_access(image.output(0), image.axis)
        body = Body(count, (*found.values(), stored), ((image.axis[-1], self.lanes),))
        trips = [*extents[:-1], ceil(extents[-1] / self.lanes)]
        return nest_loops((body,), list(zip(image.axis, trips, strict=True)))

    def _region(self, image: Operation) -> list[int]:
        """How long the region is that a task reads."""
        whole: dict[Var, int] = {}
        for op in self.sums:
            now = self.group.s[op].op
            for at, axis in enumerate(now.axis):
                whole[axis] = (constant_extent(axis) or ASSUMED) if at in (self.along, len(now.axis) - 1) else 1
            whole.update((axis, constant_extent(axis) or 1) for axis in now.reduce_axis)
        extents = [1] * len(image.axis)
        shape = numeric_shape(image.output(0))
        for op in self.sums:
            for load in collect_loads(expanded(self.group.s[self.group.s[op].op])):
                if load.producer is image.output(0):
                    access = Access(load.producer, tuple(load.indices), shape)
                    extents = [
                        max(known, min(width, extent)) if isinstance(width, int) else extent
                        for known, width, extent in zip(extents, box_of(access, whole), shape, strict=True)
                    ]
        return extents


def _distinct(access: Access, loops: Mapping[IterVar, int]) -> int:
    """How many elements a load reads while loops run."""
    if access.sums is None:
        return prod(size for axis, size in loops.items() if access.step(axis))
    places = 1
    for _, parts in access.sums:
        moving = [(factor, loops[var]) for var, factor in parts if isinstance(var, IterVar) and var in loops]
        places *= len({sum(at) for at in product(*(range(0, factor * size, factor) for factor, size in moving))})
    return places


class _Unguarded(Rewriter):
    """Where a guarded load is one: loops end where guards do, and what costs anything is a load of a part of a vector."""

    def IfThenElse(self, node: IfThenElse) -> Expr:
        return self.visit(node.true_value) if isinstance(node.false_value, (FloatImm, IntImm)) else self.generic(node)


def _unguarded(value: Expr) -> Expr:
    return _Unguarded().visit(value)
