"""The derived space: rules that schedule any program of tensor expressions for a CPU, with what is open as parts.

Operations are visited from the outputs to the inputs. An operation at root is an anchor: its outermost loops are shared
among threads, and it has sites, loops at which what it reads may be computed. The rules:

    a reduction with reuse         tiles in registers, over three levels of loops (tiling.py)
    another reduction              in vector lanes, by rfactor or over a data axis (reducing.py)
    an elementwise operation       after a reduction with reuse: inlined into the store of the tile
    any other                      inlined, at root, or at a site of the one anchor that reads it

Sketches differ in the axis over which each reduction with reuse is vectorized, or in leaving it to the second rule. Of
a small program the declaration itself is one too, and whether to wake the threads is a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from ...codegen.target import Target
from ...ir.expr import IterVar
from ...schedule import Schedule, Stage, create_schedule
from ...te import Tensor
from ...te.operation import ComputeOp, Operation
from ...te.tensor_compute import TensorComputeOp
from ..operations import contiguous, extent_of, extents_of, is_expensive, loads_of
from .program import Program
from .reductions import Reducing
from .space import Configurator, Rejected, Sketch
from .sweeps import Sweeping
from .tiles import Tiling

__all__ = ["derive"]

MAX_SKETCHES = 8
SMALL = 1 << 22
"""Work for which waking the threads may cost more than they save, or scheduling anything at all."""
LEARNING_RUNS = 24
"""How often a rule is tried out to find its parts: some are asked for only where others were decided in some way."""


def derive(args: Sequence[Tensor], outputs: Sequence[Tensor], target: Target) -> tuple[Sketch, ...]:
    """The sketches of a function of static shapes."""
    program = Program(args, outputs)
    heavy = list(program.tails)
    ways = [[*vector_axes(op, target), *([-1] if _reduces_contiguously(op) else [])] for op in heavy]
    found: list[Sketch] = []
    for chosen in islice(product(*ways), MAX_SKETCHES):
        vectors = dict(zip(heavy, chosen, strict=True))
        shown = ", ".join(f"{op.name} in lanes" if at < 0 else f"{op.name} over {op.axis[at].name}" for op, at in vectors.items())

        def build(cfg: Configurator, vectors: dict[ComputeOp, int] = vectors) -> tuple[Schedule, Sequence[Tensor]]:
            return Derivation(program, target, vectors, cfg).run(), program.args

        found.append(Sketch.learn(shown or "derived", build, LEARNING_RUNS))
    if program.work <= SMALL:
        found.append(Sketch.learn("as declared", lambda _: (create_schedule(program.output_tensors), program.args)))
    return tuple(found)


def vector_axes(op: ComputeOp, target: Target) -> list[int]:
    """The places of the data axes worth vectorizing, best first: contiguous where stored, or where read, or long."""
    lanes = target.lanes(op.output(0).dtype.bits)
    long = [at for at, axis in enumerate(op.axis) if extent_of(axis) >= min(lanes, 8)]
    read = {axis for load in loads_of(op) for axis in contiguous(load)}

    def rank(at: int) -> tuple[bool, bool, int]:
        return (at != len(op.axis) - 1, op.axis[at] not in read, -extent_of(op.axis[at]))

    return sorted(long, key=rank)[:2] or [len(op.axis) - 1]


def _reduces_contiguously(op: ComputeOp) -> bool:
    """Whether everything that is large is read along a reduce axis, so that lanes over it read without gaps."""
    return all(any(axis.kind == "reduce" for axis in contiguous(load)) for load in loads_of(op))


class Derivation:
    """One schedule in the making. anchors: the operation at root in whose loops each one lies. sites: by anchor the
    loops at which producers may be computed, from the outermost inwards."""

    def __init__(self, program: Program, target: Target, vectors: dict[ComputeOp, int], cfg: Configurator) -> None:
        self.program, self.target, self.cfg = program, target, cfg
        self.s = create_schedule(program.output_tensors)
        self.tails = {op: program.tails[op] for op, axis in vectors.items() if axis >= 0}
        self.vectors = vectors
        self.anchors: dict[Operation, ComputeOp] = {}
        self.sites: dict[Operation, list[IterVar]] = {}
        self.heads = {tail[-1] if tail else op: op for op, tail in self.tails.items()}
        self.inlined = {one for op, tail in self.tails.items() if tail for one in (op, *tail[:-1])}

    def run(self) -> Schedule:
        """The schedule."""
        for op in reversed(self.program.ops):
            if op in self.inlined:
                self.anchors[op] = self.anchors[self.program.consumers[op][0]]
            elif op in self.heads:
                self.anchors[op] = op
                Tiling(self, self.heads[op], op).run()
            elif op in self.program.outputs:
                self.at_root(op)
            else:
                self.place(op)
        return self.s

    def parallel(self, stage: Stage, axis: IterVar) -> None:
        """Shares a loop among the threads: where the program is small, that is one of its decisions."""
        self.cfg.share_knob("threads", [True, False] if self.program.work <= SMALL else [True])
        if self.cfg["threads"].val:
            stage.parallel(axis)

    def lanes(self, op: ComputeOp) -> int:
        """How many of its values a vector register holds."""
        return self.target.lanes(op.output(0).dtype.bits)

    def at_root(self, op: ComputeOp) -> None:
        """An anchor."""
        self.anchors[op] = op
        if isinstance(op, TensorComputeOp):  # an intrinsic has its loops: only those around it are ours
            outer = list(self.s[op].op.axis[: len(op.outer_axis)])
            if outer:
                self.parallel(self.s[op], outer[0])
            self.sites[op] = outer
        elif not op.axis and op.reduction is None:
            self.sites[op] = []
        elif op.reduction is not None:
            self.sites[op] = Reducing(self, op).at_root()
        else:
            self.sites[op] = Sweeping(self, op).run()

    def place(self, op: ComputeOp) -> None:
        """Decide where something that others read is computed."""
        ways = ["at 0", *(["at 1"] if self.heads else []), "root"]
        called = any(one.calls_intrinsic for one in (op, *self.program.consumers[op]))
        if op.reduction is None and op.num_outputs == 1 and not called:
            ways.insert(len(ways) if is_expensive(op) else 0, "inline")
        self.cfg.define_knob(f"{op.name} place", ways)
        way = self.cfg[f"{op.name} place"].val
        anchors = {self.anchors[reader] for reader in self.program.consumers[op]}
        anchor = anchors.pop() if len(anchors) == 1 else None
        if way == "inline":
            self.s[op].compute_inline()
            self.anchors[op] = anchor if anchor is not None else op
            return
        if way == "root":
            self.at_root(op)
            return
        site, sites = int(way.split()[1]), self.sites.get(anchor, []) if anchor is not None else []
        if anchor is None or site >= len(sites):
            raise Rejected
        self.anchors[op], axis = anchor, sites[site]
        self.s[op].compute_at(self.s[anchor], axis)
        if op.calls_intrinsic:
            return
        if op.reduction is not None:
            Reducing(self, op).attached(anchor, axis)
        elif op.axis and extents_of(op)[-1] > 1:
            self.s[op].vectorize(self.s[op].op.axis[-1])
