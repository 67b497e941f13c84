"""Angles less whole multiples of pi or pi / 2.

Near 0 pi stands in parts (W. J. Cody and W. Waite, 1980): the first product is taken off without error, as the rest has no more bits
than x and the first part. Beyond 2^17 (float64: 2^20) x is multiplied by as many bits of 1 / 2 pi as matter (M. Payne and R. Hanek,
1983).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

from ...base.dataclass import dataclass
from ...ir.dtype import DType
from ...ir.rounding import round_float, wrap_int
from .arithmetic import select
from .maths_lanes import Lanes, product_of_two, sum_of_any, sum_of_two
from .text import FunctionText
from .types import int_constant, llvm_type, mangle_type

__all__ = ["HALF_PI", "PI", "Multiple", "far_angle", "less_multiple", "pair_less_multiple"]

# 60 hexadecimal figures, far more than any part needs
_PI = Fraction(0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E, 1 << 240)
_TURN = int(
    "28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF1586DC91B8E909374B801924BBA82746487"
    "3F877AC72C4A69CFBA208D7D4BAED1213A671C09AD17DF904E64758E60D4CE7D272117E2EF7E4A0EC7FE25FFF7816603"
    "FBCBC462D6829B47DB4D9FB3C9F2C26DD3D18FD9A797FA8B5D49EEB1FAF97C5ECF41CE7DE294A4BA9AFED7EC47E35742"
    "1580CC11BF1EDAEA",
    16,
)
"""1 / 2 pi in binary, 1216 bits."""


def _words(zeros: int, bits: int, count: int) -> list[int]:
    """1 / 2 pi after so many zeros, in words."""
    # the words are cut out of one long number
    return [_TURN >> (1216 + zeros - bits * (i + 1)) & ((1 << bits) - 1) for i in range(count)]


# float32 begins 8 bits early, so that positions are not negative
_NARROW_WORDS, _WIDE_WORDS = _words(8, 32, 7), _words(64, 64, 20)
_SHORT = 33
"""Bits of parts whose products with integers of 19 bits are exact."""


def _nearest(value: Fraction, element: DType) -> float:
    return round_float(float(value), element)  # by way of a float64, which has enough bits for either


def _short(value: Fraction) -> float:
    """A float64 of few bits, near a number and with its sign."""
    fraction, exponent = math.frexp(float(value))
    return math.ldexp(math.trunc(math.ldexp(fraction, _SHORT)), exponent - _SHORT)


def _parts(value: Fraction, *first: Callable[[Fraction], float]) -> tuple[float, ...]:
    """A number as a sum of floats: by each function what those before leave, and the rest."""
    parts: list[float] = []
    for part in first:
        parts.append(part(value))
        value -= Fraction(parts[-1])  # exact, in fractions
    return (*parts, float(value))


@dataclass(frozen=True)
class Multiple:
    """A number that is taken off a whole number of times: as a sum of float32s, of float64s of which the second has few bits, and
    of float64s of few bits."""

    narrow: tuple[float, ...]
    wide: tuple[float, ...]
    short: tuple[float, ...]

    @staticmethod
    def of(value: Fraction) -> Multiple:
        narrow, wide = (functools.partial(_nearest, element=DType(name)) for name in ("float32", "float64"))
        return Multiple(
            _parts(value, narrow, narrow), _parts(value, wide, _short), _parts(value, _short, _short, _short)
        )


PI, HALF_PI = Multiple.of(_PI), Multiple.of(_PI / 2)


def less_multiple(v: Lanes, x: str, n: str, multiple: Multiple) -> str:
    """x less n times a number, good to a unit in the last place however small it is. n: a float, an integer below 2^18 (float64:
    2^20)."""
    if not v.options.fused:  # without fused products every product has to be exact by itself
        near, low = _unfused_pair(v, x, n, multiple)
        return near if v.dtype.bits == 32 else v.add(near, low)
    for part in multiple.narrow if v.dtype.bits == 32 else multiple.wide:
        x = v.call("fma", n, -part, x)  # each step is exact but for its last bit
    return x


def pair_less_multiple(v: Lanes, x: str, n: str, multiple: Multiple) -> tuple[str, str]:
    """The same as a sum of two floats, of which the second may be the greater one where both are tiny."""
    if not v.options.fused:
        return _unfused_pair(v, x, n, multiple)
    if v.dtype.bits == 32:
        first, second, third = multiple.narrow
        product, product_lost = product_of_two(v, n, -second)  # the second part's product and what it lost
        result, lost = sum_of_any(v, v.call("fma", n, -first, x), product)
        return result, v.call("fma", n, -third, v.add(lost, product_lost))
    first, second, third = multiple.wide
    x = v.call("fma", n, -first, x)
    result = v.call("fma", n, -second, x)  # the part has few bits: where little is left of x, it is exact
    return result, v.call("fma", n, -third, v.call("fma", n, -second, v.sub(x, result)))


def _unfused_pair(v: Lanes, x: str, n: str, multiple: Multiple) -> tuple[str, str]:
    if v.dtype.bits == 32:
        wide = v.wide()
        factor, (first, *others) = v.widen(n), multiple.short  # float64 has all bits of a float32 product
        # from the largest part on
        rest = wide.sub(wide.sub(v.widen(x), wide.mul(factor, first)), wide.mul(factor, sum(others)))
        return _split(v, rest)
    lost = ""
    for part in multiple.short[:3]:
        product = v.mul(n, part)  # exact
        rest = v.sub(x, product)
        rounding = v.sub(v.sub(x, rest), product)  # what the subtraction lost
        x, lost = rest, v.add(lost, rounding) if lost else rounding
    return x, v.sub(lost, v.mul(n, multiple.short[3]))


def _split(v: Lanes, wide: str) -> tuple[str, str]:
    """A float64 as a sum of two float32s."""
    near = v.narrow(wide)
    return near, v.narrow(v.wide().sub(wide, v.widen(near)))


def far_angle(v: Lanes, size: str, *, ahead: int, quarters: bool) -> tuple[str, str, str]:
    """An angle beyond, and `ahead` quarters of a turn more, less the nearest multiple of half a turn (or of a quarter), as a sum of two
    floats, and the multiple, as an integer of which the low bits are right. Lanes that are near give any number."""
    return (
        _far_angle_of_float64(v, size, ahead, quarters) if v.dtype.bits == 64 else _far_angle(v, size, ahead, quarters)
    )


# float32: lanes side by side


def _far_angle(v: Lanes, size: str, ahead: int, quarters: bool) -> tuple[str, str, str]:
    wide, fraction = v.wide(), 62 if quarters else 63  # of 64 bits: the quarter or half turns are at the top
    turn = _turn(v, wide, size)
    if ahead:
        turn = wide.integer("add", turn, ahead << 62)  # ahead of cosine's quarter
    # half of a step added: rounding to the nearest
    multiple = wide.integer("lshr", wide.integer("add", turn, 1 << (fraction - 1)), fraction)
    rest = wide.integer("sub", turn, wide.integer("shl", multiple, fraction))
    angle = wide.mul(wide.convert_to_float(rest), 6.283185307179586 / 2.0**64)  # the fraction of 2^64 is an angle
    return *_split(v, angle), v.f.op(f"trunc {llvm_type(wide.word)} {multiple} to {llvm_type(v.word)}")


def _turn(v: Lanes, wide: Lanes, size: str) -> str:
    """The fraction of a full turn that an angle above 2^17 is, times 2^64: the product of its 24 bits with those 96 of
    1 / 2 pi that are neither whole turns nor too small to matter."""
    bits = v.bits(size)
    position = v.integer("sub", v.integer("lshr", bits, 23), 142)  # of the first bit that is no whole turn
    word = v.integer("lshr", position, 5)
    odd = v.is_set(word, 1)
    upper = v.is_set(word, 2)
    chosen = [_word(v, odd, upper, i) for i in range(4)]  # four words hold what matters, whichever bit it begins at
    fraction = [_window(v, *pair, position) for pair in pairwise(chosen)]
    mantissa = v.integer("or", v.integer("and", bits, 0x7FFFFF), 0x800000)  # the mantissa with its hidden bit
    top, middle, low, factor = (
        v.f.op(f"zext {llvm_type(v.word)} {x} to {llvm_type(wide.word)}") for x in (*fraction, mantissa)
    )
    total = wide.integer("shl", wide.integer("mul", top, factor), 32)  # each product overlaps the one before by a word
    total = wide.integer("add", total, wide.integer("mul", middle, factor))
    return wide.integer("add", total, wide.integer("lshr", wide.integer("mul", low, factor), 32))


def _word(v: Lanes, odd: str, upper: str, i: int) -> str:
    """Word number i + odd + 2 upper of 1 / 2 pi, after 8 zeros."""
    constants = [int_constant(wrap_int(bits, v.word.element), v.word) for bits in _NARROW_WORDS[i : i + 4]]
    # two selects instead of a load: all lanes stay in registers
    pairs = [select(v.f, odd, constants[j + 1], constants[j], v.word) for j in (0, 2)]
    return select(v.f, upper, pairs[1], pairs[0], v.word)


def _window(v: Lanes, left: str, right: str, shift: str) -> str:
    """The bits that follow the first `shift`, modulo their number, of two words."""
    kind = llvm_type(v.word)
    # a funnel shift takes bits across two words
    return v.f.op(f"call {kind} @llvm.fshl.{mangle_type(v.word)}({kind} {left}, {kind} {right}, {kind} {shift})")


# float64: one number after the other, in integers of 128 bits


def _far_angle_of_float64(v: Lanes, size: str, ahead: int, quarters: bool) -> tuple[str, str, str]:
    name = f"tw_far_{'quarters' if quarters else 'halves'}_{ahead}"
    # one function for each use, out of line, as such angles are rare
    v.f.module.define_once(name, lambda: _define_far_angle(v, name, ahead, 62 if quarters else 63))
    lanes = [
        size if v.dtype.lanes == 1 else v.f.op(f"extractelement {v.kind} {size}, i32 {lane}")
        for lane in range(v.dtype.lanes)
    ]
    angles = [v.f.op(f"call {_ANGLE} @{name}(double {x})") for x in lanes]
    near, low, multiple = (
        _lane_vector(v, kind, [v.f.op(f"extractvalue {_ANGLE} {angle}, {i}") for angle in angles])
        for i, kind in enumerate(("double", "double", "i64"))
    )
    return near, low, multiple


def _lane_vector(v: Lanes, kind: str, parts: list[str]) -> str:
    """A vector of the parts, or the only one."""
    if len(parts) == 1:
        return parts[0]
    result = "poison"
    for lane, part in enumerate(parts):
        result = v.f.op(f"insertelement <{len(parts)} x {kind}> {result}, {kind} {part}, i32 {lane}")
    return result


_ANGLE = "{ double, double, i64 }"
_TWO_PI = (6.283185307179586, 2.4492935982947064e-16)


def _define_far_angle(caller: Lanes, name: str, ahead: int, fraction: int) -> None:
    f = FunctionText(
        caller.f.module, f"define internal {_ANGLE} @{name}(double %x) noinline nounwind willreturn memory(none) cold"
    )
    v = Lanes(f, DType("float64"), caller.options)
    multiple, negative, high, low = _rest_of_turn(v, _wide_turn(v), ahead, fraction)
    zeros = f.op(f"call i64 @llvm.ctlz.i64(i64 {high}, i1 false)")
    # normalised: the first bit stands at the top
    top = f.op(f"call i64 @llvm.fshl.i64(i64 {high}, i64 {low}, i64 {zeros})")
    # 11 bits do not fit a float64, so that they follow by themselves
    greater, rest = (f.op(f"uitofp i64 {v.integer('and', top, mask)} to double") for mask in (-2048, 2047))
    angle, lost = product_of_two(v, greater, _TWO_PI[0])
    lost = v.add(lost, v.add(v.mul(greater, _TWO_PI[1]), v.mul(rest, _TWO_PI[0])))
    scale = v.reinterpret_bits(v.integer("shl", f.op(f"sub i64 {1023 - 64}, {zeros}"), 52))  # 2^-zeros by its bits
    scale = v.choose(negative, v.negative(scale), scale)
    result = "poison"
    for i, part in enumerate(sum_of_two(v, angle, lost)):
        result = f.op(f"insertvalue {_ANGLE} {result}, double {v.mul(part, scale)}, {i}")
    f.do(f"ret {_ANGLE} {f.op(f'insertvalue {_ANGLE} {result}, i64 {multiple}, 2')}")
    f.finish()


def _wide_turn(v: Lanes) -> str:
    """The fraction of a full turn that x is, times 2^128: the product of its 53 bits with 192 of 1 / 2 pi."""
    f = v.f
    bits = v.bits("%x")
    position = v.integer("sub", v.integer("lshr", bits, 52), 1075 - 64)  # of the first bit that is no whole turn
    # near lanes give any number, but must not read outside of the table
    position = f.op(f"call i64 @llvm.smax.i64(i64 {position}, i64 0)")
    word = v.integer("lshr", position, 6)
    table = f"[{len(_WIDE_WORDS)} x i64]"
    numbers = ", ".join(f"i64 {wrap_int(bits, v.word)}" for bits in _WIDE_WORDS)
    f.module.define_once(
        "tw_turn", lambda: f.module.add(f"@tw_turn = private unnamed_addr constant {table} [{numbers}]")
    )
    places = [
        f.op(f"getelementptr inbounds {table}, ptr @tw_turn, i64 0, i64 {v.integer('add', word, i)}") for i in range(4)
    ]
    chosen = [f.op(f"load i64, ptr {place}") for place in places]
    window = [_window(v, *pair, position) for pair in pairwise(chosen)]
    mantissa = v.integer("or", v.integer("and", bits, (1 << 52) - 1), 1 << 52)
    top, middle, low, factor = (f.op(f"zext i64 {x} to i128") for x in (*window, mantissa))
    products = [f.op(f"mul i128 {x}, {factor}") for x in (top, middle, low)]
    total = f.op(f"add i128 {f.op(f'shl i128 {products[0]}, 64')}, {products[1]}")
    return f.op(f"add i128 {total}, {f.op(f'lshr i128 {products[2]}, 64')}")


def _rest_of_turn(v: Lanes, turn: str, ahead: int, fraction: int) -> tuple[str, str, str, str]:
    """The nearest multiple of 2^(fraction + 64) to a turn; whether what is left is negative, and its size in two words."""
    f = v.f
    if ahead:
        turn = f.op(f"add i128 {turn}, {ahead << 126}")
    multiple = f.op(f"lshr i128 {f.op(f'add i128 {turn}, {1 << (fraction + 63)}')}, {fraction + 64}")
    rest = f.op(f"sub i128 {turn}, {f.op(f'shl i128 {multiple}, {fraction + 64}')}")
    negative = f.op(f"icmp slt i128 {rest}, 0")
    size = f.op(f"select i1 {negative}, i128 {f.op(f'sub i128 0, {rest}')}, i128 {rest}")
    high, low = (f.op(f"trunc i128 {x} to i64") for x in (f.op(f"lshr i128 {size}, 64"), size))
    return f.op(f"trunc i128 {multiple} to i64"), negative, high, low
