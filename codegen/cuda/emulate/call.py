"""A call of a kernel on the emulated GPU: from the arguments to launches and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....base.environment import is_enabled, read_integer
from ....base.errors import user_source
from ....base.nibbles import pack_nibbles, unpack_nibbles
from ....runtime.abi import PACKED_TYPES
from ....runtime.array import numpy_dtype
from ....runtime.critical_section import ProcessLock
from ....runtime.cuda_launch import KernelLaunch, Workspace
from ....runtime.errors import KernelOutOfMemory
from ....runtime.signature import BufferParam, Signature
from ....runtime.tensor_map import TensorMap
from ..module import CudaText
from .compiler import KernelEntry, compile_for_emulation
from .run import Launch, MapOf, Memory, emulate
from .traffic import Counts, Traffic

__all__ = ["CHECK_VARIABLE", "SEED_VARIABLE", "EmulatedRun"]

SEED_VARIABLE = "TILEWRIGHT_EMULATE_SEED"
"""The environment variable that draws the order of blocks and threads (0 where it is not set)."""
CHECK_VARIABLE = "TILEWRIGHT_EMULATE_CHECK"
"""The environment variable that, set to 0, leaves accesses unchecked and uncounted: for what was checked at smaller sizes."""
_VECTOR_BYTES = 16


class EmulatedRun:
    """One run of a kernel, once its arguments are checked: the launches, on the emulator."""

    def __init__(
        self,
        signature: Signature,
        text: CudaText,
        plan: Sequence[KernelLaunch],
        workspaces: Sequence[Workspace],
        constants: Sequence[NDArray[Any]] = (),
        checks: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        self._signature, self._text, self._plan, self._workspaces = signature, text, plan, workspaces
        self._constants, self._checks = constants, checks
        self._entries = tuple(KernelEntry(kernel.name, kernel.parameters) for kernel in text.kernels)
        self._turn = ProcessLock()
        self._counts: list[Counts | None] = []

    def __call__(self, arguments: list[Any], values: dict[str, int]) -> None:
        try:
            # fmt: off
            with self._turn(): self._run(arguments, values)
            # fmt: on
        except MemoryError as error:
            if isinstance(error, KernelOutOfMemory):
                raise
            raise KernelOutOfMemory(
                f"{self._signature.name} could not get memory on the emulated GPU",
                reason=f"it copies every tensor: {error}",
                called=user_source(),
                fix='call it on smaller tensors, or build with target="cuda" where there is a GPU',
            ) from None

    def traffic(self, launch: int) -> tuple[Traffic, ...]:
        """Return the counts of a launch, by its place among them, in the last call; nothing before the first."""
        counts = self._counts[launch] if launch < len(self._counts) else None
        return () if counts is None else counts.traffic()

    def _run(self, arguments: list[Any], values: dict[str, int]) -> None:
        params, symbols = self._signature.params, self._signature.symbols
        if self._checks is not None:
            self._checks(values)
        items: list[int | bytes] = []
        memories: list[Memory] = []
        for param, argument in zip(params, arguments, strict=True):
            if isinstance(param, BufferParam):
                items.append(len(memories))
                memories.append(_memory(param.name, argument))
            else:
                items.append(argument.tobytes())
        for workspace in self._workspaces:
            items.append(len(memories))
            memories.append(
                _memory(
                    workspace.name, np.full(workspace.bytes(values), 0xFF, np.uint8).view(numpy_dtype(workspace.dtype))
                )
            )
        for values_of in self._constants:
            items.append(len(memories))
            memories.append(_memory("constant", values_of))
        items += [values[s.name].to_bytes(4 if s.dtype == "int32" else 8, "little") for s in symbols]
        checked = is_enabled(CHECK_VARIABLE, True)
        if not checked:  # nobody would report that a vector is not aligned: copies lie as a GPU's memory does
            memories = [replace(memory, misaligned=0) for memory in memories]
        for item in self._copied_items(
            items
        ):  # as a call on a GPU copies inputs that lie where the copy engine takes none
            memories[item] = replace(memories[item], misaligned=0)
        unaligned = any(self._is_misaligned(launch, items, memories) for launch in self._plan)
        library = compile_for_emulation(self._text.text, self._entries, unaligned, checked)
        launches = [
            Launch(
                launch.name,
                launch.blocks(values),
                launch.block,
                tuple(_argument(arg, items, values) for arg in launch.args),
                kernel.shared_granule,
                launch.cluster[0],
            )
            for launch, kernel in zip(self._plan, self._text.kernels, strict=True)
        ]
        self._counts = emulate(
            library,
            launches,
            memories,
            self._text.messages,
            seed=read_integer(SEED_VARIABLE, 0, (1 << 64) - 1),
            check=checked,
        )
        for param, argument, item in zip(params, arguments, items, strict=False):
            if isinstance(param, BufferParam) and param.is_output and isinstance(item, int):
                content = memories[item].content
                if param.dtype in PACKED_TYPES:
                    argument[...] = unpack_nibbles(content, argument.shape, argument.dtype)
                else:
                    argument.reshape(-1).view(np.uint8)[:] = content

    def _copied_items(self, items: Sequence[int | bytes]) -> list[int]:
        params = enumerate(self._signature.params)
        inputs = {i for i, param in params if isinstance(param, BufferParam) and not param.is_output}
        places = {box.argument for launch in self._plan for box in launch.maps} & inputs
        return [item for item in (items[place] for place in places) if isinstance(item, int)]

    @staticmethod
    def _is_misaligned(launch: KernelLaunch, items: Sequence[int | bytes], memories: Sequence[Memory]) -> bool:
        places = [items[place] for place in launch.aligned_items]
        return any(memories[place].misaligned % _VECTOR_BYTES for place in places if isinstance(place, int))


def _argument(arg: int | TensorMap, items: Sequence[int | bytes], values: Mapping[str, int]) -> int | bytes | MapOf:
    """Return the argument for a parameter: a memory by its place, the bytes of a number, or the map of a memory's boxes."""
    if isinstance(arg, int):
        return items[arg]
    place = items[arg.argument]
    assert isinstance(place, int), "maps are of memory"
    return MapOf(place, arg.words(values))


def _memory(name: str, values: NDArray[Any]) -> Memory:
    """A copy of an argument, which lies in the emulated memory as it lies in the host's."""
    if values.dtype.name in PACKED_TYPES:
        return Memory(name, pack_nibbles(values), 1, 0)
    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).copy()
    return Memory(name, content, values.dtype.itemsize, values.ctypes.data % _VECTOR_BYTES)
