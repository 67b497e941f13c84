"""Cases to time: a case is one shape of one piece of work, ours and its peers on the same inputs.

A file `NAME_cases.py` beside this one holds `CASES`, a list of cases, made when it is imported, or `draw_cases(seed)`, which
draws their shapes; nothing heavy happens then (builders import their library when they are called). To add work, write such a file:

    from tilewright import topi
    from .cases import Case, floats, scheduled
    from .peers import numpy_peer, torch_peer

    def gemm(m: int, n: int, k: int) -> Case:
        return Case(
            group="gemm", name=f"{m}x{n}x{k}", inputs=floats((m, k), (k, n)), outputs=[((m, n), "float32")],
            ours=scheduled(topi.matmul, (m, k), (k, n)), flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n), ceiling="fma",
            peers={"numpy": numpy_peer.matmul, "torch": torch_peer.matmul})

    CASES = [gemm(512, 512, 512), gemm(37, 4096, 512)]

A builder gets the inputs and the arrays for the outputs, prepares what is not timed (weights packed, graphs compiled,
tensors made of the arrays without a copy), and returns a function of no arguments that does the work once. It writes to the
outputs given where its library can, and returns None; else it returns its result, or a tuple of them, as arrays or what
numpy.asarray takes. ImportError says that the peer is not installed, and `Unsupported` that it cannot do this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi

__all__ = [
    "Arrays",
    "Builder",
    "Case",
    "Inputs",
    "Runner",
    "Unsupported",
    "align",
    "draw",
    "empty",
    "floats",
    "groups",
    "kernel",
    "load_cases",
    "scheduled",
    "threads",
    "draw_integers",
]

Arrays = Sequence[np.ndarray]
Inputs = Callable[[np.random.Generator], Arrays]
Runner = Callable[[], object]
Builder = Callable[[Arrays, Arrays], Runner]

CEILINGS = ("fma", "read", "copy", "roof")


class Unsupported(Exception):
    """A peer cannot do this case. The argument says why."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    group: the name by which `tilewright bench` finds it, with its neighbours. name: the shape, as shown. inputs: draws the
    input arrays. outputs: (shape, dtype) of each. ours, peers: builders. exact: ours with exact=True, whose cost is shown.
    flops: floating-point (or integer) operations, a multiply-add being two. bytes: read once and written once, if caches were
    endless. ceiling: what the machine allows at most: "fma" (the rate of fused multiply-adds in float32), "read" or "copy"
    (bytes a second of a loop that only reads, or that reads and writes past the caches), "roof" (the lower of fma and copy for
    this ratio of operations to bytes). tolerance: results may differ from the reference's by (absolute) + (relative) *
    |reference|. reference: the side whose result the others are compared with; None compares them with the first peer that
    runs.
    """

    group: str
    name: str
    inputs: Inputs
    outputs: Sequence[tuple[tuple[int, ...], str]]
    ours: Builder
    peers: Mapping[str, Builder] = field(default_factory=dict[str, Builder])
    exact: Builder | None = None
    flops: float = 0.0
    bytes: float = 0.0
    ceiling: str = "roof"
    tolerance: tuple[float, float] = (1e-4, 1e-4)
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.ceiling not in CEILINGS:
            raise ValueError(f"{self.label}: no ceiling {self.ceiling!r}; there are {', '.join(CEILINGS)}")

    @property
    def label(self) -> str:
        return f"{self.group} {self.name}"


def kernel(build: Callable[[], Any]) -> Builder:
    """The builder of a kernel of ours that is called with all inputs, then all outputs."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        built, arrays = build(), (*inputs, *outputs)
        return lambda: built(*arrays)

    return builder


def scheduled(define: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Builder:
    """The builder of what `define` makes of placeholders of these shapes, a tensor or several, as topi.schedule runs it."""

    def build() -> tw.runtime.Kernel:
        given = [te.placeholder(shape, dtype, name=f"x{at}") for at, shape in enumerate(shapes)]
        computed = define(*given)
        outputs = [computed] if isinstance(computed, te.Tensor) else computed
        return tw.build(topi.schedule(outputs), [*given, *outputs])

    return kernel(build)


def draw(make: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray], *shapes: tuple[int, ...]) -> Inputs:
    """Inputs of these shapes, each made by `make(generator, shape)`, aligned to 64 bytes as allocators of peers do."""
    return lambda rng: [align(make(rng, shape)) for shape in shapes]


def floats(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Inputs:
    """Normally distributed numbers."""
    return draw(lambda rng, shape: rng.standard_normal(shape, np.float32).astype(dtype), *shapes)


def draw_integers(low: int, high: int, dtype: Any, *shapes: tuple[int, ...]) -> Inputs:
    """Integers in [low, high)."""
    return draw(lambda rng, shape: rng.integers(low, high, shape).astype(dtype), *shapes)


def align(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 64 bytes."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that begins at a multiple of 64 bytes. bfloat16 is ml_dtypes'."""
    kind = _dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size].view(kind).reshape(shape)


def _dtype(name: Any) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def load_cases(wanted: Iterable[str] = (), seed: int = 0) -> list[Case]:
    """The cases whose file (rows for rows_cases.py), group, or "group name" is wanted; all of them for nothing. seed: for those
    whose shapes are drawn. Raises KeyError for what nobody has."""
    cases_by_place: list[tuple[tuple[str, str, str], Case]] = []
    for path in sorted(Path(__file__).parent.glob("*_cases.py")):
        module = import_module(f"{__package__}.{path.stem}")
        cases: Sequence[Case] = module.draw_cases(seed) if hasattr(module, "draw_cases") else module.CASES
        cases_by_place += [((path.stem.removesuffix("_cases"), case.group, case.label), case) for case in cases]
    names = list(wanted)
    for name in names:
        if not any(name in known for known, _ in cases_by_place):
            raise KeyError(name)
    return [case for known, case in cases_by_place if not names or any(name in names for name in known)]


def groups(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Cases by group, in order of appearance."""
    by_group: dict[str, list[Case]] = {}
    for case in cases:
        by_group.setdefault(case.group, []).append(case)
    return by_group


def threads() -> int:
    """Return the number of threads that every side may use: what OMP_NUM_THREADS says, which `tilewright bench` sets."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))
