"""Copies by the copy engine (sm_90a): boxes of a tensor that one thread asks for, and a barrier in memory for each place of a
pipeline.

    attr("bulk_pipeline", 3):                                   barriers[3]: each of one arrival, and of the bytes that it expects
      attr("bulk_copy", 0):                                     if first thread:
        for i in 64: for k in 64:                                 tw_bulk_expect(&barriers[0], 8192)
          S[0, i, k] = if_then_else(b * 64 + i < m, A[..], 0) →   tw_bulk_copy_2(&S[0, 0, 0], A_box, &barriers[0], 0, b * 64)
      for t in n:                                               for t in n:
        tw_bulk_wait(t % 3)                                       tw_bulk_wait(&barriers[t % 3], &phases[0], t % 3)

A_box, a parameter of the kernel, says how the tensor and a box lie; outside of the tensor the engine fills in zeros. `phases` has a
bit for each place: how often its barrier was waited for, which the next wait needs. Barriers are made once in a kernel.

It stands before panels are placed and threads mapped: what is one thread's stands in attr("one_thread"). Where warps have roles,
see warp_specialization.py, the threads that compute tell by a second barrier that a place is free again. What blocks of a cluster
copy together: see clusters.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from ....base import dataclass, replace, user_source
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...copies import BULK_COPY, BULK_PIPELINE, CLUSTER, called, is_bulk_wait
from ...dtype import HANDLE, INT32, DType
from ...expr import BufferLoad, Call, Expr, FloatImm, IfThenElse, IntImm, Range, Select, StringImm, Var
from ...fragments import LATE_STAGES, PRODUCTS_WAIT, WARP_LANES
from ...ops import cast, conjunction, conjuncts, const, floormod, is_const
from ...pointers import MEETS, READS, WRITES, pointer
from ...stmt import Allocate, Attr, BufferStore, Evaluate, For, If, LoopKind, Seq, Stmt
from ...visit import Rewriter, rewrite, seq, statements, substitute, walk
from .barriers import barrier
from .bulk_stores import ONE_THREAD, await_stores, is_bulk_store, list_staged, mirror_copy
from .clusters import Alike
from .errors import CannotCopyInBulk
from .hardware import Hardware
from .swizzle import ROWS as PANEL_ROWS
from .swizzle import SCOPE, row_bytes
from .warp_specialization import check_producer, has_producer, specialize_warps

__all__ = ["ONE_THREAD", "PLACE_BYTES", "BoxMap", "place_bulk_copies", "tensor_strides"]

UINT32, UINT64 = DType("uint32"), DType("uint64")
MOST_DIMENSIONS, MOST_ELEMENTS, UNIT_BYTES, PLACE_BYTES = 5, 256, 16, 128
"""Of a box, of one dimension of it, of what strides and rows of boxes are multiples of, and of where boxes begin in shared
memory."""


@dataclass(frozen=True, slots=True)
class BoxMap:
    """Map by which boxes of a tensor come to shared memory. var: the kernel's parameter. box: elements along each dimension of the source.
    swizzle: the bytes of a row within which parts of 16 are exchanged; 0 for none."""

    var: Var
    source: Buffer
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class _Box:
    """A copy of one box: where its first element goes, and where it comes from."""

    target: Buffer
    to: tuple[Expr, ...]
    source: Buffer
    start: tuple[Expr, ...]
    extents: tuple[int, ...]
    rows: tuple[int, int] | None = None
    """The first dimension of the source with several elements, but for the innermost, and where that is in the target."""

    @property
    def bytes(self) -> int:
        return prod(self.extents) * self.source.dtype.bytes

    def part(self, blocks: int) -> _Box | None:
        """Return the part for which one of so many blocks asks; None where that is no whole number of rows, which begin
        as those of boxes do.
        """
        # a part must hold whole rows, or the engine's boxes would differ between blocks
        if self.rows is None or self.extents[self.rows[0]] % blocks:
            return None
        dim, place = self.rows
        own = self.extents[dim] // blocks
        part = replace(self, extents=(*self.extents[:dim], own, *self.extents[dim + 1 :]))
        # boxes have to begin where the swizzle pattern of a panel begins
        if part.bytes % (PANEL_ROWS * PLACE_BYTES if self.target.scope == SCOPE else PLACE_BYTES):
            return None
        first = (
            floormod(Call("call_extern", (StringImm("tw_block_rank"),), INT32), blocks) * own
        )  # of which the range is known so
        moved = [
            tuple(index + first if at == of else index for at, index in enumerate(indices))
            for indices, of in ((self.to, place), (self.start, dim))
        ]
        return replace(part, to=moved[0], start=moved[1])


@dataclass(frozen=True, slots=True)
class _Nest:
    """A nest that stores one element an iteration: loops with their extents, outermost first, all from 0."""

    loops: tuple[For, ...]
    store: BufferStore

    @property
    def extents(self) -> dict[Var, int]:
        return {loop.var: loop.extent.value for loop in self.loops if isinstance(loop.extent, IntImm)}


@dataclass(frozen=True, slots=True)
class _Barriers:
    """Barriers of one pipeline: full, for what has come; empty, for places that are free again; and what a thread has waited for of
    each."""

    full: Buffer
    empty: Buffer
    waited: Buffer
    freed: Buffer

    @staticmethod
    def of(places: Expr, number: str) -> _Barriers:
        full, empty = (
            Buffer(f"{name}{number}", (places,), UINT64, scope="shared", alignment=UNIT_BYTES)
            for name in ("barriers", "empty")
        )
        waited, freed = (Buffer(f"{name}{number}", (const(1),), UINT32, scope="local") for name in ("phases", "freed"))
        return _Barriers(full, empty, waited, freed)


def place_bulk_copies(
    body: Stmt,
    hardware: Hardware,
    analyzer: Analyzer,
    tensors: frozenset[Buffer],
    stored: frozenset[Buffer],
) -> tuple[Stmt, tuple[BoxMap, ...]]:
    """(`body` of a kernel with its bulk copies as calls, the maps that these take). tensors: global memory that kernels get;
    stored: what this one writes. Raises CannotCopyInBulk (TW0841)."""
    pipelines = [node for node in statements(body) if isinstance(node, Attr) and node.key == BULK_PIPELINE]
    if not pipelines and not any(map(is_bulk_store, statements(body))):
        return body, ()  # most kernels have no pipeline, and pay nothing
    with_roles = has_producer(body)
    own = {node: _Barriers.of(node.value, f"_{at}" if at else "") for at, node in enumerate(pipelines)}
    alike = Alike.of(body, hardware, analyzer)
    placer = _Placer(own, analyzer, tensors - stored, "consumer" if with_roles else "", alike)
    placer.stored, placer.staged = stored & tensors, list_staged(body)
    done = placer.visit(body)
    if not pipelines:
        return done, tuple(placer.maps.values())
    # arrivals are counted: of one thread that announces the bytes
    made = [_build_barriers(each.full, each.waited, 1, 0) for each in own.values()]
    allocated = [buffer for each in own.values() for buffer in (each.full, each.waited)]
    if with_roles:
        check_producer(hardware, [node.subject for node in pipelines])
        if placer.staged:
            done = seq(done, await_stores())
        placer.role = "producer"
        done, places = specialize_warps(hardware, done, placer.visit(body))
        # a place is free when every warp of every block of the cluster has read it
        arrivals = hardware.threads // WARP_LANES * alike.blocks
        made += [_build_barriers(each.empty, each.freed, arrivals, UINT32.greatest) for each in own.values()]
        allocated += [*places, *(buffer for each in own.values() for buffer in (each.empty, each.freed))]
    together = (
        [_call("tw_cluster_barrier")] if alike.blocks > 1 else []
    )  # nobody reaches what is not there yet, or no longer
    begun = seq(*made, _call("tw_bulk_begin"), barrier(), *together, done, *together)
    for buffer in reversed(allocated):
        begun = Allocate(buffer, begun)
    return begun, tuple(placer.maps.values())


def _build_barriers(barriers: Buffer, phases: Buffer, arrivals: int, waited: int) -> Stmt:
    """Barriers of so many arrivals each, and what of them a thread has waited for."""
    place = Var("place", INT32)
    init = _call("tw_bulk_init", pointer(barriers, (place,), const(0), MEETS), const(arrivals))
    return seq(
        Attr(ONE_THREAD, "", const(1), For(place, const(0), barriers.shape[0], LoopKind.SERIAL, init)),
        BufferStore(phases, const(waited, UINT32), (const(0),)),
    )


def _call(name: str, *args: Expr) -> Stmt:
    return Evaluate(Call("call_extern", (StringImm(name), *args), INT32))


def _wait(name: str, barriers: Buffer, phases: Buffer, place: Expr) -> Stmt:
    return _call(
        name,
        pointer(barriers, (place,), const(0), MEETS),
        pointer(phases, (const(0),), const(0), READS | WRITES),
        place,
    )


class _Placer(Rewriter):
    """Rewriter that places bulk copies.

    role: whose program it is, "consumer" or "producer", or that of all where it is empty.
    """

    def __init__(
        self, own: dict[Attr, _Barriers], analyzer: Analyzer, tensors: frozenset[Buffer], role: str, alike: Alike
    ) -> None:
        self.own, self.analyzer, self.tensors, self.role, self.alike = own, analyzer, tensors, role, alike
        self.around: list[_Barriers] = []
        self.maps: dict[tuple[Buffer, tuple[int, ...], int], BoxMap] = {}
        self.place: Expr | None = None
        """What an iteration has waited for."""
        self.stored: frozenset[Buffer] = frozenset()
        self.staged: set[Buffer] = set()
        """Tensors that boxes may be stored to, and memory that some are stored from."""

    def Allocate(self, node: Allocate) -> Stmt:
        done = self.generic(node)
        if self.role != "consumer" or node.buffer not in self.staged:
            return done
        assert isinstance(done, Allocate)
        return Allocate(node.buffer, seq(await_stores(), barrier(), done.body))

    def _store(self, node: For) -> Stmt:
        """The boxes that loops store, which the threads that compute ask for."""
        if self.role == "producer":
            return Seq(())
        copy, guards = mirror_copy(node)
        boxes = [box for nest in _nests(copy) for box in _boxes(nest, self.analyzer, self.stored)]
        begun = seq(*(self._copy(box, None) for box in boxes), _call("tw_bulk_store_commit"))
        begun = If(conjunction(*guards), begun) if guards else begun
        return seq(Attr(ONE_THREAD, "", const(1), begun), *([] if self.role else [await_stores()]))

    def For(self, node: For) -> Stmt:  # loop ranges are what the proofs about boxes rest on
        if is_bulk_store(node):
            return self._store(node)
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        before, self.place = self.place, None
        done = self.generic(node)
        if self.place is not None and self.role == "consumer":
            assert isinstance(done, For)
            done = self._release_buffers(done, self.place)
        self.place = before
        return done

    def _release_buffers(self, loop: For, place: Expr) -> Stmt:
        """A loop that gives each place back. Products that begin in one iteration end in the next where a pipeline is long enough:

        for t in 9:                                         for t in 9:
          ... products of S[t % 4] begin                      ... products of S[t % 4] begin
          tw_wgmma_wait<0>()                      →           tw_wgmma_wait<1>()
          tw_bulk_release(&empty[t % 4])                      if t > 0: tw_bulk_release(&empty[(t + 3) % 4])
                                                            tw_wgmma_wait<0>(), tw_bulk_release(&empty[8 % 4])
        """
        own, blocks = self.around[-1].empty, self.alike.blocks

        def release(at: Expr) -> Stmt:
            empty = pointer(own, (self.analyzer.simplify(at),), const(0), MEETS)
            return _call("tw_bulk_release_all", empty, const(blocks)) if blocks > 1 else _call("tw_bulk_release", empty)

        stages, count = own.shape[0], loop.extent
        waits = [node for node in statements(loop.body) if called(node) == PRODUCTS_WAIT]
        if (  # the late release needs a spare place, and an index that comes around after all places
            len(waits) != 1
            or not isinstance(stages, IntImm)
            or stages.value < LATE_STAGES
            or not (isinstance(count, IntImm) and count.value > 1)
            or not is_const(loop.begin, 0)
            or not self.analyzer.can_prove_equal(substitute(place, {loop.var: loop.var + stages}), place)
        ):
            return replace(loop, body=seq(loop.body, release(place)))
        body = rewrite(loop.body, lambda node: _call(PRODUCTS_WAIT, const(1)) if node is waits[0] else None)
        earlier = If(loop.var > 0, release(substitute(place, {loop.var: loop.var + (stages.value - 1)})))
        return seq(
            replace(loop, body=seq(body, earlier)),
            _call(PRODUCTS_WAIT, const(0)),
            release(substitute(place, {loop.var: count - 1})),
        )

    def Attr(self, node: Attr) -> Stmt:
        if node.key == BULK_PIPELINE:
            self.around.append(self.own[node])
            body = self.visit(node.body)
            self.around.pop()
            return body
        if node.key == CLUSTER:  # clusters are read from the body beforehand: the attribute has served
            return self.visit(node.body)
        if node.key != BULK_COPY:
            return self.generic(node)
        if self.role == "consumer":  # the copying warps do this part
            return Seq(())
        own = self.around[-1]
        boxes = [box for nest in _nests(node.body) for box in _boxes(nest, self.analyzer, self.tensors)]
        at = pointer(own.full, (node.value,), const(0), MEETS)
        begun = seq(
            _call("tw_bulk_expect", at, const(sum(box.bytes for box in boxes))), *(self._copy(box, at) for box in boxes)
        )
        if self.role:
            return seq(_wait("tw_bulk_ready", own.empty, own.freed, node.value), begun)
        return Attr(ONE_THREAD, "", const(1), begun)

    def Evaluate(self, node: Evaluate) -> Stmt:
        if not is_bulk_wait(node):
            return self.generic(node)
        assert isinstance(node.value, Call)
        if self.role == "producer":  # the warps that copy wait for free places, not for what has come
            return Seq(())
        own, self.place = self.around[-1], node.value.args[1]
        return _wait("tw_bulk_ready" if self.role else called(node), own.full, own.waited, self.place)

    def _copy(self, box: _Box, at: Expr | None) -> Stmt:
        """The call that copies a box, and has a barrier count it; where there is none, stores it."""
        # each block asks for its share only where all of them want the same box
        alike = at is not None and self.alike.blocks > 1 and self.alike.are(box.start)
        shared = box.part(self.alike.blocks) if alike else None
        box = box if shared is None else shared
        swizzle = row_bytes(box.target) if box.target.scope == SCOPE else 0
        key = box.source, box.extents, swizzle
        if key not in self.maps:  # a map is a kernel parameter: equal boxes share one
            self.maps[key] = BoxMap(Var(f"{box.source.name}_box", HANDLE), box.source, box.extents, swizzle)
        coordinates = [cast(self.analyzer.simplify(each), INT32) for each in reversed(box.start)]
        if at is None:
            read = pointer(box.target, box.to, const(0), READS)
            return _call(f"tw_bulk_store_{len(coordinates)}", read, self.maps[key].var, *coordinates)
        name, blocks = ("", ()) if shared is None else ("_to_all", (const(self.alike.blocks),))
        to = pointer(box.target, box.to, const(0), WRITES)
        return _call(f"tw_bulk_copy_{len(coordinates)}{name}", to, self.maps[key].var, at, *blocks, *coordinates)


# What is copied


def _nests(stmt: Stmt) -> Iterator[_Nest]:
    """The nests of a statement; conditions of stores do not matter, as nobody reads what was not stored."""
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(stmt, ())]
    while stack:
        node, loops = stack.pop()
        if isinstance(node, Seq):
            stack += [(part, loops) for part in reversed(node.body)]
        elif isinstance(node, For):
            stack.append((node.body, (*loops, node)))
        # a condition leaves elements out that the engine fills with zeros
        elif isinstance(node, If) and node.else_body is None:
            stack.append((node.then_body, loops))
        elif isinstance(node, BufferStore):  # loops come innermost last, as the indices of the store
            yield _Nest(loops, node)
        else:
            raise _refusal("something", "it is not a copy, element by element, of a tensor", "")


def _refusal(name: str, reason: str, fix: str) -> CannotCopyInBulk:
    return CannotCopyInBulk(
        f"cannot build: {name} is to be filled by the copy engine",
        reason=reason,
        called=user_source(),
        allowed=f"boxes of at most {MOST_DIMENSIONS} dimensions of {MOST_ELEMENTS} elements each, with zeros "
        "outside of the tensor",
        fix=fix or f's[{name}].pipeline(stages), by "cp.async", copies what threads say',
    )


def _boxes(nest: _Nest, analyzer: Analyzer, tensors: frozenset[Buffer]) -> Iterator[_Box]:
    """The boxes that a nest copies. Raises CannotCopyInBulk."""
    target, to = nest.store.buffer, nest.store.indices
    name, extents = target.name, nest.extents
    for loop in nest.loops:
        # threads that ask each for a part would ask for overlapping boxes
        if loop.kind.value != "for" or loop.var not in extents or not analyzer.can_prove_equal(loop.begin, 0):
            raise _refusal(
                name,
                f"its loop over {loop.var.name} is bound, vectorized or of no known extent",
                f"leave the loops of {name} as they are declared: one thread asks for whole boxes",
            )
        analyzer.bind(loop.var, Range(loop.begin, loop.extent))
    load = _load(nest, analyzer, tensors)
    over = [_variable(index, extents, analyzer, name) for index in load.indices]
    own = [_variable(index, extents, analyzer, name) for index in to]
    spanned = [dim for dim, var in enumerate(over) if var is not None]
    reached = [dim for dim, var in enumerate(own) if var is not None]
    # the engine knows no permutation of dimensions
    if len(spanned) != len(extents) or [id(over[dim]) for dim in spanned] != [id(own[dim]) for dim in reached]:
        raise _refusal(name, f"its dimensions are not those of {load.buffer.name} in their order", "")
    _check_source(load.buffer, analyzer, name)
    size = target.dtype.bytes
    counts = [1 if var is None else extents[var] for var in over]
    steps = _steps(target, counts, own, size)
    rows = next(
        ((dim, at) for dim, at in zip(spanned, reached, strict=True) if steps[dim] > 1 and dim < len(steps) - 1), None
    )
    at_zero = {var: const(0, var.dtype) for var in extents}
    start = [substitute(index, at_zero) for index in load.indices]
    place = [substitute(index, at_zero) for index in to]
    for offset in product(*(range(0, count, step) for count, step in zip(counts, steps, strict=True))):
        moved = {own_dim: offset[dim] for dim, own_dim in zip(spanned, reached, strict=True)}
        yield _Box(
            target,
            tuple(index + moved.get(at, 0) for at, index in enumerate(place)),
            load.buffer,
            tuple(index + more for index, more in zip(start, offset, strict=True)),
            tuple(steps),
            rows,
        )


def _load(nest: _Nest, analyzer: Analyzer, tensors: frozenset[Buffer]) -> BufferLoad:
    """Return the load that is copied: a whole tensor's elements where they are, and zeros elsewhere."""
    name, value = nest.store.buffer.name, nest.store.value
    conditions: list[Expr] = []
    # choices of zero outside of the tensor are what the engine does by itself
    while isinstance(value, (IfThenElse, Select)):
        if not (isinstance(value.false_value, (IntImm, FloatImm)) and value.false_value.value == 0):
            raise _refusal(name, f"elements outside of the tensor are {value.false_value}, no 0", "")
        conditions += conjuncts(value.condition)
        value = value.true_value  # under its conditions, the value is read
    if (
        not isinstance(value, BufferLoad)
        or value.buffer not in tensors
        or value.buffer.dtype != nest.store.buffer.dtype
    ):
        raise _refusal(
            name, "it is not a copy, element by element, of a tensor in global memory that the kernel only reads", ""
        )
    known = analyzer.copy()
    # within the tensor every condition must hold, or the copy leaves out elements that exist
    for index, extent in zip(value.indices, value.buffer.shape, strict=True):
        known.learn(index >= 0)
        known.learn(index < extent)
    for condition in conditions:
        if not known.can_prove(condition):
            raise _refusal(
                name, f"it leaves out elements that {value.buffer.name} has, where `{condition}` does not hold", ""
            )
    return value


