"""Intrinsics in LLVM IR: one row a name.

A builder gets the expression emitter, the call, and its operands' text; it returns the result's text. Floats of 16 bits
reach the builders of FLOAT_ROWS as float32.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import user_source
from ...ir.dtype import BOOL, FLOAT64, INT64, DType
from ...ir.expr import BufferLoad, Call, Expr, IntImm, StringImm
from ...ir.ops import integer_value
from ..abi.packed_calls import CALLBACK_RAISED, FAILED, PACKED_PREFIX, bound_symbol
from ..errors import UnsupportedIntrinsic
from .arithmetic import compare, convert
from .emitter import ExprEmitter
from .maths import FUNCTIONS, FloatRow
from .memory import address
from .text import FunctionText
from .types import bfloat_type, computing_dtype, float_constant, int_constant, llvm_type, mangle_type

__all__ = ["FLOAT_ROWS", "OTHER_ROWS", "emit_call"]

OtherRow = Callable[["ExprEmitter", Call], str]


def emit_call(em: ExprEmitter, call: Call) -> str:
    """The value of a Call."""
    row = FLOAT_ROWS.get(call.name)  # names such as abs have a row for floats and one for integers
    if row is not None and call.args[0].dtype.is_float:
        return _float_call(em, call, row)
    other = OTHER_ROWS.get(call.name)
    if other is None:
        raise UnsupportedIntrinsic(
            f"the LLVM target has no row for the intrinsic {call.name!r}",
            reason=f"called on {', '.join(arg.dtype for arg in call.args)}",
            called=user_source(),
            allowed=", ".join(sorted({*FLOAT_ROWS, *OTHER_ROWS})),
            fix="call a C function by te.call_extern, an instruction by te.call_llvm_intrin, or compose it: te.exp(x)",
        )
    return other(em, call)


def _float_call(em: ExprEmitter, call: Call, row: FloatRow) -> str:
    source = call.args[0].dtype
    own = call.name == "fma" and source.element == "float16" and em.f.module.conversions.arithmetic
    if call.name == "fma" and source.bits == 16 and not own:  # fma rounds once: by way of float32 it would round twice
        return _narrow_fma(em, call)
    wide = source if own else computing_dtype(source)
    operands = [convert(em.f, em.value(arg), arg.dtype, wide) for arg in call.args]
    result = row(em, operands, wide)
    # isnan and its like give bools
    return result if not call.dtype.is_float else convert(em.f, result, wide, call.dtype)


def _narrow_fma(em: ExprEmitter, call: Call) -> str:
    """Multiply and add in float64, which holds products of 16-bit floats, and every sum of float16 that is near halfway between two
    numbers. Those of bfloat16 may be 2**-266 beside it: they are rounded to odd, so that the next rounding cannot go wrong."""
    wide = FLOAT64.with_lanes(call.dtype.lanes)
    kind = llvm_type(wide)
    a, b, c = (convert(em.f, em.value(arg), arg.dtype, wide) for arg in call.args)
    product = em.f.op(f"fmul {kind} {a}, {b}")
    total = em.f.op(f"fadd {kind} {product}, {c}")
    return convert(
        em.f, _round_to_odd(em.f, product, c, total, wide) if call.dtype.kind == "bfloat" else total, wide, call.dtype
    )


def _round_to_odd(f: FunctionText, a: str, b: str, total: str, dtype: DType) -> str:
    """The sum `total` of two doubles, moved by its last bit towards a + b where it is inexact and that bit is clear."""
    word, kind = INT64.with_lanes(dtype.lanes), llvm_type(dtype)
    i64, i1 = llvm_type(word), llvm_type(BOOL.with_lanes(dtype.lanes))
    part = f.op(f"fsub {kind} {total}, {a}")
    rest = f.op(f"fsub {kind} {a}, {f.op(f'fsub {kind} {total}, {part}')}")
    # Knuth's sum of two, as neither operand need be the greater
    error = f.op(f"fadd {kind} {rest}, {f.op(f'fsub {kind} {b}, {part}')}")
    inexact = f.op(f"fcmp one {kind} {error}, {float_constant(0.0, dtype)}")  # no: of infinities and NaN
    bits, wrong = (f.op(f"bitcast {kind} {value} to {i64}") for value in (total, error))
    # all ones where sum and error have unlike signs, else 0
    signs = f.op(f"ashr {i64} {f.op(f'xor {i64} {bits}, {wrong}')}, {int_constant(63, word)}")
    # one step up or down in the order of bits
    nearer = f.op(f"add {i64} {bits}, {f.op(f'or {i64} {signs}, {int_constant(1, word)}')}")
    # an odd last bit already says that something was lost
    even = f.op(f"icmp eq {i64} {f.op(f'and {i64} {bits}, {int_constant(1, word)}')}, {int_constant(0, word)}")
    moved = f.op(f"select {i1} {f.op(f'and {i1} {inexact}, {even}')}, {i64} {nearer}, {i64} {bits}")
    return f.op(f"bitcast {i64} {moved} to {kind}")


# Floats


def _llvm(name: str) -> FloatRow:
    """An LLVM intrinsic that is an instruction, or a few, on scalars and vectors."""

    def build(em: ExprEmitter, operands: list[str], dtype: DType) -> str:
        kind = llvm_type(dtype)
        return em.f.op(f"call {kind} @llvm.{name}.{mangle_type(dtype)}({', '.join(f'{kind} {v}' for v in operands)})")

    return build


def _isnan(em: ExprEmitter, operands: list[str], dtype: DType) -> str:
    return em.f.op(f"fcmp uno {llvm_type(dtype)} {operands[0]}, {operands[0]}")


def _size_against_infinity(symbol: str) -> FloatRow:
    def build(em: ExprEmitter, operands: list[str], dtype: DType) -> str:
        size = _llvm("fabs")(em, operands, dtype)
        return compare(em.f, symbol, size, float_constant(float("inf"), dtype), dtype)

    return build


FLOAT_ROWS: dict[str, FloatRow] = {
    **FUNCTIONS,
    **{name: _llvm(name) for name in ("sqrt", "floor", "ceil", "trunc", "round", "copysign", "fma")},
    "nearbyint": _llvm("rint"),
    "abs": _llvm("fabs"),
    "isnan": _isnan,
    "isinf": _size_against_infinity("=="),
    "isfinite": _size_against_infinity("<"),
}


# Integers, bits and outside code


def _integer_abs(em: ExprEmitter, call: Call) -> str:
    value, kind = em.value(call.args[0]), llvm_type(call.dtype)
    if call.dtype.kind != "int":
        return value
    # false: the least integer's absolute value wraps to itself
    return em.f.op(f"call {kind} @llvm.abs.{mangle_type(call.dtype)}({kind} {value}, i1 false)")


def _bitwise(operation: str) -> OtherRow:
    def build(em: ExprEmitter, call: Call) -> str:
        a, b = (em.value(arg) for arg in call.args)
        return em.f.op(f"{operation} {llvm_type(call.dtype)} {a}, {b}")

    return build


def _bitwise_not(em: ExprEmitter, call: Call) -> str:
    return em.f.op(f"xor {llvm_type(call.dtype)} {em.value(call.args[0])}, {int_constant(-1, call.dtype)}")


def _shift(em: ExprEmitter, call: Call) -> str:
    """The amount is taken modulo the width: undefined in value by our rules, but never poison."""
    dtype = call.dtype
    a, amount = (em.value(arg) for arg in call.args)
    distance = em.constant_int(call.args[1])
    if distance is None or not 0 <= distance < dtype.bits:  # a constant amount within the width needs no mask
        amount = em.f.op(f"and {llvm_type(dtype)} {amount}, {int_constant(dtype.bits - 1, dtype)}")
    # right shifts of signed numbers keep the sign
    operation = "shl" if call.name == "shift_left" else "ashr" if dtype.kind == "int" else "lshr"
    return em.f.op(f"{operation} {llvm_type(dtype)} {a}, {amount}")


def _popcount(em: ExprEmitter, call: Call) -> str:
    kind = llvm_type(call.dtype)
    return em.f.op(f"call {kind} @llvm.ctpop.{mangle_type(call.dtype)}({kind} {em.value(call.args[0])})")


def _clz(em: ExprEmitter, call: Call) -> str:
    source = call.args[0].dtype
    kind = llvm_type(source)
    # false: 0 has as many leading zeros as bits
    count = em.f.op(f"call {kind} @llvm.ctlz.{mangle_type(source)}({kind} {em.value(call.args[0])}, i1 false)")
    unsigned = DType(f"uint{source.bits}").with_lanes(source.lanes)
    return convert(em.f, count, unsigned, call.dtype)


def _reinterpret(em: ExprEmitter, call: Call) -> str:
    value, source, target = em.value(call.args[0]), llvm_type(call.args[0].dtype), llvm_type(call.dtype)
    return value if source == target else em.f.op(f"bitcast {source} {value} to {target}")


def _emit_likely(em: ExprEmitter, call: Call) -> str:
    return em.value(call.args[0])


def _emit_outside_call(em: ExprEmitter, call: Call) -> str:
    """A function of the application's or the C library's; scalars and pointers by value, strings as C has them."""
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an external call is its symbol"
    kinds: list[str] = []
    operands: list[str] = []
    for arg in call.args[1:]:
        value = em.f.module.string(arg.value) if isinstance(arg, StringImm) else em.value(arg)
        kinds.append("ptr" if isinstance(arg, StringImm) else llvm_type(arg.dtype) + _extension(arg.dtype))
        operands.append(f"{kinds[-1]} {value}")
    result = llvm_type(call.dtype)
    pure = call.name == "call_pure_extern"  # memory(none) lets LLVM merge and move calls
    function = em.f.module.declare(
        name.value, result, kinds, "nounwind willreturn memory(none)" if pure else "nounwind"
    )
    # read: a result that LLVM may not compute again
    return em.f.read(f"call {result} {function}({', '.join(operands)})")


def _emit_python_call(em: ExprEmitter, call: Call) -> str:
    """A Python function, by the symbol that codegen.packed has bound it to. Where it fails the kernel is left."""
    symbol = bound_symbol(call, "llvm")
    result = _call_python(em, symbol, [(arg, em.value(arg)) for arg in call.args[1:]])
    failed = em.f.op(f"icmp uge i64 {result}, {FAILED}")
    em.leave_if(failed, str(CALLBACK_RAISED))
    return em.f.op(f"trunc i64 {result} to {llvm_type(call.dtype)}")


def _trace(em: ExprEmitter, call: Call) -> str:
    """Print by Python where the call is bound to it, else by C."""
    tag, *args = call.args
    assert isinstance(tag, StringImm), "the first operand of a trace is its tag"
    values = [(arg, "" if isinstance(arg, StringImm) else em.value(arg)) for arg in args]  # texts are not values
    if tag.value.startswith(PACKED_PREFIX):
        result = _call_python(em, tag.value, [pair for pair in values if not isinstance(pair[0], StringImm)])
        em.leave_if(em.f.op(f"icmp uge i64 {result}, {FAILED}"), str(CALLBACK_RAISED))
    else:
        _call_printf(em, tag.value, values)
    return values[-1][1]


def _call_python(em: ExprEmitter, symbol: str, values: list[tuple[Expr, str]]) -> str:
    """Write the call of Python, the function's last statement: FAILED, unless it came to its end."""
    result = em.f.emit_at_entry("alloca i64")
    em.f.do(f"store i64 {FAILED}, ptr {result}")  # FAILED until the callback has stored something else
    passed = [("ptr", result), *(_widen_argument(em, arg.dtype, text) for arg, text in values)]
    function = em.f.module.declare(symbol, "void", [kind for kind, _ in passed])
    em.f.do(f"call void {function}({', '.join(f'{kind} {text}' for kind, text in passed)})")
    return em.f.read(f"load i64, ptr {result}")


