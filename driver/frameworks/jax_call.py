"""A kernel as a function of jax: a custom call through XLA's foreign function interface, on XLA's own buffers.

XLA calls a handler with a frame (its header xla/ffi/api/c_api.h), in which the arguments' and the results' buffers are pointers to
descriptions whose fourth word is the address of the elements. Shapes are known when a call is traced, so that everything but the
addresses is prepared then.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from typing import Any

from ...errors import user_source
from ...runtime.array import dtype_name, numpy_dtype
from ...runtime.errors import NoFramework
from ...runtime.kernel import Kernel
from ...runtime.signature import BufferParam, ScalarParam
from .shapes import output_shapes, outputs_of

__all__ = ["jax_function"]

_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_FRAME = struct.Struct("=QQQQi4xQQqQQQQqQQ")
"""Size, extension, api, context, stage; then size, extension, count, kinds and pointers, of arguments and of results."""
_METADATA = 1
_API_VERSION = (0, 1)
_CREATE_ERROR = 48
"""Where the table of functions has the one that makes errors."""
_INTERNAL = 13
_numbers = count()


def jax_function(kernel: Kernel) -> Callable[..., Any]:
    """A function of the kernel's inputs that gives its outputs, also under jax.jit; numbers are part of the program. Raises
    NoFramework (TW0746)."""
    try:
        jax: Any = import_module("jax.ffi") and import_module("jax")
    except ImportError:
        raise NoFramework("the kernel cannot be a function of jax", reason="jax is not installed, or has no jax.ffi",
                          called=user_source(), fix="pip install jax") from None
    calls: dict[Any, Any] = {}

    def call(*given: Any) -> Any:
        values: list[Any] = [one if isinstance(one, (bool, int, float)) else jax.numpy.asarray(one) for one in given]
        key = tuple((one.shape, dtype_name(one.dtype)) if hasattr(one, "shape") else one for one in values)
        if key not in calls:
            calls[key] = _lowered(jax, kernel, values)
        return calls[key](*(one for one in values if hasattr(one, "shape")))

    return call


def _lowered(jax: Any, kernel: Kernel, values: Sequence[Any]) -> Any:
    """The call for inputs like these."""
    results = [jax.ShapeDtypeStruct(shape, numpy_dtype(param.dtype)) for shape, param in
               zip(output_shapes(kernel.signature, values), outputs_of(kernel.signature), strict=True)]
    given, made = iter(values), iter(results)
    whole: list[Any] = []
    places: list[int] = []
    """Of the kernel's tensors, where their address stands among those of the arguments, then the results."""
    arrays, outputs = count(), count(sum(hasattr(one, "shape") for one in values))
    for param in kernel.signature.params:
        one = next(made if isinstance(param, BufferParam) and param.is_output else given)
        whole.append(one if isinstance(param, ScalarParam) else (tuple(one.shape), dtype_name(one.dtype)))
        if isinstance(param, BufferParam):
            places.append(next(outputs if param.is_output else arrays))
    handler = _Handler(_handled(kernel.prepared(whole), places))
    name = f"tilewright_{kernel.name}_{next(_numbers)}"
    _kept.append(handler)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    return jax.ffi.ffi_call(name, results if len(results) > 1 else results[0], vmap_method="sequential")


_kept: list[Any] = []
"""Handlers stay with XLA for as long as the process lives."""


def _handled(run: Callable[[Sequence[int]], None], places: Sequence[int]) -> Callable[[int], int]:
    def handle(frame: int) -> int:
        _, extension, api, _, _, _, _, args, _, given, _, _, rets, _, made = _FRAME.unpack(ctypes.string_at(frame, _FRAME.size))
        if extension and _told(extension):
            return 0
        buffers = [*(ctypes.c_uint64 * args).from_address(given), *(ctypes.c_uint64 * rets).from_address(made)]
        try:
            run([ctypes.c_uint64.from_address(buffers[at] + 24).value for at in places])
        except Exception as error:  # noqa: BLE001  XLA raises it
            return _error(api, str(error))
        return 0

    return handle


def _told(extension: int) -> bool:
    """Answers which version of the interface this is, where XLA asks that."""
    if ctypes.c_int.from_address(extension + 8).value != _METADATA:
        return False
    metadata = ctypes.c_uint64.from_address(extension + 24).value
    for at, number in enumerate(_API_VERSION):
        ctypes.c_int.from_address(metadata + 24 + 4 * at).value = number
    ctypes.c_uint32.from_address(metadata + 32).value = 0
    return True


def _error(api: int, message: str) -> int:
    text = ctypes.create_string_buffer(message.encode())
    given = struct.pack("=QQQi4x", 32, 0, ctypes.addressof(text), _INTERNAL)
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(ctypes.c_uint64.from_address(api + _CREATE_ERROR).value)
    return int(create(given) or 0)
