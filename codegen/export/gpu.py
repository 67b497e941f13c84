"""A function for GPUs in a library: its code for each architecture as bytes, and its launches as LLVM IR that calls the driver.

    int32_t NAME(void *stream, int64_t n, const float *A, float *C)        device pointers; 0 once all is queued on the stream
    int32_t NAME_checked(void *stream, const DLTensor *A, const DLTensor *C)

Of the machine codes the nearest to the GPU's architecture is taken, of the same major version; where there is none, or the driver
refuses it, the portable text of the newest architecture that the GPU has, which the driver compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np

from ...base import asdict, dataclass, replace
from ...ir.constant import Constant, aligned_copy
from ...runtime.abi import ITEM_BYTES, REGISTERED_TYPES, Trouble
from ...runtime.cuda_errors import RESULTS, TROUBLES
from ...runtime.cuda_launch import KernelLaunch, Workspace
from ...runtime.signature import BufferParam, Signature
from ...runtime.tensor_map import DATA_TYPES, MAP_ALIGNMENT, MAP_BYTES, SWIZZLES, TensorMap
from ..abi.straight_line import StraightLine
from ..abi.stub import extent_value, kernel_symbol, scalar_type
from .final_kernel import FinalKernel
from .gpu_driver import CAPABILITY, FRAME_BYTES, trouble
from .names import library_identifier

__all__ = ["GpuFunction", "GpuImage", "GpuVariant", "gpu_statuses", "gpu_text"]


@dataclass(frozen=True)
class GpuImage:
    """Code of a function's kernels for one architecture ("sm_80"): machine code, or the portable text of it."""

    architecture: str
    content: Constant
    is_portable: bool = False

    @classmethod
    def of(cls, architecture: str, code: bytes, *, is_portable: bool = False) -> GpuImage:
        """Device code of a cubin, or of PTX."""
        text = code + b"\0" if is_portable else code  # PTX is text for the driver, and ends with a zero byte
        # aligned: the driver reads ELF headers in place
        return cls(architecture, Constant("code", aligned_copy(np.frombuffer(text, np.uint8))), is_portable)

    @property
    def number(self) -> int:
        """Ten times the major and the minor version."""
        return int("".join(filter(str.isdigit, self.architecture)))

    @property
    def is_particular(self) -> bool:
        """Return whether it uses what no other architecture has, as sm_90a does."""
        return self.architecture.endswith("a")  # NVIDIA's suffix for code that runs on this architecture alone


@dataclass(frozen=True)
class GpuVariant:
    """A function as one schedule launches it. launches: in order; workspaces and constants lie behind the parameters among the
    items that these name. images: its code. checks: what tries the values of scalars and symbols before, on the host; its
    parameters have their names in the signature."""

    launches: tuple[KernelLaunch, ...]
    workspaces: tuple[Workspace, ...]
    constants: tuple[Constant, ...]
    images: tuple[GpuImage, ...]
    checks: FinalKernel | None = None


@dataclass(frozen=True)
class GpuFunction:
    """Function of an exported GPU library.

    signature: on_stream, of the function. key: its name in its module, where C knows it by another.
    """

    signature: Signature
    variants: tuple[GpuVariant, ...]
    key: str = ""

    def take_name(self, stem: str) -> GpuFunction:
        """Itself; or, where it was given no name, the same under the library's."""
        if self.signature.name != "main":
            return self
        return replace(self, signature=replace(self.signature, name=library_identifier(stem)), key="main")

    def join(self, other: GpuFunction) -> GpuFunction:
        """Join this with another schedule's code of the same function, for other architectures."""
        params = tuple(
            replace(ours, alignment=max(ours.alignment, theirs.alignment))  # the stricter of both, as either may run
            if isinstance(ours, BufferParam) and isinstance(theirs, BufferParam)
            else ours
            for ours, theirs in zip(self.signature.params, other.signature.params, strict=True)
        )
        return replace(
            self, signature=replace(self.signature, params=params), variants=(*self.variants, *other.variants)
        )

    @property
    def images(self) -> list[tuple[int, GpuImage]]:
        """Return the images of all variants with the variants' places, the best first."""
        every = [(at, image) for at, variant in enumerate(self.variants) for image in variant.images]
        # machine code before text, particular before general, newest first
        return sorted(every, key=lambda pair: (pair[1].is_portable, not pair[1].is_particular, -pair[1].number))

    def description(self) -> dict[str, Any]:
        """Return what a manifest says of it beside its signature."""
        return {
            "code": [
                {"architecture": image.architecture, "kind": "ptx" if image.is_portable else "cubin", "launches": at}
                for at, image in self.images
            ],
            "launches": [
                [
                    {
                        "name": launch.name,
                        "grid": list(launch.grid),
                        "block": list(launch.block),
                        "cluster": list(launch.cluster),
                        "parts": launch.parts,
                        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
                        # a map is written as what it is made of
                        "args": [asdict(arg) if isinstance(arg, TensorMap) else arg for arg in launch.args],
                    }
                    for launch in variant.launches
                ]
                for variant in self.variants
            ],
        }


