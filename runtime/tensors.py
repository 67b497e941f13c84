"""Other people's tensors: finding the memory behind anything that has some, without a copy.

In order: numpy arrays; DLPack (torch, jax, cupy and so on); `__array_interface__`; the buffer protocol.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .abi import DLPACK_TYPES, ITEM_BYTES
from .device import HOST_KINDS, dlpack_name

__all__ = ["DLTensor", "Found", "NoMemory", "RefusedMemory", "array_of", "capsule_tensor", "find_device_tensor", "find_tensor",
           "is_ordinary", "quick_view"]

_NAMES = {number: name for name, number in DLPACK_TYPES.items()}
_READ_ONLY_FLAG = 1
_CUDA_KINDS = (2, 13)
"""DLPack device types whose memory GPUs address: their own, and managed memory."""


class DLTensor(ctypes.Structure):
    """DLPack's description of a tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of DLPack 1.0 and later."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    )


class NoMemory(Exception):
    """The value is no tensor of any kind. The argument is a hint for the user, or empty."""


class RefusedMemory(Exception):
    """The value is a tensor, but does not hand out its memory. The argument is its reason."""


@dataclass(slots=True)
class Found:
    """A tensor's memory. strides: in bytes, () where compact. device: "" for the host's memory, else whose it is.
    swapped: elements in the other byte order. owner: keeps the memory alive."""

    data: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    read_only: bool
    owner: Any
    device: str = ""
    swapped: bool = False

    @property
    def bytes(self) -> int:
        """Of all elements; 0 for a dtype that is not ours."""
        size = ITEM_BYTES.get(self.dtype, 0)
        for extent in self.shape:
            size *= extent
        return size


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def capsule_tensor(capsule: Any) -> tuple[DLTensor, bool]:
    """(the tensor inside a DLPack capsule, whether it is read-only). The capsule stays its owner and frees it.

    Raises RefusedMemory for anything else than an unused DLPack capsule.
    """
    name = _capsule_name(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if name == b"dltensor":
        return DLTensor.from_address(_capsule_pointer(capsule, name)), False
    if name != b"dltensor_versioned":
        raise RefusedMemory(f"its __dlpack__ gave {capsule!r}, which is no unused DLPack capsule")
    held = _Versioned.from_address(_capsule_pointer(capsule, name))
    if held.major > 1:
        raise RefusedMemory(f"its DLPack version is {held.major}.{held.minor}; versions 0 and 1 are known")
    return held.tensor, bool(held.flags & _READ_ONLY_FLAG)


def find_tensor(value: Any) -> Found:
    """The memory behind `value`. Raises NoMemory or RefusedMemory."""
    if isinstance(value, np.ndarray):
        return _find_array(value, value)
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__"):
        return _find_dlpack(value)
    if hasattr(value, "__array_interface__"):
        return _find_interface(value)
    return _find_buffer(value)


def find_device_tensor(value: Any) -> Found:
    """The memory behind `value` wherever it lies: by DLPack, else `__cuda_array_interface__`, else as find_tensor.
    `device` of what is found is "cuda(0)" and the like for GPU memory. Raises NoMemory or RefusedMemory."""
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__") and not isinstance(value, np.ndarray):
        kind, index = value.__dlpack_device__()
        if int(kind) in _CUDA_KINDS:
            tensor = _find_capsule(value)
            tensor.device = f"cuda({index})"
            return tensor
    interface = getattr(value, "__cuda_array_interface__", None)
    return find_tensor(value) if interface is None else _find_cuda_interface(value, interface)


def _find_cuda_interface(value: Any, interface: Mapping[str, Any]) -> Found:
    data, read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    name = "bfloat16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name
    device = getattr(value, "device", None)
    index = getattr(device, "index", None)
    if index is None:
        index = getattr(device, "id", 0)  # cupy's name for it
    return Found(data, name, tuple(interface["shape"]), interface.get("strides"), read_only, value, f"cuda({int(index or 0)})",
                 swapped=not dtype.isnative)


def array_of(found: Found) -> NDArray[Any]:
    """A numpy array on a host tensor's memory; its dtype must be one of ours."""
    if isinstance(found.owner, np.ndarray):
        return found.owner
    return np.asarray(_Interface(found)).view(_numpy_dtype(found.dtype))


def is_ordinary(found: Found) -> bool:
    """Whether numpy can hold it: on the host, of a dtype that we have."""
    return not found.device and found.dtype in ITEM_BYTES


def quick_view(value: Any, writable: bool) -> NDArray[Any] | None:
    """A numpy array on the memory of a DLPack tensor by numpy's own quick import; None where that does not serve."""
    try:
        view = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError):
        return None        # numpy knows no bfloat16, no other devices; find_tensor does, and says what is wrong
    return view if view.flags.writeable or not writable else None


