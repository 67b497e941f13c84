"""Operators that arrange elements by where they are: sequences, diagonals, grids, windows, shapes.

All but collapse_sum are tagged "injective", as those of transform.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir import IntImm, ops
from ..ir.ops import is_const
from ..te import polymorphic as te
from ..te.indices import index_from_end, signed_index
from ..te.shape import Extent, Shape, same_extent, scalar_dtype
from ..te.tensor import Tensor, tensor_text
from .checks import (
    BadOperand,
    BadParameter,
    check_count,
    check_shape,
    integers,
    normalize_axes,
    normalize_axis,
    tensor,
    tensors,
)
from .nn.window import Sizes
from .reduction import sum as sum_of
from .row import REQUIRED, floating, operator, sample
from .signatures import Axis, Scalar
from .transform import injective, reshape

__all__ = [
    "adv_index",
    "collapse_sum",
    "expand_like",
    "matrix_set_diag",
    "meshgrid",
    "ndarray_size",
    "reverse_sequence",
    "sequence_mask",
    "shape",
    "sliding_window",
    "strided_set",
    "trilu",
    "unravel_index",
]


# Shapes as tensors


def shape(array: Tensor, dtype: object = "int32") -> Tensor:
    """The extents of a tensor, as a tensor (rank,) of `dtype`. Raises BadOperand (TW0181), UnknownDType (TW0101)."""
    source, kind = tensor(array, "shape"), scalar_dtype(dtype)

    def element(i: Any) -> Any:
        extent: Any = te.const(0, kind)
        # one select for each dimension: a tensor's shape cannot be indexed by data
        for at in reversed(range(source.ndim)):
            extent = te.select(ops.equal(i, at), ops.convert(source.shape[at]).astype(kind), extent)
        return extent

    return injective((source.ndim,), element, "T_shape")


def ndarray_size(array: Tensor, dtype: object = "int32") -> Tensor:
    """Return the number of elements of a tensor, as a tensor of rank 0 and `dtype`. Raises BadOperand (TW0181), UnknownDType (TW0101)."""
    source, kind = tensor(array, "ndarray_size"), scalar_dtype(dtype)

    def element() -> Any:
        size: Any = te.const(1, kind)
        for extent in source.shape:
            size = size * ops.convert(extent).astype(kind)
        return size

    return injective((), element, "ndarray_size")


def unravel_index(indices: Tensor, shape: Tensor | Sequence[int]) -> Tensor:
    """The coordinates, along a new first dimension, of places in a row-major array of `shape` (a tensor or numbers): (rank of that
    array, *shape of indices), in the dtype of the indices. Raises BadOperand (TW0181)."""
    index = tensor(indices, "unravel_index")
    extents = [shape[at] for at in range(_length(shape))] if isinstance(shape, Tensor) else [*map(te.const, shape)]
    wide = "int64" if index.dtype.is_signed else "uint64"  # products of coordinates may exceed the dtype of the indices

    def element(which: Any, *i: Any) -> Any:
        rest: Any = index[i].astype(wide)
        coordinate: Any = te.const(0, wide)
        for at in reversed(range(len(extents))):
            size = extents[at].astype(wide)
            # the first coordinate is what is left, without a division
            coordinate = te.select(ops.equal(which, at), te.indexmod(rest, size) if at else rest, coordinate)
            rest = te.indexdiv(rest, size)
        return coordinate.astype(index.dtype)

    return injective((len(extents), *index.shape), element, "unravel_index")


def _length(counts: Tensor) -> int:
    extent = counts.shape[0] if counts.ndim == 1 else None
    if isinstance(extent, IntImm):
        return extent.value
    raise BadOperand(
        f"{tensor_text(counts)} lists no numbers of a known count",
        declared=counts.source,
        called=user_source(),
        fix="a tensor of one dimension whose extent is a number",
    )


def collapse_sum(data: Tensor, target_shape: Shape) -> Tensor:
    """The sum, in `target_shape`, over what broadcasting that to the data's shape would repeat. Raises BadOperand (TW0181)."""
    source, wanted = tensor(data, "collapse_sum"), check_shape(target_shape, "collapse_sum")
    lead = source.ndim - len(wanted)  # dimensions that broadcasting has added in front
    if lead < 0:
        raise _no_collapse(source, wanted)
    axes = [
        *range(lead),
        *(
            lead + at
            for at, extent in enumerate(wanted)
            if is_const(extent, 1) and not same_extent(source.shape[lead + at], extent)
        ),
    ]
    # those that stay have to be equal, as nothing repeats them
    kept = [at for at in range(source.ndim) if at not in axes]
    if not all(same_extent(source.shape[at], wanted[at - lead]) for at in kept):
        raise _no_collapse(source, wanted)
    # the extents of 1 that summing has removed come back
    return reshape(sum_of(source, axes), wanted) if axes else source


