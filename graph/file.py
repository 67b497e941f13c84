"""Graphs in files of the format safetensors: 8 bytes with the length of a header of JSON, the header, the bytes of all arrays.

The graph's text is the header's metadata, so that any reader of the format finds the parameters by name. Whatever the file says of
itself is checked before it is believed: types, places and sizes against the file's own.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import to_path
from ..base.errors import user_source
from ..base.untrusted_input import open_regular, plain_json
from .errors import BadGraphFile
from .types import array_dtype

__all__ = ["read_file", "write_file"]

_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_NAMES = {code: name for name, code in _CODES.items()}
_TEXT = "tilewright.graph"
_FORMAT, FORMAT = "tilewright.graph.format", "1"
"""Version of the metadata and of the graph's text. Files without it are of version 1."""
_MOST_HEADER = 100_000_000


def write_file(path: str | PathLike[str], text: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a graph's text and its parameters, at once or not at all. Raises BadGraphFile (TW0905)."""
    if to_path(path) is None:
        raise _bad(path, "the path is not valid on this system", "cannot be written")
    header: dict[str, Any] = {"__metadata__": {_TEXT: text, _FORMAT: FORMAT}}
    place = 0
    for name, array in arrays.items():
        # safetensors keeps what is no tensor under this name
        if name == "__metadata__":
            raise _bad(path, "the format has no place for a parameter called __metadata__")
        header[name] = {
            "dtype": _CODES[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    encoded = json.dumps(header).encode()
    # safetensors: the header ends with spaces, so that data begin at a multiple of 8 bytes
    encoded += b" " * (-len(encoded) % 8)
    # beside the target: a rename is atomic within one file system alone
    partial = Path(f"{os.fspath(path)}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(len(encoded).to_bytes(8, "little") + encoded)
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
        partial.replace(path)
    except OSError as problem:
        with suppress(OSError):  # of a name to which no suffix can be added
            partial.unlink()
        raise _bad(path, str(problem), "cannot be written") from problem


def read_file(path: str | PathLike[str]) -> tuple[str, dict[str, NDArray[Any]]]:
    """The text and the parameters of a file. Raises BadGraphFile (TW0905)."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MOST_HEADER):
                _refuse(path, "it is shorter than its header says")
            header = plain_json(file.read(length), _MOST_HEADER)
            # numpy refuses to map a file from its end on
            memory = np.memmap(file, np.uint8, "r", 8 + length) if size > 8 + length else np.empty(0, np.uint8)
    except OSError as problem:
        raise _bad(path, str(problem), "cannot be read") from problem
    except (ValueError, UnicodeDecodeError) as problem:
        raise _bad(path, f"its header is invalid: {problem}"[:300]) from problem
    entries = _read_object(header)
    about = _read_object(entries.pop("__metadata__", None))
    text, version = about.get(_TEXT), about.get(_FORMAT, FORMAT)
    if version != FORMAT:
        _refuse(path, f"its format has version {str(version)[:20]!r}, and this release reads version {FORMAT}")
    if not isinstance(text, str):
        _refuse(path, "it has no graph in its metadata: it may hold parameters alone")
    return text, {name: _read_array(path, name, entry, memory) for name, entry in entries.items()}


def _read_array(path: str | PathLike[str], name: str, entry: Any, memory: NDArray[np.uint8]) -> NDArray[Any]:
    """The part of the file that an entry of its header speaks of."""
    fields = _read_object(entry)
    shape, offsets, kind = (
        _counts(fields.get("shape")),
        _counts(fields.get("data_offsets")),
        _NAMES.get(str(fields.get("dtype"))),
    )
    if kind is None or shape is None or offsets is None or len(offsets) != 2:
        _refuse(path, f"its entry {name[:80]!r} is none")
    begin, end = offsets
    if not 0 <= begin <= end <= memory.size or end - begin != math.prod(shape) * array_dtype(kind).itemsize:
        _refuse(path, f"its entry {name[:80]!r} does not fit the file")
    return np.array(memory[begin:end]).view(array_dtype(kind)).reshape(shape)


def _read_object(value: object) -> dict[str, Any]:
    """An object of JSON; nothing where the value is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _counts(value: object) -> list[int] | None:
    """A list of JSON that holds numbers from 0 on."""
    # the header is from anybody: bounds keep products of extents from growing without end
    if not isinstance(value, list) or len(numbers := cast("list[Any]", value)) > 64:
        return None
    # type and not isinstance, to which true is a number
    return numbers if all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) else None


def _refuse(path: str | PathLike[str], reason: str) -> NoReturn:
    raise _bad(path, reason)


def _bad(path: str | PathLike[str], reason: str, what: str = "is not a file of a graph") -> BadGraphFile:
    return BadGraphFile(
        f"{str(path)[:200]!r} {what}", reason=reason, called=user_source(), fix="g.save(path) writes one"
    )
