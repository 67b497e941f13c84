"""A kernel as a function of jax: a custom call through XLA's foreign function interface, on XLA's own buffers.

XLA calls a handler with a frame (its header xla/ffi/api/c_api.h), in which the arguments' and the results' buffers are pointers to
descriptions whose fourth word is the address of the elements. Shapes are known when a call is traced, so that everything but the
addresses is prepared then: the handler is machine code that puts these into the arguments' records, and what it finds wrong, or is
asked about itself, is Python's to answer.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from typing import Any

from ...base.arguments import to_list
from ...base.errors import user_source
from ...codegen.abi.arguments import record_offset
from ...codegen.abi.straight_line import StraightLine
from ...codegen.llvm.jit import compile_text
from ...codegen.target import Target
from ...runtime.array import dtype_name, numpy_dtype
from ...runtime.errors import NoFramework
from ...runtime.kernel import Kernel, Prepared
from ...runtime.signature import BufferParam, ScalarParam
from .derivative import Declared, Derivative, kernel_derivative
from .shapes import find_inputs, find_outputs, output_shapes

__all__ = ["jax_function"]

_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_EXTENSION, _API, _GIVEN, _MADE = 8, 16, 72, 112
"""Where a frame has its extension, the table of functions, and the pointers to the descriptions of arguments and of results."""
_DATA = 24
"""Where a description has the address of the elements."""
_METADATA = 1
_API_VERSION = (0, 1)
_CREATE_ERROR = 48
"""Where the table of functions has the one that makes errors."""
_INTERNAL = 13
_numbers = count()


def jax_function(kernel: Kernel, declared: Declared | None) -> Callable[..., Any]:
    """A function of the kernel's inputs that gives its outputs, also under jax.jit; numbers are part of the program. declared: by which
    it is differentiated, when a gradient is first asked for; None for no gradient. Raises NoFramework (TW0746)."""
    try:
        jax: Any = import_module("jax.ffi") and import_module("jax")
    except ImportError:
        raise NoFramework(
            "the kernel cannot be a function of jax",
            reason="jax is not installed, or has no jax.ffi",
            called=user_source(),
            fix="pip install jax",
        ) from None
    plain = _plain_function(jax, kernel)
    return plain if declared is None else _differentiable(jax, kernel, plain, declared)


def _differentiable(jax: Any, kernel: Kernel, plain: Callable[..., Any], declared: Declared) -> Callable[..., Any]:
    """The function with a rule for jax.grad: a kernel of its own, built when it is first asked for."""
    inputs = find_inputs(kernel.signature)
    numbers = tuple(at for at, param in enumerate(inputs) if isinstance(param, ScalarParam))
    arrays = [at for at in range(len(inputs)) if at not in numbers]
    made: list[tuple[Callable[..., Any], Derivative]] = []

    def forward(*given: Any) -> tuple[Any, tuple[Any, ...]]:
        return plain(*given), tuple(given[at] for at in arrays)

    def backward(*given: Any) -> tuple[Any, ...]:
        *fixed, saved, heads = given
        if not made:  # built when a gradient is first asked for: most calls need none
            derivative = kernel_derivative(kernel, declared)
            if derivative is None:
                return (None,) * len(arrays)
            made.append((_plain_function(jax, derivative.built()), derivative))
        function, derivative = made[0]
        whole = dict(zip((*numbers, *arrays), (*fixed, *saved), strict=True))
        outer: list[Any] = to_list(heads)
        found = function(*(whole[at] for at in range(len(inputs))), *(outer[at] for at in derivative.chosen))
        gradients = dict(zip(derivative.wanted, found if len(derivative.wanted) > 1 else [found], strict=True))
        return tuple(gradients.get(at) for at in arrays)

    function = jax.custom_vjp(plain, nondiff_argnums=numbers)
    function.defvjp(forward, backward)
    return function


def _plain_function(jax: Any, kernel: Kernel) -> Callable[..., Any]:
    calls: dict[Any, Any] = {}

    def kind(one: Any) -> Any:
        return (one.shape, one.dtype) if isinstance(one, jax.Array) else (type(one), one)

    def call(*given: Any) -> Any:
        values: list[Any] = [  # a Python number is part of the program, an array is passed
            one if isinstance(one, (jax.Array, bool, int, float)) else jax.numpy.asarray(one) for one in given
        ]
        arrays = [one for one in values if isinstance(one, jax.Array)]
        key = tuple([kind(one) for one in values])
        if key not in calls:  # shapes and numbers are known when jax traces
            calls[key] = jax.jit(_lower_call(jax, kernel, values))
        return calls[key](*arrays)

    return call


def _lower_call(jax: Any, kernel: Kernel, values: Sequence[Any]) -> Any:
    """The call for inputs like these."""
    results = [
        jax.ShapeDtypeStruct(shape, numpy_dtype(param.dtype))
        for shape, param in zip(output_shapes(kernel.signature, values), find_outputs(kernel.signature), strict=True)
    ]
    given, made = iter(values), iter(results)
    whole: list[Any] = []
    places: list[tuple[int, int]] = []
    """Of the kernel's tensors, where their description stands: in which list of a frame, and at which place of it."""
    arrays, outputs = count(), count()
    for param in kernel.signature.params:  # XLA passes arguments and results in separate lists
        one = next(made if isinstance(param, BufferParam) and param.is_output else given)
        whole.append(one if isinstance(param, ScalarParam) else (tuple(one.shape), dtype_name(one.dtype)))
        if isinstance(param, BufferParam):
            places.append((_MADE, next(outputs)) if param.is_output else (_GIVEN, next(arrays)))
    prepared = kernel.prepare(whole)
    fallback = _Handler(_handle_call(prepared, places))
    text = _handler_text(
        prepared, places, len(kernel.signature.symbols), ctypes.cast(fallback, ctypes.c_void_p).value or 0
    )
    handler = compile_text([text], Target(), (_HANDLER,), {}, {}, quick=True)
    name = f"tilewright_{kernel.name}_{next(_numbers)}"
    _kept.append((handler, fallback, kernel))  # XLA keeps the address: the handler must never be freed
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(_Handler(handler.address(_HANDLER))), platform="cpu")
    return jax.ffi.ffi_call(name, results if len(results) > 1 else results[0], vmap_method="sequential")


