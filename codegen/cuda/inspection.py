"""Resources of a compiled kernel, and the instructions of its main loop: from the compiler's own report and from the SASS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...base import InternalError, dataclass, field
from ...ir.lazy_values import cached_property
from ...runtime.cuda_launch import KernelLaunch
from ..gpus import Gpu, Occupancy
from .emulate.traffic import Traffic
from .nvrtc import DeviceCode

__all__ = ["INSTRUCTION", "InspectedKernel", "main_loop"]


@dataclass(frozen=True, kw_only=True)
class InspectedKernel(KernelLaunch):
    """A launch with the code behind it.

    What is compiled is compiled when it is asked for, by NVRTC, for the architecture of the target; without NVRTC that raises
    CompilerMissing, and without nvdisasm, DisassemblerMissing. What is counted is counted by the emulator, in the last call.
    """

    gpu: Gpu = field(repr=False, compare=False)
    code: DeviceCode = field(repr=False, compare=False)
    counted: Callable[[], Sequence[Traffic]] = field(repr=False, compare=False)

    @property
    def registers(self) -> int:
        """Registers of 32 bits that a thread has."""
        return self._read_report(r"Used (\d+) registers")

    @property
    def spilled_bytes(self) -> int:
        """Bytes that a thread stores because registers are short."""
        return self._read_report(r"(\d+) bytes spill stores")

    @property
    def local_bytes(self) -> int:
        """Bytes of memory of its own that a thread has: what is spilled, and arrays that no register can hold."""
        return self._read_report(r"(\d+) bytes stack frame")

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block, of both kinds."""
        return self._read_report(r"(\d+) bytes smem", 0) + self.dynamic_shared_bytes

    @property
    def occupancy(self) -> Occupancy:
        """The number of blocks that the architecture's multiprocessor holds at once."""
        x, y, z = self.block
        return Occupancy.of(self.gpu, x * y * z, self.registers, self.shared_bytes)

    @property
    def instructions(self) -> Mapping[str, int]:
        """The instructions of the main loop by class, the most frequent first: "FFMA", "HMMA", "LDS.128" ...

        The main loop is the innermost one with the most arithmetic, or the whole kernel where there is none. Loads and stores have
        their bits behind the point: LDG and STG of global memory, LDS and STS of shared, LDGSTS from one to the other.
        """
        return main_loop(self.code.sass, self.name)

    @property
    def copy_instructions(self) -> Mapping[str, int]:
        """Likewise of the loop in which the copy engine is asked for boxes: UTMALDG for one block, UTMALDG.MULTICAST for all blocks
        of a cluster. Where warps of their own ask, it is another than the main loop; empty where nobody asks."""
        return copy_loop(self.code.sass, self.name)

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """The loads and stores of the last call on the emulator by their places in the text; none before the first."""
        return tuple(self.counted())

    @property
    def bank_conflicts(self) -> int:
        """Passes through shared memory in the last call on the emulator, beyond those that its bytes need."""
        return sum(row.transactions - row.least for row in self.traffic if row.memory == "shared")

    @property
    def uncoalesced(self) -> int:
        """Sectors of 32 bytes of global memory in the last call on the emulator, beyond those that its bytes need."""
        return sum(row.transactions - row.least for row in self.traffic if row.memory == "global")

    @cached_property
    def _report(self) -> str:
        parts = self.code.compiled.log.split("Compiling entry function '")
        for part in parts[1:]:
            if part.startswith(f"{self.name}'"):
                return part
        raise InternalError(f"NVRTC reports nothing of {self.name}")

    def _read_report(self, pattern: str, otherwise: int | None = None) -> int:
        number = re.search(pattern, self._report)
        if number is None and otherwise is None:
            raise InternalError(f"NVRTC's report of {self.name} has no {pattern!r}:\n{self._report}")
        return int(number[1]) if number is not None else otherwise or 0


_LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<name>[A-Z][A-Z0-9_.]*)(?P<operands>.*?);"
)
"""A line of nvdisasm's."""
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_ARITHMETIC = (
    "FFMA",
    "FADD",
    "FMUL",
    "DFMA",
    "DADD",
    "DMUL",
    "HFMA2",
    "HADD2",
    "HMUL2",
    "HMMA",
    "IMMA",
    "BMMA",
    "DMMA",
    "HGMMA",
    "IGMMA",
    "QGMMA",
    "UTCHMMA",
    "IDP",
    "IDP4A",
    "FMNMX",
    "MUFU",
)
_BOXES = ("UTMALDG", "UTMALDG.MULTICAST")
_WARPGROUP = ("HGMMA", "IGMMA", "QGMMA")
"""Of which one does the work of thousands."""
_MEMORY = ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS", "LDSM", "LD", "ST", "RED", "ATOM", "ATOMS", "ATOMG")


def main_loop(sass: str, kernel: str) -> Mapping[str, int]:
    """The instructions of a kernel's main loop by class, from nvdisasm's text."""
    codes, loops = _loops(sass, kernel)
    counts = (
        _innermost(codes, loops, _ARITHMETIC) or _innermost(codes, loops) or [Counter(codes)]
    )  # others wait, or copy
    chosen = max(
        counts,
        key=lambda count: (
            sum(count[name] for name in _WARPGROUP),
            sum(count[name] for name in _ARITHMETIC),
            count.total(),
        ),
    )
    return dict(chosen.most_common())


def copy_loop(sass: str, kernel: str) -> Mapping[str, int]:
    """Likewise of the shortest loop that asks for most boxes of the copy engine; empty where there is none. Within it a warp may go
    round until what it asks for is the same for all lanes."""
    codes, loops = _loops(sass, kernel)
    counts = [
        count for count in (Counter(codes[at] for at in loop) for loop in loops) if any(count[name] for name in _BOXES)
    ]
    chosen = max(
        counts, key=lambda count: (sum(count[name] for name in _BOXES), -count.total()), default=Counter[str]()
    )
    return dict(chosen.most_common())


def _loops(sass: str, kernel: str) -> tuple[list[str], list[range]]:
    """The instructions of a kernel by class, and where its loops are among them."""
    labels: dict[str, int] = {}
    codes: list[tuple[str, str]] = []
    ends: set[int] = set()
    for line in _section(sass, kernel):
        label, instruction = _LABEL.match(line), INSTRUCTION.match(line)
        if label is not None:
            labels[label[1]] = len(codes)
        elif instruction is not None and instruction["name"] != "NOP":
            if instruction["name"] == "EXIT" and not instruction["guard"]:
                ends.add(len(codes))
            codes.append((instruction["name"], instruction["operands"]))
    loops = [
        range(labels[target[1]], at + 1)
        for at, (name, operands) in enumerate(codes)
        if name.startswith("BRA") and (target := _TARGET.search(operands)) and labels.get(target[1], at + 1) < at
    ]
    loops = [loop for loop in loops if not ends & {*loop}] or loops  # what waits stands behind the end, and jumps back
    return [_class(name) for name, _ in codes], loops


def _innermost(codes: Sequence[str], loops: Sequence[range], some: Sequence[str] = ()) -> list[Counter[str]]:
    """Return the instructions in the innermost of the loops with some of these classes, or of all."""
    having = [loop for loop in loops if not some or any(codes[at] in some for at in loop)]
    return [Counter(codes[at] for at in loop) for loop in having if not any(_has_line(other, loop) for other in having)]


def _has_line(loop: range, other: range) -> bool:
    return loop != other and loop[0] >= other[0] and loop[-1] <= other[-1]


def _section(sass: str, kernel: str) -> list[str]:
    lines = sass.splitlines()
    try:
        begin = lines.index(f".text.{kernel}:")
    except ValueError:
        raise InternalError(f"the SASS has no kernel {kernel}") from None
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].startswith("//-----")), len(lines))
    return lines[begin:end]


def _class(name: str) -> str:
    """LDS.128, LDG.32 or LDG.8 of memory's instructions, the first word of others; of boxes, whether they are for all blocks."""
    first, *rest = name.split(".")
    if first in _BOXES and "MULTICAST" in rest:
        return _BOXES[1]
    if first not in _MEMORY:
        return first
    bits = next((part.lstrip("US") for part in rest if part.lstrip("US") in ("8", "16", "64", "128")), "32")
    return f"{first}.{bits}"
