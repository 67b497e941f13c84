"""Ranking of one candidate for a GPU, in a process of its own: it is checked on the emulator, cut down, and compiled as it is."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import user_source
from ..codegen.build import build_kernels
from ..codegen.cuda.emulate.call import SEED_VARIABLE
from ..codegen.cuda.inspection import InspectedKernel
from ..codegen.gpus import target_architecture
from ..codegen.target import Target
from ..ir import Buffer, Function, parse
from ..runtime.array import numpy_dtype
from .errors import CannotBeChecked
from .reference import Reference
from .workload import drawn_array

__all__ = ["rank_candidate"]

_SPILLED = 64
"""Spilled bytes of a thread that make a rank twice as bad."""
_SEEDS = (0, 1)
"""Orders of blocks and threads."""


def rank_candidate(text: str, target: Target) -> tuple[float, str]:
    """The rank of a candidate, and how it computes something else; "" where it does not. Raises what building raises."""
    probe = json.loads(text)
    kernels = _build(parse(probe["loops"]), target).kernels
    small = _build(parse(probe["small"]), Target.parse(f"cuda -emulate -arch={target_architecture(target)}"))
    plain = parse(probe["plain"])
    rng = np.random.default_rng(0)
    arrays = [_array(param, rng, probe["indexed"]) for param in plain.arguments if isinstance(param, Buffer)]
    _build(plain, Target())(*(expected := [array.copy() for array in arrays]))
    for seed in _SEEDS:
        os.environ[SEED_VARIABLE] = str(seed)
        small(*(found := [array.copy() for array in arrays]))
        differences = (Reference(want).difference(got) for want, got in zip(expected, found, strict=True))
        if wrong := next(filter(None, differences), ""):
            return 0.0, f"on the emulator, at sizes cut down: {wrong}"
    return probe["seconds"] * _worse(kernels, small.kernels), ""


def _build(function: Function, target: Target) -> Any:
    return build_kernels([function], target).module[function.name]


def _array(param: Buffer, rng: np.random.Generator, indexed: bool) -> np.ndarray[Any, Any]:
    """Drawn; zeros of integers where some may be indices."""
    shape = tuple(int(extent) for extent in param.shape)  # pyright: ignore[reportArgumentType]
    return drawn_array(shape, numpy_dtype(str(param.dtype)), rng, indexed and param.dtype.is_integer)


def _worse(kernels: Sequence[InspectedKernel], emulated: Sequence[InspectedKernel]) -> float:
    """Return the factor by which what was counted makes an estimate worse: spilled registers, warps that have no room, passes through
    shared memory and sectors of global memory beyond those that bytes need. Raises CannotBeChecked (TW0614) for what no GPU launches."""
    factor = 1.0
    for kernel in kernels:
        held = kernel.occupancy
        if not held.blocks:
            raise CannotBeChecked(
                f"{kernel.name} cannot be launched",
                called=user_source(),
                reason=f"a multiprocessor holds no block of it: {held.bound}",
            )
        factor *= 1 + kernel.spilled_bytes / _SPILLED
    moved = Counter[str]()
    for row in (row for kernel in emulated for row in kernel.traffic):
        moved[row.memory] += row.transactions
        moved[f"least {row.memory}"] += row.least
    for memory in ("shared", "global"):
        if moved[f"least {memory}"]:
            factor *= moved[memory] / moved[f"least {memory}"]
    return factor * (1 + max(0.0, 0.25 - min((kernel.occupancy.share for kernel in kernels), default=1.0)))
