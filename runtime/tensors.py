"""Other people's tensors: finding the memory behind anything that has some, without a copy.

In order: numpy arrays; DLPack (torch, jax, cupy and so on); `__array_interface__`; the buffer protocol.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..base import BEYOND_MEMORY, dataclass, is_interruption
from ..base.arguments import is_array
from .abi import DLPACK_TYPES, ITEM_BYTES, PACKED_TYPES, REGISTERED_TYPES, DLTensor, ExchangeApi, array_bytes
from .device import HOST_KINDS, dlpack_name
from .span import RefusedMemory, require_span, usable_strides

__all__ = [
    "MOST_DIMENSIONS",
    "Found",
    "NoMemory",
    "RefusedMemory",
    "make_array",
    "capsule_tensor",
    "describing_function",
    "find_device_tensor",
    "find_numpy_dtype",
    "find_tensor",
    "is_compact_tensor",
    "is_negative_view",
    "is_ordinary",
    "quick_view",
    "require_array",
]

_NAMES = {number: name for name, number in DLPACK_TYPES.items()}
_READ_ONLY_FLAG = 1
_CUDA_KINDS = (2, 13)
"""DLPack device types whose memory GPUs address: their own, and managed memory."""
_NO_MORE: Mapping[str, int] = {}
MOST_DIMENSIONS = 64
"""Of an array of numpy's."""


class NoMemory(Exception):
    """The value is not a tensor of any kind. The argument is a hint for the user, or empty."""


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
        """Bytes of all elements; 0 for a dtype that is not ours."""
        return array_bytes(self.dtype, math.prod(self.shape)) if self.dtype in ITEM_BYTES else 0


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def capsule_tensor(capsule: Any) -> tuple[DLTensor, bool]:
    """(the tensor inside a DLPack capsule, whether it is read-only). The capsule stays its owner and frees it.

    Raises RefusedMemory for anything else than an unused DLPack capsule, and for a tensor that cannot be one.
    """
    address, read_only = _sound_tensor(capsule)
    return DLTensor.from_address(address), read_only


