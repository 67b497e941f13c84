"""Arrays, devices and memory exchange with other libraries."""

from __future__ import annotations

import contextlib
import math
import pickle
from collections.abc import Callable
from typing import Any

import handwritten_kernels
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from handwritten_kernels import Signature, Symbol, buffers
from tilewright.base.errors import CudaError
from tilewright.runtime import cuda_driver, errors
from tilewright.runtime.array import ALIGNMENT, Array, array, empty, from_dlpack
from tilewright.runtime.device import Device, cpu, cuda

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_new_arrays_are_aligned_and_compact(dtype, shape):
    made = empty(shape, dtype)
    assert (made.shape, made.dtype.name, made.device) == (shape, dtype, cpu())
    assert made.size == 0 or made.ctypes.data % ALIGNMENT == 0
    assert made.flags.c_contiguous
    assert made.flags.writeable


def test_an_int_is_a_shape_and_numpy_types_are_dtypes():
    assert empty(5, np.int8).shape == (5,)
    assert empty((np.int64(2), 3), np.dtype("float64")).dtype == np.float64
    assert empty(1, ml_dtypes.bfloat16).dtype.name == "bfloat16"
    with pytest.raises(errors.WrongDType, match="unknown dtype 'complex64'"):
        empty(3, "complex64")
    with pytest.raises(errors.WrongDType, match="unknown dtype 'object'"):
        array(np.zeros(3, object))


def test_array_copies_and_chooses_our_dtypes_for_python_numbers():
    source = np.arange(6.0)
    made = array(source)
    source[0] = 9
    assert made[0] == 0
    assert made.dtype == np.float64
    assert array([1.5, 2]).dtype == np.float32
    assert array([[1, 2], [3, 4]]).dtype == np.int32
    assert array([1 << 40]).dtype == np.int64
    assert array(True).dtype == np.bool_
    assert array(True).shape == ()
    assert array([1, 2], dtype="bfloat16").dtype.name == "bfloat16"
    np.testing.assert_array_equal(np.asarray(array(source[::-2])), source[::-2])


def test_numpy_is_a_copy_and_asarray_a_view():
    made = array([1.0, 2.0])
    copy, view = made.numpy(), np.asarray(made)
    made[0] = 7
    assert type(copy) is np.ndarray
    assert copy[0] == 1
    assert view[0] == 7
    assert isinstance(made, Array)
    assert pickle.loads(pickle.dumps(made)).tolist() == [7, 2]


def test_copyfrom_and_copyto():
    a, b = empty((2, 2)), np.zeros((2, 2))
    assert a.copyfrom([[1, 2], [3, 4]]) is a
    a.copyto(b)
    assert b.tolist() == [[1, 2], [3, 4]]
    assert a.copyto(cpu()).tolist() == b.tolist()
    assert a.copyto(empty((2, 2), "int8")).dtype == np.int8
    with pytest.raises(errors.WrongShape, match=r"cannot copy shape \(3,\) into an array of shape \(2, 2\)"):
        a.copyfrom([1, 2, 3])


