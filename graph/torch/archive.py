"""Archives .pt2 of torch.export, read without torch: a zip of JSON and raw weights.

Nothing of one is trusted. Entries are looked up by name inside the archive and never become paths; they are read only where they
lie uncompressed, so that nothing grows beyond the file's own size; what is pickled is never read.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_source
from ...base.untrusted_input import open_regular, plain_json
from ..errors import BadExternalData, NotAModel
from ..node import Param
from ..types import array_dtype
from .schema import TensorMeta, tensor_meta

__all__ = ["Archive"]

_MOST_JSON = 1 << 28
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    RuntimeError,
    EOFError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class Archive:
    """A file .pt2, or its bytes. program: the exported program as JSON. Raises NotAModel (TW0911)."""

    def __init__(self, source: str | PathLike[str] | bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else open_regular(source))
            names = self._zip.namelist()
        except _DAMAGE as problem:
            shown = "these bytes are" if isinstance(source, bytes) else f"{os.fspath(source)!r} is"
            raise _damaged_archive(f"{shown} no archive .pt2", str(problem)) from None
        self._params: dict[tuple[str, TensorMeta], Param] = {}
        if len(set(names)) != len(names):
            raise _damaged_archive(
                "the archive has two entries of one name", "the archive does not say which one is meant"
            )
        models = [name for name in names if "/models/" in name and name.endswith(".json")]
        if len(models) != 1:
            old = any(name.endswith("serialized_exported_program.json") for name in names)
            raise _damaged_archive(
                "the archive holds no single exported program"
                if not old
                else "the archive was written by torch before 2.8",
                f"it has {len(models)} entries models/*.json",
            )
        self._root, _, name = models[0].partition("/models/")
        order = f"{self._root}/byteorder"
        if order in names and self._read_bytes(order, 16).strip() != b"little":
            raise _damaged_archive("the archive's weights are not little endian", "only those can be read")
        self.program: Any = self._read_json(models[0])
        stem = name.removesuffix(".json")
        self._payloads = {**self._read_payload("weights", stem), **self._read_payload("constants", stem)}

    def param(self, name: str) -> Param:
        """The parameter, buffer or constant of this name. Equal ones are one. Raises BadExternalData (TW0913)."""
        payload = self._payloads.get(name)
        if payload is None:
            raise _missing_data(name, "the archive does not list it")
        folder, entry = payload
        if entry.get("use_pickle") is not False:
            raise _missing_data(name, "it is pickled, and pickles are never read")
        path, meta = entry.get("path_name"), tensor_meta(entry.get("tensor_meta"))
        if not isinstance(path, str) or not (meta.dtype or meta.parts):
            raise _missing_data(name, "its location or its dtype cannot be read")
        key = f"{self._root}/data/{folder}/{path}", meta
        if key not in self._params:
            self._params[key] = Param.of(self._read_strided(name, key[0], meta))
        return self._params[key]

    def _read_strided(self, name: str, path: str, meta: TensorMeta) -> NDArray[Any]:
        """The elements that a tensor has in its storage, which may hold others between them."""
        shape, strides = tuple(extent for extent in meta.shape if isinstance(extent, int)), meta.strides
        if len(shape) != len(meta.shape) or len(shape) != len(strides) or min(*shape, *strides, meta.offset, 0) < 0:
            raise _missing_data(name, "its shape and strides are not numbers")
        dtype = (
            array_dtype(meta.dtype)
            if meta.dtype
            else np.dtype(np.complex64 if meta.parts == "float32" else np.complex128)
        )
        content = self._read_bytes(path, None, name)
        count, wanted = len(content) // dtype.itemsize, 1
        for extent in shape:
            wanted *= extent
        if wanted == 0:
            return _split_complex(np.zeros(shape, dtype))
        last = meta.offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        if wanted > count or last >= count:
            raise _missing_data(name, f"{wanted} elements of {meta.dtype} are not in its {len(content)} bytes")
        whole = np.frombuffer(content[: count * dtype.itemsize], dtype)[meta.offset :]
        return _split_complex(
            np.lib.stride_tricks.as_strided(
                whole, shape, tuple(stride * dtype.itemsize for stride in strides), writeable=False
            )
        )

    def _read_payload(self, folder: str, stem: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
        name = f"{self._root}/data/{folder}/{stem}_{folder}_config.json"
        if name not in self._zip.NameToInfo:
            return {}
        whole = self._read_json(name)
        config: Any = cast("dict[str, Any]", whole).get("config") if isinstance(whole, dict) else None
        if not isinstance(config, dict) or not all(
            isinstance(entry, dict) for entry in cast("dict[str, Any]", config).values()
        ):
            raise _damaged_archive(
                f"the archive's entry {name!r} is not what it should be", "it has no table of tensors"
            )
        return {key: (folder, entry) for key, entry in cast("dict[str, Mapping[str, Any]]", config).items()}

    def _read_json(self, name: str) -> Any:
        try:
            return plain_json(self._read_bytes(name, _MOST_JSON), _MOST_JSON, 200)
        except ValueError as problem:
            raise _damaged_archive(f"the archive's entry {name[:100]!r} is not JSON", str(problem)) from None

    def _read_bytes(self, name: str, most: int | None, tensor: str = "") -> bytes:
        """An entry, which lies in the archive as it is. tensor: whose elements it holds."""
        entry = self._zip.NameToInfo.get(name)
        if entry is None or entry.is_dir():
            reason = f"there is no entry {name[:200]!r}"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 1:
            reason = f"the entry {name[:200]!r} is compressed or encrypted, which torch does not do"
        elif most is not None and entry.file_size > most:
            reason = f"the entry {name[:200]!r} has {entry.file_size} bytes"
        else:
            try:
                return self._zip.read(entry)
            except _DAMAGE as problem:
                reason = str(problem)
        raise _missing_data(tensor, reason) if tensor else _damaged_archive("the archive is not whole", reason)


def _split_complex(array: NDArray[Any]) -> NDArray[Any]:
    """An array as values have it: complex numbers are pairs, the last dimension."""
    if array.dtype.kind != "c":
        return array
    kind = np.float32 if array.dtype == np.complex64 else np.float64
    return np.ascontiguousarray(array)[..., None].view(kind)


def _damaged_archive(what: str, reason: str) -> NotAModel:
    return NotAModel(
        what[:300],
        reason=reason[:500],
        called=user_source(),
        fix="write it again by torch.export.save of torch 2.8 or newer",
    )


def _missing_data(name: str, reason: str) -> BadExternalData:
    return BadExternalData(
        f"the values of {name!r} are not there"[:200],
        reason=reason[:300],
        called=user_source(),
        fix="write the archive again by torch.export.save, of plain tensors",
    )
