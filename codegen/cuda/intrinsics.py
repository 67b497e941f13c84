"""How CUDA C spells each intrinsic: one row a name.

A builder of FLOAT_ROWS gets the operands' text and whether they are double, and returns the text of the result; 16-bit
floats reach it as float. A builder of OTHER_ROWS gets the emitter, the call and the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.dtype import DType
from ...ir.expr import BufferLoad, Call, StringImm
from ...ir.ops import is_const
from ..errors import UnsupportedIntrinsic
from .types import bare, storage_type, value_type

if TYPE_CHECKING:
    from .emit_expr import ExprEmitter

__all__ = ["FLOAT_ROWS", "OTHER_ROWS", "emit_call", "from_rows"]

FloatRow = Callable[[list[str], bool], str]
OtherRow = Callable[["ExprEmitter", Call, int], str]


def emit_call(em: ExprEmitter, call: Call, lane: int) -> str:
    """The value of one lane of a Call."""
    return from_rows(em, call, lane, "CUDA", FLOAT_ROWS, OTHER_ROWS)


def from_rows(em: ExprEmitter, call: Call, lane: int, target: str, float_rows: Mapping[str, FloatRow],
              other_rows: Mapping[str, Callable[[Any, Call, int], str]]) -> str:
    """The value of one lane of a Call, as a target's tables spell it."""
    row = float_rows.get(call.name)
    if row is not None and call.args[0].dtype.is_float:
        text = row([em.closed(arg, lane) for arg in call.args], call.args[0].dtype.bits == 64)
        return em.rounded(text, call.dtype) if call.dtype.is_float else text
    other = other_rows.get(call.name)
    if other is None:
        raise UnsupportedIntrinsic(
            f"the {target} target has no row for the intrinsic {call.name!r}", called=user_source(),
            reason=f"called on {', '.join(arg.dtype for arg in call.args) or 'nothing'}",
            allowed=", ".join(sorted({*float_rows, *other_rows})))
    return other(em, call, lane)


def _library(name: str) -> FloatRow:
    """A function of CUDA's mathematics library, which the C library has too."""
    return lambda operands, double: f"{name}{'' if double else 'f'}({', '.join(map(bare, operands))})"


def _rsqrt(operands: list[str], double: bool) -> str:
    return f"(1.0 / sqrt({operands[0]}))" if double else f"(1.0f / sqrtf({operands[0]}))"


FLOAT_ROWS: dict[str, FloatRow] = {
    **{name: _library(name) for name in (
        "exp exp2 exp10 log log2 log10 log1p expm1 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf "
        "pow atan2 hypot floor ceil trunc round copysign fma").split()},
    "nearbyint": _library("rint"),
    "abs": _library("fabs"),
    "rsqrt": _rsqrt,
    "sigmoid": lambda operands, double: f"tw_sigmoid({operands[0]})",
    "isnan": lambda operands, double: f"({operands[0]} != {operands[0]})",
    "isinf": lambda operands, double: f"({_library('fabs')(operands, double)} == tw_infinity())",
    "isfinite": lambda operands, double: f"({_library('fabs')(operands, double)} < tw_infinity())",
}


def _integer_abs(em: ExprEmitter, call: Call, lane: int) -> str:
    value = em.value(call.args[0], lane)
    return value if call.dtype.kind != "int" else f"{em.typed('tw_absolute', call.dtype)}({value})"


def _bitwise(symbol: str) -> OtherRow:
    def build(em: ExprEmitter, call: Call, lane: int) -> str:
        a, b = (em.closed(arg, lane) for arg in call.args)
        return em.narrowed(f"({a} {symbol} {b})", call.dtype)

    return build


def _bitwise_not(em: ExprEmitter, call: Call, lane: int) -> str:
    value = em.closed(call.args[0], lane)
    return f"(!{value})" if call.dtype.is_bool else em.narrowed(f"(~{value})", call.dtype)


def _shift(em: ExprEmitter, call: Call, lane: int) -> str:
    """The amount is taken modulo the width: undefined in value by our rules, but never undefined behaviour."""
    a, amount = (em.closed(arg, lane) for arg in call.args)
    width = call.dtype.bits - 1
    if call.name == "shift_left":
        unsigned = "unsigned long long" if call.dtype.bits == 64 else "unsigned int"
        return f"({em.kind(call.dtype)})(({unsigned}){a} << ({amount} & {width}))"
    return em.narrowed(f"({a} >> ({amount} & {width}))", call.dtype)


