# pyright: reportPrivateUsage=false
"""Walking and rewriting. Everything here iterates, so that the depth of a program is not a limit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter, is_
from typing import Any, ClassVar, TypeVar, cast, overload

from ..base.forks import register_fork_hooks
from .buffer import Buffer
from .expr import BufferLoad, Expr, Let, Node, Reduce, Var
from .stmt import Allocate, BufferStore, For, Function, LetStmt, Seq, Stmt

__all__ = [
    "Rewriter",
    "SharingRewriter",
    "children",
    "deep_recursion",
    "distinct",
    "free_vars",
    "is_recursion_deep",
    "loads",
    "post_order",
    "rebuild",
    "rewrite",
    "rewrite_statements",
    "seq",
    "statements",
    "stores",
    "substitute",
    "walk",
    "substitute_lets",
]

NodeT = TypeVar("NodeT", bound=Node)


@overload
def children(node: Expr) -> Sequence[Expr]: ...
@overload
def children(node: Node) -> Sequence[Node]: ...
def children(node: Node) -> Sequence[Node]:
    """The nodes directly below, in evaluation order."""
    return _READERS[type(node)](node)


def _list_children(node: Node) -> Sequence[Node]:
    """The nodes below one of a class that may have several in a field, or none."""
    below: list[Node] = []
    for name in node._children:
        value = getattr(node, name)
        if type(value) is tuple:
            below += value
        elif value is not None:
            below.append(value)
    return below


def _nothing(node: Node) -> Sequence[Node]:  # noqa: ARG001 - what reads any class takes a node
    """The nodes below one of a class that has none."""
    return ()


class _Readers(dict[type[Node], Callable[[Any], Sequence[Node]]]):
    """Readers of the nodes below those of a class: every walk asks for them, so it is found once, and is as quick as the class
    lets it be."""

    def __missing__(self, cls: type[Node]) -> Callable[[Any], Sequence[Node]]:
        names = cls._children
        if not names:
            self[cls] = _nothing
            return _nothing
        types = {each.name: str(each.type) for each in fields(cls)}  # pyright: ignore[reportArgumentType]
        several = [name for name in names if types[name].startswith("tuple")]
        if several == list(names) and len(names) == 1:
            self[cls] = attrgetter(names[0])
        elif several or any("None" in types[name] for name in names):
            self[cls] = _list_children
        else:
            read: Any = attrgetter(*names)
            self[cls] = read if len(names) > 1 else lambda node: (read(node),)
        return self[cls]


_READERS = _Readers()


@cache
def _list_fields(cls: type[Node]) -> tuple[tuple[str, bool], ...]:
    """The fields that a node is made of, in order, each with whether nodes are in it."""
    return tuple((each.name, each.name in cls._children) for each in fields(cls) if each.init)  # pyright: ignore[reportArgumentType]


def rebuild(node: NodeT, new_children: list[Node]) -> NodeT:
    """`node` over other children (in the order of `children`); the same object where none changed."""
    return node if all(map(is_, children(node), new_children)) else _rebuilt(node, new_children)


def _rebuilt(node: NodeT, new_children: Sequence[Node]) -> NodeT:
    """`node` over children of which one is another."""
    parts: list[Any] = []
    at = 0
    for name, is_child in _list_fields(type(node)):
        value: Any = getattr(node, name)
        if not is_child or value is None:
            parts.append(value)
        elif type(value) is tuple:
            end = at + len(cast("tuple[Node, ...]", value))
            parts.append(tuple(new_children[at:end]))
            at = end
        else:
            parts.append(new_children[at])
            at += 1
    return type(node)(*parts)


def _differs(a: object, b: object) -> bool:
    return a is not b


def walk(node: Node, once: bool = False) -> Iterator[Node]:
    """Every node, parents before children, in evaluation order. An expression that is shared is met once a statement: written
    out it may be larger than any memory. once: what statements share is met once in all."""
    stack, met, readers = [node], set[int](), _READERS
    while stack:
        node = stack.pop()
        read = readers[type(node)]
        if read is not _nothing and (below := read(node)):
            if not once and isinstance(node, Stmt):
                met.clear()
            elif id(node) in met:
                continue
            else:
                met.add(id(node))
            stack += below[::-1]
        yield node


def statements(node: Stmt) -> Iterator[Stmt]:
    """Every statement, parents before children, in order: what asks for statements alone need not meet all expressions."""
    stack: list[Stmt] = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += [inner for inner in children(node)[::-1] if isinstance(inner, Stmt)]


def post_order(
    *roots: Node, below: Callable[[Any], Sequence[Any]] | None = None, done: Container[int] = ()
) -> Iterator[Any]:
    """Every node once (shared ones too), children before parents. below: the children to go into, by default all. done: nodes to
    leave out, by identity."""
    met: set[int] = set()
    stack: list[Any] = [*reversed(roots)]
    readers = _READERS
    while stack:
        node = stack.pop()
        if node is None:  # what stood above it has been yielded
            yield stack.pop()
            continue
        identity = id(node)
        if identity in met or identity in done:
            continue
        met.add(identity)
        inner = readers[type(node)](node) if below is None else below(node)
        if inner:
            stack += (node, None, *inner[::-1])
        else:
            yield node


def distinct(*roots: Node, stop: Container[type[Node]] = ()) -> list[Any]:
    """Every node once, parents before children, siblings in reverse: for questions to which the order does not matter, in a third of
    the time of post_order. stop: classes of nodes not to go into."""
    met: dict[int, Node] = {}
    stack: list[Node] = [*roots]
    readers = _READERS
    while stack:
        node = stack.pop()
        identity = id(node)
        if identity in met:
            continue
        met[identity] = node
        read = readers[type(node)]
        if read is not _nothing and type(node) not in stop:
            stack += read(node)
    return [*met.values()]


def rewrite_statements(stmt: Stmt, rule: Callable[[Any], Stmt | None]) -> Any:
    """Rewrite as `rewrite` does, for rules that replace statements alone: expressions are not looked at."""
    results: dict[int, Node] = {}
    stack: list[Any] = [stmt]
    while stack:
        original = stack.pop()
        if original is None:  # what stands below the next statement is done
            original, below = stack.pop(), stack.pop()
            changed = [results[id(child)] if isinstance(child, Stmt) else child for child in below]
            rebuilt = original if all(map(is_, below, changed)) else _rebuilt(original, changed)
        elif id(original) in results:
            continue
        else:
            rebuilt, below = original, children(original)
            inner = [child for child in reversed(below) if isinstance(child, Stmt)]
            if inner:
                stack += (below, original, None, *inner)
                continue
        replacement = rule(rebuilt)
        results[id(original)] = rebuilt if replacement is None else replacement
    return results[id(stmt)]


def rewrite(node: Node, rule: Callable[[Any], Node | None]) -> Any:
    """Bottom-up: `rule` sees each node after its children were rewritten, and returns its replacement, or None to keep
    it. Each shared node is rewritten once; an unchanged tree comes back as the same object."""
    results: dict[int, Node] = {}
    stack: list[Any] = [node]
    readers = _READERS
    while stack:
        original = stack.pop()
        if original is None:  # what stands below the next node is done
            original, below = stack.pop(), stack.pop()
            changed = [results[id(child)] for child in below]
            rebuilt = original if all(map(is_, below, changed)) else _rebuilt(original, changed)
        elif id(original) in results:
            continue
        else:
            rebuilt, read = original, readers[type(original)]
            if read is not _nothing and (below := read(original)):
                stack += (below, original, None, *below[::-1])
                continue
        replacement = rule(rebuilt)
        results[id(original)] = rebuilt if replacement is None else replacement
    return results[id(node)]


def substitute(node: NodeT, values: Mapping[Var, Expr]) -> NodeT:
    """`node` with variables replaced, also in the shapes of buffers that it allocates."""
    if not values:
        return node
    buffers: dict[Buffer, Buffer] = {}
    for inner in post_order(node) if isinstance(node, Stmt) else ():
        if isinstance(inner, Allocate):
            shape = tuple(substitute(extent, values) for extent in inner.buffer.shape)
            if any(map(_differs, shape, inner.buffer.shape)):
                buffers[inner.buffer] = replace(inner.buffer, shape=shape)

    def rule(inner: Node) -> Node | None:
        if isinstance(inner, Var):
            return values.get(inner)
        if isinstance(inner, (Allocate, BufferLoad, BufferStore)) and inner.buffer in buffers:
            return replace(inner, buffer=buffers[inner.buffer])
        if isinstance(inner, Reduce):  # a combiner and its identity may read axes
            own = (*inner.combiner.result, *inner.combiner.identity)
            made = tuple(substitute(value, values) for value in own)
            if any(map(_differs, made, own)):
                half = len(inner.sources)
                return replace(inner, combiner=replace(inner.combiner, result=made[:half], identity=made[half:]))
        return None

    return rewrite(node, rule)


def free_vars(node: Node | Function) -> list[Var]:
    """The variables that are read and not bound within, in the order of their first use. Shapes of allocated buffers
    count; shapes of a Function's parameters do not."""
    root = node.body if isinstance(node, Function) else node
    bound: set[Var] = set(node.scalars) if isinstance(node, Function) else set()
    used: dict[Var, None] = {}
    met: set[int] = set()
    stack: list[Any] = [root]
    readers = _READERS
    while stack:
        inner = stack.pop()
        if type(inner) is tuple:  # the shape of an allocation, after what is in it
            for extent in cast("tuple[Expr, ...]", inner):
                used.update(dict.fromkeys(free_vars(extent)))
            continue
        read = readers[type(inner)]
        if read is _nothing:
            if isinstance(inner, Var):
                used.setdefault(inner)
            continue
        if id(inner) in met:
            continue
        met.add(id(inner))
        if isinstance(inner, (For, Let, LetStmt)):
            bound.add(inner.var)
        elif isinstance(inner, Reduce):
            bound.update(inner.axes)
        elif isinstance(inner, Allocate):
            stack.append(inner.buffer.shape)
        stack += read(inner)[::-1]
    return [var for var in used if var not in bound]