def _call_printf(em: ExprEmitter, tag: str, values: list[tuple[Expr, str]]) -> None:
    parts, passed = [tag.replace("%", "%%") + ":"], list[str]()  # percent signs begin formats
    for arg, text in values:
        if isinstance(arg, StringImm):
            parts.append(arg.value.replace("%", "%%"))
            continue
        kind, wide = _widen_argument(em, arg.dtype, text)
        parts.append("%.9g" if kind == "double" else "%lld")
        passed.append(f"{kind} {wide}")
    line = em.f.module.string(" ".join(parts) + "\n")  # a constant in the module, ended by a zero byte
    em.f.module.declare("printf", "i32", ["ptr", "..."])
    em.f.do(f"call i32 (ptr, ...) @printf({', '.join([f'ptr {line}', *passed])})")


def _widen_argument(em: ExprEmitter, dtype: DType, text: str) -> tuple[str, str]:
    """(type, value) as outside code gets it: a pointer, a 64-bit integer or a double."""
    if dtype.kind == "handle":
        return "ptr", text
    wide = FLOAT64 if dtype.is_float else INT64
    return llvm_type(wide), convert(em.f, text, dtype, wide)  # variadic functions take doubles and 64-bit integers


def _extension(dtype: DType) -> str:
    """C passes integers narrower than int as ints."""
    if dtype.lanes > 1 or dtype.bits >= 32 or dtype.is_float:
        return ""
    return " signext" if dtype.kind == "int" else " zeroext"


