"""Arrays of integers of 4 bits, two a byte, which numpy has none of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import is_array
from ..base.errors import user_source
from ..base.nibbles import pack_nibbles, unpack_nibbles
from .abi import PACKED_TYPES, array_bytes
from .capsule import make_capsule
from .device import HOST_KINDS, Device, cpu
from .errors import NotATensor, WrongDType, WrongShape
from .tensors import Found

__all__ = ["PackedArray"]


class PackedArray:
    """A compact row-major array of int4 or uint4 in the host's memory, which tw.array and tw.empty make.

    bytes: its memory, a numpy array of uint8. Element e in row-major order is in byte e // 2, in the lower four bits where e is
    even. `numpy()` and `numpy.asarray(a)` give a numpy array of ml_dtypes' dtype, an element a byte: a copy, as `a[...]` is. Kernels
    take it without a copy, and so does what reads DLPack's kDLInt and kDLUInt of 4 bits.
    """

    def __init__(
        self, memory: NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any = None
    ) -> None:
        assert memory.size == array_bytes(dtype.name, math.prod(shape)), "two elements a byte"
        self.bytes, self.shape, self.dtype, self._owner = memory, shape, dtype, owner
        self._address, self._name = memory.ctypes.data, dtype.name  # which numpy puts together at each call

    @property
    def device(self) -> Device:
        """Return where the memory lies."""
        return cpu()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.bytes.nbytes

    def numpy(self) -> NDArray[Any]:
        """A copy as a numpy array of the same shape and dtype, an element a byte."""
        return unpack_nibbles(self.bytes, self.shape, self.dtype)

    asnumpy = numpy  # TVM's older name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("numpy has no arrays of two elements a byte: only a copy can be made")
        values = self.numpy()
        return values if dtype in (None, self.dtype) else values.astype(np.int8).astype(dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no length")
        return self.shape[0]

    def copyfrom(self, source: Any) -> PackedArray:
        """Overwrite the elements with those of `source`, converted to this array's dtype as numpy does; returns this array.

        source: an array or nested lists in this array's shape. Raises WrongShape (TW0506), WrongDType (TW0504) for what has no
        number of this dtype.
        """
        values = np.asarray(source)
        if values.shape != self.shape:
            raise WrongShape(
                f"cannot copy shape {values.shape} into an array of shape {self.shape}",
                called=user_source(),
                fix="give a source of the same shape",
            )
        if values.dtype.name in PACKED_TYPES:  # ml_dtypes converts neither to the other
            values = values.astype(np.int8)
        try:
            self.bytes[:] = pack_nibbles(values.astype(self.dtype, copy=False))
        except (TypeError, ValueError, OverflowError) as error:
            raise WrongDType(
                f"cannot make {self.dtype} of elements of {values.dtype}"[:300],
                reason=str(error)[:300],
                called=user_source(),
                allowed="arrays of numbers",
            ) from error
        return self

    def copyto(self, target: Any) -> Any:
        """Write the elements into `target`, an array of this shape, converted to its dtype, and return it. Raises WrongShape (TW0506),
        NotATensor (TW0503) for what is no array."""
        if isinstance(target, PackedArray):
            return target.copyfrom(self)
        if not is_array(target):
            raise NotATensor(
                f"cannot copy an array into a {type(target).__name__}",
                called=user_source(),
                fix="pass a numpy array or an array of tw.empty; tw.array(a, device) copies to a device",
            )
        if target.shape != self.shape:
            raise WrongShape(
                f"cannot copy shape {self.shape} into an array of shape {target.shape}",
                called=user_source(),
                fix="give a target of the same shape",
            )
        target[...] = self.numpy().astype(np.int8).astype(target.dtype)
        return target

    def found(self) -> Found:
        """Its memory, as a kernel's call finds that of other people's tensors."""
        return Found(self._address, self._name, self.shape, None, not self.bytes.flags.writeable, self.bytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST_KINDS[0], 0

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule that shares the memory."""
        return make_capsule(self._address, self.shape, self.dtype.name, self.__dlpack_device__(), self)

    def __repr__(self) -> str:
        return f"PackedArray({self.numpy().astype(np.int8)}, dtype={self.dtype.name})"
