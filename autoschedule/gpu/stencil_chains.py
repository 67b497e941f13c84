"""Chains of stencils: one kernel, whose blocks compute what a tile of the last one needs of each, in shared memory.

    A -> blur[y, x] = of A around y, x -> sharp[y, x] = of blur around y, x -> edges[y, x] = of sharp around y, x

    for blockIdx.x: tiles of 32 x 64 of edges
      A[38, 70]        copied                     # shared: the tile with three halos
      blur[36, 68]     computed by all threads    # shared
      sharp[34, 66]                               # shared
      edges[32, 64]    stored

What lies between two of them element by element is computed where it is read. Each element at the rim of tiles is computed by each
block that needs it: how large tiles are is weighed against that. Stencils are sums of elements at places beside each other, written
out or reductions over a few terms; indices may be clamped, and elements beyond an image given. (Holewinski et al. 2012,
High-performance code generation for stencil computations on GPU architectures, tile overlapped so.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from ...base import dataclass, field, replace
from ...codegen.gpus import Gpu, target_gpu
from ...ir.expr import IterVar
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..cost.doubts import UNFORESEEN
from ..cost.estimate import pad_estimate
from ..drafts.draft import Drafts
from ..forms.window import Reach, find_reaches
from ..loops import fuse_axes, unroll_loops
from ..operations import elements, fixed_extent, is_expensive, is_plain, iteration_count
from ..plan import Candidate, Decision
from ..registry import registered_rules
from .elements import thread_each

if TYPE_CHECKING:
    from ...schedule import Schedule, Stage
    from ..groups import Group

__all__ = ["stencil_chains"]

THREADS = (8, 32)
TILES = ((32, 64), (16, 64), (32, 32), (64, 64), (16, 32), (32, 128), (8, 64))
"""Rows and columns of the last stencil that a block stores."""
MOST_TERMS, MOST_STENCILS, COMPONENTS = 64, 8, 4
"""Of a stencil's sum, of a chain, and of an element of an image."""


@dataclass
class _Chain:
    """Chain of stencils.

    output: the last stencil. plane: which of its axes are rows and columns. stencils: the others, those that read before what
    they read, with how far what is needed of them lies around an element of the output; inlined: what is computed where it is read,
    likewise. images: tensors that are read at several places.
    """

    output: Operation
    plane: tuple[int, int]
    stencils: dict[Operation, Reach] = field(default_factory=dict[Operation, Reach])
    inlined: dict[Operation, Reach] = field(default_factory=dict[Operation, Reach])
    images: dict[Tensor, Reach] = field(default_factory=dict[Tensor, Reach])

    def reach(self, op: Operation) -> Reach | None:
        """Return the reach of an operation of the chain; None of any other."""
        nothing: Reach = ((0, 0),) * len(op.axis)
        return nothing if op is self.output else self.stencils.get(op) or self.inlined.get(op)

    def area(self, reach: Reach, tile: Tile) -> int:
        """Return the number of elements that a block has of what lies so far around its tile."""
        sizes = dict(zip(self.plane, tile, strict=True))
        inner = [fixed_extent(axis) if at > self.plane[1] else 1 for at, axis in enumerate(self.output.axis)]
        return prod(
            sizes.get(at, size) + high - low for at, (size, (low, high)) in enumerate(zip(inner, reach, strict=True))
        )


Tile: TypeAlias = "tuple[int, int]"
"""Rows and columns of the last stencil that a block stores."""