def _variable(index: Expr, extents: dict[Var, int], analyzer: Analyzer, name: str) -> Var | None:
    """The one loop whose iterations are neighbours along a dimension; None where it is one element."""
    used = [var for var in extents if any(node is var for node in walk(index))]
    if not used:  # no loop runs along this dimension: the box is one element thick
        return None
    rest = analyzer.simplify(index - used[0])
    if len(used) > 1 or any(node is used[0] for node in walk(rest)):
        raise _refusal(
            name,
            f"the index {index} is not a place and one of its loops",
            f"leave the loops of {name} as they are declared: not split, fused or bound",
        )
    return used[0]


def _check_source(source: Buffer, analyzer: Analyzer, name: str) -> None:
    """Check that a tensor lies as the engine knows it: rows one behind the other, at multiples of 16 bytes."""
    if source.ndim > MOST_DIMENSIONS or not source.ndim:
        raise _refusal(name, f"{source.name} has {source.ndim} dimensions", "")
    strides = tensor_strides(source)
    # the map's base is the tensor's own address
    if source.elem_offset is not None or not analyzer.can_prove_equal(strides[-1], 1):
        raise _refusal(name, f"{source.name} does not lie row by row", "")
    for stride in strides[:-1]:  # strides of a tensor map are multiples of 16 bytes
        modular = analyzer.modular(stride * source.dtype.bytes)
        if modular.coeff % UNIT_BYTES or modular.base % UNIT_BYTES:
            raise _refusal(
                name,
                f"rows of {source.name} are {stride} elements of {source.dtype.bytes} bytes apart, which is not a "
                f"multiple of {UNIT_BYTES} bytes",
                "",
            )


