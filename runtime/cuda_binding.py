"""The package that loads and launches kernels: pycuda, or NVIDIA's own package cuda-bindings, which torch brings along.

pycuda is built where it is installed; cuda-bindings comes as a wheel. Both do the same here: code to functions, functions to launches on
any stream. pycuda launches on its own streams alone; one of them waits for the caller's before, and the caller's for it after, on the
GPU. What the driver refuses is one error, whichever it is.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from ..base import CudaError, dataclass, user_source
from .cuda_driver import EMULATE, Driver, find_driver, reason_text, unusable
from .cuda_errors import LaunchFailed, PycudaMissing, WrongArchitecture
from .cuda_streams import order_streams

__all__ = ["Binding", "Function", "Step", "find_binding"]


class Function(Protocol):
    """A kernel as a package knows it."""

    def allow_shared(self, size: int) -> None:
        """Let it have so many bytes of shared memory. Raises LaunchFailed (TW0834)."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A launch. values: of the kernel's parameters. name: of the kernel, for errors."""

    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    values: tuple[Any, ...]
    name: str


class Binding(Protocol):
    """A package that loads and launches. In all calls the primary context of the GPU is current."""

    def load(self, index: int, code: bytes, formats: dict[str, str]) -> dict[str, Any]:
        """The functions of an image on a GPU, by name; formats: of their parameters, in the letters of Python's struct. Raises
        WrongArchitecture (TW0833)."""
        ...

    def launch(self, index: int, steps: Sequence[Step], stream: int) -> None:
        """One after the other on a stream. Raises LaunchFailed (TW0834)."""
        ...


def find_binding(index: int = 0) -> Binding:
    """The package that is there. Raises DriverMissing (TW0830), GpuMissing (TW0831), PycudaMissing (TW0832)."""
    driver = find_driver(index)
    reasons: list[str] = []
    # pycuda first: it is there only if somebody built it
    for name, kind in (("pycuda.driver", _Pycuda), ("cuda.bindings.driver", _Nvidia)):
        try:
            return _bound(kind, importlib.import_module(name), driver)
        except ImportError as error:
            reasons.append(f"{name}: {error}")
    raise PycudaMissing(
        "cannot run on a GPU: neither pycuda nor cuda-bindings is installed",
        reason="; ".join(reasons),
        called=user_source(),
        fix=f"pip install 'tilewright[cuda]', or pip install cuda-bindings; {EMULATE}",
    )


@cache
def _bound(kind: Callable[[Any, Driver], Binding], module: Any, driver: Driver) -> Binding:
    return kind(module, driver)


def _not_loaded(index: int, reason: str) -> CudaError:
    return WrongArchitecture(
        f"cuda({index}) does not take the code of these kernels",
        reason=reason,
        called=user_source(),
        fix="build for this GPU's architecture, and see that the driver is not older than the code",
    )


def _not_launched(step: Step, reason: str) -> CudaError:
    return LaunchFailed(
        f"the driver refused to launch {step.name}",
        reason=f"grid {step.grid}, block {step.block}, {step.shared} bytes of shared memory: {reason}",
        called=user_source(),
    )


def _too_much_shared(name: str, size: int, reason: str) -> CudaError:
    return LaunchFailed(f"{name} cannot have {size} bytes of shared memory", reason=reason, called=user_source())


# pycuda


