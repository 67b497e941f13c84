"""A file of ONNX without its large weights: they are said to lie outside, in that very file, and are read from there one by one.

    initializer: raw_data = 9,437,184 bytes     →     initializer: location = "model.onnx", offset = 1057, length = 9437184

So the whole file is never in memory. Only the way to the weights is read here, by protobuf's wire format; what is not as expected
leaves the file as it is, for protobuf to read or to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["build_outline"]

_LEAST = 1 << 16
"""Bytes below which weights stay in the model."""
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _TYPE, _RAW, _EXTERNAL, _LOCATION = 1, 2, 9, 13, 14
_BYTES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8}
"""How many an element takes, by the dtype's number, of those that lie as numpy has them."""


class _Field(NamedTuple):
    """A field of a message. value: of numbers. begin, at, end: where its tag, its content and what follows it begin."""

    number: int
    is_message: bool
    value: int
    begin: int
    at: int
    end: int


def build_outline(content: memoryview, name: str) -> bytes | None:
    """Return the outline to parse in place of a file of this content and name; None for the file itself."""
    try:
        return _replace_field(
            content,
            0,
            len(content),
            _GRAPH,
            lambda graph: _replace_field(
                content, graph.at, graph.end, _INITIALIZER, lambda tensor: _refer_to_file(content, tensor, name)
            ),
        )
    except ValueError:
        return None


def _replace_field(
    content: memoryview, at: int, end: int, number: int, change: Callable[[_Field], bytes | None]
) -> bytes | None:
    """A message with the fields of this number replaced; None where none of them is."""
    parts: list[bytes | memoryview] = []
    kept = at
    for field in _read_fields(content, at, end):
        new = change(field) if field.number == number and field.is_message else None
        if new is not None:
            parts += [content[kept : field.begin], _message(number, new)]
            kept = field.end
    return b"".join([*parts, content[kept:end]]) if parts else None


def _refer_to_file(content: memoryview, tensor: _Field, name: str) -> bytes | None:
    """A large tensor, said to lie in the file."""
    fields = list(_read_fields(content, tensor.at, tensor.end))
    raw = [field for field in fields if field.number == _RAW and field.is_message]
    kinds = [field.value for field in fields if field.number == _TYPE]
    if (
        len(raw) != 1
        or len(kinds) != 1
        or raw[0].end - raw[0].at < _LEAST
        or any(field.number in (_EXTERNAL, _LOCATION) for field in fields)
    ):
        return None
    dims = [extent for field in fields if field.number == _DIMS for extent in _read_numbers(content, field)]
    size = raw[0].end - raw[0].at
    if math.prod(dims) * _BYTES.get(kinds[0], 0) != size:
        return None
    said = {"location": name, "offset": str(raw[0].at), "length": str(size)}
    entries = [
        _message(_EXTERNAL, _message(1, key.encode()) + _message(2, value.encode())) for key, value in said.items()
    ]
    return b"".join(
        [content[tensor.at : raw[0].begin], content[raw[0].end : tensor.end], *entries, _number(_LOCATION << 3), b"\1"]
    )


def _read_fields(content: memoryview, at: int, end: int) -> Iterator[_Field]:
    """The fields of a message. Raises ValueError for what is none."""
    while at < end:
        begin = at
        tag, at = _read_varint(content, at, end)
        kind, value = tag & 7, 0
        start = at
        if kind == 0:
            value, at = _read_varint(content, at, end)
        elif kind == 2:
            length, start = _read_varint(content, at, end)
            at = start + length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("a field of no kind")
        if at > end:
            raise ValueError("a field is longer than what it is in")
        yield _Field(tag >> 3, kind == 2, value, begin, start, at)


def _read_numbers(content: memoryview, field: _Field) -> Iterator[int]:
    """The numbers of a field that may hold several."""
    at = field.at
    while field.is_message and at < field.end:
        value, at = _read_varint(content, at, field.end)
        yield value
    if not field.is_message:
        yield field.value


def _read_varint(content: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = content[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise ValueError("a number that does not end")


def _number(value: int) -> bytes:
    parts: list[int] = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _message(number: int, content: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(content)) + content