def substitute_lets(value: NodeT) -> NodeT:
    """The expression with every let-bound variable replaced by its value."""
    return rewrite(value, lambda node: substitute(node.body, {node.var: node.value}) if isinstance(node, Let) else None)


def seq(*statements: Stmt | None) -> Stmt:
    """Statements in order, nested sequences opened, empty ones dropped."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, Seq):
            flat.extend(statement.body)
        elif statement is not None:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _classes(root: type) -> Iterator[type]:
    for kind in root.__subclasses__():
        yield kind
        yield from _classes(kind)


def _keep(rewriter: Rewriter, node: Node) -> Node:  # noqa: ARG001 - the call of a method
    """Leave a node as it is."""
    return node


class _Methods(dict[type[Node], Callable[[Any, Any], Any]]):
    """The methods of a class of rewriters for the classes of nodes, each found once."""

    def __init__(self, owner: type[Rewriter]) -> None:
        super().__init__()
        self._owner = owner
        self._keeps = owner.visit is Rewriter.visit and not any(hasattr(owner, one.__name__) for one in _classes(Expr))

    def __missing__(self, kind: type[Node]) -> Callable[[Any, Any], Any]:
        keeps = self._keeps and issubclass(kind, Expr)
        self[kind] = _keep if keeps else getattr(self._owner, kind.__name__, self._owner.generic)
        return self[kind]


class Rewriter:
    """A rewrite that needs to know where it is. A subclass has a method named after each node class that it treats
    (`For`, `BufferLoad` ...), which calls `self.visit` on what it wants rewritten below, or `self.generic`.

    It recurses, plainly, in Python alone: callers that meet deep programs run it within `deep_recursion()`. Expressions, which
    share what they have in common and may be huge written out, are left alone by a subclass that treats none of their classes.
    """

    _methods: ClassVar[_Methods]

    def __init_subclass__(cls) -> None:
        cls._methods = _Methods(cls)

    def visit(self, node: Any) -> Any:
        return self._methods[type(node)](self, node)

    def generic(self, node: Any) -> Any:
        """The node over its rewritten children."""
        below = _READERS[type(node)](node)
        if not below:
            return node
        new: list[Node] = []
        for child in below:  # a plain loop: map or a generator would recurse through C
            new.append(self.visit(child))
        return node if all(map(is_, below, new)) else _rebuilt(node, new)


class SharingRewriter(Rewriter):
    """A Rewriter by which an expression that is shared within a statement stays shared: what it becomes does not depend on
    where in the statement it stands. Statements share nothing with each other."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Expr, Any]] = {}
        """The statement's rewritten expressions, by the identity of the original, which is kept alive."""

    def visit(self, node: Any) -> Any:
        if not isinstance(node, Expr):
            self._done.clear()
            return super().visit(node)
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = node, super().visit(node)
        return known[1]


