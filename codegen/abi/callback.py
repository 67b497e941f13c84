"""Kernels that run in Python: their arguments are checked as any other's, by the same machine code, which then calls back.

The machine code is the call stub alone, over a kernel that hands its arguments back to Python as 64-bit slots. The slot after
them holds the status, which is a failure until Python has come to its end: what a callback returns says less, since an interrupt
may strike ctypes itself, which then prints it and returns whatever lay there.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.nibbles import pack_nibbles, unpack_nibbles
from ...runtime.abi import PACKED_TYPES, array_bytes
from ...runtime.array import numpy_dtype
from ...runtime.kernel import Kernel, make_kernel
from ...runtime.signature import BufferParam, ScalarParam, Signature, evaluate_extent
from ..llvm.jit import compile_text
from ..target import Target
from .stub import kernel_symbol, scalar_type, stub_symbols, stub_text

__all__ = ["callback_kernel", "kernel_text"]

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_FAILED = 1

Run = Callable[[list[Any], dict[str, int]], None]
"""Takes the arguments (arrays on the caller's memory, copies of what has 4 bits an element, and numbers) and the scalars and shape
symbols by name."""


def callback_kernel(signature: Signature, run: Run, sources: Callable[[str], str]) -> Kernel:
    """A kernel whose call checks its arguments and then does `run`. What that raises, the call raises."""
    way_back = _WayBack(signature, run)
    entries = stub_symbols(signature.name)
    parts = [kernel_text(signature, way_back.address), stub_text(signature)]
    compiled = compile_text(parts, Target(), tuple(entries.values()), {}, {})
    # the kernel text holds the address of the callback as a number: the two must live equally long
    addresses = {role: compiled.address(symbol) for role, symbol in entries.items()}
    # `code` keeps both alive
    return make_kernel(signature, addresses, code=(compiled, way_back), sources=sources, failure=way_back.failure)


class _WayBack:
    """Path back from machine code into Python."""

    def __init__(self, signature: Signature, run: Run) -> None:
        self._signature, self._run = signature, run
        self._raised = threading.local()  # several threads may call the kernel at once
        self._callback = _Callback(self._enter)

    @property
    def address(self) -> int:
        """Address of `void f(ptr slots)`."""
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def failure(self, status: int) -> BaseException:
        """Return what was raised on this thread."""
        del status
        # popped, since the next call on this thread must not find it
        error: BaseException | None = self._raised.__dict__.pop("error", None)
        return error or KeyboardInterrupt("the call was interrupted on its way from machine code into Python")

    def _enter(self, slots: int) -> None:
        try:
            arguments, values = self._arguments(slots)
            self._run(arguments, values)
            self._store_packed(arguments, slots, values)
            end = slots + 8 * (len(self._signature.params) + len(self._signature.symbols))
            # only here, at the end: anything that ends it earlier leaves the failure there
            ctypes.c_int64.from_address(end).value = 0
        except BaseException as error:  # noqa: BLE001  (nothing may pass through machine code; `failure` hands it on)
            self._raised.error = error

    def _arguments(self, address: int) -> tuple[list[Any], dict[str, int]]:
        params, symbols = self._signature.params, self._signature.symbols
        slots = (ctypes.c_int64 * (len(params) + len(symbols))).from_address(address)
        values = {symbol.name: slots[len(params) + i] for i, symbol in enumerate(symbols)}
        values |= {p.name: slots[i] for i, p in enumerate(params) if isinstance(p, ScalarParam)}
        return [_read_argument(param, slots[i], values) for i, param in enumerate(params)], values

    def _store_packed(self, arguments: list[Any], address: int, values: Mapping[str, int]) -> None:
        """Store results of 4 bits, which `run` got as arrays of numpy's."""
        slots = (ctypes.c_int64 * len(arguments)).from_address(address)
        for param, array, slot in zip(self._signature.params, arguments, slots, strict=True):
            if isinstance(param, BufferParam) and param.is_output and param.dtype in PACKED_TYPES and array.size:
                _memory(param, slot, array.size)[:] = pack_nibbles(array)


def _memory(param: BufferParam, address: int, count: int) -> NDArray[np.uint8]:
    """The bytes of an argument of so many elements, of which there is one."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * array_bytes(param.dtype, count)).from_address(address))


def _read_argument(param: BufferParam | ScalarParam, slot: int, values: Mapping[str, int]) -> Any:
    """The array at an address, or the number whose bits a slot holds."""
    dtype = numpy_dtype(param.dtype)
    if isinstance(param, ScalarParam):
        # the kernel stores the scalar's own bytes at the slot's beginning (little-endian)
        return np.array([slot], np.int64).view(np.uint8)[: dtype.itemsize].view(dtype)[0]
    shape = tuple(evaluate_extent(extent, values) for extent in param.shape)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype)  # an empty tensor may have a null pointer, which from_address would follow
    memory = _memory(param, slot, count)
    return unpack_nibbles(memory, shape, dtype) if param.dtype in PACKED_TYPES else memory.view(dtype).reshape(shape)


def kernel_text(signature: Signature, callback: int) -> str:
    """The kernel: its arguments as 64-bit slots, one more for the status, and the call of `void callback(ptr slots)`."""
    target = Target()
    types = [scalar_type(p.dtype) if isinstance(p, ScalarParam) else "ptr" for p in signature.params]
    types += ["i64"] * len(signature.symbols)
    lines = [
        f"  %slots = alloca [{len(types) + 1} x i64], align 8",
        f"  %end = getelementptr i64, ptr %slots, i64 {len(types)}",
        f"  store i64 {_FAILED}, ptr %end",
    ]
    for i, kind in enumerate(types):
        lines.append(f"  %p{i} = getelementptr i64, ptr %slots, i64 {i}")
        # the upper bytes of a slot are to be 0 where the scalar is narrower
        lines += [f"  store i64 0, ptr %p{i}", f"  store {kind} %a{i}, ptr %p{i}"]
    head = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(types))
    body = "\n".join(lines)
    return f"""target datalayout = "{target.data_layout}"
target triple = "{target.llvm_triple}"
define i32 @{kernel_symbol(signature.name)}({head}) {{
{body}
  call void inttoptr (i64 {callback} to ptr)(ptr %slots)
  %ended = load i64, ptr %end
  %status = trunc i64 %ended to i32
  ret i32 %status
}}
"""
