"""Operators that move elements: shapes, orders, parts, joints, lookups.

All are tagged "injective": each element is one element of what is read (or a constant), so that topi.schedule puts them into
what reads them, or packs them where the reader is heavy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import is_array, is_sequence, to_list
from ..base.errors import user_source
from ..ir import Expr, IntImm, ops
from ..ir.arith.analyzer import simplify
from ..ir.ops import integer_value
from ..te import polymorphic as te
from ..te.shape import INT64_FROM, Extent, Shape, same_extent
from ..te.tensor import Tensor, tensor_text
from .channel_blocks import JOIN
from .checks import (
    BadAxis,
    BadOperand,
    BadParameter,
    check_shape,
    integers,
    known,
    normalize_axes,
    normalize_axis,
    tensor,
)
from .nn.window import Sizes
from .row import REQUIRED, floating, operator, sample
from .signatures import Axis, Scalar

if TYPE_CHECKING:
    from ..te.compute import OfAll

__all__ = [
    "concatenate",
    "expand_dims",
    "flip",
    "layout_transform",
    "pad",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "tile",
    "transpose",
]


def injective(shape: Sequence[Extent], element: OfAll | Callable[..., Any], name: str) -> Tensor:
    """A tensor of `shape` whose element at (i, ...) is element(i, ...), which is one element of what is read, or a constant."""
    return te.compute(tuple(shape), element, name=name, tag="injective")


# Shapes


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """New dimensions of extent 1.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    axis : int
        The dimension before which they stand; negative ones count from the end of the result.
    num_newaxis : int, default 1
        How many.

    Returns
    -------
    Tensor
        The shape of a with them.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source = tensor(a, "expand_dims")
    (count,) = integers(num_newaxis, "num_newaxis of expand_dims")
    at = normalize_axis(source, axis, "expand_dims", 1) if count else 0
    shape = [*source.shape[:at], *[1] * count, *source.shape[at:]]
    return injective(shape, lambda *i: source[(*i[:at], *i[at + count :])], "T_expand_dims")


def squeeze(a: Tensor, axis: Axis = None) -> Tensor:
    """Remove the dimensions `axis` (one or several, None for all), which have extent 1. Raises BadAxis (TW0180), BadOperand
    (TW0181)."""
    source = tensor(a, "squeeze")
    single = [at for at, extent in enumerate(source.shape) if isinstance(extent, IntImm) and extent.value == 1]
    axes = tuple(single) if axis is None else normalize_axes(source, axis, "squeeze")
    for at in axes:
        if at not in single:
            raise BadOperand(
                f"cannot squeeze axis {at} of {tensor_text(source)}: it is not known to have the extent 1",
                declared=source.source,
                called=user_source(),
                fix="topi.reshape merges dimensions",
            )
    kept = [at for at in range(source.ndim) if at not in axes]
    place = {at: index for index, at in enumerate(kept)}
    return injective(
        [source.shape[at] for at in kept],
        lambda *i: source[tuple(i[place[at]] if at in place else 0 for at in range(source.ndim))],
        "T_squeeze",
    )


