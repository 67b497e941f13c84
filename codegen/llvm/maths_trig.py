"""sin and cos of float32.

x = n pi + r (cos: (n + 1/2) pi + r) with |r| <= pi / 2, and the sine of r, an odd polynomial. pi in three parts (W. J. Cody
and W. Waite, 1980): the first product is taken off without error, as r has no more bits than x and pi's first part. Beyond
2^17 a function out of the way multiplies by as many bits of 1 / 2 pi as matter (M. Payne and R. Hanek, 1983).
Coefficients: tests/support/fit_maths.py, whose names for them these are.
"""

from __future__ import annotations

from itertools import pairwise

from ...ir.rounding import wrap_int
from .arithmetic import select
from .maths_calls import called, where
from .maths_lanes import Lanes, rounded
from .types import int_constant, llvm_type, mangled

__all__ = ["cos", "sin"]

_PI = (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15)
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_WIDE_PI, _WIDE_HALF_PI = (3.1415926534682512, 1.2154201013012384e-10), (1.5707963267341256, 6.077100506506192e-11)
"""For float64: the products of the first parts with integers below 2^18 are exact."""
_SIN = (-0.16666658222675323, 0.00833303015679121, -0.00019806849013548344, 2.599501158329076e-06)
_FAR = 131072.0
_TURN_BITS = (0x0028BE60, 0xDB939105, 0x4A7F09D5, 0xF47D4D37, 0x7036D8A5, 0x664F10E4, 0x107F9458)
"""1 / 2 pi in binary, after 8 zeros."""


def sin(v: Lanes, x: str) -> str:
    return _sin(v, x) if v.dtype.lanes > 1 else called(v, "sin", _sin, x)


def cos(v: Lanes, x: str) -> str:
    return _cos(v, x) if v.dtype.lanes > 1 else called(v, "cos", _cos, x)


def _sin(v: Lanes, x: str) -> str:
    return where(v, v.compare(">", v.absolute(x), _FAR), _near_sin(v, x), "sin_far", _far_sin, x)


def _cos(v: Lanes, x: str) -> str:
    return where(v, v.compare(">", v.absolute(x), _FAR), _near_cos(v, x), "cos_far", _far_cos, x)


def _near_sin(v: Lanes, x: str) -> str:
    if v.options.fast:
        whole, shifted = rounded(v, x, 0.3183098861837907)
        return _signed_sine(v, _less_multiple(v, x, whole, _PI, _WIDE_PI), v.bits(shifted))
    size = v.absolute(x)  # so that the sign of a zero is none of the sum's
    whole, shifted = rounded(v, size, 0.3183098861837907)
    sine = _signed_sine(v, _less_multiple(v, size, whole, _PI, _WIDE_PI), v.bits(shifted))
    return v.flipped(sine, v.integer("and", v.bits(x), -0x80000000))


def _near_cos(v: Lanes, x: str) -> str:
    whole, shifted = rounded(v, v.mul_add(x, 0.3183098861837907, -0.5))
    r = _less_multiple(v, x, v.mul_add(whole, 2.0, 1.0), _HALF_PI, _WIDE_HALF_PI)
    return _signed_sine(v, r, v.integer("xor", v.bits(shifted), -1))


def _less_multiple(v: Lanes, x: str, n: str, parts: tuple[float, ...], wide_parts: tuple[float, ...]) -> str:
    """x - n (the sum of the parts), good to a unit in the last place however small it is."""
    if v.options.fused:
        for part in parts:
            x = v.call("fma", n, -part, x)
        return x
    wide = v.wide()
    result, factor = v.widened(x), v.widened(n)
    for part in wide_parts:
        result = wide.sub(result, wide.mul(factor, part))
    return v.narrowed(result)


