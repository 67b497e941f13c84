"""External calls: calls of code that is not ours: functions of the C library or the application, and instructions by LLVM's names."""

from __future__ import annotations

from typing import Any

from ..base.arguments import is_a
from ..base.errors import user_source
from ..ir import Buffer, Call, Expr, StringImm
from ..ir.builder import BufferHandle
from ..ir.dtype import BOOL, DType
from ..ir.intrinsics import INTRINSICS
from ..ir.ops import call, convert
from ..ir.pointers import packed_array
from .errors import BadOutsideCall

__all__ = [
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_pure_extern",
    "target_has",
]


def call_extern(dtype: object, name: str, *args: Any) -> Expr:
    """A call of the C function `name`, which gives a `dtype` and may have effects.

    The symbol is looked for in this process when the kernel is built.

    Parameters
    ----------
    dtype : str or dtype
        Of the result.
    name : str
        The symbol.
    *args
        Numbers by value, pointers by buffer.access_ptr (the function must not keep them), strings.

    Raises
    ------
    BadOutsideCall (TW0134)
        No C function can have the name.
    """
    return _emit_outside_call("call_extern", dtype, name, args)


def call_pure_extern(dtype: object, name: str, *args: Any) -> Expr:
    """Call as call_extern does, of a function without effects that reads no memory: it may be moved, and called less often.

    Parameters
    ----------
    dtype : str or dtype
        Of the result.
    name : str
        The symbol.
    *args
        Numbers by value.

    Raises
    ------
    BadOutsideCall (TW0134)
        No C function can have the name.
    """
    return _emit_outside_call("call_pure_extern", dtype, name, args)


def call_packed(name: str, *args: Any, dtype: object = "int32") -> Expr:
    """A call of the Python function that tw.register_func has under `name`; see there for what it gets.

    The function is looked for when the kernel is built.

    Parameters
    ----------
    name : str
        The function.
    *args
        Buffers (whole; those of te.extern's and intrinsics' inputs are read-only to the function), numbers and integer or float
        expressions, strings, and pointers by buffer.access_ptr or buffer.data, which arrive as ctypes.c_void_p: what the function does
        with an address is its own affair.
    dtype : str or dtype, default "int32"
        Of the integer that it returns; None counts as 0.

    Raises
    ------
    BadOutsideCall (TW0134)
        An argument is a vector, or the result is no such integer.
    """
    result = DType(dtype)
    # C's int carries the result
    if not is_a(name, str) or not name or not result.is_integer or result.bits > 32 or result.lanes > 1:
        raise BadOutsideCall(
            "a packed call needs the function's name, and gives an integer of at most 32 bits",
            reason=f"got {name!r} and {result}",
            called=user_source(),
            fix='te.call_packed("name", ins[0], outs[0])',
        )
    return Call("call_packed", (StringImm(name), *(_emit_python_call(name, arg) for arg in args)), result)


def _emit_python_call(name: str, arg: Any) -> Expr:
    if isinstance(arg, BufferHandle):  # a buffer's handle stands for the buffer
        arg = arg.buffer
    value = packed_array(arg) if isinstance(arg, Buffer) else convert(arg)
    if value.dtype.lanes > 1:
        raise BadOutsideCall(
            f"cannot pass `{value}` to the packed function {name!r}"[:200],
            called=user_source(),
            reason="a Python function takes buffers, pointers into buffers, numbers and strings, no vectors",
            fix="pass the buffer itself: ins[0]",
        )
    return value


def call_llvm_intrin(dtype: object, name: str, *args: Any) -> Expr:
    """An LLVM intrinsic by its full name, on vectors or scalars.

    Only where the target has the instruction: put it under te.target_has(feature).

    Parameters
    ----------
    dtype : str or dtype
        Of the result, lanes included ("int32x16").
    name : str
        "llvm.x86.avx512.vpdpbusd.512".
    *args
        Operands: expressions or numbers.

    Raises
    ------
    BadOutsideCall (TW0134)
        The name does not begin with "llvm.".
    """
    if not (is_a(name, str) and name.startswith("llvm.")):
        raise BadOutsideCall(
            f"{name!r} is not an LLVM intrinsic",
            reason="their names begin with 'llvm.'",
            called=user_source(),
            fix='te.call_llvm_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", ...)',
        )
    return _emit_outside_call("call_llvm_intrinsic", dtype, name, args)


call_llvm_pure_intrin = call_llvm_intrin
"""TVM's other name: LLVM knows of its intrinsics whether they have effects."""


def call_intrin(dtype: object, name: str, *args: Any) -> Expr:
    """One of our own intrinsics by name, "exp" or "reinterpret".

    Parameters
    ----------
    dtype : str or dtype
        Of the result, as the function of te with that name gives it.
    name : str
        The intrinsic; TVM's prefix "tir." is dropped.
    *args
        Operands: expressions or numbers.

    Raises
    ------
    BadOutsideCall (TW0134)
        There is no such intrinsic, it takes another number of operands, or gives another dtype.
    """
    plain = str(name).removeprefix("tir.")
    row = INTRINSICS.get(plain)
    # calls of outside code have functions of their own, with more checks
    if row is None or plain.startswith("call_") or row.arity not in (-1, len(args)):
        reason = (
            "there is none of this name"
            if row is None or plain.startswith("call_")
            else f"it takes {row.arity} operands"
        )
        raise BadOutsideCall(
            f"cannot call the intrinsic {name!r} with {len(args)} operands",
            reason=reason,
            called=user_source(),
            allowed=", ".join(n for n in INTRINSICS if not n.startswith("call_")),
            fix="call a C function by te.call_extern, an instruction by te.call_llvm_intrin",
        )
    if row.result == "given":
        return call(plain, *args, dtype=dtype)
    result = call(plain, *args)
    if result.dtype != DType(dtype):  # what an intrinsic gives is not converted silently
        raise BadOutsideCall(
            f"the intrinsic {name!r} gives {result.dtype} here, not {dtype}",
            called=user_source(),
            reason=f"operands `{', '.join(map(str, args))}`"[:200],
            fix="convert the operands, or the result",
        )
    return result


def target_has(feature: str) -> Expr:
    """Return whether the target has a feature: a CPU's, by LLVM's name ("avx512vnni"), or "interpreter". Decided when code is
    made, so that what is not chosen leaves no trace. A bool; a feature that no target has is one that this one has not. Raises
    BadOutsideCall (TW0134) for what is not a text."""
    if not is_a(feature, str):
        raise BadOutsideCall(
            "a feature of a target is a text",
            reason=f"got {feature!r}"[:200],
            called=user_source(),
            fix='te.target_has("avx512vnni")',
        )
    return Call("target_has", (StringImm(feature),), BOOL)  # a string, as no target is known here


def _emit_outside_call(kind: str, dtype: object, name: str, args: tuple[Any, ...]) -> Expr:
    if not is_a(name, str) or not name:
        raise BadOutsideCall(
            "a call of outside code needs the function's name",
            reason=f"got {name!r}",
            called=user_source(),
            fix='te.call_extern("int32", "function", ...): the result\'s dtype, then the name',
        )
    return Call(kind, (StringImm(name), *map(convert, args)), DType(dtype))
