"""Statements as LLVM text: the kernel, and the outlined bodies of its parallel loops.

A function leaves early (a failed assertion, memory that is not to be had, a parallel task that failed) by storing its
status and jumping to the one exit, which frees what is on the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any

from ...base import InternalError, dataclass, field, replace
from ...ir.atomics import added
from ...ir.buffer import Buffer
from ...ir.constant import ALIGNMENT, Constant
from ...ir.dtype import INT64
from ...ir.expr import BinaryOp, BufferLoad, IntImm, Var
from ...ir.ops import is_const
from ...ir.passes.cpu.nontemporal import NONTEMPORAL
from ...ir.passes.cpu.reassociation import REASSOCIATE
from ...ir.passes.cpu.scalar_promotion import INDEPENDENT
from ...ir.stmt import (
    Allocate,
    Assert,
    Attr,
    BufferStore,
    Evaluate,
    For,
    Function,
    If,
    LetStmt,
    LoopKind,
    Seq,
    Stmt,
    While,
)
from ...ir.visit import distinct, free_vars, seq, walk
from ..abi.signature import shape_symbols
from ..sizes import exceeds_memory
from . import memory
from .arithmetic import convert
from .debug import DebugLines
from .emit_expr import BUILDERS
from .emitter import ExprEmitter, Place
from .facts import IndexFacts
from .maths_options import PORTABLE, MathsOptions
from .memory import OWN_ALIGNMENT
from .outline import (
    Captured,
    captures,
    constant_bytes,
    context_slot,
    count_loops,
    pointer_parameter,
    stored_buffers,
    task_entry,
)
from .plain_loops import are_independent, plain_lanes
from .text import FunctionText, ModuleText
from .types import llvm_type, memory_type
from .workspaces import WORKSPACES

__all__ = ["KernelText", "emit_kernel"]

_STACK_BUDGET = 16 * 1024
"""Bytes of stack that one function takes for buffers; what is larger, or of unknown size, goes to the heap."""
_THREAD_STACK = 256 * 1024
"""The same of a parallel loop's body, in a function that is not to allocate."""
_MOST_UNROLLED = 16
"""Iterations of a loop of vector code that LLVM may unroll; its own taste takes four times as long to compile."""
_UNROLLED_VECTORS = 32
"""Accesses to vectors in a loop's body up to which LLVM may unroll it. What has more is a tile of registers already: of its
copies LLVM would share the loads, and hold them in registers that there are not."""
_FEW_UNROLLED = 8
"""Iterations up to which such a loop is always left to it."""
_MOST_LOOPS = 32
"""Loops of one function, where they can be split among several: several of LLVM's loop passes look at all of a function's loops
whenever they have changed one."""
# name, result and parameters, as FunctionText.declare takes them
_PARALLEL_FOR = ("tw_parallel_for", "i32", ("ptr", "ptr", "i32"))


@dataclass
class KernelText:
    """State shared by the functions of one kernel."""

    module: ModuleText
    symbol: str
    attributes: str
    vector_bits: int
    fast_math: bool
    fp_contract: bool = False
    store_fence: str = ""
    """The instruction that orders stores past the caches before those that follow, where the machine does not."""
    maths: MathsOptions = PORTABLE
    debug: DebugLines | None = None
    thread_stack: int = _STACK_BUDGET
    """Bytes of stack that a function takes for buffers which runs in a parallel loop."""
    messages: list[str] = field(default_factory=list[str])
    outlined: int = 0
    loops: dict[Stmt, int] = field(default_factory=dict[Stmt, int])
    """How many are in each statement that was asked about."""

    def add_message(self, message: str) -> int:
        """The status that stands for an assertion's message."""
        if message not in self.messages:  # 0 is success
            self.messages.append(message)
        return 1 + self.messages.index(message)


