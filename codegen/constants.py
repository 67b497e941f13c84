"""Constants on their way into machine code: a symbol for each, which is bound to memory of this process or defined in a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.constant import ALIGNMENT, Constant
from ..ir.stmt import Function

__all__ = ["addresses", "declaration", "definitions", "fill_marks", "name_symbols"]

_SPELT_OUT = 1024
"""Bytes up to which contents stand in the text. LLVM takes a second for ten megabytes of what is longer: its place is marked,
and filled in the object file."""


def name_symbols(functions: Iterable[Function]) -> dict[Constant, str]:
    """The symbol of each constant that the functions read, in the order of first use."""
    constants = dict.fromkeys(held for function in functions for held in function.constants)
    return {held: f"tw_constant_{at}" for at, held in enumerate(constants)}


def addresses(symbols: Mapping[Constant, str]) -> dict[str, int]:
    """Return the addresses of the symbols in this process."""
    return {symbol: held.address for held, symbol in symbols.items()}


def declaration(held: Constant, symbol: str) -> str:
    """LLVM IR that speaks of memory elsewhere."""
    return f"@{symbol} = external constant [{held.memory.nbytes} x i8], align {ALIGNMENT}"


def definitions(symbols: Mapping[Constant, str]) -> str:
    """LLVM IR that has the contents, or a mark at the beginning of their place, which `fill_marks` looks for."""
    return "".join(f"@{symbol} = constant {_value(held)}, align {ALIGNMENT}\n" for held, symbol in symbols.items())


def fill_marks(code: bytes, symbols: Mapping[Constant, str]) -> bytes:
    """An object file with the contents at the marks."""
    marked = [held for held in symbols if held.memory.nbytes > _SPELT_OUT]
    if not marked:
        return code
    result = bytearray(code)
    for held in marked:
        at = code.find(_mark(held))
        while at >= 0:  # never where LLVM saw that nothing reads it; often where others have these contents too
            result[at : at + held.memory.nbytes] = held.memory.data
            at = code.find(_mark(held), at + held.memory.nbytes)
    return bytes(result)


def _value(held: Constant) -> str:
    size = held.memory.nbytes
    if size <= _SPELT_OUT:
        return f"[{size} x i8] {_text(held.memory.tobytes())}"
    mark = _mark(held)
    rest = size - len(mark)
    return f"<{{ [{len(mark)} x i8], [{rest} x i8] }}> <{{ [{len(mark)} x i8] {_text(mark)}, [{rest} x i8] zeroinitializer }}>"


def _text(content: bytes) -> str:
    escaped = "".join(f"\\{byte:02X}" for byte in content)
    return f'c"{escaped}"'


def _mark(held: Constant) -> bytes:
    """Return bytes that nothing else holds by chance."""
    return bytes.fromhex(held.digest)
