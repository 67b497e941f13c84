"""Arrays: numpy arrays with a device, aligned for vectors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import is_array
from ..base.errors import is_interruption, user_source
from .abi import DLPACK_TYPES, ITEM_BYTES, PACKED_TYPES, REGISTERED_TYPES, array_bytes
from .cuda_array import device_array, device_empty
from .device import Device, cpu
from .errors import KernelOutOfMemory, NotATensor, UnknownDevice, UnreadableTensor, WrongDType, WrongShape
from .packed_array import PackedArray
from .tensors import (
    MOST_DIMENSIONS,
    Found,
    NoMemory,
    RefusedMemory,
    capsule_tensor,
    find_numpy_dtype,
    find_tensor,
    is_ordinary,
    make_array,
    quick_view,
    require_array,
)

__all__ = ["ALIGNMENT", "Array", "array", "dtype_name", "empty", "from_dlpack", "numpy_dtype", "readable_array"]

ALIGNMENT = 64
"""Of the first element's address in bytes: a cache line, and the longest vector."""


class Array(np.ndarray[Any, np.dtype[Any]]):
    """A host array of any shape and of a dtype that kernels compute with. It is a numpy array, so indexing, printing, the buffer
    protocol and numpy's functions all work; numpy(), copyfrom() and copyto() are TVM's. tw.array and tw.empty make them."""

    @property
    def device(self) -> Device:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return where the memory lies."""
        return cpu()

    ctx = device  # TVM's older name

    def numpy(self) -> NDArray[Any]:
        """A copy as a plain numpy array of the same shape and dtype; `numpy.asarray(a)` and `a.view(numpy.ndarray)` share the
        memory instead."""
        return np.array(self, copy=True, subok=False)

    asnumpy = numpy  # TVM's older name, in most of the programs written for it

    def copyfrom(self, source: Any) -> Array:
        """Overwrite the elements with those of `source`, converted to this array's dtype as numpy does; returns this array.

        source: an array, nested lists, or anything with DLPack, in this array's shape. Raises WrongShape (TW0506), NotATensor
        (TW0503), UnreadableTensor (TW0519), WrongDType (TW0504) for what has no number of this dtype.
        """
        values = readable_array(source)
        if values.shape != self.shape:
            raise WrongShape(
                f"cannot copy shape {values.shape} into an array of shape {self.shape}",
                called=user_source(),
                fix="give a source of the same shape",
            )
        return _fill_array(self, values)

    def copyto(self, target: Any) -> Any:
        """Write the elements into `target`, and return what was written.

        target: an array of this shape, to whose dtype the elements are converted; or a Device, on which a new array of this shape
        and dtype is made. Raises WrongShape (TW0506), NotATensor (TW0503) for what is neither, UnknownDevice (TW0525);
        DriverMissing (TW0830), GpuMissing (TW0831) or PycudaMissing (TW0832) where there is no such GPU to use.
        """
        if isinstance(target, Device):  # a device asks for a new array there
            return array(self, target)
        if not is_array(target):
            raise NotATensor(
                f"cannot copy an array into a {type(target).__name__}",
                called=user_source(),
                fix="pass a numpy array, an Array, or a device, as tw.cpu()",
            )
        return Array.copyfrom(cast("Array", target), self)

    def __dlpack__(self, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        name = dtype_name(self.dtype)
        if name not in REGISTERED_TYPES:  # numpy exports all other dtypes itself
            return super().__dlpack__(**options)
        # of these numpy exports none: export the bits, and name their type in the capsule.
        capsule = self.view(f"u{self.dtype.itemsize}").__dlpack__(**options)
        tensor = capsule_tensor(capsule)[0]
        tensor.dtype = DLPACK_TYPES[name]
        return capsule


def numpy_dtype(name: str) -> np.dtype[Any]:
    """numpy's dtype of this name, or ml_dtypes'. Raises WrongDType (TW0504) for one that we do not have."""
    if name not in ITEM_BYTES:
        raise WrongDType(f"unknown dtype {name!r}", called=user_source(), allowed=", ".join(ITEM_BYTES))
    return find_numpy_dtype(name)


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a numpy dtype: ours where we have it, else numpy's, which puts it together at each call."""
    return dtype.name


def _find_dtype(dtype: Any) -> np.dtype[Any]:
    """Return what users write as a dtype: our names (TVM's "float" too), numpy's dtypes and types."""
    if isinstance(dtype, str):  # a subclass of str may compare in its own way
        name = str.__str__(dtype)
        return numpy_dtype({"float": "float32", "int": "int32", "uint": "uint32"}.get(name, name))
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongDType(
            f"a {type(dtype).__name__} is not a dtype",
            reason=str(error)[:300],
            called=user_source(),
            allowed=", ".join(ITEM_BYTES),
        ) from None
    return numpy_dtype(dtype_name(kind))


