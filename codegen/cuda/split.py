"""Host and device: a function as the kernels that it launches, in order, and the memory that they pass on to each other.

Every loop nest at the root is a kernel. What the function allocates at the root is a workspace, made by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ...base.dataclass import dataclass
from ...ir.accesses import only_checks, written_buffers
from ...ir.arith.analyzer import Analyzer
from ...ir.buffer import Buffer
from ...ir.copies import BULK_FEATURE
from ...ir.copies import FEATURE as COPIES
from ...ir.expr import BufferLoad, Expr, IntImm, Range, Var
from ...ir.ops import const, logical_not
from ...ir.passes.common.bound_checks import bound_checks as check_bounds
from ...ir.passes.common.early_exit import leave_loops
from ...ir.passes.common.flatten import flatten
from ...ir.passes.common.float8 import widen_float8
from ...ir.passes.common.fused_sums import round_sums
from ...ir.passes.common.remove_likely import remove_likely
from ...ir.passes.common.runner import Pass, Watcher, run_pipeline
from ...ir.passes.common.simplify import build_analyzer, simplify
from ...ir.passes.common.target_facts import resolve_facts
from ...ir.passes.common.unsafe_select import unsafe_select
from ...ir.passes.cpu.lane_races import serialize_racing_lanes
from ...ir.passes.cpu.vectorize import vectorize
from ...ir.passes.gpu.accumulated_parts import accumulate_parts
from ...ir.passes.gpu.barriers import insert_barriers
from ...ir.passes.gpu.bulk_copies import BoxMap, place_bulk_copies
from ...ir.passes.gpu.clusters import blocks_together
from ...ir.passes.gpu.errors import NothingBound, SharedOutsideKernel
from ...ir.passes.gpu.flushed_powers import flush_powers
from ...ir.passes.gpu.fragments import place_fragments
from ...ir.passes.gpu.hardware import Hardware
from ...ir.passes.gpu.interior import free_interiors
from ...ir.passes.gpu.lane_guards import share_lane_guards
from ...ir.passes.gpu.narrow import narrow_arithmetic
from ...ir.passes.gpu.narrow_results import narrow_results
from ...ir.passes.gpu.paired_loads import pair_loads
from ...ir.passes.gpu.product_overlap import begin_products_first
from ...ir.passes.gpu.reduce import join_thread_reductions, pair_inits
from ...ir.passes.gpu.registers import free_registers
from ...ir.passes.gpu.remove_prefetches import remove_prefetches
from ...ir.passes.gpu.rounded_factors import round_factors
from ...ir.passes.gpu.row_values import move_row_values
from ...ir.passes.gpu.shared_memory_reuse import separate
from ...ir.passes.gpu.swizzle import fence_stores, place_panels
from ...ir.passes.gpu.threads import map_threads
from ...ir.passes.gpu.vthread import inject_virtual_threads
from ...ir.passes.gpu.warp_specialization import add_producer, name_barriers
from ...ir.stmt import Allocate, Attr, BufferStore, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...ir.visit import free_vars, statements, walk

__all__ = ["FEATURES", "VECTOR_BITS", "DeviceKernel", "SplitFunction", "split"]

VECTOR_BITS = 128
"""The widest load and store of one thread."""

FEATURES = frozenset({"cuda", "mma_m16n8k16", COPIES})
"""What te.target_has says yes to on all architectures that code is made for."""


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """One launch. function: its parameters are the buffers and scalars that it uses, its body holds the thread loops
    outermost. args: what each parameter is, by its place in (the function's parameters, workspaces, shape symbols). maps: of the
    boxes that the copy engine copies, the first parameters, which args leaves out; each with the place of its tensor. cluster:
    blocks along x that run together."""

    function: Function
    hardware: Hardware
    args: tuple[int, ...]
    maps: tuple[tuple[BoxMap, int], ...] = ()
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class SplitFunction:
    """Function split into kernels for the GPU.

    kernels: in launch order. workspaces: memory between them, by buffer. symbols: shape symbols that are no parameters. checks:
    what the host tries out before.
    """

    kernels: tuple[DeviceKernel, ...]
    workspaces: tuple[Buffer, ...]
    symbols: tuple[Var, ...]
    checks: tuple[Stmt, ...]


def split(
    function: Function,
    symbols: tuple[Var, ...],
    watchers: Sequence[Watcher],
    *,
    bounds_check: bool,
    fuses: bool = True,
    features: frozenset[str] = FEATURES,
) -> SplitFunction:
    """The kernels of a lowered function (stage "loops"). symbols: its free shape symbols in call order. fuses: whether sums take
    up products with one rounding. features: of the architecture.

    Raises the CudaErrors of GPU lowering.
    """
    function = round_factors(remove_prefetches(resolve_facts(function, features.__contains__)))
    nests = _Nests()
    nests.collect(function.body, lambda stmt: stmt)
    workspaces = list(nests.workspaces)
    mapped: list[tuple[Function, Hardware, tuple[BoxMap, ...], int]] = []
    for number, nest in enumerate(nests.found):
        name = f"{re.sub('[^A-Za-z0-9_]', '_', function.name)}_kernel{number}"
        made, hardware, extra, maps = _map_nest(function, nest, name, workspaces, BULK_FEATURE in features)
        workspaces += extra
        mapped.append((made, hardware, maps, blocks_together(nest) if maps else 1))
    places: dict[Buffer | Var, int] = {
        item: at for at, item in enumerate((*function.arguments, *workspaces, *function.constant_buffers, *symbols))
    }
    kernels: list[DeviceKernel] = []
    for made, hardware, maps, cluster in mapped:
        read, stored = _used(made), _collect_stored(made)
        used = [item for item in places if item in read]
        outputs = tuple(item for item in used if isinstance(item, Buffer) and item in stored)
        kernel = Function(made.name, (*(each.var for each in maps), *used), made.body, outputs, {"stage": "loops"})
        analyzer = build_analyzer(function)
        done = run_pipeline(kernel, _device_pipeline(hardware, analyzer, function, bounds_check, fuses), watchers)
        kernels.append(
            DeviceKernel(
                done,
                add_producer(hardware, done.body),
                tuple(places[item] for item in used),
                tuple((each, places[each.source]) for each in maps),
                cluster,
            )
        )
    return SplitFunction(tuple(kernels), tuple(workspaces), symbols, tuple(nests.checks))


def _device_pipeline(
    hardware: Hardware,
    analyzer: Analyzer,
    whole: Function,
    bounds_check: bool,
    fuses: bool,
) -> tuple[Pass, ...]:
    checks = (Pass("bound_checks", check_bounds),) if bounds_check else ()
    return (
        Pass("fused_sums", lambda function: round_sums(function, fuses)),
        Pass("float8", widen_float8),
        Pass("simplify", simplify),
        *checks,
        Pass("unsafe_select", lambda function: unsafe_select(function, counts_places=True)),
        Pass("registers", lambda function: free_registers(function, whole)),  # before guards that stay are looked at
        Pass("interiors", lambda function: free_interiors(function, whole)),  # what decides is the same for all threads
        Pass("lane_guards", lambda function: share_lane_guards(function, whole)),  # before loops become vectors
        Pass(
            "lane_races", serialize_racing_lanes
        ),  # after interiors, which may take memory out of the lanes that own it
        Pass("accumulated_parts", accumulate_parts),  # while sums stand as they are declared
        Pass("row_values", move_row_values),  # guards that stay are known, and loops over elements are still loops
        Pass("flushed_powers", flush_powers),  # their names are no longer those of mathematics
        Pass("overlay", separate),  # before barriers: it needs one where larger memory changes hands
        Pass(
            "barriers", lambda function: insert_barriers(function, hardware, analyzer)
        ),  # while dimensions tell threads apart
        Pass("proxy_fences", fence_stores),
        Pass("under_products", begin_products_first),  # where no barrier stands between
        Pass("roles", lambda function: name_barriers(function, hardware)),  # every barrier is there
        Pass("flatten", flatten, stage_after="flat"),
        Pass("paired_loads", pair_loads),  # addresses are those of elements in a row
        Pass("vectorize", lambda function: vectorize(function, VECTOR_BITS)),
        Pass("narrow", lambda function: narrow_arithmetic(function, whole)),  # every offset is there now
        Pass("early_exit", leave_loops),  # every loop's range has been used
        Pass("remove_likely", remove_likely),
    )


def _map_nest(
    whole: Function,
    nest: Stmt,
    name: str,
    workspaces: list[Buffer],
    bulk: bool,
) -> tuple[Function, Hardware, list[Buffer], tuple[BoxMap, ...]]:
    """One nest in terms of the hardware's thread indices, the workspaces of its own, and what the copy engine needs to know. bulk:
    whether the architecture has one."""
    analyzer = build_analyzer(whole)
    hardware = Hardware.of(nest, name, analyzer)
    if not hardware.variables:
        _require_single(nest, name)
    for tag, var in hardware.variables.items():
        analyzer.bind(var, Range(const(0), hardware.extents[tag]))
    body = join_thread_reductions(nest, hardware)
    # boxes and the layout of memory are those of the elements that are stored
    body = narrow_results(Function(name, (), body)).body
    body = place_fragments(inject_virtual_threads(body), hardware, analyzer)
    seen = frozenset((*whole.buffers, *workspaces))
    body, maps = (
        place_bulk_copies(body, hardware, analyzer, seen, frozenset(written_buffers(body))) if bulk else (body, ())
    )
    body = place_panels(body, analyzer)
    body, extra = map_threads(body, hardware, analyzer, seen)
    for tag in reversed(hardware.variables):
        body = For(hardware.variables[tag], const(0), hardware.extents[tag], LoopKind.THREAD, body, tag)
    return Function(name, (), body, (), {"stage": "loops"}), hardware, extra, maps


def _require_single(nest: Stmt, name: str) -> None:
    """A nest without threads may compute a single element: there is nothing to bind."""
    loops = {node.var: node for node in statements(nest) if isinstance(node, For)}
    own = {node.buffer for node in statements(nest) if isinstance(node, Allocate)}
    for node in statements(nest):
        if isinstance(node, BufferStore) and node.buffer not in own:
            varying = [
                loops[inner]
                for index in node.indices
                for inner in walk(index)
                if isinstance(inner, Var) and inner in loops
            ]
            if any(not isinstance(loop.extent, IntImm) or loop.extent.value > 1 for loop in varying):
                raise NothingBound(
                    f"cannot lower {name}: no loop over {node.buffer.name} is bound to a thread axis",
                    reason="on a GPU the elements of a tensor are computed by threads",
                    fix=f's[{node.buffer.name}].bind(axis, te.thread_axis("blockIdx.x")), and the like for threadIdx.x; '
                    f"or s[{node.buffer.name}].compute_at(...), s[{node.buffer.name}].compute_inline()",
                )


Wrap = Callable[[Stmt], Stmt]


class _Nests:
    """The nests at the root, each within the conditions and bindings that stand around it."""

    def __init__(self) -> None:
        self.found: list[Stmt] = []
        self.workspaces: list[Buffer] = []
        self.checks: list[Stmt] = []

    def collect(self, stmt: Stmt, wrap: Wrap) -> None:
        if isinstance(stmt, Seq):
            for group in pair_inits(stmt.body):
                if len(group) == 1:
                    self.collect(group[0], wrap)
                else:
                    self.found.append(wrap(Seq(group)))
        elif only_checks(stmt):
            self.checks.append(wrap(stmt))
        elif isinstance(stmt, Attr):
            self.collect(stmt.body, wrap)
        elif isinstance(stmt, LetStmt):
            self.collect(stmt.body, lambda inner: wrap(LetStmt(stmt.var, stmt.value, inner)))
        elif isinstance(stmt, If):
            self.collect(stmt.then_body, lambda inner: wrap(If(stmt.condition, inner)))
            if stmt.else_body is not None:
                self.collect(stmt.else_body, lambda inner: wrap(If(logical_not(stmt.condition), inner)))
        elif isinstance(stmt, Allocate):
            self._allocate(stmt, wrap)
        else:
            self.found.append(wrap(stmt))

    def _allocate(self, stmt: Allocate, wrap: Wrap) -> None:
        buffer = stmt.buffer
        if buffer.scope == "global":
            self.workspaces.append(buffer)
            self.collect(stmt.body, wrap)
            return
        before = len(self.found)
        self.collect(stmt.body, wrap)
        users = [at for at in range(before, len(self.found)) if _touches(self.found[at], buffer)]
        first, last = (users[0], users[-1] + 1) if users else (before, before)
        # The steps of one reduction, whose threads each keep a part; or loops of one block's threads, which meet in shared memory.
        if len(users) > 1 and (buffer.scope == "local" or all(map(_is_of_one_block, self.found[first:last]))):
            self.found[first:last] = [Seq(tuple(self.found[first:last]))]
            users = [first]
        if len(users) > 1:
            raise SharedOutsideKernel(
                f"cannot lower: {buffer.name} lies in {buffer.scope} memory and is computed at root",
                reason=f"each loop nest at root is a kernel, and {buffer.scope} memory does not outlive one",
                fix=f"s[{buffer.name}].compute_at(its consumer, an axis), or leave its scope global",
            )
        for at in users:
            self.found[at] = Allocate(buffer, self.found[at])


def _is_of_one_block(stmt: Stmt) -> bool:
    """Return whether loops of a nest run on the threads of a block, and none on blocks."""
    tags = [node.thread for node in statements(stmt) if isinstance(node, For) and node.thread]
    return bool(tags) and not any(tag.startswith("blockIdx") for tag in tags)


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer for node in walk(stmt))


def _used(function: Function) -> set[Buffer | Var]:
    used: set[Buffer | Var] = set(free_vars(function))
    for node in walk(function.body):
        if isinstance(node, (BufferLoad, BufferStore)):
            used.add(node.buffer)
            for value in (*node.buffer.shape, *node.buffer.strides):  # flattening multiplies by them
                used.update(_symbols(value))
    return used


def _symbols(value: Expr) -> Iterator[Var]:
    return (node for node in walk(value) if isinstance(node, Var))


def _collect_stored(function: Function) -> set[Buffer]:
    return written_buffers(function.body)
