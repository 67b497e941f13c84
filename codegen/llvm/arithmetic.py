"""Operators on values: what ir/expr says they mean, in LLVM's operations, none of which may trap or give poison.

Each function takes the function being written, the operands' text and their dtype, and returns the result's text.
Floats of 16 bits come here as float32 already (see `emit_expr`).
"""

from __future__ import annotations

from math import nan

from ...ir.dtype import BOOL, INT32, DType
from .maths_options import MathsOptions
from .narrow_floats import bfloat16_to_float32, float16_to_float32, float32_to_bfloat16, float32_to_float16
from .text import FunctionText
from .types import float_constant, int_constant, llvm_type, mangle_type, zero
from .workarounds.dropped_selects import zero_for_nan
from .workarounds.saturating_conversions import clamped

__all__ = ["compare", "convert", "divide", "float_floor_quotient", "float_remainder", "emit_maximum", "select"]

_INTEGER_CONDITION = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
# o: false where one is a NaN; u: true there
_FLOAT_CONDITION = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


def compare(f: FunctionText, symbol: str, a: str, b: str, dtype: DType) -> str:
    """The comparison `a symbol b`. With a NaN only != holds."""
    if dtype.is_float:
        return f.op(f"fcmp {_FLOAT_CONDITION[symbol]} {llvm_type(dtype)} {a}, {b}")  # une alone holds for NaN
    if symbol in ("==", "!="):
        return f.op(f"icmp {'eq' if symbol == '==' else 'ne'} {llvm_type(dtype)} {a}, {b}")
    sign = "s" if dtype.kind == "int" else "u"
    return f.op(f"icmp {sign}{_INTEGER_CONDITION[symbol]} {llvm_type(dtype)} {a}, {b}")


def select(f: FunctionText, condition: str, a: str, b: str, dtype: DType) -> str:
    """a where the lanes of `condition` hold, else b."""
    kind = llvm_type(dtype)
    return f.op(f"select {llvm_type(BOOL.with_lanes(dtype.lanes))} {condition}, {kind} {a}, {kind} {b}")


def emit_maximum(
    f: FunctionText,
    a: str,
    b: str,
    dtype: DType,
    *,
    least: bool,
    maths: MathsOptions,
    flags: str = "",
    serial: bool = False,
) -> str:
    """The greater of a and b (the lesser, if `least`); a NaN where either is, and -0 is less than +0. flags: fast-math flags.
    serial: LLVM shall make no vectors of the loop around it."""
    kind = llvm_type(dtype)
    if not dtype.is_float:
        if dtype.kind == "bool":
            return f.op(f"{'and' if least else 'or'} {kind} {a}, {b}")  # of bits the least is "and", the greatest "or"
        name = ("s" if dtype.kind == "int" else "u") + ("min" if least else "max")
        return f.op(f"call {kind} @llvm.{name}.{mangle_type(dtype)}({kind} {a}, {kind} {b})")
    # the ReLU: most maxima are with 0
    if not flags and not least and not maths.extrema and float_constant(0.0, dtype) in (a, b):
        return _not_below_zero(f, b if a == float_constant(0.0, dtype) else a, dtype)
    # What waits for one after the other waits for two instructions, instead of a branch by a sign or five instructions. Beside a
    # constant LLVM might know such selects for what they are (workarounds/dropped_selects.py).
    waits = maths.seconds and serial and a.startswith("%") and b.startswith("%")
    if not flags and least and (dtype.lanes > 1 and maths.seconds or waits):
        return _least_lanes(f, a, b, dtype)
    bits = dtype.lanes * dtype.bits  # AVX-512's instruction exists for these widths
    if not flags and maths.ranges and dtype.lanes > 1 and (bits in (128, 256) or bits % _WIDEST == 0):
        return _greatest_lanes(f, a, b, dtype)
    if not flags and waits and dtype.lanes == 1:
        return _greatest_alone(f, a, b, dtype)
    if not flags and maths.seconds and dtype.lanes > 1:
        return _greatest_in_both_orders(f, a, b, dtype)
    # As a call it is known for what it is: loops over it become vector reductions, chains of it take no time to
    # analyse, and comparisons of it with the same constant keep NaNs (workarounds/dropped_selects.py).
    return f.op(
        f"call {flags}{kind} @llvm.{'minimum' if least else 'maximum'}.{mangle_type(dtype)}({kind} {a}, {kind} {b})"
    )


