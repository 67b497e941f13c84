"""Operations without a reduction: 16 bytes a thread, and tiles in shared memory for what is read across.

for blockIdx.x:  for threadIdx.x in 256:  B[4 at once] = ..         rows of whole vectors: all axes as one

for blockIdx.y, blockIdx.x:                                         A[x, y] is read down its columns
  A.shared[32, 32] = A[..]                                          as it lies, side by side, 4 at once
  for threadIdx.y in 32:  for threadIdx.x in 8:  B[y, 4 of x] = A.shared[x, y]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING

from ...ir import Expr, IterVar, Node, ProducerLoad, children, post_order
from ...ir.analysis.warps import LINE, WORD
from ...schedule.model.inlining import expand_inlined
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import same_extent
from ...te.tensor import find_tensor
from ..accesses import contiguous_axes, dimension, find_axes, load_axes, op_loads
from ..cost.estimate import Estimate
from ..cost.gpu import least_kernel_seconds
from ..cost.kernels import SLOTS_OF_TRANSFER
from ..drafts.draft import Drafts, extent_in_numbers
from ..operations import elements, fixed_extent
from ..plan import Candidate
from .threads import THREADS, VECTOR, WARP, count_lanes

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["DECLARED", "choose_or_declared", "element_a_thread", "injective", "vectors_a_thread"]

DECLARED = "an element a thread"
"""The description of a program as it was declared."""


def injective(group: Group) -> None:
    """16 bytes a thread, or tiles in shared memory for what is read across."""
    group.inline_cheap_heads()
    stage = group.s[group.output]
    op, across = stage.op, _find_transposed(stage.op)
    most, why = _lanes(op)
    scatter = list(_describe_scatter(op))
    # neighbours that one thread reads alone, being apart, the threads beside it would read together
    fewer = [] if across or _has_contiguous_reads(stage, most) else [1 << by for by in range(most.bit_length() - 1)]
    ways: list[tuple[str, Callable[[Group], None]]] = []
    for lanes in (*fewer, most):  # of those that take as long the one that asks for the fewest sectors
        text = why if lanes == most else ", since those beside them are read apart"
        each = f"{lanes} elements a thread" if lanes > 1 else DECLARED
        ways.append(("; ".join([f"{each}{text}", *scatter]), partial(_apply_vectors, lanes)))
    if across:
        names, lanes = ", ".join(dict.fromkeys(find_tensor(load).name for load in across[1])), _tile_lanes(op, *across)
        size = max(WARP, (LINE // VECTOR) * lanes)
        small = "; elements smaller than a bank meet in some" if op.output(0).dtype.bytes < WORD else ""
        text = (
            f"tiles of {size} x {size} in shared memory, {lanes} elements at once, since {names} is read across{small}"
        )
        ways.insert(0, (text, partial(_apply_tiles, *across, lanes)))
    choose_or_declared(group, "injective", group.draft_candidates(ways))


def apply_elements(group: Group) -> None:
    """Schedule what a group stores: so many neighbours for each thread that they are 16 bytes."""
    _apply_vectors(_lanes(group.s[group.output].op)[0], group)


def _apply_vectors(lanes: int, group: Group) -> None:
    vectors_a_thread(group.s[group.output], lanes)


def element_a_thread(group: Group) -> None:
    """A thread for each element of what a group stores, computed there from its first term to its last."""
    group.inline_cheap_heads()
    for op in group.parts:
        thread_each(group.s, op, op)
    thread_each(group.s, group.output, group.anchor)


def choose_or_declared(group: Group, rule: str, candidates: Sequence[Candidate]) -> None:
    """Choose among a rule's candidates, and a thread for each element, which changes nothing of how the group was declared."""
    begun = group.begun >= 0 and all(each.primitive == "compute_inline" for each in group.s.records[group.begun :])
    declared = any(candidate.description.startswith(DECLARED) for candidate in candidates)
    if begun and not declared and all(op.values for op in (*group.parts, group.anchor, group.output)):
        time = None
        if all(candidate.estimate is not None for candidate in candidates):
            least = _least_seconds(group)
            # a draft costs more than to see that it cannot be the quickest
            is_slow = least > min(candidate.seconds for candidate in candidates)
            time = Estimate((("at least", least),)) if is_slow else group.draft(element_a_thread, Drafts())
        candidates = [*candidates, Candidate(DECLARED, partial(element_a_thread, group), time)]
    group.choose(rule, candidates)