_INVALID_VALUE, _OUT_OF_MEMORY = 1, 2
"""Of the driver's results."""


def gpu_statuses(signature: Signature) -> dict[int, str]:
    """Return what the statuses of Check.CUDA mean."""
    texts: dict[int, str] = {}
    for kind, (error, what) in TROUBLES.items():
        text = f"{error.code}: {signature.name} did not run: {what}"
        # these arise before any of the driver's results
        known = {} if kind in (Trouble.NO_DRIVER, Trouble.OLD_DRIVER, Trouble.ARCHITECTURE) else RESULTS
        texts |= {trouble(kind): text} | {trouble(kind) + result: f"{text} ({said})" for result, said in known.items()}
    return texts


def gpu_text(function: GpuFunction, symbols: Mapping[Constant, str], attributes: str) -> str:
    """LLVM IR of a function's launches, behind the name by which its entries call it. symbols: of constants and images.
    attributes: of functions for any processor."""
    name, signature = kernel_symbol(function.signature.name), function.signature
    names = _Names(name, symbols)
    kinds = ["ptr" if isinstance(p, BufferParam) else scalar_type(p.dtype) for p in signature.params]
    parameters = [
        "ptr %stream",
        *(f"{kind} %p{i}" for i, kind in enumerate(kinds)),
        *(f"i64 %n{k}" for k in range(len(signature.symbols))),
    ]
    parts = [
        _variant_text(names, at, signature, variant, parameters, attributes)
        for at, variant in enumerate(function.variants)
    ]
    head = f"define i32 @{name}({', '.join(parameters)}) {attributes} {{"
    parts.append("\n".join([head, *_choose_image(function, names, parameters).lines, "}"]))
    calls = [f"declare {kind} @tw_cuda_{call}({given})" for call, (kind, given) in _CALLED.items()]
    # an image that two variants share is defined once
    images = dict.fromkeys(symbols[image.content] for _, image in function.images)
    held = dict.fromkeys(symbols[held] for variant in function.variants for held in variant.constants)
    outside = [f"@{symbol} = external constant i8" for symbol in (*images, *held)]
    slots = [f"@{slot} = internal global [{size} x ptr] zeroinitializer" for slot, size in names.slots.items()]
    return "\n".join([*calls, *outside, *slots, *names.texts, *parts, ""])


_CALLED = {
    "enter": ("i32", "ptr, ptr"),
    "leave": ("void", "ptr"),
    "load": ("i32", "ptr, ptr"),
    "held": ("i32", "ptr, ptr, ptr, ptr, ptr, i64, i32, i32, i32"),
    "launch": ("i32", "ptr, ptr, ptr, ptr, ptr, i64, i64, i64, i32, i32, i32, i32, ptr"),
    "map": ("i32", "ptr, i64, i32, i32, ptr, ptr, ptr, i32"),
    "allocate": ("i32", "ptr, i64, ptr"),
    "fill": ("i32", "ptr, ptr, i64, ptr"),
    "free": ("void", "ptr, ptr"),
}


