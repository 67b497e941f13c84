"""What a shared library of ours knows about itself, and reading it from the file before the file is loaded.

The section SECTION of the ELF file holds, in little-endian numbers of 32 bits but for MAGIC: MAGIC (8 bytes), VERSION,
the size of a JSON text, its CRC-32, the number of offsets, the offsets, the JSON text. An offset is the distance of a function (or
variable) from the section's first byte: those of COMMON, then for each kernel those of ROLES.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

__all__ = ["COMMON", "MACHINES", "MAGIC", "ROLES", "SECTION", "VERSION", "Metadata", "NoMetadata", "read_metadata"]

SECTION = ".tilewright"
MAGIC = b"TILEWRGT"
VERSION = 2
COMMON = ("missing", "threads")
"""The function that asks the processor; the variable with the address of the process's threads, and the pool's functions."""
ROLES = ("call", "check", "run", "python")
MACHINES = {62: "x86_64", 183: "aarch64"}
"""ELF's numbers of the machines that libraries are made for."""

_HEADER = struct.Struct("<8sIIII")
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


class NoMetadata(Exception):
    """The file is not what it should be. The argument says why."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """machine: as MACHINES names it. address: of the section, from where the library is loaded. raw: the section."""

    machine: str
    version: int
    address: int
    raw: bytes
    description: dict[str, Any]
    offsets: tuple[int, ...]


def read_metadata(content: bytes) -> Metadata:
    """What a file says of itself. Raises NoMetadata where it is no whole ELF library of ours; other versions than
    VERSION come without description."""
    machine, address, raw = _section(content)
    if len(raw) < _HEADER.size or raw[:8] != MAGIC:
        raise NoMetadata("its section of tilewright's is damaged")
    _, version, size, checksum, count = _HEADER.unpack_from(raw)
    if version != VERSION:
        return Metadata(machine, version, address, raw, {}, ())
    begin = _HEADER.size + 4 * count
    if begin + size > len(raw):
        raise NoMetadata("its section of tilewright's is damaged")
    offsets = struct.unpack_from(f"<{count}i", raw, _HEADER.size)
    text = raw[begin:begin + size]
    if zlib.crc32(text) != checksum:
        raise NoMetadata("its section of tilewright's is damaged")
    description = json.loads(text)
    if count != len(COMMON) + len(ROLES) * len(description["functions"]):
        raise NoMetadata("its section of tilewright's is damaged")
    return Metadata(machine, version, address, raw, description, offsets)


def _section(content: bytes) -> tuple[str, int, bytes]:
    """(machine, address, bytes) of our section."""
    if len(content) < _ELF_HEADER.size or content[:6] != b"\x7fELF\x02\x01":
        raise NoMetadata("it is no 64-bit little-endian ELF file")
    _, kind, machine, _, _, _, table, _, _, _, _, entry, count, names = _ELF_HEADER.unpack_from(content)
    if kind != 3:
        raise NoMetadata("it is an ELF file, but no shared library")
    if entry != _SECTION_HEADER.size or table + entry * count > len(content) or names >= count:
        raise NoMetadata("it is cut off: the file ends before its tables do")
    headers = [_SECTION_HEADER.unpack_from(content, table + entry * i) for i in range(count)]
    strings = headers[names]
    for name, sort, _, address, offset, size, *_ in headers:
        if sort != _NOBITS and offset + size > len(content):
            raise NoMetadata("it is cut off: the file ends before its contents do")
        start = strings[4] + name
        if content[start:start + len(SECTION) + 1] == SECTION.encode() + b"\0":
            return MACHINES.get(machine, f"machine {machine}"), address, content[offset:offset + size]
    raise NoMetadata("it was not made by tilewright, or has lost the section that says so")


_NOBITS = 8
"""ELF's type of sections that occupy no bytes of the file."""
