"""Floats of 16 bits to and from float32: by an instruction where the target has one that is right, else in integers, and
never by a library.

bfloat16 is rounded in integers unless fast_math allows the instruction of AVX512-BF16, which takes subnormal numbers for 0.
"""

from __future__ import annotations

from ...ir.dtype import FLOAT32, INT32, DType
from .text import FunctionText
from .types import float_constant, int_constant, llvm_type

__all__ = ["bfloat16_to_float32", "float16_to_float32", "float32_to_bfloat16", "float32_to_float16"]

_BFLOAT_VECTORS = (8, 16, 32)
"""The lanes for which LLVM makes the instruction of a conversion (of other vectors of bfloat it makes none at all)."""


class _Words:
    """Operations on the bits of float32s."""

    def __init__(self, f: FunctionText, lanes: int) -> None:
        self.f, self.word, self.number = f, INT32.with_lanes(lanes), FLOAT32.with_lanes(lanes)
        self.half = DType("int16").with_lanes(lanes)
        self.kind, self.float_kind, self.half_kind = (llvm_type(d) for d in (self.word, self.number, self.half))

    def __call__(self, operation: str, a: str, b: str | int) -> str:
        right = b if isinstance(b, str) else int_constant(b, self.word)
        return self.f.op(f"{operation} {self.kind} {a}, {right}")

    def of(self, value: str) -> str:
        return self.f.op(f"bitcast {self.float_kind} {value} to {self.kind}")

    def reinterpret_as_float(self, bits: str) -> str:
        return self.f.op(f"bitcast {self.kind} {bits} to {self.float_kind}")

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.f.op(f"select {condition}, {self.kind} {a}, {self.kind} {b}")

    def when(self, comparison: str, a: str, b: int) -> str:
        """A typed condition on integers."""
        condition = self.f.op(f"icmp {comparison} {self.kind} {a}, {int_constant(b, self.word)}")
        return f"{llvm_type(DType('bool').with_lanes(self.word.lanes))} {condition}"

    def widen(self, value: str, kind: str) -> str:
        """The bits of a 16-bit float, of LLVM type `kind`."""
        bits = value if kind == self.half_kind else self.f.op(f"bitcast {kind} {value} to {self.half_kind}")
        return self.f.op(f"zext {self.half_kind} {bits} to {self.kind}")

    def narrow(self, bits: str, kind: str) -> str:
        value = self.f.op(f"trunc {self.kind} {bits} to {self.half_kind}")
        return value if kind == self.half_kind else self.f.op(f"bitcast {self.half_kind} {value} to {kind}")


def bfloat16_to_float32(f: FunctionText, value: str, source: DType) -> str:
    words = _Words(f, source.lanes)
    return words.reinterpret_as_float(words("shl", words.widen(value, llvm_type(source)), 16))


def float32_to_bfloat16(f: FunctionText, value: str, source: DType) -> str:
    """Round to nearest, ties to even."""
    words = _Words(f, source.lanes)
    if f.module.conversions.bfloat16 and source.lanes in _BFLOAT_VECTORS:
        kind = f"<{source.lanes} x bfloat>"
        return f.op(f"bitcast {kind} {f.op(f'fptrunc {words.float_kind} {value} to {kind}')} to {words.half_kind}")
    bits = words.of(value)
    upper = words("lshr", bits, 16)
    rounded = words("lshr", words("add", bits, words("add", words("and", upper, 1), 0x7FFF)), 16)
    nan = f"{llvm_type(DType('bool').with_lanes(source.lanes))} {f.op(f'fcmp uno {words.float_kind} {value}, {value}')}"
    chosen = words.choose(nan, words("or", upper, 0x40), rounded)
    return words.narrow(chosen, words.half_kind)


def float16_to_float32(f: FunctionText, value: str, source: DType) -> str:
    kind, words = llvm_type(source), _Words(f, source.lanes)
    if f.module.conversions.float16:
        return f.op(f"fpext {kind} {value} to {words.float_kind}")
    bits = words.widen(value, kind)
    scale = float_constant(
        2.0**112, words.number
    )  # the exponents' biases are 112 apart; subnormal numbers become normal
    small = words.reinterpret_as_float(words("shl", words("and", bits, 0x7FFF), 13))
    size = words.of(f.op(f"fmul {words.float_kind} {small}, {scale}"))
    size = words.choose(words.when("uge", size, 0x47800000), words("or", size, 0x7F800000), size)  # infinity, NaN
    size = words.choose(words.when("ugt", size, 0x7F800000), words("or", size, 0x400000), size)  # quiet
    return words.reinterpret_as_float(words("or", size, words("shl", words("and", bits, 0x8000), 16)))


def float32_to_float16(f: FunctionText, value: str, source: DType) -> str:
    """Round to nearest, ties to even."""
    kind, words = llvm_type(DType("float16").with_lanes(source.lanes)), _Words(f, source.lanes)
    if f.module.conversions.float16:
        return f.op(f"fptrunc {words.float_kind} {value} to {kind}")
    bits = words.of(value)
    size = words("and", bits, 0x7FFFFFFF)
    normal = words("add", words("add", size, 0xFFF - (112 << 23)), words("and", words("lshr", size, 13), 1))
    result = words("lshr", normal, 13)
    # Of what becomes subnormal: adding 1/2 rounds at 2^-24, the least of float16.
    half = float_constant(0.5, words.number)
    small = words(
        "sub", words.of(f.op(f"fadd {words.float_kind} {words.reinterpret_as_float(size)}, {half}")), 0x3F000000
    )
    result = words.choose(words.when("ult", size, 0x38800000), small, result)
    result = words.choose(words.when("uge", size, 0x47800000), int_constant(0x7C00, words.word), result)
    nan = words("or", words("and", words("lshr", size, 13), 0x3FF), 0x7E00)
    result = words.choose(words.when("ugt", size, 0x7F800000), nan, result)
    return words.narrow(words("or", result, words("and", words("lshr", bits, 16), 0x8000)), kind)