def test_devices(monkeypatch):
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", "libno_such_driver.so.1")
    assert cpu() == Device("cpu")
    assert str(cuda(1)) == "cuda(1)"
    assert cuda(1).dlpack == (2, 1)
    for make in (lambda: array([1], cuda(0)), lambda: empty(3, "float32", cuda(0)), lambda: empty(3).copyto(cuda(0))):
        with pytest.raises(CudaError, match="TW0830: cannot run on a GPU: this machine has no NVIDIA driver"):
            make()
    with pytest.raises(errors.UnknownDevice, match="no device 'tpu' with index 0"):
        Device("tpu")
    with pytest.raises(errors.UnknownDevice, match="with index -1"):
        cuda(-1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_both_ways_shares_memory(dtype):
    made = empty((2, 3), dtype)
    made[...] = 1
    back = from_dlpack(_Exporter(made) if hasattr(ml_dtypes, dtype) else made)
    assert back.dtype == made.dtype
    assert back.shape == (2, 3)
    assert back.ctypes.data == made.ctypes.data
    made[0, 0] = 0
    assert back[0, 0] == 0


class _Exporter:
    """Only DLPack, so that nothing else can be used to read it."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


def test_torch_tensors_go_both_ways():
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    view = from_dlpack(t)
    t[0, 0] = 5
    assert view[0, 0] == 5
    half = array([[1.5, -2.0]], dtype="bfloat16")
    taken = torch.from_dlpack(half)
    assert taken.dtype == torch.bfloat16
    assert taken.tolist() == [[1.5, -2.0]]
    np.testing.assert_array_equal(np.asarray(from_dlpack(taken)), np.asarray(half))
    assert from_dlpack(torch.zeros(0)).shape == (0,)
    assert array(torch.ones(3, dtype=torch.int64)).tolist() == [1, 1, 1]
    with pytest.raises(errors.UnreadableTensor, match=r"(?s)cannot be read.*requires? grad"):
        from_dlpack(torch.zeros(3, requires_grad=True))


def test_what_has_no_memory_is_refused():
    with pytest.raises(errors.NotATensor, match="a list has no memory to share"):
        from_dlpack([1, 2])


def test_kernels_take_torch_tensors_without_a_copy():
    torch = pytest.importorskip("torch")
    add = handwritten_kernels.vector_add()
    a, c = torch.arange(8, dtype=torch.float32), torch.zeros(8)
    add(a, a, c)
    assert c.tolist() == [2.0 * i for i in range(8)]
    with pytest.raises(errors.WrongStride, match="'B'"):
        add(a[:4], a[::2], c[:4])
    with pytest.raises(errors.WrongDType, match=r"'B' .* has dtype float64"):
        add(a, a.double(), c)
    with pytest.raises(errors.UnreadableTensor, match=r"(?s)'A'.*grad"):
        add(torch.zeros(8, requires_grad=True), a, c)
    with pytest.raises(errors.WrongDevice, match=r"'A' .* is on device"):
        add(_OnGpu(), a, c)


def test_kernels_take_bfloat16_from_anyone():
    torch = pytest.importorskip("torch")
    double = handwritten_kernels.build(
        Signature("first", buffers("A:bfloat16[n] out B:bfloat16[n]"), (Symbol("n"),)),
        "define i32 KERNEL(ptr %a, ptr %b, i64 %n) {\n %x = load i16, ptr %a\n store i16 %x, ptr %b\n ret i32 0\n}",
    )
    for a, b in [
        (np.ones(3, ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)),
        (array([1, 1], dtype="bfloat16"), empty(2, "bfloat16")),
        (torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)),
    ]:
        b[:] = 0
        double(a, b)
        assert float(b[0]) == 1
    with pytest.raises(errors.WrongDType, match=r"'B' .* has dtype uint16; bfloat16 is expected"):
        double(a, np.zeros(3, np.uint16))


class _OnGpu(_Exporter):
    shape, dtype = (8,), "float32"

    def __init__(self):
        super().__init__(None)

    def __dlpack_device__(self):
        return (2, 0)


def test_array_interface_and_rank_0():
    add = handwritten_kernels.vector_add()
    a, c = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)

    class Holder:
        __array_interface__ = c.__array_interface__

    add(a, a, Holder())
    assert c.tolist() == [0, 2, 4, 6]
    scalar = handwritten_kernels.build(
        Signature("scalar", buffers("A:float32[] out B:float32[]")),
        "define i32 KERNEL(ptr %a, ptr %b) {\n %x = load float, ptr %a\n store float %x, ptr %b\n ret i32 0\n}",
    )
    out = empty(())
    scalar(array(2.5), out)
    assert out == 2.5
    scalar(np.float32(3.5), out)
    assert out == 3.5
    with pytest.raises(errors.WrongRank, match=r"'B' .*has 1 \(shape \(1,\)\) dimensions; 0 are expected"):
        scalar(array(2.5), empty(1))


def test_a_read_only_dlpack_tensor_is_no_output():
    add = handwritten_kernels.vector_add()
    a, frozen = np.zeros(4, np.float32), np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(errors.ReadOnlyOutput, match="'C'"):
        add(a, a, _Exporter(frozen))
    add(a, _Exporter(frozen), np.ones(4, np.float32))


@pytest.mark.parametrize("shape", [(2**62, 4), (2**50,)])
def test_an_array_that_no_memory_holds_is_refused_with_its_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(errors.KernelOutOfMemory, match=f"TW0517.*\n.*it has {4 * math.prod(shape)} bytes"):
        empty(shape)


class Thrower:
    """Raises whatever it likes wherever it is asked."""

    @property
    def __array_interface__(self) -> Any:
        raise ZeroDivisionError("nothing here")

    def __index__(self) -> int:
        raise ValueError("no number")


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
NONSENSE: list[Any] = [
    None,
    "abc",
    b"x",
    1.5,
    float("nan"),
    10**30,
    -1,
    {},
    {1: 2},
    set(),
    object(),
    [1, [2]],
    (1,) * 100,
    (0, 2**62),
    (2**40, 2**40),
    (None,),
    1j,
    ["a", 1],
    np.zeros(2, "complex64"),
    np.zeros(3, [("a", "i4")]),
    slice(3),
    iter([1]),
    ITSELF,
    Thrower(),
]


@pytest.mark.parametrize("wrong", NONSENSE, ids=lambda wrong: type(wrong).__name__)
def test_nonsense_is_a_typed_error_wherever_it_is_passed(wrong: Any) -> None:
    entry_points: list[Callable[[], Any]] = [
        lambda: tw.empty(wrong),
        lambda: tw.empty(2, wrong),
        lambda: tw.empty(2, "float32", wrong),
        lambda: tw.array(wrong),
        lambda: tw.array([1, 2], None, wrong),
        lambda: tw.array([1, 2], wrong),
        lambda: tw.empty(2).copyfrom(wrong),
        lambda: tw.empty(2).copyto(wrong),
        lambda: from_dlpack(wrong),
    ]
    for enter in entry_points:
        with contextlib.suppress(tw.TilewrightError):  # most are; a few make sense somewhere
            enter()
    with pytest.raises(tw.CallError, match="TW0506: cannot make an array of shape"):
        tw.empty((1,) * 65)
    with pytest.raises(ValueError, match="TW0506: cannot copy shape"):
        tw.empty(2).copyto(np.zeros(3))
