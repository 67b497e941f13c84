"""Extents that the check of a call computes: what does not fit 64 bits is refused, in Python and in libraries."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack
from tilewright import te
from tilewright.graph import Builder
from tilewright.runtime.abi import Check, pack_status

LARGEST = 2**63 - 1


def kernel(extent: Any, *scalars: Any, name: str = "main") -> tw.Kernel:
    a = te.placeholder((extent,), "uint8", name="A")
    b = te.compute((extent,), lambda i: a[i] + 1, name="B")
    return tw.build(te.create_schedule(b.op), [*scalars, a, b], name=name)


def test_sums_and_products_of_scalars_do_not_wrap() -> None:
    k, q = te.var("k", "int64"), te.var("q", "int64")
    none, four = (np.zeros(n, np.uint8) for n in (0, 4))
    for extent, good, beyond in (
        (k + q, (1, 3), (LARGEST, LARGEST)),
        (k * 4, (1, 0), (2**62, 0)),
        (k * q * 2, (1, 2), (2**32, 2**31)),
        (te.floordiv(0 - k - 1, q - 2) + 6, (1, 3), (LARGEST, 1)),  # the least number by -1, where processors stop
    ):
        built = kernel(extent, k, q)
        built(*good, four, four.copy())
        for given in (none, four):
            with pytest.raises(tw.CallError, match="TW0507"):
                built(*beyond, given, given.copy())


def test_extents_that_no_memory_has_are_refused_by_calls() -> None:
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    a = te.placeholder((n, m), "uint8", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    built = tw.build(te.create_schedule(b.op), [a, b])
    for shape in ((2**62, 0), (0, 2**48)):  # numpy makes them
        with pytest.raises(tw.CallError, match=r"TW0506(.|\n)*that no tensor has"):
            built(np.empty(shape, np.uint8), np.empty(shape, np.uint8))
    built(np.empty((0, 2**20), np.uint8), np.empty((0, 2**20), np.uint8))


def test_functions_of_libraries_refuse_them(tmp_path: Path) -> None:
    n = te.size_var("n", "int64")
    kernel(n * 8, name="plus").export(tmp_path / "libplus.so", threads="none")
    library = ctypes.CDLL(str(tmp_path / "libplus.so"))
    memory = np.zeros(8, np.uint8)
    data = memory.ctypes.data
    for count in (2**45, 2**60, 2**61 + 1, LARGEST):
        status = library.plus(ctypes.c_int64(count), ctypes.c_void_p(data), ctypes.c_void_p(data))
        assert status == pack_status(Check.EXTENT, 0, 0)
    assert library.plus(ctypes.c_int64(1), ctypes.c_void_p(data), ctypes.c_void_p(data)) == 0
    tensor = as_dlpack(memory)
    tensor.shape = (ctypes.c_int64 * 1)(2**63 - 8)
    tensor.strides = None
    status = library.plus_checked(ctypes.byref(tensor), ctypes.byref(tensor))
    assert status == pack_status(Check.EXTENT, 0, 0)


def test_an_arena_beyond_memory_is_no_size_and_no_call(tmp_path: Path) -> None:
    builder = Builder()
    x = builder.input("x", ("n", 64))
    builder.output("y", builder.node("softmax", builder.node("softmax", x, axis=1), axis=0))
    tw.build(builder.graph()).export(tmp_path / "libnet.so", threads="none")
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    asked = library.net_arena_bytes
    asked.restype = ctypes.c_int64
    assert asked(ctypes.c_int64(3)) >= 3 * 64 * 4
    sizes = {count: asked(ctypes.c_int64(count)) for count in (-1, 2**54, 2**56, 2**58, 2**59, 2**62, LARGEST)}
    assert set(sizes.values()) == {-1}, sizes
    nothing = [ctypes.c_void_p(64)] * 3
    for count in (2**54, 2**56, 2**58, 2**62, LARGEST):
        assert library.net(ctypes.c_int64(count), *nothing) < 0
