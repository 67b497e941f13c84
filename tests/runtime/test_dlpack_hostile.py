"""DLPack producers that say what no tensor is: typed errors in tw.from_dlpack, tw.array and calls, never a crash."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.abi import DLPACK_TYPES, DLTensor
from tilewright.runtime.array import from_dlpack

FLOAT = DLPACK_TYPES["float32"]


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Producer:
    """A tensor of 64 floats, of which `change` changes what it says. name, device: of its capsule, and what it says of itself."""

    def __init__(self, change: Callable[[DLTensor], None], name: bytes = b"dltensor", device: Any = (1, 0)) -> None:
        self.memory = np.zeros(128, np.float32)
        self.extents, self.strides = (ctypes.c_int64 * 1)(64), (ctypes.c_int64 * 1)(1)
        self.managed = Managed(
            DLTensor(self.memory.ctypes.data, 1, 0, 1, FLOAT, self.extents, self.strides, 0), None, None
        )
        change(self.managed.tensor)
        self.name, self.device = name, device

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        return new(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self) -> Any:
        return self.device


def setting(**fields: Any) -> Callable[[DLTensor], None]:
    def change(tensor: DLTensor) -> None:
        for name, value in fields.items():
            setattr(tensor, name, value)

    return change


def extents(*numbers: int) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)


HOSTILE: dict[str, tuple[Callable[[DLTensor], None], str]] = {
    "no shape": (setting(shape=None), "1 dimensions, and NULL for its shape"),
    "no shape of many": (setting(shape=None, ndim=2), "2 dimensions, and NULL for its shape"),
    "below no dimensions": (setting(ndim=-1), "-1 dimensions"),
    "the least number of dimensions": (setting(ndim=-(2**31)), "-2147483648 dimensions"),
    "dimensions without end": (setting(ndim=2**31 - 1), "2147483647 dimensions"),
    "65 dimensions": (setting(ndim=65), "65 dimensions"),
    "a negative extent": (setting(shape=extents(-64)), "the extent -64 in dimension 0"),
    "an extent beyond memory": (setting(shape=extents(2**62)), "reaches beyond all memory"),
    "extents that multiply beyond": (
        setting(shape=extents(2**31, 2**31), strides=None, ndim=2),
        "reaches beyond all memory",
    ),
    "a stride beyond memory": (setting(strides=extents(2**60)), "reaches beyond all memory"),
    "a negative stride beyond memory": (setting(strides=extents(-(2**60))), "reaches beyond all memory"),
    "no data": (setting(data=None), "has elements, and NULL for its data"),
    "an offset beyond memory": (setting(byte_offset=2**63), "reaches beyond all memory"),
    "the greatest offset": (setting(byte_offset=2**64 - 4), "reaches beyond all memory"),
    "an offset out of memory": (setting(byte_offset=2**46), "leads out of memory"),
}
UNKNOWN: dict[str, tuple[Callable[[DLTensor], None], Any]] = {
    "lanes": (setting(dtype=2 | 32 << 8 | 4 << 16), (1, 0)),
    "no lanes": (setting(dtype=2 | 32 << 8), (1, 0)),
    "a code of nobody's": (setting(dtype=99 | 32 << 8 | 1 << 16), (1, 0)),
    "no bits": (setting(dtype=2 | 1 << 16), (1, 0)),
    "7 bits": (setting(dtype=2 | 7 << 8 | 1 << 16), (1, 0)),
    "the greatest dtype": (setting(dtype=2**32 - 1), (1, 0)),
    "a device of nobody's": (setting(), (99, 0)),
    "a device of nobody's in the capsule alone": (setting(device_type=99), (1, 0)),
    "a GPU in the capsule alone": (setting(device_type=2), (1, 0)),
    "a negative device": (setting(), (-1, -1)),
    "no device": (setting(), None),
    "a device that is a text": (setting(), ("cpu", 0)),
}


@pytest.fixture(scope="module")
def kernel() -> Any:
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return tw.build(te.create_schedule(b.op), [a, b])


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_tensor_can_be_is_refused(kernel: Any, case: str) -> None:
    change, reason = HOSTILE[case]
    with pytest.raises(tw.CallError, match=f"TW0519(.|\n)*{reason}"):
        from_dlpack(Producer(change))
    with pytest.raises(tw.CallError, match=f"TW0519(.|\n)*{reason}"):
        tw.array(Producer(change))
    good = np.zeros(64, np.float32)
    with pytest.raises(tw.CallError, match=f"TW0519(.|\n)*{reason}"):
        kernel(Producer(change), good)
    with pytest.raises(tw.CallError, match=f"TW0519(.|\n)*{reason}"):
        kernel(good, Producer(change))


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_nobody_knows_is_refused(kernel: Any, case: str) -> None:
    change, device = UNKNOWN[case]
    with pytest.raises(tw.CallError, match="TW0519: this Producer cannot be read"):
        from_dlpack(Producer(change, device=device))
    if device == (1, 0):  # a call asks the capsule alone, where the memory is
        with pytest.raises(tw.CallError, match=r"TW05(04|12|19)"):
            kernel(Producer(change), np.zeros(64, np.float32))


def test_misaligned_memory_is_refused_by_calls(kernel: Any) -> None:
    with pytest.raises(tw.CallError, match="TW0509"):
        kernel(Producer(lambda tensor: setattr(tensor, "data", tensor.data + 1)), np.zeros(64, np.float32))


@pytest.mark.parametrize("name", [b"dltensor_versioned2", b"", b"used_dltensor"])
def test_a_capsule_of_another_name_is_refused(name: bytes) -> None:
    with pytest.raises(tw.CallError, match=r"TW0519(.|\n)*no unused DLPack capsule"):
        from_dlpack(Producer(setting(), name=name))


def test_a_producer_that_raises_whatever_it_likes_is_refused(kernel: Any) -> None:
    class Thrower(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            raise KeyError("nothing here")

    with pytest.raises(tw.CallError, match=r"TW0519(.|\n)*nothing here"):
        from_dlpack(Thrower(setting()))


def test_what_is_unusual_and_right_is_read(kernel: Any) -> None:
    result = np.zeros(64, np.float32)
    for change in (setting(strides=None), setting(byte_offset=256), setting(ndim=1, strides=extents(1))):
        kernel(Producer(change), result)
        np.testing.assert_array_equal(result, 1)
    assert from_dlpack(Producer(setting(shape=None, strides=None, ndim=0))).shape == ()
    assert from_dlpack(Producer(setting(shape=extents(0), data=None))).shape == (0,)
    assert from_dlpack(Producer(setting(shape=extents(8), strides=extents(8)))).strides == (32,)