def _sound_tensor(capsule: Any) -> tuple[int, bool]:
    """(the address of a capsule's tensor, whether it is read-only). Raises RefusedMemory."""
    name = _capsule_name(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if name == b"dltensor":
        address = _capsule_pointer(capsule, name)
        _require_sound(*_TENSOR.unpack_from(_TENSOR_BYTES(address)))
        return address, False
    if name != b"dltensor_versioned":
        raise RefusedMemory(f"its __dlpack__ gave {capsule!r}, which is not an unused DLPack capsule")
    address = _capsule_pointer(capsule, name)
    major, minor, flags, *fields = _VERSIONED.unpack_from(_VERSIONED_BYTES(address))
    if major > 1:
        raise RefusedMemory(f"its DLPack version is {major}.{minor}; versions 0 and 1 are known")
    _require_sound(*fields)
    return address + _VERSIONED.size - _TENSOR.size, bool(flags & _READ_ONLY_FLAG)


_TENSOR = struct.Struct("=QiiiIQQQ")
_VERSIONED = struct.Struct("=II16xQ" + _TENSOR.format[1:])
_TENSOR_BYTES = (ctypes.c_char * _TENSOR.size).from_address
_VERSIONED_BYTES = (ctypes.c_char * _VERSIONED.size).from_address
"""A DLTensor, and DLManagedTensorVersioned of DLPack 1.0 and later (without its manager and deleter), read at once: every call
with a tensor of somebody's does."""


@cache
def _read_layout(rank: int) -> tuple[struct.Struct, type[Any]]:
    return struct.Struct(f"={rank}q"), ctypes.c_char * (8 * rank)


def _integers(rank: int, address: int) -> tuple[int, ...]:
    """The int64 numbers at an address."""
    numbers, memory = _read_layout(rank)
    return numbers.unpack_from(memory.from_address(address))


def _require_sound(
    data: int,
    device: int,
    _index: int,
    rank: int,
    dtype: int,
    shape: int,
    strides: int,
    byte_offset: int,
) -> None:
    """Refuse what cannot be a tensor. That its addresses are those of memory is what its producer vouches for; what can be told
    from the description alone is looked at, since numpy and kernels follow it."""
    if not 0 <= rank <= MOST_DIMENSIONS:
        raise RefusedMemory(f"its DLPack tensor has {rank} dimensions, and 0 to {MOST_DIMENSIONS} are possible")
    if rank and not shape:
        raise RefusedMemory(f"its DLPack tensor has {rank} dimensions, and NULL for its shape")
    extents = _integers(rank, shape) if rank else ()
    steps = _integers(rank, strides) if rank and strides else None
    item = (dtype >> 8 & 0xFF) * (dtype >> 16) + 7 >> 3
    if byte_offset >= BEYOND_MEMORY:
        raise RefusedMemory("its DLPack tensor exceeds the address space")
    require_span(
        data + byte_offset if data else 0,
        extents,
        None if steps is None else [step * item for step in steps],
        item,
        on_host=device in HOST_KINDS,
        is_offset=bool(byte_offset),
    )


def find_tensor(value: object) -> Found:
    """The memory behind `value`. Raises NoMemory or RefusedMemory."""
    if is_array(value):
        return _find_array(value, value)
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__"):
        return _find_dlpack(value)
    if _read_interface(value, "__array_interface__") is not None:
        return _find_interface(value)
    return _find_buffer(value)


def _read_interface(value: object, name: str) -> Any:
    """An interface that describes arrays, None where there is none. Raises RefusedMemory for whatever a property raises."""
    try:
        return getattr(value, name, None)
    except Exception as error:
        if is_interruption(error):
            raise
        raise RefusedMemory(f"its {name} says: {error!r}"[:300]) from error


def find_device_tensor(value: object, stream: int | None = None) -> Found:
    """The memory behind `value` wherever it lies: by DLPack, else `__cuda_array_interface__`, else as find_tensor.
    `device` of what is found is "cuda(0)" and the like for GPU memory. stream: on which it will be used, as DLPack numbers it.
    Raises NoMemory or RefusedMemory."""
    if hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__") and not is_array(value):
        kind, index = _find_device(value)
        if kind in _CUDA_KINDS:
            tensor = _find_capsule(value, {} if stream is None else {"stream": stream})
            tensor.device = f"cuda({index})"
            return tensor
    interface = _read_interface(value, "__cuda_array_interface__")
    return find_tensor(value) if interface is None else _find_cuda_interface(value, interface)


def _find_cuda_interface(value: Any, interface: Mapping[str, Any]) -> Found:
    try:
        data, read_only = interface["data"]
        dtype = np.dtype(interface["typestr"])
        shape, strides = (_read_integers(interface.get(field)) for field in ("shape", "strides"))
        device = getattr(value, "device", None)
        index = getattr(device, "index", None)
        if index is None:
            index = getattr(device, "id", 0)  # cupy's name for it
        place, index = operator.index(data or 0), operator.index(index or 0)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RefusedMemory(f"its __cuda_array_interface__ does not hold: {error!r}"[:300]) from error
    if shape is None or (strides is not None and len(strides) != len(shape)):
        raise RefusedMemory("its __cuda_array_interface__ has no shape, or strides of another rank")
    require_span(place, shape, strides, dtype.itemsize, on_host=False)
    return Found(
        place,
        "bfloat16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name,
        shape,
        usable_strides(shape, strides),
        bool(read_only),
        value,
        f"cuda({index})",
        swapped=not dtype.isnative,
    )


def _read_integers(given: Iterable[Any] | None) -> tuple[int, ...] | None:
    return None if given is None else tuple(map(operator.index, given))


def make_array(found: Found) -> NDArray[Any]:
    """A numpy array on a host tensor's memory; its dtype must be one of ours."""
    owner: object = found.owner
    if is_array(owner):
        return owner
    return np.asarray(_Interface(found)).view(find_numpy_dtype(found.dtype))


def is_ordinary(found: Found) -> bool:
    """Return whether numpy can hold it: on the host, of a dtype that we have, an element a byte at least."""
    return not found.device and found.dtype in ITEM_BYTES and found.dtype not in PACKED_TYPES


def quick_view(value: Any, writable: bool) -> NDArray[Any] | None:
    """A numpy array on the memory of a DLPack tensor by numpy's own quick import; None where that does not serve."""
    try:
        capsule = _export(value)
        _sound_tensor(capsule)  # numpy believes what it says
        view = np.from_dlpack(_Exported(capsule))
    except (RefusedMemory, BufferError, RuntimeError, TypeError, ValueError):
        return None  # numpy knows no dtypes of ml_dtypes, no other devices; find_tensor does, and says what is wrong
    return view if view.flags.writeable or not writable else None


def describing_function(kind: type) -> int:
    """The address of the C function by which tensors of exactly this type fill a DLTensor, without a capsule; 0 where there is
    none. Only torch's: such a description cannot say that its tensor is read-only, and torch has none that are."""
    capsule = vars(kind).get("__dlpack_c_exchange_api__")
    if (
        type(capsule).__name__ != "PyCapsule"
        or kind.__module__ != "torch"
        or _capsule_name(capsule) != b"dlpack_exchange_api"
    ):
        return 0
    api = ExchangeApi.from_address(_capsule_pointer(capsule, b"dlpack_exchange_api"))
    return (api.describe or 0) if api.major == 1 else 0


@cache
def _describes_itself(kind: type) -> bool:
    return describing_function(kind) != 0


def is_compact_tensor(value: object) -> bool:
    """Return whether this is a tensor of torch's in the host's memory that kernels read as it lies, row by row."""
    tensor = cast("Any", value)
    return (
        _describes_itself(type(value))
        and tensor.is_cpu
        and tensor.layout is sys.modules["torch"].strided
        and not tensor.requires_grad
        and tensor.is_contiguous()
    )


class _Exported:
    """Hands on a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST_KINDS[0], 0


class _Interface:
    """A tensor as numpy's array interface describes it, in unsigned integers of the element's size."""

    def __init__(self, found: Found) -> None:
        self.owner = found.owner
        self.__array_interface__ = {
            "version": 3,
            "shape": found.shape,
            "strides": found.strides,
            "data": (found.data, found.read_only),
            "typestr": f"<u{ITEM_BYTES[found.dtype]}",
        }


def find_numpy_dtype(name: str) -> np.dtype[Any]:
    """numpy's dtype for one of ours, or ml_dtypes'."""
    if name not in REGISTERED_TYPES and name not in PACKED_TYPES:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _find_array(values: NDArray[Any], owner: Any) -> Found:
    if isinstance(owner, np.ma.MaskedArray):
        raise NoMemory("it is a masked array, and kernels know no masks: pass x.data, or x.filled(value)")
    require_array(values)
    data = values.__array_interface__["data"][0]
    return Found(
        data,
        values.dtype.name,
        values.shape,
        values.strides,
        not values.flags.writeable,
        values,
        swapped=not values.dtype.isnative,
    )


def require_array(values: NDArray[Any]) -> None:
    """Raise RefusedMemory for an array that says more than memory has, as numpy's stride tricks make them."""
    if not values.flags.c_contiguous:
        data = values.__array_interface__["data"][0]
        require_span(data, values.shape, values.strides, values.itemsize, on_host=True)


def _find_device(value: Any) -> tuple[int, int]:
    """Return what `__dlpack_device__` says. Raises RefusedMemory."""
    try:
        kind, index = value.__dlpack_device__()
        return int(kind), int(index)
    except Exception as error:
        if is_interruption(error):
            raise
        raise RefusedMemory(f"its __dlpack_device__ says: {error!r}"[:300]) from error


def _find_dlpack(value: Any) -> Found:
    kind, index = _find_device(value)
    if kind in HOST_KINDS:
        return _find_capsule(value)
    try:
        shape = tuple(int(extent) for extent in getattr(value, "shape", ()))
        dtype = str(getattr(value, "dtype", ""))
    except (TypeError, ValueError, OverflowError, RuntimeError, AttributeError):
        shape, dtype = (), ""
    return Found(0, dtype, shape, None, False, value, dlpack_name(kind, index))


def _find_capsule(value: Any, named: Mapping[str, int] = _NO_MORE) -> Found:
    capsule = _export(value, named)
    tensor, read_only = capsule_tensor(capsule)
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    code, bits, lanes = tensor.dtype & 0xFF, tensor.dtype >> 8 & 0xFF, tensor.dtype >> 16
    dtype = _NAMES.get(tensor.dtype, f"DLPack type {code}, {bits} bits" + (f" x {lanes}" if lanes != 1 else ""))
    item = ITEM_BYTES.get(dtype, 1)
    strides = tuple(tensor.strides[d] * item for d in range(tensor.ndim)) if tensor.strides else None
    # jax's arrays never change, and its older capsules cannot say so.
    read_only = read_only or type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    device = "" if tensor.device_type in HOST_KINDS else dlpack_name(tensor.device_type, tensor.device_id)
    data = (tensor.data or 0) + tensor.byte_offset
    return Found(data, dtype, shape, usable_strides(shape, strides), read_only, (capsule, value), device)


def _export(value: Any, named: Mapping[str, int] = _NO_MORE) -> Any:
    """The capsule that a value gives. named: what else it is asked. Raises RefusedMemory for whatever its class raises, and for a
    negative view of torch's, of which DLPack cannot tell that its elements have the other sign in memory."""
    try:
        if is_negative_view(value):
            raise BufferError("it is a negative view: its elements have the other sign in memory")
        try:
            return value.__dlpack__(
                max_version=(1, 0), **named
            )  # only from version 1 on can a tensor say that it is read-only
        except TypeError:
            return value.__dlpack__(**named)
    except Exception as error:
        if is_interruption(error):
            raise
        raise RefusedMemory(f"its __dlpack__ says: {error}"[:300]) from error


def is_negative_view(value: Any) -> bool:
    """Return whether it is a tensor of torch's with the negative bit, as `z.conj().imag` has it and a clone of that keeps it."""
    asked = getattr(value, "is_neg", None)
    return asked is not None and bool(asked())


def _find_interface(value: Any) -> Found:
    try:
        array = np.asarray(value)
    except Exception as error:
        if is_interruption(error):
            raise
        raise RefusedMemory(f"its __array_interface__ does not hold: {error}"[:300]) from error
    return _find_array(array, value)


def _find_buffer(value: Any) -> Found:
    if isinstance(value, str):
        raise NoMemory("")
    try:
        view = memoryview(value)
    except TypeError:
        raise NoMemory(_advice(value)) from None
    except Exception as error:
        if is_interruption(error):
            raise
        raise RefusedMemory(f"its buffer is gone: {error}"[:300]) from error
    try:
        array = np.asarray(view)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RefusedMemory(f"its buffer does not describe elements that we know: {error}"[:300]) from error
    return _find_array(array, value)


def _advice(value: Any) -> str:
    if isinstance(value, (list, tuple, range)) or hasattr(value, "__array__"):
        return "pass np.asarray(x, dtype=...), or tw.array(x)"
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return "a tensor of rank 0 is np.array(x, dtype=...)"
    return ""