def _access_ptr(em: ExprEmitter, call: Call) -> str:
    load, offset = call.args[:2]
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    index = load.indices[-1] if load.indices else IntImm(0)
    return address(em, load.buffer, index, f"{llvm_type(offset.dtype)} {em.value(offset)}")


def _prefetch(em: ExprEmitter, call: Call) -> str:
    """Prefetch for reading, into all caches from the given one on, as data."""
    place, *rest = call.args
    level = integer_value(rest[0], 1) if rest else 1  # level 1 is the nearest cache to us, 3 to LLVM
    # 0: for reading; 1: data
    em.f.do(f"call void @llvm.prefetch.p0(ptr {em.value(place)}, i32 0, i32 {4 - level}, i32 1)")
    return "0"


def _unaligned_elements(em: ExprEmitter, call: Call) -> str:
    """Return the number of elements up to the next multiple of so many bytes."""
    start, size = call.args
    assert isinstance(start, Call) and isinstance(size, IntImm), (
        "unaligned_elements takes a pointer and a number of bytes"
    )
    address = em.f.op(f"ptrtoint ptr {em.value(start)} to i64")
    distance = em.f.op(f"and i64 {em.f.op(f'sub i64 0, {address}')}, {size.value - 1}")  # sizes are powers of two
    elements = em.f.op(f"udiv i64 {distance}, {start.args[0].dtype.bytes}")
    return em.f.op(f"trunc i64 {elements} to {llvm_type(call.dtype)}")


