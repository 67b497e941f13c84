"""DLPack capsules around memory that numpy does not know: how a GPU's array reaches torch, jax and cupy without a copy."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from .abi import DLPACK_TYPES, DLTensor

__all__ = ["make_capsule"]

_UNUSED = b"dltensor"
_held: dict[int, Any] = {}
"""What each capsule's tensor stands on, by the tensor's address, until its consumer is done with it."""


class _Managed(ctypes.Structure):
    """DLManagedTensor, which every version of DLPack reads."""

    _fields_ = (("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address: int) -> None:
    _held.pop(address, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule: int) -> None:
    """A consumer renames the capsule that it takes, and calls the deleter itself."""
    if _is_valid(capsule, _UNUSED):  # a consumed capsule has another name, and its consumer deletes
        _held.pop(_pointer(capsule, _UNUSED), None)


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def make_capsule(data: int, shape: tuple[int, ...], dtype: str, device: tuple[int, int], owner: Any) -> Any:
    """An unused DLPack capsule of a compact row-major tensor.

    data: the first element's address. device: DLPack's device type and the device's number. owner: kept alive until the
    consumer calls the deleter, or until the capsule is dropped unused.
    """
    rank = len(shape)
    extents = (ctypes.c_int64 * rank)(*shape)
    strides = (ctypes.c_int64 * rank)(*(math.prod(shape[d + 1 :]) for d in range(rank)))
    managed = _Managed(
        DLTensor(data, *device, rank, DLPACK_TYPES[dtype], extents, strides, 0),
        None,
        ctypes.cast(_delete, ctypes.c_void_p),
    )
    address = ctypes.addressof(managed)
    _held[address] = managed, extents, strides, owner  # C holds addresses alone: Python must keep the objects
    return _new(address, _UNUSED, ctypes.cast(_drop_capsule, ctypes.c_void_p))
