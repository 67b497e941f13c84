"""Reductions over any axes: sum, prod, max, min, mean, all, any, argmax, argmin.

Each takes (data, axis=None, keepdims=False): one axis, several, or None for all; negative ones count from the end; with
keepdims they stay, with extent 1. A reduction is tagged "comm_reduce", one over pairs of an index and a value
"comm_reduce_idx"; what makes the result of it is elementwise.

Sums, products and means of float16 and bfloat16 are computed in float32 and rounded once; of float32 and float64 in their
own precision, in the order that the schedule takes: a sum of n values is off by at most n * eps times the sum of their
absolute values. Integers wrap, and bools are counted in int32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir import DType, Expr, IntImm, IterVar, ops
from ..ir.ops import is_const
from ..te import polymorphic as te
from ..te.elementwise import operate
from ..te.math import highest, lowest
from ..te.shape import INT64_FROM
from ..te.tensor import Tensor, tensor_text
from .arg_blocks import are_long, place_by_blocks
from .channel_blocks import IMAGE_MEAN, Layout
from .checks import BadOperand, known, normalize_axes, tensor
from .elementwise import cast
from .references import dtype_bound
from .references import wide as widened
from .row import REQUIRED, bools, floating, operator, sample
from .signatures import Axis

__all__ = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"]

COMM_REDUCE, COMM_REDUCE_IDX = "comm_reduce", "comm_reduce_idx"


F = TypeVar("F", bound=Callable[..., Tensor])
_BOX = floating(3, 5, 7)


def _row(
    name: str, reference: Callable[..., Any], *samples: Any, alternatives: Mapping[str, Layout] | None = None
) -> Callable[[F], F]:
    """The row of a reduction. reference: numpy's function; samples: those that others have not; alternatives: its layouts."""

    def reduced(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        return reference(x, axis=axes, keepdims=keepdims)

    boxes = [] if name in ("all", "any") else [sample(_BOX, axes=(1,), keepdims=True), sample(_BOX, axes=(0, 2))]
    return operator(
        name,
        reference=reduced,
        attributes={"axes": "axis", "keepdims": "keepdims"},
        defaults={"axes": REQUIRED},
        alternatives=alternatives,
        samples=[*boxes, *samples],
    )


@_row("sum", widened(np.sum), sample(floating(3, 0), axes=(1,)))
def sum(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over axes, in the dtype of data (int32 of bools).

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        The shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, te.sum, "sum", wide=True)


@_row("prod", widened(np.prod))
def prod(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over axes, in the dtype of data (int32 of bools).

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        The shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, te.prod, "prod", wide=True)


def _numpy_max(x: NDArray[Any], *, axis: Any, keepdims: bool) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims, initial=dtype_bound(x.dtype, False))


@_row("max", _numpy_max)
def max(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element over axes: a NaN where there is one; of none minus infinity, or the least integer.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        The shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, te.max, "max")


def _numpy_min(x: NDArray[Any], *, axis: Any, keepdims: bool) -> Any:
    return np.min(x, axis=axis, keepdims=keepdims, initial=dtype_bound(x.dtype, True))


@_row("min", _numpy_min)
def min(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The least element over axes: a NaN where there is one; of none infinity, or the greatest integer.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        The shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, te.min, "min")


_ALL = te.comm_reducer(lambda x, y: te.all(x, y), lambda dtype: te.const(True, dtype), "all")
_ANY = te.comm_reducer(lambda x, y: te.any(x, y), lambda dtype: te.const(False, dtype), "any")


@_row("all", np.all, sample(bools(3, 5), axes=(1,)))
def all(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over axes hold (numbers: are not 0); of none it is true.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        bool, in the shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, _ALL, "all", truth=True)


