"""Products and convolutions of bytes in whole numbers, exactly: ONNX's MatMulInteger and ConvInteger, and the sums of its
QLinearMatMul and QLinearConv.

    sums[i, n]       = sum over k of     (x[i, k] - x_zero) * (w[k, n] - w_zero[n])
    sums[b, i, j, o] = sum over r, s, c
                                       (x[b, i * stride + r - top, j * stride + s - left, c] - x_zero) * (w[o, c, r, s] - w_zero[o])

Differences of bytes fit into 16 bits, and of those one instruction multiplies pairs and adds them up in 32: `taken` is x like
that, with zeros where it is padded, and `packed` are panels of 16 columns of w, two terms of a column side by side.

    packed[n // 16, k // 2, n % 16, k % 2] = w[k, n] - w_zero[n]             # bytes, where there is no w_zero

Of bytes that are taken as they are an instruction may multiply four at once (quads): 4 stands for 2 then.

Convolutions have their channels last, so that the terms of a sum lie side by side; for other layouts, transpose bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...base.dataclass import dataclass
from ...base.errors import user_source
from ...ir.expr import Expr, IterVar
from ...ir.ops import index_ceildiv, is_const
from ...te import polymorphic as te
from ...te.shape import same_extent
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor, tensor_text
from ..checks import divides, tensor
from ..transform import flat_index, unravel_index
from .convolutions import check_channels, check_rank, tap_count
from .window import BadQuantised, Padding, Sizes, Slides, slide_windows

__all__ = ["integer_conv", "integer_matmul"]

PANEL = 16
PAIR, QUAD = 2, 4
_BYTES = ("int8", "uint8")
_Element = tuple[Expr, list[Expr]]
"""A value, and the conditions under which there is one; 0 else."""


def integer_matmul(x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None) -> Tensor:
    """The product of matrices of bytes in int32, which wraps.

    Parameters
    ----------
    x : Tensor
        int8 or uint8, (..., m, k).
    w : Tensor
        int8 or uint8, (..., k, n). What stands before the matrices is the same in both.
    x_zero : Tensor or None, default None
        What x has for 0: a tensor of x's dtype without dimensions; None for 0.
    w_zero : Tensor or None, default None
        What w has for 0: a tensor of w's dtype without dimensions, or (n,); None for 0.

    Returns
    -------
    Tensor
        int32, (..., m, n).

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    _check_bytes("topi.nn.integer_matmul", x, w)
    fits = (
        x.ndim == w.ndim >= 2
        and same_extent(x.shape[-1], w.shape[-2])
        and all(map(same_extent, x.shape[:-2], w.shape[:-2]))
    )
    if not fits:
        raise _bad(
            f"topi.nn.integer_matmul cannot multiply {tensor_text(x)} and {tensor_text(w)}",
            x,
            "matrices (m, k) and (k, n) are asked for, or as many of both",
            "topi.transpose and topi.reshape give them that shape",
        )
    depth, outs = x.shape[-1], w.shape[-1]
    even = index_ceildiv(depth, PAIR) * PAIR

    def inside(k: Expr) -> list[Expr]:
        return [] if divides(depth, PAIR) else [k < depth]

    taken = _subtract_zero((*x.shape[:-1], even), lambda at: (x[tuple(at)], inside(at[-1])), x_zero)
    packed = _pack_panels(outs, even, lambda b, n, k: (w[(*b, k, n)], inside(k)), w, w_zero, w.shape[:-2])
    k = te.reduce_axis((0, even), name="k")
    return _dots(x.shape[:-1], outs, packed, lambda at: taken[(*at[:-1], k)], k, [k])


