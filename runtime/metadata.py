"""Metadata of exported libraries, read from the file before the system loads it.

The section SECTION of the ELF file holds, in little-endian numbers of 32 bits but for MAGIC: MAGIC (8 bytes), VERSION,
the size of a JSON text, its CRC-32, the number of offsets, the seal, the offsets, the JSON text. An offset is the distance of a
function (or variable) from the section's first byte: those of COMMON, then for each kernel those of ROLES, then for each function
for GPUs those of GPU_ROLES.
The seal is the CRC-32 of all that is loaded of the file, which finds damage before the system's loader falls over it; 0 in what
others linked from an archive.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import dataclass, field
from ..base.untrusted_input import plain_json
from .loaded_model import ModelRoles
from .signature import Signature

__all__ = [
    "COMMON",
    "GPU_ROLES",
    "LONGEST_NAME",
    "MACHINES",
    "MAGIC",
    "ROLES",
    "SECTION",
    "VERSION",
    "LoadedFunction",
    "Metadata",
    "NoMetadata",
    "read_metadata",
    "seal_file",
]

SECTION = ".tilewright"
MAGIC = b"TILEWRGT"
VERSION = 5
COMMON = ("missing", "threads")
"""The function that asks the processor; the variable with the address of the process's threads, and the pool's functions."""
ROLES = ("call", "check", "run", "python")
GPU_ROLES = ("check", "run")
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""ELF's numbers of the machines that libraries are made for."""

_HEADER = struct.Struct("<8sIIIII")
_SEAL = _HEADER.size - 4
"""Where the seal lies in the section."""
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SECTION_TABLE, _OF_SECTIONS = slice(40, 48), slice(58, 64)
"""What the header says of sections: where their table lies; how many there are, and how large."""


LONGEST_NAME = 1000
"""Of a function, in characters."""
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}")


class NoMetadata(Exception):
    """The file is not what it should be. The argument says why."""


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A kernel of a library. key: its name in a Module. messages: of its assertions, by status - 1. variants: the instruction sets
    that each variant of its code needs, of which the processor has to have those of one."""

    name: str
    key: str
    signature: Signature
    messages: tuple[str, ...]
    variants: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(plain: Any) -> LoadedFunction:
        """Raise what Signature.from_json raises for what is not a function."""
        messages = tuple(plain["messages"])
        variants = tuple(tuple(needed) for needed in plain["variants"])
        texts = (plain["name"], plain["key"], *messages, *(name for needed in variants for name in needed))
        if not all(isinstance(text, str) for text in texts) or not _NAME.fullmatch(plain["name"]) or not variants:
            raise TypeError("a function without a name or code")
        return LoadedFunction(plain["name"], plain["key"], Signature.from_json(plain["signature"]), messages, variants)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Description of an exported library.

    machine: as MACHINES names it. address: of the section, from where the library is loaded. raw: the section. is_module: it
    was exported as several kernels. has_threads: its parallel loops run on threads. target: in words; features: the
    instructions that it asks about. cases: for a function of several shapes, the functions that it chooses among, by key.
    model: where its function is a whole model. description: all that the JSON text says.
    """

    machine: str
    version: int
    address: int
    raw: bytes
    functions: tuple[LoadedFunction, ...] = ()
    gpu_functions: tuple[LoadedFunction, ...] = ()
    is_module: bool = False
    has_threads: bool = False
    target: str = ""
    features: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    cases: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    model: ModelRoles | None = None
    description: dict[str, Any] = field(default_factory=dict[str, Any])


def read_metadata(content: bytes) -> Metadata:
    """Return what a file says of itself. Raises NoMetadata where it is no whole ELF library of ours; other versions than
    VERSION come without description."""
    machine, address, at, raw = _section(content)
    if len(raw) < _HEADER.size or raw[:8] != MAGIC:
        raise NoMetadata("its section of tilewright's is damaged")
    _, version, size, checksum, count, seal = _HEADER.unpack_from(raw)
    if version != VERSION:
        return Metadata(machine, version, address, raw)
    if seal and seal != _compute_seal(content, at):
        raise NoMetadata("its checksum differs: the loaded part of the file has changed")
    begin = _HEADER.size + 4 * count
    if begin + size > len(raw):
        raise NoMetadata("its section of tilewright's is damaged")
    offsets = struct.unpack_from(f"<{count}i", raw, _HEADER.size)
    text = raw[begin : begin + size]
    if zlib.crc32(text) != checksum:
        raise NoMetadata("its section of tilewright's is damaged")
    try:
        described = _parse_description(plain_json(text, len(text)))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as fault:
        raise NoMetadata(f"its description is not one of a library: {type(fault).__name__}: {fault}"[:300]) from None
    roles = [*COMMON, *ROLES * len(described["functions"]), *GPU_ROLES * len(described["gpu_functions"])]
    if count != len(roles):
        raise NoMetadata("its section of tilewright's is damaged")
    _require_offsets(content, address, len(raw), list(zip(roles, offsets, strict=True)))
    return Metadata(machine, version, address, raw, **described, offsets=offsets)