def _unsigned(em: ExprEmitter, call: Call, lane: int) -> str:
    source = call.args[0].dtype
    return f"({em.kind(DType(f'uint{max(source.bits, 8)}'))})({em.value(call.args[0], lane)})"


def _popcount(em: ExprEmitter, call: Call, lane: int) -> str:
    return f"({em.kind(call.dtype)})tw_popcount({_unsigned(em, call, lane)})"


def _clz(em: ExprEmitter, call: Call, lane: int) -> str:
    return f"tw_clz({_unsigned(em, call, lane)}, {call.args[0].dtype.bits})"


def _reinterpret(em: ExprEmitter, call: Call, lane: int) -> str:
    """The bits of a value in another type. Lanes of the one may be several lanes of the other."""
    source, target = call.args[0], call.dtype
    ratio = max(target.bits // source.dtype.bits, source.dtype.bits // target.bits)
    wider, to, of = target.bits >= source.dtype.bits, storage_type(target), storage_type(source.dtype)
    lanes = range(lane * ratio, (lane + 1) * ratio) if wider else range(lane // ratio, lane // ratio + 1)
    parts = [em.stored(em.value(source, one), source.dtype) for one in lanes]
    if ratio == 1:
        return em.loaded(f"tw_reinterpret<{to}, {of}>({parts[0]})", target)
    if wider:
        packed = f"tw_vector<{of}, {ratio}>"
        return em.loaded(f"tw_reinterpret<{to}, {packed}>({packed}{{{{{', '.join(parts)}}}}})", target)
    return em.loaded(f"tw_reinterpret<tw_vector<{to}, {ratio}>, {of}>({parts[0]}).lane[{lane % ratio}]", target)


def _outside(em: ExprEmitter, call: Call, lane: int) -> str:
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an external call is its symbol"
    operands = [em.value(arg, lane) for arg in call.args[1:]]
    if name.value in ("tw_shuffle", "tw_shuffle_down"):
        wide = "int" if call.dtype.bits < 32 and not call.dtype.is_float else ""
        first = f"(int)({operands[0]})" if wide else operands[0]
        text = f"{name.value}({', '.join([first, *operands[1:]])})"
        return f"({value_type(call.dtype)}){text}" if wide else text
    if name.value == "tw_barrier":
        return "__syncthreads()"
    return f"{name.value}({', '.join(operands)})"


def _address(em: ExprEmitter, call: Call, lane: int) -> str:
    """A pointer to an element, which is not read."""
    load, offset, _ = call.args
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    further = "" if is_const(offset, 0) else f" + {em.closed(offset, lane)}"
    return f"&{em.element(load.buffer, load.indices[0], lane)}{further}"


def _trace(em: ExprEmitter, call: Call, lane: int) -> str:
    """Prints, and gives the last value."""
    parts, passed = list[str](), list[str]()
    for arg in call.args[:-1]:
        if isinstance(arg, StringImm):
            parts.append(arg.value.replace("%", "%%"))
        else:
            parts.append(_format(arg.dtype))
            passed.append(f"({_printed(arg.dtype)})({em.value(arg, lane)})")
    last = call.args[-1]
    parts = [f"{parts[0]}:", *parts[1:], _format(last.dtype)]
    passed.append(f"({_printed(last.dtype)})(last)")
    line = '"' + " ".join(parts).translate(_IN_C) + '\\n"'
    return f"[&]() {{ auto last = {em.value(last, lane)}; printf({', '.join([line, *passed])}); return last; }}()"


def _format(dtype: DType) -> str:
    return "%.9g" if dtype.is_float else "%lld"


def _printed(dtype: DType) -> str:
    return "double" if dtype.is_float else "long long"


_IN_C = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n"})
"""Characters that a C string has in other words."""

OTHER_ROWS: dict[str, OtherRow] = {
    "abs": _integer_abs, "bitwise_and": _bitwise("&"), "bitwise_or": _bitwise("|"), "bitwise_xor": _bitwise("^"),
    "bitwise_not": _bitwise_not, "shift_left": _shift, "shift_right": _shift, "popcount": _popcount, "clz": _clz,
    "reinterpret": _reinterpret, "likely": lambda em, call, lane: em.value(call.args[0], lane),
    "call_extern": _outside, "call_pure_extern": _outside, "access_ptr": _address,
    "trace": _trace,
}
