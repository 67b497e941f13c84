"""Accesses of operations: the elements of tensors that they read and write, per dimension.

    A[4 * i + k - 1, j]      dimension 0: i -> 4, k -> 1, offset -1      dimension 1: j -> 1

Index expressions are taken apart here alone; the forms (forms/) and costs of operations are told from the result. Symbolic parts of
an index, quotients and remainders among them, are the rest of its sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, prod
from typing import TypeGuard

from ..base.dataclass import dataclass
from ..ir.analysis.footprint import Access
from ..ir.analysis.linear import is_index, linear, occurs, terms
from ..ir.analysis.work import executions, measure_work
from ..ir.arith.linear import LinearForm
from ..ir.dtype import INT32, INT64
from ..ir.expr import (
    GE,
    GT,
    LE,
    LT,
    Call,
    Expr,
    FloorMod,
    IfThenElse,
    IntImm,
    IterVar,
    Max,
    Min,
    Producer,
    ProducerLoad,
    Sub,
    Var,
)
from ..ir.lazy_values import cached_property
from ..ir.ops import conjuncts, integer_value
from ..ir.stmt import For, If, LoopKind, Stmt
from ..ir.structural import StructuralKey
from ..ir.visit import distinct, walk
from ..te.hybrid.forms import is_fact
from ..te.operation import Operation, axis_extent
from ..te.rewrite import collect_loads
from ..te.shape import constant_extent, same_extent
from ..te.tensor import Tensor, find_tensor
from .operations import elements, is_plain

__all__ = [
    "ASSUMED",
    "Dimension",
    "affine_dimensions",
    "contiguous_axes",
    "dimension",
    "dimensions",
    "distinct_loads",
    "domain_axes",
    "find_axes",
    "is_no_larger",
    "is_permutation",
    "is_pointwise",
    "load_access",
    "load_axes",
    "margin",
    "max_reads",
    "numeric_shape",
    "op_loads",
    "reads_output",
    "row_steps",
    "source",
    "store_access",
    "strip_clamps",
    "tensor_bytes",
]

ASSUMED = 1024
"""Taken for an extent that the call decides."""
ROUND = 64
"""Elements after which a remainder begins anew from which on most vectors are whole."""


@dataclass(frozen=True, eq=False)
class Dimension:
    """An index as a sum of multiples of axes, of other expressions, and a constant."""

    form: LinearForm

    @cached_property
    def steps(self) -> Mapping[IterVar, int]:
        """Elements between neighbouring values of each axis, in the order of the sum."""
        return {part: factor for part, factor in terms(self.form) if isinstance(part, IterVar)}

    @cached_property
    def rest(self) -> tuple[tuple[Expr, int], ...]:
        """Parts that are not axes, with their factors: symbols, quotients, remainders, indices that are data."""
        return tuple((part, factor) for part, factor in terms(self.form) if not isinstance(part, IterVar))

    @property
    def offset(self) -> int:
        """The constant of the sum."""
        return self.form.const

    def is_axis(self, axis: IterVar) -> bool:
        """Return whether the index is `axis` plus a constant."""
        return not self.rest and self.steps == {axis: 1}

    def differs_by_constant(self, other: Dimension) -> bool:
        """Return whether the two indices differ by a constant."""
        return self.form.coeffs == other.form.coeffs

    def mentions(self, axis: IterVar) -> bool:
        """Return whether an axis occurs anywhere in the sum, quotients and data included."""
        return occurs(axis, self.form)

    def remainder(self, modulus: int) -> dict[Expr, int]:
        """Parts of the sum whose factors `modulus` does not divide."""
        return {part: factor for part, factor in terms(self.form) if factor % modulus}

    def width(self, values: Mapping[IterVar, int]) -> int:
        """Neighbouring indices that are taken while each axis takes `values` of its values, one where none are given."""
        return 1 + sum(abs(step) * (values.get(axis, 1) - 1) for axis, step in self.steps.items())


def dimension(index: Expr) -> Dimension:
    """Take an index expression apart."""
    return Dimension(linear(index))


def margin(condition: Expr) -> Dimension | None:
    """A sum of whole numbers that is not negative where a comparison holds; None for any other condition."""
    if not isinstance(condition, (LT, LE, GT, GE)) or condition.a.dtype not in (INT32, INT64):
        return None
    more, less = (condition.a, condition.b) if isinstance(condition, (GT, GE)) else (condition.b, condition.a)
    form = linear(more).plus(linear(less), -1)
    return Dimension(form.plus(LinearForm({}, -1)) if isinstance(condition, (LT, GT)) else form)


def dimensions(load: ProducerLoad) -> list[Dimension]:
    """Take all indices of a load apart."""
    return [dimension(index) for index in load.indices]


def affine_dimensions(load: ProducerLoad) -> list[Dimension]:
    """The indices of a load, where all of them are sums of multiples of variables; empty for any other load."""
    found = dimensions(load) if all(map(is_index, load.indices)) else []
    return found if all(isinstance(part, Var) for each in found for part, _ in each.rest) else []


def strip_clamps(index: Expr, mirrors: bool = False) -> Expr:
    """An index before clamps to constants bring it into its tensor, or a remainder that begins anew once, and what else does so beyond a
    border that is likely not crossed, with `mirrors` beyond any."""
    while (
        isinstance(index, Min | Max)
        or isinstance(index, IfThenElse)
        and (mirrors or _is_likely(index.condition))
        or _wraps_once(index)
    ):
        if isinstance(index, IfThenElse):  # if 0 <= i < n: i, which borders are cut from too
            index = index.true_value
        elif isinstance(index, FloorMod) or isinstance(index.b, IntImm):
            index = index.a
        elif isinstance(index.a, IntImm):
            index = index.b
        elif (
            mirrors and isinstance(index.b, Sub) and isinstance(index.b.a, IntImm)
        ):  # max(i, 0 - i), min(i, 2n - 2 - i)
            index = index.a
        else:
            break
    return index


def _wraps_once(index: Expr) -> TypeGuard[FloorMod]:
    """Return whether an index is a remainder, (i + 1) % n, of fewer values than the divisor: vectors are whole but where it begins anew."""
    if not (isinstance(index, FloorMod) and isinstance(index.b, IntImm) and is_index(index.a)) or index.b.value < ROUND:
        return False
    span = 0
    for part, factor in terms(linear(index.a)):
        if not isinstance(part, IterVar):
            return False
        span += abs(factor) * ((constant_extent(part) or index.b.value + 1) - 1)
    return span < index.b.value


def _is_likely(condition: Expr) -> bool:
    """Return whether loops are cut where a condition ends to hold (ir/passes/common/loop_partition.py)."""
    return all(isinstance(part, Call) and part.name == "likely" for part in conjuncts(condition, hints=True))


def find_axes(expr: Expr) -> set[IterVar]:
    """The axes that occur in an expression."""
    return {node for node in distinct(expr) if isinstance(node, IterVar)}


def load_axes(load: ProducerLoad) -> frozenset[IterVar]:
    """The axes that the indices of a load depend on."""
    axes: set[IterVar] = set()
    for index in load.indices:
        if isinstance(index, IterVar):
            axes.add(index)
        else:
            axes |= find_axes(index)
    return frozenset(axes)


def domain_axes(axis: IterVar) -> set[IterVar]:
    """The axes that the range of an axis depends on."""
    return find_axes(axis.dom.begin) | find_axes(axis.dom.extent) if axis.dom is not None else set()


def row_steps(load: ProducerLoad) -> dict[IterVar, int]:
    """Elements between neighbouring values of each axis that moves a load within one row of its tensor alone, where no clamp holds
    it: loops are cut where clamps begin (ir/passes/common/loop_partition.py)."""
    if not load.indices:
        return {}
    *outer, last = load.indices
    row = dimension(strip_clamps(last))
    busy = {axis for index in outer for axis in find_axes(index)}
    busy.update(axis for part, _ in row.rest for axis in find_axes(part))
    return {axis: step for axis, step in row.steps.items() if axis not in busy}


def contiguous_axes(load: ProducerLoad) -> set[IterVar]:
    """The axes of which neighbouring values read neighbouring elements."""
    return {axis for axis, step in row_steps(load).items() if step == 1}


def source(load: ProducerLoad) -> Tensor:
    """The tensor that is read."""
    assert isinstance(load.producer, Tensor)
    return load.producer


def numeric_shape(tensor: Producer, unknown: int = ASSUMED) -> tuple[int, ...]:
    """Extents as numbers, `unknown` where the call decides."""
    return tuple(integer_value(extent, unknown) for extent in tensor.shape)


def tensor_bytes(tensor: Tensor, unknown: int = 1) -> int:
    """The size of a tensor in bytes; an extent that the call decides counts as `unknown`."""
    return prod(numeric_shape(tensor, unknown)) * tensor.dtype.bytes


def load_access(load: ProducerLoad) -> Access:
    """The element that a load reads, for analyses of footprints: of clamped indices the one before, since loops are cut where
    clamps begin."""
    return Access(load.producer, tuple(map(strip_clamps, load.indices)), numeric_shape(load.producer))


def store_access(tensor: Tensor, axes: Sequence[Expr]) -> Access:
    """The element of a result that is written at `axes`."""
    return Access(tensor, tuple(axes), numeric_shape(tensor), stored=True)


def op_loads(op: Operation) -> tuple[ProducerLoad, ...]:
    """The loads in each of the values of an operation."""
    return op.value_loads


def distinct_loads(reader: Operation, tensor: Tensor) -> list[ProducerLoad]:
    """The loads of a tensor at different indices: a value that is read twice is read, or computed, once."""
    found: dict[tuple[StructuralKey, ...], ProducerLoad] = {}
    for load in op_loads(reader):
        if load.producer is tensor:
            found.setdefault(tuple(map(StructuralKey, load.indices)), load)
    return list(found.values())


def max_reads(op: Operation, readers: Iterable[Operation]) -> int:
    """The number of different elements that a reader reads per result, at most; of a script, the reads of each element."""
    return max(_reads(reader, op.output(0)) for reader in readers)


def _reads(reader: Operation, tensor: Tensor) -> int:
    if reader.values:
        return len(distinct_loads(reader, tensor))
    return _script_reads(reader.statement(), tensor, max(prod(numeric_shape(tensor)), 1))


def _script_reads(statement: Stmt | None, tensor: Tensor, size: int) -> int:
    """The reads of each element of a tensor of `size` elements in the loops of a script."""
    if statement is None:
        return 0
    if is_fact(statement):
        assert isinstance(statement, If)
        return max(_script_reads(branch, tensor, size) for branch in (statement.then_body, statement.else_body))
    runs = sum(
        times
        for work, times in executions(measure_work(statement), ASSUMED)
        for each in work.statements
        for access in each.accesses
        if access.array is tensor
    )
    if any(isinstance(node, For) and node.kind is LoopKind.THREAD for node in walk(statement)):
        return max(runs // size, min(runs, 1))  # threads beyond the last element read none
    return (runs + size - 1) // size


def reads_output(value: Expr, op: Operation) -> bool:
    """Return whether an expression reads the first output of an operation."""
    return any(load.producer is op.output(0) for load in collect_loads(value))


def is_no_larger(reader: Operation, op: Operation) -> bool:
    """Return whether a reader certainly has no more elements than what it reads."""
    size, other = elements(op), elements(reader)
    if size is not None and other is not None:
        return other <= size
    shape, others = op.output(0).shape, reader.output(0).shape
    return len(shape) == len(others) and all(map(same_extent, shape, others))


def is_pointwise(op: Operation, anchor: Operation, region: Collection[Operation], some: bool) -> bool:
    """Return whether each element of `op` is made of the same elements of what it reads within a region, of which it reads some.

    some: the first elements of `anchor` along each axis are enough.
    """
    loads = [load for load in op_loads(op) if find_tensor(load).op in region] if op.values else []
    if not loads or len(op.axis) != len(anchor.axis):
        return False
    fits = all(
        same_extent(axis_extent(a), axis_extent(b)) or some and (constant_extent(a) or inf) <= (constant_extent(b) or 0)
        for a, b in zip(op.axis, anchor.axis, strict=True)
    )
    return fits and all(tuple(load.indices) == tuple(op.axis) for load in loads)


def is_permutation(op: Operation, producer: Operation) -> bool:
    """Return whether an elementwise operation reads each element of `producer` once, in some order of its dimensions."""
    loads = [load for load in op_loads(op) if load.producer is producer.output(0)] if is_plain(op) else []
    return (
        len(loads) == 1
        and len(loads[0].indices) == len(op.axis)
        and set(loads[0].indices) == set(op.axis)
        and all(_covers(axis, extent) for axis, extent in zip(loads[0].indices, producer.output(0).shape, strict=True))
    )


def _covers(axis: Expr, extent: Expr) -> bool:
    return not isinstance(axis, IterVar) or same_extent(axis_extent(axis), extent)
