"""Scope of an analysis: interned nodes, ranges of variables, facts that hold here, and what was computed from them.

Interned nodes and their linear forms hold everywhere. What is derived from ranges and facts lives in `Knowledge`,
which a constraint replaces by a copy while it holds; a new fact or range starts the derived tables afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtype import DType
from ..expr import Broadcast, BufferLoad, Call, Expr, FloatImm, IntImm, Let, Mul, ProducerLoad, Reduce, StringImm, Var
from ..intrinsics import INTRINSICS
from ..ops import FALSE, TRUE, const
from ..rounding import wrap_int
from ..structural import constructor_key
from ..visit import children
from .floats import FloatInterval
from .interval import Interval
from .linear import LinearForm, single
from .modular import Modular

__all__ = ["IMPURE", "INDEX", "READS", "Knowledge", "Scope"]

INDEX, READS, IMPURE = 1, 2, 4
"""Traits of an expression: its leaves are int32 and int64 variables and constants alone; it reads memory; it calls
code that may have effects."""


class Knowledge:
    """Ranges, facts, and what was derived under them."""

    __slots__ = (
        "bounds",
        "contexts",
        "disequal",
        "exact",
        "facts",
        "floats",
        "highs",
        "intervals",
        "lows",
        "modulars",
        "open",
        "order",
        "remainders",
        "results",
        "truth",
    )

    def __init__(self) -> None:
        self.bounds: dict[Expr, Interval] = {}
        """Of variables, by their range, and of atoms, by a constraint."""
        self.remainders: dict[Expr, Modular] = {}
        """Of variables and atoms, by a constraint or a bound value."""
        self.lows: dict[Expr, LinearForm] = {}
        """The symbolic least value of a variable."""
        self.highs: dict[Expr, LinearForm] = {}
        """The symbolic greatest value of a variable."""
        self.order: dict[Expr, int] = {}
        """Variables with symbolic bounds, in the order of binding: a bound speaks of earlier ones."""
        self.facts: dict[frozenset[tuple[Expr, int]], LinearForm] = {}
        """Forms that are known to be at least 0, by their terms."""
        self.disequal: set[tuple[frozenset[tuple[Expr, int]], int]] = set()
        """(terms, constant) of forms that are known not to be 0."""
        self.truth: dict[Expr, Expr] = {}
        """Conditions known to be true or false as they stand."""
        self.forget()

    def forget(self) -> None:
        """Drop what was derived."""
        self.results: dict[Expr, Expr] = {}
        self.intervals: dict[Expr, Interval] = {}
        self.floats: dict[Expr, FloatInterval] = {}
        self.modulars: dict[Expr, Modular] = {}
        self.exact: dict[Expr, bool] = {}
        self.open: dict[Expr, bool] = {}
        self.contexts: dict[object, Knowledge] = {}
        """What is known within conditions, by what was learned of them; those within these share the table."""

    def content(self) -> object:
        """Return the learned facts as a key: equal for the same of the same ranges."""
        facts = frozenset((key, form.const) for key, form in self.facts.items())
        return (
            frozenset(self.bounds.items()),
            frozenset(self.remainders.items()),
            facts,
            frozenset(self.disequal),
            frozenset(self.truth.items()),
        )

    def copy(self) -> Knowledge:
        """The same ranges and facts, nothing derived yet."""
        new = Knowledge.__new__(Knowledge)
        new.bounds, new.remainders, new.order = dict(self.bounds), dict(self.remainders), dict(self.order)
        new.lows, new.highs, new.facts = dict(self.lows), dict(self.highs), dict(self.facts)
        new.disequal, new.truth = set(self.disequal), dict(self.truth)
        new.forget()
        return new


class Nodes:
    """Interned expressions: structurally equal ones become one object, so that sameness is `is`."""

    __slots__ = ("forms", "keys", "table", "traits_of")

    def __init__(self) -> None:
        self.table: dict[Any, Expr] = {constructor_key(truth): truth for truth in (TRUE, FALSE)}
        self.forms: dict[Expr, LinearForm] = {}
        """The linear form of every interned sum, product with a constant, and widening cast."""
        self.traits_of: dict[Expr, int] = {}
        self.keys: dict[Expr, tuple[int, str, int]] = {}

    def intern(self, node: Expr) -> Expr:
        """The representative of `node`, whose children are representatives already."""
        if type(node) in _ALONE and _stands_alone(node):
            return node
        return self.table.setdefault(constructor_key(node), node)

    def adopt(self, node: Expr) -> None:
        """Let `node` stand for what is structurally equal to it, if nothing does yet: what is simple already then
        comes back as the same object."""
        self.intern(node)

    def make(self, kind: Callable[..., Expr], *operands: Any) -> Expr:
        """The interned node of class `kind`; the operands are representatives, dtypes or numbers."""
        key = (kind, *operands)
        node = self.table.get(key)
        if node is None:
            node = self.table[key] = kind(*operands)
        return node

    def integer(self, value: int, dtype: DType) -> Expr:
        """A constant, wrapped into its dtype, in every lane."""
        if dtype.lanes > 1:
            return self.make(Broadcast, self.integer(value, dtype.element), dtype.lanes)
        value = wrap_int(value, dtype)
        key = (IntImm, value, dtype)
        constant = self.table.get(key)
        if constant is None:
            constant = self.table[key] = const(value, dtype)
        return constant

    def form(self, node: Expr) -> LinearForm:
        """The linear form of an interned integer scalar."""
        form = self.forms.get(node)
        if form is None:
            form = LinearForm({}, node.value) if isinstance(node, IntImm) else single(node)
            self.forms[node] = form
        return form

    def sort_key(self, atom: Expr) -> tuple[int, str, int]:
        """Products first, then variables by name, then the rest: an order that does not depend on the analyzer."""
        key = self.keys.get(atom)
        if key is None:
            rank = 0 if isinstance(atom, Mul) else 1 if isinstance(atom, Var) else 2
            name = atom.name if isinstance(atom, Var) else type(atom).__name__
            key = self.keys[atom] = (rank, name, len(self.keys))
        return key

    def traits(self, node: Expr) -> int:
        """INDEX, READS and IMPURE as they hold of `node`."""
        traits = self.traits_of.get(node)
        if traits is not None:
            return traits
        kind = type(node)
        if isinstance(node, Var):
            traits = INDEX if node.dtype.kind == "int" and node.dtype.bits >= 32 else 0
        elif isinstance(node, IntImm):
            traits = INDEX if _index_dtype(node.dtype) else 0
        elif isinstance(node, (FloatImm, StringImm)):
            traits = 0
        else:
            traits = INDEX if _index_dtype(node.dtype) else 0
            for child in children(node):
                below = self.traits(child)
                traits = (traits & below & INDEX) | ((traits | below) & (READS | IMPURE))
            if kind is BufferLoad or kind is ProducerLoad:
                traits = (traits | READS) & ~INDEX
            elif isinstance(node, Call):
                row = INTRINSICS.get(node.name)
                if row is None or not row.pure:
                    traits = (traits | IMPURE | READS) & ~INDEX
                elif row.arity < 0:
                    traits = (traits | READS) & ~INDEX
        self.traits_of[node] = traits
        return traits


def _index_dtype(dtype: DType) -> bool:
    return dtype.kind == "bool" or (dtype.kind == "int" and dtype.bits >= 32)


class Scope:
    """Interned nodes with the knowledge that holds at the moment."""

    __slots__ = ("known", "nodes")

    def __init__(self, nodes: Nodes | None = None, known: Knowledge | None = None) -> None:
        self.nodes = Nodes() if nodes is None else nodes
        self.known = Knowledge() if known is None else known


_ALONE = (Call, Let, Reduce)


def _stands_alone(node: Expr) -> bool:
    """Return whether a node is represented by nothing but itself: an effect must stay where it is, a binder binds."""
    if isinstance(node, Call):
        row = INTRINSICS.get(node.name)
        return row is None or not row.pure
    return True
