"""Winograd's convolution: 3 by 3 at stride 1, with 2.25 or 4 times fewer multiplications.

Tiles of m by m results come from squares of a = m + 2 elements a side (Lavin and Gray 2016, Fast Algorithms for
Convolutional Neural Networks): with B, G and A of the minimal filtering algorithm F(m, 3),

    y = A^T [ (G w G^T) * (B^T d B), summed over input channels ] A

The products are a^2 matrix products, one for each place of the square. The weights' side is made once, by
conv2d_winograd_prepack.

The error is that of the transforms: an element is wrong by as much as its neighbours are large. With S the greatest sum of
|data * kernel| that any element of the result has, and numbers that are normally distributed, no element is further from
the exact one than

    tile = 2:  16 * 2**-24 * S         tile = 4:  128 * 2**-24 * S

which tests/topi/nn/test_winograd.py asserts. (On ResNet-50's layers tile = 2 stays below 1.5 * 2**-24 * S, which is about what
libraries' direct convolutions do, tile = 4 below 25.) float16 and bfloat16 are computed in float32 and rounded once. Where
data or weights span many orders of magnitude within an image, what is small drowns: take conv2d.

With tile = 2 each element is computed from those of its own window alone, as in a direct convolution: what is large, or a NaN,
reaches nobody else, but where a direct one gives an infinity there may be a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import same_extent, shape_text
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor
from ..checks import tensor, weights
from ..matmul import convert_elements, sum_dtype
from ..weighted_sums import scaled_and_moved
from .conv2d import PACK
from .window import BadConvolution, Padding, pad_amounts, window_count

__all__ = [
    "conv2d_winograd",
    "conv2d_winograd_prepack",
    "conv2d_winograd_prepacked",
]

Matrix = tuple[tuple[float, ...], ...]

_B: dict[int, Matrix] = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
"""B transposed: a square of the image -> what is multiplied. By m."""
_G: dict[int, Matrix] = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
"""Weights -> what is multiplied."""
_A: dict[int, Matrix] = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
"""A transposed: products -> results."""


def conv2d_winograd(data: Tensor, kernel: Tensor, padding: Padding = 1, tile: int = 2) -> Tensor:
    """conv2d of 3 by 3 windows in the layout NCHW at stride 1.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    kernel : Tensor
        (O, C, 3, 3).
    padding : int, sequence of int or str, default 1
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".
    tile : int, default 2
        Results of a side that are computed together, 2 or 4: the larger one multiplies less, and errs more (see the
        module).

    Returns
    -------
    Tensor
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    if kernel.ndim != 4 or not all(isinstance(extent, IntImm) and extent.value == 3 for extent in kernel.shape[2:]):
        raise BadConvolution(
            f"{kernel.name} of shape {shape_text(kernel.shape)} is not 3 by 3",
            declared=kernel.source,
            called=user_source(),
            reason="Winograd's algorithm is laid out for windows of 3 by 3 at stride 1",
            fix="topi.nn.conv2d(data, kernel, stride, padding)",
        )
    outputs = kernel.shape[0]
    if not isinstance(outputs, IntImm):
        raise BadConvolution(
            f"{kernel.name} has {outputs} output channels",
            declared=kernel.source,
            called=user_source(),
            reason="their number is part of the program",
            fix="declare the kernel's shape by numbers",
        )
    packed = conv2d_winograd_prepack(convert_elements(kernel, sum_dtype(kernel.dtype)), tile)
    return conv2d_winograd_prepacked(data, packed, outputs.value, padding)


