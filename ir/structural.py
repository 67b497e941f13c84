"""Structural equality and hashing: the same program under other names.

Bound variables and allocated buffers correspond by where they are bound; free ones are themselves (or, with `map_free`,
correspond one to one in the order in which they are met). Nested sequences count as opened. Constants compare by bits:
NaN equals NaN, 0.0 differs from -0.0. Names of variables and buffers do not count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from .buffer import Buffer
from .expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Node,
    Producer,
    ProducerLoad,
    Ramp,
    Reduce,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
)
from .stmt import Allocate, Assert, Attr, BufferStore, For, Function, LetStmt, Seq, Stmt
from .text.printer import flattened, shape_symbols
from .visit import children

__all__ = ["equal", "structural_hash"]

_Item = Any
"""What the work list of a comparison holds: nodes, variables to bind, plain values; see `_unfold`."""


class _Bind:
    """A variable or a buffer is bound from here on."""

    __slots__ = ("thing",)

    def __init__(self, thing: Var | Buffer) -> None:
        self.thing = thing


class _Unbind(_Bind):
    """It is bound no more."""

    __slots__ = ()


class _Use(_Bind):
    """A variable, a buffer or a tensor is used."""

    __slots__ = ()


def _kind_of_var(var: Var) -> tuple[str, bool, str]:
    return ("var", isinstance(var, SizeVar), str(var.dtype))


def _bits(value: float) -> object:
    return "nan" if value != value else struct.pack("<d", value)


def _buffer_items(buffer: Buffer) -> list[_Item]:
    """What a declaration says, besides its name."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return [
        ("buffer", str(buffer.dtype), buffer.scope, buffer.alignment),
        ("sizes", len(buffer.shape), len(buffer.strides), len(offset)),
        *buffer.shape, *buffer.strides, *offset, *(() if buffer.data is None else (_Bind(buffer.data),)),
    ]


def _statements(body: Stmt) -> list[_Item]:
    found = flattened(body)
    return [("body", len(found)), *found]


def _let(node: Let | LetStmt) -> list[_Item]:
    body = [node.body] if isinstance(node, Let) else _statements(node.body)  # pyright: ignore[reportArgumentType]
    return [node.value, _Bind(node.var), *body, _Unbind(node.var)]


def _for(node: For) -> list[_Item]:
    pragmas: list[_Item] = [item for key, value in node.pragmas for item in (("pragma", key), value)]
    header = ("kind", node.kind.value, node.thread, len(node.pragmas))
    return [header, node.begin, node.extent, *pragmas, _Bind(node.var), *_statements(node.body), _Unbind(node.var)]


def _reduce(node: Reduce) -> list[_Item]:
    combiner = node.combiner
    bound = (*combiner.lhs, *combiner.rhs)
    domains: list[_Item] = [e for axis in node.axes if axis.dom is not None for e in (axis.dom.begin, axis.dom.extent)]
    return [
        ("reduce", len(node.sources), len(node.axes), len(node.init), node.value_index, len(bound), len(domains)),
        *map(_Bind, bound), *combiner.result, *map(_Unbind, bound), *combiner.identity, *domains,
        *map(_Bind, node.axes), *node.sources, node.condition, *node.init, *map(_Unbind, node.axes),
    ]


def _attr(node: Attr) -> list[_Item]:
    subject = node.subject
    if isinstance(subject, (Var, Buffer)):
        subject = _Use(subject)
    elif not isinstance(subject, Expr):
        subject = ("plain", repr(subject))
    return [("attr", node.key), subject, node.value, *_statements(node.body)]


_UNFOLD: dict[type[Node], Callable[[Any], list[_Item]]] = {
    IntImm: lambda n: [(n.value, str(n.dtype))],
    FloatImm: lambda n: [(_bits(n.value), str(n.dtype))],
    StringImm: lambda n: [(n.value,)],
    Cast: lambda n: [(str(n.dtype),), n.value],
    Call: lambda n: [(n.name, str(n.dtype), len(n.args)), *n.args],
    Let: _let, LetStmt: _let, For: _for, Reduce: _reduce, Attr: _attr,
    Ramp: lambda n: [(n.lanes,), n.base, n.stride],
    Broadcast: lambda n: [(n.lanes,), n.value],
    Shuffle: lambda n: [(n.indices, len(n.vectors)), *n.vectors],
    BufferLoad: lambda n: [_Use(n.buffer), (len(n.indices), n.predicate is None), *children(n)],
    BufferStore: lambda n: [_Use(n.buffer), (len(n.indices), n.predicate is None), *children(n)],
    ProducerLoad: lambda n: [_Use(n.producer), (len(n.indices),), *n.indices],
    Allocate: lambda n: [*_buffer_items(n.buffer), _Bind(n.buffer), *_statements(n.body), _Unbind(n.buffer)],
    Assert: lambda n: [(n.message,), n.condition],
}


def _unfold(node: Node) -> list[_Item]:
    """A node as a header and what follows it, in the order in which both comparison and hash go through it."""
    if isinstance(node, Var):
        return [_Use(node)]
    found = _UNFOLD.get(type(node))
    if found is not None:
        return [type(node).__name__, *found(node)]
    items: list[_Item] = [type(node).__name__]
    if isinstance(node, Seq):
        return _statements(node)
    for child in children(node):
        items += _statements(child) if isinstance(child, Stmt) else (child,)
    return [(type(node).__name__, len(items)), *items]


