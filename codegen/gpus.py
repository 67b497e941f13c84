"""NVIDIA's GPUs, as far as schedules and limits depend on them: a row for each architecture that code is made for.

The figures are those of NVIDIA's whitepapers (A100, GA102, AD102, H100, Blackwell, RTX Blackwell) and of the table of compute
capabilities in the CUDA C++ Programming Guide, for the largest part that is sold of each.
"""

from __future__ import annotations

from ..base.dataclass import dataclass
from .target import Target

__all__ = ["GPUS", "Gpu", "Occupancy", "target_architecture", "library_architectures", "target_features", "target_gpu"]

KIB, MIB = 1024, 1024 * 1024
_WARP = 32
_REGISTERS_AT_ONCE = 256
"""What a warp's registers are a multiple of."""
_SHARED_AT_ONCE = 1024
"""What a block's shared memory is a multiple of; as much again is the system's."""


@dataclass(frozen=True)
class Gpu:
    """name, of a product: what the figures are of. processors: multiprocessors, each with: fma, multiply-adds of float32 a cycle;
    threads, blocks, registers (of 32 bits) and shared (bytes) that it holds at once; shared_rate: bytes of shared memory a cycle.
    block_shared: bytes that one block may have. clock: 10^9 cycles a second. l2: bytes; l2_rate, memory_rate: bytes a cycle, of
    all together, those of the L2 cache as they are sustained. tensor: multiply-adds of float16, added up in float32, that a
    multiprocessor does in a cycle by mma.sync, which on H100 and B200 is a part of what instructions of their own do. latency:
    cycles until what is loaded from memory is known. warpgroup: as tensor, by wgmma; 0 where there is no such instruction."""

    name: str
    processors: int
    fma: int
    threads: int
    blocks: int
    shared: int
    block_shared: int
    clock: float
    l2: int
    l2_rate: float
    memory_rate: float
    tensor: int
    registers: int = 65536
    shared_rate: int = 128
    latency: float = 600
    warpgroup: int = 0
    float8: bool = True

    @property
    def features(self) -> frozenset[str]:
        """Features, for te.target_has, beyond those that all of them have."""
        has = {"wgmma": self.warpgroup > 0, "bulk_copies": self.warpgroup > 0, "mma_float8": self.float8}
        return frozenset(name for name, is_there in has.items() if is_there)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Number of a kernel's blocks that a multiprocessor holds at once. share: of the threads that it can hold, 0 to 1. bound: what
    there is too little of for one more: "threads", "blocks", "registers" or "shared memory"."""

    blocks: int
    share: float
    bound: str

    @staticmethod
    def of(gpu: Gpu, threads: int, registers: int, shared: int) -> Occupancy:
        """The one of blocks of so many threads, registers a thread and bytes of shared memory. Raises no errors: a block that
        does not fit is held 0 times."""
        warps = -(-threads // _WARP)
        warp_registers = -(-registers * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        block_shared = -(-shared // _SHARED_AT_ONCE) * _SHARED_AT_ONCE + _SHARED_AT_ONCE
        held = {
            "threads": gpu.threads // (warps * _WARP),
            "registers": gpu.registers // max(warp_registers * warps, 1),
            "shared memory": gpu.shared // block_shared,
            "blocks": gpu.blocks,
        }
        bound = min(held, key=lambda name: held[name])
        return Occupancy(held[bound], held[bound] * warps * _WARP / gpu.threads, bound)


GPUS = {
    "sm_80": Gpu("A100", 108, 64, 2048, 32, 164 * KIB, 163 * KIB, 1.41, 40 * MIB, 2700, 1100, 1024, float8=False),
    "sm_86": Gpu("RTX 3090", 82, 128, 1536, 16, 100 * KIB, 99 * KIB, 1.70, 6 * MIB, 1900, 550, 256, float8=False),
    "sm_89": Gpu("L40S", 142, 128, 1536, 24, 100 * KIB, 99 * KIB, 2.52, 96 * MIB, 2300, 343, 512),
    "sm_90": Gpu("H100", 132, 128, 2048, 32, 228 * KIB, 227 * KIB, 1.76, 50 * MIB, 3100, 1900, 1280),
    "sm_90a": Gpu("H100", 132, 128, 2048, 32, 228 * KIB, 227 * KIB, 1.76, 50 * MIB, 3100, 1900, 1280, warpgroup=2048),
    "sm_100": Gpu("B200", 148, 128, 2048, 32, 228 * KIB, 227 * KIB, 1.85, 126 * MIB, 6000, 4300, 1280),
    "sm_103": Gpu("B300", 148, 128, 2048, 32, 228 * KIB, 227 * KIB, 1.92, 126 * MIB, 6000, 4150, 1280),
    "sm_120": Gpu("RTX 5090", 170, 128, 1536, 24, 100 * KIB, 99 * KIB, 2.41, 96 * MIB, 2600, 743, 256),
}
"""By the architecture."""

DEFAULT, EMULATED = "sm_80", "sm_90"


def target_gpu(target: Target) -> Gpu:
    """The row of a target "cuda"."""
    return GPUS[target_architecture(target)]


def target_architecture(target: Target) -> str:
    """The one that schedules and text are for: the least that it says, or what is taken where it says none."""
    return library_architectures(target)[0]


def target_features(target: Target) -> frozenset[str]:
    """Return the features, for te.target_has, of all architectures of the target, beyond those of any."""
    return frozenset[str].intersection(*(GPUS[arch].features for arch in library_architectures(target)))


def library_architectures(target: Target) -> list[str]:
    """Return the architectures for which a library of the target has machine code, the least first."""
    said = sorted(set(filter(None, target.option("arch").split(","))), key=list(GPUS).index)
    return said or [EMULATED if target.has_flag("emulate") else DEFAULT]
