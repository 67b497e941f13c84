"""Statements written one after the other, with scopes as `with` blocks: the bodies of tensor intrinsics.

ib = ir_builder()
with ib.for_range(0, 16, name="i") as i:
    with ib.if_scope(i < n):
        ib.emit(C.vstore(i, A.vload(i) + B.vload(i)))
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ..base.arguments import to_list, to_tuple
from ..base.errors import user_source
from .buffer import SCOPES, Buffer, is_scope
from .dtype import DType
from .errors import BadBuilderUse
from .expr import BufferLoad, Expr, Var
from .ops import cast, common_dtype, const, convert, floordiv, floormod, likely, subtract
from .stmt import Allocate, Attr, BufferStore, Evaluate, For, If, LetStmt, LoopKind, Stmt, While
from .visit import seq

__all__ = ["BufferHandle", "ProgramBuilder", "ir_builder"]

_KINDS = {
    "serial": LoopKind.SERIAL,
    "parallel": LoopKind.PARALLEL,
    "vectorize": LoopKind.VECTORIZED,
    "vectorized": LoopKind.VECTORIZED,
    "unroll": LoopKind.UNROLLED,
    "unrolled": LoopKind.UNROLLED,
}


def ir_builder() -> ProgramBuilder:
    """A builder without statements."""
    return ProgramBuilder()


class BufferHandle:
    """A buffer whose elements are read and written as `handle[i, j]`; one index counts all elements, row by row."""

    def __init__(self, builder: ProgramBuilder, buffer: Buffer) -> None:
        self.builder, self.buffer = builder, buffer

    @property
    def dtype(self) -> DType:
        """Dtype of its elements."""
        return self.buffer.dtype

    def __getitem__(self, indices: Any) -> BufferLoad:
        return BufferLoad(self.buffer, self._indices(indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        places = self._indices(indices)
        stored = cast(convert(value) if isinstance(value, Expr) else const(value, self.dtype), self.dtype)
        self.builder.emit(BufferStore(self.buffer, stored, places))

    def access_ptr(self, access_mask: Any, *, offset: Any = 0) -> Expr:
        """See Buffer.access_ptr."""
        return self.buffer.access_ptr(access_mask, offset=offset)

    def _indices(self, given: Any) -> tuple[Expr, ...]:
        indices = [convert(index) for index in to_tuple(given)]
        shape = self.buffer.shape
        if len(indices) == 1 and len(shape) > 1:
            rest, indices_before = indices[0], list[Expr]()
            for extent in reversed(shape[1:]):
                indices_before.insert(0, floormod(rest, extent))
                rest = floordiv(rest, extent)
            return (rest, *indices_before)
        if len(indices) != len(shape) or not all(index.dtype.is_integer for index in indices):
            raise BadBuilderUse(
                f"cannot access {self.buffer.name}[{', '.join(map(str, indices))}]",
                reason=f"it is {self.buffer!r}",
                called=user_source(),
                fix="give an integer for each dimension, or one that counts all elements",
            )
        return tuple(indices)


class ProgramBuilder:
    """Collects statements. A scope's statements become its body when it ends; what `allocate`, `let` and `scope_attr`
    begin lasts to the end of the scope that they stand in."""

    def __init__(self) -> None:
        self._scopes: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]
        self._ended_if = False
        """Whether an if_scope has just ended, so that an else_scope may follow."""

    def emit(self, statement: Any) -> None:
        """Add a statement, or a call for its effect. Raises BadBuilderUse for anything else."""
        if isinstance(statement, Expr):
            statement = Evaluate(statement)
        if not isinstance(statement, Stmt):
            raise BadBuilderUse(
                "only statements and calls can be emitted",
                reason=f"got {statement!r}"[:200],
                called=user_source(),
                fix="ib.emit(buffer.vstore(...)) or ib.emit(te.call_extern(...))",
            )
        self._add(statement)

    def _add(self, part: Stmt | Callable[[Stmt], Stmt]) -> None:
        self._scopes[-1].append(part)
        self._ended_if = False

    def get(self) -> Stmt:
        """All statements so far as one; the builder is empty afterwards. Raises BadBuilderUse within a scope."""
        if len(self._scopes) > 1:
            raise BadBuilderUse(
                "the program is not complete",
                reason="get() was called within a scope",
                called=user_source(),
                fix="call ib.get() after the `with` blocks",
            )
        return self._close_scope()

    def _close_scope(self) -> Stmt:
        """The statements of the innermost scope, which ends."""
        body = seq()
        for part in reversed(self._scopes.pop()):
            body = seq(part, body) if isinstance(part, Stmt) else part(body)
        if not self._scopes:
            self._scopes.append([])
        self._ended_if = False
        return body

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: object = None, kind: str = "serial"
    ) -> Generator[Var]:
        """A loop over [begin, end), whose variable it gives. kind: serial, parallel, vectorize or unroll.

        dtype: of the variable; by default that of the bounds. Raises BadBuilderUse for an unknown kind.
        """
        if kind not in _KINDS:
            raise BadBuilderUse(
                f"unknown kind of loop {kind!r}",
                called=user_source(),
                fix='kind="serial"',
                allowed="serial, parallel, vectorize, unroll",
            )
        first, last = convert(begin), convert(end)
        chosen = DType(dtype) if dtype is not None else common_dtype(first.dtype, last.dtype)
        var = Var(name, chosen)
        first = cast(first, chosen)
        extent = subtract(cast(last, chosen), first)
        self._scopes.append([])
        yield var
        self._add(For(var, first, extent, _KINDS[kind], self._close_scope()))

    @contextmanager
    def while_loop(self, condition: Any) -> Generator[None]:
        """A loop that runs as long as the condition holds, which reads memory that it changes."""
        self._scopes.append([])
        yield
        self._add(While(convert(condition), self._close_scope()))

    @contextmanager
    def if_scope(self, condition: Any) -> Generator[None]:
        """Open the scope that runs where the condition holds."""
        self._scopes.append([])
        yield
        self._add(If(convert(condition), self._close_scope()))
        self._ended_if = True

    @contextmanager
    def else_scope(self) -> Generator[None]:
        """Open the scope that runs where the condition of the if_scope just before does not hold. Raises BadBuilderUse without one."""
        if not self._ended_if:
            raise BadBuilderUse(
                "an else_scope without an if_scope",
                reason="no if_scope ended just before it",
                called=user_source(),
                fix="open it right after the `with ib.if_scope(...)` block",
            )
        before = self._scopes[-1].pop()
        assert isinstance(before, If)
        self._scopes.append([])
        yield
        self._add(If(before.condition, before.then_body, self._close_scope()))

    def allocate(self, dtype: object, shape: Any, name: str = "buf", scope: str = "local") -> BufferHandle:
        """Memory that lasts to the end of the scope. shape: an extent or several; scope: global, shared, local, warp."""
        if not is_scope(scope):
            raise BadBuilderUse(
                f"cannot allocate {name}",
                reason=f"its scope is {scope!r}",
                called=user_source(),
                allowed=", ".join(SCOPES),
                fix='scope="local"',
            )
        buffer = Buffer(name, tuple(map(convert, to_list(shape))), DType(dtype), scope=scope)
        self._add(lambda body: Allocate(buffer, body))
        return BufferHandle(self, buffer)

    def buffer_ptr(self, buffer: Buffer) -> BufferHandle:
        """A declared buffer, to be indexed."""
        return BufferHandle(self, buffer)

    def pointer(self, content_type: object, name: str = "ptr", scope: str = "") -> BufferHandle:
        """Memory of somebody else's, of a size that only its owner knows, whose elements are counted in one index. scope: global,
        shared, local, warp; "" for global."""
        chosen = scope or "global"
        if chosen not in SCOPES:
            raise BadBuilderUse(
                f"cannot point to {name}",
                reason=f"its scope is {scope!r}",
                called=user_source(),
                allowed=", ".join(SCOPES),
                fix='scope="global"',
            )
        return BufferHandle(
            self, Buffer(name, (Var(f"{name}_size", DType("int64")),), DType(content_type), scope=chosen)
        )

    def let(self, name: str, value: Any) -> Var:
        """A variable that holds `value` to the end of the scope."""
        bound = convert(value)
        var = Var(name, bound.dtype)
        self._add(lambda body: LetStmt(var, bound, body))
        return var

    def scope_attr(self, subject: object, key: str, value: Any) -> None:
        """A fact for passes about the rest of the scope."""
        extent = convert(value)
        self._add(lambda body: Attr(key, subject, extent, body))

    def likely(self, condition: Any) -> Expr:
        """The condition, said to hold nearly always."""
        return likely(condition)
