"""Statements, expressions and functions with TVM's attribute names beside our own: `loop.loop_var` is `loop.var`.

They are subclasses of our nodes, which know nothing of these names. `theirs` makes them of ours where a TVM program is handed
some, and `ours` takes them back where the house is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

from ...ir import Buffer, Expr, Function, Node, Stmt, Var, expr, rewrite, stmt
from ...ir.ops import const

__all__ = ["PrimFunc", "ours", "theirs"]


class _Named:
    """A node with TVM's names."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(ours(self))

    __repr__ = __str__


class For(_Named, stmt.For):
    """A loop: loop_var, min, extent."""

    __slots__ = ()

    @property
    def loop_var(self) -> Var:
        return self.var

    @property
    def min(self) -> Expr:
        return self.begin


class If(_Named, stmt.If):
    """A branch: then_case, else_case."""

    __slots__ = ()

    @property
    def then_case(self) -> Stmt:
        return self.then_body

    @property
    def else_case(self) -> Stmt | None:
        return self.else_body


class Attr(_Named, stmt.Attr):
    """An attribute of what is within: node, attr_key."""

    __slots__ = ()

    @property
    def node(self) -> Any:
        return self.subject

    @property
    def attr_key(self) -> str:
        return self.key


class Seq(_Named, stmt.Seq):
    """Statements one after another: seq, and each by its number."""

    __slots__ = ()

    @property
    def seq(self) -> tuple[Stmt, ...]:
        return self.body

    def __getitem__(self, at: int) -> Stmt:
        return self.body[at]

    def __len__(self) -> int:
        return len(self.body)


class Allocate(_Named, stmt.Allocate):
    """Memory, also of what a stage computes: buffer_var, extents, dtype; producer, bounds."""

    __slots__ = ()

    @property
    def buffer_var(self) -> Buffer:
        return self.buffer

    @property
    def producer(self) -> Buffer:
        return self.buffer

    @property
    def bounds(self) -> tuple[expr.Range, ...]:
        return tuple(expr.Range(const(0, extent.dtype), extent) for extent in self.buffer.shape)

    @property
    def extents(self) -> tuple[Expr, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        return str(self.buffer.dtype)


class BufferStore(_Named, stmt.BufferStore):
    """A store: buffer_var, index (the only one), producer."""

    __slots__ = ()

    @property
    def buffer_var(self) -> Buffer:
        return self.buffer

    @property
    def index(self) -> Expr:
        return self.indices[0]

    @property
    def producer(self) -> Buffer:
        return self.buffer


class BufferLoad(_Named, expr.BufferLoad):
    """A load: buffer_var, index (the only one)."""

    __slots__ = ()

    @property
    def buffer_var(self) -> Buffer:
        return self.buffer

    @property
    def index(self) -> Expr:
        return self.indices[0]


class Call(_Named, expr.Call):
    """A call: op, whose name is "tir." and the intrinsic's."""

    __slots__ = ()

    @property
    def op(self) -> SimpleNamespace:
        return SimpleNamespace(name=f"tir.{self.name}")


class PrimFunc(_Named, Function):
    """A function: buffer_map, with_attr."""

    @property
    def buffer_map(self) -> Mapping[Buffer, Buffer]:
        return {buffer: buffer for buffer in self.params if isinstance(buffer, Buffer)}

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """The function with an attribute; "global_symbol" is its name."""
        return replace(self, name=str(value)) if key == "global_symbol" else self.with_attrs(**{key: value})  # pyright: ignore


_THEIRS: dict[type, type] = {
    stmt.For: For,
    stmt.If: If,
    stmt.Attr: Attr,
    stmt.Seq: Seq,
    stmt.Allocate: Allocate,
    stmt.BufferStore: BufferStore,
    expr.BufferLoad: BufferLoad,
    expr.Call: Call,
    Function: PrimFunc,
}
_OURS: dict[type, type] = {named: plain for plain, named in _THEIRS.items()}


def theirs(node: Any) -> Any:
    """A node or function whose every part has TVM's names; the same object where it has them already."""
    return _convert_node(node, _THEIRS)


def ours(node: Any) -> Any:
    """A node or function of our own classes alone; the same object where it is."""
    return _convert_node(node, _OURS)


def _convert_node(node: Any, classes: Mapping[type, type]) -> Any:
    if isinstance(node, Function):
        body = _convert_node(node.body, classes)
        return _cast_node(node if body is node.body else node.with_body(body), classes)
    return (
        rewrite(node, lambda each: _cast_node(each, classes) if type(each) in classes else None)
        if isinstance(node, Node)
        else node
    )


def _cast_node(node: Any, classes: Mapping[type, type]) -> Any:
    """A node of another class, with the same parts."""
    kind: type[Any] = node.__class__
    wanted = classes.get(kind)
    return (
        node
        if wanted is None
        else wanted(**{each.name: getattr(node, each.name) for each in fields(node) if each.init})
    )
