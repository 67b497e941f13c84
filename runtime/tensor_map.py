"""Layouts of tensor boxes for the copy engine of sm_90 (cp.async.bulk.tensor): as plain data, and as the driver encodes it.

The driver's form is 128 opaque bytes. The emulator, and kernels for arguments that are aligned to their elements alone, take as
many bytes of 16 words: the address; the rank, the bytes of an element and the swizzle; 5 extents; 4 strides in bytes; 5 extents of
a box. Dimensions count from the innermost there, as in the driver's call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping

from ..base import dataclass, user_source
from .abi import ITEM_BYTES
from .cuda_driver import Driver
from .cuda_errors import LaunchFailed
from .signature import Extent, evaluate_extent

__all__ = ["DATA_TYPES", "L2_PROMOTION", "MAP_ALIGNMENT", "MAP_BYTES", "MOST_DIMENSIONS", "SWIZZLES", "TensorMap"]

MAP_BYTES, MAP_ALIGNMENT, MOST_DIMENSIONS = 128, 64, 5
DATA_TYPES = {
    "bool": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "int8": 0,
    "uint8": 0,
    "int16": 1,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""CUtensorMapDataType; bytes are bytes."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle, by the bytes within which parts of 16 are exchanged."""
L2_PROMOTION = 2
"""Of what is read, whole lines of 128 bytes come to the L2 cache."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Tensor map of the copy engine.

    argument: the place of the tensor among what a launch's `args` count. shape: of the tensor, outermost first; strides: in
    bytes; box: elements along each dimension; swizzle: the bytes of a row of shared memory within which parts of 16 are exchanged,
    or 0.
    """

    argument: int
    dtype: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    box: tuple[int, ...]
    swizzle: int

    def words(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """The 15 words behind the address, for the values of scalars and shape symbols."""
        shape, strides = self._sizes(values)
        rest = MOST_DIMENSIONS - len(self.shape)
        kind = len(self.shape) | ITEM_BYTES[self.dtype] << 8 | self.swizzle << 16
        return kind, *shape, *[1] * rest, *strides, *[0] * rest, *reversed(self.box), *[1] * rest

    def plain(self, address: int, values: Mapping[str, int]) -> bytes:
        """The map of a tensor at an address as words."""
        return struct.pack("16Q", address, *self.words(values))

    def encode(self, address: int, values: Mapping[str, int], driver: Driver) -> bytes:
        """The map of a tensor at an address, a multiple of 16, as the driver encodes it. Raises LaunchFailed (TW0834)."""
        shape, strides = self._sizes(values)
        rank = len(shape)
        if 0 in shape:
            return bytes(MAP_BYTES)  # nobody copies of it
        memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        place = ctypes.addressof(memory) + -ctypes.addressof(memory) % MAP_ALIGNMENT
        wide, narrow = ctypes.c_uint64 * MOST_DIMENSIONS, ctypes.c_uint32 * MOST_DIMENSIONS
        status = driver.result(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(place),
            DATA_TYPES[self.dtype],
            rank,
            ctypes.c_void_p(address),
            wide(*shape),
            wide(*strides),
            narrow(*reversed(self.box)),
            narrow(*[1] * rank),
            0,
            SWIZZLES[self.swizzle],
            L2_PROMOTION,
            0,
        )
        if status:
            raise LaunchFailed(
                "the driver rejects the tensor map",
                called=user_source(),
                reason=f"result {status}: extents {shape[::-1]}, strides {strides[::-1]} bytes, boxes {self.box}",
            )
        return ctypes.string_at(place, MAP_BYTES)

    def span(self, values: Mapping[str, int]) -> int:
        """The bytes of memory that the tensor lies in."""
        shape, strides = self._sizes(values)
        size = ITEM_BYTES[self.dtype]
        return 0 if 0 in shape else size + sum((n - 1) * s for n, s in zip(shape, (size, *strides), strict=True))

    def _sizes(self, values: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Extents, and strides of all but the innermost dimension, from the innermost on."""
        shape, strides = (
            [evaluate_extent(extent, values) for extent in reversed(part)] for part in (self.shape, self.strides)
        )
        return tuple(shape), tuple(strides[1:])
