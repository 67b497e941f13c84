"""The analyzer: everything that the compiler asks about integer arithmetic, behind one object."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..expr import EQ, Expr, IntImm, Range, Var
from ..ops import const
from ..visit import deep_recursion, free_vars, is_recursion_deep
from . import facts
from .bounds import bound_node, exact_form
from .interval import Interval
from .linear import LinearForm
from .modular import Modular
from .remainders import find_modular
from .scope import Scope
from .simplify import simplifier
from .sums import build_expression

__all__ = ["Analyzer", "detect_stride", "linear", "simplify"]


class Analyzer:
    """Intervals, remainders, simplification and proofs, under the ranges and conditions that it was told.

    It is meant to be kept while a program is walked: bind each loop's variable on entering it (a later binding of the
    same variable replaces the earlier one), and hold `constraint` while within a condition. Results are remembered
    until something new is told.
    """

    def __init__(self) -> None:
        self.scope = Scope()
        """What it knows, for the analyses that stand on it."""
        self._simplifier = simplifier(self.scope)

    def copy(self) -> Analyzer:
        """An analyzer that knows the same, and from here on learns apart."""
        new = Analyzer.__new__(Analyzer)
        new.scope = Scope(self.scope.nodes, self.scope.known.copy())
        new._simplifier = simplifier(new.scope)
        return new

    def bind(self, var: Var, value: Range | tuple[int | None, int | None] | Expr) -> None:
        """`var` lies in a range ([begin, begin + extent - 1], either may be symbolic), or between two integers (both
        included), or is a value."""
        if isinstance(value, Range):
            facts.bind_range(self.scope, var, self.simplify(value.begin), self.simplify(value.extent))
        elif isinstance(value, tuple):
            facts.bind_interval(self.scope, var, Interval(*value))
        else:
            facts.bind_value(self.scope, var, self.simplify(value))

    def learn(self, condition: Expr) -> None:
        """`condition` holds from here on. Conditions on memory are left aside, as by `constraint`."""
        facts.learn(self.scope, self.simplify(condition))

    @contextmanager
    def constraint(self, condition: Expr) -> Generator[None]:
        """Assume `condition` within a `with` block. Conditions on memory are left aside: a store could break them."""
        with self._simplifier.assume(self.simplify(condition)):
            yield

    def simplify(self, expr: Expr) -> Expr:
        """An expression of the same value, in simplest form; `expr` itself where it has that form."""
        self.scope.known.contexts.clear()  # each expression has its own budget of them
        if is_recursion_deep():
            return self._simplifier.visit(expr)
        with deep_recursion():
            return self._simplifier.visit(expr)

    def interval(self, expr: Expr) -> Interval:
        """Bounds of the value of `expr`, over all lanes."""
        return bound_node(self.scope, self.simplify(expr))

    def modular(self, expr: Expr) -> Modular:
        """Return the known remainders of an integer scalar."""
        return find_modular(self.scope, self.simplify(expr))

    def can_prove(self, condition: Expr) -> bool:
        """Return whether `condition` is proved to hold in every case. False says nothing."""
        truth = self.simplify(condition)
        return isinstance(truth, IntImm) and bool(truth.value)

    def can_prove_equal(self, a: Expr | int, b: Expr | int) -> bool:
        """Return whether two expressions are proved to be of one value."""
        left = a if isinstance(a, Expr) else const(a, b.dtype if isinstance(b, Expr) else None)
        right = b if isinstance(b, Expr) else const(b, left.dtype)
        left, right = self.simplify(left), self.simplify(right)
        if left is right:
            return True
        if not (left.dtype.is_integer and right.dtype.is_integer and left.dtype.lanes == right.dtype.lanes == 1):
            return left.dtype is right.dtype and left.dtype.is_bool and self.can_prove(EQ(left, right))
        return self.can_prove(left.equal(right))

    def linear(self, expr: Expr) -> LinearForm | None:
        """The linear form of an integer scalar whose sum does not wrap, else None."""
        if not expr.dtype.is_integer or expr.dtype.lanes > 1:
            return None
        simplified = self.simplify(expr)
        form = self.scope.nodes.form(simplified)
        return form if exact_form(self.scope, form, simplified.dtype) else None


def simplify(expr: Expr) -> Expr:
    """`expr` simplified with nothing known of its variables."""
    return Analyzer().simplify(expr)


def linear(expr: Expr) -> LinearForm | None:
    """`expr` as a sum of coefficients times atoms; None where it is not an integer scalar or where it may wrap."""
    return Analyzer().linear(expr)


def detect_stride(expr: Expr, var: Var) -> tuple[int, Expr] | None:
    """(stride, base) with expr = stride * var + base, where `var` does not occur in base; None where there is none."""
    analyzer = Analyzer()
    form = analyzer.linear(expr)
    if form is None:
        return None
    stride = form.coeffs.get(var, 0)
    base = form.without(var)
    if any(var in free_vars(atom) for atom in base.coeffs):
        return None
    return stride, build_expression(analyzer.scope, base, expr.dtype)
