"""Tensors that describe themselves by a C function of their type, as torch's do: kernels read them without a capsule."""

from __future__ import annotations

import ctypes
from typing import Any

import handwritten_kernels
import numpy as np
import pytest
import tilewright as tw
from tilewright.runtime import errors
from tilewright.runtime.abi import DLPACK_TYPES, DLTensor, ExchangeApi


class Tensor:
    """In torch's place: an array that describes itself, and counts how often. offset: of its first element, in bytes; device:
    DLPack's number; fails: the description raises."""

    requires_grad = negative = freed = False
    described = 0

    def __init__(self, values: Any, offset: int = 0, device: int = 1, fails: bool = False) -> None:
        self.values, self.offset, self.device, self.fails = values, offset, device, fails
        self.extents = (ctypes.c_int64 * values.ndim)(*values.shape)
        self.steps = (ctypes.c_int64 * values.ndim)(*(step // values.itemsize for step in values.strides))

    def is_neg(self) -> bool:
        return self.negative

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("use tensor.detach()")
        if self.device != 1:
            raise BufferError("it is elsewhere")
        if self.freed and self.values.size:
            raise BufferError("it has no storage")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def describe(tensor: Tensor, described: Any) -> int:
    Tensor.described += 1
    if tensor.fails:
        return -1
    data = 0 if tensor.freed else tensor.values.ctypes.data - tensor.offset
    described[0] = DLTensor(
        data,
        tensor.device,
        0,
        tensor.values.ndim,
        DLPACK_TYPES[tensor.values.dtype.name],
        tensor.extents,
        tensor.steps,
        tensor.offset,
    )
    return 0


API = ExchangeApi(1, 3, None, None, None, None, ctypes.cast(describe, ctypes.c_void_p))


def capsule(api: ExchangeApi, name: bytes = b"dlpack_exchange_api") -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(ctypes.addressof(api), name, None)


def kind(given: Any = None, module: str = "torch") -> type[Tensor]:
    """A type of such tensors."""
    given = capsule(API) if given is None else given
    return type("Tensor", (Tensor,), {"__module__": module, "__dlpack_c_exchange_api__": given})


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def test_tensors_are_read_by_the_function_of_their_type() -> None:
    add, own = handwritten_kernels.vector_add(), kind()
    a, b, c = own(floats(1, 2, 3)), own(floats(10, 20, 30)), own(floats(0, 0, 0))
    before = Tensor.described
    add(a, b, c)
    add(a, b.values, C=c)
    assert c.values.tolist() == [11, 22, 33]
    add(c, b.values, a)
    assert a.values.tolist() == [21, 42, 63]
    assert Tensor.described - before >= 5
    add(own(floats()), own(floats()), own(floats()))


def test_what_the_function_describes_is_checked() -> None:
    add, own = handwritten_kernels.vector_add(), kind()
    a, c = own(floats(1, 2, 3)), own(floats(0, 0, 0))
    add(a, a, c)
    for values, error, message in (
        (np.zeros(3), errors.WrongDType, "'B' .* has dtype float64"),
        (np.zeros((3, 1), np.float32), errors.WrongRank, r"'B' .* has 2 \(shape \(3, 1\)\) dimensions"),
        (np.zeros(6, np.float32)[::2], errors.WrongStride, r"(?s)'B' .* has strides \(8,\).*x\.contiguous\(\)"),
        (floats(1, 2), errors.SymbolDisagrees, "'B' .* has 2"),
    ):
        with pytest.raises(error, match=message):
            add(a, own(values), c)
    with pytest.raises(errors.OverlappingOutput, match="'C'"):
        add(a, c, c)
    with pytest.raises(errors.WrongDevice, match=r"'B' .* is on device cuda\(0\)"):
        add(a, own(floats(1, 2, 3), device=2), c)


def test_what_the_function_cannot_tell_takes_the_way_of_capsules() -> None:
    add, own = handwritten_kernels.vector_add(), kind()
    a, c = own(floats(1, 2, 3)), own(floats(0, 0, 0))
    add(a, a, c)
    add(a, own(floats(5, 6, 7), fails=True), c)
    assert c.values.tolist() == [6, 8, 10]
    add(a, own(floats(0, 5, 6, 7)[1:], offset=4), c)
    assert c.values.tolist() == [6, 8, 10]
    grown = own(floats(1, 1, 1))
    grown.requires_grad = True
    with pytest.raises(errors.UnreadableTensor, match=r"(?s)'B'.*fix: pass x.detach\(\)"):
        add(a, grown, c)


def test_tensors_without_memory_are_refused() -> None:
    """As torch's whose storage was freed (`x.untyped_storage().resize_(0)`) or that stand for another one: a second call with such a one
    ended the process."""
    add, own = handwritten_kernels.vector_add(), kind()
    a, b, c = own(floats(1, 2, 3)), own(floats(1, 2, 3)), own(floats(0, 0, 0))
    add(a, b, c)
    for freed in (b, c):
        freed.freed = True
        with pytest.raises(errors.UnreadableTensor, match="no storage"):
            add(a, b, c)
        freed.freed = False
    empty = own(floats())
    empty.freed = True
    add(empty, empty, own(floats()))


def test_negative_views_are_refused() -> None:
    """As `z.conj().imag` of torch's, of which neither way of DLPack tells: its elements were read with the other sign."""
    own = kind()
    a, c, turned = own(floats(1)), own(floats(0)), own(floats(1))
    turned.negative = True
    for known in (False, True):  # read by capsule first, then described
        add = handwritten_kernels.vector_add()
        if known:
            add(a, a, c)
        with pytest.raises(errors.UnreadableTensor, match=r"(?s)'B'.*negative view.*fix: pass x.resolve_neg\(\)"):
            add(a, turned, c)
    with pytest.raises(errors.UnreadableTensor, match="negative view"):
        tw.array(turned)


LATER = ExchangeApi(2, 0, None, None, None, None, ctypes.cast(describe, ctypes.c_void_p))


@pytest.mark.parametrize(
    "other",
    [
        kind(module="elsewhere"),
        kind(capsule(API, b"another")),
        kind(17),
        kind(capsule(LATER)),
        type("Parameter", (kind(),), {"__module__": "torch"}),
    ],
    ids=["whose tensors may be read-only", "another capsule", "no capsule", "a version to come", "a subclass"],
)
def test_other_types_are_not_believed(other: type[Tensor]) -> None:
    add = handwritten_kernels.vector_add()
    before, c = Tensor.described, floats(0, 0)
    for _ in range(2):
        add(other(floats(1, 2)), other(floats(3, 4)), c)
    assert c.tolist() == [4, 6] and Tensor.described == before
