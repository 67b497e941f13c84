"""Loops as they were lowered, as nests that can be estimated: what a plan says of a choice that its rule did not estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ..base import LoweringError, dataclass, replace
from ..codegen.gpus import Gpu
from ..codegen.machine import Machine, find_machine
from ..codegen.target import Target
from ..ir import Buffer, BufferLoad, BufferStore, Call, LoopKind, ProducerLoad, Var, post_order, walk
from ..ir.analysis.footprint import Access, Array
from ..ir.analysis.warps import collect_kernels
from ..ir.analysis.work import Statement, Work, measure_work
from ..ir.passes.common.solved_loops import solve_loops
from ..schedule import Schedule, Stage
from ..schedule.lowering.lower import Lowered, lower_parts
from ..schedule.lowering.text import all_arguments
from .accesses import ASSUMED
from .cost.bodies import Site, assemble_body
from .cost.cpu import estimate
from .cost.estimate import Estimate
from .cost.gpu import estimate_kernels
from .cost.instructions import list_work
from .gpu.shortfalls import shortfalls
from .loop_nest import Body, Nest
from .lowered_kernels import nest_of_kernel
from .plan import Decision, Plan

__all__ = ["estimate_schedule", "build_nest", "build_plan"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Item(Generic[Item]):
    """Loops or a kernel at root, and the arrays that it stores to and reads."""

    item: Item
    stored: Sequence[Array]
    read: Sequence[Array]


def build_plan(s: Schedule) -> Plan:
    """The choices of rules for a schedule, or what a person chose, on the processor at hand. What rules did not estimate is estimated
    here, from the loops as they are now; and what these leave of a GPU is said."""
    rows: tuple[Decision, ...] = s.decisions or tuple(_choices_by_hand(s))
    if all(row.estimate is not None and row.gpu is None for row in rows):
        return Plan(rows)
    try:
        lowered = lower_parts(s, all_arguments(s))
    except LoweringError:  # changed further, and not whole yet
        return Plan(rows)
    gpu = next((row.gpu for row in rows if row.gpu is not None), None)
    if gpu is not None:
        return Plan(tuple(_estimate_kernels(s, lowered, rows, gpu)))
    nests = _nests(s, lowered, rows)
    return Plan(
        tuple(
            replace(row, estimate=row.estimate or (estimate(nests[at], row.machine) if at in nests else None))
            for at, row in enumerate(rows)
        )
    )


def _choices_by_hand(s: Schedule) -> Iterator[Decision]:
    """A row for each stage at root of a schedule without rules, with those computed for it; none of one for GPUs."""
    stages = [stage for stage in s.stages if not stage.op.is_given]
    if any(stage.attr(axis).kind == "thread" for stage in stages for axis in stage.leaf_iter_vars):
        return
    machine, text = find_machine(Target("llvm")), "by hand" if s.records else "as declared"
    for stage in stages:
        if stage.attach_type == "root":
            within = tuple(each.op.name for each in stages if _stage_at_root(each) is stage and each is not stage)
            yield Decision("none", stage.op.name, within, stage.op, machine, ((text, None),), 0, None)


def _stage_at_root(stage: Stage) -> Stage:
    """The stage at root in whose loops a stage is computed."""
    while stage.attach_stage is not None:
        stage = stage.attach_stage
    return stage


def _estimate_kernels(s: Schedule, lowered: Lowered, rows: Sequence[Decision], gpu: Gpu) -> Iterator[Decision]:
    """The rows of a plan for a GPU, each with its kernels' time where it has none, and what they leave of the GPU."""
    kernels = [
        _Item(
            kernel,
            [node.buffer for node in walk(kernel) if isinstance(node, BufferStore)],
            [node.buffer for node in walk(kernel) if isinstance(node, BufferLoad)],
        )
        for kernel in collect_kernels(lowered.function)
    ]
    owned = _assign_items(s, lowered, rows, kernels)
    for at, row in enumerate(rows):
        own = owned.get(at, [])
        time = row.estimate
        if time is None and own:
            time = estimate_kernels([nest_of_kernel(kernel, row.machine) for kernel in own], gpu)
        reason = "; ".join(filter(None, (row.reason, shortfalls(own, gpu))))
        yield replace(row, estimate=time, reason=reason)


def estimate_schedule(s: Schedule, machine: Machine) -> Estimate:
    """Time of a whole schedule, from its loops. Raises LoweringError where it does not hold together."""
    return estimate(build_nest(_measure(lower_parts(s, all_arguments(s))), machine), machine)


def _measure(lowered: Lowered) -> Work:
    """The work of a program, of loops over cells that data chooses a single iteration."""
    return measure_work(solve_loops(lowered.function))


def _nests(s: Schedule, lowered: Lowered, rows: Sequence[Decision]) -> dict[int, Nest]:
    """Return the loops of each row, by its place."""
    items: list[_Item[Statement | Work]] = []
    for item in _measure(lowered).body:
        statements = item.all_statements() if isinstance(item, Work) else [item]
        accesses = [access for each in statements for access in each.accesses]
        stored, read = ([access.array for access in accesses if access.stored is kind] for kind in (True, False))
        items.append(_Item(item, stored, read))
    return {
        at: Nest(None, 1, tuple(part for item in own for part in _parts(item, rows[at].machine, {}, {}, None)))
        for at, own in _assign_items(s, lowered, rows, items).items()
    }