def _least_seconds(group: Group) -> float:
    """The seconds that a thread for each element takes at least: a kernel for each operation, whose threads load and take up each
    term of a sum."""
    assert group.gpu is not None
    slots = 0.0
    for op in (*group.parts, group.anchor):
        if op.reduce_axis:
            moved = {load.producer for load in op_loads(op) if op.reduce_axis[-1] in load_axes(load)}
            terms = prod(map(extent_in_numbers, (*op.axis, *op.reduce_axis)))
            slots += terms * (1 + SLOTS_OF_TRANSFER * len(moved))
    return least_kernel_seconds(len(group.parts) + 1, slots, group.gpu)


def _lanes(op: Operation) -> tuple[int, str]:
    """Return the number of neighbours that a thread has, so that the widest of them are 16 bytes, and why they are fewer."""
    last = [dimension(index) for load in op_loads(op) for index in load.indices[-1:]]
    if op.axis and any(at.steps.get(op.axis[-1], 1) != 1 for at in last):
        return 1, ""  # neighbouring threads read what lies next to each other, as far as it does
    tensors = [
        op.output(0),
        *(find_tensor(load) for load in op_loads(op) if op.axis and op.axis[-1] in contiguous_axes(load)),
    ]
    lanes = min(count_lanes(tensor.dtype) for tensor in tensors)
    count = fixed_extent(op.axis[-1]) if op.axis else 1
    if count and count % lanes and _is_flat(op, op.values):
        count = elements(op) or count
    own = gcd(lanes, count) if count else 1
    return own, "" if own == lanes else f", since {'a row has ' + str(count) if count else 'sizes are not known'}"


def _has_contiguous_reads(stage: Stage, lanes: int) -> bool:
    """Return whether so many neighbours are read side by side, or all of them at one place, as far as sizes are known."""
    op, values = stage.op, [expand_inlined(stage, at) for at in range(len(stage.op.values))]
    extents = [fixed_extent(axis) for axis in op.axis]
    if lanes == 1 or not all(extents) or _is_flat(op, values):
        return True
    return extents[-1] % lanes == 0 and all(
        _begins_vectors(load, op.axis[-1], lanes) for load in collect_loads(*values)
    )


def _begins_vectors(load: ProducerLoad, axis: IterVar, lanes: int) -> bool:
    """Return whether a load reads so many neighbours along an axis from a multiple of their number on, or all at one place."""
    *outer, last = load.indices or (axis,)
    if axis not in load_axes(load):
        return True
    along = dimension(last)
    return along.is_axis(axis) and along.offset % lanes == 0 and not any(axis in find_axes(index) for index in outer)


def _is_flat(op: Operation, values: Sequence[Expr]) -> bool:
    """Return whether all that is read lies as what is stored does, so that all rows are one."""

    def plain(load: ProducerLoad) -> bool:
        return load.indices == op.axis and all(map(same_extent, load.producer.shape, op.output_shape))

    stack: list[Node] = list(values)
    while stack:
        node = stack.pop()
        if isinstance(node, IterVar) or isinstance(node, ProducerLoad) and not plain(node):
            return False
        if not isinstance(node, ProducerLoad):
            stack.extend(children(node))
    return True


def _is_by_data(load: ProducerLoad) -> bool:
    return any(isinstance(node, ProducerLoad) for index in load.indices for node in post_order(index))


def _describe_scatter(op: Operation) -> Iterator[str]:
    """Return the access that neighbouring threads do not read side by side, and why."""
    last = op.axis[-1] if op.axis else None
    why = {
        find_tensor(load).name: "where data say" if _is_by_data(load) else "at places that lie apart"
        for load in op_loads(op)
        if _is_by_data(load)
        or last not in contiguous_axes(load)
        and any(last in find_axes(index) for index in load.indices)
    }
    yield from (f"{name} is read {where}" for name, where in why.items())


