"""The way from machine code into Python: te.call_packed and te.trace.

Each place that calls a Python function becomes a call of a function of its own, made by ctypes for the types that it
passes: pointers, 64-bit integers, doubles. ctypes takes the interpreter's lock for it. The first of what is passed is where the
result goes. It holds FAILED until the function has come to its end, so that whatever ends it earlier, an interrupt that strikes
ctypes itself included, ends the kernel too: it leaves with a status, and whoever called it gets the exception.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import dataclass, field, is_interruption, user_source
from ...ir import Call, Expr, Function, IntImm, Node, StringImm, post_order, rewrite
from ...ir.contents import contains
from ...ir.errors import CallbackFailed
from ...ir.packed_functions import call_func, callback_failed, find_func, registered_names, trace_line
from ...ir.pointers import WRITES, pointed_buffer
from ...runtime.array import numpy_dtype
from ..errors import PackedNotRegistered, UnsupportedIntrinsic

__all__ = ["CALLBACK_RAISED", "FAILED", "PACKED_PREFIX", "PackedCalls", "bound_symbol", "calls_packed"]

FAILED = 1 << 32  # beyond any status of 32 bits, so that one comparison tells
"""The result of a call whose Python function raised; else the low 32 bits are the result."""
CALLBACK_RAISED = 1 << 30
"""The status of a kernel that ends for that."""
PACKED_PREFIX = "tw_packed_"


def calls_packed(function: Function) -> str | None:
    """The name of a Python function that `function` calls; None where it calls none."""
    for node in post_order(function.body):
        if isinstance(node, Call) and node.name == "call_packed":
            return _name(node)
    return None


def bound_symbol(call: Call, target: str) -> str:
    """The symbol to which a call of a Python function is bound. Raises UnsupportedIntrinsic (TW0413) where it is not, being built
    for elsewhere than this process."""
    symbol = _name(call)
    if not symbol.startswith(PACKED_PREFIX):  # the prefix is set by `bound`, at a build for this process
        raise UnsupportedIntrinsic(
            f"the program calls the Python function {symbol!r}",
            called=user_source(),
            reason="only a kernel that is built to run in this process can",
            fix=f'tw.build(..., target="{target}")',
        )
    return symbol


def _name(call: Call) -> str:
    first = call.args[0]
    assert isinstance(first, StringImm), "the first operand of a packed call is its name"
    return first.value


@dataclass
class PackedCalls:
    """The places of a module of kernels that call Python. symbols: their addresses by name. It has to live as long as the
    code that calls them."""

    symbols: dict[str, int] = field(default_factory=dict[str, int])
    _callbacks: list[Any] = field(default_factory=list[Any])
    _raised: deque[BaseException] = field(default_factory=deque[BaseException])
    _latest: BaseException | None = None

    def bound(self, function: Function) -> Function:
        """`function`, of stage "final", calling this process's Python functions. Raises PackedNotRegistered."""
        if not contains(function.body, "call_packed", "trace"):
            return function

        def rule(node: Node) -> Node | None:
            if not isinstance(node, Call) or node.name not in ("call_packed", "trace"):
                return None
            # a symbol for each place, not each function: the types that are passed may differ
            symbol = f"{PACKED_PREFIX}{len(self._callbacks)}"
            name, parameters = _name(node), [_parameter(arg) for arg in node.args[1:]]
            if node.name == "trace":
                self._add(symbol, name, parameters, _tracing(name))
                return Call("trace", (StringImm(symbol), *node.args[1:]), node.dtype)
            self._add(symbol, name, parameters, _emit_packed_call(name))
            return Call(
                # an array is passed as its pointer, extents and strides
                "call_packed",
                (StringImm(symbol), *(part for arg in node.args[1:] for part in _flat(arg))),
                node.dtype,
            )

        return function.with_body(rewrite(function.body, rule))

    def failure(self, otherwise: Callable[[int], BaseException], status: int) -> BaseException:
        """Return what a Python function raised, where that is why a kernel returned `status`; else what `otherwise` says."""
        if status != CALLBACK_RAISED:
            return otherwise(status)
        if self._raised:  # of several that parallel iterations raised the first
            self._latest = self._raised[0]
            self._raised.clear()
        # an earlier one, where the status was kept and the kernel did not raise again
        return self._latest or KeyboardInterrupt("a call was interrupted on its way from machine code into Python")

    def _add(self, symbol: str, name: str, parameters: Sequence[_Parameter], function: Callable[..., int]) -> None:
        kinds = [kind for parameter in parameters for kind in parameter.kinds]
        raised = self._raised

        def enter(place: int, *raw: Any) -> None:
            given = iter(raw)
            try:
                # 32 bits: the upper ones say whether it failed
                result = function(*[parameter.value(given) for parameter in parameters]) & 0xFFFFFFFF
                ctypes.c_int64.from_address(place).value = result
            except CallbackFailed as error:
                raised.append(error)  # has the message for it already
            except BaseException as error:  # noqa: BLE001  (nothing may pass through machine code; `failure` hands it on)
                raised.append(error if is_interruption(error) else callback_failed(name, error))
                if raised[-1] is not error:  # `raise ... from error` without raising
                    raised[-1].__cause__ = error

        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *kinds)(enter)
        self._callbacks.append(callback)  # ctypes frees the machine code of a callback with its object
        self.symbols[symbol] = ctypes.cast(callback, ctypes.c_void_p).value or 0