def conv2d_winograd_prepack(kernel: Any, tile: int = 2) -> Any:
    """Weights (O, I, 3, 3) as G w G^T: (a, a, ceil(O / 16), I, 16) with a = tile + 2, output channels filled up with zeros.

    kernel: a numpy array, of which a new one of its dtype is made (in float64, rounded once), or a tensor. Raises BadConvolution
    (TW0191), BadOperand (TW0181).
    """
    matrix = _matrix(_G, tile)
    given = weights(kernel, "topi.nn.conv2d_winograd_prepack", 4)
    if isinstance(given, Tensor):
        return _packed_tensor(given, matrix)
    transformed = np.einsum("ap,ocpq,bq->aboc", np.array(matrix), given.astype(np.float64), np.array(matrix))
    outputs, inputs = given.shape[:2]
    blocks = -(-outputs // PACK)
    packed = np.zeros((len(matrix), len(matrix), blocks * PACK, inputs), given.dtype)
    packed[:, :, :outputs] = transformed
    return np.ascontiguousarray(packed.reshape(len(matrix), len(matrix), blocks, PACK, inputs).swapaxes(3, 4))


def _packed_tensor(kernel: Tensor, matrix: Matrix) -> Tensor:
    outputs, inputs = kernel.shape[:2]
    assert isinstance(outputs, IntImm)
    size, blocks = len(matrix), -(-outputs.value // PACK)
    half = te.compute(
        (size, 3, outputs, inputs),
        lambda a, q, o, c: combine_row(a, matrix, lambda p: kernel[o, c, p, q]),
        name=f"{kernel.name}_rows",
        tag="injective",
    )

    def element(a: Any, b: Any, ob: Any, c: Any, v: Any) -> Expr:
        channel = ob * PACK + v
        value = combine_row(b, matrix, lambda q: half[a, q, channel, c])
        return (
            value if outputs.value % PACK == 0 else te.if_then_else(channel < outputs, value, te.const(0, kernel.dtype))
        )

    return te.compute((size, size, blocks, inputs, PACK), element, name=f"{kernel.name}_packed", tag="injective")


def conv2d_winograd_prepacked(data: Tensor, packed: Tensor, channels: int, padding: Padding = 1) -> Tensor:
    """conv2d_winograd with the weights that conv2d_winograd_prepack gives.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    packed : Tensor
        Of conv2d_winograd_prepack.
    channels : int
        O, the channels of the result.
    padding : int, sequence of int or str, default 1
        Zeros around the data: a number, a pair for height and width, (top, left, bottom, right), "SAME" or "VALID".

    Returns
    -------
    Tensor
        (N, O, OH, OW).

    Raises
    ------
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    tensor(data, "a convolution")
    _check_packed(
        data,
        packed,
        data.ndim == 4 and packed.ndim == 5 and same_extent(data.shape[1], packed.shape[3]),
        "(N, C, H, W)",
    )
    size, m, to_image, back = _algorithm(packed)
    kind, wide = data.dtype, sum_dtype(data.dtype)
    data = convert_elements(data, wide)
    batch, inputs, height, width = data.shape
    pads, out, (down, across) = _tiles(height, width, padding, m)
    image = _pad(data, pads, (down * m + 2, across * m + 2), "conv2d_winograd")
    rows = te.compute(
        (batch, inputs, down, size, across * m + 2),
        lambda n, c, y, a, w: combine_row(a, to_image, lambda r: image[n, c, y * m + r, w]),
        name="winograd_rows",
        tag=AlgorithmTag("conv2d_winograd.rows"),
    )
    squares = te.compute(
        (size, size, batch, inputs, down, across),
        lambda a, b, n, c, y, x: combine_row(b, to_image, lambda s: rows[n, c, y, a, x * m + s]),
        name="winograd_squares",
        tag=AlgorithmTag("conv2d_winograd.squares"),
    )
    c = te.reduce_axis((0, inputs), "c")
    blocks, lanes = packed.shape[2], packed.shape[4]
    products = te.compute(
        (size, size, batch, blocks, down, across, lanes),
        lambda a, b, n, ob, y, x, v: te.sum(squares[a, b, n, c, y, x] * packed[a, b, ob, c, v].astype(wide), axis=c),
        name="winograd_products",
        tag=AlgorithmTag("conv2d_winograd.products"),
    )
    columns = te.compute(
        (batch, blocks, down * m, size, across, lanes),
        lambda n, ob, i, b, x, v: combine_row(
            te.indexmod(i, m), back, lambda a: products[a, b, n, ob, te.indexdiv(i, m), x, v]
        ),
        name="winograd_columns",
        tag=AlgorithmTag("conv2d_winograd.columns"),
    )
    results = te.compute(
        (batch, blocks, down * m, across * m, lanes),
        lambda n, ob, i, j, v: combine_row(
            te.indexmod(j, m), back, lambda b: columns[n, ob, i, b, te.indexdiv(j, m), v]
        ),
        name="winograd_results",
        tag=AlgorithmTag("conv2d_winograd.results"),
    )
    return te.compute(
        (batch, channels, *out),
        lambda n, o, i, j: results[n, te.indexdiv(o, lanes), i, j, te.indexmod(o, lanes)].astype(kind),
        name="conv2d_winograd",
        tag=AlgorithmTag("conv2d_winograd"),
        attrs={"tile": m},
    )


def conv2d_winograd_NCHWc(data: Tensor, packed: Tensor, padding: Padding = 1) -> Tensor:
    """conv2d_winograd over data (N, C/c, H, W, c) with the weights that conv2d_winograd_prepack gives, whose blocks of output
    channels, all of them whole, are those of the result: (N, O/16, OH, OW, 16). Raises BadConvolution (TW0191), BadWindow
    (TW0190)."""
    tensor(data, "a convolution")
    _check_packed(
        data,
        packed,
        data.ndim == packed.ndim == 5 and same_extent(data.shape[1] * data.shape[4], packed.shape[3]),
        "(N, C/c, H, W, c)",
    )
    size, m, to_image, back = _algorithm(packed)
    kind, wide = data.dtype, sum_dtype(data.dtype)
    data = convert_elements(data, wide)
    batch, chunks, height, width, block = data.shape
    pads, out, (down, across) = _tiles(height, width, padding, m)
    image = _pad(data, pads, (down * m + 2, across * m + 2), "conv2d_winograd_NCHWc")
    rows = te.compute(
        (batch, chunks, down, size, across * m + 2, block),
        lambda n, c, y, a, w, v: combine_row(a, to_image, lambda r: image[n, c, y * m + r, w, v]),
        name="winograd_rows",
        tag=AlgorithmTag("conv2d_winograd_NCHWc.rows"),
    )
    squares = te.compute(
        (size, size, batch, chunks, down, across, block),
        lambda a, b, n, c, y, x, v: combine_row(b, to_image, lambda s: rows[n, c, y, a, x * m + s, v]),
        name="winograd_squares",
        tag=AlgorithmTag("conv2d_winograd_NCHWc.squares"),
    )
    c, k = te.reduce_axis((0, chunks), "c"), te.reduce_axis((0, block), "k")
    blocks, lanes = packed.shape[2], packed.shape[4]
    products = te.compute(
        (size, size, batch, blocks, down, across, lanes),
        lambda a, b, n, ob, y, x, v: te.sum(
            squares[a, b, n, c, y, x, k] * packed[a, b, ob, c * block + k, v].astype(wide), axis=[c, k]
        ),
        name="winograd_products",
        tag=AlgorithmTag("conv2d_winograd_NCHWc.products"),
    )
    columns = te.compute(
        (batch, blocks, down * m, size, across, lanes),
        lambda n, ob, i, b, x, v: combine_row(
            te.indexmod(i, m), back, lambda a: products[a, b, n, ob, te.indexdiv(i, m), x, v]
        ),
        name="winograd_columns",
        tag=AlgorithmTag("conv2d_winograd_NCHWc.columns"),
    )
    return te.compute(
        (batch, blocks, *out, lanes),
        lambda n, ob, i, j, v: combine_row(
            te.indexmod(j, m), back, lambda b: columns[n, ob, i, b, te.indexdiv(j, m), v]
        ).astype(kind),
        name="conv2d_winograd_NCHWc",
        tag=AlgorithmTag("conv2d_winograd_NCHWc"),
        attrs={"tile": m},
    )


def conv2d_winograd_blocks(data: Tensor, kernel: Tensor, padding: Padding = 1) -> Tensor:
    """conv2d_winograd with tiles of 2 over data (N, C/c, H, W, c) and kernel (O/16, C/c, 3, 3, c, 16): (N, O/16, OH, OW, 16)."""
    chunks, inputs, *_, block, lanes = kernel.shape
    whole = te.compute(
        (chunks * lanes, inputs * block, 3, 3),
        lambda o, c, p, q: kernel[
            te.indexdiv(o, lanes), te.indexdiv(c, block), p, q, te.indexmod(c, block), te.indexmod(o, lanes)
        ],
        name=f"{kernel.name}_whole",
        tag="injective",
    )
    return conv2d_winograd_NCHWc(data, conv2d_winograd_prepack(whole), padding)


def transforms(m: int) -> tuple[Matrix, Matrix]:
    """The matrices of a side of a tile of m: from an image to squares, and from products to results."""
    return _matrix(_B, m), _matrix(_A, m)


def _check_packed(data: Tensor, packed: Tensor, fits: bool, layout: str) -> None:
    if not fits or not isinstance(packed.shape[0], IntImm):
        raise BadConvolution(
            f"{data.name} of shape {shape_text(data.shape)} and {packed.name} of shape {shape_text(packed.shape)} do not fit",
            reason=f"data is {layout}, packed weights are (a, a, blocks, C, 16)",
            declared=packed.source,
            called=user_source(),
            fix="pack the weights (O, C, 3, 3) by conv2d_winograd_prepack",
        )


def _algorithm(packed: Tensor) -> tuple[int, int, Matrix, Matrix]:
    """A side of the squares and of the results of a tile, and the matrices to squares and to results."""
    size = packed.shape[0]
    assert isinstance(size, IntImm)
    m = size.value - 2
    return size.value, m, *transforms(m)


def _tiles(height: Any, width: Any, padding: Padding, m: int) -> tuple[tuple[int, int], list[Any], list[Any]]:
    """The padding before an image, the height and the width of the result, and how many tiles it has along them."""
    pads = pad_amounts(padding, (3, 3))
    out = [
        window_count(extent, pads[at], pads[at + 2], 3, 1, what)
        for at, extent, what in ((0, height, "height"), (1, width, "width"))
    ]
    return (
        pads[:2],
        out,
        [te.indexdiv(extent + (m - 1), m) if isinstance(extent, Expr) else -(-extent // m) for extent in out],
    )


def combine_row(row: Any, matrix: Matrix, value: Callable[[int], Any]) -> Expr:
    """Row `row` of the matrix times a vector of values: unrolled over `row`, a few additions."""
    sums = [_sum(coefficients, value) for coefficients in matrix]
    chosen = sums[-1]
    for at in reversed(range(len(sums) - 1)):
        chosen = te.select(row.equal(at) if isinstance(row, Expr) else row == at, sums[at], chosen)
    return chosen


def _sum(coefficients: Sequence[float], value: Callable[[int], Any]) -> Expr:
    total: Any = None
    for at, factor in enumerate(coefficients):
        if not factor:
            continue
        if total is None:
            total = value(at) if factor == 1 else value(at) * factor
        else:
            total = _add_scaled(total, value(at), factor)
    return total


def _add_scaled(total: Expr, value: Expr, factor: float) -> Expr:
    if abs(factor) == 1:
        return total + value if factor > 0 else total - value
    return scaled_and_moved(value, te.const(factor, value.dtype), total)


def _pad(data: Tensor, before: tuple[int, int], size: tuple[Any, Any], algorithm: str) -> Tensor:
    """The image with zeros before it, and behind it up to whole tiles."""
    batch, chunks, height, width, *block = data.shape

    def element(n: Any, c: Any, i: Any, j: Any, *v: Any) -> Expr:
        inside = te.all(i >= before[0], i < height + before[0], j >= before[1], j < width + before[1])
        return te.if_then_else(inside, data[(n, c, i - before[0], j - before[1], *v)], te.const(0, data.dtype))

    return te.compute((batch, chunks, *size, *block), element, name="pad_temp", tag=AlgorithmTag(f"{algorithm}.image"))


def _matrix(of: dict[int, Matrix], tile: int) -> Matrix:
    if tile not in of:
        raise BadConvolution(
            f"there is no tile of {tile!r}"[:200],
            called=user_source(),
            allowed="2 and 4",
            reason="tiles are squares of results that are computed together",
            fix="tile=2, or tile=4 for fewer multiplications and more error",
        )
    return of[tile]