def emit_kernel(
    module: ModuleText,
    function: Function,
    symbol: str,
    symbols: tuple[Var, ...],
    *,
    attributes: str,
    vector_bits: int,
    fast_math: bool,
    fp_contract: bool = False,
    store_fence: str = "",
    maths: MathsOptions = PORTABLE,
    debug: DebugLines | None = None,
    constants: Mapping[Constant, str] | None = None,
) -> tuple[str, ...]:
    """Write `function`, of stage "final", into the module as `symbol`; return the messages of its assertions.

    symbols: the free shape symbols in the order in which callers pass them. store_fence: see KernelText. debug: notes at
    each instruction the line that its statement came from. constants: the symbols of those that it reads.
    """
    kernel = KernelText(module, symbol, attributes, vector_bits, fast_math, fp_contract, store_fence, maths, debug)
    # workspaces are the last arguments
    workspaces = function.arguments[len(function.arguments) - function.attrs.get(WORKSPACES, 0) :]
    if WORKSPACES in function.attrs:
        kernel.thread_stack = _THREAD_STACK
    parameters: list[str] = []
    written = stored_buffers(function.body)
    for i, param in enumerate(function.arguments):
        if isinstance(param, Buffer):
            # a buffer whose pointer goes elsewhere may be written there
            may_write = param in written or param.data is not None
            parameters.append(f"{pointer_parameter(param, may_write, max(param.dtype.bytes, param.alignment))} %p{i}")
        else:
            parameters.append(f"{llvm_type(param.dtype)} %p{i}")
    parameters += [f"i64 %n{i}" for i in range(len(symbols))]
    f = FunctionText(module, f"define i32 @{symbol}({', '.join(parameters)}) {attributes}")
    emitter = StmtEmitter(kernel, f, in_parallel=False)
    for i, param in enumerate(function.arguments):
        if isinstance(param, Buffer):
            own = OWN_ALIGNMENT if param in workspaces else 0
            emitter.bind_buffer(param, Place(f"%p{i}", max(param.dtype.bytes, param.alignment, own)))
        else:
            emitter.exprs.variables[param] = f"%p{i}"
    for buffer, held in function.constant_buffers.items():
        emitter.bind_buffer(buffer, Place(f"@{(constants or {})[held]}", ALIGNMENT))
    for i, symbol_var in enumerate(symbols):
        emitter.exprs.variables[symbol_var] = _narrow(f, f"%n{i}", symbol_var)
    # symbols that callers pass and those that shapes have
    for var in {*symbols, *shape_symbols(Function("", function.buffers, Seq(())))}:
        emitter.exprs.facts.bind_symbol(var, not_negative=True)  # a shape's extents are not negative
    emitter.function_body(lambda: emitter.statement(function.body))
    return tuple(kernel.messages)


def _narrow(f: FunctionText, value: str, var: Var) -> str:
    # nsw: extents of 32 bits were checked
    return value if var.dtype.bits == 64 else f.op(f"trunc nsw i64 {value} to {llvm_type(var.dtype)}")


