"""Kernels on a GPU: device tensors of any library in, launches out.

A tensor comes by `__cuda_array_interface__` or DLPack, without a copy. Its shape, dtype, strides and overlaps are checked
by the same generated code that checks host arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import user_source
from . import cuda_driver, diagnose
from .array import numpy_dtype
from .cuda_array import DeviceArray
from .cuda_errors import LaunchFailed, WrongArchitecture
from .cuda_launch import KernelLaunch, Workspace
from .errors import WrongDevice
from .kernel import Exporting, Kernel, arguments_in_order, number_argument
from .records import make_records
from .signature import BufferParam, ScalarParam, Signature
from .tensor_map import MAP_BYTES, TensorMap
from .tensors import Found, NoMemory, RefusedMemory, find_device_tensor
from .timing import TimingResult

__all__ = ["DeviceArguments", "DeviceKernel", "DeviceProgram", "device_kernel"]

_VECTOR_BYTES = 16
_Check = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Binary(Protocol):
    """Compiled code: machine code of one architecture, and the portable assembly that a newer GPU compiles itself."""

    @property
    def cubin(self) -> bytes: ...
    @property
    def ptx(self) -> str: ...


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """launches and workspaces of one function; binary gives its code (for arguments that are aligned to their elements
    alone, if asked), made for `arch`; messages of its assertions; constants that the kernels read, which lie behind the
    workspaces among the items that launches name."""

    launches: tuple[KernelLaunch, ...]
    workspaces: tuple[Workspace, ...]
    arch: str
    binary: Callable[[bool], Binary]
    messages: tuple[str, ...] = ()
    constants: tuple[NDArray[Any], ...] = ()
    checks: Callable[[Mapping[str, int]], None] | None = None
    """Raises where the values of scalars and symbols do not suit the kernels."""


class DeviceArguments:
    """Arguments of a call that a kernel's generated check took. index: of the GPU that they lie on. records, symbols: as the
    kernel's entries read them. Raises CallError."""

    def __init__(
        self,
        signature: Signature,
        check: Callable[[int, int], int],
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        given = arguments_in_order(signature, args, named)
        self.values = [_argument(signature, i, value) for i, value in enumerate(given)]
        self.records, self._kept = make_records(signature, [_as_host(value) for value in self.values])
        self.symbols = (ctypes.c_int64 * (len(signature.symbols) + 1))()
        status = check(ctypes.addressof(self.records), ctypes.addressof(self.symbols))
        if status:
            raise diagnose.decode_status(signature, status, self.values)
        self.index = _device_of(signature, self.values)


class _DeviceEntry:
    """The way from device tensors to launches. code: keeps the generated check in memory."""

    def __init__(self, signature: Signature, check: int, program: DeviceProgram, code: object) -> None:
        self.signature, self.program, self.code = signature, program, code
        self._check = _Check(check)
        self._loaded: dict[tuple[int, bool], dict[str, Any]] = {}
        self._uploaded: dict[int, list[Any]] = {}
        """The constants on each GPU."""

    def __call__(self, *args: Any, **named: Any) -> None:
        self.launcher(args, named)()

    def launcher(self, args: tuple[Any, ...], named: dict[str, Any]) -> _Prepared:
        """Checks the arguments; what is returned launches the kernels on them."""
        cuda_driver.find_driver()  # what is missing on this machine is said before what is wrong with the arguments
        given = DeviceArguments(self.signature, self._check, args, named)
        return self._prepared(given.index, given.values, list(given.symbols))

    def _prepared(self, index: int, values: list[Found | int | float], symbols: list[int]) -> _Prepared:
        signature = self.signature
        known = {symbol.name: symbols[i] for i, symbol in enumerate(signature.symbols)}
        known |= {
            p.name: int(v) for p, v in zip(signature.params, values, strict=True) if not isinstance(v, (Found, float))
        }
        if self.program.checks is not None:
            self.program.checks(known)
        items = [_launch_value(p, v) for p, v in zip(signature.params, values, strict=True)]
        with cuda_driver.context(index) as driver:
            memory = [_allocated(driver, workspace, known) for workspace in self.program.workspaces]
            constants = self._constants(driver, index)
            items += [int(block) for block in (*memory, *constants)]
            items += [known[s.name] for s in signature.symbols]
            unaligned = any(
                items[place] % _VECTOR_BYTES for launch in self.program.launches for place in launch.aligned_items
            )
            functions = self._functions(driver, index, unaligned)
            steps = [
                (
                    functions[launch.name],
                    [_parameter(arg, items, known, unaligned) for arg in launch.args],
                    launch.blocks(known),
                    launch,
                )
                for launch in self.program.launches
            ]
        return _Prepared(index, steps, (memory, constants, values))

    def _constants(self, driver: Any, index: int) -> list[Any]:
        """Copied there before the first call."""
        uploaded = self._uploaded.get(index)
        if uploaded is None:
            uploaded = self._uploaded[index] = [_copied(driver, held) for held in self.program.constants]
        return uploaded

    def _functions(self, driver: Any, index: int, unaligned: bool) -> dict[str, Any]:
        functions = self._loaded.get((index, unaligned))
        if functions is None:
            module = _loaded(driver, index, self.program, unaligned)
            functions = {launch.name: module.get_function(launch.name) for launch in self.program.launches}
            for launch in self.program.launches:
                functions[launch.name].prepare(_formats(self.signature, self.program, launch))
                if launch.dynamic_shared_bytes:
                    attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    functions[launch.name].set_attribute(attribute, launch.dynamic_shared_bytes)
            self._loaded[index, unaligned] = functions
        return functions


class _Prepared:
    """Launches on checked arguments. keep: the workspaces and the tensors."""

    def __init__(
        self, index: int, steps: list[tuple[Any, list[Any], tuple[int, int, int], KernelLaunch]], keep: object
    ) -> None:
        self.index, self.steps, self.keep = index, steps, keep

    def __call__(self) -> None:
        with cuda_driver.context(self.index) as driver:
            for function, arguments, grid, launch in self.steps:
                if 0 not in grid:
                    _launched(driver, function, arguments, grid, launch)


def _parameter(arg: int | TensorMap, items: Sequence[Any], known: Mapping[str, int], unaligned: bool) -> Any:
    """What a kernel gets: an item, or the map of a tensor's boxes, in words where the engine takes no such address."""
    if isinstance(arg, int):
        return items[arg]
    return (arg.plain if unaligned else arg.encoded)(items[arg.argument], known)


def _argument(signature: Signature, i: int, value: Any) -> Found | int | float:
    param = signature.params[i]
    if isinstance(param, ScalarParam):
        return number_argument(signature, i, param, value)
    try:
        tensor = value.found() if isinstance(value, DeviceArray) else find_device_tensor(value)
    except NoMemory as error:
        raise diagnose.not_a_tensor(signature, i, value, str(error)) from None
    except RefusedMemory as error:
        raise diagnose.unreadable(signature, i, value, str(error)) from error
    if not tensor.device.startswith("cuda("):
        raise WrongDevice(
            f"{diagnose.argument(signature, i)} is on {tensor.device or 'the host'}; this kernel runs on a GPU",
            reason=f"expected {signature.params[i]} in device memory",
            called=user_source(),
            allowed=str(signature),
            fix='tw.array(x, tw.cuda(0)), or x.cuda() of torch; tw.build(..., target="cuda -emulate") takes host arrays',
        )
    return tensor


def _as_host(value: Found | int | float) -> Found | int | float:
    """The generated check asks for memory of its own device, which for it is the host."""
    if not isinstance(value, Found):
        return value
    return Found(value.data, value.dtype, value.shape, value.strides, value.read_only, value.owner)


def _device_of(signature: Signature, values: Sequence[Found | int | float]) -> int:
    """The one GPU that all tensors lie on."""
    places = {value.device: i for i, value in reversed(list(enumerate(values))) if isinstance(value, Found)}
    if len(places) > 1:
        first, second = list(places)[:2]
        raise WrongDevice(
            f"{diagnose.argument(signature, places[first])} is on {first}, "
            f"{diagnose.argument(signature, places[second])} on {second}",
            reason="a kernel runs on one GPU",
            called=user_source(),
            allowed=str(signature),
            fix="copy all tensors to one GPU",
        )
    return int(next(iter(places), "cuda(0)").removeprefix("cuda(").removesuffix(")"))


_FORMATS = {
    "bool": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "H",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
}
"""How pycuda packs a scalar, in the letters of Python's struct; of 16-bit floats it packs the bits."""


def _formats(signature: Signature, program: DeviceProgram, launch: KernelLaunch) -> str:
    """The letters of a kernel's parameters. They are said once: pycuda's plain call remembers the types of arguments by
    their values, and 1 equals 1.0."""
    kinds = ["P" if isinstance(p, BufferParam) else _FORMATS[p.dtype] for p in signature.params]
    kinds += ["P"] * (len(program.workspaces) + len(program.constants)) + [
        _FORMATS[symbol.dtype] for symbol in signature.symbols
    ]
    return "".join(f"{MAP_BYTES}s" if isinstance(arg, TensorMap) else kinds[arg] for arg in launch.args)


def _launch_value(param: object, value: Found | int | float) -> Any:
    """A tensor's address, or a scalar as it is packed."""
    if isinstance(value, Found):
        return value.data
    assert isinstance(param, ScalarParam)
    if param.dtype in ("float16", "bfloat16"):
        return int(np.asarray(value, numpy_dtype(param.dtype)).view(np.uint16))
    return float(value) if param.dtype.startswith("float") else int(value)


def _allocated(driver: Any, workspace: Workspace, known: dict[str, int]) -> Any:
    size = workspace.bytes(known)
    try:
        return driver.mem_alloc(max(size, 1))
    except driver.Error as error:
        raise LaunchFailed(
            f"no memory on the GPU for the intermediate {workspace.name}",
            reason=f"{size} bytes: {error}",
            called=user_source(),
            fix="compute it at its consumer, or free memory",
        ) from error


def _copied(driver: Any, held: NDArray[Any]) -> Any:
    try:
        memory = driver.mem_alloc(max(held.nbytes, 1))
        if held.nbytes:
            driver.memcpy_htod(memory, held.reshape(-1).view(np.uint8))
    except driver.Error as error:
        raise LaunchFailed(
            "no memory on the GPU for a constant",
            reason=f"{held.nbytes} bytes: {error}",
            called=user_source(),
            fix="pass it as an argument, or free memory",
        ) from error
    return memory


def _loaded(driver: Any, index: int, program: DeviceProgram, unaligned: bool) -> Any:
    major, minor = driver.Device(index).compute_capability()
    wanted, only = int(program.arch.removeprefix("sm_").rstrip("a")), program.arch.endswith("a")
    if major * 10 + minor < wanted or (only and major * 10 + minor != wanted):
        raise WrongArchitecture(
            f"cannot run code for {program.arch} on cuda({index})",
            reason=f"this GPU is sm_{major}{minor}",
            called=user_source(),
            fix=f'target="cuda -arch=sm_{major}{minor}"',
        )
    binary = program.binary(unaligned)
    code = (
        binary.cubin if major == wanted // 10 else binary.ptx.encode()
    )  # the driver compiles PTX for newer generations
    return driver.module_from_buffer(code)


def _launched(
    driver: Any, function: Any, arguments: list[Any], grid: tuple[int, int, int], launch: KernelLaunch
) -> None:
    try:
        function.prepared_call(grid, launch.block, *arguments, shared_size=launch.dynamic_shared_bytes)
    except driver.Error as error:
        raise LaunchFailed(
            f"the driver refused to launch {launch.name}",
            reason=f"grid {grid}, block {launch.block}: {error}",
            called=user_source(),
        ) from error


class DeviceKernel(Kernel):
    """A kernel that runs on a GPU. Call it with device tensors; it returns when the work is queued on the default stream."""

    def time(self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0) -> TimingResult:
        """Seconds a call on the GPU, by its events: `repeat` measurements of `number` calls each, `number` growing until a
        measurement takes `min_repeat_ms`."""
        entry = self._entry
        assert isinstance(entry, _DeviceEntry)
        run = entry.launcher(args, {})
        run()
        results: list[float] = []
        with cuda_driver.context(run.index) as driver:
            while len(results) < repeat:
                milliseconds = _timed(driver, run, number)
                if not results and milliseconds < min_repeat_ms:
                    number = max(
                        number + 1, min(number * 10, int(number * min_repeat_ms * 1.2 / max(milliseconds, 1e-6)) + 1)
                    )
                    continue
                results.append(milliseconds * 1e-3 / number)
        return TimingResult(tuple(results), number)


def _timed(driver: Any, run: Callable[[], None], number: int) -> float:
    begin, end = driver.Event(), driver.Event()
    begin.record()
    for _ in range(number):
        run()
    end.record()
    end.synchronize()
    return float(end.time_since(begin))


def device_kernel(
    signature: Signature,
    check: int,
    program: DeviceProgram,
    sources: Callable[[str], str],
    code: object,
    exporting: Exporting | None = None,
) -> Kernel:
    """The callable for a program on a GPU. check: the address of the generated check. code: keeps it in memory. exporting: writes
    its library."""
    return DeviceKernel(_DeviceEntry(signature, check, program, code), sources, exporting)
