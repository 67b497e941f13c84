"""External code in the interpreter: Python functions by their registered names, functions of C libraries, traces."""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dataclass, user_source
from ..dtype import DType
from ..errors import UnknownOutsideCode
from ..expr import Call, Expr, StringImm
from ..packed_functions import call_func, find_func, registered_names, trace_line
from .faults import Pointer
from .scalars import numpy_dtype
from .source import Code, Source

__all__ = ["OutsideCalls", "c_function", "checked_result"]


class OutsideCalls(Source, ABC):
    """Write calls of outside code."""

    externs: Mapping[str, Callable[..., Any] | int]
    """Python functions that stand for outside code, by name; or the addresses of C functions."""

    @abstractmethod
    def exact(self, node: Expr) -> Code:
        """Source of a value, wrapped into its dtype."""

    @abstractmethod
    def value(self, node: Expr) -> Code:
        """Source of a value, which may still have to be wrapped."""

    def call_code(self, node: Call) -> Code:
        """A call of outside code: what it is, or else its first argument, says whose."""
        if node.name == "call_packed":
            return self._packed_call(node)
        if node.name == "packed_array":
            return self._packed_array(node)
        if node.name == "trace":
            return self._trace(node)
        if node.name.startswith("call_"):
            return self.call_by_name(node, node.args[1:], getattr(node.args[0], "value", "?"))
        return self.call_by_name(node, node.args, node.name)

    def call_by_name(self, node: Call, args: tuple[Expr, ...], name: str) -> Code:
        """A call of outside code, which is looked up by name. Raises UnknownOutsideCode."""
        called = self.externs.get(name)
        if isinstance(called, int) or (called is None and node.name in ("call_extern", "call_pure_extern")):
            called = c_function(name, args, node.dtype, called)
        if called is None:
            raise UnknownOutsideCode(
                f"the interpreter cannot call '{name}'",
                reason=f"`{node}`",
                called=user_source(),
                fix=f"give it an implementation: ir.interpret.interpreter.EXTERNS['{name}'] = a Python function of its arguments",
            )
        function = self.constant(called, ("extern", name))
        result = self.constant(checked_result(node.dtype), ("result", str(node.dtype)))
        return Code(self.spill(f"{result}({function}({', '.join(self.exact(a).text for a in args)}))"))

    def _packed_call(self, node: Call) -> Code:
        """A call of a registered function."""
        name = getattr(node.args[0], "value", "?")
        registered = find_func(name)
        if registered is None:
            raise UnknownOutsideCode(
                f"the interpreter cannot call the packed function '{name}'",
                reason="no function of this name is registered",
                called=user_source(),
                allowed=", ".join(registered_names()) or "nothing is registered",
                fix=f'@tw.register_func("{name}") above a Python function of its arguments',
            )
        function = self.constant(_wrap_callback(name, registered), ("packed", name))
        return Code(self.spill(f"{function}({', '.join(self._texts(node.args[1:]))})"))

    def _packed_array(self, node: Call) -> Code:
        """Return the array that a registered function gets for a buffer."""
        start, rank, *layout = node.args
        count = int(getattr(rank, "value", 0))
        extents, strides = layout[:count], layout[count:]
        dtype = start.args[0].dtype if isinstance(start, Call) else start.dtype
        kind = self.constant(numpy_dtype(dtype), ("numpy", str(dtype)))
        array = self.constant(_Packed, ("packed array",))
        shape, steps = (f"({''.join(text + ', ' for text in self._texts(part))})" for part in (extents, strides))
        return Code(self.spill(f"{array}({self.value(start).text}, {shape}, {steps}, {kind})"))

    def _trace(self, node: Call) -> Code:
        """Print, and give the last value."""
        tag = getattr(node.args[0], "value", "")
        function = self.constant(_printing(tag), ("trace", tag))
        return Code(self.spill(f"{function}({', '.join(self._texts(node.args[1:]))})"))

    def _texts(self, values: Sequence[Expr]) -> list[str]:
        return [repr(value.value) if isinstance(value, StringImm) else self.exact(value).text for value in values]


