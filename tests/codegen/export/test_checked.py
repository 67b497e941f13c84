"""The _checked functions: each malformed call gets the status that says what is wrong, and runs nothing."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack, run, scale_add
from tilewright import te
from tilewright.codegen.export.statuses import status_texts
from tilewright.runtime.abi import DLPACK_TYPES, Check, DLTensor, pack_status, unpack_status

A, FACTOR, B, C = range(4)
NAMES = {A: "A", B: "B", C: "C"}


class Call:
    """The arguments of a good call, to be spoilt."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.memory = {A: rng.random((5, 6), np.float32), B: rng.random(6, np.float32), C: np.zeros((5, 6), np.float32)}
        self.tensors: dict[int, DLTensor | None] = {i: as_dlpack(x) for i, x in self.memory.items()}
        self.factor = 2.5

    def __getitem__(self, i: int) -> DLTensor:
        tensor = self.tensors[i]
        assert tensor is not None
        return tensor

    @property
    def arguments(self) -> list[object]:
        values: list[object] = [None if t is None else ctypes.byref(t) for t in self.tensors.values()]
        return [values[0], ctypes.c_float(self.factor), *values[1:]]


Spoil = Callable[[Call], object]


def extents(*values: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def setting(i: int, **fields: object) -> Spoil:
    return lambda call: [setattr(call[i], name, value) for name, value in fields.items()]


def spoilt() -> Iterator[tuple[str, Spoil, int]]:
    """(what, how, the status that it must have)."""
    for i, name in NAMES.items():
        rank, rows = (1, ()) if i == B else (2, (5,))
        yield f"{name} NULL", lambda call, i=i: call.tensors.__setitem__(i, None), pack_status(Check.NULL, i, 0)
        yield f"{name} shape NULL", setting(i, shape=None), pack_status(Check.NULL, i, 1)
        yield f"{name} data NULL", setting(i, data=None), pack_status(Check.NULL, i, 2)
        for dtype, number in {**DLPACK_TYPES, "float32x2": DLPACK_TYPES["float32"] + (1 << 16), "nothing": 0}.items():
            if dtype != "float32":
                yield f"{name} dtype {dtype}", setting(i, dtype=number), pack_status(Check.DTYPE, i)
        for ndim in {-1, 0, 1, 2, 3, 1 << 30} - {rank}:
            yield f"{name} rank {ndim}", setting(i, ndim=ndim), pack_status(Check.RANK, i)
        for device in (0, 2, 4, 13, -1):
            yield f"{name} device {device}", setting(i, device_type=device), pack_status(Check.DEVICE, i)
        for offset in (1, 2, 3):
            yield f"{name} offset {offset}", setting(i, byte_offset=offset), pack_status(Check.ALIGNMENT, i)
        for offset in (1 << 48, 1 << 62, (1 << 64) - 4):
            yield f"{name} offset {offset}", setting(i, byte_offset=offset), pack_status(Check.NULL, i, 3)
        for columns in (0, 5, 7, -1, -6, 1 << 62, -(1 << 63)):
            yield (
                f"{name} columns {columns}",
                setting(i, shape=extents(*rows, columns)),
                pack_status(Check.SHAPE, i, rank - 1),
            )
        for step in (2, -1):
            strides = extents(*([6] * (rank - 1)), step)
            yield f"{name} element stride {step}", setting(i, strides=strides), pack_status(Check.STRIDE, i, rank - 1)
        if rank == 2:
            yield f"{name} row stride", setting(i, strides=extents(7, 1)), pack_status(Check.STRIDE, i, 0)
            yield f"{name} broadcast", setting(i, strides=extents(0, 1)), pack_status(Check.STRIDE, i, 0)
            for rows in (-2, 1 << 48, 1 << 60, 1 << 62, (1 << 63) - 1, -(1 << 63)):
                yield f"{name} rows {rows}", setting(i, shape=extents(rows, 6)), pack_status(Check.EXTENT, i, 0)
            for step in ((1 << 62) + 6, -(1 << 62) + 6, 1 << 62):  # times 4 bytes they wrap
                yield f"{name} row stride {step}", setting(i, strides=extents(step, 1)), pack_status(Check.STRIDE, i, 0)
    yield "C rows", setting(C, shape=extents(4, 6)), pack_status(Check.SYMBOL, C, 0)
    yield "A rows", setting(A, shape=extents(4, 6)), pack_status(Check.SYMBOL, C, 0)
    yield "A too large", setting(A, shape=extents(1 << 30, 6)), pack_status(Check.TOO_LARGE, A, 0)
    yield "C is A", lambda call: call.tensors.__setitem__(C, call[A]), pack_status(Check.OVERLAP, C, A)
    yield "B in C", lambda call: setattr(call[B], "data", call[C].data + 96), pack_status(Check.OVERLAP, C, B)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("checked") / "libscale_add.so"
    scale_add().export(path)
    loaded = ctypes.CDLL(str(path))
    loaded.scale_add_error.restype = ctypes.c_char_p
    return loaded


def test_a_hundred_malformed_calls_get_the_statuses_that_say_so(library: ctypes.CDLL) -> None:
    cases = list(spoilt())
    assert len(cases) >= 100
    for what, spoil, expected in cases:
        call = Call()
        spoil(call)
        assert library.scale_add_checked(*call.arguments) == expected, what
        assert not call.memory[C].any(), what
        text = library.scale_add_error(expected).decode()
        subject = NAMES[unpack_status(expected)[1]]
        assert text.startswith("TW05") and f"'{subject}' (argument " in text, (what, text)


def test_good_calls_succeed_where_tensors_come_in_any_right_form(library: ctypes.CDLL) -> None:
    def expect(spoil: Spoil, rows: int = 5) -> None:
        call = Call()
        spoil(call)
        assert library.scale_add_checked(*call.arguments) == 0
        a, b = call.memory[A][:rows], call.memory[B]
        np.testing.assert_allclose(call.memory[C][:rows], a * np.float32(2.5) + b, rtol=1e-6)
        assert not call.memory[C][rows:].any()

    expect(lambda call: None)
    expect(setting(A, strides=None))
    expect(setting(A, device_type=3))  # host memory that CUDA has pinned
    expect(lambda call: (setting(A, shape=extents(3, 6))(call), setting(C, shape=extents(3, 6))(call)), rows=3)
    expect(lambda call: setting(B, data=call[B].data - 64, byte_offset=64)(call))
    expect(lambda call: [setting(i, shape=extents(0, 6), data=None)(call) for i in (A, C)], rows=0)
    assert library.scale_add_error(0) == b"success"
    assert library.scale_add_error(12345) == b"unknown status"


def test_the_plain_function_refuses_extents_that_no_tensor_has(library: ctypes.CDLL) -> None:
    call = Call()
    pointers = {i: x.ctypes.data_as(ctypes.c_void_p) for i, x in call.memory.items()}
    arguments = (pointers[A], ctypes.c_float(2.5), pointers[B], pointers[C])
    assert library.scale_add(ctypes.c_int64(-1), *arguments) == pack_status(Check.EXTENT, A, 0)
    assert library.scale_add(ctypes.c_int64(1 << 30), *arguments) == pack_status(Check.TOO_LARGE, A, 0)
    assert not call.memory[C].any()
    assert library.scale_add(ctypes.c_int64(5), *arguments) == 0
    np.testing.assert_allclose(call.memory[C], call.memory[A] * np.float32(2.5) + call.memory[B], rtol=1e-6)


C_KINDS = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float8_e4m3fn": ctypes.c_uint8,
    "float8_e5m2": ctypes.c_uint8,
    "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


@pytest.mark.parametrize("dtype", C_KINDS)
def test_scalars_and_tensors_of_every_dtype_pass(dtype: str, tmp_path: Path) -> None:
    x = te.var("x", dtype)
    D = te.placeholder((3,), dtype, name="D")
    E = te.compute((3,), lambda i: te.if_then_else(i == 0, x, D[i]), name="E")
    kernel = tw.build(te.create_schedule(E), [x, D, E], name="put_first")
    kernel.export(tmp_path / "libput.so", threads="none")
    library = ctypes.CDLL(str(tmp_path / "libput.so"))
    before = tw.array([0, 1, 1], dtype=dtype)
    value = tw.array([1 if dtype == "bool" else 7], dtype=dtype)
    if dtype.startswith("int"):
        value = tw.array([-7], dtype=dtype)
    bits = value.view(C_KINDS[dtype]) if "float" in dtype and value.itemsize < 4 else value
    scalar = C_KINDS[dtype](bits[0].item())
    plain, checked = tw.empty((3,), dtype), tw.empty((3,), dtype)
    assert library.put_first(scalar, before.ctypes.data_as(ctypes.c_void_p), plain.ctypes.data_as(ctypes.c_void_p)) == 0
    assert library.put_first_checked(scalar, ctypes.byref(as_dlpack(before)), ctypes.byref(as_dlpack(checked))) == 0
    expected = np.concatenate([value, before[1:]])
    assert np.array_equal(plain, expected) and np.array_equal(checked, expected)
    loaded = tw.load(tmp_path / "libput.so")
    again = tw.empty((3,), dtype)
    loaded(value[0], before, again)
    assert np.array_equal(again, expected)


def test_a_size_that_is_a_scalar_is_held_to_its_range(tmp_path: Path) -> None:
    n = te.size_var("n")
    D = te.placeholder((8,), "int32", name="D")
    E = te.compute((8,), lambda i: D[i] * n, name="E")
    kernel = tw.build(te.create_schedule(E), [n, D, E], name="multiplied")
    kernel.export(tmp_path / "libmultiplied.so")
    library = ctypes.CDLL(str(tmp_path / "libmultiplied.so"))
    d, e = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    pointers = d.ctypes.data_as(ctypes.c_void_p), e.ctypes.data_as(ctypes.c_void_p)
    tensors = ctypes.byref(as_dlpack(d)), ctypes.byref(as_dlpack(e))
    for wrong in (-1, -(1 << 31), (1 << 30), (1 << 31) - 1):
        refused = pack_status(Check.SCALAR_RANGE, 0)
        assert library.multiplied(wrong, *pointers) == library.multiplied_checked(wrong, *tensors) == refused
    assert library.multiplied(3, *pointers) == library.multiplied_checked(3, *tensors) == 0
    assert np.array_equal(e, d * 3)


def test_a_failed_assertion_and_want_of_memory_are_statuses_with_texts(tmp_path: Path) -> None:
    D, at = te.placeholder((8,), name="D"), te.placeholder((4,), "int32", name="at")
    E = te.compute((4,), lambda i: D[at[i]], name="E")
    tw.build(te.create_schedule(E), [D, at, E], name="pick", bounds_check=True).export(tmp_path / "libpick.so")
    library = ctypes.CDLL(str(tmp_path / "libpick.so"))
    library.pick_error.restype = ctypes.c_char_p
    d, e = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    status = library.pick(*(x.ctypes.data_as(ctypes.c_void_p) for x in (d, np.array([0, 1, 99, 2], np.int32), e)))
    assert status == 1
    assert b"TW0518: pick stopped" in library.pick_error(status) and b"D" in library.pick_error(status)
    assert b"TW0517" in library.pick_error(-1)


def test_every_status_has_a_text_that_names_an_argument_and_its_expectation() -> None:
    signature = scale_add().signature
    texts = status_texts(signature, ["index out of range"], ["avx512f"])
    assert len(set(texts.values())) == len(texts)
    for status, text in texts.items():
        if status not in (0, 1, -1, pack_status(Check.PROCESSOR, 0)):
            assert "(argument " in text and "expected" in text, text


LITTLE_MEMORY = """
import ctypes, resource, sys
library = ctypes.CDLL(sys.argv[1])
library.hungry_error.restype = ctypes.c_char_p
a, b = (ctypes.c_float * 16)(), (ctypes.c_float * 16)()
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
status = library.hungry(a, b)
print(status, library.hungry_error(status).decode())
"""


def test_want_of_memory_is_a_status(tmp_path: Path) -> None:
    D = te.placeholder((16,), name="D")
    T = te.compute((16, 1 << 26), lambda i, j: D[i] * j, name="T")
    E = te.compute((16,), lambda i: T[i, 5] + T[15 - i, (1 << 26) - 1], name="E")
    path = tw.build(te.create_schedule(E.op), [D, E], name="hungry").export(tmp_path / "libhungry.so", threads="none")[
        0
    ]
    done = run([sys.executable, "-c", LITTLE_MEMORY, path])
    assert done.stdout.startswith("-1 TW0517: hungry could not get memory"), done
