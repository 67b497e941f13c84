"""Instructions on vectors that expressions take, inside of loops that are written out or are lanes.

    a[i, k] * b[k, j] + c[i, j]    i in 6 written out, j in 16 lanes of 8       12 multiply-adds, 6 loads of a, 2 of b

What does not depend on an axis is computed once for all of its values; what the loop around does not change is computed before it.
Arithmetic of indices is free, as loops do it, but for quotients and remainders where a body has no lanes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from math import ceil, log2, prod
from typing import TypeGuard, TypeVar

from ...base import dataclass, replace
from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.analysis.linear import is_index
from ...ir.combine import FUSED
from ...ir.dtype import UINT8
from ...ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    ProducerLoad,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.structural import Key, structural_key
from ...ir.visit import children, free_vars, post_order

__all__ = [
    "NEAR",
    "Work",
    "chain_links",
    "classify_access",
    "count_instructions",
    "count_loads",
    "count_transfers",
    "count_vectors",
    "distinct_elements",
    "instruction_class",
    "instruction_classes",
    "list_work",
]

NEAR = 4
"""Elements apart up to which vectors are loaded whole."""
ALONE = 16
"""Bytes of the vectors whose division takes as long as a single element's (Fog's tables: Haswell 7 cycles, 14 for 32 bytes)."""
DIGIT = 4
"""Instructions of a quotient or a remainder in the index of an element alone, with those of the address that it is a part of."""
SQUARE = 4
"""Vectors from which on lanes that lie apart are loaded as rows and turned."""

VarT = TypeVar("VarT", bound=Var)
"""Any kind of variable: of loops, or axes of operations."""
_CLASSES: dict[type[Node], str] = {
    Add: "add",
    Sub: "add",
    Mul: "mul",
    Cast: "shuffle",
    **dict.fromkeys((Min, Max, Select, IfThenElse), "select"),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), "compare"),
    **dict.fromkeys((Div, FloorDiv, FloorMod, TruncDiv, TruncMod), "div"),
}
_CALLS = {
    **dict.fromkeys(FUSED, "fma"),
    "sqrt": "sqrt",
    "rsqrt": "sqrt",
    "popcount": "shuffle",
    "clz": "shuffle",
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"), "logic"),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), "add"),
    **dict.fromkeys(("isnan", "isfinite", "isinf"), "compare"),
}
_FREE = ("likely", "reinterpret", "target_has", "address_of", "access_ptr", "abs")
"""Calls that take no instruction, or one that any unit takes."""


def instruction_class(node: Node) -> str:
    """The class of a node's instruction, of machine.Instructions; empty for what takes none."""
    if isinstance(node, Call):
        return "" if node.name in _FREE else _CALLS.get(node.name, "call")
    return _CLASSES.get(type(node), "")


def instruction_classes(node: Node, machine: Machine) -> tuple[str, ...]:
    """The classes of a node's instructions, each as often as it has such."""
    if not isinstance(node, (Min, Max)) or not node.dtype.is_float:  # integers have one instruction for a minimum
        return (instruction_class(node),) if instruction_class(node) else ()
    return machine.minimum if isinstance(node, Min) else machine.maximum


def chain_links(node: Node, machine: Machine) -> int:
    """The number of them that wait for each other."""
    return min(len(instruction_classes(node, machine)), 2)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """`node`, an operator or a load. own: the variables that it depends on; classes: of its instructions, none of a load's;
    load: of which it is one, else None; bits: of its value; guard: the variables of a condition without which a load is a
    constant."""

    node: Expr
    own: frozenset[Var]
    classes: tuple[str, ...]
    load: BufferLoad | ProducerLoad | None
    bits: int
    guard: frozenset[Var] = frozenset()


