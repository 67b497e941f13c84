"""A static program for AArch64 Linux from object files, without a compiler or a linker for it: enough of one to run exported
kernels under qemu.

Sections that are loaded are laid out one after the other in one segment, and their relocations (ELF for the Arm 64-bit
Architecture, IHI 0056, section 5.7) applied: those that LLVM makes of position-independent code without a table of offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

BASE = 0x400000
HEADERS = 0x1000
_ALLOCATED, _NO_BITS, _RELOCATIONS, _SYMBOLS = 2, 8, 4, 2


@dataclass
class Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    address: int = 0


class ObjectFile:
    """What is read of a relocatable file: sections, and symbols as (name, whether others see it, section, value)."""

    def __init__(self, data: bytes) -> None:
        assert data[:5] == b"\x7fELF\x02" and data[18:20] == b"\xb7\x00", "an ELF file for AArch64"
        self.data = data
        at, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
        self.sections = [Section(r[1], r[2], r[4], r[5], r[6], r[7], max(r[8], 1)) for r in rows]
        table = next(s for s in self.sections if s.kind == _SYMBOLS)
        names = self.sections[table.link].offset
        self.symbols: list[tuple[str, bool, int, int]] = []
        for i in range(table.size // 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, table.offset + 24 * i)
            end = data.index(b"\0", names + name)
            self.symbols.append((data[names + name : end].decode(), info >> 4 != 0, section, value))


def link(objects: Sequence[bytes], entry: str = "main") -> bytes:
    """The program that calls `entry` with the address of what the system has put on the stack: the number of arguments,
    these, the environment, the auxiliary vector. A symbol that nobody defines is a KeyError."""
    files = [ObjectFile(data) for data in objects]
    loaded = [(f, s) for f in files for s in f.sections if s.flags & _ALLOCATED]
    loaded.sort(key=lambda pair: pair[1].kind == _NO_BITS)  # zeros last: the file has none of them
    end, file_end = BASE + HEADERS, 0
    for _, section in loaded:
        section.address = -(-end // section.align) * section.align
        end = section.address + section.size
        file_end = end if section.kind != _NO_BITS else file_end
    image = bytearray(file_end - BASE)
    for f, section in loaded:
        if section.kind != _NO_BITS:
            at = section.address - BASE
            image[at : at + section.size] = f.data[section.offset : section.offset + section.size]
    known = {
        name: f.sections[where].address + value
        for f in files
        for name, seen, where, value in f.symbols
        if seen and where
    }
    for f in files:
        _relocate(f, known, image)
    begin = BASE + HEADERS - 8  # mov x0, sp; b entry
    image[HEADERS - 8 : HEADERS] = struct.pack("<II", 0x910003E0, 0x14000000 | (known[entry] - begin - 4) >> 2)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 183, 1, begin, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    header += struct.pack("<IIQQQQQQ", 1, 7, 0, BASE, BASE, len(image), end - BASE, 0x1000)
    image[: len(header)] = header
    return bytes(image)


def _relocate(f: ObjectFile, known: dict[str, int], image: bytearray) -> None:
    for table in f.sections:
        if table.kind != _RELOCATIONS or not f.sections[table.info].flags & _ALLOCATED:
            continue
        target = f.sections[table.info]
        for i in range(table.size // 24):
            offset, info, addend = struct.unpack_from("<QQq", f.data, table.offset + 24 * i)
            name, _, section, value = f.symbols[info >> 32]
            address = f.sections[section].address + value if section else known[name]
            _apply(image, target.address + offset, info & 0xFFFFFFFF, address + addend)


def _apply(image: bytearray, place: int, kind: int, value: int) -> None:
    at = place - BASE
    word = int.from_bytes(image[at : at + 4], "little")
    if kind in (257, 260):  # ABS64, PREL64
        image[at : at + 8] = ((value - (place if kind == 260 else 0)) & (1 << 64) - 1).to_bytes(8, "little")
        return
    if kind in (258, 261):  # ABS32, PREL32
        word = value - (place if kind == 261 else 0)
    elif kind == 275:  # ADR_PREL_PG_HI21
        pages = (value >> 12) - (place >> 12)
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind in (277, 278, 284, 285, 286, 299):  # ADD_ABS_LO12_NC and LDST8, 16, 32, 64, 128
        shift = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}[kind]
        word |= (value & 0xFFF) >> shift << 10
    elif kind in (282, 283):  # JUMP26, CALL26
        word |= (value - place) >> 2 & 0x3FFFFFF
    else:
        raise AssertionError(f"relocation {kind} is not known")
    image[at : at + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")
