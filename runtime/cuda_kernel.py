"""Kernels on a GPU: device tensors of any library in, launches out.

A tensor comes by `__cuda_array_interface__` or DLPack, without a copy. Its shape, dtype, strides and overlaps are checked
by the same generated code that checks host arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base import dataclass, user_source
from . import diagnose
from .abi import ITEM_BYTES, REGISTERED_TYPES
from .array import numpy_dtype
from .cuda_array import DeviceArray, device_array
from .cuda_binding import Binding, Step, find_binding
from .cuda_driver import Driver, context, find_driver
from .cuda_errors import WrongArchitecture
from .cuda_launch import KernelLaunch, Workspace
from .cuda_occupancy import blocks_at_once
from .cuda_streams import (
    Event,
    StreamMemory,
    find_stream,
    is_capturing,
    order_streams,
    producer_streams,
    protocol_stream,
)
from .device import cuda
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
    """Arguments of a call that a kernel's generated check took. index: of the GPU that they lie on; stream: that of the call.
    records, symbols: as the kernel's entries read them. Raises CallError."""

    def __init__(
        self,
        signature: Signature,
        check: Callable[[int, int], int],
        args: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> None:
        named = dict(named)
        # a parameter may itself be called stream
        is_parameter = any(param.name == "stream" for param in signature.params)
        asked = None if is_parameter else named.pop("stream", None)
        given = arguments_in_order(signature, args, named)
        self.stream = find_stream(asked, given)
        self._arrays = [value for value in given if isinstance(value, DeviceArray)]
        self.values = [_argument(signature, i, value, self.stream) for i, value in enumerate(given)]
        self._producers = producer_streams(given)
        self.records, self._kept = make_records(signature, [_describe_as_host(value) for value in self.values])
        self.symbols = (ctypes.c_int64 * (len(signature.symbols) + 1))()
        status = check(ctypes.addressof(self.records), ctypes.addressof(self.symbols))
        if status:
            raise diagnose.decode_status(signature, status, self.values)
        # all tensors lie on one GPU, which is known after the check only
        self.index = _find_device(signature, self.values)

    @contextmanager
    def order_streams(self, driver: Driver) -> Generator[None]:
        """Order the work that is begun on the stream inside after what uses the tensors on others, and others after it. The
        context is current."""
        for producer in self._producers - {self.stream}:
            order_streams(driver, producer, self.stream)
        for array in self._arrays:
            array.follow(self.stream)
        yield
        if self._arrays:
            # in a graph, or on the default stream, order needs no event
            is_plain = self.stream == 0 or is_capturing(driver, self.stream)
            used = None if is_plain else Event(driver, self.stream)
            for array in self._arrays:
                array.note(used)


class _DeviceEntry:
    """The way from device tensors to launches. code: keeps the generated check in memory."""

    def __init__(self, signature: Signature, check: int, program: DeviceProgram, code: object) -> None:
        self.signature, self.program, self.code = signature, program, code
        self._check = _Check(check)
        self._loaded: dict[tuple[int, bool], _Loaded] = {}
        self._uploaded: dict[int, list[DeviceArray]] = {}
        """The constants on each GPU."""

    def __call__(self, *args: Any, **named: Any) -> None:
        with self.launcher(args, named) as launch:
            launch()

    @contextmanager
    def launcher(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Generator[Callable[[], DeviceArguments]]:
        """Check the arguments; what is given launches the kernels on them, as often as it is called inside, and returns them."""
        binding = find_binding()  # what is missing on this machine is said before what is wrong with the arguments
        given = DeviceArguments(self.signature, self._check, args, named)
        known = self._read_symbols(given)
        with (
            context(given.index) as driver,
            given.order_streams(driver),
            StreamMemory(driver, given.stream) as memory,
        ):
            steps = self._steps(driver, binding, given, known, memory)

            def launch() -> DeviceArguments:
                binding.launch(given.index, steps, given.stream)
                return given

            yield launch

    def _read_symbols(self, given: DeviceArguments) -> dict[str, int]:
        """The values of scalars and symbols. Raises where these do not suit the kernels."""
        params, symbols = self.signature.params, self.signature.symbols
        known = {symbol.name: given.symbols[i] for i, symbol in enumerate(symbols)}
        known |= {
            p.name: int(v) for p, v in zip(params, given.values, strict=True) if not isinstance(v, (Found, float))
        }
        if self.program.checks is not None:  # extents beyond what the kernels can do are said before the launch
            self.program.checks(known)
        return known

    def _steps(
        self, driver: Driver, binding: Binding, given: DeviceArguments, known: Mapping[str, int], memory: StreamMemory
    ) -> list[Step]:
        program, params = self.program, self.signature.params
        items = [_launch_value(p, v) for p, v in zip(params, given.values, strict=True)]
        items += [_workspace(memory, workspace, known) for workspace in program.workspaces]
        items += [held.found().data for held in self._constants(given.index)]
        items += [known[symbol.name] for symbol in self.signature.symbols]
        self._align(driver, items, known, memory, given.stream)
        # vectors of 16 bytes need addresses of that alignment: another variant has none
        unaligned = any(items[place] % _VECTOR_BYTES for launch in program.launches for place in launch.aligned_items)
        loaded = self._functions(driver, binding, given.index, unaligned)
        steps: list[Step] = []
        for launch in program.launches:
            grid = launch.blocks(known)
            if 0 not in grid:  # a grid of zero blocks is not launched with a resident count
                grid = (loaded.resident.get(launch.name, grid[0]), *grid[1:])
                values = tuple(_parameter(arg, items, known, unaligned, driver) for arg in launch.args)
                function = loaded.functions[launch.name]
                steps.append(Step(function, grid, launch.block, launch.dynamic_shared_bytes, values, launch.name))
        return steps

    def _align(
        self, driver: Driver, items: list[Any], known: Mapping[str, int], memory: StreamMemory, stream: int
    ) -> None:
        """Inputs that lie where the copy engine takes none are copied once."""
        inputs = {i for i, p in enumerate(self.signature.params) if isinstance(p, BufferParam) and not p.is_output}
        for box in (box for launch in self.program.launches for box in launch.maps):
            # the copy engine takes only aligned addresses
            if box.argument in inputs and items[box.argument] % _VECTOR_BYTES:
                size = box.span(known)
                place = memory.take(size, "a copy of an argument that is not aligned", "align it to 16 bytes")
                to, source = ctypes.c_uint64(place), ctypes.c_uint64(items[box.argument])
                copied = (to, source, ctypes.c_size_t(size), ctypes.c_void_p(stream))
                driver.call("a copy on the GPU failed", "cuMemcpyDtoDAsync_v2", *copied)
                items[box.argument] = place

    def _constants(self, index: int) -> list[DeviceArray]:
        """Copied there before the first call."""
        uploaded = self._uploaded.get(index)
        if uploaded is None:  # constants are uploaded once for each GPU
            flat = [held.reshape(-1).view(np.uint8) for held in self.program.constants]
            uploaded = self._uploaded[index] = [device_array(held, cuda(index)) for held in flat]
        return uploaded

    def _functions(self, driver: Driver, binding: Binding, index: int, unaligned: bool) -> _Loaded:
        loaded = self._loaded.get((index, unaligned))
        if loaded is None:  # loading compiles or links: once for each GPU and alignment
            code, launches = _select_code(driver, index, self.program, unaligned), self.program.launches
            formats = {launch.name: _formats(self.signature, self.program, launch) for launch in launches}
            functions = binding.load(index, code, formats)
            for launch in launches:
                if launch.dynamic_shared_bytes:  # more than 48 KB of shared memory has to be asked for
                    functions[launch.name].allow_shared(launch.dynamic_shared_bytes)
            held = {each.name: blocks_at_once(driver, index, code, each) for each in launches if each.parts}
            loaded = self._loaded[index, unaligned] = _Loaded(functions, held)
        return loaded


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The functions of kernels by name; resident: how many blocks take the parts of those whose blocks stay."""

    functions: dict[str, Any]
    resident: dict[str, int]


def _parameter(
    arg: int | TensorMap, items: Sequence[Any], known: Mapping[str, int], unaligned: bool, driver: Driver
) -> Any:
    """Return the parameter of a kernel: an item, or the map of a tensor's boxes, in words where the engine takes no such address."""
    if isinstance(arg, int):
        return items[arg]
    address = items[arg.argument]
    # plain loads take any address
    return arg.plain(address, known) if unaligned else arg.encode(address, known, driver)


def _argument(signature: Signature, i: int, value: Any, stream: int) -> Found | int | float:
    param = signature.params[i]
    if isinstance(param, ScalarParam):
        return number_argument(signature, i, param, value)
    try:
        is_own = isinstance(value, DeviceArray)
        tensor = value.found() if is_own else find_device_tensor(value, protocol_stream(stream))
    except NoMemory as error:
        raise diagnose.not_a_tensor(signature, i, value, str(error)) from None
    except RefusedMemory as error:
        raise diagnose.unreadable(signature, i, value, str(error)) from error
    if not tensor.device.startswith("cuda("):  # host memory gives a launch error far from its cause
        raise WrongDevice(
            f"{diagnose.argument(signature, i)} is on {tensor.device or 'the host'}; this kernel runs on a GPU",
            reason=f"expected {signature.params[i]} in device memory",
            called=user_source(),
            allowed=str(signature),
            fix='tw.array(x, tw.cuda(0)), or x.cuda() of torch; tw.build(..., target="cuda -emulate") takes host arrays',
        )
    return tensor


def _describe_as_host(value: Found | int | float) -> Found | int | float:
    """The generated check asks for memory of its own device, which for it is the host."""
    if not isinstance(value, Found):  # numbers have no device
        return value
    return Found(value.data, value.dtype, value.shape, value.strides, value.read_only, value.owner)


def _find_device(signature: Signature, values: Sequence[Found | int | float]) -> int:
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
    "int4": "b",
    "uint4": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float8_e4m3fn": "B",
    "float8_e5m2": "B",
    "float16": "H",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
}
"""How pycuda packs a scalar, in the letters of Python's struct; of narrower floats it packs the bits."""


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
    if param.dtype in ("float16", *REGISTERED_TYPES):
        return int(np.asarray(value, numpy_dtype(param.dtype)).view(f"u{ITEM_BYTES[param.dtype]}"))
    return float(value) if param.dtype.startswith("float") else int(value)


def _workspace(memory: StreamMemory, workspace: Workspace, known: Mapping[str, int]) -> int:
    purpose = f"the intermediate {workspace.name}"
    return memory.take(workspace.bytes(known), purpose, "compute it at its consumer, or free memory")


def _select_code(driver: Driver, index: int, program: DeviceProgram, unaligned: bool) -> bytes:
    """Machine code where it is of this GPU's generation, else the portable code. Raises WrongArchitecture (TW0833)."""
    major, minor = driver.capability(index)
    # an "a" architecture runs on its own generation alone
    wanted, only = int(program.arch.removeprefix("sm_").rstrip("a")), program.arch.endswith("a")
    if major * 10 + minor < wanted or (only and major * 10 + minor != wanted):
        raise WrongArchitecture(
            f"cannot run code for {program.arch} on cuda({index})",
            reason=f"this GPU is sm_{major}{minor}",
            called=user_source(),
            fix=f'target="cuda -arch=sm_{major}{minor}"',
        )
    binary = program.binary(unaligned)
    # machine code of one generation runs on its minor versions
    return binary.cubin if major == wanted // 10 else binary.ptx.encode()


class DeviceKernel(Kernel):
    """A kernel that runs on a GPU. Call it with device tensors; it returns when the work is queued on the caller's stream: `stream=`,
    else the current one of torch or cupy, of whom it takes tensors, else the default one."""

    def time(
        self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0, stream: Any = None
    ) -> TimingResult:
        """Seconds of the kernels of a call on the GPU, by events on its stream: `repeat` measurements of `number` calls each, `number`
        growing until a measurement takes `min_repeat_ms`."""
        entry = self._entry
        assert isinstance(entry, _DeviceEntry)
        results: list[float] = []
        with entry.launcher(args, {} if stream is None else {"stream": stream}) as launch:
            given = launch()
            driver = find_driver(given.index)
            while len(results) < repeat:
                milliseconds = _measure(driver, launch, number, given.stream)
                # the first measurement is too short to be trusted: more calls
                if not results and milliseconds < min_repeat_ms:
                    number = max(
                        number + 1, min(number * 10, int(number * min_repeat_ms * 1.2 / max(milliseconds, 1e-6)) + 1)
                    )
                    continue
                results.append(milliseconds * 1e-3 / number)
        return TimingResult(tuple(results), number)


def _measure(driver: Driver, run: Callable[[], object], number: int, stream: int) -> float:
    begin = Event(driver, stream, timed=True)
    for _ in range(number):
        run()
    end = Event(driver, stream, timed=True)
    end.wait()  # the host must wait before it reads the clock of the events
    return end.milliseconds_since(begin)


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