def stencil_chains(s: Schedule, begin: Callable[[Operation], Group]) -> list[Decision]:
    """Schedules the chains of a schedule whose other stages nobody has touched, where that is quicker; begin: the group of an
    operation alone. Returns what was decided."""
    decisions: list[Decision] = []
    for op in [stage.op for stage in reversed(s.stages)]:
        chain = _chain(s, op) if op in s and _is_free(s[op]) else None
        if chain is None or any(rule.matches(begin(op)) for rule in registered_rules()):
            continue
        group = begin(op)
        tiles = [tile for tile in TILES if _fits(chain, tile, target_gpu(group.target))]
        if tiles:
            drafts, many = Drafts(), len(chain.stencils) + 1
            candidates = [
                Candidate(
                    f"{many} stencils, tiles of {tile[0]} x {tile[1]} in shared memory",
                    partial(_apply, chain, tile, group),
                    group.draft(partial(_apply, chain, tile), drafts),
                    "tiles begin within sectors",
                )
                for tile in tiles
            ]
            candidates.sort(key=lambda candidate: candidate.seconds)
            apart = pad_estimate(group.draft(partial(_apply_separate, chain), drafts), UNFORESEEN)
            candidates.append(Candidate("each stencil apart", lambda: None, apart))  # each has its own rule
            replace(group, parts=tuple(chain.stencils), between=tuple(chain.inlined)).choose("stencils", candidates)
            decisions += group.decisions
    return decisions


# What a chain is


def _chain(s: Schedule, output: Operation) -> _Chain | None:
    """The chain that ends in an operation; None where that has no stencil before it."""
    plane = _plane(output)
    if plane is None or find_reaches(output) is None:
        return None
    chain = _Chain(output, plane)
    taken: dict[Tensor, list[tuple[int, Reach]]] = {}

    def take(op: Operation, reach: Reach) -> None:
        for tensor, (places, own) in (find_reaches(op) or {}).items():
            taken.setdefault(tensor, []).append(
                (places, tuple((low + a, high + b) for (low, high), (a, b) in zip(reach, own, strict=True)))
            )

    take(output, ((0, 0),) * len(output.axis))
    for stage in reversed(s.stages):
        op = stage.op
        reads = [(tensor, each) for tensor in op.outputs for each in taken.get(tensor, ())]
        if op is output or not reads:
            continue
        reach = tuple(
            (min(low for low, _ in spans), max(high for _, high in spans))
            for spans in zip(*(each for _, (_, each) in reads), strict=True)
        )
        places = sum(count for _, (count, _) in reads)
        own = op.values and all(chain.reach(reader.op) is not None for reader in stage.readers) and _joins(stage, chain)
        if own and places == 1 and is_plain(op) and not is_expensive(op):
            chain.inlined[op] = reach
        elif own and len(chain.stencils) < MOST_STENCILS:
            chain.stencils[op] = reach
        else:
            if places > 1:
                chain.images[reads[0][0]] = reach
            continue
        take(op, reach)
    return chain if chain.stencils else None


def _is_free(stage: Stage) -> bool:
    return not stage.is_scheduled() and stage.attach_type == "root"


def _joins(stage: Stage, chain: _Chain) -> bool:
    """Return whether an operation can be computed tile by tile with those that read it."""
    op, last = stage.op, chain.output
    return (
        not stage.is_output
        and _is_free(stage)
        and len(op.axis) == len(last.axis)
        and _plane(op) == chain.plane
        and find_reaches(op) is not None
        and (elements(op) or 0) <= 2 * (elements(last) or 0)
    )


def _plane(op: Operation) -> tuple[int, int] | None:
    """Return the axes that are rows and columns: the last two, or those before a few components; None of what is no stencil's operation."""
    if op.num_outputs > 1 or not op.values or op.calls_intrinsic or len(op.axis) < 2:
        return None
    if not all(map(fixed_extent, (*op.axis, *op.reduce_axis))) or iteration_count(op.reduce_axis) > MOST_TERMS:
        return None
    last = len(op.axis) - 1
    few = last >= 2 and fixed_extent(op.axis[-1]) <= COMPONENTS
    return (last - 2, last - 1) if few else (last - 1, last)


# The schedule


def _fits(chain: _Chain, tile: Tile, gpu: Gpu) -> bool:
    """Return whether two blocks' parts of all stencils fit, and the tile is less than twice as large as the result."""
    rows, columns = (fixed_extent(chain.output.axis[at]) for at in chain.plane)
    return 2 * _shared_bytes(chain, tile) <= gpu.shared and tile[0] < 2 * rows and tile[1] < 2 * columns


