"""Dense layers of bytes and of bfloat16, and what turns numbers into bytes and back.

    w8, w_scale = topi.nn.quantize_channels(weights)             # numpy arrays: once, when a model is loaded
    packed, sums = topi.nn.prepack_int8(w8)
    p, s = te.placeholder(packed.shape, "int8"), te.placeholder(sums.shape, "int32")
    y = topi.nn.quantized_dense(x8, p, s, x_scale, w_scale, x_zero_point=3, out_scale=0.1, out_zero_point=-5)

Weights lie in panels of 16 rows, and of a panel 16 rows by 4 bytes (2 of bfloat16) at a time: what one instruction
multiplies by 4 bytes of x and adds to 16 sums.

    packed[n // 16, k // 4, n % 16, k % 4] = w[n, k], 0 behind the last row and column
    sums[n] = sum over k of w[n, k]

The instruction takes bytes of x as unsigned; signed ones are taken 128 higher, and 128 times `sums` is taken off again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import numpy

from ... import te
from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...ir.ops import index_ceildiv
from ...te.shape import integer_expr
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor, tensor_text
from ..checks import divides, tensor, weights
from .window import BadQuantised

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "dense_bf16",
    "dense_int8",
    "dequantize",
    "packed_dense_bf16",
    "packed_dense_int8",
    "prepack_bf16",
    "prepack_int8",
    "quantize",
    "quantize_channels",
    "quantized_dense",
    "requantize",
]

PANEL = 16
GREATEST_DEPTH = (1 << 31) // (255 * 128)
"""Products of bytes of which as many fit into a sum of 32 bits, whatever they are."""
Scale = float | Expr | Tensor
ZeroPoint = int | Expr | Tensor


# Numbers and bytes


def quantize(x: Tensor, scale: Scale, zero_point: ZeroPoint = 0, dtype: str = "int8") -> Tensor:
    """Bytes for floats: round(x / scale) + zero_point within the range of `dtype`. Halves are rounded to even.

    Of numbers within the range, scale * (q - zero_point) is within scale / 2 (and float32's rounding) of x.

    Parameters
    ----------
    x : Tensor
        Floats of any shape.
    scale : float, expression or Tensor
        One number, or a tensor with one for each index of x's last dimension.
    zero_point : int, expression or Tensor, default 0
        The same.
    dtype : str, default "int8"
        "int8" or "uint8".

    Returns
    -------
    Tensor
        The shape of x.

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    tensor(x, "topi.nn.quantize")
    _check_type("topi.nn.quantize", dtype)
    quantized: Tensor = te.compute(
        x.shape,
        lambda *at: _round_saturating(  # one expression for all elements, parameters looked up by channel
            x[at].astype("float32") / _element_parameter(scale, at, x), _element_parameter(zero_point, at, x), dtype
        ),
        name=f"{x.name}.quantized",
        tag="elementwise",
    )
    return quantized


def dequantize(x: Tensor, scale: Scale, zero_point: ZeroPoint = 0) -> Tensor:
    """The float32 that bytes (or sums of 32 bits) stand for: scale * (x - zero_point).

    Parameters
    ----------
    x : Tensor
        Integers of any shape.
    scale : float, expression or Tensor
        One number, or a tensor with one for each index of x's last dimension.
    zero_point : int, expression or Tensor, default 0
        The same.

    Returns
    -------
    Tensor
        float32 in the shape of x.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor.
    """
    tensor(x, "topi.nn.dequantize")
    dequantized: Tensor = te.compute(
        x.shape,
        lambda *at: (
            (x[at].astype("int32") - _element_parameter(zero_point, at, x)).astype("float32")
            * _element_parameter(scale, at, x)
        ),
        name=f"{x.name}.dequantized",
        tag="elementwise",
    )
    return dequantized


def requantize(x: Tensor, scale: Scale, zero_point: ZeroPoint = 0, dtype: str = "int8") -> Tensor:
    """Bytes for sums of 32 bits: round(x * scale) + zero_point within the range of `dtype`, computed in float32.

    The result is off by at most 1 where x * scale lies within 2**-23 of itself of a half.

    Parameters
    ----------
    x : Tensor
        int32 of any shape.
    scale : float, expression or Tensor
        What a step of x is worth in steps of the result: one number, or a tensor with one for each index of the last
        dimension.
    zero_point : int, expression or Tensor, default 0
        One, or one for each index of the last dimension.
    dtype : str, default "int8"
        "int8" or "uint8".

    Returns
    -------
    Tensor
        The shape of x.

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    tensor(x, "topi.nn.requantize")
    _check_type("topi.nn.requantize", dtype)
    if x.dtype != "int32":
        raise BadQuantised(
            f"topi.nn.requantize cannot take {tensor_text(x)}",
            reason="sums are int32",
            declared=x.source,
            called=user_source(),
            fix="topi.nn.quantize takes floats",
        )
    requantized: Tensor = te.compute(
        x.shape,
        lambda *at: _round_saturating(
            x[at].astype("float32") * _element_parameter(scale, at, x), _element_parameter(zero_point, at, x), dtype
        ),
        name=f"{x.name}.requantized",
        tag="elementwise",
    )
    return requantized


def _round_saturating(value: Expr, zero_point: Any, dtype: str) -> Expr:
    """Round in float32, in which whole numbers of this size are exact; what lies outside the range is its nearest end, and what is no
    number the upper one. Chosen by a comparison, which is one instruction where it need not keep what is no number."""
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    shift = zero_point.astype("int32") if isinstance(zero_point, Expr) else int(zero_point)
    # the ends are moved by the zero point before, so that rounding happens once
    ends = [(te.const(end, "int32") - shift).astype("float32") for end in (low, high)]
    below = te.select(value < ends[1], value, ends[1])  # a comparison chooses the end for a NaN
    return (te.nearbyint(te.select(below > ends[0], below, ends[0])).astype("int32") + shift).astype(dtype)


def _element_parameter(value: Any, at: tuple[Any, ...], x: Tensor) -> Any:
    """A scale or zero point for one element: itself, or its place in a tensor that has one for all, or for each channel."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim == 0:  # one number, as a tensor
        return value()
    channels, last = value.shape[0], x.shape[-1] if x.ndim else None
    if value.ndim == 1 and not (  # extents that are symbols are taken to fit
        isinstance(channels, IntImm) and isinstance(last, IntImm) and channels.value != last.value
    ):
        return value[at[-1]]
    raise BadQuantised(
        f"{tensor_text(value)} has no scale or zero point for each channel of {tensor_text(x)}",
        reason=f"channels run along the last dimension, {last}",
        declared=value.source,
        called=user_source(),
        fix="one number for all, or a tensor of one dimension, as long as the last one",
    )


@overload
def quantize_channels(w: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def quantize_channels(w: NDArray[Any]) -> tuple[NDArray[numpy.int8], NDArray[numpy.float32]]: ...


def quantize_channels(w: Tensor | NDArray[Any]) -> tuple[Tensor, Tensor] | tuple[NDArray[Any], NDArray[Any]]:
    """Weights (out, k) of floats as int8 (out, k) and a float32 scale for each row, its greatest magnitude over 127: each
    weight is within half a scale of its level times the scale. w: a numpy array, or a tensor, for a kernel that does it."""
    weights(w, "topi.nn.quantize_channels", 2)
    if isinstance(w, Tensor):
        k = te.reduce_axis((0, w.shape[1]), name="k")
        peak = te.compute(
            (w.shape[0],), lambda n: te.max(te.abs(w[n, k].astype("float32")), axis=k), name=f"{w.name}.peak"
        )
        scale: Tensor = te.compute(
            # at least 0: the maximum of no elements is the least float
            peak.shape,
            lambda n: te.max(peak[n], 0.0) / 127.0,
            name=f"{w.name}.scale",
            tag="elementwise",
        )
        levels: Tensor = te.compute(
            w.shape,
            lambda n, k: te.select(
                scale[n] > 0.0,
                # the divisor is never 0, even where the other side is chosen
                te.nearbyint(w[n, k].astype("float32") / te.select(scale[n] > 0.0, scale[n], te.const(1, "float32"))),
                te.const(0, "float32"),
            ).astype("int8"),
            name=f"{w.name}.levels",
            tag="elementwise",
        )
        return levels, scale
    floats = w.astype(numpy.float32)
    scales = (numpy.abs(floats).max(1, initial=0) / numpy.float32(127)).astype(numpy.float32)
    by = scales[:, None]
    # a row of zeros has scale 0, and levels 0
    return numpy.rint(numpy.divide(floats, by, out=numpy.zeros_like(floats), where=by != 0)).astype(numpy.int8), scales


# Weights in panels


@overload
def prepack_int8(w: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def prepack_int8(w: NDArray[numpy.int8]) -> tuple[NDArray[numpy.int8], NDArray[numpy.int32]]: ...


def prepack_int8(w: Tensor | NDArray[Any]) -> tuple[Tensor, Tensor] | tuple[NDArray[Any], NDArray[Any]]:
    """int8 weights (out, k) in panels, and the sums (out,) of their rows, as packed_dense_int8 takes them. w: a numpy array,
    which is packed at once, or a tensor, for a kernel that packs. Raises BadQuantised (TW0198)."""
    _check_weights(w, "int8", "topi.nn.prepack_int8")
    if not isinstance(w, Tensor):
        return _pad_panels(w, 4), w.sum(1, dtype=numpy.int32)  # at once, as the array is at hand
    k = te.reduce_axis((0, w.shape[1]), name="k")
    sums: Tensor = te.compute((w.shape[0],), lambda n: te.sum(w[n, k].astype("int32"), axis=k), name=f"{w.name}.sums")
    return _panels(w, 4), sums


@overload
def prepack_bf16(w: Tensor) -> Tensor: ...
@overload
def prepack_bf16(w: NDArray[Any]) -> NDArray[Any]: ...


def prepack_bf16(w: Tensor | NDArray[Any]) -> Tensor | NDArray[Any]:
    """bfloat16 weights (out, k) in panels, as packed_dense_bf16 takes them. w: as for prepack_int8. Raises BadQuantised
    (TW0198)."""
    _check_weights(w, "bfloat16", "topi.nn.prepack_bf16")
    return _panels(w, 2) if isinstance(w, Tensor) else _pad_panels(w, 2)


def _pad_panels(w: NDArray[Any], group: int) -> NDArray[Any]:
    outs, depth = w.shape
    panels, steps = -(-outs // PANEL), -(-depth // group)
    filled = numpy.zeros((panels * PANEL, steps * group), w.dtype)
    filled[:outs, :depth] = w
    return numpy.ascontiguousarray(filled.reshape(panels, PANEL, steps, group).transpose(0, 2, 1, 3))


def _panels(w: Tensor, group: int) -> Tensor:
    outs, depth = w.shape

    def element(p: Expr, q: Expr, i: Expr, t: Expr) -> Expr:
        n, k = p * PANEL + i, q * group + t
        inside = [
            guard
            for guard, extent, by in ((n < outs, outs, PANEL), (k < depth, depth, group))
            if not divides(extent, by)
        ]
        # no condition where everything is whole panels
        return te.if_then_else(te.all(*inside), w[n, k], te.const(0, w.dtype)) if inside else w[n, k]

    panels: Tensor = te.compute(
        (index_ceildiv(outs, PANEL), index_ceildiv(depth, group), PANEL, group),
        element,
        name=f"{w.name}.packed",
        tag=AlgorithmTag("pack_dots"),
    )
    return panels


# Products


def dense_int8(x: Tensor, w: Tensor) -> Tensor:
    """x times the transpose of w, exactly: int32 (m, out). x: int8 or uint8 (m, k); w: int8 (out, k), which is packed on each
    call; weights that stay are better packed once, by prepack_int8. Raises BadQuantised (TW0198)."""
    _check_weights(w, "int8", "topi.nn.dense_int8")
    packed, sums = prepack_int8(w)
    return packed_dense_int8(x, packed, sums)


def packed_dense_int8(x: Tensor, packed: Tensor, sums: Tensor) -> Tensor:
    """dense_int8 from the weights that prepack_int8 made of w. Sums are exact up to a depth of 65793, and deeper ones
    are refused.

    Parameters
    ----------
    x : Tensor
        int8 or uint8, (m, k).
    packed : Tensor
        Of prepack_int8.
    sums : Tensor
        Of prepack_int8, (out,).

    Returns
    -------
    Tensor
        int32, (m, out).

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    usage = "topi.nn.packed_dense_int8(x, packed, sums): (m, k) of bytes, and what prepack_int8 made of (out, k)"
    tensor(x, "topi.nn.packed_dense_int8")
    tensor(sums, "the sums of topi.nn.packed_dense_int8", 1)
    if x.dtype not in ("int8", "uint8") or x.ndim != 2:
        raise BadQuantised(
            f"topi.nn.packed_dense_int8 cannot take {tensor_text(x)} as x",
            reason="x is a matrix of bytes",
            declared=x.source,
            called=user_source(),
            fix=usage,
        )
    depth = x.shape[1]
    if isinstance(depth, IntImm) and depth.value > GREATEST_DEPTH:  # 255 * 128 times so many stay below 2**31
        raise BadQuantised(
            f"sums over {depth.value} products of bytes may leave the range of int32",
            declared=x.source,
            reason=f"up to {GREATEST_DEPTH} always fit",
            called=user_source(),
            fix="take the product in parts along k, and add these up as float32",
        )
    _check_packed(x, packed, "int8", 4, sums.shape[0], usage)
    if x.dtype == "uint8":  # unsigned bytes are what the instruction takes
        return _product(x, packed, sums.shape[0], 4, "int32", lambda value: value, lambda sum, _: sum)

    def flipped(value: Expr) -> Expr:
        return te.reinterpret("uint8", value) ^ te.const(128, "uint8")  # x ^ 128 is x + 128 as an unsigned byte

    # which is taken off again by the sums of the weights
    return _product(x, packed, sums.shape[0], 4, "int32", flipped, lambda sum, n: sum - sums[n] * 128)


def dense_bf16(x: Tensor, w: Tensor) -> Tensor:
    """x times the transpose of w in float32: (m, out). x: (m, k) and w: (out, k) of bfloat16; w is packed on each call. Errors
    as of packed_dense_bf16. Raises BadQuantised (TW0198)."""
    _check_weights(w, "bfloat16", "topi.nn.dense_bf16")
    return packed_dense_bf16(x, prepack_bf16(w), w.shape[0])


def packed_dense_bf16(x: Tensor, packed: Tensor, out_features: int | Expr) -> Tensor:
    """dense_bf16 from the weights that prepack_bf16 made of w.

    Products are exact in float32, and added up there: a result is within (k + 1) u sum |x||w| of the exact product, u =
    2**-24. With AVX512-BF16 subnormal numbers count as 0.

    Parameters
    ----------
    x : Tensor
        bfloat16, (m, k).
    packed : Tensor
        Of prepack_bf16.
    out_features : int or expression
        How many rows w has.

    Returns
    -------
    Tensor
        float32, (m, out_features).

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    usage = (
        "topi.nn.packed_dense_bf16(x, packed, out_features): (m, k) of bfloat16, and what prepack_bf16 made of (out, k)"
    )
    outs = integer_expr(out_features, "out_features")
    tensor(x, "topi.nn.packed_dense_bf16")
    if x.dtype != "bfloat16" or x.ndim != 2:
        raise BadQuantised(
            f"topi.nn.packed_dense_bf16 cannot take {tensor_text(x)} as x",
            declared=x.source,
            reason="x is a matrix of bfloat16",
            called=user_source(),
            fix=usage,
        )
    _check_packed(x, packed, "bfloat16", 2, outs, usage)
    return _product(x, packed, outs, 2, "float32", lambda value: value, lambda sum, _: sum)


def quantized_dense(
    x: Tensor,
    packed: Tensor,
    sums: Tensor,
    x_scale: Scale,
    w_scale: Scale,
    x_zero_point: ZeroPoint = 0,
    w_zero_point: ZeroPoint = 0,
    bias: Tensor | None = None,
    out_scale: Scale | None = None,
    out_zero_point: ZeroPoint = 0,
    out_dtype: str = "int8",
) -> Tensor:
    """A dense layer of bytes.

    The real result is x_scale * w_scale[n] * sum over k of (x - x_zero_point) (w[n] - w_zero_point[n]) + bias[n], which
    with out_scale is divided by it, rounded to nearest, moved by out_zero_point and kept within the range of
    `out_dtype`. The sum is exact; what follows is float32: within 4 u (|sum * scales| + |bias|) before it is rounded, u
    = 2**-24.

    Parameters
    ----------
    x : Tensor
        int8 or uint8, (m, k).
    packed : Tensor
        Of prepack_int8.
    sums : Tensor
        Of prepack_int8, (out,).
    x_scale : float, expression or Tensor
        One number.
    w_scale : float, expression or Tensor
        One number, or a tensor with one for each output.
    x_zero_point : int, expression or Tensor, default 0
        One number.
    w_zero_point : int, expression or Tensor, default 0
        One number, or a tensor with one for each output.
    bias : Tensor or None, default None
        float32, (out,), or None.
    out_scale : float, expression or Tensor or None, default None
        One number, or a tensor with one for each output; None for a result of float32.
    out_zero_point : int, expression or Tensor, default 0
        One number, or a tensor with one for each output.
    out_dtype : str, default "int8"
        "int8" or "uint8".

    Returns
    -------
    Tensor
        (m, out): bytes of `out_dtype` with out_scale, float32 without.

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    whole = packed_dense_int8(x, packed, sums)
    if bias is not None:
        tensor(bias, "the bias of topi.nn.quantized_dense", 1)
    depth = x.shape[1]
    # only a weight's zero point needs sums of x
    rows = _row_sums(x) if isinstance(w_zero_point, (Tensor, Expr)) or w_zero_point != 0 else None
    shift = _element_parameter(x_zero_point, (), x)

    def centred(i: Expr, n: Expr) -> Expr:
        total: Expr = whole[i, n]
        if isinstance(shift, Expr) or shift != 0:  # zero points of 0 leave no arithmetic
            total = total - sums[n] * shift
        if rows is not None:
            # (x - a)(w - b) multiplied out, sums of each at hand
            total = total - (rows[i] - depth.astype("int32") * shift) * _element_parameter(w_zero_point, (i, n), whole)
        return total

    def element(i: Expr, n: Expr) -> Expr:
        value = centred(i, n).astype("float32") * (
            _element_parameter(x_scale, (), x) * _element_parameter(w_scale, (i, n), whole)
        )
        if bias is not None:
            value = value + bias[n].astype("float32")
        if out_scale is None:
            return value
        _check_type("topi.nn.quantized_dense", out_dtype)
        return _round_saturating(
            value / _element_parameter(out_scale, (i, n), whole),
            _element_parameter(out_zero_point, (i, n), whole),
            out_dtype,
        )

    y: Tensor = te.compute(whole.shape, element, name="quantized_dense", tag="broadcast")
    return y


def _row_sums(x: Tensor) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]), name="k")
    sums: Tensor = te.compute((x.shape[0],), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name=f"{x.name}.sums")
    return sums


def _product(
    x: Tensor,
    packed: Tensor,
    outs: Expr,
    group: int,
    kind: str,
    taken: Callable[[Expr], Expr],
    finished: Callable[[Expr, Expr], Expr],
) -> Tensor:
    """Product of bytes in sums of dot products.

    taken: what is multiplied, of an element of x; finished: a sum, of a row of weights, as it is stored.
    """
    depth = x.shape[1]
    panels, steps = packed.shape[:2]

    def row(i: Expr, k: Expr) -> Expr:
        value = taken(x[i, k])
        # behind the last column x is 0, whatever the weights are
        return value if divides(depth, group) else te.if_then_else(k < depth, value, te.const(0, value.dtype))

    wide = te.compute((x.shape[0], steps * group), row, name="dense_dots.x", tag=AlgorithmTag("dense_dots.x"))
    k = te.reduce_axis((0, steps * group), name="k")
    sums = te.compute(
        (x.shape[0], panels, PANEL),
        lambda i, p, lane: te.sum(
            wide[i, k].astype(kind) * packed[p, k // group, lane, k % group].astype(kind), axis=k
        ),
        name="dense_dots.sums",
        tag=AlgorithmTag("dense_dots.sums"),
    )
    dots: Tensor = te.compute(
        (x.shape[0], outs),
        lambda i, n: finished(sums[i, n // PANEL, n % PANEL], n),
        name="dense_dots",
        tag=AlgorithmTag("dense_dots"),
    )
    return dots


def _check_type(who: str, dtype: str) -> None:
    if dtype not in ("int8", "uint8"):
        raise BadQuantised(
            f"{who} makes bytes", reason=f"got dtype {dtype!r}", called=user_source(), fix='"int8" or "uint8"'
        )


def _check_weights(w: Any, kind: str, who: str) -> None:
    weights(w, who, 2)
    if str(w.dtype) != kind:
        raise BadQuantised(
            f"{who} takes a matrix of {kind}",
            reason=f"got {w.dtype}",
            called=user_source(),
            fix=f"weights (out, k) of {kind}",
        )


def _check_packed(x: Tensor, packed: Tensor, kind: str, group: int, outs: Expr, usage: str) -> None:
    inner = [extent.value for extent in packed.shape[2:] if isinstance(extent, IntImm)]
    reason = None
    if packed.dtype != kind or inner != [PANEL, group]:
        reason = f"packed weights are {kind}[panels, steps, {PANEL}, {group}]"
    else:
        for name, need, there in (
            ("panels", index_ceildiv(outs, PANEL), packed.shape[0]),
            ("steps", index_ceildiv(x.shape[1], group), packed.shape[1]),
        ):
            if isinstance(need, IntImm) and isinstance(there, IntImm) and need.value != there.value:
                reason = f"{outs} features of depth {x.shape[1]} take {need} {name}, and there are {there}"
    if reason is not None:
        raise BadQuantised(
            f"{tensor_text(packed)} are not weights for {tensor_text(x)}",
            reason=reason,
            declared=packed.source,
            called=user_source(),
            fix=usage,
        )
