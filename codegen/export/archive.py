"""Static libraries: the `ar` format with the symbol table that linkers read, as GNU and LLVM write it.

The same object gives the same bytes: no time, no owner.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["archive_bytes"]

_MAGIC = b"!<arch>\n"
_HEADER = "{name:<16}{time:<12}{owner:<6}{group:<6}{mode:<8}{size:<10}`\n"


def archive_bytes(member: str, content: bytes, symbols: Sequence[str]) -> bytes:
    """An archive of one object file. member: its file name, at most 15 characters of ASCII. symbols: what it defines for
    others."""
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    table_size = 4 + 4 * len(symbols) + len(names)
    offset = len(_MAGIC) + 60 + table_size + table_size % 2
    table = struct.pack(f">{1 + len(symbols)}I", len(symbols), *[offset] * len(symbols)) + names
    return _MAGIC + _member("/", table, "0") + _member(f"{member}/", content, "644")


def _member(name: str, content: bytes, mode: str) -> bytes:
    assert len(name) <= 16, "longer names would need a table of their own"
    header = _HEADER.format(name=name, time=0, owner=0, group=0, mode=mode, size=len(content)).encode()
    return header + content + b"\n" * (len(content) % 2)
