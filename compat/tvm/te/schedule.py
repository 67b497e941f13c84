"""tvm.te.schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....driver.lower import lower
from ....ir import BinaryOp, Buffer, Cast, Expr, IntImm, Node, Range, Stmt, Var, post_order, rewrite, substitute
from ....ir.arith import Analyzer
from ....ir.expr import IterVar as _IterVar
from ....ir.ops import const
from ....schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective
from ....schedule.lowering.bounds import infer_bounds
from ....schedule.lowering.dataflow import analyse
from ....schedule.model.relations import Fuse, Rebase, Singleton, Split
from ....te import ScanOp, Tensor
from ....te.operation import Operation, producers_first
from ..container import Map
from ..nodes import theirs
from ..tir import IterVar
from .stage import Group, Schedule, Stage, create_schedule

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Buffer",
    "CreateAttachPath",
    "CreateReadGraph",
    "Fuse",
    "Group",
    "InferBound",
    "IterVar",
    "PostDFSOrder",
    "Rebase",
    "ScanFixPointAnalysis",
    "ScanGetBody",
    "Schedule",
    "ScheduleOps",
    "Singleton",
    "Split",
    "Stage",
    "create_schedule",
]


def ScheduleOps(schedule: Schedule, dom_map: object = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of a schedule, before any pass. dom_map: what InferBound found, which is found again."""
    del dom_map, debug_keep_trivial_loop
    given = [stage.op for stage in schedule.stages if stage.op.is_passed]
    return theirs(lower(schedule, [tensor for op in (*given, *schedule.outputs) for tensor in op.outputs]).body)


def InferBound(schedule: Schedule) -> Map[_IterVar, Range]:
    """The range of every iteration variable of the schedule's stages, in terms of the leaves around; of those that only symbols
    of int32 tell, in int32."""
    analyzer = Analyzer()
    stages = list(infer_bounds(analyse(schedule), analyzer).of.values())
    leaf_of: dict[Var, Expr] = {loop.var: loop.axis for stage in stages for loop in stage.loops if loop.var is not None}

    def bound(value: Expr) -> Expr:
        return substitute(_narrow(value, analyzer), leaf_of)

    return Map(
        {
            axis: Range(bound(within.begin), bound(within.extent))
            for stage in stages
            for axis, within in stage.ranges.items()
        }
    )


def _narrow(bound: Expr, analyzer: Analyzer) -> Expr:
    """A bound of int64 without the conversions that keep it from overflowing, where it then is of int32."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, Cast) and node.dtype == "int64" and node.value.dtype == "int32":
            return node.value
        if isinstance(node, IntImm) and node.dtype == "int64" and abs(node.value) < 2**31:
            return const(node.value, "int32")
        if isinstance(node, BinaryOp) and node.a.dtype == node.b.dtype:
            return type(node)(node.a, node.b)
        return None

    if bound.dtype != "int64" or any(isinstance(node, Var) and node.dtype != "int32" for node in post_order(bound)):
        return bound
    return analyzer.simplify(rewrite(bound, rule))


def CreateReadGraph(ops: Sequence[Operation]) -> Map[Operation, list[Tensor]]:
    """Return the tensors that each of the operations, and of those that they read, reads."""
    return Map({op: list(op.input_tensors) for op in producers_first(list(ops))})


def PostDFSOrder(roots: Sequence[Operation], graph: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:
    """The operations of a graph, each after those that it reads."""
    return [op for op in producers_first(list(roots)) if op in graph]


def ScanGetBody(scan: ScanOp) -> list[Operation]:
    """The scan and what its steps compute from its states."""
    states = set(scan.states)
    order = producers_first([scan])
    body: dict[Operation, None] = {}
    for op in order:
        if any(tensor in states or tensor.op in body for tensor in op.input_tensors):
            body[op] = None
    return list(body)


def ScanFixPointAnalysis(scan: ScanOp) -> Map[_IterVar, Expr]:
    """1 for each dimension of the states that no step mixes, so that a part of it can be computed by itself; else 0."""
    linked = {
        axis
        for computation in analyse(create_schedule(scan)).computations
        if computation.op is scan
        for group in computation.linked
        for axis in group
    }
    return Map({axis: const(int(axis in linked)) for axis in scan.spatial_axis_})


def CreateAttachPath(schedule: Schedule) -> Map[Operation, list[_IterVar]]:
    """The loops that each operation is computed within, innermost first."""
    path: Map[Operation, list[_IterVar]] = Map()
    for computation in analyse(schedule).computations:
        around: list[_IterVar] = []
        at = computation
        while at.parent is not None:
            around += reversed(at.parent.stage.leaf_iter_vars[: at.place + 1])
            at = at.parent
        path[computation.op] = around
    return path
