"""Dense layers whose weights alone are stored in 4 or 8 bits, for models that are read from memory once for each word.

    packed, scales = topi.nn.quantize_groups(weights, bits=4)        # numpy arrays in and out: once, when a model is loaded
    p, s = te.placeholder(packed.shape, "uint8"), te.placeholder(scales.shape, "float16")
    y = topi.nn.weight_only_dense(x, p, s, out_features, bits=4)     # x: (batch, k), batch 1 to 4

Weights are whole numbers times a scale of their own for each GROUP of them along k. They lie in panels of 16 rows, so that
16 sums run side by side; in a panel, of a group, 16 rows by 4 bytes at a time (what one instruction multiplies by 4
numbers and adds up):

    bits 8: packed[n // 16, k // 32, k % 32 // 4, n % 16, k % 4] = w[n, k] + 128
    bits 4: packed[n // 16, k // 32, k % 16 // 4, n % 16, k % 4] = w[n, k] + 8, those of k % 32 >= 16 in the upper four bits
    scales[n // 16, k // 32, n % 16]: float16
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy

from ...base.arguments import is_array
from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...ir.ops import index_ceildiv
from ...te import polymorphic as te
from ...te.shape import integer_expr
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor, tensor_text
from ..checks import weights
from .window import BadQuantised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...te.compute import Element

__all__ = ["dequantize_groups", "quantize_groups", "weight_only_dense"]

GROUP = 32
"""Weights along k that share a scale."""
PANEL, QUAD = 16, 4
_ZERO = {4: 8, 8: 128}
_GREATEST = {4: 7, 8: 127}


@overload
def quantize_groups(w: Tensor, bits: int = 4) -> tuple[Tensor, Tensor]: ...
@overload
def quantize_groups(w: NDArray[Any], bits: int = 4) -> tuple[NDArray[numpy.uint8], NDArray[numpy.float16]]: ...


def quantize_groups(
    w: Tensor | NDArray[Any], bits: int = 4
) -> tuple[Tensor, Tensor] | tuple[NDArray[Any], NDArray[Any]]:
    """Weights (out, k) of floats as weight_only_dense takes them: bytes in panels, and scales.

    w: a numpy array, which is quantised at once, or a tensor, for a kernel that does it. bits: 4 or 8. A group's scale is its
    greatest magnitude over 7 (bits 4) or 127, rounded to float16, and weights are rounded to the nearest multiple: each is off
    by at most 0.5005 scales, where the scale is no subnormal float16. What is missing of a panel or a group is filled up with
    zeros. Raises BadQuantised (TW0198), BadOperand (TW0181) for anything but two dimensions.
    """
    _check_bits(bits, "topi.nn.quantize_groups")
    weights(w, "topi.nn.quantize_groups", 2)
    return _declare_weights(w, bits) if isinstance(w, Tensor) else _quantize(w, bits)


def _quantize(w: NDArray[Any], bits: int) -> tuple[NDArray[Any], NDArray[Any]]:
    outs, depth = w.shape
    panels, groups = -(-outs // PANEL), -(-depth // GROUP)
    filled = numpy.zeros((panels * PANEL, groups * GROUP), numpy.float32)
    filled[:outs, :depth] = w
    blocks = filled.reshape(panels, PANEL, groups, GROUP)
    scales = (numpy.abs(blocks).max(-1, initial=0) / numpy.float32(_GREATEST[bits])).astype(numpy.float16)
    by = scales.astype(numpy.float32)[..., None]
    whole = numpy.divide(blocks, by, out=numpy.zeros_like(blocks), where=by != 0)
    levels = numpy.clip(numpy.rint(whole), -_ZERO[bits], _GREATEST[bits]).astype(numpy.int16) + _ZERO[bits]
    quads = levels.astype(numpy.uint8).reshape(panels, PANEL, groups, GROUP // QUAD, QUAD).transpose(0, 2, 3, 1, 4)
    packed = quads if bits == 8 else quads[:, :, :4] | quads[:, :, 4:] << 4
    return numpy.ascontiguousarray(packed), numpy.ascontiguousarray(scales.transpose(0, 2, 1))


def _declare_weights(w: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    outs, depth = w.shape
    panels, groups = index_ceildiv(outs, PANEL), index_ceildiv(depth, GROUP)

    def weight(n: Expr, k: Expr) -> Expr:
        return te.if_then_else(te.all(n < outs, k < depth), w[n, k].astype("float32"), te.const(0, "float32"))

    r = te.reduce_axis((0, GROUP), name="r")
    peak = te.compute(
        (panels, groups, PANEL),
        lambda p, g, i: te.max(te.abs(weight(p * PANEL + i, g * GROUP + r)), axis=r),
        name=f"{w.name}.peak",
    )
    scales: Tensor = te.compute(
        peak.shape,
        lambda *at: (te.max(peak[at], te.const(0, "float32")) / float(_GREATEST[bits])).astype("float16"),
        name=f"{w.name}.scales",
        tag="elementwise",
    )

    def level(p: Expr, g: Expr, q: Expr, i: Expr, t: Expr) -> Expr:
        by = scales[p, g, i].astype("float32")
        whole = te.nearbyint(
            weight(p * PANEL + i, g * GROUP + q * QUAD + t) / te.select(by == 0, te.const(1, "float32"), by)
        )
        whole = te.select(by == 0, te.const(0, "float32"), whole)
        return (te.max(te.min(whole, float(_GREATEST[bits])), float(-_ZERO[bits])) + float(_ZERO[bits])).astype("uint8")

    def element(p: Expr, g: Expr, q: Expr, i: Expr, t: Expr) -> Expr:
        return level(p, g, q, i, t) if bits == 8 else level(p, g, q, i, t) | level(p, g, q + 4, i, t) << 4

    packed: Tensor = te.compute((panels, groups, bits, PANEL, QUAD), element, name=f"{w.name}.packed", tag="injective")
    return packed, scales


def dequantize_groups(
    packed: NDArray[Any],
    scales: NDArray[Any],
    out_features: int,
    depth: int,
    bits: int = 4,
) -> NDArray[numpy.float32]:
    """The weights that quantize_groups stands for: exactly level times scale.

    Parameters
    ----------
    packed : numpy array
        Of quantize_groups.
    scales : numpy array
        Of quantize_groups.
    out_features : int
        How many rows the weights have.
    depth : int
        How many columns they have.
    bits : int, default 4
        Of a level, 4 or 8.

    Returns
    -------
    numpy array
        float32, (out_features, depth).

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    _check_bits(bits, "topi.nn.dequantize_groups")
    if not is_array(packed):
        raise BadQuantised(
            "topi.nn.dequantize_groups takes numpy arrays",
            reason=f"got {packed!r}"[:200],
            called=user_source(),
            fix="pass what quantize_groups made of an array",
        )
    if packed.dtype != numpy.uint8 or packed.ndim != 5 or scales.shape != (*packed.shape[:2], PANEL):
        raise BadQuantised(
            f"topi.nn.dequantize_groups cannot take {packed.dtype} of shape {packed.shape}, and scales of shape {scales.shape}",
            reason="they are what quantize_groups gives for an array",
            called=user_source(),
            fix="pass both as they come from it",
        )
    panels, groups = packed.shape[:2]
    quads = packed if bits == 8 else numpy.concatenate([packed & 15, packed >> 4], axis=2)
    levels = quads.astype(numpy.float32) - _ZERO[bits]
    blocks = levels.transpose(0, 3, 1, 2, 4).reshape(panels, PANEL, groups, GROUP)
    whole = blocks * scales.astype(numpy.float32).transpose(0, 2, 1)[..., None]
    return numpy.ascontiguousarray(whole.reshape(panels * PANEL, groups * GROUP)[:out_features, :depth])


