"""Kernels as CUDA C text: one statement a line, every body in braces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from math import copysign, gcd
from typing import Any

from ...base.dataclass import dataclass
from ...ir.arith.analyzer import Analyzer
from ...ir.atomics import added
from ...ir.buffer import Buffer
from ...ir.copies import ASYNCHRONOUS
from ...ir.dtype import HANDLE
from ...ir.expr import Broadcast, BufferLoad, Expr, FloatImm, IfThenElse, IntImm, Let, Ramp, Range, Var
from ...ir.passes.common.simplify import build_analyzer
from ...ir.passes.gpu.bulk_copies import PLACE_BYTES
from ...ir.passes.gpu.errors import LocalNotConstant, TooMuchShared
from ...ir.passes.gpu.hardware import BLOCK_TAGS
from ...ir.passes.gpu.shared_memory_reuse import allocate_shared
from ...ir.passes.gpu.warp_specialization import MORE_REGISTERS
from ...ir.stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, LetStmt, LoopKind, Stmt
from ...ir.structural import structural_key
from ...ir.visit import children, post_order, statements, walk
from ..clike.emit_stmt import StmtEmitter
from ..clike.types import bare
from .emit_expr import CudaExprEmitter
from .intrinsics import CALLS
from .loop_rolling import beginnings, rolled_loops
from .resident import ResidentLoops, resident_loops
from .split import VECTOR_BITS, DeviceKernel
from .types import MAP, storage_type, value_type

__all__ = ["LOOPS", "STATIC_SHARED_LIMIT", "KernelText", "emit_kernel"]

LOOPS = "loops"
"""What debuggers take for the file that the loops' text is."""

_SOME = 4
"""Iterations that follow each other without a jump in loops that are not to be unrolled whole."""
_COPIED = (4, 8, 16)
"""Bytes that are copied at once."""
STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may declare; more is asked for at the launch."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """The text of one kernel and what its launch needs to know.

    parameters: the C type of each. dynamic_shared: bytes of shared memory to ask for at the launch. shared_granule: bytes of
    the smallest element in shared memory. aligned: parameters that are read or written as vectors. parts: of the work, of which any
    number of blocks take one after the other; 0 where each has its own.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    dynamic_shared: int
    shared_granule: int
    aligned: frozenset[int]
    parts: int = 0


def emit_kernel(
    kernel: DeviceKernel, whole: Function, shared_limit: int, messages: list[str], lines: str = ""
) -> KernelText:
    """The text of `kernel`, a part of `whole`. shared_limit: bytes of shared memory that a block may have. messages: of
    assertions; new ones are appended. lines: the file whose line each says that it came from; "" for none.

    Raises LocalNotConstant, TooMuchShared.
    """
    return _Emitter(kernel, build_analyzer(whole), shared_limit, messages, lines).emit()