def _signed_sine(v: Lanes, r: str, turns: str) -> str:
    """sin(r), |r| <= pi / 2, negated where the lowest bit of `turns` is set."""
    square = v.mul(r, r)
    sine = v.mul_add(v.mul(square, r), v.polynomial(square, _SIN), r)
    return v.flipped(sine, v.integer("shl", turns, 31))


def _far_sin(v: Lanes, x: str) -> str:
    """sin of any x, the same for those that are near."""
    sine = v.flipped(_sine_of_turn(v, v.absolute(x)), v.integer("and", v.bits(x), -0x80000000))
    return _where_far(v, x, sine, _near_sin(v, x))


def _far_cos(v: Lanes, x: str) -> str:
    return _where_far(v, x, _sine_of_turn(v, v.absolute(x), 1 << 62), _near_cos(v, x))


def _sine_of_turn(v: Lanes, size: str, ahead: int = 0) -> str:
    """The sine of an angle beyond, and of `ahead` / 2^64 turns more."""
    wide = v.wide()
    turn = _turn(v, wide, size)
    if ahead:
        turn = wide.integer("add", turn, ahead)
    halves = wide.integer("lshr", wide.integer("add", turn, 1 << 62), 63)
    rest = wide.integer("sub", turn, wide.integer("shl", halves, 63))
    r = v.narrowed(wide.mul(wide.to_float(rest), 6.283185307179586 / 2.0**64))
    return _signed_sine(v, r, v.f.op(f"trunc {llvm_type(wide.word)} {halves} to {llvm_type(v.word)}"))


def _where_far(v: Lanes, x: str, far: str, near: str) -> str:
    size = v.absolute(x)
    result = v.choose(v.compare(">", size, _FAR), far, near)
    return v.choose(v.compare("==", size, float("inf")), float("nan"), result)


def _turn(v: Lanes, wide: Lanes, size: str) -> str:
    """The fraction of a full turn that an angle above 2^17 is, times 2^64: the product of its 24 bits with those 96 of
    1 / 2 pi that are neither whole turns nor too small to matter."""
    bits = v.bits(size)
    position = v.integer("sub", v.integer("lshr", bits, 23), 142)  # of the first bit that is no whole turn
    word = v.integer("lshr", position, 5)
    odd = _is_set(v, word, 1)
    upper = _is_set(v, word, 2)
    chosen = [_word(v, odd, upper, i) for i in range(4)]
    fraction = [_joined(v, *pair, position) for pair in pairwise(chosen)]
    mantissa = v.integer("or", v.integer("and", bits, 0x7FFFFF), 0x800000)
    top, middle, low, factor = (
        v.f.op(f"zext {llvm_type(v.word)} {x} to {llvm_type(wide.word)}") for x in (*fraction, mantissa)
    )
    total = wide.integer("shl", wide.integer("mul", top, factor), 32)
    total = wide.integer("add", total, wide.integer("mul", middle, factor))
    return wide.integer("add", total, wide.integer("lshr", wide.integer("mul", low, factor), 32))


def _is_set(v: Lanes, word: str, bit: int) -> str:
    return v.f.op(f"icmp ne {llvm_type(v.word)} {v.integer('and', word, bit)}, {int_constant(0, v.word)}")


def _word(v: Lanes, odd: str, upper: str, i: int) -> str:
    """Word number i + odd + 2 upper of _TURN_BITS."""
    constants = [int_constant(wrap_int(bits, v.word.element), v.word) for bits in _TURN_BITS[i : i + 4]]
    pairs = [select(v.f, odd, constants[j + 1], constants[j], v.word) for j in (0, 2)]
    return select(v.f, upper, pairs[1], pairs[0], v.word)


def _joined(v: Lanes, left: str, right: str, shift: str) -> str:
    """The 32 bits that follow the first `shift`, modulo 32, of two words."""
    kind = llvm_type(v.word)
    return v.f.op(f"call {kind} @llvm.fshl.{mangled(v.word)}({kind} {left}, {kind} {right}, {kind} {shift})")
