"""Scans at lowering: which stages are computed within a step."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.errors import LoweringError, user_source
from ...ir import Expr, IterVar, free_vars
from ...te.scan import ScanOp
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ..model.checks import outline
from ..model.scan_loops import time_loops_in_order
from .computation import Computation, Dataflow
from .errors import OutsideOfScan, PartOfScan

__all__ = ["check_states", "find_attached", "place_body"]


# Placing


def check_states(dataflow: Dataflow) -> None:
    """Raise OutsideOfScan (TW0346) where the state of a scan is read by what is not computed in its steps."""
    scans = {state: scan for scan in dataflow.computations for state in scan.op.own_placeholders}
    for computation in dataflow.computations:
        for state in computation.reads:
            if state in scans and not _is_in_step(computation, scans[state]):
                # a state has another value in each step
                raise _misplaced_error(computation, scans[state], f"reads the state {state.name}")


def place_body(dataflow: Dataflow, scan: Computation) -> None:
    """Put the stages of a scan that stand at root where they belong. Of scans within each other the outer one comes first.

    Raises PartOfScan (TW0347).
    """
    op = scan.op
    assert isinstance(op, ScanOp)
    innermost = len(scan.stage.leaf_iter_vars)
    threads = sum(axis.kind == "thread" for axis in scan.stage.leaf_iter_vars)
    body = _body(dataflow, op)
    if not threads:  # threads around the time loop run all of the scan
        for computation in _alike(dataflow, op, body):
            del body[computation]
    # threads around the time loop have extents that are declared for all columns
    scan.linked = () if threads else _separable(list(body), scan, op)
    scan.whole = not scan.linked
    updates = {tensor.op for tensor in op.update}
    inits = dict.fromkeys(tensor.op for tensor in op.init)
    for computation, stepwise in body.items():
        if stepwise and computation.is_output:  # an output would hold only the last step
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
        elif _find_scan_loop(init, scan) >= threads:  # an initial state must be there before the first step
            raise _part(
                init,
                scan,
                "is the beginning of its state, and computed once, before the loop over time",
                f"s[{init.name}].compute_root()",
            )
    _hold_time(
        dataflow, [computation for computation in body if _find_scan_loop(computation, scan) >= innermost - 1], scan, op
    )


def _find_scan_loop(computation: Computation, scan: Computation) -> int:
    """Return the loop of the scan at which it is computed, itself or what it is computed at; -1 for none."""
    at = find_attached(computation, scan)
    return -1 if at is None else at.place


def find_attached(computation: Computation, scan: Computation) -> Computation | None:
    """Return the stages computed at a loop of the scan: itself, or one that is computed at it."""
    at: Computation | None = computation
    while at is not None and at.parent is not scan:
        at = at.parent
    return at


def _share(computation: Computation, scan: Computation) -> None:
    """Its results lie in the memory of the scan."""
    if computation.stage.scope:  # its memory is the scan's, so its scope cannot differ
        raise _part(
            computation,
            scan,
            f"lies in its memory, not in {computation.stage.scope}",
            f's[{scan.name}].set_scope("{computation.stage.scope}")',
        )
    if computation.stage.overlap:
        raise _part(
            computation,
            scan,
            f"lies in its memory, which holds all steps: no {computation.stage.overlap} buffer stands for it",
            f"keep the memory of {scan.name} as it is, or give a copy of it such a buffer",
        )
    computation.home = scan


def _body(dataflow: Dataflow, op: ScanOp) -> dict[Computation, bool]:
    """The updates, and what leads from states and inputs to them; whether it depends on a state."""
    states, ends = set(op.states), {*op.states, *op.inputs}
    reached: set[Computation] = set()
    stack = [dataflow.by_op[tensor.op] for tensor in op.update]
    while stack:
        computation = stack.pop()
        if computation in reached:
            continue  # a stage that several updates read is met once
        reached.add(computation)
        stack += [
            dataflow.by_op[tensor.op]
            for tensor in computation.reads
            if tensor not in ends and tensor.op in dataflow.by_op
        ]
    updates = {tensor.op for tensor in op.update}
    body: dict[Computation, bool] = {}
    for computation in dataflow.computations:
        if computation in reached:
            before = [
                dataflow.by_op[tensor.op]
                for tensor in computation.reads
                if tensor not in ends and tensor.op in dataflow.by_op
            ]
            if (
                computation.op in updates
                or not ends.isdisjoint(computation.reads)
                or any(producer in body for producer in before)
            ):
                body[computation] = (
                    computation.op in updates
                    or not states.isdisjoint(computation.reads)
                    or any(body.get(producer, False) for producer in before)
                )
    for computation in reversed(body.copy()):  # what others read too stands before the scan
        readers = dataflow.consumers.get(computation.op, ())
        if not body[computation] and any(reader not in body for reader in readers):
            del body[computation]
    return body


def _alike(dataflow: Dataflow, op: ScanOp, body: dict[Computation, bool]) -> list[Computation]:
    """The stages at root that are the same in every step, such as copies of weights: no reader's index depends on
    time. They are computed once, before the scan."""
    over_time: set[Expr] = {op.scan_axis, *(tensor.op.axis[0] for tensor in op.update)}
    alike: list[Computation] = []
    for computation, stepwise in reversed(body.items()):
        changes = stepwise or computation.is_output or computation.stage.attach_type != "root"
        for tensor, dims in zip(computation.op.outputs, computation.op.dimensions, strict=True):
            reads = [
                indices
                for reader in dataflow.consumers.get(computation.op, ())
                for indices in reader.reads.get(tensor, ())
            ]
            for axis, *indices in zip(dims, *reads, strict=True):
                # the index changes with time, so the stage does
                if any(not over_time.isdisjoint(free_vars(index)) for index in indices):
                    over_time.add(axis)
                    changes = True
        if not changes:
            alike.append(computation)
    return alike


def _hold_time(dataflow: Dataflow, body: list[Computation], scan: Computation, op: ScanOp) -> None:
    """Note the dimensions that are time: those that every reader reads at its own time, from the scan on. Loops that run
    beyond what they were split from would have more steps computed than there are. body: what is computed in a single step."""
    now: set[Expr] = {op.scan_axis}
    for computation in reversed(body):
        reads: dict[IterVar, list[Expr]] = {}
        for tensor, dims in zip(computation.op.outputs, computation.op.dimensions, strict=True):
            for reader in dataflow.consumers.get(computation.op, ()):
                for indices in reader.reads.get(tensor, ()):
                    for axis, index in zip(dims, indices, strict=True):
                        reads.setdefault(axis, []).append(index)
        for axis, indices in reads.items():
            if all(index in now for index in indices):  # every reader reads its own time, so one step is enough
                now.add(axis)
                computation.held[axis] = scan


def _separable(body: list[Computation], scan: Computation, op: ScanOp) -> tuple[tuple[IterVar, ...], ...]:
    """The dimensions of the states that no step mixes, so that a part of them can be computed by itself; together those
    that have to be computed over one range, since one state's is read at the index of another's. Notes the dimensions of the
    stages that go with them.

    Indices are followed from the updates back to the states: a dimension is kept apart where each read on the way is at the
    index itself. Wherever that is not known, the dimension counts as mixed.
    """
    groups = _Groups(axis for dims in op.dims for axis in dims[1:])
    known: dict[tuple[Tensor, int], IterVar] = {}
    for update, dims in zip(op.update, op.dims, strict=True):
        known.update(((update, at), axis) for at, axis in enumerate(dims) if at)
    states = dict(zip(op.states, op.dims, strict=True))
    produced = {tensor for computation in body for tensor in computation.op.outputs}
    owns: dict[Computation, dict[IterVar, IterVar]] = {}
    for computation in reversed(body):
        own = owns[computation] = {}
        # dimension 0 is time, which is not separable
        for tensor, dims in zip(computation.op.outputs, computation.op.dimensions, strict=True):
            for at, axis in enumerate(dims):
                dimension = known.get((tensor, at))
                if dimension is not None:
                    groups.join(own.setdefault(axis, dimension), dimension)
        for tensor, reads in computation.reads.items():
            for at in range(tensor.ndim) if tensor in states or tensor in produced else ():
                for indices in reads:
                    index = indices[at]
                    # an index that is no axis mixes the elements of a dimension
                    tag = own.get(index) if isinstance(index, IterVar) and index not in computation.free else None
                    if tensor in states:
                        if at:
                            groups.join(states[tensor][at], tag)
                    elif tag is None:
                        groups.join(known.get((tensor, at)), None)
                    else:
                        groups.join(known.setdefault((tensor, at), tag), tag)
    separate = groups.uniform_groups()
    apart = {axis for group in separate for axis in group}
    for computation, own in owns.items():
        computation.parts = {axis: (scan, tag) for axis, tag in own.items() if tag in apart}
    return separate


class _Groups:
    """Dimensions that go together; those that join None are mixed."""

    def __init__(self, axes: Iterable[IterVar]) -> None:
        self.group: dict[IterVar, list[IterVar]] = {axis: [axis] for axis in axes}
        self.mixed: set[IterVar] = set()

    def join(self, a: IterVar | None, b: IterVar | None) -> None:
        """Join b to a: reads of b become reads of a."""
        if a is None or b is None:  # mixing is contagious: what is joined with None is mixed
            self.mixed.update(axis for axis in (a, b) if axis is not None)
        elif self.group[a] is not self.group[b]:  # both sides of one group already: nothing to merge
            merged = self.group[a] + self.group[b]
            self.group.update((axis, merged) for axis in merged)

    def uniform_groups(self) -> tuple[tuple[IterVar, ...], ...]:
        """The groups without mixed members, whose members are of one extent."""
        groups: dict[int, tuple[IterVar, ...]] = {id(group): tuple(group) for group in self.group.values()}
        return tuple(
            group
            for group in groups.values()
            if self.mixed.isdisjoint(group)
            and all(
                axis.dom is not None and group[0].dom is not None and same_extent(axis.dom.extent, group[0].dom.extent)
                for axis in group
            )
        )


def _is_in_step(computation: Computation, scan: Computation) -> bool:
    """Return whether it is computed in a step of the scan, or in a tile of steps that follow each other."""
    place, leaves = _find_scan_loop(computation, scan), scan.stage.leaf_iter_vars
    return place >= len(leaves) - 1 or (  # the innermost loop is a single step
        place >= 0 and leaves[place].kind == "ordered" and time_loops_in_order(scan.stage, scan.op.axis[0])
    )


def _part(computation: Computation, scan: Computation, how: str, fix: str = "") -> PartOfScan:
    name = computation.name
    return PartOfScan(
        f"cannot lower: {name} is a part of the scan {scan.name}",
        reason=f"{name} {how}",
        declared=computation.op.source,
        called=user_source(),
        fix=fix or f"pass {scan.name}, which holds all steps, or compute a copy of {name} outside of it",
    )


def _misplaced_error(computation: Computation, scan: Computation, what: str) -> LoweringError:
    return OutsideOfScan(
        f"cannot lower: {computation.name} lies outside the steps of the scan {scan.name}",
        reason=f"{computation.name} {what}, which changes with each step",
        declared=computation.op.source,
        called=user_source(),
        loops=outline(scan.stage),
        fix=f"s[{computation.name}].compute_root() puts it into the step; outside the scan read {scan.name}",
    )
