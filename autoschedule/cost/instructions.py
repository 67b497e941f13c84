"""Instructions on vectors that expressions take, inside of loops that are written out or are lanes.

    a[i, k] * b[k, j] + c[i, j]    i in 6 written out, j in 16 lanes of 8       12 multiply-adds, 6 loads of a, 2 of b

What does not depend on an axis is computed once for all of its values; what the loop around does not change is computed before it.
Arithmetic of indices is free: loops do it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import ceil, prod
from typing import TypeVar

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.analysis.linear import is_index
from ...ir.combine import FUSED
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
    FloorDiv,
    FloorMod,
    IfThenElse,
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
from ...ir.structural import structural_key
from ...ir.visit import children, post_order

__all__ = [
    "NEAR",
    "chain_links",
    "classify_access",
    "count_instructions",
    "count_transfers",
    "count_vectors",
    "instruction_class",
    "instruction_classes",
]

NEAR = 4
"""Elements apart up to which vectors are loaded whole."""

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
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), "add"),
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
    """The classes of a node's instructions, each as often as it has such: a minimum of floats is asked for in both orders, since -0
    is less than 0, and of the greater it is asked whether either is a NaN, which is to stay one; AVX-512's own knows zeros apart
    (codegen/llvm/arithmetic.py)."""
    if not isinstance(node, (Min, Max)) or not node.dtype.is_float:
        return (instruction_class(node),) if instruction_class(node) else ()
    if isinstance(node, Min):
        return "select", "select", "logic"
    return (
        ("select", "compare", "logic")
        if machine.vector_bytes >= 64
        else ("select", "select", "compare", "logic", "logic")
    )


def chain_links(node: Node) -> int:
    """The number of them that wait for each other."""
    return 2 if isinstance(node, (Min, Max)) and node.dtype.is_float else 1


def count_instructions(
    values: Iterable[Expr],
    machine: Machine,
    written_out: Mapping[VarT, int],
    lanes: Mapping[VarT, int],
    around: Collection[Var],
    access: Callable[[BufferLoad | ProducerLoad], Access],
) -> Counter[str]:
    """Count the instructions of one evaluation, by class; equal expressions are computed once. written_out, lanes: the loops in
    the body, each with the values it takes. around: the loop around, if any; what depends on none of all these is hoisted.
    access: what a load touches."""
    count: Counter[str] = Counter()
    moving = {*written_out, *lanes, *around}
    variables: dict[int, frozenset[Var]] = {}
    numbers: dict[int, int] = {}
    known: dict[tuple[object, ...], int] = {}
    for node in post_order(*values, below=_value_children):
        if isinstance(node, (BufferLoad, ProducerLoad)):
            own = frozenset(each for each in post_order(*node.indices) if isinstance(each, Var))
        else:
            own = frozenset({node} if isinstance(node, Var) else ()).union(
                *(variables[id(child)] for child in children(node))
            )
        variables[id(node)] = own
        key = _key(node, numbers)
        again = key in known
        numbers[id(node)] = known.setdefault(key, len(known))
        if again or not isinstance(node, Expr) or around and own.isdisjoint(around) or own.isdisjoint(moving):
            continue
        times = prod(trips for axis, trips in written_out.items() if axis in own)
        if isinstance(node, (BufferLoad, ProducerLoad)):
            name, many = classify_access(access(node), lanes, machine)
            count[name] += times * many
        elif (classes := instruction_classes(node, machine)) and not is_index(node):
            each = times * count_vectors(lanes, own, machine.lanes(node.dtype.bits))
            for name in classes:
                count[name] += each
    return count


def _key(node: Node, numbers: Mapping[int, int]) -> tuple[object, ...]:
    """The key that equal expressions share, which are computed once. numbers: of the nodes below."""
    if isinstance(node, BufferLoad):
        return node.buffer, *map(structural_key, node.indices)
    if isinstance(node, ProducerLoad):
        return node.producer, *map(structural_key, node.indices)
    below = tuple(numbers[id(child)] for child in children(node))
    if not below and isinstance(node, Expr):
        return (structural_key(node),)
    return type(node), getattr(node, "name", ""), getattr(node, "dtype", ""), *below


def _value_children(node: Node) -> Sequence[Node]:
    return [] if isinstance(node, (BufferLoad, ProducerLoad)) else children(node)


def count_vectors(lanes: Mapping[VarT, int], own: Collection[Var], width: int) -> int:
    """The number of vectors that a value of the variables `own` fills."""
    values = prod(trips for axis, trips in lanes.items() if axis in own)
    return ceil(values / width)


def count_transfers(lanes: int, width: int, machine: Machine) -> int:
    """The number of loads or stores of so many neighbours: those that fill no vector are halves, quarters and so on, unless vectors
    can be masked."""
    whole, rest = divmod(lanes, width)
    return whole + (min(rest, 1) if machine.masks else rest.bit_count())


def classify_access(access: Access, lanes: Mapping[VarT, int], machine: Machine) -> tuple[str, int]:
    """The class of what loads or stores along the lanes, and how many: whole vectors where neighbours lie side by side, one element
    where all lanes read the same, exchanges of lanes where they lie few elements apart, gathers else."""
    steps = {axis: access.step(axis) for axis in lanes if access.indices is not None}
    own = [axis for axis, step in steps.items() if step]
    width = machine.lanes(access.bytes * 8)
    even = all(map(access.is_even, own))
    if own and not (even and _side_by_side([(abs(steps[axis]), lanes[axis]) for axis in own])):
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
        if values > 1 and step != reach:
            return False
        reach *= values
    return True