def list_work(values: Iterable[Expr], machine: Machine) -> list[Work]:
    """The operators and loads of expressions that take instructions, equal ones once."""
    works: list[Work] = []
    variables: dict[int, frozenset[Var]] = {}
    numbers: dict[int, int] = {}
    known: dict[tuple[object, ...], int] = {}
    guards: dict[int, frozenset[Var]] = {}
    for node in post_order(*values, below=_value_children):  # equal expressions are computed once
        if isinstance(node, (BufferLoad, ProducerLoad)):
            own = frozenset(each for each in post_order(*node.indices) if isinstance(each, Var))
        else:
            own = frozenset({node} if isinstance(node, Var) else ()).union(
                *(variables[id(child)] for child in _value_children(node))
            )
        if is_guard(node):
            asked = frozenset(each for each in post_order(node.condition) if isinstance(each, Var))
            for each in post_order(node.true_value, below=_value_children):
                guards[id(each)] = guards.get(id(each), frozenset[Var]()) | asked
        variables[id(node)] = own
        key = _key(node, numbers)
        again = key in known
        numbers[id(node)] = known.setdefault(key, len(known))
        # constants, and what occurred before, cost nothing
        if again or not isinstance(node, Expr) or not own or is_guard(node):
            continue
        if isinstance(node, (BufferLoad, ProducerLoad)):
            works.append(Work(node, own, (), node, node.dtype.bits))
        elif (classes := instruction_classes(node, machine)) and not is_index(node):
            works.append(Work(node, own, classes, None, node.dtype.bits))
    return [replace(work, guard=guards[id(work.load)]) if id(work.load) in guards else work for work in works]


def is_guard(node: Node) -> TypeGuard[IfThenElse]:
    """Return whether a value is read where a condition holds, and is a constant elsewhere: loops end where such a condition does."""
    return isinstance(node, IfThenElse) and isinstance(node.false_value, (FloatImm, IntImm))


def count_instructions(
    works: Iterable[Work],
    machine: Machine,
    written_out: Mapping[VarT, int],
    lanes: Mapping[VarT, int],
    around: Collection[Var],
    access: Callable[[BufferLoad | ProducerLoad], Access | None],
) -> defaultdict[str, float]:
    """Count the instructions of one evaluation, by class. written_out, lanes: the loops in the body, each with the values it takes.
    around: the loop around, if any; what depends on none of all these is hoisted. access: what a load touches, None of a
    register."""
    count = defaultdict[str, float](float)
    moving = {*written_out, *lanes, *around}
    for work in works:
        own = work.own
        # what the loop around does not move is computed before it
        if around and own.isdisjoint(around) or own.isdisjoint(moving):
            continue
        if work.load is not None:
            read = access(work.load)
            if read is not None:
                # lanes behind a guard are loaded by parts where there are no masks
                parts = not machine.masks and not work.guard.isdisjoint(lanes)
                for name, many in count_loads(read, own, written_out, lanes, machine, parts):
                    count[name] += many
                for _ in () if lanes else find_quotients(work.load, around):
                    count["logic"] += DIGIT
            continue
        if not lanes and is_extension(work.node):
            continue
        each = count_vectors(lanes, own, machine.lanes(work.bits))
        for axis, trips in written_out.items():
            if axis in own:
                each *= trips
        # division units of floats are narrower than the vectors
        part = 1 if lanes or not work.node.dtype.is_float else ALONE / machine.vector_bytes
        for name in work.classes:
            count[name] += each * part if name in ("div", "sqrt") else each
    return count


def find_quotients(load: BufferLoad | ProducerLoad, around: Collection[Var]) -> set[Key]:
    """The quotients and remainders in the indices of a load that a loop around it moves, equal ones once."""
    moved = {*around}
    return {
        structural_key(node)
        for node in post_order(*load.indices)
        if isinstance(node, (FloorDiv, FloorMod)) and not moved.isdisjoint(free_vars(node))
    }


def is_extension(node: Expr) -> bool:
    """Return whether a node widens an integer that is loaded: one element's load does so itself."""
    return (
        isinstance(node, Cast)
        and isinstance(node.value, (BufferLoad, ProducerLoad))
        and not node.dtype.is_float
        and not node.value.dtype.is_float
        and node.dtype.bits >= node.value.dtype.bits
    )


