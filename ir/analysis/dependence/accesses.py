"""Accesses of a statement: the elements, and the variables that are bound within it."""

from __future__ import annotations

from collections.abc import Iterable

from ....base import dataclass, field
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, IntImm, Let, Node, Range, Var
from ...stmt import Allocate, BufferStore, Evaluate, For, LetStmt
from ...structural import structural_key
from ...visit import substitute, walk
from ..linear import is_index
from .iterations import Indices, Iterations

__all__ = ["Accesses", "accesses_of"]


@dataclass(slots=True)
class Accesses:
    """The elements that a statement touches, each once. What a let binds to index arithmetic is written out in them."""

    stored: dict[Buffer, list[Indices]] = field(default_factory=dict[Buffer, list[Indices]])
    loaded: dict[Buffer, list[Indices]] = field(default_factory=dict[Buffer, list[Indices]])
    bound: dict[Var, Range | None] = field(default_factory=dict[Var, "Range | None"])
    """The variables of loops with their ranges, outer ones first; None for what a let binds that is no index arithmetic."""
    private: set[Buffer] = field(default_factory=set[Buffer])
    """Memory that is allocated within: each run of the statement has its own."""
    opaque: bool = False
    """Whether some effect is not a store."""

    @property
    def constant(self) -> set[Buffer]:
        """Memory that is read and not stored to."""
        return self.loaded.keys() - self.stored.keys() - self.private

    def meeting(self, iterations: Iterations) -> tuple[Buffer, Indices, Indices] | None:
        """The first two accesses, one of them a store, in which different iterations may meet; None where there are none."""
        for buffer, stored in self.stored.items():
            if buffer not in self.private:  # each run of the statement has this memory to itself
                pair = iterations.meeting(stored, _distinct([*self.loaded.get(buffer, ()), *stored]))
                if pair is not None:
                    return buffer, *pair
        return None


def accesses_of(stmt: Node) -> Accesses:
    """Collect the accesses of `stmt`."""
    result = Accesses()
    lets: dict[Var, Expr] = {}
    for node in walk(stmt):
        if isinstance(node, (BufferStore, BufferLoad)):
            kind = result.stored if isinstance(node, BufferStore) else result.loaded
            # a let of index arithmetic is written out, so that equal indices look equal
            indices = tuple([substitute(index, lets) for index in node.indices]) if lets else node.indices
            kind.setdefault(node.buffer, []).append(indices)
        elif isinstance(node, For):
            result.bound[node.var] = Range(substitute(node.begin, lets), substitute(node.extent, lets))
        elif isinstance(node, (LetStmt, Let)):
            if is_index(node.value):  # data that a let names may be anything
                lets[node.var] = substitute(node.value, lets)
            else:
                result.bound[node.var] = None
        elif isinstance(node, Allocate):
            result.private.add(node.buffer)
        # an effect that is not a store cannot be compared
        elif isinstance(node, Evaluate) and not isinstance(node.value, IntImm):
            result.opaque = True
    for kind in (result.stored, result.loaded):
        for buffer, indices in kind.items():
            kind[buffer] = _distinct(indices)
    return result


def _distinct(accesses: Iterable[Indices]) -> list[Indices]:
    return list({tuple(map(structural_key, indices)): indices for indices in accesses}.values())
