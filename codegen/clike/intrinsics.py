"""Intrinsics that C and CUDA C spell alike: one row a name."""

from __future__ import annotations

from ...ir import Call, DType
from .emit_expr import ExprEmitter, FloatRow, OtherRow
from .types import bare

__all__ = ["FLOAT_ROWS", "OTHER_ROWS"]


def library_call(name: str) -> FloatRow:
    """A function, whose name ends in f for floats of 32 bits, as those of the C library do."""
    # for float32 the C library has names with an f
    return lambda operands, double: f"{name}{'' if double else 'f'}({', '.join(map(bare, operands))})"


def _rsqrt(operands: list[str], double: bool) -> str:
    return f"(1.0 / sqrt({operands[0]}))" if double else f"(1.0f / sqrtf({operands[0]}))"


FLOAT_ROWS: dict[str, FloatRow] = {
    **{
        name: library_call(name)
        for name in (
            "exp exp2 exp10 log log2 log10 log1p expm1 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf "
            "pow atan2 hypot floor ceil trunc round copysign fma"
        ).split()
    },
    "nearbyint": library_call("rint"),  # rint rounds ties to even, and raises nothing either
    "abs": library_call("fabs"),
    "rsqrt": _rsqrt,
    "sigmoid": lambda operands, double: f"tw_sigmoid({operands[0]})",
    "isnan": lambda operands, double: f"({operands[0]} != {operands[0]})",  # only NaN differs from itself
    # macros of math.h do not exist in every dialect
    "isinf": lambda operands, double: f"({library_call('fabs')(operands, double)} == tw_infinity())",
    "isfinite": lambda operands, double: f"({library_call('fabs')(operands, double)} < tw_infinity())",
}


def _integer_abs(em: ExprEmitter, call: Call, lane: int) -> str:
    value = em.value(call.args[0], lane)
    # nothing to do for unsigned
    return value if call.dtype.kind != "int" else f"{em.typed('tw_absolute', call.dtype)}({value})"


def _bitwise(symbol: str) -> OtherRow:
    def build(em: ExprEmitter, call: Call, lane: int) -> str:
        a, b = (em.operand_text(arg, lane) for arg in call.args)
        return em.narrow(f"({a} {symbol} {b})", call.dtype)  # smaller types are computed as int

    return build


def _bitwise_not(em: ExprEmitter, call: Call, lane: int) -> str:
    value = em.operand_text(call.args[0], lane)
    # ~ of a bool would be of an int
    return f"(!{value})" if call.dtype.is_bool else em.narrow(f"(~{value})", call.dtype)


def _shift(em: ExprEmitter, call: Call, lane: int) -> str:
    """The amount is taken modulo the width: undefined in value by our rules, but never undefined behaviour."""
    a, amount = (em.operand_text(arg, lane) for arg in call.args)
    width = call.dtype.bits - 1
    if call.name == "shift_left":
        # shifting into a sign bit is undefined
        unsigned = "unsigned long long" if call.dtype.bits == 64 else "unsigned int"
        # masking keeps amounts from being undefined
        return f"({em.kind(call.dtype)})(({unsigned}){a} << ({amount} & {width}))"
    return em.narrow(f"({a} >> ({amount} & {width}))", call.dtype)


def _cast_unsigned(em: ExprEmitter, call: Call, lane: int) -> str:
    source = call.args[0].dtype
    # a sign must not be extended into the bits that are counted
    return f"({em.kind(DType(f'uint{max(source.bits, 8)}'))})({em.value(call.args[0], lane)})"


def _popcount(em: ExprEmitter, call: Call, lane: int) -> str:
    return f"({em.kind(call.dtype)})tw_popcount({_cast_unsigned(em, call, lane)})"


def _clz(em: ExprEmitter, call: Call, lane: int) -> str:
    return f"tw_clz({_cast_unsigned(em, call, lane)}, {call.args[0].dtype.bits})"


OTHER_ROWS: dict[str, OtherRow] = {
    "abs": _integer_abs,
    "bitwise_and": _bitwise("&"),
    "bitwise_or": _bitwise("|"),
    "bitwise_xor": _bitwise("^"),
    "bitwise_not": _bitwise_not,
    "shift_left": _shift,
    "shift_right": _shift,
    "popcount": _popcount,
    "clz": _clz,
    "likely": lambda em, call, lane: em.value(call.args[0], lane),  # a hint to LLVM only
}