def seal_file(content: bytes) -> bytes:
    """A library with its seal. Raises NoMetadata where it is not a library of ours."""
    at = _section(content)[2]
    return content[: at + _SEAL] + _compute_seal(content, at).to_bytes(4, "little") + content[at + _HEADER.size :]


def _compute_seal(content: bytes, section: int) -> int:
    """Checksum of what is loaded, but for the seal itself and what the header says of sections, which strip changes. Never 0."""
    sound = bytearray(content)
    for left_out in (slice(section + _SEAL, section + _HEADER.size), _SECTION_TABLE, _OF_SECTIONS):
        sound[left_out] = bytes(left_out.stop - left_out.start)
    checksum = 0
    for segment in _segments(content):
        checksum = zlib.crc32(memoryview(sound)[segment.offset : segment.offset + segment.stored], checksum)
    return checksum or 1


def _parse_description(plain: Any) -> dict[str, Any]:
    """Return what a description says, by the fields of Metadata."""
    functions, gpu_functions = (tuple(map(LoadedFunction.of, plain[kind])) for kind in ("functions", "gpu_functions"))
    target, features = plain["target"], tuple(plain["target"]["features"])
    texts = (target["text"], target["cpu"], plain["threads"], *features)
    switches = (plain["is_module"], plain["is_parallel"])
    every = (*functions, *gpu_functions)
    if not every or not all(isinstance(text, str) for text in texts) or not all(type(one) is bool for one in switches):
        raise TypeError("a value of another type than it has")
    if len(features) > 64:
        raise ValueError(f"{len(features)} sets of instructions")
    cases = {str(name): tuple(keys) for name, keys in plain["cases"].items()}
    if any(function.signature.on_stream != (function in gpu_functions) for function in every):
        raise ValueError("a function of another kind than it is")
    known = {function.key for function in functions}
    if not all(keys and known.issuperset(keys) for keys in cases.values()) or known & cases.keys():
        raise ValueError("shapes of a function that is not there")
    model = ModelRoles.of(plain["model"], functions[0].signature) if plain.get("model") else None
    return {
        "functions": functions,
        "gpu_functions": gpu_functions,
        "cases": cases,
        "model": model,
        "is_module": switches[0],
        "has_threads": switches[1] and plain["threads"] != "none",
        "target": f"{target['text']!r} ({target['cpu']})",
        "features": features,
        "description": plain,
    }


def _require_offsets(content: bytes, address: int, size: int, offsets: Sequence[tuple[str, int]]) -> None:
    """Functions lie in code, and variables in memory that is written to; nothing in the section itself, of `size` bytes, which some
    linkers put beside code."""
    segments = _segments(content)
    for role, offset in offsets:
        flag = _WRITABLE if role in ("threads", "python") else _EXECUTABLE
        place = address + offset
        if 0 <= offset < size or not any(
            one.flags & flag and one.begin <= place < one.begin + one.size for one in segments
        ):
            raise NoMetadata(f"its section of tilewright's is damaged: {role} lies nowhere in it")


class _Segment(NamedTuple):
    """Loaded segment of a file: `stored` bytes from `offset`, to `size` bytes from the address `begin`."""

    kind: int
    flags: int
    offset: int
    begin: int
    physical: int
    stored: int
    size: int
    alignment: int


def _segments(content: bytes) -> list[_Segment]:
    """Return what is loaded of an ELF file."""
    fields = _ELF_HEADER.unpack_from(content)
    table, entry, count = fields[5], fields[9], fields[10]
    if entry != _SEGMENT.size or table + entry * count > len(content):
        raise NoMetadata("the file is truncated: it ends before its tables do")
    headers = [_Segment(*_SEGMENT.unpack_from(content, table + entry * i)) for i in range(count)]
    return [segment for segment in headers if segment.kind == _LOADED]


def _section(content: bytes) -> tuple[str, int, int, bytes]:
    """(machine, address, place in the file, bytes) of our section."""
    if len(content) < _ELF_HEADER.size or content[:6] != b"\x7fELF\x02\x01":
        raise NoMetadata("it is not a 64-bit little-endian ELF file")
    _, kind, machine, _, _, _, table, _, _, _, _, entry, count, names = _ELF_HEADER.unpack_from(content)
    if kind != 3:
        raise NoMetadata("it is an ELF file, but no shared library")
    if entry != _SECTION_HEADER.size or table + entry * count > len(content) or names >= count:
        raise NoMetadata("the file is truncated: it ends before its tables do")
    headers: list[tuple[int, ...]] = [_SECTION_HEADER.unpack_from(content, table + entry * i) for i in range(count)]
    strings = headers[int(names)]
    for name, sort, _, address, offset, size, *_ in headers:
        if sort != _NOBITS and offset + size > len(content):
            raise NoMetadata("the file is truncated: it ends before its contents do")
        start = strings[4] + name
        if content[start : start + len(SECTION) + 1] == SECTION.encode() + b"\0":
            return MACHINES.get(machine, f"machine {machine}"), address, offset, content[offset : offset + size]
    raise NoMetadata("it was not made by tilewright, or has lost the section that says so")


_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOADED, _EXECUTABLE, _WRITABLE = 1, 1, 2
"""ELF's type of segments that are loaded, and their flags."""
_NOBITS = 8
"""ELF's type of sections that occupy no bytes of the file."""