class StmtEmitter:
    """Write statements into one function."""

    def __init__(self, kernel: KernelText, f: FunctionText, *, in_parallel: bool) -> None:
        self.kernel, self.f, self.in_parallel = kernel, f, in_parallel
        self.exprs = ExprEmitter(
            f, IndexFacts(), BUILDERS, fast_math=kernel.fast_math, fp_contract=kernel.fp_contract, maths=kernel.maths
        )
        self.exprs.leave_if = self.leave_if  # assertions are written by expressions, too
        self._stack_left = kernel.thread_stack if in_parallel else _STACK_BUDGET
        self._status: str | None = None
        self._described = "" if kernel.debug is None else kernel.debug.function(f)
        self._heap: list[str] = []
        self._own: set[Buffer] = set()
        self._depth = 0
        self._long_within = False
        self._adds_over: Var | None = None
        """The variable of the loop that is being written, where its sums may be added in any order."""

    def bind_buffer(self, buffer: Buffer, place: Place) -> None:
        """Bind a buffer to its place; its data pointer may then be passed to outside code."""
        self.exprs.places[buffer] = place
        if buffer.data is not None:
            self.exprs.variables[buffer.data] = place.pointer

    def function_body(self, write: Callable[[], None]) -> None:
        """The whole function, whose statements `write` writes."""
        write()
        if self._status is not None:
            self.f.jump("exit")  # the exit frees what is on the heap, also on success
            self.f.begin("exit")
        if self.exprs.streams and self.kernel.store_fence:
            self.f.do(
                self.kernel.store_fence
            )  # others must see what passed the caches before they hear that it is done
        if self._status is None:
            self.f.do("ret i32 0")
        else:
            for slot in self._heap:
                self.f.do(f"call void @free(ptr {self.f.read(f'load ptr, ptr {slot}')})")  # free(NULL) does nothing
            self.f.do(f"ret i32 {self.f.read(f'load i32, ptr {self._status}')}")
        self.f.finish()

    def statement(self, stmt: Stmt) -> None:
        """One statement."""
        builder = _BUILDERS.get(type(stmt))
        if builder is None:
            raise InternalError(f"a {type(stmt).__name__} reached code generation")
        self.exprs.start_statement()
        # other statements have no line in the program's text
        line = stmt.line if isinstance(stmt, (For, BufferStore, Evaluate)) else 0
        if self.kernel.debug is None or not line:
            builder(self, stmt)
            return
        before, self.f.location = self.f.location, self.kernel.debug.location(self._described, line)
        builder(self, stmt)
        self.f.location = before

    def leave_if(self, condition: str, status: str) -> None:
        """Leaves the function with `status` where the condition holds."""
        if self._status is None:  # most functions never leave early, and need no slot
            self._status = self.f.emit_at_entry("alloca i32")
            self.f.do_at_entry(f"store i32 0, ptr {self._status}")
        leave, go_on = self.f.fresh("leave"), self.f.fresh("on")
        # failures are rare: LLVM lays their code out of the way
        self.f.branch(self.f.op(f"call i1 @llvm.expect.i1(i1 {condition}, i1 false)"), leave, go_on)
        self.f.begin(leave)
        self.f.do(f"store i32 {status}, ptr {self._status}")
        self.f.jump("exit")
        self.f.begin(go_on)

    # Simple statements

    def sequence(self, stmt: Seq) -> None:
        parts, counted = _flat(stmt), self.kernel.loops
        several = count_loops(stmt, counted) > _MOST_LOOPS and sum(counted[part] > 0 for part in parts) > 1
        together: list[Stmt] = []
        for part in parts:
            loops = counted[part] if several else 0
            # no group holds more loops than LLVM takes quickly
            if together and (not loops or sum(counted[stmt] for stmt in together) + loops > _MOST_LOOPS):
                self._outline(seq(*together))
                together = []
            if loops:
                together.append(part)
            else:
                self.statement(part)
        if together:
            self._outline(seq(*together))

    def store(self, stmt: BufferStore) -> None:
        index = stmt.indices[-1] if stmt.indices else IntImm(0)
        addend = added(stmt)
        if addend is not None:  # an addition to memory may become one instruction
            memory.add(self.exprs, stmt.buffer, index, self.exprs.value(addend), stmt.predicate)
            return
        if self._adds_over is not None and isinstance(stmt.value, BinaryOp) and self._adds_over not in free_vars(index):
            value = self.exprs.reassociable(stmt.value)
        else:
            value = self.exprs.value(memory.widen_masked_update(self.exprs, stmt, index))  # one value for all lanes
        if index.dtype.lanes > 1 and stmt.value.dtype.lanes == 1:
            value = self.exprs.splat(value, stmt.buffer.dtype.with_lanes(index.dtype.lanes))
        memory.store(self.exprs, stmt.buffer, index, value, stmt.predicate)

    def let(self, stmt: LetStmt) -> None:
        self.exprs.variables[stmt.var] = self.exprs.value(stmt.value)
        self.exprs.facts.bind_value(stmt.var, stmt.value)
        self.statement(stmt.body)

    def evaluate(self, stmt: Evaluate) -> None:
        self.exprs.value(stmt.value)

    def attribute(self, stmt: Attr) -> None:
        if stmt.key != NONTEMPORAL or not isinstance(stmt.subject, Buffer):
            self.statement(stmt.body)
            return
        before, self.exprs.streamed = self.exprs.streamed, stmt.subject
        self.statement(stmt.body)
        self.exprs.streamed = before

    def assertion(self, stmt: Assert) -> None:
        holds = self.exprs.value(stmt.condition)
        lanes = stmt.condition.dtype.lanes
        if lanes > 1:
            # all lanes have to hold
            holds = self.f.op(f"call i1 @llvm.vector.reduce.and.v{lanes}i1({llvm_type(stmt.condition.dtype)} {holds})")
        self.leave_if(self.f.op(f"xor i1 {holds}, true"), str(self.kernel.add_message(stmt.message)))

    def condition(self, stmt: If) -> None:
        condition = self.exprs.value(stmt.condition)
        then, after = self.f.fresh("then"), self.f.fresh("after")
        otherwise = self.f.fresh("else") if stmt.else_body is not None else after
        self.f.branch(condition, then, otherwise)
        self._arm(then, stmt.then_body, after)
        if stmt.else_body is not None:
            self._arm(otherwise, stmt.else_body, after)
        self.f.begin(after)

    def repetition(self, stmt: While) -> None:
        test, body, after = self.f.fresh("while"), self.f.fresh("body"), self.f.fresh("after")
        self.f.jump(test)
        self.f.begin(test)
        self.exprs.start_statement()  # values of the condition are computed anew in each turn
        with self.f.scope():
            self.f.branch(self.exprs.value(stmt.condition), body, after)
        self._arm(body, stmt.body, test)
        self.f.begin(after)

    def _arm(self, label: str, body: Stmt, after: str) -> None:
        self.f.begin(label)
        with self.f.scope():
            self.statement(body)
        self.f.jump(after)

    # Loops

    def loop(self, stmt: For) -> None:
        if stmt.kind is LoopKind.PARALLEL and not self.in_parallel:
            self._parallel(stmt)
            return
        if self._depth == _MOST_LOOPS:  # deeper nests go into another function, for LLVM's loop passes
            self._outline(stmt)
            return
        self._depth += 1
        self._serial(stmt)
        self._depth -= 1

    def _serial(self, stmt: For) -> None:
        begin, extent = stmt.begin, self.exprs.value(stmt.extent)
        start, kind = self.exprs.value(begin), llvm_type(stmt.var.dtype)
        self.exprs.facts.bind_loop(stmt.var, begin, stmt.extent)  # facts about the variable hold in the body
        count = self.exprs.constant_int(stmt.extent)
        if count == 1:  # one turn: the loop would only hide its constants
            self.exprs.variables[stmt.var] = start
            self.statement(stmt.body)
        elif count is None or count > 0:
            if isinstance(begin, IntImm) and count is not None:
                end = str(begin.value + count)
            else:
                end = self.f.op(f"add nsw {kind} {start}, {extent}") if start != "0" else extent
            self.emit_counted_loop(stmt, start, end, count)

    def emit_counted_loop(self, stmt: For, start: str, end: str, count: int | None, step: str = "1") -> None:
        """`for var in [start, end)`, by `step`, `count` times where that is known. Written as LLVM's loop rotation would leave it:
        guard, body, test at the end.

        Short loops are LLVM's to unroll, so that small buffers that they index become registers. Longer ones are not: a
        loop of vectors is scheduled, how far it is unrolled too, and a loop of scalars that is unrolled whole is one that
        LLVM no longer vectorizes. Nor are short ones around longer ones: nothing is gained by copies of whole loops.
        Which loops of scalars it may vectorize says plain_loops.
        """
        f, var = self.f, stmt.var
        kind = llvm_type(var.dtype)
        loop, after = f.fresh("loop"), f.fresh("after")
        if count is not None:  # a known count is at least 1, so that no guard is needed
            f.jump(loop)
        else:
            f.branch(f.op(f"icmp slt {kind} {start}, {end}"), loop, after)
        before = f.label
        name = "%" + f.fresh("i")
        following = name + ".next"
        f.begin(loop)
        latch = loop + ".latch"
        f.define(name, f"phi {kind} [ {start}, %{before} ], [ {following}, %{latch} ]")
        self.exprs.variables[var] = name
        vectors_before, self.exprs.vector_accesses = self.exprs.vector_accesses, 0
        long_before, self._long_within = self._long_within, False
        known = any(key == INDEPENDENT for key, _ in stmt.pragmas)
        # a search, done only where something depends on it
        independent = cache(lambda: known or are_independent(stmt, self.exprs.facts.bounds))
        cut = {key: value.value for key, value in stmt.pragmas if isinstance(value, IntImm) and value.value > 1}
        sums, step_lanes = cut.get(REASSOCIATE, 0), max(cut.get(REASSOCIATE, 0), cut.get(INDEPENDENT, 0))
        lanes = plain_lanes(stmt, self.kernel.vector_bits, self.kernel.fast_math or sums > 1, independent)
        chains = step_lanes // lanes if lanes else 0
        lanes = min(lanes, step_lanes or lanes)
        most = self.exprs.facts.bounds(stmt.extent).hi
        if most is not None and most < lanes:  # shorter than a vector: LLVM would make one for nothing
            lanes = 0
        serial_before, self.exprs.serial = self.exprs.serial, not lanes
        told = lanes > 0 and independent.cache_info().currsize > 0  # independence was asked and found
        sums_before, self._adds_over = self._adds_over, stmt.var if lanes and sums else None
        with f.scope(), f.group_accesses() if told else nullcontext() as group:
            self.statement(stmt.body)
        self.exprs.serial, self._adds_over = serial_before, sums_before
        long = count is not None and (count > _MOST_UNROLLED or self._gains_nothing(stmt, count)) or self._long_within
        full = self.exprs.vector_accesses > _UNROLLED_VECTORS
        # of a sum that is unrolled whole LLVM makes no lanes; loops of unknown count are its to unroll where they are scalar
        scheduled = long or full or (lanes > 0 and sums > 1) if count is not None else self.exprs.vector_accesses > 0
        self._long_within = long_before or long or count is None
        self.exprs.vector_accesses += vectors_before
        hints = [f'!{{!"llvm.loop.vectorize.width", i32 {lanes or 1}}}']
        hints += [f'!{{!"llvm.loop.parallel_accesses", {group}}}'] if group is not None else []
        hints += ['!{!"llvm.loop.unroll.disable"}'] if scheduled else []
        if not lanes or step_lanes:  # a loop that is no vector is not interleaved either
            hints.append(f'!{{!"llvm.loop.interleave.count", i32 {max(chains, 1)}}}')
        hint = f.module.loop_metadata(*hints)
        f.jump(latch)
        f.begin(latch)
        # nuw lets LLVM widen the counter without a sign
        unsigned = " nuw" if self.exprs.facts.not_negative(var) else ""
        f.define(following, f"add{unsigned} nsw {kind} {name}, {step}")
        f.branch(f.read(f"icmp slt {kind} {following}, {end}"), loop, after, hint)
        f.begin(after)

    def _gains_nothing(self, loop: For, count: int) -> bool:
        """Return whether a loop of vectors that is not quite short reads what lies outside of the function alone: the accumulators in
        it become registers without being unrolled, and a processor that sees one load in a loop fetches ahead."""
        if count < _FEW_UNROLLED or not self.exprs.vector_accesses:
            return False
        own = [
            node
            for node in distinct(loop.body)
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in self._own
        ]
        return not any(part is loop.var for part in distinct(*(index for node in own for index in node.indices)))

    # Memory

    def allocate(self, stmt: Allocate) -> None:
        self._allocate(stmt.buffer, lambda: self.statement(stmt.body))

    def _allocate(self, buffer: Buffer, write: Callable[[], None]) -> None:
        """Run `write` with memory for a buffer."""
        self._own.add(buffer)
        size = constant_bytes(buffer)
        # rounded up, as vectors may reach beyond the last element
        rounded = max(-(-(size or 0) // OWN_ALIGNMENT) * OWN_ALIGNMENT, OWN_ALIGNMENT)
        if size is not None and rounded <= self._stack_left:
            self._stack_left -= rounded
            element = memory_type(buffer.dtype)
            pointer = self.f.emit_at_entry(
                f"alloca [{rounded // buffer.dtype.bytes} x {element}], align {OWN_ALIGNMENT}"
            )
            self.bind_buffer(buffer, Place(pointer, OWN_ALIGNMENT, rounded // buffer.dtype.bytes))
            write()
            return
        self._allocate_heap(buffer, write)

    def _allocate_heap(self, buffer: Buffer, write: Callable[[], None]) -> None:
        f = self.f
        f.module.declare("aligned_alloc", "noalias ptr", ["i64", "i64"])
        f.module.declare("free", "void", ["ptr captures(none)"])
        slot = f.emit_at_entry("alloca ptr")
        f.do_at_entry(f"store ptr null, ptr {slot}")  # null at first: the exit frees all slots
        self._heap.append(slot)
        beyond = exceeds_memory(buffer)
        if beyond is not None:
            self.leave_if(self.exprs.value(beyond), "-1")
        size = str(buffer.dtype.bytes)  # nsw: leave_if has refused products beyond memory
        for extent in buffer.shape:
            wide = convert(f, self.exprs.value(extent), extent.dtype, INT64)
            size = f.op(f"mul nsw i64 {size}, {wide}")
        padded = f.op(f"and i64 {f.op(f'add nsw i64 {size}, {OWN_ALIGNMENT - 1}')}, {-OWN_ALIGNMENT}")
        # aligned_alloc of 0 bytes may return null
        padded = f.op(f"call i64 @llvm.smax.i64(i64 {padded}, i64 {OWN_ALIGNMENT})")
        pointer = f.read(f"call ptr @aligned_alloc(i64 {OWN_ALIGNMENT}, i64 {padded})")
        self.leave_if(f.op(f"icmp eq ptr {pointer}, null"), "-1")
        f.do(f"store ptr {pointer}, ptr {slot}")
        self.bind_buffer(buffer, Place(pointer, OWN_ALIGNMENT))
        write()
        f.do(f"call void @free(ptr {pointer})")
        f.do(f"store ptr null, ptr {slot}")  # freed here: the exit must not free it again

    # Functions of their own

    def _outline(self, stmt: Stmt) -> None:
        """The statement as a function that is called here."""
        captured = captures(stmt, self.exprs)
        f, name = self.f, f"{self.kernel.symbol}_part_{self.kernel.outlined}"
        self.kernel.outlined += 1
        inner = self._inner(name, [], captured, in_parallel=self.in_parallel)
        inner.function_body(lambda: inner.statement(stmt))
        if self.kernel.debug is not None:  # LLVM wants to know where each call of a described function stands
            f.location = f.location or self.kernel.debug.location(self._described, 1)
        status = f.read(f"call i32 @{name}({', '.join(' '.join(item.passed) for item in captured)})")
        self.leave_if(f.op(f"icmp ne i32 {status}, 0"), status)

    def _inner(self, name: str, parameters: list[str], captured: list[Captured], *, in_parallel: bool) -> StmtEmitter:
        """Write into a new function, whose parameters tell LLVM again that nothing overlaps."""
        # noinline, or LLVM would make one large function again
        parameters = [*parameters, *(item.parameter(i) for i, item in enumerate(captured))]
        head = f"define internal i32 @{name}({', '.join(parameters)}) noinline {self.kernel.attributes}"
        inner = StmtEmitter(self.kernel, FunctionText(self.kernel.module, head), in_parallel=in_parallel)
        inner.exprs.facts = self.exprs.facts  # what is known of symbols and outer loops holds there, too
        for i, item in enumerate(captured):
            if isinstance(item.subject, Buffer):
                inner.bind_buffer(item.subject, Place(f"%c{i}", item.alignment))
            else:
                inner.exprs.variables[item.subject] = f"%c{i}"
        return inner

    def _parallel(self, stmt: For) -> None:
        """Outlines the loop: `tw_parallel_for` runs the body's tasks, each of which takes a contiguous chunk."""
        captured = captures(stmt.body, self.exprs, {stmt.var})
        f, kernel = self.f, self.kernel
        name = f"{kernel.symbol}_parallel_{kernel.outlined}"
        kernel.outlined += 1
        begin, extent = (convert(f, self.exprs.value(e), e.dtype, INT64) for e in (stmt.begin, stmt.extent))
        values = [("i64", begin), ("i64", extent), *(item.passed for item in captured)]
        structure = f"{{ {', '.join(kind for kind, _ in values)} }}"
        context = f.emit_at_entry(f"alloca {structure}")
        for i, (kind, value) in enumerate(values):
            f.do(f"store {kind} {value}, ptr {context_slot(f, structure, context, i)}")
        f.module.declare(_PARALLEL_FOR[0], _PARALLEL_FOR[1], _PARALLEL_FOR[2])
        # tasks are counted in 32 bits
        tasks = f.op(f"trunc i64 {f.op(f'call i64 @llvm.smin.i64(i64 {extent}, i64 2147483647)')} to i32")
        status = f.read(f"call i32 @tw_parallel_for(ptr @{name}, ptr {context}, i32 {tasks})")
        self.leave_if(f.op(f"icmp ne i32 {status}, 0"), status)
        strided = any(key == "parallel_stride_pattern" and not is_const(value, 0) for key, value in stmt.pragmas)
        task_entry(kernel.module, name, kernel.attributes, structure, [kind for kind, _ in values], strided)
        self._chunk(stmt, f"{name}_chunk", captured, strided)

    def _chunk(self, stmt: For, name: str, captured: list[Captured], strided: bool) -> None:
        """The loop over [lo, hi), or over each step-th of it, as a function of its own."""
        ends = ["i64 %lo", "i64 %hi", "i64 %step"] if strided else ["i64 %lo", "i64 %hi"]
        inner = self._inner(name, ends, captured, in_parallel=True)
        f = inner.f
        if self.kernel.debug is not None and stmt.line:
            f.location = self.kernel.debug.location(inner._described, stmt.line)
        inner.exprs.facts.bind_loop(stmt.var, stmt.begin, stmt.extent)
        kind = llvm_type(stmt.var.dtype)
        # chunk ends come as 64 bits, the loop counts in its own type
        lo, hi, *step = (end.split()[1] if kind == "i64" else f.op(f"trunc nsw {end} to {kind}") for end in ends)
        inner.function_body(
            lambda: inner._hoist_allocations(stmt, lambda rest: inner.emit_counted_loop(rest, lo, hi, None, *step))
        )

    def _hoist_allocations(self, stmt: For, write: Callable[[For], None]) -> None:
        """A loop, with what each of its iterations would allocate anew allocated once."""
        body = stmt.body
        if isinstance(body, Allocate) and not any(  # an extent that depends on the loop differs in each turn
            node is stmt.var for extent in body.buffer.shape for node in walk(extent)
        ):
            inside = replace(stmt, body=body.body)
            self._allocate(body.buffer, lambda: self._hoist_allocations(inside, write))
        else:
            write(stmt)


def _flat(stmt: Seq) -> list[Stmt]:
    """The statements of a sequence, and of sequences in it."""
    flat, stack = list[Stmt](), list[Stmt]([stmt])
    while stack:
        part = stack.pop()
        if isinstance(part, Seq):
            stack.extend(reversed(part.body))
        else:
            flat.append(part)
    return flat


_BUILDERS: dict[type[Stmt], Callable[[StmtEmitter, Any], None]] = {
    Seq: StmtEmitter.sequence,
    BufferStore: StmtEmitter.store,
    LetStmt: StmtEmitter.let,
    Evaluate: StmtEmitter.evaluate,
    Attr: StmtEmitter.attribute,
    Assert: StmtEmitter.assertion,
    If: StmtEmitter.condition,
    While: StmtEmitter.repetition,
    For: StmtEmitter.loop,
    Allocate: StmtEmitter.allocate,
}