def count_loads(
    read: Access,
    own: Collection[Var],
    written_out: Mapping[VarT, int],
    lanes: Mapping[VarT, int],
    machine: Machine,
    parts: bool = False,
) -> Sequence[tuple[str, int]]:
    """Count the instructions that load what is read while loops are written out, of which an index depends on `own`: each element or
    vector once. Lanes that lie apart are loaded along a loop in which neighbours do, and turned in registers. parts: some lanes of a
    vector may be left out."""
    name, many = classify_access(read, lanes, machine)
    loops = {axis: trips for axis, trips in written_out.items() if axis in own}
    places = distinct_elements(read, loops) if loops else 1
    if name == "gather":
        width = machine.lanes(read.bytes * 8)
        beside = [trips for axis, trips in loops.items() if abs(read.step(axis)) == 1 and read.is_even(axis)]
        reach = min((abs(step) for axis in lanes if (step := read.step(axis))), default=0)
        # neighbours along a loop are loaded whole and turned, where rows are longer than the lanes
        if (
            beside
            and min(beside[0], width) >= SQUARE
            and prod(lanes.values()) % width == 0
            and reach >= prod(lanes.values())
        ):
            vectors = ceil(places / beside[0]) * prod(lanes.values()) * ceil(beside[0] / width)
            return ("load", vectors), ("shuffle", ceil(vectors * log2(width)))
    moving = [axis for axis in lanes if axis in own]
    if name == "gather" and len(moving) == 1 and read.repeats(moving[0]):  # fewer elements are loaded, and lanes picked
        vectors = places * count_vectors(lanes, own, machine.lanes(read.bytes * 8))
        return ("load", vectors), ("shuffle", vectors)
    table = byte_table(read, lanes) if name == "gather" and machine.table else 0
    if table:
        vectors, blocks = places * count_vectors(lanes, own, machine.lanes(8)), ceil(table / machine.table)
        return ("shuffle", vectors * blocks), ("logic", vectors * 2 * (blocks - 1))
    if name == "gather" and read.bytes < 4:  # no instruction takes narrower ones from several places
        elements = places * prod(lanes[axis] for axis in lanes if axis in own)
        # a place that is data is taken out of a vector itself
        return ("picked", elements), ("shuffle", elements * (2 if read.is_indirect else 1))
    if name == "shuffle":  # of whole vectors whose lanes are picked
        vectors = places * count_vectors(lanes, own, machine.lanes(read.bytes * 8))
        return ("masked" if parts else "load", ceil(vectors * (1 + lines_crossed(read, lanes, machine)))), (
            name,
            places * many,
        )
    if parts and name == "load":
        name, many = "masked", count_vectors(lanes, own, machine.lanes(read.bytes * 8))
    twice = lines_crossed(read, lanes, machine) if name in ("load", "masked") else 0.0
    return ((name, ceil(places * many * (1 + twice))),)


def byte_table(read: Access, lanes: Collection[VarT]) -> int:
    """Return the number of bytes that lanes pick among by a byte, as they do in registers (codegen/llvm/byte_tables.py); 0 where they
    do not."""
    if not read.indices:
        return 0
    *outer, last = read.indices
    extent = read.shape[-1]
    if read.bytes > 1 or not isinstance(last, Cast) or last.value.dtype != UINT8 or not isinstance(extent, int):
        return 0
    fixed = all(axis not in lanes for index in outer for axis in post_order(index))
    return min(extent, 1 << UINT8.bits) if fixed else 0


def lines_crossed(read: Access, lanes: Collection[VarT], machine: Machine) -> float:
    """The part of the vectors of a load that lie in two lines of the cache, which take as long as two."""
    if read.sums is None or not any(read.step(axis) for axis in lanes):
        return 0.0
    (width, parts), offset = read.sums[-1], read.forms[-1].const  # rows that begin at whole vectors cross no line
    whole = machine.lanes(read.bytes * 8)
    aligned = width % whole == 0 and offset % whole == 0
    if aligned and all(factor % whole == 0 for var, factor in parts if var not in lanes):
        return 0.0
    return machine.vector_bytes / machine.line


