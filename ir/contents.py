"""Contents of programs: one look at each part serves all passes that ask, and who finds nothing to do walks nothing.

Nodes are frozen, so that what occurs in a loop or a sequence is known for as long as it stands. A pipeline keeps it by identity while
it runs: after a pass that changed one loop, only this loop and what stands around it are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from .expr import BufferLoad, Call, Expr, IntImm, Node, Ramp
from .stmt import BufferStore, For, Function, Seq
from .visit import children, distinct

__all__ = ["contains", "find_strides", "keep_results", "kept_results", "require_any"]

P = ParamSpec("P")
_KEPT: ContextVar[dict[str, dict[int, Any]] | None] = ContextVar("kept", default=None)
_PARTS = frozenset((For, Seq))
"""Statements whose contents are kept."""


@contextmanager
def keep_results() -> Generator[None]:
    """Keep what is found out about parts of programs within a `with` block."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept_results(kind: str) -> dict[int, Any]:
    """The table of what was found out about statements, by identity. They are kept alive in it, lest another has the identity."""
    kept = _KEPT.get()
    return {} if kept is None else kept.setdefault(kind, {})


def contains(root: Node, *kinds: Hashable) -> bool:
    """Return whether a program has anything of these kinds: classes of nodes, names of calls, dtypes of one lane or their kinds,
    kinds of loops, keys of their pragmas, and (class of access, stride) of vectors of memory."""
    return not _look(root).isdisjoint(kinds)


def find_strides(root: Node, access: type[BufferLoad | BufferStore]) -> set[int]:
    """The strides of the vectors that a program loads, or stores; 0 for lanes at other places."""
    return {kind[1] for kind in _look(root) if type(kind) is tuple and kind[0] is access}


def require_any(
    *kinds: Hashable,
) -> Callable[[Callable[Concatenate[Function, P], Function]], Callable[Concatenate[Function, P], Function]]:
    """Let a pass leave functions as they are in which nothing of these kinds (see `contains`) occurs."""

    def decorate(run: Callable[Concatenate[Function, P], Function]) -> Callable[Concatenate[Function, P], Function]:
        @wraps(run)
        def run_where_needed(function: Function, *args: P.args, **named: P.kwargs) -> Function:
            return run(function, *args, **named) if contains(function.body, *kinds) else function

        return run_where_needed

    return decorate


def _look(root: Node) -> frozenset[Any]:
    kept = kept_results("contents")
    known: tuple[Node, frozenset[Any]] | None = kept.get(id(root))
    if known is not None:
        return known[1]
    nodes = distinct(*children(root), stop=_PARTS)
    kinds = _list_kinds([root, *nodes])
    for node in nodes:
        if type(node) in _PARTS:
            kinds |= _look(node)
    result = frozenset(kinds)
    kept[id(root)] = root, result
    return result


def _list_kinds(nodes: Sequence[Node]) -> set[Any]:
    kinds: set[Any] = set(map(type, nodes))
    for dtype in {node.dtype for node in nodes if isinstance(node, Expr)}:
        kinds |= {dtype.kind, str(dtype.element)}
    for node in nodes:
        kind = type(node)  # of every node of a program: quicker than to ask for each class that it may be
        if kind is Call:
            kinds.add(cast("Call", node).name)
        elif kind is For:
            loop = cast("For", node)
            kinds.add(loop.kind)
            kinds.update(key for key, _ in loop.pragmas)
        elif kind is BufferLoad or kind is BufferStore:
            indices = cast("BufferLoad | BufferStore", node).indices
            if indices and indices[-1].dtype.lanes > 1:
                kinds.add((kind, _find_stride(indices)))
    return kinds


def _find_stride(indices: tuple[Expr, ...]) -> int:
    index = indices[0] if len(indices) == 1 else None
    return index.stride.value if isinstance(index, Ramp) and isinstance(index.stride, IntImm) else 0
