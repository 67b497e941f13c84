"""The memory layouts that generated code and the interpreter share, and the status numbers that kernels return.

A status is an int32. 0: done. Positive: 1 + the place of an assertion's message. -1: out of memory. Every other
negative one says which check of the arguments failed: see `pack_status`.
"""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum
from functools import cache

import numpy as np

from ..base.nibbles import PACKED_TYPES

__all__ = [
    "DLPACK_TYPES",
    "GIL_THRESHOLD",
    "ITEM_BITS",
    "ITEM_BYTES",
    "NUMPY_TYPE_NUMBERS",
    "OUT_OF_MEMORY",
    "PACKED_TYPES",
    "ArgumentRecord",
    "ArrayFields",
    "CallTable",
    "Check",
    "DLTensor",
    "DescrFields",
    "ExchangeApi",
    "Flag",
    "Trouble",
    "WRITEABLE",
    "array_bytes",
    "numpy_layout_holds",
    "pack_status",
    "unpack_status",
]

OUT_OF_MEMORY = -1
GIL_THRESHOLD = 1 << 16
"""A call whose tensors have this many bytes or more releases the interpreter's lock."""


class Check(IntEnum):
    """Kinds of faults that a check of the arguments finds. The detail of a status is a dimension, or the other tensor."""

    DTYPE = 1
    RANK = 2
    DEVICE = 3
    READ_ONLY = 4
    SHAPE = 5
    SYMBOL = 6
    STRIDE = 7
    ALIGNMENT = 8
    TOO_LARGE = 9
    OVERLAP = 10
    SCALAR_RANGE = 11
    PROCESSOR = 12  # these, but for EXTENT, only the C functions of exported libraries report
    NULL = 13
    EXTENT = 14
    CASE = 15
    CUDA = 16  # in the place of a parameter, a Trouble; the detail is the driver's CUresult


class Trouble(IntEnum):
    """Reasons for which a GPU does not run a function of an exported library, as a status of Check.CUDA tells it."""

    NO_DRIVER = 0
    OLD_DRIVER = 1
    NO_GPU = 2
    ARCHITECTURE = 3
    LOAD = 4
    MEMORY = 5
    LAUNCH = 6


def pack_status(check: Check, param: int, detail: int = 0) -> int:
    """Bits 24 to 30: the check; 12 to 23: the parameter's position; 0 to 11: the detail; the sign bit is set."""
    return (check << 24 | param << 12 | detail) - (1 << 31)  # the sign bit tells a fault from a message's number


def unpack_status(status: int) -> tuple[Check, int, int]:
    """(check, parameter, detail) of a status that `pack_status` made."""
    bits = status + (1 << 31)
    return Check(bits >> 24), bits >> 12 & 0xFFF, bits & 0xFFF


class Flag(IntEnum):
    """Bits of ArgumentRecord.flags."""

    READ_ONLY = 1
    FOREIGN_DEVICE = 2


