"""Scans at lowering: which stages are computed within a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LoweringError, user_source
from ..te.scan import ScanOp
from ..te.tensor import Tensor
from .axes import outline
from .lower_errors import OutsideOfScan, PartOfScan

if TYPE_CHECKING:
    from .dataflow import Computation, Dataflow
    from .schedule import Schedule
    from .stage import Stage

__all__ = ["place_bodies", "scan_states"]


def scan_states(schedule: Schedule) -> dict[Tensor, Stage]:
    """The placeholders that stand for the states of scans, which nobody passes, with the scans' stages."""
    return {state: stage for stage in schedule.stages if isinstance(stage.op, ScanOp) for state in stage.op.states}


# Placing


def place_bodies(dataflow: Dataflow) -> None:
    """Put the stages of every scan that stand at root where they belong, those of an outer scan first.

    Raises PartOfScan and OutsideOfScan.
    """
    for scan in reversed(dataflow.computations):
        if isinstance(scan.op, ScanOp):
            _place(dataflow, scan, scan.op)
    states = {state: scan for scan in dataflow.computations if isinstance(scan.op, ScanOp) for state in scan.op.states}
    for computation in dataflow.computations:
        for state in computation.reads:
            if state in states and not _within(computation, states[state]):
                raise _outside(computation, states[state], f"reads the state {state.name}")


def _place(dataflow: Dataflow, scan: Computation, op: ScanOp) -> None:
    innermost = len(scan.stage.leaf_iter_vars)
    threads = sum(axis.kind == "thread" for axis in scan.stage.leaf_iter_vars)
    updates = {tensor.op for tensor in op.update}
    inits = {tensor.op for tensor in op.init}
    for computation, stepwise in _body(dataflow, op).items():
        if stepwise and computation.is_output:
            raise _part(computation, scan, "is computed step by step")
        if computation.stage.attach_type == "root" and not computation.is_output:
            computation.parent, computation.place = scan, innermost
        if computation.op in updates:
            _share(computation, scan)
    for operation in inits:
        init = dataflow.by_op[operation]
        if init.is_output:
            raise _part(init, scan, "is the beginning of its state")
        _share(init, scan)
        if init.stage.attach_type == "root":
            init.parent, init.place = scan, threads - 1


def _share(computation: Computation, scan: Computation) -> None:
    """Its results lie in the memory of the scan."""
    if computation.stage.scope:
        raise _part(computation, scan, f"lies in its memory, not in {computation.stage.scope}",
                    f's[{scan.name}].set_scope("{computation.stage.scope}")')
    computation.home = scan


def _body(dataflow: Dataflow, op: ScanOp) -> dict[Computation, bool]:
    """The updates, and what leads from states and inputs to them; whether it depends on a state."""
    states, ends = set(op.states), {*op.states, *op.inputs}
    reached: set[Computation] = set()
    stack = [dataflow.by_op[tensor.op] for tensor in op.update]
    while stack:
        computation = stack.pop()
        if computation in reached:
            continue
        reached.add(computation)
        stack += [dataflow.by_op[tensor.op] for tensor in computation.reads
                  if tensor not in ends and tensor.op in dataflow.by_op]
    updates = {tensor.op for tensor in op.update}
    body: dict[Computation, bool] = {}
    for computation in dataflow.computations:
        if computation in reached:
            before = [dataflow.by_op[tensor.op] for tensor in computation.reads
                      if tensor not in ends and tensor.op in dataflow.by_op]
            if computation.op in updates or not ends.isdisjoint(computation.reads) or any(one in body for one in before):
                body[computation] = (computation.op in updates or not states.isdisjoint(computation.reads)
                                     or any(body.get(one, False) for one in before))
    return body


def _within(computation: Computation, scan: Computation) -> bool:
    """Whether it is computed in a step of the scan."""
    inner = computation
    for outer in computation.path()[1:]:
        if outer is scan:
            return inner.place >= len(scan.stage.leaf_iter_vars) - 1
        inner = outer
    return False


def _part(computation: Computation, scan: Computation, how: str, fix: str = "") -> PartOfScan:
    name = computation.name
    return PartOfScan(f"cannot lower: {name} is a part of the scan {scan.name}", reason=f"{name} {how}",
                      declared=computation.op.source, called=user_source(),
                      fix=fix or f"pass {scan.name}, which holds all steps, or compute a copy of {name} outside of it")


def _outside(computation: Computation, scan: Computation, what: str) -> LoweringError:
    return OutsideOfScan(f"cannot lower: {computation.name} lies outside the steps of the scan {scan.name}",
                         reason=f"{computation.name} {what}, which changes with each step", declared=computation.op.source,
                         called=user_source(), loops=outline(scan.stage),
                         fix=f"s[{computation.name}].compute_root() puts it into the step; outside the scan read {scan.name}")
