"""The arguments of a call as generated code reads them, made here where that code does not make them itself."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .abi import DLPACK_TYPES, ITEM_BYTES, REGISTERED_TYPES, ArgumentRecord, Flag
from .array import numpy_dtype
from .signature import Signature
from .tensors import Found

__all__ = ["make_records"]


def make_records(
    signature: Signature,
    values: Sequence[Found | int | float],
) -> tuple[ctypes.Array[ArgumentRecord], list[Any]]:
    """The records of all arguments, and what must live as long as they do."""
    records = (ArgumentRecord * max(len(values), 1))()
    keep: list[Any] = []
    for record, param, value in zip(records, signature.params, values, strict=False):
        if not isinstance(value, Found):
            record.data = _scalar_bits(param.dtype, value)
            continue
        ndim = len(value.shape)
        shape = (ctypes.c_int64 * ndim)(*value.shape)
        strides = (ctypes.c_int64 * ndim)(*value.strides) if value.strides is not None else None
        keep += [shape, strides]
        record.data, record.ndim, record.unit = value.data, ndim, 1
        record.shape = ctypes.addressof(shape)
        record.strides = ctypes.addressof(strides) if strides is not None else None
        record.dtype = DLPACK_TYPES.get(value.dtype, 0)
        record.flags = (Flag.READ_ONLY if value.read_only else 0) | (Flag.FOREIGN_DEVICE if value.device else 0)
    return records, keep


def _scalar_bits(dtype: str, value: float) -> int:
    """64 bits that hold a scalar as generated code expects it (see ArgumentRecord)."""
    if dtype in ("float16", *REGISTERED_TYPES):
        with np.errstate(over="ignore"):
            return int(np.asarray(value, numpy_dtype(dtype)).view(f"u{ITEM_BYTES[dtype]}"))
    if dtype in ("float32", "float64"):
        return int.from_bytes(struct.pack("<d", value), "little")
    return int(value) & (1 << 64) - 1