_HANDLER = "tw_xla_handler"
_kept: list[Any] = []
"""Handlers stay with XLA for as long as the process lives."""


def _handler_text(prepared: Prepared, places: Sequence[tuple[int, int]], symbols: int, fallback: int) -> str:
    """The handler as LLVM IR: the prepared records with the frame's addresses, checked and run; else `fallback`."""
    target, text, records = Target(), StraightLine(), prepared.records
    text.add(f"%records = alloca [{len(records)} x i8], align 16")
    text.add(f"%symbols = alloca [{symbols + 1} x i64], align 16")
    # XLA asks by an extension which version of the interface this is
    text.leave_if(text.compare("ne", "ptr", text.load("ptr", "%frame", _EXTENSION), "null"), "python")
    for at, (word,) in enumerate(struct.iter_unpack("=q", records)):
        text.store("i64", str(word), "%records", 8 * at)
    for param, (which, at) in zip(prepared.places, places, strict=True):
        description = text.load("ptr", text.load("ptr", "%frame", which), 8 * at)
        text.store("ptr", text.load("ptr", description, _DATA), "%records", record_offset(param, "data"))
    # check first: a status of it is told by Python, with the argument's name
    for code in (prepared.check, prepared.run):
        status = text.value(f"call i32 inttoptr (i64 {code} to ptr)(ptr %records, ptr %symbols)")
        text.leave_if(text.compare("ne", "i32", status, 0), "python")
    text.add("ret ptr null")
    text.start("python")
    text.add(f"ret ptr {text.value(f'call ptr inttoptr (i64 {fallback} to ptr)(ptr %frame)')}")
    body = "\n".join(text.lines)
    return f"""target datalayout = "{target.data_layout}"
target triple = "{target.llvm_triple}"
define ptr @{_HANDLER}(ptr %frame) {{
{body}
}}
"""


def _handle_call(run: Prepared, places: Sequence[tuple[int, int]]) -> Callable[[int], int]:
    def handle(frame: int) -> int:
        extension, api, given, made = (
            ctypes.c_uint64.from_address(frame + at).value for at in (_EXTENSION, _API, _GIVEN, _MADE)
        )
        if extension and _answer_version(extension):
            return 0
        descriptions = [
            ctypes.c_uint64.from_address((given if which == _GIVEN else made) + 8 * at).value for which, at in places
        ]
        try:
            run([ctypes.c_uint64.from_address(description + _DATA).value for description in descriptions])
        except Exception as error:  # noqa: BLE001  XLA raises it
            return _error(api, str(error))  # an exception cannot pass through XLA's C code
        return 0

    return handle


def _answer_version(extension: int) -> bool:
    """Answer which version of the interface this is, where XLA asks that."""
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
