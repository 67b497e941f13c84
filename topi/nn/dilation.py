"""Moving elements apart and between dimensions: dilation, space to depth and to batch, enlarging, reflections at borders.

All are tagged "injective", as the operators of topi/transform.py are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ...base.arguments import is_a
from ...base.errors import user_source
from ...ir import IntImm, ops
from ...te import polymorphic as te
from ...te.tensor import Tensor, tensor_text
from .. import transform
from ..checks import BadOperand, BadParameter, integers, normalize_axis, tensor
from ..row import floating, operator, sample
from ..signatures import Number, Scalar
from .window import Sizes

__all__ = [
    "batch_to_space_nd",
    "depth_to_space",
    "dilate",
    "fifo_buffer",
    "mirror_pad",
    "space_to_batch_nd",
    "space_to_depth",
    "upsampling",
]


def dilate(data: Tensor, strides: Sizes, dilation_value: Scalar = 0.0, name: str = "DilatedInput") -> Tensor:
    """Elements moved apart: strides[d] - 1 elements of dilation_value between neighbours of dimension d.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    strides : sequence of int
        A number for each dimension, from 1 on.
    dilation_value : number or expression, default 0.0
        What stands between neighbours.
    name : str, default "DilatedInput"
        The name of the operation.

    Returns
    -------
    Tensor
        (n - 1) * stride + 1 elements for the n of each dimension.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source = tensor(data, "dilate")
    steps = integers(strides, "strides of dilate")
    if len(steps) != source.ndim or min(steps, default=1) < 1:
        raise BadParameter(
            f"dilate of {tensor_text(source)} takes a number from 1 on for each dimension",
            reason=f"got {strides!r}",
            declared=source.source,
            called=user_source(),
            fix="1 where elements stay neighbours",
        )
    between = ops.cast(ops.convert(dilation_value), source.dtype)
    shape = [
        # nothing lies between no elements
        extent if step == 1 or (isinstance(extent, IntImm) and extent.value == 0) else (extent - 1) * step + 1
        for extent, step in zip(source.shape, steps, strict=True)
    ]

    def element(*i: Any) -> Any:
        there = [at if step == 1 else te.indexdiv(at, step) for at, step in zip(i, steps, strict=True)]
        # dimensions that stay need no condition
        on = [ops.equal(te.indexmod(at, step), 0) for at, step in zip(i, steps, strict=True) if step > 1]
        value = source[tuple(there)]
        return te.if_then_else(te.all(*on), value, between) if on else value

    return transform.injective(shape, element, name)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Data continued by its reflection. At most as many elements are added as there are to reflect.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    pad_before : sequence of numbers
        Elements before each dimension.
    pad_after : sequence of numbers or None, default None
        Elements after each dimension; those before where it is None.
    mode : str, default "SYMMETRIC"
        "SYMMETRIC" repeats the element at the border, "REFLECT" does not.
    name : str, default "MirrorPadInput"
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
    source = tensor(data, "mirror_pad")
    before = integers(pad_before, "pad_before of mirror_pad")
    after = before if pad_after is None else integers(pad_after, "pad_after of mirror_pad")
    # how many elements at the border are left out of the reflection
    again = {"SYMMETRIC": 0, "REFLECT": 1}.get(mode.upper() if is_a(mode, str) else mode)
    far = again is not None and any(
        isinstance(extent, IntImm) and max(low, high) > extent.value - again
        for extent, low, high in zip(source.shape, before, after, strict=False)
        if low or high
    )
    if again is None or len(before) != source.ndim or len(after) != source.ndim or min(*before, *after, 0) < 0 or far:
        raise BadParameter(
            f"mirror_pad of {tensor_text(source)} is told no reflection",
            declared=source.source,
            reason=f"got {before} before, {after} after, mode {mode!r}",
            called=user_source(),
            allowed='"SYMMETRIC" up to the extent, "REFLECT" up to one less, for each dimension',
            fix="0 where a dimension is not padded",
        )

    def place(index: Any, extent: Any, low: int, high: int) -> Any:
        at = index - low
        if low:
            # mirrored before the first, and below behind the last
            at = te.if_then_else(index < low, low - 1 - index + again, at)
        return te.if_then_else(index >= extent + low, 2 * extent - 1 - again - (index - low), at) if high else at

    shape = [extent + (low + high) for extent, low, high in zip(source.shape, before, after, strict=True)]
    return transform.injective(shape, lambda *i: source[tuple(map(place, i, source.shape, before, after))], name)