def vectors_a_thread(stage: Stage, lanes: int) -> IterVar:
    """So many elements for each thread; returns the loop of threads."""
    if lanes == 1:
        return _bind(stage, stage.fuse(*stage.op.axis))
    rest, vector = stage.split(stage.fuse(*stage.op.axis), factor=lanes)
    stage.vectorize(vector)
    return _bind(stage, rest)


def thread_each(s: Schedule, output: Operation, anchor: Operation) -> None:
    """A thread for each element of what is stored, with the anchor's in registers."""
    inner = anchor
    if anchor is output and anchor.reduction is not None:
        inner = s.cache_write(list(anchor.outputs), "local")[0].op
    stage = s[output]
    thread = _bind(stage, stage.fuse(*stage.op.axis))
    if inner is not output:
        s[inner].set_scope("local")
        s[inner].compute_at(stage, thread)


def _bind(stage: Stage, axis: IterVar) -> IterVar:
    """Its iterations as threads of blocks; returns the loop of threads."""
    block, thread = stage.split(axis, factor=THREADS)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
    return thread


def _find_transposed(op: Operation) -> tuple[IterVar, list[ProducerLoad]] | None:
    """The axis along which neighbours are read side by side though they are not stored so, and the reads; None where there is none,
    or too little to share."""
    if not op.axis or elements(op) is None:
        return None
    last, loads = op.axis[-1], op_loads(op)
    for axis in op.axis[:-1]:
        own = [load for load in loads if axis in contiguous_axes(load) and last in load.indices]
        if own and fixed_extent(axis) >= WARP // 2 and fixed_extent(last) >= WARP // 2:
            return axis, own
    return None


def _tile_lanes(op: Operation, across: IterVar, loads: Sequence[ProducerLoad]) -> int:
    """Return the number of neighbours that a thread moves at once through a tile, on both ways."""
    lanes = min(count_lanes(tensor.dtype) for tensor in (op.output(0), *map(find_tensor, loads)))
    extents = fixed_extent(across), fixed_extent(op.axis[-1])
    lanes = (
        min(gcd(lanes, *extents), 8) if lanes * WORD >= VECTOR else 1
    )  # wider elements would meet in banks, two by two
    while lanes > 1 and (LINE // VECTOR) * lanes > 2 * min(extents):
        lanes //= 2
    return lanes


def _apply_tiles(across: IterVar, loads: list[ProducerLoad], lanes: int, group: Group) -> None:
    s, output = group.s, group.output
    place = s[output].op.axis.index(across)
    sources = list(dict.fromkeys(find_tensor(load) for load in loads))
    copies = [s[s.cache_read(tensor, "shared", [s[output]])] for tensor in sources]
    stage = s[output]
    y, x = stage.op.axis[place], stage.op.axis[-1]
    size = max(WARP, (LINE // VECTOR) * lanes)
    width = size // lanes
    down = thread_axis((0, THREADS // width), "threadIdx.y")
    along = thread_axis((0, width), "threadIdx.x")
    rows, row = stage.split(y, factor=size)
    columns, column = stage.split(x, factor=size)
    some, row = stage.split(row, factor=THREADS // width)
    column, vector = stage.split(column, factor=lanes)
    others = [axis for axis in stage.op.axis if axis not in (y, x)]
    stage.reorder(*others, rows, columns, row, column, some, vector)
    block = stage.fuse(*others, rows, columns)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(row, down)
    stage.bind(column, along)
    stage.vectorize(vector)
    for copy in copies:
        copy.compute_at(stage, block)
        bank = max(WORD // copy.op.output(0).dtype.bytes, 1)  # rows lie an odd number of banks apart
        copy.storage_align(copy.op.axis[-2], 2 * bank, bank)
        rest, vector = copy.split(copy.fuse(*copy.op.axis), factor=lanes)
        copy.vectorize(vector)
        rest, thread = copy.split(rest, factor=width)
        copy.bind(copy.split(rest, factor=THREADS // width)[1], down)
        copy.bind(thread, along)
