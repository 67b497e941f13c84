"""Products of integers of few bits, bit by bit: words of bits are met by `and` or `xor`, and what remains is counted.

A bit plane of data holds one bit of many neighbours, the first of them highest in its word. The product of planes a and b weighs
2 ** (a + b) (Y. Umuroglu and M. Jahre, 2017). Weights are unsigned, or unipolar, a bit of 0 standing for -1 (M. Courbariaux et al.,
2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import user_source
from ...ir.expr import IntImm
from ...te import polymorphic as te
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, BadParameter, normalize_axis, tensor
from ..signatures import Positive
from ..transform import pad
from .window import Padding, Sizes, slide_windows

__all__ = [
    "binarize_pack",
    "binary_dense",
    "bitpack",
    "bitserial_conv2d_nchw",
    "bitserial_conv2d_nhwc",
    "bitserial_dense",
]


_WORDS = ("uint8", "uint16", "uint32", "uint64")


def bitpack(
    data: Tensor, bits: Positive, pack_axis: int, bit_axis: int, pack_type: str = "uint32", name: str = "QuantizeInput"
) -> Tensor:
    """The lowest bits of integers, in planes of words.

    Parameters
    ----------
    data : Tensor
        Integers of any shape.
    bits : int
        How many of the lowest bits are kept.
    pack_axis : int
        The axis that is cut into words.
    bit_axis : int
        A new axis, which counts the planes.
    pack_type : str, default "uint32"
        The dtype of the words.
    name : str, default "QuantizeInput"
        The name of the operation.

    Returns
    -------
    Tensor
        Words, with one more dimension than data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "bitpack")
    if pack_type not in _WORDS:
        raise BadParameter(
            f"bitpack makes no words of {pack_type}",
            called=user_source(),
            allowed=", ".join(_WORDS),
            fix='pack_type="uint32"',
        )
    words, planes = normalize_axis(source, pack_axis, "bitpack"), normalize_axis(source, bit_axis, "bitpack", 1)
    width = _width(source, words, int(pack_type[4:]))
    shape: list[Any] = [extent // width if dim == words else extent for dim, extent in enumerate(source.shape)]
    shape.insert(planes, bits)
    place = te.reduce_axis((0, width), "place")

    def word(*index: Any) -> Any:
        at = [*index]
        plane = at.pop(planes)
        at[words] = at[words] * width + place
        bit = (source[tuple(at)] >> plane.astype(source.dtype)) & te.const(1, source.dtype)
        return te.sum(bit.astype(pack_type) << (width - 1 - place).astype(pack_type), axis=place)

    return te.compute(tuple(shape), word, name=name)


def bitserial_dense(
    data: Tensor,
    weight: Tensor,
    data_bits: Positive,
    weight_bits: Positive,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Tensor:
    """A dense layer of integers of a few bits, as products of their planes.

    Parameters
    ----------
    data : Tensor
        Integers, (M, K).
    weight : Tensor
        Integers, (N, K), or their planes, (N, weight_bits, K / word).
    data_bits : int
        Bits of an element of data.
    weight_bits : int
        Bits of a weight.
    pack_dtype : str, default "uint32"
        The dtype of the words of planes.
    out_dtype : str, default "int16"
        The dtype of the sums.
    unipolar : bool, default True
        Whether a bit of 0 in a weight stands for -1.

    Returns
    -------
    Tensor
        (M, N) in out_dtype.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    rows = bitpack(tensor(data, "bitserial_dense", 2), data_bits, 1, 1, pack_dtype)
    packed = (
        weight
        if weight.ndim == 3
        else bitpack(
            tensor(weight, "the weight of bitserial_dense", 2), weight_bits, 1, 1, pack_dtype, "QuantizeWeight"
        )
    )
    k, db, wb = (
        te.reduce_axis((0, extent), name)
        for extent, name in ((rows.shape[2], "k"), (rows.shape[1], "db"), (packed.shape[1], "wb"))
    )
    return te.compute(
        (rows.shape[0], packed.shape[0]),
        lambda i, j: te.sum(
            _count_bits(rows[i, db, k], packed[j, wb, k], db + wb, out_dtype, unipolar), axis=[db, wb, k]
        ),
        name="bitserial_dense",
    )


def bitserial_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    activation_bits: Positive,
    weight_bits: Positive,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Tensor:
    """The convolution of integers of a few bits, in the layout NCHW.

    Parameters
    ----------
    data : Tensor
        Integers, (N, C, H, W).
    kernel : Tensor
        Integers, (O, C, KH, KW), or their planes, (O, C / word, KH, KW, weight_bits).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    activation_bits : int
        Bits of an element of data.
    weight_bits : int
        Bits of a weight.
    pack_dtype : str, default "uint32"
        The dtype of the words of planes.
    out_dtype : str, default "int16"
        The dtype of the sums.
    unipolar : bool, default True
        As of bitserial_dense.

    Returns
    -------
    Tensor
        (N, O, OH, OW) in out_dtype.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    image = bitpack(tensor(data, "bitserial_conv2d", 4), activation_bits, 1, 2, pack_dtype)
    packed = (
        kernel
        if kernel.ndim == 5
        else bitpack(
            tensor(kernel, "the kernel of bitserial_conv2d", 4), weight_bits, 1, 4, pack_dtype, "QuantizeWeight"
        )
    )
    outputs, _, *taps, planes = packed.shape
    return _windows(
        image,
        (0, 2, 1, 3, 4),
        packed,
        (0, 4, 2, 3, 1),
        (outputs, taps, planes),
        stride,
        padding,
        out_dtype,
        unipolar,
        (0, 1, 2, 3),
    )


def bitserial_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Sizes,
    padding: Padding,
    activation_bits: Positive,
    weight_bits: Positive,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Tensor:
    """The convolution of integers of a few bits, in the layout NHWC.

    Parameters
    ----------
    data : Tensor
        Integers, (N, H, W, C).
    kernel : Tensor
        Integers, (KH, KW, C, O), or their planes, (KH, KW, C / word, O, weight_bits).
    stride : int or sequence of int
        Steps between windows: a number, or one for height and one for width.
    padding : int, sequence of int or str
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    activation_bits : int
        Bits of an element of data.
    weight_bits : int
        Bits of a weight.
    pack_dtype : str, default "uint32"
        The dtype of the words of planes.
    out_dtype : str, default "int16"
        The dtype of the sums.
    unipolar : bool, default True
        As of bitserial_dense.

    Returns
    -------
    Tensor
        (N, OH, OW, O) in out_dtype.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    image = bitpack(tensor(data, "bitserial_conv2d", 4), activation_bits, 3, 4, pack_dtype)
    packed = (
        kernel
        if kernel.ndim == 5
        else bitpack(
            tensor(kernel, "the kernel of bitserial_conv2d", 4), weight_bits, 2, 4, pack_dtype, "QuantizeWeight"
        )
    )
    *taps, _, outputs, planes = packed.shape
    return _windows(
        image,
        (0, 4, 3, 1, 2),
        packed,
        (3, 4, 0, 1, 2),
        (outputs, taps, planes),
        stride,
        padding,
        out_dtype,
        unipolar,
        (0, 2, 3, 1),
    )


def _windows(
    image: Tensor,
    of_image: Sequence[int],
    packed: Tensor,
    of_kernel: Sequence[int],
    sizes: tuple[Any, list[Any], Any],
    stride: Sizes,
    padding: Padding,
    out_dtype: str,
    unipolar: bool,
    order: Sequence[int],
) -> Tensor:
    """The convolution of planes. of_image: the axes of `image` for image, plane, words, height, width; of_kernel: those of `packed`
    for filter, plane, height, width, words; order: the result's axes of image, filter, height, width."""
    outputs, taps, planes = sizes
    high, wide = (tap.value for tap in taps)
    windows = slide_windows([image.shape[axis] for axis in of_image[3:]], (high, wide), stride, padding, 1)
    before, after = [0] * 5, [0] * 5
    for axis, low, more in zip(of_image[3:], windows.low, windows.high, strict=True):
        before[axis], after[axis] = low, more
    padded = pad(image, before, after, name="pad_temp")
    axes = [
        te.reduce_axis((0, extent), name)
        for extent, name in (
            (image.shape[of_image[2]], "rc"),
            (high, "ry"),
            (wide, "rx"),
            (image.shape[of_image[1]], "b1"),
            (planes, "b2"),
        )
    ]
    rc, ry, rx, b1, b2 = axes
    whole: list[Any] = [image.shape[0], outputs, *windows.out]

    def element(*index: Any) -> Any:
        n, o, *at = (index[order.index(axis)] for axis in range(4))
        there = dict(zip(of_image, (n, b1, rc, *windows.places(at, (ry, rx))), strict=True))
        weight = dict(zip(of_kernel, (o, b2, ry, rx, rc), strict=True))
        return te.sum(
            _count_bits(
                padded[tuple(there[axis] for axis in range(5))],
                packed[tuple(weight[axis] for axis in range(5))],
                b1 + b2,
                out_dtype,
                unipolar,
            ),
            axis=axes,
        )

    return te.compute(tuple(whole[axis] for axis in order), element, name="bitserial_conv2d")


def _count_bits(value: Any, weight: Any, by: Any, out_dtype: str, unipolar: bool) -> Any:
    """Return the summand of a word of values and one of weights:

    how many bits both have, less those that only the value has if unipolar.
    """
    both = te.popcount(value & weight).astype(out_dtype)
    count = both - te.popcount(value & ~weight).astype(out_dtype) if unipolar else both
    return count << by.astype(out_dtype)


def binarize_pack(data: Tensor, axis: int | None = None, name: str = "PackedInput") -> Tensor:
    """The signs of elements, 32 of them in a word: 1 from 0 on.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    axis : int or None, default None
        The axis that is cut into words; the last one where it is None.
    name : str, default "PackedInput"
        The name of the operation.

    Returns
    -------
    Tensor
        uint32, with a 32nd of the axis.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadAxis (TW0180)
        An axis that the tensor does not have.
    """
    source = tensor(data, "binarize_pack")
    packed = normalize_axis(source, -1 if axis is None else axis, "binarize_pack")
    _width(source, packed, 32)
    place = te.reduce_axis((0, 32), "place")

    def word(*index: Any) -> Any:
        at = [at * 32 + place if dim == packed else at for dim, at in enumerate(index)]
        bit = (source[tuple(at)] >= te.const(0, source.dtype)).astype("uint32")
        return te.sum(bit << (31 - place).astype("uint32"), axis=place)

    return te.compute(
        tuple(extent // 32 if dim == packed else extent for dim, extent in enumerate(source.shape)), word, name=name
    )


def binary_dense(data: Tensor, weight: Tensor) -> Tensor:
    """The product of data (M, K / 32) and the transposed of weight (N, K / 32), bits standing for 1 and -1, in float32 (M, N).
    Raises BadOperand (TW0181)."""
    rows, others = tensor(data, "binary_dense", 2), tensor(weight, "binary_dense", 2)
    for each in (rows, others):
        if str(each.dtype) != "uint32":
            raise BadOperand(
                f"binary_dense of {tensor_text(each)}",
                reason="it takes words of uint32",
                declared=each.source,
                called=user_source(),
                fix="topi.nn.binarize_pack(x)",
            )
    k = te.reduce_axis((0, rows.shape[1]), "k")
    apart = te.compute(
        (rows.shape[0], others.shape[0]),
        lambda i, j: te.sum(te.popcount(rows[i, k] ^ others[j, k]), axis=k),
        name="binary_dense_apart",
    )
    count = (rows.shape[1] * 32).astype("float32")
    return te.compute(
        apart.shape,
        lambda i, j: count - te.const(2.0, "float32") * apart[i, j].astype("float32"),
        name="binary_dense",
        tag="elemwise",
    )


def _width(source: Tensor, axis: int, width: int) -> int:
    extent = source.shape[axis]
    if not isinstance(extent, IntImm) or extent.value % width:
        raise BadOperand(
            f"{tensor_text(source)} does not fill words along axis {axis}",
            reason=f"a word holds {width} of them",
            declared=source.source,
            called=user_source(),
            fix="topi.pad to a multiple",
        )
    return width