def _shared_bytes(chain: _Chain, tile: Tile) -> int:
    """Bound the shared memory from above: memory of what is read no more may be another's."""
    parts = [(op.output(0), reach) for op, reach in chain.stencils.items()] + list(chain.images.items())
    return sum(chain.area(reach, tile) * tensor.dtype.bytes for tensor, reach in parts)


def _apply_separate(chain: _Chain, group: Group) -> None:
    """A kernel for each stencil."""
    for op in chain.inlined:
        group.s[op].compute_inline()
    for op in (chain.output, *chain.stencils):
        thread_each(group.s, op, op)


def _apply(chain: _Chain, tile: Tile, group: Group) -> None:
    s = group.s
    whole = (chain.output, *chain.stencils, *chain.inlined)
    copies = list[Tensor]()
    for image in chain.images:
        tensor = s[image].op.output(image.value_index)
        readers = [op for op in whole if tensor in s[op].op.input_tensors]
        copies.append(s.cache_read(tensor, "shared", readers))
    for op in chain.inlined:
        s[op].compute_inline()
    stage = s[chain.output]
    sums = s[s.cache_write(stage.op.output(0), "local")] if stage.op.reduction is not None else None
    block, thread = _store(stage, chain.plane, tile)
    if sums is not None:
        _sum(sums, (stage, thread))
    for op in chain.stencils:
        part = s[op]
        own = s[s.cache_write(part.op.output(0), "local")] if part.op.reduction is not None else None
        filled = _fill(part, chain.plane, (stage, block))
        if own is not None:
            _sum(own, (part, filled))
    for copy in copies:
        _fill(s[copy], chain.plane, (stage, block))


def _store(stage: Stage, plane: tuple[int, int], tile: Tile) -> tuple[IterVar, IterVar]:
    """The loops of what is stored; returns that of a block, and the innermost of a thread."""
    axes = list(stage.op.axis)
    outer, inner = axes[: plane[0]], axes[plane[1] + 1 :]
    pairs = [stage.split(axes[at], factor=size) for at, size in zip(plane, tile, strict=True)]
    own = [stage.split(axis, factor=count) for (_, axis), count in zip(pairs, THREADS, strict=True)]
    stage.reorder(
        *outer, *(block for block, _ in pairs), *(thread for _, thread in own), *(rest for rest, _ in own), *inner
    )
    block = fuse_axes(stage, [*outer, *(block for block, _ in pairs)])
    stage.bind(block, thread_axis("blockIdx.x"))
    for (_, thread), name, count in zip(own, "yx", THREADS, strict=True):
        stage.bind(thread, thread_axis((0, count), f"threadIdx.{name}"))
    unroll_loops(stage, (*(rest for rest, _ in own), *inner))
    return block, ([*(rest for rest, _ in own), *inner])[-1]


def _fill(stage: Stage, plane: tuple[int, int], at: tuple[Stage, IterVar]) -> IterVar:
    """A part in shared memory, by all threads; returns the innermost loop of a thread."""
    stage.set_scope("shared")
    stage.compute_at(*at)
    axes = list(stage.op.axis)
    own = [stage.split(axes[place], factor=count) for place, count in zip(plane, THREADS, strict=True)]
    inner = axes[plane[1] + 1 :]
    stage.reorder(*axes[: plane[0]], *(rest for rest, _ in own), *(thread for _, thread in own), *inner)
    for (_, thread), name, count in zip(own, "yx", THREADS, strict=True):
        stage.bind(thread, thread_axis((0, count), f"threadIdx.{name}"))
    unroll_loops(stage, inner)
    return inner[-1] if inner else own[-1][1]


def _sum(sums: Stage, at: tuple[Stage, IterVar]) -> None:
    """A sum in registers, all of its terms written out."""
    sums.compute_at(*at)
    sums.set_scope("local")
    unroll_loops(sums, (*sums.op.reduce_axis, *sums.op.axis))
