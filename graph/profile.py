"""Profile of a call: each kernel of a model, timed where it stands between the others."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import te
from ..base.dataclass import dataclass
from ..ir import Var, substitute
from ..ir.analysis.work import measure_work
from ..runtime.tables import html_table
from ..te.operation import producers_first
from .arena import Size
from .kernels import Step
from .plan import value_bytes
from .program import Program
from .types import symbol

__all__ = ["Profile", "Row", "measure_profile"]

_REPEATS = 5


@dataclass(frozen=True)
class Row:
    """One kernel at its place. nodes: what the user knows its nodes by, where that is known. shapes: of what it gives. seconds: of
    the fastest run of several. busy: the least seconds of the processor that the calling thread took for a run: what else the
    machine does makes a run longer, and this little. operations: on elements, as declared; moved: the bytes of what it reads and
    gives."""

    kernel: str
    operators: str
    nodes: tuple[str, ...]
    shapes: str
    seconds: float
    operations: int
    moved: int
    busy: float = 0.0

    @property
    def gflops(self) -> float:
        """Thousand millions of operations a second."""
        return self.operations / max(self.seconds, 1e-12) / 1e9

    @property
    def gbytes(self) -> float:
        """Thousand millions of bytes a second."""
        return self.moved / max(self.seconds, 1e-12) / 1e9


@dataclass(frozen=True, repr=False)
class Profile:
    """Result of Model.profile: `print` shows it as a table, rows in the order of a call. bucket: of a model with buckets,
    the sizes that those kernels are for."""

    rows: tuple[Row, ...]
    bucket: str = ""

    @property
    def seconds(self) -> float:
        """All kernels together."""
        return sum(row.seconds for row in self.rows)

    @property
    def busy(self) -> float:
        """The time of the processor that the calling thread took for all kernels together."""
        return sum(row.busy for row in self.rows)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        lines = [f"{'ms':>10} {'CPU':>10} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7}  kernel"]
        lines += [
            f"{row.seconds * 1e3:10.4f} {row.busy * 1e3:10.4f} {row.seconds / total:6.1%} {row.gflops:8.2f} {row.gbytes:7.2f}"
            f"  {row.operators} {row.shapes}{f'  {chr(44).join(row.nodes)}' if row.nodes else ''}"
            for row in self.rows
        ]
        chosen = f", those for {self.bucket}" if self.bucket else ""
        return "\n".join(
            [*lines, f"{self.seconds * 1e3:10.4f} {self.busy * 1e3:10.4f} ms in {len(self.rows)} kernels{chosen}"]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        total = self.seconds or 1.0
        return html_table(
            f"{self.seconds * 1e3:.4g} ms in {len(self.rows)} kernels",
            ("ms", "share", "GFLOP/s", "GB/s", "kernel", "gives", "nodes"),
            [
                (
                    f"{row.seconds * 1e3:.4f}",
                    f"{row.seconds / total:.1%}",
                    f"{row.gflops:.2f}",
                    f"{row.gbytes:.2f}",
                    row.operators,
                    row.shapes,
                    ", ".join(row.nodes),
                )
                for row in self.rows
            ],
        )


def measure_profile(
    program: Program,
    given: Sequence[NDArray[Any]],
    results: Sequence[NDArray[Any]],
    arena: NDArray[np.uint8],
) -> Profile:
    """The profile of a call on these arrays."""
    plan, layout = program.plan, program.layout
    g, types = plan.graph, program.types
    held: dict[str, NDArray[Any]] = {
        **g.params,
        **dict(zip(plan.inputs, given, strict=True)),
        **dict(zip(plan.outputs.values(), results, strict=True)),
    }
    held |= {g.results[present]: held[past] for past, present in g.state.items()}
    base = arena.ctypes.data

    def address(name: str) -> int:
        home, at = plan.placed.get(name, (name, 0))
        return (
            held[home].ctypes.data + at * held[home].itemsize
            if home in held
            else base + _known_size(layout.values[name])
        )

    calls: list[tuple[Callable[..., int], list[int]]] = []
    for at, step in enumerate(plan.steps):
        pointers = [address(name) for name in (*step.passed, *step.outputs)]
        pointers += [program.sizes[name] for name in step.symbols]
        pointers += [program.weights.held[digest].address for digest in program.weights.read[at]]
        pointers += [base + _known_size(offset) for offset in layout.workspaces[at]]
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p for _ in pointers))
        calls.append((kind(program.parts[plan.names[at]].address), pointers))
    best, busy = [float("inf")] * len(calls), [float("inf")] * len(calls)
    for _ in range(_REPEATS):
        for at, (function, pointers) in enumerate(calls):
            worked, began = time.thread_time(), time.perf_counter()
            function(*pointers)
            best[at] = min(best[at], time.perf_counter() - began)
            busy[at] = min(busy[at], time.thread_time() - worked)
    operations = _operations(plan.kernels(), program.sizes)
    return Profile(
        tuple(
            Row(
                kernel,
                step.operators,
                step.sources,
                ", ".join(str(types[name]) for name in step.outputs),
                seconds,
                operations.get(kernel, 0),
                sum(value_bytes(types[name]) for name in _traffic(step)),
                each,
            )
            for kernel, step, seconds, each in zip(plan.names, plan.steps, best, busy, strict=True)
        ),
        program.bucket,
    )


def _known_size(size: Size) -> int:
    assert isinstance(size, int), "a program that is run knows its sizes"
    return size


def _traffic(step: Step) -> list[str]:
    """The values that a kernel reads and stores; of what is stored in part as much as is put there."""
    if step.stores_part:
        return [*step.inputs, step.nodes[-1].inputs[-1]]
    return [*step.inputs, *([step.over] if step.over else []), *step.outputs]


def _operations(kernels: Mapping[str, Sequence[te.Tensor | Var]], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of operations of each kernel, as it was declared: the loops without a schedule."""
    known = {symbol(name): te.const(size, "int64") for name, size in sizes.items()}
    counts: dict[str, int] = {}
    for name, tensors in kernels.items():
        made = [
            op
            for op in producers_first([tensor.op for tensor in tensors if isinstance(tensor, te.Tensor)])
            if not op.is_given
        ]
        counts[name] = sum(measure_work(substitute(op.statement(), known)).operations.value or 0 for op in made)
    return counts