def _allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    try:
        memory = np.empty(size + ALIGNMENT, np.uint8)
        begin = -memory.__array_interface__["data"][0] % ALIGNMENT  # malloc aligns to 16 bytes only
        return Array(shape, dtype, memory, begin)
    except (MemoryError, ValueError) as refused:
        raise KernelOutOfMemory(
            f"could not get memory for an array of shape {shape}",
            reason=f"it has {size} bytes",
            called=user_source(),
            fix="make it smaller, or compute it in parts",
        ) from refused


def _allocate_packed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> PackedArray:
    memory = _allocate((array_bytes(dtype.name, math.prod(shape)),), np.dtype(np.uint8))
    return PackedArray(memory.view(np.ndarray), shape, dtype)


def _fill_array(array: Array, values: NDArray[Any]) -> Array:
    """The array, with these elements converted to its dtype as numpy does. Raises WrongDType (TW0504)."""
    if values.dtype.name in PACKED_TYPES:  # which ml_dtypes converts to few of its own
        values = np.asarray(values, np.int8)
    try:
        np.copyto(array, values, casting="unsafe")
    except (TypeError, ValueError, OverflowError) as error:
        raise WrongDType(
            f"cannot make {array.dtype} of elements of {values.dtype}"[:300],
            reason=str(error)[:300],
            called=user_source(),
            allowed=", ".join(ITEM_BYTES),
        ) from error
    return array


@overload
def empty(shape: int | Sequence[int], dtype: object = "float32", device: None = None) -> Array: ...
@overload
def empty(shape: int | Sequence[int], dtype: object = "float32", *, device: Device | None) -> Array | Any: ...
@overload
def empty(shape: int | Sequence[int], dtype: object, device: Device | None) -> Array | Any: ...
def empty(shape: int | Sequence[int], dtype: object = "float32", device: Device | None = None) -> Array | Any:
    """A new array whose elements hold nothing in particular, compact, row-major, aligned to 64 bytes. On a GPU it is a DeviceArray, and
    of int4 or uint4 a PackedArray, which holds two elements a byte.

    Parameters
    ----------
    shape : int or sequence of int
        An integer or several, none negative.
    dtype : str or dtype, default "float32"
        A name ("float32", "bfloat16"), or numpy's dtype or type.
    device : Device or None, default None
        tw.cpu(), which None stands for, or tw.cuda(index).

    Raises
    ------
    WrongShape (TW0506)
        An extent is not an integer, or negative.
    WrongDType (TW0504)
        There is no such dtype.
    KernelOutOfMemory (TW0517)
        No memory holds it.
    UnknownDevice (TW0525)
        There is no such device.
    DriverMissing (TW0830), GpuMissing (TW0831), PycudaMissing (TW0832)
        There is no such GPU to use.
    """
    extents = _extents(shape)
    if _is_gpu(device):
        return device_empty(extents, _find_dtype(dtype), device)
    kind = _find_dtype(dtype)
    return cast("Array", _allocate_packed(extents, kind)) if kind.name in PACKED_TYPES else _allocate(extents, kind)


def _extents(shape: Any) -> tuple[int, ...]:
    given = cast("Sequence[Any]", shape if isinstance(shape, (tuple, list, np.ndarray)) else (shape,))
    try:  # numpy's integers are extents too, floats are not
        extents = tuple(operator.index(extent) for extent in given)
    except (TypeError, ValueError, OverflowError):
        extents = (-1,)
    if any(extent < 0 for extent in extents) or len(extents) > MOST_DIMENSIONS:
        raise WrongShape(
            f"cannot make an array of shape {shape!r}"[:300],
            called=user_source(),
            allowed=f"an integer, or up to {MOST_DIMENSIONS}, none negative",
            fix="tw.empty((16, 8))",
        )
    return extents


def _is_gpu(device: Device | None) -> bool:
    """Return whether `device` is a GPU; without a device, arrays are the host's."""
    if device is not None and not isinstance(cast(object, device), Device):
        raise UnknownDevice(
            f"{device!r} is not a device",
            reason=f"got {type(device).__name__}",
            called=user_source(),
            fix="tw.cpu(), or tw.cuda(0)",
        )
    return device is not None and device.kind == "cuda"