class _Names:
    """Names that are defined by a function's text beside its code: slots for what the driver made, and the kernels' names."""

    def __init__(self, name: str, symbols: Mapping[Constant, str]) -> None:
        self.name, self.symbols = name, symbols
        self.slots: dict[str, int] = {}
        self.texts: list[str] = []
        self._numbers = count()

    def slot(self, size: int) -> str:
        name = f"{self.name}.slot{next(self._numbers)}"
        self.slots[name] = size
        return name

    def text(self, content: str) -> str:
        name = f"{self.name}.text{next(self._numbers)}"
        self.texts.append(f'@{name} = private constant [{len(content) + 1} x i8] c"{content}\\00"')
        return name


def _choose_image(function: GpuFunction, names: _Names, parameters: Sequence[str]) -> StraightLine:
    """Return where the driver takes it, the first image that the GPU runs."""
    text = StraightLine()
    most = max(len(variant.workspaces) + len(variant.constants) for variant in function.variants)
    text.add(f"%frame = alloca [{FRAME_BYTES} x i8], align 8")
    text.add(f"%memory = alloca [{max(most, 1)} x i64], align 8")
    text.add("%told = alloca i32")  # a status, also where no image runs
    for at in range(most):
        text.store("i64", "0", "%memory", 8 * at)
    text.add(f"store i32 {trouble(Trouble.ARCHITECTURE)}, ptr %told")  # where no image fits, this is what remains
    entered = text.value("call i32 @tw_cuda_enter(ptr %stream, ptr %frame)")
    refused, inside, done = text.label("refused"), text.label("inside"), text.label("done")
    text.add(f"br i1 {text.compare('ne', 'i32', entered, 0)}, label %{refused}, label %{inside}")
    text.start(refused)
    text.add(f"ret i32 {entered}")
    text.start(inside)
    capability = text.load("i32", "%frame", CAPABILITY)
    for place, image in function.images:
        load, run, failed, following = (text.label(name) for name in ("load", "run", "failed", "next"))
        text.add(f"br i1 {_runs(text, image, capability)}, label %{load}, label %{following}")
        text.start(load)
        library, kernels = names.slot(1), names.slot(len(function.variants[place].launches))
        result = text.value(f"call i32 @tw_cuda_load(ptr @{library}, ptr @{names.symbols[image.content]})")
        text.add(f"br i1 {text.compare('eq', 'i32', result, 0)}, label %{run}, label %{failed}")
        text.start(run)
        given = ", ".join([*parameters, "ptr %frame", "ptr %memory", f"ptr @{library}", f"ptr @{kernels}"])
        text.add(f"store i32 {text.value(f'call i32 @{names.name}.run{place}({given})')}, ptr %told")
        text.add(f"br label %{done}")
        text.start(failed)
        text.add(f"store i32 {text.value(f'add i32 {result}, {trouble(Trouble.LOAD)}')}, ptr %told")
        text.add(f"br label %{following}")
        text.start(following)
    text.add(f"br label %{done}")
    text.start(done)
    for at in range(most):  # all slots are freed, whichever variant ran: 0 is nothing
        text.add(
            f"call void @tw_cuda_free(ptr {text.value(f'getelementptr i8, ptr %memory, i64 {8 * at}')}, ptr %stream)"
        )
    text.add("call void @tw_cuda_leave(ptr %frame)")
    text.add(f"ret i32 {text.value('load i32, ptr %told')}")
    return text