def weight_only_dense(
    x: Tensor,
    packed: Tensor,
    scales: Tensor,
    out_features: int | Expr,
    bits: int = 4,
    bias: Tensor | None = None,
) -> Tensor:
    """x times the transpose of the weights that quantize_groups packed, plus bias.

    Meant for a batch of 1 to 4, where reading the weights is what takes the time; a larger one reads them again for
    every 4. x is rounded to 8 bits, each GROUP of it by its own scale, greatest magnitude over 127, so that products
    are exact in whole numbers: a result is within sum over groups of (peak of the group / 253) sum |w| of the exact
    product with the packed weights, plus float32's rounding of the sum over groups, (k / 32 + 6) u times the sum of
    |x||w|, u = 2**-24; of random numbers it is off by about half a percent of a typical result.

    Parameters
    ----------
    x : Tensor
        Floats, (batch, k).
    packed : Tensor
        Of quantize_groups, for weights (out_features, k).
    scales : Tensor
        Of quantize_groups.
    out_features : int or expression
        How many rows the weights have.
    bits : int, default 4
        Of a level, 4 or 8.
    bias : Tensor or None, default None
        (out_features,), or None.

    Returns
    -------
    Tensor
        (batch, out_features) in the dtype of x.

    Raises
    ------
    BadQuantised (TW0198)
        Operands of other dtypes or shapes.
    """
    usage = "topi.nn.weight_only_dense(x, packed, scales, out_features): (batch, k), and quantize_groups' of (out_features, k)"
    outs = integer_expr(out_features, "out_features")
    _check_bits(bits, "topi.nn.weight_only_dense")
    _check_packed(x, packed, scales, outs, bits, usage)
    y = _product(x, packed, scales, outs, bits)
    if bias is None and x.dtype == "float32":
        return y
    if bias is not None and bias.ndim != 1:
        raise BadQuantised(
            f"topi.nn.weight_only_dense cannot add {tensor_text(bias)}",
            reason="a bias has one dimension",
            declared=bias.source,
            called=user_source(),
            fix="bias: (out_features,)",
        )
    out: Tensor = te.compute(
        y.shape,
        lambda i, j: (y[i, j] + bias[j].astype("float32") if bias is not None else y[i, j]).astype(x.dtype),
        name="weight_only_dense.out",
        tag="broadcast",
    )
    return out