@overload
def array(x: Any, device: None = None, dtype: object = None) -> Array: ...
@overload
def array(x: Any, device: Device | None, dtype: object = None) -> Array | Any: ...
def array(x: Any, device: Device | None = None, dtype: object = None) -> Array | Any:
    """A copy of `x`, compact, row-major, 64-byte aligned. On a GPU it is a DeviceArray, and of int4 or uint4 a PackedArray, which holds
    two elements a byte.

    Parameters
    ----------
    x : array, nested lists, number or anything with DLPack
        The values.
    device : Device or None, default None
        tw.cpu(), which None stands for, or tw.cuda(index).
    dtype : str or dtype, optional
        Elements are converted to it as numpy does. Without it Python floats become float32 and Python ints int32 where they fit (else
        int64), and arrays keep their dtype.

    Returns
    -------
    Array or DeviceArray
        Of the shape of x.

    Raises
    ------
    WrongShape (TW0506)
        Lists have unequal lengths.
    WrongDType (TW0504)
        Elements are no numbers.
    UnreadableTensor (TW0519)
        Its memory is not handed out.
    UnknownDevice (TW0525)
        There is no such device.
    KernelOutOfMemory (TW0517)
        No memory holds it.
    DriverMissing (TW0830), GpuMissing (TW0831), PycudaMissing (TW0832)
        There is no such GPU to use.
    """
    on_gpu = _is_gpu(device)
    source = readable_array(x)
    wanted = _find_dtype(dtype) if dtype is not None else numpy_dtype(dtype_name(_natural_dtype(x, source)))
    if wanted.name in PACKED_TYPES:
        copy = cast("Array", _allocate_packed(source.shape, wanted).copyfrom(source))
    else:
        copy = _fill_array(_allocate(source.shape, wanted), source)
    return device_array(copy, device) if on_gpu else copy


def readable_array(x: object) -> NDArray[Any]:
    """A numpy array of `x`, on its memory where it has some that numpy can hold.

    Raises WrongShape (TW0506) for lists of unequal lengths, UnreadableTensor (TW0519) for what cannot be read."""
    # numpy would copy what has no buffer protocol, element by element
    if not is_array(x) and hasattr(type(x), "__dlpack__"):
        view = quick_view(x, False)
        return from_dlpack(x) if view is None else view
    try:
        values = np.asarray(x)
    except ValueError as error:
        raise WrongShape(
            f"this {type(x).__name__} has no one shape",
            reason=str(error),
            called=user_source(),
            fix="give nested lists of equal lengths",
        ) from None
    except Exception as error:  # whatever an `__array__` of somebody's raises, and numpy of what it cannot hold
        if is_interruption(error):
            raise
        raise _unreadable(x, error) from error
    try:
        require_array(values)
    except RefusedMemory as error:  # object arrays and others have no elements of ours
        raise _unreadable(x, error) from error
    return values


def _unreadable(x: object, error: Exception) -> UnreadableTensor:
    return UnreadableTensor(
        f"this {type(x).__name__} cannot be read",
        reason=str(error)[:300] or type(error).__name__,
        called=user_source(),
        fix="copy it to the host first, or pass np.asarray(x)",
    )


def _natural_dtype(x: Any, source: NDArray[Any]) -> np.dtype[Any]:
    """numpy would take float64 and int64 for Python's numbers; ours are float32 and int32, as literals are in te."""
    if hasattr(x, "dtype"):  # an array keeps its dtype, a literal takes te's
        return source.dtype
    if source.dtype == np.float64:
        return np.dtype(np.float32)
    fits = source.dtype == np.int64 and (source.size == 0 or (source.min() >= -(2**31) and source.max() < 2**31))
    return np.dtype(np.int32) if fits else source.dtype


def from_dlpack(x: Any) -> Array:
    """An Array on the memory of `x`, anything on the host with `__dlpack__`, bfloat16 included, in its shape, strides and dtype.
    Nothing is copied.

    Raises NotATensor (TW0503) for a value without memory, UnreadableTensor (TW0519) for one that does not hand it out.
    """
    try:
        tensor = find_tensor(x)
        if tensor.dtype in PACKED_TYPES and not tensor.device and not is_array(tensor.owner):
            return cast("Array", _share_packed(tensor))
        if not is_ordinary(tensor):  # a view can only be of host memory in a dtype of ours
            raise RefusedMemory(f"it holds {tensor.dtype} on {tensor.device or 'the host'}")
        return make_array(tensor).view(Array)
    except NoMemory as error:
        raise NotATensor(
            f"a {type(x).__name__} has no memory to share",
            reason=str(error),
            called=user_source(),
            fix="pass a numpy array or anything with __dlpack__",
        ) from None
    except RefusedMemory as error:
        raise _unreadable(x, error) from error


def _share_packed(tensor: Found) -> PackedArray:
    """An array on the memory of a tensor of 4 bits. Raises RefusedMemory for one with gaps."""
    compact = tuple(math.prod(tensor.shape[d + 1 :]) for d in range(len(tensor.shape)))
    if tensor.strides is not None and tensor.strides != compact:
        raise RefusedMemory("its elements of 4 bits do not lie one after the other")
    interface = {"version": 3, "shape": (tensor.bytes,), "typestr": "|u1", "data": (tensor.data, tensor.read_only)}
    memory = np.asarray(SimpleNamespace(__array_interface__=interface))
    return PackedArray(memory, tensor.shape, numpy_dtype(tensor.dtype), tensor.owner)
