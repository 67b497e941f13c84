"""A GPU that is none: `fake_libcuda.c` in the driver's place, and in pycuda's what of it kernels are loaded and launched by."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilewright.runtime import cuda_binding, cuda_driver

__all__ = ["FakeGpu", "OnGpu", "fake_library", "use_fake_gpu"]

SOURCE = Path(__file__).parent / "fake_libcuda.c"


@cache
def fake_library() -> Path:
    """The folder with the driver, compiled, as libcuda.so.1; and under a name of its own for this process, where the driver's
    stays free."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the emulator's compiler is there too"
    folder = Path(tempfile.mkdtemp(prefix="fake_gpu_"))
    for name in ("libcuda.so.1", "libfake.so"):
        command = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{name}", "-o", folder / name, SOURCE]
        subprocess.run(command, check=True)
    return folder


class FakeGpu:
    """What tests say to the driver, and ask it."""

    def __init__(self) -> None:
        self.path = str(fake_library() / "libfake.so")
        self.library = ctypes.CDLL(self.path)
        self.library.fake_log.restype = self.library.fake_faults.restype = ctypes.c_char_p
        for what, value in (("capability", 90), ("processors", 3), ("held", 1), ("pools", 1), ("sticky", 0)):
            self.say(what, value)
        self.fail("", 0)
        self.forget()

    def say(self, what: str, value: int) -> None:
        self.library.fake_say(what.encode(), value)

    def fail(self, function: str, result: int, times: int = 1) -> None:
        self.library.fake_fail(function.encode(), result, times)

    def forget(self) -> None:
        self.library.fake_forget()

    @property
    def log(self) -> list[str]:
        return self.library.fake_log().decode().splitlines()

    def noted(self, begin: str) -> list[str]:
        return [line for line in self.log if line.startswith(begin)]

    @property
    def faults(self) -> list[str]:
        return self.library.fake_faults().decode().splitlines()

    @property
    def live(self) -> int:
        """Pieces of memory that are taken."""
        return self.library.fake_live()

    def held(self) -> tuple[int, int, int]:
        """Pieces of memory, events and modules."""
        return self.live, self.library.fake_events(), self.library.fake_modules()

    @contextmanager
    def capture(self, stream: int) -> Iterator[None]:
        self.library.fake_capture(ctypes.c_uint64(stream), 1)
        yield
        self.library.fake_capture(ctypes.c_uint64(stream), 0)


class OnGpu:
    """Somebody's tensor on a GPU, which says on which stream it was made."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str = "float32", stream: int | None = None) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
            "strides": None,
            "stream": stream,
        }


def use_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """From now on the driver is the fake one, and pycuda a stand-in over it."""
    gpu = FakeGpu()
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", gpu.path)
    cuda_driver._load_driver.cache_clear()
    cuda_binding._bound.cache_clear()
    module = _pycuda(gpu.library)
    package = types.ModuleType("pycuda")
    package.driver = module  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", module)
    return gpu


def _pycuda(library: ctypes.CDLL) -> Any:
    """Of pycuda's driver module what kernels need; as there, an object is given back with its context current alone."""

    class Error(Exception):
        pass

    def call(name: str, *arguments: Any) -> None:
        result = getattr(library, name)(*arguments)
        if result:
            raise Error(f"{name} failed: {result}")

    depth = [0]

    class Context:
        def __init__(self, index: int) -> None:
            self.handle = ctypes.c_void_p()
            self.index = index
            call("cuDevicePrimaryCtxRetain", ctypes.byref(self.handle), index)

        def __del__(self) -> None:
            if self.handle:  # it was retained
                library.cuDevicePrimaryCtxRelease_v2(self.index)

        def push(self) -> None:
            call("cuCtxPushCurrent_v2", self.handle)
            depth[0] += 1

        @staticmethod
        def pop() -> None:
            depth[0] -= 1
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def retain_primary_context(self) -> Context:
            return Context(self.index)

    class Function:
        def __init__(self, module: Module, name: str) -> None:
            self.module, self.function = module, ctypes.c_void_p()
            call("cuModuleGetFunction", ctypes.byref(self.function), module.handle, name.encode())

        def set_attribute(self, attribute: int, value: int) -> None:
            call("cuFuncSetAttribute", self.function, attribute, value)

        def prepare(self, formats: str) -> None:
            self.packer = struct.Struct(formats)

        def prepared_async_call(self, grid: Any, block: Any, stream: Any, *values: Any, shared_size: int) -> None:
            data = self.packer.pack(*values)
            size, held = ctypes.c_size_t(len(data)), ctypes.create_string_buffer(data, max(len(data), 1))
            extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(held), 2, ctypes.addressof(size), None)
            queue = ctypes.c_uint64(stream.handle if stream is not None else 0)
            call("cuLaunchKernel", self.function, *grid, *block, shared_size, queue, None, extra)

    class Module:
        def __init__(self, code: bytes) -> None:
            if not depth[0]:
                raise Error("no currently active context?")
            self.handle = ctypes.c_void_p()
            call("cuModuleLoadData", ctypes.byref(self.handle), code)

        def get_function(self, name: str) -> Function:
            return Function(self, name)

        def __del__(self) -> None:
            if depth[0]:
                library.cuModuleUnload(self.handle)

    class Stream:
        def __init__(self, flags: int) -> None:
            handle = ctypes.c_uint64()
            call("cuStreamCreate", ctypes.byref(handle), flags)
            self.handle = handle.value

    module: Any = types.ModuleType("pycuda.driver")
    module.Error, module.Device, module.Stream, module.module_from_buffer = Error, Device, Stream, Module
    module.function_attribute = types.SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    module.init = lambda: call("cuInit", 0)
    return module