def checked_result(dtype: DType) -> Callable[[Any], Any]:
    """Return the result of outside code, in the type of the call."""
    if dtype.kind == "handle":
        return lambda value: value
    held = numpy_dtype(dtype)
    if dtype.lanes > 1:
        return lambda value: [held.type(x) if dtype.is_float else held.type(x).item() for x in value]
    if dtype.is_float:
        return held.type
    return lambda value: 0 if value is None else held.type(value).item()


def _printing(tag: str) -> Callable[..., Any]:
    def show(*values: Any) -> Any:
        sys.stdout.write(trace_line(tag, values))
        return values[-1]

    return show


@dataclass(frozen=True, slots=True)
class _Packed:
    """A buffer on its way into a Python function, and back."""

    pointer: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def places(self) -> list[int]:
        """Return the offset of each element, from where the pointer points, row by row."""
        if not self.strides:
            return list(range(int(np.prod(self.shape, dtype=np.int64))))
        grid = np.indices(self.shape).reshape(len(self.shape), -1)
        return [int(place) for place in np.tensordot(np.array(self.strides), grid, 1)]

    def read(self) -> np.ndarray[Any, Any]:
        """Its elements; what is only written may hold none yet."""
        pointer, writable = self.pointer, bool(self.pointer.mode & 2)
        held = [pointer.peek(place) if writable else pointer[place] for place in self.places()]
        array = np.array([0 if value is None else value for value in held], self.dtype).reshape(self.shape)
        array.flags.writeable = writable
        return array

    def write(self, array: np.ndarray[Any, Any]) -> None:
        for place, value in zip(self.places(), array.reshape(-1).tolist(), strict=True):
            self.pointer[place] = value


def _wrap_callback(name: str, function: Callable[..., Any]) -> Callable[..., int]:
    """The function on arrays, its exceptions wrapped."""

    def run(*given: Any) -> int:
        arrays = [value.read() if isinstance(value, _Packed) else value for value in given]
        number = call_func(name, function, arrays)
        for value, array in zip(given, arrays, strict=True):
            if isinstance(value, _Packed) and value.pointer.mode & 2:
                value.write(array)
        return number

    return run


# C


def c_function(
    name: str, arguments: Sequence[Expr], result: DType, address: int | None = None
) -> Callable[..., Any] | None:
    """A C function on the interpreter's values: that at `address`, or of a library that this process has loaded; None where there
    is none.

    What a pointer points to is copied to memory that C sees, up to the buffer's end, and back where the pointer is written
    through.
    """
    kinds = [_c_type(argument.dtype) for argument in arguments]
    returns = _c_type(result)
    if returns is None or any(kind is None for kind in kinds):
        return None
    try:
        function: Any = (
            getattr(ctypes.CDLL(None), name) if address is None else ctypes.CFUNCTYPE(returns, *kinds)(address)
        )
    except AttributeError:
        return None
    function.restype, function.argtypes = returns, kinds

    def run(*values: Any) -> Any:
        passed: list[Any] = []
        memory: list[tuple[Pointer, np.ndarray[Any, Any]]] = []
        for value in values:
            if isinstance(value, Pointer):
                memory.append((value, value.memory()))
                passed.append(memory[-1][1].ctypes.data)
            else:
                passed.append(value.encode() if isinstance(value, str) else value)
        returned = function(*passed)
        for pointer, array in memory:
            if pointer.mode & 2:
                for place, value in enumerate(array.tolist()):
                    pointer[place] = value
        return returned

    return run


_C_TYPES: dict[str, Any] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
    "handle": ctypes.c_void_p,
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}


def _c_type(dtype: DType) -> Any:
    return _C_TYPES.get(str(dtype))