def _llvm_intrinsic(em: ExprEmitter, call: Call) -> str:
    """An LLVM intrinsic by its full name. A constant that it wants as an immediate is given as one."""
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an LLVM intrinsic call is its name"
    operands = ", ".join(_restore_type(em, arg) for arg in call.args[1:])
    if call.dtype.kind != "bfloat":
        return em.f.read(f"call {llvm_type(call.dtype)} @{name.value}({operands})")
    own = bfloat_type(call.dtype)
    result = em.f.read(f"call {own} @{name.value}({operands})")
    return em.f.op(f"bitcast {own} {result} to {llvm_type(call.dtype)}")


def _restore_type(em: ExprEmitter, arg: Expr) -> str:
    """An operand of an LLVM intrinsic, with its type: bfloat16, which is carried as its bits, as what LLVM declares."""
    kind, value = llvm_type(arg.dtype), em.value(arg)
    if arg.dtype.kind != "bfloat":
        return f"{kind} {value}"
    own = bfloat_type(arg.dtype)
    return f"{own} {em.f.op(f'bitcast {kind} {value} to {own}')}"


def _target_has(em: ExprEmitter, call: Call) -> str:  # noqa: ARG001
    """A pass decides it; what reaches this place nobody has."""
    return "false"


OTHER_ROWS: dict[str, OtherRow] = {
    "abs": _integer_abs,
    "bitwise_and": _bitwise("and"),
    "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"),
    "bitwise_not": _bitwise_not,
    "shift_left": _shift,
    "shift_right": _shift,
    "popcount": _popcount,
    "clz": _clz,
    "reinterpret": _reinterpret,
    "likely": _emit_likely,
    "call_extern": _emit_outside_call,
    "call_pure_extern": _emit_outside_call,
    "call_llvm_intrinsic": _llvm_intrinsic,
    "access_ptr": _access_ptr,
    "prefetch": _prefetch,
    "target_has": _target_has,
    "unaligned_elements": _unaligned_elements,
    "call_packed": _emit_python_call,
    "trace": _trace,
}
