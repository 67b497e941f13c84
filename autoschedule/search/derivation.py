"""One schedule of the derived space in the making: what its rules share."""

from __future__ import annotations

from ...codegen.target import Target
from ...ir.expr import IterVar
from ...schedule import Stage, create_schedule
from ...te.operation import Operation
from .operation_graph import OperationGraph
from .space import Configurator

__all__ = ["SMALL", "Derivation"]

SMALL = 1 << 22
"""Work for which waking the threads may cost more than they save, or scheduling anything at all."""


class Derivation:
    """One schedule in the making. anchors: the operation at root in whose loops each one lies. sites: by anchor the
    loops at which producers may be computed, from the outermost inwards."""

    def __init__(self, graph: OperationGraph, target: Target, vectors: dict[Operation, int], cfg: Configurator) -> None:
        self.graph, self.target, self.cfg = graph, target, cfg
        self.s = create_schedule(graph.output_tensors)
        self.tails = {op: graph.tails[op] for op, axis in vectors.items() if axis >= 0}
        self.vectors = vectors
        self.anchors: dict[Operation, Operation] = {}
        self.sites: dict[Operation, list[IterVar]] = {}
        self.heads = {tail[-1] if tail else op: op for op, tail in self.tails.items()}
        self.inlined = {member for op, tail in self.tails.items() if tail for member in (op, *tail[:-1])}

    def parallel(self, stage: Stage, axis: IterVar) -> None:
        """Shares a loop among the threads: where the program is small, that is one of its decisions."""
        self.cfg.share_knob("threads", [True, False] if self.graph.work <= SMALL else [True])
        if self.cfg["threads"].val:
            stage.parallel(axis)

    def lanes(self, op: Operation) -> int:
        """How many of its values a vector register holds."""
        return self.target.lanes(op.output(0).dtype.bits)
