"""Floats of one width as the mathematical functions use them: float32 or float64, one or as many as a vector has."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...base.dataclass import dataclass
from ...ir.dtype import BOOL, FLOAT64, INT32, INT64, DType
from ...ir.rounding import round_float, wrap_int
from .arithmetic import compare, select
from .maths_options import MathsOptions
from .maths_polynomials import POLYNOMIALS
from .text import FunctionText
from .types import float_constant, int_constant, llvm_type, mangle_type, shuffle_mask

__all__ = [
    "Lanes",
    "divided_by_power",
    "exponent_and_mantissa",
    "concatenate",
    "take_lanes",
    "power_of_two_times",
    "product_of_two",
    "rounded",
    "sum_of_any",
    "sum_of_two",
]


@dataclass(frozen=True)
class Lanes:
    """Operations of one dtype in the function f. Constants are written where they are used, rounded to the dtype."""

    f: FunctionText
    dtype: DType
    options: MathsOptions

    @property
    def word(self) -> DType:
        """The integers of the same size."""
        return (INT32 if self.dtype.bits == 32 else INT64).with_lanes(self.dtype.lanes)

    @property
    def kind(self) -> str:
        return llvm_type(self.dtype)

    @property
    def mantissa_bits(self) -> int:
        return 23 if self.dtype.bits == 32 else 52

    @property
    def bias(self) -> int:
        """Bias of exponents."""
        return 127 if self.dtype.bits == 32 else 1023

    @property
    def rounding(self) -> float:
        """1.5 * 2^23 (2^52): adding it rounds to an integer, which then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa_bits  # 1.5, so that negative numbers keep the exponent too

    @property
    def sign_bit(self) -> int:
        return -1 << (self.dtype.bits - 1)

    def pick(self, narrow: float, wide: float) -> float:
        """A constant that float32 and float64 have of their own."""
        return narrow if self.dtype.bits == 32 else wide

    def coefficients(self, name: str) -> tuple[float, ...]:
        """The coefficients of that name for this dtype and these options."""
        if self.dtype.bits == 64:
            return POLYNOMIALS[f"{name}_64"]  # float64 has one set only
        # polynomials of machines that fuse may be shorter
        kinds = ("FAST",) if self.options.fast else () if self.options.fused else ("UNFUSED",)
        return next(
            (POLYNOMIALS[f"{name}_{kind}"] for kind in kinds if f"{name}_{kind}" in POLYNOMIALS), POLYNOMIALS[name]
        )

    def text(self, value: str | float) -> str:
        if isinstance(value, str):
            return value
        return float_constant(round_float(value, self.dtype.element), self.dtype)

    def _binary(self, operation: str, a: str | float, b: str | float) -> str:
        return self.f.op(f"{operation} {self.kind} {self.text(a)}, {self.text(b)}")

    def add(self, a: str | float, b: str | float) -> str:
        return self._binary("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        return self._binary("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        return self._binary("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        return self._binary("fdiv", a, b)

    def call(self, name: str, *operands: str | float) -> str:
        """An intrinsic of LLVM's that is overloaded by the dtype."""
        passed = ", ".join(f"{self.kind} {self.text(x)}" for x in operands)
        return self.f.op(f"call {self.kind} @llvm.{name}.{mangle_type(self.dtype)}({passed})")

    def mul_add(self, a: str | float, b: str | float, c: str | float) -> str:
        """a * b + c, fused where that is an instruction: LLVM, left to choose, would not choose alike in lanes and alone."""
        # one way for all lanes and tails, whatever LLVM would prefer
        return self.call("fma", a, b, c) if self.options.fused else self.add(self.mul(a, b), c)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Evaluate a polynomial by Horner's rule; the constant term first."""
        result: str | float = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.mul_add(result, x, coefficient)  # Horner: one fused operation each
        return self.text(result)

    def negative(self, x: str) -> str:
        return self.f.op(f"fneg {self.kind} {x}")

    def split_polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Evaluate a polynomial by its even and its odd powers, side by side: one operation more, half the time to wait."""
        square = self.mul(x, x)
        # two shorter chains, which the processor runs at the same time
        return self.mul_add(self.polynomial(square, coefficients[1::2]), x, self.polynomial(square, coefficients[::2]))

    def absolute(self, x: str) -> str:
        return self.call("fabs", x)

    def copy_sign(self, x: str, sign: str) -> str:
        return self.call("copysign", x, sign)

    def choose(self, condition: str, a: str | float, b: str | float) -> str:
        return select(self.f, condition, self.text(a), self.text(b), self.dtype)

    def compare(self, symbol: str, a: str, b: str | float) -> str:
        return compare(self.f, symbol, a, self.text(b), self.dtype)

    def both(self, operation: str, a: str, b: str) -> str:
        """Conditions joined by "and" or "or"."""
        return self.f.op(f"{operation} {llvm_type(BOOL.with_lanes(self.dtype.lanes))} {a}, {b}")

    def clamp(self, x: str, low: float, high: float) -> str:
        """x within [low, high]; a NaN stays."""
        # the comparison is false for a NaN, which then stays
        return self.cap(self.choose(self.compare("<", x, low), low, x), high)

    def cap(self, x: str, high: float) -> str:
        """The lesser of x and `high`; a NaN stays."""
        return self.choose(self.compare(">", x, high), high, x)

    # The bits

    def bits(self, x: str) -> str:
        return self.f.op(f"bitcast {self.kind} {x} to {llvm_type(self.word)}")

    def reinterpret_bits(self, x: str) -> str:
        return self.f.op(f"bitcast {llvm_type(self.word)} {x} to {self.kind}")

    def integer(self, operation: str, a: str | int, b: str | int) -> str:
        left, right = (
            x if isinstance(x, str) else int_constant(wrap_int(x, self.word.element), self.word) for x in (a, b)
        )
        return self.f.op(f"{operation} {llvm_type(self.word)} {left}, {right}")

    def is_set(self, word: str, bit: int) -> str:
        """Return whether a word has one of these bits."""
        return self.f.op(
            f"icmp ne {llvm_type(self.word)} {self.integer('and', word, bit)}, {int_constant(0, self.word)}"
        )

    def is_negative(self, x: str) -> str:
        """Return whether the sign is set, that of a zero too."""
        return self.f.op(f"icmp slt {llvm_type(self.word)} {self.bits(x)}, {int_constant(0, self.word)}")

    def convert_to_float(self, x: str) -> str:
        return self.f.op(f"sitofp {llvm_type(self.word)} {x} to {self.kind}")

    def flip_bits(self, x: str, bits: str) -> str:
        """x with other bits where those of `bits` are set."""
        return self.reinterpret_bits(self.integer("xor", self.bits(x), bits))

    def power_of_two(self, n: str) -> str:
        """2^n of integers n from -126 to 127 (float64: -1022 to 1023)."""
        # the exponent's bits alone
        return self.reinterpret_bits(self.integer("shl", self.integer("add", n, self.bias), self.mantissa_bits))

    def power_of_shifted(self, shifted: str, times: int = 0) -> str:
        """2^(n + times), n with `rounding` added. The float has n in its low bits, above them what the shift drops."""
        exponent = self.integer("shl", self.bits(shifted), self.mantissa_bits)  # what is above n is shifted out
        return self.reinterpret_bits(self.integer("add", exponent, (self.bias + times) << self.mantissa_bits))

    # Both widths

    def wide(self) -> Lanes:
        """Return as many float64s."""
        return Lanes(self.f, FLOAT64.with_lanes(self.dtype.lanes), self.options)

    def widen(self, x: str) -> str:
        return self.f.op(f"fpext {self.kind} {x} to {self.wide().kind}")

    def narrow(self, x: str) -> str:
        """A float64 of as many lanes, rounded to this dtype."""
        return self.f.op(f"fptrunc {self.wide().kind} {x} to {self.kind}")

    # AVX-512

    @property
    def has_avx512(self) -> bool:
        return self.options.avx512 and self.dtype.lanes * self.dtype.bits in (128, 256, 512)

    def avx512(self, name: str, *operands: str) -> str:
        """An AVX-512 instruction under a mask of all lanes, with the current rounding where it rounds.

        name: without its suffix. operands: typed, those before the pass-through; an immediate stands among them.
        """
        lanes, bits = self.dtype.lanes, self.dtype.lanes * self.dtype.bits
        mask = f"i{max(lanes, 8)} -1"  # masks of fewer than 8 lanes are 8 bits
        rounding = ", i32 4" if bits == 512 and name != "rsqrt14" else ""  # 4: the current mode; rsqrt14 rounds nothing
        return self.f.op(
            f"call {self.kind} @llvm.x86.avx512.{name}.{'ps' if self.dtype.bits == 32 else 'pd'}.{bits}"
            f"({', '.join(operands)}, {self.kind} {self.text(0.0)}, {mask}{rounding})"
        )

    def scale(self, x: str, n: str) -> str:
        """x 2^n, one instruction of AVX-512."""
        return self.avx512("mask.scalef", f"{self.kind} {x}", f"{self.kind} {n}")


def take_lanes(f: FunctionText, x: str, dtype: DType, lanes: range, missing: str) -> str:
    """Some of the lanes of x; those beyond its end are `missing`, a constant of its type."""
    kind, chosen = llvm_type(dtype), [min(lane, dtype.lanes) for lane in lanes]  # index `lanes` takes the constant
    return f.op(f"shufflevector {kind} {x}, {kind} {missing}, {shuffle_mask(chosen)}")


def concatenate(f: FunctionText, parts: list[str], dtype: DType, whole: DType) -> str:
    """Vectors of `dtype` one after the other, of which `whole` takes as many lanes as it has."""
    while len(parts) > 1:  # in pairs; a part without a neighbour is joined with lanes of any value
        kind, size = llvm_type(dtype), 2 * dtype.lanes
        padded = [*parts, "poison"] if len(parts) % 2 else parts
        parts = [
            f.op(f"shufflevector {kind} {a}, {kind} {b}, {shuffle_mask(range(size))}")
            for a, b in zip(padded[::2], padded[1::2], strict=True)
        ]
        dtype = dtype.with_lanes(size)
    if dtype == whole:
        return parts[0]
    kind = llvm_type(dtype)
    return f.op(f"shufflevector {kind} {parts[0]}, {kind} poison, {shuffle_mask(range(whole.lanes))}")


def rounded(v: Lanes, x: str, times: float = 1.0) -> tuple[str, str]:
    """The integer nearest to `times` x, below 2^22 (2^51), as a float, and with `rounding` added: its low bits are the integer's. It
    is the nearest one in each of the modes of rounding that a caller may have set."""
    product = x if times == 1.0 else v.mul(x, times)
    if v.options.rounds:
        whole = v.call("roundeven", product)
    else:  # the shift rounds as the mode says, and is then put right
        whole = v.sub(v.add(product, v.rounding), v.rounding)  # in other modes the next one above, or below
        rest = v.sub(product, whole)
        step = v.choose(v.compare(">", rest, 0.5), 1.0, v.choose(v.compare("<", rest, -0.5), -1.0, 0.0))
        whole = v.add(whole, step)
    return whole, v.add(whole, v.rounding)  # n's bits, for power_of_shifted


def power_of_two_times(v: Lanes, x: str, whole: str, shifted: str) -> str:
    """x 2^n with one rounding, for x near 1 and n from -252 to 254 (-2044 to 2046), given as `rounded` gives it."""
    if v.has_avx512:
        return v.scale(x, whole)
    n = v.integer("sub", v.bits(shifted), _float_bits(v.rounding, v.dtype.bits))  # n as an integer, from the low bits
    half = v.integer("ashr", n, 1)  # in two steps: neither leaves the range where the first is exact
    return v.mul(v.mul(x, v.power_of_two(half)), v.power_of_two(v.integer("sub", n, half)))


def divided_by_power(v: Lanes, x: str, k: str) -> str:
    """x 2^-k of a small x, for k from -30 on; where the power would be subnormal what is left of it does not matter."""
    if v.has_avx512:
        # scalef takes any power; more than 30 does not matter
        return v.scale(x, v.negative(v.choose(v.compare("<", k, -30.0), -30.0, k)))
    _, shifted = rounded(v, v.clamp(k, -30.0, v.bias - 1.0), -1.0)
    return v.mul(x, v.power_of_shifted(shifted))


def exponent_and_mantissa(v: Lanes, x: str) -> tuple[str, str]:
    """k and m of x = 2^k m with m in [3/4, 3/2), k as a float, for x >= 0 whose k is infinite for infinities and 0 (minus),
    and NaN for what is less or a NaN."""
    if v.has_avx512:
        m = v.avx512("mask.getmant", f"{v.kind} {x}", "i32 11")  # [3/4, 3/2); NaN for less than 0
        return v.sub(*(v.avx512("mask.getexp", f"{v.kind} {y}") for y in (x, m))), m
    small = v.compare("<", x, 2.0 ** (1 - v.bias))  # subnormals have no exponent of their own
    bits = v.bits(v.choose(small, v.mul(x, 2.0**v.mantissa_bits), x))
    if v.dtype.bits == 32:
        # 3/4: mantissas from there on belong to the next exponent
        exponent = v.integer("ashr", v.integer("sub", bits, 0x3F400000), 23)
        m = v.reinterpret_bits(v.integer("sub", bits, v.integer("shl", exponent, 23)))
        k = v.sub(v.convert_to_float(exponent), v.choose(small, 23.0, 0.0))
    else:  # few machines shift 64 bits with their sign, or make floats of them
        above = v.integer("lshr", v.integer("add", bits, (0x400 << 52) - 0x3FE8000000000000), 52)
        m = v.reinterpret_bits(v.integer("sub", bits, v.integer("add", v.integer("shl", above, 52), -0x400 << 52)))
        # an integer below 2^52 or'ed into 2^52 is a float
        k = v.sub(v.reinterpret_bits(v.integer("or", above, _float_bits(2.0**52, 64))), 2.0**52 + 0x400)
        k = v.sub(k, v.choose(small, 52.0, 0.0))
    k = v.choose(v.compare("<", x, float("inf")), k, x)  # infinity and NaN pass through
    k = v.choose(v.compare("==", x, 0.0), -float("inf"), k)
    return v.choose(v.compare("<", x, 0.0), float("nan"), k), m


def _float_bits(value: float, bits: int) -> int:
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", value), "little")


# Pairs of floats


def sum_of_two(v: Lanes, a: str | float, b: str) -> tuple[str, str]:
    """a + b and what its rounding lost, for |a| >= |b| or a = 0 (T. J. Dekker, 1971)."""
    total = v.add(a, b)
    return total, v.sub(b, v.sub(total, a))  # exact for |a| >= |b|


def sum_of_any(v: Lanes, a: str, b: str) -> tuple[str, str]:
    """a + b and what its rounding lost (D. Knuth's sum of two)."""
    total = v.add(a, b)
    taken = v.sub(total, a)
    return total, v.add(v.sub(a, v.sub(total, taken)), v.sub(b, taken))


def product_of_two(v: Lanes, a: str | float, b: str | float) -> tuple[str, str]:
    """a b and what its rounding lost; of operands in the middle of the range, where nothing fuses (G. W. Veltkamp's halves)."""
    product = v.mul(a, b)
    if v.options.fused:
        return product, v.call("fma", a, b, v.negative(product))  # one fused operation has the rounding error exactly
    (high, low), (other_high, other_low) = _halves(v, a), _halves(v, b)
    lost = v.add(v.sub(v.mul(high, other_high), product), v.mul(high, other_low))
    return product, v.add(v.add(lost, v.mul(low, other_high)), v.mul(low, other_low))


def _halves(v: Lanes, x: str | float) -> tuple[str, str]:
    """x as a sum of floats of half as many bits."""
    spread = v.mul(x, 2.0 ** ((v.mantissa_bits + 2) // 2) + 1.0)  # 2^12 + 1 (2^27 + 1): half of the mantissa's bits
    high = v.sub(spread, v.sub(spread, x))
    return high, v.sub(x, high)
