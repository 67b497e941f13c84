"""Operations without a reduction: rows over the threads, vectors along the contiguous axis.

    for row (fused, in parallel):                   elementwise: all axes are one
        for j.outer:                                    for i.outer in parallel:
            for j.inner in lanes:                           for i.inner in lanes:
                B[.., j] = ...                                  B[i] = ...

What is small runs on one thread: waking others takes longer. Where the last axis is short, those before it are fused with
it, so that vectors run across rows; where there are few rows, their vectors are shared among the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ...base import dataclass, replace
from ...ir import Expr, IfThenElse, IterVar, ProducerLoad, Select, children, post_order
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ..accesses import find_axes, load_access
from ..cost.cpu import Lines
from ..cost.instructions import classify_access
from ..cost.vectors import GATHERED
from ..drafts.draft import Drafts
from ..loops import fuse_axes, share_loops, split_longer, unroll_short_loops
from ..operations import LIGHT, find_inlined, weight
from ..plan import Candidate
from ..structure import structure_key
from .declaration import calls_functions, functions_at_once, part_left_by_llvm
from .lanes import VECTORS, length, vectors_of_a_chain
from .quotient_axes import find_digits
from .streams import streams, sweep_past_caches
from .threads import are_enough_tasks, worth_threads
from .transposes import find_crossing, transpose_tiles

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["injective", "sweep"]

NARROW = 128
"""Bits of vectors up to which a loop around one takes time beside it. Of longer ones a step has one where no estimate tells: LLVM
stores several in another order than they lie in, and where they cross lines of the cache that takes up to 1.45 times as long (30
sweeps of 3,000 to 160,000 elements with AVX2 and AVX-512: 1.15 in the mean; at lines of the cache 0.97 at least)."""
STEPS = (1, 2, 4, 8)
"""Vectors in a step to choose from."""
WIDE = 4
"""Instructions begun in a cycle from which on those of a loop around one vector go beside a heavy expression: on Cortex-A72, which
begins three, two vectors take 0.84 to 0.97 of the time of one by llvm-mca, and more no less."""
LONG_ROW = 64
"""Vectors of a row from which on a step has eight where a core looks ahead little: what comes last in it is waited for half as often.
By llvm-mca that takes 0.67 to 0.94 of the time of four on Cortex-A55, 0.7 to 1.0 on A64FX. Where registers are grouped, eight would be
one operand of four."""
COMPONENTS = 8
"""Values of the last axis that are written out."""


_Way: TypeAlias = tuple[str, Callable[["Group"], None]]
"""Its description, and what applies it to a group."""


def injective(group: Group) -> None:
    """The rule. The heads, which only an anchor has, are inlined."""
    group.inline_heads()
    op = group.s[group.output].op
    ways, are_timed = _ways(group, op)
    group.choose("injective", _time_ways(group, op, ways) if are_timed else group.draft_candidates(ways, ordered=True))


def sweep(group: Group, op: Operation) -> None:
    """Schedules the loops over data of a stage at root that is not a reduction, in the usual way."""
    ways, _ = _ways(group, group.s[op].op)
    ways[0][1](group)


def _ways(group: Group, op: Operation) -> tuple[list[_Way], bool]:
    """The ways to schedule the loops over data of a stage at root that is not a reduction, the usual one first; and whether estimates
    choose: where vectors cross rows that are shorter than they are, or gather. The loops as declared are one of them there."""
    s = group.s
    axes = list(op.axis)
    if not axes:
        return [("a single element", lambda own: None)], False
    operators = sum(map(weight, (op, *find_inlined(s, op))))
    machine, bits = group.machine, op.output(0).dtype.bits
    waits = machine.is_latency_bound
    usual = VECTORS if operators <= LIGHT or waits else 1 if machine.width >= WIDE else 2
    threads = worth_threads(axes, operators)
    value = expand_inlined(s[op])
    flat = op.num_outputs == 1 and _is_flat(op, value)
    vectors = (length(axes if flat else axes[-1:]) or 0) // machine.lanes(bits)
    several = usual
    if calls_functions(value):
        several = usual = min(usual, functions_at_once(machine))
    elif vectors_of_a_chain(machine) > 1 and vectors >= LONG_ROW and not machine.groups_registers:
        several = 2 * usual
    loops = [
        _Loops(flat, count, shared) for shared in (threads, not threads) for count in dict.fromkeys((several, *STEPS))
    ]
    loads = collect_loads(value)
    run = find_digits(op, loads).get(len(axes) - 1, 0) if op.num_outputs == 1 else 0
    if run * 2 >= group.machine.lanes(op.output(0).dtype.bits):
        loops = [*(_Loops(flat, usual, shared, run) for shared in (threads, not threads)), *loops]
    if _is_of_components(axes, value):
        loops = [*(_Loops(False, usual, shared, apart=True) for shared in (threads, not threads)), *loops]
    first = loops[0]
    short = op.num_outputs == 1 and not first.flat and (_is_short(group, op) or _gathers(group, op, value))
    are_timed = short and not calls_functions(value)
    if not (are_timed or waits) and group.machine.lanes(bits) * bits > NARROW and not (first.run or first.apart):
        loops = list(dict.fromkeys((replace(first, vectors=1), *loops)))
    ways: list[_Way] = [(str(each), partial(_vectorize_elements, op=op, way=each)) for each in loops]
    crossing = find_crossing(group, op, loads) if op.num_outputs == 1 else None
    if crossing is not None:
        squares = partial(transpose_tiles, op=op, crossing=crossing, threads=threads)
        return [("squares that are transposed", squares), *ways], False
    if flat and streams(op):
        return [("past the caches", lambda own: sweep_past_caches(own.s[op])), *ways], False
    if are_timed:
        for shared in (threads, not threads):
            text = "as declared" + ("" if shared else ", one thread")
            ways.append((text, partial(_keep_loops, op=op, threads=shared)))
    return ways, are_timed


def _time_ways(group: Group, op: Operation, ways: Sequence[_Way]) -> list[Candidate]:
    """The ways as candidates, each with an estimate."""
    value = expand_inlined(group.s[op])
    drafts, lines, form = Drafts(), Lines(), structure_key(value, op.axis)
    candidates: list[Candidate] = []
    declared = part_left_by_llvm(value, op.axis)
    for text, apply in ways:
        left = declared if text.startswith("as declared") else 1.0
        draft = partial(group.draft, apply, drafts, lines, [op], left)
        (time,) = group.times(("injective", form, text), lambda draft=draft: [draft()])
        candidates.append(Candidate(text, partial(apply, group), time))
    return candidates


def _is_short(group: Group, op: Operation) -> bool:
    """Return whether the last axis is shorter than two vectors."""
    lanes = group.machine.lanes(op.output(0).dtype.bits)
    return len(op.axis) > 1 and 1 < (constant_extent(op.axis[-1]) or 0) < 2 * lanes


def _gathers(group: Group, op: Operation, value: Expr) -> bool:
    """Return whether lanes along the last axis lie evenly apart in what is read, too far for vectors, or anywhere, narrower than what
    an instruction gathers."""
    lane = op.axis[-1]
    lanes = {lane: group.machine.lanes(op.output(0).dtype.bits)}
    reads = list(map(load_access, collect_loads(value)))
    return any(
        (read.is_even(lane) or read.bytes < GATHERED) and classify_access(read, lanes, group.machine)[0] == "gather"
        for read in reads
    )


def _keep_loops(group: Group, op: Operation, threads: bool) -> None:
    """Keep the declared loops, the first ones shared among threads and short ones written out."""
    stage = group.s[op]
    first, *others = stage.op.axis
    axes = [first, *unroll_short_loops(stage, others)]
    if threads:  # a fused index is taken apart for each element
        many = len(axes) == 1 or are_enough_tasks(constant_extent(first), group.machine)
        stage.parallel(first if many else stage.fuse(*axes))


@dataclass(frozen=True)
class _Loops:
    """Loops of operations without a reduction.

    flat: all axes are one; vectors: in a step of the inner loop; threads: whether they share the rows. run: neighbours between
    which what is read in quotients is one element, and in remainders lies side by side; 0 for all. apart: whether lanes are those
    of the axis before the last one, whose few values are computed apart.
    """

    flat: bool
    vectors: int
    threads: bool
    run: int = 0
    apart: bool = False

    def __str__(self) -> str:
        runs = f" in runs of {self.run}" if self.run else ", components apart" if self.apart else ""
        return (
            f"{self.vectors} vector{'s' * (self.vectors > 1)} at a time{runs}{'' if self.threads else ', one thread'}"
        )


def _vectorize_elements(group: Group, op: Operation, way: _Loops) -> None:
    stage = group.s[op]
    axes = list(stage.op.axis)
    if way.run:
        axes[-1:] = stage.split(axes[-1], factor=way.run)
    components = [axes.pop()] if way.apart else []
    lanes = group.machine.lanes(stage.op.output(0).dtype.bits) * way.vectors
    least = lanes if way.apart else lanes // way.vectors
    at = len(axes) - 1 if way.run else 0 if way.flat else _first_of_vectors(axes, least)
    rows, last = axes[:at], axes[at:]
    outer, inner = split_longer(stage, fuse_axes(stage, last), length(last), lanes)
    for component in components:
        stage.reorder(component, inner)
        stage.unroll(component)
    many = bool(rows) and are_enough_tasks(length(rows), group.machine)
    shared = rows if many else [*rows, *outer]
    if shared:
        share_loops(stage, shared, way.threads)
    if constant_extent(last[0]) != 0:
        stage.vectorize(inner)


def _is_of_components(axes: Sequence[IterVar], value: Expr) -> bool:
    """Return whether the last of several axes has few values and a condition tells them apart: each is an expression of its own, of
    which all would be computed for each lane."""
    return (
        len(axes) > 1
        and 1 < (constant_extent(axes[-1]) or 0) <= COMPONENTS
        and any(
            isinstance(node, Select | IfThenElse) and axes[-1] in find_axes(node.condition)
            for node in post_order(value)
        )
    )


def _first_of_vectors(axes: Sequence[IterVar], lanes: int) -> int:
    """The axis from which on all are fused: the last, unless it is too short for a vector of so many lanes. Vectors that cross rows
    gather."""
    at = len(axes) - 1
    while at > 0 and (length(axes[at:]) or lanes) * 2 <= lanes:
        at -= 1
    return at


def _is_flat(op: Operation, value: Expr) -> bool:
    """Return whether the element at some place depends, of elements that differ with the place, on those at that place alone."""
    stack: list[object] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ProducerLoad):
            own = len(node.indices) == len(op.axis) and all(a is b for a, b in zip(node.indices, op.axis, strict=True))
            if not own and any(find_axes(index) for index in node.indices):
                return False
        elif isinstance(node, IterVar):
            return False
        elif isinstance(node, Expr):
            stack.extend(children(node))
    return True