def _assign_items(
    s: Schedule, lowered: Lowered, rows: Sequence[Decision], items: Sequence[_Item[Item]]
) -> dict[int, list[Item]]:
    """Return, by the place of a row, the items at root that store its output, with those that no row owns and that these read: its
    copies and parts. What nothing reads that is known here belongs to the next one's row."""
    owners: dict[int, int] = {}
    for at, row in enumerate(rows):
        owners.setdefault(id(s[row.output]), at)
    owned: dict[int, list[Item]] = {}
    readers: dict[Array, int] = {}
    after: int | None = None
    for each in reversed(items):
        tensors = [lowered.tensors.get(buffer) for buffer in each.stored if isinstance(buffer, Buffer)]
        stages = [id(s[tensor]) for tensor in tensors if tensor is not None and tensor in s]
        at = next((owners[stage] for stage in stages if stage in owners), 0 if len(rows) == 1 else None)
        if at is None:  # rows may lie between a copy and its readers
            at = next((readers[buffer] for buffer in each.stored if buffer in readers), after)
        if at is not None:
            owned.setdefault(at, []).insert(0, each.item)
            readers.update(dict.fromkeys(each.read, at))
        after = at
    return owned


def build_nest(work: Work, machine: Machine) -> Nest:
    """The loops of a program."""
    return Nest(None, 1, tuple(part for item in work.body for part in _parts(item, machine, {}, {}, None)))


def _parts(
    item: Statement | Work,
    machine: Machine,
    written_out: Mapping[Var, int],
    lanes: Mapping[Var, int],
    around: Work | None,
) -> Iterator[Nest | Body]:
    """Return the nest or body of a loop or a statement. written_out, lanes: the loops of the body that it is in; around: the loop of which
    that is one iteration."""
    if isinstance(item, Statement):
        yield from _body(item, machine, written_out, lanes, around)
        return
    loop = item.loop
    assert loop is not None
    trips = item.number(ASSUMED)
    if loop.kind is LoopKind.VECTORIZED or loop.kind is LoopKind.UNROLLED and _is_body(item):
        into = {loop.var: trips}
        more = (
            (written_out, {**lanes, **into}) if loop.kind is LoopKind.VECTORIZED else ({**written_out, **into}, lanes)
        )
        for inside in item.body:
            yield from _parts(inside, machine, *more, around)
        return
    nearest = item if trips > 1 else around
    body = tuple(part for inside in item.body for part in _parts(inside, machine, {}, {}, nearest))
    nest = Nest(loop.var, trips, body, loop.kind is LoopKind.PARALLEL)
    for axis, values in {**written_out, **lanes}.items():  # loops written out around a loop
        nest = Nest(axis, values, (nest,))
    yield nest


def _is_body(work: Work) -> bool:
    """Return whether all loops inside are written out or lanes."""
    kinds = {inner.loop.kind for inner in work.all_loops() if inner.loop is not None}
    return kinds <= {LoopKind.UNROLLED, LoopKind.VECTORIZED}


def _body(
    statement: Statement,
    machine: Machine,
    written_out: Mapping[Var, int],
    lanes: Mapping[Var, int],
    around: Work | None,
) -> Iterator[Body]:
    """A statement. A sum whose elements the loop around does not change is kept in registers, as far as there are any."""
    if any(isinstance(value, Call) and value.name == "prefetch" for value in statement.values):
        return  # asks for what is counted where it is read
    accesses = tuple({id(access): access for access in statement.accesses}.values())
    stored = next((access for access in accesses if access.stored), None)
    read = iter([access for access in accesses if not access.stored])
    values = [*statement.values, *statement.conditions]
    loads = [node for node in post_order(*values) if isinstance(node, (BufferLoad, ProducerLoad))]
    found = {id(node): next(read) for node in loads}
    owns = [
        node for node in loads if stored is not None and isinstance(node, BufferLoad) and node.buffer is stored.array
    ]
    local = {id(node) for node in loads if _is_kept(found[id(node)].array)}
    var = around.loop.var if around is not None and around.loop is not None else None
    kept = stored is not None and bool(owns) and (_is_kept(stored.array) or var is not None and not _moves(stored, var))
    rows = {axis: trips for axis, trips in written_out.items() if stored is not None and stored.step(axis)}

    def lies(node: BufferLoad | ProducerLoad) -> Access | None:
        return None if id(node) in local or kept and any(node is own for own in owns) else found[id(node)]

    held: bool = kept or stored is not None and _is_kept(stored.array)
    reached = tuple(access for access in accesses if access is stored or not _is_kept(access.array))
    body = assemble_body(
        values,
        list_work(values, machine),
        None if held else stored,
        lies,
        Site(machine, written_out, lanes, () if var is None else (var,)),
        reached,
        (*written_out.items(), *lanes.items()),
        rows if kept else None,
        owns[0] if kept else None,
        carried=around is None or stored is None or stored.array not in around.allocations,
    )
    if body.accesses or body.instructions:
        yield body


def _is_kept(array: Array) -> bool:
    """Return whether an array lies in registers."""
    return isinstance(array, Buffer) and array.scope == "local"


def _moves(access: Access, var: Var) -> bool:
    return access.indices is None or access.step(var) != 0