def _no_collapse(source: Tensor, wanted: Sequence[Any]) -> BadOperand:
    return BadOperand(
        f"collapse_sum cannot bring {tensor_text(source)} to ({', '.join(map(str, wanted))})",
        declared=source.source,
        called=user_source(),
        fix="a shape that broadcasts to the tensor's",
    )


def expand_like(a: Tensor, shape_like: Tensor, axis: Axis) -> Tensor:
    """A tensor repeated along dimensions of another one, which it lacks.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    shape_like : Tensor
        The tensor whose shape the result has.
    axis : int or sequence of int
        Those of its dimensions that `a` lacks.

    Returns
    -------
    Tensor
        The shape of shape_like, the dtype of a.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, like = tensor(a, "expand_like"), tensor(shape_like, "expand_like")
    new = normalize_axes(like, axis, "expand_like")
    kept = [at for at in range(like.ndim) if at not in new]  # the dimensions that `a` has, in order
    if len(kept) != source.ndim or not all(
        same_extent(x, like.shape[at]) for x, at in zip(source.shape, kept, strict=True)
    ):
        raise BadOperand(
            f"expand_like: {tensor_text(source)} is not {tensor_text(like)} without the axes {list(new)}",
            declared=source.source,
            called=user_source(),
            fix="name the dimensions that it lacks",
        )
    return injective(like.shape, lambda *i: source[tuple(i[at] for at in kept)], "T_expand_like")


# Sequences


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: Any = 0, axis: int = 0) -> Tensor:
    """Sequences cut off: mask_value stands where the index along time is valid_length[b] or more, b the index along the
    batch.

    Parameters
    ----------
    data : Tensor
        (time, batch, ...), or (batch, time, ...).
    valid_length : Tensor
        Integers, (batch,).
    mask_value : number, default 0
        What stands behind the end of a sequence.
    axis : int, default 0
        That of time, 0 or 1; the other of the two is the batch.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source, lengths = tensor(data, "sequence_mask"), tensor(valid_length, "valid_length of sequence_mask", 1)
    at = normalize_axis(source, axis, "sequence_mask")
    if at > 1 or source.ndim < 2:
        raise BadOperand(
            f"sequence_mask of {tensor_text(source)} along axis {axis}",
            declared=source.source,
            called=user_source(),
            reason="the first two dimensions are time and batch",
            fix="axis=0 or axis=1",
        )
    # converted once, so that a number of another kind raises here
    blank = ops.cast(ops.convert(mask_value), source.dtype)
    return injective(
        # the condition guards no read: both are inside
        source.shape,
        lambda *i: te.if_then_else(i[at] >= lengths[i[1 - at]], blank, source[i]),
        "sequence_mask",
    )


def _numpy_reverse_sequence(x: NDArray[Any], lengths: NDArray[Any], *, time_axis: int, batch_axis: int) -> Any:
    result = x.copy()
    into, source = (np.moveaxis(array, (batch_axis, time_axis), (0, 1)) for array in (result, x))
    for batch, length in enumerate(np.maximum(lengths, 0)):  # lengths below 0 turn nothing around
        into[batch, :length] = source[batch, :length][::-1]
    return result