class _Emitter(StmtEmitter):
    exprs: CudaExprEmitter
    scoped = (LetStmt,)

    def __init__(
        self, kernel: DeviceKernel, analyzer: Analyzer, shared_limit: int, messages: list[str], lines: str
    ) -> None:
        super().__init__(CudaExprEmitter(analyzer, CALLS), analyzer, messages)
        self.kernel, self.function = kernel, kernel.function
        self.shared_limit = shared_limit
        self.aligned: set[int] = set()
        self.shared_granule = 16
        self.asynchronous = False
        """Whether what is stored need not be there before the wait."""
        self.rolled, self.beginnings = rolled_loops(self.function.body), beginnings(self.function.body)
        self.file = lines.replace("\\", "_").replace('"', "_")  # ptxas reads no names with quotes in them
        self.at = 0
        """The line of `file` that what is written now came from; 0 for none."""
        self.resident: ResidentLoops | None = None

    # The kernel

    def emit(self) -> KernelText:
        kinds = tuple(self._kind(param) for param in self.function.params)
        parameters = [self._parameter(kind, param) for kind, param in zip(kinds, self.function.params, strict=True)]
        for param in self.function.params:
            if isinstance(param, Var) and param.dtype.is_float and param.dtype.bits == 16:
                inner = self.exprs.names[param]
                name = self.exprs.names[param] = self.fresh(f"{inner}_value")
                self.line(f"const float {name} = {self.exprs.loaded(inner, param.dtype)};")
        self.aligned.update(range(len(self.kernel.maps)))
        body = self._thread_indices(self.function.body)
        dynamic = self._declare_shared(body)
        self.statement(body)
        threads = self.kernel.hardware.threads
        together = f"__cluster_dims__({self.kernel.cluster}, 1, 1) " if self.kernel.cluster > 1 else ""
        # Registers need not be few where memory holds one block, and threads exchange them only where each has a known number.
        alone = 2 * dynamic > self.shared_limit or any(MORE_REGISTERS in line for line in self.lines)
        bounds = f"__launch_bounds__({threads}{', 1' if alone else ''})"
        head = f'extern "C" __global__ void {bounds} {together}{self.function.name}({", ".join(parameters)}) {{'
        text = "\n".join([head, *self.lines, "}"])
        parts = 0 if self.resident is None else self.resident.parts
        return KernelText(self.function.name, text, kinds, dynamic, self.shared_granule, frozenset(self.aligned), parts)

    def _parameter(self, kind: str, param: Buffer | Var) -> str:
        if kind == MAP:
            return f"const __grid_constant__ {kind} {self.bind(param)}"
        return f"{kind}{'__restrict__ ' if kind.endswith('*') else ' '}{self.bind(param)}"

    def _kind(self, param: Buffer | Var) -> str:
        if param.dtype is HANDLE:
            return MAP
        kind = storage_type(param.dtype)
        if isinstance(param, Var):
            return kind
        return f"{kind} *" if param in self.function.outputs else f"const {kind} *"

    def _thread_indices(self, body: Stmt) -> Stmt:
        loops: list[For] = []
        while isinstance(body, For) and body.kind is LoopKind.THREAD:
            loops.append(body)
            body = body.body
        by_tag = {loop.thread: loop for loop in loops}
        self.resident = resident_loops(by_tag, body)
        indices = self._unfold_blocks(by_tag) if self.kernel.hardware.folded else {}
        for loop in loops:
            self.at = loop.line or self.at
            self.analyzer.bind(loop.var, Range(loop.begin, loop.extent))
            if self.resident is not None and loop is self.resident.block:
                continue
            value = indices.get(loop.thread, f"(int){loop.thread}")
            self.exprs.names[loop.var] = value
            if any(node is loop.var for node in walk(body)):
                name = self.bind(loop.var, loop.thread.replace("Idx.", "_"))
                self.line(f"const int {name} = {value};")
        return body

    def _unfold_blocks(self, loops: Mapping[str, For]) -> dict[str, str]:
        """The indices of blocks that lie along x together, from that of the grid."""
        rest, indices = "blockIdx.x", dict[str, str]()
        *tags, last = (tag for tag in (BLOCK_TAGS[0], *self.kernel.hardware.folded) if tag in loops)
        for tag in tags:
            extent = f"(unsigned int){self.exprs.operand_text(loops[tag].extent)}"
            indices[tag] = f"(int)({rest} % {extent})"
            rest = f"{rest} / {extent}"
        return {**indices, last: f"(int)({rest})"}

    def _declare_shared(self, body: Stmt) -> int:
        """Declare the shared memory; the bytes of it that the launch must ask for."""
        buffers = [
            node.buffer for node in statements(body) if isinstance(node, Allocate) and node.buffer.scope == "shared"
        ]
        self.shared_granule = min((buffer.dtype.bytes for buffer in buffers), default=16)
        sizes = [self._count(buffer) * buffer.dtype.bytes for buffer in buffers]
        least = PLACE_BYTES if self.kernel.maps else 16  # where boxes may begin
        places, total = allocate_shared(self.function, least)
        overlaid = total < sum(-(-max(size, 1) // 16) * 16 for size in sizes)
        if total > self.shared_limit:
            raise TooMuchShared(
                f"cannot build {self.function.name}: it needs {total} bytes of shared memory",
                reason=", ".join(f"{b.name}: {size}" for b, size in zip(buffers, sizes, strict=True)),
                allowed=f"at most {self.shared_limit} bytes a block on this architecture",
                fix="fetch smaller tiles: split the loops that the shared stages are computed at",
            )
        memory = (
            "tw_dynamic_panels" if any(max(buffer.alignment, least) > 16 for buffer in buffers) else "tw_dynamic_shared"
        )
        static = total <= STATIC_SHARED_LIMIT and self.kernel.cluster == 1
        if self.kernel.cluster > 1:  # which all blocks have at the same place
            memory = "tw_cluster_panels"
        if overlaid and static:
            align = max(least, *(buffer.alignment for buffer in buffers))
            memory = self.fresh("shared")
            self.line(f"__shared__ __align__({align}) unsigned char {memory}[{total}];")
        for buffer in buffers:
            name, kind = self.bind(buffer), storage_type(buffer.dtype)
            if static and not overlaid:
                align = max(buffer.alignment, least)
                self.line(f"__shared__ __align__({align}) {kind} {name}[{max(self._count(buffer), 1)}];")
            else:
                self.line(f"{kind} *const {name} = reinterpret_cast<{kind} *>({memory} + {places[buffer]});")
        return 0 if static else total

    def _count(self, buffer: Buffer) -> int:
        extent = buffer.shape[0] if buffer.shape else IntImm(1)
        if not isinstance(extent, IntImm):
            raise LocalNotConstant(
                f"cannot build {self.function.name}: {buffer.name}, in {buffer.scope} memory, has {extent} elements",
                reason="the size of shared and local memory is fixed when the kernel is built",
                fix="split the loops that it is computed at by constant factors",
            )
        return extent.value

    # Statements

    def statement(self, stmt: Stmt) -> None:
        self.exprs.forget()
        outside = self.at
        if isinstance(stmt, (For, BufferStore, Evaluate)):
            self.at = stmt.line or outside
        super().statement(stmt)
        self.at = outside

    def line(self, text: str) -> None:
        if self.file and self.at:
            self.lines.append(f'#line {self.at} "{self.file}"')
        super().line(text)

    def values(self, *roots: Expr) -> list[list[str]]:
        for root in roots:
            self._pack(root)
        self._name_what_is_shared(*roots)
        return [[bare(self.exprs.value(root, lane)) for lane in range(root.dtype.lanes)] for root in roots]

    def loop(self, stmt: For) -> None:
        if self.resident is not None and stmt in self.resident.loops:
            self._parts(stmt, self.resident)
            return
        begin, extent = self.exprs.value(stmt.begin), self.exprs.value(stmt.extent)
        self.analyzer.bind(stmt.var, Range(stmt.begin, stmt.extent))
        end = extent if begin in ("0", "0LL") else f"{begin} + ({extent})"
        if isinstance(stmt.begin, IntImm) and isinstance(stmt.extent, IntImm):
            end = str(stmt.begin.value + stmt.extent.value)
        if stmt.kind is LoopKind.UNROLLED:
            self.line("#pragma unroll")
        elif stmt in self.beginnings:
            self.line("#pragma unroll 1")
        elif stmt in self.rolled:
            self.line(f"#pragma unroll {_SOME}")
        taken = set(self.taken)
        name = self.bind(stmt.var)
        with self.block(f"for ({value_type(stmt.var.dtype)} {name} = {begin}; {name} < {end}; ++{name})"):
            self.statement(stmt.body)
        self.taken = taken

    def _parts(self, stmt: For, resident: ResidentLoops) -> None:
        """The loop of a block over its parts of the work."""
        self.analyzer.bind(stmt.var, Range(stmt.begin, stmt.extent))
        taken, each = set(self.taken), self.exprs.value(resident.block.extent)
        part = self.fresh("part")
        head = f"for (int {part} = (int)blockIdx.x; {part} < {resident.parts}; {part} += (int)gridDim.x)"
        with self.block(head):
            for loop, value in ((stmt, f"{part} / {each}"), (resident.block, f"{part} % {each}")):
                name = self.bind(loop.var, "block_x" if loop is resident.block else "")
                self.line(f"const {value_type(loop.var.dtype)} {name} = {value};")
            self.statement(stmt.body)
        del self.exprs.names[resident.block.var]
        self.taken = taken

    def allocate(self, stmt: Allocate) -> None:
        if stmt.buffer.scope != "shared":
            count = max(self._count(stmt.buffer), 1)
            name = self.bind(stmt.buffer)
            packed = stmt.buffer.dtype.bytes < 4  # registers of fragments hold several
            align = "__align__(16) " if count * stmt.buffer.dtype.bytes >= (8 if packed else 16) else ""
            self.line(f"{align}{storage_type(stmt.buffer.dtype)} {name}[{count}];")
        self.statement(stmt.body)

    def evaluate(self, stmt: Evaluate) -> None:
        self.line(self.exprs.value(stmt.value) + ";")

    def assertion(self, stmt: Assert) -> None:
        number = self.message_number(stmt.message)
        with self.block(f"if (!{self.exprs.operand_text(stmt.condition)})"):
            self.line(f"tw_fail({number});")

    def attribute(self, stmt: Attr) -> None:
        before, self.asynchronous = self.asynchronous, self.asynchronous or stmt.key == ASYNCHRONOUS
        self.statement(stmt.body)
        self.asynchronous = before

    def store(self, stmt: BufferStore) -> None:
        index = stmt.indices[0] if stmt.indices else IntImm(0)
        lanes = index.dtype.lanes
        if self.asynchronous and self._copy(stmt, index):
            return
        addend = added(stmt)
        if addend is not None:
            self._add(stmt, index, addend)
            return
        self._pack(stmt.value)
        self._name_what_is_shared(stmt.value, index, *([] if stmt.predicate is None else [stmt.predicate]))
        values = [
            self.exprs.memory_text(bare(self.exprs.value(stmt.value, lane)), stmt.buffer.dtype) for lane in range(lanes)
        ]
        width = self._packable(stmt.buffer, index) if stmt.predicate is None else 1
        if width > 1:
            self._store_packed(stmt.buffer, index, values, width)
            return
        for lane, value in enumerate(values):
            text = f"{self._element(stmt.buffer, index, lane)} = {value};"
            if stmt.predicate is None:
                self.line(text)
            else:
                with self.block(f"if ({bare(self.exprs.value(stmt.predicate, lane))})"):
                    self.line(text)

    def _add(self, stmt: BufferStore, index: Expr, addend: Expr) -> None:
        """An element that grows in one step. The hardware adds 64-bit integers without a sign, which is the same."""
        self._name_what_is_shared(addend, index, *([] if stmt.predicate is None else [stmt.predicate]))
        place, value = f"&{self._element(stmt.buffer, index, 0)}", bare(self.exprs.value(addend, 0))
        if str(stmt.buffer.dtype) in ("int64", "uint64"):
            place, value = f"(unsigned long long *)({place})", f"(unsigned long long)({value})"
        with (
            self.block(f"if ({bare(self.exprs.value(stmt.predicate, 0))})")
            if stmt.predicate is not None
            else nullcontext()
        ):
            self.line(f"atomicAdd({place}, {value});")

    def _element(self, buffer: Buffer, index: Expr, lane: int) -> str:
        return f"{self.exprs.name(buffer)}[{bare(self.exprs.value(index, lane))}]"

    def _name_what_is_shared(self, *roots: Expr) -> None:
        """Declare the common parts of expressions that would be long without."""
        if any(self.exprs.is_long(root) for root in roots):
            for line in self.exprs.declared(roots, None):
                self.line(line)

    # Asynchronous copies

    def _copy(self, stmt: BufferStore, to: Expr) -> bool:
        """Begins a copy from global to shared memory, zeros where its conditions do not hold; False where the store is none, or is
        not of parts that the hardware copies."""
        load, conditions, otherwise = guarded_load(stmt.value)
        if (
            load is None
            or load.predicate is not None
            or stmt.predicate is not None
            or load.buffer.dtype != stmt.buffer.dtype
        ):
            return False
        if stmt.buffer.scope != "shared" or load.buffer.scope != "global" or (conditions and not _is_zero(otherwise)):
            return False
        width = min(self._packable(stmt.buffer, to), self._packable(load.buffer, load.indices[0]))
        size, lanes = width * load.buffer.dtype.bytes, to.dtype.lanes
        if size not in _COPIED or load.dtype.lanes != lanes:
            return False
        self._name_what_is_shared(to, load.indices[0], *conditions)
        there = "".join(
            f", {' && '.join(self.exprs.operand_text(each) for each in conditions)}" for _ in conditions[:1]
        )
        for first in range(0, lanes, width):
            target, source = (
                self._element(buffer, at, first) for buffer, at in ((stmt.buffer, to), (load.buffer, load.indices[0]))
            )
            self.line(f"tw_copy<{size}>(&{target}, &{source}{there});")
        return True

    # Vectors of memory

    def _store_packed(self, buffer: Buffer, index: Expr, values: list[str], width: int) -> None:
        kind = f"tw_vector<{storage_type(buffer.dtype)}, {width}>"
        for first in range(0, len(values), width):
            name = self.fresh("packed")
            self.line(f"const {kind} {name} = {{{{{', '.join(values[first : first + width])}}}}};")
            self.line(f"tw_store(&{self._element(buffer, index, first)}, {name});")

    def _pack(self, value: Expr) -> None:
        """Write the contiguous vector loads that `value` certainly does."""
        if value.dtype.lanes == 1:
            return
        stack: list[Any] = [value]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, BufferLoad) and node.dtype.lanes > 1:
                self._load_packed(node)
                continue
            if isinstance(node, IfThenElse):
                if not self._guarded_load(node):
                    self._choice(node)
                continue
            if isinstance(node, Let):
                continue  # what is within has not its names yet
            stack.extend(children(node))

    def _guarded_load(self, choice: IfThenElse) -> bool:
        """A load that all lanes do or none, for which there is a constant otherwise. False where the choice is another."""
        load, conditions, value = guarded_load(choice)
        width = self._width(load) if load is not None else 1
        if load is None or width == 1:
            return False
        otherwise = self.exprs.memory_text(self.exprs.value(value), load.buffer.dtype)
        self.exprs.packed[id(choice)] = self._loaded_parts(load, width, conditions, otherwise)
        return True

    def _choice(self, choice: IfThenElse) -> None:
        """A value that all lanes take from one side, where a side has loads that are done at once: these are done there alone."""
        if choice.condition.dtype.lanes > 1 or not self._loads_at_once(choice):
            return
        storage, lanes = storage_type(choice.dtype), choice.dtype.lanes
        width = gcd(lanes, VECTOR_BITS // 8 // choice.dtype.element.bytes)
        names = [self.fresh("chosen") for _ in range(0, lanes, width)]
        condition = bare(self.exprs.value(choice.condition))
        for name in names:
            self.line(f"tw_vector<{storage}, {width}> {name};")
        for begin, side in ((f"if ({condition})", choice.true_value), ("else", choice.false_value)):
            packed, shared = dict(self.exprs.packed), dict(self.exprs.shared)
            with self.block(begin):
                self._pack(side)
                self._name_what_is_shared(side)
                values = [
                    self.exprs.memory_text(bare(self.exprs.value(side, lane)), choice.dtype) for lane in range(lanes)
                ]
                for at, name in enumerate(names):
                    self.line(f"{name} = {{{{{', '.join(values[at * width : (at + 1) * width])}}}}};")
            self.exprs.packed, self.exprs.shared = packed, shared
        self.exprs.packed[id(choice)] = [f"{names[lane // width]}.lane[{lane % width}]" for lane in range(lanes)]

    def _loads_at_once(self, value: Expr) -> bool:
        """Return whether a vector of memory is read where `value` is."""
        return any(
            isinstance(node, BufferLoad) and node.dtype.lanes > 1 and self._width(node) > 1
            for node in post_order(value)
        )

    def _load_packed(self, load: BufferLoad) -> None:
        """A load in parts of up to 16 bytes."""
        width = 1 if id(load) in self.exprs.packed else self._width(load)
        if width > 1:
            self.exprs.packed[id(load)] = self._loaded_parts(load, width)

    def _loaded_parts(
        self, load: BufferLoad, width: int, conditions: Sequence[Expr] = (), otherwise: str = ""
    ) -> list[str]:
        """The names of what is loaded where the conditions hold, `width` lanes at once, lane by lane."""
        kind = f"tw_vector<{storage_type(load.buffer.dtype)}, {width}>"
        allowed = " && ".join(self.exprs.operand_text(condition) for condition in conditions)
        parts: list[str] = []
        for first in range(0, load.dtype.lanes, width):
            name = self.fresh("packed")
            value = f"tw_load<{width}>(&{self._element(load.buffer, load.indices[0], first)})"
            if allowed:
                self.line(f"{kind} {name} = {{{{{', '.join([otherwise] * width)}}}}};")
                with self.block(f"if ({allowed})"):
                    self.line(f"{name} = {value};")
            else:
                self.line(f"const {kind} {name} = {value};")
            parts += [f"{name}.lane[{lane}]" for lane in range(width)]
        return parts

    def _width(self, load: BufferLoad) -> int:
        """Return the number of elements that a load moves at once; 1 where lanes are loaded one by one."""
        return 1 if load.predicate is not None else self._packable(load.buffer, load.indices[0])

    def _packable(self, buffer: Buffer, index: Expr) -> int:
        """Return the number of elements of a contiguous, aligned access that are moved at once; 1 where it is no such access."""
        if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or index.stride.value != 1:
            return 1
        width = VECTOR_BITS // 8 // buffer.dtype.bytes
        while width > 1 and index.lanes % width:
            width //= 2
        while width > 1 and not self._multiple(index.base, width):
            width //= 2
        if width > 1 and buffer in self.function.params:
            self.aligned.add(self.function.params.index(buffer))
        return width

    def _multiple(self, value: Expr, of: int) -> bool:
        modular = self.analyzer.modular(value)
        return modular.coeff % of == 0 and modular.base % of == 0


def guarded_load(value: Expr) -> tuple[BufferLoad | None, list[Expr], Expr]:
    """(what is loaded where the conditions hold, these, the constant otherwise); no load where a value is anything else, or lanes
    differ in what they do."""
    conditions: list[Expr] = []
    node, otherwise = value, value
    while isinstance(node, IfThenElse) and (
        not conditions or structural_key(node.false_value) == structural_key(otherwise)
    ):
        conditions.append(node.condition)
        node, otherwise = node.true_value, node.false_value
    constant = otherwise.value if isinstance(otherwise, Broadcast) else otherwise
    alike = all(condition.dtype.lanes == 1 for condition in conditions)
    fits = alike and (not conditions or isinstance(constant, (IntImm, FloatImm)))
    return (node if fits and isinstance(node, BufferLoad) else None), conditions, constant


def _is_zero(constant: Expr) -> bool:
    """Return whether all its bits are 0, which those of -0.0 are not."""
    return isinstance(constant, (IntImm, FloatImm)) and constant.value == 0 and copysign(1, constant.value) > 0
