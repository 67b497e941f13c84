"""Statements as C11 text: the function of a kernel, one statement a line.

A function leaves early (a failed assertion, memory that is not to be had, a Python function that raised) by setting its status
and jumping to the one exit, which frees what is on the heap. No jump may leave an iteration of a parallel loop: it goes to
the iteration's end, and the status is looked at after the loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext

from ...base import dataclass, field
from ...ir.atomics import added
from ...ir.buffer import Buffer
from ...ir.constant import Constant
from ...ir.expr import BufferLoad, Call, Expr, IntImm, Range, StringImm, Var
from ...ir.passes.common.simplify import build_analyzer, symbol_range
from ...ir.pointers import WRITES, pointed_buffer
from ...ir.stmt import Allocate, Assert, BufferStore, Evaluate, For, Function, LetStmt, LoopKind, Stmt
from ...ir.visit import walk
from ...runtime.abi import OUT_OF_MEMORY
from ...runtime.signature import Signature
from ..clike.emit_stmt import StmtEmitter
from ..clike.types import bare
from ..export.header import declarations
from ..export.names import parameter_names
from ..sizes import exceeds_memory
from .emit_expr import CExprEmitter
from .intrinsics import CALLS, STANDARD, call_outside_function
from .loops import VECTORIZE
from .types import storage_type, value_type

__all__ = ["EmittedKernel", "emit_kernel"]

# threads of OpenMP may have small stacks
_STACK_BUDGET = 16 * 1024
"""Bytes of stack that one function takes for buffers; what is larger, or of unknown size, goes to the heap."""
_ALIGNMENT = 64  # a cache line, and the widest vectors


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """C text of a kernel.

    text: the function. messages: of its assertions, by status - 1. declarations: of what it calls, by name.
    """

    text: str
    messages: tuple[str, ...]
    declarations: dict[str, str]


@dataclass
class _Frame:
    """Scope that a jump to the exit leaves: the function, or an iteration of a parallel loop. heap: the pointers to free there.
    start: where they are declared."""

    label: str
    start: int
    stack: int = _STACK_BUDGET
    heap: list[str] = field(default_factory=list[str])
    is_left: bool = False


def emit_kernel(
    function: Function,
    signature: Signature,
    symbols: Sequence[Var],
    guards: Sequence[str],
    constants: dict[Constant, str],
) -> EmittedKernel:
    """`function`, of stage "final", as a C function that is declared as `export.header.declarations` says.

    symbols: the free shape symbols in call order. guards: lines that check what is passed, before anything else. constants:
    the names of what it reads.
    """
    return _Emitter(function).emit(signature, symbols, guards, constants)


class _Emitter(StmtEmitter):
    exprs: CExprEmitter
    scoped = (LetStmt, Allocate)

    def __init__(self, function: Function) -> None:
        self.function, analyzer = function, build_analyzer(function)
        super().__init__(CExprEmitter(analyzer, CALLS, self._fail_lines), analyzer, [])
        # words that compilers define beyond the standard's
        self.taken |= {"restrict", "inline", "typeof", "signed", "NULL", "tw_status", "unix", "linux"}
        self.parallel = False
        self._frames: list[_Frame] = []
        self._labels = 0

    # The function

    def emit(
        self,
        signature: Signature,
        symbols: Sequence[Var],
        guards: Sequence[str],
        constants: dict[Constant, str],
    ) -> EmittedKernel:
        public = parameter_names(signature)
        self.taken |= {
            signature.name,
            *(name + f for name in STANDARD for f in ("", "f")),  # float variants end in f
            *_collect_called_names(self.function.body),
        }
        names = [self.fresh(name) for name in public]  # a parameter may hide no function that is called
        written = _collect_written(self.function.body)
        for var, name in zip(symbols, names, strict=False):
            self.analyzer.bind(var, symbol_range(var))
            self.exprs.names[var] = name
            if var.dtype.bits != 64:  # symbols are passed as int64, the program may count in 32 bits
                self.line(f"const {value_type(var.dtype)} {self.bind(var, name)} = ({value_type(var.dtype)}){name};")
        for param, name in zip(self.function.arguments, names[len(symbols) :], strict=True):
            self._parameter(param, name, param in written)
        for buffer, held in self.function.constant_buffers.items():
            self._place(buffer, constants[held])
            self.line(
                f"const {storage_type(buffer.dtype)} *const {self.bind(buffer)} = (const void *){constants[held]};"
            )
        self._frames.append(_Frame("tw_exit", len(self.lines)))
        self.statement(self.function.body)
        frame = self._close()
        head = [*self.lines[: frame.start], *(["  int32_t tw_status = 0;"] if frame.is_left else [])]
        tail = ["  return tw_status;" if frame.is_left else "  return 0;"]
        prototype = _restrict_pointers(declarations(signature)[0].removesuffix(";"))
        for old, new in zip(public, names, strict=True):
            prototype = re.sub(rf"\b{old}\b(?=[,)])", new, prototype)
        text = "\n".join(
            [f"{prototype} {{", *("  " + g for g in guards), *head, *self.lines[frame.start :], *tail, "}"]
        )
        return EmittedKernel(text, tuple(self.messages), self.exprs.declarations)

    def _parameter(self, param: Buffer | Var, name: str, is_written: bool) -> None:
        self.exprs.names[param] = name
        if isinstance(param, Var):
            # C has no 16-bit floats: the bits are passed, and widened once
            if param.dtype.is_float and param.dtype.bits == 16:
                self.line(f"const float {self.bind(param, name + '_value')} = {self.exprs.loaded(name, param.dtype)};")
            return
        kind = storage_type(param.dtype)
        if param.dtype.is_bool:  # any byte but 0 is true: C's own bool would not look at all of it
            constness = "" if is_written else "const "
            self.line(f"{constness}{kind} *const {self.bind(param, name + '_bytes')} = ({constness}{kind} *){name};")
        # a parameter that is only written for another's sake is declared const in the header
        elif is_written and param not in self.function.outputs:
            self.line(f"{kind} *const {self.bind(param, name + '_written')} = ({kind} *){name};")
        self._place(param, self.exprs.names[param])

    def _place(self, buffer: Buffer, pointer: str) -> None:
        """Name the pointer of a buffer, which outside code may get."""
        if buffer.data is not None:
            self.exprs.names[buffer.data] = f"(void *){pointer}"

    def _close(self) -> _Frame:
        """The end of a frame: its label, what is freed there, and at its beginning the pointers."""
        frame = self._frames.pop()
        if frame.is_left:  # a label nobody jumps to is a warning
            self.line(f"{frame.label}:;")
        for name in frame.heap:
            self.line(f"free({name});")
        indent = "  " * self.indent
        # declared before any jump, so that free of one that was never set is free(NULL)
        self.lines[frame.start : frame.start] = [f"{indent}void *{name} = NULL;" for name in frame.heap]
        return frame

    # Leaving

    def _fail_lines(self, condition: str, status: str) -> list[str]:
        """Leaves with `status` where the condition holds."""
        frame = self._frames[-1]
        for each in self._frames:  # what contains this frame has to look at the status too
            each.is_left = True
        lines = [f"if ({bare(condition)}) {{"]
        lines += ["#pragma omp atomic write"] if len(self._frames) > 1 else []  # several iterations may fail at once
        return [*lines, f"tw_status = {status};", f"goto {frame.label};", "}"]

    def _fail(self, condition: str, status: str) -> None:
        self._raw(self._fail_lines(condition, status))

    def _raw(self, lines: Sequence[str]) -> None:
        """Lines whose braces say how far they are indented."""
        for text in lines:
            self.indent -= text.startswith("}")
            self.line(text)
            self.indent += text.endswith("{")

    # Statements

    def values(self, *roots: Expr) -> list[list[str]]:
        """The lanes of values, whose lines are written."""
        self.exprs.lines = []
        self.exprs.begin(*roots)
        texts = [[bare(self.exprs.value(root, lane)) for lane in range(root.dtype.lanes)] for root in roots]
        self._raw(self.exprs.lines)
        self.exprs.lines = []
        return texts

    def evaluate(self, stmt: Evaluate) -> None:
        call = stmt.value
        if isinstance(call, Call) and call.name in ("call_extern", "call_pure_extern"):
            self.exprs.lines = []
            self.exprs.begin(call)
            # a call of which the result is dropped may be of void functions
            text = call_outside_function(self.exprs, call, 0)
            self._raw([*self.exprs.lines, f"{text};"])
            return
        text = self.values(call)[0][0]
        # a name or 0 has no effect: a statement of it is a warning
        if text not in ("0", "") and not text.isidentifier():
            self.line(f"(void)({text});")

    def assertion(self, stmt: Assert) -> None:
        holds = " && ".join(f"({lane})" for lane in self.values(stmt.condition)[0])
        self._fail(f"!({holds})", str(1 + self.message_number(stmt.message)))  # status 0 is success

    def store(self, stmt: BufferStore) -> None:
        index = stmt.indices[0] if stmt.indices else IntImm(0)
        masks = [] if stmt.predicate is None else [stmt.predicate]
        addend = added(stmt)
        if addend is not None:
            self._add(stmt.buffer, index, addend, masks)
            return
        lanes = index.dtype.lanes
        (places, values, *predicates) = self.values(index, stmt.value, *masks)
        values = [self.exprs.memory_text(value, stmt.buffer.dtype) for value in values] * (  # one value for all lanes
            lanes if len(values) < lanes else 1
        )
        if lanes > 1 and any(
            isinstance(node, BufferLoad) for node in walk(stmt.value)
        ):  # all is read before any is written
            kind = storage_type(stmt.buffer.dtype)
            kept = [self.fresh("tw_lane") for _ in values]
            for name, value in zip(kept, values, strict=True):
                self.line(f"const {kind} {name} = {value};")
            values = kept
        for lane, value in enumerate(values):
            text = f"{self.exprs.name(stmt.buffer)}[{places[lane]}] = {bare(value)};"
            if predicates:
                mask = predicates[0][lane if len(predicates[0]) > 1 else 0]
                with self.block(f"if ({mask})"):
                    self.line(text)
            else:
                self.line(text)

    def _add(self, buffer: Buffer, index: Expr, addend: Expr, masks: list[Expr]) -> None:
        """An element that grows in one step: unsigned, where integers are to wrap."""
        ((place,), (value,), *predicates) = self.values(index, addend, *masks)
        name, kind = self.exprs.name(buffer), str(buffer.dtype)
        # signed overflow is undefined in C
        element = f"((u{kind}_t *){name})[{place}]" if kind.startswith("int") else f"{name}[{place}]"
        value = f"(u{kind}_t)({bare(value)})" if kind.startswith("int") else bare(value)
        with self.block(f"if ({predicates[0][0]})") if predicates else nullcontext():
            self.line("#pragma omp atomic")
            self.line(f"{element} += {value};")

    # Loops

    def loop(self, stmt: For) -> None:
        (begin,), (extent,) = self.values(stmt.begin, stmt.extent)
        self.analyzer.bind(stmt.var, Range(stmt.begin, stmt.extent))
        kind = value_type(stmt.var.dtype)
        if isinstance(stmt.begin, IntImm) and isinstance(stmt.extent, IntImm):
            end = str(stmt.begin.value + stmt.extent.value)
        else:
            end = self.fresh(f"{stmt.var.name}_end" if stmt.var.name.isidentifier() else "end")
            self.line(f"const {kind} {end} = {extent if begin in ('0', '0LL') else f'{begin} + ({extent})'};")
        # an inner parallel loop runs on the thread that has its iteration
        shared = stmt.kind is LoopKind.PARALLEL and len(self._frames) == 1
        if shared:
            self.parallel = True
            self.line("#pragma omp parallel for num_threads(TW_THREADS) schedule(static)")
        elif any(key == VECTORIZE for key, _ in stmt.pragmas):
            self.line("TW_VECTORIZE")
        taken = set(self.taken)
        name = self.bind(stmt.var)
        with self.block(f"for ({kind} {name} = {begin}; {name} < {end}; ++{name})"):
            if shared:
                self._labels += 1
                self._frames.append(_Frame(f"tw_next_{self._labels}", len(self.lines)))
            self.statement(stmt.body)
            left = shared and self._close().is_left
        self.taken = taken  # names of the loop's body end with it
        if left:
            self._frames[-1].is_left = True
            self.line(f"if (tw_status) goto {self._frames[-1].label};")

    # Memory

    def allocate(self, stmt: Allocate) -> None:
        buffer, frame = stmt.buffer, self._frames[-1]
        kind, count = storage_type(buffer.dtype), 1
        for extent in buffer.shape:
            # -1: an extent that is not known at compile time
            count = count * extent.value if isinstance(extent, IntImm) else -1
            if count < 0:
                break
        size = max(count, 1) * buffer.dtype.bytes
        if count >= 0 and size <= frame.stack:
            frame.stack -= size  # what lies in a frame together shares its budget
            name = self.bind(buffer)
            self.line(f"_Alignas({_ALIGNMENT}) {kind} {name}[{max(count, 1)}];")  # C has no arrays of no elements
            self._place(buffer, name)
            self.statement(stmt.body)
            return
        beyond = exceeds_memory(buffer)
        if beyond is not None:  # the product of extents might wrap and allocate too little
            self._fail(self.values(beyond)[0][0], str(OUT_OF_MEMORY))
        extents = [value[0] for value in self.values(*buffer.shape)]
        name = self.bind(buffer)
        memory = self.fresh(f"{name}_memory")
        if memory not in frame.heap:  # a loop may come here again with the same name
            frame.heap.append(memory)
        # int64_t first, so that the product is not of ints
        bytes_text = " * ".join([f"(int64_t){buffer.dtype.bytes}", *(f"({extent})" for extent in extents)])
        self.line(f"{memory} = tw_allocate({bytes_text});")
        self._fail(f"{memory} == NULL", str(OUT_OF_MEMORY))
        self.line(f"{kind} *const {name} = {memory};")
        self._place(buffer, name)
        self.statement(stmt.body)
        self.line(f"free({memory});")
        self.line(f"{memory} = NULL;")  # the exit frees it as well: not twice


def _restrict_pointers(prototype: str) -> str:
    """The pointers of a prototype overlap nothing that is written."""
    return prototype.replace(" *", " *restrict ")  # overlaps are refused by the check, so that compilers may rely on it


def _collect_called_names(body: Stmt) -> set[str]:
    """The names of the outside functions that are called."""
    return {
        node.args[0].value
        for node in walk(body)
        if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm)
    }


def _collect_written(body: Stmt) -> set[Buffer]:
    written: set[Buffer] = set()
    for node in walk(body):
        pointed = pointed_buffer(node)
        if isinstance(node, BufferStore):
            written.add(node.buffer)
        elif pointed is not None and pointed[1] & WRITES:
            written.add(pointed[0])
    return written