def distinct_elements(read: Access, trips: Mapping[VarT, int]) -> int:
    """The number of elements that a load reads while loops run: those of a window once for all places that read them."""
    loops: dict[Var, int] = {**trips}
    if read.sums is None:
        return prod(size for axis, size in loops.items() if read.step(axis))
    places = 1
    for _, parts in read.sums:
        moving = [(factor, loops[var]) for var, factor in parts if var in loops]
        if len(moving) == 1:
            places *= moving[0][1]
        elif moving:
            # places of a window that coincide are one element
            places *= len({sum(at) for at in product(*(range(0, factor * size, factor) for factor, size in moving))})
    return places


def _key(node: Node, numbers: Mapping[int, int]) -> tuple[object, ...]:
    """The key that equal expressions share, which are computed once. numbers: of the nodes below."""
    if isinstance(node, BufferLoad):
        return node.buffer, *map(structural_key, node.indices)
    if isinstance(node, ProducerLoad):
        return node.producer, *map(structural_key, node.indices)
    below = tuple(numbers[id(child)] for child in _value_children(node))
    if not below and isinstance(node, Expr):
        return (structural_key(node),)
    return type(node), getattr(node, "name", ""), getattr(node, "dtype", ""), *below


def _value_children(node: Node) -> Sequence[Node]:
    if isinstance(node, (BufferLoad, ProducerLoad)):  # indices that are data are values themselves
        return [index for index in node.indices if not isinstance(index, Var) and not is_index(index)]
    return [node.true_value] if is_guard(node) else children(node)


def count_vectors(lanes: Mapping[VarT, int], own: Collection[Var], width: int) -> int:
    """The number of vectors that a value of the variables `own` fills."""
    values = prod(trips for axis, trips in lanes.items() if axis in own)  # a value without lanes is one scalar
    return ceil(values / width)


def count_transfers(lanes: int, width: int, machine: Machine) -> int:
    """The number of loads or stores of so many neighbours: those that fill no vector are halves, quarters and so on, unless vectors
    can be masked."""
    whole, rest = divmod(lanes, width)
    return whole + (min(rest, 1) if machine.masks else rest.bit_count())  # powers of two: halves, quarters and so on


def classify_access(access: Access, lanes: Mapping[VarT, int], machine: Machine) -> tuple[str, int]:
    """The class of what loads or stores along the lanes, and how many: whole vectors where neighbours lie side by side, one element
    where all lanes read the same, exchanges of lanes where they lie few elements apart, gathers else."""
    if not lanes:  # without lanes elements are picked or put one by one
        return "put" if access.stored else "picked", 1
    steps = {axis: access.step(axis) for axis in lanes if access.indices is not None}
    own = [axis for axis, step in steps.items() if step]
    width = machine.lanes(access.bytes * 8)
    even = all(map(access.is_even, own))
    turned = len({steps[axis] > 0 for axis in own if lanes[axis] > 1}) > 1  # one axis forwards, another backwards
    if own and (turned or not (even and _side_by_side([(abs(steps[axis]), lanes[axis]) for axis in own]))):
        apart = abs(steps[own[0]]) if even else NEAR + 1
        if len(own) == 1 and apart <= NEAR and not access.stored:  # as many loads, of which lanes are picked
            return "shuffle", count_vectors(lanes, own, width) * (apart - 1)
        return "gather", count_vectors(lanes, own, width)
    return "store" if access.stored else "load", count_transfers(prod(lanes[axis] for axis in own), width, machine)


def _side_by_side(steps: Iterable[tuple[int, int]]) -> bool:
    """Return whether lanes read neighbours, given how far one step along each of their axes moves and how many values it takes: those of a
    window over rows that are longer than the lanes' do not."""
    reach = 1
    for step, values in sorted(steps):
        if values > 1 and step != reach:  # a gap between lanes: not one vector
            return False
        reach *= values
    return True
