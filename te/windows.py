"""Windows over several dimensions as one after the other: of 7 x 7 elements 7 rows, and then 7 columns.

    D[i, j] = max over y, x of A[i + y, j + x]      →      D.y[i, c] = max over y of A[i + y, c]
                                                           D[i, j] = max over x of D.y[i, j + x]

Each dimension of what is read has an axis and a reduce axis of its own, so that strides and borders that are clamped, mirrored
or padded go along with their dimension. Terms must be free of order, as those of minimum, maximum and sums of integers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from ..base import dataclass, replace
from ..ir.analysis.combiners import laws_of
from ..ir.arith.analyzer import simplify
from ..ir.expr import Cast, CommReducer, Expr, IfThenElse, IntImm, IterVar, Node, ProducerLoad, Reduce, Var
from ..ir.ops import cast, conjunction, conjuncts, if_then_else, integer_value, is_const
from ..ir.structural import equal
from ..ir.visit import free_vars, rewrite, substitute
from .axis import reduce_axis
from .factors import guarded_load, strip_casts
from .operation import ComputeOp
from .rewrite import collect_loads
from .shape import constant_extent, declare_axes
from .tensor import Tensor, find_tensor

__all__ = ["has_separable_windows", "separate_windows"]


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """A dimension of the tensor that is read, at an axis of the result and a reduce axis."""

    dimension: int
    axis: IterVar
    reduced: IterVar


def has_separable_windows(op: ComputeOp) -> bool:
    """Return whether each reduce axis of an operation is a window along a dimension of its own, and one after the other changes no
    bit and takes up no more terms."""
    reduction = op.reduction
    if reduction is None or len(reduction.axes) < 2 or not is_const(reduction.condition, 1):
        return False
    if op.num_outputs != 1 or reduction.init or op.calls_intrinsic or op.algorithm:
        return False
    source = reduction.sources[0]
    windows = _find_windows(op, source)
    if len(windows) != len(reduction.axes) or not all(map(_is_constant_window, reduction.axes)):
        return False
    if not _has_separable_condition(windows, source, reduction.combiner):
        return False
    if _count_separate_terms(op, windows) > prod(constant_extent(axis) or 1 for axis in (*op.axis, *op.reduce_axis)):
        return False
    return laws_of(reduction.combiner).splits_exactly(False)


def separate_windows(op: ComputeOp, *inputs: Tensor) -> Tensor:
    """The same of these inputs, by a reduction for each dimension, the first dimension first, so that rows are read whole."""
    given = op.replace_inputs(dict(zip(op.input_tensors, inputs, strict=True)))
    reduction = given.reduction
    assert reduction is not None, "windows are reductions"
    source = reduction.sources[0]
    *first, last = _find_windows(given, source)
    for window in first:
        source = _reduce_first(given, reduction, window, source)
    body = (replace(reduction, sources=(source,), axes=(last.reduced,), fused=()),)
    return replace(given, body=body).output(0)


def _is_constant_window(axis: IterVar) -> bool:
    return axis.dom is not None and isinstance(axis.dom.begin, IntImm) and (constant_extent(axis) or 0) > 1


def _find_windows(op: ComputeOp, source: Expr) -> tuple[_Window, ...]:
    """The windows of an element, or of one that is padded; none where an index mixes axes, or an axis stands in several indices."""
    element = strip_casts(source)
    load = element if isinstance(element, ProducerLoad) else guarded_load(element)
    if load is None or collect_loads(*load.indices):
        return ()
    own = [[axis for axis in free_vars(index) if isinstance(axis, IterVar)] for index in load.indices]
    if any(times > 1 for times in Counter(axis for axes in own for axis in axes).values()):
        return ()
    windows: list[_Window] = []
    for at, axes in enumerate(own):
        data = [axis for axis in axes if axis in op.axis]
        reduced = [axis for axis in axes if axis not in data]
        if len(data) > 1 or len(reduced) > len(data):
            return ()
        windows += [_Window(at, *pair) for pair in zip(data, reduced, strict=False)]
    return tuple(windows)


def _has_separable_condition(windows: Sequence[_Window], source: Expr, combiner: CommReducer) -> bool:
    """Return whether an element has no condition, or one that is of each dimension by itself, where what else there is may be taken up
    any number of times."""
    element = strip_casts(source)
    if not isinstance(element, IfThenElse):
        return True
    fill = _fill_value(source)
    once = substitute(combiner.result[0], {combiner.lhs[0]: fill, combiner.rhs[0]: fill})
    places = {axis: window.dimension for window in windows for axis in (window.axis, window.reduced)}
    parts = [
        {places.get(axis, -1) for axis in free_vars(part) if isinstance(axis, IterVar)}
        for part in conjuncts(element.condition)
    ]
    # a condition of no axis may hold what lies beyond a dimension back
    return equal(simplify(once), fill) and all(len(part) == 1 for part in parts)


def _count_separate_terms(op: ComputeOp, windows: Sequence[_Window]) -> int:
    """The terms that reductions take up one after the other; extents that are unknown are the same in both ways."""
    (load,) = op.value_loads
    extents = [integer_value(extent) or 1 for extent in find_tensor(load).shape]
    terms = 0
    for window in windows[:-1]:
        extents[window.dimension] = constant_extent(window.axis) or 1
        terms += prod(extents) * (constant_extent(window.reduced) or 1)
    return terms + prod(constant_extent(axis) or 1 for axis in (*op.axis, windows[-1].reduced))


def _reduce_first(op: ComputeOp, reduction: Reduce, window: _Window, source: Expr) -> Expr:
    """The element of what a window alone makes of the elements of `source`, at the places of all others."""
    (load,) = collect_loads(source)
    shape = list(load.producer.shape)
    assert window.axis.dom is not None and window.reduced.dom is not None, "axes of operations have a domain"
    shape[window.dimension] = window.axis.dom.extent
    name = f"{op.name}.{window.reduced.name}"
    axes = declare_axes(shape, "i")
    reduced = reduce_axis(window.reduced.dom, window.reduced.name)
    anew: dict[Var, Expr] = {window.axis: axes[window.dimension], window.reduced: reduced}
    element = strip_casts(source)
    parts = conjuncts(element.condition) if isinstance(element, IfThenElse) else []
    own = [part for part in parts if not anew.keys().isdisjoint(free_vars(part))]
    others = [part for part in parts if anew.keys().isdisjoint(free_vars(part))]
    indices: list[Expr] = list(axes)
    indices[window.dimension] = substitute(load.indices[window.dimension], anew)
    value = _replace_element(
        source, ProducerLoad(load.producer, tuple(indices)), [substitute(part, anew) for part in own]
    )
    body = (replace(reduction, sources=(value,), axes=(reduced,), fused=()),)
    result = ComputeOp(name=name, tag="", source=op.source, axis=axes, body=body).output(0)
    places = list(load.indices)
    places[window.dimension] = window.axis
    read = ProducerLoad(result, tuple(places))
    return if_then_else(conjunction(*others), read, _fill_value(source)) if others else read


def _replace_element(source: Expr, load: ProducerLoad, parts: Sequence[Expr]) -> Expr:
    """`source` with another element in place of its own, where other conditions hold."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, IfThenElse):
            return if_then_else(conjunction(*parts), load, node.false_value) if parts else load
        return load if isinstance(node, ProducerLoad) else None

    return rewrite(source, rule)


def _fill_value(source: Expr) -> Expr:
    """The value of an element that is padded, beyond the tensor."""
    if isinstance(source, Cast):
        return cast(_fill_value(source.value), source.dtype)
    assert isinstance(source, IfThenElse), "an element that is padded is a choice"
    return source.false_value