def _function_items(function: Function) -> list[_Item]:
    outputs = [function.params.index(buffer) if buffer in function.params else -1 for buffer in function.outputs]
    buffers = function.buffers
    return [
        ("function", function.name, len(function.params), tuple(outputs), repr(sorted(function.attrs.items())),
         tuple(held.digest for held in function.constants)),
        *map(_Bind, shape_symbols(function)),
        *(_Bind(p) if isinstance(p, Var) else ("buffer",) for p in function.params),
        *(item for buffer in buffers for item in _buffer_items(buffer)), *map(_Bind, buffers),
        *_statements(function.body),
    ]


def _start(thing: Node | Function | Buffer) -> list[_Item]:
    if isinstance(thing, Function):
        return _function_items(thing)
    return _buffer_items(thing) if isinstance(thing, Buffer) else [thing]


class _Pairs:
    """Which variables, buffers and tensors correspond, both ways."""

    def __init__(self, map_free: bool) -> None:
        self.map_free = map_free
        self.forth: dict[Any, Any] = {}
        self.back: dict[Any, Any] = {}
        self.hidden: dict[Any, list[tuple[Any, Any]]] = {}

    def bind(self, a: Any, b: Any) -> bool:
        if isinstance(a, Var) != isinstance(b, Var) or (isinstance(a, Var) and _kind_of_var(a) != _kind_of_var(b)):
            return False
        self.hidden.setdefault(a, []).append((self.forth.get(a), self.back.get(b)))
        self.forth[a], self.back[b] = b, a
        return True

    def unbind(self, a: Any, b: Any) -> None:
        before_a, before_b = self.hidden[a].pop()
        for table, key, before in ((self.forth, a, before_a), (self.back, b, before_b)):
            if before is None:
                table.pop(key, None)
            else:
                table[key] = before

    def same(self, a: Any, b: Any) -> bool:
        """Whether two uses speak of the same thing."""
        mapped, mapped_back = self.forth.get(a), self.back.get(b)
        if mapped is not None or mapped_back is not None:
            return mapped is b and mapped_back is a
        if isinstance(a, Producer):
            return bool(a == b)  # tensors of one operation's output are equal, though several objects may stand for it
        if not self.map_free:
            return a is b
        if isinstance(a, Var) and isinstance(b, Var):
            if _kind_of_var(a) != _kind_of_var(b):
                return False
        elif not (isinstance(a, Buffer) and isinstance(b, Buffer) and a.dtype is b.dtype and a.ndim == b.ndim):
            return False
        self.forth[a], self.back[b] = b, a
        return True


def equal(a: Node | Function | Buffer, b: Node | Function | Buffer, map_free: bool = False) -> bool:
    """Whether two expressions, statements or functions are the same program (see the module's notes)."""
    pairs = _Pairs(map_free)
    left, right = _start(a)[::-1], _start(b)[::-1]
    compared: set[tuple[int, int]] = set()
    while left and right:
        x, y = left.pop(), right.pop()
        if isinstance(x, Node) and isinstance(y, Node):
            if (id(x), id(y)) in compared:
                continue
            if isinstance(x, Expr) and not isinstance(x, Var):
                compared.add((id(x), id(y)))  # shared parts are compared once a scope; a difference ends everything
            left.extend(reversed(_unfold(x)))
            right.extend(reversed(_unfold(y)))
        elif type(x) is not type(y):
            return False
        elif isinstance(x, _Unbind):
            pairs.unbind(x.thing, y.thing)
            compared.clear()
        elif isinstance(x, _Use):
            if not pairs.same(x.thing, y.thing):
                return False
        elif isinstance(x, _Bind):
            compared.clear()
            if not pairs.bind(x.thing, y.thing):
                return False
        elif x != y:
            return False
    return not left and not right


def structural_hash(thing: Node | Function | Buffer, map_free: bool = False) -> int:
    """A 64-bit hash that is equal for equal programs. With `map_free` it is the same in every process; otherwise free
    variables count by identity."""
    numbers: dict[Any, int] = {}
    hidden: dict[Any, list[int | None]] = {}
    digest = blake2b(digest_size=8)
    count = 0
    stack = _start(thing)[::-1]
    while stack:
        item = stack.pop()
        if isinstance(item, Node):
            stack.extend(reversed(_unfold(item)))
            continue
        if isinstance(item, _Unbind):
            before = hidden[item.thing].pop()
            if before is None:
                del numbers[item.thing]
            else:
                numbers[item.thing] = before
            continue
        if isinstance(item, _Use):
            item = _use_token(item.thing, numbers, map_free)
        elif isinstance(item, _Bind):
            hidden.setdefault(item.thing, []).append(numbers.get(item.thing))
            numbers[item.thing] = count = count + 1
            item = _kind_of_var(item.thing) if isinstance(item.thing, Var) else "bind"
        digest.update(repr(item).encode() + b"\0")
    return int.from_bytes(digest.digest(), "little", signed=True)


def _use_token(thing: Any, numbers: dict[Any, int], map_free: bool) -> object:
    number = numbers.get(thing)
    if number is not None:
        return ("bound", number)
    if isinstance(thing, Producer):
        return ("tensor", hash(thing))
    if not map_free:
        return ("free", id(thing))
    numbers[thing] = -len(numbers) - 1
    return ("met", numbers[thing], _kind_of_var(thing) if isinstance(thing, Var) else str(thing.dtype))