class _Interface:
    """A tensor as numpy's array interface describes it, in unsigned integers of the element's size."""

    def __init__(self, found: Found) -> None:
        self.owner = found.owner
        self.__array_interface__ = {
            "version": 3, "shape": found.shape, "strides": found.strides, "data": (found.data, found.read_only),
            "typestr": f"<u{ITEM_BYTES[found.dtype]}",
        }


def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    from ml_dtypes import bfloat16

    return np.dtype(bfloat16)


def _find_array(values: NDArray[Any], owner: Any) -> Found:
    if isinstance(owner, np.ma.MaskedArray):
        raise NoMemory("it is a masked array, and kernels know no masks: pass x.data, or x.filled(value)")
    data = values.__array_interface__["data"][0]
    return Found(data, values.dtype.name, values.shape, values.strides, not values.flags.writeable, values,
                 swapped=not values.dtype.isnative)


def _find_dlpack(value: Any) -> Found:
    try:
        kind, index = value.__dlpack_device__()
        if int(kind) not in HOST_KINDS:
            shape = tuple(int(extent) for extent in getattr(value, "shape", ()))
            return Found(0, str(getattr(value, "dtype", "")), shape, None, False, value, dlpack_name(int(kind), index))
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise RefusedMemory(f"its __dlpack__ says: {error}") from error
    return _find_capsule(value)


def _find_capsule(value: Any) -> Found:
    try:
        capsule = _export(value)
        tensor, read_only = capsule_tensor(capsule)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise RefusedMemory(f"its __dlpack__ says: {error}") from error
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    dtype = _NAMES.get(tensor.dtype, f"DLPack type {tensor.dtype & 0xFF}, {tensor.dtype >> 8 & 0xFF} bits")
    item = ITEM_BYTES.get(dtype, 1)
    strides = tuple(tensor.strides[d] * item for d in range(tensor.ndim)) if tensor.strides else None
    # jax's arrays never change, and its older capsules cannot say so.
    read_only = read_only or type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    return Found((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, read_only, (capsule, value))


def _export(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))      # only from version 1 on can a tensor say that it is read-only
    except TypeError:
        return value.__dlpack__()


def _find_interface(value: Any) -> Found:
    try:
        return _find_array(np.asarray(value), value)
    except (TypeError, ValueError, AttributeError) as error:
        raise RefusedMemory(f"its __array_interface__ does not hold: {error}") from error


def _find_buffer(value: Any) -> Found:
    if isinstance(value, str):
        raise NoMemory("")
    try:
        view = memoryview(value)
    except TypeError:
        raise NoMemory(_advice(value)) from None
    except (ValueError, BufferError) as error:
        raise RefusedMemory(f"its buffer is gone: {error}") from error
    try:
        return _find_array(np.asarray(view), value)
    except (TypeError, ValueError) as error:
        raise RefusedMemory(f"its buffer does not describe elements that we know: {error}") from error


def _advice(value: Any) -> str:
    if isinstance(value, (list, tuple, range)) or hasattr(value, "__array__"):
        return "pass np.asarray(x, dtype=...), or tw.array(x)"
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return "a tensor of rank 0 is np.array(x, dtype=...)"
    return ""