class ArgumentRecord(ctypes.Structure):
    """One argument, as the check and the unpacking entry of a kernel read it.

    data: the first element's address; of a scalar, its value's 64 bits (int64, or float64, or the 16 bits of a half).
    strides: null for a compact tensor, else in units of `unit` bytes. dtype: a DLDataType as one number.
    """

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("unit", ctypes.c_int64),
        ("dtype", ctypes.c_uint32),
        ("ndim", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


def _dlpack(code: int, bits: int) -> int:
    return code | bits << 8 | 1 << 16


DLPACK_TYPES = {
    "bool": _dlpack(6, 8),
    "bfloat16": _dlpack(4, 16),
    "float8_e4m3fn": _dlpack(10, 8),
    "float8_e5m2": _dlpack(12, 8),
    **{f"int{bits}": _dlpack(0, bits) for bits in (4, 8, 16, 32, 64)},
    **{f"uint{bits}": _dlpack(1, bits) for bits in (4, 8, 16, 32, 64)},
    **{f"float{bits}": _dlpack(2, bits) for bits in (16, 32, 64)},
}
"""DLDataType (code, bits, lanes) of each dtype, as the little-endian number that its four bytes are."""

ITEM_BITS = {name: number >> 8 & 0xFF for name, number in DLPACK_TYPES.items()}
ITEM_BYTES = {name: -(-bits // 8) for name, bits in ITEM_BITS.items()}
"""Of an element by itself."""


def array_bytes(dtype: str, elements: int) -> int:
    """The bytes of so many elements."""
    return -(-elements * ITEM_BITS[dtype] // 8)


NUMPY_TYPE_NUMBERS = {
    "bool": (0,),
    "int8": (1,),
    "uint8": (2,),
    "int16": (3,),
    "uint16": (4,),
    "int32": (5,),
    "uint32": (6,),
    "int64": (7, 9),
    "uint64": (8, 10),
    "float32": (11,),
    "float64": (12,),
    "float16": (23,),
}
"""numpy's type numbers, public and fixed."""
REGISTERED_TYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""The dtypes of ml_dtypes, which get their numbers when it registers them."""


class ArrayFields(ctypes.Structure):
    """The head of numpy's PyArrayObject, which its public macros (PyArray_DATA and so on) have compiled into every
    extension module."""

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("nd", ctypes.c_int),
        ("dimensions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


class DescrFields(ctypes.Structure):
    """The head of numpy's PyArray_Descr, likewise public."""

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("typeobj", ctypes.c_void_p),
        ("kind", ctypes.c_char),
        ("type", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("flags", ctypes.c_char),
        ("type_num", ctypes.c_int),
    )


class CallTable(ctypes.Structure):
    """Addresses of this process that a call stub needs, one word each: kept in a variable beside the stub and filled when the
    code is loaded, so that the code itself refers to no symbol of the interpreter and can be stored. Null array types
    send every call to the Python path. exchange_type, exchange: a type of tensors that describe themselves, and the function
    that does it, once one was met."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "array_type",
            "own_array_type",
            "bfloat16_number",
            "none",
            "true",
            "false",
            "int_type",
            "float_type",
            "incref",
            "save_thread",
            "restore_thread",
            "vectorcall",
            "call_method",
            "int_value",
            "exchange_type",
            "exchange",
            "get_attribute",
            "requires_grad",
            "call_without_arguments",
            "is_neg",
            "decref",
            "clear_error",
            # libraries that were exported before know the places of those above
            *(f"{name}_number" for name in REGISTERED_TYPES if name != "bfloat16"),
        )
    )


class ExchangeApi(ctypes.Structure):
    """Table behind `__dlpack_c_exchange_api__` of a type of tensors: DLPackExchangeAPI of DLPack 1.3, functions by which tensors of
    exactly this type are described without a capsule."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),
    )


class DLTensor(ctypes.Structure):
    """DLPack's description of a tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


WRITEABLE = 0x0400
"""numpy's NPY_ARRAY_WRITEABLE."""


@cache
def numpy_layout_holds() -> bool:
    """Return whether arrays lie in memory as ArrayFields says: probed on live arrays, so that an interpreter or a numpy that
    differs costs speed (every call then takes the Python path), never correctness."""
    # the layout below is CPython's on 64-bit little-endian machines
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    probe = np.zeros((3, 5, 7), np.int16)[:, 1:4, ::2]
    probe.flags.writeable = False  # each probe differs in one field from the other
    swapped = np.zeros(2, np.dtype(np.float64).newbyteorder())
    fields, other = ArrayFields.from_address(id(probe)), ArrayFields.from_address(id(swapped))
    if fields.ob_type != id(np.ndarray) or other.ob_type != id(np.ndarray) or fields.nd != 3 or other.nd != 1:
        return False
    if fields.descr != id(probe.dtype) or other.descr != id(swapped.dtype):
        return False
    descr, other_descr = DescrFields.from_address(fields.descr), DescrFields.from_address(other.descr)
    return (
        fields.data == probe.ctypes.data
        and tuple((ctypes.c_int64 * 3).from_address(fields.dimensions)) == probe.shape
        and tuple((ctypes.c_int64 * 3).from_address(fields.strides)) == probe.strides
        and not fields.flags & WRITEABLE
        and bool(other.flags & WRITEABLE)
        and (descr.byteorder, descr.type_num) == (b"=", 3)
        and (other_descr.byteorder, other_descr.type_num) == (b">", 12)
        and all(np.dtype(name).num in numbers for name, numbers in NUMPY_TYPE_NUMBERS.items())
    )
