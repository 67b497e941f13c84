"""Intrinsics of C: the rows that CUDA C has too, and its own."""

from __future__ import annotations

from ...base.errors import user_source
from ...ir import BufferLoad, Call, DType, Expr, IntImm, StringImm
from ...ir.pointers import pointed_buffer
from ..abi.packed_calls import CALLBACK_RAISED, FAILED, PACKED_PREFIX, bound_symbol
from ..clike import intrinsics as clike
from ..clike.emit_expr import CallTable
from ..clike.types import bare
from ..errors import UnsupportedIntrinsic
from .emit_expr import CExprEmitter
from .types import quote_string, value_type

__all__ = ["CALLS", "STANDARD", "call_outside_function"]

STANDARD = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod "
    "hypot ldexp lgamma log log10 log1p log2 logb nearbyint nextafter pow remainder rint round scalbn sin sinh sqrt tan tanh "
    "tgamma trunc abs labs llabs abort exit free malloc printf puts putchar".split()
)
"""Functions that the headers declare (those of floats again with an f)."""


# Bits


def _reinterpret(em: CExprEmitter, call: Call, lane: int) -> str:
    """The bits of a value in another type. Lanes of the one may be several lanes of the other."""
    source, target = call.args[0], call.dtype
    of, to = source.dtype.bits, target.bits
    if to <= of:  # a wide value is read in parts
        shift = lane % (of // to) * to
        text = _bits(em, source, lane // (of // to))
        # a narrow one is put together from several lanes
        return _reinterpret_bits(em, f"({text} >> {shift})" if shift else text, target)
    ratio = to // of
    parts = [_bits(em, source, lane * ratio + k) for k in range(ratio)]
    return _reinterpret_bits(em, "(" + " | ".join(f"{part} << {k * of}" for k, part in enumerate(parts)) + ")", target)


def _bits(em: CExprEmitter, source: Expr, lane: int) -> str:
    text, dtype = em.value(source, lane), source.dtype
    if dtype.is_float and dtype.bits > 16:
        # by a union in the prelude: a cast of pointers breaks aliasing rules
        return f"tw_bits_of_double({bare(text)})" if dtype.bits == 64 else f"(uint64_t)tw_bits_of({bare(text)})"
    if dtype.is_float:
        return f"(uint64_t){em.memory_text(text, dtype)}"
    return f"(uint64_t)(uint{max(dtype.bits, 8)}_t)({text})"  # bools are a byte in memory


def _reinterpret_bits(em: CExprEmitter, text: str, dtype: DType) -> str:
    if dtype.is_bool:
        return f"(({text} & 1) != 0)"  # a byte may hold more than one bit
    if dtype.is_float and dtype.bits > 16:
        return f"tw_double_of({text})" if dtype.bits == 64 else f"tw_float_of((uint32_t)({text}))"
    if dtype.is_float and dtype.bits == 16:
        return em.loaded(f"(uint16_t)({text})", dtype)
    return f"({value_type(dtype)})({text})"


# Outside code


def call_outside_function(em: CExprEmitter, call: Call, lane: int) -> str:
    """The call of a C function, which the text declares where no header does."""
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an external call is its symbol"
    kinds, operands = list[str](), list[str]()
    for arg in call.args[1:]:
        kinds.append("const char *" if isinstance(arg, StringImm) else _pass_argument(call, arg.dtype))
        operands.append(quote_string(arg.value) if isinstance(arg, StringImm) else bare(em.value(arg, lane)))
    result = _pass_argument(call, call.dtype)
    operand_text = ", ".join(operands)
    if name.value.removesuffix("f") in STANDARD or name.value in STANDARD:  # the headers' own declaration counts
        return f"{name.value}({operand_text})"
    declared = f"{result} {name.value}({', '.join(kinds) or 'void'});"
    if em.declarations.setdefault(name.value, declared) != declared:
        # two calls with unlike types: C allows one declaration, so that the second casts
        return f"(({result} (*)({', '.join(kinds) or 'void'})){name.value})({operand_text})"
    return f"{name.value}({operand_text})"


def _pass_argument(call: Call, dtype: DType) -> str:
    if dtype.lanes == 1 and not (dtype.is_float and dtype.bits == 16):  # vectors and half floats have no type in C11
        return value_type(dtype)
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an external call is its symbol"
    raise UnsupportedIntrinsic(
        f"the C target cannot call {name.value!r} with a {dtype}",
        called=user_source(),
        reason="C11 has no such type to pass by value",
        fix="pass scalars of 32 or 64 bits, or a pointer",
    )


def _emit_outside_call(em: CExprEmitter, call: Call, lane: int) -> str:
    text = call_outside_function(em, call, lane)
    return text if call.name == "call_pure_extern" else em.kept(text, call.dtype)


def _address(em: CExprEmitter, call: Call, lane: int) -> str:
    """A pointer to an element, which is not read."""
    load, offset, _ = call.args
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    place = em.element(load.buffer, load.indices[0] if load.indices else IntImm(0), lane)
    return f"(void *)(&{place} + {em.operand_text(offset, lane)})"


def _prefetch(em: CExprEmitter, call: Call, lane: int) -> str:
    address, *levels = call.args
    level = next((given.value for given in levels if isinstance(given, IntImm)), 1)
    # GCC's locality counts from 3 (near) to 0, ours from 1
    em.lines.append(f"tw_prefetch({em.value(address, lane)}, {4 - level});")
    return "0"


def _unaligned_elements(em: CExprEmitter, call: Call, lane: int) -> str:
    """Return the number of elements up to the next multiple of so many bytes."""
    start, size = call.args
    pointed = pointed_buffer(start)
    assert pointed is not None and isinstance(size, IntImm), "unaligned_elements takes a pointer and a number of bytes"
    distance = f"((0 - (uintptr_t){em.value(start, lane)}) & {size.value - 1})"  # the size is a power of two
    return f"({value_type(call.dtype)})({distance} / {pointed[0].dtype.bytes})"


def _emit_python_call(em: CExprEmitter, call: Call, lane: int) -> str:
    """A Python function, by the pointer that the process sets. Where it fails the kernel is left."""
    symbol = bound_symbol(call, "c")
    return f"({value_type(call.dtype)}){_call_python(em, symbol, list(call.args[1:]), lane)}"


def _call_python(em: CExprEmitter, symbol: str, args: list[Expr], lane: int) -> str:
    passed = [(arg.dtype, em.value(arg, lane)) for arg in args if not isinstance(arg, StringImm)]
    kinds = [_wide(dtype) for dtype, _ in passed]
    em.declarations[symbol] = f"void (*{symbol})({', '.join(['int64_t *', *kinds])});"
    result, _ = em.name_value("", DType("int64"))
    operands = [f"&{result}", *(f"({kind})({text})" for kind, (_, text) in zip(kinds, passed, strict=True))]
    # a failure until the function has come to its end
    em.lines += [f"int64_t {result} = {FAILED};", f"{symbol}({', '.join(operands)});"]
    # unsigned: one comparison for all values at or above it
    em.lines += em.fail(f"(uint64_t){result} >= {FAILED}u", str(CALLBACK_RAISED))
    return result


def _wide(dtype: DType) -> str:
    return "void *" if dtype.kind == "handle" else "double" if dtype.is_float else "int64_t"


def _trace(em: CExprEmitter, call: Call, lane: int) -> str:
    """Print, by Python where the call is bound to it, and give the last value."""
    tag, *args = call.args
    assert isinstance(tag, StringImm), "the first operand of a trace is its tag"
    values = [arg if isinstance(arg, StringImm) else em.kept(em.value(arg, lane), arg.dtype) for arg in args]
    last = values[-1]
    assert isinstance(last, str), "the last operand of a trace is its value"
    if tag.value.startswith(PACKED_PREFIX):
        _call_python(em, tag.value, args, lane)  # bound to Python, it prints where Python prints
        return last
    parts, passed = [tag.value.replace("%", "%%") + ":"], list[str]()  # a percent sign would begin a format
    for arg, value in zip(args, values, strict=True):
        if isinstance(value, str):
            parts.append("%.9g" if arg.dtype.is_float else "%lld")
            passed.append(f"({'double' if arg.dtype.is_float else 'long long'}){value}")
        else:
            parts.append(value.value.replace("%", "%%"))
    em.lines.append(f"printf({', '.join([quote_string(' '.join(parts) + chr(10)), *passed])});")
    return last


def _llvm(em: CExprEmitter, call: Call, lane: int) -> str:
    del em, lane
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an LLVM intrinsic call is its name"
    raise UnsupportedIntrinsic(
        f"the C target has no row for the LLVM intrinsic {name.value!r}",
        called=user_source(),
        reason="an intrinsic of LLVM's has no name in C",
        fix='target="llvm", or a portable body beside it under te.target_has',
    )


CALLS = CallTable(
    "C",
    {**clike.FLOAT_ROWS, "sigmoid": clike.library_call("tw_sigmoid"), "exp10": clike.library_call("tw_exp10")},
    {
        **clike.OTHER_ROWS,
        "reinterpret": _reinterpret,
        "call_extern": _emit_outside_call,
        "call_pure_extern": _emit_outside_call,
        "access_ptr": _address,
        "prefetch": _prefetch,
        "unaligned_elements": _unaligned_elements,
        "call_packed": _emit_python_call,
        "trace": _trace,
        "call_llvm_intrinsic": _llvm,
        "target_has": lambda em, call, lane: "false",  # the C target has no features: portable bodies alone
    },
)
