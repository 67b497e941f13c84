"""Outlining: the values that cross from a kernel into statements that become functions of their own, and the function that a parallel task
enters by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from ...base.dataclass import dataclass
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Call, IntImm, Var
from ...ir.pointers import WRITES, pointed_buffer
from ...ir.stmt import BufferStore, Evaluate, For, Stmt
from ...ir.visit import children, free_vars, post_order, walk
from .emitter import ExprEmitter
from .text import FunctionText, ModuleText
from .types import llvm_type

__all__ = [
    "Captured",
    "captures",
    "constant_bytes",
    "context_slot",
    "count_loops",
    "pointer_parameter",
    "stored_buffers",
    "task_entry",
]


def pointer_parameter(buffer: Buffer, written: bool, alignment: int) -> str:
    """The type and attributes of a parameter that points to a buffer. Buffers that are written overlap no other; those
    that are only read may overlap each other, which noalias allows."""
    size = constant_bytes(buffer)
    reach = f" dereferenceable({size})" if size else ""
    kept = "" if buffer.data is not None else "captures(none) "  # outside code that gets the pointer may do as it likes
    return f"ptr noalias {'' if written else 'readonly '}{kept}align {alignment}{reach}"


def constant_bytes(buffer: Buffer) -> int | None:
    """The size of a buffer, where it is known."""
    size = buffer.dtype.bytes
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _find_used_buffers(body: Stmt, buffers: Iterable[Buffer]) -> dict[Buffer, bool]:
    """Return the buffers of `buffers` that a statement uses, by first use, and whether it may write them. What outside code gets a
    pointer to, it may."""
    pointers = {buffer.data: buffer for buffer in buffers if buffer.data is not None}
    known, touched = set(buffers), dict[Buffer, bool]()
    for node in walk(body, once=True):
        kind = type(node)  # of every node of a kernel: quicker than to ask for each class that it may be
        if kind is BufferLoad or kind is BufferStore:
            buffer = cast("BufferLoad | BufferStore", node).buffer
            if buffer in known:
                touched[buffer] = touched.get(buffer, False) or kind is BufferStore
        elif pointers and isinstance(node, Var):
            if node in pointers:
                touched[pointers[node]] = True
        elif kind is Call:
            pointed = pointed_buffer(node)
            if pointed is not None and pointed[0] in known:
                touched[pointed[0]] = touched.get(pointed[0], False) or bool(pointed[1] & WRITES)
    return touched


def stored_buffers(body: Stmt) -> set[Buffer]:
    """The buffers that a statement stores to; much quicker than a look at every expression."""
    stored: set[Buffer] = set()
    stack = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, BufferStore):
            stored.add(stmt.buffer)
        elif isinstance(stmt, Evaluate):  # where alone outside code writes
            pointers = [pointed for node in post_order(stmt) if (pointed := pointed_buffer(node)) is not None]
            stored.update(buffer for buffer, mode in pointers if mode & WRITES)
        else:
            stack.extend(child for child in children(stmt) if isinstance(child, Stmt))
    return stored


def count_loops(stmt: Stmt, known: dict[Stmt, int]) -> int:
    """Return the number of loops in a statement; does not look at expressions. known: what was counted before, and now."""
    stack = [stmt]
    while stack:
        inside = [child for child in children(stack[-1]) if isinstance(child, Stmt)]
        open_ones = [child for child in inside if child not in known]
        if open_ones:
            stack += open_ones
        else:
            done = stack.pop()
            known[done] = isinstance(done, For) + sum(known[child] for child in inside)
    return known[stmt]


@dataclass(frozen=True)
class Captured:
    """A buffer or variable of the enclosing function that an outlined statement uses."""

    subject: Buffer | Var
    value: str
    alignment: int = 0
    written: bool = False

    @property
    def passed(self) -> tuple[str, str]:
        """Its LLVM type and its value outside."""
        return ("ptr" if isinstance(self.subject, Buffer) else llvm_type(self.subject.dtype)), self.value

    def parameter(self, i: int) -> str:
        """It as parameter i of the body."""
        if isinstance(self.subject, Buffer):
            return f"{pointer_parameter(self.subject, self.written, self.alignment)} %c{i}"
        return f"{llvm_type(self.subject.dtype)} %c{i}"


def captures(body: Stmt, exprs: ExprEmitter, own: Collection[Var] = ()) -> list[Captured]:
    """Return the values of the enclosing function that a statement uses which becomes a function. own: variables that its own will bind."""
    touched = _find_used_buffers(body, exprs.places)
    captured = [
        Captured(b, exprs.places[b].pointer, exprs.places[b].alignment, written) for b, written in touched.items()
    ]
    inside = {*own, *(buffer.data for buffer in touched)}
    return captured + [Captured(var, exprs.value(var)) for var in free_vars(body) if var not in inside]


def context_slot(f: FunctionText, structure: str, context: str, i: int) -> str:
    """The address of the context's field i."""
    return f.op(f"getelementptr inbounds {structure}, ptr {context}, i32 0, i32 {i}")


def task_entry(
    module: ModuleText,
    name: str,
    attributes: str,
    structure: str,
    kinds: list[str],
    strided: bool = False,
) -> None:
    """Emit the entry for tw_parallel_for: unpack the context and run the task's share: consecutive iterations, from task * extent /
    tasks on, or, where `strided`, each tasks-th from its own number on. Tasks that are one longer lie between others, so that
    threads, which take several neighbours each, get the same number of iterations, to within one."""
    f = FunctionText(module, f"define internal i32 @{name}(i32 %task, i32 %tasks, ptr %context) {attributes}")
    values = [f.read(f"load {kind}, ptr {context_slot(f, structure, '%context', i)}") for i, kind in enumerate(kinds)]
    begin, extent = values[:2]
    task, tasks = f.op("zext nneg i32 %task to i64"), f.op("zext nneg i32 %tasks to i64")
    captured = [f"{kind} {value}" for kind, value in zip(kinds[2:], values[2:], strict=True)]
    if strided:
        lo, hi = f.op(f"add nsw i64 {begin}, {task}"), f.op(f"add nsw i64 {begin}, {extent}")
        passed = ", ".join([f"i64 {lo}", f"i64 {hi}", f"i64 {tasks}", *captured])
        status = f.read(f"call i32 @{name}_chunk({passed})")
        f.do(f"ret i32 {status}")
        f.finish()
        return
    share, more = f.op(f"udiv i64 {extent}, {tasks}"), f.op(f"urem i64 {extent}, {tasks}")
    ends: list[str] = []
    for number in (task, f.op(f"add nuw nsw i64 {task}, 1")):
        extra = f.op(f"udiv i64 {f.op(f'mul nuw nsw i64 {number}, {more}')}, {tasks}")
        end = f.op(f"add nuw nsw i64 {f.op(f'mul nsw i64 {number}, {share}')}, {extra}")
        ends.append(f.op(f"add nsw i64 {begin}, {end}"))
    lo, hi = ends
    arguments = [f"i64 {lo}", f"i64 {hi}", *captured]
    status = f.read(f"call i32 @{name}_chunk({', '.join(arguments)})")
    f.do(f"ret i32 {status}")
    f.finish()