def tensor_strides(source: Buffer) -> tuple[Expr, ...]:
    """Return the distance from one element to the next along each dimension, in elements."""
    if source.strides:
        return source.strides
    strides: list[Expr] = [const(1)]
    for extent in reversed(source.shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def _steps(target: Buffer, counts: Sequence[int], own: Sequence[Var | None], size: int) -> list[int]:
    """The elements of one box along each dimension of the source: panels of swizzled memory, all of a place otherwise. The target's
    dimensions that a box covers are whole, but for the first of them, so that its elements lie one behind the other."""
    name, steps = target.name, list(counts)
    loops = [at for at, var in enumerate(own) if var is not None]
    inner = (
        [count for count in counts if count > 1][1:]
        if target.scope != SCOPE
        else [count for count in counts if count > 1][-1:]
    )
    whole = [extent.value for extent in target.shape[target.ndim - len(inner) :] if isinstance(extent, IntImm)]
    # elements of a box lie in shared memory without gaps
    if not loops or loops[-1] != target.ndim - 1 or target.strides or whole != inner:
        raise _refusal(
            name, "the elements of a box do not lie one behind the other in it", f"do not align or transpose {name}"
        )
    covered = [at for at, count in enumerate(counts) if count > 1 or at == len(counts) - 1]
    if target.scope == SCOPE:
        steps[-1] = row_bytes(target) // size  # a panel is as wide as the swizzled row
        for at in covered[:-2]:
            steps[at] = 1
    elif target.scope != "shared":
        raise _refusal(name, f"it lies in {target.scope} memory", f's[{name}].set_scope("shared")')
    elif steps[-1] * size % UNIT_BYTES or prod(steps) * size % PLACE_BYTES:
        raise _refusal(
            name,
            f"a box has rows of {steps[-1] * size} bytes and {prod(steps) * size} in all, no multiples of "
            f"{UNIT_BYTES} and {PLACE_BYTES}",
            "",
        )
    first = next((at for at in covered if steps[at] > 1), covered[-1])
    if steps[first] > MOST_ELEMENTS and first != len(steps) - 1:
        # the largest divisor: all boxes of a place are of one size
        steps[first] = max(part for part in range(1, MOST_ELEMENTS + 1) if steps[first] % part == 0)
    if max(steps) > MOST_ELEMENTS:
        raise _refusal(
            name,
            f"a box has {max(steps)} elements along one dimension",
            f"split the loops that {name} is computed at by at most {MOST_ELEMENTS}",
        )
    return steps