def _numpy_space_to_depth(x: NDArray[Any], *, block: int) -> Any:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * block**2, h // block, w // block)


@operator(
    "space_to_depth",
    reference=_numpy_space_to_depth,
    fusion="injective",
    attributes={"block": "block_size"},
    samples=[sample(floating(1, 2, 4, 6), block=2)],
)
def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of height and width side by side in the channels: channel (y * b + x) * C + c is pixel (y, x) of the
    block.

    A symbolic size that leaves a rest fails at the call (TW0518).

    Parameters
    ----------
    data : Tensor
        (N, C, H, W) or (N, H, W, C).
    block_size : int
        b, the height and width of a block.
    layout : str, default "NCHW"
        "NCHW" or "NHWC".

    Returns
    -------
    Tensor
        (N, C * b * b, H / b, W / b), or in NHWC the same with the channels last.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, block = _image(data, block_size, layout, "space_to_depth")
    n, c, h, w = (source.shape[layout.index(letter)] for letter in "NCHW")
    for extent in (h, w):
        if isinstance(extent, IntImm) and extent.value % block:
            raise _not_blocks(source, extent, block)

    def element(*i: Any) -> Any:
        at = dict(zip(layout, i, strict=True))
        which = te.indexdiv(at["C"], c)  # the part of the block comes before the channel
        there = {
            "N": at["N"],
            "C": te.indexmod(at["C"], c),
            "H": at["H"] * block + te.indexdiv(which, block),
            "W": at["W"] * block + te.indexmod(which, block),
        }
        return source[tuple(there[letter] for letter in layout)]

    # rounded up: a symbolic rest is refused when the kernel is called
    shape = {"N": n, "C": c * (block * block), "H": te.ceildiv(h, block), "W": te.ceildiv(w, block)}
    return transform.injective([shape[letter] for letter in layout], element, "space_to_depth")


def _numpy_depth_to_space(x: NDArray[Any], *, block: int, mode: str) -> Any:
    n, c, h, w = x.shape
    if mode == "DCR":
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


