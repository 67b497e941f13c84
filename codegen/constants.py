"""Constants on their way into machine code: a symbol for each, which is bound to memory of this process or defined in a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.constant import ALIGNMENT, Constant
from ..ir.stmt import Function

__all__ = ["addresses", "declaration", "definitions", "symbols_of"]

_ESCAPED = [b"\\%02X" % byte for byte in range(256)]
_PLAIN = {byte: bytes([byte]) for byte in range(32, 127) if byte not in b'"\\'}
_TABLE = [_PLAIN.get(byte, escaped) for byte, escaped in enumerate(_ESCAPED)]


def symbols_of(functions: Iterable[Function]) -> dict[Constant, str]:
    """The symbol of each constant that the functions read, in the order of first use."""
    found = dict.fromkeys(held for function in functions for held in function.constants)
    return {held: f"tw_constant_{at}" for at, held in enumerate(found)}


def addresses(symbols: Mapping[Constant, str]) -> dict[str, int]:
    """Where the symbols lie in this process."""
    return {symbol: held.address for held, symbol in symbols.items()}


def declaration(held: Constant, symbol: str) -> str:
    """LLVM IR that speaks of memory elsewhere."""
    return f"@{symbol} = external constant [{held.memory.nbytes} x i8], align {ALIGNMENT}"


def definitions(symbols: Mapping[Constant, str]) -> str:
    """LLVM IR that holds the contents."""
    return "\n".join(_definition(held, symbol) for held, symbol in symbols.items()) + "\n"


def _definition(held: Constant, symbol: str) -> str:
    memory = held.memory
    content = "zeroinitializer" if not memory.any() else f'c"{b"".join(map(_TABLE.__getitem__, memory.tobytes())).decode()}"'
    return f"@{symbol} = constant [{memory.nbytes} x i8] {content}, align {ALIGNMENT}"
