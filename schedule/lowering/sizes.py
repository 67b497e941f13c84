"""Sizes that are not known before a call, looked at before anything is computed by them: extents that 64 bits may not hold, such as
n * n * n, or that are negative, such as n - 2; parts that loops are cut into, which have an iteration at least; and what a kind of
operation says of its own extents, such as a scan of its first steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...base.limits import INT32_EXTENT_LIMIT
from ...ir.arith.analyzer import Analyzer
from ...ir.dtype import INT32, INT64
from ...ir.expr import Add, Cast, Expr, FloorDiv, IntImm, IterVar, Max, Min, Mul, ProducerLoad, Sub, Var
from ...ir.ops import const, disjunction
from ...ir.stmt import Assert, Stmt
from ...ir.visit import children, post_order
from ...ir.widen import widen
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..model.relations import Split, may_be_negative
from .computation import Bounds

__all__ = ["extent_checks", "part_checks", "size_checks"]


def part_checks(bounds: Bounds) -> list[Stmt]:
    """The assertions that what loops are split by is positive, where it is an expression and they have iterations, and that it
    divides them, where nothing guards what is left over."""
    checks: dict[str, Stmt] = {}
    loops = {loop.var for each in bounds.of.values() for loop in each.loops if loop.var is not None}
    for computation, stage in bounds.of.items():
        for relation in computation.stage.relations:
            if not isinstance(relation, Split):
                continue
            size = relation.factor if relation.factor is not None else relation.nparts
            extent = stage.ranges[relation.parent].extent
            # an extent that a loop decides is asserted within it
            within = any(node in loops for node in post_order(extent) if isinstance(node, Var))
            what = f"{relation.parent.name} of {computation.name} is split by {size}"
            if not (size is None or isinstance(size, IntImm) or bounds.analyzer.can_prove(size >= 1)):
                check = Assert(
                    size >= 1 if within else disjunction(size >= 1, extent <= 0), f"{what}, which is less than 1"
                )
                checks.setdefault(str(check), check)
            # without a guard the parts must fit exactly
            if relation.disable_predication and computation.stage.store_predicate is None and not within:
                covered = stage.ranges[relation.outer].extent * stage.ranges[relation.inner].extent
                if not bounds.analyzer.can_prove(covered <= extent):
                    check = Assert(
                        disjunction(covered <= extent, extent <= 0),
                        f"{what} without a guard, which leaves a rest of {extent}",
                    )
                    checks.setdefault(str(check), check)
    return list(checks.values())


def extent_checks(operations: Iterable[Operation], passed: Collection[Tensor], analyzer: Analyzer) -> list[Stmt]:
    """The assertions that no tensor has a negative extent, and that what operations say of theirs holds. operations: as they are
    declared. passed: the arguments, which a call compares with their shapes."""
    checks: dict[str, Stmt] = {}
    # the call compares the shapes of arguments itself
    sizes = {str(extent) for tensor in passed for extent in tensor.shape}
    for op in operations:
        extents = [(tensor.name, extent) for tensor in op.outputs for extent in tensor.shape]
        extents += [
            (f"{op.name} along {axis.name}", axis.dom.extent)
            for axis in op.reduce_axis
            if axis.dom is not None and not may_be_negative(axis.dom.extent)
        ]
        needs = [
            (extent >= 0, f"the extent {extent} of {name} is negative")
            for name, extent in extents
            if not isinstance(extent, IntImm)
            and str(extent) not in sizes
            # an extent that an axis decides is no size of memory
            and not any(isinstance(node, IterVar) for node in post_order(extent))
        ]
        for condition, message in (*needs, *op.assumptions):
            if not analyzer.can_prove(condition):
                checks.setdefault(message, Assert(condition, message))
    return list(checks.values())


def size_checks(operations: Iterable[Operation]) -> dict[str, Stmt]:
    """The assertions, by their texts, that sums and products of symbols in shapes and in the lengths of sums do not overflow."""
    checks: dict[str, Stmt] = {}
    for op in operations:
        extents = [(tensor.name, extent) for tensor in (*op.input_tensors, *op.outputs) for extent in tensor.shape]
        extents += [
            (f"{op.name} along {axis.name}", axis.dom.extent) for axis in op.reduce_axis if axis.dom is not None
        ]
        for name, extent in extents:
            if isinstance(extent, (IntImm, Var)) or any(  # a constant or a symbol by itself does not overflow
                isinstance(node, (IterVar, ProducerLoad)) for node in post_order(extent)
            ):
                continue
            _greatest(widen(extent), f"the extent {extent} of {name} is too large: 64 bits do not hold it", checks)
    return checks


def _greatest(value: Expr, message: str, checks: dict[str, Stmt]) -> int:
    """Return the upper bound of a size, given that the checks hold; each that is needed is added, those of operands first."""
    below = [_greatest(child, message, checks) for child in children(value)]
    most = INT64.greatest
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, Var):
        return INT32_EXTENT_LIMIT - 1 if value.dtype == INT32 else most  # the call passes sizes below this limit
    if isinstance(value, (Add, Mul)):
        a, b = (max(each, 0) for each in below)
        whole = a * b if isinstance(value, Mul) else a + b
        if whole <= most or value.dtype != INT64:  # 32-bit operations are index arithmetic, bounded elsewhere
            return whole
        fits = value.a <= (const(most, INT64) // value.b if isinstance(value, Mul) else const(most, INT64) - value.b)
        check = Assert(disjunction(value.a <= 0, value.b <= 0, fits), message)
        checks.setdefault(str(check), check)
        return most
    if isinstance(value, (Sub, FloorDiv, Cast)):
        return below[0]
    return max(below) if isinstance(value, Max) else min(below) if isinstance(value, Min) else most
