"""Sameness of structure: keys of expressions, and equality and hashing of programs under other names.

Everything here stands on `constructor_key`: what a node is made of. A key tells expressions apart by their variables, and
serves as the key of a dictionary: `structural_key` of whole expressions, `constructor_key` where what lies below is one
object wherever it is the same. `equal` and `structural_hash` compare programs, whatever their variables are called: bound
variables and allocated buffers correspond by where they are bound; free ones are themselves (or, with `map_free`,
correspond one to one in the order in which they are met). Nested sequences count as opened. Names of variables and buffers
do not count. Everywhere constants compare by bits: a NaN equals itself, not one of the other sign; 0.0 differs from -0.0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import fields
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeAlias

from .buffer import Buffer
from .dtype import DType
from .expr import Expr, FloatImm, Let, Node, Producer, Reduce, SizeVar, Var
from .stmt import Allocate, Attr, For, Function, LetStmt, Seq, Stmt
from .text.printer import flatten, shape_symbols

__all__ = ["Key", "StructuralKey", "constructor_key", "equal", "own_key", "structural_hash", "structural_key"]

Key: TypeAlias = Hashable
"""What two expressions share exactly when they are of one structure over the same variables and buffers."""
_Part: TypeAlias = "Expr | Stmt | Buffer | Producer | str | int | float | bytes | tuple[_Part, ...] | None"
"""What the field of a node may hold."""


# Keys


class _Constructors(dict[type[Node], Callable[[Any], Any]]):
    """Constructors by class: a function from a node to its class and the arguments that made it, but for those that mean nothing. operands:
    whether those of its parts that are nodes too are among them."""

    def __init__(self, operands: bool) -> None:
        super().__init__()
        self.operands = operands

    def __missing__(self, kind: type[Any]) -> Callable[[Any], Any]:
        said = [
            each.name
            for each in fields(kind)
            if each.init and each.compare and (self.operands or each.name not in kind._children)
        ]
        constructor: Callable[[Any], Any] = attrgetter("__class__", *said)
        if issubclass(kind, Var):
            constructor = _itself
        elif issubclass(kind, FloatImm):
            constructor = _float_key
        self[kind] = constructor
        return constructor


def _itself(node: Var) -> Var:
    return node


def _float_key(node: FloatImm) -> tuple[object, ...]:
    return (FloatImm, struct.pack("<d", node.value), node.dtype)


_CONSTRUCTORS, _OWN = _Constructors(operands=True), _Constructors(operands=False)


def constructor_key(node: Node) -> Any:
    """A variable itself; of any other node its class and what it was made of: expressions as they stand, so that keys are
    equal where these are the same objects."""
    return _CONSTRUCTORS[type(node)](node)


def own_key(node: Node) -> Key:
    """Return the key of a node beside its operands: a variable itself; of any other node its class and the rest."""
    return _OWN[type(node)](node)


def structural_key(expr: Expr) -> Key:
    """A hashable key: equal for expressions of equal structure over the same variables and buffers."""
    return expr if isinstance(expr, Var) else tuple(map(_deepen_key, constructor_key(expr)))


def _deepen_key(part: _Part) -> Key:
    if isinstance(part, Expr):
        return structural_key(part)
    return tuple(map(_deepen_key, part)) if isinstance(part, tuple) else part


class StructuralKey:
    """An expression as the key of a dictionary, equal to every other of its structure."""

    __slots__ = ("_hash", "expr", "key")

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.key = structural_key(expr)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, StructuralKey) and self._hash == other._hash and self.key == other.key
        )

    def __repr__(self) -> str:
        return f"StructuralKey({self.expr})"


# Programs as lists of items

_Item = Any
"""What the work list of a comparison holds: nodes, variables to bind, plain values; see `_unfold`."""


class _Bind:
    """A variable or a buffer is bound from here on."""

    __slots__ = ("thing",)

    def __init__(self, thing: Var | Buffer | Producer) -> None:
        self.thing = thing


class _Unbind(_Bind):
    """It is bound no more."""

    __slots__ = ()


class _Use(_Bind):
    """A variable, a buffer or a tensor is used."""

    __slots__ = ()


def _kind_of_var(var: Var) -> tuple[str, bool, str]:
    return ("var", isinstance(var, SizeVar), str(var.dtype))


def _buffer_items(buffer: Buffer) -> list[_Item]:
    """Return the items of a declaration, besides its name."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return [
        ("buffer", str(buffer.dtype), buffer.scope, buffer.alignment),
        ("sizes", len(buffer.shape), len(buffer.strides), len(offset)),
        *buffer.shape,
        *buffer.strides,
        *offset,
        *(() if buffer.data is None else (_Bind(buffer.data),)),
    ]