@_row("any", np.any, sample(bools(3, 5), axes=(0, 1)))
def any(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether some element over axes holds (numbers: is not 0); of none it is false.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        bool, in the shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    return _reduce(data, axis, keepdims, _ANY, "any", truth=True)


@_row("mean", widened(np.mean), alternatives={"blocks": IMAGE_MEAN})
def mean(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes: of integers and bools in float32, of floats in their dtype; of no elements it is a NaN.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.

    Returns
    -------
    Tensor
        The shape of data without the axes.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source = tensor(data, "mean")
    axes = normalize_axes(source, axis, "mean")
    counted = source if source.dtype.is_float else source.astype("float32")
    count: Any = ops.const(1, "int32")
    for at in axes:
        count = count * source.shape[at]
    total = _reduction(counted, axes, keepdims, te.sum, "sum", wide=True)
    dtype = counted.dtype
    result: Tensor = operate("mean", lambda x: (x / ops.cast(count, x.dtype)).astype(dtype), total)
    return result


def argmax(data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """The index of the greatest element: the first one of several, or the last. A NaN counts as the greatest, as numpy
    has it.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.
    select_last_index : bool, default False
        Whether the last of several equal elements is taken.

    Returns
    -------
    Tensor
        int32 (int64 where more elements are reduced), in the shape of data without the axes: over several axes the
        index among the elements reduced, in row-major order.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    return _arg(data, axis, keepdims, select_last_index, "argmax", lambda a, b: a > b, -math.inf)


def argmin(data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """The index of the least element: the first one of several, or the last. A NaN counts as the least.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int, sequence of int or None, default None
        One axis, or several; negative ones count from the end, None is all.
    keepdims : bool, default False
        Whether the axes stay, with the extent 1.
    select_last_index : bool, default False
        Whether the last of several equal elements is taken.

    Returns
    -------
    Tensor
        int32 (int64 where more elements are reduced), in the shape of data without the axes: over several axes the
        index among the elements reduced, in row-major order.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    return _arg(data, axis, keepdims, select_last_index, "argmin", lambda a, b: a < b, math.inf)


def _place_row(name: str, function: Callable[..., Tensor], reference: Callable[..., Any], *samples: Any) -> None:
    """The row of a place along one axis, which graphs have in int64."""

    def declare(x: Tensor, axis: int, keepdims: bool = False, last: bool = False) -> Tensor:
        return cast(function(x, axis, keepdims, last), "int64")

    def place(x: Any, *, axis: int, keepdims: bool = False, last: bool = False) -> Any:
        if last:
            return x.shape[axis] - 1 - reference(np.flip(x, axis), axis=axis, keepdims=keepdims)
        return reference(x, axis=axis, keepdims=keepdims)

    declare.__name__ = f"_{name}"
    operator(name, reference=place, samples=samples)(declare)


_place_row(
    "argmax",
    argmax,
    np.argmax,
    sample(floating(3, 7), axis=1, keepdims=True),
    sample(np.ones((3, 4), "float32"), axis=1, last=True),
)
_place_row("argmin", argmin, np.argmin, sample(floating(3, 7), axis=0))


def _reduce(
    data: Tensor,
    axis: Axis,
    keepdims: bool,
    reducer: Callable[..., Any],
    name: str,
    wide: bool = False,
    truth: bool = False,
) -> Tensor:
    source = tensor(data, name)
    total = _reduction(source, normalize_axes(source, axis, name), keepdims, reducer, name, wide, truth)
    return total.astype(source.dtype) if wide and source.dtype.is_float else total


def _reduction(
    data: Tensor,
    axes: tuple[int, ...],
    keepdims: bool,
    reducer: Callable[..., Any],
    name: str,
    wide: bool = False,
    truth: bool = False,
) -> Tensor:
    """The reduction itself. wide: float16 and bfloat16 in float32; truth: of whether elements are not 0."""

    def element(value: Any) -> Any:
        if truth and not data.dtype.is_bool:
            return value != ops.const(0, data.dtype)
        return value.astype("float32") if wide and data.dtype.is_float and data.dtype.bits <= 16 else value

    reduce_axes = _reduce_axes(data, axes)

    def fcompute(*indices: Any) -> Any:
        value = element(data[_indices(data, axes, reduce_axes, indices, keepdims)])
        if reduce_axes:
            return reducer(value, axis=list(reduce_axes))
        return value.astype("int32") if name in ("sum", "prod") and data.dtype.is_bool else value

    result: Tensor = te.compute(
        _shape(data, axes, keepdims),
        fcompute,
        name=f"{data.name}_{name}",
        tag=COMM_REDUCE if reduce_axes else "elemwise",
    )
    return result


def _reduce_axes(data: Tensor, axes: tuple[int, ...]) -> list[IterVar]:
    return [te.reduce_axis((0, data.shape[at]), name=f"k{at}") for at in axes]


def _shape(data: Tensor, axes: Sequence[int], keepdims: bool) -> list[Any]:
    return [1 if at in axes else extent for at, extent in enumerate(data.shape) if keepdims or at not in axes]


def _indices(
    data: Tensor,
    axes: Sequence[int],
    reduce_axes: Sequence[IterVar],
    indices: Sequence[Any],
    keepdims: bool,
) -> tuple[Any, ...]:
    """Return the indices of the element that a reduction reads: `indices` are those of the result."""
    running = dict(zip(axes, reduce_axes, strict=True))
    given = iter(indices)
    place: list[Any] = []
    for at in range(data.ndim):
        if at in running:
            place.append(running[at])
            if keepdims:
                next(given)
        else:
            place.append(next(given))
    return tuple(place)


def _arg(
    data: Tensor,
    axis: Axis,
    keepdims: bool,
    last: bool,
    name: str,
    better: Callable[[Any, Any], Any],
    worst: float,
) -> Tensor:
    source = tensor(data, name)
    axes = normalize_axes(source, axis, name)
    if any_zero := [at for at in axes if is_const(source.shape[at], 0)]:
        raise BadOperand(
            f"{name} over axis {any_zero[0]} of {tensor_text(source)} has no elements to choose from",
            declared=source.source,
            called=user_source(),
            fix="reduce over axes of at least one element",
        )
    reduce_axes = _reduce_axes(source, axes)
    reducer = arg_reducer(source.dtype, last, name, better, worst)
    index_dtype = _index_dtype([source.shape[at] for at in axes])
    if are_long(source, axes):
        return place_by_blocks(
            source, te.max if worst < 0 else te.min, reducer, index_dtype, keepdims, f"{source.name}_{name}"
        )

    def fcompute(*indices: Any) -> Any:
        position: Any = ops.const(0, index_dtype)
        for loop, at in zip(reduce_axes, axes, strict=True):
            position = position * ops.cast(source.shape[at], index_dtype) + ops.cast(loop, index_dtype)
        value = source[_indices(source, axes, reduce_axes, indices, keepdims)]
        return reducer((position, value), axis=reduce_axes) if reduce_axes else (position, value)

    index, _ = te.compute(
        _shape(source, axes, keepdims),
        fcompute,
        name=f"{source.name}_{name}_pair",
        tag=COMM_REDUCE_IDX if reduce_axes else "elemwise",
    )
    result: Tensor = te.compute(index.shape, lambda *i: index[i], name=f"{source.name}_{name}", tag="elemwise")
    return result


def _index_dtype(extents: Sequence[Expr]) -> DType:
    sizes = known(extents)
    many = (math.prod(sizes) >= INT64_FROM) if sizes is not None else False
    wide = [extent for extent in extents if extent.dtype == "int64" and not isinstance(extent, IntImm)]
    return DType("int64" if many or wide else "int32")


def arg_reducer(
    dtype: DType, last: bool, name: str, better: Callable[[Any, Any], Any], worst: float
) -> Callable[..., Any]:
    """A reducer to the better of two (index, value); of equal ones the first index, or the last. name: the reducer's. better: whether a
    value is. worst: minus infinity or infinity, from which it begins."""

    def combine(x: Any, y: Any) -> Any:
        (i, a), (j, b) = x, y
        sooner = i > j if last else i < j
        first = te.any(better(a, b), te.all(ops.equal(a, b), sooner))
        if dtype.is_float:
            first = te.any(te.all(te.isnan(a), te.any(~te.isnan(b), sooner)), te.all(~te.isnan(b), first))
        return te.select(first, i, j), te.select(first, a, b)

    def identity(index: str, value: str) -> Any:
        least = lowest(value) if worst < 0 else highest(value)
        return te.const(-1, index) if last else te.max_value(index), least

    return te.comm_reducer(combine, identity, name)