@operator(
    "reverse_sequence",
    reference=_numpy_reverse_sequence,
    fusion="injective",
    attributes={"time_axis": "seq_axis", "batch_axis": "batch_axis"},
    defaults={"time_axis": REQUIRED, "batch_axis": REQUIRED},
    samples=[sample(floating(4, 3, 2), np.asarray([1, 4, 3]), time_axis=0, batch_axis=1)],
)
def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """The first seq_lengths[b] elements along seq_axis in reverse order, b the index along batch_axis.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    seq_lengths : Tensor
        Integers, (extent of batch_axis,).
    seq_axis : int, default 1
        That of time.
    batch_axis : int, default 0
        Another one, that of the batch.

    Returns
    -------
    Tensor
        The shape and the dtype of a.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, lengths = tensor(a, "reverse_sequence"), tensor(seq_lengths, "seq_lengths of reverse_sequence", 1)
    time, batch = (
        normalize_axis(source, seq_axis, "reverse_sequence"),
        normalize_axis(source, batch_axis, "reverse_sequence"),
    )
    if time == batch or not same_extent(lengths.shape[0], source.shape[batch]):
        raise BadOperand(
            f"reverse_sequence of {tensor_text(source)} by {tensor_text(lengths)}",
            declared=source.source,
            called=user_source(),
            fix="two axes, and a length for each index of the second",
            reason=f"along axis {seq_axis} it turns as many as a length for each index of axis {batch_axis} says",
        )

    def element(*i: Any) -> Any:
        # signed: lengths may be unsigned, and the next line subtracts
        length = te.min(signed_index(lengths[i[batch]]), source.shape[time])
        place = te.select(i[time] < length, length - 1 - i[time], i[time])
        return source[(*i[:time], place, *i[time + 1 :])]

    return injective(source.shape, element, "T_reverse_sequence")


# Diagonals


def _numpy_trilu(x: NDArray[Any], *, k: int, upper: bool) -> Any:
    return np.triu(x, k) if upper else np.tril(x, k)


_FAR = 1 << 30
"""Diagonals from here on are those of no matrix."""


@operator(
    "trilu",
    reference=_numpy_trilu,
    fusion="injective",
    samples=[sample(floating(2, 5, 7), k=1), sample(floating(5, 3), k=-1, upper=False)],
)
def trilu(data: Tensor, k: Scalar | Tensor = 0, upper: bool = True) -> Tensor:
    """The upper (or lower) triangle of the last two dimensions, and 0 elsewhere.

    Parameters
    ----------
    data : Tensor
        (..., rows, columns).
    k : int or Tensor, default 0
        The diagonal that the triangle begins with; a tensor has rank 0.
    upper : bool, default True
        Whether it is the upper triangle.

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = _matrix(data, "trilu")
    # a number far outside is brought near, so that adding it to an index cannot overflow
    first = k[()] if isinstance(k, Tensor) else max(-_FAR, min(k, _FAR)) if isinstance(k, int) else k

    def element(*i: Any) -> Any:
        row, column = i[-2] + first, i[-1]
        return te.if_then_else(column >= row if upper else column <= row, source[i], te.const(0, source.dtype))

    return injective(source.shape, element, "trilu")