@operator(
    "depth_to_space",
    reference=_numpy_depth_to_space,
    fusion="injective",
    attributes={"block": "block_size", "mode": "mode"},
    samples=[sample(floating(1, 8, 2, 3), block=2), sample(floating(1, 8, 2, 3), block=2, mode="CRD")],
)
def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Channels laid out as blocks of height and width.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W) or (N, H, W, C).
    block_size : int
        b, the height and width of a block.
    layout : str, default "NCHW"
        "NCHW" or "NHWC".
    mode : str, default "DCR"
        "DCR", the inverse of space_to_depth, or "CRD", where the channels of one result lie side by side.

    Returns
    -------
    Tensor
        (N, C / (b * b), H * b, W * b), or in NHWC the same with the channels last.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, block = _image(data, block_size, layout, "depth_to_space")
    n, c, h, w = (source.shape[layout.index(letter)] for letter in "NCHW")
    if mode not in ("DCR", "CRD"):
        raise BadParameter(
            f"depth_to_space has no mode {mode!r}", called=user_source(), allowed='"DCR", "CRD"', fix='mode="DCR"'
        )
    if isinstance(c, IntImm) and c.value % (block * block):
        raise _not_blocks(source, c, block * block)
    channels = te.ceildiv(c, block * block)

    def element(*i: Any) -> Any:
        at = dict(zip(layout, i, strict=True))
        which = te.indexmod(at["H"], block) * block + te.indexmod(at["W"], block)
        # "DCR": depth, columns, rows; "CRD" the other way round
        channel = which * channels + at["C"] if mode == "DCR" else at["C"] * (block * block) + which
        there = {"N": at["N"], "C": channel, "H": te.indexdiv(at["H"], block), "W": te.indexdiv(at["W"], block)}
        return source[tuple(there[letter] for letter in layout)]

    shape = {"N": n, "C": channels, "H": h * block, "W": w * block}
    return transform.injective([shape[letter] for letter in layout], element, "depth_to_space")


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: Scalar = 0.0,
) -> Tensor:
    """The dimensions after the first, padded and cut into blocks whose elements lie in the batch: element (y, x) of a
    block is batch (y * bx + x) * N + n.

    Parameters
    ----------
    data : Tensor
        (N, ...).
    block_shape : sequence of int
        The extents of a block, in the first of the dimensions after the batch.
    pad_before : sequence of int
        Elements added before each of these dimensions.
    pad_after : sequence of int
        Elements added after each of them.
    pad_value : number or expression, default 0.0
        What is added.

    Returns
    -------
    Tensor
        (N * product of the block's extents, ...).

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, block = tensor(data, "space_to_batch_nd"), integers(block_shape, "block_shape of space_to_batch_nd")
    count = len(block)
    if not 0 < count < source.ndim or min(block) < 1:
        raise _no_such_block(source, block)
    rest = [0] * (source.ndim - 1 - count)
    image = transform.pad(
        source,
        [0, *integers(pad_before, "pad_before of space_to_batch_nd", count), *rest],
        [0, *integers(pad_after, "pad_after of space_to_batch_nd", count), *rest],
        pad_value,
    )
    batch, *space = image.shape[: count + 1]
    for extent, size in zip(space, block, strict=True):
        if isinstance(extent, IntImm) and extent.value % size:
            raise _not_blocks(image, extent, size)

    def element(n: Any, *i: Any) -> Any:
        which, there = te.indexdiv(n, batch), list(i)
        for dim in reversed(range(count)):  # from the last dimension on, which is the fastest in the batch
            there[dim] = i[dim] * block[dim] + te.indexmod(which, block[dim])
            which = te.indexdiv(which, block[dim])
        return image[(te.indexmod(n, batch), *there)]

    many = batch  # a product, as the batch may be a symbol
    for size in block:
        many = many * size
    shape = (
        many,
        *(te.ceildiv(extent, size) for extent, size in zip(space, block, strict=True)),
        *image.shape[count + 1 :],
    )
    return transform.injective(shape, element, "space_to_batch_nd")


def batch_to_space_nd(
    data: Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """The inverse of space_to_batch_nd, what was padded taken away.

    Parameters
    ----------
    data : Tensor
        (N * product of the block's extents, ...).
    block_shape : sequence of int
        The extents of a block.
    crop_begin_list : sequence of int
        Elements taken away before each of these dimensions.
    crop_end_list : sequence of int
        Elements taken away after each of them.

    Returns
    -------
    Tensor
        (N, ...).

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source, block = tensor(data, "batch_to_space_nd"), integers(block_shape, "block_shape of batch_to_space_nd")
    count, total = len(block), 1
    if not 0 < count < source.ndim or min(block) < 1:
        raise _no_such_block(source, block)
    first = integers(crop_begin_list, "crop_begin_list of batch_to_space_nd", count)
    last = integers(crop_end_list, "crop_end_list of batch_to_space_nd", count)
    for size in block:
        total *= size
    if isinstance(source.shape[0], IntImm) and source.shape[0].value % total:
        raise _not_blocks(source, source.shape[0], total)
    batch = te.ceildiv(source.shape[0], total)

    def element(n: Any, *i: Any) -> Any:
        which: Any = 0
        there = list(i)
        for dim in range(count):
            at = i[dim] + first[dim]
            which = which * block[dim] + te.indexmod(at, block[dim])
            there[dim] = te.indexdiv(at, block[dim])
        return source[(which * batch + n, *there)]

    shape = [
        extent * size - (low + high)
        for extent, size, low, high in zip(source.shape[1 : count + 1], block, first, last, strict=True)
    ]
    return transform.injective((batch, *shape, *source.shape[count + 1 :]), element, "batch_to_space_nd")


def upsampling(
    data: Tensor,
    scale_h: Number,
    scale_w: Number,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """Images enlarged by a factor for height and one for width.

    Parameters
    ----------
    data : Tensor
        In the given layout.
    scale_h : number
        The factor of the height.
    scale_w : number
        The factor of the width.
    layout : str, default "NCHW"
        The dimensions' names, such as "NCHW".
    method : str, default "nearest_neighbor"
        "nearest_neighbor", "bilinear" or "bicubic".
    align_corners : bool, default False
        Whether the corners' centres stay where they are.
    output_shape : sequence of int or None, default None
        (height, width); the rounded products where it is None.

    Returns
    -------
    Tensor
        The data with another height and width.

    Raises
    ------
    BadImage (TW0195)
        An image, or a size, that does not fit.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    from ..image.resize import resize

    source = tensor(data, "upsampling", len(layout))
    size = list(output_shape or [])
    for letter, scale in () if size else (("H", scale_h), ("W", scale_w)):  # a size that is given needs no factors
        extent = source.shape[layout.index(letter)]
        if not isinstance(extent, IntImm):
            raise BadOperand(
                f"upsampling of {tensor_text(source)}, whose size is not known",
                declared=source.source,
                called=user_source(),
                fix="topi.image.resize(data, (height, width))",
            )
        size.append(round(extent.value * scale))
    # TVM's nearest neighbours lie on an asymmetric grid
    plain = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    return resize(
        source,
        tuple(size),
        method,
        layout,
        coordinates="align_corners" if align_corners else plain,
        rounding="round" if align_corners else "floor",
    )


def _image(data: Tensor, block_size: Any, layout: str, subject: str) -> tuple[Tensor, int]:
    source = tensor(data, subject, 4)
    (block,) = integers(block_size, f"block_size of {subject}")
    if layout not in ("NCHW", "NHWC") or block < 1:
        raise BadParameter(
            f"{subject} of {tensor_text(source)} is told no blocks",
            declared=source.source,
            called=user_source(),
            reason=f"got block_size {block_size!r}, layout {layout!r}",
            allowed='"NCHW", "NHWC", blocks from 1 on',
            fix=f"topi.nn.{subject}(x, 2)",
        )
    return source, block


def _no_such_block(source: Tensor, block: list[int]) -> BadParameter:
    return BadParameter(
        f"{tensor_text(source)} has no blocks of {block}",
        declared=source.source,
        called=user_source(),
        allowed="sizes from 1 on, for dimensions after the first",
        fix="block_shape=[2, 2] for two of them",
    )


def _not_blocks(source: Tensor, extent: Any, block: int) -> BadOperand:
    return BadOperand(
        f"{tensor_text(source)} cannot be cut into blocks",
        reason=f"{extent} is not a multiple of {block}",
        declared=source.source,
        called=user_source(),
        fix="topi.pad fills it up",
    )


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """A buffer moved on along an axis: its first elements go, and those of data come last.

    Parameters
    ----------
    data : Tensor
        The new elements, in the shape of buffer but for the axis.
    buffer : Tensor
        What is there.
    axis : int
        Along which it moves; negative ones count from the end.

    Returns
    -------
    Tensor
        The shape of buffer.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    new, held = tensor(data, "fifo_buffer"), tensor(buffer, "fifo_buffer")
    at = normalize_axis(held, axis, "fifo_buffer")
    both = transform.concatenate([held, new], at)
    return transform.injective(  # the last elements of both, as many as the buffer has
        held.shape, lambda *i: both[(*i[:at], i[at] + new.shape[at], *i[at + 1 :])], "fifo_buffer"
    )
