"""The loops that the author of an operation wrote as statements: which of them stand directly inside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.dataclass import dataclass
from ..ir import For, IterVar, Let, LetStmt, Node, Stmt, Var, children, post_order
from ..ir.lazy_values import cached_property

__all__ = ["NOT_DECLARED", "DeclaredLoops", "collect_loops"]


def collect_loops(body: Stmt) -> list[For]:
    """The loops of a statement, outer ones before inner ones, and of loops after each other the last one first."""
    inner_first = [node for node in post_order(body) if isinstance(node, For)]
    return inner_first[::-1]


@dataclass(frozen=True, eq=False)
class DeclaredLoops:
    """The loops of `body`; none where it is None. Loops that are axes of the operation have these as their variables."""

    body: Stmt | None = None

    @cached_property
    def loops(self) -> Mapping[Var, For]:
        """The loops by their variables, in the order of `loops_of`."""
        return {} if self.body is None else {loop.var: loop for loop in collect_loops(self.body)}

    def loop(self, axis: IterVar) -> For:
        """The loop that `axis` is the variable of."""
        return self.loops[axis]

    @cached_property
    def bound_variables(self) -> frozenset[Var]:
        """The variables that the body binds, those of loops among them."""
        nodes = () if self.body is None else post_order(self.body)
        return frozenset(node.var for node in nodes if isinstance(node, (For, Let, LetStmt)))

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """Return what was found out about the body, by whoever did."""
        return {}

    @cached_property
    def chains(self) -> Mapping[IterVar, tuple[IterVar, ...]]:
        """Return for each axis the loops that stand directly inside each other, itself among them, outermost first."""
        chains: dict[IterVar, tuple[IterVar, ...]] = {}
        for axis, loop in self.loops.items():
            if axis in chains or not isinstance(axis, IterVar):
                continue
            chain, inner = [axis], loop.body
            while isinstance(inner, For) and isinstance(inner.var, IterVar):
                chain.append(inner.var)
                inner = inner.body
            chains.update(dict.fromkeys(chain, tuple(chain)))
        return chains

    @cached_property
    def nests(self) -> Mapping[tuple[IterVar, ...], tuple[IterVar, ...]]:
        """Every chain, in the order of the program, with the chain that it stands in; () for none."""
        outer: dict[tuple[IterVar, ...], tuple[IterVar, ...]] = {}
        stack: list[tuple[Node, tuple[IterVar, ...]]] = [] if self.body is None else [(self.body, ())]
        while stack:
            node, around = stack.pop()
            if isinstance(node, For) and isinstance(node.var, IterVar):
                chain = self.axis_chain(node.var)
                if chain != around:
                    outer[chain], around = around, chain
            stack.extend((child, around) for child in reversed(children(node)) if isinstance(child, Stmt))
        return outer

    def axis_chain(self, axis: IterVar) -> tuple[IterVar, ...]:
        """The axes of the loops directly around and inside that of `axis`, outermost first; () for what is no declared loop."""
        return self.chains.get(axis, ())

    def around(self, nest: tuple[IterVar, ...]) -> tuple[IterVar, ...]:
        """The axes of the loops around a chain, outermost first."""
        axes: tuple[IterVar, ...] = ()
        while nest := self.nests[nest]:
            axes = (*nest, *axes)
        return axes


NOT_DECLARED = DeclaredLoops()
"""That of operations whose loops a schedule makes from their axes."""