class _DeepRecursion:
    """A stay of one thread where recursion is deep. It ends when it is left, or, where an interrupt struck on the way in or out,
    when the object goes."""

    _lock = threading.RLock()
    _stays: ClassVar[dict[int, set[int]]] = {}
    """Of each thread, by what `id` says of the object."""
    _before = 0
    """The limit that comes back with the last stay."""
    _thread = -1
    """Where it is; -1 before and after."""

    # The lock is held within one line: a tracer (a debugger, a test) may raise at the beginning of any, and a `with` whose end is
    # the beginning of a line would keep it.

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        # fmt: off
        with _DeepRecursion._lock: self._begin()
        # fmt: on

    def __exit__(self, *_: object) -> None:
        # fmt: off
        with _DeepRecursion._lock: self._end()
        # fmt: on

    def __del__(self) -> None:
        if self._thread != -1:
            self.__exit__()

    def _begin(self) -> None:
        shared = _DeepRecursion
        if not shared._stays:
            shared._before = sys.getrecursionlimit()
        shared._stays.setdefault(self._thread, set()).add(id(self))
        if sys.getrecursionlimit() < _DEEP:
            sys.setrecursionlimit(_DEEP)

    def _end(self) -> None:
        shared = _DeepRecursion
        mine = shared._stays.get(self._thread, set())
        mine.discard(id(self))
        if not mine:
            shared._stays.pop(self._thread, None)
        shared._restore()
        self._thread = -1

    @classmethod
    def _restore(cls) -> None:
        if cls._before and not cls._stays:
            sys.setrecursionlimit(cls._before)
            cls._before = 0

    @classmethod
    def reset_in_child(cls) -> None:
        """Reset the state after a fork, which leaves one thread of all and perhaps another one's lock."""
        cls._lock = threading.RLock()
        cls._stays = {thread: stays for thread, stays in cls._stays.items() if thread == threading.get_ident()}
        cls._restore()


_DEEP = 1_000_000
register_fork_hooks(in_child=_DeepRecursion.reset_in_child)


def deep_recursion() -> AbstractContextManager[None]:
    """Allow deep recursion. Within it Python-to-Python recursion, which takes no C stack, is limited by memory alone. The limit is the
    whole process's: it is what it was again as soon as no thread is within."""
    return _DeepRecursion()


def is_recursion_deep() -> bool:
    """Return whether this thread is within `deep_recursion`."""
    return threading.get_ident() in _DeepRecursion._stays


def loads(node: Node) -> Iterator[BufferLoad]:
    """Every BufferLoad below."""
    return (inner for inner in walk(node) if isinstance(inner, BufferLoad))


def stores(node: Node) -> Iterator[BufferStore]:
    """Every BufferStore below."""
    return (inner for inner in walk(node) if isinstance(inner, BufferStore))