def _not_below_zero(f: FunctionText, a: str, dtype: DType) -> str:
    """The greater of a and +0, without a choice: what is not less than 0, without its sign, which is that of a zero or of a NaN.
    Without it LLVM sees no maximum with 0, which it might take for another one (workarounds/dropped_selects.py)."""
    # x86 gives the second operand for NaN, so the order of both matters
    none, kind = float_constant(0.0, dtype), llvm_type(dtype)
    chosen = select(f, compare(f, "<", a, none, dtype), none, a, dtype)
    return f.op(f"call {kind} @llvm.fabs.{mangle_type(dtype)}({kind} {chosen})")


def _least_lanes(f: FunctionText, a: str, b: str, dtype: DType) -> str:
    """The smaller of a and b, asked for in both orders: machines give the second operand where one is a NaN or both are
    equal. So the two answers differ in zeros of either sign, and where one is a NaN: the "or" of their bits is -0, and a NaN."""
    one, other, bits = _order_bits(f, a, b, dtype, "<")
    return _bits(f, f.op(f"or {bits} {one}, {other}"), bits, llvm_type(dtype))


def _greatest_in_both_orders(f: FunctionText, a: str, b: str, dtype: DType) -> str:
    """The greater of them in the same way: the "and" of the bits is +0, and with all bits where one is a NaN it is one."""
    one, other, bits = _order_bits(f, a, b, dtype, ">")
    kind = llvm_type(dtype)
    # all bits set is a NaN
    apart = f.op(f"sext {llvm_type(BOOL.with_lanes(dtype.lanes))} {f.op(f'fcmp uno {kind} {a}, {b}')} to {bits}")
    return _bits(f, f.op(f"or {bits} {f.op(f'and {bits} {one}, {other}')}, {apart}"), bits, kind)


def _greatest_alone(f: FunctionText, a: str, b: str, dtype: DType) -> str:
    """The greater of two numbers in the same way; a NaN is chosen last, as scalars have no bits by comparison."""
    one, other, bits = _order_bits(f, a, b, dtype, ">")
    found = _bits(f, f.op(f"and {bits} {one}, {other}"), bits, llvm_type(dtype))
    return select(f, f.op(f"fcmp uno {llvm_type(dtype)} {a}, {b}"), float_constant(nan, dtype), found, dtype)


def _order_bits(f: FunctionText, a: str, b: str, dtype: DType, symbol: str) -> tuple[str, str, str]:
    """The bits of a where it is before b, else of b; those with both exchanged; and the type of these bits."""
    kind, bits = llvm_type(dtype), llvm_type(DType(f"int{dtype.bits}").with_lanes(dtype.lanes))
    one, other = (  # both orders
        _bits(f, select(f, compare(f, symbol, x, y, dtype), x, y, dtype), kind, bits) for x, y in ((a, b), (b, a))
    )
    return one, other, bits


# VRANGE's immediate: bits 1:0 choose the greater, 3:2 the sign of the result
_GREATEST, _CURRENT_ROUNDING = 0b0101, 4
"""Of two the greater, with its own sign; and as instructions of 512 bits say that they round as usual."""
_WIDEST = 512