class _Pycuda:
    """pycuda's objects belong to the thread that first made its context current, and are given back with it current alone."""

    def __init__(self, module: Any, driver: Driver) -> None:
        self.module, self.driver = module, driver
        self._contexts: dict[int, Any] = {}
        self._streams: dict[tuple[int, int], Any] = {}
        try:
            module.init()
        except module.Error as error:
            raise unusable(0, str(error)) from error

    @contextmanager
    def current(self, index: int) -> Generator[Any]:
        """Make the primary context of a GPU current, and give pycuda's object of it. Raises GpuMissing (TW0831)."""
        held = self._contexts.get(index)
        try:
            if held is None:
                held = self._contexts[index] = self.module.Device(index).retain_primary_context()
            held.push()
        except self.module.Error as error:
            raise unusable(index, str(error)) from error
        try:
            yield held
        finally:  # popped whatever happened inside
            held.pop()

    def load(self, index: int, code: bytes, formats: dict[str, str]) -> dict[str, Any]:
        with self.current(index) as context:
            held = _Held(context)  # made first, so that an error gives back what was loaded
            try:
                held.code = self.module.module_from_buffer(code)
                held.functions.update({name: held.code.get_function(name) for name in formats})
            except self.module.Error as error:
                raise _not_loaded(index, str(error)) from error
        for name, function in held.functions.items():
            function.prepare(formats[name])
        return {name: _PycudaFunction(self.module, name, held) for name in formats}

    def launch(self, index: int, steps: Sequence[Step], stream: int) -> None:
        own = self._stream(index, stream) if stream else None
        if own is not None:  # the package launches on its own streams only: order them around the caller's
            order_streams(self.driver, stream, int(own.handle))
        for step in steps:
            call = step.function.held.functions[step.name].prepared_async_call
            try:
                call(step.grid, step.block, own, *step.values, shared_size=step.shared)
            except self.module.Error as error:
                raise _not_launched(step, str(error)) from error
        if own is not None:
            order_streams(self.driver, int(own.handle), stream)

    def _stream(self, index: int, stream: int) -> Any:
        """The stream of pycuda's that stands for another's."""
        held = self._streams.get((index, stream))
        if held is None:
            with self.current(index):  # a stream belongs to the context that is current when it is made
                try:
                    held = self._streams[index, stream] = self.module.Stream(_NON_BLOCKING)
                except self.module.Error as error:
                    fix = "launch on the default stream, or give back streams"
                    raise LaunchFailed(
                        "the driver makes no stream", reason=str(error), called=user_source(), fix=fix
                    ) from error
        return held


_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it does not wait for the default stream


class _Held:
    """Code and its functions, which are given back with their context current, whatever thread is the last to know them."""

    def __init__(self, context: Any) -> None:
        self.context, self.code, self.functions = context, None, dict[str, Any]()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # functions and code are given back with their context current
            self.context.push()
            self.functions.clear()
            self.code = None
            self.context.pop()


@dataclass(frozen=True, slots=True)
class _PycudaFunction:
    module: Any
    name: str
    held: _Held

    def allow_shared(self, size: int) -> None:
        try:
            attribute = self.module.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.held.functions[self.name].set_attribute(attribute, size)
        except self.module.Error as error:
            raise _too_much_shared(self.name, size, str(error)) from error


# cuda-bindings


class _Nvidia:
    """cuda.bindings.driver, whose functions return a result and what they made."""

    def __init__(self, module: Any, driver: Driver) -> None:
        self.module, self.driver = module, driver

    def load(self, index: int, code: bytes, formats: dict[str, str]) -> dict[str, Any]:
        # PTX is text that has to end with a zero byte
        image = code if code.startswith(b"\x7fELF") else code.rstrip(b"\0") + b"\0"
        result, module = self.module.cuModuleLoadData(image)
        if int(result):
            raise _not_loaded(index, reason_text(int(result)))
        held = _Module(self, index, module)
        functions: dict[str, Any] = {}
        for name, letters in formats.items():
            result, function = self.module.cuModuleGetFunction(module, name.encode())
            if int(result):
                raise _not_loaded(index, f"{name}: {reason_text(int(result))}")
            functions[name] = _NvidiaFunction(held, name, function, struct.Struct(letters))
        return functions

    def launch(self, index: int, steps: Sequence[Step], stream: int) -> None:
        for step in steps:
            packed = step.function.packer.pack(*step.values)
            size = ctypes.c_size_t(len(packed))
            held = ctypes.create_string_buffer(packed, max(len(packed), 1))
            # one packed block holds all parameters
            extra = (ctypes.c_void_p * 5)(_POINTER, ctypes.addressof(held), _SIZE, ctypes.addressof(size), None)
            (result,) = self.module.cuLaunchKernel(
                step.function.function, *step.grid, *step.block, step.shared, stream, 0, ctypes.addressof(extra)
            )
            if int(result):
                raise _not_launched(step, reason_text(int(result)))


_POINTER, _SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_...


class _Module:
    """Code on a GPU, which is given back with its context current."""

    def __init__(self, binding: _Nvidia, index: int, module: Any) -> None:
        self.binding, self.index, self.module = binding, index, module

    def __del__(self) -> None:
        if not sys.is_finalizing():
            with self.binding.driver.current(self.index):
                self.binding.module.cuModuleUnload(self.module)


@dataclass(frozen=True, slots=True)
class _NvidiaFunction:
    held: _Module
    name: str
    function: Any
    packer: struct.Struct

    def allow_shared(self, size: int) -> None:
        module = self.held.binding.module
        attribute = module.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (result,) = module.cuFuncSetAttribute(self.function, attribute, size)
        if int(result):
            raise _too_much_shared(self.name, size, reason_text(int(result)))