def matrix_set_diag(data: Tensor, diagonal: Tensor, k: Sizes = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with their diagonal k, or the diagonals (k[0], ..., k[1]), replaced.

    Parameters
    ----------
    data : Tensor
        (..., rows, columns).
    diagonal : Tensor
        (..., length), or (..., count, length) for several, the highest first.
    k : int or sequence of int, default 0
        One, or the lowest and the highest.
    align : str, default "RIGHT_LEFT"
        Which end of shorter diagonals above and below the main one lies at the end of `diagonal`: "RIGHT_LEFT",
        "LEFT_RIGHT", "LEFT_LEFT" or "RIGHT_RIGHT".

    Returns
    -------
    Tensor
        The shape and the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, given = _matrix(data, "matrix_set_diag"), tensor(diagonal, "matrix_set_diag")
    numbers = check_count(integers(k, "k of matrix_set_diag"), "k of matrix_set_diag", 2, 1)
    low, high = numbers[0], numbers[-1]
    several = given.ndim == source.ndim
    if (
        low > high
        or align not in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
        or given.ndim not in (source.ndim - 1, source.ndim)
        or (low < high and not several)
    ):
        raise BadParameter(
            f"matrix_set_diag of {tensor_text(source)} has invalid diagonals",
            declared=given.source,
            reason=f"got {tensor_text(given)}, k {k!r}, align {align!r}",
            called=user_source(),
            fix="k=0, and a diagonal of one dimension less than the data",
        )
    above, below = align.split("_")
    rows, columns = source.shape[-2:]

    def element(*i: Any) -> Any:
        which = i[-1] - i[-2]  # the number of an element's diagonal, above the main one positive
        at = i[-1] - te.max(which, 0)  # how far along its diagonal an element is
        if several:
            # diagonals at the corners are shorter than the others
            length = te.min(rows + te.min(which, 0), columns - te.max(which, 0))
            slack = given.shape[-1] - length  # shorter diagonals leave room at one end
            at = at + te.select(which >= 0, slack if above == "RIGHT" else 0, slack if below == "RIGHT" else 0)
        value = given[(*i[:-2], high - which, at)] if several else given[(*i[:-2], at)]
        return te.if_then_else(te.all(which >= low, which <= high), value, source[i])

    return injective(source.shape, element, "matrix_set_diag")


def _matrix(data: Any, subject: str) -> Tensor:
    source = tensor(data, subject)
    if source.ndim < 2:
        raise BadOperand(
            f"{subject} takes matrices",
            reason=f"got {tensor_text(source)}",
            declared=source.source,
            called=user_source(),
            fix="a tensor of two dimensions or more",
        )
    return source


# Grids, windows, parts


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Tensors of one dimension (or none) along one dimension each of grids, as numpy's meshgrid: as many tensors of as many
    dimensions; "xy" swaps the first two. Raises BadOperand (TW0181), BadParameter (TW0182)."""
    sources = tensors(a_tuple, "meshgrid")
    if indexing not in ("ij", "xy") or any(source.ndim > 1 for source in sources):
        raise BadParameter(  # numpy takes scalars as arrays of one element
            "meshgrid takes tensors of one dimension",
            reason=f"indexing {indexing!r}",
            called=user_source(),
            allowed='"ij", "xy"',
            fix='topi.meshgrid([A, B], "ij")',
        )
    order = list(range(len(sources)))
    if indexing == "xy" and len(order) > 1:  # numpy's "xy" exchanges the first two alone
        order[:2] = 1, 0
    extents: list[Any] = [source.shape[0] if source.ndim else 1 for source in sources]
    grid = [extents[at] for at in order]
    places = [order.index(at) for at in range(len(sources))]

    def along(source: Tensor, place: int) -> Tensor:
        return injective(grid, lambda *i: source[i[place]] if source.ndim else source[()], "T_meshgrid")

    return [along(source, place) for source, place in zip(sources, places, strict=True)]


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The windows over the dimensions from `axis` on.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int
        The first dimension that windows slide over.
    window_shape : sequence of int
        The extents of a window, one for each dimension from axis on.
    strides : sequence of int
        Steps between windows, one for each of them.

    Returns
    -------
    Tensor
        (..., window's place, ..., place in the window).

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "sliding_window")
    at = normalize_axis(source, axis, "sliding_window")
    window, steps = (
        integers(window_shape, "window_shape of sliding_window"),
        integers(strides, "strides of sliding_window"),
    )
    inner = source.shape[at:]
    fits = len(window) == len(steps) == len(inner) and min(*window, *steps) >= 1
    if not fits or any(
        isinstance(extent, IntImm) and extent.value < size for extent, size in zip(inner, window, strict=True)
    ):
        raise BadParameter(
            f"sliding_window of {tensor_text(source)} has invalid windows",
            declared=source.source,
            reason=f"got window_shape {window_shape!r}, strides {strides!r}, axis {axis}",
            called=user_source(),
            fix="a size and a stride for each dimension from axis on, sizes within the extents",
        )
    # windows that do not fit whole are left out
    places = [te.indexdiv(extent - size, step) + 1 for extent, size, step in zip(inner, window, steps, strict=True)]
    count = len(places)
    return injective(
        (*source.shape[:at], *places, *window),
        lambda *i: source[(*i[:at], *(i[at + dim] * steps[dim] + i[at + count + dim] for dim in range(count)))],
        "T_sliding_window",
    )


def strided_set(
    a: Tensor,
    v: Tensor,
    begin: Tensor | Sequence[Extent],
    end: Tensor | Sequence[Extent],
    strides: Tensor | Sequence[Extent] | None = None,
) -> Tensor:
    """A tensor of which a[begin:end:stride] is replaced by another one.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    v : Tensor
        In the shape of the slice.
    begin : Tensor or sequence of numbers
        Integers, one for each dimension; negative ones count from the end.
    end : Tensor or sequence of numbers
        The same.
    strides : Tensor or sequence of numbers or None, default None
        The same; 1 where it is None.

    Returns
    -------
    Tensor
        The shape and the dtype of a.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, new = tensor(a, "strided_set"), tensor(v, "strided_set")
    if new.ndim != source.ndim:
        raise BadOperand(
            f"strided_set cannot put {tensor_text(new)} into {tensor_text(source)}",
            declared=new.source,
            called=user_source(),
            fix="as many dimensions, in the shape of the slice",
        )

    def number(values: Any, at: int, otherwise: Any) -> Any:
        if values is None or (not isinstance(values, Tensor) and at >= len(values)):
            return ops.convert(otherwise)  # missing numbers take Python's defaults for slices
        return signed_index(ops.convert(values[at]))

    bounds: list[tuple[Any, Any, Any]] = []
    for at, extent in enumerate(source.shape):
        step = number(strides, at, 1)
        first, last = number(begin, at, 0), number(end, at, extent)
        # negative bounds count from the end
        first, last = (te.select(bound < 0, bound + extent, bound) for bound in (first, last))
        forward = step > 0
        # by direction, as Python's slices clip them
        first = te.select(forward, te.max(first, 0), te.min(first, extent - 1))
        bounds.append((first, te.select(forward, te.min(last, extent), te.max(last, -1)), step))

    def element(*i: Any) -> Any:
        inside, there = list[Any](), list[Any]()
        for index, (first, last, step) in zip(i, bounds, strict=True):
            away = te.select(step > 0, index - first, first - index)
            # the step's size, of which the least integer has none
            size = te.max(te.max(step, -te.max(step, -step.dtype.greatest)), 1)
            inside += [
                away >= 0,
                te.select(step > 0, index < last, index > last),
                ops.equal(te.indexmod(away, size), 0),
            ]  # only multiples of the step are replaced
            there.append(te.indexdiv(away, size))
        return te.if_then_else(te.all(*inside), new[tuple(there)], source[i])

    return injective(source.shape, element, "strided_set")


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """data[indices[0], indices[1], ...], the indices broadcast against each other, as numpy has it: negative ones count from the end.
    They have to be inside. Raises BadOperand (TW0181)."""
    source = tensor(data, "adv_index")
    given = [tensor(index, "indices of adv_index") for index in indices]
    if not given or len(given) > source.ndim or not all(index.dtype.is_integer for index in given):
        raise BadOperand(
            f"adv_index of {tensor_text(source)} takes one tensor of integers for each of its first dimensions",
            reason=f"got {len(given)}",
            declared=source.source,
            called=user_source(),
            fix="topi.adv_index(A, [I, J])",
        )
    rank = max(index.ndim for index in given)
    common: list[Any] = [te.const(1, "int32")] * rank  # numpy's broadcasting, from the last dimension on
    for operand in given:
        for at, extent in enumerate(operand.shape, rank - operand.ndim):
            if is_const(common[at], 1):
                common[at] = extent
            elif not is_const(extent, 1) and not same_extent(extent, common[at]):
                raise BadOperand(
                    f"adv_index cannot broadcast {tensor_text(operand)}",
                    reason=f"{extent} against {common[at]}",
                    declared=operand.source,
                    called=user_source(),
                    fix="indices of one shape",
                )

    def place(positions: Tensor, extent: Any, i: Sequence[Any]) -> Any:
        at = i[rank - positions.ndim : rank]
        index = positions[
            # dimensions of extent 1 are read at 0 whatever the place
            tuple(0 if is_const(size, 1) else where for size, where in zip(positions.shape, at, strict=True))
        ]
        return index_from_end(index, extent)

    return injective(
        (*common, *source.shape[len(given) :]),
        lambda *i: source[
            (*(place(index, extent, i) for index, extent in zip(given, source.shape, strict=False)), *i[rank:])
        ],
        "advanced_index",
    )
