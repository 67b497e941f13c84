"""Rewriter of graphs: node by node in order, each kept, replaced by nodes that give the same values, or dropped for values that
there are already; and the row of a pass, which is a function from a graph to one with the same outputs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...base import dataclass, replace
from ..assembly import Assembly
from ..node import Node, Param, Parts, computed_param
from ..rewrite import remove_dead
from ..types import TensorType

__all__ = [
    "GraphPass",
    "Rewriter",
    "Rounding",
    "Visit",
    "rewrite",
]

Rounding = Literal["exact", "rounds", "fast", "asked"]
"""exact: outputs keep their bits: signed zeros and the wrap of integers too; any NaN is any NaN. rounds: values are rounded at
other places, within what the operators state of their errors. fast: what holds of real numbers, and not where floats overflow, or
are zeros with a sign; NaN stays NaN. asked: values change by more than rounding, which only those who name the pass want."""


@dataclass(frozen=True, eq=False)
class GraphPass:
    """A row of the pipeline. what: in a line what it does. apply: gives the same graph back where it finds nothing. page: more of
    it, with a graph before and after, as its file begins. late: whether it comes when the others change nothing any more."""

    name: str
    what: str
    rounding: Rounding
    apply: Callable[[Parts], Parts]
    page: str | None
    late: bool = False

    @property
    def changes_rounding(self) -> bool:
        """Return whether values may come out with other last bits."""
        return self.rounding != "exact"

    def __str__(self) -> str:
        told = {
            "exact": "keeps every bit",
            "rounds": "rounds at other places",
            "fast": "only under fast_math",
            "asked": "only where it is named: values change",
        }
        return f"{self.what} ({told[self.rounding]})"


class Rewriter(Assembly):
    """The graph to be. users: how many nodes and outputs of the old graph read a value."""

    def __init__(self, g: Parts) -> None:
        super().__init__(g.name)
        # a node that reads a value twice is one reader
        self.users = Counter(name for node in g.nodes for name in set(node.inputs) if name)
        self.users.update(g.results.values())
        self.makers: dict[str, Node] = {}
        """The node that gives a value, of those that are there already."""
        self.source = ""
        """Of nodes that are made: that of the node which they replace."""
        self._old = g.types
        self._renamed: dict[str, str] = {}  # values of the old graph that another one stands for now
        self._held: dict[str, str] = {}
        self.types.update(g.inputs)
        self._inputs.update(g.inputs)
        for name, held in g.constants.items():
            self.param(name, held)

    def param(self, name: str, value: Any, fixed: bool = False) -> str:
        super().param(name, value, fixed)
        self._held.setdefault(self._constants[name].digest, name)
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """A value that is known, under the name that it has already where it has one."""
        held = Param.of(np.asarray(value) if dtype is None else np.asarray(value).astype(dtype))
        return self._held.get(held.digest) or self.param(self.fresh(1)[0], held)  # equal contents share one parameter

    def computed(
        self,
        kind: TensorType,
        function: Callable[..., NDArray[Any]],
        *names: str,
        more: Sequence[NDArray[np.float64] | int] = (),
    ) -> str:
        """A value that a function makes of parameters, as computed_param takes it, when it is first read."""
        held = computed_param(kind, function, *(self._constants[name] for name in names), more=more)
        return self._held.get(held.digest) or self.param(self.fresh(1)[0], held)

    def keep(self, node: Node) -> None:
        """A node as it is."""
        self._nodes.append(node)
        self._define_all(node)

    def nodes(
        self,
        operator: str,
        *inputs: str,
        outputs: Sequence[str] = (),
        source: str = "",
        bodies: Sequence[Parts] = (),
        **attributes: Any,
    ) -> tuple[str, ...]:
        made = super().nodes(
            operator, *inputs, outputs=outputs, source=source or self.source, bodies=bodies, **attributes
        )
        self.makers.update(dict.fromkeys(made, self._nodes[-1]))  # makers, so that later patterns see what was made
        return made

    def like(self, node: Node, *inputs: str, outputs: Sequence[str] = (), source: str = "", **changed: Any) -> str:
        """A node as another one, of other inputs, and of other attributes where some are given; its value's name."""
        attributes: dict[str, Any] = {**node.attributes, **changed}
        return self.node(node.operator, *inputs, outputs=outputs, source=source, **attributes)

    def mark(self) -> int:
        """Return the present end of the graph, for undo."""
        return len(self._nodes)

    def undo(self, mark: int) -> None:
        """Take the nodes away that were made since."""
        for node in self._nodes[mark:]:
            for name in node.outputs:
                del self.types[name], self.makers[name]  # undone nodes must not be found as makers
        del self._nodes[mark:]

    def fresh(self, count: int) -> list[str]:
        numbers = (f"v{number}" for number in itertools.count(len(self.types)))
        return list(
            # new names are unknown in both graphs
            itertools.islice((name for name in numbers if name not in self.types and name not in self._old), count)
        )

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self.types[value]

    def present_name(self, value: str) -> str:
        """Return the present name of a value of the old graph."""
        return self._renamed.get(value, value)

    def rename(self, old: str, new: str) -> None:
        """Make what read one value read another, which is the same."""
        # of one type, or readers would break
        assert self.types[new] == self._old[old], f"{old} is {self._old[old]}, and {new} is {self.types[new]}"
        self._renamed[old] = new

    def is_known(self, value: str) -> bool:
        """Return whether a value is a parameter that is there to be computed with."""
        return value in self._constants and self._constants[value].numbers is not None

    def known(self, value: str) -> NDArray[Any]:
        """The value of a parameter."""
        data = self.data(value)
        assert data is not None, f"{value} is not known"
        return data

    def maker(self, value: str, *operators: str) -> Node | None:
        """The node that gives a value, if it is one of these operators."""
        node = self.makers.get(value)
        return node if node is not None and node.operator in operators else None

    def sole(self, value: str, *operators: str) -> Node | None:
        """The node that gives a value, if it is one of these operators and nobody else reads the value."""
        # nobody else reads it: it may be changed
        return self.maker(value, *operators) if self.users[value] <= 1 else None

    def _define_all(self, node: Node) -> None:
        for name, kind in zip(node.outputs, node.types, strict=True):
            self._define(name, kind)
            self.makers[name] = node


Visit = Callable[[Rewriter, Node], "str | Sequence[str] | None"]
"""What takes a node's place: its value, or its values, of the same types; None where the node stays."""


def rewrite(g: Parts, visit: Visit) -> Parts:
    """The graph in which each node is what `visit` says, and nothing is left that nobody needs. The same graph where nothing
    changes."""
    r = Rewriter(g)
    changed = False
    for node in g.nodes:
        inputs = tuple(r.present_name(name) for name in node.inputs)
        # unchanged nodes stay the same objects
        present = node if inputs == node.inputs else replace(node, inputs=inputs)
        r.source = node.source
        given = visit(r, present)
        if given is None:
            r.keep(present)
            continue
        changed = True
        for old, new in zip(node.outputs, [given] if isinstance(given, str) else given, strict=True):
            r.rename(old, new)
    if not changed:  # the same object tells the pipeline that nothing changed
        return g
    for name, value in g.results.items():
        r.output(name, r.present_name(value))
    for past, present in g.state.items():
        r.state(past, present)
    return remove_dead(r.parts())