def _emit_packed_call(name: str) -> Callable[..., int]:
    function = find_func(name)  # looked up at the build, so that a name registered later does not change a kernel
    if function is None:
        raise PackedNotRegistered(
            f"the program calls the packed function {name!r}, which is not registered",
            called=user_source(),
            allowed=", ".join(registered_names()) or "nothing is registered",
            fix=f"@tw.register_func({name!r}) above a Python function, before the kernel is built",
        )
    return lambda *args: call_func(name, function, args)


def _tracing(tag: str) -> Callable[..., int]:
    def show(*values: Any) -> int:
        return 0 * sys.stdout.write(trace_line(tag, values))  # write returns a count: the function is to return 0

    return show


# Parameters


@dataclass(frozen=True, slots=True)
class _Parameter:
    """Conversion of one argument to ctypes.

    kinds: the C types of what is passed for it. value: the Python value, from the next of what was passed.
    """

    kinds: tuple[Any, ...]
    value: Callable[[Any], Any]


def _parameter(arg: Expr) -> _Parameter:
    if isinstance(arg, StringImm):
        text = arg.value
        return _Parameter((), lambda _: text)  # text is known at the build, nothing is passed for it
    if isinstance(arg, Call) and arg.name == "packed_array":
        return _array(arg)
    if arg.dtype.kind == "handle":
        return _Parameter((ctypes.c_void_p,), lambda given: ctypes.c_void_p(next(given)))
    dtype = numpy_dtype(str(arg.dtype))
    if arg.dtype.is_float:
        return _Parameter(
            # C passes floats as doubles, which have to be rounded back to the program's type
            (ctypes.c_double,),
            lambda given: dtype.type(next(given)) if dtype.itemsize < 8 else next(given),
        )
    if arg.dtype.is_bool:
        return _Parameter((ctypes.c_int64,), lambda given: bool(next(given)))
    mask = (1 << 64) - 1 if arg.dtype.kind == "uint" else -1  # int64 slots carry uint64 values with their sign bit set
    return _Parameter((ctypes.c_int64,), lambda given: next(given) & mask)


def _flat(arg: Expr) -> tuple[Expr, ...]:
    """Return what is passed in machine code for an operand."""
    if isinstance(arg, StringImm):
        return ()
    if isinstance(arg, Call) and arg.name == "packed_array":
        return (arg.args[0], *arg.args[2:])
    return (arg,)


def _array(arg: Call) -> _Parameter:
    start, rank = arg.args[:2]
    pointed = pointed_buffer(start)
    assert pointed is not None and isinstance(rank, IntImm), "a packed array begins with a pointer and its rank"
    (buffer, mode), count = pointed, rank.value
    dtype, writable = numpy_dtype(str(buffer.dtype)), bool(mode & WRITES)
    strided = len(arg.args) > 2 + count  # pointer and rank, then extents; what is left beyond are strides

    def view(given: Any) -> np.ndarray[Any, Any]:
        address = next(given)
        shape = tuple(next(given) for _ in range(count))
        # strides are counted in elements
        steps = tuple(next(given) * dtype.itemsize for _ in range(count)) if strided else None
        return _view(address, shape, steps, dtype, writable)

    return _Parameter((ctypes.c_void_p, *[ctypes.c_int64] * (len(arg.args) - 2)), view)


def _view(
    address: int | None,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype[Any],
    writable: bool,
) -> np.ndarray[Any, Any]:
    """The memory at an address as an array."""
    if not address or 0 in shape:
        view = np.empty(shape, dtype)  # a null pointer or no elements: no memory may be looked at
    else:
        if strides is None:
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        else:
            # from the first byte to behind the last element, which strides may spread
            size = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + dtype.itemsize
        memory = (ctypes.c_uint8 * size).from_address(address)
        view = np.ndarray(shape, dtype, memoryview(memory), 0, strides)
    view.flags.writeable = writable  # a Python function must not write what the program only reads
    return view