def integer_conv(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    quads: bool = False,
) -> Tensor:
    """The convolution of bytes over one to three dimensions in int32, which wraps. x is padded by its zero.

    Parameters
    ----------
    x : Tensor
        int8 or uint8, (N, ..., C).
    w : Tensor
        int8 or uint8, (O, C / groups, ...).
    x_zero : Tensor or None, default None
        What x has for 0: a tensor of x's dtype without dimensions; None for 0.
    w_zero : Tensor or None, default None
        What w has for 0: a tensor of w's dtype without dimensions, or (O,); None for 0.
    stride : int or sequence of int, default 1
        As of topi.nn.conv2d, for as many dimensions.
    padding : int, sequence of int or str, default 0
        As of topi.nn.conv2d, for as many dimensions.
    dilation : int or sequence of int, default 1
        As of topi.nn.conv2d, for as many dimensions.
    groups : int, default 1
        Into how many parts the channels are cut, each of which is convolved by itself.
    quads : bool, default False
        Whether four bytes are multiplied at once as they are, uint8 by int8, without zeros and in one group: half the time where a
        target has such an instruction (vpdpbusd, usdot), more where it has none.

    Returns
    -------
    Tensor
        int32, (N, ..., O).

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes, or such as quads are not for.
    BadConvolution (TW0191)
        Data, kernel and groups that do not fit, or an unknown layout.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    _check_bytes("topi.nn.integer_conv", x, w)
    check_rank(w, x.ndim, "kernel")
    check_channels(x, x.shape[-1], w, w.shape[1], w.shape[0], groups)
    extents = x.shape[1:-1]
    windows = slide_windows(extents, list(map(tap_count, w.shape[2:])), stride, padding, dilation)
    if quads and (groups > 1 or (x.dtype, w.dtype, x_zero, w_zero) != ("uint8", "int8", None, None)):
        raise _bad(
            f"topi.nn.integer_conv cannot take four bytes at once of {tensor_text(x)}",
            x,
            "an instruction multiplies uint8 by int8 as they are, in one group",
            "leave out quads",
        )
    step = QUAD if quads else PAIR
    outer, bands = (x.shape[0], *windows.out), _Bands.of(w, groups, step)
    is_depthwise = groups > 1 and len(windows.taps) == 2 and is_const(w.shape[1], 1) and bands.outs == 1
    even = index_ceildiv(x.shape[-1], step) * step
    missing = not is_depthwise and not divides(x.shape[-1], step)

    def element(at: Sequence[Expr]) -> _Element:
        there = windows.sources(at[1:-1])
        inside = windows.guards(there, extents)
        return x[(at[0], *there, at[-1])], [*inside, *([at[-1] < x.shape[-1]] if missing else [])]

    wide = [extent + low + high for extent, low, high in zip(extents, windows.low, windows.high, strict=True)]
    shape = (x.shape[0], *wide, x.shape[-1] if is_depthwise else even)
    taken = _subtract_zero(shape, element, x_zero, step)
    if is_depthwise:
        return _convolve_channels(taken, w, w_zero, outer, windows)
    c, taps = te.reduce_axis((0, bands.terms), name="rc"), windows.axes()
    counts = list(map(te.const, windows.taps))

    def weight(_: Sequence[Expr], o: Expr, k: Expr) -> _Element:
        channel, inside = bands.weight(o, te.indexmod(k, bands.terms))
        return w[(o, channel, *unravel_index(te.indexdiv(k, bands.terms), counts))], inside

    packed = _pack_panels(w.shape[0], prod(windows.taps) * bands.terms, weight, w, w_zero, step=step)
    return _dots(
        outer,
        w.shape[0],
        packed,
        lambda at: taken[(at[0], *windows.places(at[1:-1], taps), bands.channel(at[-1], c))],
        flat_index(taps, windows.taps) * bands.terms + c,
        [*taps, c],
    )


@dataclass(frozen=True)
class _Bands:
    """Channels that the panels of weights (O, C / groups, ...) read: those of all groups of which a panel has columns. Weights are
    zeros there where a channel is of another group than the column, which costs less than columns of fewer lanes.

    each, outs: channels and columns of a group. terms: channels of a band, a multiple of step, the terms that an
    instruction takes. room: where bands begin at most."""

    groups: int
    each: Expr
    outs: int
    terms: Expr
    room: Expr
    step: int

    @staticmethod
    def of(w: Tensor, groups: int, step: int) -> _Bands:
        """Return the bands of weights. Raises BadConvolution (TW0191)."""
        columns = tap_count(w.shape[0]) if groups > 1 else PANEL
        outs = columns // groups
        ends = ((begin // outs, (min(begin + PANEL, columns) - 1) // outs) for begin in range(0, columns, PANEL))
        terms = index_ceildiv(w.shape[1] * max(last - first + 1 for first, last in ends), step) * step
        room = index_ceildiv(w.shape[1] * groups, step) * step - terms
        return _Bands(groups, w.shape[1], outs, terms, room, step)

    def channel(self, panel: Expr, term: Expr) -> Expr:
        """Return the channel of a term of the sums of a panel."""
        if self.groups == 1:
            return term
        begin = te.indexdiv(panel * PANEL, self.outs) * self.each
        return (begin if divides(self.each, self.step) and self.is_exact else te.min(begin, self.room)) + term

    @property
    def is_exact(self) -> bool:
        """Return whether each panel has columns of one group alone."""
        return self.outs % PANEL == 0

    def weight(self, column: Expr, term: Expr) -> _Element:
        """Return the place of a term's weight among those of the column's group, and the conditions under which it has one."""
        if self.groups == 1 or self.is_exact and divides(self.each, self.step):
            return term, [] if divides(self.each, self.step) else [term < self.each]
        own = self.channel(te.indexdiv(column, PANEL), term) - te.indexdiv(column, self.outs) * self.each
        return own, [own >= 0, own < self.each]


def _subtract_zero(
    shape: tuple[Any, ...], element: Callable[[Sequence[Expr]], _Element], zero: Tensor | None, step: int = PAIR
) -> Tensor:
    """x in 16 bits, less its zero; bytes as they are, where an instruction takes so many."""
    kind = "uint8" if step == QUAD else "int16"

    def value(*at: Expr) -> Expr:
        inner, inside = element(at)
        wide: Expr = inner.astype(kind)
        moved = wide - zero(*[0] * zero.ndim).astype("int16") if zero is not None else wide
        return te.if_then_else(te.all(*inside), moved, te.const(0, kind)) if inside else moved

    taken: Tensor = te.compute(shape, value, name="integer_dots.x", tag=AlgorithmTag("integer_dots.x"))
    return taken


def _pack_panels(
    outs: Any,
    depth: Any,
    element: Callable[[Sequence[Expr], Expr, Expr], _Element],
    w: Tensor,
    zero: Tensor | None,
    batch: Sequence[Any] = (),
    step: int = PAIR,
) -> Tensor:
    """w in panels, for each of a batch. element: the weight of one of these, of a column, at a term of its sum."""
    kind = "int8" if zero is None and w.dtype == "int8" else "int16"

    def value(*at: Expr) -> Expr:
        *b, p, q, i, t = at
        n = p * PANEL + i
        inner, inside = element(b, n, q * step + t)
        moved = _less_zero(inner, zero, n, kind)
        inside = [*inside, *([] if divides(outs, PANEL) else [n < outs])]
        return te.if_then_else(te.all(*inside), moved, te.const(0, kind)) if inside else moved

    packed: Tensor = te.compute(
        (*batch, index_ceildiv(outs, PANEL), te.indexdiv(depth, step), PANEL, step),
        value,
        name=f"{w.name}.packed",
        tag=AlgorithmTag("pack_dots"),
    )
    return packed


def _less_zero(weight: Expr, zero: Tensor | None, channel: Expr, kind: str) -> Expr:
    """A weight less its zero, which may be one for each channel."""
    wide: Expr = weight.astype(kind)
    if zero is None:
        return wide
    if zero.ndim:
        tensor(zero, "the zero of the weights", 1)
    many = zero.ndim and not is_const(zero.shape[0], 1)
    return wide - zero(*([channel] if many else [0] * zero.ndim)).astype(kind)


def _dots(
    outer: tuple[Any, ...],
    outs: Any,
    packed: Tensor,
    term: Callable[[Sequence[Expr]], Expr],
    number: Expr,
    summed: list[IterVar],
) -> Tensor:
    """Sums of dot products of bytes.

    term: what is multiplied at a place of the sums, whose last is the panel; number: which term of the sum it is. Where weights
    are of a batch, so are the first dimensions of the result.
    """
    batch, step = packed.ndim - 4, packed.shape[-1]

    def element(*at: Expr) -> Expr:
        weight = packed[(*at[:batch], at[-2], te.indexdiv(number, step), at[-1], te.indexmod(number, step))]
        return te.sum(term(at[:-1]).astype("int32") * weight.astype("int32"), axis=summed)

    sums = te.compute(
        (*outer, packed.shape[batch], PANEL), element, name="integer_dots.sums", tag=AlgorithmTag("integer_dots.sums")
    )

    def result(*at: Expr) -> Expr:
        return sums[(*at[:-1], at[-1] // PANEL, at[-1] % PANEL)]

    dots: Tensor = te.compute((*outer, outs), result, name="integer_dots", tag=AlgorithmTag("integer_dots"))
    return dots


def _convolve_channels(
    taken: Tensor, w: Tensor, w_zero: Tensor | None, outer: tuple[Any, ...], windows: Slides
) -> Tensor:
    """Each channel for itself, element by element along the channels."""

    def turned(*at: Expr) -> Expr:
        return _less_zero(w[(at[-1], 0, *at[:-1])], w_zero, at[-1], "int16")

    last = te.compute((*windows.taps, w.shape[0]), turned, name=f"{w.name}.turned", tag="injective")
    taps = windows.axes()

    def alone(*at: Expr) -> Expr:
        value, weight = taken[(at[0], *windows.places(at[1:-1], taps), at[-1])], last[(*taps, at[-1])]
        return te.sum(value.astype("int32") * weight.astype("int32"), axis=taps)

    depthwise: Tensor = te.compute(
        (*outer, w.shape[0]),
        alone,
        name="integer_conv",
        tag=AlgorithmTag("integer_depthwise"),
        attrs={"stride": tuple(windows.steps), "tile": 1},
    )
    return depthwise


def _check_bytes(who: str, *operands: Tensor) -> None:
    for operand in operands:
        tensor(operand, who)
        if operand.dtype not in _BYTES:
            raise _bad(
                f"{who} cannot take {tensor_text(operand)}",
                operand,
                "it multiplies int8 and uint8",
                "topi.nn.quantize makes bytes of floats",
            )


def _bad(what: str, operand: Tensor, reason: str, fix: str) -> BadQuantised:
    return BadQuantised(what, reason=reason, declared=operand.source, called=user_source(), fix=fix)
