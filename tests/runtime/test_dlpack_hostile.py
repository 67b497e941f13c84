"""DLPack producers that say what no tensor is: typed errors in tw.from_dlpack, tw.array and calls, never a crash."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.graph import Builder
from tilewright.runtime.abi import DLPACK_TYPES, DLTensor
from tilewright.runtime.array import from_dlpack
from tilewright.runtime.span import byte_span
from tilewright.runtime.tensors import RefusedMemory, find_device_tensor

FLOAT = DLPACK_TYPES["float32"]


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class Producer:
    """A tensor of 64 floats, of which `change` changes what it says. name, device: of its capsule, and what it says of itself."""

    def __init__(self, change: Callable[[DLTensor], None], name: bytes = b"dltensor", device: Any = (1, 0)) -> None:
        self.memory = np.zeros(128, np.float32)
        self.extents, self.strides = (ctypes.c_int64 * 1)(64), (ctypes.c_int64 * 1)(1)
        tensor = DLTensor(self.memory.ctypes.data, 1, 0, 1, FLOAT, self.extents, self.strides, 0)
        is_versioned = name == b"dltensor_versioned"
        self.managed = Versioned(1, 0, None, None, 0, tensor) if is_versioned else Managed(tensor, None, None)
        change(self.managed.tensor)
        self.name, self.device = name, device
        self.shape, self.dtype = (64,), self.memory.dtype

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
    "an extent beyond memory": (setting(shape=extents(2**62)), "exceeds the address space"),
    "extents that multiply beyond": (
        setting(shape=extents(2**31, 2**31), strides=None, ndim=2),
        "exceeds the address space",
    ),
    "a stride beyond memory": (setting(strides=extents(2**60)), "exceeds the address space"),
    "a negative stride beyond memory": (setting(strides=extents(-(2**60))), "exceeds the address space"),
    **{
        f"stride {step}": (setting(strides=extents(step)), "exceeds the address space")  # in bytes they wrap: some to 4
        for step in (2**62, -(2**62), 2**62 + 1, 2**63 - 1, -(2**63))
    },
    **{
        f"stride {step}": (
            setting(shape=extents(2), strides=extents(step)),
            "(reaches unmapped memory|exceeds the address space)",  # an emulated process lies low in memory
        )
        for step in (2**40, -(2**40), 2**44)
    },
    "strides whose reaches cancel each other": (
        setting(ndim=2, shape=extents(2, 2), strides=extents(2**63 - 1, -(2**63) + 2)),
        "exceeds the address space",
    ),
    "many elements, and no memory": (setting(shape=extents(2**40), strides=None), "reaches unmapped memory"),
    "no elements, beyond memory": (setting(ndim=2, shape=extents(2**62, 0), strides=None), "exceeds the address space"),
    "as many elements as one, beyond memory": (
        setting(shape=extents(2**62), strides=extents(0)),
        "exceeds the address",
    ),
    "no data": (setting(data=None), "has elements, and NULL for its data"),
    "an offset beyond memory": (setting(byte_offset=2**63), "exceeds the address space"),
    "the greatest offset": (setting(byte_offset=2**64 - 4), "exceeds the address space"),
    "an offset out of memory": (setting(byte_offset=2**46), "reaches unmapped memory"),
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


@pytest.fixture(scope="module")
def loaded(kernel: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tw.load(kernel.export(tmp_path_factory.mktemp("hostile") / "libplus.so")[0])


@pytest.fixture(scope="module")
def model() -> Any:
    builder = Builder()
    builder.output("y", builder.node("relu", builder.input("x", ("n",))))
    return tw.build(builder.graph())


@tw.jit
def incremented(x: Any) -> Any:
    return te.compute(x.shape, lambda *at: x(*at) + 1, name="y")


@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"], ids=["old", "versioned"])
@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_tensor_can_be_is_refused(kernel: Any, loaded: Any, model: Any, case: str, name: bytes) -> None:
    change, reason = HOSTILE[case]
    good = np.zeros(64, np.float32)

    def hostile() -> Producer:
        return Producer(change, name)

    entry_points: dict[str, Callable[[], Any]] = {
        "from_dlpack": lambda: from_dlpack(hostile()),
        "array": lambda: tw.array(hostile()),
        "copyfrom": lambda: tw.empty(64).copyfrom(hostile()),
        "input": lambda: kernel(hostile(), good),
        "output": lambda: kernel(good, hostile()),
        "loaded": lambda: loaded(hostile(), good),
        "model": lambda: model(hostile()),
        "out of a model": lambda: model(good, out=hostile()),
        "time": lambda: kernel.time(hostile(), good),
    }
    for entry, enter in entry_points.items():
        code = "TW0906" if entry == "model" else "TW0519"
        with pytest.raises(tw.TilewrightError, match=f"{code}(.|\n)*{reason}"):
            enter()
    with pytest.raises(tw.TilewrightError, match=reason):
        incremented(hostile())


class Described:
    """What describes 64 floats by an interface, of which some fields are others."""

    def __init__(self, interface: str, **fields: Any) -> None:
        self.memory = np.zeros(128, np.float32)
        plain = {
            "version": 3,
            "shape": (64,),
            "typestr": "<f4",
            "data": (self.memory.ctypes.data, False),
            "strides": None,
        }
        setattr(self, interface, plain | fields)


NO_INTERFACE: dict[str, dict[str, Any]] = {
    "a stride into nowhere": {"shape": (2,), "strides": (2**42,)},
    "a negative one": {"shape": (2,), "strides": (-(2**37),)},
    "a stride beyond 64 bits": {"strides": (2**64 + 4,)},
    "a stride of all 64 bits": {"shape": (3,), "strides": (2**62,)},
    "a negative extent": {"shape": (-64,)},
    "an extent beyond 64 bits": {"shape": (2**64,)},
    "extents beyond memory": {"shape": (2**62, 0)},
    "no shape": {"shape": None},
    "another shape": {"shape": "64"},
    "strides of another rank": {"strides": (4, 4)},
    "no dtype": {"typestr": "<f3"},
    "no data": {"data": (0, False)},
    "other data": {"data": 7.5},
}


@pytest.mark.parametrize("interface", ["__array_interface__", "__cuda_array_interface__"])
@pytest.mark.parametrize("case", NO_INTERFACE)
def test_an_interface_that_describes_no_tensor_is_refused(kernel: Any, interface: str, case: str) -> None:
    fields = NO_INTERFACE[case]
    hostile = Described(interface, **fields)
    if interface == "__cuda_array_interface__":
        if "into nowhere" in case or "negative one" in case:  # a GPU's memory nobody but its driver looks at
            high = Described(interface, data=(2**46, False), **fields)
            assert find_device_tensor(high).strides == fields["strides"]
            return
        with pytest.raises(
            RefusedMemory, match=r"interface__ does not hold|has no shape|the extent -64|address space|NULL"
        ):
            find_device_tensor(hostile)
        return
    with pytest.raises(tw.CallError, match=r"TW05(03|04|05|06|07|08|19)"):
        kernel(hostile, np.zeros(64, np.float32))
    with pytest.raises(tw.CallError, match=r"TW05(04|06|17|19)"):
        tw.array(hostile)


def test_arrays_of_stride_tricks_are_refused_where_they_leave_memory(kernel: Any) -> None:
    plain = np.zeros(64, np.float32)
    for shape, strides in (((2,), (2**42,)), ((2,), (-(2**42),)), ((3, 2), (2**61, -(2**61)))):
        wild = np.lib.stride_tricks.as_strided(plain, shape, strides)
        with pytest.raises(tw.CallError, match="TW0519"):
            tw.array(wild)
        with pytest.raises(tw.CallError, match=r"TW05(05|08|19)"):
            kernel(wild, plain)
    np.testing.assert_array_equal(tw.array(np.broadcast_to(np.float32(3), (4, 5))), np.full((4, 5), 3, np.float32))
    np.testing.assert_array_equal(tw.array(plain[::-3]), plain[::-3])


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


def test_what_says_no_shape_is_refused_by_jit() -> None:
    silent = Producer(setting())
    del silent.shape
    with pytest.raises(tw.TilewrightError, match=r"TW0530(.|\n)*shape"):
        incremented(silent)


@pytest.mark.parametrize("name", [b"dltensor_versioned2", b"", b"used_dltensor"])
def test_a_capsule_of_another_name_is_refused(name: bytes) -> None:
    with pytest.raises(tw.CallError, match=r"TW0519(.|\n)*not an unused DLPack capsule"):
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


def test_spans_are_computed_wide() -> None:
    assert byte_span((3, 4), (16, 4), 4) == (0, 48)
    assert byte_span((3, 4), (-16, 4), 4) == (-32, 16)
    assert byte_span((2**62, 0), (2**62, 1), 8) == (0, 0)
    assert byte_span((), (), 8) == (0, 8)
    assert byte_span((3,), (2**63,), 2) == (0, 2**64 + 2)
    assert byte_span((5, 2), None, 2) == (0, 20)