def _runs(text: StraightLine, image: GpuImage, capability: str) -> str:
    """Return whether a GPU runs an image, from ten times the major and the minor version of its architecture."""
    if image.is_particular:
        return text.compare("eq", "i32", capability, image.number)
    newer = text.compare("sge", "i32", capability, image.number)  # code of an older minor version runs on newer ones
    if image.is_portable:
        return newer
    # machine code is not compatible across major versions
    return text.both(newer, text.compare("slt", "i32", capability, image.number // 10 * 10 + 10))


def _variant_text(
    names: _Names,
    at: int,
    signature: Signature,
    variant: GpuVariant,
    parameters: Sequence[str],
    attributes: str,
) -> str:
    """The function that launches the kernels of one variant, on memory that its caller frees."""
    text = _Launches(names, signature, variant)
    text.checks()
    text.memory()
    for number, launch in enumerate(variant.launches):
        text.launch(number, launch)
    text.finish()
    given = ", ".join([*parameters, "ptr %frame", "ptr %memory", "ptr %library", "ptr %kernels"])
    declared = (
        []
        if variant.checks is None
        else [
            f"declare i32 @{kernel_symbol(variant.checks.signature.name)}("
            f"{', '.join(scalar_type(param.dtype) for param in variant.checks.signature.params)})"
        ]
    )
    return "\n".join([*declared, f"define i32 @{names.name}.run{at}({given}) {attributes} {{", *text.lines, "}"])


class _Launches(StraightLine):
    """Each parameter of the function in memory, in which kernels find it; then what is done."""

    def __init__(self, names: _Names, signature: Signature, variant: GpuVariant) -> None:
        super().__init__()
        self.names, self.signature, self.variant = names, signature, variant
        self.known: dict[str, str] = {}
        self.items: list[str] = []
        for i, param in enumerate(signature.params):
            kind = "ptr" if isinstance(param, BufferParam) else scalar_type(param.dtype)
            # a bool is a byte in memory, as kernels read it
            self._item("i8" if kind == "i1" else kind, self.value(f"zext i1 %p{i} to i8") if kind == "i1" else f"%p{i}")
            # floats and bools are never part of an extent
            if kind.startswith("i") and param.dtype not in ("bool", *REGISTERED_TYPES):
                extended = f"{'s' if param.dtype.startswith('int') else 'z'}ext {kind} %p{i} to i64"
                self.known[param.name] = f"%p{i}" if kind == "i64" else self.value(extended)
        for k in range(len(variant.workspaces) + len(variant.constants)):
            self.items.append(self.value(f"getelementptr i8, ptr %memory, i64 {8 * k}"))
        for k, symbol in enumerate(signature.symbols):
            self.known[symbol.name] = f"%n{k}"
            self._item("i64", f"%n{k}")  # a kernel that takes 32 bits reads the lower ones

    def _item(self, kind: str, value: str) -> None:
        place = self.value("alloca i64, align 8")
        self.add(f"store {kind} {value}, ptr {place}")
        self.items.append(place)

    def _leave_unless_done(self, status: str) -> None:
        out, on = self.label("out"), self.label("on")
        self.add(f"br i1 {self.compare('ne', 'i32', status, 0)}, label %{out}, label %{on}")
        self.start(out)
        self.add(f"ret i32 {status}")
        self.start(on)

    def checks(self) -> None:
        """Return what the host tries before."""
        function = self.variant.checks
        if function is None:
            return
        given: list[str] = []
        for param in function.signature.params:
            kind, value = scalar_type(param.dtype), self.known[param.name]
            given.append(f"{kind} {value if kind == 'i64' else self.value(f'trunc i64 {value} to {kind}')}")
        symbol = kernel_symbol(function.signature.name)
        self._leave_unless_done(self.value(f"call i32 @{symbol}({', '.join(given)})"))

    def memory(self) -> None:
        """The intermediates, and the constants' contents."""
        first = len(self.signature.params)
        places = self.items[first:]
        for place, workspace in zip(places, self.variant.workspaces, strict=False):
            size = self._extent(workspace.elements)  # not strict: constants follow the workspaces
            # times an element's bytes it has to fit 64 bits
            self.leave_if(self.compare("sgt", "i64", size, 1 << 58), "fail", trouble(Trouble.MEMORY) + _OUT_OF_MEMORY)
            size = self.value(f"mul i64 {size}, {ITEM_BYTES[workspace.dtype]}")
            self._leave_unless_done(self.value(f"call i32 @tw_cuda_allocate(ptr {place}, i64 {size}, ptr %stream)"))
        for place, held in zip(places[len(self.variant.workspaces) :], self.variant.constants, strict=False):
            given = f"ptr {place}, ptr @{self.names.symbols[held]}, i64 {held.memory.nbytes}, ptr %stream"
            self._leave_unless_done(self.value(f"call i32 @tw_cuda_fill({given})"))

    def launch(self, number: int, launch: KernelLaunch) -> None:
        """One kernel."""
        arguments = self.value(f"alloca [{max(len(launch.args), 1)} x ptr], align 8")
        for at, arg in enumerate(launch.args):
            self.store("ptr", self._map(arg) if isinstance(arg, TensorMap) else self.items[arg], arguments, 8 * at)
        block = ", ".join(f"i32 {extent}" for extent in launch.block)
        slot = self.value(f"getelementptr i8, ptr %kernels, i64 {8 * number}")
        # the driver finds a kernel by its name, once
        kernel = f"ptr %frame, ptr %library, ptr {slot}, ptr @{self.names.text(launch.name)}"
        x, *others = (self._extent(extent) for extent in launch.grid)
        if launch.parts:  # blocks that stay and take parts in turn
            x = self._count_held(launch, kernel)
        grid = ", ".join(f"i64 {extent}" for extent in (x, *others))
        self._leave_unless_done(
            self.value(
                f"call i32 @tw_cuda_launch(ptr %stream, {kernel}, {grid}, {block}, i32 {launch.dynamic_shared_bytes}, "
                f"ptr {arguments})"
            )
        )

    def _count_held(self, launch: KernelLaunch, kernel: str) -> str:
        """Return the number of blocks that take the parts of a launch."""
        place = self.value("alloca i64, align 8")
        sizes = (
            f"i64 {launch.parts}, i32 {prod(launch.block)}, i32 {launch.cluster[0]}, i32 {launch.dynamic_shared_bytes}"
        )
        self._leave_unless_done(self.value(f"call i32 @tw_cuda_held(ptr {place}, {kernel}, {sizes})"))
        return self.load("i64", place, 0)

    def _map(self, of: TensorMap) -> str:
        """Return where the driver's form of a map is; of a tensor without elements, which nobody reads, anything."""
        # the driver wants a map's address a multiple of 64
        place = self.value(f"alloca [{MAP_BYTES} x i8], align {MAP_ALIGNMENT}")
        extents, strides, box = (
            self.value(f"alloca [{len(of.box)} x {kind}], align 8") for kind in ("i64", "i64", "i32")
        )
        empty = "0"
        for at, (extent, stride, part) in enumerate(
            zip(reversed(of.shape), reversed(of.strides), reversed(of.box), strict=True)
        ):
            size = self._extent(extent)
            # the driver refuses extents of 0
            empty = self.value(f"or i1 {empty}, {self.compare('sle', 'i64', size, 0)}")
            self.store("i64", size, extents, 8 * at)
            if at:  # the innermost stride is the element's size, which the driver knows
                self.store("i64", self._extent(stride), strides, 8 * at - 8)
            self.store("i32", str(part), box, 4 * at)
        rank = self.value(f"select i1 {empty}, i32 0, i32 {len(of.box)}")
        address = self.value(f"load i64, ptr {self.items[of.argument]}")
        self._leave_unless_done(
            self.value(
                f"call i32 @tw_cuda_map(ptr {place}, i64 {address}, i32 {DATA_TYPES[of.dtype]}, i32 {rank}, ptr {extents}, "
                f"ptr {strides}, ptr {box}, i32 {SWIZZLES[of.swizzle]})"
            )
        )
        return place

    def _extent(self, extent: Any) -> str:
        return extent_value(self, extent, self.known, trouble(Trouble.LAUNCH) + _INVALID_VALUE)

    def finish(self) -> None:
        """The way out of what went right, and of sizes beyond 64 bits."""
        self.add("ret i32 0")
        if self.exits:
            self.start("fail")
            self.add("%status = phi i32 " + ", ".join(f"[ {status}, %{block} ]" for status, block in self.exits))
            self.add("ret i32 %status")