def _greatest_lanes(f: FunctionText, a: str, b: str, dtype: DType) -> str:
    """The greater of a and b in vectors, by AVX-512's instruction that knows -0 from +0 and gives the other where one is a NaN:
    that is chosen last. LLVM has both put in order by their signs first, which takes twice as many."""
    kind, bits = llvm_type(dtype), min(dtype.lanes * dtype.bits, _WIDEST)
    part = dtype.with_lanes(bits // dtype.bits)
    own, mask = llvm_type(part), f"i{max(part.lanes, 8)} -1"  # all lanes; masks have at least 8 bits
    name = f"llvm.x86.avx512.mask.range.{'ps' if dtype.bits == 32 else 'pd'}.{bits}"
    usual = f", i32 {_CURRENT_ROUNDING}" if bits == _WIDEST else ""  # only the 512-bit form has a rounding operand
    found = "poison"
    for lane in range(0, dtype.lanes, part.lanes):
        x, y = (_slice_lanes(f, value, dtype, part, lane) for value in (a, b))
        greater = f.op(
            f"call {own} @{name}({own} {x}, {own} {y}, i32 {_GREATEST}, {own} zeroinitializer, {mask}{usual})"
        )
        found = (
            greater
            if part.lanes == dtype.lanes
            else f.op(
                f"call {kind} @llvm.vector.insert.{mangle_type(dtype)}.{mangle_type(part)}({kind} {found}, {own} {greater}, i64 {lane})"
            )
        )
    return select(f, f.op(f"fcmp uno {kind} {a}, {b}"), float_constant(nan, dtype), found, dtype)


def _slice_lanes(f: FunctionText, value: str, dtype: DType, part: DType, lane: int) -> str:
    """The lanes of a vector from one of them on."""
    return (
        value
        if part.lanes == dtype.lanes
        else f.op(
            f"call {llvm_type(part)} @llvm.vector.extract.{mangle_type(part)}.{mangle_type(dtype)}({llvm_type(dtype)} {value}, i64 {lane})"
        )
    )


# Integer division


def divide(
    f: FunctionText,
    a: str,
    b: str,
    dtype: DType,
    *,
    floor: bool,
    divisor: int | None,
    unsigned: bool,
    want_remainder: bool,
) -> str:
    """a // b or a % b, rounded towards minus infinity (`floor`) or zero.

    divisor: b's value where it is a constant. unsigned: both operands are known not to be negative.
    """
    if divisor == 0:  # 0 by our rules, a trap by LLVM's
        return zero(dtype)
    if unsigned:  # unsigned division is cheaper, and rounds both ways alike
        return _emit_unsigned(f, a, b, dtype, divisor, want_remainder)
    if divisor == -1:  # the least integer by -1 traps, its negation wraps
        return zero(dtype) if want_remainder else f.op(f"sub {llvm_type(dtype)} {zero(dtype)}, {a}")
    # by a power of two, floor is a shift and its rest a mask
    if divisor is not None and floor and divisor > 0 and divisor & (divisor - 1) == 0:
        if want_remainder:
            return f.op(f"and {llvm_type(dtype)} {a}, {int_constant(divisor - 1, dtype)}")
        return f.op(f"ashr {llvm_type(dtype)} {a}, {int_constant(divisor.bit_length() - 1, dtype)}")
    return _emit_signed(f, a, b, dtype, floor, divisor, want_remainder)


def _emit_unsigned(f: FunctionText, a: str, b: str, dtype: DType, divisor: int | None, want_remainder: bool) -> str:
    kind, none = llvm_type(dtype), zero(dtype)
    if divisor is not None:  # a constant that is not 0 needs no check
        return f.op(f"{'urem' if want_remainder else 'udiv'} {kind} {a}, {b}")
    by_zero = f.op(f"icmp eq {kind} {b}, {none}")
    safe = select(f, by_zero, int_constant(1, dtype), b, dtype)
    quotient, rest = _quotient_and_rest(f, a, safe, dtype, False, want_remainder)
    return rest if want_remainder else select(f, by_zero, none, quotient, dtype)  # a % 1 is the 0 that is wanted


def _emit_signed(
    f: FunctionText,
    a: str,
    b: str,
    dtype: DType,
    floor: bool,
    divisor: int | None,
    want_remainder: bool,
) -> str:
    kind, none = llvm_type(dtype), zero(dtype)
    safe = b
    if divisor is None:  # 0 and -1 are divided as 1, whose rest is 0, and their quotients put right below
        following = f.op(f"add {kind} {b}, {int_constant(1, dtype)}")
        special = f.op(f"icmp ult {kind} {following}, {int_constant(2, dtype)}")
        safe = select(f, special, int_constant(1, dtype), b, dtype)
    quotient, rest = _quotient_and_rest(f, a, safe, dtype, True, floor or want_remainder)
    if floor:
        # unlike signs and a rest: the quotient was rounded upwards
        differ = f.op(f"icmp slt {kind} {f.op(f'xor {kind} {rest}, {safe}')}, {none}")
        inexact = f.op(f"icmp ne {kind} {rest}, {none}")
        down = f.op(f"and {llvm_type(BOOL.with_lanes(dtype.lanes))} {differ}, {inexact}")
        if want_remainder:
            return f.op(f"add {kind} {rest}, {select(f, down, safe, none, dtype)}")
        quotient = f.op(f"add {kind} {quotient}, {_extend(f, down, dtype)}")
    elif want_remainder:
        return rest
    if divisor is None:
        negated = f.op(f"sub {kind} {none}, {a}")
        by_minus_one = f.op(f"icmp eq {kind} {b}, {int_constant(-1, dtype)}")
        quotient = select(f, by_minus_one, negated, quotient, dtype)  # -1 is exact, so that no rest has to be corrected
        quotient = select(f, f.op(f"icmp eq {kind} {b}, {none}"), none, quotient, dtype)
    return quotient


def _extend(f: FunctionText, condition: str, dtype: DType) -> str:
    return f.op(f"sext {llvm_type(BOOL.with_lanes(dtype.lanes))} {condition} to {llvm_type(dtype)}")


def _quotient_and_rest(f: FunctionText, a: str, b: str, dtype: DType, signed: bool, want_rest: bool) -> tuple[str, str]:
    """a / b rounded towards zero, and the rest, for b that is neither 0 nor, where a may be the least value, -1.

    No machine divides vectors of integers. Floats do it exactly: the quotient of integers of n bits is an integer or
    at least 2^-n (relatively) away from one, so a float of more than n + 1 bits' precision does not round over it.
    """
    # vectors by a splat are left to LLVM, which multiplies by a reciprocal
    kind, sign = llvm_type(dtype), "s" if signed else "u"
    if dtype.lanes > 1 and dtype.bits <= 32 and not b.startswith("splat"):
        wide = llvm_type(DType("float32" if dtype.bits <= 16 else "float64").with_lanes(dtype.lanes))
        x, y = (f.op(f"{sign}itofp {kind} {v} to {wide}") for v in (a, b))
        quotient = f.op(f"fpto{sign}i {wide} {f.op(f'fdiv {wide} {x}, {y}')} to {kind}")
    else:
        quotient = f.op(f"{sign}div {kind} {a}, {b}")
    if not want_rest:
        return quotient, ""
    return quotient, f.op(f"sub {kind} {a}, {f.op(f'mul {kind} {quotient}, {b}')}")


# Division of floats with rest


def float_remainder(f: FunctionText, a: str, b: str, dtype: DType, *, floor: bool) -> str:
    """C's fmod, or Python's % (of the sign of b)."""
    kind, none = llvm_type(dtype), zero(dtype)
    rest = f.op(f"frem {kind} {a}, {b}")  # frem calls fmod, which is exact
    if not floor:
        return rest
    adjusted = select(f, _is_rest_opposite(f, rest, b, dtype), f.op(f"fadd {kind} {rest}, {b}"), rest, dtype)
    # a rest of 0 has the divisor's sign in Python
    signed_zero = f.op(f"call {kind} @llvm.copysign.{mangle_type(dtype)}({kind} {none}, {kind} {b})")
    return select(f, f.op(f"fcmp oeq {kind} {rest}, {none}"), signed_zero, adjusted, dtype)


def _is_rest_opposite(f: FunctionText, rest: str, b: str, dtype: DType) -> str:
    """Return whether the rest is not 0 and of the other sign than b."""
    none, condition = zero(dtype), llvm_type(BOOL.with_lanes(dtype.lanes))
    differ = f.op(f"xor {condition} {compare(f, '<', rest, none, dtype)}, {compare(f, '<', b, none, dtype)}")
    return f.op(f"and {condition} {differ}, {compare(f, '!=', rest, none, dtype)}")


def float_floor_quotient(f: FunctionText, a: str, b: str, dtype: DType) -> str:
    """Python's // of floats, without the error of a / b's rounding; a / b itself where b is 0."""
    kind = llvm_type(dtype)
    rest = f.op(f"frem {kind} {a}, {b}")
    # a - rest is a multiple of b: the quotient is right up to its own rounding
    quotient = f.op(f"fdiv {kind} {f.op(f'fsub {kind} {a}, {rest}')}, {b}")
    less = f.op(f"fsub {kind} {quotient}, {float_constant(1.0, dtype)}")
    quotient = select(f, _is_rest_opposite(f, rest, b, dtype), less, quotient, dtype)
    nearest = f.op(f"call {kind} @llvm.rint.{mangle_type(dtype)}({kind} {quotient})")
    plain = f.op(f"fdiv {kind} {a}, {b}")
    signed_zero = f.op(f"call {kind} @llvm.copysign.{mangle_type(dtype)}({kind} {zero(dtype)}, {kind} {plain})")
    # the zero keeps the sign of a / b
    nearest = select(f, compare(f, "==", nearest, zero(dtype), dtype), signed_zero, nearest, dtype)
    return select(f, compare(f, "==", b, zero(dtype), dtype), plain, nearest, dtype)


# Conversions


def convert(f: FunctionText, value: str, source: DType, target: DType, *, not_negative: bool = False) -> str:
    """`value` as `target`: truncating and saturating from floats to integers, wrapping between integers."""
    if source == target:
        return value
    if target.kind == "bool" and source.kind != "bfloat":
        condition = "fcmp une" if source.is_float else "icmp ne"
        return f.op(f"{condition} {llvm_type(source)} {value}, {zero(source)}")  # une: NaN is true, as in C
    if source.is_float:
        return _convert_float(f, value, source, target)
    if target.is_float:
        # a 16-bit float is rounded from float32
        wide = target if target.bits > 16 else DType("float32").with_lanes(target.lanes)
        operation = "sitofp" if source.kind == "int" else "uitofp"
        return convert(f, f.op(f"{operation} {llvm_type(source)} {value} to {llvm_type(wide)}"), wide, target)
    if source.bits == target.bits:
        return value  # wrapping between signed and unsigned of one width is nothing
    if source.bits > target.bits:
        operation = "trunc"
    elif source.kind != "int":
        operation = "zext"
    else:
        operation = "zext nneg" if not_negative else "sext"  # nneg lets LLVM treat it as either
    return f.op(f"{operation} {llvm_type(source)} {value} to {llvm_type(target)}")


def _convert_float(f: FunctionText, value: str, source: DType, target: DType) -> str:
    if source.bits == 16:
        widened = (bfloat16_to_float32 if source.kind == "bfloat" else float16_to_float32)(f, value, source)
        return convert(f, widened, DType("float32").with_lanes(source.lanes), target)
    if not target.is_float:
        return _saturate(f, value, source, target)
    if target.bits > source.bits:
        return f.op(f"fpext {llvm_type(source)} {value} to {llvm_type(target)}")
    if target.bits == 32:
        return f.op(f"fptrunc {llvm_type(source)} {value} to {llvm_type(target)}")
    if source.bits == 64:  # through float32, rounded to odd so that the second rounding cannot go wrong
        value, source = _round_to_odd(f, value, source), DType("float32").with_lanes(source.lanes)
    return (float32_to_bfloat16 if target.kind == "bfloat" else float32_to_float16)(f, value, source)


def _saturate(f: FunctionText, value: str, source: DType, target: DType) -> str:
    """A float towards zero, within the target's range; 0 for a NaN."""
    greatest = _float_at_most(target.greatest, source)  # fptosi of what does not fit is poison
    within = clamped(f, value, source, float(target.least), greatest)
    # narrow results are converted by way of 32 bits, which machines have
    through = target if target.bits >= 32 else INT32.with_lanes(target.lanes)
    operation = "fptosi" if through.kind == "int" else "fptoui"
    result = f.op(f"{operation} {llvm_type(source)} {within} to {llvm_type(through)}")
    result = convert(f, result, through, target)
    # the type's greatest is no float: what exceeds the float below it becomes the greatest
    if int(greatest) != target.greatest:
        above = compare(f, ">", value, float_constant(greatest, source), source)
        result = select(f, above, int_constant(target.greatest, target), result, target)
    return zero_for_nan(f, value, source, result, target)


def _float_at_most(value: int, dtype: DType) -> float:
    """The greatest value of a float32 or float64 type that is no greater than `value`, 2^n - 1 for some n."""
    spare = value.bit_length() - (24 if dtype.bits == 32 else 53)  # a float32 has 24 bits, a float64 53
    return float(value >> spare << spare) if spare > 0 else float(value)


def _bits(f: FunctionText, value: str, source: str, target: str) -> str:
    return f.op(f"bitcast {source} {value} to {target}")


def _round_to_odd(f: FunctionText, value: str, source: DType) -> str:
    """A double as the float32 towards zero from it, with its last bit set where that is inexact."""
    lanes = source.lanes
    word, narrow = DType("int32").with_lanes(lanes), DType("float32").with_lanes(lanes)
    f64, f32, i32 = llvm_type(source), llvm_type(narrow), llvm_type(word)
    nearest = f.op(f"fptrunc {f64} {value} to {f32}")
    back = f.op(f"fpext {f32} {nearest} to {f64}")
    sizes = [f.op(f"call {f64} @llvm.fabs.{mangle_type(source)}({f64} {v})") for v in (back, value)]
    # rounded away from zero: one step back, as bits of floats are in order
    away = f.op(f"fcmp ogt {f64} {sizes[0]}, {sizes[1]}")
    inexact = f.op(f"fcmp une {f64} {back}, {value}")
    bits = f.op(f"add {i32} {_bits(f, nearest, f32, i32)}, {_extend(f, away, word)}")
    sticky = f.op(f"zext {llvm_type(BOOL.with_lanes(lanes))} {inexact} to {i32}")
    return _bits(f, f.op(f"or {i32} {bits}, {sticky}"), i32, f32)
