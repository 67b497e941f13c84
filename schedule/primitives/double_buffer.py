"""double_buffer: what the next iteration needs is computed before this one uses its own.

    for k in 4:                           B: float32[2, 8]
        B: float32[8]                     for i in 8: B[0, i] = A[i]
        for i in 8:                 →     for k in 4:
            B[i] = A[k * 8 + i]               if k + 1 < 4:
        ... B[i] ...                              for i in 8: B[(k + 1) % 2, i] = A[(k + 1) * 8 + i]
                                              ... B[k % 2, i] ...

The loads of an iteration and the work on what was loaded before do not wait for each other, and on a GPU one barrier
separates the two instead of two. As TVM's InjectDoubleBuffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...errors import user_source
from ...ir.accesses import written_buffers
from ...ir.arith.analyzer import Analyzer
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IntImm
from ...ir.ops import cast, const, floormod
from ...ir.passes.common.fresh_copy import fresh_copy
from ...ir.passes.common.simplify import simplify_stmt
from ...ir.pointers import pointed_to
from ...ir.stmt import Allocate, For, If, Stmt
from ...ir.visit import seq, substitute, walk
from ..lowering.computation import Computation
from ..lowering.errors import CannotDoubleBuffer
from ..lowering.extension import Extension, Place
from ..lowering.nest import Storage
from ..lowering.overlap import check_shared, moved_accesses
from ..lowering.stage_bounds import Bounds, Loop
from ..model.axes import outline
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .overlap import set_overlap
from .trials import once

__all__ = ["double_buffer"]

_LINE_BYTES = 64
"""What allocations are aligned to."""


class _Halves(Extension):
    def __init__(self, storage: Storage, analyzer: Analyzer) -> None:
        super().__init__(storage, analyzer)
        self.ahead: dict[Place, list[tuple[Computation, Stmt]]] = {}
        """Statements that are computed one iteration ahead, by the loop that they are computed at."""

    def plan(self, bounds: Bounds) -> None:
        for computation in bounds.of:
            if computation.stage.overlap == "double":
                check_shared(computation)

    def takes(self, bounds: Bounds, computation: Computation, statement: Stmt) -> bool:
        parent = computation.parent
        if parent is None or computation.in_step or computation.stage.overlap != "double":
            return False
        if bounds.of[parent].loops[computation.place].var is None:
            return False  # where the loop runs once, there is no next iteration
        self.ahead.setdefault((parent, computation.place), []).append((computation, statement))
        return True

    def around(self, place: Place, loop: Loop, statement: Stmt) -> Stmt:
        ahead = self.ahead.pop(place, [])
        return _loaded_ahead(loop, statement, ahead, self.storage, self.analyzer) if ahead else statement


def _loaded_ahead(
    loop: Loop, nest: Stmt, ahead: Sequence[tuple[Computation, Stmt]], storage: Storage, analyzer: Analyzer,
) -> Stmt:
    """The loop statement `nest` over `loop`, with the statements `ahead`, which compute what an iteration uses, one
    iteration ahead of it. Raises CannotDoubleBuffer (TW0351)."""
    assert isinstance(nest, For) and loop.var is not None
    for computation, _ in ahead:
        if loop.attr.kind not in ("serial", "unrolled"):
            kind = loop.thread or loop.attr.kind
            raise _refused(computation.stage, loop, f"the iterations of {loop.axis.name} do not follow each other: it is {kind}",
                          "compute it at a serial loop inside")
    halves = {storage.buffers[tensor]: tensor for computation, _ in ahead for tensor in computation.op.outputs}
    _check_reads(loop, nest, ahead, set(halves), storage)
    _check_alignment(loop, nest, ahead, storage)
    var, two = loop.var, const(2, loop.var.dtype)
    doubled: dict[Buffer, Buffer] = {}
    for buffer, tensor in halves.items():
        strides = (buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else ()
        doubled[buffer] = storage.buffers[tensor] = replace(buffer, shape=(two, *buffer.shape), strides=strides)

    def at_half(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return floormod(var, two), *indices

    places: dict[Buffer, tuple[Buffer, Callable[[tuple[Expr, ...]], tuple[Expr, ...]]]] = {
        old: (new, at_half) for old, new in doubled.items()}
    loads = moved_accesses(seq(*(statement for _, statement in ahead)), places, analyzer)
    first = If(nest.extent > 0, fresh_copy(loads, {var: const(0, var.dtype)}))
    following = If(var + 1 < cast(nest.extent, var.dtype), substitute(loads, {var: var + 1}))
    body = seq(simplify_stmt(following, analyzer), moved_accesses(nest.body, places, analyzer))
    result = seq(simplify_stmt(first, analyzer), replace(nest, body=body))
    for buffer in doubled.values():
        result = Allocate(buffer, result)
    return result


def _check_alignment(loop: Loop, nest: For, ahead: Sequence[tuple[Computation, Stmt]], storage: Storage) -> None:
    """Code that gets pointers was promised alignments, which the second half has too where it begins on a cache line."""
    pointed = {target[0] for part in (nest.body, *(statement for _, statement in ahead)) for node in walk(part)
               if (target := pointed_to(node)) is not None}
    for computation, _ in ahead:
        for tensor in computation.op.outputs:
            buffer = storage.buffers[tensor]
            size = _bytes(buffer)
            if buffer in pointed and (size is None or size % _LINE_BYTES):
                raise _refused(
                    computation.stage, loop, f"code that gets a pointer to {buffer.name} relies on its alignment, and the second "
                    f"half would begin at byte {'?' if size is None else size}",
                    f"make the part of {buffer.name} a multiple of {_LINE_BYTES} bytes, or drop double_buffer")


def _bytes(buffer: Buffer) -> int | None:
    """The size of one half, where it is known."""
    first = buffer.strides[:1] + buffer.shape[:1] if buffer.strides else buffer.shape
    size = buffer.dtype.bytes
    for extent in first:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _refused(stage: Stage, loop: Loop | None, reason: str, fix: str) -> CannotDoubleBuffer:
    """The error for a stage that cannot be computed one iteration ahead."""
    where = stage.attach_stage
    return CannotDoubleBuffer(
        f"cannot give stage {stage.name} a double buffer", reason=reason, declared=stage.op.source, called=user_source(),
        loops="" if loop is None or where is None else outline(where, [loop.axis]), fix=fix)


def _check_reads(
    loop: Loop, nest: For, ahead: Sequence[tuple[Computation, Stmt]], halves: set[Buffer], storage: Storage,
) -> None:
    """What is computed ahead may read only what does not change in the loop, or is computed ahead too."""
    changed = written_buffers(nest.body) - halves
    for computation, statement in ahead:
        own = {node.buffer for node in walk(statement) if isinstance(node, Allocate)}
        for node in walk(statement):
            if isinstance(node, BufferLoad) and node.buffer in changed and node.buffer not in own:
                tensor = next((owner for owner, buffer in storage.buffers.items() if buffer is node.buffer), None)
                name = node.buffer.name
                raise _refused(computation.stage, loop, f"it reads {name}, which an iteration of {loop.axis.name} computes itself",
                              f"s[{name}].double_buffer() too" if tensor is not None else f"compute {name} outside of the loop")


# The primitive


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.attached_stage()
    return None if stage is None else (f"double_buffer of {stage.name}", stage.double_buffer)


@primitive(StagePrimitives, "storage", tries=once(lambda stage: stage.double_buffer()), draw=_draw, weight=2, rare=True,
           foreign={}, lowering=_Halves)
def double_buffer(stage: Stage) -> None:
    """Compute what an iteration of the loop that it is computed at needs one iteration ahead.

        for k in 4:                           B: float32[2, 8]
            B: float32[8]                     for i in 8: B[0, i] = A[i]
            for i in 8:                 →     for k in 4:
                B[i] = A[k * 8 + i]               if k + 1 < 4:
            ... B[i] ...                              for i in 8: B[(k + 1) % 2, i] = A[(k + 1) * 8 + i]
                                                  ... B[k % 2, i] ...

    Its storage is twice as large: two halves take turns. Whether the loop allows that (a serial one, in which what is read
    does not change) is decided when the schedule is lowered.

    Raises BadOverlap (TW0252).
    """
    set_overlap(stage, "double")
