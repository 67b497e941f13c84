"""The derived space: rules that schedule any program of tensor expressions for a CPU, with what is open as parts.

Operations are visited from the outputs to the inputs. An operation at root is an anchor: its outermost loops are shared
among threads, and it has sites, loops at which what it reads may be computed. The rules:

    a reduction with reuse         tiles in registers, over three levels of loops (tiles.py)
    another reduction              in vector lanes, by rfactor or over a data axis (reductions.py)
    an elementwise operation       after a reduction with reuse: inlined into the store of the tile
    any other                      inlined, at root, or at a site of the one anchor that reads it

Sketches differ in the axis over which each reduction with reuse is vectorized, or in leaving it to the second rule. Of
a small program the declaration itself is one too, and whether to wake the threads is a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from ...codegen.target import Target
from ...schedule import Schedule, create_schedule
from ...te import Tensor
from ...te.operation import Operation
from ...te.tensor_compute import intrinsic_call
from ..operations import contiguous, extents_of, fixed_extent, is_expensive, loads_of
from .derivation import SMALL, Derivation
from .operation_graph import OperationGraph
from .reductions import ReductionRule
from .space import Configurator, Rejected, Sketch
from .sweeps import SweepRule
from .tiles import TileRule

__all__ = ["derive"]

MAX_SKETCHES = 8
LEARNING_RUNS = 24
"""How often a rule is tried out to find its parts: some are asked for only where others were decided in some way."""


def derive(args: Sequence[Tensor], outputs: Sequence[Tensor], target: Target) -> tuple[Sketch, ...]:
    """The sketches of a function of static shapes: `args` in call order, of which `outputs` are computed."""
    graph = OperationGraph(args, outputs)
    heavy = list(graph.tails)
    ways = [[*vector_axes(op, target), *([-1] if _reduces_contiguously(op) else [])] for op in heavy]
    sketches: list[Sketch] = []
    for chosen in islice(product(*ways), MAX_SKETCHES):
        vectors = dict(zip(heavy, chosen, strict=True))
        shown = ", ".join(f"{op.name} in lanes" if at < 0 else f"{op.name} over {op.axis[at].name}" for op, at in vectors.items())

        def build(cfg: Configurator, vectors: dict[Operation, int] = vectors) -> tuple[Schedule, Sequence[Tensor]]:
            return _schedule(Derivation(graph, target, vectors, cfg)), graph.args

        sketches.append(Sketch.learn(shown or "derived", build, LEARNING_RUNS))
    if graph.work <= SMALL:
        sketches.append(Sketch.learn("as declared", lambda _: (create_schedule(graph.output_tensors), graph.args)))
    return tuple(sketches)


def vector_axes(op: Operation, target: Target) -> list[int]:
    """The places of the data axes worth vectorizing, best first: contiguous where stored, or where read, or long."""
    lanes = target.lanes(op.output(0).dtype.bits)
    long = [at for at, axis in enumerate(op.axis) if fixed_extent(axis) >= min(lanes, 8)]
    read = {axis for load in loads_of(op) for axis in contiguous(load)}

    def rank(at: int) -> tuple[bool, bool, int]:
        return (at != len(op.axis) - 1, op.axis[at] not in read, -fixed_extent(op.axis[at]))

    return sorted(long, key=rank)[:2] or [len(op.axis) - 1]


def _reduces_contiguously(op: Operation) -> bool:
    """Whether everything that is large is read along a reduce axis, so that lanes over it read without gaps."""
    return all(any(axis.kind == "reduce" for axis in contiguous(load)) for load in loads_of(op))


def _schedule(derivation: Derivation) -> Schedule:
    """The schedule of one configuration."""
    for op in reversed(derivation.graph.ops):
        if op in derivation.inlined:
            derivation.anchors[op] = derivation.anchors[derivation.graph.consumers[op][0]]
        elif op in derivation.heads:
            derivation.anchors[op] = op
            TileRule(derivation, derivation.heads[op], op).run()
        elif op in derivation.graph.outputs:
            _at_root(derivation, op)
        else:
            _place(derivation, op)
    return derivation.s


def _at_root(derivation: Derivation, op: Operation) -> None:
    """An anchor."""
    derivation.anchors[op] = op
    call = intrinsic_call(op)
    if call is not None:  # an intrinsic has its loops: only those around it are ours
        outer = list(derivation.s[op].op.axis[: len(call.outer_axis)])
        if outer:
            derivation.parallel(derivation.s[op], outer[0])
        derivation.sites[op] = outer
    elif not op.axis and op.reduction is None:
        derivation.sites[op] = []
    elif op.reduction is not None:
        derivation.sites[op] = ReductionRule(derivation, op).at_root()
    else:
        derivation.sites[op] = SweepRule(derivation, op).run()


def _place(derivation: Derivation, op: Operation) -> None:
    """Decide where something that others read is computed."""
    ways = ["at 0", *(["at 1"] if derivation.heads else []), "root"]
    called = any(reader.calls_intrinsic for reader in (op, *derivation.graph.consumers[op]))
    if op.reduction is None and op.num_outputs == 1 and not called:
        ways.insert(len(ways) if is_expensive(op) else 0, "inline")
    derivation.cfg.define_knob(f"{op.name} place", ways)
    way = derivation.cfg[f"{op.name} place"].val
    anchors = {derivation.anchors[reader] for reader in derivation.graph.consumers[op]}
    anchor = anchors.pop() if len(anchors) == 1 else None
    if way == "inline":
        derivation.s[op].compute_inline()
        derivation.anchors[op] = anchor if anchor is not None else op
        return
    if way == "root":
        _at_root(derivation, op)
        return
    site, sites = int(way.split()[1]), derivation.sites.get(anchor, []) if anchor is not None else []
    if anchor is None or site >= len(sites):
        raise Rejected
    derivation.anchors[op], axis = anchor, sites[site]
    derivation.s[op].compute_at(derivation.s[anchor], axis)
    if op.calls_intrinsic:
        return
    if op.reduction is not None:
        ReductionRule(derivation, op).attached(anchor, axis)
    elif op.axis and extents_of(op)[-1] > 1:
        derivation.s[op].vectorize(derivation.s[op].op.axis[-1])
