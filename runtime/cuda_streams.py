"""Streams: whose a call is, memory that is taken and given back in its order, and events between streams.

A kernel runs on the caller's stream: the one that it names, else the current one of the library whose tensors it passes, else the
default one, where arrays of ours are. What was begun on other streams with the same arrays is waited for on the GPU, never on the
host.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from ..base.errors import user_source
from .cuda_driver import Driver, reason_text
from .cuda_errors import LaunchFailed, UnknownStream

__all__ = [
    "Event",
    "StreamMemory",
    "find_stream",
    "is_capturing",
    "producer_streams",
    "protocol_stream",
    "order_streams",
]

_NO_TIMES, _PER_CALL = 2, 0  # CU_EVENT_DISABLE_TIMING, CU_EVENT_DEFAULT
_LEGACY = 1  # CU_STREAM_LEGACY
_NOT_SUPPORTED = 801
_HANDLES = ("cuda_stream", "ptr", "handle")
"""How torch, cupy and pycuda call a stream's number."""


def find_stream(given: Any, values: Iterable[Any]) -> int:
    """The number of the stream of a call on `values`; 0 is the default one. given: what the caller names, or None. Raises
    UnknownStream (TW0835)."""
    return _plain(_current_stream(values) if given is None else _stream_number(given))


def producer_streams(values: Iterable[Any]) -> set[int]:
    """The streams on which tensors are made, as they say by `__cuda_array_interface__`; those of DLPack see to it themselves."""
    # DLPack passes the stream in its own protocol
    others = (value for value in values if not hasattr(value, "__dlpack__"))
    described: list[Any] = [getattr(value, "__cuda_array_interface__", None) for value in others]
    streams = (each.get("stream") for each in described if hasattr(each, "get"))
    return {_plain(stream) for stream in streams if isinstance(stream, int)}


def _plain(stream: int) -> int:
    """The default stream has two numbers."""
    return 0 if stream == _LEGACY else stream  # 0 and CU_STREAM_LEGACY are both the default stream


def _stream_number(stream: Any) -> int:
    """The driver's number of a stream: of torch, cupy, pycuda, anything with `__cuda_stream__`, or the number itself; 0 is the
    default one. Raises UnknownStream (TW0835)."""
    described: Any = getattr(stream, "__cuda_stream__", None)
    try:
        if described is not None:
            pair: Any = described() if callable(described) else described
            return operator.index(pair[1])
        for name in _HANDLES:
            if hasattr(stream, name):
                return operator.index(getattr(stream, name))
        return operator.index(stream)
    except (TypeError, ValueError, IndexError):
        raise UnknownStream(
            f"there is no stream in {stream!r}"[:200],
            called=user_source(),
            allowed="a stream of torch, cupy or pycuda, anything with __cuda_stream__, or a stream's number",
            fix="stream=torch.cuda.current_stream()",
        ) from None


def _current_stream(values: Iterable[Any]) -> int:
    """Current stream of the library whose tensors are passed; 0 where there is none of torch's or cupy's."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")  # a library that is not loaded has no tensors here
    for value in values:
        if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda:
            return int(torch.cuda.current_stream(value.device).cuda_stream)
        if cupy is not None and isinstance(value, cupy.ndarray):
            with value.device:
                return int(cupy.cuda.get_current_stream().ptr)
    return 0


def protocol_stream(stream: int) -> int:
    """A stream as `__dlpack__(stream=)` takes it, to which 0 says nothing: 1 is the default one."""
    return stream or _LEGACY


class Event:
    """A point in a stream. Between making and waiting the context of its GPU is current."""

    def __init__(self, driver: Driver, stream: int, timed: bool = False) -> None:
        self._driver, self.stream, self._event = driver, stream, ctypes.c_void_p()
        flags = _PER_CALL if timed else _NO_TIMES
        driver.call("the driver makes no event", "cuEventCreate", ctypes.byref(self._event), flags)
        driver.call("an event cannot be recorded", "cuEventRecord", self._event, ctypes.c_void_p(stream))

    def hold(self, stream: int) -> None:
        """Let what is begun on a stream from now on wait for it on the GPU. Raises LaunchFailed (TW0834)."""
        if stream != self.stream:  # a stream is in order by itself
            doing = "a stream cannot wait for another"
            self._driver.call(doing, "cuStreamWaitEvent", ctypes.c_void_p(stream), self._event, 0)

    def wait(self) -> None:
        """Wait on the host. Raises LaunchFailed (TW0834) where a kernel before it failed."""
        self._driver.call("a kernel failed on the GPU", "cuEventSynchronize", self._event)

    def milliseconds_since(self, begin: Event) -> float:
        """Return the time between two timed events that are over. Raises LaunchFailed (TW0834)."""
        time = ctypes.c_float()
        self._driver.call(
            "a kernel failed on the GPU", "cuEventElapsedTime", ctypes.byref(time), begin._event, self._event
        )
        return time.value

    def __del__(self) -> None:
        if self._event and not sys.is_finalizing():
            self._driver.result("cuEventDestroy_v2", self._event)


def order_streams(driver: Driver, first: int, second: int) -> None:
    """Let what is begun on the second stream from now on wait for all that was begun on the first."""
    if first != second:  # no event is needed within one stream
        Event(driver, first).hold(second)


def is_capturing(driver: Driver, stream: int) -> bool:
    """Return whether what is begun on a stream becomes part of a CUDA graph instead."""
    state = ctypes.c_int()
    return driver.result("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(state)) == 0 and state.value == 1


class StreamMemory:
    """Memory of a GPU for what is begun on a stream inside a `with`, in whose order it is taken and given back: nobody waits.

    Where the driver has no such memory, it is taken from and given back to the GPU, which waits.
    """

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._taken: list[tuple[str, ctypes.c_uint64]] = []

    def take(self, size: int, purpose: str, fix: str) -> int:
        """The address of so many bytes. purpose: what they are for. Raises LaunchFailed (TW0834)."""
        place, count = ctypes.c_uint64(), ctypes.c_size_t(max(size, 1))
        kind, result = "Async", self._driver.result("cuMemAllocAsync", ctypes.byref(place), count, self._handle)
        if result == _NOT_SUPPORTED:  # not every driver has stream-ordered memory
            kind, result = "", self._driver.result("cuMemAlloc_v2", ctypes.byref(place), count)
        if result:
            reason = f"{size} bytes: {reason_text(result)}"
            raise LaunchFailed(f"no memory on the GPU for {purpose}", reason=reason, called=user_source(), fix=fix)
        self._taken.append((kind, place))
        return place.value

    @property
    def _handle(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, place in reversed(self._taken):  # given back in the reverse order
            if name:
                self._driver.result("cuMemFreeAsync", place, self._handle)
            else:
                self._driver.result("cuMemFree_v2", place)
        self._taken.clear()