def _numpy_reshape(x: NDArray[Any], *, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


@operator(
    "reshape",
    reference=_numpy_reshape,
    fusion="injective",
    attributes={"shape": "newshape"},
    samples=[sample(floating(2, 3, 5), shape=(5, 6)), sample(floating(1), shape=())],
)
def reshape(a: Tensor, newshape: Shape) -> Tensor:
    """The elements in row-major order in another shape; one extent may be -1, and is what the others leave.

    Where extents are symbols, a call at which the shapes do not have one number of elements fails (TW0518), unless none is left.
    Raises BadOperand (TW0181).
    """
    source = tensor(a, "reshape")
    shape = _new_shape(source, newshape)
    before, after = known(source.shape), known(shape)
    if before is not None and after is not None and math.prod(before) != math.prod(after):
        raise _no_such_shape(source, shape)
    beyond = _tail_offset(source.shape, shape) if before is None or after is None else 0
    first, last = _common_dims(source.shape, shape)
    inner, middle = source.shape[first : source.ndim - last], shape[first : len(shape) - last]
    if before is not None and not math.prod(before):  # there is no element to ask for, nor a place that one could have
        return injective(shape, lambda *_: te.const(0, source.dtype), "T_reshape")
    wide = math.prod(before or after or [1]) >= INT64_FROM

    def element(*i: Any) -> Any:
        flat = flat_index(
            [te.const(0, "int64") + index if wide else index for index in i[first : len(i) - last]], middle
        )
        return source[(*i[:first], *unravel_index(flat + beyond, inner), *i[len(i) - last :])]

    return injective(shape, element, "T_reshape")


def _tail_offset(before: Sequence[Expr], after: Sequence[Expr]) -> Expr | int:
    """Return the offset of positions among elements in a row, so that they lie outside where fewer elements are left: 0 where symbols
    prove that there are as many, an expression where only a call can tell."""
    first, last = _common_dims(before, after)
    whole, rest = (
        _product([ops.cast(extent, "int64") for extent in shape[first : len(shape) - last]])
        for shape in (before, after)
    )
    if isinstance(simplify(ops.convert(whole) - rest), IntImm):
        return 0
    return te.select(ops.convert(whole) > rest, ops.convert(whole), te.const(0, "int64"))


def _common_dims(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[int, int]:
    """Return the number of dimensions that two shapes have in common at their beginnings, and how many at their ends besides."""
    shorter = min(len(a), len(b))
    first = next((at for at in range(shorter) if not same_extent(a[at], b[at])), shorter)
    rest = shorter - first
    return first, next((at for at in range(rest) if not same_extent(a[-1 - at], b[-1 - at])), rest)


def _no_such_shape(source: Tensor, shape: Sequence[Any]) -> BadOperand:
    return BadOperand(
        f"cannot reshape {tensor_text(source)} to ({', '.join(map(str, shape))})",
        declared=source.source,
        called=user_source(),
        allowed="shapes of as many elements, one extent of which may be -1",
        fix="leave one extent open: topi.reshape(x, (n, -1))",
    )


def _product(extents: Sequence[Expr | int]) -> Expr | int:
    return math.prod(extents)


def _new_shape(source: Tensor, newshape: Any) -> tuple[Expr, ...]:
    given = newshape.tolist() if is_array(newshape) and newshape.ndim == 1 else to_list(newshape)
    if any(is_array(extent) and extent.ndim for extent in given):
        check_shape(given, "reshape")
    holes = [at for at, extent in enumerate(given) if not isinstance(extent, Expr) and extent == -1]
    if not holes:
        return check_shape(given, "reshape")
    rest = [extent for at, extent in enumerate(given) if at not in holes]
    total, others = _product(source.shape), _product(rest)
    size = integer_value(total, total)
    if len(holes) > 1 or (isinstance(others, int) and (others <= 0 or (isinstance(size, int) and size % others))):
        raise _no_such_shape(source, given)
    # A call whose symbols leave a rest is refused: what is rounded up reads outside.
    given[holes[0]] = te.ceildiv(size, others) if isinstance(others, int) else size // others
    return check_shape(given, "reshape")


def flat_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Return the position of indices in row-major order."""
    flat: Any = 0
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return flat


def unravel_index(flat: Any, shape: Sequence[Expr]) -> tuple[Any, ...]:
    """The indices of what lies at a place in row-major order."""
    indices: list[Any] = []
    for at, extent in reversed(list(enumerate(shape))):
        indices.append(flat % extent if at else flat)
        flat = flat // extent
    return tuple(reversed(indices))


def _numpy_transpose(x: NDArray[Any], *, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes)


@operator(
    "transpose",
    reference=_numpy_transpose,
    fusion="injective",
    defaults={"axes": REQUIRED},
    samples=[sample(floating(2, 3, 5), axes=(2, 0, 1))],
)
def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Dimension d of the result is dimension axes[d] of `a`; without axes their order is reversed. Raises BadAxis (TW0180)."""
    source = tensor(a, "transpose")
    order = (
        list(reversed(range(source.ndim)))
        if axes is None
        else [normalize_axis(source, axis, "transpose") for axis in axes]
    )
    if sorted(order) != list(range(source.ndim)):
        raise BadAxis(
            f"transpose of {tensor_text(source)} does not name every axis once",
            reason=f"got {axes!r}",
            declared=source.source,
            called=user_source(),
            fix=f"a permutation of its dimensions, such as {tuple(reversed(range(source.ndim)))}",
        )
    place = {axis: at for at, axis in enumerate(order)}
    return injective(
        [source.shape[axis] for axis in order],
        lambda *i: source[tuple(i[place[at]] for at in range(source.ndim))],
        "T_transpose",
    )


def _numpy_flip(x: NDArray[Any], *, axis: int) -> Any:
    return np.flip(x, axis)


@operator(
    "flip",
    reference=_numpy_flip,
    fusion="injective",
    defaults={"axis": REQUIRED},
    samples=[sample(floating(3, 1, 5), axis=-1)],
)
def flip(a: Tensor, axis: int = 0) -> Tensor:
    """The elements along one dimension in reverse order. Raises BadAxis (TW0180)."""
    source = tensor(a, "flip")
    at = normalize_axis(source, axis, "flip")
    return injective(source.shape, lambda *i: source[(*i[:at], source.shape[at] - 1 - i[at], *i[at + 1 :])], "T_flip")


def layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """Convert from one layout to another: "NCHW" to "NCHW16c" splits the channels into blocks of 16, the inner index last.

    Where blocks do not divide a dimension, what they have too much is 0; back from blocks, the dimension is as long as
    they are.

    Parameters
    ----------
    array : Tensor
        In src_layout.
    src_layout : str
        A letter for each dimension, a capital one for a whole one, a small one after a number for its inner part.
    dst_layout : str
        The same of the result.

    Returns
    -------
    Tensor
        In dst_layout.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(array, "layout_transform")
    src, dst = _layout(src_layout), _layout(dst_layout)
    if len(src) != source.ndim:
        raise BadOperand(
            f"layout_transform: {tensor_text(source)} does not have the {len(src)} dimensions of {src_layout}",
            declared=source.source,
            called=user_source(),
            fix="a letter for each dimension",
        )
    letters = {name for name, _ in src if name.isupper()}
    if letters != {name for name, _ in dst if name.isupper()} or len({name for name, _ in dst}) < len(dst):
        raise BadParameter(
            f"layout_transform cannot go from {src_layout} to {dst_layout}",
            called=user_source(),
            reason="they do not name the same dimensions",
            fix='the same capital letters: "NCHW" to "NHWC"',
        )
    sizes: dict[str, Any] = {}
    for (name, block), extent in zip(src, source.shape, strict=True):
        if block and not (isinstance(extent, IntImm) and extent.value == block):
            raise BadOperand(
                f"layout_transform: a dimension of {tensor_text(source)} is not the block {block}{name}",
                declared=source.source,
                called=user_source(),
                fix="name the blocks that the tensor has",
            )
        sizes[name.upper()] = sizes.get(name.upper(), 1) * extent
    inner = {name.upper(): block for name, block in dst if block}
    shape = [block or ops.ceildiv(ops.convert(sizes[name]), inner.get(name, 1)) for name, block in dst]

    def element(*i: Any) -> Any:
        position: dict[str, Any] = {}
        for (name, block), index in zip(dst, i, strict=True):
            position[name.upper()] = position.get(name.upper(), 0) + (index if block else index * inner.get(name, 1))
        blocks = {name.upper(): block for name, block in src if block}
        indices = [
            position[name.upper()] % block if block else position[name] // blocks.get(name, 1) for name, block in src
        ]
        inside = [
            position[name] < sizes[name]
            for name, block in inner.items()
            if not (isinstance(size := ops.convert(sizes[name]), IntImm) and size.value % block == 0)
        ]
        value = source[tuple(indices)]
        return te.if_then_else(te.all(*inside), value, ops.const(0, source.dtype)) if inside else value

    return injective(shape, element, "T_layout_trans")


def _layout(text: str) -> list[tuple[str, int]]:
    """The letters of a layout, small ones with the size of their block, capitals with 0."""
    dimensions: list[tuple[str, int]] = []
    number = ""
    for letter in text:
        if letter.isdigit():
            number += letter
        elif letter.isalpha() and letter.isupper() != bool(number):
            dimensions.append((letter, int(number or "0")))
            number = ""
        else:
            dimensions.clear()
            break
    names = [name for name, _ in dimensions]
    if not dimensions or number or len(set(names)) < len(names) or any(name.upper() not in names for name in names):
        raise BadParameter(
            f"there is no layout {text!r}", called=user_source(), fix='letters such as "NCHW", blocks as in "NCHW16c"'
        )
    return dimensions


# Parts and joints


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> Tensor:
    """a[begin:end:stride] in each dimension, as Python's slices: negative numbers count from the end, and what lies
    outside is clipped.

    The numbers are known, and so are the extents of sliced dimensions.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    begin : sequence of int
        Of each dimension.
    end : sequence of int
        Of each dimension.
    strides : sequence of int or None, default None
        Of each dimension; 1 where it is None.
    axes : sequence of int or None, default None
        The dimensions meant; the first ones where it is None.
    slice_mode : str, default "end"
        "end", or "size": `end` holds how many elements are taken, -1 for all that follow, and strides are 1.

    Returns
    -------
    Tensor
        The number of elements taken of each dimension.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(a, "strided_slice")
    begins, ends = integers(begin, "begin of strided_slice"), integers(end, "end of strided_slice")
    steps = integers(strides, "strides of strided_slice") if strides is not None else []
    steps += [1] * (len(begins) - len(steps))
    places = (
        [normalize_axis(source, axis, "strided_slice") for axis in axes]
        if axes is not None
        else list(range(len(begins)))
    )
    if (
        not len(begins) == len(ends) == len(steps) == len(places) <= source.ndim
        or 0 in steps
        or slice_mode not in ("end", "size")
    ):
        raise BadParameter(
            f"strided_slice of {tensor_text(source)} is told begins, ends and strides that are not a slice",
            reason=f"got begin {begin!r}, end {end!r}, strides {strides!r}, axes {axes!r}, slice_mode {slice_mode!r}",
            declared=source.source,
            called=user_source(),
            fix="a begin and an end for each dimension that is sliced, strides that are not 0",
        )
    first, step, shape = [0] * source.ndim, [1] * source.ndim, list(source.shape)
    for at, low, high, by in zip(places, begins, ends, steps, strict=True):
        extent = shape[at]
        if not isinstance(extent, IntImm):
            raise BadOperand(
                f"strided_slice along axis {at} of {tensor_text(source)}, whose extent is not known",
                declared=source.source,
                called=user_source(),
                fix="te.compute((n - 1,), lambda i: A[i + 1])",
            )
        if slice_mode == "size":
            by, high = 1, (extent.value if high < 0 else (low + extent.value if low < 0 else low) + high)
        taken = range(extent.value)[slice(low, None if by < 0 and high < -extent.value else high, by)]
        first[at], step[at], shape[at] = (taken.start if len(taken) else 0), by, ops.const(len(taken), "int32")
    return injective(
        shape,
        lambda *i: source[
            tuple(
                index if isinstance(extent, IntImm) and extent.value == 0 else low + index * by
                for low, by, index, extent in zip(first, step, i, shape, strict=True)
            )
        ],
        "T_strided_slice",
    )


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along one dimension, as numpy's split.

    Parameters
    ----------
    ary : Tensor
        Of any shape.
    indices_or_sections : int or sequence of int
        How many parts of equal size, or the indices where parts begin.
    axis : int, default 0
        Negative ones count from the end.

    Returns
    -------
    list of Tensor
        The parts.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(ary, "split")
    at = normalize_axis(source, axis, "split")
    extent = source.shape[at]
    if not isinstance(extent, IntImm):
        raise BadOperand(
            f"split along axis {at} of {tensor_text(source)}, whose extent is not known",
            declared=source.source,
            called=user_source(),
            fix="te.compute says which elements a part has",
        )
    size, several = extent.value, is_sequence(indices_or_sections)
    numbers = integers(indices_or_sections, "indices_or_sections of split", None if several else 1)
    if not several and (numbers[0] <= 0 or size % numbers[0]):
        raise BadParameter(
            f"cannot split {size} elements into {numbers[0]} equal parts",
            declared=source.source,
            reason=f"axis {at} of {tensor_text(source)}",
            called=user_source(),
            fix="give the indices at which parts begin",
        )
    cuts = (
        numbers
        if several
        else list(range(size // numbers[0], size, size // numbers[0]))
        if size
        else [0] * (numbers[0] - 1)
    )
    return [strided_slice(source, [low], [high], axes=[at]) for low, high in pairwise((0, *cuts, size))]


def _numpy_concatenate(*xs: NDArray[Any], axis: int) -> Any:
    return np.concatenate(xs, axis)


@operator(
    "concat",
    reference=_numpy_concatenate,
    fusion="injective",
    defaults={"axis": REQUIRED},
    alternatives={"blocks": JOIN},
    samples=[sample(floating(2, 3), floating(2, 1), floating(2, 4), axis=1)],
)
def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one dtype one after another along a dimension; the other extents are the same. Raises BadOperand (TW0181), BadAxis
    (TW0180)."""
    sources = _alike(a_tuple, "concatenate")
    at = normalize_axis(sources[0], axis, "concatenate")
    for other in sources:
        if not all(
            same_extent(x, y) for dim, (x, y) in enumerate(zip(sources[0].shape, other.shape, strict=True)) if dim != at
        ):
            raise _not_alike("concatenate", sources[0], other)
    ends: list[Any] = [sources[0].shape[at]]
    for other in sources[1:]:
        ends.append(ends[-1] + other.shape[at])

    def element(*i: Any) -> Any:
        begins = [0, *ends]
        value = sources[-1][(*i[:at], i[at] - begins[-2], *i[at + 1 :])]
        for place in reversed(range(len(sources) - 1)):
            part = sources[place][(*i[:at], i[at] - begins[place], *i[at + 1 :])]
            value = te.if_then_else(i[at] < ends[place], part, value)
        return value

    return injective([*sources[0].shape[:at], ends[-1], *sources[0].shape[at + 1 :]], element, "T_concat")


def _numpy_stack(*xs: NDArray[Any], axis: int) -> Any:
    return np.stack(xs, axis)


@operator(
    "stack",
    reference=_numpy_stack,
    fusion="injective",
    defaults={"axis": REQUIRED},
    samples=[sample(floating(2, 3), floating(2, 3), axis=-1)],
)
def stack(a: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape and dtype along a new dimension before `axis`. Raises BadOperand (TW0181), BadAxis (TW0180)."""
    sources = _alike(a, "stack")
    at = normalize_axis(sources[0], axis, "stack", 1)
    for other in sources:
        if not all(map(same_extent, sources[0].shape, other.shape)):
            raise _not_alike("stack", sources[0], other)

    def element(*i: Any) -> Any:
        rest = (*i[:at], *i[at + 1 :])
        value = sources[-1][rest]
        for place in reversed(range(len(sources) - 1)):
            value = te.if_then_else(ops.equal(i[at], place), sources[place][rest], value)
        return value

    return injective([*sources[0].shape[:at], len(sources), *sources[0].shape[at:]], element, "T_stack")


def _alike(tensors: Any, subject: str) -> list[Tensor]:
    """Tensors of one rank and dtype, at least one."""
    if not is_sequence(tensors) or not tensors:
        raise BadParameter(
            f"{subject} takes a list of tensors",
            reason=f"got {tensors!r}"[:200],
            called=user_source(),
            fix=f"topi.{subject}([A, B])",
        )
    alike = [tensor(operand, subject) for operand in tensors]
    for other in alike:
        if other.ndim != alike[0].ndim or other.dtype != alike[0].dtype:
            raise _not_alike(subject, alike[0], other)
    return alike


def _not_alike(subject: str, a: Tensor, b: Tensor) -> BadOperand:
    return BadOperand(
        f"cannot {subject} {tensor_text(a)} and {tensor_text(b)}",
        declared=b.source,
        called=user_source(),
        allowed="tensors of one dtype and rank, whose other extents are the same"
        if subject == "concatenate"
        else "tensors of one shape and dtype",
        fix="topi.cast, topi.reshape and topi.broadcast_to bring them there",
    )


def _numpy_pad(x: NDArray[Any], *, before: tuple[int, ...], after: tuple[int, ...], value: float | int | bool) -> Any:
    if not x.ndim:
        return x
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=np.asarray(value).astype(x.dtype))


@operator(
    "pad",
    reference=_numpy_pad,
    fusion="injective",
    attributes={"before": "pad_before", "after": "pad_after", "value": "pad_value"},
    defaults={"after": REQUIRED},
    samples=[sample(floating(3, 5), before=(1, 0), after=(0, 2), value=1.5)],
)
def pad(
    data: Tensor,
    pad_before: Sequence[Extent],
    pad_after: Sequence[Extent] | None = None,
    pad_value: Scalar = 0,
    name: str = "PadInput",
) -> Tensor:
    """A tensor with elements added around it.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    pad_before : sequence of int or expression
        Elements before each dimension, from 0 on.
    pad_after : sequence of int or expression, or None, default None
        Elements after each dimension; those before where it is None.
    pad_value : number or expression, default 0
        What is added.
    name : str, default "PadInput"
        The name of the operation.

    Returns
    -------
    Tensor
        The extents plus what is added.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source = tensor(data, "pad")
    before, after = list(pad_before), list(pad_before if pad_after is None else pad_after)
    negative = any(isinstance(amount, int) and amount < 0 for amount in (*before, *after))
    if len(before) != source.ndim or len(after) != source.ndim or negative:
        raise BadParameter(
            f"pad of {tensor_text(source)} takes a number from 0 on for each dimension",
            reason=f"got {before} before and {after} after",
            declared=source.source,
            called=user_source(),
            fix="topi.strided_slice takes elements away" if negative else "0 where a dimension is not padded",
        )
    filling = ops.cast(ops.convert(pad_value), source.dtype)
    shape = [
        _extent(low) + extent + _extent(high) for low, extent, high in zip(before, source.shape, after, strict=True)
    ]

    def element(*i: Any) -> Any:
        inside: list[Any] = []
        for index, low, high, extent in zip(i, before, after, source.shape, strict=True):
            inside += [index >= low] if not _is_zero(low) else []
            inside += [index < _extent(low) + extent] if not _is_zero(high) else []
        value = source[tuple(index if _is_zero(low) else index - low for index, low in zip(i, before, strict=True))]
        return te.if_then_else(te.all(*inside), value, filling) if inside else value

    return injective(shape, element, name)


def _extent(value: Any) -> Expr:
    return ops.convert(value)


def _is_zero(value: Any) -> bool:
    return integer_value(value, value) == 0 if isinstance(value, (int, IntImm)) else False


def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """Each slice along an axis several times in succession.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    repeats : int
        How many times.
    axis : int, default 0
        Negative ones count from the end.

    Returns
    -------
    Tensor
        The shape of a, with so many times the extent of the axis.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source = tensor(a, "repeat")
    at = normalize_axis(source, axis, "repeat")
    (count,) = _counts(repeats, "repeats of repeat")
    shape = [*source.shape[:at], source.shape[at] * count, *source.shape[at + 1 :]]
    return injective(shape, lambda *i: source[(*i[:at], i[at] // count if count else i[at], *i[at + 1 :])], "T_repeat")


def _numpy_tile(x: NDArray[Any], *, repeats: tuple[int, ...]) -> Any:
    return np.tile(x, repeats)


@operator(
    "tile",
    reference=_numpy_tile,
    fusion="injective",
    attributes={"repeats": "reps"},
    samples=[sample(floating(2, 3), repeats=(2, 1))],
)
def tile(a: Tensor, reps: Sizes) -> Tensor:
    """The whole tensor repeated reps[d] times along each dimension, the last ones aligned, as numpy's. Raises BadParameter
    (TW0182)."""
    source = tensor(a, "tile")
    counts = _counts(reps, "reps of tile")
    rank = max(len(counts), source.ndim)
    counts = [1] * (rank - len(counts)) + counts
    shape: list[Any] = [1] * (rank - source.ndim) + list(source.shape)
    skipped = rank - source.ndim
    return injective(
        [extent * count for extent, count in zip(shape, counts, strict=True)],
        lambda *i: source[
            tuple(
                i[skipped + at] if counts[skipped + at] == 1 else i[skipped + at] % extent
                for at, extent in enumerate(source.shape)
            )
        ],
        "T_tile",
    )


def _counts(values: Any, subject: str) -> list[int]:
    counts = integers(values, subject)
    if counts and min(counts) < 0:
        raise BadParameter(
            f"{subject} counts from 0 on", reason=f"got {values!r}", called=user_source(), fix="0 gives no elements"
        )
    return counts
