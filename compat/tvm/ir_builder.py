"""tvm.tir.ir_builder: ours, whose threads' loops are opened by scope_attr, and whose statements have TVM's names."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ...ir import For, IterVar, LoopKind, Stmt
from ...ir.builder import BufferHandle as BufferVar
from ...ir.builder import ProgramBuilder
from ...ir.ops import cast, const, convert
from .nodes import theirs

__all__ = ["BufferVar", "IRBuilder", "create"]


class IRBuilder(ProgramBuilder):
    """Build statements one after another."""

    def scope_attr(self, subject: object, key: str, value: Any) -> None:
        """A fact about the rest of the scope; "thread_extent" of a thread axis: that its threads, as many as `value`, run it."""
        if key not in ("thread_extent", "virtual_thread") or not isinstance(subject, IterVar) or not subject.thread_tag:
            super().scope_attr(subject, key, value)
            return
        axis, extent = subject, cast(convert(value), subject.dtype)
        self._add(lambda body: For(axis, const(0, axis.dtype), extent, LoopKind.THREAD, body, axis.thread_tag))

    def for_range(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        begin: Any,
        end: Any,
        name: str = "i",
        dtype: object = None,
        kind: str = "serial",
        for_type: str = "",
    ) -> Any:
        """A loop, whose variable it gives. for_type: `kind` of older releases."""
        return super().for_range(begin, end, name, dtype, for_type or kind)

    @contextmanager
    def new_scope(self) -> Generator[None]:
        """Open a scope, at whose end facts and memory of its statements end."""
        self._scopes.append([])
        yield
        self._add(self._close_scope())

    def get(self) -> Stmt:
        """All statements so far as one, with TVM's names."""
        return theirs(super().get())


def create() -> IRBuilder:
    """A builder of statements."""
    return IRBuilder()
