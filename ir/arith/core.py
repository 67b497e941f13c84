"""The simplifier's core: what every operator's simplification stands on.

A node is simplified after its children, and what a rule makes is simplified again. Nodes are interned, so that equal
expressions are one object; results are remembered for as long as the knowledge that they came from holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ..dtype import DType
from ..expr import GE, GT, LT, NE, BinaryOp, CompareOp, Expr, FloorDiv, IntImm
from ..ops import fold_binary
from ..visit import children, rebuild
from . import facts
from .bounds import bound_node, is_exact, value_form
from .linear import LinearForm
from .pattern import WATCHERS, Rule, build, match
from .prove import always_nonzero, nonnegative
from .rules import tables_for
from .scope import IMPURE, Knowledge, Scope
from .sumrules import combine
from .sums import build_expression, wrapped

__all__ = ["Handler", "Simplifier"]


class Simplifier:
    """Simplification within a scope, by a handler for each class of node."""

    __slots__ = ("depth", "effects", "handlers", "scope")

    def __init__(self, scope: Scope, handlers: Mapping[type[Expr], Handler]) -> None:
        self.scope, self.handlers = scope, handlers
        self.depth = 0
        """Conditions within conditions that are in force."""
        self.effects = False
        """Whether a call with effects has been met: only then is anything checked for them."""

    def visit(self, node: Expr) -> Expr:
        """The simplified, interned form of `node`."""
        result = self.scope.known.results.get(node)
        if result is None:
            self.scope.nodes.adopt(node)
            handler = self.handlers.get(type(node))
            result = self.apply_rules(self.rebuilt(node)) if handler is None else handler(self, node)
            if result.dtype.is_integer and type(result) is not IntImm and result.dtype.lanes == 1:
                bounds = bound_node(self.scope, result)
                if bounds.lo is not None and bounds.lo == bounds.hi and not self.impure(result):
                    result = self.scope.nodes.integer(bounds.lo, result.dtype)
            results = self.scope.known.results
            results[node] = result
            results[result] = result
        return result

    @contextmanager
    def assume(self, condition: Expr, holds: bool = True) -> Generator[None]:
        """Assume, within a `with` block, that `condition` (simplified) holds, or that it does not."""
        known, self.depth = self.scope.known, self.depth + 1
        self.learn(condition, holds)
        try:
            yield
        finally:
            self.scope.known, self.depth = known, self.depth - 1

    def learn(self, condition: Expr, holds: bool) -> None:
        """Go on with what is known and `condition`. Conditions come together in many ways, to the same end: what was found out
        under it serves again."""
        known = self.scope.known
        inside = self.scope.known = known.copy()
        facts.learn(self.scope, condition, holds)
        key, contexts = (self.depth, inside.content()), known.contexts
        before = contexts.get(key)
        if before is not None and before.contexts is contexts:  # and nothing was bound in it since
            self.scope.known = before
        else:
            contexts[key], inside.contexts = inside, contexts

    def simplify_given(self, known: Knowledge, node: Expr) -> Expr:
        """`node` simplified with other knowledge than is in force."""
        inside, self.scope.known = self.scope.known, known
        try:
            return self.visit(node)
        finally:
            self.scope.known = inside

    def impure(self, node: Expr) -> bool:
        """Return whether `node` has an effect, so that it may neither go nor be merged with its like."""
        return self.effects and bool(self.scope.nodes.traits(node) & IMPURE)

    def rebuilt(self, node: Expr) -> Expr:
        """`node` over its simplified children."""
        new: list[Any] = []
        for child in children(node):
            new.append(self.visit(child))
        return self.scope.nodes.intern(rebuild(node, new))

    def operator(self, node: BinaryOp) -> Expr:
        """An operator of which nothing more is known: constants are folded, then rules tried."""
        a, b = self.visit(node.a), self.visit(node.b)
        folded = self.fold_constants(type(node), a, b)
        return folded if folded is not None else self.apply_rules(self.scope.nodes.make(type(node), a, b))

    def fold_constants(self, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
        """An operator on two integer constants."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            constant = fold_binary(kind, a, b)
            return None if constant is None else self.scope.nodes.intern(constant)
        return None

    def settle(self, form: LinearForm, dtype: DType) -> Expr:
        """The expression of a form after terms that belong together were combined."""
        if len(form.coeffs) > 1 or form.const or any(type(atom) is FloorDiv for atom in form.coeffs):
            better = combine(self.scope, form, dtype, self.visit)
            while better is not None:
                form = wrapped(better, dtype)
                better = combine(self.scope, form, dtype, self.visit) if form.coeffs else None
        return build_expression(self.scope, form, dtype)

    def apply_rules(self, node: Expr) -> Expr:
        """The result of the first rule that matches, simplified in its turn; `node` if none does."""
        tables = tables_for(node)
        if not tables or self.impure(node):
            return node
        for table in tables:
            if table.exact and not is_exact(self.scope, node):
                continue
            for rule, pattern in table.candidates(node):
                bound: dict[str, Any] = {}
                if match(pattern, node, bound) and rule.applies(bound) and self._holds(rule, bound):
                    result = build(rule.result, bound, node, self.scope.nodes)
                    if result is not None and (not table.exact or is_exact(self.scope, result)):
                        for watcher in WATCHERS:
                            watcher(rule)
                        return self.visit(result)
        return node

    def _holds(self, rule: Rule, bound: dict[str, Any]) -> bool:
        """Return whether all that a rule asks of what it matched is proved."""
        for condition in rule.given:
            stated = build(condition, bound, None, self.scope.nodes)
            if stated is None or not self._is_proved(stated):
                return False
        return True

    def _is_proved(self, condition: Expr) -> bool:
        assert isinstance(condition, CompareOp)
        a, b = condition.a, condition.b
        difference = value_form(self.scope, self.visit(b)).plus(value_form(self.scope, self.visit(a)), -1)
        kind = type(condition)
        if kind is NE:
            return always_nonzero(self.scope, difference)
        if kind in (GT, GE):
            difference = difference.scale(-1)
        return nonnegative(self.scope, difference.shift(-1) if kind in (LT, GT) else difference)


Handler = Callable[[Simplifier, Any], Expr]
"""Simplifies a node of one class."""