def _product(x: Tensor, packed: Tensor, scales: Tensor, outs: Expr, bits: int) -> Tensor:
    batch = x.shape[0]
    panels, groups = packed.shape[:2]
    unit, rounded, shift = _round_activations(x, groups, bits)

    def level(p: Expr, g: Expr, q: Expr, i: Expr, t: Expr) -> Expr:
        if bits == 8:
            return packed[p, g, q, i, t]
        return packed[p, g, q % 4, i, t] >> (q // 4 * 4).astype("uint8") & te.const(15, "uint8")

    levels = _part((panels, groups, GROUP // QUAD, PANEL, QUAD), level, "levels")
    r = te.reduce_axis((0, GROUP), name="r")
    sums = _part(
        (panels, groups, batch, PANEL),
        lambda p, g, b, i: te.sum(
            rounded[g, b, r].astype("int32") * levels[p, g, r // QUAD, i, r % QUAD].astype("int32"), axis=r
        ),
        "sums",
    )
    g = te.reduce_axis((0, groups), name="g")

    def element(b: Expr, n: Expr) -> Expr:
        p, i = n // PANEL, n % PANEL
        whole = (sums[p, g, b, i] - shift[g, b]).astype("float32")
        return te.sum(whole * (unit[g, b] * scales[p, g, i].astype("float32")), axis=g)

    y: Tensor = te.compute((batch, outs), element, name="weight_only_dense", tag=AlgorithmTag("weight_only_dense"))
    return y


def _round_activations(x: Tensor, groups: Expr, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """x in groups: what one step of theirs is worth, the steps from -127 to 127, and what the weights' zero adds to sums."""
    batch, depth = x.shape
    whole_groups = isinstance(depth, IntImm) and depth.value % GROUP == 0

    def value(g: Expr, b: Expr, r: Expr) -> Expr:
        k = g * GROUP + r
        inside: Expr = x[b, k].astype("float32")
        return inside if whole_groups else te.if_then_else(k < depth, inside, te.const(0, "float32"))

    r, q = (te.reduce_axis((0, GROUP), name=name) for name in "rq")
    peak = _part((groups, batch), lambda g, b: te.max(te.abs(value(g, b, r)), axis=r), "peak")
    unit = _part((groups, batch), lambda g, b: peak[g, b] * (1 / 127), "unit")

    def step(g: Expr, b: Expr, k: Expr) -> Expr:
        top = peak[g, b]
        # Of a group without anything but tiny numbers, 127 / top is no number.
        factor = te.select(top > 1e-30, te.const(127, "float32") / top, te.const(0, "float32"))
        return te.nearbyint(value(g, b, k) * factor).astype("int8")

    rounded = _part((groups, batch, GROUP), step, "rounded")
    shift = _part((groups, batch), lambda g, b: te.sum(rounded[g, b, q].astype("int32") * _ZERO[bits], axis=q), "shift")
    return unit, rounded, shift


def _part(shape: tuple[Any, ...], element: Element, name: str) -> Tensor:
    return te.compute(shape, element, name=f"weight_only_dense.{name}", tag=AlgorithmTag(f"weight_only_dense.{name}"))


def _check_bits(bits: int, who: str) -> None:
    if bits not in _ZERO:
        raise BadQuantised(
            f"{who} stores weights in 4 or 8 bits",
            reason=f"got bits={bits!r}",
            called=user_source(),
            fix="bits=4 or bits=8",
        )


def _check_packed(x: Tensor, packed: Tensor, scales: Tensor, outs: Expr, bits: int, usage: str) -> None:
    def bad(reason: str) -> BadQuantised:
        return BadQuantised(
            f"topi.nn.weight_only_dense cannot take {tensor_text(packed)} and {tensor_text(scales)}",
            reason=reason,
            declared=packed.source,
            called=user_source(),
            fix=usage,
        )

    if x.ndim != 2 or not x.dtype.is_float:
        raise bad(f"x is {tensor_text(x)}, and (batch, k) of floats is asked for")
    inner = [extent.value for extent in packed.shape[2:] if isinstance(extent, IntImm)]
    if packed.dtype != "uint8" or inner != [bits, PANEL, QUAD]:
        raise bad(f"packed weights of {bits} bits are uint8[panels, groups, {bits}, {PANEL}, {QUAD}]")
    last = scales.shape[-1] if scales.ndim == 3 else None
    if scales.dtype != "float16" or not (isinstance(last, IntImm) and last.value == PANEL):
        raise bad(f"scales are float16[panels, groups, {PANEL}]")
    wanted = (index_ceildiv(outs, PANEL), index_ceildiv(x.shape[1], GROUP))
    for what, operand in (("packed weights", packed), ("scales", scales)):
        for name, need, there in zip(("panels", "groups"), wanted, operand.shape, strict=False):
            if isinstance(need, IntImm) and isinstance(there, IntImm) and need.value != there.value:
                raise bad(f"{outs} features of depth {x.shape[1]} take {need} {name}, and the {what} have {there}")