def _statements(body: Stmt) -> list[_Item]:
    statements = flatten(body)
    return [("body", len(statements)), *statements]


def _let(node: Let | LetStmt) -> list[_Item]:
    body = [node.body] if isinstance(node, Let) else _statements(node.body)
    return [node.value, _Bind(node.var), *body, _Unbind(node.var)]


def _loop_items(node: For) -> list[_Item]:
    pragmas: list[_Item] = [item for key, value in node.pragmas for item in (("pragma", key), value)]
    header = ("kind", node.kind.value, node.thread, len(node.pragmas))
    return [header, node.begin, node.extent, *pragmas, _Bind(node.var), *_statements(node.body), _Unbind(node.var)]


def _reduce(node: Reduce) -> list[_Item]:
    combiner = node.combiner
    bound = (*combiner.lhs, *combiner.rhs)
    domains: list[_Item] = [e for axis in node.axes if axis.dom is not None for e in (axis.dom.begin, axis.dom.extent)]
    return [
        (
            "reduce",
            len(node.sources),
            len(node.axes),
            len(node.init),
            node.value_index,
            node.fused,
            len(bound),
            len(domains),
        ),
        *map(_Bind, bound),
        *combiner.result,
        *map(_Unbind, bound),
        *combiner.identity,
        *domains,
        *map(_Bind, node.axes),
        *node.sources,
        node.condition,
        *node.init,
        *map(_Unbind, node.axes),
    ]


def _attr(node: Attr) -> list[_Item]:
    subject = node.subject
    if isinstance(subject, (Var, Buffer)):
        subject = _Use(subject)
    elif not isinstance(subject, Expr):
        subject = ("plain", repr(subject))
    return [("attr", node.key), subject, node.value, *_statements(node.body)]


_UNFOLD: dict[type[Node], Callable[[Any], list[_Item]]] = {
    Let: _let,
    LetStmt: _let,
    For: _loop_items,
    Reduce: _reduce,
    Attr: _attr,
    Allocate: lambda n: [*_buffer_items(n.buffer), _Bind(n.buffer), *_statements(n.body), _Unbind(n.buffer)],
}
"""What a node that binds or names something consists of."""


def _unfold(node: Node) -> list[_Item]:
    """A node as a header and what follows it, in the order in which both comparison and hash go through it."""
    if isinstance(node, Var):
        return [_Use(node)]
    if isinstance(node, Seq):
        return _statements(node)
    binder = _UNFOLD.get(type(node))
    items: list[_Item] = [type(node).__name__]
    if binder is not None:
        return items + binder(node)
    for part in constructor_key(node)[1:]:
        _append(items, part)
    return items


def _append(items: list[_Item], part: _Part) -> None:
    """Add what a node is made of to a list of items."""
    if isinstance(part, Stmt):
        items += _statements(part)
    elif isinstance(part, Expr):
        items.append(part)
    elif isinstance(part, (Buffer, Producer)):
        items.append(_Use(part))
    elif isinstance(part, tuple):
        items.append(("several", len(part)))
        for each in part:
            _append(items, each)
    else:
        items.append((str(part) if isinstance(part, DType) else part,))


def _function_items(function: Function) -> list[_Item]:
    outputs = [function.params.index(buffer) if buffer in function.params else -1 for buffer in function.outputs]
    buffers = function.buffers
    return [
        (
            "function",
            function.name,
            len(function.params),
            tuple(outputs),
            repr(sorted(function.attrs.items())),
            tuple(held.digest for held in function.constants),
        ),
        *map(_Bind, shape_symbols(function)),
        *(_Bind(p) if isinstance(p, Var) else ("buffer",) for p in function.params),
        *(item for buffer in buffers for item in _buffer_items(buffer)),
        *map(_Bind, buffers),
        *_statements(function.body),
    ]


def _start(thing: Node | Function | Buffer) -> list[_Item]:
    if isinstance(thing, Function):
        return _function_items(thing)
    return _buffer_items(thing) if isinstance(thing, Buffer) else [thing]


class _Pairs:
    """Correspondence of variables, buffers and tensors, both ways."""

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
        """Return whether two uses speak of the same thing."""
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
    """Return whether two expressions, statements or functions are the same program (see the module's notes)."""
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
